"""Conditions over events: what each operator says, and what it says of what it was not made for."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.decision import Decision
from interlock.engine.detectors.spec import DetectorSpec
from interlock.engine.event import Phase, SensorEvent
from interlock.engine.policy import argpath, conditions, matching
from interlock.engine.policy.conditions import compile_condition
from interlock.engine.policy.matching import compile_test, same
from interlock.engine.policy.problems import BadPolicy, CannotJudge


def holds(when: Mapping[str, object], *, action: str = "Bash", principal: str | None = None, **args: object) -> bool:
    return compile_condition(when, "call", "when")(SensorEvent(action, args, principal=principal))


def passes(test: object, value: object) -> bool:
    return compile_test(test, "test")(value)


def test_all_any_and_not_join_conditions() -> None:
    yes, no = {"action": "Bash"}, {"action": "Read"}
    assert holds({"all": [yes, yes]})
    assert not holds({"all": [yes, no]})
    assert holds({"any": [no, yes]})
    assert not holds({"any": [no, no]})
    assert holds({"not": no})
    assert not holds({"not": {"any": [no, {"not": {"all": [no, yes]}}]}})


def test_an_action_is_a_glob_or_a_test() -> None:
    assert holds({"action": "mcp__*__delete"}, action="mcp__git__delete")
    assert not holds({"action": "bash"})
    assert holds({"action": {"in": ["Write", "Edit"]}}, action="Edit")


def test_a_principal_that_nobody_named_passes_no_test() -> None:
    assert holds({"principal": "ci-*"}, principal="ci-7")
    assert not holds({"principal": "*x*"})
    assert not holds({"principal": {"equals": None}})
    assert holds({"not": {"principal": "ci-*"}})


def test_a_phase_is_that_of_the_rule() -> None:
    assert holds({"phase": "call"})
    assert compile_condition({"phase": "result"}, "result", "when")(SensorEvent("Read", {}, "result"))


def test_a_missing_argument_makes_a_condition_false_and_its_not_true() -> None:
    tests: list[dict[str, object]] = [{"equals": None}, {"glob": "*x"}, {"lt": 5}, {"in": [None]}]
    for test in tests:
        assert not holds({"arg": "command"} | test)
        assert holds({"not": {"arg": "command"} | test})


def test_a_path_leads_through_mappings_and_lists() -> None:
    args: dict[str, Any] = {"a": {"b": [{"c": "x"}, {"c": "y"}], "d.e": "z", "n": {"p": 1, "q": 2}}}
    for path, wanted in [
        ("a.b[0].c", "x"),
        ("a.b[*].c", "y"),
        ('a["d.e"]', "z"),
        ("a.n.*", 2),
        ("*.b[1].c", "y"),
        ("*.n.q", 2),
    ]:
        assert holds({"arg": path, "equals": wanted}, **args), path
    for path in ("a.b[2].c", "a.b.c", "a[0]", "a.b.*", "a.n[*]", "b", "a.b[0].c.d", "a.x.y"):
        assert not holds({"arg": path, "equals": "x"}, **args), path


def test_a_path_never_reads_an_attribute() -> None:
    class Holder:
        secret = "x"

    assert not holds({"arg": "a.secret", "equals": "x"}, a=Holder())
    assert not holds({"arg": "a.__class__.__name__", "equals": "str"}, a="x")


def test_a_path_that_leads_to_too_many_values_cannot_judge() -> None:
    nested: object = "x"
    for _ in range(30):
        nested = [nested, nested]  # two to the power of thirty ways, in thirty lists
    with pytest.raises(CannotJudge, match=f"more than {argpath.MAX_REACHED}"):
        holds({"arg": "a" + "[*]" * 30, "equals": "y"}, a=nested)


def test_each_text_operator_reads_texts_only() -> None:
    for test in ({"prefix": "rm"}, {"suffix": "-rf"}, {"contains": " -"}, {"glob": "rm*"}, {"regex": "^rm"}, "rm *"):
        assert passes(test, "rm -rf")
        for other in (None, 3, True, b"rm -rf", ["rm -rf"], {"rm": "-rf"}, datetime.date(2026, 1, 1)):
            assert not passes(test, other)


@pytest.mark.parametrize(
    ("test", "true_of", "false_of"),
    [
        ({"lt": 5}, [4, 4.9, -1e300], [5, 6, "4", None, True, [4], float("nan")]),
        ({"le": 5}, [5, 5.0], [5.1, False, "5"]),
        ({"gt": 0}, [1, 10**400, float("inf")], [0, -1, True, "1", float("nan")]),
        ({"ge": 1.5}, [1.5, 2], [1, True, "2"]),
        ({"gt": 10**400}, [10**401], [1, 1.5, float("nan")]),
        ({"gt": 1, "lt": 5}, [2, 4], [1, 5]),
    ],
)
def test_a_number_comparison_is_true_of_numbers_only(
    test: object, true_of: list[object], false_of: list[object]
) -> None:
    assert all(passes(test, value) for value in true_of)
    assert not any(passes(test, value) for value in false_of)


def test_equality_is_that_of_json_values() -> None:
    assert passes({"equals": 1}, 1.0)
    assert not passes({"equals": 1}, True)
    assert not passes({"equals": 0}, False)
    assert not passes({"equals": False}, 0)
    assert passes({"equals": {"a": [1, None]}}, {"a": (1, None)})
    assert not passes({"equals": "1"}, 1)
    assert passes({"in": ["a", 1, None]}, None)
    assert not passes({"in": ["a", 1]}, True)
    assert not passes({"in": ["a", "b"]}, ["a"])


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(_values, _values)
def test_two_values_are_the_same_in_both_directions(one: object, other: object) -> None:
    assert same(one, one)
    assert same(one, other) == same(other, one)


def test_several_operators_must_all_hold_of_one_value() -> None:
    when = {"arg": "urls[*]", "prefix": "https://", "suffix": ".example"}
    assert holds(when, urls=["http://a", "https://b.example"])
    assert not holds(when, urls=["https://a", "http://b.example"])


def test_a_regex_takes_flags() -> None:
    assert passes({"regex": "drop +table", "flags": "i"}, "DROP  TABLE x")
    assert not passes({"regex": "drop +table"}, "DROP  TABLE x")


def test_a_text_too_long_for_a_pattern_cannot_be_judged() -> None:
    long = "a" * (matching.MAX_TEXT + 1)
    for test in ({"regex": "b"}, {"glob": "*?b"}, "b*"):
        with pytest.raises(CannotJudge, match="longer than"):
            passes(test, long)
    assert passes({"contains": "aa"}, long)
    assert not passes({"regex": "b"}, long[:-1])


def test_an_intent_is_named_or_described() -> None:
    root, here = {"command": "rm -rf /"}, {"command": "rm notes.txt"}
    assert holds({"intent": "fs.delete"}, **root)
    assert holds({"intent": "fs.delete"}, **here)
    assert holds({"intent": "fs.delete.root"}, **root)
    assert not holds({"intent": "fs.delete.root"}, **here)
    assert holds({"intent": {"effect": "delete", "program": "rm"}}, **here)
    assert not holds({"intent": {"effect": "delete", "program": "sh*"}}, **here)
    assert holds({"intent": {"name": "fs.delete*", "reversible": {"equals": False}}}, **root)
    assert not holds({"intent": {"effect": {"in": ["net", "exec"]}}}, **here)
    assert not holds({"intent": "fs.delete"}, command="echo rm")


def test_a_detector_condition_fires_where_the_detector_objects() -> None:
    when = {"detector": "network_egress", "params": {"allowed_hosts": ["api.internal"]}}
    assert holds(when, action="http_post", url="https://evil.example/x")
    assert not holds(when, action="http_post", url="https://api.internal/x")
    assert holds({"not": when}, action="http_post", url="https://api.internal/x")


def test_a_detector_that_allows_has_not_objected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "REGISTRY", {"calm": _spec("calm", Decision.allow("fine"))})
    assert not holds({"detector": "calm"})
    monkeypatch.setattr(conditions, "REGISTRY", {"calm": _spec("calm", Decision.escalate("hm"))})
    assert holds({"detector": "calm"})


def test_a_detector_of_the_other_phase_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "REGISTRY", {"late": _spec("late", None, phase="result")})
    with pytest.raises(BadPolicy, match=r"reads events of phase 'result'.*give the rule \"phase\": \"result\""):
        holds({"detector": "late"})


def _spec(name: str, says: Decision | None, phase: Phase = "call") -> DetectorSpec:
    return DetectorSpec(name, lambda params: lambda event: says, {}, redacts=True, phases=(phase,), summary="")
