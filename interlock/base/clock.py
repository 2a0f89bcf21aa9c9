"""Time as an argument: a clock is passed in, so that tests and simulations own it."""

from __future__ import annotations

import time
from typing import Final, Protocol

__all__ = ["DAY_US", "MICROSECONDS", "Clock", "ManualClock", "SystemClock", "rfc3339"]

MICROSECONDS: Final = 1_000_000
DAY_US: Final = 86_400 * MICROSECONDS


class Clock(Protocol):
    """Anything that tells the time, in integer microseconds UTC since 1970."""

    def now_us(self) -> int: ...


class SystemClock:
    """The machine's wall clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1000


class ManualClock:
    """A clock that moves only when it is told to; for tests and simulations."""

    def __init__(self, now_us: int = 1_800_000_000 * MICROSECONDS) -> None:
        self._now_us = now_us

    def now_us(self) -> int:
        return self._now_us

    def advance(self, seconds: float) -> None:
        self._now_us += round(seconds * MICROSECONDS)


def rfc3339(us: int) -> str:
    """What people see of a time: RFC 3339 in UTC, whole seconds unless there is a fraction."""
    seconds, fraction = divmod(us, MICROSECONDS)
    day = time.gmtime(seconds)
    shown = f"{day.tm_year:04}-{day.tm_mon:02}-{day.tm_mday:02}T{day.tm_hour:02}:{day.tm_min:02}:{day.tm_sec:02}"
    return f"{shown}.{fraction:06}Z" if fraction else f"{shown}Z"
