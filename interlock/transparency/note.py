"""Signed notes (C2SP signed-note v1.0.0): a text, an empty line, and one line a signature.

    the text, whose last character is a newline
    <empty line>
    — KEYNAME base64(key id, 4 bytes || signature)

A key is known by its vkey, `KEYNAME+hex(key id)+base64(type || public key)`. Three types are used here: 0x01, plain
Ed25519 over the text, and the timestamped cosignatures that checkpoint.py makes, 0x04 with Ed25519 and 0x06 with
ML-DSA-44; each verifier knows its own.

    sign_note(text, signers) -> bytes          parse_note(bytes) -> Note          note.verified(verifiers)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

from interlock.base.codec import Malformed
from interlock.base.keys import Ed25519Verifier, Signer
from interlock.base.primitives import BadSignature
from interlock.base.text import b64, unb64
from interlock.transparency.text import utf8_lines

__all__ = [
    "COSIGNATURE",
    "ED25519",
    "MAX_NOTE",
    "MAX_SIGNATURES",
    "ML_DSA_COSIGNATURE",
    "Note",
    "NoteSigner",
    "NoteVerifier",
    "Signature",
    "SignatureVerifier",
    "TextSigner",
    "VerifierKey",
    "encode_note",
    "parse_note",
    "parse_signatures",
    "parse_vkey",
    "sign_note",
    "valid_name",
    "vkey_of",
]

ED25519: Final = 0x01
COSIGNATURE: Final = 0x04
ML_DSA_COSIGNATURE: Final = 0x06
MAX_NOTE: Final = 256 * 1024  # bytes; room for MAX_SIGNATURES of the post-quantum kind
MAX_SIGNATURES: Final = 48  # the specification demands 16 at least
MAX_NAME: Final = 255  # bytes of a key name; what a cosignature of type 0x06 can hold
_ID_SIZE: Final = 4
_MARK: Final = "— "


def valid_name(name: str) -> bool:
    """Whether a text may be a key name: not empty, no space of any kind, no plus, nothing that UTF-8 cannot hold."""
    if not name or any(c <= " " or c == "+" or c.isspace() or "\ud800" <= c <= "\udfff" for c in name):
        return False
    return len(name.encode("utf-8")) <= MAX_NAME


@dataclass(frozen=True)
class VerifierKey:
    """A named public key of a known or unknown type; `text` is its vkey."""

    name: str
    kind: int
    public: bytes

    def __post_init__(self) -> None:
        if not valid_name(self.name):
            raise Malformed("a key name is empty, too long, or holds a space or a plus sign")
        if not 0 <= self.kind <= 0xFF:
            raise Malformed("a signature type is one byte")

    @cached_property
    def key_id(self) -> bytes:
        preimage = self.name.encode("utf-8") + b"\n" + bytes([self.kind]) + self.public
        return hashlib.sha256(preimage).digest()[:_ID_SIZE]

    @property
    def text(self) -> str:
        return f"{self.name}+{self.key_id.hex()}+{b64(bytes([self.kind]) + self.public)}"


def parse_vkey(text: str) -> VerifierKey:
    """Read a vkey, in its one spelling. Raises: Malformed."""
    parts = text.split("+", 2)
    if len(parts) != 3:
        raise Malformed("a verifier key has three parts, NAME+ID+KEY")
    material = unb64(parts[2], "verifier key")
    if not material:
        raise Malformed("a verifier key has no key in it")
    key = VerifierKey(parts[0], material[0], material[1:])
    if key.text != text:
        raise Malformed("a verifier key's id is not that of its name and key")
    return key


def vkey_of(name: str, signer: Signer, kind: int = ED25519) -> VerifierKey:
    """The vkey that belongs to a signer of ours under a name."""
    return VerifierKey(name, kind, signer.verifier.public)


@dataclass(frozen=True)
class Signature:
    """One signature line: who (name and key id) and the bytes; not yet verified."""

    name: str
    key_id: bytes
    data: bytes

    @property
    def line(self) -> str:
        return f"{_MARK}{self.name} {b64(self.key_id + self.data)}\n"


class SignatureVerifier(Protocol):
    """Checks the signatures of one named key over a note's text."""

    @property
    def key(self) -> VerifierKey: ...

    def verify(self, text: bytes, signature: bytes) -> None:
        """Raises: BadSignature."""


class TextSigner(Protocol):
    """Signs a note's text with one named key."""

    @property
    def key(self) -> VerifierKey: ...

    def sign(self, text: bytes) -> Signature: ...


@dataclass(frozen=True)
class NoteVerifier:
    """Type 0x01: Ed25519 over the text."""

    key: VerifierKey

    def __post_init__(self) -> None:
        if self.key.kind != ED25519:
            raise Malformed(f"key {self.key.name} is not of the plain Ed25519 type")
        Ed25519Verifier(self.key.public)

    def verify(self, text: bytes, signature: bytes) -> None:
        """Raises: BadSignature."""
        Ed25519Verifier(self.key.public).verify(text, signature)


@dataclass(frozen=True)
class NoteSigner:
    """Type 0x01, the other side: a name and a signer of base.keys."""

    name: str
    signer: Signer

    @cached_property
    def key(self) -> VerifierKey:
        return vkey_of(self.name, self.signer)

    def sign(self, text: bytes) -> Signature:
        return Signature(self.name, self.key.key_id, self.signer.sign(text))


@dataclass(frozen=True)
class Note:
    """A parsed note; its text is worth nothing until `verified` has passed."""

    text: str
    signatures: tuple[Signature, ...]

    def verified(self, verifiers: Iterable[SignatureVerifier]) -> tuple[tuple[VerifierKey, Signature], ...]:
        """The keys among `verifiers` that signed, each with its signature, in the note's order.

        Lines of unknown keys are ignored; a line of a known key that does not verify spoils the whole note.
        A key that signed twice is listed once, with its first line.

        Raises: BadSignature, also where no known key signed.
        """
        known = {(v.key.name, v.key.key_id): v for v in verifiers}
        text = self.text.encode("utf-8")
        found: dict[tuple[str, bytes], tuple[VerifierKey, Signature]] = {}
        for signature in self.signatures:
            verifier = known.get((signature.name, signature.key_id))
            if verifier is None:
                continue
            try:
                verifier.verify(text, signature.data)
            except BadSignature:
                raise BadSignature(f"signature of {signature.name} does not verify") from None
            found.setdefault((signature.name, signature.key_id), (verifier.key, signature))
        if not found:
            raise BadSignature("note is not signed by a key that is trusted here")
        return tuple(found.values())

    @cached_property
    def data(self) -> bytes:
        """As `encode_note`; many proofs share one note."""
        if not self.text.endswith("\n") or not self.signatures:
            raise ValueError("a note has a text that ends in a newline, and a signature")
        return (self.text + "\n" + "".join(s.line for s in self.signatures)).encode("utf-8")

    def plus(self, signatures: Iterable[Signature]) -> Note:
        """The same note with more signatures, each once."""
        return Note(self.text, tuple(dict.fromkeys((*self.signatures, *signatures))))


def encode_note(note: Note) -> bytes:
    """The bytes of a note, which ends in a newline and is signed (ValueError). The inverse of `parse_note`."""
    return note.data


def sign_note(text: str, signers: Sequence[TextSigner]) -> bytes:
    """Sign a text (which ends in a newline) with each signer."""
    return encode_note(Note(text, tuple(s.sign(text.encode("utf-8")) for s in signers)))


def parse_note(data: bytes) -> Note:
    """Take a note apart; verifies nothing. Raises: Malformed."""
    whole = utf8_lines(data, MAX_NOTE, "note")
    text, empty, lines = whole.rpartition("\n\n")
    if not empty:
        raise Malformed("note has no empty line before its signatures")
    return Note(text + "\n", parse_signatures(lines))


def parse_signatures(lines: str) -> tuple[Signature, ...]:
    """Read signature lines, of which there is at least one. Raises: Malformed."""
    if not lines.endswith("\n"):
        raise Malformed("signatures do not end in a newline")
    rows = lines[:-1].split("\n")
    if len(rows) > MAX_SIGNATURES:
        raise Malformed(f"note has more than {MAX_SIGNATURES} signatures")
    return tuple(_signature(row) for row in rows)


def _signature(row: str) -> Signature:
    mark, _, rest = row.partition(" ")
    name, _, data = rest.partition(" ")
    if mark + " " != _MARK or not valid_name(name):
        raise Malformed("signature line does not begin with a dash and a key name")
    raw = unb64(data, "signature")
    if len(raw) <= _ID_SIZE:
        raise Malformed("signature line is too short to hold a key id and a signature")
    return Signature(name, raw[:_ID_SIZE], raw[_ID_SIZE:])
