"""Settlement: what is asked, what is written and when, and under which policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from interlock import Blocked, Decision, SensorEvent, enforce_tool_call, guard, install
from interlock.engine import ambient
from interlock.engine.approvals import Approval
from interlock.engine.decision import Verdict
from interlock.engine.evaluate import Outcome
from interlock.engine.live import LivePolicy
from interlock.engine.policy.model import Policy, Rule
from interlock.engine.settle import settle
from interlock.engine.sinks import InMemorySink


@pytest.fixture(autouse=True)
def _nothing_installed() -> Iterator[None]:
    yield
    ambient.install(None)


def test_a_block_is_never_put_to_an_approver() -> None:
    asked: list[str] = []

    def approver(request: Any) -> bool:
        asked.append(request.reason)
        return True

    def escalate(event: SensorEvent) -> Decision | None:
        return Decision.escalate("ask")

    def block(event: SensorEvent) -> Decision | None:
        return Decision.block("no")

    install(rules=[escalate, block], approver=approver)
    with pytest.raises(Blocked, match="no"):
        enforce_tool_call("t", {}, on_escalate=approver)
    assert asked == []


def test_a_fifth_verdict_is_settled_as_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    fifth = int.__new__(Verdict, 4)
    fifth._name_, fifth._value_ = "PAUSE", 4
    monkeypatch.setitem(cast(Any, Verdict)._member_map_, "PAUSE", fifth)
    monkeypatch.setitem(cast(Any, Verdict)._value2member_map_, 4, fifth)
    outcome = Outcome(Decision(fifth, "wait a little"), SensorEvent("t", {}))
    settled = settle(outcome, {}, enforcement="blocking", approve=lambda o: Approval(True))
    assert settled.ending == "blocked"
    with pytest.raises(Blocked, match="verdict that does not exist"):
        settled.released()


def test_the_receipt_is_written_before_the_tool_runs() -> None:
    sink = InMemorySink()
    written: list[int] = []

    @guard
    def tool() -> None:
        written.append(len(sink.receipts))

    install(sink=sink)
    tool()
    assert written == [1]


def test_a_call_is_judged_and_recorded_under_one_policy_and_epoch() -> None:
    sink = InMemorySink()
    digests = iter(["b" * 64, "c" * 64])
    state = {"version": 0, "digest": "a" * 64}

    def swap(event: SensorEvent) -> Decision | None:
        state.update(version=cast(int, state["version"]) + 1, digest=next(digests))
        ambient.installed().live.refresh(wait=True)  # loaded, while the call is judged
        return None

    def load() -> Policy:
        return Policy((Rule("swap", swap),), cast(str, state["digest"]))

    install(sink=sink)
    ambient.installed().live = LivePolicy(load, lambda: state["version"])
    enforce_tool_call("t", {})
    enforce_tool_call("t", {})
    kept = [(receipt.policy_digest[0], receipt.policy_epoch) for receipt in sink.receipts]
    assert kept == [("a", 1), ("b", 2)]


def test_a_receipt_names_the_shadow_rules_that_objected_and_how() -> None:
    sink = InMemorySink()
    secret = "hunter2"
    rules = [
        Rule("quiet", lambda event: None, shadow=True),
        Rule("fine", lambda event: Decision.allow(), shadow=True),
        Rule("strict", lambda event: Decision.block(secret), shadow=True),
        Rule("careful", lambda event: Decision.escalate(secret), shadow=True),
        Rule("broken", lambda event: cast(Any, secret), shadow=True),
    ]
    install(policy=Policy(tuple(rules), "d" * 64), sink=sink)
    assert enforce_tool_call("t", {"x": 1}) == {"x": 1}
    (kept,) = sink.receipts
    assert kept.shadows == "strict BLOCK; careful ESCALATE; broken BLOCK"
    assert (kept.verdict, kept.policy_verdict, kept.rule) == ("ALLOW", None, None)
    assert secret not in repr(kept)
    sink.verify()
