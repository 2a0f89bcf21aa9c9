"""Decision: what a rule, or all rules together, say of one event."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Decision", "Verdict"]


class Verdict(enum.IntEnum):
    """The four answers; the numbers are part of the native contract."""

    ALLOW = 0
    BLOCK = 1
    MODIFY = 2
    ESCALATE = 3


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict with its reason, the policy that gave it, and the argument path it is about.

    `attributed_to` names an argument path ("command", "args.body") and never carries its value.
    `modified_args` are the arguments to be set in place of the call's own (a part of them: the others stay);
    `modified_result` replaces a result whole. `evidence` is shown to whoever approves an escalation.
    `proven` stands only with ALLOW: a host may then skip its own question; nothing else follows from it.
    """

    verdict: Verdict
    reason: str = ""
    policy_id: str | None = None
    attributed_to: str | None = None
    modified_args: Mapping[str, object] | None = field(default=None, repr=False)
    modified_result: object = field(default=None, repr=False)
    evidence: Mapping[str, object] | None = field(default=None, repr=False)
    proven: str | None = None

    @classmethod
    def allow(cls, reason: str = "", *, proven: str | None = None) -> Decision:
        """No objection; the same as returning None. `proven` says by which proof the action is harmless."""
        return cls(Verdict.ALLOW, reason, proven=proven)

    @classmethod
    def block(cls, reason: str, policy_id: str | None = None, attributed_to: str | None = None) -> Decision:
        """Refuse the action; nothing can release it."""
        return cls(Verdict.BLOCK, reason, policy_id, attributed_to)

    @classmethod
    def modify(
        cls,
        modified_args: Mapping[str, object],
        reason: str = "",
        policy_id: str | None = None,
        attributed_to: str | None = None,
    ) -> Decision:
        """Let the call go with these arguments set."""
        return cls(Verdict.MODIFY, reason, policy_id, attributed_to, modified_args=dict(modified_args))

    @classmethod
    def modify_result(
        cls,
        result: object,
        reason: str = "",
        policy_id: str | None = None,
        attributed_to: str | None = None,
    ) -> Decision:
        """Hand the agent this value in place of what the tool returned."""
        return cls(Verdict.MODIFY, reason, policy_id, attributed_to, modified_result=result)

    @classmethod
    def escalate(
        cls,
        reason: str,
        policy_id: str | None = None,
        attributed_to: str | None = None,
        evidence: Mapping[str, object] | None = None,
    ) -> Decision:
        """Wait for a person's approval; with no approver the action is refused."""
        return cls(Verdict.ESCALATE, reason, policy_id, attributed_to, evidence=evidence)
