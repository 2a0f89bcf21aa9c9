"""Rules proven by their examples, and the commands that do it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from interlock.base.errors import InterlockError
from interlock.engine.policy import builtins
from interlock.engine.policy.builtins import builtin, builtin_names, resolver
from interlock.engine.policy.check import check_document, check_rules
from interlock.engine.policy.document import BadPolicy, parse_document, rule_docs
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.matching import MAX_TEXT
from interlock.engine.policy.model import Source
from interlock.engine.policy.source import MAX_BYTES
from interlock.node.cli import policy as command

LANGUAGE = Path(__file__).parents[2] / "docs" / "reference" / "policy-language.md"
FIRES = {"action": "Bash", "args": {"command": "rm a"}}
PASSES = {"action": "Bash", "args": {"command": "ls"}}


def rule(**fields: object) -> dict[str, object]:
    when = {"arg": "command", "regex": "^rm( |$)"}
    examples = {"fires": [FIRES], "passes": [PASSES]}
    return {"id": "fs.rm", "when": when, "verdict": "block", "reason": "no rm", "examples": examples, **fields}


def problems(*rules: dict[str, object]) -> list[str]:
    report = check_rules(rule_docs(rules, "here"))
    assert report.ok == (not report.failures)
    return [row.problem for row in report.failures]


def test_examples_that_hold_are_no_problem() -> None:
    assert problems(rule()) == []
    rows = check_rules(rule_docs([rule()], "here")).rows
    assert [(row.rule, row.kind, row.index, row.ok) for row in rows] == [
        ("fs.rm", "fires", 0, True),
        ("fs.rm", "passes", 0, True),
    ]


def test_an_example_that_does_not_hold_is_a_problem() -> None:
    assert problems(rule(examples={"fires": [PASSES], "passes": [FIRES]})) == [
        "the rule does not fire",
        "the rule fires",
    ]


def test_a_rule_without_examples_is_a_problem() -> None:
    assert problems(rule(examples={})) == [
        "the rule has no example that must fire",
        "the rule has no example that must pass",
    ]
    assert problems(rule(examples={"fires": [FIRES]})) == ["the rule has no example that must pass"]


def test_each_example_is_judged_by_its_own_rule_alone() -> None:
    other = rule(id="other", when={"action": "Read"}, examples={"fires": [FIRES], "passes": [PASSES]})
    assert problems(rule(), other) == ["the rule does not fire"]


def test_a_rule_that_cannot_judge_its_example_has_not_fired() -> None:
    long = {"action": "Bash", "args": {"command": "rm " + "a" * MAX_TEXT}}
    (problem,) = problems(rule(examples={"fires": [long], "passes": [PASSES]}))
    assert "cannot judge" in problem


def test_a_masking_rule_fires_where_it_masks() -> None:
    key = "AKIA" + "Z7QK2M4NP3RWX6TY"
    leak, plain = ({"action": "http_post", "args": {"body": text}} for text in (f"key {key}", "no key"))
    mask = rule(
        when={"action": "http_post"},
        verdict="modify",
        mask={"detector": "secrets"},
        examples={"fires": [leak], "passes": [plain]},
    )
    assert problems(mask) == []


def test_the_example_of_the_reference_loads_and_holds() -> None:
    block = LANGUAGE.read_text("utf-8").split("```json\n", 1)[1].split("```", 1)[0]
    document = parse_document(block.encode(), where="policy-language.md")
    report = check_document(document)
    assert report.failures == ()
    assert len(document.rules) >= 4


def test_every_policy_that_ships_passes_its_own_examples() -> None:
    for name in builtin_names():
        document = parse_document(builtin(name), where=f"builtin:{name}")
        assert document.name == name
        assert check_document(document).failures == ()


def test_an_unknown_builtin_is_one_line() -> None:
    with pytest.raises(BadPolicy, match="no such built-in policy"):
        builtin("coding-agnt")
    with pytest.raises(BadPolicy, match="no such built-in policy"):
        builtin("../model")


def test_files_are_extended_by_their_path_from_the_file_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "base.json").write_bytes(document_bytes(rule()))
    top = document_bytes(rule(id="more"), extends=["base.json"])
    policy = load_policy(top, where="top.json", source=Source("file"), resolve=resolver(tmp_path))
    assert [rule.id for rule in policy.rules] == ["fs.rm", "more"]


def test_what_cannot_be_extended_is_one_line(tmp_path: Path) -> None:
    for folder, name, says in [
        (tmp_path, "none.json", "cannot be read (No such file or directory)"),
        (tmp_path, ".", "cannot be read (Is a directory)"),
        (tmp_path, "a\0b", "not a usable path"),
        (tmp_path, "mesh:x@stable", "cannot be extended here"),
        (None, "base.json", "cannot be extended here"),
    ]:
        with pytest.raises(BadPolicy) as caught:
            resolver(folder)(name)
        assert says in str(caught.value)


def document_bytes(*rules: object, extends: list[str] | None = None) -> bytes:
    body = {"format": "interlock-policy", "v": 1, "name": "team", "extends": extends or [], "rules": list(rules)}
    return json.dumps(body).encode()


def run(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    command.register(parser.add_subparsers())
    args = parser.parse_args(["policy", *argv])
    code = args.run(args)
    assert isinstance(code, int)
    return code


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "team.json"
    path.write_bytes(document_bytes(rule()))
    return str(path)


@pytest.fixture
def failing(tmp_path: Path) -> str:
    path = tmp_path / "failing.json"
    path.write_bytes(document_bytes(rule(examples={"fires": [PASSES]})))
    return str(path)


def test_policy_test_says_ok_in_one_line(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("test", good) == 0
    assert capsys.readouterr().out == f"ok    {good}: 1 rules, 2 examples, all as they should be\n"


def test_policy_test_names_each_example_that_does_not_hold(failing: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("test", failing) == 1
    assert capsys.readouterr().out.splitlines() == [
        "FAIL  fs.rm: examples.fires[0]: the rule does not fire",
        "FAIL  fs.rm: the rule has no example that must pass",
        f"      {failing}: 1 rules, 1 examples, 2 not as they should be",
    ]


def test_policy_test_prints_one_json_object(good: str, failing: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("test", good, "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["ok"], made["rules"], made["examples"], made["failures"]) == (True, 1, 2, [])
    assert run("test", failing, "--json") == 1
    made = json.loads(capsys.readouterr().out)
    assert made["failures"][0] == {
        "rule": "fs.rm",
        "kind": "fires",
        "index": 0,
        "problem": "the rule does not fire",
    }


def test_policy_test_refuses_a_bad_policy_with_exit_code_2(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_bytes(document_bytes(rule(verdikt="block")))
    for name in (str(bad), str(tmp_path / "none.json"), "builtin:none"):
        with pytest.raises(InterlockError) as caught:
            run("test", name)
        assert caught.value.exit_code == 2
        assert "\n" not in str(caught.value)


def test_policy_show_lists_the_rules_with_those_extended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "base.json").write_bytes(document_bytes(rule(id="base.rm", locked=True)))
    top = tmp_path / "top.json"
    top.write_bytes(document_bytes(rule(), extends=["base.json"]))
    assert run("show", str(top)) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith("team  (digest ")
    assert [line.split() for line in lines] == [
        ["base.rm", "call", "block", "locked", "(from", "base.json)"],
        ["fs.rm", "call", "block", "no", "rm"],
    ]
    assert run("show", str(top), "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert [(row["id"], row["source"], row["locked"]) for row in made["rules"]] == [
        ("base.rm", "file:base.json", True),
        ("fs.rm", f"file:{top}", False),
    ]


def test_a_policy_file_is_never_read_whole_beyond_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    path.write_bytes(b" " * (MAX_BYTES + 100))
    assert len(builtins.read_policy_file(path)) == MAX_BYTES + 1
