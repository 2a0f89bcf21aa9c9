"""What a monitor has seen: every entry and tile, where the bytes were found, the alarms; in one SQLite file.

An alarm is one (kind, where) and is raised once, however often it is seen and whatever is said of it: a mirror that
gives another reason each time has one alarm, with the reason it gave last. One that is seen no more is closed and
stays on record.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from interlock.base.database import Database, as_bytes, as_int
from interlock.base.errors import one_line
from interlock.base.fetch import NotFound
from interlock.transparency.entry import LogEntry
from interlock.transparency.merkle import HASH_SIZE
from interlock.transparency.tiles import Tile, TileBuilder

__all__ = ["Alarm", "Doubt", "MonitorStore", "Place"]


_REPLACED: Final = frozenset({"snapshot", "operators"})  # types of which only the newest has to be served
_ADD_PLACES: Final = (
    "INSERT OR IGNORE INTO place (idx, mirror, since) SELECT idx, ?, ? FROM entry"
    " WHERE type NOT IN ('snapshot', 'operators')"  # _REPLACED
    " OR idx IN (SELECT max(idx) FROM entry GROUP BY type, name HAVING type IN ('snapshot', 'operators'))"
)
_PLACE: Final = "INSERT OR IGNORE INTO place (idx, mirror, since) SELECT ?, name, ? FROM mirror"
_FORGET_OLDER: Final = "DELETE FROM place WHERE idx IN (SELECT idx FROM entry WHERE type = ? AND name = ? AND idx < ?)"
_SNAPSHOT: Final = (  # the newest versions first, as they are asked for
    "SELECT idx FROM entry WHERE type = 'snapshot' AND name = 'snapshot' AND ring = 'snapshot' AND sha256 = ?"
    " ORDER BY version DESC LIMIT 1"
)
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


@dataclass(frozen=True)
class Doubt:
    """What an entry said, and `since` when nobody can tell whether the key `by` may say it."""

    index: int
    type: str
    name: str
    version: int
    ring: str
    by: str
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
        "CREATE TABLE tile (level INTEGER NOT NULL, idx INTEGER NOT NULL, hashes BLOB NOT NULL,"
        " PRIMARY KEY (level, idx)) STRICT, WITHOUT ROWID;"
        "INSERT INTO tile SELECT level, idx, hashes FROM tree;"
        "DROP TABLE tree;"
        "ALTER TABLE state ADD COLUMN note BLOB NOT NULL DEFAULT x'';"
        "CREATE TABLE mirror (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;"
        "INSERT INTO mirror SELECT DISTINCT mirror FROM place;"
        "ALTER TABLE alarm RENAME TO alarm_of_a_text;"
        "CREATE TABLE alarm (kind TEXT NOT NULL, place TEXT NOT NULL, what TEXT NOT NULL, since INTEGER NOT NULL,"
        " closed INTEGER, PRIMARY KEY (kind, place)) STRICT, WITHOUT ROWID;"
        "INSERT OR IGNORE INTO alarm SELECT * FROM alarm_of_a_text ORDER BY closed IS NOT NULL, since;"
        "DROP TABLE alarm_of_a_text;",
        "DROP TABLE IF EXISTS role_key;",  # a role's metadata says which keys it had
        "CREATE TABLE doubt (idx INTEGER PRIMARY KEY, since INTEGER NOT NULL) STRICT;",
        "CREATE TABLE issuer (task TEXT NOT NULL, key TEXT NOT NULL, idx INTEGER NOT NULL, former TEXT NOT NULL,"
        " PRIMARY KEY (task, key)) STRICT, WITHOUT ROWID;",
    )

    def tree(self) -> TileBuilder:
        """The tree whose entries are all here."""
        return TileBuilder.at(self.size, self.tile)

    def tile(self, tile: Tile) -> bytes:
        """A tile of that tree: as wide as it is asked for, since tiles only grow. Raises: NotFound."""
        rows = self._read("SELECT hashes FROM tile WHERE level = ? AND idx = ?", tile.level, tile.index)
        if not rows:
            raise NotFound("was read before tiles were kept", where=tile.path)
        return as_bytes(rows[0][0])[: tile.width * HASH_SIZE]

    @property
    def has_tiles(self) -> bool:
        """Whether the full tiles of that tree are here."""
        return bool(self._read("SELECT 1 FROM tile WHERE level = 0 AND idx = 0"))

    @property
    def note(self) -> bytes:
        """The signed checkpoint of that tree; b"" where none was kept yet."""
        return as_bytes(self._read("SELECT note FROM state")[0][0])

    @property
    def size(self) -> int:
        """How many entries were read."""
        return as_int(self._read("SELECT size FROM state")[0][0])

    def take(
        self,
        entries: Mapping[int, LogEntry],
        tiles: Mapping[Tile, bytes],
        size: int,
        note: bytes,
        alarms: Iterable[Alarm],
        doubts: Iterable[int],
        now: int,
    ) -> list[Alarm]:
        """Keep the entries that were read up to a tree, its checkpoint and its tiles, all at once; returns the alarms
        that are new. `doubts` are entries, by index, of which nobody can tell yet whether their key may say them.

        Raises: NotWritable.
        """
        with self._write() as db:
            for index, e in entries.items():
                row = (index, e.type, e.name, e.version, e.ring, e.sha256, e.by)
                db.execute("INSERT OR IGNORE INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)", row)
                if e.type in _REPLACED:  # a mirror that began later never had the older ones
                    db.execute(_FORGET_OLDER, (e.type, e.name, index))
                db.execute(_PLACE, (index, now))
            db.executemany("INSERT INTO doubt VALUES (?, ?)", [(index, now) for index in doubts])
            new = [alarm for alarm in _one_each(alarms) if _raise(db, alarm)]
            rows = [(tile.level, tile.index, data) for tile, data in tiles.items()]
            db.executemany("INSERT OR REPLACE INTO tile VALUES (?, ?, ?)", rows)
            db.execute("UPDATE state SET size = ?, note = ?", (size, note))
            return new

    def doubts(self) -> list[Doubt]:
        """The entries of which nobody could tell whether their key may say them, in the log's order."""
        sql = "SELECT idx, type, name, version, ring, by, since FROM doubt JOIN entry USING (idx) ORDER BY idx"
        return [
            Doubt(as_int(i), str(t), str(n), as_int(v), str(r), str(by), as_int(since))
            for i, t, n, v, r, by, since in self._read(sql)
        ]

    def decide(self, good: Iterable[int], wrong: Mapping[int, Alarm]) -> list[Alarm]:
        """End doubts, by index: of entries that are good, and of those that are not, with an alarm on each.

        Returns the alarms that are new. Raises: NotWritable.
        """
        with self._write() as db:
            db.executemany("DELETE FROM doubt WHERE idx = ?", [(index,) for index in (*good, *wrong)])
            return [alarm for alarm in wrong.values() if _raise(db, _with_what_was_said(db, alarm))]

    def take_issuer(self, task: str, key: str, index: int, former: Iterable[str], now: int) -> list[Alarm]:
        """Keep that the entry at an index names an issuer of a task, which shows the keys that it followed.

        Returns the alarms that are new, raised in the same change: on each issuer that none of those before named.
        Raises: NotWritable.
        """
        with self._write() as db:
            sql = "INSERT INTO issuer VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET idx = min(idx, excluded.idx)"
            db.execute(sql, (task, key, index, " ".join(former)))
            rows = db.execute("SELECT key, former FROM issuer WHERE task = ? ORDER BY idx, key", (task,)).fetchall()
            alarms = [
                Alarm("issuer", f"task {task}: {strange}", told, now)
                for strange, told in _strange((str(name), str(shown).split()) for name, shown in rows)
            ]
            return [alarm for alarm in alarms if _raise_once(db, alarm)]

    def snapshot_index(self, sha256: str) -> int:
        """Where the entry of a snapshot of this SHA-256 stands; -1 where there is none."""
        rows = self._read(_SNAPSHOT, sha256)
        return as_int(rows[0][0]) if rows else -1

    def compare(self, mirrors: Collection[str], now: int) -> None:
        """Look at just these mirrors from now on: at one that is new for every entry that was read before, of what is
        replaced the newest alone; at one that is named no more for nothing. Raises: NotWritable.
        """
        known = {str(name) for (name,) in self._read("SELECT name FROM mirror")}
        if known == set(mirrors):
            return
        with self._write() as db:
            for gone in known - set(mirrors):
                db.execute("DELETE FROM place WHERE mirror = ?", (gone,))
                db.execute("DELETE FROM mirror WHERE name = ?", (gone,))
            for name in set(mirrors) - known:
                db.execute("INSERT INTO mirror VALUES (?)", (name,))
                db.execute(_ADD_PLACES, (name, now))

    def same_thing(self, entry: LogEntry) -> list[tuple[int, str]]:
        """Index and SHA-256 of the entries that name the same version of the same thing."""
        sql = "SELECT idx, sha256 FROM entry WHERE type = ? AND name = ? AND ring = ? AND version = ?"
        rows = self._read(sql, entry.type, entry.name, entry.ring, entry.version)
        return [(as_int(index), str(sha256)) for index, sha256 in rows]

    def holds(self, type: str, name: str, ring: str, sha256: str) -> bool:
        """Whether an entry stands for these bytes under this name."""
        sql = "SELECT 1 FROM entry WHERE type = ? AND name = ? AND ring = ? AND sha256 = ?"
        return bool(self._read(sql, type, name, ring, sha256))

    def places(self, before: int, now: int, limit: int) -> list[Place]:
        """Where to look: at `limit` places not found good yet, and as many good ones not looked at since `before`; or,
        as a clock that was set back has it, later than `now`.

        Those come first that were looked at longest ago, so that no number of bad ones hides the others.
        """
        rows = self._read(f"{_PLACES} WHERE good = 0 ORDER BY tried, idx LIMIT ?", limit)
        rows += self._read(f"{_PLACES} WHERE good = 1 AND tried < ? ORDER BY tried, idx LIMIT ?", before, limit)
        rows += self._read(f"{_PLACES} WHERE good = 1 AND tried > ? ORDER BY tried, idx LIMIT ?", now, limit)
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
        seen = {(a.kind, a.where): a for a in _one_each(alarms)}
        with self._write() as db:
            new = [alarm for alarm in seen.values() if _raise(db, alarm)]
            for alarm in self.alarms():
                if alarm.closed is None and (alarm.kind, alarm.where) not in seen and well(alarm):
                    _close(db, alarm, now)
        return new

    def open_once(self, alarm: Alarm) -> bool:
        """Raise an alarm, unless one of its kind and place is on record, closed ones too. Raises: NotWritable."""
        with self._write() as db:
            return _raise_once(db, alarm)

    def open_alarm(self, alarm: Alarm) -> bool:
        """Raise an alarm; whether it is new. Raises: NotWritable."""
        with self._write() as db:
            return _raise(db, alarm)

    def close_alarm(self, alarm: Alarm, now: int) -> None:
        """Close an alarm in a person's name. Raises: NotWritable."""
        with self._write() as db:
            _close(db, alarm, now)

    def alarms(self) -> list[Alarm]:
        """All alarms, the newest first."""
        rows = self._read("SELECT kind, place, what, since, closed FROM alarm ORDER BY since DESC, kind, place")
        return [Alarm(str(k), str(p), str(w), as_int(s), None if c is None else as_int(c)) for k, p, w, s, c in rows]


def _one_each(alarms: Iterable[Alarm]) -> list[Alarm]:
    """One alarm for each kind and place, with all that was said of it."""
    found: dict[tuple[str, str], Alarm] = {}
    for alarm in alarms:
        before = found.get((alarm.kind, alarm.where), alarm)
        if alarm.what != before.what:
            alarm = replace(before, what=one_line(f"{before.what}; {alarm.what}"))
        found[alarm.kind, alarm.where] = alarm
    return list(found.values())


def _raise(db: sqlite3.Connection, alarm: Alarm) -> bool:
    """Open an alarm, or say anew what an open one is about; whether it was not open before."""
    key = (alarm.kind, alarm.where)
    row = db.execute("SELECT what, closed FROM alarm WHERE kind = ? AND place = ?", key).fetchone()
    if row is None or row[1] is not None:
        db.execute("INSERT OR REPLACE INTO alarm VALUES (?, ?, ?, ?, NULL)", (*key, alarm.what, alarm.since))
        return True
    if row[0] != alarm.what:
        db.execute("UPDATE alarm SET what = ? WHERE kind = ? AND place = ?", (alarm.what, *key))
    return False


def _raise_once(db: sqlite3.Connection, alarm: Alarm) -> bool:
    """Open an alarm of what is seen again and again, and which a person who closed it has judged for good."""
    row = (alarm.kind, alarm.where, alarm.what, alarm.since)
    return db.execute("INSERT OR IGNORE INTO alarm VALUES (?, ?, ?, ?, NULL)", row).rowcount > 0


def _with_what_was_said(db: sqlite3.Connection, alarm: Alarm) -> Alarm:
    """An alarm that says also what an open one on the same thing says, which is another fault of it."""
    sql = "SELECT what FROM alarm WHERE kind = ? AND place = ? AND closed IS NULL"
    row = db.execute(sql, (alarm.kind, alarm.where)).fetchone()
    if row is None or alarm.what in str(row[0]):
        return alarm
    return replace(alarm, what=one_line(f"{row[0]}; {alarm.what}"))


def _strange(issuers: Iterable[tuple[str, list[str]]]) -> Iterator[tuple[str, str]]:
    """Of a task's issuers, as the log has them (key, the keys that it followed), those to alarm on, and why.

    The first is taken as it comes. A key names one successor: of two that claim to follow it, one is a thief's.
    """
    taken, followed = set[str](), dict[str, str]()
    for key, former in issuers:
        chain = [*former, key]
        steps = dict(pairwise(chain))
        if taken and not taken & set(chain):
            yield key, "member keys are by an issuer that the one before it did not name; no report of it may count"
        elif any(followed.get(before, after) != after for before, after in steps.items()):
            yield key, "member keys are by an issuer that follows a key which named another; one of them is a thief's"
        else:
            taken.update(chain)
            followed.update(steps)


def _close(db: sqlite3.Connection, alarm: Alarm, now: int) -> None:
    db.execute("UPDATE alarm SET closed = ? WHERE kind = ? AND place = ?", (now, alarm.kind, alarm.where))


def _place(*row: object) -> Place:
    index, mirror, type_, name, version, ring, sha256, since = row
    texts = (str(mirror), str(type_), str(name))
    return Place(as_int(index), *texts, as_int(version), str(ring), str(sha256), as_int(since))
