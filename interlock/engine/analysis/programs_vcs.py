"""What git and GitHub commands would lose or push."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.options import Options, split
from interlock.engine.analysis.programs_files import is_secret
from interlock.engine.analysis.shell_run import Call, Program, Walk
from interlock.engine.analysis.values import Arg

__all__ = ["VCS"]

_GLOBAL_LONG: Final = ("--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env", "--super-prefix")
_Sub = Callable[[Walk, Options], Iterator[Finding]]


def _git(walk: Walk, call: Call) -> Iterator[Finding]:
    before = split(call.args, "cC", _GLOBAL_LONG, leading=True)
    config = before.values.get("-c")
    if config is not None and config.text.lower().startswith("core.hookspath="):
        yield Finding("vcs.skip_hooks", "core.hooksPath")
    if not before.operands:
        return
    name, rest = before.operands[0].text, before.operands[1:]
    handler = _SUBCOMMANDS.get(name)
    opts = split(rest, _VALUED.get(name, ""), _VALUED_LONG)
    for option in ("--output", "-o"):
        if option in opts.values and name in ("diff", "show", "log", "archive", "format-patch"):
            walk.written(opts.values[option], "git")
    if handler is not None and not opts.has("--help", "-h"):
        yield from handler(walk, opts)


_VALUED: Final = {
    "push": "o",
    "commit": "mFCctS",
    "reset": "",
    "branch": "u",
    "checkout": "bB",
    "switch": "cC",
    "clean": "e",
    "tag": "mFu",
    "restore": "s",
    "stash": "m",
    "merge": "msX",
    "worktree": "bB",
}
_VALUED_LONG: Final = (
    "--message",
    "--file",
    "--repo",
    "--push-option",
    "--source",
    "--author",
    "--date",
    "--exclude",
    "--set-upstream-to",
    "--receive-pack",
)


def _push(walk: Walk, opts: Options) -> Iterator[Finding]:
    if opts.has("--dry-run", "-n"):
        return
    target = opts.operands[0].text if opts.operands else ""
    refs = [a.text for a in opts.operands[1:]]
    leased = any(f.startswith("--force-with-lease") or f == "--force-if-includes" for f in opts.flags)
    if opts.has("--force", "-f", "--mirror") or any(r.startswith("+") for r in refs):
        yield Finding("vcs.force_push", target, "remote")
    elif leased:
        yield Finding("vcs.force_push.lease", target, "remote")
    if opts.has("--delete", "-d", "--prune", "--mirror") or any(r.startswith(":") and len(r) > 1 for r in refs):
        yield Finding("vcs.delete_remote", target, "remote")
    if opts.has("--no-verify"):
        yield Finding("vcs.skip_hooks", target)


def _reset(walk: Walk, opts: Options) -> Iterator[Finding]:
    if opts.has("--hard", "--merge"):
        yield Finding("vcs.discard", opts.operands[0].text if opts.operands else "HEAD", "worktree")


def _clean(walk: Walk, opts: Options) -> Iterator[Finding]:
    if opts.has("-f", "--force") and not opts.has("-n", "--dry-run", "-i", "--interactive"):
        yield Finding("vcs.discard", "untracked files", "worktree")


def _checkout(walk: Walk, opts: Options) -> Iterator[Finding]:
    creates = opts.has("-b", "-B", "--orphan", "--track", "-t")
    if len(opts.operands) > 1 and not creates:
        yield Finding("vcs.discard", opts.operands[-1].text, "worktree")
        return
    whole = any(a.text in (".", "./", ":/", "*", ":/*") or a.glob for a in opts.operands)
    if opts.has("-f", "--force", "--pathspec-from-file") or (whole and not creates):
        yield Finding("vcs.discard", opts.operands[-1].text if opts.operands else "", "worktree")


def _checkout_raw(walk: Walk, call: Call) -> Iterator[Finding]:
    """`checkout [ref] -- paths` throws away changes of just these paths."""
    texts = [a.text for a in call.args]
    if "checkout" in texts and "--" in texts[texts.index("checkout") :]:
        paths = texts[texts.index("--", texts.index("checkout")) + 1 :]
        if paths and not {"--help", "-h"} & set(texts):
            yield Finding("vcs.discard", paths[0], "worktree")


def _restore(walk: Walk, opts: Options) -> Iterator[Finding]:
    if (opts.has("--worktree", "-W") or not opts.has("--staged", "-S")) and opts.operands:
        yield Finding("vcs.discard", opts.operands[0].text, "worktree")


def _switch(walk: Walk, opts: Options) -> Iterator[Finding]:
    if opts.has("--discard-changes", "-f", "--force", "-C", "--force-create"):
        yield Finding("vcs.discard", opts.operands[-1].text if opts.operands else "", "worktree")


def _first(*words: str) -> Callable[[Options], bool]:
    return lambda opts: bool(opts.operands) and opts.operands[0].text in words


def _stash(walk: Walk, opts: Options) -> Iterator[Finding]:
    if _first("drop", "clear")(opts):
        yield Finding("vcs.delete_local", "stash", "worktree")


def _branch(walk: Walk, opts: Options) -> Iterator[Finding]:
    deletes = opts.has("-D") or (opts.has("-d", "--delete") and opts.has("-f", "--force"))
    if deletes and not opts.has("-r", "--remotes"):
        yield Finding("vcs.delete_local", opts.operands[0].text if opts.operands else "", "worktree")


def _worktree(walk: Walk, opts: Options) -> Iterator[Finding]:
    if _first("remove")(opts) and opts.has("--force", "-f"):
        yield Finding("vcs.discard", opts.operands[-1].text, "outside")


def _rewrite(walk: Walk, opts: Options) -> Iterator[Finding]:
    if not opts.has("--dry-run", "--analyze"):
        yield Finding("vcs.rewrite_history", "", "worktree")


def _reflog(walk: Walk, opts: Options) -> Iterator[Finding]:
    if _first("delete", "expire")(opts) and not opts.has("-n", "--dry-run"):
        yield Finding("vcs.rewrite_history", "reflog", "worktree")


def _update_ref(walk: Walk, opts: Options) -> Iterator[Finding]:
    if opts.has("-d"):
        yield Finding("vcs.delete_local", "ref", "worktree")


def _gc(walk: Walk, opts: Options) -> Iterator[Finding]:
    prune = next((f for f in opts.flags if f.startswith("--prune")), "")
    if prune and opts.values.get("--prune", Arg("")).text in ("now", "all"):
        yield Finding("vcs.rewrite_history", "unreachable objects", "worktree")


def _commit(walk: Walk, opts: Options) -> Iterator[Finding]:
    if opts.has("--no-verify", "-n"):
        yield Finding("vcs.skip_hooks", "commit")


def _config(walk: Walk, opts: Options) -> Iterator[Finding]:
    names = [a.text.lower() for a in opts.operands if a.text not in ("set", "unset")]
    if len(names) > 1 and _RUNS.match(names[0]):
        yield Finding("persist.git_hook", names[0], "worktree")
    if names and names[0] == "core.hookspath" and (len(names) > 1 or opts.has("--unset")):
        yield Finding("vcs.skip_hooks", "core.hooksPath")


_RUNS: Final = re.compile(r"core\.(?:sshcommand|fsmonitor|gitproxy|askpass)$|filter\.|diff\.external$|.*\.textconv$")


def _remote(walk: Walk, opts: Options) -> Iterator[Finding]:
    if _first("set-url", "add")(opts) and len(opts.operands) > 2:
        yield Finding("vcs.remote_change", opts.operands[-1].text, "remote")


def _rm(walk: Walk, opts: Options) -> Iterator[Finding]:
    if opts.has("-f", "--force") and opts.has("-r") and not opts.has("--cached", "-n", "--dry-run"):
        yield Finding("vcs.discard", opts.operands[0].text if opts.operands else "", "worktree")


def _submodule(walk: Walk, opts: Options) -> Iterator[Finding]:
    if _first("deinit")(opts) and opts.has("-f", "--force"):
        yield Finding("vcs.discard", opts.operands[-1].text, "worktree")


_SUBCOMMANDS: Final[dict[str, _Sub]] = {
    "branch": _branch, "checkout": _checkout, "clean": _clean, "commit": _commit, "config": _config,
    "filter-branch": _rewrite, "filter-repo": _rewrite, "gc": _gc, "push": _push, "reflog": _reflog, "remote": _remote,
    "reset": _reset, "restore": _restore, "rm": _rm, "stash": _stash, "submodule": _submodule, "switch": _switch,
    "update-ref": _update_ref, "worktree": _worktree,
}  # fmt: skip


def _all_git(walk: Walk, call: Call) -> Iterator[Finding]:
    yield from _git(walk, call)
    yield from _checkout_raw(walk, call)
    texts = [a.text for a in call.args]
    if "push" in texts and any(i.name == "vcs.remote_change" for i in walk.found):
        yield Finding("vcs.push_elsewhere", "", "remote")


_GH: Final = re.compile(
    r"^(?:repo (?:delete|archive)|release delete(?:-asset)?|secret (?:delete|remove)|variable delete"
    r"|gist delete|run delete"
    r"|codespace delete|project delete|ssh-key delete|gpg-key delete|cache delete|ruleset delete|label delete"
    r"|issue delete)\b"
)


def _gh(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(
        call.args,
        "XfFHqtRbBm",
        ("--method", "--field", "--raw-field", "--header", "--repo", "--title", "--body", "--input"),
    )
    words = " ".join(a.text for a in opts.operands[:2])
    if opts.has("--help"):
        return
    method = opts.values.get("-X") or opts.values.get("--method")
    if _GH.match(words) or (words.startswith("api") and method is not None and method.text.upper() == "DELETE"):
        yield Finding("cloud.destroy", words, "cloud")
    if words.startswith("gist create"):
        yield Finding("net.upload", "gist", "remote")
        for arg in opts.operands[2:]:
            if is_secret(walk.place(arg).path):
                yield Finding("net.upload.secret", arg.text, "remote")


VCS: Final[dict[str, Program]] = {"gh": _gh, "git": _all_git, "hub": _all_git}
