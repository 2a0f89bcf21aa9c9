"""Checkpoints and cosignatures: what a log says about its tree, and what a witness says about that.

A checkpoint (C2SP tlog-checkpoint v1.0.0) is a signed note whose text is

    ORIGIN
    TREE SIZE in decimal
    base64(ROOT HASH)
    extension lines, if any (we write none)

A cosignature (C2SP tlog-cosignature v1.1.0-rc.1) is a signature line on that note whose bytes are a POSIX timestamp
(8 bytes) and a signature. It says: at that time this was the largest consistent tree that the witness had seen of this
origin.

    0x04   Ed25519 (64 bytes) over `cosignature/v1`, `time SECONDS` and the whole text
    0x06   ML-DSA-44 (2,420 bytes) over the witness's name, the time, the origin, the range 0 to size, and the root;
           it holds against a quantum computer, and says nothing of extension lines

A log signs its own checkpoints with a plain Ed25519 signature (type 0x01), and with type 0x06 beside it where it has
such a key; that one carries the time 0, for a log says nothing of what was largest when.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from interlock.base.codec import Malformed, Reader, Writer
from interlock.base.keys import Ed25519Verifier, MlDsaVerifier, Signer, Verifier
from interlock.base.primitives import BadSignature
from interlock.base.text import b64, unb64
from interlock.transparency.merkle import EMPTY_ROOT, HASH_SIZE, MAX_SIZE, BadProof
from interlock.transparency.note import (
    COSIGNATURE,
    ED25519,
    ML_DSA_COSIGNATURE,
    Note,
    NoteVerifier,
    Signature,
    SignatureVerifier,
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
    "log_verifier",
    "open_checkpoint",
    "origin_hash",
    "parse_checkpoint",
    "sign_checkpoint",
]

MAX_TIME: Final = 253_402_300_799  # seconds; the last of the year 9999, beyond which there is no date to show
_HEADER: Final = "cosignature/v1"
_LABEL: Final = b"subtree/v1\n\x00"
_LEVEL: Final = 44  # the parameter set of ML-DSA
_SIGNATURE_SIZE: Final = {COSIGNATURE: 64, ML_DSA_COSIGNATURE: 2420}


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


def origin_hash(origin: str) -> str:
    """The hex SHA-256 by which a log goes in paths, those of tlog-witness among them."""
    return hashlib.sha256(origin.encode("utf-8")).hexdigest()


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
    """Read a checkpoint that one of `keys` signed as the log. Raises: Malformed, BadSignature, BadProof, BadKey."""
    note = parse_note(data)
    checkpoint = parse_checkpoint(note.text)
    note.verified([log_verifier(k) for k in keys])
    checkpoint.demand_sound()
    return checkpoint, note


def log_verifier(key: VerifierKey) -> SignatureVerifier:
    """What checks a log's own signatures with a key of type 0x01 or 0x06. Raises: Malformed, BadKey."""
    if key.kind == ED25519:
        return NoteVerifier(key)
    if key.kind == ML_DSA_COSIGNATURE:
        return CosignatureVerifier(key, timeless=True)
    raise Malformed(f"key {key.name} is of no type that a log's checkpoints are checked with")


@dataclass(frozen=True)
class CosignatureVerifier:
    """Type 0x04 or 0x06: a timestamped signature over a checkpoint. `timeless` lets the time 0 pass, as a log has it.

    Raises, when made: Malformed, BadKey.
    """

    key: VerifierKey
    timeless: bool = False

    def __post_init__(self) -> None:
        if self.key.kind not in _SIGNATURE_SIZE:
            raise Malformed(f"key {self.key.name} is of no type of cosignatures")
        _public(self.key)

    def verify(self, text: bytes, signature: bytes) -> None:
        """Raises: BadSignature."""
        try:
            seconds, raw = _timestamped(signature, _SIGNATURE_SIZE[self.key.kind])
            if seconds == 0 and not self.timeless:
                raise Malformed("cosignature has no time")
            message = _cosigned(self.key, text, seconds)
        except Malformed as e:
            raise BadSignature(e.what) from None
        _public(self.key).verify(message, raw)


@dataclass(frozen=True)
class Cosigner:
    """The other side: a witness's name and signer, whose family (Ed25519 or ML-DSA-44) makes the type.

    A log that signs with ML-DSA-44 is one too, under its origin's name: `sign`.
    """

    name: str
    signer: Signer

    @cached_property
    def key(self) -> VerifierKey:
        verifier = self.signer.verifier
        if isinstance(verifier, MlDsaVerifier):
            if verifier.level != _LEVEL:
                raise ValueError(f"a cosigner's key is ML-DSA-{_LEVEL}")
            return VerifierKey(self.name, ML_DSA_COSIGNATURE, verifier.public)
        return vkey_of(self.name, self.signer, COSIGNATURE)

    def cosign(self, text: bytes, seconds: int) -> Signature:
        """Sign a checkpoint's text as seen at a POSIX time, which is never 0 (tlog-witness).

        Raises: Malformed, for a text that type 0x06 has no form for.
        """
        if not 0 < seconds <= MAX_TIME:
            raise ValueError("a cosignature has a time after 1970")
        return self._signed(text, seconds)

    def sign(self, text: bytes) -> Signature:
        """Sign a checkpoint's text as its log, which says nothing of the time. Raises: Malformed."""
        if self.key.kind != ML_DSA_COSIGNATURE:
            raise ValueError("a log signs without a time only with ML-DSA-44")
        return self._signed(text, 0)

    def _signed(self, text: bytes, seconds: int) -> Signature:
        raw = self.signer.sign(_cosigned(self.key, text, seconds))
        size = _SIGNATURE_SIZE[self.key.kind]
        return Signature(self.name, self.key.key_id, Writer().u64(seconds).fixed(raw, size).done())


def cosigned_at(signature: Signature) -> int:
    """The POSIX seconds of a cosignature. Raises: Malformed."""
    return _timestamped(signature.data, len(signature.data) - 8)[0]


def _public(key: VerifierKey) -> Verifier:
    if key.kind == ML_DSA_COSIGNATURE:
        return MlDsaVerifier(_LEVEL, key.public)
    return Ed25519Verifier(key.public)


def _timestamped(data: bytes, size: int) -> tuple[int, bytes]:
    reader = Reader(data, "cosignature")
    seconds, raw = reader.u64(), reader.take(size)
    reader.finish()
    if seconds > MAX_TIME:
        raise Malformed("cosignature has a time that is out of range")
    return seconds, raw


def _cosigned(key: VerifierKey, text: bytes, seconds: int) -> bytes:
    """The bytes that are signed. Raises: Malformed."""
    if key.kind == COSIGNATURE:
        return f"{_HEADER}\ntime {seconds}\n".encode("ascii") + text
    checkpoint = parse_checkpoint(text.decode("utf-8", "replace"))
    origin = checkpoint.origin.encode("utf-8")
    if len(origin) > 0xFF:
        raise Malformed("an origin has more bytes than a cosignature can name")
    writer = Writer().raw(_LABEL).opaque8(key.name.encode("utf-8")).u64(seconds).opaque8(origin)
    return writer.u64(0).u64(checkpoint.size).fixed(checkpoint.root, HASH_SIZE).done()
