"""What a receipt says of a decision: the verdict that took effect beside what the rules said, templates, and drops."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock import Blocked, Decision, NotApproved, SensorEvent, detectors, enforce_tool_call
from interlock.engine import ambient
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Policy, Source
from interlock.engine.receipts import Receipt
from interlock.engine.sinks import InMemorySink

SECRET = "hunter22-of-the-caller"


@pytest.fixture(autouse=True)
def no_guard_after() -> Iterator[None]:
    yield
    ambient.install(None)


def rule(verdict: Decision) -> Any:
    return lambda event: verdict


def declared(verdict: str, **more: object) -> Policy:
    when = {"arg": "x", "contains": "hunter"}
    return loaded({"id": "r", "when": when, "verdict": verdict, "reason": "no hunting", **more})


def loaded(*rules: dict[str, object]) -> Policy:
    body = {"format": "interlock-policy", "v": 1, "name": "test", "rules": list(rules)}
    return load_policy(json.dumps(body).encode(), where="test", source=Source("file"), resolve=lambda name: b"")


@pytest.mark.parametrize(
    ("said", "approver", "enforcement", "verdict", "policy_verdict", "outcome"),
    [
        (Decision.allow(), None, "blocking", "ALLOW", None, "proceeded"),
        (Decision.block("no"), None, "blocking", "BLOCK", None, "blocked"),
        (Decision.block("no"), None, "monitor", "ALLOW", "BLOCK", "observed"),
        (Decision.modify({"x": 2}), None, "blocking", "MODIFY", None, "rewritten"),
        (Decision.modify({"x": 2}), None, "monitor", "ALLOW", "MODIFY", "observed"),
        (Decision.escalate("ask"), lambda r: True, "blocking", "ALLOW", "ESCALATE", "approved"),
        (Decision.escalate("ask"), lambda r: False, "blocking", "BLOCK", "ESCALATE", "not-approved"),
    ],
)
def test_a_receipt_says_what_took_effect_and_what_the_rules_said(
    said: Decision, approver: Any, enforcement: Any, verdict: str, policy_verdict: str | None, outcome: str
) -> None:
    sink = InMemorySink()
    interlock.install(rules=[rule(said)], sink=sink, approver=approver)
    with contextlib.suppress(Blocked):
        enforce_tool_call("t", {"x": 1}, enforcement=enforcement)
    (kept,) = sink.receipts
    assert (kept.verdict, kept.policy_verdict, kept.outcome) == (verdict, policy_verdict, outcome)


def test_an_approved_rewrite_took_effect_as_a_rewrite() -> None:
    sink = InMemorySink()
    rules = [rule(Decision.modify({"x": 2})), rule(Decision.escalate("ask"))]
    interlock.install(rules=rules, sink=sink, approver=lambda r: True)
    assert enforce_tool_call("t", {"x": 1}) == {"x": 2}
    assert (sink.receipts[0].verdict, sink.receipts[0].policy_verdict) == ("MODIFY", "ESCALATE")


def test_a_declared_rule_s_reason_is_its_template() -> None:
    sink = InMemorySink()
    interlock.install(policy=declared("block"), sink=sink)
    with pytest.raises(Blocked):
        enforce_tool_call("t", {"x": SECRET})
    assert sink.receipts[0].reason == "no hunting"


def test_the_reason_of_a_rule_that_is_code_is_never_written_down() -> None:
    sink = InMemorySink()

    def tells(event: SensorEvent) -> Decision:
        return Decision.block(f"found {event.args['x']}")

    interlock.install(rules=[tells], sink=sink)
    with pytest.raises(Blocked, match=SECRET):
        enforce_tool_call("t", {"x": SECRET})
    assert sink.receipts[0].reason is None
    assert SECRET not in repr(sink.receipts)


def test_a_ready_detector_leaves_its_template_and_not_the_host() -> None:
    sink = InMemorySink()
    interlock.install(rules=[detectors.network_egress_guard(allowed_hosts=["a.example"])], sink=sink)
    with pytest.raises(Blocked, match=r"b\.example"):
        enforce_tool_call("t", {"url": "https://b.example/"})
    assert sink.receipts[0].reason == "egress to {host} is not on the destination allowlist"
    assert "b.example" not in repr(sink.receipts)


def test_what_the_guard_itself_refuses_is_the_row_of_its_table_and_no_exception_s_text() -> None:
    sink = InMemorySink()

    def fails(event: SensorEvent) -> Decision:
        raise RuntimeError(SECRET)

    interlock.install(rules=[fails], sink=sink)
    with pytest.raises(Blocked):
        enforce_tool_call("t", {})
    assert sink.receipts[0].reason == "rule {rule} failed with {error}, so the action is refused"
    assert SECRET not in repr(sink.receipts)


def test_reasons_of_several_declared_rules_stand_together() -> None:
    sink = InMemorySink()
    first: dict[str, object] = {"id": "a", "when": {"arg": "x", "ge": 1}, "verdict": "escalate", "reason": "first"}
    second: dict[str, object] = {"id": "b", "when": {"action": "t"}, "verdict": "escalate", "reason": "second"}
    interlock.install(policy=loaded(first, second), sink=sink)
    with pytest.raises(NotApproved):
        enforce_tool_call("t", {"x": 1})
    assert sink.receipts[0].reason == "first; second"


def test_receipts_that_could_not_be_kept_are_counted_in_the_next_one() -> None:
    class Flaky(InMemorySink):
        broken = False

        def append(self, receipt: Receipt) -> Receipt:
            if self.broken:
                raise OSError("full")
            return super().append(receipt)

    sink = Flaky()
    interlock.install(sink=sink)
    enforce_tool_call("t", {})
    sink.broken = True
    with pytest.raises(Blocked, match="cannot be written"):
        enforce_tool_call("t", {})
    assert enforce_tool_call("t", {"x": 1}, enforcement="monitor") == {"x": 1}
    sink.broken = False
    enforce_tool_call("t", {})
    enforce_tool_call("t", {})
    assert [kept.dropped for kept in sink.receipts] == [None, 2, None]


def test_two_receipts_that_are_written_at_once_tell_of_one_drop_once() -> None:
    class Slow(InMemorySink):
        """Stops in the first receipt until another was kept."""

        broken = True

        def append(self, receipt: Receipt) -> Receipt:
            if self.broken:
                raise OSError("full")
            if receipt.action == "slow":
                begun.set()
                assert go_on.wait(10)
            return super().append(receipt)

    begun, go_on = threading.Event(), threading.Event()
    sink = Slow()
    interlock.install(sink=sink)
    with pytest.raises(Blocked):
        enforce_tool_call("t", {})
    sink.broken = False
    thread = threading.Thread(target=enforce_tool_call, args=("slow", {}))
    thread.start()
    assert begun.wait(10)
    enforce_tool_call("t", {})
    go_on.set()
    thread.join()
    assert [(kept.action, kept.dropped) for kept in sink.receipts] == [("t", None), ("slow", 1)]
    assert ambient.installed().receipts_dropped == 0


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_a_receipt_that_is_broken_off_lets_nothing_go_on_and_is_counted(stop: type[BaseException]) -> None:
    class Broken(InMemorySink):
        stops = True

        def append(self, receipt: Receipt) -> Receipt:
            if self.stops:
                raise stop
            return super().append(receipt)

    sink = Broken()
    interlock.install(sink=sink)
    with pytest.raises(stop):
        enforce_tool_call("t", {})
    sink.stops = False
    enforce_tool_call("t", {})
    assert [kept.dropped for kept in sink.receipts] == [1]


def test_a_text_beyond_the_limits_is_named_as_read_in_part() -> None:
    sink = InMemorySink()
    body = {"format": "interlock-policy", "v": 1, "name": "test", "limits": {"result": 100}, "rules": [
        {"id": "r", "phase": "result", "when": {"arg": "page", "regex": "x9"}, "verdict": "block", "reason": "no"}
    ]}  # fmt: skip
    policy = load_policy(json.dumps(body).encode(), where="test", source=Source("file"), resolve=lambda name: b"")
    interlock.install(policy=policy, sink=sink)
    interlock.enforce_tool_result("fetch", {"page": "a" * 101, "short": "b", "not a name": "c" * 200})
    interlock.enforce_tool_result("fetch", {"page": "a" * 100})
    assert [kept.partial for kept in sink.receipts] == ["page *", None]


def test_a_receipt_names_the_request_that_was_approved(tmp_path: Path) -> None:
    sink = InMemorySink()
    queue = interlock.ApprovalQueue(tmp_path / "approvals.sqlite")
    interlock.install(rules=[rule(Decision.escalate("ask"))], sink=sink, approver=queue)
    with pytest.raises(NotApproved) as refused:
        enforce_tool_call("t", {"x": 1})
    kept = sink.receipts[0]
    assert kept.approval_id
    assert kept.approval_id in str(refused.value)
