"""What a benchmark found: a line a contender, each goal with what was reached, and where the time of a miss went."""

from __future__ import annotations

import cProfile
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from bench.timing import Figures

__all__ = ["Goal", "Line", "Report", "Turn", "profiles", "shown"]

Turn = tuple[str, Callable[[], object]]  # what is profiled where a goal is missed: its name, and a run of it
_TOP: Final = 8
Goal = tuple[str, float, bool]  # what is asked in words, the figure of this run, whether it is met


@dataclass(frozen=True, slots=True)
class Line:
    """One contender with its figures."""

    name: str
    figures: Figures


@dataclass(frozen=True, slots=True)
class Report:
    """One benchmark of one run."""

    title: str
    lines: Sequence[Line]
    goals: Sequence[Goal] = ()
    notes: Sequence[str] = field(default_factory=tuple)

    def text(self) -> str:
        """For people."""
        width = max((len(line.name) for line in self.lines), default=0)
        out = [self.title, *(f"  {line.name:<{width}}  {line.figures.row()}" for line in self.lines)]
        out += [f"  {'met   ' if met else 'MISSED'}  {reached:.2f} {asked}" for asked, reached, met in self.goals]
        return "\n".join([*out, *(f"  note: {note}" for note in self.notes)])

    def values(self) -> dict[str, object]:
        """For programs: nanoseconds, and the goals."""
        return {
            "title": self.title,
            "contenders": {line.name: asdict(line.figures) for line in self.lines},
            "goals": [{"asked": asked, "reached": reached, "met": met} for asked, reached, met in self.goals],
            "notes": list(self.notes),
        }


def shown(report: Report, *, as_json: bool) -> int:
    """Print what was found; 0 when every goal was met, 1 when one was missed."""
    print(json.dumps(report.values()) if as_json else report.text())
    return 0 if all(met for _, _, met in report.goals) else 1


def profiles(goals: Sequence[Goal], turns: Sequence[Turn]) -> list[str]:
    """Notes on the goals that were missed: the Python functions that took most of the time of a run, by own time.

    There is a turn for each goal; one that several goals missed with runs once. What native code does inside stands
    as one function. Raises: ValueError, where there are not as many turns as goals.
    """
    missed = dict(turn for (_, _, met), turn in zip(goals, turns, strict=True) if not met)
    return [line for name, run in missed.items() for line in _profile(name, run)]


def _profile(name: str, run: Callable[[], object]) -> list[str]:
    profile = cProfile.Profile()
    profile.runcall(run)
    seen = sorted(profile.getstats(), key=lambda entry: -entry.inlinetime)
    whole = sum(entry.inlinetime for entry in seen) or 1.0
    rows = [
        f"{entry.inlinetime / whole:6.1%}  {entry.callcount:7} calls  {_place(entry.code)}" for entry in seen[:_TOP]
    ]
    return [f"profile of {name}, {whole * 1000:.1f} ms in all, by own time:", *rows]


def _place(code: object) -> str:
    """Where a function stands; one that is not Python has only a name."""
    named = getattr(code, "co_name", None)
    return str(code) if named is None else f"{Path(code.co_filename).name}:{code.co_firstlineno} {named}"  # type: ignore[attr-defined]
