"""Hybrid public key encryption for DAP's shares: RFC 9180, base mode, over X25519 or P-256.

DHKEM(X25519, HKDF-SHA256), which DAP makes mandatory, or DHKEM(P-256, HKDF-SHA256); HKDF-SHA256; AES-128-GCM. Other
suites, PSK and authenticated modes and the secret exporter are not here. The ephemeral key comes from `ikm`, 32 fresh
random bytes: randomness is an argument.

    pair = derive_key_pair(ikm)                 # of X25519; derive_key_pair(ikm, P256)
    enc, payload = seal(pair.public, info, aad, plaintext, ikm=fresh)
    plaintext == unseal(pair, enc, info, aad, payload)

A public key of 32 bytes is of X25519, one of 65 is of P-256: so no key needs a label. `sender` and `receiver` give a
`Context` for several messages under one encapsulated key.
Raises: primitives.BadSignature, for a key that is none and for whatever does not open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from interlock.base import primitives
from interlock.base.primitives import BadSignature

__all__ = [
    "AEAD_ID",
    "KDF_ID",
    "KEMS",
    "P256",
    "SEED_SIZE",
    "X25519",
    "Context",
    "Kem",
    "KeyPair",
    "derive_key_pair",
    "pair_of",
    "receiver",
    "seal",
    "sender",
    "unseal",
]

KDF_ID: Final = 0x0001  # HKDF-SHA256
AEAD_ID: Final = 0x0001  # AES-128-GCM
SEED_SIZE: Final = 32  # bytes of input keying material of a key pair, and of a private key
_KEY_SIZE: Final = 16
_NONCE_SIZE: Final = 12
_SECRET_SIZE: Final = 32
_TRIES: Final = 256
_MODE_BASE: Final = b"\x00"


@dataclass(frozen=True)
class Kem:
    """A key encapsulation mechanism: its registered number, and the arithmetic under it (RFC 9180, 7.1)."""

    id: int
    public_size: int
    public: Callable[[bytes], bytes] = field(repr=False)
    exchange: Callable[[bytes, bytes], bytes] = field(repr=False)

    @property
    def suite(self) -> bytes:
        return b"KEM" + self.id.to_bytes(2, "big")

    @property
    def hpke_suite(self) -> bytes:
        return b"HPKE" + b"".join(n.to_bytes(2, "big") for n in (self.id, KDF_ID, AEAD_ID))


X25519: Final = Kem(0x0020, 32, primitives.x25519_public, primitives.x25519)
P256: Final = Kem(0x0010, primitives.P256_PUBLIC_SIZE, primitives.p256_public, primitives.p256)
KEMS: Final = {kem.id: kem for kem in (X25519, P256)}
_BY_SIZE: Final = {kem.public_size: kem for kem in KEMS.values()}


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A recipient's key pair; 32 bytes the private one."""

    public: bytes
    private: bytes = field(repr=False)

    @property
    def kem(self) -> Kem:
        return _kem_of(self.public)


@dataclass(slots=True)
class Context:
    """The key schedule of one encapsulation; each message uses the next sequence number (RFC 9180, 5.2)."""

    _key: bytes = field(repr=False)
    _base_nonce: bytes = field(repr=False)
    _sequence: int = 0

    def seal(self, aad: bytes, plaintext: bytes) -> bytes:
        payload = primitives.aes_gcm_seal(self._key, self._nonce(), aad, plaintext)
        self._sequence += 1
        return payload

    def open(self, aad: bytes, payload: bytes) -> bytes:
        """A payload that does not open leaves the sequence number as it was. Raises: BadSignature."""
        plaintext = primitives.aes_gcm_open(self._key, self._nonce(), aad, payload)
        self._sequence += 1
        return plaintext

    def _nonce(self) -> bytes:
        mixed = int.from_bytes(self._base_nonce, "big") ^ self._sequence
        return mixed.to_bytes(_NONCE_SIZE, "big")


def _kem_of(public: bytes) -> Kem:
    """Raises: BadSignature, for a key of no length that is known here."""
    if len(public) not in _BY_SIZE:
        raise BadSignature("public key is of no KEM that is spoken here")
    return _BY_SIZE[len(public)]


def _extract(suite: bytes, salt: bytes, label: bytes, ikm: bytes) -> bytes:
    """LabeledExtract (RFC 9180, section 4)."""
    return primitives.hkdf_extract(salt, b"HPKE-v1" + suite + label + ikm)


def _expand(suite: bytes, prk: bytes, label: bytes, info: bytes, length: int) -> bytes:
    """LabeledExpand (RFC 9180, section 4)."""
    return primitives.hkdf_expand(prk, length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info, length)


# No pre-shared key in base mode, so its hash is a constant.
_PSK_ID_HASH: Final = {kem.id: _extract(kem.hpke_suite, b"", b"psk_id_hash", b"") for kem in KEMS.values()}


def derive_key_pair(ikm: bytes, kem: Kem = X25519) -> KeyPair:
    """The key pair of 32 or more bytes of keying material (RFC 9180, 7.1.3). Raises: ValueError."""
    if len(ikm) < SEED_SIZE:
        raise ValueError(f"a key pair takes at least {SEED_SIZE} bytes of keying material")
    prk = _extract(kem.suite, b"", b"dkp_prk", ikm)
    if kem is X25519:
        return pair_of(_expand(kem.suite, prk, b"sk", b"", SEED_SIZE), kem)
    for counter in range(_TRIES):  # a scalar outside of the group's order, one in 2^32, is drawn again
        try:
            return pair_of(_expand(kem.suite, prk, b"candidate", bytes([counter]), SEED_SIZE), kem)
        except ValueError:
            continue
    raise ValueError("keying material gives no key pair")


def pair_of(private: bytes, kem: Kem) -> KeyPair:
    """The key pair of a private key. Raises: ValueError, for what is none."""
    if len(private) != SEED_SIZE:
        raise ValueError(f"a private key has {SEED_SIZE} bytes")
    return KeyPair(public=kem.public(private), private=private)


def _shared_secret(kem: Kem, dh: bytes, enc: bytes, public: bytes) -> bytes:
    """ExtractAndExpand (RFC 9180, 4.1)."""
    prk = _extract(kem.suite, b"", b"eae_prk", dh)
    return _expand(kem.suite, prk, b"shared_secret", enc + public, _SECRET_SIZE)


def _context(kem: Kem, shared_secret: bytes, info: bytes) -> Context:
    """KeySchedule in base mode (RFC 9180, 5.1)."""
    suite = kem.hpke_suite
    bound = _MODE_BASE + _PSK_ID_HASH[kem.id] + _extract(suite, b"", b"info_hash", info)
    secret = _extract(suite, shared_secret, b"secret", b"")
    key = _expand(suite, secret, b"key", bound, _KEY_SIZE)
    return Context(key, _expand(suite, secret, b"base_nonce", bound, _NONCE_SIZE))


def sender(public: bytes, info: bytes, *, ikm: bytes) -> tuple[bytes, Context]:
    """The encapsulated key to send, and the context that seals. Raises: BadSignature, ValueError."""
    kem = _kem_of(public)
    ephemeral = derive_key_pair(ikm, kem)
    dh = kem.exchange(ephemeral.private, public)
    return ephemeral.public, _context(kem, _shared_secret(kem, dh, ephemeral.public, public), info)


def receiver(pair: KeyPair, enc: bytes, info: bytes) -> Context:
    """The context that opens what was sealed under `enc`. Raises: BadSignature."""
    kem = pair.kem
    dh = kem.exchange(pair.private, enc)
    return _context(kem, _shared_secret(kem, dh, enc, pair.public), info)


def seal(public: bytes, info: bytes, aad: bytes, plaintext: bytes, *, ikm: bytes) -> tuple[bytes, bytes]:
    """One message to one recipient: (encapsulated key, payload). Raises: BadSignature, ValueError."""
    enc, context = sender(public, info, ikm=ikm)
    return enc, context.seal(aad, plaintext)


def unseal(pair: KeyPair, enc: bytes, info: bytes, aad: bytes, payload: bytes) -> bytes:
    """The plaintext of one message. Raises: BadSignature."""
    return receiver(pair, enc, info).open(aad, payload)
