"""What became of reports, as the leader's store wrote it down: for members who ask, until their ids are forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from interlock.base.database import as_bytes, as_int
from interlock.dap.drafts import ReportError, Role
from interlock.dap.fates import Fate, Standing, Step
from interlock.dap.storage import KnownReport
from interlock.node.storage.dap_leader_repair import LeaderRepairs
from interlock.node.storage.sql import Tx, hit, of_values

__all__ = ["LEADER_FATES", "LeaderFates", "reject", "reject_all"]

LEADER_FATES: Final = """
ALTER TABLE reports ADD COLUMN side TEXT;
ALTER TABLE reports ADD COLUMN step TEXT;
ALTER TABLE reports ADD COLUMN batch BLOB NOT NULL DEFAULT x''
"""
_REJECT: Final = "UPDATE reports SET state = 'rejected', error = ?, side = ?, step = ? WHERE"
_STANDINGS: Final = {
    "waiting": Standing.WAITING,
    "taken": Standing.IN_JOB,
    "aggregated": Standing.AGGREGATED,
    "rejected": Standing.REJECTED,
}


class LeaderFates(LeaderRepairs):
    """What LeaderTables knows of the ends of reports."""

    def horizon(self, task_id: bytes) -> int:
        rows = self._read("SELECT bucket FROM horizons WHERE task = ?", task_id)
        return as_int(rows[0][0]) if rows else 0

    def fates(self, task_id: bytes, report_ids: Sequence[bytes]) -> dict[bytes, KnownReport]:
        if not report_ids:
            return {}
        sql = (
            "SELECT id, member, state, error, side, step, bucket, batch FROM reports WHERE task = ? AND id IN"
            f" ({', '.join('?' * len(report_ids))})"
        )
        rows = self._read(sql, task_id, *report_ids)
        places = {as_bytes(row[0]): (as_int(row[6]), as_bytes(row[7])) for row in rows if row[2] == "aggregated"}
        given = {place for place in set(places.values()) if self._was_collected(task_id, *place)}
        collected = {report_id for report_id, place in places.items() if place in given}
        return {
            as_bytes(row[0]): KnownReport(
                _fate(row, collected=as_bytes(row[0]) in collected), None if row[1] is None else str(row[1])
            )
            for row in rows
        }

    def _was_collected(self, task_id: bytes, bucket: int, batch: bytes) -> bool:
        """Whether the collector was given the batch of a bucket, or the one of this id."""
        if batch:
            closed = "SELECT 1 FROM closed WHERE task = ? AND batch = ?"
            kept = "SELECT 1 FROM batches WHERE task = ? AND id = ?"  # until it is given out
            return bool(self._read(closed, task_id, batch)) and not self._read(kept, task_id, batch)
        last = "SELECT job, stop FROM collected WHERE task = ? AND start <= ? ORDER BY start DESC LIMIT 1"
        ready = "SELECT 1 FROM collections WHERE task = ? AND id = ? AND state = 'ready'"
        rows = self._read(last, task_id, bucket)
        return bool(rows) and as_int(rows[0][1]) > bucket and bool(self._read(ready, task_id, rows[0][0]))


def reject(tx: Tx, task_id: bytes, rejected: Mapping[bytes, ReportError], side: Role, step: Step) -> int:
    """Turn reports that are in a job down; how many."""
    sql = f"{_REJECT} task = ? AND id = ? AND state = 'taken'"
    told = (side.name.lower(), step.value)
    return sum(hit(tx, sql, error.value, *told, task_id, report_id) for report_id, error in rejected.items())


def reject_all(tx: Tx, seqs: Sequence[int], error: ReportError) -> None:
    """Turn down what is left of a job that was abandoned."""
    sql = f"{_REJECT} state = 'taken' AND seq IN ({{}})"
    of_values(tx, sql, seqs, [error.value, Role.LEADER.name.lower(), Step.FINISH.value])


def _fate(row: Sequence[object], *, collected: bool) -> Fate:
    """A row (id, member, state, error, side, step, ..) as its report's end."""
    standing = Standing.COLLECTED if collected else _STANDINGS[str(row[2])]
    if standing is not Standing.REJECTED:
        return Fate(as_bytes(row[0]), standing)
    side = None if row[4] is None else Role[str(row[4]).upper()]
    return Fate(as_bytes(row[0]), standing, ReportError(row[3]), side, None if row[5] is None else Step(row[5]))
