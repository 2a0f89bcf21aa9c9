"""Many at once: 16 threads, and 1,000 asyncio tasks, each with a span of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Final

import interlock
from bench.coding_agent import commands
from bench.plain import installed_with
from bench.report import Goal, Line, Report
from bench.timing import Figures
from interlock.engine import ambient
from interlock.engine.policy.builtins import builtin

__all__ = ["run"]

_SECONDS: Final = 2.0
_THREADS: Final = 16
_TASKS: Final = 1_000


def run() -> Report:
    """Calls a second from one thread, from 16 threads, from 1,000 tasks; the latter may not fall below the first."""
    guard = installed_with(builtin("coding-agent"), python=False)
    given = commands()[:2_000] or ["git status", "ls -la src", "grep -rn main ."]
    lines, rates = [], {}
    for name, go in (("one thread", _one), (f"{_THREADS} threads", _many), (f"{_TASKS:,} asyncio tasks", _tasks)):
        ambient.install(guard)
        started = time.perf_counter()
        taken = go(given)
        rates[name] = len(taken) / (time.perf_counter() - started)
        lines.append(Line(f"{name} ({rates[name]:,.0f} a second)", Figures.of(taken)))
    alone, *shared = rates.values()
    goals: list[Goal] = [
        (f"of one thread's throughput, {name} (at least 0.9)", rate / alone, rate >= 0.9 * alone)
        for name, rate in zip(list(rates)[1:], shared, strict=True)
    ]
    return Report("under load, builtin:coding-agent", lines, goals)


def _one(given: list[str]) -> list[int]:
    taken: list[int] = []
    _until(time.perf_counter() + _SECONDS, given, taken, "bench/one")
    return taken


def _many(given: list[str]) -> list[int]:
    each: list[list[int]] = [[] for _ in range(_THREADS)]
    end = time.perf_counter() + _SECONDS
    threads = [threading.Thread(target=_until, args=(end, given, taken, f"bench/t{k}")) for k, taken in enumerate(each)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [ns for taken in each for ns in taken]


def _until(end: float, given: list[str], taken: list[int], principal: str) -> None:
    k = 0
    with interlock.span(principal=principal):
        while time.perf_counter() < end:
            taken.append(_timed(given[k % len(given)]))
            k += 1


def _tasks(given: list[str]) -> list[int]:
    taken: list[int] = []

    async def one(k: int, end: float) -> None:
        with interlock.span(principal=f"bench/a{k}"):
            while time.perf_counter() < end:
                taken.append(_timed(given[k % len(given)]))
                k += 1
                await asyncio.sleep(0)

    async def all_of_them() -> None:
        end = time.perf_counter() + _SECONDS
        await asyncio.gather(*(one(k, end) for k in range(_TASKS)))

    asyncio.run(all_of_them())
    return taken


def _timed(command: str) -> int:
    started = time.perf_counter_ns()
    with contextlib.suppress(interlock.Blocked):
        interlock.enforce_tool_call("Bash", {"command": command})
    return time.perf_counter_ns() - started
