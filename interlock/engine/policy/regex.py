"""The regexes of the policy language: linear in the text, whatever the pattern.

The syntax is that of `regex_syntax`. Python's `re` is used only for a pattern that is bounded by construction: no
unbounded repetition, and so few ways through it (each alternative and each count that may vary is one) that trying
them all at each place costs at most MAX_BACKTRACK steps. Every other pattern runs on our own automaton.
"""

from __future__ import annotations

import re
from typing import Final

from interlock.engine.policy.regex_automaton import Automaton, Meter, sure_length
from interlock.engine.policy.regex_syntax import Assertion, Chars, Choice, Concat, Node, Ranges, Repeat, parse

__all__ = ["MAX_BACKTRACK", "Regex", "compile", "judges_up_to"]

MAX_BACKTRACK: Final = 128  # ways through a pattern times its longest match, for `re` to be allowed
_MAX_RANGES: Final = 200  # ranges in the character sets of a pattern handed to `re`


class Regex:
    """A compiled pattern. Immutable to its users, and safe to share between threads."""

    __slots__ = ("_automaton", "_bounded", "_literal", "node", "pattern")

    def __init__(self, pattern: str, node: Node, unicode: bool) -> None:
        self.pattern = pattern
        self.node = node
        self._automaton = Automaton(node, unicode)
        self._bounded = _bounded(node, unicode)
        self._literal = _literal(node)

    def __repr__(self) -> str:
        return f"Regex({self.pattern!r})"

    def matches(self, text: str) -> bool:
        """Whether the text holds a match anywhere. Raises: TooCostly."""
        if self._bounded is not None:
            return self._bounded.search(text) is not None
        return self._literal in text and self._automaton.matches(text)

    def search(self, text: str) -> tuple[int, int] | None:
        """The leftmost match, and the longest that begins there, as (start, end). Raises: TooCostly."""
        return self._automaton.span(text) if self.matches(text) else None

    def steps(self, text: str) -> int:
        """How many steps our automaton takes to say whether the text matches. Raises: TooCostly."""
        meter = Meter()
        self._automaton.matches(text, meter)
        return meter.spent


def compile(pattern: str, flags: str = "") -> Regex:
    """Compile a pattern. Raises: BadPattern, naming the character that is wrong."""
    node, unicode = parse(pattern, flags)
    return Regex(pattern, node, unicode)


def _literal(node: Node) -> str:
    """The longest text that stands in every match, as far as the top of the tree says it."""
    found, run = "", ""
    for item in node.items if isinstance(node, Concat) else (node,):
        if isinstance(item, Assertion):
            continue
        times = (item.least, item.most) if isinstance(item, Repeat) else (1, 1)
        sign = item.item if isinstance(item, Repeat) else item
        if not isinstance(sign, Chars) or len(sign.ranges) != 1 or len(set(sign.ranges[0])) != 1:
            run = ""
            continue
        run += chr(sign.ranges[0][0]) * times[0]
        found = max(found, run, key=len)
        run = run if times[0] == times[1] else ""
    return found


def judges_up_to(node: Node, unicode: bool, needed: int, patient: bool = False) -> int:
    """Characters of a text that is never too costly for a tree; see `regex_automaton.sure_length`."""
    return needed if _is_bounded(node) else sure_length(node, unicode, needed, patient)


def _bounded(node: Node, unicode: bool) -> re.Pattern[str] | None:
    """The pattern for `re` where backtracking is bounded, else None."""
    return re.compile(_spelt(node), 0 if unicode else re.ASCII) if _is_bounded(node) else None


def _is_bounded(node: Node) -> bool:
    size = _ways(node)
    return size is not None and size[0] * max(size[1], 1) <= MAX_BACKTRACK and _count_ranges(node) <= _MAX_RANGES


def _ways(node: Node) -> tuple[int, int] | None:
    """(ways through the tree, characters in its longest match); None where either has no small bound."""
    if isinstance(node, Chars | Assertion):
        return 1, 1
    if isinstance(node, Concat | Choice):
        return _ways_of_all(node)
    one = _ways(node.item)
    if one is None or node.most is None or node.most > MAX_BACKTRACK:
        return None
    if one[0] > 1 and node.most > 1:
        # each round multiplies the ways; a sum of powers is soon too large to be worth counting
        return None
    ways = (node.most - node.least + 1) * max(one[0], 1)
    return ways, one[1] * node.most


def _ways_of_all(node: Concat | Choice) -> tuple[int, int] | None:
    ways, length = (1, 0) if isinstance(node, Concat) else (0, 0)
    for item in node.items:
        one = _ways(item)
        if one is None:
            return None
        if isinstance(node, Concat):
            ways, length = ways * one[0], length + one[1]
        else:
            ways, length = ways + one[0], max(length, one[1])
        if ways > MAX_BACKTRACK:
            return None
    return ways, length


def _count_ranges(node: Node) -> int:
    if isinstance(node, Chars):
        return len(node.ranges)
    if isinstance(node, Concat | Choice):
        return sum(_count_ranges(item) for item in node.items)
    return 0 if isinstance(node, Assertion) else _count_ranges(node.item)


def _spelt(node: Node) -> str:
    """The tree in the syntax of `re`: every character by number, so that nothing is left to interpret."""
    if isinstance(node, Chars):
        return _spelt_set(node.ranges)
    if isinstance(node, Assertion):
        return {"start": r"\A", "end": r"\Z", "word": r"\b"}[node.kind]
    if isinstance(node, Concat):
        return "".join(map(_spelt, node.items))
    if isinstance(node, Choice):
        return "(?:" + "|".join(map(_spelt, node.items)) + ")"
    assert node.most is not None, "an unbounded repetition is never handed to re"
    return f"(?:{_spelt(node.item)}){{{node.least},{node.most}}}"


def _spelt_set(ranges: Ranges) -> str:
    if not ranges:
        return r"[^\U00000000-\U0010ffff]"
    return "[" + "".join(rf"\U{low:08x}-\U{high:08x}" for low, high in ranges) + "]"
