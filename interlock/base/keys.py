"""Signing keys: the Signer and Verifier protocols, their text form, and key files at rest.

A public key is written `ed25519:HEX`, `ml-dsa-44:HEX` or `ml-dsa-65:HEX`; its id is the first 8 bytes of SHA-256 over
that text, in hex. An online key lies in a 0600 file as it is, or sealed; a ceremony key always is sealed, with Argon2id
and secretbox, the parameters in the file, and a file that was sealed with weaker ones than ours is not opened.
No private key is ever an argument of a command or a variable of the environment.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Final, Protocol

from interlock.base import primitives
from interlock.base.canonical import NotCanonical, json_object
from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.text import b64, unb64

__all__ = [
    "ARGON2_MEMORY",
    "ARGON2_OPS",
    "BadKey",
    "Ed25519Signer",
    "Ed25519Verifier",
    "MlDsaSigner",
    "MlDsaVerifier",
    "Signer",
    "Verifier",
    "dump_key",
    "ed25519_of",
    "is_sealed",
    "key_named",
    "load_key",
    "verifier_of",
]

FORMAT: Final = "interlock-key"
ARGON2_OPS: Final = 3
ARGON2_MEMORY: Final = 256 * 1024 * 1024  # bytes
_ARGON2_MEMORY_MOST: Final = 4 * ARGON2_MEMORY  # a key file must not be able to exhaust the machine
_SEED: Final = 32  # bytes, of either family
_ML_DSA_TEXT: Final = {f"ml-dsa-{level}": level for level in primitives.ML_DSA_PUBLIC_SIZE}


class BadKey(InterlockError):
    """A key or a key file that cannot be used."""

    code = "bad-key"


class Verifier(Protocol):
    """Checks signatures of one key."""

    @property
    def public(self) -> bytes: ...

    @property
    def text(self) -> str:
        """The key's one spelling, with its family in front."""

    def verify(self, message: bytes, signature: bytes) -> None:
        """Raises: primitives.BadSignature."""


class Signer(Protocol):
    """Makes signatures with one key."""

    @property
    def verifier(self) -> Verifier: ...

    def sign(self, message: bytes) -> bytes: ...


@dataclass(frozen=True)
class Ed25519Verifier:
    """An Ed25519 public key (32 bytes)."""

    public: bytes

    def __post_init__(self) -> None:
        if len(self.public) != primitives.KEY_SIZE:
            raise BadKey(f"an Ed25519 public key has 32 bytes, not {len(self.public)}")

    def verify(self, message: bytes, signature: bytes) -> None:
        primitives.ed25519_verify(self.public, message, signature)

    @property
    def text(self) -> str:
        return f"ed25519:{self.public.hex()}"

    @property
    def key_id(self) -> str:
        return hashlib.sha256(self.text.encode("ascii")).hexdigest()[:16]


@dataclass(frozen=True)
class Ed25519Signer:
    """An Ed25519 key pair, from its 32-byte seed (which no repr shows)."""

    seed: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.seed) != primitives.KEY_SIZE:
            raise BadKey(f"an Ed25519 seed has 32 bytes, not {len(self.seed)}")

    def sign(self, message: bytes) -> bytes:
        return primitives.ed25519_sign(self.seed, message)

    @property
    def verifier(self) -> Ed25519Verifier:
        return Ed25519Verifier(primitives.ed25519_public(self.seed))


@dataclass(frozen=True)
class MlDsaVerifier:
    """An ML-DSA public key: parameter set 44 (1,312 bytes) or 65 (1,952 bytes)."""

    level: int
    public: bytes

    def __post_init__(self) -> None:
        size = primitives.ML_DSA_PUBLIC_SIZE.get(self.level)
        if size is None:
            raise BadKey(f"ML-DSA-{self.level} is no parameter set of ours", fix="use 44 or 65")
        if len(self.public) != size:
            raise BadKey(f"an ML-DSA-{self.level} public key has {size} bytes, not {len(self.public)}")

    def verify(self, message: bytes, signature: bytes) -> None:
        primitives.ml_dsa_verify(self.level, self.public, message, signature)

    @property
    def text(self) -> str:
        return f"ml-dsa-{self.level}:{self.public.hex()}"

    @property
    def key_id(self) -> str:
        return hashlib.sha256(self.text.encode("ascii")).hexdigest()[:16]


@dataclass(frozen=True)
class MlDsaSigner:
    """An ML-DSA key pair of parameter set 44 or 65, from its 32-byte seed (which no repr shows)."""

    level: int
    seed: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if self.level not in primitives.ML_DSA_PUBLIC_SIZE:
            raise BadKey(f"ML-DSA-{self.level} is no parameter set of ours", fix="use 44 or 65")
        if len(self.seed) != _SEED:
            raise BadKey(f"an ML-DSA seed has {_SEED} bytes, not {len(self.seed)}")

    def sign(self, message: bytes) -> bytes:
        return primitives.ml_dsa_sign(self.level, self.seed, message)

    @property
    def verifier(self) -> MlDsaVerifier:
        return MlDsaVerifier(self.level, primitives.ml_dsa_public(self.level, self.seed))


def verifier_of(text: str) -> Ed25519Verifier | MlDsaVerifier:
    """The public key that a text names, in its one spelling. Raises: BadKey."""
    family, _, digits = text.partition(":")
    try:
        public = bytes.fromhex(digits)
    except ValueError:
        raise BadKey("is not a public key in hex", where=f"{family[:20]}:…") from None
    if public.hex() != digits:
        raise BadKey("is not a public key in its one spelling", where=f"{family[:20]}:…")
    if family == "ed25519":
        return Ed25519Verifier(public)
    if family in _ML_DSA_TEXT:
        return MlDsaVerifier(_ML_DSA_TEXT[family], public)
    raise BadKey("is of no family of keys that is known here", where=f"{family[:20]}:…", fix="upgrade interlock")


def ed25519_of(text: str) -> Ed25519Verifier:
    """The Ed25519 public key that a text names. Raises: BadKey, also for one of another family."""
    key = verifier_of(text)
    if not isinstance(key, Ed25519Verifier):
        raise BadKey("is no Ed25519 key", where=f"{text[:20]}…")
    return key


def dump_key(
    signer: Ed25519Signer | MlDsaSigner,
    *,
    passphrase: bytes | None = None,
    salt: bytes = b"",
    nonce: bytes = b"",
    memory: int = ARGON2_MEMORY,
) -> bytes:
    """A key file's bytes; with a passphrase the seed is sealed (salt 16 random bytes, nonce 24, memory in bytes)."""
    body: dict[str, object] = {"format": FORMAT, "v": 1, "public": signer.verifier.text}
    if passphrase is None:
        body["seed"] = signer.seed.hex()
    else:
        box = primitives.sealed_with_passphrase(signer.seed, passphrase, salt, nonce, ARGON2_OPS, memory)
        body["sealed"] = {
            "kdf": "argon2id",
            "ops": ARGON2_OPS,
            "memory": memory,
            "salt": b64(salt),
            "nonce": b64(nonce),
            "box": b64(box),
        }
    return json.dumps(body, indent=1).encode("ascii") + b"\n"


def is_sealed(data: bytes, *, where: str) -> bool:
    """Whether a key file's bytes need a passphrase. Raises: BadKey, for bytes that are no key file."""
    return "sealed" in _body(data, where)


def key_named(data: bytes, *, where: str) -> str:
    """The text of the public key that a key file names, unopened. Raises: BadKey."""
    text = _body(data, where).get("public")
    if not isinstance(text, str):
        raise BadKey("names no public key", where=where)
    return verifier_of(text).text


def load_key(
    data: bytes, *, where: str, passphrase: bytes | None = None, least_memory: int = ARGON2_MEMORY
) -> Ed25519Signer | MlDsaSigner:
    """Read a key file's bytes, of either family; one sealed with less than `least_memory` bytes is not opened.

    Raises: BadKey, which names `where` and never shows the key.
    """
    body = _body(data, where)
    seed = body.get("seed")
    try:
        if isinstance(seed, str):
            raw = bytes.fromhex(seed)
        else:
            raw = _unseal(body.get("sealed"), passphrase, where, least_memory)
        level = _ML_DSA_TEXT.get(str(body.get("public")).partition(":")[0])
        signer = Ed25519Signer(raw) if level is None else MlDsaSigner(level, raw)
    except (ValueError, TypeError, KeyError, OverflowError, Malformed):
        raise BadKey("is damaged", where=where, fix="restore it from its backup") from None
    if signer.verifier.text != body.get("public"):
        raise BadKey("names a public key that is not that of its seed", where=where)
    return signer


def _body(data: bytes, where: str) -> dict[str, object]:
    try:
        body = json_object(data, where)
    except NotCanonical as e:
        raise BadKey(e.what, where=where, fix="give a file that interlock made") from None
    if body.get("format") != FORMAT:
        raise BadKey("is not an interlock key file", where=where)
    if body.get("v") != 1:
        raise BadKey(
            f"has version {body.get('v')!r}, newer than this interlock reads", where=where, fix="upgrade interlock"
        )
    return body


def _unseal(sealed: object, passphrase: bytes | None, where: str, least_memory: int) -> bytes:
    if not isinstance(sealed, dict):
        raise BadKey("holds no key", where=where)
    if passphrase is None:
        raise BadKey("is sealed with a passphrase", where=where, fix="name the file that holds its passphrase")
    ops, memory = int(sealed["ops"]), int(sealed["memory"])
    if sealed.get("kdf") != "argon2id" or ops < ARGON2_OPS or memory < least_memory:
        raise BadKey(
            f"is sealed more weakly than Argon2id with {ARGON2_OPS} passes over {least_memory >> 20} MiB",
            where=where,
            fix="make the key anew; whoever copied this file could guess its passphrase",
        )
    if ops > 10 or memory > _ARGON2_MEMORY_MOST:
        raise BadKey("asks for more memory or time than any key of ours needs", where=where)
    salt, nonce, box = (unb64(str(sealed[k]), k) for k in ("salt", "nonce", "box"))
    try:
        return primitives.unsealed_with_passphrase(box, passphrase, salt, nonce, ops, memory)
    except primitives.BadSignature as e:
        raise BadKey(e.what, where=where) from None
