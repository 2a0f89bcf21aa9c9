"""count and rate: conditions on how often, the only ones that remember anything.

    {"count": {"above": 20, "per": "span"}}                    true from the 21st event on
    {"rate": {"above": 10, "seconds": 60, "per": "principal"}} true where more than 10 came within the last 60 seconds

Both count the events for which all other parts of their rule hold, this one included; so they stand only in the `all`
that is a rule's own `when`, or are that `when` themselves, and are asked last, in the order in which they stand. `per`
is span (the default), principal, or all: whose events are counted together; events without a span or principal count
as those of one. An event that a rule judges twice (a call that was rewritten) counts once, by its call_id.

A store remembers at most MAX_KEYS counts, each under the rule's meaning and the span or principal; past that, the one
that was asked for least recently is forgotten and begins again at zero. A rate keeps at most `above` + 1 times.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from interlock.base.clock import MICROSECONDS
from interlock.engine.event import SensorEvent
from interlock.engine.mutex import Mutex
from interlock.engine.policy.problems import BadPolicy, known_key

__all__ = ["COUNT_FIELDS", "MAX_ABOVE", "MAX_KEYS", "MAX_SECONDS", "PER", "CountStore", "Counter", "parse_counter"]

MAX_KEYS: Final = 4096
MAX_ABOVE: Final = {"count": 1_000_000, "rate": 1000}
MAX_SECONDS: Final = 86_400
PER: Final = ("span", "principal", "all")
COUNT_FIELDS: Final = {"count": ("above", "per"), "rate": ("above", "seconds", "per")}
_RECENT: Final = 16  # call ids kept of one count, so that a call that is judged again is not counted again


@dataclass(frozen=True, slots=True)
class Counter:
    """One count or rate condition; `seconds` is 0 for a count."""

    kind: Literal["count", "rate"]
    above: int
    per: str
    seconds: int = 0

    def subject(self, event: SensorEvent) -> str:
        """Whose events are counted together with this one."""
        if self.per == "all":
            return ""
        return (event.span_id if self.per == "span" else event.principal) or ""


@dataclass(slots=True)
class _Seen:
    total: int = 0
    times: deque[int] = field(default_factory=deque)
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=_RECENT))


class CountStore:
    """Counts of events; safe to share between threads. `now_us` gives the time, which may not run backwards."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._mutex = Mutex()
        self._seen: OrderedDict[tuple[str, str], _Seen] = OrderedDict()

    def exceeds(self, counter: Counter, key: str, event: SensorEvent) -> bool:
        """Count the event under a key, and say whether there are too many."""
        now = self._now_us()
        with self._mutex:
            seen = self._of((key, counter.subject(event)))
            if not event.call_id or event.call_id not in seen.recent:
                self._add(counter, seen, now)
                if event.call_id:
                    seen.recent.append(event.call_id)
            if counter.kind == "count":
                return seen.total > counter.above
            return sum(now - at < counter.seconds * MICROSECONDS for at in seen.times) > counter.above

    def _of(self, key: tuple[str, str]) -> _Seen:
        seen = self._seen.get(key)
        if seen is None:
            seen = self._seen[key] = _Seen()
            if len(self._seen) > MAX_KEYS:
                self._seen.popitem(last=False)
        self._seen.move_to_end(key)
        return seen

    def _add(self, counter: Counter, seen: _Seen, now: int) -> None:
        if counter.kind == "count":
            seen.total += 1
            return
        seen.times.append(now)
        while len(seen.times) > counter.above + 1:
            seen.times.popleft()


def parse_counter(kind: Literal["count", "rate"], value: object, where: str) -> Counter:
    """A count or rate from its document form. Raises: BadPolicy."""
    if not isinstance(value, Mapping):
        raise BadPolicy("is not an object", where=where, fix='write {"above": 20, "per": "span"}')
    for key in value:
        known_key(key, COUNT_FIELDS[kind], where)
    above = _number(value, "above", 0, MAX_ABOVE[kind], where)
    seconds = _number(value, "seconds", 1, MAX_SECONDS, where) if kind == "rate" else 0
    per = value.get("per", "span")
    if per not in PER:
        raise BadPolicy("is none of span, principal and all", where=f"{where}.per")
    return Counter(kind, above, str(per), seconds)


def _number(value: Mapping[str, object], key: str, least: int, most: int, where: str) -> int:
    number = value.get(key)
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        what = "is missing" if key not in value else f"is no whole number from {least} to {most}"
        raise BadPolicy(what, where=f"{where}.{key}")
    return number
