"""A member node's counts in SQLite: which places were seen in an epoch, the reports that were made of them, and the
credentials that they are shown with.

    bits     (task, catalog, epoch) -> places; written by every guarded process of this node, read by its daemon
    fed      (place by name, task, until when an epoch of that task goes which the place feeds)
    outbox   (task, epoch) -> one report, for ever one: queued -> sent | refused | dropped;  dropped -> sent | refused
             where it was on its way as it was dropped
    objections  (call, phase) -> the places that a community rule's objection set: what a person may speak of
    told     (receipt) -> the places that a person called it a false positive for; once

    credentials (DAP task, epoch of it) -> one request to the issuer, for ever the same; then the issuer's signature

A report goes into the outbox in the transaction that forgets its epoch's places, and no place is taken for an epoch
that has a row there, nor for one that overlaps an epoch of another task which the same place feeds. `due` is when a
report goes out, drawn once. A report's bytes, what it measures and the credential that it is shown with are kept while
it is queued, so that it can be sealed anew under the same id, and forgotten with the queue; its id, and what shows that
it is ours, until the leader has forgotten it. What is dropped leaves the file, its write-ahead log and the copies of
before migrations; that a place fed a task stays known where its report may have gone out. A report of an epoch that is
not over, of which no try can have reached the leader, is taken apart again where the clock was set back (`take_apart`).
Times are in microseconds UTC.
"""

from __future__ import annotations

import contextlib
import enum
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Final

from interlock.base.database import Database, as_bytes, as_int, changed
from interlock.base.files import file_lock, private_dir

__all__ = ["STORE_FILE", "Credential", "NodeStore", "OutboxRow", "OutboxState", "Word", "open_store"]

STORE_FILE: Final = "node.sqlite"
_OBJECTIONS_MOST: Final = 20_000
_ASKED_FOR_US: Final = 60 * 86_400_000_000  # how long a report's id is kept; twice as long as leaders keep theirs
_FED_FOR_US: Final = 366 * 86_400_000_000  # no epoch of another task is longer, so none that began before still runs
_FEED: Final = "INSERT OR IGNORE INTO fed VALUES (?, ?, ?)"
# the ends of the epochs of a task whose report left, or may have; an epoch is [time, time + 1) in units of its length
_LEFT: Final = (
    "SELECT epoch_start + epoch_start / time FROM outbox"
    " WHERE task = ? AND time > 0 AND (tried = 1 OR state IN ('sent', 'refused'))"
)
_OUTBOX: Final = (
    "SELECT task, epoch_start, catalog, dap_task, report, state, reason, at, shown, due, mechanism, report_id, asks,"
    " measurement, time, tried, remade FROM outbox"
)

_QUEUED: Final = (
    *("task", "epoch_start", "catalog", "dap_task", "report", "at", "shown", "due", "mechanism", "report_id", "asks"),
    *("measurement", "time"),
)  # what a new row brings; the rest has its defaults


class OutboxState(enum.Enum):
    """Where a report stands."""

    QUEUED = "queued"
    SENT = "sent"
    REFUSED = "refused"
    DROPPED = "dropped"


@dataclass(frozen=True)
class OutboxRow:
    """One report: of a catalog's task by name, an epoch, and a DAP task by id. `at` is its last change.

    `shown` is the kind of proof of membership that it carries; empty where the bearer token says who sends it.
    `due` is when it goes out; `mechanism` how the task counts it. `asks` is what shows that a report of this id is
    ours, where the bearer token does not. `measurement` has a byte a place, 0 or 1; `time` is the epoch in DAP's time.
    `tried` says that a try may have reached the leader; `remade` how often the report was sealed anew.
    """

    task: str
    epoch_start: int
    catalog: str
    dap_task: bytes
    report: bytes = field(repr=False)
    state: OutboxState = OutboxState.QUEUED
    reason: str = ""
    at: int = 0
    shown: str = ""
    due: int = 0
    mechanism: str = ""
    report_id: bytes = b""
    asks: bytes = field(default=b"", repr=False)
    measurement: bytes = field(default=b"", repr=False)
    time: int = 0
    tried: bool = False
    remade: int = 0


@dataclass(frozen=True)
class Credential:
    """A right to one report under way: the exact request, what it takes to use the answer, and the answer's use.

    `seed` is the fresh key's, `prefix` and `inverse` are of the blinding; all three empty for a certificate, which is
    of the organisation's own key. `signature` is empty until the issuer has answered.
    """

    request: bytes = field(repr=False)
    seed: bytes = field(default=b"", repr=False)
    prefix: bytes = field(default=b"", repr=False)
    inverse: bytes = field(default=b"", repr=False)
    signature: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Word:
    """Which places (number -> name) a person's word sets in one task's epoch, [start, end)."""

    task: str
    catalog: str
    start: int
    end: int
    places: Mapping[int, str]


class NodeStore(Database):
    """One node's counts. Several processes may have it open; a process that forks opens its own afterwards.

    Raises, when opened: NewerFormat, BadState, NotWritable. RuntimeError, when used in a forked child.
    """

    KIND = 0x494C4E44  # "ILND"
    KEEPS_COPIES = False  # they would keep what is forgotten here, and going back to one would report an epoch twice
    MIGRATIONS: ClassVar[tuple[str, ...]] = (
        """
CREATE TABLE bits (task TEXT NOT NULL, catalog TEXT NOT NULL, epoch_start INTEGER NOT NULL, place INTEGER NOT NULL,
    PRIMARY KEY (task, epoch_start, catalog, place)) WITHOUT ROWID;
CREATE TABLE outbox (task TEXT NOT NULL, epoch_start INTEGER NOT NULL, catalog TEXT NOT NULL, dap_task BLOB NOT NULL,
    report BLOB NOT NULL, state TEXT NOT NULL DEFAULT 'queued', reason TEXT NOT NULL DEFAULT '', at INTEGER NOT NULL,
    tried INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (task, epoch_start));
CREATE INDEX outbox_by_state ON outbox (dap_task, state)
""",
        """
ALTER TABLE outbox ADD COLUMN shown TEXT NOT NULL DEFAULT '';
CREATE TABLE credentials (dap_task BLOB NOT NULL, epoch INTEGER NOT NULL, request BLOB NOT NULL, seed BLOB NOT NULL,
    prefix BLOB NOT NULL, inverse BLOB NOT NULL, signature BLOB NOT NULL, PRIMARY KEY (dap_task, epoch)) WITHOUT ROWID
""",
        """
ALTER TABLE outbox ADD COLUMN due INTEGER NOT NULL DEFAULT 0;
ALTER TABLE outbox ADD COLUMN mechanism TEXT NOT NULL DEFAULT '';
CREATE TABLE fed (place TEXT NOT NULL, task TEXT NOT NULL, until INTEGER NOT NULL,
    PRIMARY KEY (place, task)) WITHOUT ROWID;
CREATE TABLE objections (call_id TEXT NOT NULL, phase TEXT NOT NULL, place TEXT NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (call_id, phase, place));
CREATE TABLE told (receipt TEXT NOT NULL, task TEXT NOT NULL, place TEXT NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (receipt, place)) WITHOUT ROWID
""",
        """
ALTER TABLE outbox ADD COLUMN report_id BLOB NOT NULL DEFAULT X'';
ALTER TABLE outbox ADD COLUMN asks BLOB NOT NULL DEFAULT X''
""",
        """
ALTER TABLE outbox ADD COLUMN measurement BLOB NOT NULL DEFAULT X'';
ALTER TABLE outbox ADD COLUMN time INTEGER NOT NULL DEFAULT 0;
ALTER TABLE outbox ADD COLUMN remade INTEGER NOT NULL DEFAULT 0
""",
        """
CREATE TABLE fed_until (place TEXT NOT NULL, task TEXT NOT NULL, until INTEGER NOT NULL,
    PRIMARY KEY (place, task, until)) WITHOUT ROWID;
INSERT INTO fed_until SELECT * FROM fed;
DROP TABLE fed;
ALTER TABLE fed_until RENAME TO fed
""",
    )

    def __init__(self, path: Path) -> None:
        self._pid = os.getpid()
        # SQLite does not wait where two processes make the same file at once: the first one makes it alone.
        with file_lock(path.with_name(f"{path.name}.lock"), wait=True):
            super().__init__(path)

    # places

    def add_bits(self, task: str, catalog: str, epoch: tuple[int, int], places: Mapping[int, str]) -> int:
        """Keep places (number -> name) that were seen in an epoch [start, end), durably; returns how many are new.

        None is, once the epoch's report is made; nor one that feeds another task in a time that overlaps.
        """
        sql = (
            "INSERT OR IGNORE INTO bits SELECT ?, ?, ?, ?"
            " WHERE NOT EXISTS (SELECT 1 FROM outbox WHERE task = ? AND epoch_start = ?)"
            " AND NOT EXISTS (SELECT 1 FROM fed WHERE place = ? AND task <> ? AND until > ?)"
        )
        fresh, (start, end) = 0, epoch
        with self._write() as db:
            for place, name in sorted(places.items()):
                if changed(db, sql, task, catalog, start, place, task, start, name, task, start):
                    db.execute(_FEED, (name, task, end))
                    fresh += 1
        return fresh

    def bits(self, task: str, catalog: str, epoch_start: int) -> frozenset[int]:
        """The places that were seen in an epoch whose report is not made yet."""
        sql = "SELECT place FROM bits WHERE task = ? AND catalog = ? AND epoch_start = ?"
        return frozenset(as_int(row[0]) for row in self._read(sql, task, catalog, epoch_start))

    def places_by_epoch(self, task: str, catalog: str) -> dict[int, frozenset[int]]:
        """The places of every epoch that has some and no report yet, by the epochs' starts."""
        found: dict[int, set[int]] = {}
        sql = "SELECT epoch_start, place FROM bits WHERE task = ? AND catalog = ?"
        for start, place in self._read(sql, task, catalog):
            found.setdefault(as_int(start), set()).add(as_int(place))
        return {start: frozenset(places) for start, places in found.items()}

    # reports

    def reported(self, task: str) -> frozenset[int]:
        """The epochs, by their starts, that have a report."""
        return frozenset(as_int(row[0]) for row in self._read("SELECT epoch_start FROM outbox WHERE task = ?", task))

    def queue(self, row: OutboxRow) -> bool:
        """Put an epoch's one report in the outbox, and forget its places; False where it has one."""
        sql = f"INSERT OR IGNORE INTO outbox ({', '.join(_QUEUED)}) VALUES ({', '.join('?' * len(_QUEUED))})"
        with self._write() as db:
            if not changed(db, sql, *(getattr(row, column) for column in _QUEUED)):
                return False
            db.execute("DELETE FROM bits WHERE task = ? AND epoch_start = ?", (row.task, row.epoch_start))
            past = "UPDATE outbox SET report_id = X'', asks = X'' WHERE at < ? AND length(report_id) > 0"
            db.execute(past, (row.at - _ASKED_FOR_US,))
            db.execute("DELETE FROM fed WHERE until < ?", (row.at - _FED_FOR_US,))
            return True

    def queued(self, dap_task: bytes, due_by: int | None = None) -> list[OutboxRow]:
        """What is to be sent for a DAP task (by a time), oldest first."""
        sql = f"{_OUTBOX} WHERE dap_task = ? AND state = 'queued' AND due <= coalesce(?, due) ORDER BY epoch_start"
        return [_row(row) for row in self._read(sql, dap_task, due_by)]

    def attempt(self, row: OutboxRow) -> bool:
        """Note that a report is about to go out; False where its bytes left the queue meanwhile, and must not."""
        sql = "UPDATE outbox SET tried = 1 WHERE task = ? AND epoch_start = ? AND state = 'queued' AND report = ?"
        with self._write() as db:
            return changed(db, sql, row.task, row.epoch_start, row.report)

    def not_taken(self, row: OutboxRow) -> None:
        """The leader said that it did not take the attempt; what an earlier one came to (`row.tried`) stays open."""
        sql = "UPDATE outbox SET tried = ? WHERE task = ? AND epoch_start = ? AND state = 'queued' AND report = ?"
        with self._write() as db:
            db.execute(sql, (row.tried, row.task, row.epoch_start, row.report))

    def remake(self, row: OutboxRow, report: bytes) -> OutboxRow | None:
        """Put the same report, sealed anew, in the place of one that was not taken; none where that left the queue."""
        sql = (
            "UPDATE outbox SET report = ?, remade = remade + 1, tried = ?"
            " WHERE task = ? AND epoch_start = ? AND state = 'queued' AND report = ?"
        )
        with self._write() as db:
            done = changed(db, sql, report, row.tried, row.task, row.epoch_start, row.report)
        return replace(row, report=report, remade=row.remade + 1) if done else None

    def take_apart(self, task: str, catalog: str, now: tuple[int, int]) -> int:
        """The clock was set back into the epoch `now`, [start, end): what was seen in later ones is of this one.

        Reports that were made because those epochs, or this one, were over by the clock are taken apart, if the leader
        surely has none of their bytes; returns how many. What was closed early on purpose stays a report.
        """
        start, end = now
        sure = "state = 'queued' AND tried = 0"
        made = f"task = ? AND catalog = ? AND {sure} AND epoch_start >= ? AND at >= epoch_start + ?"
        about = (task, catalog, start, end - start)
        with self._write() as db:
            found = db.execute(f"SELECT measurement FROM outbox WHERE {made}", about).fetchall()
            db.execute(f"DELETE FROM outbox WHERE {made}", about)
            reported = "EXISTS (SELECT 1 FROM outbox WHERE task = ? AND epoch_start = ?)"
            seen = {place for (bits,) in found for place, bit in enumerate(as_bytes(bits)) if bit}
            later = "FROM bits WHERE task = ? AND catalog = ? AND epoch_start > ?"  # beyond the next one, that is
            seen |= {as_int(place) for (place,) in db.execute(f"SELECT place {later}", (task, catalog, end))}
            db.execute(f"DELETE {later}", (task, catalog, end))
            sql = f"INSERT OR IGNORE INTO bits SELECT ?, ?, ?, ? WHERE NOT {reported}"
            db.executemany(sql, [(task, catalog, start, place, task, start) for place in sorted(seen)])
        return len(found)

    def settle(self, row: OutboxRow, state: OutboxState, reason: str, at: int) -> bool:
        """Write down what the leader said of an attempt; it is the truth also of a report dropped meanwhile."""
        sql = (
            "UPDATE outbox SET state = ?, reason = ?, at = ?, report = X'', measurement = X''"
            " WHERE task = ? AND epoch_start = ? AND tried = 1 AND state IN ('queued', 'dropped')"
        )
        with self._write() as db:
            if not changed(db, sql, state.value, reason, at, row.task, row.epoch_start):
                return False
            db.execute("DELETE FROM credentials WHERE dap_task = ? AND epoch = ?", (row.dap_task, row.time))
        self._scrub()
        return True

    def drop(self, task: str, reason: str, at: int, *, catalog: str | None = None) -> int:
        """Drop whatever is queued for a task (for one catalog of it), and forget its places; returns how many reports.

        Of a person's word only the receipt stays, so that it is not said twice.
        A report whose attempt has no known end may be with the leader all the same, and its reason says so.
        """
        sql = (
            "UPDATE outbox SET state = 'dropped', at = ?, report = X'', measurement = X'',"
            " reason = ? || CASE tried WHEN 1 THEN '; the leader may have it' ELSE '' END"
            " WHERE task = ? AND coalesce(?, catalog) = catalog AND state = 'queued'"
        )
        with self._write() as db:
            db.execute("DELETE FROM bits WHERE task = ? AND coalesce(?, catalog) = catalog", (task, catalog))
            dropped = db.execute(sql, (at, reason, task, catalog)).rowcount
            used = "SELECT dap_task, time FROM outbox WHERE task = ? AND state = 'dropped'"
            db.execute(f"DELETE FROM credentials WHERE (dap_task, epoch) IN ({used})", (task,))
            if not db.execute("SELECT 1 FROM bits WHERE task = ?", (task,)).fetchone():
                db.execute(f"DELETE FROM fed WHERE task = ? AND until NOT IN ({_LEFT})", (task, task))
                db.execute("UPDATE OR REPLACE told SET place = '' WHERE task = ?", (task,))
            self._forget_copies()
        self._scrub()
        return dropped

    def forget_places(self, task: str, before: int) -> None:
        """Forget what was seen in epochs that began before a time, and will not be reported any more."""
        with self._write() as db:
            db.execute("DELETE FROM bits WHERE task = ? AND epoch_start < ?", (task, before))
        self._scrub()

    def forget_question(self, row: OutboxRow) -> None:
        """Forget which report it was: nobody can be asked about it any more."""
        sql = "UPDATE outbox SET report_id = X'', asks = X'' WHERE task = ? AND epoch_start = ?"
        with self._write() as db:
            db.execute(sql, (row.task, row.epoch_start))

    def outbox(self) -> list[OutboxRow]:
        """Every report there ever was, oldest epoch first."""
        return [_row(row) for row in self._read(f"{_OUTBOX} ORDER BY epoch_start, task")]

    # what a person may say of an objection

    def note_objection(self, call_id: str, phase: str, places: Iterable[str], at: int) -> None:
        """Keep what a community rule's objection set, so that a person can speak of it; the oldest are forgotten."""
        with self._write() as db:
            rows = ((call_id, phase, place, at) for place in sorted(places))
            db.executemany("INSERT OR IGNORE INTO objections VALUES (?, ?, ?, ?)", rows)
            db.execute(
                "DELETE FROM objections WHERE rowid <= (SELECT max(rowid) FROM objections) - ?", (_OBJECTIONS_MOST,)
            )

    def forget_objections(self) -> None:
        if self._read("SELECT 1 FROM objections LIMIT 1"):
            with self._write() as db:
                db.execute("DELETE FROM objections")
        self._scrub()

    def objection(self, call_id: str, phase: str) -> frozenset[str]:
        """The places of one objection; none where it is not known any more."""
        sql = "SELECT place FROM objections WHERE call_id = ? AND phase = ?"
        return frozenset(str(row[0]) for row in self._read(sql, call_id, phase))

    def was_told(self, receipt: str) -> bool:
        """Whether a person called a receipt a false positive."""
        return bool(self._read("SELECT 1 FROM told WHERE receipt = ?", receipt))

    def tell_false_positive(self, receipt: str, words: Sequence[Word], at: int) -> bool:
        """Set the places of a person's word on a receipt, in one change.

        False where it was said of it before, where an epoch's report is made, and where a place feeds another task in a
        time that overlaps.
        """
        busy = "SELECT 1 FROM fed WHERE place = ? AND task <> ? AND until > ?"
        made = "SELECT 1 FROM outbox WHERE task = ? AND epoch_start = ?"
        with self._write() as db:
            told = db.execute("SELECT 1 FROM told WHERE receipt = ?", (receipt,)).fetchone()
            if told or any(db.execute(made, (word.task, word.start)).fetchone() for word in words):
                return False
            if any(db.execute(busy, (n, w.task, w.start)).fetchone() for w in words for n in w.places.values()):
                return False
            for word in words:
                for place, name in word.places.items():
                    db.execute("INSERT INTO told VALUES (?, ?, ?, ?)", (receipt, word.task, name, at))
                    row = (word.task, word.catalog, word.start, place)
                    db.execute("INSERT OR IGNORE INTO bits VALUES (?, ?, ?, ?)", row)
                    db.execute(_FEED, (name, word.task, word.end))
            return True

    # credentials

    def credential(self, dap_task: bytes, epoch: int) -> Credential | None:
        sql = "SELECT request, seed, prefix, inverse, signature FROM credentials WHERE dap_task = ? AND epoch = ?"
        rows = self._read(sql, dap_task, epoch)
        return Credential(*map(as_bytes, rows[0])) if rows else None

    def begin_credential(self, dap_task: bytes, epoch: int, new: Credential) -> Credential:
        """Keep a request before it is sent; where there is one already, that is given back, and sent again."""
        row = (dap_task, epoch, new.request, new.seed, new.prefix, new.inverse, new.signature)
        with self._write() as db:
            db.execute("INSERT OR IGNORE INTO credentials VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        found = self.credential(dap_task, epoch)
        assert found is not None, "it was stored just now"
        return found

    def finish_credential(self, dap_task: bytes, epoch: int, signature: bytes) -> None:
        with self._write() as db:
            sql = "UPDATE credentials SET signature = ?, inverse = X'' WHERE dap_task = ? AND epoch = ?"
            db.execute(sql, (signature, dap_task, epoch))

    def forget_credentials(self, dap_task: bytes, before: int) -> None:
        """Forget what epochs would have been shown with that are not reported any more."""
        with self._write() as db:
            db.execute("DELETE FROM credentials WHERE dap_task = ? AND epoch < ?", (dap_task, before))

    @contextlib.contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        self._demand_own_process()
        with super()._write() as db:
            yield db

    def _read(self, sql: str, *args: object) -> list[tuple[object, ...]]:
        self._demand_own_process()
        return super()._read(sql, *args)

    def _demand_own_process(self) -> None:
        # A connection carried over a fork believes in locks that the child does not hold, and damages the file.
        if os.getpid() != self._pid:
            raise RuntimeError("the node's store was opened before this process was forked; open it here again")


def open_store(home: Path) -> NodeStore:
    """The store of a node's home. Raises: NewerFormat, BadState, NotWritable."""
    return NodeStore(private_dir(home) / STORE_FILE)


def _row(row: tuple[object, ...]) -> OutboxRow:
    task, epoch_start, catalog, dap_task, report, state, reason, at, shown, due, mechanism, report_id, asks, *rest = row
    measurement, time, tried, remade = rest
    return OutboxRow(
        task=str(task),
        epoch_start=as_int(epoch_start),
        catalog=str(catalog),
        dap_task=as_bytes(dap_task),
        report=as_bytes(report),
        state=OutboxState(state),
        reason=str(reason),
        at=as_int(at),
        shown=str(shown),
        due=as_int(due),
        mechanism=str(mechanism),
        report_id=as_bytes(report_id),
        asks=as_bytes(asks),
        measurement=as_bytes(measurement),
        time=as_int(time),
        tried=bool(tried),
        remade=as_int(remade),
    )
