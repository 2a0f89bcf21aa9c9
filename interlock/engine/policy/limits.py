"""Limits: how much of an event a policy reads, and what happens to one that is larger.

    "limits": {"command": 65536, "argument": 262144, "result": 1048576, "values": 100000, "finds": 1024}
    "oversize": {"call": "escalate" | "block" | "allow", "result": "record" | "escalate" | "block"}

`command`, `argument` and `result` are bytes of UTF-8 of one text that a pattern (glob, regex) reads: of an argument
named command or cmd, of any other argument of a call, and of a result; the other operators read a text of any length.
`values` are the values that one path may reach; `finds` are those of one text that a mask replaces one by one: where
it finds more, it replaces the text whole and reads no further. "record" and "allow" go on with the head and the tail of
the text, as many whole characters as half the limit holds each, and `oversized` says which arguments were read in part;
"escalate" and "block" do not judge in part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Final

from interlock.base.canonical import plain
from interlock.engine.decision import Verdict
from interlock.engine.detectors.walk import MOST_FINDS
from interlock.engine.event import Phase, SensorEvent

__all__ = [
    "CEILINGS",
    "COMMAND_NAMES",
    "MEASURES",
    "OVERSIZE",
    "Limits",
    "Oversize",
    "Reading",
    "limit_of",
    "oversized",
    "strictest",
    "weaker_settings",
]

COMMAND_NAMES: Final = ("command", "cmd")
OVERSIZE: Final[Mapping[Phase, tuple[str, ...]]] = {
    "call": ("escalate", "block", "allow"),
    "result": ("record", "escalate", "block"),
}
_WIDEST: Final = 4  # bytes of a character
_VERDICTS: Final = {"block": Verdict.BLOCK, "escalate": Verdict.ESCALATE}


@dataclass(frozen=True, slots=True)
class Limits:
    """Named limits; each is at least 1 and at most its number in CEILINGS."""

    command: int = 1 << 16
    argument: int = 1 << 18
    result: int = 1 << 20
    values: int = 100_000
    finds: int = MOST_FINDS


CEILINGS: Final = {"command": 1 << 20, "argument": 1 << 24, "result": 1 << 26, "values": 1_000_000, "finds": 1_000_000}
MEASURES: Final = {
    "command": "bytes of UTF-8 that a pattern reads of an argument named command or cmd",
    "argument": "bytes of UTF-8 that a pattern reads of any other argument of a call",
    "result": "bytes of UTF-8 that a pattern reads of one text of a result",
    "values": "values that one path may reach",
    "finds": "values in one text that a mask replaces one by one",
}


@dataclass(frozen=True, slots=True)
class Oversize:
    """What becomes of an event with a text beyond the limits, by its phase: one of the words in OVERSIZE."""

    call: str = "escalate"
    result: str = "record"

    def verdict(self, phase: Phase) -> Verdict | None:
        """The verdict on such an event; None where its head and tail are judged."""
        return _VERDICTS.get(self.call if phase == "call" else self.result)


@dataclass(frozen=True, slots=True)
class Reading:
    """How a test reads one text: up to `limit` bytes of UTF-8, and of a longer one head and tail where `partial`."""

    limit: int = 1 << 20
    partial: bool = False

    def seen(self, text: str) -> str | None:
        """What a pattern reads of a text; None where it does not read so long a one."""
        if _fits(text, self.limit):
            return text
        half = self.limit // 2
        return f"{_head(text, half)}\n{_tail(text, half)}" if self.partial and half else None


def oversized(event: SensorEvent, limits: Limits) -> tuple[str, ...]:
    """The names of the arguments that hold a text longer than patterns read whole; of a result judged in part."""
    return tuple(
        name
        for name, value in event.args.items()
        if any(not _fits(text, limit_of(name, event.phase, limits)) for text in _texts(value, limits.values))
    )


def limit_of(name: str, phase: Phase, limits: Limits) -> int:
    """The bytes of UTF-8 that a pattern reads of an argument of this name."""
    if phase == "result":
        return limits.result
    return limits.command if name in COMMAND_NAMES else limits.argument


def strictest(many: list[tuple[Limits, Oversize]]) -> tuple[Limits, Oversize]:
    """The smallest of each limit, and the strictest answer to what is larger; the defaults where there are none."""
    if not many:
        return Limits(), Oversize()
    names = [field.name for field in fields(Limits)]
    limits = Limits(**{name: min(getattr(held, name) for held, _ in many) for name in names})
    order = ("block", "escalate", "record", "allow")
    words = {phase: min((getattr(held, phase) for _, held in many), key=order.index) for phase in OVERSIZE}
    return limits, Oversize(**words)


def weaker_settings(limits: Limits, oversize: Oversize) -> tuple[str, ...]:
    """The settings that weaken protection against the defaults, as `oversize.call = allow`."""
    told = [f"oversize.call = {oversize.call}"] if oversize.call == "allow" else []
    plain = Limits()
    # A smaller number is weaker where what lies beyond it is let through unread.
    for name, word in (("command", oversize.call), ("argument", oversize.call), ("result", oversize.result)):
        if word in ("allow", "record") and getattr(limits, name) < getattr(plain, name):
            told.append(f"limits.{name} = {getattr(limits, name)}")
    return tuple(told)


def _fits(text: str, limit: int) -> bool:
    """Whether a text has at most `limit` bytes of UTF-8."""
    if len(text) * _WIDEST <= limit:
        return True
    return len(text) <= limit and (text.isascii() or len(_bytes(text)) <= limit)


def _head(text: str, limit: int) -> str:
    """The longest beginning of a text that fits."""
    data = _bytes(text[:limit])
    end = min(limit, len(data))
    while end < len(data) and data[end] & 0xC0 == 0x80:  # amid a character
        end -= 1
    return data[:end].decode("utf-8", "surrogatepass")


def _tail(text: str, limit: int) -> str:
    """The longest end of a text that fits."""
    data = _bytes(text[-limit:])
    start = max(len(data) - limit, 0)
    while start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:].decode("utf-8", "surrogatepass")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # half a pair counts three


def _texts(value: object, most: int) -> Iterator[str]:
    level, seen = [value], 0
    while level and seen <= most:
        held = level.pop()
        seen += 1
        if isinstance(held, str):
            yield held
        elif isinstance(held, Mapping):
            level += held.values()
        elif isinstance(held, list | tuple | set | frozenset):
            level += held
        elif isinstance(as_text := plain(held), str):
            yield as_text
