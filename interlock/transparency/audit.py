"""Reading a whole log: its tree made again from its entries, and held against every tile and root that it shows.

    audit(fetcher, policy)       a log as it is served: checkpoint, every bundle, every tile
    audit_directory(root, ...)   a log's own folder: besides, its journal, and the tree that it signed last

The first thing that does not fit is told with its place; memory is one bundle and the tree's right edge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from interlock.base.codec import Malformed
from interlock.base.fetch import DirectoryFetcher, Fetcher, NotFound
from interlock.base.files import BadState, read_bounded
from interlock.transparency.checkpoint import Checkpoint
from interlock.transparency.follow import tile_loader
from interlock.transparency.merkle import BadProof, leaf_hash
from interlock.transparency.note import MAX_NOTE, parse_note
from interlock.transparency.policy import Checked, TlogPolicy
from interlock.transparency.storage import PUBLIC, SIGNED, journal_of
from interlock.transparency.tiles import CHECKPOINT, ENTRIES, WIDTH, Tile, TileBuilder, decode_bundle, tiles_of

__all__ = ["Audited", "audit", "audit_directory"]

T = TypeVar("T")
Progress = Callable[[int], object]  # is told how many entries were read
_FIX: Final = "restore it from a backup or another mirror, and find out what changed it"


@dataclass(frozen=True)
class Audited:
    """What was found whole: the published checkpoint, the bundles and tiles of hashes, the journal's entries.

    `journal` is None where there was none to read.
    """

    checked: Checked
    bundles: int
    tiles: int
    journal: int | None = None


def audit(fetcher: Fetcher, policy: TlogPolicy, told: Progress = lambda _: None) -> Audited:
    """Read a log as it is served.

    Raises: BadProof, Malformed, NotFound, which name the first bad place; UnknownLog, BadSignature, NoQuorum for the
    checkpoint; Unreachable.
    """
    checked = policy.check(fetcher.fetch(CHECKPOINT, max_length=MAX_NOTE))
    tree = _Tree(fetcher)
    for entry in _entries(fetcher, checked.checkpoint.size, told):
        tree.add(entry)
    return Audited(checked, *tree.finished(checked.checkpoint))


def audit_directory(root: Path, policy: TlogPolicy, told: Progress = lambda _: None) -> Audited:
    """Read a log's own folder, also while its writer is at work. Raises: as `audit`, and BadState."""
    fetcher = DirectoryFetcher(root / PUBLIC)
    checked = policy.check(fetcher.fetch(CHECKPOINT, max_length=MAX_NOTE))
    signed = policy.opened(parse_note(read_bounded(root / SIGNED, MAX_NOTE))).checkpoint
    journal = journal_of(root)  # each of the three may have grown since the one before was read
    if checked.checkpoint.size > signed.size:
        raise BadState("is of a smaller tree than the one that was published", where=str(root / SIGNED), fix=_FIX)
    tree = _Tree(fetcher)
    for index, entry in enumerate(_entries(fetcher, checked.checkpoint.size, told)):
        if next(journal, None) != entry:
            raise BadState(f"journal's entry {index} is not the one that was published", where=str(root), fix=_FIX)
        tree.add(entry)
    found = tree.finished(checked.checkpoint)
    beyond = tree.grown(signed, journal)
    return Audited(checked, *found, journal=checked.checkpoint.size + beyond)


def _entries(fetcher: Fetcher, size: int, told: Progress) -> Iterator[bytes]:
    """Every entry of a log, in order. Raises: Malformed, NotFound, Unreachable."""
    load = tile_loader(fetcher)
    for tile in tiles_of(size):
        if tile.level != ENTRIES:
            return
        yield from _at(tile, partial(_bundle, load, tile))
        told(min(size, (tile.index + 1) * WIDTH))


def _bundle(load: Callable[[Tile], bytes], tile: Tile) -> tuple[bytes, ...]:
    return decode_bundle(load(tile), tile.width)


class _Tree:
    """A tree that is made again; each tile that becomes full in it is held against the one that is served."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._load = tile_loader(fetcher)
        self._builder = TileBuilder()
        self._tiles = 0

    def add(self, entry: bytes) -> None:
        """Raises: BadProof, NotFound, Malformed, Unreachable."""
        for tile, data in self._builder.add(leaf_hash(entry)):
            self._demand(tile, data)

    def finished(self, checkpoint: Checkpoint) -> tuple[int, int]:
        """Demand the unfinished tiles and the root; returns how many bundles and tiles there are. Raises: as `add`."""
        for tile, data in self._builder.partial():
            self._demand(tile, data)
        if self._builder.root() != checkpoint.root:
            raise BadProof("is not the root of the log's entries", where=CHECKPOINT, fix=_FIX)
        return -(-checkpoint.size // WIDTH), self._tiles

    def grown(self, signed: Checkpoint, more: Iterable[bytes]) -> int:
        """Go on with what a journal has beyond the published tree; returns how many. Raises: BadState."""
        count = 0
        self._demand_signed(signed)
        for entry in more:
            self._builder.add(leaf_hash(entry))
            count += 1
            self._demand_signed(signed)
        if self._builder.size < signed.size:
            raise BadState(f"journal ends before the signed tree of {signed.size} entries", where=SIGNED, fix=_FIX)
        return count

    def _demand_signed(self, signed: Checkpoint) -> None:
        if self._builder.size == signed.size and self._builder.root() != signed.root:
            raise BadState("is not the tree of the journal's entries", where=SIGNED, fix=_FIX)

    def _demand(self, tile: Tile, data: bytes) -> None:
        self._tiles += 1
        if _at(tile, partial(self._load, tile)) != data:
            raise BadProof("is not the tile of the log's entries", where=tile.path, fix=_FIX)


def _at(tile: Tile, read: Callable[[], T]) -> T:
    """What `read` brings; what is wrong with it is told with the tile's place. Raises: Malformed, NotFound."""
    try:
        return read()
    except (Malformed, NotFound) as e:
        raise type(e)(e.what, where=tile.path, fix=_FIX) from None
