"""Where the bytes behind a log entry are served: what a monitor fetches, and a mirror copies.

pack, task, operators                  a TUF target, its digest in its name
snapshot                               metadata/N.snapshot.json
gate, review, promote, revoke, root    records/SHA256.json, a plain file that the log alone vouches for
"""

from __future__ import annotations

from typing import Final

from interlock.commons.layout import pack_path, record_files, snapshot_path, task_path

__all__ = ["MAX_SERVED", "RECORDS", "served_path"]

MAX_SERVED: Final = 4 << 20  # bytes of anything that an entry names
RECORDS: Final = frozenset({"gate", "review", "promote", "revoke", "root"})  # types whose bytes are records


def served_path(type: str, name: str, version: int, ring: str, sha256: str) -> str:
    """The path, below a mirror's address, of the bytes that an entry of a known type names."""
    if type in RECORDS:
        return record_files(sha256)[0]
    if type == "snapshot":
        return snapshot_path(version)
    named = {"pack": pack_path(ring, name, version), "task": task_path(ring, name, version)}
    target = named.get(type, f"{name}.json")
    directory, _, file = target.rpartition("/")
    return "/".join(part for part in ("targets", directory, f"{sha256}.{file}") if part)
