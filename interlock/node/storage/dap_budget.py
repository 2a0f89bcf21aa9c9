"""An aggregator's ledger of its privacy budgets: what each batch that was released has cost.

    spent (task, batch) -> the cost as a fraction, and when

Fills dap.budget.Budget, in a file beside the aggregator's own store, or in PostgreSQL where that is there too: all
processes of an aggregator charge one ledger. A row is never changed and never deleted: a cost cannot be taken back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final

from interlock.base.database import as_bytes, as_int
from interlock.dap.budget import Charge, spent_out
from interlock.node.storage.postgres import PostgresStore
from interlock.node.storage.sql import SqliteStore, SqlStore

__all__ = ["BUDGET_FILE", "BudgetStore", "BudgetTables", "PostgresBudgetStore", "Spent"]

BUDGET_FILE: Final = "budget.sqlite"
_COSTS: Final = "SELECT batch, cost FROM spent WHERE task = ?"
_MIGRATIONS: Final = (
    """
CREATE TABLE spent (task BLOB NOT NULL, batch BLOB NOT NULL, cost TEXT NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (task, batch)) WITHOUT ROWID
""",
)


@dataclass(frozen=True)
class Spent:
    """One release: its task, its batch's selector, what it cost, and when it was charged (microseconds)."""

    task_id: bytes
    batch: bytes
    cost: Fraction
    at: int


class BudgetTables(SqlStore):
    """One aggregator's ledger; any number of its processes may have it open."""

    def charge(self, charge: Charge, now_us: int) -> None:
        """Raises: BudgetSpent; NotWritable or Unreachable."""
        with self._write() as tx:
            self._alone(tx, charge.task_id)
            if _has_room(tx.execute(_COSTS, (charge.task_id,)).fetchall(), charge):
                row = (charge.task_id, charge.batch, str(charge.cost), now_us)
                tx.execute("INSERT INTO spent VALUES (?, ?, ?, ?)", row)

    def check(self, charge: Charge) -> None:
        """Raises: BudgetSpent; Unreachable."""
        _has_room(self._read(_COSTS, charge.task_id), charge)

    def rows(self, task_id: bytes) -> list[Spent]:
        """What was released of a task, oldest first."""
        found = self._read("SELECT task, batch, cost, at FROM spent WHERE task = ? ORDER BY at, batch", task_id)
        return [Spent(as_bytes(task), as_bytes(batch), _cost(cost), as_int(at)) for task, batch, cost, at in found]


class BudgetStore(SqliteStore, BudgetTables):
    """The ledger in one SQLite file."""

    KIND = 0x494C4442  # "ILDB"
    MIGRATIONS: ClassVar[tuple[str, ...]] = _MIGRATIONS
    CACHE_KIB = 256


class PostgresBudgetStore(PostgresStore, BudgetTables):
    """The ledger in PostgreSQL, in a schema of its own: leader and helper never share one."""

    MIGRATIONS: ClassVar[tuple[str, ...]] = _MIGRATIONS

    def __init__(self, url: str, role: str) -> None:
        super().__init__(url, schema=f"interlock_{role}_budget")


def _has_room(rows: Sequence[Sequence[object]], charge: Charge) -> bool:
    """False where the batch is charged already. Raises: BudgetSpent."""
    if any(as_bytes(batch) == charge.batch for batch, _ in rows):
        return False
    refused = spent_out(charge, _total(cost for _, cost in rows))
    if refused is not None:
        raise refused
    return True


def _total(costs: Iterable[object]) -> Fraction:
    return sum(map(_cost, costs), Fraction(0))


def _cost(value: object) -> Fraction:
    if not isinstance(value, str):
        raise AssertionError("a cost is kept as text")
    return Fraction(value)
