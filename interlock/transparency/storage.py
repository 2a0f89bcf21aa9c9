"""Where a log keeps what it has: a journal of entries that only grows, and named files that change whole.

    LogStorage          what Log asks for: scan, cut, append; read, write, remove_partials
    DirectoryStorage    ROOT/lock        held by the one writer
                        ROOT/journal     every entry, in order: the one truth from which the rest can be made again
                        ROOT/signed      the newest checkpoint that the log has signed
                        ROOT/public/     what is served: checkpoint, tile/...

The journal begins with one line of JSON (format and version). Each record is the entry's length (2 bytes), its leaf
hash (32 bytes) and the entry; a record that is cut short or does not hash to its leaf ends the journal there.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
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
    sync_dir,
    unstamped,
)
from interlock.transparency.merkle import HASH_SIZE, leaf_hash
from interlock.transparency.tiles import Tile

__all__ = ["PUBLIC", "SIGNED", "DirectoryStorage", "LogStorage", "open_storage"]

PUBLIC: Final = "public"
SIGNED: Final = "signed"
_FORMAT: Final = "interlock-log-journal"
_VERSION: Final = 1
_HEADER: Final = json.dumps({"format": _FORMAT, "v": _VERSION}).encode("ascii") + b"\n"
_MAX_HEADER: Final = 1024


class LogStorage(Protocol):
    """Durable storage of one log, held by one writer."""

    def scan(self, visit: Callable[[bytes], None]) -> int:
        """Show every whole entry of the journal, in order; returns how many bytes of a torn record follow them."""

    def cut(self) -> None:
        """Drop the torn record that the last scan found at the journal's end."""

    def append(self, entries: Sequence[bytes]) -> None:
        """Add entries to the journal; they are on disk when this returns. Raises: NotWritable."""

    def read(self, name: str, limit: int) -> bytes | None:
        """A file's bytes, or None where there is no such file. Raises: BadState."""

    def write(self, name: str, data: bytes) -> None:
        """Put a file in place, whole or not at all, durably. Raises: NotWritable."""

    def remove_partials(self, tile: Tile) -> None:
        """Remove the partial forms of a tile that is full now; a crash may leave some, which does no harm."""


class DirectoryStorage:
    """A LogStorage over a directory; made by `open_storage`, which holds the lock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._journal = root / "journal"
        self._good = 0
        self._dirs: set[Path] = set()
        private_dir(root / PUBLIC)
        _sweep(root)
        if not self._journal.exists():
            replace(self._journal, _HEADER)
        self._file: AppendFile | None = AppendFile(self._journal)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def scan(self, visit: Callable[[bytes], None]) -> int:
        """Raises: BadState, NewerFormat, for a journal whose first line is not ours."""
        with self._journal.open("rb") as f:
            header = f.readline(_MAX_HEADER)
            unstamped(header, _FORMAT, _VERSION, where=str(self._journal))
            self._good = len(header)
            for entry, size in _records(f):
                visit(entry)
                self._good += size
            return f.seek(0, os.SEEK_END) - self._good

    def cut(self) -> None:
        """Raises: NotWritable."""
        try:
            with self._journal.open("r+b") as f:
                f.truncate(self._good)
                os.fsync(f.fileno())
        except OSError as e:
            raise NotWritable(f"cannot be repaired ({os_reason(e)})", where=str(self._journal)) from None

    def append(self, entries: Sequence[bytes]) -> None:
        if self._file is None:
            raise RuntimeError("this log's storage is closed")
        self._file.append(b"".join(len(e).to_bytes(2, "big") + leaf_hash(e) + e for e in entries))

    def read(self, name: str, limit: int) -> bytes | None:
        path = self.root / name
        return read_bounded(path, limit) if path.exists() else None

    def write(self, name: str, data: bytes) -> None:
        path = self.root / name
        self._make(path.parent)
        replace(path, data)

    def remove_partials(self, tile: Tile) -> None:
        folder = self.root / PUBLIC / f"{tile.full.path}.p"
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)
        self._dirs.discard(folder)

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

    Raises: Locked, where another process (or another Log of this one) holds it; NotWritable.
    """
    private_dir(root)
    with file_lock(root / "lock"):
        storage = DirectoryStorage(root)
        try:
            yield storage
        finally:
            storage.close()


def _records(f: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Each whole record's entry, and how many bytes the record has."""
    while True:
        head = f.read(2 + HASH_SIZE)
        if len(head) < 2 + HASH_SIZE:
            return
        size = int.from_bytes(head[:2], "big")
        entry = f.read(size)
        if len(entry) < size or leaf_hash(entry) != head[2:]:
            return
        yield entry, len(head) + size


def _sweep(root: Path) -> None:
    """Remove what an interrupted `replace` left behind; the names are those of base.files.replace."""
    for path in root.rglob(".*.tmp"):
        try:
            path.unlink()
        except OSError as e:
            raise BadState(f"cannot be removed ({os_reason(e)})", where=str(path)) from None
