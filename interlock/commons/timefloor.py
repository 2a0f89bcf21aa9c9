"""The time by which signatures end: the wall clock, but never earlier than what witnesses have shown to have passed.

HOME/clock.json keeps three times. `floor` follows the median of the times at which the newest checkpoint was cosigned,
and is never raised to more than MAX_AHEAD_US over the local clock: a clock that is set back cannot make ended
signatures good again, and witnesses that lie cannot move time by more than a day. `cosigned` is that median as it is.
`ends` is when an offline node has held what it has for as long as it was told to, 0 for a node with a network.
The operator can let go of the floor (`interlock mesh clock --reset`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from interlock.base.clock import MICROSECONDS, rfc3339
from interlock.base.files import BadState, private_dir, read_bounded, replace, stamped, unstamped

__all__ = [
    "CLOCK",
    "behind",
    "cosigned_us",
    "held_until",
    "median_us",
    "raise_floor",
    "read_floor",
    "reset_floor",
    "trusted_now",
]

CLOCK: Final = "clock.json"
MAX_AHEAD_US: Final = 24 * 3600 * MICROSECONDS
SLACK_US: Final = 300 * MICROSECONDS  # a wall clock this much below the floor is called right
_LAST_US: Final = 253_402_300_799 * MICROSECONDS  # of the year 9999, as in cosignatures
_FORMAT: Final = "interlock-clock"
_LIMIT: Final = 4096


def trusted_now(home: Path, now_us: int) -> int:
    """The wall clock's time, or the floor where that is later. Raises: BadState, NewerFormat."""
    return max(now_us, read_floor(home))


def read_floor(home: Path) -> int:
    """The floor in microseconds, 0 where there is none. Raises: BadState, NewerFormat."""
    return _read(home)[0]


def cosigned_us(home: Path) -> int:
    """When the newest checkpoint that this node accepted was cosigned; 0 before the first. Raises: as `read_floor`."""
    return _read(home)[1]


def behind(home: Path, now_us: int) -> str:
    """What is wrong with a wall clock that is below the floor, '' where it is not. Raises: as `read_floor`."""
    floor = read_floor(home)
    if now_us >= floor - SLACK_US:
        return ""
    return f"the clock says {rfc3339(now_us)}, and witnesses have signed at {rfc3339(floor)}"


def median_us(seconds: Iterable[int]) -> int:
    """The median of cosignature times (POSIX seconds), the earlier of two in the middle; 0 where there is none."""
    times = sorted(seconds)
    return times[(len(times) - 1) // 2] * MICROSECONDS if times else 0


def held_until(home: Path) -> int:
    """When an offline node has held what it has for as long as it was told to; 0 for one with a network.

    Raises: as `read_floor`.
    """
    return _read(home)[2]


def raise_floor(home: Path, cosigned: int, now_us: int, offline_us: int = 0) -> None:
    """Take in that a checkpoint was cosigned at this time, in microseconds; for how long an offline node may hold it.

    Raises: NotWritable, BadState.
    """
    before = _read(home)
    newest = max(before[1], cosigned)
    floor = max(before[0], min(cosigned, now_us + MAX_AHEAD_US))
    after = floor, newest, newest + offline_us if offline_us else 0
    if after != before:
        _write(home, *after)


def reset_floor(home: Path) -> None:
    """Let go of the floor; the next update sets it anew. Raises: NotWritable, BadState."""
    _, cosigned, ends = _read(home)
    _write(home, 0, cosigned, ends)


def _read(home: Path) -> tuple[int, int, int]:
    path = home / CLOCK
    if not path.exists():
        return 0, 0, 0
    body = unstamped(read_bounded(path, _LIMIT), _FORMAT, 1, where=str(path))
    floor, cosigned, ends = (body.get(key, 0) for key in ("floor", "cosigned", "ends"))
    if (
        not (isinstance(floor, int) and isinstance(cosigned, int) and isinstance(ends, int))
        or min(floor, cosigned, ends) < 0
        or max(floor, cosigned) > _LAST_US
    ):
        raise BadState("is damaged", where=str(path), fix="remove it; the next update writes it anew")
    return floor, cosigned, ends


def _write(home: Path, floor: int, cosigned: int, ends: int) -> None:
    private_dir(home)
    replace(home / CLOCK, stamped(_FORMAT, 1, {"floor": floor, "cosigned": cosigned, "ends": ends}))
