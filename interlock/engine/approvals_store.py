"""Requests for approval in SQLite: one file, any number of guarded processes and approvers.

    pending  -> approved | denied | unanswered (nobody answered within `wait`)
    approved -> used (scope "once") | lapsed (its time to be used is over) | revoked
    any open -> void, where the clock went back

A use is one conditional UPDATE: of all processes and threads that try, one changes the row. An answer is another.
What a request showed is forgotten once it can no longer be approved or used; the row itself stays for KEEP_US.
Times are in microseconds UTC. A clock that goes back by more than a few seconds voids all that is open, since nobody
can tell what is late; by less, time stands still.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from interlock.base.clock import DAY_US, MICROSECONDS, Clock, SystemClock, rfc3339
from interlock.base.database import Database, as_bytes, as_int, changed
from interlock.base.errors import InterlockError
from interlock.engine.approvals_place import demand_safe, opening
from interlock.engine.processes import Process

__all__ = [
    "KEEP_US",
    "MAX_OPEN",
    "MAX_TTL_US",
    "SCOPES",
    "ApprovalStore",
    "Asked",
    "ClockWentBack",
    "Entry",
    "NotAllowed",
    "NotOpen",
    "UnknownRequest",
    "Use",
]

SCOPES: Final = ("once", "session", "ttl")
KEEP_US: Final = 30 * DAY_US
MAX_OPEN: Final = 1000  # requests that wait at one time
MAX_TTL_US: Final = DAY_US
_SLACK_US: Final = 5 * MICROSECONDS
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_ROWS: Final = (
    "SELECT id, state, digest, action, principal, parent, span, document, created, wait_until, use_for, four_eyes,"
    " scope, granted, use_until, uses, answered_by, changed FROM requests"
)
_USE: Final = """
UPDATE requests SET uses = uses + 1, changed = :now,
    state = CASE scope WHEN 'once' THEN 'used' ELSE state END,
    document = CASE scope WHEN 'once' THEN X'' ELSE document END
WHERE id = :id AND digest = :digest AND state = 'approved' AND granted <= :now AND :now < use_until
    AND (scope <> 'session' OR span = :span)
"""
_UNANSWERED: Final = """
UPDATE requests SET state = 'unanswered', changed = ?, document = X'' WHERE state = 'pending' AND wait_until <= ?
"""
_LAPSED: Final = """
UPDATE requests SET state = 'lapsed', changed = ?, document = X'' WHERE state = 'approved' AND use_until <= ?
"""


class UnknownRequest(InterlockError):
    """A request id that is not in the queue."""

    code = "not-found"


class NotOpen(InterlockError):
    """A request that can no longer be answered, or not in this way."""

    code = "conflict"


class NotAllowed(InterlockError):
    """An approver who may not approve this request."""

    code = "not-allowed"


class ClockWentBack(InterlockError):
    """The machine's time is before what the queue has seen; everything open was voided."""

    code = "stale"


@dataclass(frozen=True)
class Entry:
    """One request as it stands; `document` is empty once it can no longer be approved or used."""

    id: str
    state: str
    digest: str
    action: str
    principal: str | None
    parent: str | None
    span: str | None
    document: bytes = field(repr=False)
    created_us: int
    wait_until_us: int
    use_for_us: int
    four_eyes: bool
    scope: str
    granted_us: int
    use_until_us: int
    uses: int
    answered_by: str
    changed_us: int


@dataclass(frozen=True)
class Asked:
    """What a guard puts into the queue: what is bound, who asks, what is shown, and the two clocks."""

    digest: str
    action: str
    principal: str | None
    parent: str | None
    span: str | None
    document: bytes = field(repr=False)
    wait_us: int
    use_us: int
    four_eyes: bool


@dataclass(frozen=True)
class Use:
    """How an attempt to use an approval went: `entry` is the approval that was used, or the request that now stands.

    `before` is the state of an earlier request for the same, where that one can no longer be used.
    """

    used: bool
    entry: Entry
    before: str = ""


class ApprovalStore(Database):
    """The queue's file, as approvers and guards open it. A process that forks opens its own afterwards.

    Raises, when opened: NotWritable, BadState, NewerFormat, Locked. RuntimeError, when used in a forked child.
    """

    KIND = 0x494C4150  # "ILAP"
    TIMEOUT_S = 5
    MIGRATIONS: ClassVar[tuple[str, ...]] = (
        """
CREATE TABLE requests (id TEXT PRIMARY KEY, state TEXT NOT NULL DEFAULT 'pending', digest TEXT NOT NULL,
    action TEXT NOT NULL, principal TEXT, parent TEXT, span TEXT, document BLOB NOT NULL, created INTEGER NOT NULL,
    wait_until INTEGER NOT NULL, use_for INTEGER NOT NULL, four_eyes INTEGER NOT NULL, scope TEXT NOT NULL DEFAULT '',
    granted INTEGER NOT NULL DEFAULT 0, use_until INTEGER NOT NULL DEFAULT 0, uses INTEGER NOT NULL DEFAULT 0,
    answered_by TEXT NOT NULL DEFAULT '', changed INTEGER NOT NULL);
CREATE INDEX requests_by_digest ON requests (digest, state);
CREATE INDEX requests_by_state ON requests (state, wait_until);
CREATE TABLE yeses (request TEXT NOT NULL, name TEXT NOT NULL, scope TEXT NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (request, name)) WITHOUT ROWID;
CREATE TABLE guarded (space TEXT NOT NULL, pid INTEGER NOT NULL, start INTEGER NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (space, pid, start)) WITHOUT ROWID;
CREATE TABLE seen (one INTEGER PRIMARY KEY CHECK (one = 1), last INTEGER NOT NULL)
""",
    )

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self._pid = os.getpid()
        self._clock = clock or SystemClock()
        demand_safe(path)
        with opening(path):
            super().__init__(path)

    # the guard's side

    def use_or_ask(self, asked: Asked) -> Use:
        """Use an approval of what is asked, or put the request in the queue (once, however often it is asked).

        Raises: ClockWentBack, NotOpen (the queue is full), NotWritable, BadState.
        """
        with self._change() as (db, now):
            for (id_,) in db.execute(
                "SELECT id FROM requests WHERE digest = ? AND state = 'approved' ORDER BY granted, id", (asked.digest,)
            ).fetchall():
                # The one compare-and-swap: whoever changes the row has the approval, and nobody else does.
                bound = {"id": id_, "digest": asked.digest, "span": asked.span, "now": now}
                if db.execute(_USE, bound).rowcount:
                    return Use(True, _entry(db, id_))
            return self._ask(db, now, asked)

    def _ask(self, db: sqlite3.Connection, now: int, asked: Asked) -> Use:
        row = db.execute(
            "SELECT id FROM requests WHERE digest = ? ORDER BY created DESC, rowid DESC LIMIT 1", (asked.digest,)
        ).fetchone()
        latest = _entry(db, row[0]) if row else None
        if latest and (latest.state == "pending" or (latest.state == "denied" and now < latest.wait_until_us)):
            return Use(False, latest)
        (waiting,) = db.execute("SELECT count(*) FROM requests WHERE state = 'pending'").fetchone()
        if waiting >= MAX_OPEN:
            raise NotOpen(f"{waiting} requests wait for approval already, and no more are taken", where=str(self._path))
        id_ = os.urandom(8).hex()
        who = (asked.action, asked.principal, asked.parent, asked.span)
        times = (now, now + asked.wait_us, asked.use_us, asked.four_eyes, now)
        db.execute(
            "INSERT INTO requests (id, digest, action, principal, parent, span, document, created, wait_until, use_for,"
            " four_eyes, changed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (id_, asked.digest, *who, asked.document, *times),
        )
        return Use(False, _entry(db, id_), latest.state if latest else "")

    def mark(self, process: Process) -> None:
        """Note a guarded process: nothing that it started may approve. What ran before the last boot is forgotten."""
        boot = process.space.partition(" ")[0]
        with self._change() as (db, now):
            db.execute(
                "DELETE FROM guarded WHERE at < ? AND substr(space, 1, ?) <> ?", (now - KEEP_US, len(boot), boot)
            )
            db.execute(
                "INSERT OR IGNORE INTO guarded (space, pid, start, at) VALUES (?, ?, ?, ?)",
                (process.space, process.pid, process.start, now),
            )

    # the approver's side

    def approve(self, id_: str, by: str, scope: str = "once", ttl_us: int = 0) -> Entry:
        """Say yes; with four eyes, the first of two. `ttl_us` is how long an approval of scope "ttl" may be used.

        Raises: UnknownRequest, NotOpen, NotAllowed, ClockWentBack; ValueError, for a scope or ttl that does not exist.
        """
        if scope not in SCOPES or (scope == "ttl") != bool(ttl_us) or not 0 <= ttl_us <= MAX_TTL_US:
            raise ValueError(f"a scope is one of {SCOPES}, and ttl has a time of at most {MAX_TTL_US} microseconds")
        with self._change() as (db, now):
            entry = _demand_state(_entry(db, id_), "pending")
            _demand_other(by, entry)
            if scope == "session" and not entry.span:
                raise NotOpen("belongs to no session", where=id_, fix="approve it once")
            names = _said_yes(db, entry, by, scope, now)
            if entry.four_eyes and len(names) < 2:
                return entry
            until = now + (ttl_us or entry.use_for_us)
            sql = (
                "UPDATE requests SET state = 'approved', scope = ?, granted = ?, use_until = ?, answered_by = ?,"
                " changed = ? WHERE id = ? AND state = 'pending'"
            )
            if not changed(db, sql, scope, now, until, ", ".join(names), now, id_):
                raise AssertionError("a pending request that was not pending")
            return _entry(db, id_)

    def deny(self, id_: str, by: str) -> Entry:
        """Say no: until the request's wait is over, the same is not asked again. Raises: as `approve`."""
        return self._end(id_, by, "pending", "denied")

    def revoke(self, id_: str, by: str) -> Entry:
        """Take an approval back, as far as it was not used. Raises: as `approve`."""
        return self._end(id_, by, "approved", "revoked")

    def _end(self, id_: str, by: str, was: str, state: str) -> Entry:
        _demand_name(by)
        with self._change() as (db, now):
            _demand_state(_entry(db, id_), was)
            db.execute(
                "UPDATE requests SET state = ?, answered_by = ?, changed = ?, document = X'' WHERE id = ?",
                (state, by, now, id_),
            )
            return _entry(db, id_)

    def get(self, id_: str) -> Entry:
        """One request, as it stands now. Raises: UnknownRequest, ClockWentBack."""
        with self._change() as (db, _):
            return _entry(db, id_)

    def entries(self, *, open_only: bool = True) -> list[Entry]:
        """The requests that wait or may be used, oldest first; or all of the last days."""
        where = "WHERE state IN ('pending', 'approved')" if open_only else ""
        with self._change() as (db, _):
            rows = db.execute(f"{_ROWS} {where} ORDER BY created, rowid").fetchall()
            return [_of(row) for row in rows]

    def yeses(self, id_: str) -> list[str]:
        """Who has said yes so far."""
        return [str(row[0]) for row in self._read("SELECT name FROM yeses WHERE request = ? ORDER BY at, name", id_)]

    def guarded(self) -> frozenset[Process]:
        """The processes that guards have noted."""
        rows = self._read("SELECT space, pid, start FROM guarded")
        return frozenset(Process(str(space), as_int(pid), as_int(start)) for space, pid, start in rows)

    # time, and this process's own connection

    @contextlib.contextmanager
    def _change(self) -> Iterator[tuple[sqlite3.Connection, int]]:
        """One transaction at one moment, after whatever is over by then has ended. Raises: ClockWentBack."""
        if os.getpid() != self._pid:  # a connection carried over a fork damages the file
            raise RuntimeError("the queue was opened before this process was forked; open it here again")
        said = self._clock.now_us()
        with self._write() as db:
            before = _open_ids(db)
            (last,) = db.execute("SELECT coalesce(max(last), 0) FROM seen").fetchone()
            back = said + _SLACK_US < last
            now = said if back else max(said, last)
            db.execute("INSERT OR REPLACE INTO seen (one, last) VALUES (1, ?)", (now,))
            if back:
                db.execute(
                    "UPDATE requests SET state = 'void', changed = ?, document = X''"
                    " WHERE state IN ('pending', 'approved')",
                    (now,),
                )
            else:
                _end_what_is_over(db, now)
                yield db, now
            over = before - _open_ids(db)
        if over:
            self._scrub()  # what they showed is not wanted in the log either
        if back:
            told = f"the clock went back from {rfc3339(last)} to {rfc3339(now)}, so every open request is void"
            raise ClockWentBack(told, fix="ask again")


def _open_ids(db: sqlite3.Connection) -> frozenset[str]:
    rows = db.execute("SELECT id FROM requests WHERE state IN ('pending', 'approved')").fetchall()
    return frozenset(str(row[0]) for row in rows)


def _end_what_is_over(db: sqlite3.Connection, now: int) -> None:
    db.execute(_UNANSWERED, (now, now))
    db.execute(_LAPSED, (now, now))
    db.execute("DELETE FROM requests WHERE state NOT IN ('pending', 'approved') AND changed < ?", (now - KEEP_US,))
    db.execute("DELETE FROM yeses WHERE request NOT IN (SELECT id FROM requests)")


def _said_yes(db: sqlite3.Connection, entry: Entry, by: str, scope: str, now: int) -> list[str]:
    """Add a yes; returns all names. Raises: NotAllowed, where this name said so before or the other meant less."""
    rows = db.execute("SELECT name, scope FROM yeses WHERE request = ? ORDER BY at, name", (entry.id,)).fetchall()
    if any(_same(by, name) for name, _ in rows):
        raise NotAllowed(f"{by} approved it already; somebody else has to", where=entry.id)
    if any(said != scope for _, said in rows):
        raise NotAllowed(f"{rows[0][0]} approved it with scope {rows[0][1]}", where=entry.id, fix="say the same")
    db.execute("INSERT INTO yeses (request, name, scope, at) VALUES (?, ?, ?, ?)", (entry.id, by, scope, now))
    return [*(str(name) for name, _ in rows), by]


def _demand_name(by: str) -> None:
    if not _NAME.fullmatch(by):
        raise NotAllowed(
            "an approver's name is 1 to 64 letters, digits and . _ @ + -, and begins with one of the first"
        )


def _demand_other(by: str, entry: Entry) -> None:
    """Raises: NotAllowed, where the approver is who asks."""
    _demand_name(by)
    if any(name is not None and _same(by, name) for name in (entry.principal, entry.parent)):
        raise NotAllowed(f"{by} asks for this itself", where=entry.id, fix="somebody else has to approve it")


def _same(a: str, b: str) -> bool:
    return a.casefold() == b.casefold()


_ENDED: Final = {
    "pending": "still waits for an answer",
    "approved": "is approved already",
    "denied": "was denied",
    "revoked": "was revoked",
    "used": "has been used",
    "unanswered": "was not answered in time",
    "lapsed": "was approved, and not used in time",
    "void": "became void when the clock went back",
}


def _demand_state(entry: Entry, state: str) -> Entry:
    if entry.state != state:
        raise NotOpen(_ENDED[entry.state], where=entry.id)
    return entry


def _entry(db: sqlite3.Connection, id_: str) -> Entry:
    row = db.execute(f"{_ROWS} WHERE id = ?", (id_,)).fetchone()
    if row is None:
        raise UnknownRequest("is no request in this queue", where=id_, fix="see interlock approve list")
    return _of(row)


def _of(row: tuple[object, ...]) -> Entry:
    id_, state, digest, action, principal, parent, span, document, *rest = row
    created, wait_until, use_for, four_eyes, scope, granted, use_until, uses, by, at = rest
    return Entry(
        str(id_),
        str(state),
        str(digest),
        str(action),
        _name(principal),
        _name(parent),
        _name(span),
        as_bytes(document),
        as_int(created),
        as_int(wait_until),
        as_int(use_for),
        bool(four_eyes),
        str(scope),
        as_int(granted),
        as_int(use_until),
        as_int(uses),
        str(by),
        as_int(at),
    )


def _name(value: object) -> str | None:
    return None if value is None else str(value)
