"""From documents to a Policy: compiling, extending, merging."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Mapping

import pytest

from interlock.engine.decision import Decision, Verdict
from interlock.engine.detectors.spec import DetectorSpec
from interlock.engine.event import SensorEvent
from interlock.engine.payload import result_args
from interlock.engine.policy import conditions, load, rule_document
from interlock.engine.policy.check import check_rules
from interlock.engine.policy.document import BadPolicy, rule_docs
from interlock.engine.policy.limits import Limits
from interlock.engine.policy.load import LIMITS_POLICY_ID, compile_rules, load_policy
from interlock.engine.policy.model import Policy, Source

HERE = Source("file", "team.json")


def rule(name: str, **fields: object) -> dict[str, object]:
    when = {"arg": "command", "contains": name}
    return {"id": name, "when": when, "verdict": "block", "reason": f"no {name}", **fields}


def data(*rules: object, extends: tuple[str, ...] = ()) -> bytes:
    body = {"format": "interlock-policy", "v": 1, "name": "p", "extends": list(extends), "rules": list(rules)}
    return json.dumps(body).encode()


def loaded(top: bytes, others: Mapping[str, Policy | bytes] | None = None) -> Policy:
    return load_policy(top, where="team.json", source=HERE, resolve=dict(others or {}).__getitem__)


def refused(top: bytes, others: Mapping[str, Policy | bytes]) -> str:
    with pytest.raises(BadPolicy) as caught:
        loaded(top, others)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def says(policy: Policy, command: object) -> list[tuple[str, Decision]]:
    event = SensorEvent("Bash", {"command": command})
    answers = [(rule.id, rule.function(event)) for rule in policy.rules]
    return [(name, decision) for name, decision in answers if decision is not None]


def ids(policy: Policy) -> list[str]:
    return [rule.id for rule in policy.rules]


def test_a_rule_gives_its_verdict_reason_and_ids() -> None:
    policy = loaded(data(rule("rm", verdict="escalate", policy_id="team.rm", attributed_to="command")))
    assert says(policy, "rm a") == [("rm", Decision.escalate("no rm", "team.rm", "command"))]
    assert says(policy, "ls") == []
    (made,) = policy.rules
    assert (made.verdict, made.phase, made.redacts, made.locked) == (Verdict.ESCALATE, "call", False, False)
    assert made.source == HERE


def test_a_rule_that_cannot_judge_objects_under_an_id_that_is_not_its_own() -> None:
    regex = {"arg": "command", "regex": "a+b"}
    for when in (regex, {"not": regex}):
        policy = loaded(data(rule("r", when=when, verdict="escalate")))
        ((_, decision),) = says(policy, "x" * (Limits().command + 1))
        assert (decision.verdict, decision.policy_id) == (Verdict.ESCALATE, LIMITS_POLICY_ID)
        assert decision.reason.startswith("rule r cannot judge this: a text is longer than")
    many = {"arg": "a[*][*]", "equals": 1}
    (made,) = loaded(data(rule("r", when=many))).rules
    told = made.function(SensorEvent("x", {"a": [[0] * 1000] * 101}))
    assert told is not None
    assert (told.verdict, told.policy_id) == (Verdict.BLOCK, LIMITS_POLICY_ID)


def test_a_rule_modifies_only_through_its_mask() -> None:
    key = "AKIA" + "Z7QK2M4NP3RWX6TY"
    mask = rule("m", when={"action": "http_post"}, verdict="modify", mask={"detector": "secrets"}, reason="masked")
    (made,) = compile_rules(rule_docs([mask], "here"), HERE)
    assert made.redacts
    decision = made.function(SensorEvent("http_post", {"body": f"key {key}"}))
    assert decision is not None
    assert (decision.verdict, decision.reason, decision.policy_id) == (Verdict.MODIFY, "masked", "m")
    assert decision.modified_args is not None
    assert key not in str(decision.modified_args["body"])
    assert decision.attributed_to is not None
    assert "body" in decision.attributed_to
    assert made.function(SensorEvent("http_post", {"body": "nothing to hide"})) is None
    assert made.function(SensorEvent("other", {"body": f"key {key}"})) is None


def test_a_rule_that_removes_leaves_nothing_of_each_value_that_holds_a_find() -> None:
    key = "AKIA" + "Z7QK2M4NP3RWX6TY"
    body = rule("r", when={"action": "*"}, verdict="modify", remove={"detector": "secrets"}, reason="taken away")
    (made,) = compile_rules(rule_docs([body], "here"), HERE)
    assert made.redacts
    kept = {"to": "a", "n": 1, "deep": [{"k": f"key {key}!", "plain": "x"}, "y"], "raw": f"k {key}".encode()}
    event = SensorEvent("http_post", {**kept, "pair": ("z", f"{key} too"), "set": frozenset({key, "w"})})
    decision = made.function(event)
    assert decision is not None
    assert (decision.verdict, decision.reason, decision.policy_id) == (Verdict.MODIFY, "taken away", "r")
    assert decision.modified_args == {
        "deep": [{"k": "", "plain": "x"}, "y"],
        "raw": b"",
        "pair": ("z", ""),
        "set": frozenset({"", "w"}),
    }
    assert made.function(SensorEvent("http_post", {"body": "nothing to hide"})) is None
    result = rule("o", when={"action": "*"}, verdict="modify", remove={"detector": "secrets"}, phase="result")
    (out,) = compile_rules(rule_docs([result], "here"), HERE)
    told = out.function(SensorEvent("get", result_args(f"all of it: {key}"), "result"))
    assert told is not None
    assert told.modified_result == ""


def test_extended_rules_run_first_and_keep_their_source() -> None:
    policy = loaded(
        data(rule("own"), extends=("builtin:one", "two.json")),
        {"builtin:one": data(rule("a"), rule("b")), "two.json": data(rule("c"))},
    )
    assert ids(policy) == ["a", "b", "c", "own"]
    assert [(rule.source.kind, rule.source.name) for rule in policy.rules] == [
        ("builtin", "one"),
        ("builtin", "one"),
        ("file", "two.json"),
        ("file", "team.json"),
    ]


def test_a_redefined_rule_takes_the_place_of_the_one_it_replaces() -> None:
    policy = loaded(data(rule("a", reason="mine"), extends=("base",)), {"base": data(rule("a"), rule("b"))})
    assert ids(policy) == ["a", "b"]
    assert [decision.reason for _, decision in says(policy, "a")] == ["mine"]


def test_a_locked_rule_cannot_be_redefined() -> None:
    base = data(rule("a", locked=True), rule("b"))
    line = refused(data(rule("a"), extends=("base",)), {"base": base})
    assert line.startswith("team.json: rule a: id: redefines a locked rule of base;")
    middle = data(rule("c"), extends=("base",))
    assert "redefines a locked rule" in refused(data(rule("a"), extends=("middle",)), {"middle": middle, "base": base})


def test_a_circle_of_documents_is_refused() -> None:
    line = refused(data(extends=("a",)), {"a": data(extends=("b",)), "b": data(extends=("a",))})
    assert line.startswith("b: extends: goes round in a circle (team.json -> a -> b -> a)")
    assert "circle" in refused(data(extends=("team.json",)), {})


def test_a_chain_that_is_too_long_is_refused() -> None:
    names = [f"p{i}" for i in range(load.MAX_CHAIN + 1)]
    others = {name: data(extends=(after,)) for name, after in itertools.pairwise(names)}
    assert "chain of more than 8" in refused(data(extends=("p0",)), others)


def test_what_two_documents_share_counts_once() -> None:
    others = {"x": data(rule("x"), extends=("base",)), "y": data(rule("y"), extends=("base",)), "base": data(rule("a"))}
    assert ids(loaded(data(extends=("x", "y")), others)) == ["a", "x", "y"]


def test_two_extended_documents_may_not_define_one_rule_differently() -> None:
    line = refused(data(extends=("x", "y")), {"x": data(rule("a")), "y": data(rule("a"))})
    assert line.startswith("team.json: extends: y defines rule a, which another extended policy has too")


def test_a_document_may_extend_a_policy_that_stands() -> None:
    base = loaded(data(rule("a", locked=True)))
    assert ids(loaded(data(rule("b"), extends=("mesh",)), {"mesh": base})) == ["a", "b"]
    assert "locked" in refused(data(rule("a"), extends=("mesh",)), {"mesh": base})


def test_a_bad_extended_document_is_named_itself() -> None:
    line = refused(data(extends=("base.json",)), {"base.json": data(rule("a", verdikt="block"))})
    assert line.startswith("base.json: rule a: unknown field 'verdikt'")


def test_rules_of_all_documents_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MAX_TOGETHER", 3)
    others = {"base": data(rule("a"), rule("b"))}
    assert len(loaded(data(rule("c"), extends=("base",)), others).rules) == 3
    assert "more than 3 rules" in refused(data(rule("c"), rule("d"), extends=("base",)), others)


def test_a_digest_changes_with_what_is_extended_and_not_with_examples() -> None:
    one = loaded(data(rule("b"), extends=("base",)), {"base": data(rule("a"))})
    same = loaded(data(rule("b", examples={}), extends=("base",)), {"base": data(rule("a", description="x"))})
    other = loaded(data(rule("b"), extends=("base",)), {"base": data(rule("a", reason="other"))})
    assert one.digest == same.digest != other.digest
    assert len(one.digest) == 64


def test_result_rules_are_compiled_for_results() -> None:
    made = rule("r", phase="result", when={"arg": "result", "contains": "BEGIN"}, verdict="escalate")
    (compiled,) = compile_rules(rule_docs([made], "here"), HERE)
    assert compiled.phase == "result"
    assert compiled.function(SensorEvent("Read", {"result": "BEGIN KEY"}, "result")) is not None


def test_a_mask_that_allows_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    calm = DetectorSpec("calm", lambda params: lambda event: Decision.allow(), {}, True, ("call",), "")
    monkeypatch.setattr(conditions, "REGISTRY", {"calm": calm})
    monkeypatch.setattr(rule_document, "REGISTRY", {"calm": calm})
    made = rule("m", when={"action": "*"}, verdict="modify", mask={"detector": "calm"})
    (compiled,) = compile_rules(rule_docs([made], "here"), HERE)
    assert compiled.function(SensorEvent("Bash", {})) is None


def test_a_mask_that_cannot_mask_may_block(monkeypatch: pytest.MonkeyPatch) -> None:
    stern = DetectorSpec("stern", lambda params: lambda event: Decision.block("cannot"), {}, True, ("call",), "")
    monkeypatch.setattr(conditions, "REGISTRY", {"stern": stern})
    monkeypatch.setattr(rule_document, "REGISTRY", {"stern": stern})
    examples = {"fires": [{"action": "Bash"}], "passes": []}
    made = rule("m", when={"action": "*"}, verdict="modify", mask={"detector": "stern"}, examples=examples)
    docs = rule_docs([made], "here")
    (compiled,) = compile_rules(docs, HERE)
    assert compiled.function(SensorEvent("Bash", {})) == Decision.block("no m", "m")
    assert check_rules(docs).rows[0].problem == "the rule gives block, not modify"


def test_a_compiled_rule_carries_itself_as_plain_json_with_defaults_filled_in() -> None:
    mask = {"detector": "secrets", "params": {}}
    (plain, masked) = loaded(
        data(
            rule("rm", when={"all": [{"action": "Bash"}, {"arg": "command", "in": ["rm"]}]}),
            rule("m", when={"action": "http_post"}, verdict="modify", mask=mask, shadow=True, policy_id="team.m"),
        )
    ).rules
    made = json.loads(json.dumps(plain.plan))
    told = {
        "id": "rm",
        "phase": "call",
        "when": {"all": [{"action": "Bash"}, {"arg": "command", "in": ["rm"]}]},
        "verdict": "block",
        "reason": "no rm",
        "policy_id": "rm",
        "attributed_to": None,
        "mask": None,
        "shadow": False,
        "limits": {"command": 65536, "argument": 262144, "result": 1048576, "values": 100_000, "finds": 1024},
        "oversize": "escalate",
        "resolve": False,
    }
    assert {key: made[key] for key in told} == told
    assert masked.plan is not None
    assert (masked.shadow, masked.plan["shadow"], masked.plan["mask"]) == (True, True, mask)
    assert (plain.shadow, masked.plan["policy_id"]) == (False, "team.m")


def test_a_shadow_rule_means_something_else_and_so_has_another_digest() -> None:
    assert loaded(data(rule("rm"))).digest == loaded(data(rule("rm", shadow=False))).digest
    assert loaded(data(rule("rm"))).digest != loaded(data(rule("rm", shadow=True))).digest
    assert "shadow: is neither true nor false" in refused(data(rule("rm", shadow="yes")), {})


def test_a_rule_that_gets_another_function_has_no_plan_of_the_one_before() -> None:
    body = {"id": "a", "when": {"action": "t"}, "verdict": "block", "reason": "no"}
    (compiled,) = compile_rules(rule_docs([body], "here"), HERE)
    assert compiled.plan is not None
    assert dataclasses.replace(compiled, function=lambda event: None).plan is None
