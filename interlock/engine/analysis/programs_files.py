"""What file programs do whose command lines are more than options and operands: find, tar, dd, sed, editors."""

from __future__ import annotations

import fnmatch
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final

from interlock.engine.analysis.acts import deleted, filled
from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.options import split
from interlock.engine.analysis.outputs import printed
from interlock.engine.analysis.programs_archives import below
from interlock.engine.analysis.shell_run import Call, Program, Walk
from interlock.engine.analysis.values import Arg

__all__ = ["FILES"]


def _find(walk: Walk, call: Call) -> Iterator[Finding]:
    texts = [a.text for a in call.args]
    for root in _roots(call.args):
        walk.listed(root, call.program)
    if "-delete" in texts:
        found = printed("find", call.args, None)
        for line in found.text.split("\n"):
            if line:
                yield from deleted(walk, Arg(line, taint=found.taint), True)
    if "-delete" in texts or "rm" in texts:
        yield from _found_settings(texts)
        yield from _any_name(walk, call.args, texts)
    for option in ("-fprint", "-fls", "-fprintf", "-fprint0"):
        if option in texts[:-1]:
            walk.written(call.args[texts.index(option) + 1], "find")


def _roots(args: Sequence[Arg]) -> list[Arg]:
    """Where a search starts: what stands before its first test, after `-H`, `-L`, `-P`."""
    rest = list(itertools.dropwhile(lambda a: a.text in ("-H", "-L", "-P", "-E", "-X", "-s", "-x"), args))
    return list(itertools.takewhile(lambda a: a.text[:1] not in ("-", "(", "!"), rest)) or [Arg(".")]


_BY_NAME: Final = re.compile(r"-(?:i?name|i?path|i?wholename|i?lname|i?regex|empty|inum|samefile|xtype|fstype)")


def _any_name(walk: Walk, args: Sequence[Arg], texts: list[str]) -> Iterator[Finding]:
    """A search of a whole home or system directory that deletes by age, size or owner, whatever the name."""
    if not any(_BY_NAME.fullmatch(t) for t in texts):
        for root in _roots(args):
            where = walk.place(Arg(root.text.rstrip("/") + "/*", glob=True))
            if where.whole and where.scope in ("home", "system"):
                yield Finding("fs.delete.outside", where.path, where.scope)


_SETTINGS: Final = ("settings.json", "settings.local.json", "managed-settings.json", "hooks.json", "interlock.toml")


def _found_settings(texts: list[str]) -> Iterator[Finding]:
    """A search for what sets up an agent, whose finds are deleted."""
    names = [b for a, b in itertools.pairwise(texts) if a in ("-name", "-iname")]
    wanted = any(fnmatch.fnmatchcase(s, n.lower()) for n in names for s in _SETTINGS)
    if wanted and re.search(r"claude|codex|gemini|copilot|interlock", " ".join(texts), re.I):
        yield Finding("self.protect.config", names[0], "unknown")


_ED_WRITES: Final = re.compile(r"^[-0-9,;$%.+]*[wW]q?!?[ \t]+([^! \t\n][^ \t\n]*)", re.M)
_SAVES: Final = re.compile(
    r":?[ \t]*(?:silent!?[ \t]+)?(?:w(?:rite|a|all|q|qa|qall)?|x(?:it|a|all)?|up(?:date)?|exit|wn)!?", re.S
)
_MAX_TARGETS: Final = 32


def _ed(walk: Walk, call: Call) -> Iterator[Finding]:
    """ed, ex: the files that are edited, and those that a script on standard input names."""
    for arg in split(call.args, "pcS").operands:
        walk.written(arg, call.program)
    if call.stdin is not None:
        walk.env.spend(len(call.stdin.text) // 4)
        for m in itertools.islice(_ED_WRITES.finditer(call.stdin.text), _MAX_TARGETS):
            walk.written(Arg(m.group(1)), call.program)
    yield from ()


def _vim(walk: Walk, call: Call) -> Iterator[Finding]:
    """vim -c wq FILE: an editor whose commands save what it edits; without any, a person may do so."""
    opts = split(call.args, "cSTuUwW", ("--cmd",))
    commands = [value.text for name, value in opts.given if name in ("-c", "--cmd")]
    files = [a for a in opts.operands if a.text[:1] != "+"]
    commands += [a.text[1:] for a in opts.operands if a.text[:1] == "+"]
    saves = any(_SAVES.fullmatch(c.rpartition("|")[2].strip()) for c in commands)
    for arg in files:
        if saves or (not commands and not opts.has("-R")):
            walk.written(arg, call.program)
    for name, value in opts.given:
        if name in ("-w", "-W"):
            walk.written(value, call.program)
    yield from ()


_PATCH_NAMES: Final = re.compile(r"^(?:\+\+\+|---|Index:|rename to|copy to)[ \t]+([^ \t\n]+)", re.M)


def _patch(walk: Walk, call: Call) -> Iterator[Finding]:
    """patch FILE; patch -d DIR, whose patch says which files; a patch on standard input is read for their names."""
    opts = split(
        call.args, "BDFVYdgiopryz", ("--directory", "--input", "--output", "--strip", "--reject-file", "--fuzz")
    )
    base = opts.values.get("-d") or opts.values.get("--directory") or Arg(".")
    if opts.has("--dry-run", "--help", "--version"):
        return
    for name, value in opts.given:
        if name in ("-i", "--input"):
            walk.read(value, call.program)
        elif name in ("-o", "--output", "-r", "--reject-file"):
            walk.written(value, call.program)
    for target in opts.operands[:1]:
        walk.written(below(base, target), call.program)
    if not opts.operands and not opts.has("-o", "--output"):
        filled(walk, base, call.program)
        _patched(walk, call, base)
    yield from ()


def _git_apply(walk: Walk, call: Call) -> Iterator[Finding]:
    """git apply and git am, with a patch on standard input."""
    if any(a.text in ("apply", "am") for a in call.args[:8]):
        _patched(walk, call, Arg("."))
    yield from ()


def _patched(walk: Walk, call: Call, base: Arg) -> None:
    """The files that a patch on standard input names, as they stand there and without their first directory."""
    if call.stdin is None:
        return
    walk.env.spend(len(call.stdin.text) // 4)
    for m in itertools.islice(_PATCH_NAMES.finditer(call.stdin.text), _MAX_TARGETS):
        name = m.group(1)
        for path in dict.fromkeys((name, name.partition("/")[2] or name)):
            if path != "/dev/null" and path[:1] != "/":
                walk.written(below(base, Arg(path)), call.program)


# -- writing -------------------------------------------------------------------------------------------------------


def _dd(walk: Walk, call: Call) -> Iterator[Finding]:
    for arg in call.args:
        name, _, value = arg.text.partition("=")
        if name in ("of", "hof"):
            walk.written(arg._replace(text=value), "dd")
        elif name == "if":
            walk.read(arg._replace(text=value), "dd")
    yield from ()


def _perl(walk: Walk, call: Call) -> Iterator[Finding]:
    texts = [a.text for a in call.args]
    in_place = [bool(re.match(r"-[a-zA-Z0]*i", t)) and not t.startswith(("-I", "--", "-M", "-m")) for t in texts]
    if any(in_place) and any(t[:1] == "-" and t.endswith("e") for t in texts):
        for arg in split(call.args, "eEIM").operands:
            walk.written(arg, call.program)
    elif any(in_place):
        for arg in split(call.args, "eEIM").operands[1:]:
            walk.written(arg, call.program)
    yield from ()


def _chattr(walk: Walk, call: Call) -> Iterator[Finding]:
    for arg in call.args:
        where = walk.place(arg) if arg.text[:1] not in ("-", "+", "=") else None
        if where is not None and where.scope == "system":
            yield Finding("fs.write.system", where.path, where.scope)


def _reader(walk: Walk, call: Call) -> Iterator[Finding]:
    for arg in split(call.args, "ncefmA").operands:
        if "/" in arg.text or "." in arg.text or "\x01" in arg.text:
            walk.read(arg, call.program)
    yield from ()


_READERS: Final = ("bat", "gzip", "less", "more", "openssl", "view", "zip")
FILES: Final[dict[str, Program]] = {
    **dict.fromkeys(_READERS, _reader),
    **dict.fromkeys(("nvim", "rvim", "vi", "vim"), _vim),
    "chattr": _chattr,
    **dict.fromkeys(("dc3dd", "dcfldd", "dd", "gdd"), _dd),
    "ed": _ed,
    "ex": _ed,
    "red": _ed,
    "find": _find,
    "gfind": _find,
    "git": _git_apply,
    "patch": _patch,
    "perl": _perl,
    "ruby": _perl,
}
