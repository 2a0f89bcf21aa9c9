"""Who may review packs, and how many of them a promotion needs: a target that the commons' top-level keys sign.

    {"format": "interlock-reviewers", "v": 1, "threshold": 1,
     "reviewers": {"NAME": {"key": "ed25519:HEX", "until": MICROSECONDS or 0}}}

A reviewer who leaves stays listed with the time `until` which their word counts, so that what they approved stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from interlock.base import canonical
from interlock.base.canonical import NotCanonical
from interlock.base.errors import one_line
from interlock.base.keys import BadKey, Ed25519Verifier, verifier_of
from interlock.commons.records import BadRecord

__all__ = ["MAX_REVIEWERS", "Reviewer", "Reviewers", "parse_reviewers"]

MAX_REVIEWERS: Final = 64 * 1024  # bytes
_FORMAT: Final = "interlock-reviewers"
_MOST: Final = 100  # reviewers


@dataclass(frozen=True)
class Reviewer:
    """A reviewer's key in its text form; `until` (microseconds) ends their term, 0 never."""

    key: str
    until: int = 0


@dataclass(frozen=True)
class Reviewers:
    """Name -> reviewer, and how many distinct ones approve a promotion. No two have the same key."""

    rows: Mapping[str, Reviewer]
    threshold: int = 1

    @property
    def data(self) -> bytes:
        rows = {name: {"key": row.key, "until": row.until} for name, row in self.rows.items()}
        return canonical.encode({"format": _FORMAT, "v": 1, "threshold": self.threshold, "reviewers": rows})

    def by_key(self, key: str, at: int) -> str | None:
        """The name of the reviewer whose key this is, if their word counts that witnesses saw at that time."""
        return next((n for n, row in self.rows.items() if row.key == key and (not row.until or at < row.until)), None)


def parse_reviewers(data: bytes, where: str) -> Reviewers:
    """Read a list of reviewers, strictly. Raises: BadRecord."""
    try:
        body = canonical.known_object(data, _FORMAT, 1, most=MAX_REVIEWERS, where=where)
    except NotCanonical as e:
        raise BadRecord(e.what, where=where) from None
    if set(body) != {"format", "v", "threshold", "reviewers"}:
        raise BadRecord("has other fields than threshold and reviewers", where=where)
    rows, threshold = body["reviewers"], body["threshold"]
    if not isinstance(rows, dict) or not 1 <= len(rows) <= _MOST:
        raise BadRecord(f"names no reviewers, or more than {_MOST}", where=where)
    if type(threshold) is not int or not 1 <= threshold <= len(rows):
        raise BadRecord("asks for more reviewers than there are, or for none", where=where)
    found = Reviewers({name: _reviewer(name, row, where) for name, row in rows.items()}, threshold)
    if len({row.key for row in found.rows.values()}) != len(rows):
        raise BadRecord("has a key twice", where=where)
    return found


def _reviewer(name: str, row: object, where: str) -> Reviewer:
    if isinstance(row, dict) and set(row) == {"key", "until"} and 0 < len(name) <= 100 and name.isprintable():
        key, until = row["key"], row["until"]
        try:
            known = isinstance(key, str) and isinstance(verifier_of(key), Ed25519Verifier)
        except BadKey:
            known = False
        if known and type(until) is int and 0 <= until < 2**63:
            return Reviewer(key, until)
    raise BadRecord("is not an Ed25519 key and the end of a term", where=f"{where}: {one_line(name, 80)}")
