"""Many at once: 16 threads, and 1,000 asyncio tasks, each with a span of its own."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import interlock
from bench.coding_agent import commands
from bench.plain import installed_with
from bench.report import Goal, Line, Report, profiles
from bench.timing import Figures
from interlock.engine import ambient
from interlock.engine.policy.builtins import builtin

__all__ = ["goals", "run"]

_SECONDS: Final = 0.4  # of one turn
_TURNS: Final = 6
_THREADS: Final = 16
_TASKS: Final = 1_000
_LEAST: Final = 0.9
# What somebody would write by hand: it shares nothing, so that what it loses with 16 threads is the interpreter's.
_BY_HAND: Final = tuple(
    re.compile(rf"(^|[;&|]\s*)(sudo\s+)?{name}\s+.*{what}")
    for name in ("rm", "git", "docker", "chmod", "curl")
    for what in ("-rf?", "--force", "prune", "777")
)


def run() -> Report:
    """Calls a second of 16 threads beside one thread, and of 1,000 tasks beside one task, in turns.

    A task is compared with a task: what asyncio itself takes to go from one to the next is no cost of a call. Threads
    are compared with threads: what the interpreter takes to hand its lock on, twenty regular expressions lose as well.
    """
    ambient.install(installed_with(builtin("coding-agent"), python=False))
    given = commands()[:2_000] or ["git status", "ls -la src", "grep -rn main ."]
    ways: dict[str, _Threads | _Tasks] = {
        "by hand, one thread": _Threads(1, _timed_by_hand),
        f"by hand, {_THREADS} threads": _Threads(_THREADS, _timed_by_hand),
        "one thread": _Threads(1, _timed),
        f"{_THREADS} threads": _Threads(_THREADS, _timed),
    }
    ways |= {"one asyncio task": _Tasks(1), f"{_TASKS:,} asyncio tasks": _Tasks(_TASKS)}
    taken: dict[str, list[int]] = {name: [] for name in ways}
    inputs = {name: itertools.cycle(given) for name in ways}  # each gets the same commands in the same order
    for _ in range(_TURNS):
        for name, way in ways.items():
            taken[name] += way.turn(inputs[name])
    rates = {name: len(ns) / (_TURNS * _SECONDS) for name, ns in taken.items()}
    lines = [Line(f"{name} ({rates[name]:,.0f} a second)", Figures.of(ns)) for name, ns in taken.items()]
    reached = goals(rates)
    turn = ("the calls of one thread", lambda: [_timed(command) for command in given])
    notes = profiles(reached, [turn] * len(reached))
    return Report("under load, builtin:coding-agent", lines, reached, notes)


def goals(rates: Mapping[str, float]) -> list[Goal]:
    """What is asked, of calls a second in the order of `run`: one of a kind, then many of it."""
    each = list(rates.values())
    by_hand, threads, tasks = (many / one for one, many in zip(each[::2], each[1::2], strict=True))
    asked = (
        (f"of what patterns by hand keep with {_THREADS} threads (at least {_LEAST})", threads / by_hand),
        (f"of the throughput of one asyncio task, {_TASKS:,} of them (at least {_LEAST})", tasks),
    )
    return [(what, share, share >= _LEAST) for what, share in asked]


class _Threads:
    """So many threads that call until the turn is over."""

    def __init__(self, number: int, timed: Callable[[str], int]) -> None:
        self._number, self._timed = number, timed

    def turn(self, given: Iterator[str]) -> list[int]:
        each: list[list[int]] = [[] for _ in range(self._number)]
        end: list[float] = []  # one for all: whoever starts late calls less
        ready = threading.Barrier(self._number, lambda: end.append(time.perf_counter() + _SECONDS))
        turns = [(self._timed, ready, end, given, ns, k) for k, ns in enumerate(each)]
        threads = [threading.Thread(target=_until, args=turn) for turn in turns]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [ns for taken in each for ns in taken]


def _until(
    timed: Callable[[str], int],
    ready: threading.Barrier,
    end: list[float],
    given: Iterator[str],
    taken: list[int],
    number: int,
) -> None:
    with interlock.span(principal=f"bench/t{number}"):
        ready.wait()
        while time.perf_counter() < end[0]:
            taken.append(timed(next(given)))


class _Tasks:
    """So many asyncio tasks that call in turn until the turn is over."""

    def __init__(self, number: int) -> None:
        self._number = number

    def turn(self, given: Iterator[str]) -> list[int]:
        taken: list[int] = []
        asyncio.run(self._all(given, taken))
        return taken

    async def _all(self, given: Iterator[str], taken: list[int]) -> None:
        ready = asyncio.Barrier(self._number)
        end: list[float] = []

        async def one(number: int) -> None:
            with interlock.span(principal=f"bench/a{number}"):
                if await ready.wait() == 0:
                    end.append(time.perf_counter() + _SECONDS)
                while not end or time.perf_counter() < end[0]:
                    taken.append(_timed(next(given)))
                    await asyncio.sleep(0)

        await asyncio.gather(*(one(k) for k in range(self._number)))


def _timed(command: str) -> int:
    started = time.perf_counter_ns()
    with contextlib.suppress(interlock.Blocked):
        interlock.enforce_tool_call("Bash", {"command": command})
    return time.perf_counter_ns() - started


def _timed_by_hand(command: str) -> int:
    started = time.perf_counter_ns()
    any(pattern.search(command) for pattern in _BY_HAND)
    return time.perf_counter_ns() - started
