"""The leader's store: reports as they come, collections, and what is forgotten; jobs are in `dap_jobs`.

A report's body stays until its job is over, or is put off with the VDAF states that follow from the bodies; then it is
forgotten. Of a report remain its id, its digest (so that a late retry is known for one) and what became of it. Reports
are in the order of their arrival (`seq`), bodies apart from what changes, and a job holds the numbers of its reports,
so that a job costs the same however many reports there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from interlock.base.database import as_bytes, as_int
from interlock.dap.batches import Batch, Selection
from interlock.dap.drafts import ReportError
from interlock.dap.messages import BatchId, Interval
from interlock.dap.problems import ProblemType
from interlock.dap.storage import (
    Accepted,
    CollectionJob,
    CollectionState,
    Filling,
    NewReport,
    ReportStates,
)
from interlock.node.storage.dap import SHARED_BATCHES, SHARED_TABLES, selecting
from interlock.node.storage.dap_collections import (
    COLLECTION,
    LIVE,
    NEW_COLLECTION,
    collection_of,
    collection_of_row,
    refuse_rivals,
)
from interlock.node.storage.dap_fates import LEADER_FATES
from interlock.node.storage.dap_jobs import OPEN, LeaderJobs
from interlock.node.storage.dap_leader_repair import LEADER_REPAIRS
from interlock.node.storage.dap_selected import (
    LEADER_BATCHES,
    LEADER_FILLING,
    claimable,
    reopen,
    seal,
)
from interlock.node.storage.sql import SqliteStore, Tx, hit, of_rows, of_values

__all__ = ["LEADER_KIND", "LEADER_MIGRATIONS", "LeaderTables", "SqliteLeaderStorage"]

LEADER_KIND: Final = 0x494C444C  # "ILDL"
LEADER_MIGRATIONS: Final = (
    "",  # files of before accumulators are not read
    SHARED_TABLES
    + """;
CREATE TABLE reports (seq INTEGER PRIMARY KEY AUTOINCREMENT, task BLOB NOT NULL, id BLOB NOT NULL,
    bucket INTEGER NOT NULL, at INTEGER NOT NULL, digest BLOB NOT NULL, member TEXT,
    state TEXT NOT NULL DEFAULT 'waiting', error TEXT, UNIQUE (task, id));
CREATE INDEX reports_waiting ON reports (task, bucket, seq) WHERE state = 'waiting';
CREATE INDEX reports_past ON reports (task, bucket) WHERE state IN ('aggregated', 'rejected');
CREATE UNIQUE INDEX one_a_member ON reports (task, bucket, member) WHERE member IS NOT NULL AND state != 'rejected';
CREATE TABLE bodies (seq INTEGER NOT NULL PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE jobs (seq INTEGER PRIMARY KEY AUTOINCREMENT, task BLOB NOT NULL, id BLOB NOT NULL, state TEXT NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL, token BLOB NOT NULL, owner TEXT NOT NULL, until INTEGER NOT NULL,
    attempts INTEGER NOT NULL, members BLOB NOT NULL, request BLOB NOT NULL, kept BLOB NOT NULL);
CREATE INDEX jobs_open ON jobs (task, seq) WHERE state IN ('gathered', 'begun');
CREATE INDEX jobs_past ON jobs (task, last) WHERE state IN ('done', 'abandoned');
CREATE TABLE collections (seq INTEGER PRIMARY KEY AUTOINCREMENT, task BLOB NOT NULL, id BLOB NOT NULL,
    request BLOB NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, state TEXT NOT NULL,
    share_request BLOB NOT NULL, answer BLOB NOT NULL, problem TEXT NOT NULL, detail TEXT NOT NULL, UNIQUE (task, id));
CREATE INDEX collections_open ON collections (task, seq) WHERE state IN ('pending', 'frozen')
""",
    SHARED_BATCHES + ";" + LEADER_BATCHES,
    LEADER_REPAIRS,
    LEADER_FATES,
    LEADER_FILLING,
)
# Each partial index is used where its very condition stands in the statement, and no statement has a choice of two.
_PAST: Final = "state IN ('aggregated', 'rejected')"


class LeaderTables(LeaderJobs):
    """Fills dap.storage.LeaderStorage."""

    # reports

    def add_reports(self, task_id: bytes, reports: Sequence[NewReport], now_us: int) -> list[Accepted]:
        digests = [report.digest for report in reports]  # here, and not while others wait
        with self._write() as tx:
            self._among_others(tx, task_id)
            closed = self._refused_buckets(tx, task_id, {report.time for report in reports})
            new = _insert(tx, task_id, [r for r in reports if r.time not in closed], now_us)
            told = {r.report_id for r in reports if new.get(r.report_id) is not r}
            known = _digests(tx, task_id, told) if told else {}
        found = []
        for report, digest in zip(reports, digests, strict=True):
            if new.get(report.report_id) is report:
                found.append(Accepted.STORED)
            elif report.report_id in known:
                found.append(Accepted.SAME if known[report.report_id] == digest else Accepted.REPLAYED)
            else:
                error = closed.get(report.time)
                found.append(Accepted.SECOND if error is None else _TURNED_DOWN[error])
        return found

    def waiting_reports(self, task_id: bytes, limit: int) -> list[bytes]:
        sql = (
            "SELECT body FROM reports JOIN bodies ON bodies.seq = reports.seq WHERE task = ? AND state = 'waiting'"
            " ORDER BY bucket, reports.seq LIMIT ?"
        )
        return [as_bytes(row[0]) for row in self._read(sql, task_id, limit)]

    def states(self, task_id: bytes) -> ReportStates:
        rows = self._read("SELECT state, count(*) FROM reports WHERE task = ? GROUP BY state", task_id)
        return ReportStates(**{str(state): as_int(count) for state, count in rows})

    # collections

    def open_collection(self, task_id: bytes, job_id: bytes, request: bytes, interval: Interval) -> CollectionJob:
        with self._write() as tx:
            self._alone(tx, task_id)
            found = collection_of(tx, task_id, job_id)
            if found is not None and (found.state is not CollectionState.FAILED or found.problem not in _PASSING):
                return found
            self._refuse_overlap(tx, task_id, interval)
            refuse_rivals(tx, task_id, interval)
            tx.execute("DELETE FROM collections WHERE task = ? AND id = ?", (task_id, job_id))
            row = (task_id, job_id, request, interval.start, interval.end, "pending", b"", b"", "", "")
            of_rows(tx, NEW_COLLECTION, [row])
        return CollectionJob(job_id, request, interval, CollectionState.PENDING)

    def open_next(self, task_id: bytes, request: bytes, name: Callable[[int], bytes]) -> CollectionJob:
        live = f"{COLLECTION} WHERE task = ? AND request = ? AND state != 'failed'"
        failed = "DELETE FROM collections WHERE task = ? AND request = ? AND state = 'failed'"
        with self._write() as tx:
            self._alone(tx, task_id)
            row = tx.execute(live, (task_id, request)).fetchone()
            if row is not None:
                return collection_of_row(row)
            tx.execute(failed, (task_id, request))
            new = (task_id, b"", request, 0, 0, "pending", b"", b"", "", "")
            ((seq,),) = of_rows(tx, NEW_COLLECTION + " RETURNING seq", [new])
            job_id = name(as_int(seq))
            tx.execute("UPDATE collections SET id = ? WHERE seq = ?", (job_id, seq))
        return CollectionJob(job_id, request, None, CollectionState.PENDING)

    def forget_collection(self, task_id: bytes, job_id: bytes) -> bool:
        with self._write() as tx:
            return hit(tx, "DELETE FROM collections WHERE task = ? AND id = ? AND state = 'ready'", task_id, job_id)

    def collection(self, task_id: bytes, job_id: bytes) -> CollectionJob | None:
        rows = self._read(f"{COLLECTION} WHERE task = ? AND id = ?", task_id, job_id)
        return collection_of_row(rows[0]) if rows else None

    def open_collections(self, task_id: bytes, limit: int) -> list[CollectionJob]:
        sql = f"{COLLECTION} WHERE task = ? AND {LIVE} ORDER BY seq LIMIT ?"
        return [collection_of_row(row) for row in self._read(sql, task_id, limit)]

    def freeze(
        self,
        task_id: bytes,
        job_id: bytes,
        ready: Callable[[Batch, Selection], bytes],
        filling: Filling | None = None,
    ) -> bytes | None:
        sql = "UPDATE collections SET state = 'frozen', share_request = ?, batch = ? WHERE task = ? AND id = ?"
        with self._write() as tx:
            self._alone(tx, task_id)
            job = collection_of(tx, task_id, job_id)
            if job is None or job.state is not CollectionState.PENDING:
                return None
            selection = job.selection if filling is None else claimable(tx, task_id, filling)
            if selection is None or (isinstance(selection, Interval) and _under_way(tx, task_id, selection)):
                return None
            share_request = ready(self._told(selecting(tx), task_id, selection), selection)
            self._close(tx, task_id, selection, job_id)
            if isinstance(selection, BatchId):
                seal(tx, task_id, selection)
            batch = selection.id if isinstance(selection, BatchId) else b""
            tx.execute(sql, (share_request, batch, task_id, job_id))
            return share_request

    def finish_collection(self, task_id: bytes, job_id: bytes, answer: bytes) -> bool:
        done = "UPDATE collections SET state = 'ready', answer = ? WHERE task = ? AND id = ? AND state = 'frozen'"
        with self._write() as tx:
            self._alone(tx, task_id)
            job = collection_of(tx, task_id, job_id)
            if job is None or not hit(tx, done, answer, task_id, job_id):
                return False
            assert job.selection is not None, "it was frozen"
            self._release(tx, task_id, job.selection)
            if isinstance(job.selection, BatchId):
                tx.execute("DELETE FROM batches WHERE task = ? AND id = ?", (task_id, job.selection.id))
        self._scrub()
        return True

    def fail_collection(
        self,
        task_id: bytes,
        job_id: bytes,
        state: CollectionState,
        problem: str,
        detail: str,
        more: Filling | None = None,
    ) -> bool:
        sql = "UPDATE collections SET state = 'failed', problem = ?, detail = ? WHERE task = ? AND id = ? AND state = ?"
        still = (CollectionState.PENDING, CollectionState.FROZEN)
        with self._write() as tx:
            self._alone(tx, task_id)
            if state not in still or not hit(tx, sql, problem, detail, task_id, job_id, state.value):
                return False
            tx.execute("DELETE FROM collected WHERE task = ? AND job = ?", (task_id, job_id))
            reopen(tx, task_id, job_id, more)
            return True

    # forgetting

    def newest(self, task_id: bytes) -> int | None:
        ((found,),) = self._read(f"SELECT max(bucket) FROM reports WHERE task = ? AND {_PAST}", task_id)
        return None if found is None else as_int(found)

    def sweep(self, task_id: bytes, horizon: int, limit: int) -> int:
        reports = (
            "DELETE FROM reports WHERE seq IN (SELECT seq FROM reports WHERE task = ? AND bucket < ?"
            f" AND {_PAST} ORDER BY bucket LIMIT ?)"
        )
        jobs = (
            "DELETE FROM jobs WHERE seq IN (SELECT seq FROM jobs AS j WHERE task = ? AND last < ?"
            " AND state IN ('done', 'abandoned') AND NOT EXISTS"
            " (SELECT 1 FROM accumulators WHERE task = j.task AND job = j.id) ORDER BY last LIMIT ?)"
        )
        failed = "DELETE FROM collections WHERE task = ? AND stop <= ? AND start < stop AND state = 'failed'"
        with self._write() as tx:
            horizon = self._raise_horizon(tx, task_id, horizon)
            below = (task_id, horizon, limit)
            gone = tx.execute(reports, below).rowcount
            if gone < limit:  # these are looked for among all that stay, so not before the last reports went
                gone += tx.execute(jobs, below).rowcount
            gone += tx.execute(failed, (task_id, horizon)).rowcount
            return gone + self._forget_released(tx, task_id, horizon, limit)


class SqliteLeaderStorage(SqliteStore, LeaderTables):
    """The leader's store in one SQLite file."""

    KIND = LEADER_KIND
    PAGE = 8 << 10  # a body takes several pages, and each page costs beside its bytes
    MIGRATIONS: ClassVar[tuple[str, ...]] = LEADER_MIGRATIONS
    ELDEST = 2


# What a batch fails of today and may not tomorrow; the same question then is a new try. Nothing of it was given out.
_PASSING: Final = frozenset({ProblemType.INVALID_BATCH_SIZE.value, ProblemType.BATCH_MISMATCH.value})
_TURNED_DOWN: Final = {
    ReportError.BATCH_COLLECTED: Accepted.COLLECTED,
    ReportError.REPORT_DROPPED: Accepted.PAST,
}


def _insert(tx: Tx, task_id: bytes, reports: Sequence[NewReport], now_us: int) -> dict[bytes, NewReport]:
    """Store reports whose id is new, and whose member has no other in the bucket; the first of several of one id."""
    first: dict[bytes, NewReport] = {}
    for report in reports:
        first.setdefault(report.report_id, report)
    # In one order for all (see HelperTables._spend): that of times first, of which a member has one report each.
    new = sorted(first.values(), key=lambda r: (r.time, r.report_id))
    rows = [(task_id, r.report_id, r.time, now_us, r.digest, r.member) for r in new]
    columns = "task, id, bucket, at, digest, member"
    made = of_rows(tx, f"INSERT INTO reports ({columns}) VALUES {{}} ON CONFLICT DO NOTHING RETURNING seq, id", rows)
    stored = {as_bytes(row[1]): first[as_bytes(row[1])] for row in made}
    of_rows(tx, "INSERT INTO bodies VALUES {}", [(row[0], first[as_bytes(row[1])].body) for row in made])
    return stored


def _digests(tx: Tx, task_id: bytes, report_ids: set[bytes]) -> dict[bytes, bytes]:
    sql = "SELECT id, digest FROM reports WHERE task = ? AND id IN ({})"
    return {as_bytes(row[0]): as_bytes(row[1]) for row in of_values(tx, sql, report_ids, [task_id])}


def _under_way(tx: Tx, task_id: bytes, interval: Interval) -> bool:
    waiting = "SELECT 1 FROM reports WHERE task = ? AND state = 'waiting' AND bucket >= ? AND bucket < ? LIMIT 1"
    taken = f"SELECT 1 FROM jobs WHERE task = ? AND {OPEN} AND last >= ? AND first < ? LIMIT 1"
    within = (task_id, interval.start, interval.end)
    return any(tx.execute(sql, within).fetchone() is not None for sql in (waiting, taken))
