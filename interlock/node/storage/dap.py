"""What the stores of leader and helper share, and the helper's store: one transaction a change.

Whatever a transaction needs from the VDAF is a few additions, the heavy work is done before it begins. Tables of both:
accumulators (the aggregate share of a bucket and job, until its batch is released; then one row a bucket without a
share, or none where the leader selects batches), collected (closed intervals), closed (batch ids), horizons (below
which a task takes no report), repairs (`dap_repair`). The helper's: aggregated (report ids), answers (what each
resource was answered with). The leader's are in `dap_leader`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, Final

from interlock.base.database import as_bytes, as_int
from interlock.dap.batches import EMPTY_CHECKSUM, Batch, OutShare, Selection, checksum_of, checksum_sum
from interlock.dap.drafts import ReportError
from interlock.dap.messages import BatchId, Interval
from interlock.dap.problems import DapProblem, ProblemType
from interlock.dap.repair import JobPart, Repair
from interlock.dap.storage import Fold
from interlock.node.storage.dap_repair import (
    REPAIRS,
    demand_unrepaired,
    parts_of,
    read_repair,
    repaired_until,
    was_repaired,
    write_repair,
)
from interlock.node.storage.sql import SqliteStore, SqlStore, Tx, hit, of_rows, of_values

__all__ = [
    "HELPER_KIND",
    "HELPER_MIGRATIONS",
    "SHARED_BATCHES",
    "SHARED_TABLES",
    "AggregatorTables",
    "HelperTables",
    "SqliteHelperStorage",
    "selecting",
]

# Rows in memory at once while a batch is read, which may have one for each of its reports.
_SHARES: Final = 64
_TOLD: Final = 1000
_RELEASED: Final = b""  # stands for the job in a row of a released batch
_BY_BATCH: Final = "batch = ? AND length(batch) > 0"  # as the index has it
_NOTHING_TOLD: Final = Batch(b"", 0, EMPTY_CHECKSUM)
_Select = Callable[[str, Sequence[object]], Sequence[Sequence[object]]]

SHARED_TABLES: Final = """
CREATE TABLE accumulators (task BLOB NOT NULL, bucket INTEGER NOT NULL, job BLOB NOT NULL, count INTEGER NOT NULL,
    checksum BLOB NOT NULL, share BLOB NOT NULL, PRIMARY KEY (task, bucket, job));
CREATE INDEX accumulators_by_job ON accumulators (task, job);
CREATE TABLE collected (task BLOB NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, job BLOB NOT NULL,
    PRIMARY KEY (task, start)) WITHOUT ROWID;
CREATE TABLE horizons (task BLOB NOT NULL PRIMARY KEY, bucket INTEGER NOT NULL) WITHOUT ROWID
"""
SHARED_BATCHES: Final = """
ALTER TABLE accumulators ADD COLUMN batch BLOB NOT NULL DEFAULT x'';
CREATE INDEX accumulators_by_batch ON accumulators (task, batch, bucket, job) WHERE length(batch) > 0;
CREATE TABLE closed (task BLOB NOT NULL, batch BLOB NOT NULL, job BLOB NOT NULL,
    PRIMARY KEY (task, batch)) WITHOUT ROWID
"""
HELPER_KIND: Final = 0x494C4448  # "ILDH"
HELPER_MIGRATIONS: Final = (
    "",  # files of before accumulators are not read
    SHARED_TABLES
    + """;
CREATE TABLE aggregated (task BLOB NOT NULL, report BLOB NOT NULL, bucket INTEGER NOT NULL,
    PRIMARY KEY (task, report)) WITHOUT ROWID;
CREATE INDEX aggregated_by_bucket ON aggregated (task, bucket);
CREATE TABLE answers (task BLOB NOT NULL, kind TEXT NOT NULL, id BLOB NOT NULL, bucket INTEGER NOT NULL,
    body BLOB NOT NULL, PRIMARY KEY (task, kind, id));
CREATE INDEX answers_by_bucket ON answers (task, bucket)
""",
    SHARED_BATCHES,
    REPAIRS,
)


class AggregatorTables(SqlStore):
    """What leader and helper share."""

    def batch(self, task_id: bytes, selection: Selection, merge: Fold) -> Batch:
        """All that was committed to a batch."""
        return self._merged(lambda sql, values: self._read(sql, *values), task_id, selection, merge)

    def _merged(self, rows_of: _Select, task_id: bytes, selection: Selection, merge: Fold) -> Batch:
        """A batch with its share."""
        share, told = merge([]), _NOTHING_TOLD
        for rows in _pages(rows_of, task_id, selection, "count, checksum, share", _SHARES):
            share = merge([share, *(as_bytes(row[4]) for row in rows if row[4])])
            told = _counted(told, rows)
        return Batch(share, told.count, told.checksum, told.first, told.last)

    def _told(self, rows_of: _Select, task_id: bytes, selection: Selection) -> Batch:
        """A batch without its share."""
        pages = _pages(rows_of, task_id, selection, "count, checksum", _TOLD)
        return functools.reduce(_counted, pages, _NOTHING_TOLD)

    def _release(self, tx: Tx, task_id: bytes, selection: Selection) -> None:
        """Forget the shares of a batch that was given out; of an interval the counts stay, one row a bucket."""
        kept: dict[int, Batch] = {}
        if isinstance(selection, Interval):
            for rows in _pages(selecting(tx), task_id, selection, "count, checksum", _TOLD):
                for row in rows:
                    kept[as_int(row[0])] = _counted(kept.get(as_int(row[0]), _NOTHING_TOLD), [row])
        where, values = _of(selection)
        tx.execute(f"DELETE FROM accumulators WHERE task = ? AND {where}", (task_id, *values))
        told = [(bucket, _RELEASED, of.count, of.checksum, b"", b"") for bucket, of in kept.items()]
        self._accumulate(tx, [(task_id, *row) for row in told])

    def _accumulate(self, tx: Tx, rows: Sequence[Sequence[object]]) -> None:
        of_rows(tx, "INSERT INTO accumulators (task, bucket, job, count, checksum, share, batch) VALUES {}", rows)

    def _add_up(self, tx: Tx, task_id: bytes, job_id: bytes, outs: Sequence[OutShare], fold: Fold) -> None:
        """Store a job's output shares, one row a bucket."""
        buckets: dict[int, list[OutShare]] = {}
        for out in outs:
            buckets.setdefault(out.bucket, []).append(out)
        rows = [
            (bucket, len(of), checksum_of(o.report_id for o in of), fold([o.share for o in of]), of[0].batch)
            for bucket, of in buckets.items()
        ]
        self._accumulate(tx, [(task_id, bucket, job_id, *rest) for bucket, *rest in rows])

    def _refused_buckets(self, tx: Tx, task_id: bytes, buckets: set[int]) -> dict[int, ReportError]:
        """The buckets that take no report any more, with what a report of one is told."""
        horizon, refused = self._horizon(tx, task_id), dict[int, ReportError]()
        for bucket in buckets:
            if max(_last_stop(tx, task_id, bucket + 1), repaired_until(tx, task_id, bucket + 1)) > bucket:
                refused[bucket] = ReportError.BATCH_COLLECTED
            elif bucket < horizon:
                refused[bucket] = ReportError.REPORT_DROPPED
        return refused

    def _refused(self, tx: Tx, task_id: bytes, outs: Sequence[OutShare]) -> dict[bytes, ReportError]:
        """The output shares that may be committed no more, with what each report is told. A job has one batch."""
        buckets = self._refused_buckets(tx, task_id, {out.bucket for out in outs})
        named = {out.batch for out in outs if out.batch}
        batches = {b for b in named if _is_closed(tx, task_id, b) or was_repaired(tx, task_id, b)}
        past = {out.report_id: buckets[out.bucket] for out in outs if out.bucket in buckets}
        return past | {out.report_id: ReportError.BATCH_COLLECTED for out in outs if out.batch in batches}

    def _refuse_overlap(self, tx: Tx, task_id: bytes, selection: Selection) -> None:
        """Raises: DapProblem, batchOverlap, where any of the batch was collected."""
        if isinstance(selection, BatchId):
            taken = _is_closed(tx, task_id, selection.id)
        else:
            taken = _last_stop(tx, task_id, selection.end) > selection.start
        if taken:
            what = "batch" if isinstance(selection, BatchId) else "interval"
            raise DapProblem(ProblemType.BATCH_OVERLAP, f"part of the {what} was collected before", task_id=task_id)

    def _close(self, tx: Tx, task_id: bytes, selection: Selection, job_id: bytes) -> None:
        """Nothing is committed to a closed batch."""
        if isinstance(selection, BatchId):
            tx.execute("INSERT INTO closed VALUES (?, ?, ?)", (task_id, selection.id, job_id))
        else:
            row = (task_id, selection.start, selection.end, job_id)
            tx.execute("INSERT INTO collected VALUES (?, ?, ?, ?)", row)

    # repairs

    def repairs(self, task_id: bytes) -> list[Repair]:
        columns = "start, stop, batch, at, who, kept, ours, theirs"
        rows = self._read(f"SELECT {columns} FROM repairs WHERE task = ? ORDER BY start, at", task_id)
        return [read_repair(row) for row in rows]

    def _parts(self, tx: Tx, task_id: bytes, selection: Selection) -> tuple[JobPart, ...]:
        """What each job committed to a batch that was not released."""
        where, values = _of(selection)
        sql = f"SELECT job, count, checksum FROM accumulators WHERE task = ? AND {where}"
        return parts_of(tx.execute(sql, (task_id, *values)).fetchall())

    def _leave_out(self, tx: Tx, task_id: bytes, repair: Repair) -> None:
        """Drop what a repair leaves out here, and write it down; the ids of its reports stay spent."""
        where, values = _of(repair.selection)
        sql = f"DELETE FROM accumulators WHERE task = ? AND {where} AND job IN ({{}})"
        of_values(tx, sql, [part.job_id for part in repair.ours], [task_id, *values])
        write_repair(tx, task_id, repair)

    # forgetting

    def _horizon(self, tx: Tx, task_id: bytes) -> int:
        row = tx.execute("SELECT bucket FROM horizons WHERE task = ?", (task_id,)).fetchone()
        return as_int(row[0]) if row else 0

    def _raise_horizon(self, tx: Tx, task_id: bytes, horizon: int) -> int:
        """The task's horizon afterwards, which is never lower than before."""
        if self._horizon(tx, task_id) < horizon:
            self._alone(tx, task_id)  # whoever still writes below it has committed then
            tx.execute("INSERT INTO horizons VALUES (?, 0) ON CONFLICT DO NOTHING", (task_id,))
            tx.execute("UPDATE horizons SET bucket = ? WHERE task = ? AND bucket < ?", (horizon, task_id, horizon))
        return self._horizon(tx, task_id)

    def _forget_released(self, tx: Tx, task_id: bytes, horizon: int, limit: int) -> int:
        # "+", and the length, which is 0 in each of them, keep SQLite to the index by job: by the other one it goes
        # through all that was not released.
        sql = (
            "DELETE FROM accumulators WHERE task = ? AND job = ? AND bucket IN (SELECT bucket FROM accumulators"
            " WHERE task = ? AND job = ? AND +bucket < ? AND length(share) = 0 LIMIT ?)"
        )
        return tx.execute(sql, (task_id, _RELEASED, task_id, _RELEASED, horizon, limit)).rowcount


class HelperTables(AggregatorTables):
    """Fills dap.storage.HelperStorage."""

    def answer(self, task_id: bytes, kind: str, resource_id: bytes) -> bytes | None:
        rows = self._read("SELECT body FROM answers WHERE task = ? AND kind = ? AND id = ?", task_id, kind, resource_id)
        return as_bytes(rows[0][0]) if rows else None

    def forget_answer(self, task_id: bytes, kind: str, resource_id: bytes, answer: bytes) -> None:
        sql = "DELETE FROM answers WHERE task = ? AND kind = ? AND id = ? AND body = ?"
        with self._write() as tx:
            tx.execute(sql, (task_id, kind, resource_id, answer))

    def commit_job(
        self,
        task_id: bytes,
        job_id: bytes,
        newest: int,
        outs: Sequence[OutShare],
        fold: Fold,
        respond: Callable[[Mapping[bytes, ReportError]], bytes],
    ) -> bytes:
        with self._write() as tx:
            self._among_others(tx, task_id)
            stored = _claim(tx, task_id, "aggregation-job", job_id, newest)
            if stored is not None:
                return stored
            refused = self._spend(tx, task_id, outs)
            self._add_up(tx, task_id, job_id, [out for out in outs if out.report_id not in refused], fold)
            return _answered(tx, task_id, "aggregation-job", job_id, respond(refused))

    def _spend(self, tx: Tx, task_id: bytes, outs: Sequence[OutShare]) -> dict[bytes, ReportError]:
        """Note the ids of what may be committed; returns why the rest may not."""
        refused = self._refused(tx, task_id, outs)
        # In one order for all: two jobs that share reports wait for one another, and not both.
        new = sorted((task_id, out.report_id, out.bucket) for out in outs if out.report_id not in refused)
        sql = "INSERT INTO aggregated VALUES {} ON CONFLICT DO NOTHING RETURNING report"
        spent = {as_bytes(row[0]) for row in of_rows(tx, sql, new)}
        return refused | {row[1]: ReportError.REPORT_REPLAYED for row in new if row[1] not in spent}

    def collect(
        self, task_id: bytes, share_id: bytes, selection: Selection, merge: Fold, respond: Callable[[Batch], bytes]
    ) -> bytes:
        last = selection.end - 1 if isinstance(selection, Interval) else 0
        with self._write() as tx:
            self._alone(tx, task_id)
            stored = _claim(tx, task_id, "aggregate-share", share_id, last)
            if stored is not None:
                return stored
            self._refuse_overlap(tx, task_id, selection)
            answer = respond(self._merged(selecting(tx), task_id, selection, merge))
            self._close(tx, task_id, selection, share_id)
            self._release(tx, task_id, selection)
            _answered(tx, task_id, "aggregate-share", share_id, answer)
        self._scrub()
        return answer

    def repair(
        self,
        task_id: bytes,
        repair_id: bytes,
        selection: Selection,
        judge: Callable[[tuple[JobPart, ...]], tuple[bytes, Repair]],
    ) -> bytes:
        with self._write() as tx:
            self._alone(tx, task_id)
            stored = _claim(tx, task_id, "repair", repair_id, 0)
            if stored is not None:
                return stored
            self._refuse_overlap(tx, task_id, selection)
            demand_unrepaired(tx, task_id, selection)
            answer, repair = judge(self._parts(tx, task_id, selection))
            self._leave_out(tx, task_id, repair)
            return _answered(tx, task_id, "repair", repair_id, answer)

    def newest(self, task_id: bytes) -> int | None:
        ((found,),) = self._read("SELECT max(bucket) FROM aggregated WHERE task = ?", task_id)
        return None if found is None else as_int(found)

    def sweep(self, task_id: bytes, horizon: int, limit: int) -> int:
        ids = (
            "DELETE FROM aggregated WHERE task = ? AND report IN"
            " (SELECT report FROM aggregated WHERE task = ? AND bucket < ? ORDER BY bucket LIMIT ?)"
        )
        # A leader that never got the answer asks again, and has to get this one as long as the job counts for a batch
        # that is not collected. The answers about batches stay: one row a batch.
        answers = (
            "DELETE FROM answers WHERE task = ? AND kind = 'aggregation-job' AND id IN (SELECT id FROM answers AS a"
            " WHERE task = ? AND kind = 'aggregation-job' AND bucket < ? AND NOT EXISTS"
            " (SELECT 1 FROM accumulators WHERE task = a.task AND job = a.id) ORDER BY bucket LIMIT ?)"
        )
        with self._write() as tx:
            horizon = self._raise_horizon(tx, task_id, horizon)
            below = (task_id, task_id, horizon, limit)
            gone = tx.execute(ids, below).rowcount
            if gone < limit:  # these are looked for among all that stay, so not before the last ids went
                gone += tx.execute(answers, below).rowcount
            return gone + self._forget_released(tx, task_id, horizon, limit)


class SqliteHelperStorage(SqliteStore, HelperTables):
    """The helper's store in one SQLite file."""

    KIND = HELPER_KIND
    MIGRATIONS: ClassVar[tuple[str, ...]] = HELPER_MIGRATIONS
    ELDEST = 2


def _claim(tx: Tx, task_id: bytes, kind: str, resource_id: bytes, bucket: int) -> bytes | None:
    """Be the one that makes a resource, or get the answer of whoever did; the loser of a race waits for it here."""
    new = "INSERT INTO answers VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
    if hit(tx, new, task_id, kind, resource_id, bucket, b""):
        return None
    sql = "SELECT body FROM answers WHERE task = ? AND kind = ? AND id = ?"
    row = tx.execute(sql, (task_id, kind, resource_id)).fetchone()
    assert row is not None, "it is in the way"
    return as_bytes(row[0])


def _answered(tx: Tx, task_id: bytes, kind: str, resource_id: bytes, body: bytes) -> bytes:
    tx.execute("UPDATE answers SET body = ? WHERE task = ? AND kind = ? AND id = ?", (body, task_id, kind, resource_id))
    return body


def selecting(tx: Tx) -> _Select:
    """How a transaction reads."""
    return lambda sql, values: tx.execute(sql, values).fetchall()


def _pages(
    rows_of: _Select, task_id: bytes, selection: Selection, columns: str, size: int
) -> Iterator[Sequence[Sequence[object]]]:
    """A batch's accumulators, page by page: bucket, job, and these columns."""
    by_id = isinstance(selection, BatchId)
    sql = (
        f"SELECT bucket, job, {columns} FROM accumulators WHERE task = ? AND {_BY_BATCH if by_id else 'bucket < ?'}"
        " AND (bucket, job) > (?, ?) ORDER BY bucket, job LIMIT ?"
    )
    of, start = (selection.id, 0) if isinstance(selection, BatchId) else (selection.end, selection.start)
    after = start - 1, b"\xff" * 17
    while rows := rows_of(sql, (task_id, of, *after, size)):
        yield rows
        after = as_int(rows[-1][0]), as_bytes(rows[-1][1])


def _counted(before: Batch, rows: Sequence[Sequence[object]]) -> Batch:
    """What was told of a batch, and of more rows (bucket, job, count, checksum, ..) in the order of their buckets."""
    count = before.count + sum(as_int(row[2]) for row in rows)
    first = before.first if before.count else as_int(rows[0][0])
    checksum = checksum_sum([before.checksum, *(as_bytes(row[3]) for row in rows)])
    return Batch(b"", count, checksum, first, as_int(rows[-1][0]))


def _of(selection: Selection) -> tuple[str, tuple[object, ...]]:
    """Which accumulators are a batch's."""
    if isinstance(selection, BatchId):
        return _BY_BATCH, (selection.id,)
    return "bucket >= ? AND bucket < ?", (selection.start, selection.end)


def _is_closed(tx: Tx, task_id: bytes, batch: bytes) -> bool:
    return tx.execute("SELECT 1 FROM closed WHERE task = ? AND batch = ?", (task_id, batch)).fetchone() is not None


def _last_stop(tx: Tx, task_id: bytes, end: int) -> int:
    """Where the last closed interval that begins before `end` stops; no two of them overlap."""
    sql = "SELECT stop FROM collected WHERE task = ? AND start < ? ORDER BY start DESC LIMIT 1"
    row = tx.execute(sql, (task_id, end)).fetchone()
    return as_int(row[0]) if row else 0
