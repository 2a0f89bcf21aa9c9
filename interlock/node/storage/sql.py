"""The SQL that SQLite and PostgreSQL both read, and the few words in which they differ: what stores are written in.

A store is written once, over `SqlStore`: `?` for values, BLOB and INTEGER for columns, ON CONFLICT DO NOTHING,
RETURNING, `VALUES {}` where a list of rows stands and `IN ({})` where one of values does. Such a list goes into one
statement, MOST rows at a time or whole (`ListTx`), so that a transaction takes as many round trips as it has kinds of
rows, and not as it has rows.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Final, Protocol, TypeVar

from interlock.base.database import Database

__all__ = ["ListTx", "Rows", "SqlStore", "SqliteStore", "Tx", "hit", "of_rows", "of_values"]

MOST: Final = 500  # rows of values in one statement
_T = TypeVar("_T")


class Rows(Protocol):
    """What a statement gave."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Sequence[object] | None: ...
    def fetchall(self) -> Sequence[Sequence[object]]: ...


class Tx(Protocol):
    """A transaction under way."""

    def execute(self, sql: str, values: Sequence[object] = ..., /) -> Rows: ...


class ListTx(abc.ABC):
    """A Tx of a database that takes a list as one value: a statement is the same one, however many rows it is for."""

    @abc.abstractmethod
    def execute(self, sql: str, values: Sequence[object] = ..., /) -> Rows: ...

    @abc.abstractmethod
    def with_rows(self, sql: str, rows: Sequence[Sequence[object]]) -> Rows:
        """Run a statement with these rows for `VALUES {}`; there is one at least."""

    @abc.abstractmethod
    def with_values(self, sql: str, before: Sequence[object], values: Sequence[object]) -> Rows:
        """Run a statement with these values for `IN ({})`, behind those that stand before; there is one at least."""


class SqlStore(abc.ABC):
    """What a store of ours needs of its database."""

    # What closes a SELECT of rows that this transaction is about to change; SQLite has one writer and needs no word.
    FOR_UPDATE: ClassVar[str] = ""
    SKIP_LOCKED: ClassVar[str] = ""  # and whoever comes at the same time takes other rows

    @abc.abstractmethod
    def _write(self) -> AbstractContextManager[Tx]:
        """One transaction: committed and durable when the block ends, rolled back where it raises."""

    @abc.abstractmethod
    def _read(self, sql: str, *args: object) -> Sequence[Sequence[object]]:
        """One statement, outside of any transaction."""

    def _scrub(self) -> None:  # noqa: B027 - what a server keeps of what was forgotten is its operator's to say
        """Leave no trace of what was just forgotten, where the file is ours (`Database`)."""

    @abc.abstractmethod
    def close(self) -> None: ...

    @abc.abstractmethod
    def _among_others(self, tx: Tx, task_id: bytes) -> None:
        """Go on beside other writers of a task, and never beside one that goes alone."""

    @abc.abstractmethod
    def _alone(self, tx: Tx, task_id: bytes) -> None:
        """Go on once all other writers of a task are done; others wait until this transaction ends."""


class SqliteStore(Database, SqlStore):
    """A store in one SQLite file, which has one writer at a time."""

    CACHE_KIB = 32 << 10  # the ids of a million reports, mostly

    def _among_others(self, tx: Tx, task_id: bytes) -> None:
        pass

    def _alone(self, tx: Tx, task_id: bytes) -> None:
        pass


def hit(tx: Tx, sql: str, *args: object) -> bool:
    """Whether a statement changed any row."""
    return tx.execute(sql, args).rowcount > 0


def of_rows(tx: Tx, sql: str, rows: Sequence[Sequence[object]]) -> list[Sequence[object]]:
    """Run a statement with these rows for `VALUES {}`, as often as they need; what it returned."""
    found: list[Sequence[object]] = []
    for part in _parts(rows, tx):
        if isinstance(tx, ListTx):
            done = tx.with_rows(sql, part)
        else:
            one = f"({', '.join('?' * len(part[0]))})"
            done = tx.execute(sql.format(", ".join([one] * len(part))), [v for row in part for v in row])
        if "RETURNING" in sql:
            found += done.fetchall()
    return found


def of_values(tx: Tx, sql: str, values: Iterable[object], before: Sequence[object] = ()) -> list[Sequence[object]]:
    """Run a statement with these values for `IN ({})`, as often as they need; what it found.

    `before` are the values that stand before these.
    """
    found: list[Sequence[object]] = []
    for part in _parts(values, tx):
        if isinstance(tx, ListTx):
            done = tx.with_values(sql, before, part)
        else:
            done = tx.execute(sql.format(", ".join("?" * len(part))), [*before, *part])
        if sql.startswith("SELECT"):
            found += done.fetchall()
    return found


def _parts(values: Iterable[_T], tx: Tx) -> Iterator[list[_T]]:
    rest, most = iter(values), None if isinstance(tx, ListTx) else MOST
    while part := list(itertools.islice(rest, most)):
        yield part
