"""Lengths of time as people write and read them: a monitor window, the age that a bundle may have."""

from __future__ import annotations

import re
from typing import Final

from interlock.base.clock import DAY_US, MICROSECONDS
from interlock.base.errors import BadInput, one_line

__all__ = ["MAX_WINDOW", "length_us", "parse_window", "shown_time"]

_UNITS: Final = {"w": 7 * 86_400, "d": 86_400, "h": 3600, "m": 60, "s": 1}
MAX_WINDOW: Final = 90 * DAY_US  # as long as the signature of a ring stands
_TEXT: Final = re.compile(r"([0-9]{1,7})([wdhms])", re.ASCII)


def length_us(text: str) -> int:
    """A length such as 2w, 7d, 12h, 30m or 90s in microseconds. Raises: BadInput."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise BadInput("is no length of time", where=one_line(text, 40), fix="write it like 7d, 12h, 30m or 90s")
    return int(found[1]) * _UNITS[found[2]] * MICROSECONDS


def parse_window(text: str) -> int:
    """How long a new version is only watched before it is in force; 0s is no window. Raises: BadInput."""
    window = length_us(text)
    if window > MAX_WINDOW:
        raise BadInput("is longer than 90 days", where=one_line(text, 40), fix="pin the version instead")
    return window


def shown_time(us: int) -> str:
    """A length of time as a person says it, in its two largest units: "6 d 2 h"; below a second "0 s"."""
    left, parts = max(0, us) // MICROSECONDS, []
    for unit in "dhms":
        count, left = divmod(left, _UNITS[unit])
        parts += [f"{count} {unit}"] if count else []
    return " ".join(parts[:2]) or "0 s"
