"""What the SQLite stores of leader and helper share, and the helper's: one transaction a change.

Whatever a transaction needs from the VDAF is a few additions, the heavy work is done before it begins. Tables of both:
shards (partial aggregate shares of a bucket), aggregated (report ids), collected (closed intervals). The helper's:
answers (what each resource was answered with). The leader's are in `dap_leader`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from interlock.base.database import Database, as_bytes, as_int, changed
from interlock.dap.batches import EMPTY_CHECKSUM, Batch, OutShare, checksum_of, xor
from interlock.dap.drafts import ReportError
from interlock.dap.messages import Interval
from interlock.dap.problems import DapProblem, ProblemType
from interlock.dap.storage import Fold

__all__ = [
    "SHARED_TABLES",
    "AggregatorDatabase",
    "SqliteHelperStorage",
    "close_interval",
    "is_collected",
    "refuse_overlap",
]

SHARED_TABLES: Final = """
CREATE TABLE shards (task BLOB NOT NULL, bucket INTEGER NOT NULL, share BLOB NOT NULL, count INTEGER NOT NULL,
    checksum BLOB NOT NULL);
CREATE INDEX shards_by_bucket ON shards (task, bucket);
CREATE TABLE aggregated (task BLOB NOT NULL, report BLOB NOT NULL, PRIMARY KEY (task, report)) WITHOUT ROWID;
CREATE TABLE collected (task BLOB NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, job BLOB NOT NULL,
    PRIMARY KEY (task, start)) WITHOUT ROWID
"""


class AggregatorDatabase(Database):
    """What leader and helper share."""

    def batch(self, task_id: bytes, interval: Interval) -> Batch:
        """All that was committed to an interval."""
        rows = self._read(
            "SELECT bucket, share, count, checksum FROM shards WHERE task = ? AND bucket >= ? AND bucket < ?",
            *(task_id, interval.start, interval.end),
        )
        checksum = EMPTY_CHECKSUM
        for row in rows:
            checksum = xor(checksum, as_bytes(row[3]))
        buckets = [as_int(row[0]) for row in rows] or [0]
        count = sum(as_int(row[2]) for row in rows)
        return Batch(tuple(as_bytes(row[1]) for row in rows), count, checksum, min(buckets), max(buckets))

    def _commit_outs(
        self, db: sqlite3.Connection, task_id: bytes, outs: Sequence[OutShare], fold: Fold
    ) -> dict[bytes, ReportError]:
        """Commit what may be committed, one partial share a bucket; returns why the rest may not (4.5.8)."""
        refused: dict[bytes, ReportError] = {}
        buckets: dict[int, list[OutShare]] = {}
        for out in outs:
            if is_collected(db, task_id, out.bucket):
                refused[out.report_id] = ReportError.BATCH_COLLECTED
            elif not changed(db, "INSERT OR IGNORE INTO aggregated VALUES (?, ?)", task_id, out.report_id):
                refused[out.report_id] = ReportError.REPORT_REPLAYED
            else:
                buckets.setdefault(out.bucket, []).append(out)
        for bucket, found in buckets.items():
            share, checksum = fold([out.share for out in found]), checksum_of(out.report_id for out in found)
            db.execute("INSERT INTO shards VALUES (?, ?, ?, ?, ?)", (task_id, bucket, share, len(found), checksum))
        return refused


class SqliteHelperStorage(AggregatorDatabase):
    """Fills dap.storage.HelperStorage."""

    KIND = 0x494C4448  # "ILDH"
    MIGRATIONS: ClassVar[tuple[str, ...]] = (
        SHARED_TABLES
        + """;
CREATE TABLE answers (task BLOB NOT NULL, kind TEXT NOT NULL, id BLOB NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (task, kind, id)) WITHOUT ROWID
""",
    )

    def answer(self, task_id: bytes, kind: str, resource_id: bytes) -> bytes | None:
        rows = self._read("SELECT body FROM answers WHERE task = ? AND kind = ? AND id = ?", task_id, kind, resource_id)
        return as_bytes(rows[0][0]) if rows else None

    def commit_job(
        self,
        task_id: bytes,
        job_id: bytes,
        outs: Sequence[OutShare],
        fold: Fold,
        respond: Callable[[Mapping[bytes, ReportError]], bytes],
    ) -> bytes:
        with self._write() as db:
            stored = self.answer(task_id, "aggregation-job", job_id)
            if stored is not None:
                return stored
            answer = respond(self._commit_outs(db, task_id, outs, fold))
            db.execute("INSERT INTO answers VALUES (?, 'aggregation-job', ?, ?)", (task_id, job_id, answer))
            return answer

    def collect(self, task_id: bytes, share_id: bytes, interval: Interval, respond: Callable[[Batch], bytes]) -> bytes:
        with self._write() as db:
            stored = self.answer(task_id, "aggregate-share", share_id)
            if stored is not None:
                return stored
            refuse_overlap(db, task_id, interval)
            answer = respond(self.batch(task_id, interval))
            close_interval(db, task_id, interval, share_id)
            db.execute("INSERT INTO answers VALUES (?, 'aggregate-share', ?, ?)", (task_id, share_id, answer))
            return answer


def refuse_overlap(db: sqlite3.Connection, task_id: bytes, interval: Interval) -> None:
    """Raises: DapProblem, batchOverlap, where any bucket of the interval was collected."""
    sql = "SELECT 1 FROM collected WHERE task = ? AND start < ? AND stop > ?"
    if db.execute(sql, (task_id, interval.end, interval.start)).fetchone():
        raise DapProblem(ProblemType.BATCH_OVERLAP, "part of the interval was collected before", task_id=task_id)


def close_interval(db: sqlite3.Connection, task_id: bytes, interval: Interval, job_id: bytes) -> None:
    """Nothing is committed to a closed interval."""
    db.execute("INSERT INTO collected VALUES (?, ?, ?, ?)", (task_id, interval.start, interval.end, job_id))


def is_collected(db: sqlite3.Connection, task_id: bytes, bucket: int) -> bool:
    sql = "SELECT 1 FROM collected WHERE task = ? AND start <= ? AND stop > ?"
    return db.execute(sql, (task_id, bucket, bucket)).fetchone() is not None
