"""Judging one event: every rule's opinion, folded to one Decision.

Rules run in order, and a rule sees only events of its phase.
- A block wins and ends evaluation; a rewrite before it cannot save the call.
- Rewrites stack: later rules judge the rewritten call, and the later writer of one argument wins.
- Where a call was rewritten, the rules before the last rewrite judge the final call once more, to block or escalate.
- An escalation waits until no rule blocks, and carries the rewrites with it.
- No objection is allow.
- A shadow rule is asked at its place, and what it says decides nothing.
- A rule that raises, returns something that is no Decision, or gives a verdict that is none of the four, blocks.

An evaluator only has to give opinions; `judged` makes the outcome of them, for every evaluator the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from interlock.base.canonical import NotCanonical, encode
from interlock.engine.decision import Decision, Verdict
from interlock.engine.event import PHASES, SensorEvent
from interlock.engine.payload import FrozenDict, frozen, frozen_mapping, result_args
from interlock.engine.policy.model import Policy, Rule
from interlock.engine.refusals import NO_DECISION, RULE_FAILED, UNKNOWN_VERDICT, UNREADABLE, refusal

__all__ = ["Evaluator", "Fold", "Judge", "Outcome", "PythonEvaluator", "asking", "evaluate", "judged", "unreadable"]

_ALLOW: Final = Decision.allow()

# What the rules at these positions of a policy say of an event: (position, opinion) in order, nothing for no opinion.
# In place of an opinion stands the exception that a rule raised. Rules of the other phase are left out.
Judge = Callable[[range, SensorEvent], Iterable[tuple[int, object]]]


@dataclass(slots=True)  # not frozen, which would treble the time that making one takes
class Outcome:
    """What the rules said together.

    `event` is the final, rewritten event, read-only, and `before` the one before any rewrite (None where there was
    none). `fired` are the rules that objected or rewrote, in order, `escalated` those of them that escalated, and
    `decider` is the one whose policy_id the decision carries. `rewritten` names the arguments that rules set (on a
    result event: "result"). `shadows` are what shadow rules said, in order. `cause` is the exception behind a block,
    where a rule raised one.
    """

    decision: Decision
    event: SensorEvent
    fired: tuple[Rule, ...] = ()
    cause: Exception | None = None
    decider: Rule | None = None
    rewritten: frozenset[str] = frozenset()
    shadows: tuple[tuple[Rule, Decision], ...] = ()
    escalated: tuple[Rule, ...] = ()
    before: SensorEvent | None = None


class Evaluator(Protocol):
    """Something that judges an event by a policy. All evaluators give the same outcome; they differ in speed."""

    name: str

    def evaluate(self, policy: Policy, event: SensorEvent) -> Outcome:
        """Judge an event, whose arguments may be the caller's own objects; they are never changed.

        Whatever a Python rule sees, and the arguments of the outcome's event, are read-only copies (`frozen_mapping`).
        Only where nobody said anything may the outcome's event be the one that was given. A value that cannot be read
        blocks (`unreadable`). Raises: ValueError, for a phase that does not exist.
        """
        ...

    def passes(
        self, policy: Policy, action: str, args: Mapping[str, object], principal: str | None, cwd: str | None
    ) -> bool:
        """Whether no rule says anything of a call, where that can be told sooner than by `evaluate`; else False."""
        ...


class PythonEvaluator:
    """The reference."""

    name = "python"

    def evaluate(self, policy: Policy, event: SensorEvent) -> Outcome:
        return evaluate(policy, event)

    def passes(
        self, policy: Policy, action: str, args: Mapping[str, object], principal: str | None, cwd: str | None
    ) -> bool:
        return False


def evaluate(policy: Policy, event: SensorEvent) -> Outcome:
    """Fold the rules of a policy over one event; the event and its arguments are never changed.

    Raises: ValueError, for a phase that does not exist, for no rule would see it.
    """
    if event.phase not in PHASES:
        raise ValueError(f"event.phase is {event.phase!r}; it can be {' or '.join(map(repr, PHASES))}")
    try:
        args = frozen_mapping(event.args)
    except Exception as e:  # noqa: BLE001 - NotCanonical; or whatever a mapping of the caller's own raises when read
        return unreadable(policy, event, e)
    return judged(policy, event if args is event.args else replace(event, args=args), asking(policy))


def unreadable(policy: Policy, event: SensorEvent, error: Exception) -> Outcome:
    """The outcome of an event that cannot be judged; its event shows no arguments.

    It blocks, attributed to the argument that cannot be read. Only a result that no rule would judge may be anything.
    """
    shown = replace(event, args=frozen_mapping({}))
    if event.phase == "result" and not any(rule.phase == "result" for rule in policy.rules):
        return Outcome(_ALLOW, shown)
    what = error.what if isinstance(error, NotCanonical) else f"fails with {type(error).__name__} when it is read"
    return Outcome(refusal(UNREADABLE, _guilty(event), phase=event.phase, what=what), shown, cause=error)


def _guilty(event: SensorEvent) -> str | None:
    try:
        return next((name for name, value in event.args.items() if not _reads(value)), None)
    except Exception:  # noqa: BLE001 - the mapping itself cannot be read
        return None


def judged(policy: Policy, event: SensorEvent, judge: Judge) -> Outcome:
    """The outcome of a policy's rules over an event whose arguments are read-only (`frozen_mapping`)."""
    fold = Fold(policy, event)
    rest = range(len(policy.rules))
    while rest:
        now, rest = rest, range(0)
        seen = fold.event
        for at, said in judge(now, seen):
            if fold.take(at, said):
                return fold.outcome()
            if fold.event is not seen:  # rewritten: whoever is left judges what it is now
                rest = range(at + 1, now.stop)
                break
    fold.judge_again(judge)
    return fold.outcome()


class Fold:
    """What has been said so far of one event, and the event as it stands now."""

    def __init__(self, policy: Policy, event: SensorEvent) -> None:
        """`event` has read-only arguments (`frozen_mapping`)."""
        self.event = event
        self._policy = policy
        self._before = event
        self._fired: list[Rule] = []
        self._rewrites: list[tuple[Rule, Decision]] = []
        self._escalations: list[tuple[Rule, Decision]] = []
        self._shadows: list[tuple[Rule, Decision]] = []
        self._rewritten: set[str] = set()
        self._last = 0  # the position of the last rule that rewrote; the rules before it have not seen what it made
        self._proof: Decision | None = None
        self._blocked: tuple[Rule, Decision] | None = None
        self._cause: Exception | None = None

    def take(self, at: int, said: object) -> bool:
        """Add what the rule at a position said, its Decision or the exception that it raised; true where it blocks."""
        rule = self._policy.rules[at]
        decision, cause = _checked(rule, said, self.event)
        if rule.shadow:
            self._shadows.append((rule, decision))
            return False
        if decision.verdict is Verdict.MODIFY:
            try:
                self._rewrite(at, rule, decision)
            except Exception as e:  # noqa: BLE001 - whatever a rule put into the call that nobody can read
                decision, cause = refusal(RULE_FAILED, rule=rule.id, error=type(e).__name__), e
        return self._keep(rule, decision, cause)

    def judge_again(self, judge: Judge) -> bool:
        """Let the rules before the last rewrite see the final call, to block or escalate; true where one blocks."""
        if not self._rewrites or self.event.phase != "call":
            return False
        opinions = (said for positions in self._before_last_rewrite() for said in judge(positions, self.event))
        for at, said in opinions:
            rule = self._policy.rules[at]
            decision, cause = _checked(rule, said, self.event)
            if decision.verdict in (Verdict.ALLOW, Verdict.MODIFY):
                continue
            if decision.verdict is Verdict.ESCALATE and any(rule is earlier for earlier, _ in self._escalations):
                continue
            if self._keep(rule, decision, cause):
                return True
        return False

    def _before_last_rewrite(self) -> Iterator[range]:
        """Positions of the rules before the last rewrite, without shadow rules: they are asked once."""
        start = 0
        for at in range(self._last):
            if self._policy.rules[at].shadow:
                yield range(start, at)
                start = at + 1
        yield range(start, self._last)

    def outcome(self) -> Outcome:
        """What everything said so far comes to; a single opinion is given back exactly as its rule gave it."""
        rule, decision = self._blocked or self._combined()
        return Outcome(
            decision,
            self.event,
            tuple(self._fired),
            self._cause,
            rule,
            frozenset(self._rewritten),
            tuple(self._shadows),
            tuple(rule for rule, _ in self._escalations),
            self._before if self._rewrites else None,
        )

    def _keep(self, rule: Rule, decision: Decision, cause: Exception | None) -> bool:
        match decision.verdict:
            case Verdict.ALLOW:
                self._proof = self._proof or (decision if decision.proven else None)
                return False
            case Verdict.MODIFY:
                self._rewrites.append((rule, decision))
            case Verdict.ESCALATE:
                self._escalations.append((rule, decision))
            case _:
                self._blocked, self._cause = (rule, decision), cause
        if not any(rule is earlier for earlier in self._fired):
            self._fired.append(rule)
        return self._blocked is not None

    def _rewrite(self, at: int, rule: Rule, decision: Decision) -> None:
        """Raises: NotCanonical, where a rule set what cannot be read."""
        if self.event.phase == "result":
            self.event = replace(self.event, args=result_args(decision.modified_result))
            self._rewritten.add("result")
        else:
            changes = {k: frozen(v, 1) for k, v in (decision.modified_args or {}).items()}
            self.event = replace(self.event, args=FrozenDict({**self.event.args, **changes}))
            self._rewritten.update(changes)
        self._last = at

    def _combined(self) -> tuple[Rule | None, Decision]:
        said = self._escalations + self._rewrites
        if not said:
            return None, self._proof or _ALLOW
        rule, first = said[0]
        if len(said) == 1:
            return rule, first
        return rule, replace(
            first,
            reason="; ".join(d.reason for _, d in said if d.reason),
            modified_args=self._changes(),
            modified_result=self._rewrites[-1][1].modified_result if self._rewrites else None,
            evidence=self._evidence(),
        )

    def _changes(self) -> Mapping[str, object] | None:
        if self.event.phase == "result" or not self._rewrites:
            return None
        return {name: self.event.args[name] for name in self.event.args if name in self._rewritten}

    def _evidence(self) -> Mapping[str, object] | None:
        """All of it: what two rules call by one name stands under it and, of the later one, with the rule's own."""
        shown: dict[str, object] = {}
        for rule, decision in self._escalations:
            for name, value in (decision.evidence or {}).items():
                shown[name if name not in shown else f"{name} ({rule.id})"] = value
        return shown or None


def asking(policy: Policy) -> Judge:
    """The opinions of rules that are called one by one."""

    def judge(positions: range, event: SensorEvent) -> Iterator[tuple[int, object]]:
        for at in positions:
            rule = policy.rules[at]
            if rule.phase != event.phase:
                continue
            try:
                said: object = rule.function(event)
            except Exception as e:  # noqa: BLE001 - whatever a rule does wrong blocks
                said = e
            if said is not None:
                yield at, said

    return judge


def _checked(rule: Rule, said: object, event: SensorEvent) -> tuple[Decision, Exception | None]:
    """A rule's opinion, or the block of one that cannot be honoured, with the exception behind it."""
    if isinstance(said, Exception):
        return refusal(RULE_FAILED, rule=rule.id, error=type(said).__name__), said
    if not isinstance(said, Decision):
        return refusal(NO_DECISION, rule=rule.id, what=_no_decision(said)), None
    verdict: object = said.verdict
    if not isinstance(verdict, Verdict) or verdict not in _KNOWN:
        return refusal(UNKNOWN_VERDICT, who=f"rule {rule.id}"), None
    odd = _odd_words(said) or (_odd_rewrite(said, event) if verdict is Verdict.MODIFY else "")
    return (refusal(NO_DECISION, rule=rule.id, what=odd) if odd else said), None


# The verdicts that the fold handles, by name: one that is added to Verdict is none of them, and blocks.
_KNOWN: Final = (Verdict.ALLOW, Verdict.BLOCK, Verdict.MODIFY, Verdict.ESCALATE)


def _no_decision(said: object) -> str:
    if inspect.iscoroutine(said):
        said.close()
        return "is asynchronous; a rule answers at once"
    return f"returned a {type(said).__name__}, not a Decision"


def _odd_words(said: Decision) -> str:
    """What is wrong with a decision's texts, which are shown and go into receipts; empty where nothing is."""
    reason, evidence = _any(said.reason), _any(said.evidence)
    if not isinstance(reason, str):
        return f"gave a reason that is a {type(reason).__name__}, not a text"
    if not all(name is None or isinstance(name, str) for name in (said.policy_id, said.attributed_to, said.proven)):
        return "gave a policy_id, attributed_to or proven that is neither a text nor None"
    if evidence is not None and not isinstance(evidence, Mapping):
        return "gave evidence that is neither a mapping nor None"
    return "gave a proof with an objection" if said.proven and said.verdict is not Verdict.ALLOW else ""


def _odd_rewrite(said: Decision, event: SensorEvent) -> str:
    changes = _any(said.modified_args)
    if event.phase == "result":
        return "" if changes is None else "rewrote arguments on a result; use Decision.modify_result"
    if not isinstance(changes, Mapping) or not all(isinstance(k, str) for k in changes):
        return "rewrote a call without arguments to set; use Decision.modify"
    return ""


def _any(value: object) -> object:
    """A field of a decision without its declared type, which nobody has held a rule's author to."""
    return value


def _reads(value: object) -> bool:
    try:
        encode(frozen(value, 1))
    except Exception:  # noqa: BLE001 - as in evaluate: whatever a value of the caller's own raises when read
        return False
    return True
