"""The receipt of one decision: what the rules said, what took effect, and by whose word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.base.errors import one_line
from interlock.engine.decision import Verdict
from interlock.engine.evaluate import Outcome
from interlock.engine.policy.limits import Limits, oversized
from interlock.engine.policy.model import Policy, Rule
from interlock.engine.receipts import Receipt, as_receipt, label, receipt_draft
from interlock.engine.refusals import REASONS
from interlock.engine.settle import Ending, Settled

__all__ = ["receipt_of"]

_REASON_LIMIT: Final = 500
# what took effect where a decision ended so; an approved action went on as it was, or as rules rewrote it
_TOOK_EFFECT: Final[Mapping[Ending, str]] = {
    "proceeded": "ALLOW",
    "observed": "ALLOW",
    "approved": "ALLOW",
    "rewritten": "MODIFY",
    "asked": "ESCALATE",
    "blocked": "BLOCK",
    "not-approved": "BLOCK",
}


def receipt_of(
    outcome: Outcome,
    settled: Settled,
    policy: Policy,
    epoch: int,
    elapsed_us: int,
    *,
    args_digest: str | None = None,
    size: int | None = None,
    dropped: int = 0,
) -> Receipt:
    """The receipt of how a decision ended; it holds no argument's value and no text that one may have gone into.

    `size` are the bytes of what was judged, where that is known.
    """
    event, decision, rule, approval = outcome.event, outcome.decision, outcome.decider, settled.approval
    took = _TOOK_EFFECT[settled.ending]
    if settled.ending == "approved" and outcome.rewritten:
        took = "MODIFY"
    draft = receipt_draft()(
        ts_us=event.ts_us,
        call_id=label(event.call_id) or "",
        action=label(event.action) or "",
        phase=event.phase,
        verdict=took,
        outcome=settled.ending,
        policy_epoch=epoch,
        policy_digest=policy.digest,
        elapsed_us=elapsed_us,
        policy_verdict=said if (said := _said(decision.verdict)) != took else None,
        reason=_template(outcome),
        policy_id=label(decision.policy_id),
        rule=label(rule.id) if rule else None,
        attributed_to=label(decision.attributed_to),
        principal=label(event.principal),
        parent_principal=label(event.parent_principal),
        span_id=label(event.span_id),
        args_digest=args_digest,
        pack_digest=rule.source.pack_digest if rule else None,
        log_index=rule.source.log_index if rule else None,
        approval=None if approval is None else "yes" if approval.approved else "no",
        approved_by=label(approval.by) or None if approval else None,
        approval_id=label(approval.request_id) or None if approval else None,
        partial=_partial(outcome, policy.limits, size),
        dropped=dropped or None,
        shadows=_shadows(outcome) if outcome.shadows else None,
        stale="yes" if policy.stale else None,
    )
    return as_receipt(draft)


def _said(verdict: object) -> str:
    if verdict is Verdict.ALLOW:
        return "ALLOW"
    return verdict.name if isinstance(verdict, Verdict) else "UNKNOWN"


def _partial(outcome: Outcome, limits: Limits, size: int | None) -> str | None:
    """The arguments that patterns read in part; a name that is none of a parameter stands as `*`."""
    if size is not None and size <= min(limits.command, limits.argument, limits.result):
        return None
    names = oversized(outcome.before or outcome.event, limits)
    return label(" ".join(name if name.isidentifier() else "*" for name in names)) or None


def _shadows(outcome: Outcome) -> str | None:
    """The shadow rules that objected, each with its verdict."""
    said = (f"{label(rule.id)} {d.verdict.name}" for rule, d in outcome.shadows if d.verdict is not Verdict.ALLOW)
    return one_line("; ".join(said), _REASON_LIMIT) or None


def _template(outcome: Outcome) -> str | None:
    """The reason without what it was applied to; None where that is not known, as of a rule that is code."""
    decision = outcome.decision
    if decision.verdict is Verdict.ALLOW:
        return None
    own = REASONS.get(decision.policy_id or "")
    if own is not None:
        return own
    rules = outcome.fired if decision.verdict is not Verdict.BLOCK else (outcome.decider,)
    said = dict.fromkeys(filter(None, (_words(rule) for rule in rules if rule is not None)))
    return one_line("; ".join(said), _REASON_LIMIT) or None


def _words(rule: Rule) -> str | None:
    """What a rule's author wrote: a declared rule's reason, or the template that a function of ours carries."""
    said = (rule.plan or {}).get("reason")
    words = getattr(rule.function, "template", None) if said is None else said
    return words if isinstance(words, str) else None
