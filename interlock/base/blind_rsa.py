"""Blind RSA signatures, RSABSSA-SHA384-PSS-Randomized of RFC 9474: whoever signs does not see what.

    member   prepared = prepare(message, rng); salt, factor = blinding(public, rng)
             blinded, inverse = rsa.blind(public, prepared, salt, factor)
    issuer   blind_signature = rsa.blind_sign(private, blinded, rng)
    member   signature = rsa.finalize(public, prepared, blind_signature, inverse)
    anyone   rsa.verify(public, prepared, signature)           a plain RSASSA-PSS signature by now

Public keys are SubjectPublicKeyInfo, private keys PKCS #8, both DER, of 2048 to 4096 bits with the exponent 65537.
Two implementations give the same bytes for the same arguments: `PythonBlindRsa` here, and the native wheel's.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Final, Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_der_public_key,
)

from interlock.base.codec import Malformed
from interlock.base.keys import BadKey
from interlock.base.primitives import BadSignature, Rng

__all__ = [
    "PREFIX_SIZE",
    "SALT_SIZE",
    "BlindRsa",
    "PythonBlindRsa",
    "blinding",
    "modulus_size",
    "new_private_key",
    "prepare",
    "public_of",
]

PREFIX_SIZE: Final = 32  # bytes before a message that the Randomized variant prepares
SALT_SIZE: Final = 48
_HASH_SIZE: Final = 48
_EXPONENT: Final = 65537
_BITS: Final = range(2048, 4097)
_PSS: Final = padding.PSS(padding.MGF1(hashes.SHA384()), SALT_SIZE)


class BlindRsa(Protocol):
    """One implementation. Raises, throughout: BadKey; Malformed, for what is of the wrong length or out of range."""

    @property
    def name(self) -> str: ...

    def blind(self, public: bytes, prepared: bytes, salt: bytes, factor: bytes) -> tuple[bytes, bytes]:
        """The blinded message, and the inverse of the factor, to be kept secret (4.2)."""

    def blind_sign(self, private: bytes, blinded: bytes, rng: Rng) -> bytes:
        """A blind signature (4.3)."""

    def finalize(self, public: bytes, prepared: bytes, blind_signature: bytes, inverse: bytes) -> bytes:
        """The signature, verified (4.4). Raises: BadSignature."""

    def verify(self, public: bytes, prepared: bytes, signature: bytes) -> None:
        """Check a signature (4.5). Raises: BadSignature."""


class PythonBlindRsa:
    """What runs where the native wheel does not.

    Members and verifiers handle no long-lived secret and may use it anywhere. An issuer should not, where others can
    time it: Python's arithmetic is not constant in time. `blind_sign` hides base and moduli behind fresh randomness,
    which is what can be done here and not as much as the native one does.
    """

    name = "python"

    def blind(self, public: bytes, prepared: bytes, salt: bytes, factor: bytes) -> tuple[bytes, bytes]:
        key = _public(public)
        n, size = key.public_numbers().n, modulus_size(public)
        r = _number(factor, n, size, "blinding factor")
        m = int.from_bytes(_encoded(prepared, salt, n.bit_length() - 1), "big")
        try:
            inverse = pow(r, -1, n)
            pow(m, -1, n)  # 4.2, step 4: a message that shares a factor with the modulus
        except ValueError:
            raise Malformed("blinding factor or message has no inverse") from None
        return (m * pow(r, _EXPONENT, n) % n).to_bytes(size, "big"), inverse.to_bytes(size, "big")

    def blind_sign(self, private: bytes, blinded: bytes, rng: Rng) -> bytes:
        """A blind signature by the CRT, checked before it leaves (a fault would give the key away).

        NOT constant in time; see the class. `rng` blinds the base and both moduli.
        """
        numbers = _private(private).private_numbers()
        n, size = numbers.public_numbers.n, (numbers.public_numbers.n.bit_length() + 7) // 8
        message = _number(blinded, n, size, "blinded message")
        r = int.from_bytes(_below(n, size, rng), "big")
        hidden = message * pow(r, _EXPONENT, n) % n
        s1, s2 = (
            pow(hidden, d, prime * (int.from_bytes(rng(8), "big") | 1)) % prime
            for d, prime in ((numbers.dmp1, numbers.p), (numbers.dmq1, numbers.q))
        )
        signed = (s2 + (s1 - s2) * numbers.iqmp % numbers.p * numbers.q) * pow(r, -1, n) % n
        if pow(signed, _EXPONENT, n) != message:
            raise BadKey("does not sign what it verifies", where="RSA private key", fix="restore it from its backup")
        return signed.to_bytes(size, "big")

    def finalize(self, public: bytes, prepared: bytes, blind_signature: bytes, inverse: bytes) -> bytes:
        n, size = _public(public).public_numbers().n, modulus_size(public)
        s = _number(blind_signature, n, size, "blind signature") * _number(inverse, n, size, "inverse") % n
        signature = s.to_bytes(size, "big")
        self.verify(public, prepared, signature)
        return signature

    def verify(self, public: bytes, prepared: bytes, signature: bytes) -> None:
        """By the library; aggregators check many at once (`signed`).

        A signature has the length of the modulus (RFC 8017, 8.1.2). The library takes one without its leading zeros
        too, and one token that can be spelled in two ways would be two reports.
        """
        key = _public(public)
        if len(signature) != modulus_size(public):
            raise BadSignature("signature does not verify")
        try:
            key.verify(signature, prepared, _PSS, hashes.SHA384())
        except InvalidSignature:
            raise BadSignature("signature does not verify") from None


def prepare(message: bytes, rng: Rng) -> bytes:
    """A message with its random prefix, so that no two tokens are of the same bytes (4.1)."""
    return rng(PREFIX_SIZE) + message


def blinding(public: bytes, rng: Rng) -> tuple[bytes, bytes]:
    """A fresh salt and a uniform blinding factor for a key. Raises: BadKey."""
    n = _public(public).public_numbers().n
    return rng(SALT_SIZE), _below(n, modulus_size(public), rng)


def new_private_key(bits: int) -> bytes:
    """A new key; its randomness is the library's own. Raises: BadKey, for another size than 2048 to 4096."""
    if bits not in _BITS:
        raise BadKey(f"has 2048 to 4096 bits, not {bits}", where="RSA key")
    key = rsa.generate_private_key(_EXPONENT, bits)
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def public_of(private: bytes) -> bytes:
    """The public key of a private one. Raises: BadKey."""
    return _private(private).public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def modulus_size(public: bytes) -> int:
    """How many bytes a signature, a blinded message and a blinding factor have. Raises: BadKey."""
    return (_public(public).key_size + 7) // 8


@functools.lru_cache(maxsize=256)  # an aggregator checks thousands of reports against one key
def _public(der: bytes) -> rsa.RSAPublicKey:
    """Raises: BadKey, for anything but an RSA key of ours in its one spelling."""
    try:
        key = load_der_public_key(der)
    except (ValueError, UnsupportedAlgorithm):
        raise BadKey("is not a public key in DER", where="RSA key") from None
    if not isinstance(key, rsa.RSAPublicKey) or not _usable(key):
        raise BadKey("is not an RSA key of 2048 to 4096 bits and exponent 65537", where="RSA key")
    if key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) != der:
        raise BadKey("is not in its one spelling", where="RSA key")
    return key


def _private(der: bytes) -> rsa.RSAPrivateKey:
    try:
        # The library's own checks take a fifth of a second; each signature is checked before it leaves.
        key = load_der_private_key(der, password=None, unsafe_skip_rsa_key_validation=True)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadKey("is not a private key in DER", where="RSA private key") from None
    if not isinstance(key, rsa.RSAPrivateKey) or not _usable(key.public_key()):
        raise BadKey("is not an RSA key of 2048 to 4096 bits and exponent 65537", where="RSA private key")
    return key


def _usable(key: rsa.RSAPublicKey) -> bool:
    return key.key_size in _BITS and key.public_numbers().e == _EXPONENT


def _number(data: bytes, n: int, size: int, what: str) -> int:
    """OS2IP with the length of the modulus, above 0 and below it. Raises: Malformed."""
    value = int.from_bytes(data, "big")
    if len(data) != size or not 0 < value < n:
        raise Malformed(f"{what} is of the wrong length or out of range")
    return value


def _below(n: int, size: int, rng: Rng) -> bytes:
    """A uniform number above 0 and below n, by drawing again what does not fit."""
    top = 0xFF >> (8 * size - n.bit_length())
    while True:
        drawn = rng(size)
        drawn = bytes([drawn[0] & top]) + drawn[1:]
        if 0 < int.from_bytes(drawn, "big") < n:
            return drawn


def _encoded(message: bytes, salt: bytes, bits: int) -> bytes:
    """EMSA-PSS-ENCODE with SHA-384 (RFC 8017, 9.1.1); `bits` is one less than the modulus has. Raises: Malformed."""
    if len(salt) != SALT_SIZE:
        raise Malformed(f"salt has not {SALT_SIZE} bytes")
    size = (bits + 7) // 8
    digest = hashlib.sha384(bytes(8) + hashlib.sha384(message).digest() + salt).digest()
    block = bytes(size - _HASH_SIZE - SALT_SIZE - 2) + b"\x01" + salt
    masked = bytearray(a ^ b for a, b in zip(block, _mask(digest, len(block)), strict=True))
    masked[0] &= 0xFF >> (8 * size - bits)
    return bytes(masked) + digest + b"\xbc"


def _mask(seed: bytes, size: int) -> bytes:
    """MGF1 with SHA-384 (RFC 8017, B.2.1)."""
    blocks = (hashlib.sha384(seed + i.to_bytes(4, "big")).digest() for i in range(-(-size // _HASH_SIZE)))
    return b"".join(blocks)[:size]
