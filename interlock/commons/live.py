"""What a node holds: which packs are live, where each file lies in the node's home, and what happened last.

HOME/node.json            what was pinned at init: root digest, log policy, where the commons is
HOME/bootstrap.root.json  the pinned root
HOME/subscriptions.json   which packs in which rings, each with its monitor window and the version it stays at
HOME/live.json            the packs that are held, each verified: in force, watched, or before; replaced whole
HOME/grants.json          what the operator granted, and which rules stepped back
HOME/stepback.json        from when on rules step back, and what was proposed
HOME/status.json          the last update: when, and its trouble; sealed with status.key
HOME/store/DIGEST.json    the packs' bytes, named by their digest and hashed again at each load
HOME/proofs/              the log entry and proof of each pack that was ever in force, for `interlock receipts prove`
HOME/tuf/  HOME/log/      trusted metadata; the last checkpoint seen
HOME/newest.json          the place of the newest snapshot in the log
HOME/clock.json           the floor under the clock
HOME/operators.json       who runs what, as the commons said last
HOME/evidence/            what proves that a log showed two histories
HOME/events/              the event journal, where it is on
HOME/told/                what waits to be told to a monitor, where that was agreed to, and what it answered

What a node that reports keeps besides is node.roles' (consent.json, catalogs/, node.sqlite, member.json, member.key).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from interlock.base import files
from interlock.base.files import BadState, read_bounded, stamped, typed, unstamped
from interlock.base.text import is_sha256
from interlock.commons.withdrawn import SCOPES, Withdrawn, withdrawal

__all__ = [
    "GRANTS",
    "LIVE",
    "STATUS",
    "SUBSCRIPTIONS",
    "Key",
    "Live",
    "LiveRow",
    "Subscription",
    "dump_live",
    "parse_live",
    "read_live",
    "read_subscriptions",
    "store_file",
    "write_live",
    "write_subscriptions",
]

LIVE: Final = "live.json"
GRANTS: Final = "grants.json"
STATUS: Final = "status.json"
SUBSCRIPTIONS: Final = "subscriptions.json"
_FORMAT: Final = "interlock-live"
_SUBSCRIPTIONS: Final = "interlock-subscriptions"
_VERSION: Final = 2
_LIMIT: Final = 16 << 20  # bytes: what was taken back is kept for ever
_T = TypeVar("_T")
_SEEN: Final = {"pack": str, "ring": str, "version": int, "sha256": str}
_ROW: Final = {**_SEEN, "log_index": int, "tree_size": int, "at": int, "live_at": int}
_SUBSCRIPTION: Final = {"pack": str, "ring": str, "window_us": int, "pin": int}
_WITHDRAWN: Final = {"pack": str, "version": int, "rules": list, "scope": str, "why": str, "ring": str}


Key = tuple[str, str]  # (pack, ring)


@dataclass(frozen=True, slots=True)
class LiveRow:
    """One pack that was verified. `at` is when this node took it, `live_at` when its monitor window ends and it comes
    into force (microseconds; 0 for at once); `tree_size` is that of its proof's checkpoint."""

    pack: str
    ring: str
    version: int
    sha256: str
    log_index: int
    tree_size: int
    at: int
    live_at: int = 0

    @property
    def key(self) -> Key:
        return self.pack, self.ring

    @property
    def name(self) -> str:
        return f"{self.pack}@{self.ring}"


@dataclass(frozen=True)
class Live:
    """What a node holds of each subscription.

    `rows` are the versions that came last; one in its monitor window is watched until its `live_at`. `before` are those
    that were in force before them: in force still as long as the window lasts, and what a rollback returns to. `seen`
    are the highest versions that were ever offered, with their digests; nothing below them is taken again unasked.
    `withdrawn` is what was taken back.
    """

    rows: Mapping[Key, LiveRow] = field(default_factory=dict)
    before: Mapping[Key, LiveRow] = field(default_factory=dict)
    seen: Mapping[Key, tuple[int, str]] = field(default_factory=dict)
    withdrawn: tuple[Withdrawn, ...] = ()

    def in_force(self, now_us: int) -> dict[Key, LiveRow]:
        """What each subscription goes by at a time."""
        found = {key: row if self._began(row, now_us) else self.before.get(key) for key, row in self.rows.items()}
        return {key: row for key, row in found.items() if row is not None}

    def held_back(self, row: LiveRow) -> Withdrawn | None:
        """What takes a version back that was only watched by then, and never comes into force for that."""
        return withdrawal(self.withdrawn, row.pack, row.version, row.ring) if row.live_at else None

    def _began(self, row: LiveRow, now_us: int) -> bool:
        return row.live_at <= now_us and self.held_back(row) is None

    def watched(self, now_us: int) -> dict[Key, LiveRow]:
        """What is in its monitor window at a time."""
        return {key: row for key, row in self.rows.items() if row.live_at > now_us}

    def with_rows(self, rows: Iterable[LiveRow]) -> Live:
        """With what was just taken; what had come into force by then is what was before."""
        now, before = dict(self.rows), dict(self.before)
        for row in rows:
            last, back = now.get(row.key), before.get(row.key)
            if back is not None and back.version == row.version:
                del before[row.key]
            elif last is not None and last.version != row.version and self._began(last, row.at):
                before[row.key] = dataclasses.replace(last, live_at=0)
            now[row.key] = row
        return dataclasses.replace(self, rows=now, before=before)

    def with_seen(self, key: Key, newest: tuple[int, str]) -> Live:
        """With the newest version that a ring was seen to have."""
        return self if self.seen.get(key) == newest else dataclasses.replace(self, seen={**self.seen, key: newest})

    def settled(self, now_us: int) -> Live:
        """With the windows that are over taken out, so that no clock that is set back begins them again."""
        rows = {k: dataclasses.replace(r, live_at=0) if self._began(r, now_us) else r for k, r in self.rows.items()}
        return dataclasses.replace(self, rows=rows)

    def returned(self, key: Key) -> Live:
        """Back to what was in force before. Raises: KeyError, where there is nothing."""
        before = dict(self.before)
        row = dataclasses.replace(before.pop(key), live_at=0)
        return dataclasses.replace(self, rows={**self.rows, key: row}, before=before)

    def without(self, key: Key) -> Live:
        """Without a subscription; what was seen of it stays known."""
        rows, before = ({k: row for k, row in held.items() if k != key} for held in (self.rows, self.before))
        return dataclasses.replace(self, rows=rows, before=before)

    @property
    def digests(self) -> set[str]:
        """What the store has to hold."""
        return {row.sha256 for held in (self.rows, self.before) for row in held.values()}


@dataclass(frozen=True, slots=True)
class Subscription:
    """A pack that is followed in a ring; `window_us` is how long a new version is watched before it is in force, `pin`
    the version that it stays at (0: the newest)."""

    pack: str
    ring: str
    window_us: int = 0
    pin: int = 0

    @property
    def key(self) -> Key:
        return self.pack, self.ring

    @property
    def name(self) -> str:
        return f"{self.pack}@{self.ring}"


def dump_live(live: Live) -> bytes:
    """The bytes of a live file. The inverse of `parse_live`."""
    body: dict[str, object] = {
        "packs": [asdict(row) for row in live.rows.values()],
        "before": [asdict(row) for row in live.before.values()],
        "seen": [
            {"pack": pack, "ring": ring, "version": version, "sha256": sha256}
            for (pack, ring), (version, sha256) in live.seen.items()
        ],
        "withdrawn": [asdict(row) for row in live.withdrawn],
    }
    return stamped(_FORMAT, _VERSION, body)


def parse_live(data: bytes, *, where: str) -> Live:
    """Read a live file. Raises: BadState, NewerFormat."""
    body = unstamped(data, _FORMAT, _VERSION, where=where)
    rows, before = (_rows(body, key, _row, where) for key in ("packs", "before"))
    seen, withdrawn = _rows(body, "seen", _seen, where), _rows(body, "withdrawn", _withdrawn, where)
    return Live({r.key: r for r in rows}, {r.key: r for r in before}, dict(seen), tuple(withdrawn))


def read_live(home: Path) -> Live:
    """What a node holds; nothing where nothing was taken yet. Raises: BadState, NewerFormat."""
    path = home / LIVE
    return parse_live(read_bounded(path, _LIMIT), where=str(path)) if path.exists() else Live()


def write_live(home: Path, live: Live) -> None:
    """Put packs in force, all at once. Raises: BadState, for more than would be read again; NotWritable."""
    data = dump_live(live)
    if len(data) > _LIMIT:
        told = f"would be larger than {_LIMIT} bytes, and stays as it is"
        raise BadState(told, where=str(home / LIVE), fix="tell the commons, which takes more back than a node can hold")
    files.replace(home / LIVE, data)


def store_file(home: Path, sha256: str) -> Path:
    return home / "store" / f"{sha256}.json"


def read_subscriptions(home: Path) -> tuple[Subscription, ...]:
    """What a node follows. Raises: BadState, NewerFormat."""
    path = home / SUBSCRIPTIONS
    if not path.exists():
        return ()
    body = unstamped(read_bounded(path, _LIMIT), _SUBSCRIPTIONS, _VERSION, where=str(path))
    return tuple(_rows(body, "packs", _subscription, str(path)))


def write_subscriptions(home: Path, rows: Iterable[Subscription]) -> None:
    """Raises: NotWritable."""
    files.replace(home / SUBSCRIPTIONS, stamped(_SUBSCRIPTIONS, _VERSION, {"packs": [asdict(row) for row in rows]}))


def _rows(body: Mapping[str, object], key: str, read: Callable[[object, str], _T], where: str) -> list[_T]:
    """The rows of one list; version 1 had the packs alone."""
    rows = body.get(key, [] if body["v"] == 1 else None)
    if not isinstance(rows, list):
        raise BadState(f"has no list of {key}", where=where)
    return [read(row, where) for row in rows]


def _row(row: object, where: str) -> LiveRow:
    return LiveRow(**_digested({"live_at": 0, **row} if isinstance(row, dict) else row, _ROW, where))


def _seen(row: object, where: str) -> tuple[Key, tuple[int, str]]:
    values = _digested(row, _SEEN, where)
    return (values["pack"], values["ring"]), (values["version"], values["sha256"])


def _subscription(row: object, where: str) -> Subscription:
    if isinstance(row, list) and len(row) == 2:  # as version 1 wrote it
        row = {"pack": row[0], "ring": row[1], "window_us": 0, "pin": 0}
    return Subscription(**typed(row, _SUBSCRIPTION, where=where))


def _withdrawn(row: object, where: str) -> Withdrawn:
    values = typed(row, _WITHDRAWN, where=where)
    if not all(isinstance(rule, str) for rule in values["rules"]) or values["scope"] not in SCOPES:
        raise BadState("has a withdrawal with a value of the wrong type", where=where)
    return Withdrawn(**{**values, "rules": tuple(values["rules"])})


def _digested(row: object, fields: Mapping[str, type], where: str) -> dict[str, Any]:
    values = typed(row, fields, where=where)
    if not is_sha256(values["sha256"]):
        raise BadState("has a row whose sha256 is none", where=where)
    return values
