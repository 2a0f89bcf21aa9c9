"""Whether the arguments of one command are among those that its grammar calls harmless."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from interlock.engine.analysis.grammar import Harmless, Level, like
from interlock.engine.analysis.values import UNKNOWN, Arg

__all__ = ["misfit", "prints_exactly"]

_NUMBER: Final = re.compile(r"[-+]\d+")
_FOUND: Final = ("found", "filtered")
# sed: an optional address or two, and a command that only prints, deletes or replaces
_ADDRESS: Final = r"(?:\d+|\$|\\?/(?:[^/\\\n]|\\.)*/I?|\d+~\d+)"
_SUBSTITUTE: Final = r"s([/|#,:@!%])(?:(?!\1)[^\\\n]|\\.)*\1(?:(?!\1)[^\\\n]|\\.)*\1[gpIi0-9]*"
_SED: Final = re.compile(
    rf"\s*(?:{_ADDRESS}\s*(?:,\s*[+~]?{_ADDRESS})?)?\s*!?\s*"
    rf"(?:[pdqQ=lnNgGhHxDP]|q\s*\d+|{_SUBSTITUTE}|y/(?:[^/\\\n]|\\.)*/(?:[^/\\\n]|\\.)*/)?\s*(?=[;\n]|$)"
)


class _Scan(NamedTuple):
    """What the arguments of one level are: options with their values, operands, and what is left for a subcommand."""

    options: list[tuple[str, str | None]]
    operands: list[Arg]
    rest: Sequence[Arg]


def misfit(level: Level, args: Sequence[Arg], asked: Callable[[str], bool]) -> str:
    """Why the arguments are not known to be harmless, "" where they are.

    `asked(settings)` says whether the program's settings are plain, and with "" whether all of the current directory
    may be read.
    """
    short, long, attached = level.short, level.long, level.attached
    while True:
        harmless = level.harmless
        if harmless is None:
            return "no proof is known for this command"
        scan = _scanned(level._replace(short=short, long=long, attached=attached), harmless, args)
        if isinstance(scan, str):
            return scan
        inner = level.commands.get(scan.operands[0].text) if level.commands and scan.operands else None
        reason = _level_misfit(harmless, scan, asked, commands=bool(level.commands), named=inner is not None)
        if reason or inner is None:
            return reason
        args = scan.rest
        if level.anywhere:
            short, long, attached = short + inner.short, long | inner.long, attached | inner.attached
        else:
            short, long, attached = inner.short, inner.long, inner.attached
        level = inner


def _level_misfit(h: Harmless, scan: _Scan, asked: Callable[[str], bool], *, commands: bool, named: bool) -> str:
    texts = [a.text for a in scan.operands]
    given = {name for name, _ in scan.options}
    if commands:
        if texts and not named:
            return "a subcommand that is not known"
    elif not h.least <= len(texts) <= h.operands or (h.like and not all(like(t, h.like) for t in texts)):
        return "operands that are not known to be harmless"
    everything = [*texts, *(v for _, v in scan.options if v is not None)]
    if h.unlike and any(like(t, h.unlike) for t in everything):
        return "an argument that may do harm"
    if not all(given & set(names) for names in h.needs):
        return "lacks an option that makes it harmless"
    neutral = bool(h.neutral) and all(given & set(names) for names in h.neutral)
    if h.settings and not neutral and not asked(h.settings):
        return "its settings may run other programs"
    descends = _applies(h.descends, given) or (len(texts) < 2 and _applies(h.here, given))
    if descends and not asked(""):
        return "reads more than its tree"
    return _script_misfit(h, scan)


def _applies(switch: bool | tuple[str, ...], given: Collection[str]) -> bool:
    return switch if isinstance(switch, bool) else any(name in given for name in switch)


def _script_misfit(h: Harmless, scan: _Scan) -> str:
    if h.script != "sed":
        return ""
    scripts = [v for name, v in scan.options if name in ("-e", "--expression") and v is not None]
    scripts = scripts or [a.text for a in scan.operands[:1]]
    return "" if scripts and all(_sed_prints(s) for s in scripts) else "a script that may do more than print"


def _sed_prints(script: str) -> bool:
    """Whether a sed script only prints, deletes and replaces lines."""
    at = 0
    while at < len(script):
        m = _SED.match(script, at)
        if m is None or m.end() == at:
            return False
        at = m.end() + 1
    return True


_REWRITES: Final = frozenset({"-printf", "-fprintf", "-ls", "-exec", "-print0"})
_PASSES: Final = frozenset({"sort", "uniq", "tac", "cat", "head", "tail"})
_SELECTING: Final = re.compile(r"-[viEFwx]+")  # grep: whole lines of what comes on standard input
_PASSING: Final = re.compile(r"-(?:[nruVfz]+|n?\d+)|\d+")


def prints_exactly(program: str, args: Sequence[Arg]) -> bool:
    """Whether what the command prints is just what the walk takes it for, so that it may become arguments."""
    texts = [a.text for a in args]
    if program in ("echo", "printf"):
        return not any("\\" in t or "%" in t.replace("%s", "") or t[:1] == "-" for t in texts)
    if program in ("grep", "egrep", "fgrep"):
        return all(_SELECTING.fullmatch(t) for t in texts[:-1]) and texts[-1:] != [] and texts[-1][:1] != "-"
    if program in ("find", "gfind"):
        return not _REWRITES & set(texts) or ("-print0" in texts and not (_REWRITES - {"-print0"}) & set(texts))
    return program == "pwd" or (program in _PASSES and all(_PASSING.fullmatch(t) for t in texts))


# -- reading the arguments strictly ---------------------------------------------------------------------------------


def _scanned(level: Level, h: Harmless, args: Sequence[Arg]) -> _Scan | str:
    """The arguments, each option spelled out and known; else why not."""
    if h.arguments == "any":
        return _Scan([], [], ()) if not h.unlike else _Scan([], list(args), ())
    options: list[tuple[str, str | None]] = []
    operands: list[Arg] = []
    i = 0
    while i < len(args):
        arg = args[i]
        i += 1
        if arg.text == "--":
            operands.extend(args[i:])
            break
        if not _is_option(arg, h):
            if not _certain(arg):
                return "an argument that is not known"
            operands.append(arg)
            if level.leading:
                return _Scan(options, operands, args[i:])
            continue
        found = _option(level, h, arg.text)
        if found is None or not arg.known:
            return "an option that is not known to be harmless"
        for name, value, takes in found:
            if takes:
                if i >= len(args) or not _certain(args[i]):
                    return "an option's value that is not known"
                value, i = args[i].text, i + 1
            if name in h.inner:
                i = next((k for k in range(i, len(args)) if args[k].text in (";", "+")), len(args)) + 1
            if name not in h.options and not (value is not None and like(value, h.values.get(name, ()))):
                return "an option that is not known to be harmless"
            options.append((name, value))
    return _Scan(options, operands, ()) if all(_certain(a) for a in operands) else "not known"


def _is_option(arg: Arg, h: Harmless) -> bool:
    text = arg.text
    return len(text) > 1 and text[0] == "-" and not (h.numbers and bool(_NUMBER.fullmatch(text)))


def _certain(arg: Arg) -> bool:
    """Whether the argument is one word that is known, or a name below a known directory that a search found."""
    if arg.known:
        return True
    text = arg.text.partition(UNKNOWN)[0]
    return arg.taint in _FOUND and text.endswith("/") and text[:1] != "-"


def _option(level: Level, h: Harmless, text: str) -> list[tuple[str, str | None, bool]] | None:
    """One argument as options: (name, attached value, whether the next argument is its value)."""
    name, equals, value = text.partition("=")
    if text.startswith("--") or name in level.long or (text in h.options and len(text) > 2):
        if equals:
            return [(name, value, False)]
        return [(name, None, name in level.long)]
    found: list[tuple[str, str | None, bool]] = []
    for k, letter in enumerate(text[1:], 2):
        option, rest = "-" + letter, text[k:]
        if option in level.attached:
            return [*found, (option, rest or None, False)]
        if letter in level.short:
            return [*found, (option, rest or None, not rest)]
        found.append((option, None, False))
    return found
