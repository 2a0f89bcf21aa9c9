"""The native evaluator: where its rules run, what it does with what it cannot hold, and that its failure blocks."""

from __future__ import annotations

import enum
import functools
import json
from typing import Any, cast

import pytest

import interlock
from interlock import Blocked, detectors, enforce_tool_call, install
from interlock.engine import ambient
from interlock.engine.decision import Decision, Verdict
from interlock.engine.evaluate import Outcome, PythonEvaluator, evaluate
from interlock.engine.event import SensorEvent
from interlock.engine.policy.builtins import resolver
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Policy, Source
from interlock.engine.refusals import NATIVE_PANIC
from interlock.engine.rules import code_rules, with_code_rules
from interlock.native.availability import availability
from interlock.native.planner import Segment, planned

if not availability().installed:
    pytest.skip(availability().sentence, allow_module_level=True)

from interlock.native import evaluator
from interlock.native.evaluator import NativeEvaluator, chosen_evaluator

RULES: list[dict[str, Any]] = [
    {"id": "no.rm", "when": {"arg": "command", "prefix": "rm "}, "verdict": "block", "reason": "no"},
    {"id": "often", "when": {"count": {"over": 3, "within": "1h"}}, "verdict": "escalate", "reason": "often"},
    {
        "id": "mask",
        "when": {"action": "*"},
        "verdict": "modify",
        "reason": "masked",
        "mask": {"detector": "pii_redaction", "params": {"emails": True}},
    },
]


def policy(*rules: dict[str, Any]) -> Policy:
    document = {"format": "interlock-policy", "v": 1, "name": "test", "rules": list(rules)}
    return load_policy(json.dumps(document).encode(), where="test", source=Source("file"), resolve=resolver(None))


class Proxy:
    """Stands for a function and asks it for what it does not have itself."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.__name__ = "proxy"

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function, name)

    def __call__(self, event: SensorEvent) -> Decision | None:
        return Decision.block("by the proxy")


def test_a_function_that_took_over_a_detectors_attributes_runs_itself() -> None:
    detector = detectors.network_egress_guard(allowed_hosts=["ok.example"])

    @functools.wraps(detector)
    def wrapped(event: SensorEvent) -> Decision | None:
        return detector(event) or Decision.block("by the wrapper")

    def copied(event: SensorEvent) -> Decision | None:
        return Decision.block("by the copy")

    copied.__dict__.update(detector.__dict__)
    for rule, reason in ((wrapped, "by the wrapper"), (copied, "by the copy"), (Proxy(detector), "by the proxy")):
        both = with_code_rules(None, code_rules([rule]))
        assert planned(both).reasons == {0: "it is code"}
        assert NativeEvaluator().evaluate(both, SensorEvent("x", {"a": 1})).decision.reason == reason
    assert not planned(with_code_rules(None, code_rules([detector]))).reasons


def test_rules_of_code_run_in_python_between_native_ones_and_detectors_do_not() -> None:
    def last(event: SensorEvent) -> Decision | None:
        return Decision.block("seen " + str(event.args["to"])) if event.action == "send" else None

    code = code_rules([detectors.mesh_indicator_guard(["0" * 64]), last, detectors.secrets_guard()])
    both = with_code_rules(policy(RULES[0], RULES[2]), code)
    assert planned(both).segments == (Segment(0, 3, True), Segment(3, 4, False), Segment(4, 5, True))
    assert planned(both).reasons == {3: "it is code"}
    event = SensorEvent("send", {"to": "me@corp.example"})
    outcome = NativeEvaluator().evaluate(both, event)
    assert outcome.decision.reason == "seen [REDACTED EMAIL]"
    assert outcome.decision == evaluate(both, event).decision


def test_a_detector_of_code_says_the_same_in_both_engines() -> None:
    guards = [
        detectors.network_egress_guard(allowed_hosts=["good.example"]),
        detectors.detector_guard("hidden_text", phase="result"),
        detectors.pii_redaction_guard(emails=True),
    ]
    both = with_code_rules(None, code_rules(guards))
    assert planned(both).reasons == {}
    for event in (
        SensorEvent("get", {"url": "https://evil.example/"}),
        SensorEvent("get", {"url": "https://good.example/", "to": "a@b.example"}),
        SensorEvent("get", {"result": "x\u202ey"}, "result"),
    ):
        assert NativeEvaluator().evaluate(both, event).decision == evaluate(both, event).decision
        assert evaluate(both, event).decision.verdict is not Verdict.ALLOW


class _Colour(enum.StrEnum):
    RED = "rm -rf /"


@pytest.mark.parametrize(
    "value", [b"rm ", {1, 2}, 1 << 70, float("nan"), "\ud800", _Colour.RED, [[[(1, b"x")]]]], ids=repr
)
def test_what_the_native_engine_cannot_hold_is_judged_by_the_same_rules_in_python(value: object) -> None:
    both = policy(RULES[0], RULES[2])
    event = SensorEvent("Bash", {"command": value, "to": "me@corp.example"})
    ours, theirs = NativeEvaluator().evaluate(both, event), evaluate(both, event)
    assert ours.decision == theirs.decision
    assert ours.decision.verdict in (Verdict.MODIFY, Verdict.BLOCK)


def test_what_nobody_can_read_is_refused_as_in_python() -> None:
    deep: list[object] = []
    for _ in range(300):
        deep = [deep]
    for args in ({"x": object()}, {"x": deep}):
        ours = NativeEvaluator().evaluate(policy(RULES[0]), SensorEvent("t", args))
        theirs = evaluate(policy(RULES[0]), SensorEvent("t", args))
        assert (ours.decision, ours.decision.verdict) == (theirs.decision, Verdict.BLOCK)


def test_an_event_that_nobody_objects_to_is_given_back_as_it_came() -> None:
    event = SensorEvent("Bash", {"command": "ls"})
    assert NativeEvaluator().evaluate(policy(RULES[0]), event).event is event


def test_a_native_engine_that_fails_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def opinions(self, *_: object) -> None:
            raise RuntimeError("a value that nobody must see")

    evaluator, judged_by = NativeEvaluator(), policy(RULES[0])
    monkeypatch.setattr(evaluator, "_made", lambda plan: Failing())
    outcome = evaluator.evaluate(judged_by, SensorEvent("ls", {"secret": "x"}))
    assert (outcome.decision.verdict, outcome.decision.policy_id) == (Verdict.BLOCK, NATIVE_PANIC)
    assert "nobody must see" not in outcome.decision.reason
    assert dict(outcome.event.args) == {}


def test_a_rule_that_the_native_engine_refuses_stays_with_python() -> None:
    greedy = {"arg": "x", "regex": r"^\w{900}$", "flags": "u"}  # needs more memory than a pattern may take there
    both = policy(RULES[0], {"id": "big", "when": greedy, "verdict": "block", "reason": "big"})
    evaluator = NativeEvaluator()
    assert list(evaluator.reasons(both)) == [1]
    for value, verdict in (("é" * 900, Verdict.BLOCK), ("é" * 899, Verdict.ALLOW)):
        assert evaluator.evaluate(both, SensorEvent("t", {"x": value})).decision.verdict is verdict


@pytest.mark.parametrize("regex", ["(?:)", "()", "a{0}", "x|", "(?:|)"])
def test_a_pattern_that_matches_the_empty_text_runs_natively(regex: str) -> None:
    one = policy({"id": "any", "when": {"arg": "x", "regex": regex}, "verdict": "block", "reason": "no"})
    evaluator = NativeEvaluator()
    assert dict(evaluator.reasons(one)) == {}
    assert evaluator.evaluate(one, SensorEvent("t", {"x": ""})).decision.verdict is Verdict.BLOCK
    assert evaluator.evaluate(one, SensorEvent("t", {"x": 1})).decision.verdict is Verdict.ALLOW


def test_the_engine_is_chosen_where_a_guard_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INTERLOCK_NATIVE", raising=False)
    install(policy=policy(RULES[0]))
    assert ambient.installed().evaluator.name == "native"
    monkeypatch.setenv("INTERLOCK_NATIVE", "0")
    assert isinstance(chosen_evaluator(), PythonEvaluator)
    ambient.install(None)


def test_a_call_that_no_rule_objects_to_takes_the_short_way_and_no_other_does(monkeypatch: pytest.MonkeyPatch) -> None:
    long_way: list[str] = []
    judge = NativeEvaluator.evaluate

    def counted(self: NativeEvaluator, policy: Policy, event: SensorEvent) -> Outcome:
        long_way.append(event.action)
        return judge(self, policy, event)

    monkeypatch.setattr(NativeEvaluator, "evaluate", counted)
    rule = {"id": "r", "when": {"arg": "x", "equals": "bad"}, "verdict": "block", "reason": "no"}
    interlock.install(policy=policy(rule))
    try:
        enforce_tool_call("first", {})  # compiles the policy, where nothing has readied it
        del long_way[:]
        given: dict[str, object] = {"x": ["good"]}
        taken = enforce_tool_call("short", given)
        assert (taken, taken is given, taken["x"] is given["x"], long_way) == ({"x": ["good"]}, False, True, [])
        with interlock.span(principal="acme/a"):
            enforce_tool_call("short", given, cwd="/w")
        assert long_way == []
        with pytest.raises(Blocked, match="no"):
            enforce_tool_call("objected", {"x": "bad"})
        enforce_tool_call("odd", {"x": b"bytes"})
        enforce_tool_call("watched", given, enforcement="monitor")
        enforce_tool_call("named", given, call_id="c")
        assert long_way == ["objected", "odd", "watched", "named"]
        for wrong in ({"principal": 3}, {"cwd": 3}, {"enforcement": "off"}):
            with pytest.raises((TypeError, ValueError)):
                enforce_tool_call("t", given, **cast(Any, wrong))
        with pytest.raises(TypeError):
            enforce_tool_call("t", cast(Any, {3: 1}))
        with pytest.raises(TypeError):
            enforce_tool_call("", given)
    finally:
        ambient.install(None)


@pytest.mark.parametrize("text", ["bad" + "x" * 10_000, "good" + "x" * 10_000])
def test_a_long_text_is_judged_once_whether_a_rule_objects_or_not(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    asked: list[tuple[int, int]] = []
    opinions = evaluator._opinions

    def counted(compiled: Any, event: SensorEvent, lo: int, hi: int) -> Any:
        asked.append((lo, hi))
        return opinions(compiled, event, lo, hi)

    monkeypatch.setattr(evaluator, "_opinions", counted)
    rule = {"id": "r", "when": {"arg": "x", "prefix": "bad"}, "verdict": "block", "reason": "no"}
    interlock.install(policy=policy(rule))
    try:
        if text.startswith("bad"):
            with pytest.raises(Blocked, match="no"):
                enforce_tool_call("t", {"x": text})
        else:
            assert enforce_tool_call("t", {"x": text}) == {"x": text}
        assert asked == [(0, 1)]
    finally:
        ambient.install(None)


def test_the_policies_of_many_principals_stay_compiled_and_large_ones_within_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evaluator = NativeEvaluator()
    built: list[Policy] = []
    build = evaluator._built

    def counted(given: Policy) -> Any:
        built.append(given)
        return build(given)

    monkeypatch.setattr(evaluator, "_built", counted)
    many = [policy({**RULES[0], "when": {"arg": "command", "equals": str(n)}}) for n in range(200)]
    for _ in range(2):
        for n, one in enumerate(many):
            for said in (n, n + 1):
                decision = evaluator.evaluate(one, SensorEvent("t", {"command": str(said)})).decision
                assert (decision.verdict is Verdict.BLOCK) == (said == n)
    assert len(built) == 200
    monkeypatch.setattr("interlock.native.evaluator._KEPT", (2, 1000, 10))
    for one in many[:20]:
        evaluator.prepare(one)
    assert len(evaluator._kept) == 10


def test_policies_that_come_and_go_are_never_taken_for_one_another() -> None:
    """An id that is used again belongs to another policy; what is kept holds on to its own."""
    evaluator = NativeEvaluator()
    for n in range(300):
        one = policy({**RULES[0], "when": {"arg": "command", "equals": str(n)}})
        assert evaluator.evaluate(one, SensorEvent("t", {"command": str(n)})).decision.verdict is Verdict.BLOCK
        assert evaluator.evaluate(one, SensorEvent("t", {"command": str(n - 1)})).decision.verdict is Verdict.ALLOW
        if n % 2:
            evaluator.retire(one)
        del one


def test_a_long_plan_is_handed_over_in_portions_and_says_what_a_short_one_does() -> None:
    rules = [{**RULES[0], "id": f"r{k}", "when": {"arg": "command", "equals": f"é {k}"}} for k in range(3_000)]
    long = policy(*rules)
    portions = planned(long).json
    assert len(portions) > 4
    assert max(map(len, portions)) < 1 << 18
    assert [row["at"] for row in json.loads(b"".join(portions))["rules"]] == list(range(3_000))
    native = NativeEvaluator()
    for at in (0, 1_499, 2_999):
        said = native.evaluate(long, SensorEvent("Bash", {"command": f"é {at}"}))
        assert [rule.id for rule in said.fired] == [f"r{at}"]
    assert native.evaluate(long, SensorEvent("Bash", {"command": "é 3000"})).fired == ()
