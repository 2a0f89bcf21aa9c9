"""Known tools: where a document gives the JSON Schema of a tool's arguments, its rules are held to it.

A rule that addresses known tools by name, or all tools, and asks for an argument that none of them has, would never
fire: it is refused. A schema without `properties`, or with `additionalProperties` that are allowed outright, knows no
bounds, and below an argument only what its own `properties` and `items` say is held against a path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from interlock.engine.event import Phase
from interlock.engine.policy.argpath import path_steps
from interlock.engine.policy.names import names_of
from interlock.engine.policy.problems import BadPolicy, did_you_mean

__all__ = ["demand_known_arguments"]


def demand_known_arguments(
    when: Mapping[str, object], phase: Phase, tools: Mapping[str, Mapping[str, object]], where: str
) -> None:
    """Raises: BadPolicy, where a condition asks for an argument that no tool it can see has."""
    if not tools or phase != "call":
        return
    addressed = _addressed(when)
    schemas = list(tools.values())
    if addressed is not None:
        known = [[tools[alias] for alias in names_of(name) if alias in tools] for name in addressed]
        if not all(known):
            return  # some tool that it addresses is not among the known ones
        schemas = [schema for many in known for schema in many]
    for path in _paths(when):
        if not any(_has(schema, path_steps(path, where)) for schema in schemas):
            arguments = {str(name) for schema in schemas for name in _properties(schema) or ()}
            raise BadPolicy(
                f"asks for argument {path!r}, which no known tool here has",
                where=where,
                fix=did_you_mean(path.removeprefix("args.").split(".")[0], arguments),
            )


def _addressed(when: Mapping[str, object]) -> list[str] | None:
    """The names in the action test at the top of a `when`; None where there is none, "" for a glob."""
    parts = when.get("all", (when,))
    for part in parts if isinstance(parts, list | tuple) else ():
        if not isinstance(part, Mapping) or "action" not in part:
            continue
        test = part["action"]
        if isinstance(test, str):
            return [""] if any(sign in test for sign in "*?[") else [test]
        names = (test["equals"],) if "equals" in test else test.get("in", ("",))
        return [name for name in names if isinstance(name, str)]
    return None


def _paths(when: object) -> Iterator[str]:
    if isinstance(when, Mapping):
        if isinstance(path := when.get("arg"), str):
            yield path
        for kind in ("all", "any", "not"):
            yield from _paths(when.get(kind))
    elif isinstance(when, list | tuple):
        for part in when:
            yield from _paths(part)


def _has(schema: object, steps: tuple[str | int | None, ...]) -> bool:
    """Whether values of a schema can hold something at a path, as far as the schema says."""
    for step in steps:
        if not isinstance(schema, Mapping):
            return True
        if isinstance(step, int):
            schema = schema.get("items")
            continue
        properties = _properties(schema)
        if properties is None or step is None:
            return True
        if step not in properties:
            return False
        schema = properties[step]
    return True


def _properties(schema: Mapping[str, object]) -> Mapping[str, object] | None:
    properties = schema.get("properties")
    open_ended = schema.get("additionalProperties") not in (None, False)
    return properties if isinstance(properties, Mapping) and not open_ended else None
