"""What archive programs write: the archive, or a directory that gets members whose names stand only in the archive."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from interlock.engine.analysis.acts import deleted, filled
from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.options import Options, split
from interlock.engine.analysis.paths import join
from interlock.engine.analysis.shell_run import Call, Program, Walk
from interlock.engine.analysis.values import Arg

__all__ = ["ARCHIVES", "below"]

_HERE: Final = Arg(".")
_MAX_MEMBERS: Final = 32


def below(base: Arg, arg: Arg) -> Arg:
    """A path seen from a directory that is itself seen from the current one."""
    return arg._replace(text=join(base.text, arg.text) or ".", glob=base.glob or arg.glob)


def _extracted(walk: Walk, call: Call, base: Arg, members: Sequence[Arg]) -> None:
    """The members that are named, or all of the directory: what an archive holds is not known."""
    if not members or len(members) > _MAX_MEMBERS or any("*" in m.text or "?" in m.text for m in members):
        filled(walk, base, call.program)
        return
    for member in members:
        filled(walk, below(base, member._replace(text=member.text.lstrip("/"))), call.program)


# -- tar, jar -------------------------------------------------------------------------------------------------------

_TAR_SHORT: Final = "fbCXTgKNVFLIH"
_TAR_LONG: Final = (
    "--file", "--directory", "--cd", "--dir", "--direc",
    "--files-from", "--exclude", "--exclude-from", "--strip-components", "--transform",
    "--xform", "--use-compress-program", "--owner", "--group", "--mode", "--mtime", "--listed-incremental",
    "--index-file", "--format", "--blocking-factor", "--newer", "--after-date", "--label", "--starting-file",
    "--add-file", "--suffix", "--checkpoint-action", "--to-command", "--rsh-command", "--record-size",
)  # fmt: skip
_TAR_LETTERS: Final = re.compile(r"[A-Za-z0-9]+")
_TAR_WRITES: Final = (
    "-c", "-r", "-u", "-A", "--create", "--append", "--update", "--catenate", "--concatenate", "--delete",
)  # fmt: skip


def _tar_options(call: Call) -> Options:
    """The options, also as the first word's letters without a dash, whose values then follow in their order."""
    args = call.args
    if args and _TAR_LETTERS.fullmatch(args[0].text):
        valued = [letter for letter in args[0].text if letter in _TAR_SHORT]
        flags = Arg("-" + "".join(letter for letter in args[0].text if letter not in _TAR_SHORT))
        values = [a for pair in zip((Arg("-" + v) for v in valued), args[1:], strict=False) for a in pair]
        args = (*values, *([flags] if len(flags.text) > 1 else []), *args[1 + len(valued) :])
    return split(args, _TAR_SHORT, _TAR_LONG)


def _tar(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = _tar_options(call)
    if opts.has("--help", "--version"):
        return
    base = _HERE
    for name, value in opts.given:
        if name in ("-C", "--directory", "--cd", "--dir", "--direc", "--one-top-level"):
            base = below(base, value)
    archives = [a for n, a in opts.given if n in ("-f", "--file") and a.text != "-"]
    writes = opts.has(*_TAR_WRITES)
    for archive in archives:
        if writes:
            walk.written(archive, call.program)
        else:
            walk.read(archive, call.program)
    for name, value in opts.given:
        if name in ("-g", "--listed-incremental", "--index-file"):
            walk.written(value, call.program)
        elif name in ("-T", "-X", "--files-from", "--exclude-from"):
            walk.read(value, call.program)
    if opts.has("-x", "--extract", "--get"):
        if not opts.has("-O", "--to-stdout", "--to-command"):
            base = Arg("/") if opts.has("-P", "--absolute-names") else base
            _extracted(walk, call, base, opts.operands)
    elif writes and not opts.has("--delete"):
        for operand in opts.operands:
            walk.read(below(base, operand), call.program)
            if opts.has("--remove-files"):
                yield from deleted(walk, below(base, operand), True)


# -- zip, 7z, cpio, ar ------------------------------------------------------------------------------------------------


def _unzip(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args, "dxP")
    if not opts.has("-l", "-v", "-Z", "-z", "-t", "-p", "-c", "--help", "--version"):
        _extracted(walk, call, opts.values.get("-d", _HERE), opts.operands[1:])
    yield from ()


_SEVEN_LETTERS: Final = tuple("-" + letter for letter in "abfimoprstuvwx")


def _seven(walk: Walk, call: Call) -> Iterator[Finding]:
    """7z, rar: a word that says what, the archive, members; rar takes a directory as its last operand."""
    opts = split(call.args, attached=_SEVEN_LETTERS)
    what = opts.operands[0].text if opts.operands else ""
    archive, members = opts.operands[1:2], list(opts.operands[2:])
    if what in ("x", "e") and not opts.has("-so"):
        base = next((v for n, v in opts.given if n == "-o"), _HERE)
        if "rar" in call.program and members and members[-1].text.endswith("/"):
            base = members.pop()
        _extracted(walk, call, base, members)
    for arg in archive:
        if what in ("a", "u", "d", "m", "rn", "f"):
            walk.written(arg, call.program)
        else:
            walk.read(arg, call.program)
    yield from ()


def _cpio(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args, "CDEFHIMORW", ("--directory", "--file", "--format", "--owner", "--pattern-file"))
    base = opts.values.get("-D") or opts.values.get("--directory") or _HERE
    archives = [a for n, a in opts.given if n in ("-F", "--file", "-O", "-I")]
    if opts.has("-p", "--pass-through"):
        for target in opts.operands[-1:]:
            filled(walk, below(base, target), call.program)
    elif opts.has("-o", "--create"):
        for archive in archives:
            walk.written(archive, call.program)
    else:
        for archive in archives:
            walk.read(archive, call.program)
        if opts.has("-i", "--extract") and not opts.has("-t", "--list", "--to-stdout"):
            _extracted(walk, call, base, ())
    yield from ()


def _ar(walk: Walk, call: Call) -> Iterator[Finding]:
    """`ar x lib.a`, `ar rcs lib.a a.o`: letters, the archive, members."""
    args = [a for a in call.args if a.text[:2] != "--"]
    what = args[0].text.lstrip("-") if args else ""
    output = split(call.args, "", ("--output",)).values.get("--output", _HERE)
    if "x" in what:
        _extracted(walk, call, output, args[2:])
    for archive in args[1:2]:
        if set(what) & set("dmqrs"):
            walk.written(archive, call.program)
        else:
            walk.read(archive, call.program)
    yield from ()


ARCHIVES: Final[dict[str, Program]] = {
    **dict.fromkeys(("7z", "7za", "7zr", "7zz", "rar", "unrar"), _seven),
    **dict.fromkeys(("bsdtar", "gtar", "jar", "tar"), _tar),
    **dict.fromkeys(("ar", "gar", "llvm-ar"), _ar),
    **dict.fromkeys(("bsdcpio", "cpio"), _cpio),
    "unzip": _unzip,
}
