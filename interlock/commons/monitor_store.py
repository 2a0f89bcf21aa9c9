"""What a monitor has seen: every entry, where the bytes behind it were found, the alarms; in one SQLite file.

An alarm is one (kind, where, what) and is raised once, however often it is seen; one that is seen no more is closed
and stays on record.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from interlock.base.database import Database, as_bytes, as_int
from interlock.transparency.entry import LogEntry
from interlock.transparency.tiles import Tile, TileBuilder

__all__ = ["Alarm", "MonitorStore", "Place"]


_REPLACED: Final = frozenset({"snapshot", "operators"})  # types of which only the newest has to be served
_FORGET_OLDER: Final = "DELETE FROM place WHERE idx IN (SELECT idx FROM entry WHERE type = ? AND name = ? AND idx < ?)"
_PLACES: Final = "SELECT idx, mirror, type, name, version, ring, sha256, since FROM place JOIN entry USING (idx)"


@dataclass(frozen=True)
class Alarm:
    """Something that should not be: `kind` is one of the monitor's, `where` names the thing; times in microseconds."""

    kind: str
    where: str
    what: str
    since: int
    closed: int | None = None


@dataclass(frozen=True)
class Place:
    """Bytes to look at: those behind an entry (`index`), at one mirror; `since` is when they were first looked for."""

    index: int
    mirror: str
    type: str
    name: str
    version: int
    ring: str
    sha256: str
    since: int


class MonitorStore(Database):
    """The monitor's memory; several threads may read, one process writes."""

    KIND = 0x494C4D4F  # "ILMO"
    MIGRATIONS = (
        "CREATE TABLE entry (idx INTEGER PRIMARY KEY, type TEXT NOT NULL, name TEXT NOT NULL,"
        " version INTEGER NOT NULL, ring TEXT NOT NULL, sha256 TEXT NOT NULL, by TEXT NOT NULL) STRICT;"
        "CREATE INDEX entry_thing ON entry (type, name, ring, version);"
        "CREATE TABLE place (idx INTEGER NOT NULL, mirror TEXT NOT NULL, since INTEGER NOT NULL,"
        " tried INTEGER NOT NULL DEFAULT 0, good INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (idx, mirror))"
        " STRICT, WITHOUT ROWID;"
        "CREATE INDEX place_tried ON place (good, tried, idx);"
        "CREATE TABLE alarm (kind TEXT NOT NULL, place TEXT NOT NULL, what TEXT NOT NULL, since INTEGER NOT NULL,"
        " closed INTEGER, PRIMARY KEY (kind, place, what)) STRICT, WITHOUT ROWID;"
        "CREATE TABLE tree (level INTEGER PRIMARY KEY, idx INTEGER NOT NULL, width INTEGER NOT NULL,"
        " hashes BLOB NOT NULL) STRICT;"
        "CREATE TABLE state (size INTEGER NOT NULL) STRICT;"
        "INSERT INTO state VALUES (0)",
        "CREATE TABLE role_key (role TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (role, key)) STRICT, WITHOUT ROWID;",
    )

    def tree(self) -> TileBuilder:
        """The tree whose entries are all here."""
        tiles = {
            Tile(as_int(level), as_int(index), as_int(width)): as_bytes(hashes)
            for level, index, width, hashes in self._read("SELECT level, idx, width, hashes FROM tree")
        }
        return TileBuilder.at(self.size, tiles.__getitem__)

    @property
    def size(self) -> int:
        """How many entries were read."""
        return as_int(self._read("SELECT size FROM state")[0][0])

    def take(
        self,
        entries: Mapping[int, LogEntry],
        tree: TileBuilder,
        mirrors: Collection[str],
        alarms: Iterable[Alarm],
        now: int,
    ) -> list[Alarm]:
        """Keep the entries that were read up to a tree, all at once; returns the alarms that are new.

        Raises: NotWritable.
        """
        with self._write() as db:
            for index, e in entries.items():
                row = (index, e.type, e.name, e.version, e.ring, e.sha256, e.by)
                db.execute("INSERT OR IGNORE INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)", row)
                if e.type in _REPLACED:  # a mirror that began later never had the older ones
                    db.execute(_FORGET_OLDER, (e.type, e.name, index))
                rows = [(index, mirror, now) for mirror in mirrors]
                db.executemany("INSERT OR IGNORE INTO place (idx, mirror, since) VALUES (?, ?, ?)", rows)
            new = [alarm for alarm in alarms if _raise(db, alarm)]
            db.execute("DELETE FROM tree")
            for tile, data in tree.partial():
                db.execute("INSERT INTO tree VALUES (?, ?, ?, ?)", (tile.level, tile.index, tile.width, data))
            db.execute("UPDATE state SET size = ?", (tree.size,))
            return new

    def keys_before(self, role: str) -> set[str]:
        """The keys that a role had when the entries before were read."""
        return {str(key) for (key,) in self._read("SELECT key FROM role_key WHERE role = ?", role)}

    def keep_keys(self, keys: Mapping[str, Collection[str]]) -> None:
        """All entries that are out under these keys, or older ones, were read. Raises: NotWritable."""
        with self._write() as db:
            db.execute("DELETE FROM role_key")
            rows = [(role, key) for role, has in keys.items() for key in has]
            db.executemany("INSERT INTO role_key VALUES (?, ?)", rows)

    def same_thing(self, entry: LogEntry) -> list[tuple[int, str]]:
        """Index and SHA-256 of the entries that name the same version of the same thing."""
        sql = "SELECT idx, sha256 FROM entry WHERE type = ? AND name = ? AND ring = ? AND version = ?"
        rows = self._read(sql, entry.type, entry.name, entry.ring, entry.version)
        return [(as_int(index), str(sha256)) for index, sha256 in rows]

    def holds(self, type: str, name: str, ring: str, sha256: str) -> bool:
        """Whether an entry stands for these bytes under this name."""
        sql = "SELECT 1 FROM entry WHERE type = ? AND name = ? AND ring = ? AND sha256 = ?"
        return bool(self._read(sql, type, name, ring, sha256))

    def places(self, before: int, limit: int) -> list[Place]:
        """Where to look: at `limit` places not found good yet, and as many good ones not looked at since `before`.

        Those come first that were looked at longest ago, so that no number of bad ones hides the others.
        """
        rows = self._read(f"{_PLACES} WHERE good = 0 ORDER BY tried, idx LIMIT ?", limit)
        rows += self._read(f"{_PLACES} WHERE good = 1 AND tried < ? ORDER BY tried, idx LIMIT ?", before, limit)
        return [_place(*row) for row in rows]

    def looked(self, places: Iterable[tuple[Place, bool]], now: int) -> None:
        """Say which places were good. Raises: NotWritable."""
        with self._write() as db:
            rows = [(now, good, place.index, place.mirror) for place, good in places]
            db.executemany("UPDATE place SET tried = ?, good = ? WHERE idx = ? AND mirror = ?", rows)

    def settle(self, alarms: Iterable[Alarm], well: Callable[[Alarm], bool], now: int) -> list[Alarm]:
        """Raise what was seen now, and close what was not and is `well`; returns the alarms that are new.

        Raises: NotWritable.
        """
        seen = {(a.kind, a.where, a.what): a for a in alarms}
        with self._write() as db:
            new = [alarm for alarm in seen.values() if _raise(db, alarm)]
            for alarm in self.alarms():
                if alarm.closed is None and (alarm.kind, alarm.where, alarm.what) not in seen and well(alarm):
                    _close(db, alarm, now)
        return new

    def close_alarm(self, alarm: Alarm, now: int) -> None:
        """Close an alarm in a person's name. Raises: NotWritable."""
        with self._write() as db:
            _close(db, alarm, now)

    def alarms(self) -> list[Alarm]:
        """All alarms, the newest first."""
        rows = self._read("SELECT kind, place, what, since, closed FROM alarm ORDER BY since DESC, kind, place")
        return [Alarm(str(k), str(p), str(w), as_int(s), None if c is None else as_int(c)) for k, p, w, s, c in rows]


def _raise(db: sqlite3.Connection, alarm: Alarm) -> bool:
    """Open an alarm; whether it was not open before."""
    key = (alarm.kind, alarm.where, alarm.what)
    opened = db.execute("SELECT closed IS NULL FROM alarm WHERE kind = ? AND place = ? AND what = ?", key).fetchone()
    if opened is not None and opened[0]:
        return False
    db.execute("INSERT OR REPLACE INTO alarm VALUES (?, ?, ?, ?, NULL)", (*key, alarm.since))
    return True


def _close(db: sqlite3.Connection, alarm: Alarm, now: int) -> None:
    key = (now, alarm.kind, alarm.where, alarm.what)
    db.execute("UPDATE alarm SET closed = ? WHERE kind = ? AND place = ? AND what = ?", key)


def _place(*row: object) -> Place:
    index, mirror, type_, name, version, ring, sha256, since = row
    texts = (str(mirror), str(type_), str(name))
    return Place(as_int(index), *texts, as_int(version), str(ring), str(sha256), as_int(since))
