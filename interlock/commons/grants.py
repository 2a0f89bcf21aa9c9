"""Grants: an operator's permission for single community rules to block and to mask.

A grant is bound to what a rule means (its semantic digest), so a rule that changes in a later version of its pack
asks again. The file is `HOME/grants.json`; no file is no grant.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from interlock.base.files import BadState, stamped, unstamped

__all__ = ["Grant", "Grants", "dump_grants", "parse_grants"]

FORMAT: Final = "interlock-grants"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Grant:
    """One granted rule of a pack; `semantic` is the hex digest of what it means, `at` the time in microseconds."""

    pack: str
    rule: str
    semantic: str
    at: int


@dataclass(frozen=True)
class Grants:
    """All grants of a node."""

    rows: tuple[Grant, ...] = ()
    _keys: frozenset[tuple[str, str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_keys", frozenset((g.pack, g.semantic) for g in self.rows))

    def covers(self, pack: str, semantic: str) -> bool:
        return (pack, semantic) in self._keys

    def with_rows(self, rows: Iterable[Grant]) -> Grants:
        """These grants and more; one that stands already keeps its time."""
        fresh = [g for g in rows if not self.covers(g.pack, g.semantic)]
        return Grants((*self.rows, *fresh))

    def without(self, pack: str, rules: frozenset[str] | None = None) -> Grants:
        """These grants less those of a pack's rules; of all its rules where none is named."""
        return Grants(tuple(g for g in self.rows if g.pack != pack or (rules is not None and g.rule not in rules)))


def dump_grants(grants: Grants) -> bytes:
    """The bytes of a grants file."""
    rows = [{"pack": g.pack, "rule": g.rule, "semantic": g.semantic, "at": g.at} for g in grants.rows]
    return stamped(FORMAT, VERSION, {"grants": rows})


def parse_grants(data: bytes, *, where: str) -> Grants:
    """Read a grants file. Raises: BadState, NewerFormat."""
    body = unstamped(data, FORMAT, VERSION, where=where)
    rows = body.get("grants")
    if not isinstance(rows, list):
        raise BadState("has no list of grants", where=where)
    return Grants(tuple(_grant(row, where) for row in rows))


def _grant(row: object, where: str) -> Grant:
    if not isinstance(row, dict) or set(row) != {"pack", "rule", "semantic", "at"}:
        raise BadState("has a grant that is not {pack, rule, semantic, at}", where=where)
    texts = (row["pack"], row["rule"], row["semantic"])
    at = row["at"]
    if not all(isinstance(t, str) for t in texts) or not isinstance(at, int) or isinstance(at, bool):
        raise BadState("has a grant with a value of the wrong type", where=where)
    return Grant(*texts, at=at)
