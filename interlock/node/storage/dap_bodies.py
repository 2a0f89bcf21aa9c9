"""Reports' bodies in the leader's store, apart from what changes of a report; by the number of the report (`seq`)."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.base.database import as_bytes, as_int
from interlock.node.storage.sql import Tx, of_values

__all__ = ["bodies_of", "forget_bodies"]


def bodies_of(tx: Tx, members: Sequence[int]) -> tuple[bytes, ...]:
    """What is there of these, in the order of their numbers."""
    rows = of_values(tx, "SELECT seq, body FROM bodies WHERE seq IN ({})", members)
    return tuple(as_bytes(row[1]) for row in sorted(rows, key=lambda row: as_int(row[0])))


def forget_bodies(tx: Tx, members: Sequence[int]) -> None:
    of_values(tx, "DELETE FROM bodies WHERE seq IN ({})", members)
