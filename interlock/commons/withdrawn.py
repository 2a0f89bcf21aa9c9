"""What was taken back, as a node goes by it: versions of packs, or single rules of them.

    activation   nobody begins to use it: no update brings it into force, no rollback returns to it, no grant covers it
    removal      as activation, and whoever has it in force takes it out: granted rules too

Who may say which, and what shows it, is `revocation`'s; a row here has been checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["SCOPES", "Scope", "Withdrawn", "removes", "withdrawal"]

Scope = Literal["activation", "removal"]
SCOPES: Final[tuple[Scope, ...]] = ("activation", "removal")


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """One version of a pack, or some of its rules (no rule named: all of them); `why` is one line.

    `ring` is the ring in which it counts; "" for every ring.
    """

    pack: str
    version: int
    rules: tuple[str, ...]
    scope: Scope
    why: str
    ring: str = ""

    def __str__(self) -> str:
        what = ", ".join(self.rules) or "all rules"
        return f"{self.pack} version {self.version}{self.ring and f' in {self.ring}'}: {what} ({self.why})"

    @property
    def told(self) -> str:
        """What was taken back of the version that the sentence is about."""
        part = f", in part: {', '.join(self.rules)}" if self.rules else ""
        return f"version {self.version} was taken back{part} ({self.why})"

    def of(self, pack: str, version: int, ring: str) -> bool:
        """Whether it is about this version, in this ring."""
        return (self.pack, self.version) == (pack, version) and self.ring in ("", ring)

    def covers(self, pack: str, version: int, ring: str, rule: str) -> bool:
        return self.of(pack, version, ring) and (not self.rules or rule in self.rules)


def withdrawal(rows: Iterable[Withdrawn], pack: str, version: int, ring: str) -> Withdrawn | None:
    """Why nobody begins to use a version, if so: all of it was taken back, or a rule that would act in it."""
    about = [row for row in rows if row.of(pack, version, ring)]
    whole = next((row for row in about if not row.rules), None)
    if whole is not None:
        return whole
    acting = (row for row in about if not all(removes(about, pack, version, ring, rule) for rule in row.rules))
    return next(acting, None)


def removes(rows: Iterable[Withdrawn], pack: str, version: int, ring: str, rule: str) -> bool:
    """Whether a rule of a version is out of force everywhere."""
    return any(row.scope == "removal" and row.covers(pack, version, ring, rule) for row in rows)
