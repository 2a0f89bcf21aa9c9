"""The fold: how the opinions of rules become one Decision."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.base.canonical import MAX_DEPTH, NotCanonical, encode
from interlock.engine.decision import Decision, Verdict
from interlock.engine.evaluate import Outcome, evaluate
from interlock.engine.event import SensorEvent
from interlock.engine.payload import FrozenDict, FrozenList, frozen, result_args, result_of, thawed
from interlock.engine.policy.model import Policy, RuleFunction
from interlock.engine.refusals import NO_DECISION, RULE_FAILED
from interlock.engine.rules import code_rules, deny_when, with_code_rules


def said(*decisions: Decision | None) -> list[RuleFunction]:
    return [cast(RuleFunction, lambda event, d=d: d) for d in decisions]


def judge(rules: list[RuleFunction], args: dict[str, object] | None = None, action: str = "t") -> Outcome:
    event = SensorEvent(action, args if args is not None else {"x": 1})
    return evaluate(Policy(code_rules(rules), ""), event)


def judge_result(rules: list[RuleFunction], result: object) -> Outcome:
    for rule in rules:
        cast(Any, rule).phase = "result"
    return evaluate(Policy(code_rules(rules), ""), SensorEvent("t", result_args(result), phase="result"))


def test_no_objection_is_allow() -> None:
    outcome = judge(said(None, Decision.allow("fine"), None))
    assert outcome.decision.verdict is Verdict.ALLOW
    assert outcome.fired == ()
    assert outcome.rewritten == frozenset()


def test_a_block_wins_over_an_earlier_rewrite_and_comes_back_as_its_rule_gave_it() -> None:
    block = Decision.block("no", policy_id="p", attributed_to="x")
    outcome = judge(said(Decision.modify({"x": 2}), block))
    assert outcome.decision is block
    assert outcome.decider is not None
    assert outcome.decider.id == "<lambda>#2"


def test_a_block_ends_evaluation() -> None:
    seen: list[str] = []

    def later(event: SensorEvent) -> None:
        seen.append("later")

    judge([*said(Decision.block("no")), later])
    assert seen == []


def test_a_later_rule_judges_the_rewritten_call() -> None:
    seen: list[object] = []

    def later(event: SensorEvent) -> None:
        seen.append(event.args["x"])

    judge([*said(Decision.modify({"x": 2})), later])
    assert seen == [2]


def test_the_later_writer_of_one_argument_wins_and_the_first_rewrite_names_the_decision() -> None:
    first = Decision.modify({"x": 2, "y": 1}, "one", "p1", "x")
    second = Decision.modify({"x": 3}, "two", "p2", "y")
    decision = judge(said(first, second, Decision.modify({"z": 0}))).decision
    assert decision.modified_args == {"x": 3, "y": 1, "z": 0}
    assert (decision.reason, decision.policy_id, decision.attributed_to) == ("one; two", "p1", "x")


def test_a_single_rewrite_comes_back_exactly_as_its_rule_gave_it() -> None:
    only = Decision.modify({"x": 2}, "one", "p1", "x")
    assert judge(said(None, only, None)).decision is only


def test_an_escalation_waits_until_no_rule_blocks() -> None:
    assert judge(said(Decision.escalate("ask"), Decision.block("no"))).decision.verdict is Verdict.BLOCK
    only = Decision.escalate("ask")
    assert judge(said(only, None)).decision is only


def test_an_escalation_carries_the_rewrites_and_all_evidence() -> None:
    outcome = judge(
        said(
            Decision.modify({"x": 2}, "masked", "m"),
            Decision.escalate("ask", "e1", "x", {"a": 1}),
            Decision.escalate("also", "e2", None, {"b": 2}),
        )
    )
    decision = outcome.decision
    assert decision.verdict is Verdict.ESCALATE
    assert (decision.reason, decision.policy_id, decision.modified_args) == ("ask; also; masked", "e1", {"x": 2})
    assert decision.evidence == {"a": 1, "b": 2}
    assert outcome.event.args["x"] == 2


def test_evidence_of_two_rules_under_one_name_is_all_kept() -> None:
    asked = [Decision.escalate("ask", evidence=shown) for shown in ({"why": 1, "at": 2}, {"why": 3}, {"why": 1})]
    assert judge(said(*asked)).decision.evidence == {"why": 1, "at": 2, "why (<lambda>#2)": 3, "why (<lambda>#3)": 1}


def test_call_rules_see_calls_and_result_rules_results() -> None:
    rules = said(Decision.block("call rule"))
    assert judge_result([], "text").decision.verdict is Verdict.ALLOW
    only_calls = evaluate(Policy(code_rules(rules), ""), SensorEvent("t", result_args("x"), phase="result"))
    assert only_calls.decision.verdict is Verdict.ALLOW
    assert judge_result(rules, "x").decision.verdict is Verdict.BLOCK
    assert judge(rules).decision.verdict is Verdict.ALLOW


@pytest.mark.parametrize("error", [ValueError("secret"), RecursionError(), KeyError("x"), MemoryError()])
def test_a_rule_that_raises_blocks_with_its_exception_as_the_cause(error: Exception) -> None:
    def bad(event: SensorEvent) -> None:
        raise error

    outcome = judge([bad])
    assert outcome.decision.verdict is Verdict.BLOCK
    assert outcome.cause is error
    assert "secret" not in outcome.decision.reason
    assert outcome.decision.policy_id == RULE_FAILED
    assert "rule bad failed" in outcome.decision.reason


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (True, "returned a bool"),
        ("no", "returned a str"),
        (Decision(cast(Verdict, 4), "?"), "verdict that does not exist"),
        (Decision(cast(Verdict, 0), "?"), "verdict that does not exist"),
        (Decision(Verdict.MODIFY, "?"), "without arguments"),
        (Decision(Verdict.MODIFY, "?", modified_args=cast(Any, {1: 2})), "without arguments"),
    ],
)
def test_what_is_no_decision_blocks(answer: object, told: str) -> None:
    outcome = judge([cast(RuleFunction, lambda event: answer)])
    assert outcome.decision.verdict is Verdict.BLOCK
    assert told in outcome.decision.reason


def test_an_asynchronous_rule_blocks() -> None:
    async def rule(event: SensorEvent) -> None:
        return None

    outcome = judge([cast(RuleFunction, rule)])
    assert "asynchronous" in outcome.decision.reason


def test_arguments_rewritten_on_a_result_block() -> None:
    assert judge_result(said(Decision.modify({"result": 1})), "x").decision.verdict is Verdict.BLOCK


def test_a_rule_cannot_change_what_it_sees() -> None:
    changes: list[Callable[[Any], object]] = [
        lambda args: args.__setitem__("x", 1),
        lambda args: args["deep"].append(1),
        lambda args: args["deep"][0].update(a=1),
        lambda args: args["deep"][0].pop("a"),
        lambda args: args["deep"].sort(),
    ]
    for change in changes:
        args: dict[str, object] = {"deep": [{"a": [1]}]}
        outcome = judge([cast(RuleFunction, lambda event, change=change: change(event.args))], args)
        assert isinstance(outcome.cause, TypeError)
        assert args == {"deep": [{"a": [1]}]}


def test_what_a_rule_sees_is_an_ordinary_dict_and_list() -> None:
    value = frozen({"a": [1, {"b": (2, [3])}]})
    assert isinstance(value, dict)
    assert isinstance(value["a"], list)
    assert json.dumps(value) == '{"a": [1, {"b": [2, [3]]}]}'
    for plain in (copy.deepcopy(value), pickle.loads(pickle.dumps(value)), thawed(value)):
        assert plain == value
        assert type(plain) is dict
    deep = copy.deepcopy(value)["a"]
    deep.append(4)
    assert value["a"] == [1, {"b": (2, [3])}]


def test_nesting_without_end_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    outcome = judge([], {"x": loop})
    assert outcome.decision.verdict is Verdict.BLOCK
    assert "nested deeper" in outcome.decision.reason
    assert isinstance(outcome.cause, NotCanonical)


@pytest.mark.parametrize("levels", range(MAX_DEPTH - 2, MAX_DEPTH + 3))
@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: {"k": v}, lambda v: (v,)])
@pytest.mark.parametrize("leaf", ["text", 5, [], {}])
def test_just_what_has_an_encoding_can_be_judged(levels: int, wrap: Callable[[object], object], leaf: object) -> None:
    value = leaf
    for _ in range(levels):
        value = wrap(value)
    encodes = levels <= MAX_DEPTH
    for read in (encode, frozen):
        if encodes:
            read(value)
        else:
            with pytest.raises(NotCanonical):
                read(value)


@pytest.mark.parametrize("value", [object(), {1: object()}, {(object(),): 1}, 10**4001, {"k": {object()}}])
def test_what_has_no_encoding_cannot_be_judged(value: object) -> None:
    for read in (encode, frozen):
        with pytest.raises(NotCanonical):
            read(value)


def test_a_view_of_bytes_that_can_be_changed_is_copied() -> None:
    own = bytearray(b"abc")
    seen = frozen({"view": memoryview(own), "bytes": own})
    own[0] = 0
    assert seen == {"view": b"abc", "bytes": bytearray(b"abc")}


def test_a_result_that_is_a_mapping_stands_for_itself_and_anything_else_under_result() -> None:
    assert result_args({"a": 1}) == {"a": 1}
    assert result_args("text") == {"result": "text"}
    assert result_args({1: 2}) == {"result": {1: 2}}
    boxed = SensorEvent("t", result_args("text"), phase="result")
    mapping = SensorEvent("t", result_args({"result": "text"}), phase="result")
    assert result_of(boxed) == "text"
    assert result_of(mapping) == {"result": "text"}


def test_a_result_rewrite_replaces_the_whole_result_even_by_none() -> None:
    outcome = judge_result(said(Decision.modify_result(None)), {"a": 1})
    assert result_of(outcome.event) is None
    assert outcome.rewritten == {"result"}


def test_a_predicate_denies_and_its_crash_blocks() -> None:
    rule = deny_when(lambda event: event.args["path"] == "/etc", "no", "fs.v1", "path")
    denied = judge([rule], {"path": "/etc"}).decision
    assert (denied.reason, denied.policy_id, denied.attributed_to) == ("no", "fs.v1", "path")
    assert judge([rule], {"path": "/"}).decision.verdict is Verdict.ALLOW
    crashed = judge([rule], {})
    assert crashed.decision.verdict is Verdict.BLOCK
    assert crashed.decision.policy_id == RULE_FAILED
    assert "rule fs.v1 failed with KeyError" in crashed.decision.reason
    assert isinstance(crashed.cause, KeyError)


def test_code_rules_count_in_the_digest_by_name() -> None:
    def one(event: SensorEvent) -> None: ...
    def two(event: SensorEvent) -> None: ...

    base = Policy((), "ab" * 32)
    assert with_code_rules(base, ()) is base
    digests = {with_code_rules(base, code_rules(r)).digest for r in ([one], [two], [one, two], [two, one])}
    assert len(digests) == 4


@pytest.mark.parametrize(("rule", "error"), [(3, TypeError), ("x", TypeError)])
def test_what_is_no_rule_is_refused_at_once(rule: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        code_rules([cast(RuleFunction, rule)])


def test_a_phase_that_does_not_exist_is_refused_at_once() -> None:
    rule = said(None)[0]
    cast(Any, rule).phase = "reply"
    with pytest.raises(ValueError, match="phase"):
        code_rules([rule])


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
rewrites = st.lists(st.dictionaries(st.sampled_from("abc"), values, min_size=1, max_size=3), max_size=4)


@given(st.dictionaries(st.sampled_from("abcd"), values, max_size=4), rewrites)
def test_arguments_are_never_changed_and_rewrites_fold_in_order(args: Any, changes: Any) -> None:
    before = copy.deepcopy(args)
    outcome = judge(said(*(Decision.modify(c) for c in changes)), args)
    assert args == before
    expected = dict(before)
    for change in changes:
        expected.update(change)
    assert outcome.event.args == expected
    assert outcome.rewritten == {k for c in changes for k in c}


verdicts = st.lists(st.sampled_from(["none", "allow", "modify", "escalate", "block"]), max_size=6)


@given(verdicts)
def test_the_verdict_is_the_gravest_that_was_reached(names: list[str]) -> None:
    made = {
        "none": None,
        "allow": Decision.allow(),
        "modify": Decision.modify({"x": 2}),
        "escalate": Decision.escalate("ask"),
        "block": Decision.block("no"),
    }
    verdict = judge(said(*(made[n] for n in names))).decision.verdict
    order = [("block", Verdict.BLOCK), ("escalate", Verdict.ESCALATE), ("modify", Verdict.MODIFY)]
    assert verdict is next((v for n, v in order if n in names), Verdict.ALLOW)


@given(values)
def test_thawing_undoes_freezing(value: object) -> None:
    seen = frozen(value)
    assert seen == value
    assert thawed(seen) == value
    assert not isinstance(thawed(seen), FrozenDict | FrozenList)


@pytest.mark.parametrize(
    "decision",
    [
        Decision.block(cast(Any, 5)),
        Decision.block("no", policy_id=cast(Any, 7)),
        Decision.block("no", attributed_to=cast(Any, object())),
        Decision.escalate("ask", evidence=cast(Any, 3)),
        Decision.modify({"x": 2}, reason=cast(Any, None)),
    ],
)
def test_a_decision_whose_texts_are_none_blocks_in_the_rule_s_name(decision: Decision) -> None:
    outcome = judge(said(decision))
    assert outcome.decision.verdict is Verdict.BLOCK
    assert outcome.decision.policy_id == NO_DECISION
    assert "rule <lambda> gave" in outcome.decision.reason


def test_a_phase_that_no_rule_sees_is_never_allowed() -> None:
    with pytest.raises(ValueError, match="phase"):
        evaluate(Policy((), ""), SensorEvent("t", {}, phase=cast(Any, "call2")))
