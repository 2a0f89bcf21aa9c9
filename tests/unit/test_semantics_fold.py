"""The fold: re-judging, shadow rules, proofs, and what holds for any rules in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.detectors import pii_redaction_guard
from interlock.engine import ambient
from interlock.engine.ambient import Installed
from interlock.engine.decision import Decision, Verdict
from interlock.engine.evaluate import Outcome, PythonEvaluator, evaluate, judged
from interlock.engine.event import SensorEvent
from interlock.engine.live import LivePolicy
from interlock.engine.payload import frozen_mapping, result_args, result_of
from interlock.engine.policy.model import Policy, Rule
from interlock.engine.refusals import RULE_FAILED, UNKNOWN_VERDICT
from interlock.engine.sinks import NullSink
from interlock.interceptors.enforce import enforce_tool_result

Opinion = Callable[[SensorEvent], Decision | None]


def rule(name: str, opinion: Opinion, *, shadow: bool = False, phase: Any = "call") -> Rule:
    return Rule(name, opinion, phase=phase, shadow=shadow)


def says(decision: Decision | None) -> Opinion:
    return lambda event: decision


def where(name: str, value: object, decision: Decision) -> Opinion:
    return lambda event: decision if event.args.get(name) == value else None


def judge(*rules: Rule, args: dict[str, object] | None = None) -> Outcome:
    return evaluate(Policy(rules, ""), SensorEvent("t", args or {"x": 1}))


SET_2: Final = rule("set", says(Decision.modify({"x": 2}, "two", "set.v1", "x")))


def test_a_rule_before_the_rewrite_blocks_what_the_rewrite_made() -> None:
    block = Decision.block("never two", "no.two", "x")
    outcome = judge(rule("guard", where("x", 2, block)), SET_2)
    assert outcome.decision is block
    assert outcome.decider is not None
    assert outcome.decider.id == "guard"
    assert outcome.event.args == {"x": 2}
    assert outcome.before is not None
    assert outcome.before.args == {"x": 1}


def test_a_rule_before_the_rewrite_escalates_what_the_rewrite_made() -> None:
    outcome = judge(rule("guard", where("x", 2, Decision.escalate("two?", "ask.two"))), SET_2)
    assert outcome.decision.verdict is Verdict.ESCALATE
    assert (outcome.decision.reason, outcome.decision.policy_id) == ("two?; two", "ask.two")
    assert outcome.decision.modified_args == {"x": 2}
    assert [r.id for r in outcome.escalated] == ["guard"]


def test_a_second_judgement_takes_no_rewrite_and_no_proof() -> None:
    again = rule("again", where("x", 2, Decision.modify({"x": 3})))
    proof = rule("proof", where("x", 2, Decision.allow(proven="harmless")))
    outcome = judge(again, proof, SET_2)
    assert outcome.event.args == {"x": 2}
    assert outcome.decision.verdict is Verdict.MODIFY
    assert outcome.decision.proven is None


def test_only_the_rules_before_the_last_rewrite_judge_twice() -> None:
    seen: list[tuple[str, object]] = []

    def look(name: str) -> Opinion:
        return lambda event: seen.append((name, event.args["x"]))

    set_3 = rule("set 3", says(Decision.modify({"x": 3})))
    judge(rule("a", look("a")), SET_2, rule("b", look("b")), set_3, rule("c", look("c")))
    assert seen == [("a", 1), ("b", 2), ("c", 3), ("a", 3), ("b", 3)]


def test_where_nothing_is_rewritten_each_rule_judges_once() -> None:
    seen: list[str] = []
    rules = [rule(n, lambda event, n=n: seen.append(n)) for n in "abc"]  # type: ignore[misc]
    judge(*rules, rule("ask", says(Decision.escalate("ask"))))
    assert seen == ["a", "b", "c"]


def test_a_rule_that_escalated_already_is_not_heard_a_second_time() -> None:
    first = Decision.escalate("ask", "ask.v1", evidence={"seen": 1})
    outcome = judge(rule("ask", says(first)), SET_2)
    assert outcome.decision.reason == "ask; two"
    assert [r.id for r in outcome.escalated] == ["ask"]
    assert [r.id for r in outcome.fired] == ["ask", "set"]


def test_an_escalation_of_the_call_as_it_came_stays_after_a_rewrite() -> None:
    outcome = judge(rule("ask", where("x", 1, Decision.escalate("one?"))), SET_2)
    assert outcome.decision.verdict is Verdict.ESCALATE


def test_a_rule_that_fails_on_the_rewritten_call_blocks() -> None:
    def fails(event: SensorEvent) -> Decision | None:
        raise KeyError if event.args["x"] == 2 else StopIteration

    def calm(event: SensorEvent) -> Decision | None:
        return fails(event) if event.args["x"] == 2 else None

    outcome = judge(rule("calm", calm), SET_2)
    assert outcome.decision.policy_id == RULE_FAILED
    assert isinstance(outcome.cause, KeyError)


def test_results_are_judged_once_whatever_is_rewritten() -> None:
    seen: list[object] = []
    look = rule("look", lambda event: seen.append(result_of(event)), phase="result")
    change = rule("change", says(Decision.modify_result("clean")), phase="result")
    event = SensorEvent("t", result_args("dirty"), phase="result")
    outcome = evaluate(Policy((look, change), ""), event)
    assert seen == ["dirty"]
    assert result_of(outcome.event) == "clean"


@pytest.mark.parametrize("result", ["text", ["a", 1], {"a": {"b": 1}}, ("a", 1), None, 5])
def test_a_result_rewrite_stands_for_the_whole_value_in_its_own_shape(result: object) -> None:
    change = rule("change", lambda event: Decision.modify_result(result_of(event)), phase="result")
    event = SensorEvent("t", result_args(result), phase="result")
    outcome = evaluate(Policy((change,), ""), event)
    assert result_of(outcome.event) == result
    assert outcome.decision.modified_args is None


class Page(NamedTuple):
    """What a tool may return."""

    url: str
    body: str


@pytest.mark.parametrize(
    ("result", "clean"),
    [
        ("4111 1111 1111 1111", "[REDACTED CREDIT_CARD]"),
        (["a", ("b", "4111 1111 1111 1111")], ["a", ("b", "[REDACTED CREDIT_CARD]")]),
        (Page("u", "4111 1111 1111 1111"), Page("u", "[REDACTED CREDIT_CARD]")),
        ({"a": {"b": "4111 1111 1111 1111"}}, {"a": {"b": "[REDACTED CREDIT_CARD]"}}),
    ],
)
def test_a_masked_result_keeps_its_shape(result: object, clean: object) -> None:
    mask = rule("mask", pii_redaction_guard(), phase="result")
    ambient.install(Installed(LivePolicy(lambda: Policy((mask,), ""), None), NullSink()))
    try:
        masked = enforce_tool_result("t", result)
    finally:
        ambient.install(None)
    assert masked == clean
    assert type(masked) is type(result)


def test_of_two_result_rewrites_the_later_stands_and_the_first_names_it() -> None:
    one = rule("one", says(Decision.modify_result("a", "first", "one.v1")), phase="result")
    two = rule("two", says(Decision.modify_result("b", "second", "two.v1")), phase="result")
    decision = evaluate(Policy((one, two), ""), SensorEvent("t", result_args("x"), phase="result")).decision
    assert (decision.modified_result, decision.reason, decision.policy_id) == ("b", "first; second", "one.v1")


@pytest.mark.parametrize("decision", [Decision.block("no"), Decision.escalate("ask"), Decision.modify({"x": 9})])
def test_a_shadow_rule_is_recorded_and_decides_nothing(decision: Decision) -> None:
    quiet = rule("shadow", says(decision), shadow=True)
    outcome = judge(quiet)
    assert outcome.decision.verdict is Verdict.ALLOW
    assert outcome.shadows == ((quiet, decision),)
    assert (outcome.fired, outcome.event.args) == ((), {"x": 1})


def test_a_shadow_rule_is_asked_at_its_place_and_only_once() -> None:
    seen: list[object] = []
    looks = [rule(n, lambda event: seen.append(event.args["x"]), shadow=True) for n in ("before", "after")]
    judge(looks[0], SET_2, looks[1])
    assert seen == [1, 2]


def test_a_shadow_rule_that_fails_is_recorded_as_failed_and_blocks_nothing() -> None:
    def bad(event: SensorEvent) -> Decision | None:
        raise KeyError("secret")

    outcome = judge(rule("bad", bad, shadow=True), SET_2)
    assert outcome.decision.verdict is Verdict.MODIFY
    assert outcome.cause is None
    ((_, said),) = outcome.shadows
    assert (said.policy_id, "secret" in said.reason) == (RULE_FAILED, False)


def test_a_proof_stands_where_nobody_objects() -> None:
    proof = Decision.allow("reads only", proven="shell.read-only")
    assert judge(rule("quiet", says(None)), rule("proof", says(proof))).decision is proof


@pytest.mark.parametrize("objection", [Decision.block("no"), Decision.escalate("ask"), Decision.modify({"y": 1})])
def test_any_objection_cancels_a_proof(objection: Decision) -> None:
    proof = rule("proof", says(Decision.allow(proven="p")))
    for rules in ((proof, rule("no", says(objection))), (rule("no", says(objection)), proof)):
        decision = judge(*rules).decision
        assert decision.verdict is objection.verdict
        assert decision.proven is None


def test_a_proof_of_a_shadow_rule_proves_nothing() -> None:
    assert judge(rule("proof", says(Decision.allow(proven="p")), shadow=True)).decision.proven is None


def test_a_rewrite_to_what_cannot_be_read_blocks() -> None:
    outcome = judge(rule("odd", says(Decision.modify({"x": object()}))))
    assert (outcome.decision.verdict, outcome.decision.policy_id) == (Verdict.BLOCK, RULE_FAILED)
    assert outcome.rewritten == frozenset()


def test_a_verdict_that_is_added_and_not_handled_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    fifth = int.__new__(Verdict, 4)
    fifth._name_, fifth._value_ = "PAUSE", 4
    monkeypatch.setitem(cast(Any, Verdict)._member_map_, "PAUSE", fifth)
    monkeypatch.setitem(cast(Any, Verdict)._value2member_map_, 4, fifth)
    assert Verdict(4) is fifth
    outcome = judge(rule("new", says(Decision(fifth, "wait a little"))))
    assert (outcome.decision.verdict, outcome.decision.policy_id) == (Verdict.BLOCK, UNKNOWN_VERDICT)


def test_the_reference_evaluator_is_the_function() -> None:
    assert PythonEvaluator().evaluate(Policy((SET_2,), ""), SensorEvent("t", {"x": 1})).event.args == {"x": 2}


# --- what holds for any rules -----------------------------------------------------------------------------------------

STRENGTH: Final = {Verdict.ALLOW: 0, Verdict.MODIFY: 1, Verdict.ESCALATE: 2, Verdict.BLOCK: 3}
NAMES: Final = st.sampled_from("xyz")
VALUES: Final = st.integers(0, 2)
quick = settings(max_examples=150, derandomize=True, deadline=None)


@st.composite
def objections(draw: st.DrawFn) -> Rule:
    made = draw(st.sampled_from([Decision.block("no", "b"), Decision.escalate("ask", "e"), Decision.allow()]))
    return rule("objection", where(draw(NAMES), draw(VALUES), made))


@st.composite
def rewriting(draw: st.DrawFn) -> Rule:
    change = Decision.modify({draw(NAMES): draw(VALUES)}, "changed", "m")
    return rule("rewrite", where(draw(NAMES), draw(VALUES), change))


args = st.fixed_dictionaries({"x": VALUES, "y": VALUES, "z": VALUES})
any_rule = objections() | rewriting()
any_rules = st.lists(any_rule, max_size=6)


def strength(rules: list[Rule], values: dict[str, int]) -> int:
    return STRENGTH[evaluate(Policy(tuple(rules), ""), SensorEvent("t", values)).decision.verdict]


@quick
@given(st.lists(objections(), max_size=5).flatmap(lambda r: st.tuples(st.just(r), st.permutations(r))), args)
def test_a_block_wins_in_any_order_of_rules_that_do_not_rewrite(
    orders: tuple[list[Rule], list[Rule]], values: dict[str, int]
) -> None:
    rules, other = orders
    said = [r.function(SensorEvent("t", values)) for r in rules]
    blocked = any(d is not None and d.verdict is Verdict.BLOCK for d in said)
    assert strength(rules, values) == strength(other, values)
    assert (strength(rules, values) == STRENGTH[Verdict.BLOCK]) == blocked


@quick
@given(any_rules, objections(), st.integers(0, 6), args)
def test_a_rule_that_does_not_rewrite_never_weakens_wherever_it_is_added(
    rules: list[Rule], extra: Rule, at: int, values: dict[str, int]
) -> None:
    assert strength([*rules[:at], extra, *rules[at:]], values) >= strength(rules, values)


@quick
@given(any_rules, any_rule, args)
def test_any_rule_that_is_added_at_the_end_never_weakens(
    rules: list[Rule], extra: Rule, values: dict[str, int]
) -> None:
    assert strength([*rules, extra], values) >= strength(rules, values)


@quick
@given(any_rules, args)
def test_what_goes_on_is_a_call_that_no_rule_objects_to(rules: list[Rule], values: dict[str, int]) -> None:
    outcome = evaluate(Policy(tuple(rules), ""), SensorEvent("t", values))
    final = [d.verdict for r in rules if (d := r.function(outcome.event)) is not None]
    if outcome.decision.verdict is not Verdict.BLOCK:
        assert Verdict.BLOCK not in final
    if outcome.decision.verdict in (Verdict.ALLOW, Verdict.MODIFY):
        assert Verdict.ESCALATE not in final


@quick
@given(any_rules, args)
def test_judging_again_what_nobody_rewrote_says_the_same(rules: list[Rule], values: dict[str, int]) -> None:
    policy = Policy(tuple(rules), "")
    once = evaluate(policy, SensorEvent("t", values))
    if not once.rewritten:
        assert evaluate(policy, once.event) == once


@quick
@given(any_rules, st.lists(st.tuples(any_rule, st.integers(0, 6)), max_size=3), args)
def test_shadow_rules_anywhere_change_nothing(
    rules: list[Rule], shadows: list[tuple[Rule, int]], values: dict[str, int]
) -> None:
    mixed = list(rules)
    for quiet, at in shadows:
        mixed.insert(at, replace(quiet, shadow=True))
    plain = evaluate(Policy(tuple(rules), ""), SensorEvent("t", values))
    shadowed = evaluate(Policy(tuple(mixed), ""), SensorEvent("t", values))
    assert replace(shadowed, shadows=()) == plain


@quick
@given(st.lists(any_rule | any_rule.map(lambda r: replace(r, shadow=True)), max_size=6), args)
def test_an_evaluator_that_gives_its_opinions_all_at_once_comes_to_the_same(
    rules: list[Rule], values: dict[str, int]
) -> None:
    policy = Policy(tuple(rules), "")

    def at_once(positions: range, event: SensorEvent) -> Iterator[tuple[int, object]]:
        said = [(at, policy.rules[at].function(event)) for at in positions]
        return iter([(at, decision) for at, decision in said if decision is not None])

    event = SensorEvent("t", frozen_mapping(values))
    assert judged(policy, event, at_once) == evaluate(policy, event)
