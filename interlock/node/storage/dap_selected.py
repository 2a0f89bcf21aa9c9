"""Batches that the leader selects, in its store: each fills up to its size, and is collected once.

    begun -> lacking -> full          a report that drops out makes it lacking again, and the next one takes its place
    full, or with the least that a batch needs and long begun; and no job of it is under way
        -> claimed by a collection, and as large as it then is for good -> released, and forgotten but for its id
        -> refused, as the helper holds too little of it -> lacking as many as a batch needs

`reports` of a batch counts those in its jobs that were not turned down. It changes in the transaction in which a report
does, so that a batch without a job under way holds just so many that were aggregated, until it is claimed: what a
repair leaves out then makes no room.
"""

from __future__ import annotations

from typing import Final

from interlock.base.database import as_bytes, as_int
from interlock.dap.messages import BatchId
from interlock.dap.storage import Filling
from interlock.node.storage.sql import Tx

__all__ = [
    "LEADER_BATCHES",
    "LEADER_FILLING",
    "claimable",
    "enter",
    "lacking",
    "leave",
    "reopen",
    "seal",
]

LEADER_BATCHES: Final = """
ALTER TABLE jobs ADD COLUMN batch BLOB NOT NULL DEFAULT x'';
ALTER TABLE collections ADD COLUMN batch BLOB NOT NULL DEFAULT x'';
CREATE TABLE batches (seq INTEGER PRIMARY KEY AUTOINCREMENT, task BLOB NOT NULL, id BLOB NOT NULL,
    size INTEGER NOT NULL, reports INTEGER NOT NULL, tries INTEGER NOT NULL, UNIQUE (task, id));
CREATE INDEX batches_lacking ON batches (task, seq) WHERE reports < size;
CREATE INDEX batches_in_turn ON batches (task, tries, seq);
CREATE INDEX jobs_by_batch ON jobs (task, batch) WHERE state IN ('gathered', 'begun')
"""
# One of before has the size that a batch needs at least, so it is never ready before it is full.
LEADER_FILLING: Final = """
ALTER TABLE batches ADD COLUMN began INTEGER NOT NULL DEFAULT 0;
CREATE INDEX jobs_past_by_batch ON jobs (task, batch) WHERE state IN ('done', 'abandoned') AND length(batch) > 0
"""


def lacking(tx: Tx, task_id: bytes, filling: Filling, new_batch: bytes) -> tuple[bytes, int, int]:
    """The batch that the next job is for, how many reports the job may have, and how many of them wait for no others.

    These make the batch ready: full, or the least that it needs where it was begun long ago. One that is ready
    already, and not asked for, fills on at its leisure.
    """
    sql = "SELECT id, size, reports, began FROM batches WHERE task = ? AND reports < size ORDER BY seq LIMIT 1"
    row = tx.execute(sql, (task_id,)).fetchone()
    if row is None:
        return new_batch, filling.size, filling.size
    size, reports, began = (as_int(value) for value in row[1:])
    room, lacks = size - reports, filling.least - reports
    late = began <= filling.begun_by or began > filling.ahead
    return as_bytes(row[0]), room, lacks if late and lacks > 0 else room


def enter(tx: Tx, task_id: bytes, batch: bytes, filling: Filling, reports: int) -> None:
    """Count reports into a batch, which may be its first."""
    sql = (
        "INSERT INTO batches (task, id, size, reports, tries, began) VALUES (?, ?, ?, ?, 0, ?)"
        " ON CONFLICT (task, id) DO UPDATE SET reports = batches.reports + excluded.reports"
    )
    tx.execute(sql, (task_id, batch, filling.size, reports, filling.now_us))


def leave(tx: Tx, task_id: bytes, batch: bytes, reports: int) -> None:
    """Take reports that were turned down out of the count."""
    if batch and reports:
        sql = "UPDATE batches SET reports = reports - ? WHERE task = ? AND id = ?"
        tx.execute(sql, (reports, task_id, batch))


def claimable(tx: Tx, task_id: bytes, filling: Filling) -> BatchId | None:
    """The eldest batch that is ready, and that nobody collects; refused ones after all others."""
    sql = (
        "SELECT id FROM batches AS b WHERE task = ?"
        " AND (reports >= size OR (reports >= ? AND (began <= ? OR began > ?)))"
        " AND NOT EXISTS (SELECT 1 FROM closed WHERE task = b.task AND batch = b.id)"
        " AND NOT EXISTS (SELECT 1 FROM jobs"
        " WHERE task = b.task AND batch = b.id AND state IN ('gathered', 'begun'))"
        " ORDER BY tries, seq LIMIT 1"
    )
    row = tx.execute(sql, (task_id, filling.least, filling.begun_by, filling.ahead)).fetchone()
    return None if row is None else BatchId(as_bytes(row[0]))


def seal(tx: Tx, task_id: bytes, batch: BatchId) -> None:
    """A batch that was asked for takes no report any more: it is full with what it has, even where it is refused."""
    tx.execute("UPDATE batches SET size = reports WHERE task = ? AND id = ?", (task_id, batch.id))


def reopen(tx: Tx, task_id: bytes, job_id: bytes, more: Filling | None) -> None:
    """Let another collection have the batch that the helper refused to this one; with `more`, once it has more."""
    of_job = "(SELECT batch FROM closed WHERE task = ? AND job = ?)"
    if more is not None:  # neither side commits anything to a batch that was repaired
        fill = (
            f"UPDATE batches SET size = reports + ?, began = ? WHERE task = ? AND id IN {of_job}"
            " AND NOT EXISTS (SELECT 1 FROM repairs WHERE task = batches.task AND start = 0 AND batch = batches.id)"
        )
        tx.execute(fill, (more.least, more.now_us, task_id, task_id, job_id))
    again = f"UPDATE batches SET tries = tries + 1 WHERE task = ? AND id IN {of_job}"
    tx.execute(again, (task_id, task_id, job_id))
    tx.execute("DELETE FROM closed WHERE task = ? AND job = ?", (task_id, job_id))
