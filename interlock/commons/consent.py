"""Consent: whether this organisation reports counts for a task; no until somebody said yes, and for that catalog only.

The file is `HOME/consent.json`. Consent names the catalog by its digest, so a task whose places changed asks again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.base.errors import InterlockError
from interlock.base.files import BadState, file_lock, read_bounded, replace, stamped, unstamped
from interlock.commons.indicators import Catalog

__all__ = ["Consent", "NoConsent", "demand_consent", "give_consent", "read_consents", "withdraw_consent"]

_FILE: Final = "consent.json"
_FORMAT: Final = "interlock-consent"
_LIMIT: Final = 1 << 20


class NoConsent(InterlockError):
    """A count that nobody here agreed to."""

    code = "no-consent"


@dataclass(frozen=True, slots=True)
class Consent:
    """A yes to one task's catalog (by its hex digest), given at a time in microseconds."""

    task: str
    catalog: str
    at: int

    def covers(self, catalog: Catalog) -> bool:
        return self.task == catalog.task and self.catalog == catalog.digest


def read_consents(home: Path) -> dict[str, Consent]:
    """All consents by task; none where there is no file. Raises: BadState, NewerFormat."""
    path = home / _FILE
    if not path.exists():
        return {}
    body = unstamped(read_bounded(path, _LIMIT), _FORMAT, 1, where=str(path))
    rows = body.get("consents")
    if not isinstance(rows, list) or not all(_is_row(row) for row in rows):
        raise BadState("has no list of consents", where=str(path))
    return {row["task"]: Consent(**row) for row in rows}


def demand_consent(home: Path, catalog: Catalog) -> Consent:
    """The consent to this very catalog. Raises: NoConsent."""
    found = read_consents(home).get(catalog.task)
    if found is None or not found.covers(catalog):
        what = "was not consented to" if found is None else "changed since it was consented to"
        raise NoConsent(what, where=f"task {catalog.task}", fix="see its places, then interlock mesh consent")
    return found


def give_consent(home: Path, catalog: Catalog, now_us: int) -> Consent:
    """Say yes to a catalog; what was seen before now is not counted. Raises: NotWritable."""
    consent = Consent(catalog.task, catalog.digest, now_us)
    with file_lock(home / "consent.lock", wait=True):
        _write(home, {**read_consents(home), catalog.task: consent})
    return consent


def withdraw_consent(home: Path, task: str) -> None:
    """Say no again; a count under way is not sent. Raises: NotWritable."""
    with file_lock(home / "consent.lock", wait=True):
        _write(home, {name: c for name, c in read_consents(home).items() if name != task})


def _write(home: Path, consents: dict[str, Consent]) -> None:
    rows = [{"task": c.task, "catalog": c.catalog, "at": c.at} for c in consents.values()]
    replace(home / _FILE, stamped(_FORMAT, 1, {"consents": rows}))


def _is_row(row: object) -> bool:
    return (
        isinstance(row, dict)
        and set(row) == {"task", "catalog", "at"}
        and isinstance(row["task"], str)
        and isinstance(row["catalog"], str)
        and type(row["at"]) is int
    )
