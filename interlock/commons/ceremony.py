"""The root ceremony: keyholders, each with sealed keys, who only together make or change the root of trust.

Each step takes bytes and gives bytes, so that files can travel on a stick, from one keyholder to the next or to all of
them at once; no keyholder needs to see another's file:

    plan          what the root will say: a Plan, for a later root made from the one before (`plan_of`)
    request_of    the unsigned root, the root before it, and both in words, as one file
    sign_request  one keyholder's signature with one key, as a file of its own
    assemble      those files, in any order -> the root to publish, and the transcript
    finish_root   the same checks for a root that somebody else assembled

Refused: a circle or a threshold that lets one person decide; a request whose words are not those of its root, or do
not say all of it; a
signature over other bytes, by a stranger's key, or a second one by the same key; too few holders, of the new root or
of the old one; two of one employer in a quorum; a version that does not follow.
"""

from __future__ import annotations

import datetime as _dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from securesystemslib.exceptions import UnverifiedSignatureError
from tuf.api.metadata import Key, Metadata, Root, Signature  # type: ignore[attr-defined]

from interlock.base.clock import MICROSECONDS
from interlock.base.codec import Malformed
from interlock.base.errors import one_line
from interlock.base.files import BadState, stamped, unstamped
from interlock.base.keys import (
    ARGON2_MEMORY,
    BadKey,
    Ed25519Signer,
    Ed25519Verifier,
    MlDsaSigner,
    dump_key,
)
from interlock.base.primitives import Rng
from interlock.base.text import b64, is_sha256, unb64
from interlock.commons.holders import (
    HOLDERS_FIELD,
    CeremonyRefused,
    Holder,
    demand_circle,
    demand_holders,
    families,
    holders_of,
    read_root,
    table_of,
)
from interlock.commons.layout import LIFETIME_DAYS, LOG_POLICY_FIELD, MAX_ROOT, TOP_ROLES
from interlock.commons.pack import sha256_hex
from interlock.commons.signers import RoleVerifier, tuf_key, tuf_signature, verifier_of_tuf
from interlock.commons.transcript import PREVIOUS_FIELD, digest_of, transcript_of, words_of

__all__ = [
    "MAX_REQUEST",
    "MAX_SIGNATURE",
    "Assembled",
    "Plan",
    "Request",
    "assemble",
    "expiry",
    "expiry_us",
    "finish_root",
    "new_keys",
    "parse_request",
    "plan_of",
    "request_of",
    "sign_request",
    "signature_of",
]

MAX_REQUEST: Final = 4 * MAX_ROOT  # bytes: two roots in base64, and their words
MAX_SIGNATURE: Final = 16 * 1024
_ROOT: Final = "root"
_REQUEST: Final = "interlock-ceremony-request"
_SIGNATURE: Final = "interlock-ceremony-signature"


@dataclass(frozen=True)
class Plan:
    """What a root is to say: who holds keys, how many sign, the top roles' keys, its end, the log policy's SHA-256."""

    holders: tuple[Holder, ...]
    online: Mapping[str, Ed25519Verifier]
    threshold: int
    expires_us: int
    log_policy: str = ""


@dataclass(frozen=True)
class Request:
    """An unsigned root and the root before it (None: it is the first)."""

    root: bytes
    previous: bytes | None

    @property
    def digest(self) -> str:
        return digest_of(read_root(self.root, "request"))

    @property
    def words(self) -> tuple[str, ...]:
        return words_of(self.root, self.previous)

    @property
    def data(self) -> bytes:
        """The request's file. The inverse of `parse_request`."""
        return stamped(
            _REQUEST,
            1,
            {
                "text": list(self.words),
                "digest": self.digest,
                "root": b64(self.root),
                "previous": None if self.previous is None else b64(self.previous),
            },
        )


@dataclass(frozen=True)
class Assembled:
    """A finished root, and the transcript of its ceremony."""

    root: bytes
    transcript: bytes


def new_keys(
    passphrase: bytes, rng: Rng, *, hybrid: bool = False, memory: int = ARGON2_MEMORY
) -> list[tuple[RoleVerifier, bytes]]:
    """A keyholder's new keys, each with the bytes of its file, sealed with the passphrase (Argon2id, secretbox).

    Raises: CeremonyRefused, for an empty passphrase.
    """
    if not passphrase:
        raise CeremonyRefused("a ceremony key needs a passphrase")
    signers: list[Ed25519Signer | MlDsaSigner] = [Ed25519Signer(rng(32))]
    if hybrid:
        signers.append(MlDsaSigner(65, rng(32)))
    return [
        (signer.verifier, dump_key(signer, passphrase=passphrase, salt=rng(16), nonce=rng(24), memory=memory))
        for signer in signers
    ]


def plan_of(root: bytes) -> Plan:
    """What a root says, to be changed into what the next one will say. Raises: CeremonyRefused."""
    signed = read_root(root, "root").signed
    return Plan(
        holders=holders_of(signed),
        online={role: _online_key(signed, role) for role in TOP_ROLES},
        threshold=signed.roles[_ROOT].threshold,
        expires_us=int(signed.expires.timestamp()) * MICROSECONDS,
        log_policy=str(signed.unrecognized_fields.get(LOG_POLICY_FIELD, "")),
    )


def request_of(plan: Plan, previous: bytes | None, now_us: int) -> Request:
    """Ask the keyholders for a root that says what the plan says. Raises: CeremonyRefused."""
    today = _moment(now_us).date().isoformat()
    over = next((h for h in plan.holders if h.until < today), None)
    if over is not None:
        raise CeremonyRefused(f"has a term that ended on {over.until}", where=f"keyholder {over.name}")
    if plan.expires_us <= now_us:
        raise CeremonyRefused("would have ended already", where="root", fix="give it a later end")
    version = 1 if previous is None else read_root(previous, "previous root").signed.version + 1
    request = Request(Metadata(_root(plan, version, previous)).to_bytes(), previous)
    _demand_followable(request)
    return request


def parse_request(data: bytes, *, where: str) -> Request:
    """Read a request; one whose words or digest are not those of its root is refused, for somebody could believe them.

    Raises: CeremonyRefused, NewerFormat.
    """
    try:
        body = unstamped(data, _REQUEST, 1, where=where)
        root, previous = body.get("root"), body.get("previous")
        request = Request(unb64(str(root), "root"), None if previous is None else unb64(str(previous), "previous root"))
    except (BadState, Malformed) as e:
        fix = "it may be half-written: copy it again"
        raise CeremonyRefused(f"is no whole request ({e.what})", where=where, fix=fix) from None
    if read_root(request.root, where).signatures:
        raise CeremonyRefused("asks with a root that is signed already", where=where)
    _demand_followable(request)
    if (body.get("text"), body.get("digest")) != (list(request.words), request.digest):
        raise CeremonyRefused("says other words or another digest than its root", where=where, fix="do not sign it")
    return request


def sign_request(request: Request, signer: Ed25519Signer | MlDsaSigner) -> tuple[str, bytes]:
    """One key's signature: who holds the key, and the signature's file.

    Raises: CeremonyRefused, where the key is of no holder of this root or of the one before.
    """
    verifier = signer.verifier
    holder = _owner(request, tuf_key(verifier), where=f"key {tuf_key(verifier).keyid[:16]}")
    signature = tuf_signature(signer, read_root(request.root, "request").signed_bytes)
    body: dict[str, object] = {
        "request": request.digest,
        "holder": holder,
        "family": families([verifier])[0],
        "keyid": signature.keyid,
        "signature": b64(bytes.fromhex(signature.signature)),
    }
    return holder, stamped(_SIGNATURE, 1, body)


def signature_of(request: Request, where: str, data: bytes) -> Signature:
    """Read and check one signature file, which goes by the name `where`. Raises: CeremonyRefused, NewerFormat."""
    try:
        body = unstamped(data, _SIGNATURE, 1, where=where)
        raw = unb64(str(body.get("signature")), "signature")
    except (BadState, Malformed) as e:
        fix = "it may be half-written: copy it again, or sign again"
        raise CeremonyRefused(f"is no whole signature ({e.what})", where=where, fix=fix) from None
    if body.get("request") != request.digest:
        said = one_line(str(body.get("request")), 16)
        raise CeremonyRefused(
            f"signs other bytes (digest {said}…, and this request has {request.digest[:16]}…)", where=where
        )
    key = _known_key(request, str(body.get("keyid")), where)
    holder = _owner(request, key, where)
    if body.get("holder") != holder:
        raise CeremonyRefused(f"names another holder than {holder}, whose key this is", where=where)
    signature = Signature(key.keyid, raw.hex())
    try:
        key.verify_signature(signature, read_root(request.root, where).signed_bytes)
    except UnverifiedSignatureError:
        raise CeremonyRefused(f"is not {holder}'s signature over this request", where=where) from None
    return signature


def assemble(request: Request, files: Iterable[tuple[str, bytes]], now_us: int) -> Assembled:
    """Put signature files, each with the name it goes by, together; in whatever order, the root has the same bytes.

    Raises: CeremonyRefused.
    """
    md = read_root(request.root, "request")
    taken: dict[str, tuple[str, Signature]] = {}
    for where, data in files:
        signature = signature_of(request, where, data)
        if signature.keyid in taken:
            raise CeremonyRefused(
                f"is this key's second signature, beside {taken[signature.keyid][0]}",
                where=where,
                fix="another keyholder has to sign",
            )
        taken[signature.keyid] = where, signature
    md.signatures = {keyid: taken[keyid][1] for keyid in sorted(taken)}
    root = finish_root(md.to_bytes(), previous=request.previous)
    return Assembled(root, transcript_of(root, request.previous, now_us))


def finish_root(root: bytes, *, previous: bytes | None = None) -> bytes:
    """A root that a quorum signed, of its own keyholders and of those before; the bytes to publish.

    Raises: CeremonyRefused.
    """
    _demand_followable(Request(root, previous))
    demand_holders(root, previous)
    return root


def expiry(role: str, now_us: int) -> _dt.datetime:
    """When a role's signature made now ends; whole seconds, as TUF writes them."""
    return _moment(now_us) + _dt.timedelta(days=LIFETIME_DAYS[role])


def expiry_us(role: str, now_us: int) -> int:
    """As `expiry`, in microseconds."""
    return int(expiry(role, now_us).timestamp()) * MICROSECONDS


def _root(plan: Plan, version: int, previous: bytes | None) -> Root:
    demand_circle(plan.holders, plan.threshold)
    extra: dict[str, object] = {HOLDERS_FIELD: table_of(plan.holders)}
    if previous is not None:
        extra[PREVIOUS_FIELD] = sha256_hex(previous)
    if plan.log_policy:
        extra[LOG_POLICY_FIELD] = plan.log_policy
    root = Root(version=version, expires=_moment(plan.expires_us), consistent_snapshot=True, unrecognized_fields=extra)
    for holder in plan.holders:
        for key in holder.keys:
            root.add_key(tuf_key(key), _ROOT)
    root.roles[_ROOT].threshold = plan.threshold
    if set(plan.online) != set(TOP_ROLES):
        raise CeremonyRefused(f"needs a key for each of {', '.join(TOP_ROLES)}", where="root")
    for role in TOP_ROLES:
        root.add_key(tuf_key(plan.online[role]), role)
    return root


def _demand_followable(request: Request) -> None:
    """Raises: CeremonyRefused, for a root that does not follow the one before, or that no node of ours could follow."""
    signed = read_root(request.root, "root").signed
    before = None if request.previous is None else read_root(request.previous, "previous root").signed
    if signed.version != (1 if before is None else before.version + 1):
        told = "there is none" if before is None else f"that has version {before.version}"
        raise CeremonyRefused(f"has version {signed.version} and does not follow the root before: {told}", where="root")
    named = None if request.previous is None else sha256_hex(request.previous)
    if signed.unrecognized_fields.get(PREVIOUS_FIELD) != named:
        raise CeremonyRefused("follows another root than this one", where="root", fix="give the root that it changes")
    policy = signed.unrecognized_fields.get(LOG_POLICY_FIELD)
    if policy is not None and not is_sha256(policy):
        raise CeremonyRefused("names a log policy by no SHA-256", where="root")
    anew = _root(plan_of(request.root), signed.version, request.previous)
    anew.spec_version = signed.spec_version
    if anew.to_dict() != signed.to_dict():
        raise CeremonyRefused("says more than can be told of it in words", where="root", fix="do not sign it")
    held = {keyid for holder in holders_of(signed) for keyid in holder.keyids}
    for role in TOP_ROLES:
        if tuf_key(_online_key(signed, role)).keyid in held:
            raise CeremonyRefused("a root key may not be an online key too", where=role)


def _online_key(root: Root, role: str) -> Ed25519Verifier:
    try:
        (keyid,) = root.roles[role].keyids
        key = verifier_of_tuf(root.keys[keyid])
    except (ValueError, KeyError, BadKey):
        key = None
    if not isinstance(key, Ed25519Verifier) or root.roles[role].threshold != 1:
        raise CeremonyRefused("has not one Ed25519 key", where=f"role {role}")
    return key


def _owner(request: Request, key: Key, where: str) -> str:
    """Who holds a key, in the new root or in the old one. Raises: CeremonyRefused."""
    roots = [read_root(request.root, "root").signed]
    if request.previous is not None:
        roots.append(read_root(request.previous, "previous root").signed)
    for root in roots:
        for holder in holders_of(root):
            if key.keyid in holder.keyids:
                return holder.name
    raise CeremonyRefused("is no key of this root", where=where, fix="only keyholders of the old or new root sign")


def _known_key(request: Request, keyid: str, where: str) -> Key:
    for data in (request.root, request.previous):
        if data is not None and keyid in (keys := read_root(data, "root").signed.keys):
            return keys[keyid]
    raise CeremonyRefused("is by a key that is unknown to this root and the one before", where=where)


def _moment(us: int) -> _dt.datetime:
    return _dt.datetime.fromtimestamp(us // MICROSECONDS, tz=_dt.UTC)
