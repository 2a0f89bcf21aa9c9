"""Asking a person: what an approver is given, what it may answer, and what counts as a yes.

Only `True`, or an `Approval` whose `approved` is `True`, releases an action. No approver, an approver that fails, and
any other answer refuse it. An approval holds for this one action and is never kept.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from interlock.engine.evaluate import Outcome
from interlock.engine.event import Phase

__all__ = ["Approval", "ApprovalRequest", "Approver", "ask"]


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """One action that waits: what would run (`args` is the rewritten call, read-only), who asks, and why."""

    action: str
    args: Mapping[str, object] = field(repr=False)
    phase: Phase
    reason: str
    policy_id: str | None
    attributed_to: str | None
    evidence: Mapping[str, object] | None = field(repr=False)
    principal: str | None
    parent_principal: str | None
    span_id: str | None
    call_id: str


@dataclass(frozen=True, slots=True)
class Approval:
    """An approver's answer; `by` names who gave it, `note` says why not. Neither may carry an argument's value."""

    approved: bool
    by: str = ""
    note: str = ""
    cause: Exception | None = field(default=None, repr=False, compare=False)


Approver = Callable[[ApprovalRequest], "bool | Approval"]


def ask(approver: Approver | None, outcome: Outcome) -> Approval:
    """Put an escalation to the approver; never raises, since whatever goes wrong here is a no."""
    if approver is None:
        return Approval(False, note="no approver is installed")
    try:
        answer: object = approver(_request(outcome))
    except Exception as e:  # noqa: BLE001 - an approver that fails has not approved
        return Approval(False, note=f"the approver failed with {type(e).__name__}", cause=e)
    if inspect.iscoroutine(answer):
        answer.close()
        return Approval(False, note="the approver is asynchronous; it has to answer at once")
    if answer is True:
        return Approval(True)
    if answer is False:
        return Approval(False, note="the approver refused")
    if isinstance(answer, Approval) and isinstance(answer.approved, bool):
        return answer if answer.approved or answer.note else Approval(False, answer.by, "the approver refused")
    return Approval(False, note=f"the approver answered with a {type(answer).__name__}")


def _request(outcome: Outcome) -> ApprovalRequest:
    event, decision = outcome.event, outcome.decision
    return ApprovalRequest(
        action=event.action,
        args=event.args,
        phase=event.phase,
        reason=decision.reason,
        policy_id=decision.policy_id,
        attributed_to=decision.attributed_to,
        evidence=decision.evidence,
        principal=event.principal,
        parent_principal=event.parent_principal,
        span_id=event.span_id,
        call_id=event.call_id,
    )
