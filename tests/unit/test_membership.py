"""Tokens and certificates: what they show, and every way in which a proof must not hold."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.base import blind_rsa
from interlock.base.blind_rsa import PythonBlindRsa
from interlock.base.claims import failing
from interlock.base.codec import Malformed
from interlock.base.keys import BadKey, Ed25519Signer
from interlock.base.primitives import BadSignature
from interlock.commons.enrolment import (
    OverIssued,
    demand_honest_count,
    dump_certificate,
    dump_count,
    dump_enrolment,
    dump_token_request,
    parse_certificate,
    parse_count,
    parse_enrolment,
    parse_token_request,
)
from interlock.commons.memberfiles import member_file
from interlock.commons.membership import (
    BLIND,
    CERTIFICATE,
    MemberKeys,
    MembershipProof,
    NotMember,
    TaskMembership,
    build_member_keys,
    certificate_message,
    owed_by,
    parse_member_keys,
    token_message,
)
from interlock.native.vdaf import chosen_failing
from tests.unit.commons_world import seed
from tests.unit.membership_world import token_key

TASK_ID = bytes(range(32))
EPOCH = 500
SHARE = b"public share"
RSA = PythonBlindRsa()
ISSUER = seed("issuer")


def keys(backend: str = BLIND, *, epoch: int = EPOCH, key: int = 0) -> MemberKeys:
    public = blind_rsa.public_of(token_key(key)) if backend == BLIND else b""
    return build_member_keys(
        ISSUER, task="t", epoch=epoch, backend=backend, operator="op", closes_at=1, token_key=public
    )


def proof(backend: str = BLIND, *, task_id: bytes = TASK_ID, epoch: int = EPOCH, key: int = 0) -> MembershipProof:
    """What the whole exchange with an issuer ends in."""
    signer = seed(f"holder {backend}")
    if backend == CERTIFICATE:
        signed = ISSUER.sign(certificate_message(task_id, epoch, signer.verifier.public))
        return MembershipProof(task_id, epoch, signer, b"", signed)
    public = blind_rsa.public_of(token_key(key))
    prefix = bytes(32)
    prepared = blind_rsa.prepare(token_message(task_id, epoch, signer.verifier.public), lambda size: prefix)
    drawn = blind_rsa.blinding(public, lambda size: b"\7" * size)
    blinded, inverse = RSA.blind(public, prepared, *drawn)
    signed = RSA.blind_sign(token_key(key), blinded, lambda size: b"\5" * size)
    return MembershipProof(task_id, epoch, signer, prefix, RSA.finalize(public, prepared, signed, inverse))


def check(
    held: MemberKeys,
    shown: bytes,
    report_id: bytes,
    *,
    task_id: bytes = TASK_ID,
    time: int = EPOCH,
    public_share: bytes = SHARE,
) -> None:
    """Raises: NotMember; also where something is not signed, on which the reference and what runs here agree."""
    owed = owed_by(held, task_id=task_id, report_id=report_id, time=time, public_share=public_share, proof=shown)
    assert chosen_failing(failing)([owed]) == failing([owed])
    if failing([owed]):
        raise NotMember("a signature does not hold")


BOTH = pytest.mark.parametrize("backend", [BLIND, CERTIFICATE])


@BOTH
def test_a_proof_holds_for_the_report_that_it_was_made_for(backend: str) -> None:
    made = proof(backend)
    check(keys(backend), made.extension(TASK_ID, EPOCH, SHARE), made.report_id)


@BOTH
def test_a_proof_holds_for_no_other_report(backend: str) -> None:
    made, held = proof(backend), keys(backend)
    shown = made.extension(TASK_ID, EPOCH, SHARE)
    with pytest.raises(NotMember):
        check(held, shown, made.report_id, public_share=b"another share")
    with pytest.raises(NotMember):
        check(held, shown, made.report_id, task_id=bytes(32))
    with pytest.raises(NotMember):
        check(held, shown, bytes(16))
    with pytest.raises(NotMember, match="another epoch"):
        check(held, shown, made.report_id, time=EPOCH + 1)


@BOTH
def test_a_credential_of_another_task_or_epoch_does_not_hold(backend: str) -> None:
    for other in (proof(backend, task_id=bytes(32)), proof(backend, epoch=EPOCH + 1)):
        moved = dataclasses.replace(other, task_id=TASK_ID, epoch=EPOCH)
        with pytest.raises(NotMember, match="signature"):
            check(keys(backend), moved.extension(TASK_ID, EPOCH, SHARE), moved.report_id)


def test_a_token_under_another_epochs_key_does_not_hold() -> None:
    made = proof(key=0)
    with pytest.raises(NotMember):
        check(keys(key=1), made.extension(TASK_ID, EPOCH, SHARE), made.report_id)


def test_a_leader_that_makes_its_own_key_up_is_no_member() -> None:
    made = proof()
    forged = dataclasses.replace(made, signer=seed("a leader"))
    with pytest.raises(NotMember):
        check(keys(), forged.extension(TASK_ID, EPOCH, SHARE), forged.report_id)


def test_a_credential_of_one_kind_is_none_of_the_other() -> None:
    for have, want in ((BLIND, CERTIFICATE), (CERTIFICATE, BLIND)):
        made = proof(have)
        with pytest.raises(NotMember, match="another kind"):
            check(keys(want), made.extension(TASK_ID, EPOCH, SHARE), made.report_id)


def test_one_credential_is_one_report_id_whatever_is_reported() -> None:
    made = proof()
    shown = {made.extension(TASK_ID, EPOCH, share)[:-64] for share in (b"a", b"b")}
    assert shown == {made.credential}


def test_a_proof_is_not_made_for_another_report() -> None:
    with pytest.raises(ValueError):
        proof().extension(TASK_ID, EPOCH + 1, SHARE)


@settings(max_examples=60)
@given(st.integers(0, 4000), st.integers(1, 255))
def test_no_changed_byte_of_a_proof_holds(at: int, by: int) -> None:
    made, held = _PROOF, _KEYS
    shown = bytearray(made.extension(TASK_ID, EPOCH, SHARE))
    shown[at % len(shown)] ^= by
    with pytest.raises(NotMember):
        check(held, bytes(shown), made.report_id)


_PROOF, _KEYS = proof(), keys()


@given(st.binary(max_size=600))
def test_any_bytes_are_no_proof(data: bytes) -> None:
    with pytest.raises(NotMember):
        check(_KEYS, data, bytes(16))


@BOTH
def test_member_keys_are_read_as_they_were_written(backend: str) -> None:
    held = keys(backend)
    assert parse_member_keys(held.data, where="x") == held
    file = member_file(held.data, where="x")
    assert (file.path, file.ring, file.epoch) == (f"members/t/{EPOCH}.json", "members", EPOCH)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epoch", 0),
        ("epoch", True),
        ("epoch", "7"),
        ("task", "T"),
        ("backend", "bearer"),
        ("token_key", ""),
        ("closes_at", -1),
        ("operator", "-"),
        ("issuer", "ed25519:00"),
        ("more", 1),
    ],
)
def test_member_keys_with_a_field_of_the_wrong_form_are_refused(field: str, value: object) -> None:
    body = json.loads(keys().data) | {field: value}
    with pytest.raises((Malformed, BadSignature, BadKey)):
        parse_member_keys(json.dumps(body, separators=(",", ":"), sort_keys=True).encode(), where="x")


def test_changed_member_keys_do_not_verify() -> None:
    data = keys().data.replace(b'"closes_at":1', b'"closes_at":2')
    with pytest.raises(BadSignature):
        parse_member_keys(data, where="x")
    with pytest.raises(Malformed):
        parse_member_keys(keys().data + b"\n", where="x")


@pytest.mark.parametrize("wrong", [b"", b"\x03\x01t", b"\x01\x00", b"\x01\x01T", b"\x01\x01tt", b"\x01\x02t"])
def test_a_membership_extension_that_cannot_be_read_is_refused(wrong: bytes) -> None:
    with pytest.raises(Malformed):
        TaskMembership.decode(wrong)


@BOTH
def test_a_membership_extension_is_read_as_it_was_written(backend: str) -> None:
    wanted = TaskMembership(backend, "coding-agent")
    assert TaskMembership.decode(wanted.encode()) == wanted


def test_statements_are_read_as_they_were_written() -> None:
    mine, issuer = seed("acme"), ISSUER.verifier
    enrolment = parse_enrolment(dump_enrolment(mine, "acme", "code", issuer), issuer)
    assert (enrolment.organisation, enrolment.key, enrolment.invite) == ("acme", mine.verifier, "code")
    certificate = parse_certificate(dump_certificate(ISSUER, "acme", mine.verifier, 7))
    assert (certificate.organisation, certificate.key, certificate.issuer, certificate.at) == (
        "acme",
        mine.verifier,
        issuer,
        7,
    )
    request = parse_token_request(
        dump_token_request(mine, task="t", epoch=3, task_id=TASK_ID, blinded=b"x", issuer=issuer), issuer
    )
    assert (request.key, request.task, request.epoch, request.blinded) == (mine.verifier, "t", 3, b"x")


def test_what_is_said_to_one_issuer_means_nothing_to_another() -> None:
    other = seed("another issuer").verifier
    with pytest.raises(Malformed, match="another issuer"):
        parse_enrolment(dump_enrolment(seed("acme"), "acme", "", ISSUER.verifier), other)


def test_a_statement_of_one_kind_is_none_of_another() -> None:
    data = dump_certificate(ISSUER, "acme", seed("acme").verifier, 7)
    with pytest.raises(Malformed):
        parse_enrolment(data, ISSUER.verifier)
    with pytest.raises(Malformed):
        parse_count(data)


@given(
    st.binary(max_size=300) | st.dictionaries(st.text(max_size=8), st.integers()).map(lambda d: json.dumps(d).encode())
)
def test_parsers_of_statements_raise_their_own_errors_only(data: bytes) -> None:
    for parse in (parse_certificate, parse_count, lambda d: parse_enrolment(d, ISSUER.verifier)):
        with pytest.raises((Malformed, BadSignature)):
            parse(data)
    with pytest.raises((Malformed, BadSignature)):
        parse_token_request(data, ISSUER.verifier)


def count(issued: int, enrolled: int, *, final: bool = True, signer: Ed25519Signer = ISSUER) -> bytes:
    return dump_count(signer, task="t", epoch=3, issued=issued, enrolled=enrolled, final=final, at=1)


def test_over_issuing_shows_in_the_count() -> None:
    demand_honest_count(parse_count(count(3, 3)), reports=3)
    with pytest.raises(OverIssued, match="4 credentials were given out to 3"):
        demand_honest_count(parse_count(count(4, 3)))
    with pytest.raises(OverIssued, match="5 reports were collected"):
        demand_honest_count(parse_count(count(3, 3)), reports=5)


def test_only_a_final_count_is_published() -> None:
    assert member_file(count(3, 3), where="x").path == "members/t/3.count.json"
    with pytest.raises(Malformed, match="may still grow"):
        member_file(count(3, 3, final=False), where="x")


def test_nothing_secret_stands_in_a_repr() -> None:
    made = proof()
    for secret in (made.signer.seed, made.signature):
        assert secret.hex() not in repr(made)
        assert repr(secret) not in repr(made)


def _json(body: object) -> bytes:
    return json.dumps(body).encode()
