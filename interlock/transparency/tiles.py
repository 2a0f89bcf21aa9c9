"""A tree and its entries as static files (C2SP tlog-tiles v0.1.0).

    checkpoint                         the signed tree head
    tile/L/N[.p/W]                     up to 256 hashes of level 8 * L; W of them where the tile is partial
    tile/entries/N[.p/W]               the entries behind the level-0 tile N, each with a 16-bit length before it

N is written in groups of three digits, each but the last with an x: 1234067 is x001/x234/067. For a tree of 70,000
entries, level 0 has 273 full tiles and one of width 112, level 1 one full and one of 17, level 2 one of width 1.

    TileReader(size, load)       hashes of any subtree, for merkle.prove_*; checks nothing but lengths
    TileBuilder()                add leaf hashes; `root` and the tiles that a new size needs
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from interlock.base.codec import Malformed, Reader
from interlock.transparency.merkle import (
    HASH_SIZE,
    MAX_SIZE,
    Node,
    node_hash,
    tree_root,
)

__all__ = [
    "CHECKPOINT",
    "ENTRIES",
    "HEIGHT",
    "MAX_ENTRY_SIZE",
    "WIDTH",
    "Tile",
    "TileBuilder",
    "TileReader",
    "decode_bundle",
    "decode_tile",
    "encode_bundle",
    "parse_path",
    "tile_root",
    "tiles_of",
    "unfinished_of",
]

CHECKPOINT: Final = "checkpoint"
HEIGHT: Final = 8
WIDTH: Final = 1 << HEIGHT
ENTRIES: Final = -1  # the level under which entry bundles are filed
MAX_LEVEL: Final = 63 // HEIGHT  # no tree of MAX_SIZE entries is higher
MAX_ENTRY_SIZE: Final = 0xFFFF  # bytes
_PATH: Final = re.compile(r"tile/(entries|0|[1-9][0-9]?)/((?:x[0-9]{3}/)*[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?", re.ASCII)


@dataclass(frozen=True, order=True)
class Tile:
    """One tile of hashes, or with level ENTRIES one bundle of entries; `width` is WIDTH where it is full."""

    level: int
    index: int
    width: int = WIDTH

    @property
    def path(self) -> str:
        """Where it is served, below the log's prefix. The inverse of `parse_path`."""
        level = "entries" if self.level == ENTRIES else str(self.level)
        partial = "" if self.width == WIDTH else f".p/{self.width}"
        return f"tile/{level}/{_digits(self.index)}{partial}"

    @property
    def full(self) -> Tile:
        return Tile(self.level, self.index)

    def within(self, size: int) -> Tile:
        """As wide as a tree of `size` entries has it."""
        there = (size >> (HEIGHT * max(self.level, 0))) - self.index * WIDTH
        return Tile(self.level, self.index, min(WIDTH, there))

    @property
    def limit(self) -> int:
        """The most bytes that it can have."""
        return self.width * (MAX_ENTRY_SIZE + 2 if self.level == ENTRIES else HASH_SIZE)


def parse_path(path: str) -> Tile:
    """Read a tile's path, in its one spelling. Raises: Malformed."""
    found = _PATH.fullmatch(path)
    if found is None or len(path) > 100:
        raise Malformed("is not the path of a tile")
    level, index, width = found.groups()
    tile = Tile(
        ENTRIES if level == "entries" else int(level),
        int(index.replace("/", "").replace("x", "")),
        WIDTH if width is None else int(width),
    )
    if tile.path != path or tile.level > MAX_LEVEL or tile.index > MAX_SIZE or (width and tile.width >= WIDTH):
        raise Malformed("is not the path of a tile")
    return tile


def tiles_of(size: int, *, entries: bool = True, since: int = 0) -> Iterator[Tile]:
    """Every tile (and bundle) of a tree of `size` entries that one of `since` entries has not, from the leaves up."""
    for level in range(ENTRIES if entries else 0, MAX_LEVEL + 1):
        shift = HEIGHT * max(level, 0)
        count, before = size >> shift, since >> shift
        if count == 0 and level >= 0:
            return
        for index in range(before // WIDTH, count // WIDTH):
            yield Tile(level, index)
        if count % WIDTH and count != before:
            yield Tile(level, count // WIDTH, count % WIDTH)


def unfinished_of(size: int) -> Iterator[Tile]:
    """The tiles (and the bundle) of a tree of `size` entries that are not full, from the leaves up."""
    for level in range(ENTRIES, MAX_LEVEL + 1):
        index, width = divmod(size >> (HEIGHT * max(level, 0)), WIDTH)
        if width:
            yield Tile(level, index, width)


def tile_root(data: bytes) -> bytes:
    """The hash that a full tile stands for in the tile above it. Raises: Malformed."""
    return _perfect(decode_tile(data, WIDTH))


def encode_bundle(entries: Sequence[bytes]) -> bytes:
    """An entry bundle. The inverse of `decode_bundle`."""
    return b"".join(part for entry in entries for part in (len(entry).to_bytes(2, "big"), entry))


def decode_bundle(data: bytes, width: int) -> tuple[bytes, ...]:
    """The entries of a bundle, of which there must be `width`. Raises: Malformed."""
    reader = Reader(data, "entry bundle")
    entries = tuple(reader.opaque16() for _ in range(width))
    reader.finish()
    return entries


def decode_tile(data: bytes, width: int) -> tuple[bytes, ...]:
    """The hashes of a tile, of which there must be `width`. Raises: Malformed."""
    if len(data) != width * HASH_SIZE:
        raise Malformed(f"tile has {len(data)} bytes where {width} hashes belong")
    return tuple(data[i : i + HASH_SIZE] for i in range(0, len(data), HASH_SIZE))


class TileReader:
    """Reads hashes of whole subtrees out of the tiles of one tree size; a merkle.ReadNodes.

    `load` brings the bytes of a tile. Nothing is authenticated here: a proof made of these hashes is.
    """

    def __init__(self, size: int, load: Callable[[Tile], bytes]) -> None:
        self._size = size
        self._load = load
        self._known: dict[tuple[int, int], list[Sequence[bytes]]] = {}  # of each tile the rows of hashes, from below

    @property
    def tiles(self) -> int:
        """How many tiles it holds in memory."""
        return len(self._known)

    def __call__(self, nodes: Sequence[Node]) -> list[bytes]:
        """Raises: Malformed, for a tile of the wrong length; whatever `load` raises."""
        return [self._node(level, index) for level, index in nodes]

    def _node(self, level: int, index: int) -> bytes:
        if (index + 1) << level > self._size:
            raise AssertionError(f"node {level}/{index} lies outside a tree of {self._size} entries")
        tile_level, rise = divmod(level, HEIGHT)
        tile_index, place = divmod(index, WIDTH >> rise)
        rows = self._known.get((tile_level, tile_index)) or self._tile(tile_level, tile_index)
        while len(rows) <= rise:
            rows.append(_paired(rows[-1]))
        return rows[rise][place]

    def _tile(self, level: int, index: int) -> list[Sequence[bytes]]:
        tile = Tile(level, index).within(self._size)
        rows: list[Sequence[bytes]] = [decode_tile(self._load(tile), tile.width)]
        self._known[level, index] = rows
        return rows


class TileBuilder:
    """The right edge of a growing tree: in memory there is one unfinished tile a level, and no more."""

    def __init__(self) -> None:
        self.size = 0
        self._edge: list[list[bytes]] = [[]]

    @classmethod
    def at(cls, size: int, load: Callable[[Tile], bytes]) -> TileBuilder:
        """The builder of a tree that stands already; `load` brings its unfinished tiles.

        Nothing but lengths is checked: compare `root` with the one that was signed. Raises: Malformed; of `load`, its.
        """
        builder = cls()
        builder.size, builder._edge = size, []
        while not builder._edge or size >> (HEIGHT * len(builder._edge)):
            level = len(builder._edge)
            index, width = divmod(size >> (HEIGHT * level), WIDTH)
            builder._edge.append(list(decode_tile(load(Tile(level, index, width)), width)) if width else [])
        return builder

    def add(self, leaf: bytes) -> list[tuple[Tile, bytes]]:
        """Add a leaf hash; returns the tiles that became full with it."""
        done: list[tuple[Tile, bytes]] = []
        self.size += 1
        carry: bytes | None = leaf
        for level in range(MAX_LEVEL + 1):
            if carry is None:
                break
            if level == len(self._edge):
                self._edge.append([])
            self._edge[level].append(carry)
            carry = self._finish(level, done)
        return done

    def partial(self) -> list[tuple[Tile, bytes]]:
        """The unfinished tiles of the present size."""
        return [
            (Tile(level, self._index(level), len(hashes)), b"".join(hashes))
            for level, hashes in enumerate(self._edge)
            if hashes
        ]

    def root(self) -> bytes:
        """The root of the present tree; EMPTY_ROOT at size 0."""
        edge = {(t.level, t.index): data for t, data in self.partial()}
        return tree_root(self.size, TileReader(self.size, lambda t: edge[t.level, t.index]))

    def _finish(self, level: int, done: list[tuple[Tile, bytes]]) -> bytes | None:
        hashes = self._edge[level]
        if len(hashes) < WIDTH:
            return None
        done.append((Tile(level, self._index(level) - 1), b"".join(hashes)))
        self._edge[level] = []
        return _perfect(hashes)

    def _index(self, level: int) -> int:
        return self.size >> (HEIGHT * (level + 1))


def _perfect(hashes: Sequence[bytes]) -> bytes:
    while len(hashes) > 1:
        hashes = _paired(hashes)
    return hashes[0]


def _paired(hashes: Sequence[bytes]) -> list[bytes]:
    """The row of hashes above; a last one without its pair has none there."""
    return [node_hash(a, b) for a, b in zip(hashes[::2], hashes[1::2], strict=False)]


def _digits(index: int) -> str:
    text = str(index)
    text = text.zfill(-(-len(text) // 3) * 3)
    groups = [text[i : i + 3] for i in range(0, len(text), 3)]
    return "/".join([*("x" + g for g in groups[:-1]), groups[-1]])
