"""What a benchmark found: a line a contender, and each goal with what was reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from bench.timing import Figures

__all__ = ["Goal", "Line", "Report"]

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
