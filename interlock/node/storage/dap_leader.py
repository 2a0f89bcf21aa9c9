"""The leader's store: reports on their way into jobs, jobs on their way to the helper, collections.

A report's body stays until its job is over, or is put off with the VDAF states that follow from the bodies; then it is
forgotten. Of a report remain its id, its digest (so that a late retry is known for one) and what became of it. Reports
are in the order of their arrival (`seq`), bodies apart from what changes, and a job holds the numbers of its reports,
so that a job costs the same however many reports there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from interlock.base.database import as_bytes, as_int
from interlock.dap.batches import Batch, OutShare, Selection
from interlock.dap.drafts import ReportError, Role
from interlock.dap.fates import Step
from interlock.dap.messages import BatchId, Interval
from interlock.dap.problems import ProblemType
from interlock.dap.storage import (
    LONGEST,
    NO_STATES,
    NOTHING,
    Accepted,
    CollectionJob,
    CollectionState,
    Filling,
    Fold,
    JobOrder,
    LaterJob,
    Lease,
    LeasedJob,
    NewReport,
    ReportStates,
    States,
)
from interlock.node.storage.dap import SHARED_BATCHES, SHARED_TABLES, selecting
from interlock.node.storage.dap_bodies import bodies_of, forget_bodies
from interlock.node.storage.dap_collections import (
    COLLECTION,
    LIVE,
    NEW_COLLECTION,
    collection_of,
    collection_of_row,
    refuse_rivals,
)
from interlock.node.storage.dap_fates import LEADER_FATES, LeaderFates, reject, reject_all
from interlock.node.storage.dap_later import JOB_COLUMNS, put_off
from interlock.node.storage.dap_leader_repair import LEADER_REPAIRS
from interlock.node.storage.dap_packed import packed, packed_states, unpacked, unpacked_states
from interlock.node.storage.dap_selected import (
    LEADER_BATCHES,
    LEADER_FILLING,
    claimable,
    enter,
    lacking,
    leave,
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
_OPEN: Final = "state IN ('gathered', 'begun')"


class LeaderTables(LeaderFates):
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

    # aggregation jobs

    def gather(self, task_id: bytes, order: JobOrder) -> bool:
        sql = (
            "SELECT seq, bucket, at FROM reports WHERE task = ? AND state = 'waiting' AND bucket <= ?"
            f" ORDER BY bucket, seq LIMIT ?{self.SKIP_LOCKED}"
        )
        with self._write() as tx:
            batch, room, enough = b"", order.size, order.size
            if order.filling is not None:
                self._alone(tx, task_id)  # no two batches are begun where one was lacking
                batch, room, enough = lacking(tx, task_id, order.filling, order.new_batch)
            size = min(order.size, room)
            rows = tx.execute(sql, (task_id, order.not_after, size)).fetchall()
            seqs, buckets, times = ([as_int(row[i]) for row in rows] for i in range(3))
            if not rows or not (len(rows) >= min(size, enough) or _due(tx, task_id, order, buckets, times)):
                return False
            of_values(tx, "UPDATE reports SET state = 'taken' WHERE seq IN ({})", seqs)
            row = (task_id, b"", "gathered", min(buckets), max(buckets), b"", "", 0, 0, packed(seqs), b"", b"", batch)
            of_rows(tx, f"INSERT INTO jobs ({JOB_COLUMNS}) VALUES {{}}", [row])
            if order.filling is not None:
                enter(tx, task_id, batch, order.filling, len(rows))
            return True

    def lease_job(self, task_id: bytes, lease: Lease, now_us: int) -> LeasedJob | None:
        free = (
            f"SELECT seq, attempts FROM jobs WHERE task = ? AND {_OPEN} AND (until <= ? OR until > ?)"
            f" ORDER BY seq LIMIT 1{self.SKIP_LOCKED}"
        )
        take = "UPDATE jobs SET token = ?, owner = ?, until = ?, attempts = attempts + 1 WHERE seq = ?"
        with self._write() as tx:
            row = tx.execute(free, (task_id, now_us, lease.until(now_us, LONGEST))).fetchone()
            if row is None:
                return None
            seq, before = as_int(row[0]), as_int(row[1])
            tx.execute(take, (lease.token, lease.owner, lease.until(now_us, before), seq))
            job = tx.execute("SELECT state, id, members, request, kept, batch FROM jobs WHERE seq = ?", (seq,))
            state, job_id, members, request, kept, batch = job.fetchone() or ()
            states = unpacked_states(as_bytes(kept))
            bodies = () if states else bodies_of(tx, unpacked(as_bytes(members)))
            if state == "gathered":
                return LeasedJob(bodies, batch=as_bytes(batch))
            return LeasedJob(bodies, as_bytes(job_id), as_bytes(request), states, as_bytes(batch))

    def free_jobs(self, owner: str) -> None:
        with self._write() as tx:
            tx.execute(f"UPDATE jobs SET token = ?, until = 0 WHERE owner = ? AND {_OPEN}", (b"", owner))

    def release_job(self, task_id: bytes, token: bytes, again_us: int, states: States = NO_STATES) -> None:
        free = f"UPDATE jobs SET token = ?, until = ?, attempts = 0 WHERE task = ? AND token = ? AND {_OPEN}"
        keep = f"UPDATE jobs SET kept = ? WHERE task = ? AND token = ? AND {_OPEN} RETURNING members"
        with self._write() as tx:
            if states:
                row = tx.execute(keep, (packed_states(states), task_id, token)).fetchone()
                forget_bodies(tx, unpacked(as_bytes(row[0])) if row else ())
            tx.execute(free, (b"", again_us, task_id, token))

    def begin_job(
        self,
        task_id: bytes,
        lease: Lease,
        job_id: bytes,
        request: bytes,
        rejected: Mapping[bytes, ReportError],
        now_us: int,
    ) -> bool:
        find = (
            "SELECT seq, attempts, batch FROM jobs"
            f" WHERE task = ? AND token = ? AND {_OPEN} AND state = 'gathered'{self.FOR_UPDATE}"
        )
        begin = "UPDATE jobs SET state = ?, id = ?, request = ?, until = ? WHERE seq = ?"
        down = "DELETE FROM bodies WHERE seq IN (SELECT seq FROM reports WHERE task = ? AND id IN ({}))"
        with self._write() as tx:
            row = tx.execute(find, (task_id, lease.token)).fetchone()
            if row is None:
                return False
            until = lease.until(now_us, as_int(row[1]) - 1)
            tx.execute(begin, ("begun" if request else "abandoned", job_id, request, until, row[0]))
            turned_down = reject(tx, task_id, rejected, Role.LEADER, Step.INIT)
            of_values(tx, down, rejected, [task_id])
            leave(tx, task_id, as_bytes(row[2]), turned_down)
            return True

    def finish_job(
        self,
        task_id: bytes,
        token: bytes,
        outs: Sequence[OutShare],
        rejected: Mapping[bytes, ReportError],
        fold: Fold,
        *,
        by_helper: Mapping[bytes, ReportError] = NOTHING,
        later: LaterJob | None = None,
    ) -> bool:
        done = "UPDATE reports SET state = 'aggregated', batch = ? WHERE state = 'taken' AND seq IN ({})"
        with self._write() as tx:
            self._among_others(tx, task_id)
            job = _end_job(tx, task_id, token, "done", "AND state = 'begun'")
            if job is None:
                return False
            forget_bodies(tx, job[1])
            # A batch is closed only once no report of it is under way; one that is closed all the same gets none.
            refused = self._refused(tx, task_id, outs)
            late = {key: error for key, error in refused.items() if error is ReportError.BATCH_COLLECTED}
            turned_down = reject(tx, task_id, {**rejected, **late}, Role.LEADER, Step.FINISH)
            turned_down += reject(tx, task_id, by_helper, Role.HELPER, Step.INIT)
            self._add_up(tx, task_id, job[0], [out for out in outs if out.report_id not in late], fold)
            put = set() if later is None else put_off(tx, task_id, later, job)
            of_values(tx, done, [seq for seq in job[1] if seq not in put], [job[2]])
            leave(tx, task_id, job[2], turned_down)
            return True

    def abandon_job(self, task_id: bytes, token: bytes, error: ReportError) -> bool:
        with self._write() as tx:
            job = _end_job(tx, task_id, token, "abandoned")
            if job is None:
                return False
            left = of_values(tx, "SELECT seq FROM reports WHERE state = 'taken' AND seq IN ({})", job[1])
            reject_all(tx, job[1], error)
            forget_bodies(tx, job[1])
            leave(tx, task_id, job[2], len(left))
            return True

    # collections

    def open_collection(self, task_id: bytes, job_id: bytes, request: bytes, interval: Interval) -> CollectionJob:
        with self._write() as tx:
            self._alone(tx, task_id)
            found = collection_of(tx, task_id, job_id)
            small = ProblemType.INVALID_BATCH_SIZE.value
            if found is not None and (found.state is not CollectionState.FAILED or found.problem != small):
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


_TURNED_DOWN: Final = {
    ReportError.BATCH_COLLECTED: Accepted.COLLECTED,
    ReportError.REPORT_DROPPED: Accepted.PAST,
}


def _insert(tx: Tx, task_id: bytes, reports: Sequence[NewReport], now_us: int) -> dict[bytes, NewReport]:
    """Store reports whose id is new, and whose member has no other in the bucket; the first of several of one id."""
    first: dict[bytes, NewReport] = {}
    for report in reports:
        first.setdefault(report.report_id, report)
    new = sorted(first.values(), key=lambda r: r.report_id)  # in one order for all: see HelperTables._spend
    rows = [(task_id, r.report_id, r.time, now_us, r.digest, r.member) for r in new]
    columns = "task, id, bucket, at, digest, member"
    made = of_rows(tx, f"INSERT INTO reports ({columns}) VALUES {{}} ON CONFLICT DO NOTHING RETURNING seq, id", rows)
    stored = {as_bytes(row[1]): first[as_bytes(row[1])] for row in made}
    of_rows(tx, "INSERT INTO bodies VALUES {}", [(row[0], first[as_bytes(row[1])].body) for row in made])
    return stored


def _digests(tx: Tx, task_id: bytes, report_ids: set[bytes]) -> dict[bytes, bytes]:
    sql = "SELECT id, digest FROM reports WHERE task = ? AND id IN ({})"
    return {as_bytes(row[0]): as_bytes(row[1]) for row in of_values(tx, sql, report_ids, [task_id])}


def _due(tx: Tx, task_id: bytes, order: JobOrder, buckets: Sequence[int], times: Sequence[int]) -> bool:
    """Whether fewer reports than a job holds go now: by their age, or asked for.

    A report that came after `now` was read is young; one that is further ahead came before a clock was set back.
    """
    if any(abs(order.now_us - at) >= order.patience_us for at in times):
        return True
    if order.filling is not None:
        return False  # whoever asks for a batch has no use for what makes none ready
    sql = f"SELECT 1 FROM collections WHERE task = ? AND {LIVE} AND state = 'pending' AND start <= ? AND stop > ?"
    return tx.execute(sql, (task_id, max(buckets), min(buckets))).fetchone() is not None


def _end_job(tx: Tx, task_id: bytes, token: bytes, state: str, also: str = "") -> tuple[bytes, list[int], bytes] | None:
    """End the job that is under this lease; its id, the numbers of its reports, and its batch."""
    sql = (
        "UPDATE jobs SET state = ?, token = ?, request = ?, kept = ?"
        f" WHERE task = ? AND token = ? AND {_OPEN} {also} RETURNING id, members, batch"
    )
    row = tx.execute(sql, (state, b"", b"", b"", task_id, token)).fetchone()
    return None if row is None else (as_bytes(row[0]), unpacked(as_bytes(row[1])), as_bytes(row[2]))


def _under_way(tx: Tx, task_id: bytes, interval: Interval) -> bool:
    waiting = "SELECT 1 FROM reports WHERE task = ? AND state = 'waiting' AND bucket >= ? AND bucket < ? LIMIT 1"
    taken = f"SELECT 1 FROM jobs WHERE task = ? AND {_OPEN} AND last >= ? AND first < ? LIMIT 1"
    within = (task_id, interval.start, interval.end)
    return any(tx.execute(sql, within).fetchone() is not None for sql in (waiting, taken))
