"""How long a new version is only watched before it is in force: a monitor window, as people write it."""

from __future__ import annotations

import re
from typing import Final

from interlock.base.clock import MICROSECONDS
from interlock.base.errors import BadInput, one_line

__all__ = ["MAX_WINDOW", "parse_window", "shown_time"]

_UNITS: Final = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
MAX_WINDOW: Final = 90 * 86_400 * MICROSECONDS  # as long as the signature of a ring stands
_TEXT: Final = re.compile(r"([0-9]{1,7})([dhms])", re.ASCII)


def parse_window(text: str) -> int:
    """A window such as 7d, 12h, 30m or 90s in microseconds; 0s is none. Raises: BadInput."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise BadInput("is no window", where=one_line(text, 40), fix="write it like 7d, 12h, 30m or 90s")
    window = int(found[1]) * _UNITS[found[2]] * MICROSECONDS
    if window > MAX_WINDOW:
        raise BadInput("is longer than 90 days", where=one_line(text, 40), fix="pin the version instead")
    return window


def shown_time(us: int) -> str:
    """A length of time as a person says it, in its two largest units: "6 d 2 h"; below a second "0 s"."""
    left, parts = max(0, us) // MICROSECONDS, []
    for unit, seconds in _UNITS.items():
        count, left = divmod(left, seconds)
        parts += [f"{count} {unit}"] if count else []
    return " ".join(parts[:2]) or "0 s"
