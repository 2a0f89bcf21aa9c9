"""Globs: `*` any text, `?` one character, `[a-z]` and `[!a-z]` one of a set; all else stands for itself.

A glob matches the whole text, minds the case, and gives no sign a meaning of its own: `*` crosses `/` and line feeds.
Linear in the text: a glob of stars and literals is searched piece by piece, any other runs on the regex automaton.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from interlock.engine.policy.regex_automaton import Automaton
from interlock.engine.policy.regex_syntax import (
    ANY,
    MAX_PATTERN,
    Assertion,
    BadPattern,
    Chars,
    Concat,
    Node,
    Ranges,
    Repeat,
    complement,
    union,
)

__all__ = ["compile_glob", "glob_tree"]

_STAR: Final = Repeat(Chars(ANY), 0, None)


def compile_glob(pattern: str) -> Callable[[str], bool]:
    """A function that says whether a text matches. Raises: BadPattern."""
    if len(pattern) > MAX_PATTERN:
        raise BadPattern(f"glob is longer than {MAX_PATTERN} characters")
    if "?" not in pattern and "[" not in pattern:
        return _pieces(pattern)
    return Automaton(glob_tree(pattern), unicode=False).matches


def glob_tree(pattern: str) -> Node:
    """The tree of a glob, as a regex over the whole text. Raises: BadPattern."""
    return Concat((Assertion("start"), *_nodes(pattern), Assertion("end")))


def _pieces(pattern: str) -> Callable[[str], bool]:
    """Stars and literals only. Taking each piece at its first place is enough: it leaves the most for the rest."""
    first, *rest = pattern.split("*")
    if not rest:
        return lambda text: text == pattern
    last = rest.pop()
    middle = [piece for piece in rest if piece]

    def matches(text: str) -> bool:
        if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
            return False
        at, end = len(first), len(text) - len(last)
        for piece in middle:
            found = text.find(piece, at, end)
            if found < 0:
                return False
            at = found + len(piece)
        return True

    return matches


def _nodes(pattern: str) -> list[Node]:
    nodes: list[Node] = []
    at = 0
    while at < len(pattern):
        sign = pattern[at]
        if sign == "[":
            ranges, at = _set(pattern, at)
            nodes.append(Chars(ranges))
            continue
        at += 1
        if sign != "*":
            nodes.append(Chars(ANY if sign == "?" else ((ord(sign), ord(sign)),)))
        elif not (nodes and nodes[-1] is _STAR):
            nodes.append(_STAR)
    return nodes


def _set(pattern: str, start: int) -> tuple[Ranges, int]:
    """The characters of a set, and where it ends. A `]` that comes first stands for itself."""
    at = start + 1
    negated = pattern.startswith("!", at)
    at += negated
    end = pattern.find("]", at + 1)
    if end < 0:
        raise BadPattern(f"glob, character {start + 1}: this set is not closed; write [[] for the character")
    body, held = pattern[at:end], list[Ranges]()
    at = 0
    while at < len(body):
        low = high = ord(body[at])
        if body[at + 1 : at + 2] == "-" and at + 2 < len(body):
            high, at = ord(body[at + 2]), at + 2
        if high < low:
            raise BadPattern(f"glob, character {start + 1}: a range in this set is empty (its end before its start)")
        held.append(((low, high),))
        at += 1
    ranges = union(*held)
    return (complement(ranges) if negated else ranges), end + 1
