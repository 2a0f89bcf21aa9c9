"""An aggregator's HPKE keys in its folder: made where there are none, and replaced while the role is at work.

keys = HpkeKeyFile(directory / "hpke.json")
KeyRing(read=keys)                          # reads the file again once it was replaced
keys.rotate(now_us, overlap_us, os.urandom, P256)  # by another process: a command
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from interlock.base.errors import BadInput
from interlock.base.files import BadState, read_private, replace
from interlock.base.primitives import Rng
from interlock.dap.hpke import Kem
from interlock.dap.shares import HpkeKey, rotated
from interlock.dap.taskfile import dump_keys, load_keys
from interlock.node.reread import Reread

__all__ = ["HpkeKeyFile"]

_LIMIT: Final = 1 << 20


class HpkeKeyFile(Reread[Sequence[HpkeKey]]):
    """The keys in a file, the one to seal to first."""

    def __init__(self, path: Path) -> None:
        """Raises: BadState, NewerFormat, for a file that is missing, damaged, or that others may read."""
        super().__init__(path, _keys_in)

    def rotate(self, now_us: int, overlap_us: int, rng: Rng, kem: Kem) -> Sequence[HpkeKey]:
        """Put a fresh key before the others. Raises: NotWritable, BadInput (256 keys that still open)."""
        try:
            keys = rotated(_keys_in(self._path), now_us, overlap_us, rng, kem)
        except ValueError as e:
            raise BadInput(str(e), where=str(self._path), fix="let some of them run out first") from None
        replace(self._path, dump_keys(keys))
        return keys


def _keys_in(path: Path) -> list[HpkeKey]:
    if not path.exists():
        raise BadState("is missing", where=str(path), fix="make it with interlock mesh setup")
    return load_keys(read_private(path, _LIMIT), where=str(path))
