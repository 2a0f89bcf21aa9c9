"""What the last update said, in HOME/status.json, sealed with a key of this node: `status` and `doctor` go by it.

    {"format": "interlock-status", "v": 2, "at": MICROSECONDS, "ok": true, "tree_size": N, "timestamp_version": N,
     "held": {"PACK@RING": WHY}, "seal": HEX}

or, after a refusal, `ok` false and `trouble` with its code and line; what is held back is then what the last good
update knew. The seal is an HMAC under HOME/status.key (0600): a file that somebody else wrote, or
that was put back from another day's copy of another node, is told from one that this node wrote.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import os
from pathlib import Path
from typing import Final

from interlock.base.canonical import NotCanonical, encode, json_object
from interlock.base.clock import MICROSECONDS
from interlock.base.errors import InterlockError
from interlock.base.files import BadState, NewerFormat, read_bounded, read_private, replace, stamped, unstamped
from interlock.commons.holders import Circle, read_root, targets_of
from interlock.commons.live import STATUS
from interlock.commons.updater import trusted_files

__all__ = ["read_status", "role_ends", "say_trouble", "say_update", "targets_held"]

_FORMAT: Final = "interlock-status"
_KEY_FORMAT: Final = "interlock-status-key"
_KEY: Final = "status.key"
_VERSION: Final = 2
_LIMIT: Final = 1 << 20
_KEPT: Final = ("held",)  # what a refused update does not make unknown


def read_status(home: Path) -> dict[str, object]:
    """What the last update said; {} before the first. Raises: BadState, also for a seal not of this node."""
    path = home / STATUS
    if not path.exists():
        return {}
    body = unstamped(read_bounded(path, _LIMIT), _FORMAT, _VERSION, where=str(path))
    seal = body.pop("seal", None)
    if not isinstance(seal, str) or not hmac.compare_digest(_seal(home, body), seal):
        raise BadState("was not written by this node", where=str(path), fix="run interlock mesh update")
    return body


def role_ends(home: Path) -> dict[str, int]:
    """When the signatures of each role that this node holds end, in microseconds. Raises: BadState."""
    held = trusted_files(home / "tuf")
    return {name.removesuffix(".json"): _ends(held[name], f"tuf: {name}") for name in sorted(held)}


def targets_held(home: Path, pinned: bytes) -> Circle | None:
    """Who holds the keys of targets, by the newest root that this node trusts; None where it is one key alone.

    Raises: BadState, CeremonyRefused.
    """
    return targets_of(read_root(trusted_files(home / "tuf").get("root.json", pinned), "root").signed)


def _ends(data: bytes, where: str) -> int:
    try:
        signed = json_object(data, where).get("signed")
        ends = signed.get("expires") if isinstance(signed, dict) else None
        return round(datetime.datetime.fromisoformat(str(ends)).timestamp()) * MICROSECONDS
    except (NotCanonical, ValueError):
        raise BadState("is no metadata", where=where, fix="run interlock mesh update") from None


def say_update(home: Path, now_us: int, body: dict[str, object]) -> None:
    """Keep what a good update found. Raises: NotWritable."""
    _say(home, {"at": now_us, "ok": True, **body})


def say_trouble(home: Path, now_us: int, trouble: InterlockError) -> None:
    """Keep why an update was refused. Raises: NotWritable."""
    try:
        before = {key: value for key, value in read_status(home).items() if key in _KEPT}
    except (BadState, NewerFormat):
        before = {}
    said = {"code": trouble.code, "line": str(trouble)}
    _say(home, {"at": now_us, "ok": False, "trouble": said, **before})


def _say(home: Path, body: dict[str, object]) -> None:
    path = home / _KEY
    if not path.exists():
        replace(path, stamped(_KEY_FORMAT, 1, {"key": os.urandom(32).hex()}))
    sealed = {**body, "seal": _seal(home, {**body, "v": _VERSION})}
    replace(home / STATUS, stamped(_FORMAT, _VERSION, sealed))


def _seal(home: Path, body: dict[str, object]) -> str:
    path = home / _KEY
    key = unstamped(read_private(path, 4096), _KEY_FORMAT, 1, where=str(path)).get("key")
    if not isinstance(key, str):
        raise BadState("holds no key", where=str(path), fix="remove it, and run interlock mesh update")
    return hmac.new(key.encode("ascii", "replace"), encode(body), hashlib.sha256).hexdigest()
