"""From the rules of a document to rules that the engine can run."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from interlock.base.clock import SystemClock
from interlock.engine.decision import Decision, Verdict
from interlock.engine.event import SensorEvent
from interlock.engine.policy.counting import Counter, CountStore
from interlock.engine.policy.limits import Limits
from interlock.engine.policy.model import Rule, RuleFunction, Source, tie_plan
from interlock.engine.policy.problems import CannotJudge, Oversized
from interlock.engine.policy.removal import removing
from interlock.engine.policy.rule_document import RuleDoc, semantic_digest

__all__ = ["LIMITS_POLICY_ID", "Counts", "Reached", "compile_rules"]

LIMITS_POLICY_ID: Final = "interlock.limits"  # the policy_id of a decision of a rule that could not judge


class Counts(Protocol):
    """What counts events for the counters of rules."""

    def exceeds(self, counter: Counter, key: str, event: SensorEvent) -> bool: ...


class Reached:
    """Counts for examples: every counter has been reached, so that one event shows whether the rest of a rule holds."""

    def exceeds(self, counter: Counter, key: str, event: SensorEvent) -> bool:
        return True


def compile_rules(
    docs: Iterable[RuleDoc], source: Source, counts: Counts | None = None, *, asks: bool = False
) -> tuple[Rule, ...]:
    """Rules that the engine can run; their counters count in `counts`, by default in a store of their own.

    With `asks`, a rule that cannot judge an event asks about it, and never blocks it.
    """
    counts = counts or CountStore(SystemClock().now_us)
    return tuple(
        Rule(
            id=doc.id,
            function=_function(doc, _counted(doc, counts), Verdict.ESCALATE if asks else Verdict.BLOCK),
            phase=doc.phase,
            verdict=doc.verdict,
            locked=doc.locked,
            redacts=doc.mask is not None,
            source=source,
            shadow=doc.shadow,
        )
        for doc in docs
    )


def _plan(doc: RuleDoc, unjudged: Verdict) -> dict[str, object]:
    """The rule as plain JSON with all defaults filled in: what another engine compiles it from."""
    return {
        "id": doc.id,
        "phase": doc.phase,
        "when": doc.when,
        "verdict": doc.verdict.name.lower(),
        "reason": doc.reason,
        "policy_id": doc.policy_id,
        "attributed_to": doc.attributed_to,
        "mask": None if doc.mask is None else doc.mask.plain,
        "shadow": doc.shadow,
        "limits": _limits(doc.setup.limits),
        "oversize": getattr(doc.setup.oversize, doc.phase),
        "unjudged": unjudged.name.lower(),
        "resolve": doc.setup.resolve is not None and _follows(doc.when),
    }


def _follows(when: object) -> bool:
    """Whether a condition asks the file system: a path that does not say that links are left alone."""
    if isinstance(when, Mapping):
        if "path" in when and not (isinstance(test := when["path"], Mapping) and test.get("symlinks") is False):
            return True
        return any(_follows(when[kind]) for kind in ("all", "any", "not") if kind in when)
    return isinstance(when, list | tuple) and any(map(_follows, when))


@functools.lru_cache(maxsize=16)
def _limits(limits: Limits) -> dict[str, int]:
    return dataclasses.asdict(limits)


def _counted(doc: RuleDoc, counts: Counts) -> Callable[[SensorEvent], bool]:
    """Whether an event that all other parts hold of is one too many; every counter counts it."""
    if not doc.counters:
        return _uncounted
    meaning = semantic_digest(doc)
    keys = [(counter, f"{meaning}/{i}") for i, counter in enumerate(doc.counters)]

    def counted(event: SensorEvent) -> bool:
        exceeded = [
            counts.exceeds(counter, key, event) for counter, key in keys
        ]  # each counts, whatever the others say
        return all(exceeded)

    return counted


def _uncounted(event: SensorEvent) -> bool:
    return True


def _function(doc: RuleDoc, counted: Callable[[SensorEvent], bool], unjudged: Verdict) -> RuleFunction:
    """A rule's function. A rule that cannot judge an event objects to it, under a policy_id that is not its own."""
    too_large = doc.setup.oversize.verdict(doc.phase) or Verdict.BLOCK
    too_large = unjudged if unjudged is Verdict.ESCALATE else too_large

    def function(event: SensorEvent) -> Decision | None:
        try:
            return _decision(doc, event) if doc.condition(event) and counted(event) else None
        except CannotJudge as e:
            verdict = too_large if isinstance(e, Oversized) else unjudged
            return Decision(verdict, f"rule {doc.id} cannot judge this: {e.what}", LIMITS_POLICY_ID, _named(doc, event))

    plan = _plan(doc, unjudged)
    tie_plan(function, plan, doc.setup.resolve if plan["resolve"] else None)
    return function


def _decision(doc: RuleDoc, event: SensorEvent) -> Decision | None:
    if doc.mask is None:
        return Decision(doc.verdict, doc.reason, doc.policy_id, _attributed(doc, event))
    masked = doc.mask.function(event)
    if masked is None or masked.verdict == Verdict.ALLOW:
        return None
    masked = removing(masked, event) if doc.mask.removes and masked.verdict is Verdict.MODIFY else masked
    about = _named(doc, event) or masked.attributed_to
    return dataclasses.replace(masked, reason=doc.reason, policy_id=doc.policy_id, attributed_to=about)


def _attributed(doc: RuleDoc, event: SensorEvent) -> str | None:
    """The argument that the rule names, or the one that a flow of its own leads to."""
    named = _named(doc, event)
    if named is not None or doc.origin is None:
        return named
    origin = doc.origin(event)
    return origin.path or None if origin is not None else None


def _named(doc: RuleDoc, event: SensorEvent) -> str | None:
    """The path that the rule says it is about, where the event has that argument: tools call theirs by many names."""
    if doc.attributed_to is None or doc.about is None or doc.about in event.args:
        return doc.attributed_to
    return None
