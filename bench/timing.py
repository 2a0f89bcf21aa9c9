"""Timing contenders beside each other, so that what is compared is a ratio within one run.

Each round gives every contender one turn, in an order that changes from round to round; a turn is one call with one
input. So whatever else the machine does hits all of them alike. Figures are taken over all turns of a contender.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

__all__ = ["Figures", "measure", "race"]

T = TypeVar("T")
_WARM_UPS: Final = 200


@dataclass(frozen=True, slots=True)
class Figures:
    """Nanoseconds a call: median, 95th and 99th percentile, the longest, and how many calls they are taken from."""

    p50: int
    p95: int
    p99: int
    longest: int
    calls: int

    @classmethod
    def of(cls, nanoseconds: Sequence[int]) -> Figures:
        ordered = sorted(nanoseconds)
        p50, p95, p99 = (ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.5, 0.95, 0.99))
        return cls(p50, p95, p99, ordered[-1], len(ordered))

    def row(self) -> str:
        """For people, in microseconds."""
        named = (("p50", self.p50), ("p95", self.p95), ("p99", self.p99))
        return "  ".join(f"{name} {value / 1000:9.2f} µs" for name, value in named)


def race(contenders: Mapping[str, Callable[[T], object]], inputs: Sequence[T], rounds: int) -> dict[str, Figures]:
    """Run every contender over the inputs, a call each in turn, for that many rounds of calls."""
    order = random.Random(1)  # noqa: S311 - the same order on every run
    taken: dict[str, list[int]] = {name: [] for name in contenders}
    for call in contenders.values():
        for k in range(_WARM_UPS):
            call(inputs[-1 - k % len(inputs)])  # others than those that are timed first: nothing is remembered
    names = list(contenders)
    gc.collect()
    gc.disable()
    try:
        for k in range(rounds):
            if k % 64 == 0:
                order.shuffle(names)
            given = inputs[k % len(inputs)]
            for name in names:
                call = contenders[name]
                started = time.perf_counter_ns()
                call(given)
                taken[name].append(time.perf_counter_ns() - started)
    finally:
        gc.enable()
    return {name: Figures.of(ns) for name, ns in taken.items()}


def measure(call: Callable[[], object], times: int) -> Figures:
    """One contender alone, called that many times."""
    ns: list[int] = []
    for _ in range(times):
        started = time.perf_counter_ns()
        call()
        ns.append(time.perf_counter_ns() - started)
    return Figures.of(ns)
