"""What two policies do differently: rules by their meaning, settings, and the verdicts on given events."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from interlock.engine.decision import Verdict
from interlock.engine.evaluate import evaluate
from interlock.engine.event import SensorEvent
from interlock.engine.policy.model import Policy, Rule

__all__ = ["Changed", "Difference", "difference"]


@dataclass(frozen=True, slots=True)
class Changed:
    """An event whose verdict differs: which one it is among those given, and the verdict before and after."""

    index: int
    event: SensorEvent
    before: Verdict
    after: Verdict


@dataclass(frozen=True, slots=True)
class Difference:
    """The ids of rules that only one policy has, that mean something else, or stand in another order; and the rest."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[tuple[str, tuple[str, ...]], ...]  # id, and the fields that differ
    moved: tuple[str, ...]
    settings: tuple[str, ...]
    verdicts: tuple[Changed, ...]

    @property
    def same(self) -> bool:
        return not (self.added or self.removed or self.changed or self.moved or self.settings or self.verdicts)


def difference(old: Policy, new: Policy, events: Iterable[SensorEvent]) -> Difference:
    """How `new` differs from `old`."""
    before, after = {r.id: r for r in old.rules}, {r.id: r for r in new.rules}
    both = [name for name in before if name in after]
    fields = [(name, _differing(before[name], after[name])) for name in both]
    order = [name for name in after if name in before]
    verdicts = (
        Changed(i, event, evaluate(old, event).decision.verdict, evaluate(new, event).decision.verdict)
        for i, event in enumerate(events)
    )
    return Difference(
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        changed=tuple((name, names) for name, names in fields if names),
        moved=tuple(name for name, other in zip(both, order, strict=True) if name != other),
        settings=_settings(old, new),
        verdicts=tuple(changed for changed in verdicts if changed.before is not changed.after),
    )


def _differing(old: Rule, new: Rule) -> tuple[str, ...]:
    """The fields by which two rules of one id differ; rules of code are compared by what is known of them."""
    one, other = _meaning(old), _meaning(new)
    return tuple(sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key)))


def _meaning(rule: Rule) -> dict[str, str]:
    known = {"locked": rule.locked, "shadow": rule.shadow, "phase": rule.phase, **(rule.plan or {})}
    return {key: json.dumps(value, sort_keys=True) for key, value in known.items()}


def _settings(old: Policy, new: Policy) -> tuple[str, ...]:
    names = ("limits", "oversize", "prove_harmless", "quarantined")
    return tuple(name for name in names if getattr(old, name) != getattr(new, name))
