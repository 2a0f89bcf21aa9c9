"""Sinks: the places that values must not reach, and whether a value of a source flows to one.

A sink is an argument path ("body", "args.to[0].name"), of one action or of many where a glob of the action's name and
a dot stand before it ("http_post.body", "mail_*.to[*]"). Where a text can be read in both ways, it means both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final, TypeAlias

from interlock.engine.event import Origin, SensorEvent
from interlock.engine.policy.glob import compile_glob
from interlock.engine.policy.regex_syntax import BadPattern
from interlock.engine.sources import UNKNOWN

__all__ = ["Sink", "flows", "readings_of"]

MAX_SINK: Final = 1000  # characters

_Step: TypeAlias = str | int  # a key or an index; _ANY is any of them
_ANY: Final = "*"
_STEP: Final = re.compile(r'\.?([^.\[\]"]+)|\[(\*|[0-9]{1,9})\]|\[("(?:[^"\\]|\\.)*")\]')
_ARGS: Final = "args."
_QUOTED: Final = 'args["'


@dataclass(frozen=True, slots=True)
class Sink:
    """A place that values flow to: `text` as a policy writes it. Raises: ValueError, for what is no such place."""

    text: str
    _readings: tuple[tuple[Callable[[str], bool] | None, tuple[_Step, ...]], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.text) > MAX_SINK:
            raise ValueError(f"a sink has at most {MAX_SINK} characters")
        try:
            readings = [(compile_glob(action) if action else None, path) for action, path in readings_of(self.text)]
        except BadPattern as e:
            raise ValueError(f"a sink's action: {e}") from None
        if not readings:
            raise ValueError('a sink is an argument path ("body", "to[0].name"), or ACTION.PATH ("http_post.body")')
        object.__setattr__(self, "_readings", tuple(readings))

    def holds(self, event: SensorEvent, path: str) -> bool:
        """Whether what stands at an argument path of this event is the sink, a part of it, or holds it."""
        steps = _steps(path)
        return any(
            (action is None or action(event.action)) and (steps is None or _meet(steps, wanted))
            for action, wanted in self._readings
        )


def readings_of(sink: str) -> list[tuple[str, tuple[str | int, ...]]]:
    """The ways to read a sink: a glob of the action ("" is any action) and the steps of an argument path."""
    found: list[tuple[str, tuple[_Step, ...]]] = []
    outright = sink.startswith((_ARGS, _QUOTED))
    if whole := _steps(sink.removeprefix(_ARGS) if not sink.startswith(_QUOTED) else sink[len(_ARGS) - 1 :]):
        found.append(("", whole))
    for dot in (m.start() for m in re.finditer(r"\.", sink)):
        path = _steps(sink[dot + 1 :])
        if path and dot > 0 and sink[dot - 1] != "." and not outright:
            found.append((sink[:dot], path))
    return found


def flows(event: SensorEvent, source_matches: Callable[[str], bool], sink: Sink | None = None) -> Origin | None:
    """The first origin of this event that matches and stands at the sink (None: anywhere in it), or None.

    Its `path` is what a decision is attributed to ("" for the whole event). An origin that is UNKNOWN matches.
    """
    for origin in event.origins:
        of_source = origin.source == UNKNOWN or source_matches(origin.source)
        if of_source and (sink is None or sink.holds(event, origin.path)):
            return origin
    return None


def _steps(path: str) -> tuple[_Step, ...] | None:
    """The steps of a path; None where it is none. The empty path has none and is above all others."""
    steps: list[_Step] = []
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None or (found[1] and (found[0][0] == ".") != bool(steps)):
            return None
        at = found.end()
        steps.append(_step(found))
    return tuple(steps)


def _step(found: re.Match[str]) -> _Step:
    name, index, quoted = found.groups()
    if quoted is not None:
        try:
            key = str(json.loads(quoted))
            key.encode("utf-8")
        except ValueError:
            return _ANY  # a key that cannot be read, or is no text, may be any
        return key
    return name or (_ANY if index == "*" else int(index))


def _meet(a: tuple[_Step, ...], b: tuple[_Step, ...]) -> bool:
    """Whether one path is the other or leads to it."""
    return all(x is None or y is None or x == y or _ANY in (x, y) for x, y in zip_longest(a, b))
