"""What organisations and the issuer say to each other, each a statement that its speaker's key signs.

    organisation   enrolment      name, key, an invite code where it has one          -> certificate, or pending
                   token request  task, epoch, and a blinded message or nothing       -> blind or plain signature
    issuer         certificate    this organisation is enrolled with this key
                   count          how many credentials of a task and epoch were given out, and to how many could be

A count is public: whoever collects more reports than it says, or reads one above the number of organisations, has
caught an issuer that makes members up. Pure: who may say what, and how often, is judged by the issuer's role.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.keys import Ed25519Signer, Ed25519Verifier
from interlock.base.text import b64, unb64
from interlock.commons.statements import Kind, ed25519_key, known_epoch, known_organisation, known_task, made, opened

__all__ = [
    "Certificate",
    "Enrolment",
    "IssuedCount",
    "OverIssued",
    "TokenRequest",
    "demand_honest_count",
    "dump_certificate",
    "dump_count",
    "dump_enrolment",
    "dump_token_request",
    "parse_certificate",
    "parse_count",
    "parse_enrolment",
    "parse_token_request",
]

_ENROLMENT: Final = Kind("interlock-enrolment", "key", {"organisation": str, "invite": str, "issuer": str})
_CERTIFICATE: Final = Kind("interlock-enrolled", "issuer", {"organisation": str, "key": str, "at": int})
_REQUEST: Final = Kind(
    "interlock-token-request", "key", {"task": str, "epoch": int, "task_id": str, "blinded": str, "issuer": str}
)
_COUNT: Final = Kind(
    "interlock-member-count",
    "issuer",
    {"task": str, "epoch": int, "issued": int, "enrolled": int, "final": bool, "at": int},
)
_TASK_ID: Final = 32
_CODE_MOST: Final = 128


class OverIssued(InterlockError):
    """More members than there are: an issuer, or whoever has its key, makes them up."""

    code = "check-failed"


@dataclass(frozen=True)
class Enrolment:
    """An organisation asks to be enrolled under a key; `invite` is empty where a person is to decide."""

    organisation: str
    key: Ed25519Verifier
    issuer: Ed25519Verifier
    invite: str = field(repr=False)


@dataclass(frozen=True)
class Certificate:
    """The issuer's word that an organisation is enrolled with a key, since `at` (microseconds)."""

    organisation: str
    key: Ed25519Verifier
    issuer: Ed25519Verifier
    at: int


@dataclass(frozen=True)
class TokenRequest:
    """An organisation asks for its one credential of a task and epoch; `blinded` is empty for a certificate."""

    key: Ed25519Verifier
    issuer: Ed25519Verifier
    task: str
    epoch: int
    task_id: bytes
    blinded: bytes = field(repr=False)


@dataclass(frozen=True)
class IssuedCount:
    """How many credentials were given out; no more will be where it is `final`."""

    task: str
    epoch: int
    issued: int
    enrolled: int
    final: bool
    at: int
    issuer: Ed25519Verifier


def dump_enrolment(signer: Ed25519Signer, organisation: str, invite: str, issuer: Ed25519Verifier) -> bytes:
    """Made for one issuer, so that none can pass it on to another. The inverse of `parse_enrolment`."""
    return made(_ENROLMENT, signer, organisation=organisation, invite=invite, issuer=issuer.text)


def parse_enrolment(data: bytes, *issuers: Ed25519Verifier, where: str = "enrolment") -> Enrolment:
    """An enrolment with an issuer that goes by one of these keys. Raises: Malformed, BadSignature."""
    body = opened(_ENROLMENT, data, where=where)
    issuer = _demand_for(body, issuers, where)
    invite = str(body["invite"])
    if len(invite) > _CODE_MOST:
        raise Malformed("invite code is too long", where=where)
    return Enrolment(
        known_organisation(body["organisation"], where=where), ed25519_key(body["key"], where=where), issuer, invite
    )


def dump_certificate(issuer: Ed25519Signer, organisation: str, key: Ed25519Verifier, at: int) -> bytes:
    return made(_CERTIFICATE, issuer, organisation=organisation, key=key.text, at=at)


def parse_certificate(data: bytes, *, where: str = "certificate") -> Certificate:
    """Raises: Malformed, BadSignature."""
    body = opened(_CERTIFICATE, data, where=where)
    return Certificate(
        known_organisation(body["organisation"], where=where),
        ed25519_key(body["key"], where=where),
        ed25519_key(body["issuer"], where=where),
        _count(body["at"], where),
    )


def dump_token_request(
    signer: Ed25519Signer, *, task: str, epoch: int, task_id: bytes, blinded: bytes, issuer: Ed25519Verifier
) -> bytes:
    return made(
        _REQUEST, signer, task=task, epoch=epoch, task_id=task_id.hex(), blinded=b64(blinded), issuer=issuer.text
    )


def parse_token_request(data: bytes, *issuers: Ed25519Verifier, where: str = "token request") -> TokenRequest:
    """A request to an issuer that goes by one of these keys. Raises: Malformed, BadSignature."""
    body = opened(_REQUEST, data, where=where)
    issuer = _demand_for(body, issuers, where)
    try:
        task_id = bytes.fromhex(str(body["task_id"]))
    except ValueError:
        task_id = b""
    if len(task_id) != _TASK_ID or task_id.hex() != body["task_id"]:
        raise Malformed("task_id is not 32 bytes in lower-case hex", where=where)
    return TokenRequest(
        key=ed25519_key(body["key"], where=where),
        issuer=issuer,
        task=known_task(body["task"], where=where),
        epoch=known_epoch(body["epoch"], where=where),
        task_id=task_id,
        blinded=unb64(str(body["blinded"]), "blinded message"),
    )


def dump_count(
    issuer: Ed25519Signer, *, task: str, epoch: int, issued: int, enrolled: int, final: bool, at: int
) -> bytes:
    return made(_COUNT, issuer, task=task, epoch=epoch, issued=issued, enrolled=enrolled, final=final, at=at)


def parse_count(data: bytes, *, where: str = "count") -> IssuedCount:
    """Raises: Malformed, BadSignature."""
    body = opened(_COUNT, data, where=where)
    return IssuedCount(
        task=known_task(body["task"], where=where),
        epoch=known_epoch(body["epoch"], where=where),
        issued=_count(body["issued"], where),
        enrolled=_count(body["enrolled"], where),
        final=body["final"] is True,
        at=_count(body["at"], where),
        issuer=ed25519_key(body["issuer"], where=where),
    )


def demand_honest_count(count: IssuedCount, *, reports: int | None = None) -> None:
    """Hold a count against the organisations there are, and the `reports` that were collected. Raises: OverIssued."""
    where = f"task {count.task}, epoch {count.epoch}"
    if count.issued > count.enrolled:
        told = f"{count.issued} credentials were given out to {count.enrolled} organisations"
        raise OverIssued(told, where=where, fix="do not trust this issuer")
    if reports is not None and reports > count.issued:
        told = f"{reports} reports were collected, and {count.issued} credentials given out"
        raise OverIssued(told, where=where, fix="do not trust this batch, nor its issuer")


def _demand_for(body: dict[str, object], issuers: Sequence[Ed25519Verifier], where: str) -> Ed25519Verifier:
    """The key, of these, that a statement is made for. Raises: Malformed."""
    for issuer in issuers:
        if body["issuer"] == issuer.text:
            return issuer
    raise Malformed("is made for another issuer", where=where, fix="ask the issuer for its key")


def _count(value: object, where: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise Malformed("holds a number below 0 or too large", where=where)
    return value
