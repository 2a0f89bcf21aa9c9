"""What a door is given: is it a call, a result or an event at all, and can it be read once, as it stands?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn

from interlock.base.canonical import NotCanonical
from interlock.engine.event import PHASES, SensorEvent
from interlock.engine.payload import RESULT_KEY, FrozenDict, GivenResult, exact_text, result_args

__all__ = ["checked_args", "checked_event", "checked_name", "checked_result", "checked_text"]


def checked_event(event: SensorEvent) -> SensorEvent:
    """The event with plain texts for names. Raises: TypeError, ValueError, for what is no event."""
    args: object = event.args
    if not isinstance(args, Mapping) or not all(isinstance(key, str) for key in args):
        raise TypeError("args is a mapping from argument names to values")
    if event.phase not in PHASES:
        raise ValueError(f"a phase is {' or '.join(map(repr, PHASES))}")
    return replace(
        event,
        action=checked_name(event.action),
        principal=checked_text("principal", event.principal),
        parent_principal=checked_text("parent_principal", event.parent_principal),
        span_id=checked_text("span_id", event.span_id),
        call_id=checked_text("call_id", event.call_id) or "",
        cwd=checked_text("cwd", event.cwd),
        server_pin=checked_text("server_pin", event.server_pin),
    )


def checked_name(name: object) -> str:
    if not isinstance(name, str) or not exact_text(name):
        raise TypeError("a tool's name is a string that is not empty")
    return exact_text(name)


def checked_text(name: str, text: object) -> str | None:
    if not isinstance(text, str | None):
        raise TypeError(f"{name} is a string or None, not a {type(text).__name__}")
    return None if text is None else exact_text(text)


def checked_args(args: object) -> Mapping[str, object]:
    """One reading of the arguments, so that what is judged is what is handed on, whatever becomes of the caller's.

    Raises: TypeError, for what is no mapping from names to values.
    """
    if type(args) is dict:
        own = args.copy()
        for key in own:
            if type(key) is not str:
                break
        else:
            return own
    if isinstance(args, FrozenDict):
        return args
    if isinstance(args, Mapping) and all(isinstance(key, str) for key in args):
        return _read_once(args)
    raise TypeError("args is a mapping from argument names to values")


def checked_result(result: object) -> Mapping[str, object]:
    """The `args` of a result event; those of an ordinary dict with names for keys are the dict itself.

    An ordinary list or tuple is not copied either: whoever judges it knows how to read it.
    """
    if type(result) is dict and all(type(key) is str for key in result):
        return result
    if type(result) is list or type(result) is tuple:
        return GivenResult({RESULT_KEY: result})
    try:
        return result_args(result)
    except Exception as e:  # noqa: BLE001 - NotCanonical, or whatever a value of the tool's own raises when it is read
        return _Failed(e)


def _read_once(args: Mapping[str, object]) -> Mapping[str, object]:
    """The names as plain texts: one that its class compares in a way of its own would stand beside what a rule sets."""
    try:
        pairs = list(args.items())
        read = {exact_text(name): value for name, value in pairs}
        if len(read) != len(pairs):
            raise NotCanonical("names an argument twice")
        return read
    except Exception as e:  # noqa: BLE001 - whatever a mapping of the caller's own raises when it is read
        return _Failed(e)


class _Failed(dict[str, object]):
    """What could not be read; whoever judges it meets the same error."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def items(self) -> NoReturn:
        raise self._error
