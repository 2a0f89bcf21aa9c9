"""Records: what the log says about packs beyond their bytes; and the evidence that a target carries of them.

A record is canonical JSON with `format` and `v`. The log names it by its SHA-256, so anyone who has the log can
fetch it from the commons' `records/` and hold it against its entry; no TUF role signs it.

    interlock-gate        {pack, name, version, ring, examples, licence, harness, warnings, at}   what a gate found
    interlock-review      {pack, name, version, ring, verdict, note}                  a reviewer's word on a pack
    interlock-promotion   {pack, name, version, from, ring, gate, reviews}            why a pack went to a ring
    interlock-revocation  {pack, name, version, ring, rules, why, scope}              what of it is taken back

`pack` is the SHA-256 of its bytes; `gate` and `reviews` are leaf hashes of log entries, in hex. An Evidence is a
record with its entry and the entry's proof; a list of them is the canonical JSON [{"entry", "proof", "record"}, ...].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from interlock.base import canonical
from interlock.base.canonical import NotCanonical
from interlock.base.clock import MICROSECONDS
from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.primitives import BadSignature
from interlock.base.text import is_sha256
from interlock.commons.pack import Pack, sha256_hex
from interlock.commons.rings import RINGS
from interlock.commons.speakers import Speakers
from interlock.commons.withdrawn import SCOPES
from interlock.transparency.entry import MAX_ENTRY, LogEntry, known_entry
from interlock.transparency.merkle import leaf_hash
from interlock.transparency.policy import Checked
from interlock.transparency.proof import MAX_PROOF_FILE, parse_proof

__all__ = [
    "MAX_EVIDENCE",
    "MAX_RECORD",
    "REVISIONS",
    "BadRecord",
    "CheckEntry",
    "Evidence",
    "Promotion",
    "Review",
    "Revocation",
    "demand_gate_of",
    "dump_evidence",
    "parse_evidence_list",
    "parse_promotion",
    "parse_review",
    "parse_revocation",
    "seen_us",
]

MAX_RECORD: Final = 64 * 1024  # bytes
MAX_EVIDENCE: Final = 4 << 20  # bytes of a list of evidence
REVISIONS: Final[Mapping[str, int]] = {
    "interlock-gate": 1,
    "interlock-review": 1,
    "interlock-promotion": 1,
    "interlock-revocation": 1,
}
_OF_PACK: Final = frozenset({"pack", "name", "version", "ring"})
_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "interlock-gate": _OF_PACK | {"examples", "licence", "harness", "warnings", "at"},
    "interlock-review": _OF_PACK | {"verdict", "note"},
    "interlock-promotion": _OF_PACK | {"from", "gate", "reviews"},
    "interlock-revocation": _OF_PACK | {"rules", "why", "scope"},
}
_VERDICTS: Final = ("approve", "reject")
_LINE: Final = 500  # characters of a note or a reason

CheckEntry = Callable[[bytes, bytes], Checked]  # an entry's and its proof's bytes; raises where the log has it not


class BadRecord(InterlockError):
    """A record, or evidence of one, that cannot be relied on."""

    code = "malformed"


@dataclass(frozen=True)
class Review:
    """A reviewer's verdict, "approve" or "reject", on a version of a pack, as it stands in a ring."""

    pack: str
    name: str
    version: int
    ring: str
    verdict: str
    note: str

    @property
    def data(self) -> bytes:
        return _data("interlock-review", vars(self))


@dataclass(frozen=True)
class Promotion:
    """A version of a pack goes from one ring to another, on a gate's result and reviews (leaf hashes, in hex)."""

    pack: str
    name: str
    version: int
    from_ring: str
    ring: str
    gate: str
    reviews: tuple[str, ...]

    @property
    def data(self) -> bytes:
        body = {**vars(self), "from": self.from_ring, "reviews": list(self.reviews)}
        del body["from_ring"]
        return _data("interlock-promotion", body)


@dataclass(frozen=True)
class Revocation:
    """A version of a pack in a ring, or rules of it (none named: all), is taken back.

    `scope` is "activation" (nobody begins to use it) or "removal" (whoever has it in force takes it out).
    """

    pack: str
    name: str
    version: int
    ring: str
    rules: tuple[str, ...]
    why: str
    scope: str

    @property
    def data(self) -> bytes:
        return _data("interlock-revocation", {**vars(self), "rules": list(self.rules)})


@dataclass(frozen=True)
class Evidence:
    """A record, its log entry and the entry's proof, as bytes; nothing of it is verified before `verified`."""

    entry: bytes = field(repr=False)
    proof: bytes = field(repr=False)
    record: bytes = field(repr=False)

    @property
    def leaf(self) -> str:
        """The entry's leaf hash in hex, by which a promotion cites it."""
        return leaf_hash(self.entry).hex()

    def said(self, where: str) -> LogEntry:
        """What the entry says, signed, and of this very record; where it lies in the log is not looked at.

        Raises: BadRecord.
        """
        try:
            entry = known_entry(self.entry)
        except (Malformed, BadSignature) as e:
            raise BadRecord(f"has a log entry that does not hold ({e.what})", where=where) from None
        if entry.sha256 != sha256_hex(self.record):
            raise BadRecord("has the log entry of another record", where=where)
        return entry

    @property
    def index(self) -> int:
        """Where its proof says that the entry stands in the log. Raises: Malformed."""
        return parse_proof(self.proof).index

    def verified(self, kind: str, by: Speakers, check: CheckEntry, where: str) -> tuple[LogEntry, int]:
        """What the entry says, in the word of one of the keys `by`, and in the log; and when that was seen.

        Raises: BadRecord; what `check` raises.
        """
        entry = self.said(where)
        if entry.type != kind:
            raise BadRecord(f"is a log entry of type {entry.type}, and {kind} is needed", where=where)
        if not by.may_say(entry.by, self.index):
            raise BadRecord(f"is in the word of a key that may not say this ({kind})", where=where)
        return entry, seen_us(entry, check(self.entry, self.proof))


def seen_us(entry: LogEntry, checked: Checked) -> int:
    """By when an entry stood in the log, in microseconds: what it says itself, or its last witness where that is later.

    Whoever signs an entry says its time as they like, and no witness whose clock is right confirms one before it was.
    """
    return max(entry.at, max(checked.cosigned.values(), default=0) * MICROSECONDS)


def dump_evidence(rows: Sequence[Evidence]) -> bytes:
    """The bytes of a list of evidence. The inverse of `parse_evidence_list`."""
    body = [
        {"entry": row.entry.decode("utf-8"), "proof": row.proof.decode("utf-8"), "record": row.record.decode("utf-8")}
        for row in rows
    ]
    return canonical.encode(body)


def parse_evidence_list(data: bytes, where: str) -> tuple[Evidence, ...]:
    """Take a list of evidence apart, strictly; verifies nothing. Raises: BadRecord."""
    if len(data) > MAX_EVIDENCE:
        raise BadRecord(f"is larger than {MAX_EVIDENCE} bytes", where=where)
    try:
        body = canonical.parse_json(data, where)
        spelt = canonical.encode(body) == data
    except NotCanonical as e:
        raise BadRecord(e.what, where=where) from None
    if not isinstance(body, list) or not spelt:
        raise BadRecord("is not a list of evidence in canonical JSON (RFC 8785)", where=where)
    return tuple(_evidence(row, where) for row in body)


def parse_review(data: bytes, where: str) -> Review:
    """Raises: BadRecord."""
    body, pack = _parsed(data, "interlock-review", where)
    return Review(*pack, _word(body, "verdict", _VERDICTS, where), _line(body, "note", where))


def parse_promotion(data: bytes, where: str) -> Promotion:
    """Raises: BadRecord."""
    body, (pack, name, version, ring) = _parsed(data, "interlock-promotion", where)
    from_ring, gate, reviews = _word(body, "from", RINGS, where), body["gate"], body["reviews"]
    if not is_sha256(gate) or not isinstance(reviews, list) or not all(is_sha256(row) for row in reviews):
        raise BadRecord("names a gate or reviews by what is no leaf hash", where=where)
    return Promotion(pack, name, version, from_ring, ring, gate, tuple(reviews))


def parse_revocation(data: bytes, where: str) -> Revocation:
    """Raises: BadRecord."""
    body, pack = _parsed(data, "interlock-revocation", where)
    rules = body["rules"]
    if not isinstance(rules, list) or not all(isinstance(r, str) and 0 < len(r) <= 200 for r in rules):
        raise BadRecord("rules is not a list of rules' ids", where=where)
    return Revocation(*pack, tuple(rules), _line(body, "why", where), _word(body, "scope", SCOPES, where))


def demand_gate_of(data: bytes, pack: Pack, ring: str, where: str) -> None:
    """Check that a gate's record is of this very pack, for this ring. Raises: BadRecord."""
    _, found = _parsed(data, "interlock-gate", where)
    if found != (pack.digest, pack.name, pack.version, ring):
        raise BadRecord("is the gate's record of another pack or ring", where=where)


def _data(format_: str, body: Mapping[str, object]) -> bytes:
    return canonical.encode({**body, "format": format_, "v": REVISIONS[format_]})


def _parsed(data: bytes, format_: str, where: str) -> tuple[dict[str, object], tuple[str, str, int, str]]:
    """A record's fields, and (pack, name, version, ring)."""
    try:
        body = canonical.known_object(data, format_, REVISIONS[format_], most=MAX_RECORD, where=where)
    except NotCanonical as e:
        raise BadRecord(e.what, where=where) from None
    if set(body) != _FIELDS[format_] | {"format", "v"}:
        raise BadRecord("has other fields than it should", where=where)
    pack, name, version = body["pack"], body["name"], body["version"]
    if not is_sha256(pack) or not isinstance(name, str) or type(version) is not int:
        raise BadRecord("does not name a pack, its version and its digest", where=where)
    return body, (pack, name, version, _word(body, "ring", RINGS, where))


def _evidence(row: object, where: str) -> Evidence:
    if not isinstance(row, dict) or set(row) != {"entry", "proof", "record"}:
        raise BadRecord("has a row that is not entry, proof and record", where=where)
    found: list[bytes] = []
    for key, most in (("entry", MAX_ENTRY), ("proof", MAX_PROOF_FILE), ("record", MAX_RECORD)):
        value = row[key]
        if not isinstance(value, str) or len(value) > most:
            raise BadRecord(f"has a row whose {key} is not a text of at most {most} characters", where=where)
        found.append(value.encode("utf-8"))
    try:
        parse_proof(found[1])
    except Malformed as e:
        raise BadRecord(e.what, where=where) from None
    return Evidence(*found)


def _word(body: Mapping[str, object], key: str, words: Sequence[str], where: str) -> str:
    value = body[key]
    if not isinstance(value, str) or value not in words:
        raise BadRecord(f"{key} is none of {', '.join(words)}", where=where)
    return value


def _line(body: Mapping[str, object], key: str, where: str) -> str:
    value = body[key]
    if not isinstance(value, str) or len(value) > _LINE or not value.isprintable():
        raise BadRecord(f"{key} is not one line of at most {_LINE} characters", where=where)
    return value
