"""The regex syntax of the policy language: a pattern's text in, a small tree out.

    a \\. \\n \\t \\r \\f \\v \\xHH \\uHHHH    one character; any other escaped sign stands for itself
    .                                   any character but a line feed (with flag s: any)
    [a-z_] [^...] \\d \\w \\s \\D \\W \\S      classes; ASCII, with flag u Unicode
    x|y  (x)  (?:x)                     alternation and groups; both kinds of group only group
    x* x+ x? x{3} x{3,} x{3,5}          repetition
    ^ $ \\b                              start of text, end of text (never before a last line feed), word boundary

Flags: i (case does not matter: of ASCII letters, with u of all), s, u; given apart or as a prefix `(?i)`.
There is no backreference, lookaround, lazy or possessive repetition and no flag m: none changes what a linear
automaton could say, or it could not say it. All are refused, with the position of the character (the first is 1).
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from interlock.base.errors import InterlockError

__all__ = [
    "ANY",
    "FLAGS",
    "MAX_COUNT",
    "MAX_GROUP_DEPTH",
    "MAX_PATTERN",
    "Assertion",
    "BadPattern",
    "Chars",
    "Choice",
    "Concat",
    "Node",
    "Ranges",
    "Repeat",
    "complement",
    "parse",
    "union",
    "word_ranges",
]

MAX_PATTERN: Final = 4096  # characters in a pattern
MAX_GROUP_DEPTH: Final = 32  # groups within groups
MAX_COUNT: Final = 1000  # the highest number in {m,n}
FLAGS: Final = "isu"

Ranges: TypeAlias = tuple[tuple[int, int], ...]  # code points, both ends included; sorted, apart


class BadPattern(InterlockError):
    """A pattern outside the syntax; says at which character."""

    code = "bad-policy"


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Assertion:
    """A place between characters."""

    kind: Literal["start", "end", "word"]


@dataclass(frozen=True, slots=True)
class Concat:
    """One after the other; with no item, the empty text."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any one of the items."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`item` from `least` to `most` times; None is without bound."""

    item: Node
    least: int
    most: int | None


Node: TypeAlias = Chars | Assertion | Concat | Choice | Repeat

ANY: Final[Ranges] = ((0, sys.maxunicode),)
_DIGIT: Final[Ranges] = ((0x30, 0x39),)
_WORD: Final[Ranges] = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE: Final[Ranges] = ((0x09, 0x0D), (0x20, 0x20))
_CONTROL: Final = {"n": 0x0A, "r": 0x0D, "t": 0x09, "f": 0x0C, "v": 0x0B}


def parse(pattern: str, flags: str = "") -> tuple[Node, bool]:
    """The tree of a pattern, and whether flag u is on (which decides what `\\b` calls a word).

    Raises: BadPattern.
    """
    if len(pattern) > MAX_PATTERN:
        raise BadPattern(f"regex is longer than {MAX_PATTERN} characters")
    parser = _Parser(pattern, flags)
    node = parser.choice(0)
    if parser.at < len(pattern):
        raise parser.bad("')' closes no group; write \\) for the character")
    return node, parser.unicode


def union(*many: Ranges) -> Ranges:
    """All the characters of the given sets."""
    out: list[tuple[int, int]] = []
    for low, high in sorted(r for ranges in many for r in ranges):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return tuple(out)


def complement(ranges: Ranges) -> Ranges:
    """All characters but these."""
    out, start = [], 0
    for low, high in ranges:
        if start < low:
            out.append((start, low - 1))
        start = high + 1
    if start <= sys.maxunicode:
        out.append((start, sys.maxunicode))
    return tuple(out)


def word_ranges(unicode: bool) -> Ranges:
    """What `\\w` and `\\b` call a word character."""
    return _unicode_class("w") if unicode else _WORD


@functools.cache
def _unicode_class(letter: str) -> Ranges:
    """A Unicode class, counted out once; the same definitions as Python's own `re`."""
    out: list[tuple[int, int]] = []
    for point in range(sys.maxunicode + 1):
        char = chr(point)
        if letter == "d":
            held = char.isdecimal()
        elif letter == "s":
            held = char.isspace()
        else:
            held = char.isalnum() or char == "_"
        if not held:
            continue
        if out and out[-1][1] == point - 1:
            out[-1] = (out[-1][0], point)
        else:
            out.append((point, point))
    return tuple(out)


@functools.cache
def _unicode_cases() -> tuple[tuple[int, frozenset[int]], ...]:
    """(code point, its other cases) for each character that has one; only cases that are one character."""
    groups: dict[str, set[int]] = {}
    for point in range(sys.maxunicode + 1):
        char = chr(point)
        if char.lower() != char or char.upper() != char:
            for key in {char.lower(), char.upper().lower()}:
                if len(key) == 1:
                    groups.setdefault(key, {ord(key)}).add(point)
    others: dict[int, set[int]] = {}
    for members in groups.values():
        for point in members:
            others.setdefault(point, set()).update(members)
    return tuple((point, frozenset(more)) for point, more in sorted(others.items()))


def _folded(ranges: Ranges, unicode: bool) -> Ranges:
    """The set with both cases of its letters."""
    if unicode:
        held = [more for point, more in _unicode_cases() if any(low <= point <= high for low, high in ranges)]
        return union(ranges, *(tuple((p, p) for p in more) for more in held))
    extra: list[tuple[int, int]] = []
    for low, high in ranges:
        for first, last, shift in ((0x41, 0x5A, 32), (0x61, 0x7A, -32)):
            a, b = max(low, first), min(high, last)
            if a <= b:
                extra.append((a + shift, b + shift))
    return union(ranges, tuple(extra))


class _Parser:
    """One pass over the pattern, from left to right; `at` is the next character."""

    def __init__(self, text: str, flags: str) -> None:
        self.text, self.at = text, 0
        prefix = self._prefix_flags()
        for flag in flags + prefix:
            if flag not in FLAGS:
                raise BadPattern(f"regex flag {flag!r} is not known; known: i, s, u")
        self.fold = "i" in flags + prefix
        self.dotall = "s" in flags + prefix
        self.unicode = "u" in flags + prefix

    def bad(self, what: str, at: int | None = None) -> BadPattern:
        position = (self.at if at is None else at) + 1
        return BadPattern(f"regex, character {position}: {what}")

    def choice(self, depth: int) -> Node:
        items = [self._concat(depth)]
        while self._skip("|"):
            items.append(self._concat(depth))
        return items[0] if len(items) == 1 else Choice(tuple(items))

    def _prefix_flags(self) -> str:
        if not self.text.startswith("(?"):
            return ""
        end = 2
        while self.text[end : end + 1].isascii() and self.text[end : end + 1].isalpha():
            end += 1
        if end == 2 or self.text[end : end + 1] != ")" or self.text[2] == "P":
            return ""
        self.at = end + 1
        return self.text[2:end]

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _skip(self, sign: str) -> bool:
        if self.text.startswith(sign, self.at):
            self.at += len(sign)
            return True
        return False

    def _concat(self, depth: int) -> Node:
        items: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            items.append(self._repeat(depth))
        return items[0] if len(items) == 1 else Concat(tuple(items))

    def _repeat(self, depth: int) -> Node:
        start = self.at
        if self._peek() in ("*", "+", "?", "{"):
            raise self.bad(f"nothing to repeat before {self._peek()!r}; write \\{self._peek()} for the character")
        item = self._atom(depth)
        bounds = self._bounds()
        if bounds is None:
            return item
        if isinstance(item, Assertion) and self.text[start] != "(":
            raise self.bad("a place (^ $ \\b) cannot be repeated", start)
        if self._peek() in ("*", "+", "?", "{"):
            raise self.bad(
                "a repetition cannot be followed by another; lazy and possessive repetition do not exist here "
                "(whether a text matches is the same without)"
            )
        return Repeat(item, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._skip(sign):
                return bounds
        start = self.at
        if not self._skip("{"):
            return None
        least = self._number()
        most: int | None = least
        if self._skip(","):
            most = None if self._peek() == "}" else self._number()
        if least is None or not self._skip("}"):
            raise self.bad("a count is {3}, {3,} or {3,5}; write \\{ for the character", start)
        if most is not None and most < least:
            raise self.bad(f"a count from {least} to {most} has no number in it", start)
        return least, most

    def _number(self) -> int | None:
        start = self.at
        while self._peek() in tuple("0123456789"):
            self.at += 1
        digits = self.text[start : self.at]
        if len(digits) > 4 or (digits and int(digits) > MAX_COUNT):
            raise self.bad(f"a count goes up to {MAX_COUNT}", start)
        return int(digits) if digits else None

    def _atom(self, depth: int) -> Node:
        start, sign = self.at, self._peek()
        self.at += 1
        if sign == "(":
            return self._group(depth, start)
        if sign == "[":
            return Chars(self._class(start))
        if sign == "\\":
            return self._escape(start)
        if sign == ".":
            return Chars(ANY if self.dotall else complement(((0x0A, 0x0A),)))
        if sign in ("^", "$"):
            return Assertion("start" if sign == "^" else "end")
        return self._chars(((ord(sign), ord(sign)),))

    def _chars(self, ranges: Ranges) -> Chars:
        return Chars(_folded(ranges, self.unicode) if self.fold else ranges)

    def _group(self, depth: int, start: int) -> Node:
        if depth >= MAX_GROUP_DEPTH:
            raise self.bad(f"groups are nested deeper than {MAX_GROUP_DEPTH}", start)
        if self._peek() == "?" and not self._skip("?:"):
            raise self.bad(
                "only (...) and (?:...) are groups; there is no lookaround, named group or inner flag "
                "(flags stand at the very start, or in 'flags')",
                start,
            )
        node = self.choice(depth + 1)
        if not self._skip(")"):
            raise self.bad("this group is not closed; write \\( for the character", start)
        return node

    def _escape(self, start: int) -> Node:
        if self._peek() == "b":
            self.at += 1
            return Assertion("word")
        kind = self._peek()
        ranges = self._escaped(start)
        return Chars(ranges) if kind in tuple("dwsDWS") else self._chars(ranges)

    def _escaped(self, start: int) -> Ranges:
        """What stands after a backslash, in a class or outside one."""
        sign = self._peek()
        self.at += 1
        if sign and sign in "dwsDWS":
            ranges = self._named(sign.lower())
            return complement(ranges) if sign.isupper() else ranges
        if sign and sign in _CONTROL:
            return ((_CONTROL[sign], _CONTROL[sign]),)
        if sign and sign in "xu":
            return self._hex(2 if sign == "x" else 4, start)
        if sign and sign in "123456789":
            raise self.bad("there is no backreference", start)
        if not sign or (sign.isascii() and sign.isalnum()):
            raise self.bad(
                f"\\{sign} is not an escape; known: \\d \\w \\s \\D \\W \\S \\b \\n \\r \\t \\f \\v \\xHH", start
            )
        return ((ord(sign), ord(sign)),)

    def _hex(self, length: int, start: int) -> Ranges:
        digits = self.text[self.at : self.at + length]
        if len(digits) < length or any(d not in "0123456789abcdefABCDEF" for d in digits):
            raise self.bad(f"needs {length} hexadecimal digits", start)
        self.at += length
        return ((int(digits, 16), int(digits, 16)),)

    def _named(self, letter: str) -> Ranges:
        if self.unicode:
            return _unicode_class(letter)
        return {"d": _DIGIT, "w": _WORD, "s": _SPACE}[letter]

    def _class(self, start: int) -> Ranges:
        negated = self._skip("^")
        if self._peek() == "]":
            raise self.bad("an empty class; write \\] for the character", start)
        held: list[Ranges] = []
        while not self._skip("]"):
            if not self._peek():
                raise self.bad("this class is not closed; write \\[ for the character", start)
            held.append(self._class_item())
        ranges = union(*held)
        if self.fold:
            ranges = _folded(ranges, self.unicode)
        return complement(ranges) if negated else ranges

    def _class_item(self) -> Ranges:
        start = self.at
        if self.text.startswith("[:", start):
            raise self.bad("there is no [:name:] class; use \\d, \\w, \\s or ranges", start)
        low = self._class_char()
        if self._peek() != "-" or self.text.startswith("-]", self.at) or self.at + 1 >= len(self.text):
            return low
        self.at += 1
        high = self._class_char()
        if len(low) != 1 or len(high) != 1 or low[0][0] != low[0][1] or high[0][0] != high[0][1]:
            raise self.bad("a range goes from one character to one character; write \\- for the sign", start)
        if high[0][0] < low[0][0]:
            raise self.bad("this range is empty (its end comes before its start)", start)
        return ((low[0][0], high[0][0]),)

    def _class_char(self) -> Ranges:
        start, sign = self.at, self._peek()
        self.at += 1
        if sign == "\\":
            return self._escaped(start)
        return ((ord(sign), ord(sign)),)
