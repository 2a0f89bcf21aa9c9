"""Patterns in the spelling that the native engine compiles: the tree of a regex or glob, every character by number.

Nothing is left to interpret: sets are written out as code points, groups only group, and an assertion is one of three.
Half a surrogate pair, which no text of the native engine can hold, is left out of the sets.
"""

from __future__ import annotations

from typing import Final

from interlock.engine.policy.regex_syntax import Assertion, Chars, Choice, Concat, Node, Ranges

__all__ = ["Unspellable", "spelling"]

_EMPTY: Final = "(?:)"
_PLACES: Final = {"start": r"\A", "end": r"\z", "word": r"(?-u:\b)"}
_NOTHING: Final = r"[^\x{0}-\x{10ffff}]"
_HALVES: Final = (0xD800, 0xDFFF)


class Unspellable(Exception):
    """A tree that the native engine would read in another way; says why."""


def spelling(node: Node, unicode: bool) -> str:
    r"""The native spelling of a tree. Raises: Unspellable, for \b with flag u: what a word is differs there."""
    if isinstance(node, Chars):
        return _set(node.ranges)
    if isinstance(node, Assertion):
        if node.kind == "word" and unicode:
            raise Unspellable(r"its regex has \b with flag u")
        return _PLACES[node.kind]
    if isinstance(node, Concat):
        return "".join(spelling(item, unicode) for item in node.items) or _EMPTY
    if isinstance(node, Choice):
        return "(?:" + "|".join(spelling(item, unicode) for item in node.items) + ")"
    most = "" if node.most is None else node.most
    return f"(?:{spelling(node.item, unicode)}){{{node.least},{most}}}"


def _set(ranges: Ranges) -> str:
    spans = [
        span for low, high in ranges for span in ((low, min(high, _HALVES[0] - 1)), (max(low, _HALVES[1] + 1), high))
    ]
    kept = [rf"\x{{{low:x}}}-\x{{{high:x}}}" for low, high in spans if low <= high]
    return f"[{''.join(kept)}]" if kept else _NOTHING
