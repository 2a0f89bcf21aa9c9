"""What is known of a word's value before anything runs: its text, with marks where it is unknown."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = [
    "EMPTY",
    "HOME",
    "SELF",
    "UNKNOWN",
    "UNKNOWN_ARG",
    "WORK",
    "Arg",
    "base_name",
    "joined",
    "quoted",
    "shown",
    "whole_number",
    "without_marks",
]

# Marks are control characters that `without_marks` takes out of every text that is judged.
UNKNOWN: Final = "\x00"  # some text that only the shell will know
HOME: Final = "\x01"  # the user's home directory
SELF: Final = "\x02"  # `$0`: the running shell or script
WORK: Final = "\x03"  # the directory the agent works in, where the event does not say which
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:=@%+,-]+")
_STRIP: Final = dict.fromkeys(map(ord, UNKNOWN + HOME + SELF + WORK))
_SHOWN: Final = {ord(UNKNOWN): "...", ord(HOME): "~", ord(SELF): "$0", ord(WORK): "."}


class Arg(NamedTuple):
    """One word after expansion. `glob` where `*?[` in it are live; `taint` is where unknown text came from.

    Taints: "net" (downloaded), "decoded" (base64 and the like), "secret" (read from a secret's place), "found"
    (file names found by a search), "filtered" (found by a narrowed search), "text" (rewritten by a filter),
        "shell" (a shell's), "guard" (our processes).
    """

    text: str
    glob: bool = False
    taint: str = ""

    @property
    def known(self) -> bool:
        return UNKNOWN not in self.text


EMPTY: Final = Arg("")
UNKNOWN_ARG: Final = Arg(UNKNOWN)


def without_marks(text: str) -> str:
    """The text without the characters that we use as marks."""
    return text.translate(_STRIP)


def shown(text: str) -> str:
    """A value as people may see it."""
    return text.translate(_SHOWN)


def base_name(path: str) -> str:
    """A program's name without its directory and `.exe`."""
    return path.rstrip("/").rpartition("/")[2].removesuffix(".exe") if "/" in path else path.removesuffix(".exe")


def joined(a: Arg, b: Arg) -> Arg:
    """What two commands print after each other."""
    if not a.text:
        return b
    return a if not b.text else Arg((a.text + b.text)[:65536], a.glob or b.glob, a.taint or b.taint)


def whole_number(text: str) -> int | None:
    """The number that digits of ASCII stand for, cut to its first ten digits where it is longer; None for others."""
    if not (text.isascii() and text.isdigit()):
        return None
    return int(text.lstrip("0")[:10] or "0")


def quoted(arg: Arg) -> str:
    """The word as a shell would read it back."""
    return arg.text if arg.glob or _PLAIN.fullmatch(arg.text) else "'" + arg.text.replace("'", "'\\''") + "'"
