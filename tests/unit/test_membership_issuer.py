"""The issuer and the organisations: enrolment, one credential each, and what neither can do to the other."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from interlock.base import blind_rsa
from interlock.base.blind_rsa import PythonBlindRsa
from interlock.base.clock import MICROSECONDS, ManualClock, rfc3339
from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.fetch import NotFound, Unreachable
from interlock.base.files import BadState
from interlock.base.primitives import BadSignature
from interlock.commons.enrolment import dump_enrolment, dump_token_request, parse_certificate, parse_count
from interlock.commons.membership import BLIND, CERTIFICATE, parse_member_keys
from interlock.dap.task import Task, TaskRefused
from interlock.dap.transport import Reply
from interlock.node.parties import HttpExchange
from interlock.node.reporter import Reporter
from interlock.node.roles.issuer import SKEW_US
from interlock.node.roles.issuer_http import app
from interlock.node.roles.member import ClockAhead, Credentials, IssuerRefused, read_joined
from interlock.node.roles.report import agree
from interlock.node.roles.standing import TaskStanding
from interlock.node.storage import issuer as issuer_store
from interlock.node.storage.issuer import IssuerStore, MemberState, Refused
from interlock.node.storage.node import open_store
from tests.unit.commons_world import seed
from tests.unit.dap_http import free_socket, serving
from tests.unit.dap_world import PRECISION, lost, task
from tests.unit.membership_world import DAY_US, NAME, IssuerWorld, Organisation, membership, token_key
from tests.unit.report_world import CountedWorld, Line, Publishing, catalog

EPOCH = 500_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[IssuerWorld]:
    found = IssuerWorld(tmp_path, ManualClock())
    yield found
    found.close()


@pytest.fixture
def acme(tmp_path: Path, world: IssuerWorld) -> Iterator[Organisation]:
    found = Organisation("acme", tmp_path / "acme", world)
    yield found
    found.close()


def counted(backend: str = BLIND) -> Task:
    return task(membership=membership(backend))


# enrolment


def test_an_invite_enrols_one_organisation_once(tmp_path: Path, world: IssuerWorld) -> None:
    code = world.invite()
    acme = Organisation("acme", tmp_path / "acme", world, code)
    assert acme.joined.certificate is not None
    assert acme.joined.certificate.organisation == "acme"
    with pytest.raises(IssuerRefused, match="does not hold"):
        Organisation("globex", tmp_path / "globex", world, code)
    assert acme.join(code) == acme.joined  # a lost answer is asked for again, and the invite is not needed any more
    acme.close()


def test_an_invite_in_a_name_is_for_that_name(tmp_path: Path, world: IssuerWorld) -> None:
    with pytest.raises(IssuerRefused):
        Organisation("globex", tmp_path / "globex", world, world.invite("acme"))
    Organisation("acme", tmp_path / "acme", world, world.invite("acme")).close()


def test_an_invite_ends(tmp_path: Path, world: IssuerWorld) -> None:
    code = world.invite(days=1)
    world.clock.advance(86_400)
    with pytest.raises(IssuerRefused):
        Organisation("acme", tmp_path / "acme", world, code)


def test_an_invite_is_kept_as_a_hash(tmp_path: Path, world: IssuerWorld) -> None:
    code = world.invite()
    assert code.encode() not in b"".join(path.read_bytes() for path in tmp_path.glob("issuer.sqlite*"))


def test_without_an_invite_a_person_decides(tmp_path: Path, world: IssuerWorld) -> None:
    acme = Organisation("acme", tmp_path / "acme", world, "")
    assert acme.joined.certificate is None
    world.open_epoch(EPOCH)
    with pytest.raises(IssuerRefused, match="not enrolled"):
        acme.proof(counted(), EPOCH)
    world.store.approve("acme", world.clock.now_us())
    assert acme.join("").certificate is not None
    assert acme.proof(counted(), EPOCH).epoch == EPOCH
    with pytest.raises(Refused):
        world.store.approve("acme", world.clock.now_us())
    acme.close()


def test_who_only_waits_keeps_no_name_from_whoever_was_invited(tmp_path: Path, world: IssuerWorld) -> None:
    squatter = dump_enrolment(seed("squatter"), "acme", "", world.signer.verifier)
    assert world.issuer.process_enrolment(squatter) == b""
    with pytest.raises(IssuerRefused, match="waits to be enrolled with another key"):
        Organisation("acme", tmp_path / "early", world, "")
    acme = Organisation("acme", tmp_path / "acme", world, world.invite())
    assert acme.joined.certificate is not None
    with pytest.raises(Refused, match="is enrolled with another key"):
        world.issuer.process_enrolment(squatter)
    acme.close()


def test_no_more_wait_than_an_issuer_can_hold_and_who_has_an_invite_need_not(
    world: IssuerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuer_store, "WAIT_MOST", 2)
    for name in ("one", "two", "two"):  # who waits already may ask again
        assert world.store.enrol(name, f"{name}'s key", "", 2).state is MemberState.PENDING
    with pytest.raises(Refused, match="as many waiting"):
        world.store.enrol("three", "its key", "", 2)
    invited = dump_enrolment(seed("invited"), "three", world.invite(), world.signer.verifier)
    assert parse_certificate(world.issuer.process_enrolment(invited)).organisation == "three"


def test_a_name_stands_for_one_key_and_a_key_for_one_name(world: IssuerWorld, acme: Organisation) -> None:
    issuer = world.signer.verifier
    with pytest.raises(Refused, match="another key"):
        world.issuer.process_enrolment(dump_enrolment(seed("other"), "acme", world.invite(), issuer))
    mine = acme.joined.signer
    with pytest.raises(Refused, match="another organisation"):
        world.issuer.process_enrolment(dump_enrolment(mine, "acme-2", world.invite(), issuer))


def test_one_that_was_revoked_comes_back_by_an_invite_in_its_name_only(world: IssuerWorld, acme: Organisation) -> None:
    world.open_epoch(EPOCH)
    first = acme.proof(counted(), EPOCH)
    world.store.revoke("acme", world.clock.now_us())
    for invite in ("", world.invite()):
        with pytest.raises(IssuerRefused):
            acme.join(invite)
    new_key = seed("acme's new key")
    again = dump_enrolment(new_key, "acme", world.invite("acme"), world.signer.verifier)
    assert parse_certificate(world.issuer.process_enrolment(again)).key == new_key.verifier
    # and has no second credential of an epoch for that
    public = blind_rsa.public_of(world.store.epoch(NAME, EPOCH).private)  # type: ignore[union-attr]
    blinded = (7).to_bytes(blind_rsa.modulus_size(public), "big")
    request = dump_token_request(
        new_key, task=NAME, epoch=EPOCH, task_id=first.task_id, blinded=blinded, issuer=world.signer.verifier
    )
    with pytest.raises(Refused, match="one credential"):
        world.issuer.process_request(request)


def test_a_home_stays_with_its_issuer_and_name(world: IssuerWorld, acme: Organisation) -> None:
    acme.name = "globex"
    with pytest.raises(BadState, match="otherwise"):
        acme.join(world.invite())
    assert read_joined(acme.home).organisation == "acme"


def test_the_organisations_key_is_private(acme: Organisation) -> None:
    assert (acme.home / "member.key").stat().st_mode & 0o077 == 0


# credentials


@pytest.mark.parametrize("backend", [BLIND, CERTIFICATE])
def test_an_organisation_has_one_credential_of_an_epoch(world: IssuerWorld, acme: Organisation, backend: str) -> None:
    world.open_epoch(EPOCH, backend=backend)
    first = acme.proof(counted(backend), EPOCH)
    sent = len(world.asked)
    assert acme.proof(counted(backend), EPOCH) == first
    assert len(world.asked) == sent  # it is kept, and not asked for again
    assert world.store.counts(NAME, EPOCH) == (1, 1)


def test_the_issuer_never_sees_what_it_signs(world: IssuerWorld, acme: Organisation) -> None:
    world.open_epoch(EPOCH)
    made = acme.proof(counted(), EPOCH)
    seen = b"".join(world.asked)
    for part in (made.signer.verifier.public, made.prefix, made.signature, made.report_id):
        assert part not in seen
        assert part.hex().encode() not in seen
    rows = world.store._read("SELECT asked, answer FROM credentials")
    assert not any(made.signature in value for row in rows for value in row if isinstance(value, bytes))


def test_a_lost_answer_is_asked_for_again_with_the_same_bytes(world: IssuerWorld, acme: Organisation) -> None:
    world.open_epoch(EPOCH)
    world.after = lost
    with pytest.raises(Unreachable):
        acme.proof(counted(), EPOCH)
    world.after = lambda reply: reply
    made = acme.proof(counted(), EPOCH)
    assert world.asked[-1] == world.asked[-2]
    assert world.store.counts(NAME, EPOCH) == (1, 1)
    assert made.signature


def test_other_blinded_bytes_are_refused(world: IssuerWorld, acme: Organisation) -> None:
    world.open_epoch(EPOCH)
    acme.proof(counted(), EPOCH)
    acme.store.forget_credentials(counted().task_id, EPOCH + 1)  # a home that was lost
    with pytest.raises(IssuerRefused, match="one credential"):
        acme.proof(counted(), EPOCH)
    assert world.store.counts(NAME, EPOCH) == (1, 1)


def test_many_requests_at_once_get_one_credential(world: IssuerWorld, acme: Organisation) -> None:
    public = world.open_epoch(EPOCH).token_key
    size = blind_rsa.modulus_size(public)
    requests = [
        dump_token_request(
            acme.joined.signer,
            task=NAME,
            epoch=EPOCH,
            task_id=bytes(32),
            blinded=(7 + i).to_bytes(size, "big"),
            issuer=world.signer.verifier,
        )
        for i in range(8)
    ]

    def ask(request: bytes) -> bytes | None:
        try:
            return world.issuer.process_request(request)
        except Refused:
            return None

    with ThreadPoolExecutor(8) as pool:
        answers = [answer for answer in pool.map(ask, requests) if answer is not None]
    assert len(answers) == 1
    assert world.store.counts(NAME, EPOCH) == (1, 1)


def test_two_processes_of_one_node_have_one_credential(world: IssuerWorld, acme: Organisation) -> None:
    """The second one finds the first one's request, whether or not that was answered, and sends the same bytes."""
    world.open_epoch(EPOCH)
    world.after = lost
    with pytest.raises(Unreachable):
        acme.proof(counted(), EPOCH)
    world.after = lambda reply: reply
    with contextlib.closing(open_store(acme.home)) as store:
        second = Credentials(acme.joined, store, world.keys_of, world, PythonBlindRsa(), secrets.token_bytes)
        assert second.proof(counted(), EPOCH) == acme.proof(counted(), EPOCH)
    assert world.store.counts(NAME, EPOCH) == (1, 1)


def test_a_replayed_request_gives_nothing_but_its_own_answer(world: IssuerWorld, acme: Organisation) -> None:
    world.open_epoch(EPOCH)
    acme.proof(counted(), EPOCH)
    request = world.asked[-1]
    assert world.issuer.process_request(request) == world.issuer.process_request(request)
    with pytest.raises((BadSignature, InterlockError)):
        world.issuer.process_request(request.replace(str(EPOCH).encode(), str(EPOCH + 1).encode()))


def test_a_revoked_organisation_gets_none(world: IssuerWorld, acme: Organisation) -> None:
    world.open_epoch(EPOCH)
    world.store.revoke("acme", world.clock.now_us())
    with pytest.raises(IssuerRefused, match="revoked"):
        acme.proof(counted(), EPOCH)
    assert [member.state for member in world.store.members()] == [MemberState.REVOKED]
    assert world.store.counts(NAME, EPOCH) == (0, 0)
    with pytest.raises(Refused):
        world.store.revoke("acme", world.clock.now_us())


def test_a_closed_epoch_gives_none_and_forgets_its_key(world: IssuerWorld, acme: Organisation) -> None:
    world.open_epoch(EPOCH, lasts_us=DAY_US)
    private = world.store.epoch(NAME, EPOCH).private  # type: ignore[union-attr]
    assert private
    world.clock.advance(86_400)
    with pytest.raises(IssuerRefused, match="closed"):
        acme.proof(counted(), EPOCH)
    assert world.store.epoch(NAME, EPOCH).private == b""  # type: ignore[union-attr]
    world.store.close()
    files = (world.store._path, world.store._path.with_name("issuer.sqlite-wal"))
    assert not any(private in path.read_bytes() for path in files if path.exists())


def test_what_was_answered_survives_a_restart_and_the_epochs_end(
    tmp_path: Path, world: IssuerWorld, acme: Organisation
) -> None:
    world.open_epoch(EPOCH)
    world.after = lost
    with pytest.raises(Unreachable):
        acme.proof(counted(), EPOCH)
    world.clock.advance(2 * 86_400)
    again = IssuerStore(tmp_path / "issuer.sqlite")
    assert again.counts(NAME, EPOCH) == (1, 1)
    again.close()
    world.after = lambda reply: reply
    assert acme.proof(counted(), EPOCH).signature


def test_an_epoch_without_keys_gives_none(acme: Organisation) -> None:
    with pytest.raises(NotFound):
        acme.proof(counted(), EPOCH)


# epochs that have not begun


@pytest.mark.parametrize("backend", [BLIND, CERTIFICATE])
def test_an_epoch_that_has_not_begun_gives_nothing_and_is_not_used_up(
    world: IssuerWorld, acme: Organisation, backend: str
) -> None:
    begins = world.clock.now_us() + DAY_US
    world.open_epoch(EPOCH, backend=backend, opens_at=begins, lasts_us=3 * DAY_US)
    with pytest.raises(ClockAhead, match=f"ahead of the issuer's, where it is {rfc3339(world.clock.now_us())}"):
        acme.proof(counted(backend), EPOCH)
    assert world.store.counts(NAME, EPOCH) == (0, 1)
    world.clock.advance(86_400)
    proof = acme.proof(counted(backend), EPOCH)
    assert world.asked[-1] == world.asked[-2], "the same request, which nobody had used up"
    assert proof.epoch == EPOCH


def test_a_clock_that_is_a_little_ahead_is_no_matter(world: IssuerWorld, acme: Organisation) -> None:
    begins = world.clock.now_us() + SKEW_US + 1_000_000
    world.open_epoch(EPOCH, opens_at=begins)
    with pytest.raises(ClockAhead):
        acme.proof(counted(), EPOCH)
    world.clock.advance(1)
    assert acme.proof(counted(), EPOCH).epoch == EPOCH


def test_an_issuer_tells_over_http_that_an_epoch_has_not_begun(world: IssuerWorld, acme: Organisation) -> None:
    world.open_epoch(EPOCH, opens_at=world.clock.now_us() + DAY_US)
    with free_socket() as sock, serving(app(world.issuer), sock), contextlib.closing(HttpExchange()) as exchange:
        joined = dataclasses.replace(acme.joined, url=f"http://127.0.0.1:{sock.getsockname()[1]}")
        asking = Credentials(joined, acme.store, world.keys_of, exchange, PythonBlindRsa(), secrets.token_bytes)
        with pytest.raises(ClockAhead, match="set the clock that is wrong") as caught:
            asking.proof(counted(), EPOCH)
    assert "\n" not in str(caught.value)


def test_a_member_whose_clock_is_far_ahead_asks_once_and_says_so_in_one_line(
    tmp_path: Path, world: IssuerWorld, acme: Organisation, caplog: pytest.LogCaptureFixture
) -> None:
    told = catalog(task=NAME)
    counts = CountedWorld(tmp_path, told, membership=membership())
    first = counts.task.time_of(world.clock.now_us())
    for epoch in range(first, first + 8):
        world.open_epoch(epoch, opens_at=counts.task.start_us(epoch), lasts_us=9 * DAY_US)
    agree(acme.home, acme.store, counts.task, told, world.clock.now_us())
    ahead = ManualClock(world.clock.now_us() + 6 * PRECISION * MICROSECONDS)
    keys = Line(counts)
    standing = TaskStanding(acme.home, acme.store, lambda: Publishing(counts.task), ahead)
    reporter = Reporter(acme.home, acme.store, counts.task, keys, keys, ahead, standing, acme.credentials)
    world.asked.clear()
    assert reporter.build() == 1, "of the epoch that runs, whose right it may have"
    (line,) = [record.getMessage() for record in caplog.records if "ahead" in record.getMessage()]
    assert f"epoch {first + 1}: no right to report yet" in line
    assert len(world.asked) == 2, "for the epoch that runs, and for the next"
    reporter = dataclasses.replace(reporter, clock=world.clock)
    caplog.clear()
    assert (reporter.build(), caplog.text.count("was set back; 1 reports")) == (0, 1)
    for _ in range(3):
        world.clock.advance(PRECISION)
        assert reporter.build() == 1, "each epoch has its report once it is over"
    counts.close()


def test_an_epochs_key_is_made_once(world: IssuerWorld) -> None:
    made = [world.issuer.open_epoch(NAME, EPOCH, BLIND, 0, closes, bits=2048) for closes in (10, 20)]
    assert made[0] == made[1]
    assert parse_member_keys(made[0], where="x").closes_at == 10


def test_an_issuer_with_a_key_of_its_own_for_one_member_is_caught(world: IssuerWorld, acme: Organisation) -> None:
    """The key comes from the commons; a signature by another one does not verify, and no report is made with it."""
    own = world.open_epoch(EPOCH, key=1)
    published = dataclasses.replace(own, token_key=blind_rsa.public_of(token_key(0)))
    acme.credentials._keys_of = lambda name, epoch: published
    with pytest.raises(InterlockError):
        acme.proof(counted(), EPOCH)
    assert acme.credentials.held(counted(), EPOCH) is None


def test_keys_of_another_kind_or_issuer_are_not_used(world: IssuerWorld, acme: Organisation) -> None:
    world.open_epoch(EPOCH, backend=CERTIFICATE)
    with pytest.raises(TaskRefused, match="kind certificate"):
        acme.proof(counted(BLIND), EPOCH)
    other = dataclasses.replace(world.open_epoch(EPOCH + 1), issuer=seed("another").verifier)
    acme.credentials._keys_of = lambda name, epoch: other
    with pytest.raises(TaskRefused):
        acme.proof(counted(BLIND), EPOCH + 1)


def test_a_changed_answer_is_not_taken(world: IssuerWorld, acme: Organisation) -> None:
    world.open_epoch(EPOCH)
    world.after = lambda reply: Reply(200, body=reply.body[::-1])
    with pytest.raises(InterlockError):
        acme.proof(counted(), EPOCH)
    world.after = lambda reply: reply
    assert acme.proof(counted(), EPOCH).signature


def test_the_count_is_signed_and_final_once_the_epoch_is_closed(world: IssuerWorld, acme: Organisation) -> None:
    world.open_epoch(EPOCH)
    acme.proof(counted(), EPOCH)
    found = parse_count(world.issuer.count(NAME, EPOCH))
    assert (found.issued, found.enrolled, found.final, found.issuer) == (1, 1, False, world.signer.verifier)
    world.store.revoke("acme", world.clock.now_us())
    assert parse_count(world.issuer.count(NAME, EPOCH)).enrolled == 1  # it has one, whatever became of it
    world.clock.advance(86_400)
    assert parse_count(world.issuer.count(NAME, EPOCH)).final


# over HTTP


def test_http_gives_each_refusal_its_status(world: IssuerWorld, acme: Organisation) -> None:
    world.open_epoch(EPOCH)
    issuer = world.signer.verifier
    sock = free_socket()
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    with serving(app(world.issuer), sock), httpx.Client(base_url=url, trust_env=False) as http:
        waits = http.post("/enrol", content=dump_enrolment(seed("globex"), "globex", "", issuer))
        assert (waits.status_code, waits.content) == (202, b"")
        assert http.post("/enrol", content=b"{}").status_code == 400
        assert http.post("/enrol", content=b"x" * 20_000).status_code == 413
        refused = http.post("/enrol", content=dump_enrolment(seed("globex"), "globex", "wrong", issuer))
        assert refused.status_code == 403
        assert "invite" in refused.json()["error"]
        assert parse_member_keys(http.get(f"/members/{NAME}/{EPOCH}").content, where="x").epoch == EPOCH
        assert http.get(f"/members/{NAME}/{EPOCH + 1}").status_code == 404
        for number in ("99999999999999999999999", "9" * 5000, "-1", "x", "1.0"):
            assert http.get(f"/members/rules-1/{number}").status_code == 404
        assert parse_count(http.get(f"/counts/{NAME}/{EPOCH}").content).issued == 0
        acme.proof(counted(), EPOCH)
        again = http.post("/credentials", content=world.asked[-1])
        assert again.status_code == 200
        assert len(again.content) == 256
        nobody = dump_token_request(
            seed("nobody"), task=NAME, epoch=EPOCH, task_id=secrets.token_bytes(32), blinded=b"x", issuer=issuer
        )
        assert http.post("/credentials", content=nobody).status_code == 403


@pytest.mark.parametrize("least_age", [30, 180])
def test_keys_for_older_members_sign_for_no_younger_one(world: IssuerWorld, acme: Organisation, least_age: int) -> None:
    found = world.open_epoch(EPOCH, lasts_us=400 * DAY_US, least_age=least_age)
    assert parse_member_keys(found.data, where="x").least_age == least_age
    world.clock.advance(least_age * 86_400 - 60)
    with pytest.raises(IssuerRefused, match="not enrolled for long enough"):
        acme.proof(counted(), EPOCH)
    assert world.store.counts(NAME, EPOCH)[0] == 0
    world.clock.advance(60)
    acme.proof(counted(), EPOCH)
    assert world.store.counts(NAME, EPOCH)[0] == 1


def test_an_age_that_is_no_step_is_refused(world: IssuerWorld) -> None:
    with pytest.raises(Malformed, match="least_age is not one of 0, 30, 180 days"):
        world.issuer.open_epoch(NAME, EPOCH, CERTIFICATE, 0, 10, least_age=31)
