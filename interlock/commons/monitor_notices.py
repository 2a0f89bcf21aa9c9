"""What nodes tell a monitor: each tree that one saw is held against the monitor's own.

    no note     the root agrees, waits until the monitor has read that far, or differs: that is counted and shown, and
                proves nothing, for anybody can post a root
    a note      what the log signed. Where it does not lie on the monitor's own timeline, both notes and the proof that
                parts them become an evidence file, and an alarm `split-view` is open until a person closes it

Nothing is kept of who told it, nor when, but for the hour. One that agrees costs no write: it is counted in memory and
added up with the next look. All that is kept is bounded; what only the log's own key
could make has a place of its own, so that no number of others' posts pushes it out.

    HOME/notices.sqlite   HOME/evidence/
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.base.clock import MICROSECONDS, Clock
from interlock.base.codec import Malformed
from interlock.base.database import Database, as_bytes, as_int
from interlock.base.fetch import NotFound
from interlock.base.files import NotWritable
from interlock.base.primitives import BadSignature
from interlock.commons.monitor_store import Alarm, MonitorStore
from interlock.commons.notices import AGREES, DIFFERS, PROVEN, WAITS, Notice, parse_notice
from interlock.transparency.checkpoint import parse_checkpoint
from interlock.transparency.follow import Evidence, write_evidence
from interlock.transparency.gossip import UNPROVEN, Sighting, compared
from interlock.transparency.merkle import tree_root
from interlock.transparency.note import parse_note
from interlock.transparency.policy import Checked, TlogPolicy, UnknownLog
from interlock.transparency.tiles import TileReader, parse_path

__all__ = ["Notices", "Taken", "Told", "Tree"]

MOST_TREES: Final = 200  # that differ, and as many that wait
MOST_NOTES: Final = 32  # that wait, signed by the log
MOST_EVIDENCE: Final = 64  # files; two of them prove no more than one
_HOUR: Final = 3600 * MICROSECONDS
_WAITS_US: Final = 24 * _HOUR
_KEPT_US: Final = 30 * 24 * _HOUR
_UNSIGNED: Final = (UnknownLog, BadSignature)
_ADD: Final = "INSERT INTO told VALUES (?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count"
_OVER: Final = (
    "DELETE FROM tree WHERE rowid IN (SELECT rowid FROM tree WHERE result = ? ORDER BY at DESC LIMIT -1 OFFSET ?)"
)
_SHOWN: Final = "SELECT origin, size, root, count, at, note FROM tree WHERE result = ? ORDER BY at DESC, size"


@dataclass(frozen=True)
class Tree:
    """A tree that somebody told of, how often, and in which hour last; `note` is b"" where the log did not sign it."""

    origin: str
    size: int
    root: bytes
    count: int
    at: int
    note: bytes


@dataclass(frozen=True)
class Told:
    """How many notices there were of each result, the trees that differ from the monitor's own, and how many wait."""

    counts: dict[str, int]
    unproven: tuple[Tree, ...]
    waiting: int

    @property
    def body(self) -> dict[str, object]:
        """As JSON has it."""
        trees = [
            {"origin": t.origin, "size": t.size, "root": t.root.hex(), "count": t.count, "hour": t.at}
            for t in self.unproven
        ]
        return {"counts": self.counts, "waiting": self.waiting, "unproven": trees}


@dataclass(frozen=True)
class Taken:
    """What came out of one notice, and the alarm that is new with it."""

    result: str
    alarm: Alarm | None = None


class Notices:
    """Takes notices for the monitor in `home`, whose `store` has the tree that they are held against.

    Raises on making: BadState, NewerFormat, NotWritable.
    """

    def __init__(self, home: Path, store: MonitorStore, policy: TlogPolicy, clock: Clock) -> None:
        self._evidence = home / "evidence"
        self._store = store
        self._policy = policy
        self._clock = clock
        self._kept = _NoticeStore(home / "notices.sqlite")
        self._lock = threading.Lock()
        self._agreed = 0  # since it was added up

    def close(self) -> None:
        with contextlib.suppress(NotWritable):
            self._add_up()
        self._kept.close()

    def told(self) -> Told:
        """What was told so far."""
        counts = self._kept.counts()
        if self._agreed:
            counts[AGREES] = counts.get(AGREES, 0) + self._agreed
        return Told(counts, tuple(self._kept.trees(DIFFERS)), len(self._kept.trees(WAITS)))

    def take(self, data: bytes) -> Taken:
        """Hold one notice against the monitor's own tree.

        Raises: Malformed, UnknownLog, BadSignature, BadProof, for one that is none; BadState, NotWritable.
        """
        notice, now = parse_notice(data), self._clock.now_us()
        if notice.origin not in {log.key.name for log in self._policy.logs}:
            raise UnknownLog("is a log that this monitor does not watch", where=notice.origin[:80])
        signed = [self._policy.opened(parse_note(note)) for note in notice.notes]
        if signed and (Notice.of(*notice.notes) != notice or {s.checkpoint.origin for s in signed} != {notice.origin}):
            raise Malformed("a notice has notes of another tree", where=notice.origin[:80])
        taken = self._proven(signed, now) if signed else Taken(self._result(notice))
        if taken.result == AGREES:
            with self._lock:
                self._agreed += 1
        else:
            self._kept.count(notice, taken.result, now - now % _HOUR)
        return taken

    def settle(self) -> list[Alarm]:
        """Hold what waits against a tree that has grown; returns the alarms that are new. Raises: NotWritable."""
        self._add_up()
        now, alarms = self._clock.now_us(), list[Alarm]()
        for tree in self._kept.trees(WAITS):
            taken = self._settled(tree, now)
            if taken.alarm is not None:
                alarms.append(taken.alarm)
            if taken.result != WAITS:
                self._kept.settle(tree, taken.result)
        self._kept.forget(now)
        return alarms

    def _add_up(self) -> None:
        """Raises: NotWritable."""
        with self._lock:
            if self._agreed:
                self._kept.add(AGREES, self._agreed)
            self._agreed = 0

    def _settled(self, tree: Tree, now: int) -> Taken:
        if not tree.note:
            return Taken(self._result(Notice(tree.origin, tree.size, tree.root)))
        try:
            signed = self._policy.opened(parse_note(tree.note))
        except _UNSIGNED:  # by a log that was pinned when it came, and is no more
            return Taken(AGREES)
        return self._proven([signed], now)

    def _result(self, notice: Notice) -> str:
        own = self._own()
        if own is None or own.checkpoint.origin != notice.origin or notice.size > own.checkpoint.size:
            return WAITS
        try:
            root = tree_root(notice.size, TileReader(own.checkpoint.size, self._store.tile))
        except NotFound:
            return WAITS
        return AGREES if root == notice.root else DIFFERS

    def _proven(self, signed: list[Checked], now: int) -> Taken:
        """What signed notes show beside the monitor's own. Raises: NotWritable."""
        own = self._own()
        seen = [Sighting(f"node {i}", checked) for i, checked in enumerate(signed)]
        if own is not None and own.checkpoint.origin == signed[0].checkpoint.origin:
            seen.append(Sighting("monitor", own))
        found = compared(seen, [_Tiles(self._store)])
        if found.evidence is not None:
            return Taken(PROVEN, self._alarm(found.evidence, now))
        return Taken(WAITS if UNPROVEN in found.results.values() else AGREES)

    def _alarm(self, evidence: Evidence, now: int) -> Alarm | None:
        """Keep evidence, and raise the alarm; None where it is open already."""
        if len(list(self._evidence.glob("*.json"))) < MOST_EVIDENCE:
            write_evidence(self._evidence, evidence, self._clock)
        size = parse_checkpoint(parse_note(evidence.old).text).size
        told = f"log has signed two histories: a node saw another tree of {size} entries"
        alarm = Alarm("split-view", evidence.origin, told, now)
        return alarm if self._store.open_alarm(alarm) else None

    def _own(self) -> Checked | None:
        note = self._store.note
        if not note:
            return None
        try:
            return self._policy.opened(parse_note(note))
        except _UNSIGNED:  # of the log before: nothing of the one that is pinned now was read yet
            return None


class _Tiles:
    """A Fetcher of the tiles that the monitor has read."""

    def __init__(self, store: MonitorStore) -> None:
        self._store = store

    def fetch(self, path: str, *, max_length: int) -> bytes:
        """Raises: NotFound."""
        return self._store.tile(parse_path(path))[:max_length]


class _NoticeStore(Database):
    """What was told, by result; several threads may use it."""

    KIND = 0x494C4E54  # "ILNT"
    MIGRATIONS = (
        "CREATE TABLE told (result TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
        "CREATE TABLE tree (origin TEXT NOT NULL, size INTEGER NOT NULL, root BLOB NOT NULL, result TEXT NOT NULL,"
        " count INTEGER NOT NULL, at INTEGER NOT NULL, note BLOB NOT NULL, PRIMARY KEY (origin, size, root)) STRICT;",
    )

    def count(self, notice: Notice, result: str, hour: int) -> None:
        """Count a notice, and keep the tree of one that waits or differs, where there is room. Raises: NotWritable."""
        with self._write() as db:
            db.execute(_ADD, (result, 1))
            key = (notice.origin, notice.size, notice.root)
            if result == PROVEN:
                db.execute("DELETE FROM tree WHERE origin = ? AND size = ? AND root = ?", key)
            if result not in (WAITS, DIFFERS):
                return
            note = notice.notes[-1] if notice.notes and result == WAITS else b""
            sql = "SELECT count(*) FROM tree WHERE result = ? AND (note = x'') = ?"
            (there,) = db.execute(sql, (result, not note)).fetchone()
            known = "SELECT note FROM tree WHERE origin = ? AND size = ? AND root = ?"
            held = db.execute(known, key).fetchone()
            if held is not None and (held[0] or not note):
                sql = "UPDATE tree SET count = count + 1, at = ?, result = ? WHERE origin = ? AND size = ? AND root = ?"
                db.execute(sql, (hour, result, *key))
            elif there < (MOST_NOTES if note else MOST_TREES):
                db.execute("INSERT OR REPLACE INTO tree VALUES (?, ?, ?, ?, 1, ?, ?)", (*key, result, hour, note))

    def add(self, result: str, count: int) -> None:
        """Count so many more of a result. Raises: NotWritable."""
        with self._write() as db:
            db.execute(_ADD, (result, count))

    def settle(self, tree: Tree, result: str) -> None:
        """Say what became of one that waited. Raises: NotWritable."""
        key = (tree.origin, tree.size, tree.root)
        with self._write() as db:
            if result == DIFFERS:
                sql = "UPDATE tree SET result = ? WHERE origin = ? AND size = ? AND root = ?"
                db.execute(sql, (DIFFERS, *key))
            else:
                db.execute("DELETE FROM tree WHERE origin = ? AND size = ? AND root = ?", key)

    def forget(self, now: int) -> None:
        """Drop what waits for a day, and what was signed or differs for a month. Raises: NotWritable."""
        with self._write() as db:
            db.execute("DELETE FROM tree WHERE at < ?", (now - _KEPT_US,))
            db.execute("DELETE FROM tree WHERE result = ? AND note = x'' AND at < ?", (WAITS, now - _WAITS_US))
            db.execute(_OVER, (DIFFERS, MOST_TREES))

    def counts(self) -> dict[str, int]:
        """How often each result came out."""
        return {str(r): as_int(n) for r, n in self._read("SELECT result, count FROM told ORDER BY result")}

    def trees(self, result: str) -> list[Tree]:
        """The trees with a result, the newest first."""
        return [
            Tree(str(o), as_int(s), as_bytes(r), as_int(c), as_int(a), as_bytes(n))
            for o, s, r, c, a, n in self._read(_SHOWN, result)
        ]
