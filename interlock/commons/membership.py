"""Who may report, without anyone knowing who reported: member keys, tokens and the proofs that reports carry.

    task          its membership extension names the kind of proof and the commons' name of the task
    member keys   one file a task and epoch, `members/<task>/<epoch>.json`: a signed target, and in the log, so that all
                  members and both aggregators are shown the same key and none can be marked by a key of its own
    credential    blind-token: a fresh Ed25519 key under the issuer's blind RSA signature; the issuer never saw it
                  certificate: the organisation's own key under the issuer's plain signature; linkable, by design
    proof         the credential, and its key's signature over task, report id, time and public share

The report's id is a hash of the credential, so one credential is one report, wherever it is shown; the public share
binds both aggregators' input shares in a VDAF with joint randomness, which is the only kind that tasks here have.
Two kinds of proof, one object: `MembershipProof` shows it, `owed_by` names the signatures that it has to have. All of
them hold, or the report is no member's; they are checked by whoever checks many at once (base.claims).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final

from interlock.base.blind_rsa import PREFIX_SIZE, modulus_size
from interlock.base.claims import Claim
from interlock.base.codec import Malformed, Reader, Writer, decode
from interlock.base.errors import InterlockError
from interlock.base.keys import BadKey, Ed25519Signer, Ed25519Verifier
from interlock.base.primitives import BadSignature
from interlock.base.text import b64, unb64
from interlock.commons.statements import Kind, ed25519_key, known_epoch, known_organisation, known_task, made, opened
from interlock.commons.succession import parse_lineage

__all__ = [
    "AGES",
    "BLIND",
    "CERTIFICATE",
    "MAX_MEMBER_KEYS",
    "MemberKeys",
    "MembershipProof",
    "NotMember",
    "TaskMembership",
    "build_member_keys",
    "certificate_message",
    "demand_sender",
    "owed_by",
    "parse_member_keys",
    "token_message",
]

AGES: Final = (0, 30, 180)  # days: how long an organisation is enrolled, in the steps that are ever told
BLIND: Final = "blind-token"
CERTIFICATE: Final = "certificate"
MAX_MEMBER_KEYS: Final = 16 << 10  # bytes
_BACKENDS: Final = {1: BLIND, 2: CERTIFICATE}
_CODES: Final = {name: code for code, name in _BACKENDS.items()}
_KEY_SIZE: Final = 32
_SIGNATURE: Final = 64
_REPORT_ID: Final = 16
_TASK_ID: Final = 32
_TOKEN: Final = b"interlock/member-token/v1\n"
_CERTIFICATE: Final = b"interlock/member-certificate/v1\n"
_PROOF: Final = b"interlock/member-proof/v1\n"
_ID: Final = b"interlock/member-report-id/v1\n"
_ASKED: Final = b"interlock/member-question/v1\n"
_KEYS: Final = Kind(
    "interlock-member-keys",
    "issuer",
    {"task": str, "epoch": int, "backend": str, "operator": str, "closes_at": int, "token_key": str, "least_age": int},
    optional={"follows": str},
)


class NotMember(InterlockError):
    """A proof that does not show a member's one report."""

    code = "not-allowed"


@dataclass(frozen=True)
class TaskMembership:
    """What a DAP task's membership extension says: the kind of proof, and the task's name in the commons."""

    backend: str
    task: str

    def encode(self) -> bytes:
        return Writer().u8(_CODES[self.backend]).opaque8(self.task.encode("ascii")).done()

    @classmethod
    def decode(cls, data: bytes) -> TaskMembership:
        """Raises: Malformed."""
        code, name = decode(data, lambda r: (r.u8(), r.opaque8()), cls.__name__)
        if code not in _BACKENDS:
            raise Malformed(f"membership of kind {code} is not known here", fix="upgrade interlock")
        return cls(_BACKENDS[code], known_task(name.decode("ascii", "replace"), where=cls.__name__))


@dataclass(frozen=True)
class MemberKeys:
    """What one epoch's proofs of a task are checked with.

    `issuer` signs the file, certificates and counts; `operator` is who runs it; after `closes_at` (microseconds) no
    credential is given out. `token_key` is the RSA key of blind tokens, empty where the task takes certificates. Who
    has a credential under these keys was enrolled for at least `least_age` days, one of AGES. `former` are the keys
    that the issuer followed, the oldest in front: each said so of the next, and the file shows it.
    """

    task: str
    epoch: int
    backend: str
    operator: str
    closes_at: int
    issuer: Ed25519Verifier
    token_key: bytes = field(repr=False)
    data: bytes = field(repr=False)
    least_age: int = 0
    former: tuple[Ed25519Verifier, ...] = ()


def build_member_keys(
    issuer: Ed25519Signer,
    *,
    task: str,
    epoch: int,
    backend: str,
    operator: str,
    closes_at: int,
    token_key: bytes,
    least_age: int = 0,
    follows: bytes = b"",
) -> MemberKeys:
    """The file of one epoch; the same arguments give the same bytes. `follows` is the chain of the keys before.

    Raises: Malformed, BadKey, BadSignature.
    """
    data = made(
        _KEYS,
        issuer,
        task=task,
        epoch=epoch,
        backend=backend,
        operator=operator,
        closes_at=closes_at,
        token_key=b64(token_key),
        least_age=least_age,
        **({"follows": follows.decode("ascii")} if follows else {}),
    )
    return parse_member_keys(data, where=f"member keys of {task}, epoch {epoch}")


def parse_member_keys(data: bytes, *, where: str) -> MemberKeys:
    """Read a file of member keys strictly. Raises: Malformed, BadSignature, BadKey."""
    body = opened(_KEYS, data, where=where)
    backend, closes_at, token_key = str(body["backend"]), body["closes_at"], unb64(str(body["token_key"]), "token key")
    if backend not in _CODES:
        raise Malformed("backend is neither blind-token nor certificate", where=where)
    if (backend == BLIND) != bool(token_key):
        raise Malformed("a token key belongs to blind tokens, and to nothing else", where=where)
    if token_key:
        modulus_size(token_key)
    if type(closes_at) is not int or not 0 <= closes_at < 1 << 53:
        raise Malformed("closes_at is not a time in microseconds", where=where)
    if body["least_age"] not in AGES:
        raise Malformed(f"least_age is not one of {', '.join(map(str, AGES))} days", where=where)
    issuer, follows = ed25519_key(body["issuer"], where=where), str(body.get("follows", ""))
    if "follows" in body and not follows:
        raise Malformed("follows nothing, and says so", where=where)
    return MemberKeys(
        task=known_task(body["task"], where=where),
        epoch=known_epoch(body["epoch"], where=where),
        backend=backend,
        operator=known_organisation(body["operator"], where=where),
        closes_at=closes_at,
        issuer=issuer,
        token_key=token_key,
        data=data,
        least_age=int(str(body["least_age"])),
        former=parse_lineage(follows.encode("utf-8"), issuer, where=where) if follows else (),
    )


def token_message(task_id: bytes, epoch: int, public: bytes) -> bytes:
    """What a blind token is a signature of, before it is prepared: a key, for one DAP task and epoch."""
    return Writer().raw(_TOKEN).fixed(task_id, _TASK_ID).u64(epoch).fixed(public, _KEY_SIZE).done()


def certificate_message(task_id: bytes, epoch: int, public: bytes) -> bytes:
    """What the issuer signs of an organisation's key, for one DAP task and epoch."""
    return Writer().raw(_CERTIFICATE).fixed(task_id, _TASK_ID).u64(epoch).fixed(public, _KEY_SIZE).done()


@dataclass(frozen=True)
class MembershipProof:
    """A member's right to one report of one task and epoch; fills dap.membership.ReportProof.

    `prefix` is the one that the token's message was prepared with, empty for a certificate; `signature` the issuer's.
    """

    task_id: bytes
    epoch: int
    signer: Ed25519Signer = field(repr=False)
    prefix: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    @property
    def credential(self) -> bytes:
        public = self.signer.verifier.public
        return Writer().opaque8(self.prefix).fixed(public, _KEY_SIZE).opaque16(self.signature).done()

    @property
    def report_id(self) -> bytes:
        return _report_id(self.credential)

    def extension(self, task_id: bytes, time: int, public_share: bytes) -> bytes:
        """Raises: ValueError, for a report of another task or epoch."""
        if (task_id, time) != (self.task_id, self.epoch):
            raise ValueError("this proof is for another task or epoch")
        signature = self.signer.sign(_shown(task_id, self.report_id, time, public_share))
        return self.credential + signature

    @property
    def possession(self) -> bytes:
        """What shows that a report is one's own, to ask what became of it; good for nothing else."""
        return self.credential + self.signer.sign(_asked(self.task_id, self.report_id))


def demand_sender(task_id: bytes, report_id: bytes, proof: bytes) -> None:
    """Check that whoever asks about a report holds the key that it was shown with. Raises: NotMember.

    The id is a hash of the credential, and a report of that id was let in with it; so its issuer need not be asked.
    """
    try:
        credential, _, public, _, shown = decode(proof, _parts, "proof of possession")
        if _report_id(credential) != report_id:
            raise NotMember("report id is not that of its credential")
        Ed25519Verifier(public).verify(_asked(task_id, report_id), shown)
    except (Malformed, BadSignature, BadKey) as e:
        raise NotMember(f"proof of possession does not hold ({e.what})") from None


def owed_by(
    keys: MemberKeys, *, task_id: bytes, report_id: bytes, time: int, public_share: bytes, proof: bytes
) -> tuple[Claim, ...]:
    """What has to be signed for a report's proof to hold by its epoch's member keys.

    Raises: NotMember, in one line and without a value, for a proof that cannot hold, whatever is signed.
    """
    if time != keys.epoch:
        raise NotMember("report is of another epoch than the member keys")
    try:
        credential, prefix, public, signature, shown = decode(proof, _parts, "membership proof")
    except Malformed as e:
        raise NotMember(f"membership proof does not hold ({e.what})") from None
    if _report_id(credential) != report_id:
        raise NotMember("report id is not that of its credential")
    if keys.backend == BLIND and len(prefix) == PREFIX_SIZE:
        issued = Claim("rsabssa", keys.token_key, prefix + token_message(task_id, time, public), signature)
    elif keys.backend == CERTIFICATE and not prefix:
        issued = Claim("ed25519", keys.issuer.public, certificate_message(task_id, time, public), signature)
    else:
        raise NotMember("credential is of another kind than the task asks for")
    return issued, Claim("ed25519", public, _shown(task_id, report_id, time, public_share), shown)


def _parts(r: Reader) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    """The credential whole and in parts (prefix, key, issuer's signature), and the signature over the report."""
    start = r.at
    prefix, public, signature = r.opaque8(), r.take(_KEY_SIZE), r.opaque16()
    whole, start, end = r.span(start)
    return whole[start:end], prefix, public, signature, r.take(_SIGNATURE)


def _report_id(credential: bytes) -> bytes:
    return hashlib.sha256(_ID + credential).digest()[:_REPORT_ID]


def _shown(task_id: bytes, report_id: bytes, time: int, public_share: bytes) -> bytes:
    w = Writer().raw(_PROOF).fixed(task_id, _TASK_ID).fixed(report_id, _REPORT_ID)
    return w.u64(time).opaque32(public_share).done()


def _asked(task_id: bytes, report_id: bytes) -> bytes:
    return Writer().raw(_ASKED).fixed(task_id, _TASK_ID).fixed(report_id, _REPORT_ID).done()
