"""From one tree to a larger one, through a server that is not trusted: new tiles first, then new entries.

    hashes = grown(builder, checkpoint, load)          the tiles that the larger tree adds; they lead to its root
    for tile, entries in bundles(checkpoint, since, hashes, load):    each held against its own leaf hashes

In memory are the hashes of what is new, 32 bytes an entry, and one bundle at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from interlock.transparency.checkpoint import Checkpoint
from interlock.transparency.merkle import BadProof, leaf_hash
from interlock.transparency.tiles import ENTRIES, WIDTH, Tile, TileBuilder, decode_bundle, decode_tile, tiles_of

__all__ = ["bundles", "grown"]

Load = Callable[[Tile], bytes]


def grown(builder: TileBuilder, checkpoint: Checkpoint, load: Load) -> dict[Tile, bytes]:
    """The tiles of hashes that a checkpoint's tree has and `builder`'s tree has not; takes the new leaves in.

    Raises: BadProof, where what `load` brings does not lead to the checkpoint's root; Malformed; of `load`, its own.
    """
    since, tiles = builder.size, dict[Tile, bytes]()
    for tile in tiles_of(checkpoint.size, entries=False, since=since):
        if tile.level == 0:
            known = max(0, since - tile.index * WIDTH)
            for leaf in decode_tile(load(tile), tile.width)[known:]:
                tiles.update(builder.add(leaf))
    tiles.update(builder.partial())
    if builder.size != checkpoint.size or builder.root() != checkpoint.root:
        raise BadProof(
            "tiles that were served do not lead to the checkpoint", where=checkpoint.origin, fix="try another mirror"
        )
    return tiles


def bundles(
    checkpoint: Checkpoint, since: int, hashes: Mapping[Tile, bytes], load: Load
) -> Iterator[tuple[Tile, tuple[bytes, ...]]]:
    """The bundles with entries from number `since` on, each as the tree has it; `hashes` are those of `grown`.

    The first bundle may begin with entries before `since`.
    Raises: BadProof, for a bundle that is not that of the tree; Malformed; of `load`, its own.
    """
    for tile in tiles_of(checkpoint.size, since=since):
        if tile.level != ENTRIES:
            return
        entries = decode_bundle(load(tile), tile.width)
        if b"".join(map(leaf_hash, entries)) != hashes[Tile(0, tile.index, tile.width)]:
            raise BadProof(
                "entries that were served are not those of the tree", where=checkpoint.origin, fix="try another mirror"
            )
        yield tile, entries
