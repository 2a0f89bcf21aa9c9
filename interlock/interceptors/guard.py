"""`@guard` and `@monitor`: a function whose calls and results pass through the guard."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from interlock.engine.approvals import Approver
from interlock.engine.event import Origin
from interlock.engine.refusals import MISFIT, refusal
from interlock.engine.settle import Blocked, Enforcement
from interlock.engine.sources import checked_origins
from interlock.interceptors.enforce import Origins, enforce_tool_call, enforce_tool_result, new_call_id

__all__ = ["guard", "monitor"]

F = TypeVar("F", bound=Callable[..., Any])


@overload
def guard(function: F, /) -> F: ...
@overload
def guard(
    *,
    name: str | None = None,
    principal: str | None = None,
    enforcement: Enforcement = "blocking",
    origins: Origins = (),
    server_pin: str | None = None,
    on_escalate: Approver | None = None,
) -> Callable[[F], F]: ...
def guard(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    principal: str | None = None,
    enforcement: Enforcement = "blocking",
    origins: Origins = (),
    server_pin: str | None = None,
    on_escalate: Approver | None = None,
) -> F | Callable[[F], F]:
    """Guard a tool: `@guard`, or with `name`, `principal`, `enforcement`, `origins`, `server_pin`, `on_escalate`.

    Rules see the arguments by parameter name, defaults filled in, keyword extras (`**kwargs`) as arguments of their
    own, `*args` as one argument; a method's own object or class is left out. The function gets what rules set.
    Ordinary and async functions are guarded; a generator is refused, since its result cannot be judged whole. The
    guard itself is not asynchronous: an approver that waits for a person holds up the event loop that calls it.
    `origins` say where the arguments of every call come from; `on_escalate` is asked in place of the installed
    approver, before the function runs and again of its result where a rule escalates that. `server_pin` is the digest
    of the tool's definition as its MCP server was pinned: an approval holds for no other.
    Raises, when decorating: TypeError.
    """

    how = _How(name, principal, enforcement, checked_origins(origins), server_pin, on_escalate)

    def decorate(f: F) -> F:
        guarded: F = _guarded(f, how)
        return guarded

    return decorate if function is None else decorate(function)


@overload
def monitor(function: F, /) -> F: ...
@overload
def monitor(*, name: str | None = None, principal: str | None = None) -> Callable[[F], F]: ...
def monitor(
    function: F | None = None, /, *, name: str | None = None, principal: str | None = None
) -> F | Callable[[F], F]:
    """`@guard(enforcement="monitor")`: judges and records, never blocks or rewrites."""

    how = _How(name, principal, "monitor")

    def decorate(f: F) -> F:
        guarded: F = _guarded(f, how)
        return guarded

    return decorate if function is None else decorate(function)


@dataclass(frozen=True, slots=True)
class _How:
    """How a function is guarded, as the decorator was told."""

    name: str | None
    principal: str | None
    enforcement: Enforcement
    origins: tuple[Origin, ...] = ()
    server_pin: str | None = None
    on_escalate: Approver | None = None


def _guarded(function: Any, how: _How) -> Any:
    if isinstance(function, staticmethod | classmethod):
        return type(function)(_guarded(function.__func__, how))
    door = _Door(_Binding(function), how.name or _name_of(function), how)
    wrapper = _async_wrapper(function, door) if inspect.iscoroutinefunction(function) else _wrapper(function, door)
    return functools.wraps(function)(wrapper)


def _name_of(function: Any) -> str:
    _refuse_unguardable(function)
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        raise TypeError(f"a {type(function).__name__} has no name of its own; use @guard(name=...)")
    return name


def _refuse_unguardable(function: Any) -> None:
    if inspect.isclass(function) or not callable(function):
        raise TypeError("@guard goes on a function")
    runs = (function, type(function).__call__)  # what a callable object runs is its class's
    if any(inspect.isgeneratorfunction(f) or inspect.isasyncgenfunction(f) for f in runs):
        raise TypeError("@guard cannot judge a generator's result whole; guard a function that returns a list")


def _wrapper(function: Any, door: _Door) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        call_id = new_call_id()
        args, kwargs = door.call(args, kwargs, call_id)
        result = function(*args, **kwargs)
        if inspect.iscoroutine(result):  # a plain function that hands on a coroutine: judge what it will give
            return _awaited(result, door, call_id)
        return door.result(result, call_id)

    return call


def _async_wrapper(function: Any, door: _Door) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        call_id = new_call_id()
        args, kwargs = door.call(args, kwargs, call_id)
        return door.result(await function(*args, **kwargs), call_id)

    return call


async def _awaited(result: Awaitable[object], door: _Door, call_id: str) -> object:
    return door.result(await result, call_id)


@dataclass(frozen=True, slots=True)
class _Door:
    """Both phases of one guarded function."""

    binding: _Binding
    name: str
    how: _How

    def call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], call_id: str
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Judge a call; returns how to make it. Raises: Blocked, NotApproved; TypeError as a plain call would."""
        named = self.binding.quickly_named(args, kwargs)
        if named is None:
            named = self.binding.named(self.binding.bound(args, kwargs))
        going = enforce_tool_call(
            self.name,
            named,
            principal=self.how.principal,
            enforcement=self.how.enforcement,
            call_id=call_id,
            origins=self.how.origins,
            server_pin=self.how.server_pin,
            on_escalate=self.how.on_escalate,
        )
        if len(going) == len(named) and all(going.get(key, going) is named[key] for key in named):
            return args, kwargs  # nothing was set: the call is made as it came
        try:
            return self.binding.rebound(self.binding.bound(args, kwargs), going)
        except TypeError as e:
            raise Blocked(refusal(MISFIT, action=self.name, what=e), self.name) from e

    def result(self, result: object, call_id: str) -> object:
        return enforce_tool_result(
            self.name,
            result,
            principal=self.how.principal,
            enforcement=self.how.enforcement,
            call_id=call_id,
            server_pin=self.how.server_pin,
            on_escalate=self.how.on_escalate,
        )


class _Binding:
    """How a function's parameters become named arguments, and how those become a call again."""

    def __init__(self, function: Any) -> None:
        _refuse_unguardable(function)
        try:
            self._signature = inspect.signature(function)
        except ValueError:
            raise TypeError(
                "@guard needs a function whose parameters can be seen; wrap this one in one of yours"
            ) from None
        kinds = {p.kind: p.name for p in self._signature.parameters.values()}
        self._extras = kinds.get(inspect.Parameter.VAR_KEYWORD)
        self._star = kinds.get(inspect.Parameter.VAR_POSITIONAL)
        first = next(iter(self._signature.parameters), None)
        self._receiver = first if first in ("self", "cls") else None
        self._plain = kinds.keys() == {inspect.Parameter.POSITIONAL_OR_KEYWORD}
        self._defaults = [(p.name, p.default) for p in self._signature.parameters.values()]

    def quickly_named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, object] | None:
        """The named arguments of a call by position, or None where it takes the long way to know them."""
        if kwargs or not self._plain or len(args) > len(self._defaults):
            return None
        named: dict[str, object] = {}
        for i, (name, default) in enumerate(self._defaults):
            if i >= len(args) and default is inspect.Parameter.empty:
                return None
            value = args[i] if i < len(args) else default
            if name != self._receiver or _is_data(value):
                named[name] = value
        return named

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound

    def named(self, bound: inspect.BoundArguments) -> dict[str, object]:
        """Raises: TypeError, where a keyword extra has the name of a parameter."""
        named = {k: v for k, v in bound.arguments.items() if self._is_judged(k, v)}
        extras: Mapping[str, object] = bound.arguments[self._extras] if self._extras else {}
        for key, value in extras.items():
            if key in named or key == self._receiver:
                raise TypeError(f"argument {key!r} is given twice, and the guard cannot tell which is meant")
            named[key] = value
        return named

    def _is_judged(self, name: str, value: object) -> bool:
        """Whether a parameter is an argument of the tool: not the object that a method is of, and not the extras."""
        return name != self._extras and (name != self._receiver or _is_data(value))

    def rebound(
        self, bound: inspect.BoundArguments, going: Mapping[str, object]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Raises: TypeError, where a rule set what the function does not take."""
        rest = dict(going)
        for name, value in bound.arguments.items():
            if self._is_judged(name, value):
                bound.arguments[name] = rest.pop(name)
        if self._star and not isinstance(bound.arguments[self._star], list | tuple):
            raise TypeError(f"argument {self._star!r} has to be a list")
        if self._extras:
            bound.arguments[self._extras] = rest
        elif rest:
            raise TypeError(f"unexpected argument {sorted(rest)[0]!r}")
        return bound.args, bound.kwargs


def _is_data(value: object) -> bool:
    """Whether what stands for `self` or `cls` is no object with methods of ours, but a value that somebody passes."""
    return value is None or isinstance(value, str | int | float | bytes) or type(value) in (dict, list, tuple, set)
