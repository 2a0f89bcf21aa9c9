"""Where a policy asks for it, a call that no rule objects to is allowed with the proof that it is harmless."""

from __future__ import annotations

import os
from dataclasses import replace

from interlock.engine.analysis.harmless import prove
from interlock.engine.decision import Decision, Verdict
from interlock.engine.evaluate import Outcome
from interlock.engine.harmless_files import FileResolver
from interlock.engine.policy.model import Policy

__all__ = ["with_proof"]


def with_proof(outcome: Outcome, policy: Policy) -> Outcome:
    """The outcome, its decision with a proof where the policy asks for one and the final call has one.

    Only a plain ALLOW gets one: whatever a rule, a rewrite or a failure says stands.
    """
    plain = outcome.decision.verdict is Verdict.ALLOW and outcome.cause is None and not outcome.rewritten
    if not (plain and policy.prove_harmless and outcome.event.phase == "call"):
        return outcome
    proof = prove(outcome.event, FileResolver(os.environ))
    if proof is None:
        return outcome
    return replace(outcome, decision=Decision.allow(outcome.decision.reason, proven=proof.text))
