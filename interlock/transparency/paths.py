"""Many inclusion proofs of one tree at the price of few: what two of them share is read, hashed and written once.

The lines of a node are those that a proof of any entry below it goes on with once it has come up to that node: the
hash of the node's sibling, and then the lines of the node above. Above a whole subtree of the tree's edge stand the
hash over all that is right of it, and the whole subtrees to its left from right to left (RFC 9162, 2.1.3.1).
"""

from __future__ import annotations

from interlock.transparency.merkle import Node, ReadNodes, fold, range_nodes
from interlock.transparency.text import hash_lines

__all__ = ["InclusionLines"]


class InclusionLines:
    """The inclusion proofs of one tree of `size` entries, each as the lines of a proof file."""

    def __init__(self, size: int, read: ReadNodes) -> None:
        self._size = size
        self._read = read
        self._above: dict[Node, str] = {}
        whole = range_nodes(0, size)
        hashes = read(whole)
        for k, node in enumerate(whole):
            right = [fold(hashes[k + 1 :])] if k + 1 < len(whole) else []
            self._above[node] = hash_lines([*right, *reversed(hashes[:k])])

    def of(self, index: int) -> str:
        """The proof of one entry. Raises: ValueError, where the tree has no such entry."""
        if not 0 <= index < self._size:
            raise ValueError(f"a tree of {self._size} entries has no entry {index}")
        return self._lines((0, index))

    def _lines(self, node: Node) -> str:
        known = self._above.get(node)
        if known is None:
            level, index = node
            sibling = self._read([(level, index ^ 1)])
            known = self._above[node] = hash_lines(sibling) + self._lines((level + 1, index >> 1))
        return known
