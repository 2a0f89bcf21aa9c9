"""An issuer's store in SQLite: who is enrolled, which invites are open, the epochs' keys, and what was given out.

    invites       a code's SHA-256 -> open until used or ended; one use each
    members       organisation -> its key;  pending -> enrolled -> revoked; back by an invite in its own name
    epochs        (task, epoch) -> its file of member keys, and the private key until the epoch closes
    credentials   (task, epoch, organisation) -> the request's blinded bytes and the answer; for ever one

Each change is one transaction whose conditions are part of it. What was answered was stored before, so a lost answer
can be asked for again with the same bytes; other bytes are refused. Times are in microseconds UTC.
"""

from __future__ import annotations

import enum
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from interlock.base.database import Database, as_bytes, as_int, changed
from interlock.base.errors import InterlockError
from interlock.base.files import file_lock

__all__ = ["Epoch", "IssuerStore", "Member", "MemberState", "Refused"]

WAIT_MOST: Final = 1000  # organisations; anybody may ask, and only a person's yes makes room
_MEMBERS: Final = "SELECT organisation, key, state, at FROM members"


class Refused(InterlockError):
    """What an issuer does not do for whoever asked."""

    code = "not-allowed"


class MemberState(enum.Enum):
    """Where an organisation stands."""

    PENDING = "pending"
    ENROLLED = "enrolled"
    REVOKED = "revoked"


@dataclass(frozen=True)
class Member:
    """An organisation: its key's text, its state, and since when."""

    organisation: str
    key: str
    state: MemberState
    at: int


@dataclass(frozen=True)
class Epoch:
    """One epoch of a task: its public file, and the private token key while credentials are given out.

    They are from `opens_at`, when the epoch begins, until `closes_at`.
    """

    keys: bytes
    closes_at: int
    private: bytes = field(repr=False)
    opens_at: int


class IssuerStore(Database):
    """Raises, when opened: NewerFormat, BadState, NotWritable."""

    KIND = 0x494C4953  # "ILIS"
    MIGRATIONS: ClassVar[tuple[str, ...]] = (
        """
CREATE TABLE invites (code TEXT PRIMARY KEY, organisation TEXT NOT NULL, ends_at INTEGER NOT NULL,
    used_by TEXT NOT NULL DEFAULT '') WITHOUT ROWID;
CREATE TABLE members (organisation TEXT PRIMARY KEY, key TEXT NOT NULL UNIQUE, state TEXT NOT NULL,
    at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE epochs (task TEXT NOT NULL, epoch INTEGER NOT NULL, keys BLOB NOT NULL, closes_at INTEGER NOT NULL,
    private BLOB NOT NULL, PRIMARY KEY (task, epoch)) WITHOUT ROWID;
CREATE TABLE credentials (task TEXT NOT NULL, epoch INTEGER NOT NULL, organisation TEXT NOT NULL,
    asked BLOB NOT NULL, answer BLOB NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (task, epoch, organisation))
""",
        "ALTER TABLE epochs ADD COLUMN opens_at INTEGER NOT NULL DEFAULT 0",
    )

    def __init__(self, path: Path) -> None:
        # SQLite does not wait where two processes make the same file at once: the first one makes it alone.
        with file_lock(path.with_name(f"{path.name}.lock"), wait=True):
            super().__init__(path)

    # organisations

    def add_invite(self, code_sha256: str, organisation: str, ends_at: int) -> None:
        """An open invite; `organisation` is whom it is for, empty for whoever has it."""
        with self._write() as db:
            db.execute("INSERT INTO invites VALUES (?, ?, ?, '')", (code_sha256, organisation, ends_at))

    def enrol(self, organisation: str, key: str, code_sha256: str, now_us: int) -> Member:
        """Enrol by an invite, or note who waits for a person where the code is empty; the same again finds the first.

        One that was revoked comes back, with whatever key, only by an invite in its own name. One that only waits has
        shown nothing, and an invite takes its name for another key.
        Raises: Refused, for an invite that does not hold, another key under the name, a key under another name; where
        too many wait.
        """
        with self._write() as db:
            found = _member(db, organisation)
            back = found is not None and found.state is MemberState.REVOKED
            if found is not None and not back:
                waits = found.state is MemberState.PENDING
                if found.key != key and not (waits and code_sha256):
                    told = f"{'waits to be' if waits else 'is'} enrolled with another key"
                    raise Refused(told, where=organisation, fix="have the issuer revoke it, then invite it by name")
                if not waits or not code_sha256:
                    return found
            if db.execute("SELECT 1 FROM members WHERE key = ? AND organisation != ?", (key, organisation)).fetchone():
                raise Refused("has a key that another organisation is enrolled with", where=organisation)
            if back and not code_sha256:
                raise Refused("was revoked", where=organisation, fix="ask the issuer's operator")
            if code_sha256:
                _use_invite(db, code_sha256, organisation, now_us, by_name=back)
            else:
                _demand_few_wait(db)
            state = MemberState.ENROLLED if code_sha256 else MemberState.PENDING
            db.execute("INSERT OR REPLACE INTO members VALUES (?, ?, ?, ?)", (organisation, key, state.value, now_us))
            return Member(organisation, key, state, now_us)

    def approve(self, organisation: str, now_us: int) -> None:
        """Enrol one who waits. Raises: Refused, where nobody of this name does."""
        sql = "UPDATE members SET state = 'enrolled', at = ? WHERE organisation = ? AND state = 'pending'"
        with self._write() as db:
            if not changed(db, sql, now_us, organisation):
                raise Refused("does not wait to be enrolled", where=organisation)

    def revoke(self, organisation: str, now_us: int) -> None:
        """Give it no credential any more. Raises: Refused, where nobody of this name is enrolled or waits."""
        sql = "UPDATE members SET state = 'revoked', at = ? WHERE organisation = ? AND state != 'revoked'"
        with self._write() as db:
            if not changed(db, sql, now_us, organisation):
                raise Refused("is not enrolled", where=organisation)

    def members(self) -> list[Member]:
        return [_row(row) for row in self._read(f"{_MEMBERS} ORDER BY organisation")]

    # epochs

    def add_epoch(self, task: str, epoch: int, made: Epoch) -> Epoch:
        """Keep an epoch's keys; where it has some, those are given back, so that an epoch has one key for ever."""
        with self._write() as db:
            row = (task, epoch, made.keys, made.closes_at, made.private, made.opens_at)
            db.execute("INSERT OR IGNORE INTO epochs VALUES (?, ?, ?, ?, ?, ?)", row)
        found = self.epoch(task, epoch)
        assert found is not None, "it was stored just now"
        return found

    def epoch(self, task: str, epoch: int) -> Epoch | None:
        sql = "SELECT keys, closes_at, private, opens_at FROM epochs WHERE task = ? AND epoch = ?"
        for keys, closes_at, private, opens_at in self._read(sql, task, epoch):
            return Epoch(as_bytes(keys), as_int(closes_at), as_bytes(private), as_int(opens_at))
        return None

    def open_keys(self, now_us: int) -> list[bytes]:
        """The public files of the epochs that credentials are still given out for."""
        return [as_bytes(row[0]) for row in self._read("SELECT keys FROM epochs WHERE closes_at > ?", now_us)]

    def forget_closed(self, now_us: int) -> None:
        """Drop the private keys of epochs that are over: nobody can sign for them any more, whoever takes the file."""
        with self._write() as db:
            gone = changed(db, "UPDATE epochs SET private = X'' WHERE closes_at <= ? AND private != X''", now_us)
        if gone:
            self._scrub()

    # credentials

    def give(
        self, task: str, epoch: int, key: str, asked: bytes, answer: Callable[[], bytes], now_us: int, *, latest: int
    ) -> bytes:
        """The credential of the organisation with this key; `answer` makes it, once, and what it raises undoes all.

        Raises: Refused, for a key that is not enrolled, or was only after `latest`, and for other bytes than were
        answered before.
        """
        with self._write() as db:
            who = db.execute("SELECT organisation, state, at FROM members WHERE key = ?", (key,)).fetchone()
            if who is None or who[1] != MemberState.ENROLLED.value:
                told = "is not enrolled" if who is None or who[1] == MemberState.PENDING.value else "was revoked"
                raise Refused(told, where="organisation" if who is None else who[0], fix="ask the issuer's operator")
            if as_int(who[2]) > latest:
                told = "is not enrolled for long enough for this task"
                raise Refused(told, where=who[0], fix="report to the task for younger members")
            sql = "SELECT asked, answer FROM credentials WHERE task = ? AND epoch = ? AND organisation = ?"
            before = db.execute(sql, (task, epoch, who[0])).fetchone()
            if before is not None:
                if before[0] != asked:
                    told = "has its one credential, and asked for another"
                    raise Refused(told, where=who[0], fix="ask again with the bytes of the first request")
                return as_bytes(before[1])
            made = answer()
            db.execute("INSERT INTO credentials VALUES (?, ?, ?, ?, ?, ?)", (task, epoch, who[0], asked, made, now_us))
            return made

    def counts(self, task: str, epoch: int) -> tuple[int, int]:
        """How many credentials were given out, and how many organisations have or could have one."""
        sql = (
            "SELECT (SELECT count(*) FROM credentials WHERE task = ? AND epoch = ?), (SELECT count(*) FROM members"
            " WHERE state = 'enrolled' OR organisation IN"
            " (SELECT organisation FROM credentials WHERE task = ? AND epoch = ?))"
        )
        ((issued, could),) = self._read(sql, task, epoch, task, epoch)
        return as_int(issued), as_int(could)


def _member(db: sqlite3.Connection, organisation: str) -> Member | None:
    row = db.execute(f"{_MEMBERS} WHERE organisation = ?", (organisation,)).fetchone()
    return None if row is None else _row(row)


def _row(row: tuple[object, ...]) -> Member:
    organisation, key, state, at = row
    return Member(str(organisation), str(key), MemberState(state), as_int(at))


def _demand_few_wait(db: sqlite3.Connection) -> None:
    """Raises: Refused."""
    (waiting,) = db.execute("SELECT count(*) FROM members WHERE state = 'pending'").fetchone()
    if waiting >= WAIT_MOST:
        raise Refused("has as many waiting as it can hold", where="issuer", fix="ask its operator for an invite")


def _use_invite(db: sqlite3.Connection, code_sha256: str, organisation: str, now_us: int, *, by_name: bool) -> None:
    """Use an open invite up. Raises: Refused."""
    sql = (
        "UPDATE invites SET used_by = ? WHERE code = ? AND used_by = '' AND ends_at > ?"
        " AND (organisation = ? OR (organisation = '' AND NOT ?))"
    )
    if not changed(db, sql, organisation, code_sha256, now_us, organisation, by_name):
        raise Refused("does not hold: used, ended, or for another", where="invite", fix="ask for a new one")
