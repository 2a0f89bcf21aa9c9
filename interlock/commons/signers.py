"""Keys of a commons: our Ed25519 keys as TUF keys and signers, and the private directory that holds them."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from securesystemslib.signer import Key, SecretsHandler, Signature, Signer, SSlibKey  # type: ignore[attr-defined]

from interlock.base import canonical
from interlock.base.errors import one_line
from interlock.base.files import demand_private, private_dir, read_bounded, read_private, replace
from interlock.base.keys import (
    ARGON2_MEMORY,
    BadKey,
    Ed25519Signer,
    Ed25519Verifier,
    MlDsaSigner,
    MlDsaVerifier,
    dump_key,
    is_sealed,
    load_key,
)
from interlock.base.primitives import BadSignature, Rng, ml_dsa_of_pem, ml_dsa_pem

__all__ = [
    "NEXT",
    "RoleSigner",
    "RoleVerifier",
    "key_texts",
    "load_keys",
    "make_keys",
    "open_key",
    "own_key",
    "read_key",
    "service_passphrase",
    "tuf_key",
    "tuf_signature",
    "verifier_of_tuf",
]

NEXT: Final = ".next"  # a key that is made, and not yet the role's, has this behind its file's name
_MAX_KEY_FILE: Final = 16 * 1024
_ED25519: Final = "ed25519"
_ML_DSA: Final = "ml-dsa"
_ML_DSA_SCHEME: Final = "ml-dsa-65/1"

RoleVerifier = Ed25519Verifier | MlDsaVerifier


def tuf_key(verifier: RoleVerifier) -> SSlibKey:
    """A public key as TUF metadata names it. Raises: BadKey, for an ML-DSA key of another set than 65."""
    if isinstance(verifier, Ed25519Verifier):
        kind, scheme, public = _ED25519, _ED25519, verifier.public.hex()
    elif verifier.level == 65:
        kind, scheme, public = _ML_DSA, _ML_DSA_SCHEME, ml_dsa_pem(65, verifier.public)
    else:
        raise BadKey("is no key for a role; ML-DSA-65 is", where=f"ml-dsa-{verifier.level}")
    body = {"keytype": kind, "scheme": scheme, "keyval": {"public": public}}
    keyid = hashlib.sha256(canonical.encode(body)).hexdigest()
    return SSlibKey(keyid, kind, scheme, {"public": public})


def verifier_of_tuf(key: Key) -> RoleVerifier:
    """The inverse of `tuf_key`. Raises: BadKey, for a key of another kind, or under an id that is not its own."""
    public = key.keyval.get("public")
    try:
        if not isinstance(public, str):
            raise ValueError
        if (key.keytype, key.scheme) == (_ED25519, _ED25519):
            found: RoleVerifier = Ed25519Verifier(bytes.fromhex(public))
        elif (key.keytype, key.scheme) == (_ML_DSA, _ML_DSA_SCHEME):
            found = MlDsaVerifier(65, ml_dsa_of_pem(65, public))
        else:
            raise ValueError
        if tuf_key(found).keyid == key.keyid:
            return found
    except (ValueError, BadSignature):
        pass
    raise BadKey("is no key that interlock makes for a role", where=f"key {one_line(key.keyid, 80)}")


def key_texts(keys: Mapping[str, Key], keyids: Iterable[str]) -> frozenset[str]:
    """The Ed25519 ones among a role's keys, in the form in which log entries name who speaks."""
    found = [keys[keyid] for keyid in keyids]
    return frozenset(f"{_ED25519}:{key.keyval['public']}" for key in found if key.keytype == _ED25519)


def tuf_signature(signer: Ed25519Signer | MlDsaSigner, payload: bytes) -> Signature:
    """A signature over TUF metadata; an ML-DSA key signs the payload's tagged SHA-512 (TAP 21)."""
    if isinstance(signer, MlDsaSigner):
        payload = b"tuf\x01" + hashlib.sha512(payload).digest()
    return Signature(tuf_key(signer.verifier).keyid, signer.sign(payload).hex())


class RoleSigner(Signer):
    """Signs TUF metadata with one of our Ed25519 keys."""

    def __init__(self, signer: Ed25519Signer) -> None:
        self._signer = signer
        self._key = tuf_key(signer.verifier)

    def sign(self, payload: bytes) -> Signature:
        return tuf_signature(self._signer, payload)

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


def make_keys(
    directory: Path, roles: tuple[str, ...], rng: Rng, passphrase: bytes | None = None
) -> dict[str, RoleSigner]:
    """Make a key for each role, as files that only their owner can read; a key that is there already stays.

    With a passphrase the new files are sealed too.

    Raises: NotWritable, BadKey.
    """
    private_dir(directory)
    return {role: RoleSigner(own_key(directory / f"{role}.key", rng, passphrase)) for role in roles}


def own_key(path: Path, rng: Rng, passphrase: bytes | None = None) -> Ed25519Signer:
    """The key in a file, made and sealed with the passphrase, if any, where there is none. Raises: as `make_keys`."""
    if not path.exists():
        replace(path, dump_key(Ed25519Signer(rng(32)), passphrase=passphrase, salt=rng(16), nonce=rng(24)))
    return read_key(path, passphrase)


def load_keys(directory: Path, roles: tuple[str, ...]) -> dict[str, RoleSigner]:
    """Read the key of each role. Raises: BadKey, BadState."""
    return {role: RoleSigner(read_key(directory / f"{role}.key")) for role in roles}


def read_key(path: Path, passphrase: bytes | None = None, *, least_memory: int = ARGON2_MEMORY) -> Ed25519Signer:
    """Read a key file; one sealed weakly, or open to others and not sealed, is refused. Raises: BadKey, BadState.

    Without a passphrase, a sealed key is opened with the service's credential or the file that is named for it.
    """
    signer = open_key(path, passphrase, least_memory=least_memory)
    if not isinstance(signer, Ed25519Signer):
        raise BadKey("is an ML-DSA key, and an Ed25519 key is needed here", where=str(path))
    return signer


def open_key(
    path: Path, passphrase: bytes | None = None, *, least_memory: int = ARGON2_MEMORY
) -> Ed25519Signer | MlDsaSigner:
    """As `read_key`, for a key of either family."""
    data = read_bounded(path, _MAX_KEY_FILE)
    sealed = is_sealed(data, where=str(path))
    if not sealed:  # a sealed one may lie on a stick, which keeps no modes
        demand_private(path)
        return load_key(data, where=str(path))
    phrase = passphrase if passphrase is not None else service_passphrase(path.name.split(".key")[0])
    return _opened(data, str(path), phrase, least_memory)


def service_passphrase(name: str) -> bytes | None:
    """The passphrase of a service's key, which is in a file: never in a variable, never on a command line.

    The first of: systemd's credential `NAME.passphrase` or `interlock.passphrase` (in $CREDENTIALS_DIRECTORY), and the
    file that $INTERLOCK_PASSPHRASE_FILE names, which only its owner may read. Raises: BadKey, BadState.
    """
    folder, file = os.environ.get("CREDENTIALS_DIRECTORY"), os.environ.get("INTERLOCK_PASSPHRASE_FILE")
    for path in (Path(folder) / f"{name}.passphrase", Path(folder) / "interlock.passphrase") if folder else ():
        if path.exists():
            return read_bounded(path, _MAX_KEY_FILE).rstrip(b"\r\n")
    return read_private(Path(file), _MAX_KEY_FILE).rstrip(b"\r\n") if file else None


@functools.lru_cache(maxsize=32)
def _opened(data: bytes, where: str, passphrase: bytes | None, least_memory: int) -> Ed25519Signer | MlDsaSigner:
    """A sealed key, opened once a process: a service signs often, and opening takes a second on purpose."""
    return load_key(data, where=where, passphrase=passphrase, least_memory=least_memory)
