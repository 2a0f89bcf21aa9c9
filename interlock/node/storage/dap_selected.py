"""Batches that the leader selects, in its store: each fills up to its size, and is collected once.

    begun -> lacking -> full          a report that drops out makes it lacking again, and the next one takes its place
    full, and no job of it is under way -> claimed by a collection -> released, and forgotten but for its id

`reports` of a batch counts those in its jobs that were not turned down. It changes in the transaction in which a report
does, so that a full batch without a job under way holds just so many that were aggregated.
"""

from __future__ import annotations

from typing import Final

from interlock.base.database import as_bytes, as_int
from interlock.dap.messages import BatchId
from interlock.dap.storage import JobOrder
from interlock.node.storage.sql import Tx

__all__ = ["LEADER_BATCHES", "claimable", "enter", "lacking", "leave", "reopen"]

LEADER_BATCHES: Final = """
ALTER TABLE jobs ADD COLUMN batch BLOB NOT NULL DEFAULT x'';
ALTER TABLE collections ADD COLUMN batch BLOB NOT NULL DEFAULT x'';
CREATE TABLE batches (seq INTEGER PRIMARY KEY AUTOINCREMENT, task BLOB NOT NULL, id BLOB NOT NULL,
    size INTEGER NOT NULL, reports INTEGER NOT NULL, tries INTEGER NOT NULL, UNIQUE (task, id));
CREATE INDEX batches_lacking ON batches (task, seq) WHERE reports < size;
CREATE INDEX batches_in_turn ON batches (task, tries, seq);
CREATE INDEX jobs_by_batch ON jobs (task, batch) WHERE state IN ('gathered', 'begun')
"""


def lacking(tx: Tx, task_id: bytes, order: JobOrder) -> tuple[bytes, int]:
    """The batch that the next job is for, and how many reports the job may have."""
    sql = "SELECT id, size - reports FROM batches WHERE task = ? AND reports < size ORDER BY seq LIMIT 1"
    row = tx.execute(sql, (task_id,)).fetchone()
    batch, room = (order.new_batch, order.batch_size) if row is None else (as_bytes(row[0]), as_int(row[1]))
    return batch, min(order.size, room)


def enter(tx: Tx, task_id: bytes, batch: bytes, size: int, reports: int) -> None:
    """Count reports into a batch, which may be its first."""
    sql = (
        "INSERT INTO batches (task, id, size, reports, tries) VALUES (?, ?, ?, ?, 0)"
        " ON CONFLICT (task, id) DO UPDATE SET reports = batches.reports + excluded.reports"
    )
    tx.execute(sql, (task_id, batch, size, reports))


def leave(tx: Tx, task_id: bytes, batch: bytes, reports: int) -> None:
    """Take reports that were turned down out of the count."""
    if batch and reports:
        sql = "UPDATE batches SET reports = reports - ? WHERE task = ? AND id = ?"
        tx.execute(sql, (reports, task_id, batch))


def claimable(tx: Tx, task_id: bytes) -> BatchId | None:
    """The eldest full batch that nobody collects and of which no job is under way; refused ones after all others."""
    sql = (
        "SELECT id FROM batches AS b WHERE task = ? AND reports >= size"
        " AND NOT EXISTS (SELECT 1 FROM closed WHERE task = b.task AND batch = b.id)"
        " AND NOT EXISTS (SELECT 1 FROM jobs"
        " WHERE task = b.task AND batch = b.id AND state IN ('gathered', 'begun'))"
        " ORDER BY tries, seq LIMIT 1"
    )
    row = tx.execute(sql, (task_id,)).fetchone()
    return None if row is None else BatchId(as_bytes(row[0]))


def reopen(tx: Tx, task_id: bytes, job_id: bytes) -> None:
    """Let another collection have the batch that the helper refused to this one."""
    of_job = "(SELECT batch FROM closed WHERE task = ? AND job = ?)"
    again = f"UPDATE batches SET tries = tries + 1 WHERE task = ? AND id IN {of_job}"
    tx.execute(again, (task_id, task_id, job_id))
    tx.execute("DELETE FROM closed WHERE task = ? AND job = ?", (task_id, job_id))
