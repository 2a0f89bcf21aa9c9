"""Log entries for tests: of a pack in the stable ring, signed with a key that is the same at each run."""

from __future__ import annotations

from interlock.base.keys import Ed25519Signer
from interlock.transparency.entry import LogEntry, signed_entry

__all__ = ["pack_entry"]


def pack_entry(name: str, version: int, sha256: str, *, at: int) -> LogEntry:
    signer = Ed25519Signer(b"\x42" * 32)
    return signed_entry(signer, type="pack", name=name, version=version, ring="stable", sha256=sha256, at=at)
