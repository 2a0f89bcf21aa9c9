"""A test that nothing in its place could pass is refused when it is read; a path below the working directory is met."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.decision import Verdict
from interlock.engine.evaluate import Evaluator, PythonEvaluator
from interlock.engine.event import Origin, SensorEvent
from interlock.engine.policy import regex, regex_automaton
from interlock.engine.policy.document import parse_document
from interlock.engine.policy.load import LIMITS_POLICY_ID, load_policy
from interlock.engine.policy.model import Policy, Source
from interlock.engine.policy.problems import BadPolicy
from interlock.native.evaluator import chosen_evaluator

EVALUATORS: tuple[Evaluator, ...] = (PythonEvaluator(), chosen_evaluator())


def document(when: object, **fields: object) -> bytes:
    rule = {"id": "r", "when": when, "verdict": "block", "reason": "no"}
    return json.dumps({"format": "interlock-policy", "v": 1, "name": "p", "rules": [rule], **fields}).encode()


def loaded(when: object) -> Policy:
    return load_policy(document(when), where="p", source=Source("file"), resolve=lambda name: b"")


def fires(when: object, event: SensorEvent) -> bool:
    said = {engine.evaluate(loaded(when), event).decision.verdict for engine in EVALUATORS}
    assert len(said) == 1
    return said == {Verdict.BLOCK}


@pytest.mark.parametrize(
    ("when", "says"),
    [
        ({"action": {"gt": 5}}, "when.action.gt: asks for what is no text"),
        ({"arg": "a", "regex": "a^b"}, "when.arg.regex: matches no text"),
        ({"arg": "a", "regex": "$a"}, "when.arg.regex: matches no text"),
        ({"arg": "a", "regex": "x(?:y|(?:^z){2})^", "flags": "i"}, "when.arg.regex: matches no text"),
        ({"arg": "a", "regex": r"a[^\s\S]"}, "when.arg.regex: matches no text"),
        ({"action": {"regex": "(?:Bash$|sh$)_"}}, "when.action.regex: matches no text"),
        ({"path": {"regex": ".^/etc"}}, "when.path.regex: matches no text"),
        ({"action": {"equals": True}}, "when.action.equals: asks for a truth value where a text stands"),
        ({"action": {"in": ["a", 1]}}, "when.action.in: asks for what is no text"),
        ({"principal": {"le": 1}}, "when.principal.le: asks for what is no text"),
        ({"intent": {"target": {"ge": 1}}}, "when.intent.target.ge: asks for what is no text"),
        ({"intent": {"program": {"equals": None}}}, "when.intent.program.equals: asks for what is no text"),
        ({"intent": {"name": "fs.destroy*"}}, "when.intent: no intent there is passes"),
        ({"intent": {"name": "fs.del*", "effect": "net"}}, "when.intent: no intent there is passes"),
        ({"intent": {"name": {"prefix": "vcs."}, "effect": "persist"}}, "when.intent: no intent there is passes"),
        ({"intent": {"effect": {"glob": "dele"}}}, "when.intent.effect: no effect passes"),
        ({"intent": {"scope": "hoem"}}, "when.intent.scope: no scope passes"),
        ({"intent": {"reversible": "yes"}}, "when.intent.reversible: asks for another value"),
        ({"effects": {"undoable": {"in": [True, "no"]}}}, "when.effects.undoable.in: asks for another value"),
        ({"effects": {"kind": "delete", "undoable": True}}, "when.effects: no intent there is passes"),
        ({"effects": {"scope": {"suffix": "tree ", "prefix": "work"}}}, "when.effects.scope: no scope passes"),
        ({"host": "evil.example:80"}, "when.host: 'evil.example:80' is no host"),
        ({"host": "https://evil.example"}, "when.host: 'https://evil.example' is no host"),
        ({"host": {"glob": "*evil.example/*"}}, "when.host.glob: '*evil.example/*' is in no host"),
        ({"host": "*.münchen.example"}, "when.host.glob: '*.münchen.example' is in no host"),
        ({"host": {"suffix": ".example."}}, "when.host.suffix: '.example.' is in no host"),
        ({"host": {"contains": "user@"}}, "when.host.contains: 'user@' is in no host"),
        ({"host": {"glob": "evil.*:443"}}, "when.host.glob: 'evil.*:443' is in no host"),
        ({"host": {"regex": "Evil"}}, "when.host.regex: matches no host"),
        ({"host": {"regex": "^https?://"}}, "when.host.regex: matches no host"),
        ({"host": {"class": "private", "lt": 3}}, "when.host.lt: asks for what is no text"),
        ({"path": "id_rsa"}, "when.path.glob: 'id_rsa' is no path"),
        ({"path": ".ssh/*"}, "when.path.glob: '.ssh/*' is no path"),
        ({"path": {"prefix": "etc/"}}, "when.path.prefix: 'etc/' is no path"),
        ({"path": {"equals": "/etc/"}}, "when.path.equals: '/etc/' is no path"),
        ({"path": {"in": ["/etc", "//etc"]}}, "when.path.in: '//etc' is no path"),
        ({"path": {"glob": "/etc/./*"}}, "when.path.glob: '/etc/./*' is no path"),
        ({"path": {"under": "~bob"}}, "when.path.under: '~bob' is no path"),
        ({"path": {"under": ["/etc", ".ssh"]}}, "when.path.under: '.ssh' is no path"),
        ({"flow": {"source": {"equals": "fetch"}}}, "when.flow.source.equals: 'fetch' is no source"),
        ({"flow": {"source": {"in": ["tool:a", "b"]}}}, "when.flow.source.in: 'b' is no source"),
        ({"flow": {"source": {"gt": 1}}}, "when.flow.source.gt: asks for what is no text"),
        ({"arg": "a", "equals": "\u200b"}, "when.arg.equals: holds nothing but characters that are not read"),
        ({"action": {"in": ["x", "\u00ad"]}}, "when.action.in: holds nothing but characters that are not read"),
        ({"not": {"any": [{"action": "x"}, {"host": {"gt": 1}}]}}, "when.not.any[1].host.gt: asks for what is no text"),
    ],
)
def test_a_test_that_nothing_could_pass_is_refused_with_its_place(when: dict[str, Any], says: str) -> None:
    with pytest.raises(BadPolicy) as caught:
        parse_document(document(when), where="p")
    assert f"p: rule r: {says}" in str(caught.value)


@pytest.mark.parametrize(
    "when",
    [
        {"action": {"in": ["a", "b"]}},
        {"intent": {"name": "fs.del*", "effect": "delete"}},
        {"intent": {"name": {"in": ["fs.read", "fs.write"]}, "effect": "read"}},
        {"effects": {"kind": {"glob": "dele*"}, "undoable": False, "scope": {"regex": "^home$"}}},
        {"host": "fe80:*"},
        {"host": {"regex": "(?i)Evil"}},
        {"host": {"class": ["private"]}},
        {"path": {"glob": "[/~]*"}},
        {"path": "*/id_rsa"},
        {"path": {"prefix": "/etc/"}},
        {"path": {"suffix": "/"}},
        {"path": {"under": ["/", "~", ".", "/etc/"]}},
        {"flow": {"source": {"glob": "*fetch"}}},
        {"flow": {"source": {"prefix": "too"}}},
        {"arg": "a", "equals": ""},
        {"arg": "a", "equals": "\u200b", "raw": True},
    ],
)
def test_a_test_that_something_could_pass_is_not(when: dict[str, Any]) -> None:
    assert parse_document(document(when), where="p").rules[0].when == when


def test_a_host_given_outright_is_read_as_hosts_are() -> None:
    for spelt in ("münchen.example", "MÜNCHEN.example.", "xn--mnchen-3ya.example"):
        for when in ({"host": spelt}, {"host": {"glob": spelt}}, {"host": {"equals": spelt}}):
            assert fires(when, SensorEvent("http_get", {"url": "https://münchen.example/x"}))


@pytest.mark.parametrize("cwd", [None, "/w/p", "/w/p/", "/"])
def test_a_path_below_the_working_directory_is_met_by_both_of_its_spellings(cwd: str | None) -> None:
    event = SensorEvent("Bash", {"command": "rm -rf build/out ../x"}, cwd=cwd)
    for path in ({"under": "./build"}, {"glob": "./build/*"}, {"under": ".", "access": "delete"}):
        assert fires({"path": path}, event)
    assert not fires({"path": {"under": "./x"}}, event) or cwd == "/"
    assert fires({"path": {"under": "/w/p/build"}}, event) is (cwd in ("/w/p", "/w/p/"))
    assert fires({"path": {"under": "/w/x"}}, event) is (cwd in ("/w/p", "/w/p/"))


def test_a_quoted_name_after_args_is_the_argument_of_that_name() -> None:
    event = SensorEvent("t", {"x.y": "a", "args": {"x.y": "b", "z": ["c"]}}, origins=(Origin("tool:f", 'args["x.y"]'),))
    assert fires({"arg": 'args["x.y"]', "equals": "a"}, event)
    assert fires({"arg": 'args.args["x.y"]', "equals": "b"}, event)
    assert fires({"arg": "args.args.z[0]", "equals": "c"}, event)
    assert not fires({"arg": 'args["x.y"]', "equals": "b"}, event)


def test_a_sink_reads_a_quoted_name_as_a_path_does() -> None:
    for path, expected in (('["x.y"]', True), ("args", False), ("x", False)):
        event = SensorEvent("t", {"x.y": "a"}, origins=(Origin("tool:f", path),))
        assert fires({"flow": {"source": "tool:f", "sink": 'args["x.y"]'}}, event) is expected


@pytest.mark.parametrize(
    "when", [{"arg": "body", "regex": "[ab]*a[ab]{30}c"}, {"arg": "body", "glob": "*a?????????b*c"}]
)
def test_both_engines_give_up_on_the_same_texts(when: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex_automaton, "MAX_WORK", 5_000)
    policy, signs = loaded(when), random.Random(4)
    gave_up: set[bool] = set()
    for length in (*range(0, 300, 7), 3000, 6000):
        event = SensorEvent("t", {"body": "".join(signs.choices("ab", k=length))})
        python, native = (engine.evaluate(policy, event).decision for engine in EVALUATORS)
        assert (python.verdict, python.reason, python.policy_id) == (native.verdict, native.reason, native.policy_id)
        gave_up.add(python.policy_id == LIMITS_POLICY_ID)
    assert gave_up == {True, False}


def test_a_star_reaches_each_element_of_a_set_as_of_a_list() -> None:
    for held in ({"a", "b"}, frozenset({"b"}), ["a", "b"], ("b",)):
        assert fires({"arg": "to[*]", "equals": "b"}, SensorEvent("t", {"to": held}))
        assert not fires({"arg": "to[*]", "equals": "c"}, SensorEvent("t", {"to": held}))


_PATTERNS = st.recursive(
    st.sampled_from(["a", "b", "^", "$", r"\b", "[^ab]", r"[^\s\S]"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        inner.map(lambda one: f"(?:{one})*"),
        inner.map(lambda one: f"(?:{one}){{1,2}}"),
        inner.map(lambda one: f"(?:{one}){{2}}"),
    ),
    max_leaves=6,
)
_TEXTS = ["".join(signs) for length in range(5) for signs in itertools.product("ab-", repeat=length)]


@settings(max_examples=300, derandomize=True, deadline=None)
@given(pattern=_PATTERNS)
def test_a_regex_that_some_text_matches_is_never_refused(pattern: str) -> None:
    if "matches no text" in _trouble({"arg": "a", "regex": pattern}):
        assert not any(map(regex.compile(pattern).matches, _TEXTS)), pattern


def _trouble(when: object) -> str:
    try:
        parse_document(document(when), where="p")
    except BadPolicy as e:
        return str(e)
    return ""
