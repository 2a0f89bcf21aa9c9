"""Policy documents: what is read, and that whatever is wrong is one line that names its place."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.decision import Verdict
from interlock.engine.event import SensorEvent
from interlock.engine.policy import matching, rule_document, source
from interlock.engine.policy.conditions import KINDS
from interlock.engine.policy.document import (
    BadPolicy,
    Document,
    RuleDoc,
    parse_document,
    rule_docs,
    semantic_digest,
)
from interlock.engine.policy.settings import SETTINGS

WHEN = {"arg": "command", "contains": "rm"}


def rule(**fields: object) -> dict[str, object]:
    return {"id": "fs.rm", "when": WHEN, "verdict": "block", "reason": "no rm here", **fields}


def body(*rules: object, **fields: object) -> dict[str, object]:
    return {"format": "interlock-policy", "v": 1, "name": "team", "rules": list(rules), **fields}


def parsed(value: object, where: str = "team.json") -> Document:
    return parse_document(json.dumps(value).encode(), where=where)


def refused(value: object) -> str:
    return line_of(json.dumps(value).encode(), "team.json")


def line_of(data: bytes, where: str) -> str:
    with pytest.raises(BadPolicy) as caught:
        parse_document(data, where=where)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(where)
    assert caught.value.exit_code == 2
    return line


def test_a_rule_is_read_with_its_defaults_filled_in() -> None:
    made = parsed(body(rule()))
    (doc,) = made.rules
    assert (made.name, made.description, made.extends) == ("team", "", ())
    assert (doc.id, doc.phase, doc.verdict, doc.policy_id) == ("fs.rm", "call", Verdict.BLOCK, "fs.rm")
    assert (doc.attributed_to, doc.locked, doc.mask, doc.description) == (None, False, None, "")


def test_examples_are_events_of_the_rules_phase() -> None:
    event = {"action": "Bash", "args": {"command": "rm a"}, "principal": "ci", "cwd": "/src"}
    (doc,) = parsed(body(rule(examples={"fires": [event]}))).rules
    (held,) = doc.examples.fires
    assert (held.action, dict(held.args), held.phase) == ("Bash", {"command": "rm a"}, "call")
    assert (held.principal, held.cwd) == ("ci", "/src")


def test_a_rule_read_stays_as_it_was_read() -> None:
    when: dict[str, Any] = {"all": [{"arg": "command", "equals": ["a"]}]}
    (doc,) = rule_docs([rule(when=when)], "here")
    before = semantic_digest(doc)
    when["all"][0]["equals"].append("b")
    assert semantic_digest(doc) == before
    assert doc.condition(SensorEvent("Bash", {"command": ["a"]}))
    with pytest.raises(TypeError):
        doc.when["all"] = ()  # type: ignore[index]


BAD_RULES: list[tuple[dict[str, object], str, str]] = [
    (rule(verdikt="block"), "fs.rm", "unknown field 'verdikt'; did you mean 'verdict'?"),
    (rule(id=7), "rule 1: id", "is not a name"),
    (rule(id="a b"), "rule 1: id", "is not a name"),
    (rule(id=""), "rule 1: id", "is not a name"),
    ({k: v for k, v in rule().items() if k != "id"}, "rule 1: id", "is missing"),
    ({k: v for k, v in rule().items() if k != "reason"}, "fs.rm: reason", "is missing"),
    (rule(reason="two\nlines"), "fs.rm: reason", "one line"),
    (rule(reason="x" * 501), "fs.rm: reason", "one line"),
    (rule(reason=" "), "fs.rm: reason", "one line"),
    (rule(verdict="allow"), "fs.rm: verdict", "no rule overrules"),
    (rule(verdict="blok"), "fs.rm: verdict", "did you mean 'block'?"),
    (rule(verdict=1), "fs.rm: verdict", "unknown verdict '1'"),
    ({k: v for k, v in rule().items() if k != "verdict"}, "fs.rm: verdict", "is missing"),
    (rule(phase="calls"), "fs.rm: phase", "is not a phase"),
    (rule(locked="yes"), "fs.rm: locked", "neither true nor false"),
    (rule(policy_id=""), "fs.rm: policy_id", "is not a name"),
    (rule(attributed_to=3), "fs.rm: attributed_to", "one line"),
    (rule(attributed_to="a[x"), "fs.rm: attributed_to", "is not a path"),
    (rule(description=3), "fs.rm: description", "is not a text"),
    (rule(when=[]), "fs.rm: when", "no object"),
    (rule(when={}), "fs.rm: when", "is empty"),
    (rule(when={"al": []}), "fs.rm: when", "unknown condition 'al'; did you mean 'all'?"),
    (rule(when={"all": []}), "fs.rm: when.all", "is empty"),
    (rule(when={"any": []}), "fs.rm: when.any", "is empty"),
    (rule(when={"any": {}}), "fs.rm: when.any", "is not a list"),
    (rule(when={"any": [WHEN, 3]}), "fs.rm: when.any[1]", "is not a condition"),
    (rule(when={"not": {"all": [{"action": {}}]}}), "fs.rm: when.not.all[0].action", "tests nothing"),
    (rule(when={"action": "a", "phase": "call"}), "fs.rm: when", "says both 'action' and 'phase'"),
    (rule(when={"contains": "x"}), "fs.rm: when", "stands without an 'arg'"),
    (rule(when={"action": 3}), "fs.rm: when.action", "is not a test"),
    (rule(when={"action": "a", "glob": "b"}), "fs.rm: when.action", "unknown field 'glob'"),
    (rule(when={"action": "[a"}), "fs.rm: when.action", "glob, character 1"),
    (rule(when={"phase": "result"}), "fs.rm: when.phase", "never sees a result"),
    (rule(when={"phase": "both"}), "fs.rm: when.phase", "is not a phase"),
    (rule(when={"arg": 3, "equals": 1}), "fs.rm: when.arg", "is not a path"),
    (rule(when={"arg": "a..b", "equals": 1}), "fs.rm: when.arg", "character 3"),
    (rule(when={"arg": "a[x]", "equals": 1}), "fs.rm: when.arg", "character 2"),
    (rule(when={"arg": "", "equals": 1}), "fs.rm: when.arg", "is not a path"),
    (rule(when={"arg": ".".join("a" * 40), "equals": 1}), "fs.rm: when.arg", "more than 32 steps"),
    (rule(when={"arg": "command"}), "fs.rm: when.arg command", "tests nothing"),
    (
        rule(when={"arg": "command", "contians": "x"}),
        "fs.rm: when.arg",
        "operator 'contians'; did you mean 'contains'?",
    ),
    (rule(when={"arg": "command", "in": []}), "fs.rm: when.arg command.in", "never be true"),
    (rule(when={"arg": "command", "in": "rm"}), "fs.rm: when.arg command.in", "is not a list"),
    (rule(when={"arg": "command", "prefix": ""}), "fs.rm: when.arg command.prefix", "is empty"),
    (rule(when={"arg": "command", "suffix": 3}), "fs.rm: when.arg command.suffix", "is not a text"),
    (rule(when={"arg": "command", "regex": "a(b"}), "fs.rm: when.arg command.regex", "character 2: this group"),
    (rule(when={"arg": "command", "regex": "a", "flags": "q"}), "fs.rm: when.arg command.regex", "flag 'q'"),
    (rule(when={"arg": "command", "regex": "a", "flags": 1}), "fs.rm: when.arg command.flags", "is not a text"),
    (rule(when={"arg": "command", "glob": "a", "flags": "i"}), "fs.rm: when.arg", "without a 'regex'"),
    (rule(when={"arg": "n", "lt": "3"}), "fs.rm: when.arg n.lt", "is not a number"),
    (rule(when={"arg": "n", "ge": True}), "fs.rm: when.arg n.ge", "is not a number"),
    (rule(when={"intent": "fs.delte"}), "fs.rm: when.intent", "did you mean 'fs.delete"),
    (rule(when={"intent": 3}), "fs.rm: when.intent", "is not an intent"),
    (rule(when={"intent": {}}), "fs.rm: when.intent", "is not an intent"),
    (rule(when={"intent": {"efect": "delete"}}), "fs.rm: when.intent", "did you mean 'effect'?"),
    (rule(when={"intent": {"effect": "deleet"}}), "fs.rm: when.intent.effect", "did you mean 'delete'?"),
    (rule(when={"intent": {"effect": {"in": ["read", 3]}}}), "fs.rm: when.intent.effect", "unknown effect '3'"),
    (rule(when={"intent": {"effect": {"equals": []}}}), "fs.rm: when.intent.effect", "unknown effect '[]'"),
    (rule(when={"intent": {"name": {"equals": "fs.remove"}}}), "fs.rm: when.intent.name", "unknown name 'fs.remove'"),
    (rule(phase="result", when={"intent": "fs.delete"}), "fs.rm: when.intent", "sees results"),
    (rule(when={"detector": "secretz"}), "fs.rm: when.detector", "did you mean 'secrets'?"),
    (rule(when={"detector": "secrets", "parms": {}}), "fs.rm: when.detector", "did you mean 'params'?"),
    (rule(when={"detector": "secrets", "params": []}), "fs.rm: when.detector: params", "is not an object"),
    (
        rule(when={"detector": "network_egress", "params": {"hosts": 1}}),
        "fs.rm: when.detector: params",
        "unknown parameter",
    ),
    (
        rule(when={"detector": "network_egress", "params": {"allowed_hosts": 1}}),
        "when.detector: params",
        "wrong type (int)",
    ),
    (rule(verdict="modify"), "fs.rm: mask", "needs a 'mask' or a 'remove'"),
    (rule(remove={"detector": "secrets"}), "fs.rm: remove", "rewrites nothing"),
    (rule(verdict="modify", remove="body"), "fs.rm: remove", "is not an object"),
    (
        rule(verdict="modify", mask={"detector": "secrets"}, remove={"detector": "secrets"}),
        "fs.rm: remove",
        "stands beside a 'mask'",
    ),
    (rule(mask={"detector": "secrets"}), "fs.rm: mask", "rewrites nothing"),
    (rule(mask=None), "fs.rm: mask", "rewrites nothing"),
    (rule(verdict="modify", mask="secrets"), "fs.rm: mask", "is not an object"),
    (rule(verdict="modify", mask={"detektor": "secrets"}), "fs.rm: mask", "did you mean 'detector'?"),
    (
        rule(verdict="modify", mask={"detector": "network_egress", "params": {"allowed_hosts": ["a.example"]}}),
        "fs.rm: mask.detector",
        "masks nothing",
    ),
    (rule(examples=[]), "fs.rm: examples", "is not an object"),
    (rule(examples={"fire": []}), "fs.rm: examples", "did you mean 'fires'?"),
    (rule(examples={"fires": {}}), "fs.rm: examples.fires", "is not a list"),
    (rule(examples={"fires": [3]}), "fs.rm: examples.fires[0]", "is not an event"),
    (rule(examples={"fires": [{"acton": "a"}]}), "fs.rm: examples.fires[0]", "did you mean 'action'?"),
    (rule(examples={"passes": [{"args": {}}]}), "fs.rm: examples.passes[0].action", "is missing"),
    (rule(examples={"passes": [{"action": "a", "args": 3}]}), "fs.rm: examples.passes[0].args", "is not an object"),
    (rule(examples={"passes": [{"action": "a", "cwd": 3}]}), "fs.rm: examples.passes[0].cwd", "is not a text"),
    (rule(examples={"passes": [{"action": "a", "phase": "result"}]}), "fs.rm: examples.passes[0]", "never sees"),
]


@pytest.mark.parametrize(("bad", "place", "says"), BAD_RULES)
def test_a_bad_rule_is_refused_with_its_place(bad: dict[str, object], place: str, says: str) -> None:
    line = refused(body(bad))
    assert place in line
    assert says in line


BAD_DOCUMENTS: list[tuple[object, str, str]] = [
    ([], "team.json", "is not an object"),
    (3, "team.json", "is not an object"),
    ({}, "team.json: format", "is not a policy"),
    (body() | {"format": "other"}, "team.json: format", "is not a policy"),
    (body() | {"v": 2}, "team.json: v", "newer than this interlock reads (it reads 1); upgrade interlock"),
    (body() | {"v": 0}, "team.json: v", "is not a version"),
    (body() | {"v": True}, "team.json: v", "is not a version"),
    (body() | {"v": "1"}, "team.json: v", "is not a version"),
    (body(extend=[]), "team.json", "unknown field 'extend'; did you mean 'extends'?"),
    (body() | {"name": "a/b"}, "team.json: name", "is not a name"),
    (body(description=[]), "team.json: description", "is not a text"),
    (body(extends="builtin:x"), "team.json: extends", "is not a list"),
    (body(extends=[3]), "team.json: extends", "not the name of a policy"),
    (body(extends=["a", "a"]), "team.json: extends", "one policy twice"),
    (body(extends=[str(i) for i in range(17)]), "team.json: extends", "at most 16"),
    ({k: v for k, v in body().items() if k != "rules"}, "team.json: rules", "has no list of rules"),
    (body() | {"rules": {}}, "team.json: rules", "is not a list"),
    (body(3), "team.json: rule 1", "is not an object"),
    (body(rule(), rule(reason="again")), "team.json: rule fs.rm: id", "stands twice (rules 1 and 2)"),
]


@pytest.mark.parametrize(("bad", "place", "says"), BAD_DOCUMENTS)
def test_a_bad_document_is_refused_with_its_place(bad: object, place: str, says: str) -> None:
    line = refused(bad)
    assert place in line
    assert says in line


BAD_BYTES: list[tuple[bytes, str]] = [
    (b"", "is not JSON (line 1, column 1"),
    (b"{", "is not JSON (line 1"),
    (b"rules:\n  - a", "a YAML policy is named .yaml"),
    (b'{"a": 1, "a": 2}', "'a' stands twice"),
    (b'{"a": NaN}', "NaN is not JSON"),
    (b'{"a": 1e999}', "too large for a double"),
    (b'{"a": 1' + b"0" * 1001 + b"}", "more than 1000 digits"),
    (b'{"a": 1' + b"0" * 5000 + b"}", "an integer of too many digits"),
    (b'{"a": "\\ud800"}', "half of a surrogate pair"),
    (b"\xff\xfe{\x00}\x00", "is not UTF-8 (byte 0); save it as UTF-8"),
    (b'{"a": "\xe9"}', "is not UTF-8 (byte 7)"),
    (b"\xef\xbb\xbf{}", "byte order mark"),
    (b"[" * 40 + b"]" * 40, "nested deeper than 32"),
    (b"[" * 100_000, "nested too deeply"),
    (b" " * (source.MAX_BYTES + 1), "is larger than 8388608 bytes"),
]


@pytest.mark.parametrize(("data", "says"), BAD_BYTES)
def test_bytes_that_are_no_document_are_refused(data: bytes, says: str) -> None:
    assert says in line_of(data, "team.json")


def test_rules_that_do_not_come_from_a_file_are_held_to_the_same_limits() -> None:
    deep: object = WHEN
    for _ in range(2000):
        deep = {"not": deep}
    for when, says in [(deep, "nested deeper than 32"), ({"arg": "a", "equals": b"x"}, "a value of type bytes")]:
        with pytest.raises(BadPolicy, match=says):
            rule_docs([rule(when=when)], "a pack")


def test_too_much_of_anything_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_document, "MAX_RULES", 2)
    monkeypatch.setattr(rule_document, "MAX_EXAMPLES", 1)
    monkeypatch.setattr(matching, "MAX_CHOICES", 1)
    assert "more than 2 rules" in refused(body(rule(id="a"), rule(id="b"), rule(id="c")))
    assert "at most 1 events" in refused(body(rule(examples={"fires": [{"action": "a"}] * 2})))
    assert "more than 1 values" in refused(body(rule(when={"action": {"in": ["a", "b"]}})))


def test_the_semantic_digest_covers_what_a_rule_does_and_not_its_words_about_itself() -> None:
    def one(**fields: object) -> RuleDoc:
        (doc,) = rule_docs([rule(**fields)], "here")
        return doc

    plain = semantic_digest(one())
    assert len(plain) == 64
    assert plain == semantic_digest(one(description="why", examples={"fires": [{"action": "Bash"}]}))
    assert plain == semantic_digest(one(phase="call", policy_id="fs.rm", locked=False))
    changed: list[dict[str, object]] = [
        {"verdict": "escalate"},
        {"reason": "other"},
        {"policy_id": "x"},
        {"attributed_to": "command"},
        {"locked": True},
        {"phase": "result"},
        {"when": {"arg": "command", "contains": "rm "}},
        {"when": {"arg": "command", "equals": True}},
        {"when": {"arg": "command", "equals": 1}},
        {"id": "fs.rm2"},
        {"verdict": "modify", "mask": {"detector": "secrets"}},
        {"verdict": "modify", "remove": {"detector": "secrets"}},
    ]
    digests = {plain, *(semantic_digest(one(**fields)) for fields in changed)}
    assert len(digests) == len(changed) + 1


def test_a_documents_digest_changes_with_its_rules_and_their_order() -> None:
    one, two = rule(id="a"), rule(id="b", when={"action": "Read"})
    assert parsed(body(one, two)).digest == parsed(body(one, two, description="x")).digest
    assert parsed(body(one, two)).digest != parsed(body(two, one)).digest
    assert parsed(body(one, two)).digest != parsed(body(one, two, extends=["builtin:x"])).digest


YAML = b"""\
format: interlock-policy
v: 1
name: team
rules:
  - id: fs.rm
    when: {arg: command, in: [no, on, 2026-01-01, null, true, -1, 1.5, 0x10, ~]}
    verdict: block
    reason: "no rm here"
"""


def test_yaml_says_what_json_says() -> None:
    choices = ["no", "on", "2026-01-01", None, True, -1, 1.5, "0x10", None]
    same = parsed(body(rule(when={"arg": "command", "in": choices})))
    for name in ("team.yaml", "team.yml"):
        assert parse_document(YAML, where=name).digest == same.digest


def test_a_yaml_file_that_ends_with_its_version_is_refused_wherever_it_is_cut_off() -> None:
    first, rest = YAML.split(b"v: 1\n", 1)
    whole = first + rest + b"v: 1\n"
    assert parse_document(whole, where="team.yaml").digest == parse_document(YAML, where="team.yaml").digest
    for end in range(len(whole) - 2):  # only its last line end may be missing
        with pytest.raises(BadPolicy):
            parse_document(whole[:end], where="team.yaml")


BAD_YAML: list[tuple[bytes, str]] = [
    (b"a: [1, 2", "is not a YAML policy (line 1, column 9"),
    (b"a: 1\na: 2", "line 2, column 1: key 'a' stands twice"),
    (b"a: &x [1]\nb: *x", "anchors and aliases are not read"),
    (b"b: *x", "anchors and aliases are not read"),
    (b"a: !!python/object/apply:os.system [ls]", "tags are not read"),
    (b"a: !!binary aGk=", "tags are not read"),
    (b"1: a", "a key is not a text"),
    (b"? [a, b]\n: c", "a key is not a text"),
    (b"<<: {a: 1}", "format"),
    (b"a: 1\n---\nb: 2", "is not a YAML policy"),
    (b"a: \xff", "is not UTF-8"),
    (b"a: \x07", "is not YAML"),
    (b"a: 1" + b"0" * 5000, "is not a YAML policy"),
    (b"a: 1e999", "too large for a double"),
    (b"[" * 5000, "nested deeper than 32"),
    (b"", "is not an object"),
    (b"\xef\xbb\xbfa: 1", "byte order mark"),
    (b"#" * (source.MAX_YAML_BYTES + 1), "bytes of YAML"),
]


@pytest.mark.parametrize(("data", "says"), BAD_YAML)
def test_yaml_that_says_more_than_json_is_refused(data: bytes, says: str) -> None:
    assert says in line_of(data, "team.yaml")


def test_yaml_without_pyyaml_is_one_clear_line() -> None:
    program = (
        "import sys; sys.modules['yaml'] = None\n"
        "from interlock.engine.policy.document import BadPolicy, parse_document\n"
        "try: parse_document(b'a: 1', where='team.yaml')\n"
        "except BadPolicy as e: print(e)\n"
        "print(parse_document(sys.stdin.buffer.read(), where='team.json').name)\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(body()).encode(), capture_output=True, check=True
    )
    assert out.stdout.decode().splitlines() == [
        "team.yaml: is YAML, and PyYAML is not installed; pip install 'interlock[yaml]', or write JSON",
        "team",
    ]


def document_or_bad_policy(data: bytes, where: str) -> None:
    try:
        made = parse_document(data, where=where)
    except BadPolicy:
        return
    assert isinstance(made, Document)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["p.json", "p.yaml"]))
def test_any_bytes_are_a_document_or_a_bad_policy(data: bytes, where: str) -> None:
    document_or_bad_policy(data, where)


_words = st.sampled_from(
    ["all", "any", "not", "action", "phase", "principal", "arg", "intent", "detector", "params", "regex", "flags", "in",
     "equals", "glob", "lt", "a.b[0]", "a.*", "call", "result", "secrets", "fs.delete", "effect", "block", "(a+)+$"]
)  # fmt: skip
_scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), _words)
_json = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.one_of(_words, st.text(max_size=3)), inner, max_size=3)
    ),
    max_leaves=8,
)
# conditions that are nearly right, so that what lies behind the first check is reached
_tests = _words | st.dictionaries(st.sampled_from([*matching.OPERATORS, *matching.BESIDE]), _json, max_size=3)
_beside = st.dictionaries(
    st.sampled_from(["kind", "scope", "undoable", "class", "access", "under", "symlinks", "source", "sink", "above"])
    | st.sampled_from(["seconds", "per", *matching.OPERATORS]),
    _json | _tests,
    max_size=3,
)
_fields = st.dictionaries(st.sampled_from(["name", "effect", "scope", "reversible", "efect"]), _tests, max_size=2)
_conditions = st.recursive(
    st.one_of(
        st.fixed_dictionaries({"action": _tests}),
        st.fixed_dictionaries({"principal": _tests}),
        st.tuples(_words, _tests).map(lambda pair: {"arg": pair[0]} | (pair[1] if isinstance(pair[1], dict) else {})),
        st.fixed_dictionaries({"intent": _fields}),
        st.fixed_dictionaries(
            {"detector": st.sampled_from(["secrets", "network_egress", "indicator"]), "params": _json}
        ),
        st.dictionaries(st.sampled_from(KINDS), _beside | _tests, max_size=1),
        _json,
    ),
    lambda inner: (
        st.dictionaries(st.sampled_from(["all", "any"]), st.lists(inner, max_size=3), max_size=1)
        | st.fixed_dictionaries({"not": inner})
    ),
    max_leaves=4,
)
_limits = st.dictionaries(st.sampled_from(["command", "call", "result", "properties", "x"]), _json, max_size=3)
_rule_fields = st.dictionaries(st.sampled_from(rule_document.RULE_FIELDS), _json, max_size=6)


@settings(max_examples=300, deadline=None)
@given(_json, _conditions, _rule_fields, st.dictionaries(st.sampled_from(SETTINGS), _json | _limits, max_size=3))
def test_any_json_is_a_document_or_a_bad_policy(
    whole: object, when: object, fields: dict[str, object], said: dict[str, object]
) -> None:
    for value in (
        whole,
        body(whole),
        body(rule(when=when)),
        body(rule(**fields)),
        body(rule(mask=whole, verdict="modify")),
        body(rule(), **said),
    ):
        document_or_bad_policy(json.dumps(value).encode(), "p.json")
        document_or_bad_policy(json.dumps(value).encode(), "p.yaml")


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 400), st.binary(min_size=1, max_size=2))
def test_a_damaged_document_is_a_document_or_a_bad_policy(at: int, what: bytes) -> None:
    good = json.dumps(body(rule(examples={"fires": [{"action": "Bash", "args": {"command": "rm"}}]}))).encode()
    document_or_bad_policy(good[:at] + what + good[at + 1 :], "p.json")
    document_or_bad_policy(YAML[:at] + what + YAML[at + 1 :], "p.yaml")
