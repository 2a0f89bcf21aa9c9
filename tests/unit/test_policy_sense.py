"""What can never be true, or never decide anything, is refused when a document is read."""

from __future__ import annotations

import json

import pytest

from interlock.engine.policy.document import parse_document
from interlock.engine.policy.problems import BadPolicy
from tests.quick import demand_soon

X = {"arg": "a", "contains": "x"}
Y = {"arg": "b", "contains": "y"}
Z = {"arg": "z", "contains": "z"}


def document(*rules: dict[str, object], **fields: object) -> bytes:
    body = {"format": "interlock-policy", "v": 1, "name": "p", "rules": list(rules), **fields}
    return json.dumps(body).encode()


def rule(name: str, when: object, **fields: object) -> dict[str, object]:
    return {"id": name, "when": when, "verdict": "block", "reason": "no", **fields}


def accepted(*rules: dict[str, object], **fields: object) -> None:
    parse_document(document(*rules, **fields), where="p.json")


def refused(*rules: dict[str, object], **fields: object) -> str:
    with pytest.raises(BadPolicy) as caught:
        accepted(*rules, **fields)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "when",
    [
        {"all": [{"arg": "a", "equals": 1}, {"arg": "a", "equals": 2}]},
        {"all": [{"arg": "a", "equals": 1}, {"all": [Y, {"arg": "args.a", "in": [2, 3]}]}]},
        {"arg": "a[*]", "equals": "x", "in": ["y"]},
        {"all": [{"arg": "a", "equals": 1}, {"arg": 'args["a"]', "equals": 2}]},
        {"all": [{"arg": "a.b[0]", "equals": 1}, {"arg": 'args.a["b"][0]', "equals": 2}]},
        {"all": [{"action": "Read"}, {"action": {"in": ["Bash", "Write"]}}]},
        {"all": [{"principal": "a"}, {"principal": {"equals": "b"}}]},
    ],
)
def test_two_values_that_one_thing_would_have_to_equal(when: dict[str, object]) -> None:
    assert "is to equal two values at once" in refused(rule("r", when))


@pytest.mark.parametrize(
    ("when", "says"),
    [
        ({"arg": "a", "gt": 5, "lt": 3}, "end comes before its start"),
        ({"arg": "a", "gt": 5, "le": 5}, "end comes before its start"),
        ({"arg": "a", "gt": 5, "contains": "5"}, "argument a is to be a text and a number at once"),
        ({"all": [{"arg": "a", "regex": "x"}, {"arg": "args.a", "lt": 5}]}, "is to be a text and a number at once"),
        ({"arg": "a", "equals": "x", "prefix": "y"}, "is to equal a value that the other operators do not pass"),
        (
            {"all": [{"arg": "a", "in": ["x", 3]}, {"arg": "a", "regex": "Y", "flags": "i"}]},
            "other operators do not pass",
        ),
        ({"all": [{"action": "Bash"}, {"action": {"glob": "http_*"}}]}, "action is to equal a value that the other"),
        ({"all": [{"arg": "a", "ge": 5}, {"arg": "a", "lt": 5}]}, "end comes before its start"),
        ({"arg": "a", "in": [1, 2], "gt": 5}, "a value outside its range"),
        ({"all": [{"arg": "a", "equals": "x"}, {"arg": "a", "gt": 5}]}, "a value outside its range"),
        ({"all": [X, Y, {"not": X}]}, "and for its 'not'"),
        ({"any": [X, {"not": {"all": [Y, {"not": Y}]}}]}, "and for its 'not'"),
        ({"all": [X, Y, X]}, "says the same as [0]"),
        ({"any": [X, {"contains": "x", "arg": "a"}]}, "says the same as [0]"),
        ({"arg": "a", "in": []}, "could never be true"),
    ],
)
def test_what_contradicts_itself_or_is_said_twice(when: dict[str, object], says: str) -> None:
    assert says in refused(rule("r", when))


@pytest.mark.parametrize(
    "when",
    [
        {"all": [{"arg": "a[*]", "equals": 1}, {"arg": "a[*]", "equals": 2}]},
        {"any": [{"arg": "a", "equals": 1}, {"arg": "a", "equals": 2}]},
        {"all": [{"arg": "a", "in": ["x", "y"]}, {"arg": "a", "regex": "Y", "flags": "i"}]},
        {"all": [{"arg": "a[*]", "equals": "x"}, {"arg": "a[*]", "prefix": "y"}]},
        {"all": [{"action": "Bash"}, {"action": {"glob": "run_*"}}]},
        {"arg": "a", "equals": "x", "prefix": "y", "raw": True},
        {"all": [{"arg": "a", "equals": 1}, {"arg": "a", "in": [1.0, 2]}]},
        {"all": [{"action": "Bash"}, {"action": {"in": ["shell"]}}]},
        {"all": [{"arg": "a", "equals": "ﬁ"}, {"arg": "a", "equals": "fi"}]},
        {"arg": "a", "ge": 5, "le": 5},
        {"arg": "a", "in": [1, 9], "gt": 5},
        {"all": [{"any": [X, Y]}, {"not": {"all": [X, Y]}}]},
    ],
)
def test_what_can_be_true_is_read(when: dict[str, object]) -> None:
    accepted(rule("r", when))


def test_a_rule_that_an_earlier_one_makes_idle_is_refused() -> None:
    both = {"all": [X, Y]}
    line = refused(rule("wide", X), rule("narrow", both))
    assert line.startswith("p.json: rule narrow: when: never decides anything: rule wide before it")
    assert "rule a before" in refused(rule("a", X), rule("b", X))
    assert "rule a before" in refused(rule("a", {"any": [X, Y]}), rule("b", Y))
    assert "rule a before" in refused(rule("a", X), rule("b", X, verdict="escalate"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"arg": "a", "lt": 3}, {"arg": "args.a", "lt": 3}),
        ({"arg": "a.b[*].c", "lt": 3}, {"arg": 'args["a"]["b"][*].c', "lt": 3}),
        ({"arg": 'a["x.y"].*', "lt": 3}, {"arg": 'args.a["x.y"].*', "lt": 3}),
        ({"action": "Bash"}, {"action": "run_shell_command"}),
        ({"action": "Bash"}, {"action": {"equals": "Bash"}}),
        ({"principal": "alice"}, {"principal": {"equals": "alice"}}),
        ({"not": {"action": "Bash"}}, {"not": {"action": {"equals": "shell"}}}),
    ],
)
def test_one_condition_in_two_spellings_is_one(one: dict[str, object], other: dict[str, object]) -> None:
    assert "rule a before" in refused(rule("a", one), rule("b", {"all": [other, Z]}))
    assert "says the same as [0]" in refused(rule("r", {"any": [one, other]}))
    if "not" not in one:
        assert "and for its 'not'" in refused(rule("r", {"all": [one, {"not": other}]}))


def test_conditions_that_only_look_alike_are_two() -> None:
    for one, other in [
        ({"arg": "a.b", "lt": 3}, {"arg": 'a["a.b"]', "lt": 3}),
        ({"arg": 'args["a.b"]', "lt": 3}, {"arg": "a.b", "lt": 3}),
        ({"arg": "a.*", "lt": 3}, {"arg": 'a["*"]', "lt": 3}),
        ({"arg": "a[0]", "lt": 3}, {"arg": 'a["0"]', "lt": 3}),
        ({"action": "Bash"}, {"action": {"equals": "Bash", "raw": True}}),
        ({"action": "Bas*"}, {"action": "Bash*"}),
    ]:
        accepted(rule("a", {"all": [one, X]}), rule("b", {"all": [other, Z]}))


def test_a_rule_that_may_still_decide_something_is_read() -> None:
    both = {"all": [X, Y]}
    accepted(rule("narrow", both), rule("wide", X))
    accepted(rule("a", X, verdict="escalate"), rule("b", both))
    accepted(rule("a", X, shadow=True), rule("b", X))
    accepted(rule("a", {"arg": "result"} | {"equals": 1}, phase="result"), rule("b", {"arg": "result", "equals": 1}))
    accepted(rule("a", X), rule("b", {"any": [X, Y]}))


def test_many_rules_are_compared_in_time_that_grows_with_their_number() -> None:
    many = [rule(f"r{i}", {"all": [X, {"arg": "h", "equals": f"h{i}"}]}) for i in range(3000)]
    demand_soon(5, lambda: accepted(*many))
    assert "rule r7 before" in refused(*many, rule("last", {"all": [{"arg": "h", "equals": "h7"}, X, Y]}))


TOOLS = {"Bash": {"properties": {"command": {"type": "string"}, "o": {"properties": {"k": {}}}}}, "Free": {}}


def test_an_argument_that_no_known_tool_has_is_refused() -> None:
    at = {"all": [{"action": "Bash"}, {"arg": "comand", "contains": "x"}]}
    assert "argument 'comand', which no known tool here has; did you mean 'command'?" in refused(
        rule("r", at), tools=TOOLS
    )
    deep = {"all": [{"action": "shell"}, {"not": {"arg": "o.z", "equals": 1}}]}
    assert "'o.z'" in refused(rule("r", deep), tools=TOOLS)
    assert "'x'" in refused(rule("r", {"arg": "x", "equals": 1}), tools={"Bash": TOOLS["Bash"]})


def test_a_rule_is_about_an_argument_that_a_known_tool_has() -> None:
    when = {"all": [{"action": "Bash"}, {"arg": "command", "contains": "x"}]}
    line = refused(rule("r", when, attributed_to="comand"), tools=TOOLS)
    assert "rule r: attributed_to: is about argument 'comand', which no known tool here has" in line
    assert "did you mean 'command'?" in line
    accepted(rule("r", when, attributed_to="args.command"), tools=TOOLS)
    accepted(rule("r", {"action": "Other"}, attributed_to="x"), tools=TOOLS)


@pytest.mark.parametrize("sink", ["comand", "args.comand", "Bash.comand"])
def test_a_sink_that_no_known_tool_has_is_refused(sink: str) -> None:
    flow = {"flow": {"source": "tool:fetch", "sink": sink}}
    assert f"when: has a sink '{sink}', which no known tool here has" in refused(
        rule("r", {"any": [X, {"not": flow}]}), tools={"Bash": TOOLS["Bash"]}
    )


@pytest.mark.parametrize(
    "sink", ["command", "Bash.command", "o.k", "Bash.o", "Bash.o.z", "Other.x", "B*.x", "x.y.command"]
)
def test_a_sink_that_some_tool_may_have_is_read(sink: str) -> None:
    flow = {"flow": {"source": "tool:fetch", "sink": sink}}
    accepted(rule("r", flow), tools={"Bash": TOOLS["Bash"]})


TYPED = {
    "t": {
        "properties": {
            "n": {"type": "integer"},
            "s": {"type": ["string", "null"]},
            "list": {"type": "array", "items": {"type": "string"}},
            "one": {"enum": ["a", "b", 3]},
            "odd": {"type": "text"},
        }
    }
}


@pytest.mark.parametrize(
    "test",
    [
        {"arg": "n", "contains": "5"},
        {"arg": "n", "equals": "5"},
        {"arg": "n", "in": ["5", True]},
        {"arg": "s", "gt": 5},
        {"arg": "s", "equals": 5},
        {"arg": "list", "contains": "x"},
        {"arg": "list[0]", "lt": 1},
        {"arg": "one", "equals": "c"},
        {"arg": "args.one", "prefix": "c"},
    ],
)
def test_a_test_that_a_tools_schema_never_lets_pass_is_refused(test: dict[str, object]) -> None:
    when = {"all": [{"action": "t"}, {"any": [X, {"not": test}]}]}
    assert "what its tool's schema does not let it be" in refused(
        rule("r", when), tools={**TYPED, "t": {"properties": {**TYPED["t"]["properties"], "a": {}}}}
    )


def test_a_test_that_a_tools_schema_lets_pass_is_read() -> None:
    for test in (
        {"arg": "n", "equals": 5.0}, {"arg": "n", "in": ["x", 5]}, {"arg": "s", "equals": None},
        {"arg": "s", "regex": "x", "flags": "i"}, {"arg": "list[*]", "glob": "x*"}, {"arg": "list", "equals": ["x"]},
        {"arg": "one", "gt": 2}, {"arg": "one", "suffix": "b", "raw": True}, {"arg": "odd", "gt": 2},
    ):  # fmt: skip
        accepted(rule("r", {"all": [{"action": "t"}, test]}), tools=TYPED)


def test_an_action_further_down_says_which_tool_an_argument_is_of() -> None:
    branch = {"all": [{"action": "Other"}, {"arg": "x", "contains": "x"}]}
    accepted(rule("r", {"any": [branch, {"all": [{"action": "t"}, {"arg": "n", "gt": 1}]}]}), tools=TYPED)


def test_an_argument_that_some_tool_may_have_is_read() -> None:
    for when in (
        {"all": [{"action": "Bash"}, {"arg": "args.command", "contains": "x"}]},
        {"all": [{"action": "Bash"}, {"arg": "o.k.z[0]", "contains": "x"}]},
        {"all": [{"action": "Other"}, {"arg": "x", "contains": "x"}]},
        {"all": [{"action": "B*"}, {"arg": "x", "contains": "x"}]},
        {"all": [{"action": {"in": ["Bash", "Free"]}}, {"arg": "x", "contains": "x"}]},
        {"arg": "x", "contains": "x"},
    ):
        accepted(rule("r", when), tools=TOOLS)
    accepted(rule("r", {"arg": "result", "equals": 1}, phase="result"), tools={"Bash": TOOLS["Bash"]})
    assert "tools: 'Bash': is not an object" in refused(rule("r", X), tools={"Bash": 3})
