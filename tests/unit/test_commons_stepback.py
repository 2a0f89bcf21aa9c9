"""Step back: distinct principals and runs count, calls do not; it proposes, and acts only within a monitor window."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock.base.clock import MICROSECONDS
from interlock.base.files import BadState
from interlock.commons import installed, stepback
from interlock.commons.stepback import Objections, Thresholds, read_step_back, weigh
from interlock.commons.subscribe import Subscriber
from interlock.engine.decision import Verdict
from interlock.engine.evaluate import evaluate
from interlock.engine.event import SensorEvent
from interlock.engine.receipt_seals import BadChain
from interlock.engine.receipts import Receipt
from interlock.engine.sinks import FileSink
from tests.unit.commons_world import World, pack, world

DAY = 86_400 * MICROSECONDS
KEY = ("team", "stable")


class Node:
    """A node with one pack, and the receipts of its guard."""

    def __init__(self, commons: World) -> None:
        self.commons = commons
        self.home = commons.home / "node"
        self.receipts = commons.home / "receipts.jsonl"
        self.sink = FileSink(self.receipts, fsync=False)
        self.subscriber: Subscriber = commons.member("node")

    @property
    def now(self) -> int:
        return self.commons.clock.now_us()

    def follows(self, window_us: int = 0) -> None:
        self.commons.publisher.publish(pack(), "stable")
        self.subscriber.subscribe(*KEY, window_us)
        self.subscriber.update()

    def objected(self, principal: str | None, span: str | None, *, calls: int = 1, **given: Any) -> None:
        """As a guard that lives now would have noted it."""
        for call in range(calls):
            receipt = Receipt(
                ts_us=self.now,
                call_id=f"{span}-{call}",
                action="Bash",
                phase="call",
                verdict="BLOCK",
                outcome="not-approved",
                policy_epoch=1,
                policy_digest="00",
                elapsed_us=1,
                rule="team.zap",
                principal=principal,
                span_id=span,
                pack_digest=pack().digest,
            )
            self.sink.append(replace(receipt, **given))

    def objected_in_shadow(self, principal: str, span: str) -> None:
        self.objected(principal, span, verdict="ALLOW", rule=None, pack_digest=None, shadows="team.zap BLOCK; x ASK")

    def weighed(self) -> list[tuple[str, str]]:
        return [(p.rule, p.state) for p in weigh(self.home, self.receipts, self.now)]

    def verdict(self) -> Verdict:
        policy = installed.load(self.home, *KEY, self.commons.clock)
        return evaluate(policy, SensorEvent("Bash", {"command": "zap"})).decision.verdict


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with world(tmp_path) as commons:
        yield Node(commons)


def runs(count: int) -> Iterator[tuple[str, str]]:
    """So many runs, of two principals in turn."""
    return ((f"agent-{i % 2}", f"run-{i}") for i in range(count))


def test_a_rule_in_force_is_proposed_and_goes_on_until_a_person_applies_it(node: Node) -> None:
    node.follows()
    for principal, span in runs(5):
        node.objected(principal, span)
    assert node.weighed() == [("team.zap", "open")]
    assert node.verdict() is Verdict.ESCALATE
    (pending,) = read_step_back(node.home).pending
    assert pending.objections == Objections(2, 5, 0)
    stepback.decide(node.home, "team", "team.zap", apply=True)
    assert node.verdict() is Verdict.ALLOW
    assert read_step_back(node.home).pending == ()
    stepback.undo(node.home, "team", "team.zap")
    assert node.verdict() is Verdict.ESCALATE


def test_calls_never_count_however_many(node: Node) -> None:
    node.follows()
    node.objected("agent-0", "run-0", calls=300)
    assert node.weighed() == []


@pytest.mark.parametrize(
    "seen",
    [
        [("agent-0", f"run-{i}") for i in range(9)],
        [(f"agent-{i}", "run-0") for i in range(9)],
        [*runs(4)],
        [(None, f"run-{i}") for i in range(9)],
        [(f"agent-{i}", None) for i in range(9)],
    ],
    ids=["one principal", "one run", "too few runs", "nobody", "no run"],
)
def test_too_few_distinct_principals_or_runs_are_no_evidence(
    node: Node, seen: list[tuple[str | None, str | None]]
) -> None:
    node.follows()
    for principal, span in seen:
        node.objected(principal, span)
    assert node.weighed() == []


def test_within_its_window_a_rule_steps_back_by_itself_and_stays_in_shadow(node: Node) -> None:
    node.follows(DAY)
    for principal, span in runs(5):
        node.objected_in_shadow(principal, span)
    assert node.weighed() == [("team.zap", "applied")]
    node.commons.clock.advance(86_400)
    assert node.verdict() is Verdict.ALLOW
    (standing,) = installed.standing(node.home, *KEY, node.now).standings
    assert standing.state == "stepped-back"


def test_a_granted_rule_never_steps_back(node: Node) -> None:
    node.follows()
    installed.grant(node.home, *KEY, None, node.now)
    for principal, span in runs(9):
        node.objected(principal, span)
    assert node.weighed() == []
    assert node.verdict() is Verdict.BLOCK


def test_a_watched_rule_that_is_granted_does_not_step_back(node: Node) -> None:
    node.follows(DAY)
    installed.grant(node.home, *KEY, None, node.now, watched=True)
    for principal, span in runs(9):
        node.objected_in_shadow(principal, span)
    assert node.weighed() == []


def test_what_was_dismissed_is_not_proposed_again(node: Node) -> None:
    node.follows()
    for principal, span in runs(5):
        node.objected(principal, span)
    node.weighed()
    stepback.decide(node.home, "team", "team.zap", apply=False)
    assert node.weighed() == []
    with pytest.raises(BadState, match="not proposed"):
        stepback.decide(node.home, "team", "team.zap", apply=True)


def test_receipts_of_another_pack_or_of_long_ago_are_no_evidence(node: Node) -> None:
    node.follows()
    for principal, span in runs(9):
        node.objected(principal, span, pack_digest="ab" * 32)
    for principal, span in runs(9):
        node.objected(principal, span, ts_us=node.now - 8 * DAY)
    assert node.weighed() == []


def test_an_ask_that_a_person_approved_is_told_with_the_evidence(node: Node) -> None:
    node.follows()
    for principal, span in runs(5):
        node.objected(principal, span, verdict="ALLOW", outcome="approved", approval="yes")
    node.weighed()
    (pending,) = read_step_back(node.home).pending
    assert str(pending.objections) == "objected to 2 principals in 5 runs, of which a person approved 5"


def test_receipts_that_were_changed_move_nothing(node: Node) -> None:
    node.follows()
    for principal, span in runs(9):
        node.objected(principal, span)
    node.receipts.write_bytes(node.receipts.read_bytes().replace(b"agent-1", b"agent-9", 1))
    with pytest.raises(BadChain):
        node.weighed()
    assert read_step_back(node.home).proposals == ()


def test_thresholds_are_the_operators_and_at_least_one(node: Node) -> None:
    node.follows()
    node.objected("agent-0", "run-0")
    with pytest.raises(ValueError, match="from 1"):
        stepback.set_thresholds(node.home, Thresholds(0, 1, 1))
    stepback.set_thresholds(node.home, Thresholds(1, 1, 1))
    assert node.weighed() == [("team.zap", "open")]


def test_without_receipts_or_packs_there_is_nothing_to_weigh(node: Node) -> None:
    assert weigh(node.home, node.receipts, node.now) == ()
    node.follows()
    assert weigh(node.home, node.commons.home / "none", node.now) == ()


@pytest.mark.parametrize("spoil", ["state", "principals", "rule", "extra"])
def test_a_damaged_file_of_proposals_is_said(node: Node, spoil: str) -> None:
    node.follows()
    for principal, span in runs(5):
        node.objected(principal, span)
    node.weighed()
    body = json.loads((node.home / "stepback.json").read_text())
    body["proposals"][0][spoil] = ["x"]
    (node.home / "stepback.json").write_text(json.dumps(body))
    with pytest.raises(BadState, match="is damaged"):
        read_step_back(node.home)
