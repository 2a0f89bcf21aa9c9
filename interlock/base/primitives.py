"""With blind_rsa and turboshake the only file that imports a cryptographic library; pure functions over bytes.

Sources: Ed25519 RFC 8032 (libsodium's strict verification), ML-DSA FIPS 204 (pure, its empty context), X25519 RFC 7748,
P-256 SP 800-186 and SEC 1, HKDF RFC 5869, AES-GCM SP 800-38D, Argon2id RFC 9106 and secretbox (libsodium).
Randomness is an argument, but for the hedge in ML-DSA's signatures. Verification raises and never returns a bool.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Final

import nacl.exceptions
import nacl.pwhash.argon2id
import nacl.secret
import nacl.signing
from cryptography.exceptions import InvalidSignature, InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, mldsa
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from interlock.base.errors import InterlockError

__all__ = [
    "BadSignature",
    "aes_gcm_open",
    "aes_gcm_seal",
    "ed25519_public",
    "ed25519_sign",
    "ed25519_verify",
    "hkdf_expand",
    "hkdf_extract",
    "hmac_sha256",
    "ml_dsa_of_pem",
    "ml_dsa_pem",
    "ml_dsa_public",
    "ml_dsa_sign",
    "ml_dsa_verify",
    "p256",
    "p256_public",
    "sealed_with_passphrase",
    "unsealed_with_passphrase",
    "x25519",
    "x25519_public",
]

KEY_SIZE: Final = 32
P256_PUBLIC_SIZE: Final = 65  # uncompressed
ML_DSA_PUBLIC_SIZE: Final = {44: 1312, 65: 1952}  # parameter set -> bytes of a public key (FIPS 204, table 2)
_ML_DSA_PRIVATE: Final[dict[int, Callable[[bytes], mldsa.MLDSA44PrivateKey | mldsa.MLDSA65PrivateKey]]] = {
    44: mldsa.MLDSA44PrivateKey.from_seed_bytes,
    65: mldsa.MLDSA65PrivateKey.from_seed_bytes,
}
_ML_DSA_PUBLIC: Final[dict[int, Callable[[bytes], mldsa.MLDSA44PublicKey | mldsa.MLDSA65PublicKey]]] = {
    44: mldsa.MLDSA44PublicKey.from_public_bytes,
    65: mldsa.MLDSA65PublicKey.from_public_bytes,
}

Rng = Callable[[int], bytes]  # so many fresh random bytes


class BadSignature(InterlockError):
    """A signature, a tag or a box that does not verify."""

    code = "bad-signature"


def ed25519_public(seed: bytes) -> bytes:
    """The 32-byte public key of a 32-byte seed."""
    return bytes(nacl.signing.SigningKey(seed).verify_key)


def ed25519_sign(seed: bytes, message: bytes) -> bytes:
    """A 64-byte signature under the key of a 32-byte seed."""
    return nacl.signing.SigningKey(seed).sign(message).signature


def ed25519_verify(public: bytes, message: bytes, signature: bytes) -> None:
    """Raises: BadSignature; also for small-order keys and non-canonical encodings (libsodium is strict)."""
    try:
        nacl.signing.VerifyKey(public).verify(message, signature)
    except (nacl.exceptions.CryptoError, ValueError, TypeError):
        raise BadSignature("signature does not verify") from None


def ml_dsa_public(level: int, seed: bytes) -> bytes:
    """The public key of a 32-byte seed (FIPS 204, 6.1), in the parameter set `level`: 44 or 65."""
    return _ML_DSA_PRIVATE[level](seed).public_key().public_bytes_raw()


def ml_dsa_sign(level: int, seed: bytes, message: bytes) -> bytes:
    """A hedged signature: the library adds randomness of its own, so two over the same bytes differ (FIPS 204, 3.4)."""
    return _ML_DSA_PRIVATE[level](seed).sign(message)


def ml_dsa_verify(level: int, public: bytes, message: bytes, signature: bytes) -> None:
    """Raises: BadSignature."""
    try:
        _ML_DSA_PUBLIC[level](public).verify(signature, message)
    except (InvalidSignature, ValueError):
        raise BadSignature("signature does not verify") from None


def ml_dsa_pem(level: int, public: bytes) -> str:
    """A public key as SubjectPublicKeyInfo in PEM (RFC 9881), the form that TUF metadata carries."""
    key = _ML_DSA_PUBLIC[level](public)
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode("ascii")


def ml_dsa_of_pem(level: int, pem: str) -> bytes:
    """The public key in a SubjectPublicKeyInfo. Raises: BadSignature, for anything else or another parameter set."""
    try:
        public = load_pem_public_key(pem.encode("ascii")).public_bytes(Encoding.Raw, PublicFormat.Raw)
        if ml_dsa_pem(level, public) == pem:
            return public
    except (ValueError, UnsupportedAlgorithm):
        pass
    raise BadSignature(f"is not an ML-DSA-{level} public key in PEM")


def x25519_public(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def x25519(private: bytes, public: bytes) -> bytes:
    """The shared secret, 32 bytes. Raises: BadSignature, for an all-zero result (RFC 7748, 6.1)."""
    try:
        return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise BadSignature("X25519 public key is of small order or malformed") from None


def p256_public(private: bytes) -> bytes:
    """The 65-byte public key, uncompressed, of a 32-byte scalar. Raises: ValueError, for one that is not in range."""
    key = ec.derive_private_key(int.from_bytes(private, "big"), ec.SECP256R1())
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def p256(private: bytes, public: bytes) -> bytes:
    """The shared secret, 32 bytes: the x-coordinate. Raises: BadSignature, for what is no uncompressed point of it."""
    try:
        if len(public) != P256_PUBLIC_SIZE:
            raise ValueError
        point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), public)
        return ec.derive_private_key(int.from_bytes(private, "big"), ec.SECP256R1()).exchange(ec.ECDH(), point)
    except ValueError:
        raise BadSignature("P-256 public key is not a point of the curve, uncompressed") from None


def hmac_sha256(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def hkdf_extract(salt: bytes, ikm: bytes) -> bytes:
    return hmac_sha256(salt or bytes(hashes.SHA256.digest_size), ikm)


def hkdf_expand(prk: bytes, info: bytes, length: int) -> bytes:
    blocks, block, counter = b"", b"", 1
    while len(blocks) < length:
        block = hmac_sha256(prk, block + info + bytes([counter]))
        blocks += block
        counter += 1
    return blocks[:length]


def aes_gcm_seal(key: bytes, nonce: bytes, aad: bytes, plaintext: bytes) -> bytes:
    return AESGCM(key).encrypt(nonce, plaintext, aad)


def aes_gcm_open(key: bytes, nonce: bytes, aad: bytes, ciphertext: bytes) -> bytes:
    """Raises: BadSignature, where the tag does not match."""
    try:
        return AESGCM(key).decrypt(nonce, ciphertext, aad)
    except (InvalidTag, ValueError):
        raise BadSignature("ciphertext does not open") from None


def sealed_with_passphrase(secret: bytes, passphrase: bytes, salt: bytes, nonce: bytes, ops: int, mem: int) -> bytes:
    """secretbox under an Argon2id key; salt 16 bytes, nonce 24 bytes, `mem` in bytes."""
    key = nacl.pwhash.argon2id.kdf(nacl.secret.SecretBox.KEY_SIZE, passphrase, salt, ops, mem)
    return nacl.secret.SecretBox(key).encrypt(secret, nonce).ciphertext


def unsealed_with_passphrase(box: bytes, passphrase: bytes, salt: bytes, nonce: bytes, ops: int, mem: int) -> bytes:
    """Raises: BadSignature, for a wrong passphrase or a changed box."""
    key = nacl.pwhash.argon2id.kdf(nacl.secret.SecretBox.KEY_SIZE, passphrase, salt, ops, mem)
    try:
        return nacl.secret.SecretBox(key).decrypt(box, nonce)
    except nacl.exceptions.CryptoError:
        raise BadSignature("passphrase is wrong, or the key file was changed") from None
