"""The fold: every rule's opinion of one event, combined to one Decision.

Rules run in order, and a rule sees only events of its phase.
- A block wins and ends evaluation; a rewrite before it cannot save the call.
- Rewrites stack: later rules judge the rewritten call, and the later writer of one argument wins.
- An escalation waits until no rule blocks, and carries the rewrites with it.
- No objection is allow.
- A rule that raises, returns something that is no Decision, or gives a verdict that is none of the four, blocks.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from interlock.base.errors import one_line
from interlock.engine.decision import Decision, Verdict
from interlock.engine.event import PHASES, SensorEvent
from interlock.engine.payload import FrozenDict, frozen, frozen_mapping, result_args
from interlock.engine.policy.model import Policy, Rule

__all__ = ["Outcome", "evaluate"]

_ALLOW: Final = Decision.allow()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the rules said together.

    `event` is the final, rewritten event, read-only. `fired` are the rules that objected or rewrote, in order, and
    `decider` is the one whose policy_id the decision carries. `rewritten` names the arguments that rules set (on a
    result event: "result"). `cause` is the exception behind a block, where a rule raised one.
    """

    decision: Decision
    event: SensorEvent
    fired: tuple[Rule, ...] = ()
    cause: Exception | None = None
    decider: Rule | None = None
    rewritten: frozenset[str] = frozenset()


def evaluate(policy: Policy, event: SensorEvent) -> Outcome:
    """Fold the rules of a policy over one event; the event and its arguments are never changed.

    Raises: NotCanonical, where the arguments are nested too deeply to be judged at all; ValueError, for a phase that
    does not exist, for no rule would see it.
    """
    if event.phase not in PHASES:
        raise ValueError(f"event.phase is {event.phase!r}; it can be {' or '.join(map(repr, PHASES))}")
    fold = _Fold(replace(event, args=frozen_mapping(event.args)))
    for rule in policy.rules:
        if rule.phase != event.phase:
            continue
        try:
            decision = _checked(rule.function(fold.event), event)
            blocked = decision is not None and fold.take(rule, decision)
        except Exception as e:  # noqa: BLE001 - whatever a rule does wrong blocks
            return fold.failed(rule, e)
        if blocked and decision is not None:
            return fold.outcome(decision, rule)
    return fold.combined()


class _Invalid(Exception):
    """A rule's return value that cannot be honoured."""


@dataclass(slots=True)
class _Fold:
    """What has been said so far, and the event as it stands now."""

    event: SensorEvent
    fired: list[Rule] = field(default_factory=list)
    rewrites: list[tuple[Rule, Decision]] = field(default_factory=list)
    escalations: list[tuple[Rule, Decision]] = field(default_factory=list)
    rewritten: set[str] = field(default_factory=set)

    def take(self, rule: Rule, decision: Decision) -> bool:
        """Add one rule's opinion; true where it blocks."""
        if decision.verdict is Verdict.ALLOW:
            return False
        if decision.verdict is Verdict.MODIFY:
            self._rewrite(decision)
            self.rewrites.append((rule, decision))
        elif decision.verdict is Verdict.ESCALATE:
            self.escalations.append((rule, decision))
        self.fired.append(rule)
        return decision.verdict is Verdict.BLOCK

    def _rewrite(self, decision: Decision) -> None:
        if self.event.phase == "result":
            self.event = replace(self.event, args=result_args(decision.modified_result))
            self.rewritten.add("result")
            return
        changes = decision.modified_args or {}
        merged = FrozenDict({**self.event.args, **{k: frozen(v, 1) for k, v in changes.items()}})
        self.event = replace(self.event, args=merged)
        self.rewritten.update(changes)

    def failed(self, rule: Rule, error: Exception) -> Outcome:
        what = str(error) if isinstance(error, _Invalid) else f"failed with {type(error).__name__}"
        reason = one_line(f"rule {rule.id} {what}, so the action is refused")
        self.fired.append(rule)
        return replace(self.outcome(Decision.block(reason, policy_id=rule.id), rule), cause=error)

    def combined(self) -> Outcome:
        """The decision where nothing blocked; a single opinion is returned exactly as its rule gave it."""
        said = self.escalations + self.rewrites
        if not said:
            return self.outcome(_ALLOW, None)
        rule, first = said[0]
        if len(said) == 1:
            return self.outcome(first, rule)
        together = replace(
            first,
            reason="; ".join(d.reason for _, d in said if d.reason),
            modified_args=self._changes(),
            modified_result=self.rewrites[-1][1].modified_result if self.rewrites else None,
            evidence=self._evidence(),
        )
        return self.outcome(together, rule)

    def _changes(self) -> Mapping[str, object] | None:
        if self.event.phase == "result" or not self.rewrites:
            return None
        return {name: self.event.args[name] for name in self.event.args if name in self.rewritten}

    def _evidence(self) -> Mapping[str, object] | None:
        shown: dict[str, object] = {}
        for _, decision in self.escalations:
            shown.update(decision.evidence or {})
        return shown or None

    def outcome(self, decision: Decision, decider: Rule | None) -> Outcome:
        return Outcome(decision, self.event, tuple(self.fired), None, decider, frozenset(self.rewritten))


def _checked(said: object, event: SensorEvent) -> Decision | None:
    """A rule's return value, if it can be honoured. Raises: _Invalid."""
    if said is None:
        return None
    if inspect.iscoroutine(said):
        said.close()
        raise _Invalid("is asynchronous; a rule answers at once")
    if not isinstance(said, Decision):
        raise _Invalid(f"returned a {type(said).__name__}, not a Decision")
    if not isinstance(said.verdict, Verdict):
        raise _Invalid("gave a verdict that does not exist")
    _demand_words(said)
    if said.verdict is not Verdict.MODIFY:
        return said
    if event.phase == "result":
        if said.modified_args is not None:
            raise _Invalid("rewrote arguments on a result; use Decision.modify_result")
    elif not isinstance(said.modified_args, Mapping) or not all(isinstance(k, str) for k in said.modified_args):
        raise _Invalid("rewrote a call without arguments to set; use Decision.modify")
    return said


def _demand_words(said: Decision) -> None:
    """Raises: _Invalid, where a decision's texts are none: they are shown and go into receipts."""
    if not isinstance(said.reason, str):
        raise _Invalid(f"gave a reason that is a {type(said.reason).__name__}, not a text")
    if not all(isinstance(name, str | None) for name in (said.policy_id, said.attributed_to)):
        raise _Invalid("gave a policy_id or attributed_to that is neither a text nor None")
    if not isinstance(said.evidence, Mapping | None):
        raise _Invalid("gave evidence that is neither a mapping nor None")
