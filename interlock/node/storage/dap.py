"""What the SQLite stores of leader and helper share, and the helper's: a private file, one transaction a change.

WAL with synchronous=FULL: what was answered has been on disk before. One connection behind a lock; whatever a
transaction needs from the VDAF is a few additions, the heavy work is done before it begins. Tables of both:
shards (partial aggregate shares of a bucket), aggregated (report ids), collected (closed intervals). The helper's:
answers (what each resource was answered with). The leader's are in `dap_leader`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from interlock.base.files import BadState, NewerFormat, NotWritable
from interlock.dap.batches import EMPTY_CHECKSUM, Batch, OutShare, checksum_of, xor
from interlock.dap.drafts import ReportError
from interlock.dap.messages import Interval
from interlock.dap.problems import DapProblem, ProblemType
from interlock.dap.storage import Fold

__all__ = [
    "SHARED_TABLES",
    "Database",
    "SqliteHelperStorage",
    "as_bytes",
    "as_int",
    "changed",
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


class Database:
    """One SQLite file of ours: private, durable, of one kind and of a version that this interlock reads.

    Subclasses give KIND (application_id) and MIGRATIONS; entry n brings version n to n + 1.
    Raises, when opened: NewerFormat, BadState, NotWritable.
    """

    KIND: ClassVar[int]
    MIGRATIONS: ClassVar[tuple[str, ...]]

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            os.chmod(path, 0o600)
        except OSError as e:
            raise NotWritable(f"cannot be written ({e.strerror})", where=str(path)) from None
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
        try:
            self._set_up()
        except sqlite3.DatabaseError as e:
            self._db.close()
            raise BadState(f"is not a database of ours ({e})", where=str(path)) from None
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _set_up(self) -> None:
        (kind,) = self._db.execute("PRAGMA application_id").fetchone()
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        newest = len(self.MIGRATIONS)
        if kind not in (0, self.KIND) or (kind == 0 and version):
            raise BadState("is the database of another role", where=str(self._path))
        if version > newest:
            raise NewerFormat(
                f"has version {version}, and this interlock reads up to {newest}",
                where=str(self._path),
                fix="upgrade interlock",
            )
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("PRAGMA secure_delete = ON")  # what is forgotten leaves no trace in the file
        if version < newest:
            self._migrate(version)

    def _migrate(self, version: int) -> None:
        if version:
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            shutil.copy2(self._path, self._path.with_name(f"{self._path.name}.v{version}"))
        with self._write() as db:
            (version,) = db.execute("PRAGMA user_version").fetchone()  # another process may have been faster
            for statement in ";".join(self.MIGRATIONS[version:]).split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {self.KIND}")
            db.execute(f"PRAGMA user_version = {len(self.MIGRATIONS)}")

    @contextlib.contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: committed and durable when the block ends, rolled back where it raises."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _read(self, sql: str, *args: object) -> list[tuple[object, ...]]:
        with self._lock:
            return self._db.execute(sql, args).fetchall()

    # what leader and helper share

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


class SqliteHelperStorage(Database):
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


def changed(db: sqlite3.Connection, sql: str, *args: object) -> bool:
    return db.execute(sql, args).rowcount > 0


def as_bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise AssertionError("a column of bytes holds something else")
    return value


def as_int(value: object) -> int:
    if not isinstance(value, int):
        raise AssertionError("a column of numbers holds something else")
    return value
