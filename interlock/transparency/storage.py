"""Where a log keeps what it has: a journal of entries that only grows, and named files that change whole.

    LogStorage          what Log asks for: scan, cut, append; read, write, put, sweep, remove_partials; places
    DirectoryStorage    ROOT/lock            held by the one writer
                        ROOT/journal/N       every entry, in order, from entry N on: the one truth from which the rest
                                             can be made again, in files of about SEGMENT bytes or SEGMENT_ENTRIES
                                             entries, whichever is less, N in 20 digits
                        ROOT/places.sqlite   where each entry stands, by its leaf hash
                        ROOT/signed          the newest checkpoint that the log has signed
                        ROOT/public/         what is served: checkpoint, tile/...

A file of the journal begins with one line of JSON (format, version, the index of its first entry). Each record is the
entry's length (2 bytes), its leaf hash (32 bytes) and the entry; a record that is cut short or does not hash to its
leaf ends the journal there, and nothing but such a record may end it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from interlock.base.files import (
    AppendFile,
    BadState,
    NotWritable,
    file_lock,
    os_reason,
    private_dir,
    read_bounded,
    replace,
    replace_all,
    sync_dir,
    unstamped,
)
from interlock.transparency.merkle import HASH_SIZE, leaf_hash
from interlock.transparency.places import Places
from interlock.transparency.tiles import Tile

__all__ = ["JOURNAL", "PUBLIC", "SIGNED", "DirectoryStorage", "LogStorage", "journal_of", "open_storage"]

PUBLIC: Final = "public"
SIGNED: Final = "signed"
JOURNAL: Final = "journal"
SEGMENT: Final = 2 << 20  # bytes; what a start may have to read
SEGMENT_ENTRIES: Final = 8192
_PLACES: Final = "places.sqlite"
_FORMAT: Final = "interlock-log-journal"
_VERSION: Final = 2
_MAX_HEADER: Final = 1024


class LogStorage(Protocol):
    """Durable storage of one log, held by one writer."""

    @property
    def places(self) -> Places: ...

    def scan(self, size: int, visit: Callable[[int, bytes], None]) -> int:
        """Show the journal's whole entries with their indices, from `size` or a little before it up to the end.

        Returns how many bytes of a torn record follow them. Raises: BadState, for a journal with a gap.
        """

    def cut(self) -> None:
        """Drop the torn record that the last scan found at the journal's end."""

    def append(self, first: int, entries: Sequence[bytes]) -> None:
        """Add entries, of which `first` is the index; they are on disk when this returns. Raises: NotWritable."""

    def read(self, name: str, limit: int) -> bytes | None:
        """A file's bytes, or None where there is no such file. Raises: BadState."""

    def write(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Put files in place, each whole or not at all; all are durable when this returns. Raises: NotWritable."""

    def put(self, files: Sequence[tuple[str, bytes]]) -> None:
        """As `write`, for what a start makes again: whole or not at all, but a power cut may take it."""

    def sweep(self, tiles: Iterable[Tile]) -> None:
        """Remove what an interrupted `write` may have left beside these tiles."""

    def remove_partials(self, tile: Tile) -> None:
        """Remove the partial forms of a tile that is full now; a crash may leave some, which does no harm."""


class DirectoryStorage:
    """A LogStorage over a directory; made by `open_storage`, which holds the lock."""

    def __init__(self, root: Path, *, segment: int = SEGMENT) -> None:
        self.root = root
        self._folder = root / JOURNAL
        if self._folder.is_file():
            raise BadState("is a journal of an early interlock", where=str(self._folder), fix="start a new log")
        self._segment = segment
        self._dirs: set[Path] = set()
        for folder in (root / PUBLIC, self._folder):
            private_dir(folder)
        for folder in (root, root / PUBLIC, self._folder):
            _sweep(folder)
        self._last = self._folder  # the newest file of the journal, once it was scanned
        self._first = 0  # its first entry
        self._good = 0  # its bytes up to the end of the last whole record
        self._file: AppendFile | None = None
        try:
            self.places = Places(root / _PLACES)
        except BadState as e:
            raise BadState(e.what, where=e.where, fix="remove it; it is made again") from None

    def close(self) -> None:
        self.places.close()
        if self._file is not None:
            self._file.close()
            self._file = None

    def scan(self, size: int, visit: Callable[[int, bytes], None]) -> int:
        """Raises: BadState, NewerFormat, also for a file whose first line is not ours."""
        starts = _starts(self._folder)
        if not starts and size == 0:
            self._begin(0)
            return 0
        older = [start for start in starts if start <= size]
        if not older:
            raise BadState(f"holds no entry {size}", where=str(self._folder), fix="restore it from a backup")
        torn = 0
        for path, index, read in _files(self._folder, starts[len(older) - 1 :]):
            self._last, self._first, self._good = path, index, read.start
            for entry, length in read.records():
                visit(index, entry)
                index += 1
                self._good += length
            torn = read.left(self._good)
        self._file = AppendFile(self._last)
        return torn

    def cut(self) -> None:
        """Raises: NotWritable."""
        try:
            with self._last.open("r+b") as f:
                f.truncate(self._good)
                os.fsync(f.fileno())
        except OSError as e:
            raise NotWritable(f"cannot be repaired ({os_reason(e)})", where=str(self._last)) from None

    def append(self, first: int, entries: Sequence[bytes]) -> None:
        if self._good > self._segment or first - self._first >= SEGMENT_ENTRIES:
            self._begin(first)
        if self._file is None:
            raise RuntimeError("this log's storage is closed, or its journal was not scanned")
        data = b"".join(len(e).to_bytes(2, "big") + leaf_hash(e) + e for e in entries)
        self._file.append(data)
        self._good += len(data)

    def read(self, name: str, limit: int) -> bytes | None:
        path = self.root / name
        return read_bounded(path, limit) if path.exists() else None

    def write(self, files: Sequence[tuple[str, bytes]]) -> None:
        replace_all(self._paths(files))

    def put(self, files: Sequence[tuple[str, bytes]]) -> None:
        replace_all(self._paths(files), fsync=False)

    def sweep(self, tiles: Iterable[Tile]) -> None:
        for folder in {(self.root / PUBLIC / tile.path).parent for tile in tiles}:
            if folder.is_dir():
                _sweep(folder)

    def remove_partials(self, tile: Tile) -> None:
        folder = self.root / PUBLIC / f"{tile.full.path}.p"
        with contextlib.suppress(OSError):  # those that stay do no harm
            shutil.rmtree(folder)
        self._dirs.discard(folder)

    def _paths(self, files: Sequence[tuple[str, bytes]]) -> list[tuple[Path, bytes]]:
        paths = [(self.root / name, data) for name, data in files]
        for folder in {path.parent: None for path, _ in paths}:
            self._make(folder)
        return paths

    def _begin(self, first: int) -> None:
        """Go on in a new file of the journal."""
        self._last, header = self._folder / f"{first:020d}", _header(first)
        replace(self._last, header)
        if self._file is not None:
            self._file.close()
        self._file, self._first, self._good = AppendFile(self._last), first, len(header)

    def _make(self, folder: Path) -> None:
        """Make a directory and its parents, durably."""
        if folder in self._dirs:
            return
        if folder != self.root:
            self._make(folder.parent)
        private_dir(folder)
        sync_dir(folder.parent)
        self._dirs.add(folder)


@contextlib.contextmanager
def open_storage(root: Path) -> Iterator[DirectoryStorage]:
    """Hold a log's directory as its one writer.

    Raises: Locked, where another process (or another Log of this one) holds it; NotWritable; BadState.
    """
    private_dir(root)
    with file_lock(root / "lock"):
        storage = DirectoryStorage(root)
        try:
            yield storage
        finally:
            storage.close()


def journal_of(root: Path) -> Iterator[bytes]:
    """Every whole entry of a log's journal, from the first on. Raises: BadState, NewerFormat."""
    for _, _, read in _files(root / JOURNAL, _starts(root / JOURNAL)):
        for entry, _length in read.records():
            yield entry


class _Records:
    """One file of the journal, while it is read; `start` is where its records begin."""

    def __init__(self, f: BinaryIO, start: int) -> None:
        self._f = f
        self.start = start
        self.count = 0

    def records(self) -> Iterator[tuple[bytes, int]]:
        """Each whole record's entry, and how many bytes the record has."""
        while True:
            head = self._f.read(2 + HASH_SIZE)
            if len(head) < 2 + HASH_SIZE:
                return
            size = int.from_bytes(head[:2], "big")
            entry = self._f.read(size)
            if len(entry) < size or leaf_hash(entry) != head[2:]:
                return
            self.count += 1
            yield entry, len(head) + size

    def left(self, good: int) -> int:
        """How many bytes follow the first `good` ones."""
        return self._f.seek(0, os.SEEK_END) - good


def _files(folder: Path, starts: Sequence[int]) -> Iterator[tuple[Path, int, _Records]]:
    """Each file of the journal with the index of its first entry; each begins where the one before it ends."""
    expected = starts[0] if starts else 0
    for start in starts:
        path = folder / f"{start:020d}"
        if start != expected:
            raise BadState(f"does not go on at entry {expected}", where=str(path), fix="restore it from a backup")
        with _opened(path) as f:
            header = f.readline(_MAX_HEADER)
            if unstamped(header, _FORMAT, _VERSION, where=str(path)).get("first") != start or header != _header(start):
                raise BadState("does not begin as its name says", where=str(path), fix="restore it from a backup")
            read = _Records(f, len(header))
            yield path, start, read
            expected = start + read.count


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as e:
        raise BadState(f"cannot be read ({os_reason(e)})", where=str(path), fix="restore it from a backup") from None


def _starts(folder: Path) -> list[int]:
    return sorted(int(p.name) for p in folder.iterdir() if len(p.name) == 20 and p.name.isdigit())


def _header(first: int) -> bytes:
    return json.dumps({"format": _FORMAT, "v": _VERSION, "first": first}).encode("ascii") + b"\n"


def _sweep(folder: Path) -> None:
    """Remove what an interrupted `replace` left behind; the names are those of base.files.replace."""
    for path in folder.glob(".*.tmp"):
        try:
            path.unlink()
        except OSError as e:
            raise BadState(f"cannot be removed ({os_reason(e)})", where=str(path)) from None
