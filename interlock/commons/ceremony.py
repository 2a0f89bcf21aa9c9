"""The ceremony: keyholders, each with sealed keys, who only together make or change a root, or what `targets` says.

Each step takes bytes and gives bytes, so that files can travel on a stick, from one keyholder to the next or to all of
them at once; no keyholder needs to see another's file:

    plan          what the root will say (rootplan.py), for a later root made from the one before
    request_of    the unsigned root, the root before it, and both in words, as one file; where `targets` has holders
                  too, unsigned targets with it, or alone under the root in force
    sign_request  one keyholder's signatures with one key, as a file of its own
    assemble      those files, in any order -> the root and targets to publish, and the root's transcript

Refused: a circle or a threshold that lets one person decide; a request whose words are not those of its root, or do
not say all of it; a
signature over other bytes, by a stranger's key, or a second one by the same key; too few holders, of the new root or
of the old one; two of one employer in a quorum; a version that does not follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from securesystemslib.exceptions import UnverifiedSignatureError
from tuf.api.metadata import Key, Metadata, Signature  # type: ignore[attr-defined]

from interlock.base.clock import rfc3339
from interlock.base.codec import Malformed
from interlock.base.errors import one_line
from interlock.base.files import BadState, stamped, unstamped
from interlock.base.keys import ARGON2_MEMORY, Ed25519Signer, MlDsaSigner, dump_key
from interlock.base.primitives import Rng
from interlock.base.text import b64, unb64
from interlock.commons.holders import (
    CeremonyRefused,
    demand_holders,
    demand_targets,
    families,
    holders_of,
    read_root,
    read_targets,
    targets_of,
)
from interlock.commons.pack import sha256_hex
from interlock.commons.rootplan import Plan, demand_followable, finish_root, root_of
from interlock.commons.signers import RoleVerifier, tuf_key, tuf_signature
from interlock.commons.toplevel import Draft, demand_draft, draft_words
from interlock.commons.transcript import quorum, transcript_of, words_of

__all__ = [
    "MAX_REQUEST",
    "MAX_SIGNATURE",
    "Assembled",
    "Request",
    "assemble",
    "new_keys",
    "parse_request",
    "request_of",
    "request_targets",
    "sign_request",
    "signatures_of",
]

MAX_REQUEST: Final = 32 << 20  # bytes: two roots, two targets and their files in base64, and their words
MAX_SIGNATURE: Final = 16 * 1024
_ROOT: Final = "root"
_TARGETS: Final = "targets"
_VERSION: Final = 2  # of both files
_REQUEST: Final = "interlock-ceremony-request"
_SIGNATURE: Final = "interlock-ceremony-signature"


@dataclass(frozen=True)
class Request:
    """An unsigned root and the root before it (None: it is the first), and targets to be signed with it, if any.

    Where targets alone are asked for, `root` is the signed one under which they are to count.
    """

    root: bytes
    previous: bytes | None
    draft: Draft | None = None

    @property
    def payloads(self) -> dict[str, bytes]:
        """The bytes that are to be signed, by role."""
        root = read_root(self.root, "request")
        found = {} if root.signatures else {_ROOT: root.signed_bytes}
        if self.draft is not None:
            found[_TARGETS] = read_targets(self.draft.data, "request").signed_bytes
        return found

    @property
    def digest(self) -> str:
        """The SHA-256 of what is signed; of two things the digest of their digests."""
        digests = [sha256_hex(payload) for payload in self.payloads.values()]
        return digests[0] if len(digests) == 1 else sha256_hex("".join(digests).encode("ascii"))

    @property
    def words(self) -> tuple[str, ...]:
        root = words_of(self.root, self.previous) if _ROOT in self.payloads else ()
        return (*root, *([""] if root and self.draft else []), *self._draft_words())

    def _draft_words(self) -> tuple[str, ...]:
        if self.draft is None:
            return ()
        root = read_root(self.root, "root").signed
        circle = targets_of(root)
        assert circle is not None, "a request was checked when it was made or read"
        names = ", ".join(holder.name for holder in circle.holders)
        told = f"Who has to sign these targets: under root {root.version} ({names}), {quorum(circle)}."
        known = () if _ROOT in self.payloads else (f"  That root's file has SHA-256 {sha256_hex(self.root)}",)
        return (*draft_words(self.draft), told, *known)

    @property
    def data(self) -> bytes:
        """The request's file. The inverse of `parse_request`."""
        draft = self.draft
        return stamped(
            _REQUEST,
            _VERSION,
            {
                "text": list(self.words),
                "digest": self.digest,
                "root": b64(self.root),
                "previous": None if self.previous is None else b64(self.previous),
                "targets": None if draft is None else b64(draft.data),
                "targets_before": None if draft is None or draft.before is None else b64(draft.before),
                "files": [] if draft is None else [b64(data) for data in draft.files],
            },
        )


@dataclass(frozen=True)
class Assembled:
    """A finished root and the transcript of its ceremony; finished targets, if they were asked for.

    Where no root was asked for, it is the one in force, and the transcript is empty.
    """

    root: bytes
    transcript: bytes
    targets: bytes | None = None


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


def request_of(plan: Plan, previous: bytes | None, now_us: int, draft: Draft | None = None) -> Request:
    """Ask the keyholders for a root that says what the plan says, and for targets with it. Raises: CeremonyRefused."""
    today = rfc3339(now_us)[:10]
    holders = (*plan.holders, *(plan.targets.holders if plan.targets else ()))
    over = next((h for h in holders if h.until < today), None)
    if over is not None:
        raise CeremonyRefused(f"has a term that ended on {over.until}", where=f"keyholder {over.name}")
    if plan.expires_us <= now_us:
        raise CeremonyRefused("would have ended already", where="root", fix="give it a later end")
    version = 1 if previous is None else read_root(previous, "previous root").signed.version + 1
    request = Request(Metadata(root_of(plan, version, previous)).to_bytes(), previous, draft)
    _demand_sound(request)
    return request


def request_targets(root: bytes, draft: Draft) -> Request:
    """Ask the holders of targets, under the root in force, for these alone. Raises: CeremonyRefused."""
    request = Request(root, None, draft)
    _demand_sound(request)
    return request


def parse_request(data: bytes, *, where: str) -> Request:
    """Read a request; one whose words or digest are not those of what it asks for is refused, for one could believe it.

    Raises: CeremonyRefused, NewerFormat.
    """
    try:
        body = unstamped(data, _REQUEST, _VERSION, where=where)
        _demand_ours(body, where)
        root, previous = unb64(str(body.get("root")), "root"), _bytes_of(body, "previous")
        targets, before, files = _bytes_of(body, "targets"), _bytes_of(body, "targets_before"), body.get("files")
        rows = tuple(unb64(str(row), "file") for row in files) if isinstance(files, list) else ()
        request = Request(root, previous, None if targets is None else Draft(targets, before, rows))
    except (BadState, Malformed) as e:
        fix = "it may be half-written: copy it again"
        raise CeremonyRefused(f"is no whole request ({e.what})", where=where, fix=fix) from None
    if read_root(request.root, where).signatures and request.draft is None:
        raise CeremonyRefused("asks with a root that is signed already", where=where)
    _demand_sound(request)
    if (body.get("text"), body.get("digest")) != (list(request.words), request.digest):
        raise CeremonyRefused("says other words or another digest than its root", where=where, fix="do not sign it")
    return request


def sign_request(request: Request, signer: Ed25519Signer | MlDsaSigner) -> tuple[str, bytes]:
    """One key's signatures, of all that it may sign of this: who holds the key, and the file.

    Raises: CeremonyRefused, where the key is of no holder of this root or of the one before.
    """
    key = tuf_key(signer.verifier)
    holder, roles = _owner(request, key, where=f"key {key.keyid[:16]}")
    signatures = {role: tuf_signature(signer, request.payloads[role]).signature for role in roles}
    body: dict[str, object] = {
        "request": request.digest,
        "holder": holder,
        "family": families([signer.verifier])[0],
        "keyid": key.keyid,
        "signatures": {role: b64(bytes.fromhex(signature)) for role, signature in signatures.items()},
    }
    return holder, stamped(_SIGNATURE, _VERSION, body)


def signatures_of(request: Request, where: str, data: bytes) -> dict[str, Signature]:
    """Read and check one signature file, which goes by the name `where`; what it signs, by role.

    Raises: CeremonyRefused, NewerFormat.
    """
    try:
        body = unstamped(data, _SIGNATURE, _VERSION, where=where)
        _demand_ours(body, where)
        said = body.get("signatures")
        raw = {role: unb64(str(one), "signature") for role, one in said.items()} if isinstance(said, dict) else {}
    except (BadState, Malformed) as e:
        fix = "it may be half-written: copy it again, or sign again"
        raise CeremonyRefused(f"is no whole signature ({e.what})", where=where, fix=fix) from None
    if body.get("request") != request.digest:
        told = one_line(str(body.get("request")), 16)
        raise CeremonyRefused(
            f"signs other bytes (digest {told}…, and this request has {request.digest[:16]}…)", where=where
        )
    key = _known_key(request, str(body.get("keyid")), where)
    holder, roles = _owner(request, key, where)
    if body.get("holder") != holder:
        raise CeremonyRefused(f"names another holder than {holder}, whose key this is", where=where)
    if set(raw) != set(roles):
        raise CeremonyRefused(f"does not sign all that {holder} was asked for", where=where, fix="sign again")
    signatures = {role: Signature(key.keyid, one.hex()) for role, one in raw.items()}
    for role, signature in signatures.items():
        try:
            key.verify_signature(signature, request.payloads[role])
        except UnverifiedSignatureError:
            raise CeremonyRefused(f"is not {holder}'s signature over this request", where=where) from None
    return signatures


def assemble(request: Request, files: Iterable[tuple[str, bytes]], now_us: int) -> Assembled:
    """Put signature files, each with the name it goes by, together; in whatever order, the result has the same bytes.

    Raises: CeremonyRefused.
    """
    taken: dict[str, tuple[str, dict[str, Signature]]] = {}
    for where, data in files:
        signatures = signatures_of(request, where, data)
        keyid = next(iter(signatures.values())).keyid
        if keyid in taken:
            raise CeremonyRefused(
                f"is this key's second signature, beside {taken[keyid][0]}",
                where=where,
                fix="another keyholder has to sign",
            )
        taken[keyid] = where, signatures
    by_role = {role: {keyid: row[role] for keyid, (_, row) in sorted(taken.items()) if role in row}
               for role in request.payloads}  # fmt: skip
    root, transcript = request.root, b""
    if _ROOT in by_role:
        root = finish_root(_with(request.root, by_role[_ROOT]), previous=request.previous)
        transcript = transcript_of(root, request.previous, now_us)
    targets = None if request.draft is None else _with(request.draft.data, by_role[_TARGETS])
    if targets is not None:
        demand_targets(targets, root)
    return Assembled(root, transcript, targets)


def _demand_sound(request: Request) -> None:
    """Raises: CeremonyRefused, for a request that keyholders should not be asked."""
    signed = read_root(request.root, "root").signed
    circle = targets_of(signed)
    if _ROOT in request.payloads:
        demand_followable(request.root, request.previous)
        before = None if request.previous is None else targets_of(read_root(request.previous, "previous root").signed)
        if circle is not None and circle != before and request.draft is None:
            fix = "give --dir with the commons' folder"
            raise CeremonyRefused("have new holders, so they have to be signed with it", where="targets", fix=fix)
    else:
        demand_holders(request.root)
    if request.draft is not None:
        if circle is None:
            raise CeremonyRefused("have one key, on the commons' machine, and no holders", where="targets")
        demand_draft(request.draft)
        _demand_in_force(request.draft.before, request.previous or request.root)


def _demand_in_force(before: bytes | None, root: bytes) -> None:
    """Raises: CeremonyRefused, for targets before that nobody signed: what changes would be told beside a lie."""
    if before is None:
        return
    try:
        demand_targets(before, root)
    except CeremonyRefused as e:
        told = f"are not those that were signed: {e.where} {e.what}"
        raise CeremonyRefused(told, where="targets before", fix="do not sign it") from None


def _owner(request: Request, key: Key, where: str) -> tuple[str, tuple[str, ...]]:
    """Who holds a key, in the new root or in the old one, and for which roles it is asked. Raises: CeremonyRefused."""
    root = read_root(request.root, "root").signed
    circles = [(_ROOT, holders_of(root))]
    if request.previous is not None:
        circles.append((_ROOT, holders_of(read_root(request.previous, "previous root").signed)))
    circle = targets_of(root)
    circles.append((_TARGETS, circle.holders if circle else ()))
    asked = request.payloads
    found = [(role, h.name) for role, holders in circles for h in holders if key.keyid in h.keyids and role in asked]
    if not found:
        fix = "only keyholders of what is asked for sign"
        raise CeremonyRefused("is no key of this root", where=where, fix=fix)
    return found[0][1], tuple(dict.fromkeys(role for role, _ in found))


def _known_key(request: Request, keyid: str, where: str) -> Key:
    for data in (request.root, request.previous):
        if data is not None and keyid in (keys := read_root(data, "root").signed.keys):
            return keys[keyid]
    raise CeremonyRefused("is by a key that is unknown to this root and the one before", where=where)


def _with(data: bytes, signatures: Mapping[str, Signature]) -> bytes:
    """Metadata with these signatures, in their order."""
    md = Metadata.from_bytes(data)
    md.signatures = dict(signatures)
    return bytes(md.to_bytes())


def _demand_ours(body: Mapping[str, object], where: str) -> None:
    """Raises: CeremonyRefused, for a file of an interlock that could not ask for targets yet."""
    if body["v"] != _VERSION:
        raise CeremonyRefused("is of an earlier interlock", where=where, fix="ask, and sign, anew")


def _bytes_of(body: Mapping[str, object], name: str) -> bytes | None:
    """Raises: Malformed."""
    return None if body.get(name) is None else unb64(str(body[name]), name)
