"""One organisation, one report: the places that its other nodes saw are brought into the node that reports.

A node that reports names the others in `[report] nodes`: homes on this machine, or tally files that `interlock mesh
tally` wrote on theirs and that were carried here. A place is seen where any node saw it (OR); how many did is not
kept, and a place is brought in as often as one likes. What cannot be read, or was written before the epoch ended,
holds the report back: it would say less than the organisation saw, and an epoch is reported once. A tally says what its
node saw, and is private to its owner.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.base.files import BadState, read_private, stamped, unstamped
from interlock.node.roles.observe import KeptCatalog, kept_catalogs
from interlock.node.storage.node import STORE_FILE, NodeStore, open_store

__all__ = ["Gathered", "NotGathered", "dump_tally", "gather", "parse_tally"]

_FORMAT: Final = "interlock-tally"
_LIMIT: Final = 16 << 20
_EPOCHS_MOST: Final = 1000
_DIGITS: Final = 16  # of an epoch's start in microseconds


class NotGathered(BadState):
    """A node's places that are not all here yet."""


@dataclass(frozen=True)
class Gathered:
    """What one node saw, by the starts of the epochs; complete up to `at` (microseconds)."""

    at: int
    epochs: Mapping[int, frozenset[int]]


def dump_tally(kept: KeptCatalog, epochs: Mapping[int, frozenset[int]], at: int) -> bytes:
    """A node's places as a file to carry to the node that reports. The inverse of `parse_tally`."""
    body: dict[str, object] = {
        "task": kept.catalog.task,
        "catalog": kept.catalog.digest,
        "at": at,
        "epochs": {str(start): sorted(places) for start, places in sorted(epochs.items())},
    }
    return stamped(_FORMAT, 1, body)


def parse_tally(data: bytes, kept: KeptCatalog, *, where: str) -> Gathered:
    """Read a tally of this very catalog. Raises: BadState, NewerFormat."""
    body = unstamped(data, _FORMAT, 1, where=where)
    if (body.get("task"), body.get("catalog")) != (kept.catalog.task, kept.catalog.digest):
        raise BadState("is the tally of another catalog", where=where, fix="consent to the same one on each node")
    rows, at = body.get("epochs"), body.get("at")
    if not isinstance(rows, dict) or len(rows) > _EPOCHS_MOST or type(at) is not int:
        raise BadState("is damaged", where=where, fix="write it again with interlock mesh tally")
    return Gathered(at, {_start(text, kept, where): _places(row, kept, where) for text, row in rows.items()})


def gather(store: NodeStore, home: Path, task: str, nodes: Sequence[Path], epochs: Sequence[int], now_us: int) -> int:
    """Bring the places of other nodes into this one's epochs; returns how many are new here.

    Raises: NotGathered, BadState, NewerFormat, NotWritable.
    """
    kept = kept_catalogs(home).get(task)
    if kept is None or not epochs:
        return 0
    fresh = 0
    for node in nodes:
        found = _of_home(node, kept, now_us) if node.is_dir() else parse_tally(_read(node), kept, where=str(node))
        for start in epochs:
            if found.at < min(start + kept.epoch_us, now_us):
                told = "was written before the epoch ended"
                raise NotGathered(told, where=str(node), fix="write it again with interlock mesh tally")
            names = kept.named(found.epochs.get(start, ()))
            fresh += store.add_bits(task, kept.catalog.digest, (start, start + kept.epoch_us), names)
    return fresh


def _of_home(home: Path, kept: KeptCatalog, now_us: int) -> Gathered:
    """Another home on this machine. One without a store has seen nothing yet, if it is a node of this catalog."""
    theirs = kept_catalogs(home).get(kept.catalog.task)
    if theirs is None or theirs.catalog.digest != kept.catalog.digest:
        raise NotGathered("does not count by this catalog", where=str(home), fix="consent to it there")
    if not (home / STORE_FILE).exists():
        return Gathered(now_us, {})
    with contextlib.closing(open_store(home)) as store:
        return Gathered(now_us, store.places_by_epoch(kept.catalog.task, kept.catalog.digest))


def _read(path: Path) -> bytes:
    if not path.exists():
        raise NotGathered("is not there", where=str(path), fix="write it with interlock mesh tally")
    return read_private(path, _LIMIT)


def _start(text: object, kept: KeptCatalog, where: str) -> int:
    if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= _DIGITS:
        start = int(text)
        if str(start) == text and start % kept.epoch_us == 0:  # in one spelling, so that none hides another
            return start
    raise BadState("names no epoch of the task", where=where)


def _places(row: object, kept: KeptCatalog, where: str) -> frozenset[int]:
    most = len(kept.catalog.places)
    if not isinstance(row, list) or not all(type(p) is int and 0 <= p < most for p in row):
        raise BadState("names a place that the catalog has not", where=where)
    return frozenset(row)
