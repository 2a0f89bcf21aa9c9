"""What a node holds: which packs are live, where each file lies in the node's home, and what happened last.

HOME/node.json            what was pinned at init: root digest, log policy, where the commons is
HOME/bootstrap.root.json  the pinned root
HOME/subscriptions.json   which packs in which rings
HOME/live.json            the packs that are in force, each verified; replaced whole or not at all
HOME/grants.json          what the operator granted
HOME/status.json          the last update: when, and its trouble
HOME/store/DIGEST.json    the packs' bytes, named by their digest and hashed again at each load
HOME/proofs/              the log entry and proof of each pack that was ever in force, for `interlock receipts prove`
HOME/tuf/  HOME/log/      trusted metadata; the last checkpoint seen
HOME/evidence/            what proves that a log showed two histories
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from interlock.base.files import BadState, read_bounded, replace, stamped, unstamped
from interlock.base.text import is_sha256

__all__ = [
    "GRANTS",
    "LIVE",
    "STATUS",
    "SUBSCRIPTIONS",
    "Live",
    "LiveRow",
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
_LIMIT: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class LiveRow:
    """One pack in force. `at` is when it went live, in microseconds; `tree_size` that of its proof's checkpoint."""

    pack: str
    ring: str
    version: int
    sha256: str
    log_index: int
    tree_size: int
    at: int


@dataclass(frozen=True)
class Live:
    """All packs in force, by (pack, ring)."""

    rows: Mapping[tuple[str, str], LiveRow] = field(default_factory=dict)

    def with_rows(self, rows: Iterable[LiveRow]) -> Live:
        return Live({**self.rows, **{(r.pack, r.ring): r for r in rows}})


def dump_live(live: Live) -> bytes:
    """The bytes of a live file. The inverse of `parse_live`."""
    return stamped(_FORMAT, 1, {"packs": [asdict(row) for row in live.rows.values()]})


def parse_live(data: bytes, *, where: str) -> Live:
    """Read a live file. Raises: BadState, NewerFormat."""
    body = unstamped(data, _FORMAT, 1, where=where)
    rows = body.get("packs")
    if not isinstance(rows, list):
        raise BadState("has no list of packs", where=where)
    return Live().with_rows(_row(row, where) for row in rows)


def read_live(home: Path) -> Live:
    """The packs in force; none where nothing went live yet. Raises: BadState, NewerFormat."""
    path = home / LIVE
    return parse_live(read_bounded(path, _LIMIT), where=str(path)) if path.exists() else Live()


def write_live(home: Path, live: Live) -> None:
    """Put packs in force, all at once. Raises: NotWritable."""
    replace(home / LIVE, dump_live(live))


def store_file(home: Path, sha256: str) -> Path:
    return home / "store" / f"{sha256}.json"


def read_subscriptions(home: Path) -> tuple[tuple[str, str], ...]:
    """The (pack, ring) pairs that a node follows. Raises: BadState, NewerFormat."""
    path = home / SUBSCRIPTIONS
    if not path.exists():
        return ()
    body = unstamped(read_bounded(path, _LIMIT), _SUBSCRIPTIONS, 1, where=str(path))
    rows = body.get("packs")
    if not isinstance(rows, list) or not all(_is_pair(row) for row in rows):
        raise BadState("has no list of [pack, ring] pairs", where=str(path))
    return tuple((row[0], row[1]) for row in rows)


def write_subscriptions(home: Path, pairs: Iterable[tuple[str, str]]) -> None:
    """Raises: NotWritable."""
    replace(home / SUBSCRIPTIONS, stamped(_SUBSCRIPTIONS, 1, {"packs": [list(p) for p in pairs]}))


def _is_pair(row: object) -> bool:
    return isinstance(row, list) and len(row) == 2 and all(isinstance(x, str) for x in row)


def _row(row: object, where: str) -> LiveRow:
    texts, numbers = ("pack", "ring", "sha256"), ("version", "log_index", "tree_size", "at")
    if not isinstance(row, dict) or set(row) != {*texts, *numbers}:
        raise BadState("has a pack with other fields than it should", where=where)
    good = all(isinstance(row[k], str) for k in texts) and all(type(row[k]) is int for k in numbers)
    if not good or not is_sha256(row["sha256"]):
        raise BadState("has a pack with a value of the wrong type", where=where)
    return LiveRow(**row)
