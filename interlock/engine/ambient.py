"""The only global state: which guard is installed in this process, and who is acting in this context."""

from __future__ import annotations

import contextvars
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Final

from interlock.base.clock import Clock, SystemClock
from interlock.engine.approvals import Approver, Scripts, no_scripts
from interlock.engine.decision import Decision
from interlock.engine.evaluate import Evaluator, Outcome, PythonEvaluator
from interlock.engine.event import SensorEvent
from interlock.engine.payload import exact_text

if TYPE_CHECKING:  # what an installed guard is made of; whoever makes one has imported it
    from interlock.engine.flow import FlowTracker
    from interlock.engine.live import LivePolicy
    from interlock.engine.policy.model import Policy
    from interlock.engine.scopes import ScopedEngine
    from interlock.engine.sinks import Sink

__all__ = ["Installed", "Observer", "current_run", "current_span", "find_installed", "install", "installed", "span"]

Observer = Callable[[SensorEvent, Decision], None]


@dataclass(slots=True)
class Installed:
    """One installed guard.

    `told` is where the process hears of trouble that no caller feels: one line, without values. `observer_failures`
    counts observers that raised; nobody feels them. `receipts_dropped` counts receipts that were not kept and that no
    later receipt has told of yet, `monitored` decisions that were only recorded. `scopes` add rules by principal,
    `flow` remembers where values came from. `prover` adds the proof that an allowed call is harmless.
    """

    live: LivePolicy
    sink: Sink
    approver: Approver | None = None
    observers: tuple[Observer, ...] = ()
    told: Callable[[str], object] = lambda line: None
    clock: Clock = field(default_factory=SystemClock)
    observer_failures: int = 0
    receipts_dropped: int = 0
    monitored: int = 0
    evaluator: Evaluator = field(default_factory=PythonEvaluator)
    scripts: Scripts = no_scripts
    scopes: ScopedEngine | None = None
    flow: FlowTracker | None = None
    prover: Callable[[Outcome, Policy], Outcome] | None = None


class span:  # noqa: N801 - reads as a verb: `with span(principal=...):`
    """Ties every guarded call inside to one run of an agent, and says who is acting.

    Use it as `with span(principal="acme/agent42"):`, in ordinary and in async functions. It follows `await` and
    `asyncio.to_thread`, and stays apart between tasks and threads. A thread of your own, or of an executor, begins
    with none: enter the same object there (`with same_span:`), as often and in as many threads as you like. A generator
    shares its caller's context: a span that it holds open over a `yield` is the caller's span meanwhile.

    A span inside another has an id of its own; without `principal` it acts as the outer one does. `parent_principal`
    is who delegated; it is never guessed.
    """

    __slots__ = ("__weakref__", "_outermost", "id", "parent_principal", "principal")

    def __init__(self, principal: str | None = None, parent_principal: str | None = None) -> None:
        given: tuple[object, ...] = (principal, parent_principal)
        if not all(isinstance(name, str | None) for name in given):
            raise TypeError("a principal is a string or None")
        outer = current_span() if principal is None else None
        self.id: Final[str] = os.urandom(8).hex()
        named, behalf = (None if name is None else exact_text(name) for name in (principal, parent_principal))
        self.principal: Final[str | None] = outer.principal if outer else named
        self.parent_principal: Final[str | None] = behalf or (outer.parent_principal if outer else None)
        self._outermost: Final[span | None] = current_run()

    @property
    def run(self) -> span:
        """The outermost span around the place where this one was made: the run of an agent that it belongs to."""
        return self._outermost or self

    def __enter__(self) -> span:
        _ENTERED.set((*_ENTERED.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Generators end in any order, and in contexts where they did not begin: each takes out itself and nothing else.
        entered = _ENTERED.get()
        at = next((i for i in reversed(range(len(entered))) if entered[i] is self), None)
        if at is not None:
            _ENTERED.set(entered[:at] + entered[at + 1 :])

    def __repr__(self) -> str:
        return f"span(id={self.id!r}, principal={self.principal!r}, parent_principal={self.parent_principal!r})"


_ENTERED: Final[contextvars.ContextVar[tuple[span, ...]]] = contextvars.ContextVar("interlock_spans", default=())
_slot: list[Installed] = []


def current_span() -> span | None:
    """The innermost span of this context."""
    entered = _ENTERED.get()
    return entered[-1] if entered else None


def current_run() -> span | None:
    """The span of the whole run that this context is in."""
    entered = _ENTERED.get()
    return entered[0].run if entered else None


def install(guard: Installed | None) -> None:
    """Put a guard in force for the whole process, at once; None takes it away, and then nothing may pass."""
    _slot[:] = [] if guard is None else [guard]


def find_installed() -> Installed | None:
    """The guard in force, if there is one."""
    return _slot[0] if _slot else None


def installed() -> Installed:
    """Raises: RuntimeError, where no guard is installed: nothing is allowed in silence."""
    try:
        return _slot[0]
    except IndexError:
        raise RuntimeError("no guard is installed; call interlock.install(...) first") from None
