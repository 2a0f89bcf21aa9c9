"""Verifies the sample log of Tessera (transparency-dev, Apache-2.0), whole: every checkpoint, leaf and file."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from interlock.transparency.checkpoint import Checkpoint, open_checkpoint
from interlock.transparency.merkle import (
    leaf_hash,
    prove_consistency,
    prove_inclusion,
    root_of,
    tree_root,
    verify_consistency,
    verify_inclusion,
)
from interlock.transparency.note import parse_vkey
from interlock.transparency.tiles import ENTRIES, Tile, TileReader, decode_bundle, decode_tile, parse_path

LOG = Path(__file__).parents[3] / "shared" / "vectors" / "tlog-tessera" / "log"
KEY = "example.com/log/testdata+33d7b496+AeHTu4Q3hEIMHNqc6fASMsq3rKNx280NI+oO5xCFkkSx"
LEFT_OUT = {".state": "Tessera's own working state, which is no part of the format"}

pytestmark = pytest.mark.skipif(not LOG.is_dir(), reason="../shared/vectors/tlog-tessera is not there")


def _files() -> list[str]:
    return sorted(str(p.relative_to(LOG)) for p in LOG.rglob("*") if p.is_file())


def _checkpoint_names() -> list[str]:
    return [f for f in _files() if f.startswith("checkpoint")]


def _tiles() -> list[Tile]:
    return [parse_path(f) for f in _files() if f.startswith("tile/")]


def _checkpoint(name: str) -> Checkpoint:
    return open_checkpoint((LOG / name).read_bytes(), [parse_vkey(KEY)])[0]


def _reader(size: int) -> TileReader:
    return TileReader(size, lambda tile: (LOG / tile.path).read_bytes())


def _entries(size: int) -> tuple[bytes, ...]:
    return decode_bundle((LOG / Tile(ENTRIES, 0, size).path).read_bytes(), size)


def test_every_file_is_a_checkpoint_a_tile_or_listed_with_a_reason() -> None:
    known = {*_checkpoint_names(), *(t.path for t in _tiles())}
    assert not [f for f in _files() if f not in known and Path(f).parts[0] not in LEFT_OUT]
    assert len(_checkpoint_names()) == 17
    assert len(_tiles()) == 30


@pytest.mark.parametrize("name", _checkpoint_names())
def test_each_checkpoint_is_signed_and_its_root_is_that_of_its_entries_and_tiles(name: str) -> None:
    checkpoint = _checkpoint(name)
    entries = _entries(checkpoint.size) if checkpoint.size else ()
    leaves = [leaf_hash(e) for e in entries]
    assert root_of(leaves) == checkpoint.root
    assert tree_root(checkpoint.size, _reader(checkpoint.size)) == checkpoint.root


@pytest.mark.parametrize("tile", [t for t in _tiles() if t.level == 0], ids=lambda t: str(t.width))
def test_each_tile_holds_the_hashes_of_its_bundle(tile: Tile) -> None:
    hashes = decode_tile((LOG / tile.path).read_bytes(), tile.width)
    assert hashes == tuple(leaf_hash(e) for e in _entries(tile.width))


def test_each_entry_is_included_in_each_tree_that_is_large_enough() -> None:
    for name in _checkpoint_names():
        checkpoint = _checkpoint(name)
        entries = _entries(checkpoint.size) if checkpoint.size else ()
        for index, entry in enumerate(entries):
            proof = prove_inclusion(index, checkpoint.size, _reader(checkpoint.size))
            verify_inclusion(leaf_hash(entry), index, checkpoint.size, proof, checkpoint.root)


def test_any_two_trees_are_consistent() -> None:
    trees = sorted({(c.size, c.root) for c in map(_checkpoint, _checkpoint_names()) if c.size})
    assert [size for size, _ in trees] == list(range(1, 16))
    for (old, old_root), (new, new_root) in combinations(trees, 2):
        verify_consistency(old, old_root, new, new_root, prove_consistency(old, new, _reader(new)))
