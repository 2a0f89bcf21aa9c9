"""`builtin:coding-agent` over real benign shell commands: what a coding agent's guard costs each command."""

from __future__ import annotations

import functools
import gzip
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import interlock
from bench.plain import installed_with, under
from bench.report import Goal, Line, Report, profiles
from bench.timing import Figures, race
from interlock.engine.policy.builtins import builtin
from interlock.engine.sinks import FileSink

__all__ = ["commands", "goals", "run"]

_CORPUS: Final = Path(__file__).resolve().parents[2] / "shared" / "corpora" / "benign_commands.jsonl.gz"
_ROUNDS: Final = 20_000
_SLOW_EVERY: Final = 20  # the Python engine takes a turn at every twentieth round: a run stays under a minute
_MICRO: Final = 1000
_PROFILED: Final = 2_000  # commands, where a goal is missed
_OURS, _KEPT = "as installed", "as installed, with receipts"
_PYTHON, _TRIP = "Python engine", "one JSON round trip"


def run() -> Report:
    """Native against Python, against JSON round trips of the event, and with receipts on disk."""
    given = commands()
    if not given:
        return Report("builtin:coding-agent over benign commands", [], notes=[f"not run: {_CORPUS.name} is not here"])
    with tempfile.TemporaryDirectory() as folder:
        contenders = _contenders(Path(folder))
        fast = race({k: v for k, v in contenders.items() if k != _PYTHON}, given, _ROUNDS)
        slow = race({_PYTHON: contenders[_PYTHON]}, given, _ROUNDS // _SLOW_EVERY)
        found = {**fast, **slow}
        reached = goals(found)
        ours = (_OURS, functools.partial(_all, contenders[_OURS], given[:_PROFILED]))
        kept = (_KEPT, functools.partial(_all, contenders[_KEPT], given[:_PROFILED]))
        notes = profiles(reached, [ours, ours, ours, ours, kept])
    lines = [Line(*pair) for pair in found.items()]
    return Report("builtin:coding-agent over benign commands", lines, reached, notes)


def goals(found: Mapping[str, Figures]) -> list[Goal]:
    """What is asked, of the contenders' figures."""
    ours, trip, kept, python = found[_OURS], found[_TRIP], found[_KEPT], found[_PYTHON]
    return [
        ("µs p50 (15)", ours.p50 / _MICRO, ours.p50 <= 15 * _MICRO),
        ("µs p99 (100)", ours.p99 / _MICRO, ours.p99 <= 100 * _MICRO),
        ("JSON round trips of the event (at most 4)", ours.p50 / trip.p50, ours.p50 <= 4 * trip.p50),
        ("times faster than the Python engine (20)", python.p50 / ours.p50, python.p50 >= 20 * ours.p50),
        ("µs more with receipts (at most 25)", (kept.p50 - ours.p50) / _MICRO, kept.p50 - ours.p50 <= 25 * _MICRO),
    ]


def _all(judge: Callable[[str], object], given: list[str]) -> None:
    for command in given:
        judge(command)


def commands() -> list[str]:
    """The benign POSIX commands of the corpus, in a fixed shuffled order; none where it is not here."""
    if not _CORPUS.exists():
        return []
    with gzip.open(_CORPUS, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    wanted = [r["command"] for r in rows if r["class"] == "benign" and r["shell"] == "posix" and not r.get("maybe")]
    return sorted(wanted, key=lambda command: hash_of(command))


def hash_of(text: str) -> int:
    """A number that spreads texts evenly and is the same on every run."""
    value = 2166136261
    for byte in text.encode("utf-8", "surrogatepass"):
        value = (value ^ byte) * 16777619 % (1 << 32)
    return value


def _contenders(folder: Path) -> dict[str, Callable[[str], object]]:
    data = builtin("coding-agent")
    kept = installed_with(data, python=False)
    kept.sink = FileSink(folder / "receipts.jsonl", key=bytes(32), shared=False, fsync=False)
    return {
        _OURS: under(installed_with(data, python=False), _judge),
        _KEPT: under(kept, _judge),
        _PYTHON: under(installed_with(data, python=True), _judge),
        _TRIP: lambda command: json.loads(json.dumps({"action": "Bash", "args": {"command": command}})),
    }


def _judge(command: str) -> object:
    try:
        return interlock.enforce_tool_call("Bash", {"command": command})
    except interlock.Blocked as refusal:
        return refusal
