"""Which overlays a person has trusted: a file of ours that holds the SHA-256 of each one's content.

    {"format": "interlock-trusted-overlays", "v": 1, "overlays": [{"sha256": HEX, "name": PATH, "at_us": TIME}]}

The path is there for people; only the content counts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from interlock.base.files import BadState, file_lock, private_dir, read_bounded, replace, stamped, unstamped

__all__ = ["TRUST_FILE", "TrustedOverlays", "content_digest"]

TRUST_FILE: Final = "trusted-overlays.json"  # in the state directory
_FORMAT: Final = "interlock-trusted-overlays"
_VERSION: Final = 1
_LIMIT: Final = 1 << 20
_Row: TypeAlias = tuple[str, str, int]  # SHA-256, the path that it had, when it was trusted
_HEX: Final = re.compile("[0-9a-f]{64}")


def content_digest(data: bytes) -> str:
    """The hex SHA-256 by which an overlay is trusted."""
    return hashlib.sha256(data).hexdigest()


class TrustedOverlays:
    """The overlays trusted on this machine. Raises, when read: BadState, NewerFormat."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def rows(self) -> tuple[_Row, ...]:
        """Each as (SHA-256, the path that it had, when it was trusted)."""
        if not self.path.exists():
            return ()
        body = unstamped(read_bounded(self.path, _LIMIT), _FORMAT, _VERSION, where=str(self.path))
        rows = body.get("overlays")
        if not isinstance(rows, list):
            raise BadState("holds no list of overlays", where=str(self.path), fix="remove it, and trust them again")
        return tuple(_row(row, self.path) for row in rows)

    def holds(self, sha256: str) -> bool:
        """Whether an overlay of this content is trusted."""
        return any(sha256 == known for known, _, _ in self.rows())

    def add(self, sha256: str, name: str, now_us: int) -> None:
        """Trust a content from now on; what the same file held before is trusted no more."""
        self._write(lambda rows: [*(r for r in rows if sha256 != r[0] and name != r[1]), (sha256, name, now_us)])

    def remove(self, name: str) -> bool:
        """Trust no content any more that came from this path; false where none did."""
        known = any(name == held for _, held, _ in self.rows())
        self._write(lambda rows: [row for row in rows if row[1] != name])
        return known

    def _write(self, change: Callable[[tuple[_Row, ...]], list[_Row]]) -> None:
        private_dir(self.path.parent)
        with file_lock(self.path.with_suffix(".lock"), wait=True):
            rows = change(self.rows())
            body: dict[str, object] = {
                "overlays": [{"sha256": sha256, "name": name, "at_us": at} for sha256, name, at in rows]
            }
            replace(self.path, stamped(_FORMAT, _VERSION, body))


def _row(row: object, path: Path) -> _Row:
    sha256, name, at = (row.get(k) for k in ("sha256", "name", "at_us")) if isinstance(row, dict) else (None,) * 3
    if not (isinstance(sha256, str) and isinstance(name, str) and isinstance(at, int) and _HEX.fullmatch(sha256)):
        raise BadState("holds what is no trusted overlay", where=str(path), fix="remove it, and trust them again")
    return sha256, name, at
