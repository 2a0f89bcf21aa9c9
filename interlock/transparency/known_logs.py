"""The logs that a witness cosigns for: those of its policy file, and those that its operator added since.

What was added stands in a file of its own and is read again when that changes, so a running witness learns of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from interlock.base.codec import Malformed
from interlock.base.errors import BadInput
from interlock.base.files import BadState, read_bounded, replace, seen_state, stamped, unstamped
from interlock.transparency.checkpoint import log_verifier
from interlock.transparency.note import VerifierKey, parse_vkey

__all__ = ["ADDED_LOGS", "KnownLogs", "added_logs", "put_logs"]

ADDED_LOGS: Final = "logs.json"  # in a witness's folder
_FORMAT: Final = "interlock-witness-logs"
_MOST: Final = 4096  # keys
_LIMIT: Final = 16 << 20  # bytes


class KnownLogs(Mapping[str, Sequence[VerifierKey]]):
    """Origin -> the keys that may sign for it; `pinned` are always among them. Raises: BadState, NewerFormat."""

    def __init__(self, pinned: Sequence[VerifierKey], path: Path) -> None:
        self._pinned = pinned
        self._path = path
        self._seen: object = self
        self._logs: dict[str, list[VerifierKey]] = {}

    def __getitem__(self, origin: str) -> Sequence[VerifierKey]:
        return self._now()[origin]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    def _now(self) -> Mapping[str, Sequence[VerifierKey]]:
        seen = seen_state(self._path)
        if seen != self._seen:
            logs: dict[str, list[VerifierKey]] = {}
            for key in dict.fromkeys((*self._pinned, *added_logs(self._path))):
                logs.setdefault(key.name, []).append(key)
            self._logs, self._seen = logs, seen
        return self._logs


def added_logs(path: Path) -> list[VerifierKey]:
    """The keys that were added; none where there is no file. Raises: BadState, NewerFormat."""
    if not path.exists():
        return []
    keys = unstamped(read_bounded(path, _LIMIT), _FORMAT, 1, where=str(path)).get("logs")
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise BadState("holds no list of keys", where=str(path))
    try:
        return [_demanded(str(key)) for key in keys]
    except Malformed as e:
        raise BadState(e.what, where=str(path)) from None


def put_logs(path: Path, vkeys: Sequence[str], *, remove: bool = False) -> list[VerifierKey]:
    """Add keys, or remove them; returns those that stand in the file now. Raises: BadInput, BadState, NotWritable."""
    keys = added_logs(path)
    for vkey in vkeys:
        try:
            key = _demanded(vkey)
        except Malformed as e:
            raise BadInput(e.what, where=vkey[:80], fix="give the vkey from the log's line in its policy") from None
        if remove and key not in keys:
            raise BadInput("was not added here", where=key.name)
        keys = [k for k in keys if k != key] if remove else [*(k for k in keys if k != key), key]
    if len(keys) > _MOST:
        raise BadInput(f"would be more than {_MOST} keys", where=str(path))
    if vkeys:
        replace(path, stamped(_FORMAT, 1, {"logs": [key.text for key in keys]}))
    return keys


def _demanded(vkey: str) -> VerifierKey:
    key = parse_vkey(vkey)
    log_verifier(key)
    return key
