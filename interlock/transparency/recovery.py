"""A log's start: the tree in memory, from full tiles and the journal, as far as the signed and published trees allow.

    no tree was signed              the journal from its first entry on
    a tree of S entries was signed  full tiles up to the last multiple of 256 below S, the journal from there on;
                                    at S, and at the size that was published, it must have the root that was signed

A torn record at the journal's end is cut off, for nothing of it was acknowledged; anything else that is wrong is
refused and left as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from interlock.base.codec import Malformed
from interlock.base.files import BadState
from interlock.transparency.checkpoint import Checkpoint
from interlock.transparency.growth import Growth, cut_to
from interlock.transparency.merkle import leaf_hash, tree_root
from interlock.transparency.storage import PUBLIC, LogStorage
from interlock.transparency.tiles import WIDTH, Tile, TileReader, tiles_of

__all__ = ["RESTORE", "recovered"]

RESTORE: Final = "restore it from a backup or a mirror of this log"
_SECOND: Final = "the log must not sign a second history"


def recovered(
    storage: LogStorage, load: Callable[[Tile], bytes], signed: Checkpoint | None, published: Checkpoint | None
) -> Growth:
    """The tree over all that the journal holds; `load` brings tiles. Raises: BadState, NotWritable."""
    size = 0 if signed is None else signed.size
    if published is not None and published.size > size:
        raise BadState(
            f"this log has published a tree of {published.size} entries and signed one of {size}",
            fix=f"restore it from a newer backup; {_SECOND}",
        )
    base = size - size % WIDTH
    try:
        growth = Growth.of(base, load)
        _replay(storage, growth, load, [c for c in (signed, published) if c is not None])
        if published is not None:
            _show(storage, growth, load, published)
    except Malformed as e:
        raise BadState(f"a tile of the signed tree is damaged ({e.what})", fix=RESTORE) from None
    storage.sweep(tiles_of(growth.size, since=base))
    return growth


def _replay(storage: LogStorage, growth: Growth, load: Callable[[Tile], bytes], roots: list[Checkpoint]) -> None:
    """Take in the journal from the tree's end on, and demand each root on the way. Raises: BadState."""
    base, edge = growth.size, growth.edge()
    read = TileReader(base, lambda tile: edge.get(tile) or load(tile))

    def demand() -> None:
        if any(c.size == growth.size and c.root != growth.root() for c in roots):
            raise BadState(
                f"journal does not lead to the tree of {growth.size} entries that this log signed", fix=RESTORE
            )

    def visit(index: int, entry: bytes) -> None:
        leaf = leaf_hash(entry)
        if index >= base:
            growth.take(leaf, entry)
            demand()
        elif read([(0, index)]) != [leaf]:
            raise BadState(f"journal's entry {index} is not the one that this log signed", fix=RESTORE)

    if any(c.size < base and c.root != tree_root(c.size, read) for c in roots):
        raise BadState("tiles do not lead to the tree that this log published", fix=RESTORE)
    demand()
    torn = storage.scan(base, visit)
    most = max((c.size for c in roots), default=0)
    if growth.size < most:
        raise BadState(
            f"journal ends after {growth.size} whole entries, and this log has signed a tree of {most}",
            fix=f"restore the journal from a backup; {_SECOND}",
        )
    if torn:
        storage.cut()


def _show(storage: LogStorage, growth: Growth, load: Callable[[Tile], bytes], published: Checkpoint) -> None:
    """Write the published tree's unfinished tiles again, which a power cut may have taken."""
    fresh = {**growth.full, **growth.edge()}
    cut = cut_to(published.size, growth.size, lambda tile: fresh.get(tile) or load(tile))
    storage.put([(f"{PUBLIC}/{tile.path}", data) for tile, data in cut.items()])
