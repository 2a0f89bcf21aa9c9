"""Checkpoints and cosignatures: what a log says about its tree, and what a witness says about that.

A checkpoint (C2SP tlog-checkpoint v1.0.0) is a signed note whose text is

    ORIGIN
    TREE SIZE in decimal
    base64(ROOT HASH)
    extension lines, if any (we write none)

A cosignature (C2SP tlog-cosignature v1.0.1, Ed25519, type 0x04) is a signature line on that note whose bytes are
a POSIX timestamp (8 bytes) and an Ed25519 signature (64) over `cosignature/v1`, `time SECONDS` and the text. It
says: at that time this was the largest consistent tree that the witness had seen of this origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from interlock.base.codec import Malformed, Reader, Writer
from interlock.base.keys import Ed25519Verifier, Signer
from interlock.base.primitives import BadSignature
from interlock.base.text import b64, unb64
from interlock.transparency.merkle import EMPTY_ROOT, HASH_SIZE, MAX_SIZE, BadProof
from interlock.transparency.note import (
    COSIGNATURE,
    Note,
    NoteVerifier,
    Signature,
    TextSigner,
    VerifierKey,
    parse_note,
    sign_note,
    vkey_of,
)
from interlock.transparency.text import decimal

__all__ = [
    "Checkpoint",
    "CosignatureVerifier",
    "Cosigner",
    "cosigned_at",
    "open_checkpoint",
    "parse_checkpoint",
    "sign_checkpoint",
]

MAX_TIME: Final = (1 << 63) - 1  # seconds
_HEADER: Final = "cosignature/v1"


@dataclass(frozen=True)
class Checkpoint:
    """A log's statement: the tree of `size` entries has this root. `extensions` are opaque lines."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        lines = (self.origin, *self.extensions)
        if any(not line or any(c < " " or "\ud800" <= c <= "\udfff" for c in line) for line in lines):
            raise Malformed("a line of a checkpoint is empty or holds a control character")
        if len(self.root) != HASH_SIZE:
            raise Malformed(f"a checkpoint's root hash has {HASH_SIZE} bytes")
        if not 0 <= self.size <= MAX_SIZE:
            raise Malformed("a checkpoint's size is out of range")

    def demand_sound(self) -> None:
        """Raises: BadProof, where the size is 0 and the root not that of the empty tree (tlog-witness)."""
        if self.size == 0 and self.root != EMPTY_ROOT:
            raise BadProof("a checkpoint of size 0 has not the root of the empty tree")

    @property
    def text(self) -> str:
        """The note's text. The inverse of `parse_checkpoint`."""
        return "".join(f"{line}\n" for line in (self.origin, str(self.size), b64(self.root), *self.extensions))


def parse_checkpoint(text: str) -> Checkpoint:
    """Read a note's text as a checkpoint. Raises: Malformed."""
    lines = text.split("\n")
    if len(lines) < 4 or lines[-1]:
        raise Malformed("checkpoint has fewer than three lines")
    origin, size, root, *extensions = lines[:-1]
    return Checkpoint(origin, decimal(size, "tree size"), unb64(root, "root hash"), tuple(extensions))


def sign_checkpoint(checkpoint: Checkpoint, signers: Sequence[TextSigner]) -> bytes:
    """The checkpoint as a note, signed by each signer."""
    return sign_note(checkpoint.text, signers)


def open_checkpoint(data: bytes, keys: Sequence[VerifierKey]) -> tuple[Checkpoint, Note]:
    """Read a checkpoint that one of `keys` signed as the log. Raises: Malformed, BadSignature, BadProof."""
    note = parse_note(data)
    checkpoint = parse_checkpoint(note.text)
    note.verified([NoteVerifier(k) for k in keys])
    checkpoint.demand_sound()
    return checkpoint, note


@dataclass(frozen=True)
class CosignatureVerifier:
    """Type 0x04: a witness's timestamped signature over a checkpoint's text."""

    key: VerifierKey

    def __post_init__(self) -> None:
        if self.key.kind != COSIGNATURE:
            raise Malformed(f"key {self.key.name} is not of the Ed25519 cosignature type")
        Ed25519Verifier(self.key.public)

    def verify(self, text: bytes, signature: bytes) -> None:
        """Raises: BadSignature."""
        try:
            seconds, raw = _timestamped(signature)
        except Malformed as e:
            raise BadSignature(e.what) from None
        Ed25519Verifier(self.key.public).verify(_cosigned(text, seconds), raw)


@dataclass(frozen=True)
class Cosigner:
    """Type 0x04, the other side: a witness's name and signer."""

    name: str
    signer: Signer

    @property
    def key(self) -> VerifierKey:
        return vkey_of(self.name, self.signer, COSIGNATURE)

    def cosign(self, text: bytes, seconds: int) -> Signature:
        """Sign a checkpoint's text as seen at a POSIX time, which is never 0 (tlog-witness)."""
        if not 0 < seconds <= MAX_TIME:
            raise ValueError("a cosignature has a time after 1970")
        raw = self.signer.sign(_cosigned(text, seconds))
        return Signature(self.name, self.key.key_id, Writer().u64(seconds).fixed(raw, 64).done())


def cosigned_at(signature: Signature) -> int:
    """The POSIX seconds of a cosignature. Raises: Malformed."""
    return _timestamped(signature.data)[0]


def _timestamped(data: bytes) -> tuple[int, bytes]:
    reader = Reader(data, "cosignature")
    seconds, raw = reader.u64(), reader.take(64)
    reader.finish()
    if not 0 < seconds <= MAX_TIME:
        raise Malformed("cosignature has no time, or one that is out of range")
    return seconds, raw


def _cosigned(text: bytes, seconds: int) -> bytes:
    return f"{_HEADER}\ntime {seconds}\n".encode("ascii") + text
