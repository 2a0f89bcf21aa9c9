"""The root ceremony: keyholders, each with a sealed key, who only together make or change the root of trust.

Each step takes bytes and gives bytes, so a draft can travel to each keyholder on a stick:

    first root     draft_root -> sign_root by each holder -> finish_root
    a later root   draft_next -> sign_root by old and by new holders -> finish_root(previous=...)

Refused: a quorum of one, one holder or one key standing twice, a signature by somebody who holds no key of this root
or of the one before, the same holder signing twice, and a root that too few signed.
"""

from __future__ import annotations

import datetime as _dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tuf.api.metadata import Metadata, Root  # type: ignore[attr-defined]
from tuf.api.serialization import DeserializationError

from interlock.base.clock import MICROSECONDS
from interlock.base.errors import InterlockError, one_line
from interlock.base.keys import ARGON2_MEMORY, Ed25519Signer, Ed25519Verifier, dump_key
from interlock.base.primitives import Rng
from interlock.commons.layout import LIFETIME_DAYS, MAX_ROOT, TOP_ROLES
from interlock.commons.signers import HOLDER_FIELD, RoleSigner, tuf_key

__all__ = [
    "LEAST_THRESHOLD",
    "CeremonyRefused",
    "Holder",
    "draft_next",
    "draft_root",
    "expiry",
    "finish_root",
    "holders_of",
    "new_holder",
    "sign_root",
]

LEAST_THRESHOLD: Final = 2
_ROOT: Final = "root"


class CeremonyRefused(InterlockError):
    """A step of the root ceremony that would weaken the root, or does not belong to it."""

    code = "ceremony-refused"


@dataclass(frozen=True)
class Holder:
    """A named person who holds one root key."""

    name: str
    key: Ed25519Verifier


def new_holder(name: str, passphrase: bytes, rng: Rng, *, memory: int = ARGON2_MEMORY) -> tuple[Holder, bytes]:
    """Make a keyholder: who it is, and the bytes of the key file sealed with the passphrase (Argon2id, secretbox).

    Raises: CeremonyRefused, for an empty passphrase.
    """
    if not passphrase:
        raise CeremonyRefused("a ceremony key needs a passphrase", where=name)
    signer = Ed25519Signer(rng(32))
    sealed = dump_key(signer, passphrase=passphrase, salt=rng(16), nonce=rng(24), memory=memory)
    return Holder(name, signer.verifier), sealed


def draft_root(
    holders: Sequence[Holder], online: Mapping[str, Ed25519Verifier], *, threshold: int, now_us: int
) -> bytes:
    """The unsigned first root: who holds root keys, how many must sign, and the keys of the top roles.

    Raises: CeremonyRefused.
    """
    return Metadata(_root(1, holders, online, threshold, now_us)).to_bytes()


def draft_next(
    previous: bytes,
    holders: Sequence[Holder],
    online: Mapping[str, Ed25519Verifier],
    *,
    threshold: int,
    now_us: int,
) -> bytes:
    """The unsigned root that follows `previous`. Raises: CeremonyRefused."""
    version = _read(previous, "previous root").signed.version + 1
    return Metadata(_root(version, holders, online, threshold, now_us)).to_bytes()


def sign_root(draft: bytes, signer: Ed25519Signer, *, previous: bytes | None = None) -> bytes:
    """A draft with one keyholder's signature more; `previous` lets holders of the root before sign the change.

    Raises: CeremonyRefused.
    """
    md = _read(draft, "draft")
    role_signer = RoleSigner(signer)
    keyid = role_signer.public_key.keyid
    allowed = set(md.signed.roles[_ROOT].keyids)
    if previous is not None:
        allowed |= set(_read(previous, "previous root").signed.roles[_ROOT].keyids)
    if keyid not in allowed:
        raise CeremonyRefused("is no key of this root", where=signer.verifier.text)
    if keyid in md.signatures:
        raise CeremonyRefused("has signed already", where=signer.verifier.text, fix="another keyholder has to sign")
    md.sign(role_signer, append=True)
    return md.to_bytes()


def finish_root(draft: bytes, *, previous: bytes | None = None) -> bytes:
    """A root that enough keyholders signed, both of its own and of the root before; the bytes to publish.

    Raises: CeremonyRefused.
    """
    md = _read(draft, "root")
    root = md.signed
    if root.roles[_ROOT].threshold < LEAST_THRESHOLD:
        raise CeremonyRefused("lets a single keyholder change the root", where="root")
    before = None if previous is None else _read(previous, "previous root").signed
    if root.version != (1 if before is None else before.version + 1):
        raise CeremonyRefused(f"version {root.version} does not follow the root before", where="root")
    result = root.get_root_verification_result(before, md.signed_bytes, md.signatures)
    if not result.verified:
        signed = len(result.signed)
        raise CeremonyRefused(
            f"is signed by {signed} keyholders, and {root.roles[_ROOT].threshold} have to",
            where="root",
            fix="let more keyholders sign",
        )
    return draft


def holders_of(root: bytes) -> tuple[Holder, ...]:
    """The keyholders that a root names. Raises: CeremonyRefused."""
    signed = _read(root, "root").signed
    keys = [signed.keys[keyid] for keyid in signed.roles[_ROOT].keyids]
    return tuple(
        Holder(str(k.unrecognized_fields.get(HOLDER_FIELD, "")), Ed25519Verifier(bytes.fromhex(k.keyval["public"])))
        for k in keys
    )


def expiry(role: str, now_us: int) -> _dt.datetime:
    """When a role's signature made now ends; whole seconds, as TUF writes them."""
    moment = _dt.datetime.fromtimestamp(now_us // MICROSECONDS, tz=_dt.UTC)
    return moment + _dt.timedelta(days=LIFETIME_DAYS[role])


def _root(
    version: int, holders: Sequence[Holder], online: Mapping[str, Ed25519Verifier], threshold: int, now_us: int
) -> Root:
    _demand_quorum(holders, threshold)
    root = Root(version=version, expires=expiry(_ROOT, now_us), consistent_snapshot=True)
    for holder in holders:
        root.add_key(tuf_key(holder.key, holder.name), _ROOT)
    root.roles[_ROOT].threshold = threshold
    if set(online) != set(TOP_ROLES):
        raise ValueError(f"a root needs the keys of {', '.join(TOP_ROLES)}")
    held = {h.key.public for h in holders}
    for role in TOP_ROLES:
        if online[role].public in held:
            raise CeremonyRefused("a root key may not be an online key too", where=role)
        root.add_key(tuf_key(online[role]), role)
    return root


def _demand_quorum(holders: Sequence[Holder], threshold: int) -> None:
    if threshold < LEAST_THRESHOLD:
        raise CeremonyRefused(f"a quorum of {threshold} lets one person change the root", fix="ask for two or more")
    if any(not h.name or not h.name.isprintable() for h in holders):
        raise CeremonyRefused("every keyholder needs a name")
    for what, values in (("name", [h.name for h in holders]), ("key", [h.key.text for h in holders])):
        twice = next((v for v in values if values.count(v) > 1), None)
        if twice is not None:
            raise CeremonyRefused(f"stands twice as a keyholder's {what}", where=twice)
    if threshold > len(holders):
        raise CeremonyRefused(f"{threshold} have to sign, and there are {len(holders)} keyholders")


def _read(data: bytes, what: str) -> Metadata[Root]:
    if len(data) > MAX_ROOT:
        raise CeremonyRefused(f"is larger than {MAX_ROOT} bytes", where=what)
    try:
        md = Metadata[Root].from_bytes(data)
    except DeserializationError as e:
        raise CeremonyRefused(f"is not TUF metadata ({one_line(str(e), 200)})", where=what) from None
    if not isinstance(md.signed, Root):
        raise CeremonyRefused("is not root metadata", where=what)
    return md
