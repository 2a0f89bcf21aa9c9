"""The ground under every store: a file that cannot be written is said as such, and is not called damaged."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from interlock.base.database import Database
from interlock.base.files import BadState, NotWritable


class Numbers(Database):
    """A store of numbers."""

    KIND: ClassVar[int] = 7
    MIGRATIONS: ClassVar[tuple[str, ...]] = ("CREATE TABLE number (n BLOB)",)

    def put(self, n: bytes) -> None:
        with self._write() as db:
            db.execute("INSERT INTO number VALUES (?)", (n,))

    def count(self) -> object:
        return self._read("SELECT count(*) FROM number")[0][0]

    def fill(self) -> None:
        """Let no page more into the file, as a full disk would."""
        (pages,) = self._db.execute("PRAGMA page_count").fetchone()
        self._db.execute(f"PRAGMA max_page_count = {pages}")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Numbers]:
    made = Numbers(tmp_path / "numbers.sqlite")
    yield made
    made.close()


def test_a_full_disk_is_said_and_loses_nothing_that_was_there(store: Numbers) -> None:
    store.put(b"1")
    store.fill()
    with pytest.raises(NotWritable, match=r"numbers.sqlite: cannot be written \(database or disk is full\)"):
        store.put(bytes(100_000))
    assert store.count() == 1


def test_a_file_that_may_only_be_read_is_not_called_damaged(
    tmp_path: Path, store: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect

    def read_only(path: Path, **options: object) -> sqlite3.Connection:
        db = connect(path, **options)  # type: ignore[call-overload]
        assert isinstance(db, sqlite3.Connection)
        db.execute("PRAGMA query_only = ON")
        return db

    class Newer(Numbers):
        MIGRATIONS: ClassVar[tuple[str, ...]] = (*Numbers.MIGRATIONS, "ALTER TABLE number ADD COLUMN m")

    monkeypatch.setattr(sqlite3, "connect", read_only)
    with pytest.raises(NotWritable, match="attempt to write a readonly database"):
        Newer(tmp_path / "numbers.sqlite")


def test_the_copy_before_a_migration_is_the_whole_older_store(tmp_path: Path, store: Numbers) -> None:
    class Newer(Numbers):
        MIGRATIONS: ClassVar[tuple[str, ...]] = (*Numbers.MIGRATIONS, "ALTER TABLE number ADD COLUMN m")

    reader = sqlite3.connect(tmp_path / "numbers.sqlite", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM number").fetchone()  # whoever still reads keeps the WAL from being emptied
    store.put(b"1")
    newer = Newer(tmp_path / "numbers.sqlite")
    assert newer.count() == 1
    newer.close()
    reader.close()
    copy = tmp_path / "numbers.sqlite.v1"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    kept = Numbers(copy)  # which would refuse a newer one
    assert kept.count() == 1
    kept.close()


@pytest.mark.parametrize("content", [b"not a database" * 100, b"\0" * 4096])
def test_a_file_that_is_no_database_is_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other.sqlite").write_bytes(content)
    with pytest.raises(BadState, match="is not a database of ours"):
        Numbers(tmp_path / "other.sqlite")
