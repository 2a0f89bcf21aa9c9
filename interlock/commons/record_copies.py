"""The records that a mirror brings: what the log's entries name and no metadata does.

Anyone who may append can name bytes that are nowhere, so a record that is not served holds nothing up: it stands in a
file of the mirror's and is asked for again at each copy, for ASKED_FOR_US. Whether it should be there is what a monitor
tells.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from interlock.base.clock import MICROSECONDS
from interlock.base.codec import Malformed
from interlock.base.fetch import Fetcher, NotFound, TooLarge
from interlock.base.files import BadState, read_bounded, replace, stamped, unstamped
from interlock.base.text import is_sha256
from interlock.commons.layout import record_files
from interlock.commons.pack import sha256_hex
from interlock.commons.served import MAX_SERVED, RECORDS
from interlock.transparency.entry import MAX_ENTRY, LogEntry, parse_entry
from interlock.transparency.proof import MAX_PROOF_FILE

__all__ = ["ASKED_FOR_US", "RecordCopies"]

ASKED_FOR_US: Final = 7 * 86_400 * MICROSECONDS
_FORMAT: Final = "interlock-records-wanted"
_LIMIT: Final = 16 << 20  # bytes
Put = Callable[[str, bytes], None]


class RecordCopies:
    """Which records are still wanted (SHA-256 -> since when), kept in a file. Raises: BadState, NewerFormat."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._wanted = _read(file)

    def want(self, entries: Iterable[bytes], now_us: int) -> None:
        """Take note of the records that entries name."""
        for data in entries:
            with contextlib.suppress(Malformed):  # a log keeps any bytes
                entry = parse_entry(data)
                if isinstance(entry, LogEntry) and entry.type in RECORDS:
                    self._wanted.setdefault(entry.sha256, now_us)

    def copy(self, fetcher: Fetcher, holds: Callable[[str], bool], put: Put, now_us: int) -> int:
        """Bring what is served by now, each with its entry and proof; returns how many are new.

        Raises: Unreachable, NotWritable.
        """
        new = 0
        for sha256, since in sorted(self._wanted.items()):
            if holds(record_files(sha256)[0]) or self._brought(sha256, fetcher, put):
                new += 1
            elif now_us - since <= ASKED_FOR_US:
                continue
            del self._wanted[sha256]
        replace(self._file, stamped(_FORMAT, 1, {"wanted": dict(sorted(self._wanted.items()))}))
        return new

    def _brought(self, sha256: str, fetcher: Fetcher, put: Put) -> bool:
        """Whether a record was served and put; the files beside it come first, as it is what a reader looks for."""
        record, *beside = record_files(sha256)
        limits = (MAX_ENTRY, MAX_PROOF_FILE)
        try:
            data = fetcher.fetch(record, max_length=MAX_SERVED)
            if sha256_hex(data) != sha256:
                return False
            files = {name: fetcher.fetch(name, max_length=most) for name, most in zip(beside, limits, strict=True)}
        except (NotFound, TooLarge):
            return False
        for name, content in {**files, record: data}.items():
            put(name, content)
        return True


def _read(file: Path) -> dict[str, int]:
    if not file.exists():
        return {}
    wanted = unstamped(read_bounded(file, _LIMIT), _FORMAT, 1, where=str(file)).get("wanted")
    if not isinstance(wanted, dict) or not all(is_sha256(k) and type(v) is int for k, v in wanted.items()):
        raise BadState("is damaged", where=str(file), fix="delete it: the mirror then asks anew for what is missing")
    return wanted
