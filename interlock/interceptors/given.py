"""What a door is given: is it a call, a result or an event at all, and can it be read once, as it stands?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from interlock.engine.event import PHASES, SensorEvent
from interlock.engine.payload import FrozenDict, result_args

__all__ = ["check_event", "check_name", "check_texts", "checked_args", "checked_result"]


def check_event(event: SensorEvent) -> None:
    check_name(event.action)
    checked_args(event.args)
    if event.phase not in PHASES:
        raise ValueError(f"a phase is {' or '.join(map(repr, PHASES))}")
    names = ("principal", "parent_principal", "span_id", "call_id", "cwd")
    check_texts(**{name: getattr(event, name) for name in names})


def check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise TypeError("a tool's name is a string that is not empty")


def check_texts(**texts: object) -> None:
    for name, text in texts.items():
        if not isinstance(text, str | None):
            raise TypeError(f"{name} is a string or None, not a {type(text).__name__}")


def checked_args(args: object) -> Mapping[str, object]:
    """Arguments as the caller gave them, where they are an ordinary dict; else one reading of them.

    A mapping of the caller's own is read once, so that what is judged is what is handed on.
    Raises: TypeError, for what is no mapping from names to values.
    """
    if type(args) is dict:
        for key in args:
            if type(key) is not str and not isinstance(key, str):
                break
        else:
            return args
    elif isinstance(args, Mapping) and all(isinstance(key, str) for key in args):
        return args if isinstance(args, FrozenDict) else _read_once(args)
    raise TypeError("args is a mapping from argument names to values")


def checked_result(result: object) -> Mapping[str, object]:
    """The `args` of a result event; those of an ordinary dict with names for keys are the dict itself."""
    if type(result) is dict and all(type(key) is str for key in result):
        return result
    try:
        return result_args(result)
    except Exception as e:  # noqa: BLE001 - NotCanonical, or whatever a value of the tool's own raises when it is read
        return _Failed(e)


def _read_once(args: Mapping[str, object]) -> Mapping[str, object]:
    try:
        return dict(args.items())
    except Exception as e:  # noqa: BLE001 - whatever a mapping of the caller's own raises when it is read
        return _Failed(e)


class _Failed(dict[str, object]):
    """What could not be read; whoever judges it meets the same error."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def items(self) -> NoReturn:
        raise self._error
