"""Asking a person: what an approver is given, what it may answer, what counts as a yes, and what a yes is tied to.

Only `True`, or an `Approval` whose `approved` is `True`, releases an action. No approver, an approver that fails or is
late, and any other answer refuse it. An answer holds for one binding: a digest over the final, rewritten call, its
action and phase, principal and parent, the rules that escalated, the policy, the working directory, the MCP server's
pin, the content of the scripts that the command names, and the frozen reason. What differs in any of them was not
approved.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from interlock.base.canonical import digest, encode
from interlock.base.errors import InterlockError
from interlock.engine.decision import Verdict
from interlock.engine.evaluate import Outcome
from interlock.engine.event import Phase, SensorEvent
from interlock.engine.refusals import APPROVER_FAILED, APPROVER_LATE, APPROVER_ODD, CHANGED, NO_APPROVER, reason_of

__all__ = [
    "REASON_BYTES",
    "Approval",
    "ApprovalRequest",
    "Approver",
    "Script",
    "Scripts",
    "ask",
    "binding",
    "no_scripts",
]

REASON_BYTES: Final = 512
_DOMAIN: Final = "interlock/approval/v1"


@dataclass(frozen=True, slots=True)
class Script:
    """A file that a command would run: its absolute path, and the SHA-256 of what it holds in hex.

    `sha256` is "" where there is none, and `state` says why: "missing", "unreadable", "not a file", "too large".
    """

    path: str
    sha256: str
    state: str = "read"


Scripts = Callable[[SensorEvent], tuple[Script, ...]]


def no_scripts(event: SensorEvent) -> tuple[Script, ...]:
    """For whoever has no file system at hand."""
    return ()


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """One action that waits: what would run (`args` is the rewritten call, read-only), who asks, and why.

    `reason` is frozen: at most REASON_BYTES of the decision's. `rules` are the ids of the rules that escalated,
    `rewritten` the arguments that rules set. `digest` is what an approval is bound to, in hex.
    """

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
    cwd: str | None = None
    server_pin: str | None = None
    rules: tuple[str, ...] = ()
    rewritten: frozenset[str] = frozenset()
    policy_digest: str = ""
    scripts: tuple[Script, ...] = ()
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Approval:
    """An approver's answer; `by` names who gave it, `note` says why not. Neither may carry an argument's value.

    `request_id` names the request in a queue; it authorises nothing.
    """

    approved: bool
    by: str = ""
    note: str = ""
    cause: Exception | None = field(default=None, repr=False, compare=False)
    request_id: str = ""


Approver = Callable[[ApprovalRequest], "bool | Approval"]


def ask(
    approver: Approver | None,
    outcome: Outcome,
    policy_digest: str = "",
    *,
    policy_now: Callable[[], str] | None = None,
    scripts: Scripts = no_scripts,
) -> Approval:
    """Put an escalation to the approver; never raises, since whatever goes wrong here is a no.

    `policy_digest` is of the policy that judged; `policy_now` gives that of the policy in force, and `scripts` the
    files that the call would run: both are looked at before and after the answer.
    """
    if outcome.decision.verdict is not Verdict.ESCALATE:
        return Approval(False, note="only an escalation can be approved")
    if approver is None:
        return Approval(False, note=reason_of(NO_APPROVER))
    try:
        request = _request(outcome, policy_digest, scripts)
        approval = _read(approver(request))
        if approval.approved and _moved(request, outcome, policy_now, scripts):
            return replace(approval, approved=False, note=reason_of(CHANGED, what="waited for approval"))
    except TimeoutError as e:
        return Approval(False, note=reason_of(APPROVER_LATE), cause=e)
    except InterlockError as e:
        return Approval(False, note=str(e), cause=e)
    except Exception as e:  # noqa: BLE001 - an approver that fails has not approved
        return Approval(False, note=reason_of(APPROVER_FAILED, error=type(e).__name__), cause=e)
    return approval


def _moved(request: ApprovalRequest, outcome: Outcome, policy_now: Callable[[], str] | None, scripts: Scripts) -> bool:
    """Whether what was approved is no longer what would run, or under the same policy."""
    digest_now = request.policy_digest if policy_now is None else policy_now()
    return _request(outcome, digest_now, scripts).digest != request.digest


def _read(answer: object) -> Approval:
    if inspect.iscoroutine(answer):
        answer.close()
        return Approval(False, note=reason_of(APPROVER_ODD, what="is asynchronous; it has to answer at once"))
    if answer is True:
        return Approval(True)
    if answer is False:
        return Approval(False, note="the approver refused")
    if isinstance(answer, Approval) and _is_whole(answer):
        return answer if answer.approved or answer.note else replace(answer, note="the approver refused")
    return Approval(False, note=reason_of(APPROVER_ODD, what=f"answered with a {type(answer).__name__}"))


def _is_whole(answer: Approval) -> bool:
    """Whether an answer holds what its fields promise; whoever made it may have put anything there."""
    approved: object = answer.approved
    words: tuple[object, ...] = (answer.by, answer.note, answer.request_id)
    return isinstance(approved, bool) and all(isinstance(word, str) for word in words)


def _request(outcome: Outcome, policy_digest: str, scripts: Scripts) -> ApprovalRequest:
    event, decision = outcome.event, outcome.decision
    request = ApprovalRequest(
        action=event.action,
        args=event.args,
        phase=event.phase,
        reason=_frozen_reason(decision.reason),
        policy_id=decision.policy_id,
        attributed_to=decision.attributed_to,
        evidence=decision.evidence,
        principal=event.principal,
        parent_principal=event.parent_principal,
        span_id=event.span_id,
        call_id=event.call_id,
        cwd=event.cwd,
        server_pin=event.server_pin,
        rules=tuple(sorted({rule.id for rule in outcome.escalated})),
        rewritten=outcome.rewritten,
        policy_digest=policy_digest,
        scripts=scripts(event),
    )
    return replace(request, digest=binding(request, encode(event.args)))


def binding(request: ApprovalRequest, encoded: bytes) -> str:
    """The digest that an approval is bound to, in hex; `encoded` is the canonical encoding of the arguments."""
    parts = [
        hashlib.sha256(encoded).hexdigest(),
        request.action,
        request.phase,
        request.principal,
        request.parent_principal,
        sorted(request.rules),
        request.policy_digest,
        request.cwd,
        request.server_pin,
        [[s.path, s.sha256, s.state] for s in request.scripts],
        request.reason,
    ]
    return digest(_DOMAIN, parts).hex()


def _frozen_reason(text: str) -> str:
    whole = text.encode("utf-8", "backslashreplace")
    return whole[:REASON_BYTES].decode("utf-8", "ignore")
