"""The only doors into the guard: every interceptor comes through here, with a call and then with its result.

Order, each time: take over a changed policy, evaluate, settle, write the receipt (a failed write refuses the action),
tell the observers (their failures are counted and not felt), and only then go on or raise.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from interlock.base.canonical import encode
from interlock.base.errors import InterlockError
from interlock.engine.ambient import Installed, current_run, current_span, installed, span
from interlock.engine.approvals import Approval, Approver, ask
from interlock.engine.decision import Decision, Verdict
from interlock.engine.evaluate import Outcome, unreadable
from interlock.engine.event import Origin, Phase, SensorEvent, event_of, with_args
from interlock.engine.mutex import Mutex
from interlock.engine.payload import GivenResult, frozen_mapping, result_of, unchanged
from interlock.engine.policy.model import Policy
from interlock.engine.record import receipt_of
from interlock.engine.refusals import (
    CHANGED,
    NATIVE_PANIC,
    NO_POLICY,
    NO_RECEIPT,
    NO_SCOPE,
    UNKNOWN_VERDICT,
    reason_of,
    refusal,
)
from interlock.engine.settle import Blocked, Ending, Enforcement, NotApproved, Settled, check_enforcement, settle
from interlock.engine.sources import checked_origins, origin_for_principal, origin_for_tool
from interlock.interceptors.given import checked_args, checked_event, checked_name, checked_result, checked_text

__all__ = ["Origins", "decide", "enforce_tool_call", "enforce_tool_result", "new_call_id"]

# Where values came from, as a caller may say it: sources of the whole call, Origin values, or argument path -> sources.
Origins = Iterable[Origin | str] | Mapping[str, str | Iterable[str]]

_NO_RULES: Final = Policy((), "")
_COUNTING: Final = Mutex()
_AS_GIVEN: Final = (dict, GivenResult)  # arguments that an evaluator may read without a copy
# how a decision ends where a host, and not this process, acts on it; a verdict that is not here is refused
_HANDED_OVER: Final[Mapping[object, Ending]] = {
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
    origins: Origins = (),
    server_pin: str | None = None,
    on_escalate: Approver | None = None,
) -> dict[str, object]:
    """Judge a call before it runs; returns the arguments to run it with, in a new dict.

    Values that no rule set are the caller's own objects; nothing is changed in place. `principal` is by default that
    of the surrounding span. `call_id` ties the call's receipt to its result's. `origins` say which tools or principals
    values came from. `server_pin` is the digest of the tool's definition as its MCP server was pinned: an approval
    holds for no other. `on_escalate` is asked in place of the installed approver.
    Raises: Blocked, NotApproved; RuntimeError where no guard is installed; TypeError, ValueError for misuse.
    """
    guard = installed()
    plain = parent_principal is None and call_id is None and server_pin is None and not origins
    if plain and type(args) is dict and _unwatched(guard):
        own = dict(args)  # what is judged is what is handed on, whatever becomes of the caller's
        if enforcement == "blocking" and _passes(guard, name, own, principal, cwd):
            return own
    given = checked_args(args)
    event = _event(guard, name, given, "call", principal, parent_principal, cwd, call_id, origins, server_pin)
    going = _through(guard, event, given, enforcement, on_escalate)
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
    origins: Origins = (),
    server_pin: str | None = None,
    on_escalate: Approver | None = None,
) -> object:
    """Judge what a tool returned before the agent sees it; returns it, or what a rule put in its place.

    The tool has run: a block keeps its output back and undoes nothing.
    Raises: Blocked, NotApproved; RuntimeError where no guard is installed; TypeError, ValueError for misuse.
    """
    guard = installed()
    given = checked_result(result)
    event = _event(guard, name, given, "result", principal, parent_principal, cwd, call_id, origins, server_pin)
    return _through(guard, event, result, enforcement, on_escalate)


def _unwatched(guard: Installed) -> bool:
    """Whether nothing is to be kept, told or looked up of a call that no rule objects to."""
    quiet = not guard.observers and guard.scopes is None and guard.flow is None
    return quiet and getattr(guard.sink, "keeps_nothing", False)


def _passes(guard: Installed, name: str, given: dict[str, object], principal: str | None, cwd: str | None) -> bool:
    """The short way of a call that no rule objects to; where it says False, the long one decides and says why."""
    here = current_span()
    principal = principal if here is None else principal or here.principal
    try:
        guard.live.refresh()
        return guard.evaluator.passes(guard.live.current, name, given, principal, cwd)
    except Exception:  # noqa: BLE001 - the long way meets it again
        return False


def decide(event: SensorEvent) -> Outcome:
    """The lower door, for a host that acts on the decision itself (a coding agent's hook): judge, record, tell.

    Never raises Blocked: what would be one, a receipt that cannot be written included, is an Outcome that blocks.
    A missing call id, time or span is filled in.
    Raises: RuntimeError where no guard is installed; TypeError, ValueError for what is no event.
    """
    event = checked_event(event)
    guard = installed()
    started = time.perf_counter_ns()
    event = _completed(event)
    outcome, policy, epoch, encoded = _judged(guard, event, watched=True)
    outcome = outcome if guard.prover is None else guard.prover(outcome, policy)
    told, settled = _handed_over(guard, outcome, policy)
    outcome = told if settled.approval is None else outcome  # an answered escalation is recorded as what it was
    failure = _record(guard, outcome, settled, policy, epoch, started, encoded)
    if failure is not None:
        return replace(outcome, decision=_no_receipt(failure), cause=failure, decider=None)
    _tell(guard, outcome)
    _remember(guard, event, outcome.event.args)
    return told


def _handed_over(guard: Installed, outcome: Outcome, policy: Policy) -> tuple[Outcome, Settled]:
    """What the host is told, and how the decision ended; where an approver is installed, the host does not ask."""
    decision = outcome.decision
    ending = _HANDED_OVER.get(decision.verdict)
    if ending is None:
        return replace(outcome, decision=refusal(UNKNOWN_VERDICT, who="the policy")), Settled("blocked")
    if ending != "asked" or guard.approver is None:
        return outcome, Settled(ending)
    approval = _answer(guard, guard.approver, outcome, policy)
    if approval.approved is True:
        verdict = Verdict.MODIFY if outcome.rewritten else Verdict.ALLOW
        return replace(outcome, decision=replace(decision, verdict=verdict)), Settled("approved", approval=approval)
    why = NotApproved(decision, outcome.event.action, approval.note)
    blocked = Decision.block(str(why), decision.policy_id, decision.attributed_to)
    return replace(outcome, decision=blocked), Settled("not-approved", refusal=why, approval=approval)


_call_ids: list[Callable[[], str]] = []


def _name_anew() -> None:
    """Begin at a random prefix: in this process, and again in each that is forked from it."""
    prefix, number = os.urandom(8).hex(), itertools.count()
    _call_ids[:] = [lambda: f"{prefix}{next(number):08x}"]


_name_anew()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_name_anew)


def new_call_id() -> str:
    """24 hex digits that no other call has; not a secret, and nothing is granted to whoever knows them."""
    return _call_ids[0]()


def _event(
    guard: Installed,
    name: str,
    args: Mapping[str, object],
    phase: Phase,
    principal: str | None,
    parent_principal: str | None,
    cwd: str | None,
    call_id: str | None,
    origins: Origins,
    server_pin: str | None,
) -> SensorEvent:
    """The event of one door, whole; `args` may be the caller's own."""
    if type(name) is not str or not name:
        name = checked_name(name)
    if principal is not None or parent_principal is not None or cwd is not None or type(call_id or "") is not str:
        principal, cwd = checked_text("principal", principal), checked_text("cwd", cwd)
        parent_principal = checked_text("parent_principal", parent_principal)
        call_id = checked_text("call_id", call_id)
    pin = None if server_pin is None else checked_text("server_pin", server_pin)
    here = current_span()
    span_id: str | None = None
    if here is not None:
        span_id, parent_principal = here.id, parent_principal or _delegator(here, principal)
        principal = principal or here.principal
    where = checked_origins(origins) if origins else ()
    now, known_as = guard.clock.now_us(), call_id or _call_ids[0]()
    return event_of(name, args, phase, principal, parent_principal, span_id, known_as, now, cwd, where, pin)


def _completed(event: SensorEvent) -> SensorEvent:
    here = current_span()
    return replace(
        event,
        principal=event.principal or (here.principal if here else None),
        parent_principal=event.parent_principal or (_delegator(here, event.principal) if here else None),
        span_id=event.span_id or (here.id if here else None),
        call_id=event.call_id or new_call_id(),
        ts_us=event.ts_us or installed().clock.now_us(),
    )


def _delegator(here: span, principal: str | None) -> str | None:
    """On whose behalf a principal acts in a span; whose delegator another principal has is never guessed."""
    return here.parent_principal if principal is None or principal == here.principal else None


def _through(
    guard: Installed, event: SensorEvent, original: object, enforcement: Enforcement, on_escalate: Approver | None
) -> object:
    """A call or a result through the guard; returns what to go on with. Raises: Blocked, NotApproved."""
    check_enforcement(enforcement)
    if enforcement == "monitor":
        guard.monitored += 1
    started = time.perf_counter_ns()
    watched = bool(guard.observers) or not getattr(guard.sink, "keeps_nothing", False)
    outcome, policy, epoch, encoded = _judged(guard, event, watched)
    outcome = outcome if enforcement == "monitor" else _standing(outcome, policy, original)
    if not watched and outcome.decision.verdict is Verdict.ALLOW:
        _remember(guard, event, original)
        return original

    def approve(escalation: Outcome) -> Approval:
        return _asked(guard, on_escalate, escalation, original, policy)

    settled = settle(outcome, original, enforcement=enforcement, approve=approve)
    failure = _record(guard, outcome, settled, policy, epoch, started, encoded)
    if failure is not None and enforcement == "blocking":
        raise Blocked(_no_receipt(failure), event.action) from failure
    _tell(guard, outcome)
    released = settled.released()
    _remember(guard, event, released)
    return released


def _judged(guard: Installed, event: SensorEvent, watched: bool) -> tuple[Outcome, Policy, int, bytes | None]:
    """Evaluate under the policy in force; also gives that policy, its epoch, and the encoding of what was judged.

    Where it is not `watched`, by a sink or an observer, the evaluator reads the caller's own objects, and nothing is
    encoded.
    """
    try:
        guard.live.refresh()
        policy, epoch = guard.live.state
    except Exception as e:  # noqa: BLE001 - without a policy nothing is allowed
        outcome = Outcome(refusal(NO_POLICY, what=type(e).__name__), replace(event, args=frozen_mapping({})), cause=e)
        return outcome, _NO_RULES, 0, None
    if guard.scopes is not None:
        try:
            policy = guard.scopes.policy_for(event, policy)
        except Exception as e:  # noqa: BLE001 - ScopeRefused; whatever else it is, no rules were found
            return _out_of_scope(event, e), policy, epoch, None
    encoded: bytes | None = None
    try:
        if watched or type(event.args) not in _AS_GIVEN:
            event = _frozen(event)
        if watched:
            encoded = encode(event.args)
        if guard.flow is not None and event.phase == "call":
            found = guard.flow.origins(event.args, _run(event))
            event = replace(event, origins=(*event.origins, *found)) if found else event
    except Exception as e:  # noqa: BLE001 - NotCanonical; or whatever a mapping of the caller's own raises when read
        return unreadable(policy, event, e), policy, epoch, None
    try:
        outcome = guard.evaluator.evaluate(policy, event)
    except Exception as e:  # noqa: BLE001 - an evaluator that fails has allowed nothing
        outcome = Outcome(refusal(NATIVE_PANIC), event, cause=e)
    return _known(outcome), policy, epoch, encoded


def _standing(outcome: Outcome, policy: Policy, original: object) -> Outcome:
    """The outcome; or a refusal, where what was judged is a copy and the caller's own objects changed meanwhile."""
    event = outcome.before or outcome.event
    if outcome.decision.verdict is Verdict.BLOCK or _holds(event, original):
        return outcome
    if not any(rule.phase == event.phase for rule in policy.rules):  # nobody judged it, and it need not be readable
        return outcome
    return replace(outcome, decision=refusal(CHANGED, what="was judged"), decider=None)


def _holds(event: SensorEvent, original: object) -> bool:
    """Whether the caller's arguments, or result, are still what the event says they are."""
    judged = event.args if event.phase == "call" else result_of(event)
    return judged is original or unchanged(judged, original)


def _known(outcome: Outcome) -> Outcome:
    """The outcome, if its verdict is one of ours: whatever else an evaluator says blocks, before anybody records it."""
    verdict: object = outcome.decision.verdict
    if verdict is Verdict.ALLOW or (isinstance(verdict, Verdict) and verdict in _HANDED_OVER):
        return outcome
    return replace(outcome, decision=refusal(UNKNOWN_VERDICT, who="the evaluator"))


def _out_of_scope(event: SensorEvent, error: Exception) -> Outcome:
    what = str(error) if isinstance(error, InterlockError) else f"finding them failed with {type(error).__name__}"
    return Outcome(refusal(NO_SCOPE, what=what), replace(event, args=frozen_mapping({})), cause=error)


def _run(event: SensorEvent) -> span | str | None:
    """Whose memory of values an event belongs to: that of the whole run around it, or of the span that it names."""
    here = current_span()
    return current_run() if here is not None and here.id == event.span_id else event.span_id


def _remember(guard: Installed, event: SensorEvent, released: object) -> None:
    """Let the tracker know what the agent got, under the tool's name and the principal's."""
    if guard.flow is None or event.phase != "result":
        return
    sources = [origin_for_tool(event.action)]
    if event.principal is not None:
        sources.append(origin_for_principal(event.principal))
    guard.flow.record(released, *sources, run=_run(event))


def _frozen(event: SensorEvent) -> SensorEvent:
    args = frozen_mapping(event.args)
    return event if args is event.args else with_args(event, args)


def _asked(
    guard: Installed, on_escalate: Approver | None, outcome: Outcome, original: object, policy: Policy
) -> Approval:
    """The answer to an escalation. While a person decides, time passes: what they approved is what goes on, or nothing.

    Never raises: whatever goes wrong here is a no.
    """
    approval = _answer(guard, guard.approver if on_escalate is None else on_escalate, outcome, policy)
    if approval.approved is not True or _holds(outcome.before or outcome.event, original):
        return approval
    return replace(approval, approved=False, note=reason_of(CHANGED, what="waited for approval"))


def _answer(guard: Installed, approver: Approver | None, outcome: Outcome, policy: Policy) -> Approval:
    """What the approver says, as long as neither the policy nor a script that the call runs changes meanwhile."""

    def policy_now() -> str:
        guard.live.refresh(wait=True)
        now = guard.live.current
        return (now if guard.scopes is None else guard.scopes.policy_for(outcome.event, now)).digest

    return ask(approver, outcome, policy.digest, policy_now=policy_now, scripts=guard.scripts)


def _record(
    guard: Installed,
    outcome: Outcome,
    settled: Settled,
    policy: Policy,
    epoch: int,
    started_ns: int,
    encoded: bytes | None,
) -> Exception | None:
    """Write the receipt of a decision; returns what went wrong. One that is not kept is counted in the next."""
    elapsed_us, dropped = (time.perf_counter_ns() - started_ns) // 1000, _taken_over(guard)
    size = None if encoded is None else len(encoded)
    try:
        digest = None if encoded is None else guard.sink.args_digest(encoded)
        one = receipt_of(outcome, settled, policy, epoch, elapsed_us, args_digest=digest, size=size, dropped=dropped)
        guard.sink.append(one)
    except BaseException as e:  # whatever a sink raises, the receipt is not kept
        with _COUNTING:
            guard.receipts_dropped += dropped + 1
        if not isinstance(e, Exception):
            raise
        guard.told(f"receipt not written: {type(e).__name__}")
        return e
    return None


def _taken_over(guard: Installed) -> int:
    """The receipts that were not kept so far, for this one to tell of: of many threads, one does."""
    if not guard.receipts_dropped:
        return 0
    with _COUNTING:
        dropped, guard.receipts_dropped = guard.receipts_dropped, 0
    return dropped


def _no_receipt(error: Exception) -> Decision:
    return refusal(NO_RECEIPT, error=type(error).__name__)


def _tell(guard: Installed, outcome: Outcome) -> None:
    """Tell the observers the event as it was before any rewrite."""
    for observer in guard.observers:
        try:
            observer(outcome.before or outcome.event, outcome.decision)
        except Exception:  # noqa: BLE001 - an observer's failure is counted, never felt
            guard.observer_failures += 1
