"""The log's one writer: an entry is durable before it is acknowledged, and a tree is whole before it is published.

The steps, and what a kill -9 after each leaves behind:

    append(entries)     the journal has them, synced            -> at the next start they are part of the tree
    integrate()         1 entry bundles, tiles                  -> files that no signed tree names yet; written again
                        2 `signed`: the checkpoint we signed    -> the new tree exists; it is not published
    publish(note)       `public/checkpoint`, replaced at once   -> the new tree is published

Each step takes many entries at the price of one: a batch costs one sync of the journal, one write of the tree's right
edge, one signature. A tile's name holds its width, so no step changes a file that the published tree needs.

The log signs a tree only after the journal holds its entries. A start reads the right edge of the signed tree from its
tiles, which must lead to the root that was signed, and the journal from there on (no more than its newest file and what
came after `signed`): it must go on where the tree ends, or the log refuses to run, for two histories under one key are
worse than none. So neither a start nor the memory grows with the log; `audit.py` is what reads all of it.

Legal orders: append* integrate publish, again and again; integrate and publish may each be skipped or repeated.
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

_PUBLISHED: Final = f"{PUBLIC}/{CHECKPOINT}"
_RESTORE: Final = "restore it from a backup or a mirror of this log"
_PLACES_AT_ONCE: Final = 64 * WIDTH  # entries a transaction
_MOST_FULL: Final = 256  # tiles, of 8 KiB each


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
        self._lock = threading.RLock()
        self._tail: list[bytes] = []  # the entries of the unfinished bundle
        self._unwritten: list[tuple[Tile, bytes]] = []  # tiles and bundles that became full since `signed`
        self._full: dict[Tile, bytes] = {}  # full tiles that were read lately
        self._broken = False
        signed, self.published = self._stored(SIGNED), self._stored(_PUBLISHED)
        self._signed_size = 0 if signed is None else parse_checkpoint(parse_note(signed).text).size
        self._builder = self._edge(signed)
        self._demand_published()
        self._catch_up()
        keys = set() if signed is None else {(s.name, s.key_id) for s in parse_note(signed).signatures}
        if signed is None or not keys.issuperset((s.key.name, s.key.key_id) for s in self._signers):
            signed = sign_checkpoint(self._checkpoint(), self._signers)
            self._write_tree(signed)
        self.signed: bytes = signed
        self.integrate()

    @property
    def origin(self) -> str:
        return self._origin

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
                    self._grow(leaf, entry)
                self._storage.places.add(first, list(new))
                self._broken = False
                places.update(zip(new, range(first, self.size), strict=True))
            return [places[leaf] for leaf in leaves]

    def integrate(self) -> bytes:
        """Write the tree over all durable entries, and sign it; returns the checkpoint's note, not yet published.

        Raises: NotWritable; the earlier tree then stays the signed one, and a later call finishes the work.
        """
        with self._lock:
            self._demand_whole()
            if self._signed_size < self.size:
                note = sign_checkpoint(self._checkpoint(), self._signers)
                self._write_tree(note)
                self.signed = note
            return self.signed

    def publish(self, note: bytes) -> None:
        """Let readers see a tree that was integrated; the note is ours, with whatever cosignatures were added.

        Raises: ValueError, where it is not one of our trees or is older than the published one; NotWritable.
        """
        with self._lock:
            self._demand_whole()
            checkpoint, _ = open_checkpoint(note, [s.key for s in self._signers])
            before = self.published_size
            if checkpoint != self.checkpoint_at(checkpoint.size) or checkpoint.size < before:
                raise ValueError(f"a tree of {checkpoint.size} entries is not ours to publish after one of {before}")
            self._storage.write([(_PUBLISHED, note)])
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
        return self.prove_all([index], note)[0]

    def prove_all(self, indices: Sequence[int], note: bytes) -> list[TlogProof]:
        """The proof files of several entries, which share what they read. Raises: as `prove`."""
        with self._lock:
            parsed = parse_note(note)
            size = parse_checkpoint(parsed.text).size
            self._demand_signed(size)
            read = self._reader()
            return [TlogProof(index, prove_inclusion(index, size, read), parsed) for index in indices]

    def _checkpoint(self) -> Checkpoint:
        return Checkpoint(self.origin, self.size, self._builder.root())

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

    def _edge(self, signed: bytes | None) -> TileBuilder:
        """The right edge of the signed tree, from its tiles. Raises: BadState, where they do not lead to its root."""
        if signed is None:
            return TileBuilder()
        try:
            builder = TileBuilder.at(self._signed_size, self._load)
            index, width = divmod(self._signed_size, WIDTH)
            if width:
                self._tail = list(decode_bundle(self._load(Tile(ENTRIES, index, width)), width))
        except Malformed as e:
            raise BadState(f"a tile of the signed tree is damaged ({e.what})", fix=_RESTORE) from None
        edge = dict(builder.partial()).get(Tile(0, index, width), b"")
        if builder.root() != parse_checkpoint(parse_note(signed).text).root:
            raise BadState(f"tiles do not lead to the signed tree of {self._signed_size} entries", fix=_RESTORE)
        if edge != b"".join(leaf_hash(e) for e in self._tail):
            raise BadState("the newest bundle does not hold the entries that were signed", fix=_RESTORE)
        return builder

    def _demand_published(self) -> None:
        """Raises: BadState, where the published tree is no part of the signed one."""
        if self.published is None:
            return
        shown = parse_checkpoint(parse_note(self.published).text)
        if shown.size > self._signed_size:
            raise BadState(
                f"this log has published a tree of {shown.size} entries and signed one of {self._signed_size}",
                fix="restore it from a newer backup; the log must not sign a second history",
            )
        if shown != self.checkpoint_at(shown.size):
            raise BadState(f"tiles do not lead to the published tree of {shown.size} entries", fix=_RESTORE)

    def _catch_up(self) -> None:
        """Take in what the journal has beyond the signed tree; up to there it must agree. Raises: BadState."""
        read, size, ends = self._reader(), self._signed_size, 0

        def visit(index: int, entry: bytes) -> None:
            nonlocal ends
            ends, leaf = index + 1, leaf_hash(entry)
            if index >= size:
                self._grow(leaf, entry)
            elif read([(0, index)]) != [leaf]:
                raise BadState(f"journal's entry {index} is not the one that this log signed", fix=_RESTORE)

        torn = self._storage.scan(size, visit)
        if ends < size:
            raise BadState(
                f"journal ends after {ends} whole entries, and this log has signed a tree of {size}",
                fix="restore the journal from a backup; the log must not sign a second history",
            )
        if torn:
            self._storage.cut()
        self._storage.sweep(tiles_of(self.size, since=size))
        self._fill_places()

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
        waiting = {t.index: data for t, data in (*self._unwritten, *self._builder.partial()) if t.level == 0}
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

    def _grow(self, leaf: bytes, entry: bytes) -> None:
        """Take one durable entry into the tree in memory."""
        index = self.size
        full = self._builder.add(leaf)
        self._tail.append(entry)
        if len(self._tail) == WIDTH:
            full.append((Tile(ENTRIES, index // WIDTH), encode_bundle(self._tail)))
            self._tail = []
        self._unwritten += full

    def _write_tree(self, note: bytes) -> None:
        needed = set(tiles_of(self.size, since=self._signed_size))
        files = self._unwritten + [(t, data) for t, data in self._builder.partial() if t in needed]
        if self._tail:
            files.append((Tile(ENTRIES, self.size // WIDTH, len(self._tail)), encode_bundle(self._tail)))
        self._storage.write([(f"{PUBLIC}/{tile.path}", data) for tile, data in sorted(files)])
        self._storage.write([(SIGNED, note)])
        self._signed_size = self.size
        self._unwritten = []

    def _reader(self) -> TileReader:
        return TileReader(self._signed_size, self._load)

    def _load(self, tile: Tile) -> bytes:
        data = self._full.get(tile)
        if data is None:
            data = self.tile(tile)
            if data is None:
                raise BadState(f"{tile.path} of the signed tree is missing", fix=_RESTORE)
            if tile.width == WIDTH and tile.level != ENTRIES:
                if len(self._full) >= _MOST_FULL:
                    self._full.clear()
                self._full[tile] = data
        return data

    def _demand_whole(self) -> None:
        if self._broken:
            raise BadState("an append has failed, so what is on disk is not known", fix="restart the log")

    def _demand_signed(self, size: int) -> None:
        if not 0 <= size <= self._signed_size:
            raise ValueError(f"the signed tree has {self._signed_size} entries, not {size}")


@contextlib.contextmanager
def open_log(root: Path, signer: NoteSigner, also: Sequence[TextSigner] = ()) -> Iterator[Log]:
    """Hold a directory as its log's one writer. Raises: Locked, BadState, NotWritable."""
    with open_storage(root) as storage:
        yield Log(storage, signer, also)
