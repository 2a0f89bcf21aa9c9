"""The Merkle tree and its tiles, against a tree that is hashed the plain recursive way."""

from __future__ import annotations

import contextlib
import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.base.codec import Malformed
from interlock.transparency.merkle import (
    EMPTY_ROOT,
    MAX_PROOF,
    BadProof,
    leaf_hash,
    memory_reader,
    prove_consistency,
    prove_inclusion,
    root_of,
    tree_root,
    verify_consistency,
    verify_inclusion,
)
from interlock.transparency.tiles import (
    ENTRIES,
    Tile,
    TileBuilder,
    TileReader,
    decode_bundle,
    decode_tile,
    encode_bundle,
    parse_path,
    tiles_of,
)

LEAVES = [leaf_hash(str(i).encode()) for i in range(700)]


def plain_root(leaves: list[bytes]) -> bytes:
    """RFC 6962, 2.1, word by word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return hashlib.sha256(b"\x01" + plain_root(leaves[:k]) + plain_root(leaves[k:])).digest()


def test_roots_are_those_of_the_plain_recursion() -> None:
    assert root_of([]) == EMPTY_ROOT
    for size in [*range(1, 40), 255, 256, 257, 600]:
        assert root_of(LEAVES[:size]) == plain_root(LEAVES[:size])


def test_every_inclusion_proof_of_small_trees_verifies_and_no_other_place_or_leaf_does() -> None:
    for size in range(1, 20):
        read, root = memory_reader(LEAVES[:size]), root_of(LEAVES[:size])
        for index in range(size):
            proof = prove_inclusion(index, size, read)
            verify_inclusion(LEAVES[index], index, size, proof, root)
            for wrong in (LEAVES[index + 1], b"\x00" * 32):
                with pytest.raises(BadProof):
                    verify_inclusion(wrong, index, size, proof, root)
            for other in set(range(-1, size + 2)) - {index}:
                with pytest.raises(BadProof):
                    verify_inclusion(LEAVES[index], other, size, proof, root)


def test_every_consistency_proof_of_small_trees_verifies_and_no_other_root_does() -> None:
    for new in range(1, 20):
        read, new_root = memory_reader(LEAVES[:new]), root_of(LEAVES[:new])
        for old in range(1, new + 1):
            proof, old_root = prove_consistency(old, new, read), root_of(LEAVES[:old])
            verify_consistency(old, old_root, new, new_root, proof)
            forged = root_of([*LEAVES[: old - 1], LEAVES[100]])
            with pytest.raises(BadProof):
                verify_consistency(old, forged, new, new_root, proof)
            with pytest.raises(BadProof):
                verify_consistency(old, old_root, new, LEAVES[0][::-1], proof)


def test_nothing_is_consistent_with_the_empty_tree_by_proof() -> None:
    with pytest.raises(BadProof):
        verify_consistency(0, EMPTY_ROOT, 1, LEAVES[0], [])
    with pytest.raises(ValueError):
        prove_consistency(0, 1, memory_reader(LEAVES))


def test_a_proof_longer_than_any_tree_is_refused_before_it_is_hashed() -> None:
    with pytest.raises(BadProof):
        verify_inclusion(LEAVES[0], 0, 1 << 62, [LEAVES[0]] * (MAX_PROOF + 1), LEAVES[0])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 700), st.data())
def test_tiles_of_any_size_give_the_same_proofs_as_the_leaves(size: int, data: st.DataObject) -> None:
    builder, files = TileBuilder(), dict[str, bytes]()
    for leaf in LEAVES[:size]:
        files.update({tile.path: raw for tile, raw in builder.add(leaf)})
    files.update({tile.path: raw for tile, raw in builder.partial()})
    assert set(files) == {t.path for t in tiles_of(size, entries=False)}
    read = TileReader(size, lambda tile: files[tile.path])
    root = root_of(LEAVES[:size])
    assert builder.root() == tree_root(size, read) == root
    index, old = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, size))
    verify_inclusion(LEAVES[index], index, size, prove_inclusion(index, size, read), root)
    proof = prove_consistency(old, size, read)
    assert proof == prove_consistency(old, size, memory_reader(LEAVES[:size]))
    verify_consistency(old, root_of(LEAVES[:old]), size, root, proof)


def test_the_specifications_example_of_70000_entries_has_its_tiles() -> None:
    tiles = list(tiles_of(70_000, entries=False))
    assert sum(t.level == 0 and t.width == 256 for t in tiles) == 273
    assert [t for t in tiles if t.width < 256] == [Tile(0, 273, 112), Tile(1, 1, 17), Tile(2, 0, 1)]
    assert sorted(t.level for t in tiles_of(256)) == [ENTRIES, 0, 1]


@given(st.integers(0, 3000), st.integers(0, 3000))
def test_what_a_larger_tree_adds_is_what_the_smaller_has_not(a: int, b: int) -> None:
    old, new = sorted((a, b))
    assert set(tiles_of(new, since=old)) == set(tiles_of(new)) - set(tiles_of(old))


@pytest.mark.parametrize(
    ("tile", "path"),
    [
        (Tile(0, 1234067), "tile/0/x001/x234/067"),
        (Tile(1, 0, 17), "tile/1/000.p/17"),
        (Tile(ENTRIES, 1000, 255), "tile/entries/x001/000.p/255"),
    ],
)
def test_a_tile_has_the_path_of_the_specification(tile: Tile, path: str) -> None:
    assert tile.path == path
    assert parse_path(path) == tile


@given(st.integers(ENTRIES, 7), st.integers(0, 1 << 40), st.integers(1, 256))
def test_a_tiles_path_survives_reading(level: int, index: int, width: int) -> None:
    tile = Tile(level, index, width)
    assert parse_path(tile.path) == tile


@pytest.mark.parametrize(
    "path",
    [
        "tile/0/0",
        "tile/00/000",
        "tile/8/000",
        "tile/0/000.p/0",
        "tile/0/000.p/256",
        "tile/0/000.p/01",
        "tile/0/x000/000",
        "tile/0/001/000",
        "tile/0/000/",
        "/tile/0/000",
        "tile/../checkpoint",
        "tile/0/000\n",
        "tile/0/٠٠٠",
        "checkpoint",
    ],
)
def test_a_tiles_path_has_one_spelling(path: str) -> None:
    with pytest.raises(Malformed):
        parse_path(path)


@given(st.text(max_size=30))
def test_no_text_breaks_the_path_parser(text: str) -> None:
    with contextlib.suppress(Malformed):
        assert parse_path(text).path == text


@given(st.lists(st.binary(max_size=20), max_size=6))
def test_a_bundle_survives_writing_and_reading(entries: list[bytes]) -> None:
    data = encode_bundle(entries)
    assert decode_bundle(data, len(entries)) == tuple(entries)
    for wrong in (len(entries) - 1, len(entries) + 1):
        if wrong >= 0:
            with pytest.raises(Malformed):
                decode_bundle(data, wrong)


def test_a_tile_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(Malformed):
        decode_tile(b"\x00" * 63, 2)
