"""Names of tools across frameworks: what one calls Bash, another calls shell or run_shell_command.

The table is aliases.json: under "tools", each list holds the names of one tool. A name given outright in an action
test (as a text without `*`, `?` and `[`, in `equals` or in `in`) stands for all the names of its tool; a glob, a regex
and the other operators read the name that the event has. `"raw": true` in the test takes every name at its word.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
from collections.abc import Mapping

__all__ = ["names_of", "widened"]


def names_of(name: str) -> tuple[str, ...]:
    """A tool's name and those that other frameworks have for it, the given one first."""
    family = _families().get(name)
    return (name,) if family is None else (name, *(other for other in family if other != name))


def widened(test: object) -> object:
    """A test of actions in its document form, with each name given outright joined by its aliases."""
    if isinstance(test, str):
        names = () if any(sign in test for sign in "*?[") else names_of(test)
        return {"in": list(names)} if len(names) > 1 else test
    if not isinstance(test, dict) or test.get("raw") is True:
        return test
    wide = dict(test)
    if isinstance(wide.get("in"), list | tuple):
        wide["in"] = [name for one in wide["in"] for name in _each(one)]
    if isinstance(name := wide.get("equals"), str) and len(names_of(name)) > 1 and "in" not in wide:
        del wide["equals"]
        wide["in"] = list(names_of(name))
    return wide


def _each(choice: object) -> tuple[object, ...]:
    return names_of(choice) if isinstance(choice, str) else (choice,)


@functools.cache
def _families() -> Mapping[str, tuple[str, ...]]:
    data = importlib.resources.files("interlock.engine.policy").joinpath("aliases.json").read_bytes()
    return {name: tuple(names) for names in json.loads(data)["tools"].values() for name in names}
