"""The log's one writer: an entry is durable before it is acknowledged, and a tree is whole before it is published.

The steps, and what a kill -9 after each leaves behind:

    append(entries)     the journal has them, synced            -> at the next start they are part of the tree
    sign()              in memory: the checkpoint we signed     -> the same tree, or a larger one, is signed again
    store()             1 full tiles and bundles, synced        -> files that no signed tree names yet; written again
                        2 unfinished tiles and bundle           -> as above
                        3 `signed`: the checkpoint, synced      -> the new tree exists; it is not published
    publish(note)       `public/checkpoint`, replaced at once   -> the new tree is published

Each step takes many entries at the price of one, and cosigning may go on beside store: what is signed is a prefix of
the journal, and a start signs nothing else. A tile's name holds its width, so no step changes a file that the published
tree needs.

A start reads the full tiles at the right edge of the signed tree, and from there on the journal (its newest file as a
rule): that must lead to the roots that were signed and published, or the log refuses to run, for two histories under
one key are worse than none. Unfinished tiles are not read but written again, so they are never synced. Neither a start
nor the memory grows with the log; `audit.py` is what reads all of it.

Legal orders: append* sign store publish, again and again; each may be skipped or repeated; integrate is sign and store.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.files import BadState
from interlock.transparency.checkpoint import Checkpoint, open_checkpoint, parse_checkpoint, sign_checkpoint
from interlock.transparency.merkle import HASH_SIZE, leaf_hash, prove_consistency, prove_inclusion, tree_root
from interlock.transparency.note import MAX_NOTE, NoteSigner, TextSigner, parse_note
from interlock.transparency.paths import InclusionLines
from interlock.transparency.proof import TlogProof, proof_file
from interlock.transparency.recovery import RESTORE, recovered
from interlock.transparency.storage import PUBLIC, SIGNED, LogStorage, open_storage
from interlock.transparency.tiles import (
    CHECKPOINT,
    ENTRIES,
    MAX_ENTRY_SIZE,
    WIDTH,
    Tile,
    TileReader,
    decode_bundle,
    tiles_of,
)

__all__ = ["Log", "open_log"]

_PUBLISHED: Final = f"{PUBLIC}/{CHECKPOINT}"
_PLACES_AT_ONCE: Final = 64 * WIDTH  # entries a transaction
_MOST_READ: Final = 256  # tiles, of 8 KiB each


class Log:
    """An append-only log over a LogStorage. Safe to call from several threads; one process, by the storage's lock.

    The origin is the signer's name; `also` signs each checkpoint beside it, with an ML-DSA-44 key of the same name.
    `size` counts the entries that are durable, `signed` is the note of the newest tree that is integrated, `published`
    that of the tree that readers see (None before the first).

    Raises on making: BadState, where the storage does not lead to the trees that were signed with it.
    """

    def __init__(self, storage: LogStorage, signer: NoteSigner, also: Sequence[TextSigner] = ()) -> None:
        self._storage = storage
        self._signers: tuple[TextSigner, ...] = (signer, *also)
        self._origin = signer.name
        self._lock = threading.RLock()  # the tree in memory, and the journal
        self._writing = threading.RLock()  # the files; taken before the other one
        self._fresh: dict[Tile, bytes] = {}  # tiles of the signed tree that may not be on disk
        self._read: dict[Tile, bytes] = {}  # full tiles that were read lately
        self._reading: TileReader | None = None  # of the signed tree; all that is proven of one tree shares it
        self._broken = False
        signed, self.published = self._stored(SIGNED), self._stored(_PUBLISHED)
        seen = _checkpoint_of(self.published)
        self._published_size = 0 if seen is None else seen.size
        self._growth = recovered(storage, self._load, _checkpoint_of(signed), seen)
        self._signed_size = self._stored_size = self._growth.size
        self._fresh = {**self._growth.full, **self._growth.edge()}
        self._fill_places()
        self.signed: bytes = sign_checkpoint(self._checkpoint(), self._signers)
        self._pending: tuple[int, bytes, dict[Tile, bytes]] | None = (self.size, self.signed, self._growth.edge())
        self.store()

    @property
    def origin(self) -> str:
        return self._origin

    @property
    def size(self) -> int:
        return self._growth.size

    @property
    def published_size(self) -> int:
        """How many entries the published tree has; 0 where none is published."""
        return self._published_size

    def append(self, entries: Sequence[bytes]) -> list[int]:
        """Make entries durable; returns each one's index. The same bytes always have the same index.

        Raises: Malformed, for an entry that no bundle can hold; NotWritable, after which the log must be opened anew.
        """
        if any(len(e) > MAX_ENTRY_SIZE for e in entries):
            raise Malformed(f"log entry is larger than {MAX_ENTRY_SIZE} bytes")
        leaves = [leaf_hash(e) for e in entries]
        with self._lock:
            self._demand_whole()
            places = self._known(leaves)
            new = {leaf: entry for leaf, entry in zip(leaves, entries, strict=True) if leaf not in places}
            if new:
                first = self.size
                self._broken = True  # until the storage says that all of it is on disk
                self._storage.append(first, list(new.values()))
                for leaf, entry in new.items():
                    self._growth.take(leaf, entry)
                self._storage.places.add(first, list(new))
                self._broken = False
                places.update(zip(new, range(first, self.size), strict=True))
            return [places[leaf] for leaf in leaves]

    def sign(self) -> bytes:
        """Sign the tree over all durable entries; returns the checkpoint's note. Proofs for it can be had at once."""
        with self._lock:
            self._demand_whole()
            if self._signed_size < self.size:
                edge = self._growth.edge()
                self.signed = sign_checkpoint(self._checkpoint(), self._signers)
                self._pending = (self.size, self.signed, edge)
                self._fresh = {**self._growth.full, **edge}
                self._signed_size = self.size
                self._reading = None
            return self.signed

    def store(self) -> None:
        """Write the tree that was signed last. Raises: NotWritable; a later call finishes the work."""
        with self._writing:
            with self._lock:
                self._demand_whole()
                if self._pending is None:
                    return
                pending, full = self._pending, dict(self._growth.full)
            size, note, edge = pending
            self._storage.write([(f"{PUBLIC}/{tile.path}", data) for tile, data in sorted(full.items())])
            self._storage.put([(f"{PUBLIC}/{tile.path}", data) for tile, data in sorted(edge.items())])
            self._storage.write([(SIGNED, note)])
            with self._lock:
                self._growth.written(full)
                self._stored_size = size
                if self._pending is pending:
                    self._pending = None

    def integrate(self) -> bytes:
        """Sign the tree over all durable entries and write it; returns the checkpoint's note, not yet published.

        Raises: NotWritable; a later call finishes the work.
        """
        self.sign()
        self.store()
        return self.signed

    def publish(self, note: bytes) -> None:
        """Let readers see a tree that was stored; the note is ours, with whatever cosignatures were added.

        Raises: ValueError, where it is not one of our trees or is older than the published one; NotWritable.
        """
        with self._writing:
            with self._lock:
                self._demand_whole()
                checkpoint, before = self._ours(note), self.published_size
                if not before <= checkpoint.size <= self._stored_size or checkpoint != self.checkpoint_at(
                    checkpoint.size
                ):
                    told = f"a tree of {checkpoint.size} entries is not ours to publish after one of {before}"
                    raise ValueError(told)
            self._storage.write([(_PUBLISHED, note)])
            self.published, self._published_size = note, checkpoint.size
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
            bundle = Tile(ENTRIES, index // WIDTH).within(self._signed_size)
            return decode_bundle(self._load(bundle), bundle.width)[index % WIDTH]

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

    def proof_files(self, indices: Sequence[int], note: bytes) -> list[bytes]:
        """The proof files of several entries, which share what they have in common. Raises: as `prove`."""
        with self._lock:
            size = parse_checkpoint(parse_note(note).text).size
            self._demand_signed(size)
            lines = InclusionLines(size, self._reader())
            return [proof_file(index, lines.of(index), note) for index in indices]

    def _ours(self, note: bytes) -> Checkpoint:
        """The checkpoint of a note that we signed, once more verified unless it begins as we made it last."""
        if note.startswith(self.signed):
            return parse_checkpoint(parse_note(note).text)
        return open_checkpoint(note, [s.key for s in self._signers])[0]

    def _checkpoint(self) -> Checkpoint:
        return Checkpoint(self.origin, self.size, self._growth.root())

    def _stored(self, name: str) -> bytes | None:
        data = self._storage.read(name, MAX_NOTE)
        if data is None:
            return None
        try:
            checkpoint, _ = open_checkpoint(data, [s.key for s in self._signers])
        except InterlockError as e:
            raise BadState(
                f"{name} is not signed with this log's key ({e.what})", fix="give the key it was made with"
            ) from None
        if checkpoint.origin != self.origin:
            raise BadState(f"{name} is of another origin", fix="give the name it was made with")
        return data

    def _fill_places(self) -> None:
        """Bring the table of places up to the journal's end; one that is ahead of it is made anew."""
        places = self._storage.places
        if places.count > self.size:
            places.clear()
        read, end = self._leaf_reader(), self.size
        for start in range(places.count, end, _PLACES_AT_ONCE):
            leaves = [read(index) for index in range(start, min(start + _PLACES_AT_ONCE, end))]
            places.add(start, leaves)

    def _leaf_reader(self) -> Callable[[int], bytes]:
        """Reads leaf hashes, also those that are not integrated yet."""
        fresh = {**self._growth.full, **self._growth.edge()}
        waiting = {tile.index: data for tile, data in fresh.items() if tile.level == 0}
        known: dict[int, bytes] = {}

        def leaf(index: int) -> bytes:
            tile, place = divmod(index, WIDTH)
            if tile not in known:
                known.clear()
                known[tile] = waiting[tile] if tile in waiting else self._load(Tile(0, tile))
            return known[tile][place * HASH_SIZE : (place + 1) * HASH_SIZE]

        return leaf

    def _known(self, leaves: Sequence[bytes]) -> dict[bytes, int]:
        """The places of those entries that the log has; each is looked at, for the table is no part of the tree."""
        found = self._storage.places.find(leaves)
        if found:
            read = self._leaf_reader()
            if any(index >= self.size or read(index) != leaf for leaf, index in found.items()):
                raise BadState("the table of places is damaged", fix="remove places.sqlite; it is made again")
        return found

    def _reader(self) -> TileReader:
        if self._reading is None or self._reading.tiles >= _MOST_READ:
            self._reading = TileReader(self._signed_size, self._load)
        return self._reading

    def _load(self, tile: Tile) -> bytes:
        data = self._fresh.get(tile) or self._read.get(tile)
        if data is None:
            data = self.tile(tile)
            if data is None:
                raise BadState(f"{tile.path} of the signed tree is missing", fix=RESTORE)
            if tile.width == WIDTH and tile.level != ENTRIES:
                if len(self._read) >= _MOST_READ:
                    self._read.clear()
                self._read[tile] = data
        return data

    def _demand_whole(self) -> None:
        if self._broken:
            raise BadState("an append has failed, so what is on disk is not known", fix="restart the log")

    def _demand_signed(self, size: int) -> None:
        if not 0 <= size <= self._signed_size:
            raise ValueError(f"the signed tree has {self._signed_size} entries, not {size}")


def _checkpoint_of(note: bytes | None) -> Checkpoint | None:
    return None if note is None else parse_checkpoint(parse_note(note).text)


@contextlib.contextmanager
def open_log(root: Path, signer: NoteSigner, also: Sequence[TextSigner] = ()) -> Iterator[Log]:
    """Hold a directory as its log's one writer. Raises: Locked, BadState, NotWritable."""
    with open_storage(root) as storage:
        yield Log(storage, signer, also)
