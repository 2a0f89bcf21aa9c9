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
    for option in ("-fprint", "-fls", "-fprintf", "-fprint0"):
        if option in texts[:-1]:
            walk.written(call.args[texts.index(option) + 1], "find")


def _roots(args: Sequence[Arg]) -> list[Arg]:
    """Where a search starts: what stands before its first test, after `-H`, `-L`, `-P`."""
    rest = list(itertools.dropwhile(lambda a: a.text in ("-H", "-L", "-P", "-E", "-X", "-s", "-x"), args))
    return list(itertools.takewhile(lambda a: a.text[:1] not in ("-", "(", "!"), rest)) or [Arg(".")]


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


# -- writing -------------------------------------------------------------------------------------------------------


def _dd(walk: Walk, call: Call) -> Iterator[Finding]:
    for arg in call.args:
        name, _, value = arg.text.partition("=")
        if name == "of":
            walk.written(arg._replace(text=value), "dd")
        elif name == "if":
            walk.read(arg._replace(text=value), "dd")
    yield from ()


def _perl(walk: Walk, call: Call) -> Iterator[Finding]:
    texts = [a.text for a in call.args]
    if any(re.match(r"-[a-zA-Z0]*i", t) and not t.startswith(("-I", "--")) for t in texts) and any(
        t[:1] == "-" and t.endswith("e") for t in texts
    ):
        for arg in split(call.args, "eEIM").operands:
            walk.written(arg, "perl")
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
    "bsdtar": _unpack,
    "chattr": _chattr,
    "dd": _dd,
    "ed": _ed,
    "ex": _ed,
    "find": _find,
    "gfind": _find,
    "perl": _perl,
    "tar": _tar,
    "unzip": _unpack,
}
