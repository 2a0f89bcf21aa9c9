"""Where each entry stands, by its leaf hash: a table beside the journal, which it can always be made again from.

So a log asks the disk whether it has an entry already, and neither memory nor its start grows with the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from interlock.base.database import Database, as_bytes, as_int

__all__ = ["Places"]

_AT_ONCE: Final = 256  # values of one statement


class Places(Database):
    """Leaf hash -> index, of the first `count` entries of a log."""

    KIND: ClassVar[int] = 0x494C504C  # "ILPL"
    MIGRATIONS: ClassVar[tuple[str, ...]] = (
        "CREATE TABLE leaf (hash BLOB PRIMARY KEY, place INTEGER NOT NULL) WITHOUT ROWID;"
        "CREATE TABLE total (one INTEGER PRIMARY KEY CHECK (one = 1), entries INTEGER NOT NULL);"
        "INSERT INTO total VALUES (1, 0)",
    )

    def _careful(self) -> None:
        # The journal is what must be on disk. After a power cut the table is an older one, whole, and is caught up.
        self._db.execute("PRAGMA synchronous = NORMAL")

    @property
    def count(self) -> int:
        ((entries,),) = self._read("SELECT entries FROM total")
        return as_int(entries)

    def find(self, leaves: Sequence[bytes]) -> dict[bytes, int]:
        """The places of those leaves that are known."""
        found: dict[bytes, int] = {}
        for start in range(0, len(leaves), _AT_ONCE):
            some = leaves[start : start + _AT_ONCE]
            marks = ",".join("?" * len(some))
            sql = f"SELECT hash, place FROM leaf WHERE hash IN ({marks})"  # noqa: S608 - nothing but question marks
            rows = self._read(sql, *some)
            found.update((as_bytes(leaf), as_int(place)) for leaf, place in rows)
        return found

    def add(self, first: int, leaves: Sequence[bytes]) -> None:
        """Take in the next entries; one that stands twice keeps its first place. Raises: NotWritable, BadState."""
        if first != self.count:
            raise AssertionError("the table of places is filled in order")
        rows = [(leaf, index) for index, leaf in enumerate(leaves, first)]
        with self._write() as db:
            db.executemany("INSERT OR IGNORE INTO leaf VALUES (?, ?)", rows)
            db.execute("UPDATE total SET entries = ?", (first + len(leaves),))

    def clear(self) -> None:
        """Forget everything, to be filled again. Raises: NotWritable, BadState."""
        with self._write() as db:
            db.execute("DELETE FROM leaf")
            db.execute("UPDATE total SET entries = 0")
