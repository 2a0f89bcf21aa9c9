"""What stands in the log: one RFC 8785 JSON object an entry, in its one spelling.

    {"at": MICROSECONDS, "by": KEY, "name": NAME, "ring": RING, "sha256": HEX, "type": "pack", "v": 1, "version": N}

A log keeps any bytes, so that a later version can log what this one does not know; `parse_entry` gives such an entry
back as UnknownEntry, and whoever decides on an entry asks for `known_entry`, which refuses it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from interlock.base.canonical import NotCanonical, encode, json_object
from interlock.base.codec import Malformed
from interlock.base.text import is_sha256
from interlock.transparency.merkle import MAX_SIZE

__all__ = ["MAX_ENTRY", "TYPES", "LogEntry", "UnknownEntry", "known_entry", "parse_entry"]

MAX_ENTRY: Final = 4096  # bytes of one of our entries; a bundle could hold 65,535
TYPES: Final = frozenset({"pack"})
_VERSION: Final = 1
_FIELDS: Final = frozenset({"v", "type", "name", "version", "ring", "sha256", "by", "at"})
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,126}[a-z0-9])?", re.ASCII)
_BY: Final = re.compile(r"[\x21-\x7e]{1,200}", re.ASCII)


@dataclass(frozen=True)
class LogEntry:
    """Version `version` of a pack was published in a ring, with this SHA-256, by this key, at this time (us)."""

    name: str
    version: int
    ring: str
    sha256: str
    by: str
    at: int
    type: str = "pack"

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise Malformed("log entry is of a type that is not known here")
        texts: tuple[tuple[str, object, re.Pattern[str]], ...] = (
            ("name", self.name, _NAME),
            ("ring", self.ring, _NAME),
            ("by", self.by, _BY),
        )
        for what, value, shape in texts:
            if not isinstance(value, str) or not shape.fullmatch(value):
                raise Malformed(f"log entry has a field {what!r} of the wrong form")
        if not is_sha256(self.sha256):
            raise Malformed("log entry has a field 'sha256' of the wrong form")
        for what, number, least in (("version", self.version, 1), ("at", self.at, 0)):
            if type(number) is not int or not least <= number <= MAX_SIZE:
                raise Malformed(f"log entry has a field {what!r} of the wrong form")

    @property
    def data(self) -> bytes:
        """The entry's bytes. The inverse of `parse_entry`."""
        return encode(
            {
                "v": _VERSION,
                "type": self.type,
                "name": self.name,
                "version": self.version,
                "ring": self.ring,
                "sha256": self.sha256,
                "by": self.by,
                "at": self.at,
            }
        )


@dataclass(frozen=True)
class UnknownEntry:
    """An entry of a version or type that is not known here: kept as it is, never trusted."""

    data: bytes


def parse_entry(data: bytes) -> LogEntry | UnknownEntry:
    """Read an entry; bytes that are no entry of a known version and type are an UnknownEntry.

    Raises: Malformed, for one that says it is of a known version and type and breaks that form.
    """
    try:
        body = json_object(data, "log entry")
    except NotCanonical:
        return UnknownEntry(data)
    v, kind = body.get("v"), body.get("type")
    if type(v) is not int or v != _VERSION or not isinstance(kind, str) or kind not in TYPES:
        return UnknownEntry(data)
    if set(body) != _FIELDS:
        raise Malformed(f"log entry has not the fields {', '.join(sorted(_FIELDS))}")
    fields = {k: v for k, v in body.items() if k != "v"}
    entry = LogEntry(**fields)  # type: ignore[arg-type]  # each field's type is checked by LogEntry itself
    if len(data) > MAX_ENTRY or entry.data != data:
        raise Malformed("log entry is not in its one spelling (RFC 8785)")
    return entry


def known_entry(data: bytes) -> LogEntry:
    """Read an entry that is to be relied on. Raises: Malformed, also for an unknown version or type."""
    entry = parse_entry(data)
    if isinstance(entry, UnknownEntry):
        raise Malformed("log entry is of a version or type that is not known here", fix="upgrade interlock")
    return entry
