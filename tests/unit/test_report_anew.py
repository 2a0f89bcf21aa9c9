"""A member's report outlives a replaced key, and a clock that was wrong: each epoch once, whole, and never twice."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import random
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.clock import MICROSECONDS, ManualClock, rfc3339
from interlock.base.fetch import Unreachable
from interlock.commons.consent import read_consents
from interlock.dap.drafts import DAP_18, ReportError
from interlock.dap.messages import UploadErrors
from interlock.dap.messages import media_type as media
from interlock.dap.shares import new_key
from interlock.dap.transport import Reply
from interlock.node.roles import report
from interlock.node.roles.admission import Admission
from interlock.node.roles.ledger import ledger
from interlock.node.roles.report import REMADE_MOST, Sent, close_epochs, send_due, step_back
from interlock.node.storage.node import open_store
from tests.unit.dap_world import PRECISION, lost
from tests.unit.membership_world import IssuerWorld, Organisation, membership
from tests.unit.report_world import CountedWorld, Member, catalog, counted_world, down

__all__ = ["counted_world"]  # the fixture `world`

EPOCH = PRECISION * MICROSECONDS


@pytest.fixture
def members(tmp_path: Path, world: CountedWorld) -> Iterator[list[Member]]:
    """Three members that consented; the first saw places 0 and 5, the others place 0."""
    found = [Member(tmp_path / name, world, catalog()) for name in ("acme", "globex", "initech")]
    for member, seen in zip(found, [(0, 5), (0,), (0,)], strict=True):
        member.agree()
        member.blocked(*seen)
    yield found
    for member in found:
        member.stop()


@pytest.fixture
def member(members: list[Member]) -> Member:
    return members[0]


def new_leader_key(world: CountedWorld) -> None:
    world.leader_key = new_key(world.leader_key.id + 10, secrets.token_bytes)
    world.restart()


def answering(error: ReportError, member: Member, times: int) -> None:
    """The leader turns the next uploads down."""
    left = [times]

    def after(reply: Reply) -> Reply:
        left[0] -= 1
        if left[0] < 0:
            return reply
        refused = ((member.line.uploaded()[-1].metadata.report_id, error),)
        return Reply(200, media("upload-errors"), UploadErrors(refused).encode(DAP_18))

    member.line.after = after


# --- a key that was replaced --------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["leader", "helper"])
def test_a_report_whose_key_was_replaced_meanwhile_is_sealed_anew_and_counted(
    world: CountedWorld, members: list[Member], side: str
) -> None:
    for member in members:
        member.close(early=True)
    setattr(world, f"{side}_key", new_key(7, secrets.token_bytes))
    world.restart()
    assert [member.send() for member in members] == [Sent(sent=1)] * 3
    found = world.collect()
    assert (found.report_count, found.sums[0], found.sums[5]) == (3, 3, 1)
    assert [(row.state, row.remade) for row in ledger(members[0].store)] == [("sent", 1)]


def test_a_report_that_the_leader_calls_outdated_goes_out_again_under_its_id(
    world: CountedWorld, member: Member
) -> None:
    """The key was replaced between the look at the keys and the upload."""
    member.close(early=True)
    (row,) = member.store.queued(world.task.task_id)

    def replaced() -> None:
        member.line.before = lambda: None
        new_leader_key(world)

    member.line.before = replaced
    assert member.send() == Sent(sent=1)
    first, second = member.line.uploaded()
    assert first.metadata.report_id == second.metadata.report_id == row.report_id
    assert first.leader_share.config_id != second.leader_share.config_id == world.leader_key.id
    assert first.public_share != second.public_share, "its randomness is fresh"


@pytest.mark.parametrize("error", [ReportError.OUTDATED_CONFIG, ReportError.HPKE_UNKNOWN_CONFIG_ID])
def test_each_drafts_word_for_an_outdated_key_is_understood(member: Member, error: ReportError) -> None:
    member.close(early=True)
    answering(error, member, 1)
    assert member.send() == Sent(sent=1)


@pytest.mark.parametrize("looks", [True, False], ids=["looked", "told"])
def test_a_report_that_the_leader_took_before_its_key_was_replaced_is_counted_once(
    world: CountedWorld, members: list[Member], monkeypatch: pytest.MonkeyPatch, looks: bool
) -> None:
    """Its answer was lost, and then it calls the same bytes outdated: it looks at keys before ids."""
    if not looks:
        monkeypatch.setattr(report, "_offered", lambda sealer: None)
    member = members[0]
    for each in members:
        each.close(early=True)
    member.line.after = lost
    with pytest.raises(Unreachable):
        member.send()
    member.line.after = lambda reply: reply
    new_leader_key(world)
    assert [each.send() for each in members] == [Sent(sent=1)] * 3
    assert len(member.line.uploads) == (2 if looks else 3), "as it was, and where nobody looked once more; sealed anew"
    assert world.leader_store.states(world.task.task_id).waiting == 3
    assert [row.state for row in ledger(member.store)] == ["sent"]


def test_a_key_that_the_helper_replaced_while_the_leader_was_away_costs_no_report(
    world: CountedWorld, members: list[Member]
) -> None:
    for member in members:
        member.close(early=True)
        member.line.before = down
        with pytest.raises(Unreachable):
            member.send()
        member.line.before = lambda: None
    world.helper_key = new_key(7, secrets.token_bytes)
    world.restart()
    assert [member.send() for member in members] == [Sent(sent=1)] * 3
    assert world.collect().report_count == 3


def test_a_report_is_not_sealed_anew_for_a_key_that_still_opens(world: CountedWorld, member: Member) -> None:
    member.close(early=True)
    before = member.store.outbox()[0].report
    assert member.send() == Sent(sent=1)
    assert [sent.encode() for sent in member.line.uploaded()] == [before]
    assert ledger(member.store)[0].remade == 0


def test_an_aggregator_that_does_not_answer_holds_nothing_up(world: CountedWorld, member: Member) -> None:
    """Only the leader need be there."""
    member.close(early=True)
    original = member.line.__call__

    def without_keys(method: str, url: str, media_type: str = "", body: bytes = b"") -> Reply:
        if method == "GET":
            raise Unreachable("does not answer", where=url)
        return original(method, url, media_type, body)

    sealer = dataclasses.replace(member.sealer(), exchange=without_keys)
    assert send_due(member.home, member.store, without_keys, sealer, world.clock, at_once=True) == Sent(sent=1)


def test_a_leader_that_refuses_its_own_key_is_asked_so_often_and_no_more(
    member: Member, caplog: pytest.LogCaptureFixture
) -> None:
    member.close(early=True)
    answering(ReportError.OUTDATED_CONFIG, member, 1 << 20)
    for _ in range(REMADE_MOST):
        assert member.send() == Sent()
    assert "does not know the key that it offers" in caplog.text
    assert member.send() == Sent(refused=1)
    assert [(row.reason, row.remade) for row in ledger(member.store)] == [("outdated_config", REMADE_MOST)]


def test_what_a_report_measured_is_kept_while_it_waits_and_not_longer(member: Member) -> None:
    member.close(early=True)
    assert member.store.outbox()[0].measurement == bytes(int(place in (0, 5)) for place in range(16))
    member.send()
    assert member.store.outbox()[0].measurement == b""


def test_consent_off_drops_what_a_report_measured(member: Member) -> None:
    member.close(early=True)
    assert member.withdraw() == 1
    assert (member.store.outbox()[0].measurement, member.states()) == (b"", ["dropped"])


@pytest.mark.parametrize("ends", ["withdrawn", "sent"])
def test_what_a_report_measured_is_in_no_file_of_the_node_afterwards(member: Member, ends: str) -> None:
    """Not in the write-ahead log either, which a daemon that goes on would keep, and others that have the file open."""
    other = open_store(member.home)
    member.close(early=True)
    measured = member.store.outbox()[0].measurement
    other.outbox()
    member.withdraw() if ends == "withdrawn" else member.send()
    kept = {path.name: path.read_bytes() for path in member.home.glob("node.sqlite*")}
    assert "node.sqlite-wal" in kept
    assert [name for name, data in kept.items() if measured in data] == []
    other.close()


def test_a_report_that_was_dropped_on_its_way_is_not_sealed_anew(world: CountedWorld, member: Member) -> None:
    member.close(early=True)
    answering(ReportError.OUTDATED_CONFIG, member, 1)
    member.line.before = lambda: (member.withdraw(), None)[1]
    assert member.send() == Sent(refused=1)
    assert (len(member.line.uploads), member.states()) == (1, ["refused"])


def test_two_processes_that_seal_anew_at_once_send_one_report(world: CountedWorld, member: Member) -> None:
    member.close(early=True)
    new_leader_key(world)

    def other() -> None:
        member.line.before = lambda: None
        assert member.send() == Sent(sent=1)

    member.line.before = other
    assert member.send() in (Sent(), Sent(sent=1))
    assert world.leader_store.states(world.task.task_id).waiting == 1
    assert member.states() == ["sent"]


def test_a_members_token_is_shown_with_the_report_that_is_sealed_anew(tmp_path: Path) -> None:
    counted = catalog()
    world = CountedWorld(tmp_path, counted, membership=membership())
    with contextlib.closing(IssuerWorld(tmp_path, world.clock)) as issuer:
        world._admit = Admission(issuer.keys_of, "shares.example", world.clock)
        world.restart()
        node = Member(tmp_path / "acme", world, counted)
        acme = Organisation("acme", tmp_path / "acme", issuer)
        node.rights, node.line.member = (lambda epoch: acme.credentials.held(world.task, epoch)), None
        node.agree()
        node.blocked(3)
        epoch = world.task.time_of(world.clock.now_us())
        issuer.open_epoch(epoch)
        proof = acme.proof(world.task, epoch)
        assert node.close(early=True) == 1
        new_leader_key(world)
        assert node.send() == Sent(sent=1)
        assert node.line.uploaded()[-1].metadata.report_id == proof.report_id
        assert acme.credentials.held(world.task, epoch) is None, "used up"
        world.clock.advance(PRECISION)
        issuer.open_epoch(epoch + 1)
        acme.proof(world.task, epoch + 1)
        assert node.close(early=True) == 1
        node.withdraw()
        assert acme.credentials.held(world.task, epoch + 1) is None, "dropped with its report"
        acme.close()
        node.stop()
    world.close()


# --- a clock that was ahead ---------------------------------------------------------------------------------------


def a_clock_ahead(member: Member, epochs: int, *seen: int) -> None:
    """The node runs for a while under a clock that is so many epochs ahead, and meets places."""
    right, member.world.clock = member.world.clock, ManualClock(member.world.clock.now_us() + epochs * EPOCH)
    member.restart()
    member.blocked(*seen)
    close_epochs(member.home, member.store, member.sealer(random.Random(1).randbytes), member.world.clock)
    member.send()
    member.world.clock = right
    member.restart()


def test_a_clock_that_was_ahead_costs_no_epoch(
    world: CountedWorld, members: list[Member], caplog: pytest.LogCaptureFixture
) -> None:
    """Reports of epochs that were not over went to nobody; what was seen by then is of the epoch that runs."""
    member = members[0]
    a_clock_ahead(member, 4, 7)
    assert "this machine's clock is ahead of the leader's" in caplog.text
    states = [row.state for row in ledger(member.store)]
    assert states == ["sent", *["queued"] * 3], "of the epoch that ran anyway one went"
    assert step_back(member.home, member.store, world.task, world.clock) == 3
    assert "was set back; 3 reports of epochs that are not over" in caplog.text
    world.clock.advance(PRECISION)
    for each in members:
        each.blocked(9)
        assert each.close(early=True) == (1 if each is member else 2)
        assert each.send().refused == 0
    found = world.collect()
    assert (found.report_count, found.sums[9], found.sums[7]) == (3, 3, 0)


def test_what_was_seen_while_the_clock_was_ahead_is_of_the_running_epoch(member: Member) -> None:
    a_clock_ahead(member, 300, 7, 8)
    assert step_back(member.home, member.store, member.world.task, member.world.clock) > 0
    running = member.world.clock.now_us() - member.world.clock.now_us() % EPOCH
    assert member.store.places_by_epoch("rules-1", member.catalog.digest) == {running: {0, 5, 7, 8}}


def test_a_report_of_the_running_epoch_that_a_wrong_clock_made_is_made_when_it_is_over(member: Member) -> None:
    world = member.world
    ahead = ManualClock(world.clock.now_us() + EPOCH)
    assert close_epochs(member.home, member.store, member.sealer(), ahead) == 1
    assert step_back(member.home, member.store, world.task, world.clock) == 1
    assert member.bits() == {0, 5}
    member.blocked(6)
    world.clock.advance(PRECISION)
    assert member.close() == 1
    assert list(member.store.outbox()[0].measurement) == [int(place in (0, 5, 6)) for place in range(16)]


def test_a_report_that_was_closed_early_on_purpose_stays_one(member: Member) -> None:
    member.close(early=True)
    assert step_back(member.home, member.store, member.world.task, member.world.clock) == 0
    assert member.states() == ["queued"]


def test_a_report_that_may_have_reached_the_leader_stays_one(member: Member) -> None:
    world = member.world
    ahead = ManualClock(world.clock.now_us() + EPOCH)
    assert close_epochs(member.home, member.store, member.sealer(), ahead) == 1
    member.line.after = lost
    with pytest.raises(Unreachable):
        send_due(member.home, member.store, member.line, member.sealer(), ahead, at_once=True)
    assert step_back(member.home, member.store, world.task, world.clock) == 0
    member.line.after = lambda reply: reply
    assert member.send() == Sent(sent=1)


def test_a_clock_far_ahead_forgets_no_place_of_an_epoch_that_runs(member: Member) -> None:
    """It was forgotten as more than the backlog behind, though no leader ever said that so much time went by."""
    a_clock_ahead(member, 500)
    step_back(member.home, member.store, member.world.task, member.world.clock)
    assert member.bits() == {0, 5}


def test_a_yes_of_a_clock_that_was_ahead_is_told_of_and_can_be_given_again(
    member: Member, caplog: pytest.LogCaptureFixture
) -> None:
    world, right = member.world, member.world.clock
    member.withdraw()
    world.clock = ManualClock(right.now_us() + 9 * EPOCH)
    member.agree()
    world.clock = right
    step_back(member.home, member.store, world.task, right)
    assert "which is yet to come by the clock; run interlock mesh consent on rules-1" in caplog.text
    member.agree()
    (given,) = read_consents(member.home).values()
    assert rfc3339(given.at) == rfc3339(right.now_us())
    member.restart()
    with caplog.at_level(logging.WARNING):
        caplog.clear()
        step_back(member.home, member.store, world.task, right)
    assert caplog.text == ""
    member.blocked(4)
    assert member.bits() == {4}
