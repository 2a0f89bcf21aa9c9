"""Whole numbers of more than 64 bits in a rule, by what they mean to the native engine, whose numbers are an `i64` or a
double: such a number is met by no `i64`, and by a double only where it is one.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["comparison", "equal_to"]

_INT: Final = range(-(1 << 63), 1 << 63)
_MOST: Final = sys.float_info.max
_NEVER: Final = ["lt", -_MOST]  # no number is less; what is no number is not compared


class _Never(Exception):
    """A value that none of the native engine's equals."""


def comparison(key: str, wanted: Any) -> list[object]:
    """A comparison (lt, le, gt, ge) with a number, as one with a number that the native engine has."""
    if not isinstance(wanted, int) or wanted in _INT:
        return [key, wanted]
    below, above = _around(wanted)
    if key in ("lt", "ge"):  # x < wanted where x < above, for there is no double between the two
        return [key, above] if math.isfinite(above) else ["le" if key == "lt" else "gt", _MOST]
    return [key, below] if math.isfinite(below) else ["lt" if key == "le" else "ge", -_MOST]


def equal_to(key: str, wanted: Any) -> list[object]:
    """`equals` a value or `in` a list of some, of values that the native engine has."""
    choices = wanted if key == "in" else [wanted]
    held = [one for choice in choices for one in _held_or_none(choice)]
    if not held:
        return list(_NEVER)
    return [key, held if key == "in" else held[0]]


def _held_or_none(value: object) -> list[object]:
    try:
        return [_held(value)]
    except _Never:
        return []


def _held(value: Any) -> object:
    """The value, its large numbers as doubles. Raises: _Never, where one of them is no double."""
    if isinstance(value, int) and value not in _INT:
        below, above = _around(value)
        if below != above:
            raise _Never
        return below
    if isinstance(value, Mapping):
        return {key: _held(held) for key, held in value.items()}
    return [_held(held) for held in value] if isinstance(value, list | tuple) else value


def _around(whole: int) -> tuple[float, float]:
    """The last double that is not above a number, and the first that is not below it."""
    try:
        near = float(whole)
    except OverflowError:
        return (_MOST, math.inf) if whole > 0 else (-math.inf, -_MOST)
    below = near if near <= whole else math.nextafter(near, -math.inf)
    return below, near if near >= whole else math.nextafter(near, math.inf)
