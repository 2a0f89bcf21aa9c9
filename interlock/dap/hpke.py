"""Hybrid public key encryption for DAP's shares: RFC 9180, base mode, the one suite that DAP makes mandatory.

DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM. Other suites, PSK and authenticated modes and the secret
exporter are not here. The ephemeral key comes from `ikm`, 32 fresh random bytes: randomness is an argument.

    pair = derive_key_pair(ikm)
    enc, payload = seal(pair.public, info, aad, plaintext, ikm=fresh)
    plaintext == unseal(pair, enc, info, aad, payload)

`sender` and `receiver` give a `Context` for several messages under one encapsulated key.
Raises: primitives.BadSignature, for a key of small order or the wrong length and for whatever does not open.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from interlock.base import primitives

__all__ = [
    "AEAD_ID",
    "KDF_ID",
    "KEM_ID",
    "SEED_SIZE",
    "Context",
    "KeyPair",
    "derive_key_pair",
    "receiver",
    "seal",
    "sender",
    "unseal",
]

KEM_ID: Final = 0x0020  # DHKEM(X25519, HKDF-SHA256)
KDF_ID: Final = 0x0001  # HKDF-SHA256
AEAD_ID: Final = 0x0001  # AES-128-GCM
SEED_SIZE: Final = 32  # bytes of input keying material of a key pair
_KEY_SIZE: Final = 16
_NONCE_SIZE: Final = 12
_SECRET_SIZE: Final = 32
_KEM_SUITE: Final = b"KEM" + KEM_ID.to_bytes(2, "big")
_SUITE: Final = b"HPKE" + b"".join(n.to_bytes(2, "big") for n in (KEM_ID, KDF_ID, AEAD_ID))
_MODE_BASE: Final = b"\x00"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A recipient's key pair, 32 bytes each."""

    public: bytes
    private: bytes = field(repr=False)


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


def _extract(suite: bytes, salt: bytes, label: bytes, ikm: bytes) -> bytes:
    """LabeledExtract (RFC 9180, section 4)."""
    return primitives.hkdf_extract(salt, b"HPKE-v1" + suite + label + ikm)


def _expand(suite: bytes, prk: bytes, label: bytes, info: bytes, length: int) -> bytes:
    """LabeledExpand (RFC 9180, section 4)."""
    return primitives.hkdf_expand(prk, length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info, length)


# No pre-shared key in base mode, so its hash is a constant.
_PSK_ID_HASH: Final = _extract(_SUITE, b"", b"psk_id_hash", b"")


def derive_key_pair(ikm: bytes) -> KeyPair:
    """The key pair of 32 or more bytes of keying material (RFC 9180, 7.1.3). Raises: ValueError."""
    if len(ikm) < SEED_SIZE:
        raise ValueError(f"a key pair takes at least {SEED_SIZE} bytes of keying material")
    private = _expand(_KEM_SUITE, _extract(_KEM_SUITE, b"", b"dkp_prk", ikm), b"sk", b"", _SECRET_SIZE)
    return KeyPair(public=primitives.x25519_public(private), private=private)


def _shared_secret(dh: bytes, enc: bytes, public: bytes) -> bytes:
    """ExtractAndExpand (RFC 9180, 4.1)."""
    prk = _extract(_KEM_SUITE, b"", b"eae_prk", dh)
    return _expand(_KEM_SUITE, prk, b"shared_secret", enc + public, _SECRET_SIZE)


def _context(shared_secret: bytes, info: bytes) -> Context:
    """KeySchedule in base mode (RFC 9180, 5.1)."""
    bound = _MODE_BASE + _PSK_ID_HASH + _extract(_SUITE, b"", b"info_hash", info)
    secret = _extract(_SUITE, shared_secret, b"secret", b"")
    key = _expand(_SUITE, secret, b"key", bound, _KEY_SIZE)
    return Context(key, _expand(_SUITE, secret, b"base_nonce", bound, _NONCE_SIZE))


def sender(public: bytes, info: bytes, *, ikm: bytes) -> tuple[bytes, Context]:
    """The encapsulated key to send, and the context that seals. Raises: BadSignature, ValueError."""
    ephemeral = derive_key_pair(ikm)
    dh = primitives.x25519(ephemeral.private, public)
    return ephemeral.public, _context(_shared_secret(dh, ephemeral.public, public), info)


def receiver(pair: KeyPair, enc: bytes, info: bytes) -> Context:
    """The context that opens what was sealed under `enc`. Raises: BadSignature."""
    dh = primitives.x25519(pair.private, enc)
    return _context(_shared_secret(dh, enc, pair.public), info)


def seal(public: bytes, info: bytes, aad: bytes, plaintext: bytes, *, ikm: bytes) -> tuple[bytes, bytes]:
    """One message to one recipient: (encapsulated key, payload). Raises: BadSignature, ValueError."""
    enc, context = sender(public, info, ikm=ikm)
    return enc, context.seal(aad, plaintext)


def unseal(pair: KeyPair, enc: bytes, info: bytes, aad: bytes, payload: bytes) -> bytes:
    """The plaintext of one message. Raises: BadSignature."""
    return receiver(pair, enc, info).open(aad, payload)
