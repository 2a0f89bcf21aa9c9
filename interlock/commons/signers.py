"""Keys of a commons: our Ed25519 keys as TUF keys and signers, and the private directory that holds them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from securesystemslib.signer import Key, SecretsHandler, Signature, Signer, SSlibKey  # type: ignore[attr-defined]

from interlock.base import canonical
from interlock.base.files import private_dir, read_bounded, replace
from interlock.base.keys import (
    ARGON2_MEMORY,
    BadKey,
    Ed25519Signer,
    Ed25519Verifier,
    MlDsaVerifier,
    dump_key,
    is_sealed,
    load_key,
)
from interlock.base.primitives import Rng, ml_dsa_pem

__all__ = ["HOLDER_FIELD", "RoleSigner", "load_keys", "make_keys", "publics", "read_key", "tuf_key"]


HOLDER_FIELD: Final = "x-interlock-holder"
_MAX_KEY_FILE: Final = 16 * 1024
_ED25519: Final = "ed25519"
_ML_DSA: Final = "ml-dsa"
_ML_DSA_SCHEME: Final = "ml-dsa-65/1"

RoleVerifier = Ed25519Verifier | MlDsaVerifier


def tuf_key(verifier: RoleVerifier, holder: str = "") -> SSlibKey:
    """A public key as TUF metadata names it; `holder` is whose key it is, and stands signed beside it.

    Raises: BadKey, for an ML-DSA key of another set than 65.
    """
    if isinstance(verifier, Ed25519Verifier):
        kind, scheme, public = _ED25519, _ED25519, verifier.public.hex()
    elif verifier.level == 65:
        kind, scheme, public = _ML_DSA, _ML_DSA_SCHEME, ml_dsa_pem(65, verifier.public)
    else:
        raise BadKey("is no key for a role; ML-DSA-65 is", where=f"ml-dsa-{verifier.level}")
    body = {"keytype": kind, "scheme": scheme, "keyval": {"public": public}}
    keyid = hashlib.sha256(canonical.encode(body)).hexdigest()
    return SSlibKey(keyid, kind, scheme, {"public": public}, {HOLDER_FIELD: holder} if holder else {})


class RoleSigner(Signer):
    """Signs TUF metadata with one of our Ed25519 keys."""

    def __init__(self, signer: Ed25519Signer) -> None:
        self._signer = signer
        self._key = tuf_key(signer.verifier)

    def sign(self, payload: bytes) -> Signature:
        return Signature(self._key.keyid, self._signer.sign(payload).hex())

    @property
    def public_key(self) -> Key:
        return self._key

    @property
    def verifier(self) -> Ed25519Verifier:
        return self._signer.verifier

    @property
    def key(self) -> Ed25519Signer:
        """The key itself, for what is signed beside TUF's metadata: log entries."""
        return self._signer

    @classmethod
    def from_priv_key_uri(
        cls, priv_key_uri: str, public_key: Key, secrets_handler: SecretsHandler | None = None
    ) -> RoleSigner:
        """No key of ours is named by a URI: it comes from a file that the caller read."""
        raise ValueError("a RoleSigner is made from a key, not from a URI")


def make_keys(directory: Path, roles: tuple[str, ...], rng: Rng) -> dict[str, RoleSigner]:
    """Make a key for each role, as files that only their owner can read; a key that is there already stays.

    Raises: NotWritable, BadKey.
    """
    private_dir(directory)
    for role in roles:
        path = directory / f"{role}.key"
        if not path.exists():
            replace(path, dump_key(Ed25519Signer(rng(32))))
    return load_keys(directory, roles)


def load_keys(directory: Path, roles: tuple[str, ...]) -> dict[str, RoleSigner]:
    """Read the key of each role. Raises: BadKey, BadState."""
    return {role: RoleSigner(read_key(directory / f"{role}.key")) for role in roles}


def read_key(path: Path, passphrase: bytes | None = None, *, least_memory: int = ARGON2_MEMORY) -> Ed25519Signer:
    """Read a key file; one sealed weakly, or open to others and not sealed, is refused. Raises: BadKey, BadState."""
    data = read_bounded(path, _MAX_KEY_FILE)
    if path.stat().st_mode & 0o077 and not is_sealed(data, where=str(path)):  # a stick's file system keeps no modes
        raise BadKey("can be read by others", where=str(path), fix=f"chmod 600 {path}")
    return load_key(data, where=str(path), passphrase=passphrase, least_memory=least_memory)


def publics(signers: Mapping[str, RoleSigner]) -> dict[str, Ed25519Verifier]:
    """The public side of each role's key."""
    return {role: signer.verifier for role, signer in signers.items()}
