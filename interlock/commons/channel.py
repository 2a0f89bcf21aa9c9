"""The channel index: which pack has which version in a ring. TUF has no listing, so the ring signs one.

{"format": "interlock-channel", "v": 1, "ring": "stable", "packs": {"coding-agent": {"version": 3, "sha256": HEX}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.base import canonical
from interlock.base.canonical import NotCanonical
from interlock.base.codec import Malformed
from interlock.base.text import is_sha256

__all__ = ["Channel", "dump_channel", "parse_channel"]

_FORMAT: Final = "interlock-channel"

Channel = dict[str, tuple[int, str]]  # pack -> (version, hex SHA-256 of its bytes)


def dump_channel(ring: str, packs: Mapping[str, tuple[int, str]]) -> bytes:
    """An index's bytes. The inverse of `parse_channel`."""
    rows = {name: {"version": version, "sha256": sha256} for name, (version, sha256) in packs.items()}
    return canonical.encode({"format": _FORMAT, "v": 1, "ring": ring, "packs": rows})


def parse_channel(data: bytes, ring: str, *, where: str) -> Channel:
    """Read the index of a ring. Raises: Malformed; also for that of another ring."""
    try:
        body = canonical.json_object(data, where)
    except NotCanonical as e:
        raise Malformed(e.what, where=where) from None
    packs = body.get("packs")
    if (body.get("format"), body.get("v"), body.get("ring")) != (_FORMAT, 1, ring) or not isinstance(packs, dict):
        raise Malformed(f"is not the channel index of ring {ring}, version 1", where=where)
    return {name: _row(row, where) for name, row in packs.items()}


def _row(row: object, where: str) -> tuple[int, str]:
    if isinstance(row, dict) and set(row) == {"version", "sha256"}:
        version, sha256 = row["version"], row["sha256"]
        if type(version) is int and version >= 1 and is_sha256(sha256):
            return version, sha256
    raise Malformed("names a pack without version and sha256", where=where)
