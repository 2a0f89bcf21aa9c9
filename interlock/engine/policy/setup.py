"""Setup: what the conditions of a document are compiled with: limits, and the file system where one is at hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from interlock.engine.event import Phase
from interlock.engine.policy.limits import Limits, Oversize, Reading, limit_of

__all__ = ["PLAIN", "Frame", "Resolve", "Setup"]

# An absolute path, or one that begins with `~`, to the path that it leads to once each symbolic link is followed.
Resolve: TypeAlias = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Setup:
    """What stands for all rules of a document; `resolve` is None where paths are judged by their text alone."""

    limits: Limits = field(default_factory=Limits)
    oversize: Oversize = field(default_factory=Oversize)
    resolve: Resolve | None = None


PLAIN: Final = Setup()


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands for all conditions of one rule."""

    phase: Phase
    setup: Setup = PLAIN

    def reading(self, argument: str) -> Reading:
        """How patterns read the argument of this name."""
        partial = self.setup.oversize.verdict(self.phase) is None
        return Reading(limit_of(argument, self.phase, self.setup.limits), partial)
