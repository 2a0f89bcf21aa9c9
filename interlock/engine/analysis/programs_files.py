"""What file programs do: delete, overwrite, change modes; and which places are more than files."""

from __future__ import annotations

import fnmatch
import itertools
import re
from collections.abc import Iterator
from typing import Final

from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.findings import Places
from interlock.engine.analysis.options import split
from interlock.engine.analysis.outputs import printed
from interlock.engine.analysis.paths import Place, is_disk
from interlock.engine.analysis.shell_run import Call, Program, Walk
from interlock.engine.analysis.values import HOME, UNKNOWN, WORK, Arg

__all__ = ["FILES", "PLACES", "deleted", "filled", "is_secret", "protected", "tail"]

_HOME_PREFIX: Final = re.compile(r"^(?:/(?:home|Users)/[^/]+|/root)(?=/|$)")
# Files by which an agent or this guard is set up, as path components that must stand together; globs allowed.
_PROTECTED: Final = tuple(
    tuple(p.split("/"))
    for p in (
        ".claude/settings*.json", ".claude/hooks/*", ".claude.json", "managed-settings.json", "managed-settings.d/*",
        ".codex/hooks.json", ".codex/config.toml", ".gemini/settings.json", ".github/hooks/*", ".copilot/hooks/*",
        ".cursor/hooks.json", "interlock.toml", ".config/interlock", ".local/state/interlock", ".interlock",
        "application support/interlock", "interlock-receipts*", "receipts.jsonl",
    )
)  # fmt: skip
_NAMED: Final = re.compile(
    r"claude|managed-settings|codex|gemini|\.github|copilot|cursor|interlock|receipts"
    r"|\.config|\.local",
    re.I,
)
_PLACES: Final[tuple[tuple[str, re.Pattern[str]], ...]] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("persist.shell_init", r"^\x01/\.(bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc"
            r"|zprofile|zshenv|zlogin|zlogout|kshrc|cshrc|tcshrc|inputrc|xprofile|xinitrc|xsession"
            r"|pam_environment|config/fish/(config\.fish|conf\.d/.*))$"),
        ("persist.shell_init", r"^/etc/(profile|bash\.bashrc|bashrc|zsh/.*|zshrc|zshenv|profile\.d/.*"
            r"|environment|ld\.so\.preload)$"),
        ("persist.ssh_keys", r"^\x01/\.ssh/(authorized_keys2?|config|rc|environment)$|^/etc/ssh/"),
        ("persist.cron", r"^/etc/(cron[^/]*|anacrontab)(/|$)|^/var/spool/(cron|at)(/|$)"),
        ("persist.service", r"/(LaunchAgents|LaunchDaemons)/|^/etc/(systemd|init\.d|rc\.local|rc\.d)"
            r"|^\x01/\.config/(systemd|autostart)/|^/(usr/)?lib/systemd/"),
        ("persist.git_hook", r"(^|/)\.git/(hooks/[^/.]+|config)$|(^|/)\.husky/[^/]+$|^\x01/\.gitconfig$"),
        ("privilege.account", r"^/etc/(sudoers(\.d/.*)?|passwd|shadow|group|gshadow|doas\.conf|pam\.d/.*)$"),
    )
)  # fmt: skip
_SECRETS: Final = re.compile(
    r"^\x01/\.(?:ssh|aws|gnupg|azure|kube|config/gcloud)/?$|"
    r"^\x01/(\.ssh/(id_[^/]*|[^/]*\.pem|identity)|\.aws/(credentials|sso/.*|cli/cache.*)|\.netrc|\.pgpass|\.my\.cnf|\.git-credentials"
    r"|\.docker/config\.json|\.kube/config|\.gnupg/.*|\.config/gcloud/.*|\.azure/.*|\.npmrc|\.pypirc|\.vault-token|\.config/gh/hosts\.yml"
    r"|\.config/op/.*|\.cargo/credentials(\.toml)?|Library/Keychains/.*|(?:\.config"
    r"|Library/Application Support)/(?:google-chrome|chromium|Google/Chrome|BraveSoftware)/.*(?:Login Data"
    r"|Cookies)|\.mozilla/firefox/.*(?:logins\.json|key4\.db|cookies\.sqlite)|\.local/share/keyrings/.*)$"
    r"|^/etc/g?shadow$|^/proc/[^/]+/environ$"
    r"|(^|/)(\.env(\.(local|prod|production|staging|development|dev|test))?|credentials\.json|service-account[^/]*\.json|id_(rsa|dsa|ecdsa|ed25519))$"
)
_CACHES: Final = re.compile(
    r"^\x01/(?:\.cache/.+|\.npm/_.+|Library/Caches/.+|\.gradle/caches.*|\.m2/repository.*|\.cargo/registry.*|go/pkg/mod.*"
    r"|\.local/share/Trash/.+|\.pytest_cache.*|\.yarn/cache.*|\.pnpm-store.*)$"
)
_SYSTEM_FILES: Final = ("/etc", "/usr", "/bin", "/sbin", "/lib", "/boot", "/proc", "/sys", "/System")
_AGENT_FOLDERS: Final = (".claude", ".codex", ".gemini", ".copilot", ".cursor", ".interlock", "interlock")
_GIT_DIR: Final = re.compile(r"(^|/)\.git(/(objects|refs|HEAD|logs|index)?(/.*)?)?$")


def tail(path: str) -> str:
    """The path with a home directory written as the mark, however it was named."""
    return _HOME_PREFIX.sub(HOME, path)


def is_secret(path: str) -> bool:
    """Whether the file is one where credentials live."""
    return bool(_SECRETS.search(tail(path)))


def protected(path: str, *, glob: bool, takes_parents: bool) -> bool:
    """Whether the path is, or by its globs could be, a file that sets up an agent or this guard."""
    if not glob and not _NAMED.search(path):
        return False
    parts = [p.lower() for p in path.split("/") if p not in ("", HOME, WORK)]
    return any(_matches(parts, wanted, glob, takes_parents) for wanted in _PROTECTED)


def _matches(parts: list[str], wanted: tuple[str, ...], glob: bool, takes_parents: bool) -> bool:
    for start in range(len(parts)):
        pairs = list(zip(parts[start : start + len(wanted)], wanted, strict=False))
        if not all(_alike(p, w, glob) for p, w in pairs):
            continue
        only_globs = glob and all(set(p) <= set("*?.") for p, _ in pairs)
        if not only_globs and (len(pairs) == len(wanted) or (takes_parents and start + len(pairs) == len(parts))):
            return True
    return False


def _alike(part: str, wanted: str, glob: bool) -> bool:
    if fnmatch.fnmatchcase(part, wanted):
        return True
    return glob and fnmatch.fnmatchcase(wanted.replace("*", "x"), part)


# -- deleting ------------------------------------------------------------------------------------------------------


def _rm(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args)
    if opts.has("--help", "--version"):
        return
    recursive = opts.has("-r", "-R", "--recursive", "--dir")
    for arg in opts.operands:
        yield from deleted(walk, arg, recursive)


def deleted(walk: Walk, arg: Arg, recursive: bool) -> Iterator[Finding]:
    """One path that is deleted, with what it means by where it lies."""
    if not arg.text:
        return
    searched = arg.taint in ("found", "filtered")
    if arg.taint == "found" and arg.text.endswith("/" + UNKNOWN):
        arg, recursive = Arg(arg.text[:-1] + "*", True), True
    where = walk.place(arg)
    yield Finding("fs.delete", where.path, where.scope)
    if recursive:
        yield Finding("fs.delete.recursive", where.path, where.scope)
    if is_disk(where.path):
        yield Finding("disk.overwrite", where.path, "device")
    yield from _where_deleted(walk, arg, where, recursive, searched)
    yield from _special(arg, where, recursive)


def _where_deleted(walk: Walk, arg: Arg, where: Place, recursive: bool, searched: bool) -> Iterator[Finding]:
    grave = where.whole and where.scope in ("root", "home", "system", "device")
    if grave and (recursive or where.swept):
        yield Finding("fs.delete.root", where.path, where.scope)
    elif where.scope == "system" and where.whole:
        yield Finding("fs.write.system", where.path, where.scope)
    elif where.scope == "worktree" and where.whole and recursive:
        yield Finding("fs.delete.worktree", where.path, where.scope)
    elif (where.scope == "root" and searched) or (where.scope == "temp" and where.whole and recursive and not searched):
        yield Finding("fs.delete.outside", where.path, where.scope)
    elif (recursive and where.scope == "root") or (where.scope == "unknown" and recursive and _could_be_root(arg)):
        yield Finding("fs.delete.computed", where.path, where.scope)
    elif recursive and where.scope in ("outside", "home", "system", "device") and arg.taint != "filtered":
        if _CACHES.match(tail(where.path)):
            return
        yield Finding("fs.delete.outside", where.path, where.scope)


def _could_be_root(arg: Arg) -> bool:
    """`$dir/` and `$dir/*`: the whole disk where the variable is empty."""
    return arg.text.replace(UNKNOWN, "") in ("/", "/*", "/.", "/.*")


def _special(arg: Arg, where: Place, recursive: bool) -> Iterator[Finding]:
    path = where.path
    if protected(path, glob=arg.glob, takes_parents=True):
        yield Finding("self.protect.config", path, where.scope)
    if recursive and _GIT_DIR.search(path):
        yield Finding("vcs.discard", path, where.scope)
    for name in _by_place(path):
        yield Finding("vcs.skip_hooks" if name == "persist.git_hook" and "/hooks/" in path else name, path, where.scope)


def _by_place(path: str) -> list[str]:
    short = tail(path)
    return [name for name, pattern in _PLACES if pattern.search(short)]


def _find(walk: Walk, call: Call) -> Iterator[Finding]:
    texts = [a.text for a in call.args]
    if "-delete" in texts:
        found = printed("find", call.args, None)
        for line in found.text.split("\n"):
            if line:
                yield from deleted(walk, Arg(line, taint=found.taint), True)
    if "-delete" in texts or "rm" in texts:
        yield from _found_settings(texts)
    for option in ("-fprint", "-fls", "-fprintf", "-fprint0"):
        if option in texts[:-1]:
            walk.written(call.args[texts.index(option) + 1], "find")


_SETTINGS: Final = ("settings.json", "settings.local.json", "managed-settings.json", "hooks.json", "interlock.toml")


def _found_settings(texts: list[str]) -> Iterator[Finding]:
    """A search for what sets up an agent, whose finds are deleted."""
    names = [b for a, b in itertools.pairwise(texts) if a in ("-name", "-iname")]
    wanted = any(fnmatch.fnmatchcase(s, n.lower()) for n in names for s in _SETTINGS)
    if wanted and re.search(r"claude|codex|gemini|copilot|interlock", " ".join(texts), re.I):
        yield Finding("self.protect.config", names[0], "unknown")


def _ed(walk: Walk, call: Call) -> Iterator[Finding]:
    for arg in split(call.args, "p").operands:
        walk.written(arg, call.program)
    yield from ()


def _unpack(walk: Walk, call: Call) -> Iterator[Finding]:
    """unzip -d DIR, tar x -C DIR."""
    opts = split(call.args, "dCfxbX", ("--directory",))
    for option in ("-d", "-C", "--directory"):
        if option in opts.values and (option != "-d" or call.program == "unzip"):
            filled(walk, opts.values[option], call.program)
    yield from ()


def _tar(walk: Walk, call: Call) -> Iterator[Finding]:
    yield from _reader(walk, call)
    if not any("c" in a.text.partition("=")[0] for a in call.args[:1]):
        yield from _unpack(walk, call)


def _shred(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args, "ns", ("--iterations", "--size", "--random-source"))
    for arg in opts.operands:
        if not opts.has("--help", "--version"):
            yield from deleted(walk, arg, False)


def _mv(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args, "tS", ("--target-directory", "--suffix"))
    target = opts.values.get("-t") or opts.values.get("--target-directory")
    sources = opts.operands if target is not None else opts.operands[:-1]
    target = target or (opts.operands[-1] if len(opts.operands) > 1 else None)
    for arg in sources:
        where = walk.place(arg)
        if (
            where.whole
            and where.scope in ("root", "home", "system")
            and (where.scope != "system" or "/" not in where.path[1:])
        ):
            yield Finding("fs.delete.root", where.path, where.scope)
        if target is not None and target.text == "/dev/null":
            yield from deleted(walk, arg, True)
        yield from _special(arg, where, False)
    if target is not None:
        walk.written(target, "mv")
        _inside_target(walk, sources, target)


def _inside_target(walk: Walk, sources: tuple[Arg, ...], target: Arg) -> None:
    """`cp x.json ~/.claude/`: the file that the target directory would get."""
    for arg in sources[:32]:
        name = arg.text.rstrip("/").rpartition("/")[2]
        where = walk.place(Arg(target.text.rstrip("/") + "/" + name, target.glob or arg.glob))
        if name and protected(where.path, glob=where.swept or arg.glob, takes_parents=name in _AGENT_FOLDERS):
            walk.emit(Finding("self.protect.config", where.path, where.scope), "cp")
        if arg.text.endswith(("/", "/.")) or arg.glob:
            filled(walk, target, "cp")


def filled(walk: Walk, target: Arg, program: str) -> None:
    """A directory that gets files whose names are not known."""
    where = walk.place(target)
    if where.path.rpartition("/")[2] in _AGENT_FOLDERS:
        walk.emit(Finding("self.protect.config", where.path, where.scope), program)


def _cp(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args, "tSmogZ", ("--target-directory", "--suffix", "--mode", "--owner", "--group"))
    if opts.has("--help", "--version"):
        return
    target = opts.values.get("-t") or opts.values.get("--target-directory")
    sources = opts.operands if target is not None else opts.operands[:-1]
    target = target or (opts.operands[-1] if len(opts.operands) > 1 else None)
    for arg in sources:
        walk.read(arg, call.program)
    if target is not None and not (call.program == "install" and opts.has("-d")):
        walk.written(target, call.program)
        _inside_target(walk, sources, target)
    yield from ()


# -- writing -------------------------------------------------------------------------------------------------------


def _dd(walk: Walk, call: Call) -> Iterator[Finding]:
    for arg in call.args:
        name, _, value = arg.text.partition("=")
        if name == "of":
            walk.written(arg._replace(text=value), "dd")
        elif name == "if":
            walk.read(arg._replace(text=value), "dd")
    yield from ()


def _tee(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args)
    for arg in opts.operands:
        walk.written(arg, "tee", append=opts.has("-a", "--append"))
        if call.stdin is not None:
            walk.remember(arg, call.stdin)
    yield from ()


def _truncate(walk: Walk, call: Call) -> Iterator[Finding]:
    for arg in split(call.args, "sr", ("--size", "--reference")).operands:
        walk.written(arg, "truncate")
    yield from ()


def _sed(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args, "efl", ("--expression", "--file"))
    in_place = any(
        f.startswith(("-i", "--in-place")) or (f[:1] == "-" and f[:2] != "--" and "i" in f) for f in opts.flags
    )
    has_script = opts.has("-e", "--expression", "-f", "--file")
    for arg in opts.operands if has_script else opts.operands[1:]:
        (walk.written if in_place else walk.read)(arg, "sed")
    yield from ()


def _perl(walk: Walk, call: Call) -> Iterator[Finding]:
    texts = [a.text for a in call.args]
    if any(re.match(r"-[a-zA-Z0]*i", t) and not t.startswith(("-I", "--")) for t in texts) and any(
        t[:1] == "-" and t.endswith("e") for t in texts
    ):
        for arg in split(call.args, "eEIM").operands:
            walk.written(arg, "perl")
    yield from ()


def _ln(walk: Walk, call: Call) -> Iterator[Finding]:
    operands = split(call.args, "tS", ("--target-directory", "--suffix")).operands
    if len(operands) > 1:
        walk.written(operands[-1], "ln")
        _inside_target(walk, operands[:-1], operands[-1])
    for arg in operands[:-1]:  # a link to a protected file would be a second name for it
        where = walk.place(arg)
        if protected(where.path, glob=arg.glob, takes_parents=True):
            yield Finding("self.protect.config", where.path, where.scope)


def _chmod(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args, "", ("--reference", "--from"))
    recursive = opts.has("-R", "--recursive")
    mode = opts.operands[0].text if opts.operands else ""
    for arg in opts.operands[1:]:
        where = walk.place(arg)
        grave = where.whole and where.scope in ("root", "home", "system")
        opens = call.program == "chmod" and bool(
            re.fullmatch(r"0?[0-7]?[0-7][0-7][2367]|[augo]*[oa][ugo]*[+=][rxX]*w.*|a?\+rwx", mode)
        )
        if (grave and (recursive or opens)) or (
            opens and recursive and where.scope in ("home", "outside", "system", "root")
        ):
            yield Finding("fs.permission.root", where.path, where.scope)
        elif call.program == "chmod" and re.fullmatch(r"[4567][0-7]{3}|[ua]*u[ua]*\+[rwx]*s[rwx]*|\+s", mode):
            yield Finding("privilege.account", where.path, where.scope)
        yield Finding("fs.permission", where.path, where.scope)
        if "privilege.account" in _by_place(where.path):
            yield Finding("privilege.account", where.path, where.scope)
        if protected(where.path, glob=arg.glob, takes_parents=False):
            yield Finding("self.protect.config", where.path, where.scope)


def _chattr(walk: Walk, call: Call) -> Iterator[Finding]:
    for arg in call.args:
        where = walk.place(arg) if arg.text[:1] not in ("-", "+", "=") else None
        if where is not None and where.scope == "system":
            yield Finding("fs.write.system", where.path, where.scope)


def _write(where: Place, append: bool) -> Iterator[Finding]:
    """Any write: what kind of file that is."""
    path = where.path
    if protected(path, glob="*" in path or "?" in path, takes_parents=False):
        yield Finding("self.protect.config", path, where.scope)
    for name in _by_place(path):
        yield Finding(name, path, where.scope)
    if (where.scope == "system" and where.whole and path.startswith(_SYSTEM_FILES)) or (
        where.scope == "root" and where.whole and not append
    ):
        yield Finding("fs.write.system", path, where.scope)


def _read(where: Place) -> Iterator[Finding]:
    """Any read."""
    yield Finding("fs.read", where.path, where.scope)
    if is_secret(where.path) and not where.path.endswith(".pub"):
        yield Finding("secret.read", where.path, where.scope)


def _reader(walk: Walk, call: Call) -> Iterator[Finding]:
    for arg in split(call.args, "ncefmA").operands:
        if "/" in arg.text or "." in arg.text or "\x01" in arg.text:
            walk.read(arg, call.program)
    yield from ()


_READERS: Final = (
    "cat", "less", "more", "head", "tail", "base64", "xxd", "strings", "grep", "egrep", "rg", "od", "hexdump", "bat",
        "nl",
    "tac", "sort", "awk", "gawk", "cut", "diff", "zip", "gzip", "openssl", "jq", "view",
)  # fmt: skip

PLACES: Final = Places(_write, _read)
FILES: Final[dict[str, Program]] = {
    **dict.fromkeys(_READERS, _reader),
    "bsdtar": _unpack,
    "chattr": _chattr,
    "chgrp": _chmod,
    "chmod": _chmod,
    "chown": _chmod,
    "cp": _cp,
    "dd": _dd,
    "ed": _ed,
    "ex": _ed,
    "find": _find,
    "gfind": _find,
    "grm": _rm,
    "gsed": _sed,
    "install": _cp,
    "ln": _ln,
    "mv": _mv,
    "perl": _perl,
    "rimraf": lambda walk, call: (f for a in split(call.args).operands for f in deleted(walk, a, True)),
    "rm": _rm,
    "rmdir": _rm,
    "sed": _sed,
    "shred": _shred,
    "sponge": _tee,
    "srm": _rm,
    "tar": _tar,
    "tee": _tee,
    "truncate": _truncate,
    "unlink": _rm,
    "unzip": _unpack,
}
