"""NativeEvaluator: the rules of a policy that have a plan run natively, the others in Python between them, in order.

Both kinds of rule give opinions to the one fold of `engine.evaluate`. Where the native engine cannot represent a value
of an event (bytes, sets, whole numbers beyond 64 bits, texts that are no Unicode, what nests too deep), the rules'
Python functions judge it: they mean the same. Where it fails, the action is refused. The engine asks no file system:
where a rule has to know where paths lead, it is asked once more and told.
"""

from __future__ import annotations

import importlib
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from interlock.engine.collector import freed_slowly
from interlock.engine.decision import Decision, Verdict
from interlock.engine.evaluate import Evaluator, Judge, Outcome, PythonEvaluator, asking, evaluate, judged
from interlock.engine.event import PHASES, SensorEvent, with_args
from interlock.engine.payload import FrozenDict, FrozenList, frozen_mapping, result_args
from interlock.engine.policy.model import Policy
from interlock.engine.refusals import NATIVE_PANIC, refusal
from interlock.native.availability import availability
from interlock.native.planner import Follow, Planned, Segment, planned

__all__ = ["NativeEvaluator", "chosen_evaluator"]

_ALLOW: Final = Decision.allow()
# Policies that stay compiled, the installed one and those of principals: so many in any case, and more up to so many
# with so many rules together.
_KEPT: Final = (64, 4096, 200_000)
_LONG: Final = 4096  # characters of an argument from which on a call is judged at once by what every answer needs
_WRAPPED: Final = type(result_args(None))  # of the arguments of a result that was no mapping


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A policy with its native part. `alone` are the phases in which no rule runs in Python."""

    policy: Policy
    python: Judge
    plan: Any
    decisions: tuple[Decision | None, ...]
    segments: tuple[Segment, ...]
    size: int
    alone: frozenset[str]
    follow: Follow | None


class NativeEvaluator:
    """Judges as the Python engine does, faster. Safe to share between threads."""

    name = "native"

    def __init__(self) -> None:
        """Raises: ImportError, where the wheel is not there; see `availability`."""
        self._native: Any = importlib.import_module("interlock_native")
        self._kept: OrderedDict[int, _Compiled] = OrderedDict()

    def evaluate(self, policy: Policy, event: SensorEvent) -> Outcome:
        """Judge an event; see `engine.evaluate.Evaluator`. Raises: ValueError, for a phase that does not exist."""
        if event.phase not in PHASES:
            return evaluate(policy, event)
        try:
            compiled = self._kept.get(id(policy)) or self._compiled(policy)
            short = event.phase in compiled.alone and not _holds_much(event.args)
            if short and _opinions(compiled, event, 0, compiled.size) is None:
                return Outcome(_ALLOW, event)
            return _folded(compiled, event)
        except _Failed as e:
            shown = replace(event, args=frozen_mapping({}))
            return Outcome(refusal(NATIVE_PANIC), shown, cause=e.error)

    def passes(
        self, policy: Policy, action: str, args: Mapping[str, object], principal: str | None, cwd: str | None
    ) -> bool:
        """Whether no rule says anything of a call; see `engine.evaluate.Evaluator`."""
        compiled = self._kept.get(id(policy))
        if compiled is None or "call" not in compiled.alone or type(action) is not str or not action:
            return False
        if _holds_much(args):
            return False
        said: object = _said(compiled, 0, compiled.size, True, action, args, False, principal, cwd, (), None)
        return said is None

    def prepare(self, policy: Policy) -> None:
        """Compile a policy before a call needs it. Raises: whatever the native engine raises where it fails."""
        self._compiled(policy)

    def retire(self, policy: Policy) -> None:
        """Let go of what was compiled of a policy, a little at a time."""
        compiled = self._kept.pop(id(policy), None)
        if compiled is not None:
            decisions = list(compiled.decisions)
            del compiled
            freed_slowly(decisions)

    def reasons(self, policy: Policy) -> Mapping[int, str]:
        """Why rules stay with Python, by their positions."""
        return self._built(policy)[0].reasons

    def _compiled(self, policy: Policy) -> _Compiled:
        plan, native = self._built(policy)
        left = [range(s.lo, s.hi) for s in plan.segments if not s.native]
        python = {policy.rules[at].phase for positions in left for at in positions}
        alone = frozenset(PHASES) - python
        compiled = _Compiled(
            policy, asking(policy), native, plan.decisions, plan.segments, len(policy.rules), alone, plan.follow
        )
        self._kept[id(policy)] = compiled  # it holds the policy, so that its id stays its own
        least, most, rules = _KEPT
        while len(self._kept) > least and (
            len(self._kept) > most or sum(kept.size for kept in list(self._kept.values())) > rules
        ):
            self._kept.popitem(last=False)
        return compiled

    def _built(self, policy: Policy) -> tuple[Planned, Any]:
        """The plan and its native form; rules that the native engine refuses stay with Python."""
        plan = planned(policy)
        try:
            return plan, self._made(plan)
        except self._native.BadPlan as e:
            refused = {at: f"the native engine refuses it: {what}" for at, what in e.args[0]}
        plan = planned(policy, refused)
        return plan, self._made(plan)

    def _made(self, plan: Planned) -> Any:
        return self._native.Plan(list(plan.json), list(plan.decisions), FrozenDict, FrozenList, _WRAPPED)


def chosen_evaluator() -> Evaluator:
    """The native evaluator where its wheel is here, fits and is not turned off, else the Python one."""
    return NativeEvaluator() if availability().installed else PythonEvaluator()


class _Failed(Exception):
    """The native engine failed; `error` is what it raised."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__()


def _holds_much(args: Mapping[str, object]) -> bool:
    """Whether a text among the arguments is so long that the rules are asked once only: of a copy, which costs little.

    Of what lies deeper the native engine tells itself, and asks for a copy.
    """
    if not isinstance(args, dict):
        return False
    values = tuple(dict.values(args))  # at once, for another thread may change it
    return any(type(value) is str and len(value) > _LONG for value in values)


def _opinions(compiled: _Compiled, event: SensorEvent, lo: int, hi: int) -> Any:
    """What the native rules from `lo` up to `hi` say; NotImplemented where Python has to judge. Raises: _Failed."""
    asked = (
        lo,
        hi,
        hi == compiled.size,
        event.action,
        event.args,
        event.phase == "result",
        event.principal,
        event.cwd,
        event.origins,
        event.server_pin,
    )
    try:
        said = _said(compiled, *asked)
    except Exception as e:
        raise _Failed(e) from e
    return said if type(said) is not tuple else NotImplemented


def _said(compiled: _Compiled, *asked: object) -> Any:
    """What the plan says; where it answers paths instead, what it says once it is told where they lead."""
    said = compiled.plan.opinions(*asked, None)
    return compiled.plan.opinions(*asked, _links(compiled, said)) if type(said) is tuple else said


def _links(compiled: _Compiled, paths: tuple[str, ...]) -> dict[str, str] | None:
    """Where paths lead; None where that fails: the rules' own functions meet it again, and say so in their words."""
    try:
        return {path: compiled.follow(path) for path in paths} if compiled.follow else None
    except Exception:  # noqa: BLE001 - whatever the caller's own function raises
        return None


def _folded(compiled: _Compiled, event: SensorEvent) -> Outcome:
    """The outcome where somebody objects, or where Python has to judge; over read-only arguments."""
    policy = compiled.policy
    try:
        args = frozen_mapping(event.args)
    except Exception:  # noqa: BLE001 - whatever the caller's own mapping raises; Python says it in the words for it
        return evaluate(policy, event)
    event = event if args is event.args else with_args(event, args)
    return judged(policy, event, lambda positions, seen: _judge(compiled, positions, seen))


def _judge(compiled: _Compiled, positions: range, event: SensorEvent) -> Iterator[tuple[int, object]]:
    """The opinions of the rules at some positions, native and Python, in order; the native rules are asked once."""
    said = _opinions(compiled, event, positions.start, positions.stop)
    if said is NotImplemented:
        yield from compiled.python(positions, event)
        return
    native = deque(said or ())
    for segment in compiled.segments:
        if segment.native:
            continue
        lo, hi = max(segment.lo, positions.start), min(segment.hi, positions.stop)
        yield from _up_to(lo, native, event)
        if lo < hi:
            yield from compiled.python(range(lo, hi), event)
    yield from _up_to(positions.stop, native, event)


def _up_to(end: int, native: deque[tuple[int, Any]], event: SensorEvent) -> Iterator[tuple[int, object]]:
    """Take what native rules before a position say."""
    while native and native[0][0] < end:
        at, opinion = native.popleft()
        yield at, opinion if isinstance(opinion, Decision) else _decision(opinion, event)


def _decision(said: tuple[int, str, str | None, str | None, Any], event: SensorEvent) -> Decision:
    verdict, reason, policy_id, attributed_to, changes = said
    if verdict != Verdict.MODIFY:
        return Decision(Verdict(verdict), reason, policy_id, attributed_to)
    if event.phase == "result":
        return Decision.modify_result(changes, reason, policy_id, attributed_to)
    return Decision.modify(changes, reason, policy_id, attributed_to)
