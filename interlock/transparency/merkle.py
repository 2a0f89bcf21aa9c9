"""The Merkle tree of a log: hashes, roots, inclusion and consistency proofs. Nothing here reads a file.

Whoever proves asks a reader for the hashes of whole subtrees, all in one call; whoever checks needs the proof only.

    Node (level, index)   the whole subtree over the entries [index << level, (index + 1) << level)
    ReadNodes             nodes in, their 32-byte hashes out, in the same order

    prove_inclusion(index, size, read)         with  verify_inclusion(leaf, index, size, proof, root)
    prove_consistency(old, new, read)          with  verify_consistency(old, old_root, new, new_root, proof)

Sources: hashing RFC 6962, 2.1; proofs RFC 9162, 2.1.3 and 2.1.4.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from interlock.base.errors import InterlockError

__all__ = [
    "EMPTY_ROOT",
    "HASH_SIZE",
    "MAX_PROOF",
    "MAX_SIZE",
    "BadProof",
    "Node",
    "ReadNodes",
    "fold",
    "leaf_hash",
    "memory_reader",
    "node_hash",
    "prove_consistency",
    "prove_inclusion",
    "range_nodes",
    "root_of",
    "tree_root",
    "verify_consistency",
    "verify_inclusion",
]

HASH_SIZE: Final = 32
MAX_SIZE: Final = (1 << 63) - 1  # entries; what the text formats of C2SP can name
MAX_PROOF: Final = 63  # hashes; no proof over MAX_SIZE entries is longer (tlog-witness says the same)
EMPTY_ROOT: Final = hashlib.sha256(b"").digest()

Node: TypeAlias = tuple[int, int]
ReadNodes: TypeAlias = Callable[[Sequence[Node]], Sequence[bytes]]


class BadProof(InterlockError):
    """A Merkle proof, or the hashes it was made of, that does not lead to the root it should."""

    code = "bad-proof"


def leaf_hash(entry: bytes) -> bytes:
    """The hash of an entry (RFC 6962, 2.1: a leading zero byte keeps leaves and nodes apart)."""
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def range_nodes(start: int, end: int) -> list[Node]:
    """The whole subtrees, from left to right, that make up a subtree of the recursion of RFC 6962, 2.1."""
    nodes: list[Node] = []
    while start < end:
        level = (end - start).bit_length() - 1
        nodes.append((level, start >> level))
        start += 1 << level
    return nodes


def fold(hashes: Sequence[bytes]) -> bytes:
    """The hash over whole subtrees that shrink from left to right; EMPTY_ROOT where there is none."""
    if not hashes:
        return EMPTY_ROOT
    result = hashes[-1]
    for left in reversed(hashes[:-1]):
        result = node_hash(left, result)
    return result


def tree_root(size: int, read: ReadNodes) -> bytes:
    """The root of the tree over the first `size` entries."""
    return fold(read(range_nodes(0, size)))


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root over leaf hashes that are all at hand."""
    return tree_root(len(leaves), memory_reader(leaves))


def memory_reader(leaves: Sequence[bytes]) -> ReadNodes:
    """A reader over leaf hashes in memory; it remembers the inner nodes it has made."""
    known: dict[Node, bytes] = {}

    def one(node: Node) -> bytes:
        level, index = node
        if level == 0:
            return leaves[index]
        if node not in known:
            known[node] = node_hash(one((level - 1, 2 * index)), one((level - 1, 2 * index + 1)))
        return known[node]

    return lambda nodes: [one(n) for n in nodes]


def prove_inclusion(index: int, size: int, read: ReadNodes) -> tuple[bytes, ...]:
    """The audit path of an entry, from the leaf's sibling up (RFC 9162, 2.1.3.1).

    Raises: ValueError, where the tree has no such entry.
    """
    if not 0 <= index < size <= MAX_SIZE:
        raise ValueError(f"a tree of {size} entries has no entry {index}")
    ranges: list[tuple[int, int]] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    return _read_ranges(ranges[::-1], read)


def prove_consistency(old: int, new: int, read: ReadNodes) -> tuple[bytes, ...]:
    """The proof that the tree of `old` entries is a prefix of that of `new` (RFC 9162, 2.1.4.1); empty if equal.

    Raises: ValueError, where `old` is 0 (nothing is to be proven then) or larger than `new`.
    """
    if not 0 < old <= new <= MAX_SIZE:
        raise ValueError(f"no consistency proof leads from size {old} to size {new}")
    ranges: list[tuple[int, int]] = []
    start, end = 0, new
    while old < end:
        middle = start + _split(end - start)
        if old <= middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    if start:  # RFC 9162: the verifier knows the hash of this range only where it is the whole old tree
        ranges.append((start, end))
    return _read_ranges(ranges[::-1], read)


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """Check that a leaf hash stands at `index` of the tree with this size and root (RFC 9162, 2.1.3.2).

    Raises: BadProof.
    """
    _demand_hashes(leaf, root, *proof)
    if not 0 <= index < size <= MAX_SIZE:
        raise BadProof(f"entry {index} lies outside a tree of {size} entries")
    at, last, result = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            raise BadProof("inclusion proof is too long")
        if at & 1 or at == last:
            result = node_hash(sibling, result)
            at, last = _to_odd(at, last)
        else:
            result = node_hash(result, sibling)
        at, last = at >> 1, last >> 1
    if last:
        raise BadProof("inclusion proof is too short")
    if result != root:
        raise BadProof(f"inclusion proof of entry {index} does not lead to the root of the tree of {size} entries")


def verify_consistency(old: int, old_root: bytes, new: int, new_root: bytes, proof: Sequence[bytes]) -> None:
    """Check that the old tree is a prefix of the new one (RFC 9162, 2.1.4.2).

    An old size of 0 is refused: every tree extends the empty one, so there a caller has nothing to check.

    Raises: BadProof.
    """
    _demand_hashes(old_root, new_root, *proof)
    if not 0 < old <= new <= MAX_SIZE:
        raise BadProof(f"no consistency proof leads from size {old} to size {new}")
    if old == new:
        if proof or old_root != new_root:
            raise BadProof(f"two trees of {old} entries are consistent only if their roots are equal")
        return
    found_old, found_new = _consistency_roots(old, old_root, new, proof)
    if found_old != old_root or found_new != new_root:
        raise BadProof(f"consistency proof does not join the trees of {old} and {new} entries")


def _consistency_roots(old: int, old_root: bytes, new: int, proof: Sequence[bytes]) -> tuple[bytes, bytes]:
    steps = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    if not steps or not proof:
        raise BadProof("consistency proof is empty")
    at, last = old - 1, new - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    found_old = found_new = steps[0]
    for step in steps[1:]:
        if last == 0:
            raise BadProof("consistency proof is too long")
        if at & 1 or at == last:
            found_old, found_new = node_hash(step, found_old), node_hash(step, found_new)
            at, last = _to_odd(at, last)
        else:
            found_new = node_hash(found_new, step)
        at, last = at >> 1, last >> 1
    if last:
        raise BadProof("consistency proof is too short")
    return found_old, found_new


def _to_odd(at: int, last: int) -> tuple[int, int]:
    while at and not at & 1:
        at, last = at >> 1, last >> 1
    return at, last


def _split(count: int) -> int:
    """The largest power of two smaller than `count`: where RFC 6962, 2.1 splits a tree."""
    return 1 << ((count - 1).bit_length() - 1)


def _demand_hashes(*hashes: bytes) -> None:
    if any(len(h) != HASH_SIZE for h in hashes):
        raise BadProof(f"a hash of the tree has {HASH_SIZE} bytes; one here has not")
    if len(hashes) > MAX_PROOF + 2:
        raise BadProof(f"a proof has at most {MAX_PROOF} hashes")


def _read_ranges(ranges: Sequence[tuple[int, int]], read: ReadNodes) -> tuple[bytes, ...]:
    groups = [range_nodes(start, end) for start, end in ranges]
    hashes = list(read([node for group in groups for node in group]))
    proof: list[bytes] = []
    for group in groups:
        proof.append(fold(hashes[: len(group)]))
        del hashes[: len(group)]
    return tuple(proof)
