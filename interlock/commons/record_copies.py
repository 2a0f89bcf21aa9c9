"""The records that a mirror brings: what the log's entries name and no metadata does.

Anyone who may append can name bytes that are nowhere, so a record that is not served holds nothing up: it stands in a
file of the mirror's and is asked for again at each copy, for ASKED_FOR_US; of many that are missing, some at each copy
in turn. Whether it should be there is what a monitor tells. A record is put with its entry and the entry's proof, once
all three fit together.
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Final

from interlock.base.clock import DAY_US
from interlock.base.codec import Malformed
from interlock.base.fetch import Fetcher, NotFound, TooLarge
from interlock.base.files import BadState, read_bounded, replace, stamped, unstamped
from interlock.base.primitives import BadSignature
from interlock.base.text import is_sha256
from interlock.commons.layout import record_files
from interlock.commons.pack import sha256_hex
from interlock.commons.served import MAX_SERVED, RECORDS
from interlock.transparency.entry import MAX_ENTRY, LogEntry, known_entry, parse_entry
from interlock.transparency.merkle import BadProof
from interlock.transparency.policy import TlogPolicy, UnknownLog
from interlock.transparency.proof import MAX_PROOF_FILE, parse_proof

__all__ = ["ASKED_FOR_US", "RecordCopies"]

MISSING_MOST: Final = 1000  # records that a copy may ask for in vain
WANTED_MOST: Final = 100_000
ASKED_FOR_US: Final = 7 * DAY_US
_FORMAT: Final = "interlock-records-wanted"
_LIMIT: Final = 16 << 20  # bytes
Put = Callable[[str, bytes], None]


class RecordCopies:
    """Which records are still wanted (SHA-256 -> since when), kept in a file. Raises: BadState, NewerFormat.

    Where the file is missing (`begun` is false), every entry has to be shown once more.
    """

    def __init__(self, file: Path, policy: TlogPolicy) -> None:
        self._file = file
        self.begun = file.exists()
        self._policy = policy
        self._wanted, self._next = _read(file)

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
        new, missing = 0, set[str]()
        for sha256 in self._in_turn():
            if len(missing) == MISSING_MOST:
                self._next = sha256
                break
            if holds(record_files(sha256)[0]) or self._brought(sha256, fetcher, put):
                new += 1
                del self._wanted[sha256]
                continue
            missing.add(sha256)
            if now_us - self._wanted[sha256] > ASKED_FOR_US:
                del self._wanted[sha256]
        self._keep(missing)
        return new

    def _in_turn(self) -> list[str]:
        """What is wanted, from where the last copy left off."""
        wanted = sorted(self._wanted)
        at = bisect.bisect_left(wanted, self._next)
        return wanted[at:] + wanted[:at]

    def _keep(self, missing: Collection[str]) -> None:
        """Write the list; of one that is too long, what is missing goes first, and then what is oldest.

        Raises: NotWritable.
        """
        last = sorted(self._wanted.items(), key=lambda row: (row[0] not in missing, row[1]))[-WANTED_MOST:]
        replace(self._file, stamped(_FORMAT, 1, {"wanted": dict(sorted(last)), "next": self._next}))

    def _brought(self, sha256: str, fetcher: Fetcher, put: Put) -> bool:
        """Whether a record was served and put; the files beside it come first, as it is what a reader looks for."""
        record, *beside = record_files(sha256)
        limits = (MAX_ENTRY, MAX_PROOF_FILE)
        try:
            data = fetcher.fetch(record, max_length=MAX_SERVED)
            if sha256_hex(data) != sha256:
                return False
            entry, proof = (fetcher.fetch(name, max_length=most) for name, most in zip(beside, limits, strict=True))
            self._demand_entry(entry, proof, sha256)
        except (NotFound, TooLarge, Malformed, UnknownLog, BadSignature, BadProof):
            return False
        for name, content in zip((*beside, record), (entry, proof, data), strict=True):
            put(name, content)
        return True

    def _demand_entry(self, entry: bytes, proof: bytes, sha256: str) -> None:
        """Whose cosignatures count may have changed since, so the log's signature is what is asked for here.

        Raises: Malformed, UnknownLog, BadSignature, BadProof.
        """
        if known_entry(entry).sha256 != sha256:
            raise Malformed("log entry names other bytes")
        parsed = parse_proof(proof)
        parsed.verify_inclusion(entry, self._policy.opened(parsed.note).checkpoint)


def _read(file: Path) -> tuple[dict[str, int], str]:
    if not file.exists():
        return {}, ""
    body = unstamped(read_bounded(file, _LIMIT), _FORMAT, 1, where=str(file))
    wanted, next_ = body.get("wanted"), body.get("next", "")
    whole = isinstance(wanted, dict) and all(is_sha256(k) and type(v) is int for k, v in wanted.items())
    if not whole or not isinstance(wanted, dict) or not isinstance(next_, str):
        raise BadState("is damaged", where=str(file), fix="delete it: the mirror then asks anew for what is missing")
    return wanted, next_
