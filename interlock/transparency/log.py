"""The log's one writer: an entry is durable before it is acknowledged, and a tree is whole before it is published.

The steps, and what a kill -9 after each leaves behind:

    append(entries)     the journal has them, synced            -> at the next start they are part of the tree
    integrate()         1 entry bundles   2 tiles               -> files that no signed tree names yet; written again
                        3 `signed`: the checkpoint we signed    -> the new tree exists; it is not published
    publish(note)       `public/checkpoint`, replaced at once   -> the new tree is published

A tile's name holds its width, so no step changes a file that the published tree needs. The log signs a tree only
after the journal holds its entries: at the start the journal must lead to every root that was signed, or the log
refuses to run (two histories under one key are worse than none).

Legal orders: append* integrate publish, again and again; integrate and publish may each be skipped or repeated.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.files import BadState
from interlock.transparency.checkpoint import Checkpoint, open_checkpoint, parse_checkpoint, sign_checkpoint
from interlock.transparency.merkle import leaf_hash, prove_consistency, prove_inclusion, tree_root
from interlock.transparency.note import MAX_NOTE, NoteSigner, parse_note
from interlock.transparency.proof import TlogProof
from interlock.transparency.storage import PUBLIC, SIGNED, LogStorage, open_storage
from interlock.transparency.tiles import (
    CHECKPOINT,
    ENTRIES,
    MAX_ENTRY_SIZE,
    WIDTH,
    Tile,
    TileBuilder,
    TileReader,
    decode_bundle,
    encode_bundle,
    tiles_of,
)

__all__ = ["Log", "open_log"]

_PUBLISHED = f"{PUBLIC}/{CHECKPOINT}"


class Log:
    """An append-only log over a LogStorage. Safe to call from several threads; one process, by the storage's lock.

    The origin is the signer's name. `size` counts the entries that are durable, `signed` is the note of the newest
    tree that is integrated, `published` that of the tree that readers see (None before the first).

    Raises on making: BadState, where the storage does not lead to the trees that were signed with it.
    """

    def __init__(self, storage: LogStorage, signer: NoteSigner) -> None:
        self._storage = storage
        self._signer = signer
        self._lock = threading.RLock()
        self._builder = TileBuilder()
        self._places: dict[bytes, int] = {}  # leaf hash -> index
        self._tail: list[bytes] = []  # the entries of the unfinished bundle
        self._unwritten: list[tuple[Tile, bytes]] = []  # tiles and bundles that became full since `signed`
        self._broken = False
        signed, self.published = self._stored(SIGNED), self._stored(_PUBLISHED)
        self._signed_size = 0 if signed is None else parse_checkpoint(parse_note(signed).text).size
        self._replay([parse_checkpoint(parse_note(n).text) for n in (signed, self.published) if n is not None])
        if signed is None:
            signed = sign_checkpoint(self._checkpoint(), [signer])
            self._write_tree(signed)
        self.signed: bytes = signed
        self.integrate()

    @property
    def origin(self) -> str:
        return self._signer.name

    @property
    def size(self) -> int:
        return self._builder.size

    @property
    def published_size(self) -> int:
        """How many entries the published tree has; 0 where none is published."""
        return 0 if self.published is None else parse_checkpoint(parse_note(self.published).text).size

    def append(self, entries: Sequence[bytes]) -> list[int]:
        """Make entries durable; returns each one's index. The same bytes always have the same index.

        Raises: Malformed, for an entry that no bundle can hold; NotWritable, after which the log must be opened anew.
        """
        if any(len(e) > MAX_ENTRY_SIZE for e in entries):
            raise Malformed(f"log entry is larger than {MAX_ENTRY_SIZE} bytes")
        with self._lock:
            self._demand_whole()
            new = list(dict.fromkeys(e for e in entries if leaf_hash(e) not in self._places))
            if new:
                self._broken = True  # until the storage says that all of it is on disk
                self._storage.append(new)
                self._broken = False
            for entry in new:
                self._grow(entry)
            return [self._places[leaf_hash(e)] for e in entries]

    def integrate(self) -> bytes:
        """Write the tree over all durable entries, and sign it; returns the checkpoint's note, not yet published.

        Raises: NotWritable; the earlier tree then stays the signed one, and a later call finishes the work.
        """
        with self._lock:
            self._demand_whole()
            if self._signed_size < self.size:
                note = sign_checkpoint(self._checkpoint(), [self._signer])
                self._write_tree(note)
                self.signed = note
            return self.signed

    def publish(self, note: bytes) -> None:
        """Let readers see a tree that was integrated; the note is ours, with whatever cosignatures were added.

        Raises: ValueError, where it is not one of our trees or is older than the published one; NotWritable.
        """
        with self._lock:
            self._demand_whole()
            checkpoint, _ = open_checkpoint(note, [self._signer.key])
            before = self.published_size
            if checkpoint != self.checkpoint_at(checkpoint.size) or checkpoint.size < before:
                raise ValueError(f"a tree of {checkpoint.size} entries is not ours to publish after one of {before}")
            self._storage.write(_PUBLISHED, note)
            self.published = note
            for tile in tiles_of(checkpoint.size, since=before):
                if tile.width == WIDTH:
                    self._storage.remove_partials(tile)

    def checkpoint_at(self, size: int) -> Checkpoint:
        """What the log says, or said, of its first `size` entries. Raises: ValueError, beyond the signed tree."""
        with self._lock:
            self._demand_signed(size)
            return Checkpoint(self.origin, size, tree_root(size, self._reader()))

    def entry(self, index: int) -> bytes:
        """An entry of the signed tree. Raises: ValueError, beyond it."""
        with self._lock:
            self._demand_signed(index + 1)
            bundle, place = divmod(index, WIDTH)
            width = min(WIDTH, self._signed_size - bundle * WIDTH)
            return decode_bundle(self._load(Tile(ENTRIES, bundle, width)), width)[place]

    def tile(self, tile: Tile) -> bytes | None:
        """A tile or bundle as it is served, or None where there is none (any more)."""
        return self._storage.read(f"{PUBLIC}/{tile.path}", tile.limit)

    def consistency(self, old: int, new: int) -> tuple[bytes, ...]:
        """The proof between two trees; empty from size 0, which every tree extends. Raises: ValueError."""
        with self._lock:
            self._demand_signed(new)
            return prove_consistency(old, new, self._reader()) if old else ()

    def prove(self, index: int, note: bytes) -> TlogProof:
        """The proof file of an entry under a checkpoint of ours. Raises: ValueError, for one that it does not hold."""
        with self._lock:
            parsed = parse_note(note)
            size = parse_checkpoint(parsed.text).size
            self._demand_signed(size)
            return TlogProof(index, prove_inclusion(index, size, self._reader()), parsed)

    def _checkpoint(self) -> Checkpoint:
        return Checkpoint(self.origin, self.size, self._builder.root())

    def _stored(self, name: str) -> bytes | None:
        data = self._storage.read(name, MAX_NOTE)
        if data is None:
            return None
        try:
            checkpoint, _ = open_checkpoint(data, [self._signer.key])
        except InterlockError as e:
            raise BadState(
                f"{name} is not signed with this log's key ({e.what})", fix="give the key it was made with"
            ) from None
        if checkpoint.origin != self.origin:
            raise BadState(f"{name} is of another origin", fix="give the name it was made with")
        return data

    def _replay(self, expected: list[Checkpoint]) -> None:
        """Build the tree from the journal; at each size that was signed it must have the root that was signed."""
        roots = [(c.size, c.root) for c in expected]

        def check() -> None:
            if any(size == self.size and root != self._builder.root() for size, root in roots):
                raise BadState(f"journal does not lead to the tree of {self.size} entries that this log signed")

        def visit(entry: bytes) -> None:
            self._grow(entry)
            check()

        check()
        torn = self._storage.scan(visit)
        most = max((size for size, _ in roots), default=0)
        if self.size < most:
            raise BadState(
                f"journal holds {self.size} whole entries, and this log has signed a tree of {most}",
                fix="restore the journal from a backup; the log must not sign a second history",
            )
        if torn:
            self._storage.cut()

    def _grow(self, entry: bytes) -> None:
        """Take one durable entry into the tree in memory."""
        leaf, index = leaf_hash(entry), self.size
        self._places.setdefault(leaf, index)
        full = self._builder.add(leaf)
        self._tail.append(entry)
        if len(self._tail) == WIDTH:
            full.append((Tile(ENTRIES, index // WIDTH), encode_bundle(self._tail)))
            self._tail = []
        if index >= self._signed_size:
            self._unwritten += full

    def _write_tree(self, note: bytes) -> None:
        needed = set(tiles_of(self.size, since=self._signed_size))
        files = self._unwritten + [(t, data) for t, data in self._builder.partial() if t in needed]
        if self._tail:
            files.append((Tile(ENTRIES, self.size // WIDTH, len(self._tail)), encode_bundle(self._tail)))
        for tile, data in sorted(files):
            self._storage.write(f"{PUBLIC}/{tile.path}", data)
        self._storage.write(SIGNED, note)
        self._signed_size = self.size
        self._unwritten = []

    def _reader(self) -> TileReader:
        return TileReader(self._signed_size, self._load)

    def _load(self, tile: Tile) -> bytes:
        data = self.tile(tile)
        if data is None:
            raise BadState(f"{tile.path} of the signed tree is missing", fix="restore it from a mirror of this log")
        return data

    def _demand_whole(self) -> None:
        if self._broken:
            raise BadState("an append has failed, so what is on disk is not known", fix="restart the log")

    def _demand_signed(self, size: int) -> None:
        if not 0 <= size <= self._signed_size:
            raise ValueError(f"the signed tree has {self._signed_size} entries, not {size}")


@contextlib.contextmanager
def open_log(root: Path, signer: NoteSigner) -> Iterator[Log]:
    """Hold a directory as its log's one writer. Raises: Locked, BadState, NotWritable."""
    with open_storage(root) as storage:
        yield Log(storage, signer)
