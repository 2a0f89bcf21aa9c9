"""Whether the arguments of one command are among those that its grammar calls harmless."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from interlock.engine.analysis.grammar import UNBOUNDED, Condition, Effect, Harmless, Level, like
from interlock.engine.analysis.values import UNKNOWN, Arg, without_marks

__all__ = ["misfit", "prints_exactly"]

_PATH: Final = re.compile(r"^[/~]|(?:^|/)\.\.(?:/|$)|(?:^|/)\.env")  # a place that no proof reads, if it is one
_TAKES: Final = "eFvdt"  # options with a value wherever they are known
_SYNTAX: Final = frozenset({"(", ")", "!", ","})  # of find
_NUMBER: Final = re.compile(r"[-+]\d+")
_FOUND: Final = ("found", "filtered")
# sed: an optional address or two, and a command that only prints, deletes or replaces
# In a bracket, the delimiter is a character for some sed and ends the pattern for others: it may not stand there.
_BRACKET: Final = r"\[\^?\]?(?:\[[:.=][a-z]+[:.=]\]|(?!DELIMITER)[^\]\[\\\n]|\\[^\]\n])*\]"
_PATTERN: Final = rf"(?:{_BRACKET}|(?!DELIMITER)[^\[\\\n]|\\.)*"
_ADDRESS: Final = rf"(?:\d+|\$|/{_PATTERN.replace('DELIMITER', '/')}/I?|\d+~\d+)"
_SUBSTITUTE: Final = (
    rf"s(?P<d>[/|#,:@!%;~?=+_]){_PATTERN.replace('DELIMITER', '(?P=d)')}(?P=d)"
    r"(?:(?!(?P=d))[^\\\n]|\\.)*(?P=d)[gpIi0-9]*"
)
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
        reason = _level_misfit(level, harmless, scan, asked, named=inner is not None)
        if reason or inner is None:
            return reason
        args = scan.rest
        if level.anywhere:
            short, long, attached = short + inner.short, long | inner.long, attached | inner.attached
        else:
            short, long, attached = inner.short, inner.long, inner.attached
        level = inner


def _level_misfit(level: Level, h: Harmless, scan: _Scan, asked: Callable[[str], bool], *, named: bool) -> str:
    texts = [a.text for a in scan.operands]
    given = {name for name, _ in scan.options}
    if level.commands:
        if (texts and not named) or len(texts) < h.least:
            return "a subcommand that is not known"
    elif not h.least <= len(texts) <= h.operands or (h.like and not all(like(t, h.like) for t in texts)):
        return "operands that are not known to be harmless"
    if any(_several(a) for a in scan.operands) and _counted(level, h, scan.operands, given):
        return "names where it matters how many there are"
    if h.unlike and not h.arguments and not all(a.known for a in scan.operands) and not _reads(level):
        return "an argument that may do harm"
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
    if h.script == "awk" and scan.operands and not _awk_prints(scan.operands[0].text):
        return "a script that may do more than print"
    if h.script != "sed":
        return ""
    scripts = [v for name, v in scan.options if name in ("-e", "--expression") and v is not None]
    scripts = scripts or [a.text for a in scan.operands[:1]]
    return "" if scripts and all(_sed_prints(s) for s in scripts) else "a script that may do more than print"


def _awk_prints(program: str) -> bool:
    """Whether no `>` or `|` stands behind a `print`, where it would open a file or run a command."""
    text = re.sub(r"\|\||(?<!>)>=", "", program)
    return "print" not in text or not re.search(r"[>|]", text[text.index("print") :])


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
_SELECTING: Final = re.compile(r"-[viEFwx]+")  # grep: whole lines of what comes on standard input
# Programs and options that give whole lines of what comes on standard input, each with a line's end.
_PASSING: Final = {
    "cat": re.compile(r"-u"),
    "head": re.compile(r"-n?\d+"),
    "sort": re.compile(r"-[nruVf]+"),
    "tail": re.compile(r"-n?\d+"),
    "uniq": re.compile(r"-u"),
}
# printf: a format that sets no variable (`%n`, `-v`); and one without numbers, for which some shells compute
_FORMAT: Final = re.compile(r"(?!-)(?:[^%]|%[-+ #0-9.]*[diouxXeEfFgGcsbq%]|%\([^()]*\)T)*")
# test: operators for which some shells compute their operands, and what may stand beside them
_COMPARES: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-t"})
_PLAIN_NUMBER: Final = re.compile(
    r"[-+]?(?:[0-9]+(?:\.[0-9]+)?|0[xX][0-9a-fA-F]+)|-(?:eq|ne|lt|le|gt|ge|t|a|o)|[]!()]|"
)
_TEXT_FORMAT: Final = re.compile(r"(?!-)(?:[^%]|%[-0-9.]*[sbqc%])*")


def prints_exactly(program: str, args: Sequence[Arg]) -> bool:
    """Whether what the command prints is just what the walk takes it for, so that it may become arguments."""
    texts = [a.text for a in args]
    if program in ("echo", "printf"):
        if any(a.glob for a in args):
            return False
        return not any("\\" in t or "%" in t.replace("%s", "") or t[:1] == "-" for t in texts)
    if program in ("grep", "egrep", "fgrep"):
        return all(_SELECTING.fullmatch(t) for t in texts[:-1]) and texts[-1:] != [] and texts[-1][:1] != "-"
    if program in ("find", "gfind"):
        return not _REWRITES & set(texts) or ("-print0" in texts and not (_REWRITES - {"-print0"}) & set(texts))
    return program in _PASSING and all(_PASSING[program].fullmatch(t) for t in texts)


# -- reading the arguments strictly ---------------------------------------------------------------------------------


def _scanned(level: Level, h: Harmless, args: Sequence[Arg]) -> _Scan | str:
    """The arguments, each option spelled out and known; else why not."""
    if h.arguments == "any":
        return _any(h, args)
    options: list[tuple[str, str | None]] = []
    operands: list[Arg] = []
    i, opened = 0, False
    while i < len(args):
        arg = args[i]
        i += 1
        if arg.text == "--":
            operands.extend(args[i:])
            break
        if not _is_option(arg, h):
            if not _certain(arg):
                return "an argument that is not known"
            if h.inner and (opened or options) and arg.text not in _SYNTAX:
                return "a path behind an expression"
            opened = opened or arg.text in _SYNTAX
            operands.append(arg)
            if level.leading:
                return _Scan(options, operands, args[i:]) if not _several(arg) else "names where a word is expected"
            continue
        found = _option(level, h, arg.text)
        if found is None or not arg.known:
            return "an option that is not known to be harmless"
        for name, value, takes in found:
            if takes:
                if i >= len(args) or not _is_value(args[i], h):
                    return "an option's value that is not known"
                value, i = args[i].text, i + 1
                if _PATH.search(value) and _doubtful(level, h, name):
                    return "an option's value that may be a path"
            if name in h.inner:
                end = next((k for k in range(i, len(args)) if args[k].text in (";", "+")), len(args))
                if end < len(args) and args[end].text == "+" and args[end - 1].text != "{}":
                    return "a command whose end is not certain"  # only `{} +` ends one
                i = end + 1
            if name not in h.options and not (value is not None and like(value, h.values.get(name, ()))):
                return "an option that is not known to be harmless"
            options.append((name, value))
    return _Scan(options, operands, ()) if all(_certain(a) for a in operands) else "not known"


def _any(h: Harmless, args: Sequence[Arg]) -> _Scan | str:
    """Arguments of which none does harm; where some do, each must be known, and be one."""
    if not h.unlike:
        return _Scan([], [], ())
    texts = args
    if h.script == "printf" and args:
        if _several(args[0]) or not _FORMAT.fullmatch(args[0].text):
            return "a format that may do more than print"
        texts = args[:1] if _TEXT_FORMAT.fullmatch(args[0].text) else args
    if any(a.glob or not _certain(a) for a in texts):
        return "an argument that is not known"
    numbers = texts[1:] if h.script == "printf" else texts if _COMPARES & {a.text for a in args} else ()
    if not all(_PLAIN_NUMBER.fullmatch(a.text) for a in numbers):
        return "arithmetic that is not proven"
    return _Scan([], list(args), ())


def _reads(level: Level) -> bool:
    """Whether the operands are files that are read, so that their names do no harm."""
    return any(effect.kind == "read" and {"all", "rest"} & set(effect.of) for effect in level.effects)


def _several(arg: Arg) -> bool:
    """Whether the argument may be any number of names: a glob, or what a search found."""
    return arg.glob or not arg.known


def _counted(level: Level, h: Harmless, operands: Sequence[Arg], given: Collection[str]) -> bool:
    """Whether it matters how many names there are: there is a bound, or the first operand is no path."""
    effects = [e for e in level.effects if not _is_off(e, given)]
    placed = any(one not in ("all", "stdin") and one[0] != "-" for effect in effects for one in effect.of)
    return h.operands < UNBOUNDED or bool(h.like) or (placed and _several(operands[0]))


def _is_off(effect: Effect, given: Collection[str]) -> bool:
    """Whether one of the options is given without which alone there is the effect."""
    unless = effect.unless
    return unless is not None and unless == Condition(any=unless.any) and any(name in given for name in unless.any)


def _is_option(arg: Arg, h: Harmless) -> bool:
    text = arg.text
    return len(text) > 1 and text[0] == "-" and not (h.numbers and bool(_NUMBER.fullmatch(text)))


def _is_value(arg: Arg, h: Harmless) -> bool:
    """Whether the argument can only be an option's value, also for a program that takes none there.

    find is strict: its tests take a value in any case, and more words than one, which a glob may give, are an error.
    """
    plain = not arg.glob and (len(arg.text) < 2 or arg.text[0] != "-" or bool(_NUMBER.fullmatch(arg.text)))
    return _certain(arg) and (plain or bool(h.inner))


def _doubtful(level: Level, h: Harmless, option: str) -> bool:
    """Whether a program of the same name on another system may take no value there, so that it would be a file."""
    return (
        len(option) == 2 and option[1] not in _TAKES and not h.inner and not any(option in e.of for e in level.effects)
    )


def _certain(arg: Arg) -> bool:
    """Whether the argument is one word that is known, or a name below a known directory that a search found."""
    text, unknown, rest = arg.text.partition(UNKNOWN)
    if not unknown:
        return text == without_marks(text)
    return arg.taint in _FOUND and text.endswith("/") and text[:1] != "-" and not rest


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
