"""Both aggregators' stores in PostgreSQL: for any number of processes, on any number of machines.

The statements are those of the SQLite stores. Beside writers of a task there is no order but that of rows: they share
an advisory lock that closing a batch and raising a horizon take alone, so that each statement sees what was closed.
Leases are taken by SELECT ... FOR UPDATE SKIP LOCKED. Tables stand in a schema of the role's own, in a version that is
checked like a file's.

psycopg is loaded when a store is opened, and by nothing else: whoever has one file needs none of it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from interlock.base.errors import one_line
from interlock.base.fetch import Unreachable
from interlock.base.files import BadState, NewerFormat
from interlock.base.settings import BadConfig
from interlock.node.storage.dap import HELPER_MIGRATIONS, HelperTables
from interlock.node.storage.dap_leader import LEADER_MIGRATIONS, LeaderTables
from interlock.node.storage.sql import ListTx, Rows, SqlStore, Tx

if TYPE_CHECKING:
    import psycopg

__all__ = ["PostgresHelperStorage", "PostgresLeaderStorage", "PostgresStore"]

CONNECTIONS: Final = 8  # at once, a process
CONNECT_S: Final = 10
FRESH_S: Final = 1.0  # a connection that was used so lately is not asked whether it still stands
_LOCK: Final = "SELECT pg_advisory_xact_lock{}(?)"
# Rows that were taken lie in the way of the next until they are swept up, and a fifth of a large table is many.
_OFTEN: Final = "autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02"
# All that is kept in bytes is sealed, hashed or shared out: random, so each try to compress it is for nothing.
_BYTES: Final = (
    "SELECT table_name, column_name FROM information_schema.columns"
    " WHERE table_schema = current_schema() AND data_type = 'bytea' ORDER BY 1, 2"
)
MANY: Final = 8  # rows that are worth a stream of their own
_PLAIN: Final = re.compile(r"INSERT INTO (\w+(?: \([\w, ]+\))?) VALUES \{\}")
_VERSION: Final = "CREATE TABLE IF NOT EXISTS version (number INTEGER NOT NULL)"


class PostgresStore(SqlStore):
    """One schema of ours, of a version that this interlock reads. Subclasses give SCHEMA and MIGRATIONS.

    Raises, when opened: BadConfig, where psycopg is missing or the URL is none; Unreachable, NewerFormat, BadState.
    """

    SCHEMA: ClassVar[str]
    MIGRATIONS: ClassVar[tuple[str, ...]]
    BUSY: ClassVar[tuple[str, ...]] = ()  # tables whose rows come and go
    FOR_UPDATE = " FOR UPDATE"
    SKIP_LOCKED = " FOR UPDATE SKIP LOCKED"

    def __init__(self, url: str, *, schema: str = "") -> None:
        self._psycopg = _library()
        self._url = url
        self._schema = schema or self.SCHEMA
        self._where = self._named(url)
        self._idle: list[tuple[psycopg.Connection[Any], float]] = []  # with the time of the last use
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(CONNECTIONS)
        self._closed = False
        try:
            self._migrate()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def _among_others(self, tx: Tx, task_id: bytes) -> None:
        tx.execute(_LOCK.format("_shared"), (self._number(task_id),))

    def _alone(self, tx: Tx, task_id: bytes) -> None:
        tx.execute(_LOCK.format(""), (self._number(task_id),))

    def _number(self, task_id: bytes) -> int:
        """What a task is locked by, among all that use this database."""
        name = hashlib.sha256(self._schema.encode() + b"\0" + task_id).digest()
        return int.from_bytes(name[:8], "big", signed=True)

    @contextlib.contextmanager
    def _write(self) -> Iterator[Tx]:
        with self._connection() as connection, connection.transaction():
            yield _Tx(connection)

    def _read(self, sql: str, *args: object) -> Sequence[Sequence[object]]:
        with self._connection() as connection:
            return _Tx(connection).execute(sql, args).fetchall()

    @contextlib.contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection for this thread alone. Raises: Unreachable, BadState."""
        with self._slots:
            connection = self._taken()
            try:
                yield connection
            except self._psycopg.OperationalError as e:
                raise Unreachable(f"failed ({_told(e)})", where=self._where, fix="see that PostgreSQL runs") from None
            except self._psycopg.Error as e:
                raise BadState(f"refused a statement ({_told(e)})", where=self._where) from None
            finally:
                self._give_back(connection)

    def _taken(self) -> psycopg.Connection[Any]:
        """An idle connection that still answers, or a new one."""
        while True:
            with self._lock:
                connection, used = self._idle.pop() if self._idle else (None, 0.0)
            if connection is None:
                return self._connected()
            if time.monotonic() - used < FRESH_S:
                return connection
            try:
                connection.execute("SELECT 1")
            except self._psycopg.Error:  # the server was started again
                connection.close()
            else:
                return connection

    def _connected(self) -> psycopg.Connection[Any]:
        try:
            connection: psycopg.Connection[Any]
            connection = self._psycopg.connect(self._url, autocommit=True, connect_timeout=CONNECT_S)
            with contextlib.ExitStack() as unfit:
                unfit.callback(connection.close)
                connection.execute("SET synchronous_commit TO on")  # what was answered is on disk
                connection.execute(f'SET search_path TO "{self._schema}"')
                unfit.pop_all()
        except self._psycopg.Error as e:
            fix = "see that PostgreSQL runs and knows the role and the database"
            raise Unreachable(f"cannot be reached ({_told(e)})", where=self._where, fix=fix) from None
        return connection

    def _give_back(self, connection: psycopg.Connection[Any]) -> None:
        with self._lock:
            if not self._closed and not connection.broken and not connection.closed:
                self._idle.append((connection, time.monotonic()))
                return
        connection.close()

    def _named(self, url: str) -> str:
        """The database without its password, for messages. Raises: BadConfig."""
        try:
            parts = self._psycopg.conninfo.conninfo_to_dict(url)
        except self._psycopg.Error:
            told, fix = "is no URL of a database", "write postgresql://USER@HOST/DATABASE"
            raise BadConfig(told, where="[serve] store", fix=fix) from None
        return f"PostgreSQL {parts.get('host') or 'on this machine'}, database {parts.get('dbname') or 'of the user'}"

    def _migrate(self) -> None:
        newest = len(self.MIGRATIONS)
        with self._write() as tx:
            self._alone(tx, b"schema")
            tx.execute(f'CREATE SCHEMA IF NOT EXISTS "{self._schema}"')
            tx.execute(_VERSION)
            row = tx.execute("SELECT number FROM version").fetchone()
            version = row[0] if row is not None else 0
            if not isinstance(version, int) or version > newest:
                told = f"has version {version}, and this interlock reads up to {newest}"
                raise NewerFormat(told, where=self._where, fix="upgrade interlock")
            if version == newest:
                return
            for statement in ";".join(self.MIGRATIONS[version:]).split(";"):
                if statement.strip():
                    tx.execute(_translated(statement))
            for table in self.BUSY:
                tx.execute(f"ALTER TABLE {table} SET ({_OFTEN})")
            for named, column in tx.execute(_BYTES).fetchall():
                tx.execute(f'ALTER TABLE "{named}" ALTER COLUMN "{column}" SET STORAGE EXTERNAL')
            tx.execute("DELETE FROM version")
            tx.execute("INSERT INTO version VALUES (?)", (newest,))


class PostgresHelperStorage(PostgresStore, HelperTables):
    """The helper's store in PostgreSQL."""

    SCHEMA = "interlock_helper"
    MIGRATIONS: ClassVar[tuple[str, ...]] = HELPER_MIGRATIONS


class PostgresLeaderStorage(PostgresStore, LeaderTables):
    """The leader's store in PostgreSQL."""

    SCHEMA = "interlock_leader"
    BUSY = ("reports", "bodies", "jobs")
    MIGRATIONS: ClassVar[tuple[str, ...]] = LEADER_MIGRATIONS


class _Tx(ListTx):
    """Fills sql.Tx over one connection. A list goes as an array, so each statement is planned once a connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, sql: str, values: Sequence[object] = (), /) -> Rows:
        return self._connection.execute(_placed(sql), values, binary=True)

    def with_rows(self, sql: str, rows: Sequence[Sequence[object]]) -> Rows:
        columns = list(zip(*rows, strict=True))
        plain = _PLAIN.fullmatch(sql)
        if plain and len(rows) >= MANY:
            return self._copied(f"COPY {plain[1]} FROM STDIN (FORMAT BINARY)", [_type(of) for of in columns], rows)
        arrays = ", ".join(f"%b::{_type(of)}[]" for of in columns)
        return self.execute(sql.replace("VALUES {}", f"SELECT * FROM unnest({arrays})"), list(map(list, columns)))

    def with_values(self, sql: str, before: Sequence[object], values: Sequence[object]) -> Rows:
        return self.execute(sql.replace("IN ({})", f"= ANY(%b::{_type(values)}[])"), [*before, list(values)])

    def _copied(self, sql: str, types: Sequence[str], rows: Sequence[Sequence[object]]) -> Rows:
        """Rows that neither give anything nor may be in the way of others, as a stream: neither side holds it whole."""
        cursor = self._connection.cursor()
        with cursor.copy(sql) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)
        return cursor


def _library() -> Any:
    try:
        import psycopg
    except ImportError:
        fix = "pip install 'interlock[postgres]', or leave [serve] store out for one SQLite file"
        raise BadConfig("needs psycopg, which is not installed", where="[serve] store", fix=fix) from None
    return psycopg


@functools.lru_cache(maxsize=512)
def _placed(sql: str) -> str:
    return sql.replace("?", "%s")


def _type(values: Sequence[object]) -> str:
    """What a column is of whose values are all of one kind, or nothing."""
    return next((_TYPES[type(value)] for value in values if value is not None), "text")


def _translated(statement: str) -> str:
    """A statement that makes a table, from SQLite's words to PostgreSQL's."""
    for ours, theirs in _WORDS:
        statement = statement.replace(ours, theirs)
    return statement


_TYPES: Final[dict[type, str]] = {bytes: "bytea", int: "int8", str: "text"}
_WORDS: Final = (
    ("INTEGER PRIMARY KEY AUTOINCREMENT", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
    ("INTEGER", "BIGINT"),
    ("BLOB", "BYTEA"),
    (" WITHOUT ROWID", ""),
    ("x''", "''"),
)


def _told(e: Exception) -> str:
    """The first line of what the server said; the rest may quote a row."""
    return one_line(str(e).partition("\n")[0], 200)
