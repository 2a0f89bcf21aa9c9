"""What a member's node tells: under which terms, when, in which task, by itself in each guarded process."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock import Blocked
from interlock.base.clock import MICROSECONDS, ManualClock, SystemClock
from interlock.base.fetch import Unreachable
from interlock.base.files import replace
from interlock.commons.consent import NoConsent, give_consent
from interlock.commons.indicators import FALSE_POSITIVES, Catalog, build_catalog
from interlock.commons.installed import base_rules
from interlock.commons.membership import BLIND, CERTIFICATE, TaskMembership
from interlock.commons.operators import OPERATORS_PATH, Operator, Operators
from interlock.dap.messages import LEADER_SELECTED, TIME_INTERVAL
from interlock.dap.task import new_configuration, task_of
from interlock.dap.transport import Reply
from interlock.engine import ambient
from interlock.engine.decision import Decision
from interlock.node import reporter
from interlock.node.cli.task_rows import task_rows
from interlock.node.config import MeshConfig, ReportConfig
from interlock.node.roles.ledger import ledger
from interlock.node.roles.observe import TallyObserver, keep_catalog, kept_catalogs
from interlock.node.roles.report import Sent, close_epochs, send_due, terms_of
from interlock.node.roles.standing import TaskStanding
from interlock.node.storage.node import open_store
from tests.unit.dap_world import PRECISION, VDAF_CONFIG
from tests.unit.hook_process import bash, hook
from tests.unit.report_world import (
    CALL,
    RULES,
    Member,
    Publishing,
    agreed_member,
    catalog,
    counted_world,
    terms,
)

__all__ = ["agreed_member", "counted_world"]  # the fixtures `member` and `world`

EPOCH = PRECISION * MICROSECONDS


def reporting(member: Member, exchange: Any) -> reporter.Reporter:
    """Its reporting for the task that it has, which stands."""
    task, clock = member.world.task, member.world.clock
    stands = TaskStanding(member.home, member.store, lambda: Publishing(task), clock)
    return reporter.Reporter(member.home, member.store, task, exchange, exchange, clock, stands)


# --- terms --------------------------------------------------------------------------------------------------------


def another_task(
    member: Member,
    *,
    leader: str = "https://leader.test/dap",
    least: int = 3,
    membership: bytes | None = None,
    batch_mode: int = TIME_INTERVAL,
) -> None:
    """The task's file is replaced by that of another task over the same catalog."""
    configuration = new_configuration(
        catalog_digest=bytes.fromhex(member.catalog.digest),
        leader_url=leader,
        helper_url="https://helper.test/dap",
        time_precision=PRECISION,
        min_batch_size=least,
        vdaf_config=VDAF_CONFIG,
        membership=membership,
        batch_mode=batch_mode,
    )
    member.world.task = task_of(configuration, demo=True)


def test_a_yes_names_purpose_operators_floor_kinds_and_mechanism(member: Member) -> None:
    said = terms_of(member.home, member.world.task, member.catalog)
    assert (said.purpose, said.subject, said.floor, said.kinds) == ("sightings", "rules-1", 3, ("rule",))
    assert set(said.operators) == {"https://leader.test/dap", "https://helper.test/dap"}
    assert (said.mechanism.startswith("Prio3SumVec"), said.catalog) == (True, member.catalog.digest)


def test_a_task_with_another_operator_asks_again_and_gets_nothing_of_before(member: Member) -> None:
    member.blocked(1)
    another_task(member, leader="https://elsewhere.test/dap")
    with pytest.raises(NoConsent, match=r"https://elsewhere\.test/dap is told too"):
        member.close(early=True)
    member.world.clock.advance(1)
    member.agree()
    assert member.bits() == frozenset()
    member.blocked(2)
    assert member.bits() == {2}


def test_a_task_with_a_higher_floor_is_covered(member: Member) -> None:
    another_task(member, least=4)
    assert member.close(early=True) == 1


@pytest.mark.parametrize(
    ("agreed", "offered", "told"),
    [
        (BLIND, None, "shown by bearer, not by blind-token of rules-1"),
        (BLIND, TaskMembership(CERTIFICATE, "rules-1"), "shown by certificate of rules-1, not by blind-token"),
        (BLIND, TaskMembership(BLIND, "elsewhere"), "shown by blind-token of elsewhere, not by blind-token of rules-1"),
    ],
)
def test_a_task_that_shows_more_of_who_reports_asks_again(
    member: Member, agreed: str, offered: TaskMembership | None, told: str
) -> None:
    another_task(member, membership=TaskMembership(agreed, "rules-1").encode())
    member.agree()
    another_task(member, membership=None if offered is None else offered.encode())
    with pytest.raises(NoConsent, match=told):
        member.close(early=True)
    assert member.states() == []


def test_a_task_whose_leader_selects_the_batches_is_another_mechanism(member: Member) -> None:
    another_task(member, batch_mode=LEADER_SELECTED)
    with pytest.raises(NoConsent, match="in batches that the leader selects"):
        member.close(early=True)


def test_what_a_process_left_as_consent_ended_is_not_told_under_the_next_yes(member: Member) -> None:
    """A guarded process that was in the middle of an event, and a daemon in the middle of a report, come too late."""
    start = kept_catalogs(member.home)["rules-1"].epoch_of(member.world.clock.now_us())
    member.close(early=True)
    (late,) = member.store.outbox()
    other = dataclasses.replace(late, epoch_start=start - EPOCH)
    member.withdraw()
    member.store.queue(other)
    member.store.add_bits("rules-1", member.catalog.digest, (start + EPOCH, start + 2 * EPOCH), {3: "rule:rule-3"})
    member.world.clock.advance(1)
    member.agree()
    assert member.states() == ["dropped", "dropped"]
    assert member.store.places_by_epoch("rules-1", member.catalog.digest) == {}
    assert member.send() == Sent()
    assert member.line.uploads == []


def test_an_operator_that_turns_out_to_be_another_body_asks_again(member: Member) -> None:
    def known(leader: str) -> None:
        rows = [(leader, "leader", "https://leader.test/dap"), ("birch", "helper", "https://helper.test/dap")]
        operators = tuple(Operator(f"{org} {role}", org, {role: (url,)}) for org, role, url in rows)
        (member.home / OPERATORS_PATH).write_bytes(Operators(1, operators).data)

    known("cedar")
    member.withdraw()
    member.agree()
    known("elm")
    with pytest.raises(NoConsent, match="elm is told too"):
        member.close(early=True)


def test_what_is_queued_under_terms_that_became_weaker_is_dropped(member: Member) -> None:
    member.close(early=True)
    given = terms_of(member.home, member.world.task, member.catalog)
    stricter = dataclasses.replace(given, floor=9)
    give_consent(member.home, stricter, member.world.clock.now_us())
    assert member.send() == Sent(dropped=1)
    assert [row.reason for row in ledger(member.store)] == ["its terms are weaker than what was consented to"]
    assert member.line.uploads == []


def test_a_task_that_outgrew_its_yes_is_told_of_in_status_and_in_the_log(
    member: Member, caplog: pytest.LogCaptureFixture
) -> None:
    reporter.keep_task(member.home, member.world.task)
    assert [row.status for row in task_rows(member.home)] == ["ok"]
    member.withdraw()
    assert [row.status for row in task_rows(member.home)] == ["ok"]
    member.agree()
    kept = member.world.task
    another_task(member, leader="https://elsewhere.test/dap")
    reporter.keep_task(member.home, member.world.task)
    (row,) = [row for row in task_rows(member.home) if row.status == "warn"]
    assert "is not reported: https://elsewhere.test/dap is told too" in row.detail
    exchange: Any = None
    reporter._report(reporting(member, exchange))
    assert "elsewhere.test/dap is told too" in caplog.text
    assert kept.task_id != member.world.task.task_id


# --- a random time ------------------------------------------------------------------------------------------------


def closed_at(member: Member, seed: int) -> int:
    """When the report of the epoch that has just ended goes out."""
    rng = random.Random(seed)
    world = member.world
    assert close_epochs(member.home, member.store, member.sealer(rng.randbytes), world.clock) == 1
    return member.store.outbox()[-1].due


def test_a_report_goes_out_at_a_random_time_of_the_next_epoch(member: Member) -> None:
    clock, dues = member.world.clock, []
    for seed in range(40):
        clock.advance(PRECISION)
        end = clock.now_us() - clock.now_us() % EPOCH
        dues.append((closed_at(member, seed) - end) / EPOCH)
    assert all(0 <= due < 7 / 8 for due in dues)
    assert min(dues) < 1 / 4
    assert max(dues) > 5 / 8
    assert len(set(dues)) == 40


def test_a_report_waits_for_its_time_and_its_time_is_drawn_once(member: Member) -> None:
    member.world.clock.advance(PRECISION)
    due = closed_at(member, 1)
    assert member.send(at_once=False) == Sent()
    (row,) = ledger(member.store)
    assert (row.state, bool(row.due)) == ("queued", True)
    member.restart()
    assert member.store.outbox()[0].due == due
    member.world.clock.advance((due - member.world.clock.now_us()) / MICROSECONDS)
    assert member.send(at_once=False) == Sent(sent=1)
    assert ledger(member.store)[0].due == ""


def test_a_node_that_slept_sends_what_is_long_due_and_draws_for_the_last(member: Member) -> None:
    member.world.clock.advance(3 * PRECISION)
    assert member.close() == 3
    now = member.world.clock.now_us()
    assert [row.due <= now for row in member.store.outbox()] == [True, True, False]


def test_a_report_of_a_node_whose_clock_is_ahead_waits_and_is_not_lost(member: Member) -> None:
    """The leader takes no report of an epoch that has not begun; a clock is put right, and a report is made once."""
    ahead = ManualClock(member.world.clock.now_us() + 3 * EPOCH)
    rng = random.Random(1).randbytes
    made = close_epochs(member.home, member.store, member.sealer(rng), ahead, early=True)
    about = (member.home, member.store, member.line, member.sealer(), ahead)
    assert send_due(*about, at_once=True).sent == 1, "of the running epoch, which is no news to the leader"
    assert member.states() == ["sent", *["queued"] * (made - 1)]
    for left in range(made - 2, -1, -1):
        member.world.clock.advance(PRECISION)
        assert (member.send().sent, member.states().count("queued")) == (1, left)
    assert member.send(at_once=False) == Sent()


def test_a_clock_that_is_set_back_reports_no_epoch_twice(member: Member) -> None:
    member.world.clock.advance(2 * PRECISION)
    assert member.close() == 2
    behind = ManualClock(member.world.clock.now_us() - 2 * EPOCH)
    rng = random.Random(1).randbytes
    for _ in range(4):
        close_epochs(member.home, member.store, member.sealer(rng), behind, early=True)
        behind.advance(PRECISION)
    starts = [row.epoch_start for row in member.store.outbox()]
    assert len(set(starts)) == len(starts) == 4
    member.world.clock.advance(2 * PRECISION)
    assert member.send() == Sent(sent=4)


# --- one task a bit -----------------------------------------------------------------------------------------------


def second_task(member: Member, rules: list[str], *, precision: int = PRECISION, task: str = "rules-2") -> Catalog:
    """Another catalog, consented to after the first."""
    counted = build_catalog(task, opens_at=0, rules=rules)
    keep_catalog(member.home, counted, time_precision=precision)
    give_consent(member.home, terms(counted), member.world.clock.now_us() + 1)
    member.world.clock.advance(1)
    return counted


def seen(member: Member, counted: Catalog) -> set[str]:
    epochs = member.store.places_by_epoch(counted.task, counted.digest)
    return {counted.places[place] for places in epochs.values() for place in places}


def test_a_bit_feeds_the_task_that_was_consented_to_first_and_no_other(member: Member) -> None:
    other = second_task(member, [RULES[1], RULES[2], "more"])
    member.blocked(1)
    member.observer(CALL, Decision.block("no", policy_id="more"))
    assert seen(member, member.catalog) == {f"rule:{RULES[1]}"}
    assert seen(member, other) == {"rule:more"}


def test_a_bit_feeds_no_second_task_in_an_epoch_that_overlaps_though_the_first_was_left(member: Member) -> None:
    other = second_task(member, [RULES[1]], precision=10 * PRECISION)
    member.blocked(1)
    member.close(early=True)
    member.send()
    member.withdraw()
    member.blocked(1)
    assert seen(member, other) == set()
    member.world.clock.advance(PRECISION)
    member.blocked(1)  # that first epoch is over, but the other task's, in which it lay, still runs
    assert seen(member, other) == set()
    member.world.clock.advance(10 * PRECISION)
    member.blocked(1)
    assert seen(member, other) == {f"rule:{RULES[1]}"}


def test_another_process_of_the_node_cannot_feed_a_bit_to_a_second_task(member: Member) -> None:
    member.blocked(1)
    start = member.world.clock.now_us() // EPOCH * EPOCH
    epoch = (start - start % (2 * EPOCH), start + 2 * EPOCH)
    assert member.store.add_bits("rules-2", "c", epoch, {0: f"rule:{RULES[1]}", 1: "rule:more"}) == 1
    assert member.store.bits("rules-2", "c", epoch[0]) == {1}


# --- by itself, in each guarded process -----------------------------------------------------------------------------


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Catalog]]:
    """This user's node, whose catalog counts the built-in policy's rules."""
    home = tmp_path / "state" / "interlock" / "mesh"
    home.mkdir(parents=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("INTERLOCK_CONFIG", raising=False)
    counted = build_catalog("base", opens_at=0, rules=[rule.id for rule in base_rules() if rule.mask is None])
    keep_catalog(home, counted, time_precision=PRECISION)
    yield home, counted
    ambient.install(None)


def counted_places(home: Path, counted: Catalog) -> set[str]:
    store = open_store(home)
    epochs = store.places_by_epoch(counted.task, counted.digest)
    store.close()
    return {counted.places[place] for places in epochs.values() for place in places}


def attack() -> None:
    with pytest.raises(Blocked):
        interlock.enforce_tool_call("Bash", {"command": "rm -rf /"})


def test_an_installed_guard_counts_for_this_users_node_once_it_consents(node: tuple[Path, Catalog]) -> None:
    home, counted = node
    interlock.install(policy="builtin:coding-agent")
    attack()
    assert not (home / "node.sqlite").exists()
    give_consent(home, terms(counted), SystemClock().now_us())
    interlock.enforce_tool_call("Bash", {"command": "ls"})
    (observer,) = ambient.installed().observers
    assert observer._tally is None  # type: ignore[attr-defined]  # what passes needs no store
    attack()
    assert ambient.installed().observer_failures == 0
    assert len(counted_places(home, counted)) == 1


def test_a_guard_of_a_user_without_a_node_watches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("INTERLOCK_CONFIG", raising=False)
    interlock.install(policy="builtin:coding-agent")
    assert ambient.installed().observers == ()
    ambient.install(None)


def test_the_hook_of_a_coding_agent_counts(node: tuple[Path, Catalog], tmp_path: Path) -> None:
    home, counted = node
    give_consent(home, terms(counted), 0)
    done = hook(tmp_path, bash("rm -rf /"))
    assert b"deny" in done.stdout
    assert counted_places(home, counted)


def test_an_observer_that_is_carried_over_a_fork_opens_a_store_of_its_own(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    member.blocked(0)
    member.observer._process = -1  # as a child finds it
    before = member.observer._store
    member.blocked(1)
    assert member.observer._store is not before
    assert member.bits() == {0, 1}
    assert before is not None
    before.close()


# --- what is noted for a person's word ------------------------------------------------------------------------------


def test_with_a_consent_to_false_positives_only_a_community_rules_objection_is_noted(tmp_path: Path) -> None:
    counted = catalog(task="wrong-1", counts=FALSE_POSITIVES)
    keep_catalog(tmp_path, counted, time_precision=PRECISION)
    give_consent(tmp_path, terms(counted), 0)
    community: dict[str, frozenset[str]] = dict.fromkeys(RULES[1:], frozenset())
    observer = TallyObserver(tmp_path, ManualClock(), redacting=lambda: {RULES[2]}, community=lambda: community)
    for number, rule in enumerate((RULES[0], RULES[1], RULES[2])):
        event = type(CALL)(CALL.action, CALL.args, call_id=f"call-{number}")
        observer(event, Decision.block("no", policy_id=rule))
    observer.close()
    store = open_store(tmp_path)
    assert [set(store.objection(f"call-{n}", "call")) for n in range(3)] == [set(), {f"rule:{RULES[1]}"}, set()]
    assert store.places_by_epoch("wrong-1", counted.digest) == {}
    store.close()
    assert kept_catalogs(tmp_path)["wrong-1"].catalog.counts == FALSE_POSITIVES


# --- the daemon -----------------------------------------------------------------------------------------------------


def test_the_daemon_takes_up_a_task_that_was_joined_while_it_runs(
    member: Member, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[Path] = []
    stop = threading.Event()
    turns = iter([False, False, True])
    monkeypatch.setattr(stop, "wait", lambda _: next(turns))
    token = member.home.parent / "token"
    replace(token, b"ab" * 32)

    def report(made: reporter.Reporter) -> None:
        sent.append(made.home)

    monkeypatch.setattr(reporter, "_report", report)
    monkeypatch.setattr(reporter, "Subscriber", lambda *_: Publishing(member.world.task))
    original = reporter.reporters_of

    @contextlib.contextmanager
    def opened(config: MeshConfig, reporting: ReportConfig) -> Iterator[list[reporter.Reporter]]:
        with original(config, reporting) as found:
            yield found
        reporter.keep_task(member.home, member.world.task)

    monkeypatch.setattr(reporter, "reporters_of", opened)
    reporter.keep_reporting(MeshConfig(member.home, commons="https://commons.test"), ReportConfig(token=token), stop)
    assert sent == [member.home]
    assert not caplog.records


def test_a_task_that_nobody_agreed_to_is_no_news_and_a_leader_that_is_down_is(
    member: Member, caplog: pytest.LogCaptureFixture
) -> None:
    def dead(method: str, url: str, media_type: str = "", body: bytes = b"") -> Reply:
        raise Unreachable("does not answer", where=url)

    exchange: Any = dead
    made = reporting(member, exchange)
    member.withdraw()
    with caplog.at_level(logging.INFO):
        reporter._report(made)
    assert not caplog.records
    member.agree()
    member.world.clock.advance(PRECISION)
    reporter._report(made)
    assert "no report: " in caplog.text
