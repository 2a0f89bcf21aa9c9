"""The leader's part of a repair: asked for in its store before the helper is, and done in one transaction.

    frozen -> repair_request stored -> dropped and written down, share_request anew, `repaired` -> ready | failed

The leader's batch is frozen all the while, so what it asked with is what it holds when the helper has answered.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

from interlock.base.database import as_bytes, as_int
from interlock.dap.batches import Selection
from interlock.dap.drafts import ReportError, Role
from interlock.dap.fates import Step
from interlock.dap.messages import BatchId, Interval
from interlock.dap.repair import JobPart, Repair
from interlock.node.storage.dap import AggregatorTables
from interlock.node.storage.dap_packed import unpacked
from interlock.node.storage.dap_repair import REPAIRS, demand_unrepaired
from interlock.node.storage.sql import Tx, hit, of_values

__all__ = ["LEADER_REPAIRS", "LeaderRepairs"]

LEADER_REPAIRS: Final = f"""{REPAIRS};
ALTER TABLE collections ADD COLUMN repair_request BLOB NOT NULL DEFAULT x'';
ALTER TABLE collections ADD COLUMN repaired INTEGER NOT NULL DEFAULT 0
"""
_FROZEN: Final = "SELECT start, stop, batch FROM collections WHERE task = ? AND id = ? AND state = 'frozen' AND"


class LeaderRepairs(AggregatorTables):
    """What LeaderTables knows of repairs."""

    def begin_repair(self, task_id: bytes, job_id: bytes, ask: Callable[[tuple[JobPart, ...]], bytes]) -> bool:
        sql = "UPDATE collections SET repair_request = ? WHERE task = ? AND id = ?"
        with self._write() as tx:
            self._alone(tx, task_id)
            selection = _frozen(tx, task_id, job_id, "length(repair_request) = 0")
            if selection is None:
                return False
            demand_unrepaired(tx, task_id, selection)
            return hit(tx, sql, ask(self._parts(tx, task_id, selection)), task_id, job_id)

    def finish_repair(
        self, task_id: bytes, job_id: bytes, judge: Callable[[tuple[JobPart, ...]], tuple[bytes, Repair]]
    ) -> bool:
        sql = "UPDATE collections SET share_request = ?, repaired = 1 WHERE task = ? AND id = ?"
        with self._write() as tx:
            self._alone(tx, task_id)
            selection = _frozen(tx, task_id, job_id, "length(repair_request) > 0 AND repaired = 0")
            if selection is None:
                return False
            share_request, repair = judge(self._parts(tx, task_id, selection))
            self._leave_out(tx, task_id, repair)
            _turn_down(tx, task_id, repair)
            return hit(tx, sql, share_request, task_id, job_id)


def _frozen(tx: Tx, task_id: bytes, job_id: bytes, also: str) -> Selection | None:
    """The batch of a frozen collection job."""
    row = tx.execute(f"{_FROZEN} {also}", (task_id, job_id)).fetchone()
    if row is None:
        return None
    start, stop, batch = as_int(row[0]), as_int(row[1]), as_bytes(row[2])
    return Interval(start, stop - start) if start < stop else BatchId(batch)


def _turn_down(tx: Tx, task_id: bytes, repair: Repair) -> None:
    """Turn down the reports that a repair leaves out: those in the batch of the jobs that are dropped."""
    of, values = repair.selection, list[object]()
    if isinstance(of, BatchId):
        jobs, within, values = "batch = ? AND length(batch) > 0", "batch = ?", [of.id]
    else:
        jobs, within, values = "last >= ? AND first < ?", "bucket >= ? AND bucket < ?", [of.start, of.end]
    dropped = {part.job_id for part in repair.ours}
    sql = f"SELECT id, members FROM jobs WHERE task = ? AND state IN ('done', 'abandoned') AND {jobs}"
    rows = tx.execute(sql, (task_id, *values)).fetchall() if dropped else []
    members = itertools.chain.from_iterable(unpacked(as_bytes(row[1])) for row in rows if as_bytes(row[0]) in dropped)
    down = (
        "UPDATE reports SET state = 'rejected', error = ?, side = ?, step = ?"
        f" WHERE state = 'aggregated' AND {within} AND seq IN ({{}})"
    )
    told = (ReportError.REPORT_DROPPED.value, Role.LEADER.name.lower(), Step.REPAIR.value)
    of_values(tx, down, members, [*told, *values])
