"""Paths to arguments: `command`, `a.b[0].c`, `a.*`, `a[*]`, `a["key with.dots"]`, all also with `args.` before them.

    name        the value under that key of a mapping
    .*          every value of a mapping
    [0]         that element of a list (from 0)
    [*]         every element of a list
    ["name"]    the value under a key that holds a dot or a bracket

A path starts from the arguments, whether or not it says `args.` first (and `args["x.y"]` is the argument of that name);
to what lies under an argument that is itself called args it begins with `args.args.`. It reads mappings and lists only,
never an attribute of an object. Where it leads nowhere it yields nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from interlock.engine.policy.problems import BadPolicy, CannotJudge

__all__ = ["MAX_REACHED", "MAX_STEPS", "compile_path", "one_spelling", "path_steps"]

MAX_STEPS: Final = 32  # steps in a path
MAX_REACHED: Final = 100_000  # values that one path may reach in one event, where no other limit is given

_Step: TypeAlias = str | int | None  # a key, an index, or every value of a mapping
_EVERY_ELEMENT: Final = -1
_SIGNS: Final = frozenset(".[]")


def compile_path(path: str, where: str, most: int = MAX_REACHED) -> Callable[[Mapping[str, object]], Iterator[object]]:
    """A function that yields the values at a path. Raises: BadPolicy; the function raises CannotJudge."""
    steps = path_steps(path, where)
    if len(steps) == 1 and isinstance(name := steps[0], str):
        return lambda args: iter((args[name],) if name in args else ())

    def values(args: Mapping[str, object]) -> Iterator[object]:
        level: list[object] = [args]
        for step in steps:
            level = _next_level(level, step, path, most)
        return iter(level)

    return values


def path_steps(path: str, where: str) -> tuple[_Step, ...]:
    """The steps of a path, without a leading `args`. Raises: BadPolicy."""
    if path.isidentifier():
        return (path,)
    steps = _parsed(path, where)
    if len(steps) > 1 and path.startswith(("args.", 'args["')):
        steps = steps[1:]
    if len(steps) > MAX_STEPS:
        raise BadPolicy(f"path has more than {MAX_STEPS} steps", where=where)
    return steps


def one_spelling(path: str) -> str:
    """A path as it is spelt where only one spelling is wanted: without `args.`, with brackets where a name needs them.

    Raises: BadPolicy.
    """
    return path if path.isidentifier() else "".join(map(_spelt, path_steps(path, ""))).removeprefix(".")


def _spelt(step: _Step) -> str:
    if step is None:
        return ".*"
    if isinstance(step, int):
        return "[*]" if step == _EVERY_ELEMENT else f"[{step}]"
    return f".{step}" if step and step != "*" and not _SIGNS & set(step) else f"[{json.dumps(step)}]"


def _next_level(level: list[object], step: _Step, path: str, most: int) -> list[object]:
    out: list[object] = []
    for value in level:
        for held in _taken(value, step):
            out.append(held)
            if len(out) > most:
                raise CannotJudge(f"path leads to more than {most} values", where=f"argument {path}")
    return out


def _taken(value: object, step: _Step) -> Iterable[object]:
    if isinstance(value, Mapping):
        if step is None:
            return value.values()
        return (value[step],) if isinstance(step, str) and step in value else ()
    if isinstance(value, list | tuple) and isinstance(step, int):
        if step == _EVERY_ELEMENT:
            return value
        return value[step : step + 1]
    if isinstance(value, set | frozenset) and step == _EVERY_ELEMENT:
        return value
    return ()


def _parsed(path: str, where: str) -> tuple[_Step, ...]:
    steps: list[_Step] = []
    at = 0
    while at < len(path) or not steps:
        if path.startswith("[", at) and steps:
            step, at = _bracket(path, at, where)
            steps.append(step)
            continue
        if steps:
            if path[at] != ".":
                raise _bad(path, at, where)
            at += 1
        end = at
        while end < len(path) and path[end] not in ".[]":
            end += 1
        if end == at:
            raise _bad(path, at, where)
        steps.append(None if path[at:end] == "*" else path[at:end])
        at = end
    return tuple(steps)


def _bracket(path: str, at: int, where: str) -> tuple[_Step, int]:
    if path.startswith("[*]", at):
        return _EVERY_ELEMENT, at + 3
    if path.startswith('["', at):
        try:
            name, length = json.JSONDecoder().raw_decode(path[at + 1 :])
        except ValueError:
            raise _bad(path, at, where) from None
        end = at + 1 + length
        if path.startswith("]", end):
            return str(name), end + 1
        raise _bad(path, end, where)
    end = path.find("]", at)
    digits = path[at + 1 : end]
    if end < 0 or not digits.isascii() or not digits.isdigit() or len(digits) > 9:
        raise _bad(path, at, where)
    return int(digits), end + 1


def _bad(path: str, at: int, where: str) -> BadPolicy:
    return BadPolicy(
        f"is not a path (character {at + 1})", where=where, fix='write it like command, a.b[0].c, a.*, a[*] or a["x.y"]'
    )
