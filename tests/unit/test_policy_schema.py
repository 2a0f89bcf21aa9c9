"""The JSON Schema for editors accepts what the parser reads, and refuses the fields that it refuses."""

from __future__ import annotations

import copy
import functools
import json
import operator
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.detectors.registry import REGISTRY
from interlock.engine.policy.builtins import builtin, builtin_names
from interlock.engine.policy.conditions import KINDS
from interlock.engine.policy.document import parse_document
from interlock.engine.policy.problems import BadPolicy
from interlock.engine.policy.schema import document_schema

jsonschema: Any = pytest.importorskip("jsonschema")
ROOT = Path(__file__).parents[2]
SCHEMA = document_schema()
CHECKER = jsonschema.Draft202012Validator(SCHEMA)

EVERY_KIND: dict[str, Any] = {
    "all": {"all": [{"action": "Bash"}, {"principal": {"prefix": "a"}}]},
    "any": {"any": [{"action": "Bash"}]},
    "not": {"not": {"action": {"in": ["Bash"], "raw": True}}},
    "action": {"action": "Bash"},
    "phase": {"phase": "call"},
    "principal": {"principal": "x*"},
    "arg": {"arg": "a.b[*]", "regex": "x", "flags": "i"},
    "detector": {"detector": "network_egress", "params": {"allowed_hosts": ["a.example"]}},
    "intent": {"intent": {"effect": "delete", "reversible": False}},
    "effects": {"effects": {"kind": "delete", "undoable": False}},
    "host": {"host": {"class": ["private"], "prefix": "10."}},
    "path": {"path": {"access": "write", "under": ["/etc", "~/.ssh"], "symlinks": False}},
    "flow": {"flow": {"source": "tool:fetch_*", "sink": "http_post.body"}},
    "count": {"count": {"above": 5}},
    "rate": {"rate": {"above": 5, "seconds": 60, "per": "all"}},
}


def document(when: object, **fields: object) -> dict[str, Any]:
    rule = {"id": "r", "when": when, "verdict": "block", "reason": "no", **fields}
    return {"format": "interlock-policy", "v": 1, "name": "p", "rules": [rule]}


def parses(value: object) -> bool:
    try:
        parse_document(json.dumps(value).encode(), where="p.json")
    except BadPolicy:
        return False
    return True


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert set(EVERY_KIND) == set(KINDS)


@pytest.mark.parametrize("name", builtin_names())
def test_it_accepts_each_policy_that_ships(name: str) -> None:
    CHECKER.validate(json.loads(builtin(name)))


def test_it_accepts_each_document_in_the_documentation() -> None:
    found = 0
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for block in page.read_text("utf-8").split("```json\n")[1:]:
            value = json.loads(block.split("```", 1)[0])
            if isinstance(value, dict) and value.get("format") == "interlock-policy":
                CHECKER.validate(value)
                found += 1
    assert found


def test_each_parameter_of_a_detector_has_a_json_type() -> None:
    (detectors,) = [one["anyOf"] for one in SCHEMA["$defs"]["condition"]["oneOf"] if "properties" not in one]
    params = {one["properties"]["detector"]["const"]: one["properties"]["params"]["properties"] for one in detectors}
    assert set(params) == set(REGISTRY)
    assert all(made["type"] for known in params.values() for made in known.values())


@pytest.mark.parametrize("kind", KINDS)
def test_it_accepts_each_kind_of_condition_and_refuses_what_the_parser_does_not_know(kind: str) -> None:
    good = document(EVERY_KIND[kind])
    assert parses(good)
    CHECKER.validate(good)
    for bad in ({**EVERY_KIND[kind], "extra": 1}, {"extra": EVERY_KIND[kind][kind]}):
        assert not parses(document(bad))
        assert not CHECKER.is_valid(document(bad))
    inner = EVERY_KIND[kind][kind]
    if isinstance(inner, dict) and kind != "not":
        bad = {kind: {**inner, "extra": 1}}
        assert not parses(document(bad))
        assert not CHECKER.is_valid(document(bad))


def _objects(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if isinstance(value, dict) else []
    for key, held in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        found += _objects(held, (*path, key))
    return found


FULL: dict[str, Any] = {
    **document(
        {"all": [{"action": "http_post"}, {"arg": "body", "contains": "x"}]},
        verdict="modify",
        mask={"detector": "secrets", "params": {}},
        examples={"fires": [{"action": "x", "args": {}, "origins": [{"source": "tool:x"}]}]},
        shadow=True,
    ),
    "limits": {"command": 10},
    "oversize": {"call": "block", "result": "record"},
    "harmless": "prove",
    "quarantine": [{"rule": "x", "by": "y", "reason": "z"}],
    "tools": {"http_post": {"properties": {"body": {}}}},
    "overlays": ["more.json"],
}


def test_a_field_that_the_parser_does_not_know_is_refused_wherever_it_stands() -> None:
    assert parses(FULL)
    CHECKER.validate(FULL)
    free = {("tools",), ("tools", "http_post"), ("rules", 0, "examples", "fires", 0, "args")}
    for path in _objects(FULL):
        if path in free or path[:3] == ("tools", "http_post", "properties"):
            continue
        bad = copy.deepcopy(FULL)
        place = bad
        for step in path:
            place = place[step]
        place["unknown"] = "x"
        assert not parses(bad), path
        assert not CHECKER.is_valid(bad), path


@pytest.mark.parametrize(
    "bad",
    [
        document({"arg": "a"}),
        document({"arg": "a", "flags": "i", "equals": 1}) | {"v": 2},
        document({"sql": {}}),
        document({"action": "x"}, verdict="allow"),
        document({"action": "x"}, verdict="modify"),
        document({"action": "x"}, mask={"detector": "secrets"}),
        document({"action": "x"}, remove={"detector": "secrets"}),
        document({"action": "x"}, verdict="modify", mask={"detector": "secrets"}, remove={"detector": "secrets"}),
        document({"all": []}),
        document({"host": {"class": "moon"}}),
        document({"intent": "fs.delte"}),
        document({"detector": "network_egress", "params": {"allowed_hosts": "a.example"}}),
        document({"detector": "network_egress", "params": {"allowed_host": ["a.example"]}}),
    ],
)
def test_it_refuses_what_an_editor_should_mark(bad: dict[str, Any]) -> None:
    assert not parses(bad)
    assert not CHECKER.is_valid(bad)


# --- documents with something wrong in them: both say so, as far as it is about structure

_JUNK: list[Any] = [
    None, True, False, 0, 1, -1, 2.5, "", "x", " ", [], [1], ["a"], {}, {"a": 1}, "block", "call", 10**7, "a\nb",
    "x" * 501,
    {"equals": 1}, {"glob": "x"}, {"regex": "x"}, {"flags": "i"}, {"raw": 1}, "é", ["a", "a"], "fs", "loopback", [[]],
]  # fmt: skip
_ADDED = [
    "locked",
    "raw",
    "flags",
    "mask",
    "params",
    "under",
    "class",
    "equals",
    "phase",
    "x",
    "limits",
    "per",
    "tools",
]
_OF_STRUCTURE = re.compile(
    r"unknown (field|operator|condition|verdict|limit|detector|parameter)|is not an object|is not a list|is not a text"
    r"|is missing|is empty|tests nothing|neither true nor false|stands without|stands with a verdict|needs a 'mask'"
    r"|is not a number|says both|is not a (test|condition|name|path|phase)|is no truth value|is none of"
)


def _places(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, held in pairs:
        yield from _places(held, (*path, key))


def _changed(signs: random.Random, value: dict[str, Any]) -> dict[str, Any]:
    made: Any = copy.deepcopy(value)
    path = signs.choice(list(_places(made)))
    around = functools.reduce(operator.getitem, path[:-1], made)
    kind, junk = signs.random(), copy.deepcopy(signs.choice(_JUNK))
    if kind < 0.2 and isinstance(around, dict):
        del around[path[-1]]
    elif kind < 0.4 and isinstance(around, dict):
        around[signs.choice(_ADDED)] = junk
    else:
        around[path[-1]] = junk
    return dict(made)


@pytest.mark.parametrize("kind", sorted(EVERY_KIND))
def test_the_schema_and_the_parser_agree_on_the_structure_of_what_is_wrong(kind: str) -> None:
    signs = random.Random(kind)
    examples = {"fires": [], "passes": [{"action": "a", "args": {"x": 1}, "principal": "p"}]}
    tools = {"t": {"type": "object", "properties": {"a": {}}}}
    whole = document(EVERY_KIND[kind], locked=True, description="d", examples=examples) | {"limits": {"values": 5}}
    for _ in range(150):
        made = _changed(signs, whole | {"tools": tools, "oversize": {"call": "block"}, "extends": ["builtin:x"]})
        refused = _refused(made)
        if CHECKER.is_valid(made):
            assert refused is None or not _OF_STRUCTURE.search(refused), (refused, made)
        else:
            assert refused is not None, made


def _refused(value: object) -> str | None:
    try:
        parse_document(json.dumps(value).encode(), where="p.json")
    except BadPolicy as e:
        return e.what
    return None
