"""Repairs of batches in both stores: what was dropped, and that nothing more is taken into what was repaired.

Table of both, `repairs`: a row a repaired batch, for good. A batch is repaired once, so no two rows of a task overlap.
A row stands for as long as the task does: it is what a second repair is refused by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from interlock.base.codec import Reader
from interlock.base.database import as_bytes, as_int
from interlock.dap.batches import Selection, xor
from interlock.dap.messages import BatchId, Interval, joined
from interlock.dap.problems import DapProblem, ProblemType
from interlock.dap.repair import JobPart, Repair
from interlock.node.storage.sql import Tx

__all__ = ["REPAIRS", "demand_unrepaired", "parts_of", "read_repair", "repaired_until", "was_repaired", "write_repair"]

REPAIRS: Final = """
CREATE TABLE repairs (task BLOB NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, batch BLOB NOT NULL,
    at INTEGER NOT NULL, who TEXT NOT NULL, kept INTEGER NOT NULL, ours BLOB NOT NULL, theirs BLOB NOT NULL,
    PRIMARY KEY (task, start, batch))
"""


def parts_of(rows: Sequence[Sequence[object]]) -> tuple[JobPart, ...]:
    """Accumulators (job, count, checksum), of any buckets, as parts of their jobs, in the order of their ids."""
    found: dict[bytes, JobPart] = {}
    for row in rows:
        job, count, checksum = as_bytes(row[0]), as_int(row[1]), as_bytes(row[2])
        before = found.get(job)
        if before is not None:
            count, checksum = before.count + count, xor(before.checksum, checksum)
        found[job] = JobPart(job, count, checksum)
    return tuple(found[job] for job in sorted(found))


def repaired_until(tx: Tx, task_id: bytes, end: int) -> int:
    """Where the last repaired interval that begins before `end` stops."""
    sql = "SELECT stop FROM repairs WHERE task = ? AND start < ? ORDER BY start DESC LIMIT 1"
    row = tx.execute(sql, (task_id, end)).fetchone()
    return as_int(row[0]) if row else 0


def was_repaired(tx: Tx, task_id: bytes, batch: bytes) -> bool:
    sql = "SELECT 1 FROM repairs WHERE task = ? AND start = 0 AND batch = ?"
    return tx.execute(sql, (task_id, batch)).fetchone() is not None


def demand_unrepaired(tx: Tx, task_id: bytes, selection: Selection) -> None:
    """Raises: DapProblem, batchMismatch, where any of the batch was repaired."""
    if isinstance(selection, BatchId):
        before = was_repaired(tx, task_id, selection.id)
    else:
        before = repaired_until(tx, task_id, selection.end) > selection.start
    if before:
        what = "part of the batch was repaired before, which is done once"
        raise DapProblem(ProblemType.BATCH_MISMATCH, what, task_id=task_id)


def write_repair(tx: Tx, task_id: bytes, repair: Repair) -> None:
    of = repair.selection
    where = (0, 0, of.id) if isinstance(of, BatchId) else (of.start, of.end, b"")
    row = (task_id, *where, repair.at_us, repair.who, repair.kept, joined(repair.ours), joined(repair.theirs))
    tx.execute("INSERT INTO repairs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def read_repair(row: Sequence[object]) -> Repair:
    """A row (start, stop, batch, at, who, kept, ours, theirs)."""
    start, stop, batch = as_int(row[0]), as_int(row[1]), as_bytes(row[2])
    selection = BatchId(batch) if batch else Interval(start, stop - start)
    ours, theirs = (tuple(Reader(as_bytes(data)).many(JobPart.read)) for data in row[6:8])
    return Repair(selection, as_int(row[3]), str(row[4]), as_int(row[5]), ours, theirs)
