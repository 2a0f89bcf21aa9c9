"""What stands in the log: one RFC 8785 JSON object an entry, in its one spelling.

    {"at": MICROSECONDS, "by": KEY, "name": NAME, "ring": RING, "sha256": HEX, "sig": BASE64, "type": TYPE, "v": 2,
     "version": N}

`sha256` names bytes that anyone can fetch from the commons, so that a monitor can hold each entry against them:

    pack       a pack, published in a ring            gate       a record: what the gate found of a pack
    task       a task's catalog, or its DAP task;     review     a record: a reviewer's word on a pack
               an epoch's member keys, or their count promote    a record: a pack goes to a ring, and on what evidence
    operators  the list of operators                  revoke     a record: a pack or rules of it are taken back
    snapshot   a TUF snapshot, so that two of them    root       a record: the transcript of a root ceremony
               cannot be split between victims

`sig` is the signature of the key `by` over all other fields; whether that key may say this is for the reader to know.
A log keeps any bytes, so that a later version can log what this one does not know; `parse_entry` gives such an entry
back as UnknownEntry, and whoever decides on an entry asks for `known_entry`, which refuses it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from interlock.base.canonical import NotCanonical, encode, json_object
from interlock.base.codec import Malformed
from interlock.base.keys import Ed25519Signer, Ed25519Verifier
from interlock.base.text import b64, is_sha256, unb64
from interlock.transparency.merkle import MAX_SIZE

__all__ = [
    "MAX_ENTRY",
    "TYPES",
    "LogEntry",
    "UnknownEntry",
    "demand_form",
    "known_entry",
    "parse_entry",
    "signed_entry",
]

MAX_ENTRY: Final = 4096  # bytes of one of our entries; a bundle could hold 65,535
TYPES: Final = frozenset({"pack", "gate", "review", "promote", "revoke", "snapshot", "root", "task", "operators"})
_VERSION: Final = 2
_DOMAIN: Final = b"interlock/log-entry/v2\n"  # what the key `by` signs begins with this
_SIGNED: Final = frozenset({"v", "type", "name", "version", "ring", "sha256", "by", "at"})
_FIELDS: Final = _SIGNED | {"sig"}
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,126}[a-z0-9])?", re.ASCII)
_BY: Final = re.compile(r"ed25519:[0-9a-f]{64}", re.ASCII)
_SIGNATURE: Final = 64  # bytes
_WRITTEN: Final = re.compile(
    rf'\{{"at":(0|[1-9][0-9]{{0,18}}),"by":"{_BY.pattern}","name":"{_NAME.pattern}","ring":"{_NAME.pattern}",'
    rf'"sha256":"[0-9a-f]{{64}}","sig":"[A-Za-z0-9+/]{{85}}[AQgw]==","type":"(?:{"|".join(sorted(TYPES))})",'
    rf'"v":{_VERSION},"version":([1-9][0-9]{{0,18}})\}}'.encode("ascii")
)


@dataclass(frozen=True)
class LogEntry:
    """Version `version` of a thing of this type was published in a ring, with this SHA-256, by this key, at this time.

    `by` is a key's text, `at` are microseconds, `sig` is base64. Made by `signed_entry`.
    """

    type: str
    name: str
    version: int
    ring: str
    sha256: str
    by: str
    at: int
    sig: str

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
        sig: object = self.sig
        if not isinstance(sig, str) or len(unb64(sig, "log entry's signature")) != _SIGNATURE:
            raise Malformed("log entry has a field 'sig' of the wrong form")

    @property
    def data(self) -> bytes:
        """The entry's bytes. The inverse of `parse_entry`."""
        return encode({**self._said(), "sig": self.sig})

    def demand_signed(self) -> None:
        """Check the signature against `by`. Raises: BadSignature, BadKey."""
        verifier = Ed25519Verifier(bytes.fromhex(self.by.removeprefix("ed25519:")))
        verifier.verify(_DOMAIN + encode(self._said()), unb64(self.sig, "log entry's signature"))

    def _said(self) -> dict[str, object]:
        return _body(self.type, self.name, self.version, self.ring, self.sha256, self.by, self.at)


@dataclass(frozen=True)
class UnknownEntry:
    """An entry of a version or type that is not known here: kept as it is, never trusted."""

    data: bytes


def signed_entry(
    signer: Ed25519Signer, *, type: str, name: str, version: int, ring: str, sha256: str, at: int
) -> LogEntry:
    """An entry in the word of a key; the same arguments give the same bytes. Raises: Malformed."""
    by = signer.verifier.text
    signature = signer.sign(_DOMAIN + encode(_body(type, name, version, ring, sha256, by, at)))
    return LogEntry(type, name, version, ring, sha256, by, at, b64(signature))


def parse_entry(data: bytes) -> LogEntry | UnknownEntry:
    """Read an entry; bytes that are no entry of a known version and type are an UnknownEntry. Checks no signature.

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


def demand_form(data: bytes) -> None:
    """Demand what `parse_entry` demands. Raises: Malformed.

    Nearly every entry is one of ours as `LogEntry.data` writes it, which a pattern tells without taking it apart.
    """
    found = _WRITTEN.fullmatch(data)
    if found is None or len(data) > MAX_ENTRY or any(int(number) > MAX_SIZE for number in found.groups()):
        parse_entry(data)


def known_entry(data: bytes) -> LogEntry:
    """Read an entry that is to be relied on. Raises: Malformed, also for an unknown version or type; BadSignature."""
    entry = parse_entry(data)
    if isinstance(entry, UnknownEntry):
        raise Malformed("log entry is of a version or type that is not known here", fix="upgrade interlock")
    entry.demand_signed()
    return entry


def _body(kind: str, name: str, version: int, ring: str, sha256: str, by: str, at: int) -> dict[str, object]:
    return {
        "v": _VERSION,
        "type": kind,
        "name": name,
        "version": version,
        "ring": ring,
        "sha256": sha256,
        "by": by,
        "at": at,
    }
