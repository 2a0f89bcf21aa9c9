"""Collection jobs in the leader's store, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from interlock.base.database import as_bytes, as_int
from interlock.dap.messages import BatchId, Interval
from interlock.dap.problems import DapProblem, ProblemType
from interlock.dap.storage import CollectionJob, CollectionState
from interlock.node.storage.sql import Tx

__all__ = ["COLLECTION", "LIVE", "NEW_COLLECTION", "collection_of", "collection_of_row", "refuse_rivals"]

LIVE: Final = "state IN ('pending', 'frozen')"  # as the index has it
COLLECTION: Final = (
    "SELECT id, request, start, stop, state, share_request, answer, problem, detail, batch, repair_request, repaired"
    " FROM collections"
)
NEW_COLLECTION: Final = (
    "INSERT INTO collections (task, id, request, start, stop, state, share_request, answer, problem, detail) VALUES {}"
)


def collection_of(tx: Tx, task_id: bytes, job_id: bytes) -> CollectionJob | None:
    row = tx.execute(f"{COLLECTION} WHERE task = ? AND id = ?", (task_id, job_id)).fetchone()
    return None if row is None else collection_of_row(row)


def collection_of_row(row: Sequence[object]) -> CollectionJob:
    start, stop, batch = as_int(row[2]), as_int(row[3]), as_bytes(row[9])
    selected = BatchId(batch) if batch else None
    return CollectionJob(
        job_id=as_bytes(row[0]),
        request=as_bytes(row[1]),
        selection=Interval(start, stop - start) if start < stop else selected,
        state=CollectionState(row[4]),
        share_request=as_bytes(row[5]),
        answer=as_bytes(row[6]),
        problem=str(row[7]),
        detail=str(row[8]),
        repair_request=as_bytes(row[10]),
        repaired=bool(row[11]),
    )


def refuse_rivals(tx: Tx, task_id: bytes, interval: Interval) -> None:
    """Raises: DapProblem, where a collection job that is under way reaches into the interval."""
    sql = f"SELECT 1 FROM collections WHERE task = ? AND {LIVE} AND start < ? AND stop > ?"
    if tx.execute(sql, (task_id, interval.end, interval.start)).fetchone():
        raise DapProblem(ProblemType.BATCH_OVERLAP, "another collection job has part of the interval", task_id=task_id)
