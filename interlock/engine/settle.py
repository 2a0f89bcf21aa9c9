"""The one dispatch of a Decision: go on, refuse, or ask; a verdict that it does not know refuses.

    ALLOW     go on with the call or the result as it came
    MODIFY    go on with what the rules made of it
    ESCALATE  ask; go on (rewritten, where a rule rewrote) after a yes, NotApproved after anything else
    BLOCK     Blocked

With enforcement="monitor" every verdict goes on, untouched, and nobody is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from interlock.base.errors import MESSAGE_LIMIT, InterlockError, one_line
from interlock.engine.approvals import Approval
from interlock.engine.decision import Decision, Verdict
from interlock.engine.evaluate import Outcome
from interlock.engine.payload import result_of, thawed
from interlock.engine.refusals import UNKNOWN_VERDICT, refusal

__all__ = ["Blocked", "Ending", "Enforcement", "NotApproved", "Settled", "check_enforcement", "settle"]

Enforcement = Literal["blocking", "monitor"]
# How one decision ended, as receipts tell it; "asked" is an escalation that a host (a coding agent) puts to its user.
Ending = Literal["proceeded", "rewritten", "approved", "asked", "blocked", "not-approved", "observed"]
_ANSWER_LIMIT: Final = 300  # characters of an approver's answer in what the agent is told
_ENFORCEMENTS: Final = get_args(Enforcement)


class Blocked(InterlockError):
    """The guard refused an action; on a call the tool did not run, on a result its output is kept back.

    `decision` is the whole decision, `event_action` the tool's name. `__cause__` is what a failed rule raised.
    """

    code = "blocked"

    def __init__(self, decision: Decision, event_action: str = "") -> None:
        self.decision = decision
        self.event_action = event_action
        super().__init__(self._message())

    def _message(self) -> str:
        return self.decision.reason or f"{self.event_action or 'the action'} is refused by policy"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.decision, self.event_action)

    @property
    def reason(self) -> str:
        return self.decision.reason

    @property
    def policy_id(self) -> str | None:
        return self.decision.policy_id

    @property
    def attributed_to(self) -> str | None:
        return self.decision.attributed_to


class NotApproved(Blocked):
    """An action that needs a person's approval and did not get it; `why` says what the answer was."""

    code = "not-approved"

    def __init__(self, decision: Decision, event_action: str = "", why: str = "") -> None:
        self.why = why
        super().__init__(decision, event_action)

    def _message(self) -> str:
        """A long reason is cut short, and not the answer, which names the request that a person has to approve."""
        head = self.decision.reason or f"{self.event_action or 'the action'} needs approval"
        answer = f" (not approved: {one_line(self.why, _ANSWER_LIMIT)})"
        return one_line(head, MESSAGE_LIMIT - len(answer)) + answer

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.decision, self.event_action, self.why)


@dataclass(frozen=True, slots=True)
class Settled:
    """How a decision ended, before anybody acts on it, so that the receipt can be written first.

    `value` is what to go on with: the arguments of a call, or the result itself.
    """

    ending: Ending
    value: object = field(default=None, repr=False)
    refusal: Blocked | None = None
    approval: Approval | None = None

    def released(self) -> object:
        """The value to go on with. Raises: Blocked, NotApproved."""
        if self.refusal is not None:
            raise self.refusal
        return self.value


def check_enforcement(enforcement: str) -> None:
    """Raises: ValueError, for an enforcement mode that does not exist."""
    if enforcement not in _ENFORCEMENTS:
        raise ValueError(f"enforcement is {enforcement!r}; it can be {' or '.join(map(repr, _ENFORCEMENTS))}")


def settle(
    outcome: Outcome, original: object, *, enforcement: Enforcement, approve: Callable[[Outcome], Approval]
) -> Settled:
    """Dispatch a decision; `original` is the caller's own arguments (a mapping) or result, which stay as they are.

    Raises: ValueError, for an enforcement mode that does not exist.
    """
    check_enforcement(enforcement)
    if enforcement == "monitor":
        return Settled("observed", original)
    verdict: object = outcome.decision.verdict
    match verdict:
        case Verdict.ALLOW:
            return Settled("proceeded", original)
        case Verdict.MODIFY:
            return Settled("rewritten", _rewritten(outcome, original))
        case Verdict.ESCALATE:
            return _asked(outcome, original, approve(outcome))
        case Verdict.BLOCK:
            return _refused(outcome, outcome.decision)
        case _:  # reached by no Verdict of today; one that is added and not handled here refuses
            return _refused(outcome, refusal(UNKNOWN_VERDICT, who="the policy"))


def _refused(outcome: Outcome, decision: Decision) -> Settled:
    refusal = Blocked(decision, outcome.event.action)
    refusal.__cause__ = outcome.cause
    return Settled("blocked", refusal=refusal)


def _asked(outcome: Outcome, original: object, approval: Approval) -> Settled:
    if approval.approved is True:
        return Settled("approved", _rewritten(outcome, original), approval=approval)
    refusal = NotApproved(outcome.decision, outcome.event.action, approval.note)
    refusal.__cause__ = approval.cause
    return Settled("not-approved", refusal=refusal, approval=approval)


def _rewritten(outcome: Outcome, original: object) -> object:
    """The caller's own objects, except where a rule set something: there an ordinary copy of what it set."""
    if not outcome.rewritten:
        return original
    if outcome.event.phase == "result":
        return thawed(result_of(outcome.event))
    assert isinstance(original, Mapping)
    return {**original, **{name: thawed(outcome.event.args[name]) for name in outcome.rewritten}}
