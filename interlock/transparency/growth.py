"""The right edge of a growing log, in memory: what is unfinished, and what became full and is not on disk yet.

    growth = Growth.of(base, load)     the tree of the first `base` entries, from its full tiles alone
    growth.take(leaf, entry)           one more
    growth.full, growth.edge()         the tiles and bundles to write for the present size

Nothing here is trusted: whoever starts from tiles compares `root()` with the one that was signed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from interlock.transparency.merkle import HASH_SIZE
from interlock.transparency.tiles import (
    ENTRIES,
    WIDTH,
    Tile,
    TileBuilder,
    decode_bundle,
    encode_bundle,
    tile_root,
    unfinished_of,
)

__all__ = ["Growth", "cut_to"]


class Growth:
    """A tree that grows; `full` holds what became full, until `written` says that it is on disk."""

    def __init__(self, builder: TileBuilder) -> None:
        self._builder = builder
        self._tail = bytearray()  # the unfinished bundle
        self.full: dict[Tile, bytes] = {}

    @classmethod
    def of(cls, base: int, load: Callable[[Tile], bytes]) -> Growth:
        """The tree of `base` entries, a multiple of WIDTH; of its tiles only full ones are loaded.

        An unfinished tile is not read: each of its hashes is the root of a full tile below it.
        Raises: ValueError, for another base; whatever `load` raises; Malformed, for a tile of the wrong length.
        """
        if base % WIDTH:
            raise ValueError("a tree starts from full tiles")

        def unfinished(tile: Tile) -> bytes:
            first = tile.index * WIDTH
            return b"".join(tile_root(load(Tile(tile.level - 1, i))) for i in range(first, first + tile.width))

        return cls(TileBuilder.at(base, unfinished))

    @property
    def size(self) -> int:
        return self._builder.size

    def root(self) -> bytes:
        return self._builder.root()

    def take(self, leaf: bytes, entry: bytes) -> None:
        """One more entry, with its leaf hash."""
        index = self.size
        self.full.update(self._builder.add(leaf))
        self._tail += encode_bundle([entry])
        if (index + 1) % WIDTH == 0:
            self.full[Tile(ENTRIES, index // WIDTH)] = bytes(self._tail)
            self._tail.clear()

    def edge(self) -> dict[Tile, bytes]:
        """The unfinished tiles and the unfinished bundle of the present size."""
        found = dict(self._builder.partial())
        if self._tail:
            found[Tile(ENTRIES, self.size // WIDTH, self.size % WIDTH)] = bytes(self._tail)
        return found

    def written(self, tiles: Iterable[Tile]) -> None:
        """These are on disk."""
        for tile in tiles:
            self.full.pop(tile, None)


def cut_to(size: int, larger: int, load: Callable[[Tile], bytes]) -> dict[Tile, bytes]:
    """The unfinished tiles and bundle of a tree of `size` entries, out of the tiles of a larger one.

    Raises: whatever `load` raises; Malformed, for a bundle of the wrong form.
    """
    found: dict[Tile, bytes] = {}
    for tile in unfinished_of(size):
        whole = tile.within(larger)
        if tile.level == ENTRIES:
            found[tile] = encode_bundle(decode_bundle(load(whole), whole.width)[: tile.width])
        else:
            found[tile] = load(whole)[: tile.width * HASH_SIZE]
    return found
