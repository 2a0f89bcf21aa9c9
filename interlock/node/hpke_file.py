"""An aggregator's HPKE keys in its folder: made where there are none, and replaced while the role is at work.

keys = HpkeKeyFile(directory / "hpke.json")
KeyRing(read=keys)                          # reads the file again once it was replaced
keys.rotate(now_us, overlap_us, os.urandom, P256)  # by another process: a command
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from interlock.base.errors import BadInput, InterlockError
from interlock.base.files import BadState, read_private, replace
from interlock.base.primitives import Rng
from interlock.dap.hpke import Kem
from interlock.dap.shares import HpkeKey, rotated
from interlock.dap.taskfile import dump_keys, load_keys

__all__ = ["HpkeKeyFile"]

_LIMIT: Final = 1 << 20
_log = logging.getLogger(__name__)


class HpkeKeyFile:
    """The keys in a file; a call gives those of now, the one to seal to first."""

    def __init__(self, path: Path) -> None:
        """Raises: BadState, NewerFormat, for a file that is missing, damaged, or that others may read."""
        self._path = path
        self._seen = self._stamp()
        self._keys = self._load()

    def __call__(self) -> Sequence[HpkeKey]:
        """A file that is damaged once the role is at work is told of, and the keys that were read before go on."""
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            try:
                self._keys = self._load()
            except InterlockError as e:
                _log.error("the keys that were read before are used on: %s", e)
        return self._keys

    def rotate(self, now_us: int, overlap_us: int, rng: Rng, kem: Kem) -> Sequence[HpkeKey]:
        """Put a fresh key before the others. Raises: NotWritable, BadInput (256 keys that still open)."""
        try:
            keys = rotated(self._load(), now_us, overlap_us, rng, kem)
        except ValueError as e:
            raise BadInput(str(e), where=str(self._path), fix="let some of them run out first") from None
        replace(self._path, dump_keys(keys))
        return keys

    def _load(self) -> list[HpkeKey]:
        return load_keys(read_private(self._path, _LIMIT), where=str(self._path))

    def _stamp(self) -> tuple[int, int, int]:
        try:
            found = self._path.stat()
        except OSError:
            raise BadState("is missing", where=str(self._path), fix="make it with interlock mesh setup") from None
        return found.st_ino, found.st_mtime_ns, found.st_size
