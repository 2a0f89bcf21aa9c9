"""Splitting a program's arguments into flags, option values and operands."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from interlock.engine.analysis.values import Arg

__all__ = ["Options", "split"]


class Options(NamedTuple):
    """`flags` holds "-x" and "--long" as given; `values` the last value of each option that takes one.

    `given` are all options with a value in their order; operands from `cut` on stand behind a `--` (-1: there is none).
    """

    flags: frozenset[str]
    values: dict[str, Arg]
    operands: tuple[Arg, ...]
    given: tuple[tuple[str, Arg], ...] = ()
    cut: int = -1

    def has(self, *names: str) -> bool:
        """Whether one of `names` was given; GNU programs and git accept a long option cut short (`--forc`)."""
        if any(name in self.flags for name in names):
            return True
        short = [f for f in self.flags if len(f) >= 5 and f[:2] == "--"]
        return any(name.startswith(f) for f in short for name in names)


def split(
    args: Sequence[Arg],
    short: str = "",
    long: Collection[str] = (),
    *,
    leading: bool = False,
    attached: Collection[str] = (),
) -> Options:
    """Split `args`. `short` holds the letters and `long` the names ("--user") that take a value.

    Options and operands mix as in GNU programs; with `leading` the first operand ends the options (as in wrappers).
    What stands behind an option of `attached` in the same argument is its value (`-i.bak`).
    """
    flags: set[str] = set()
    given: list[tuple[str, Arg]] = []
    operands: list[Arg] = []
    i, n, cut = 0, len(args), -1
    while i < n:
        text = args[i].text
        i += 1
        if text == "--":
            cut = len(operands)
            operands.extend(args[i:])
            break
        if text.startswith("--"):
            name, equals, value = text.partition("=")
            flags.add(name)
            if equals:
                given.append((name, args[i - 1]._replace(text=value)))
            elif name in long and i < n:
                given.append((name, args[i]))
                i += 1
        elif len(text) > 1 and text[0] in "-" and not text[1:2].isspace():
            i = _cluster(args, i, short, long, attached, flags, given)
        else:
            operands.append(args[i - 1])
            if leading:
                operands.extend(args[i:])
                break
    return Options(frozenset(flags), dict(given), tuple(operands), tuple(given), cut)


def _cluster(
    args: Sequence[Arg],
    i: int,
    short: str,
    long: Collection[str],
    attached: Collection[str],
    flags: set[str],
    given: list[tuple[str, Arg]],
) -> int:
    """`-abc` or `-chdir=x`; returns the index of the next argument."""
    arg = args[i - 1]
    name, equals, value = arg.text.partition("=")
    if name in long:
        flags.add(name)
        if not equals and i < len(args):
            given.append((name, args[i]))
            return i + 1
        given.append((name, arg._replace(text=value)))
        return i
    flags.add(arg.text)
    for k, letter in enumerate(arg.text[1:], 2):
        flags.add("-" + letter)
        rest = arg.text[k:]
        if "-" + letter in attached:
            if rest:
                given.append(("-" + letter, arg._replace(text=rest)))
            return i
        if letter in short:
            if rest:
                given.append(("-" + letter, arg._replace(text=rest)))
            elif i < len(args):
                given.append(("-" + letter, args[i]))
                return i + 1
            return i
    return i
