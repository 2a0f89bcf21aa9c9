"""The only doors into the guard: every interceptor comes through here, with a call and then with its result.

Order, each time: take over a changed policy, evaluate, settle, write the receipt (a failed write refuses the action),
tell the observers (their failures are counted and not felt), and only then go on or raise.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from interlock.base.canonical import encode
from interlock.engine.ambient import Installed, current_span, installed
from interlock.engine.approvals import ask
from interlock.engine.decision import Decision, Verdict
from interlock.engine.evaluate import Outcome, unreadable
from interlock.engine.event import PHASES, Phase, SensorEvent
from interlock.engine.payload import frozen_mapping, result_args
from interlock.engine.policy.model import Policy
from interlock.engine.receipts import Receipt, label
from interlock.engine.refusals import CHANGED, NO_RECEIPT, refusal
from interlock.engine.settle import Blocked, Ending, Enforcement, Settled, settle

__all__ = ["decide", "enforce_tool_call", "enforce_tool_result", "new_call_id"]

# how a decision ends where a host, and not this process, acts on it
_HANDED_OVER: Final[dict[Verdict, Ending]] = {
    Verdict.ALLOW: "proceeded",
    Verdict.MODIFY: "rewritten",
    Verdict.ESCALATE: "asked",
    Verdict.BLOCK: "blocked",
}


def enforce_tool_call(
    name: str,
    args: Mapping[str, object],
    *,
    principal: str | None = None,
    parent_principal: str | None = None,
    enforcement: Enforcement = "blocking",
    cwd: str | None = None,
    call_id: str | None = None,
) -> dict[str, object]:
    """Judge a call before it runs; returns the arguments to run it with, in a new dict.

    Values that no rule set are the caller's own objects; nothing is changed in place. `principal` is by default that
    of the surrounding span. `call_id` ties the call's receipt to its result's.
    Raises: Blocked, NotApproved; RuntimeError where no guard is installed; TypeError, ValueError for misuse.
    """
    _check_args(args)
    event = _event(name, "call", principal, parent_principal, cwd, call_id)
    going = _through(event, args, enforcement)
    assert isinstance(going, Mapping)
    return dict(going)


def enforce_tool_result(
    name: str,
    result: object,
    *,
    principal: str | None = None,
    parent_principal: str | None = None,
    enforcement: Enforcement = "blocking",
    cwd: str | None = None,
    call_id: str | None = None,
) -> object:
    """Judge what a tool returned before the agent sees it; returns it, or what a rule put in its place.

    The tool has run: a block keeps its output back and undoes nothing.
    Raises: Blocked, NotApproved; RuntimeError where no guard is installed; TypeError, ValueError for misuse.
    """
    return _through(_event(name, "result", principal, parent_principal, cwd, call_id), result, enforcement)


def decide(event: SensorEvent) -> Outcome:
    """The lower door, for a host that acts on the decision itself (a coding agent's hook): judge, record, tell.

    Never raises Blocked: what would be one, a receipt that cannot be written included, is an Outcome that blocks.
    A missing call id, time or span is filled in.
    Raises: RuntimeError where no guard is installed; TypeError, ValueError for what is no event.
    """
    _check_event(event)
    guard = installed()
    started = time.perf_counter_ns()
    event = _completed(event)
    outcome, policy, epoch, encoded = _judged(guard, event, event.args)
    settled = Settled(_HANDED_OVER[outcome.decision.verdict])
    failure = _record(guard, _receipt(outcome, settled, policy, epoch, started), encoded)
    if failure is not None:
        return replace(outcome, decision=_no_receipt(failure), cause=failure, decider=None)
    _tell(guard, event, outcome.decision)
    return outcome


def new_call_id() -> str:
    """16 random hex digits."""
    return os.urandom(8).hex()


def _event(
    name: str, phase: Phase, principal: str | None, parent_principal: str | None, cwd: str | None, call_id: str | None
) -> SensorEvent:
    _check_name(name)
    _check_texts(principal=principal, parent_principal=parent_principal, cwd=cwd, call_id=call_id)
    return _completed(
        SensorEvent(
            action=name,
            args={},
            phase=phase,
            principal=principal,
            parent_principal=parent_principal,
            call_id=call_id or "",
            cwd=cwd,
        )
    )


def _check_event(event: SensorEvent) -> None:
    _check_name(event.action)
    _check_args(event.args)
    if event.phase not in PHASES:
        raise ValueError(f"a phase is {' or '.join(map(repr, PHASES))}")
    names = ("principal", "parent_principal", "span_id", "call_id", "cwd")
    _check_texts(**{name: getattr(event, name) for name in names})


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise TypeError("a tool's name is a string that is not empty")


def _check_texts(**texts: object) -> None:
    for name, text in texts.items():
        if not isinstance(text, str | None):
            raise TypeError(f"{name} is a string or None, not a {type(text).__name__}")


def _check_args(args: object) -> None:
    if not isinstance(args, Mapping) or not all(isinstance(key, str) for key in args):
        raise TypeError("args is a mapping from argument names to values")


def _completed(event: SensorEvent) -> SensorEvent:
    here = current_span()
    return replace(
        event,
        principal=event.principal or (here.principal if here else None),
        parent_principal=event.parent_principal or (here.parent_principal if here else None),
        span_id=event.span_id or (here.id if here else None),
        call_id=event.call_id or new_call_id(),
        ts_us=event.ts_us or installed().clock.now_us(),
    )


def _through(event: SensorEvent, original: object, enforcement: Enforcement) -> object:
    """A call or a result through the guard; returns what to go on with. Raises: Blocked, NotApproved."""
    guard = installed()
    started = time.perf_counter_ns()
    outcome, policy, epoch, encoded = _judged(guard, event, original)
    settled = settle(outcome, original, enforcement=enforcement, approve=lambda o: ask(guard.approver, o))
    if settled.approval is not None and settled.refusal is None:
        settled = _unchanged(settled, event, original, encoded)
    failure = _record(guard, _receipt(outcome, settled, policy, epoch, started), encoded)
    if failure is not None and enforcement == "blocking":
        raise Blocked(_no_receipt(failure), event.action) from failure
    _tell(guard, _with_payload(event, original, outcome), outcome.decision)
    return settled.released()


def _judged(guard: Installed, event: SensorEvent, original: object) -> tuple[Outcome, Policy, int, bytes | None]:
    """Evaluate under the policy in force; also gives that policy, its epoch, and the encoding of what was judged."""
    guard.live.refresh()
    policy, epoch = guard.live.state
    encoded: bytes | None = None
    try:
        args = _payload(event.phase, original)
        event = replace(event, args=args)
        encoded = encode(args)
    except Exception as e:  # noqa: BLE001 - NotCanonical; or whatever a mapping of the caller's own raises when read
        # A result that nobody judges may be any object; whatever a rule would judge has to be readable.
        if event.phase == "call" or any(rule.phase == "result" for rule in policy.rules):
            given = original if event.phase == "call" and isinstance(original, Mapping) else {}
            return unreadable(replace(event, args=given), e), policy, epoch, None
        return Outcome(Decision.allow(), event), policy, epoch, None
    return guard.evaluator.evaluate(policy, event), policy, epoch, encoded


def _payload(phase: Phase, original: object) -> Mapping[str, object]:
    if phase == "result":
        return result_args(original)
    assert isinstance(original, Mapping)
    return frozen_mapping(original)


def _unchanged(settled: Settled, event: SensorEvent, original: object, encoded: bytes | None) -> Settled:
    """While a person decides, time passes: what they approved is what goes on, or nothing does."""
    try:
        same = encode(_payload(event.phase, original)) == encoded
    except Exception:  # noqa: BLE001 - as in _judged
        same = False
    if same:
        return settled
    return replace(settled, ending="blocked", refusal=Blocked(refusal(CHANGED), event.action), value=None)


def _with_payload(event: SensorEvent, original: object, outcome: Outcome) -> SensorEvent:
    """The event as it was before any rewrite, for observers."""
    if not outcome.rewritten:
        return outcome.event
    return replace(event, args=_payload(event.phase, original))


def _receipt(outcome: Outcome, settled: Settled, policy: Policy, epoch: int, started_ns: int) -> Receipt:
    event, decision, rule, approval = outcome.event, outcome.decision, outcome.decider, settled.approval
    return Receipt(
        ts_us=event.ts_us,
        call_id=label(event.call_id) or "",
        action=label(event.action) or "",
        phase=event.phase,
        verdict=decision.verdict.name,
        outcome=settled.ending,
        policy_epoch=epoch,
        policy_digest=policy.digest,
        elapsed_us=(time.perf_counter_ns() - started_ns) // 1000,
        policy_id=label(decision.policy_id),
        rule=label(rule.id) if rule else None,
        attributed_to=label(decision.attributed_to),
        principal=label(event.principal),
        parent_principal=label(event.parent_principal),
        span_id=label(event.span_id),
        pack_digest=rule.source.pack_digest if rule else None,
        log_index=rule.source.log_index if rule else None,
        approval=None if approval is None else "yes" if approval.approved else "no",
        approved_by=label(approval.by) or None if approval else None,
    )


def _record(guard: Installed, receipt: Receipt, encoded: bytes | None) -> Exception | None:
    """Write a receipt; returns what went wrong."""
    try:
        digest = None if encoded is None else guard.sink.args_digest(encoded)
        guard.sink.append(replace(receipt, args_digest=digest))
    except Exception as e:  # noqa: BLE001 - whatever a sink raises, the receipt is not kept
        guard.told(f"receipt not written: {type(e).__name__}")
        return e
    return None


def _no_receipt(error: Exception) -> Decision:
    return refusal(NO_RECEIPT, error=type(error).__name__)


def _tell(guard: Installed, event: SensorEvent, decision: Decision) -> None:
    for observer in guard.observers:
        try:
            observer(event, decision)
        except Exception:  # noqa: BLE001 - an observer's failure is counted, never felt
            guard.observer_failures += 1
