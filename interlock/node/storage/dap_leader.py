"""The leader's store in SQLite: reports on their way into jobs, jobs on their way to the helper, collections.

A report's body stays until its batch is collected, and its VDAF state until its job is done; then both are forgotten.
Of a report remain its id, its digest (so that a late retry is known for one) and what became of it.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from interlock.base.database import as_bytes, as_int, changed
from interlock.dap.batches import Batch, OutShare
from interlock.dap.drafts import ReportError
from interlock.dap.messages import Interval
from interlock.dap.problems import DapProblem, ProblemType
from interlock.dap.storage import (
    Accepted,
    CollectionJob,
    CollectionState,
    Fold,
    NewReport,
    PendingJob,
    ReportStates,
)
from interlock.node.storage.dap import (
    SHARED_TABLES,
    AggregatorDatabase,
    close_interval,
    is_collected,
    refuse_overlap,
)

__all__ = ["SqliteLeaderStorage"]

_TABLES: Final = """
CREATE TABLE reports (task BLOB NOT NULL, id BLOB NOT NULL, bucket INTEGER NOT NULL, digest BLOB NOT NULL, body BLOB,
    member TEXT, state TEXT NOT NULL DEFAULT 'waiting', job BLOB, place INTEGER, vdaf_state BLOB, error TEXT,
    PRIMARY KEY (task, id));
CREATE INDEX reports_by_state ON reports (task, state, bucket);
CREATE INDEX reports_by_job ON reports (task, job);
CREATE UNIQUE INDEX one_a_member ON reports (task, bucket, member) WHERE member IS NOT NULL AND state != 'rejected';
CREATE TABLE jobs (task BLOB NOT NULL, id BLOB NOT NULL, request BLOB NOT NULL, state TEXT NOT NULL DEFAULT 'pending',
    PRIMARY KEY (task, id));
CREATE TABLE collections (task BLOB NOT NULL, id BLOB NOT NULL, request BLOB NOT NULL, start INTEGER NOT NULL,
    stop INTEGER NOT NULL, state TEXT NOT NULL DEFAULT 'pending', share_request BLOB NOT NULL DEFAULT X'',
    answer BLOB NOT NULL DEFAULT X'', problem TEXT NOT NULL DEFAULT '', detail TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (task, id))
"""
_COLLECTION: Final = "SELECT id, request, start, stop, state, share_request, answer, problem, detail FROM collections"


class SqliteLeaderStorage(AggregatorDatabase):
    """Fills dap.storage.LeaderStorage."""

    KIND = 0x494C444C  # "ILDL"
    MIGRATIONS: ClassVar[tuple[str, ...]] = (SHARED_TABLES + ";" + _TABLES,)

    # reports

    def add_reports(self, task_id: bytes, reports: Sequence[NewReport]) -> list[Accepted]:
        with self._write() as db:
            return [_add(db, task_id, report) for report in reports]

    def waiting_reports(self, task_id: bytes, limit: int, not_after: int) -> list[bytes]:
        rows = self._read(
            "SELECT body FROM reports WHERE task = ? AND state = 'waiting' AND bucket <= ?"
            " ORDER BY bucket, rowid LIMIT ?",
            *(task_id, not_after, limit),
        )
        return [as_bytes(row[0]) for row in rows]

    def states(self, task_id: bytes) -> ReportStates:
        rows = self._read("SELECT state, count(*) FROM reports WHERE task = ? GROUP BY state", task_id)
        return ReportStates(**{str(state): as_int(count) for state, count in rows})

    # aggregation jobs

    def create_job(
        self,
        task_id: bytes,
        job_id: bytes,
        request: bytes,
        states: Mapping[bytes, bytes],
        rejected: Mapping[bytes, ReportError],
    ) -> bool:
        take = (
            "UPDATE reports SET state = 'taken', job = ?, place = ?, vdaf_state = ?"
            " WHERE task = ? AND id = ? AND state = 'waiting'"
        )
        with self._write() as db:
            if not _all_waiting(db, task_id, [*states, *rejected]):
                return False
            for place, (report_id, state) in enumerate(states.items()):
                db.execute(take, (job_id, place, state, task_id, report_id))
            for report_id, error in rejected.items():
                _reject(db, task_id, report_id, error, "waiting")
            if states:
                db.execute("INSERT INTO jobs (task, id, request) VALUES (?, ?, ?)", (task_id, job_id, request))
            return True

    def pending_jobs(self, task_id: bytes, limit: int) -> list[PendingJob]:
        rows = self._read(
            "SELECT id, request FROM jobs WHERE task = ? AND state = 'pending' ORDER BY rowid LIMIT ?", task_id, limit
        )
        return [PendingJob(as_bytes(r[0]), as_bytes(r[1]), self._kept(task_id, as_bytes(r[0]))) for r in rows]

    def _kept(self, task_id: bytes, job_id: bytes) -> dict[bytes, tuple[int, bytes]]:
        sql = "SELECT id, bucket, vdaf_state FROM reports WHERE task = ? AND job = ? AND state = 'taken' ORDER BY place"
        rows = self._read(sql, task_id, job_id)
        return {as_bytes(r[0]): (as_int(r[1]), as_bytes(r[2])) for r in rows}

    def finish_job(
        self,
        task_id: bytes,
        job_id: bytes,
        outs: Sequence[OutShare],
        rejected: Mapping[bytes, ReportError],
        fold: Fold,
    ) -> bool:
        with self._write() as db:
            if not _move_job(db, task_id, job_id, "done"):
                return False
            refused = self._commit_outs(db, task_id, outs, fold)
            for report_id, error in {**rejected, **refused}.items():
                _reject(db, task_id, report_id, error, "taken")
            done = "UPDATE reports SET state = 'aggregated', vdaf_state = NULL WHERE task = ? AND job = ? AND state = ?"
            db.execute(done, (task_id, job_id, "taken"))
            return True

    def abandon_job(self, task_id: bytes, job_id: bytes, error: ReportError) -> bool:
        with self._write() as db:
            if not _move_job(db, task_id, job_id, "abandoned"):
                return False
            for report_id in self._kept(task_id, job_id):
                _reject(db, task_id, report_id, error, "taken")
            return True

    # collections

    def open_collection(self, task_id: bytes, job_id: bytes, request: bytes, interval: Interval) -> CollectionJob:
        with self._write() as db:
            found = self.collection(task_id, job_id)
            again = (
                found is not None
                and found.state is CollectionState.FAILED
                and found.problem == ProblemType.INVALID_BATCH_SIZE.value
            )
            if found is not None and not again:
                return found
            refuse_overlap(db, task_id, interval)
            _refuse_rivals(db, task_id, interval)
            sql = "INSERT OR REPLACE INTO collections (task, id, request, start, stop) VALUES (?, ?, ?, ?, ?)"
            db.execute(sql, (task_id, job_id, request, interval.start, interval.end))
        return CollectionJob(job_id, request, interval, CollectionState.PENDING)

    def collection(self, task_id: bytes, job_id: bytes) -> CollectionJob | None:
        rows = self._read(f"{_COLLECTION} WHERE task = ? AND id = ?", task_id, job_id)
        return _collection(rows[0]) if rows else None

    def open_collections(self, task_id: bytes, limit: int) -> list[CollectionJob]:
        sql = f"{_COLLECTION} WHERE task = ? AND state IN ('pending', 'frozen') ORDER BY rowid LIMIT ?"
        return [_collection(row) for row in self._read(sql, task_id, limit)]

    def freeze(self, task_id: bytes, job_id: bytes, ready: Callable[[Batch], bytes]) -> bytes | None:
        with self._write() as db:
            job = self.collection(task_id, job_id)
            if job is None or job.state is not CollectionState.PENDING or _under_way(db, task_id, job.interval):
                return None
            share_request = ready(self.batch(task_id, job.interval))
            close_interval(db, task_id, job.interval, job_id)
            sql = "UPDATE collections SET state = 'frozen', share_request = ? WHERE task = ? AND id = ?"
            db.execute(sql, (share_request, task_id, job_id))
            return share_request

    def finish_collection(self, task_id: bytes, job_id: bytes, answer: bytes) -> bool:
        done = "UPDATE collections SET state = 'ready', answer = ? WHERE task = ? AND id = ? AND state = 'frozen'"
        with self._write() as db:
            job = self.collection(task_id, job_id)
            if job is None or not changed(db, done, answer, task_id, job_id):
                return False
            forget = "UPDATE reports SET body = NULL WHERE task = ? AND bucket >= ? AND bucket < ?"
            db.execute(forget, (task_id, job.interval.start, job.interval.end))
            return True

    def fail_collection(self, task_id: bytes, job_id: bytes, problem: str, detail: str) -> bool:
        sql = (
            "UPDATE collections SET state = 'failed', problem = ?, detail = ?"
            " WHERE task = ? AND id = ? AND state IN ('pending', 'frozen')"
        )
        with self._write() as db:
            if not changed(db, sql, problem, detail, task_id, job_id):
                return False
            db.execute("DELETE FROM collected WHERE task = ? AND job = ?", (task_id, job_id))
            return True


def _add(db: sqlite3.Connection, task_id: bytes, report: NewReport) -> Accepted:
    digest = hashlib.sha256(report.body).digest()
    known = db.execute("SELECT digest FROM reports WHERE task = ? AND id = ?", (task_id, report.report_id)).fetchone()
    if known is not None:
        return Accepted.SAME if known[0] == digest else Accepted.REPLAYED
    if is_collected(db, task_id, report.time):
        return Accepted.COLLECTED
    row = (task_id, report.report_id, report.time, digest, report.body, report.member)
    # OR IGNORE: the id is new, so the one thing that can be in the way is another report of this member
    sql = "INSERT OR IGNORE INTO reports (task, id, bucket, digest, body, member) VALUES (?, ?, ?, ?, ?, ?)"
    return Accepted.STORED if changed(db, sql, *row) else Accepted.SECOND


def _reject(db: sqlite3.Connection, task_id: bytes, report_id: bytes, error: ReportError, state: str) -> None:
    sql = (
        "UPDATE reports SET state = 'rejected', error = ?, body = NULL, vdaf_state = NULL"
        " WHERE task = ? AND id = ? AND state = ?"
    )
    db.execute(sql, (error.value, task_id, report_id, state))


def _all_waiting(db: sqlite3.Connection, task_id: bytes, report_ids: Sequence[bytes]) -> bool:
    sql = "SELECT 1 FROM reports WHERE task = ? AND id = ? AND state = 'waiting'"
    return all(db.execute(sql, (task_id, report_id)).fetchone() for report_id in report_ids)


def _move_job(db: sqlite3.Connection, task_id: bytes, job_id: bytes, state: str) -> bool:
    sql = "UPDATE jobs SET state = ?, request = X'' WHERE task = ? AND id = ? AND state = 'pending'"
    return changed(db, sql, state, task_id, job_id)


def _under_way(db: sqlite3.Connection, task_id: bytes, interval: Interval) -> bool:
    sql = "SELECT 1 FROM reports WHERE task = ? AND state IN ('waiting', 'taken') AND bucket >= ? AND bucket < ?"
    return db.execute(sql, (task_id, interval.start, interval.end)).fetchone() is not None


def _refuse_rivals(db: sqlite3.Connection, task_id: bytes, interval: Interval) -> None:
    """Raises: DapProblem, where another collection job that has not failed reaches into the interval."""
    sql = "SELECT 1 FROM collections WHERE task = ? AND state != 'failed' AND start < ? AND stop > ?"
    if db.execute(sql, (task_id, interval.end, interval.start)).fetchone():
        raise DapProblem(ProblemType.BATCH_OVERLAP, "another collection job has part of the interval", task_id=task_id)


def _collection(row: tuple[object, ...]) -> CollectionJob:
    start, stop = as_int(row[2]), as_int(row[3])
    return CollectionJob(
        job_id=as_bytes(row[0]),
        request=as_bytes(row[1]),
        interval=Interval(start, stop - start),
        state=CollectionState(row[4]),
        share_request=as_bytes(row[5]),
        answer=as_bytes(row[6]),
        problem=str(row[7]),
        detail=str(row[8]),
    )
