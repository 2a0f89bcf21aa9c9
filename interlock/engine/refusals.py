"""What the guard itself refuses, where no rule does: one row a way to fail, each with a policy id of its own.

Whatever goes wrong between an action and its decision ends as one of these. A reason names types and rules and never
holds a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from interlock.base.errors import one_line
from interlock.engine.decision import Decision

__all__ = [
    "APPROVER_FAILED",
    "APPROVER_LATE",
    "APPROVER_ODD",
    "CHANGED",
    "MISFIT",
    "NATIVE_PANIC",
    "NO_APPROVER",
    "NO_DECISION",
    "NO_POLICY",
    "NO_RECEIPT",
    "NO_SCOPE",
    "REASONS",
    "RULE_FAILED",
    "UNKNOWN_VERDICT",
    "UNREADABLE",
    "reason_of",
    "refusal",
]

RULE_FAILED: Final = "interlock.rule-failed"
NO_DECISION: Final = "interlock.no-decision"
UNKNOWN_VERDICT: Final = "interlock.unknown-verdict"
UNREADABLE: Final = "interlock.unreadable"
NATIVE_PANIC: Final = "interlock.native-panic"
NO_POLICY: Final = "interlock.no-policy"
NO_SCOPE: Final = "interlock.no-scope"
NO_RECEIPT: Final = "interlock.no-receipt"
NO_APPROVER: Final = "interlock.no-approver"
APPROVER_FAILED: Final = "interlock.approver-failed"
APPROVER_LATE: Final = "interlock.approver-late"
APPROVER_ODD: Final = "interlock.approver-odd"
CHANGED: Final = "interlock.changed"
MISFIT: Final = "interlock.misfit"

# policy id -> what is said; a word in braces is filled in by `reason_of`
REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        RULE_FAILED: "rule {rule} failed with {error}, so the action is refused",
        NO_DECISION: "rule {rule} {what}, so the action is refused",
        UNKNOWN_VERDICT: "{who} gave a verdict that does not exist, so the action is refused",
        UNREADABLE: "the {phase} {what}, which the guard cannot judge",
        NATIVE_PANIC: "the native engine failed, so the action is refused",
        NO_POLICY: "the policy cannot be used ({what}), so the action is refused",
        NO_SCOPE: "no rules are found to act under ({what}), so the action is refused",
        NO_RECEIPT: "the receipt cannot be written ({error}), so the action is refused",
        NO_APPROVER: "no approver is installed",
        APPROVER_FAILED: "the approver failed with {error}",
        APPROVER_LATE: "the approver did not answer in time",
        APPROVER_ODD: "the approver {what}",
        CHANGED: "the action changed while it {what}",
        MISFIT: "the rewritten call does not fit {action} ({what})",
    }
)


def reason_of(policy_id: str, **words: object) -> str:
    """The text of one row, in one line."""
    return one_line(REASONS[policy_id].format(**words))


def refusal(policy_id: str, attributed_to: str | None = None, **words: object) -> Decision:
    """The block of one row."""
    return Decision.block(reason_of(policy_id, **words), policy_id, attributed_to)
