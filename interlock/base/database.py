"""A private, durable SQLite file of one kind: what every store of ours stands on.

WAL with synchronous=FULL: what a write answered has been on disk before. One connection behind a lock, one
transaction a change; other processes may have the same file open. `TIMEOUT_S` is how long a change waits for theirs.

SQLite cannot carry a connection over a fork: the child would count locks as its own that it does not hold, find one
that another thread held at that moment held for ever, and lose its file to whoever closes it last. So before this
process forks, its connections are closed, between two transactions; each side opens its own when it needs one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Final

from interlock.base.files import BadState, NewerFormat, NotWritable, os_reason, sync_dir

__all__ = ["Database", "as_bytes", "as_int", "changed"]

_forking: Final = threading.Lock()  # held while this process forks, and while a connection is set up

# SQLite's primary result codes that a disk, its rights or another process cause, and no content of the file
_ENVIRONMENT: Final = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}
_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class Database:
    """One SQLite file of ours: private, durable, of one kind and of a version that this interlock reads.

    Subclasses give KIND (application_id) and MIGRATIONS; entry n brings version n to n + 1.
    Raises, when opened: NewerFormat, BadState, NotWritable.
    """

    KIND: ClassVar[int]
    MIGRATIONS: ClassVar[tuple[str, ...]]
    TIMEOUT_S: ClassVar[float] = 30
    ELDEST: ClassVar[int] = 1  # the oldest version that can be brought forward
    CACHE_KIB: ClassVar[int] = 2 << 10  # of pages in memory
    PAGE: ClassVar[int] = 4 << 10  # bytes of a page, in a file that is made anew
    KEEPS_COPIES: ClassVar[bool] = True  # of before a migration; else only until the new file is seen to be whole

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._closed = False
        self._away = False  # closed because this process forked
        with _forking:
            self._make()
            self._open()
            _OPEN.add(self)

    def _make(self) -> None:
        """The file, private. One that is there is not opened: closing it drops every lock of this process on it."""
        try:
            try:
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            except FileExistsError:
                if not os.access(self._path, os.R_OK | os.W_OK):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None
            os.chmod(self._path, 0o600)
        except OSError as e:
            raise NotWritable(f"cannot be written ({os_reason(e)})", where=str(self._path)) from None

    def _open(self) -> None:
        path = self._path
        try:
            self._db = self._connected()
        except sqlite3.Error as e:
            raise NotWritable(f"cannot be written ({e})", where=str(path)) from None
        try:
            self._set_up()
        except sqlite3.DatabaseError as e:
            self._db.close()
            if _code(e) in _ENVIRONMENT:
                raise _not_writable(path, e) from None
            raise BadState(f"is not a database of ours ({e})", where=str(path)) from None
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        with self._lock:
            self._db.close()
            self._closed, self._away = True, False

    def __del__(self) -> None:
        # A connection is part of a cycle, and would stay until somebody collects it.
        try:  # noqa: SIM105 - as a program ends, contextlib may be gone before us
            self._db.close()
        except Exception:  # noqa: BLE001, S110 - nobody could hear of it
            pass

    def _connected(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=self.TIMEOUT_S)

    def _here(self) -> sqlite3.Connection:
        """The connection, opened again after a fork; the caller holds the lock."""
        if self._away:
            self._db, self._away = self._connected(), False
            self._careful()
        return self._db

    def _leave(self) -> None:
        """Hold the lock, and no connection, until `_return`."""
        self._lock.acquire()
        if self._closed or self._away or self._db.in_transaction:  # in a change of this very thread's own
            return
        self._db.close()
        self._away = True

    def _return(self) -> None:
        self._lock.release()

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
        if 0 < version < self.ELDEST:
            told = f"has version {version}, which no longer can be brought forward"
            fix = "keep it for the interlock that made it, and begin a new one"
            raise BadState(told, where=str(self._path), fix=fix)
        self._db.execute(f"PRAGMA page_size = {self.PAGE}")  # a file that is there keeps its own
        self._db.execute("PRAGMA journal_mode = WAL")
        self._careful()
        if version < newest:
            self._migrate()
        if not self.KEEPS_COPIES and any(self._copy_at(before).exists() for before in range(1, newest)):
            self._forget_copies()

    def _careful(self) -> None:
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("PRAGMA secure_delete = ON")  # what is forgotten leaves no trace in the file
        self._db.execute(f"PRAGMA cache_size = -{self.CACHE_KIB}")

    def _migrate(self) -> None:
        newest = len(self.MIGRATIONS)
        with self._write() as db:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version == newest:  # another process was faster
                return
            if version:
                self._copy_to(self._copy_at(version))
            for statement in ";".join(self.MIGRATIONS[version:]).split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {self.KIND}")
            db.execute(f"PRAGMA user_version = {newest}")
            if not self.KEEPS_COPIES and db.execute("PRAGMA quick_check").fetchall() != [("ok",)]:
                told = "was not whole after it was brought forward, and stays as it was"
                raise BadState(told, where=str(self._path), fix="keep it, and ask for help")

    def _copy_at(self, version: int) -> Path:
        """Where the copy of a file of an older version lies."""
        return self._path.with_name(f"{self._path.name}.v{version}")

    def _forget_copies(self) -> None:
        """Delete the copies of before migrations to this version, and what was left of one that was cut short.

        None of them is in the making: this file is of that version. Raises: NotWritable.
        """
        named = re.compile(rf"{re.escape(self._path.name)}\.v([0-9]+)(\.part)?(-wal|-shm|-journal)?")
        for path in self._path.parent.iterdir():
            found = named.fullmatch(path.name)
            if found is not None and int(found[1]) < len(self.MIGRATIONS):
                try:
                    path.unlink(missing_ok=True)
                except OSError as e:
                    raise NotWritable(f"cannot be deleted ({os_reason(e)})", where=str(path)) from None
        sync_dir(self._path.parent)

    def _copy_to(self, path: Path) -> None:
        """Copy all that is committed, also what still lies in the WAL; our own transaction keeps writers away."""
        part = path.with_name(path.name + ".part")
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        # Another connection reads, for one that holds a write transaction cannot be copied from.
        with contextlib.closing(sqlite3.connect(self._path)) as now, contextlib.closing(sqlite3.connect(part)) as copy:
            copy.execute("PRAGMA synchronous = FULL")
            now.backup(copy)
        part.replace(path)
        sync_dir(path.parent)

    @contextlib.contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: committed and durable when the block ends, rolled back where it raises.

        Raises: NotWritable, where the disk or another process does not let it; BadState, for a damaged file.
        """
        with self._lock:
            try:
                db = self._here()
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
            except BaseException as e:
                with contextlib.suppress(sqlite3.Error):  # where the file itself fails, nothing was committed
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
                if isinstance(e, sqlite3.DatabaseError) and _code(e) in _ENVIRONMENT:
                    raise _not_writable(self._path, e) from None
                if isinstance(e, sqlite3.DatabaseError) and _code(e) in _DAMAGED:
                    raise BadState(f"is damaged ({e})", where=str(self._path)) from None
                raise

    def _scrub(self) -> None:
        """Empty the write-ahead log, which else keeps the pages of before for as long as somebody has the file open.

        For what has to leave no trace, after the change that forgot it. Where another process is just reading, or the
        disk does not let it, the log is emptied by the next one, or by whoever closes the file last.
        """
        with self._lock, contextlib.suppress(sqlite3.Error):
            self._here().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _read(self, sql: str, *args: object) -> list[tuple[object, ...]]:
        with self._lock:
            return self._here().execute(sql, args).fetchall()


_OPEN: Final[weakref.WeakSet[Database]] = weakref.WeakSet()
_left: list[Database] = []


def _before_fork() -> None:
    _forking.acquire()
    for database in list(_OPEN):
        _left.append(database)  # a signal may break in below, and what was taken has to be given back all the same
        database._leave()


def _after_fork() -> None:
    while _left:
        with contextlib.suppress(RuntimeError):  # of the last one, if it was never taken
            _left.pop()._return()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def _code(e: sqlite3.DatabaseError) -> int:
    """SQLite's primary result code, the low byte of the whole one."""
    code: int = getattr(e, "sqlite_errorcode", 0) & 0xFF
    return code


def _not_writable(path: Path, e: sqlite3.DatabaseError) -> NotWritable:
    return NotWritable(f"cannot be written ({e})", where=str(path), fix="check its owner and free space")


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
