"""The keys of an issuer's folder: the one in use, those that it followed, and the old keys' word for that.

    issuer.key             in use                   issuer.key.next    made, and not in use yet
    retired/issuer-ID.key  former keys, 0600        successors/HEX.json  what the key HEX said of its successor

A former key still signs for the epochs that were opened under it: what is published of them names it. Once they are
closed and their counts published, its file can be taken away. A rotation writes, in this order, the next key, the
old one's statement, the old key below retired/, and the next key in its place; each whole or not at all, so that one
that was killed anywhere is finished by the same command.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from interlock.base.files import BadState, file_lock, private_dir, read_bounded, replace, sync_dir
from interlock.base.keys import Ed25519Signer, dump_key
from interlock.base.primitives import Rng
from interlock.commons.keyring import RETIRED, listed_key, make_next
from interlock.commons.signers import NEXT, read_key, service_passphrase
from interlock.commons.statements import MAX_STATEMENT
from interlock.commons.succession import Succession, dump_succession, parse_succession

__all__ = ["ISSUER_KEY", "IssuerKeys", "read_issuer_keys", "succeed"]

ISSUER_KEY: Final = "issuer.key"
_SUCCESSORS: Final = "successors"
_NAME: Final = "issuer"
_LIMIT: Final = 16 * 1024


@dataclass(frozen=True)
class IssuerKeys:
    """The key in use; by their texts, former keys that can sign still, and what each former key said."""

    signer: Ed25519Signer
    former: dict[str, Ed25519Signer] = field(default_factory=dict)
    successions: dict[str, Succession] = field(default_factory=dict)


def read_issuer_keys(directory: Path) -> IssuerKeys:
    """Raises: BadKey, BadState, Malformed, BadSignature."""
    passphrase = service_passphrase(_NAME)
    kept = [read_key(path, passphrase) for path in sorted((directory / RETIRED).glob(f"{_NAME}-*.key"))]
    told = [_read(path) for path in sorted((directory / _SUCCESSORS).glob("*.json"))]
    return IssuerKeys(
        read_key(directory / ISSUER_KEY),
        {signer.verifier.text: signer for signer in kept},
        {found.issuer.text: found for found in told},
    )


def succeed(directory: Path, rng: Rng, now_us: int, passphrase: bytes | None = None) -> Succession:
    """Put a new key in the place of the issuer's, in the old one's word; the new and the old are sealed, if with any,
    with this passphrase.

    Raises: Locked, BadKey, BadState, NotWritable, Malformed, BadSignature.
    """
    path = directory / ISSUER_KEY
    following = path.with_name(path.name + NEXT)
    with file_lock(directory / f"{ISSUER_KEY}.lock"):
        before = service_passphrase(_NAME)
        old = read_key(path, passphrase if before is None else before)
        make_next(path, rng, passphrase)
        new = read_key(following, passphrase)
        told = private_dir(directory / _SUCCESSORS) / f"{old.verifier.public.hex()}.json"
        found = _read(told) if told.exists() else None
        if found is None or found.successor != new.verifier:  # another was named, and never put in place
            replace(told, dump_succession(old, new.verifier, now_us))
        kept = read_bounded(path, _LIMIT)
        if passphrase is not None:  # one passphrase opens them all, as the service has but one
            kept = dump_key(old, passphrase=passphrase, salt=rng(16), nonce=rng(24))
        replace(private_dir(directory / RETIRED) / f"{_NAME}-{listed_key(old.verifier.text)[:16]}.key", kept)
        following.replace(path)
        sync_dir(directory)
    return _read(told)


def _read(path: Path) -> Succession:
    found = parse_succession(read_bounded(path, MAX_STATEMENT), where=str(path))
    if path.stem != found.issuer.public.hex():
        raise BadState("is the word of another key than it is named for", where=str(path))
    return found
