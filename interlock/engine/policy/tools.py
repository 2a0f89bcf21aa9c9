"""Known tools: where a document gives the JSON Schema of a tool's arguments, its rules are held to it.

A rule that addresses known tools by name, or all tools, and asks for an argument that none of them has, would never
fire: it is refused. So is one that says it is about such an argument, or whose flow leads into one. A schema without
`properties`, or with `additionalProperties` that are allowed outright, knows no bounds, and below an argument only what
its own `properties` and `items` say is held against a path. Where a schema gives the `type` or the values (`enum`,
`const`) of an argument, a test that no such value passes is refused too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from interlock.engine.event import Phase
from interlock.engine.origins import readings_of
from interlock.engine.policy.argpath import path_steps
from interlock.engine.policy.conditions import parts_of
from interlock.engine.policy.matching import BESIDE, compile_test
from interlock.engine.policy.names import names_of
from interlock.engine.policy.problems import BadPolicy, did_you_mean

__all__ = ["demand_known_arguments"]

_NO_OPERATORS: Final = ("arg", *BESIDE)
_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})


def demand_known_arguments(
    when: Mapping[str, object],
    attributed_to: str | None,
    phase: Phase,
    tools: Mapping[str, Mapping[str, object]],
    where: str,
) -> None:
    """Raises: BadPolicy, where a rule names an argument that no tool it can see has; `where` is the rule."""
    if not tools or phase != "call":
        return
    for sink in _sinks(when):
        _demand_sink(sink, tools, f"{where}: when")
    addressed = _addressed(when)
    schemas = list(tools.values())
    if addressed is not None:
        known = [[tools[alias] for alias in names_of(name) if alias in tools] for name in addressed]
        if not all(known):
            return  # some tool that it addresses is not among the known ones
        schemas = [schema for many in known for schema in many]
    if attributed_to is not None and not any(_at(schema, path_steps(attributed_to, where)) for schema in schemas):
        raise _unknown(f"is about argument {attributed_to!r}", attributed_to, schemas, f"{where}: attributed_to")
    for path, test in _asked(when):
        held = [found for schema in schemas for found in _at(schema, path_steps(path, where))]
        if not held:
            raise _unknown(f"asks for argument {path!r}", path, schemas, f"{where}: when")
        if not any(_may_pass(schema, test) for schema in held):
            told = f"asks of argument {path!r} what its tool's schema does not let it be"
            raise BadPolicy(told, where=f"{where}: when")


def _unknown(told: str, path: str, schemas: Iterable[Mapping[str, object]], where: str) -> BadPolicy:
    arguments = {str(name) for schema in schemas for name in _properties(schema) or ()}
    fix = did_you_mean(path.removeprefix("args.").split(".")[0], arguments)
    return BadPolicy(f"{told}, which no known tool here has", where=where, fix=fix)


def _demand_sink(sink: str, tools: Mapping[str, Mapping[str, object]], where: str) -> None:
    """Raises: BadPolicy, where each way to read a sink leads to known tools alone, and into none of their arguments."""
    seen: list[Mapping[str, object]] = []
    for action, path in readings_of(sink):
        schemas = list(tools.values()) if not action else [tools[action]] if action in tools else []
        steps = tuple(None if step == "*" else step for step in path)
        if not schemas or any(_at(schema, steps) for schema in schemas):
            return
        seen += schemas
    raise _unknown(f"has a sink {sink!r}", sink.rpartition(".")[2], seen, where)


def _addressed(when: Mapping[str, object]) -> list[str] | None:
    """The names in the action test at the top of a `when`; "" for a glob or a test further down, None for no test."""
    parts = when.get("all", (when,))
    for part in parts if isinstance(parts, list | tuple) else ():
        if not isinstance(part, Mapping) or "action" not in part:
            continue
        test = part["action"]
        if isinstance(test, str):
            return [""] if any(sign in test for sign in "*?[") else [test]
        names = (test["equals"],) if "equals" in test else test.get("in", ("",))
        return [name for name in names if isinstance(name, str)]
    return [""] if any("action" in part for part in parts_of(when)) else None


def _asked(when: object) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Each argument that a condition asks for, with the test of it."""
    for part in parts_of(when):
        if isinstance(path := part.get("arg"), str):
            yield path, part


def _sinks(when: object) -> Iterator[str]:
    """The sinks of all flows in a condition."""
    for part in parts_of(when):
        flow = part.get("flow")
        if isinstance(flow, Mapping) and isinstance(sink := flow.get("sink"), str):
            yield sink


def _at(schema: object, steps: tuple[str | int | None, ...]) -> tuple[object, ...]:
    """The schema of what values of a schema hold at a path, None where it does not say; nothing where there is none."""
    for step in steps:
        if not isinstance(schema, Mapping):
            return (None,)
        if isinstance(step, int):
            schema = schema.get("items")
            continue
        properties = _properties(schema)
        if properties is None or step is None:
            return (None,)
        if step not in properties:
            return ()
        schema = properties[step]
    return (schema,)


def _may_pass(schema: object, test: Mapping[str, object]) -> bool:
    """Whether a value of a schema could pass a test, as far as its type and its listed values say."""
    if not isinstance(schema, Mapping):
        return True
    said = schema.get("type")
    named = [said] if isinstance(said, str) else list(said) if isinstance(said, list | tuple) else []
    types = {name for name in named if isinstance(name, str) and name in _TYPES}
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list | tuple):
        passes = compile_test({key: wanted for key, wanted in test.items() if key != "arg"}, "")
        return any(map(passes, values))
    return (
        len(types) < len(named)
        or not named
        or all(_suits(key, wanted, types) for key, wanted in test.items() if key not in _NO_OPERATORS)
    )


def _suits(key: str, wanted: object, types: set[str]) -> bool:
    """Whether an operator can be true of a value of one of these JSON types."""
    if key in ("lt", "le", "gt", "ge"):
        return bool(types & {"number", "integer"})
    if key == "equals":
        return bool(types & _types_of(wanted))
    if key == "in" and isinstance(wanted, list | tuple):
        return any(types & _types_of(one) for one in wanted)
    return "string" in types


def _types_of(value: object) -> frozenset[str]:
    if isinstance(value, bool):
        return frozenset({"boolean"})
    if isinstance(value, int | float):
        return frozenset({"number", "integer"} if value == int(value) else {"number"})
    kinds = ((str, "string"), (Mapping, "object"), (list | tuple, "array"))
    return frozenset(name for kind, name in kinds if isinstance(value, kind)) or frozenset({"null"})


def _properties(schema: Mapping[str, object]) -> Mapping[str, object] | None:
    properties = schema.get("properties")
    open_ended = schema.get("additionalProperties") not in (None, False)
    return properties if isinstance(properties, Mapping) and not open_ended else None
