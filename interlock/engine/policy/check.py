"""Runs the examples that rules carry: each `fires` must make that very rule fire, each `passes` must not.

A rule without an example of either kind fails the check: a rule that nobody has seen fire, or seen hold its peace,
is not known to work. For an example, every `count` and `rate` has been reached.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from interlock.engine.decision import Decision, Verdict
from interlock.engine.event import SensorEvent
from interlock.engine.policy.compiled import LIMITS_POLICY_ID, Reached, compile_rules
from interlock.engine.policy.document import Document
from interlock.engine.policy.model import Rule, Source
from interlock.engine.policy.rule_document import RuleDoc

__all__ = ["Report", "Row", "check_document", "check_rules"]


_KINDS: Final[tuple[tuple[Literal["fires", "passes"], str], ...]] = (("fires", "fire"), ("passes", "pass"))


@dataclass(frozen=True, slots=True)
class Row:
    """One example's outcome; `problem` is empty where it held. `index` counts from 0, -1 where there is none."""

    rule: str
    kind: Literal["fires", "passes"]
    index: int
    problem: str = ""

    @property
    def ok(self) -> bool:
        return not self.problem


@dataclass(frozen=True, slots=True)
class Report:
    """All rows of a check, in the order of the rules."""

    rows: tuple[Row, ...]

    @property
    def failures(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if not row.ok)

    @property
    def ok(self) -> bool:
        return not self.failures


def check_document(document: Document) -> Report:
    """Run the examples of a document's own rules."""
    return check_rules(document.rules)


def check_rules(docs: Iterable[RuleDoc]) -> Report:
    """Run the examples of rules."""
    return Report(tuple(row for doc in docs for row in _rows(doc)))


def _rows(doc: RuleDoc) -> list[Row]:
    rows: list[Row] = []
    if not doc.examples.fires and not doc.examples.passes:
        return [Row(doc.id, kind, -1, f"the rule has no example that must {verb}") for kind, verb in _KINDS]
    (rule,) = compile_rules([doc], Source("file"), Reached())
    if not doc.examples.fires:
        rows.append(Row(doc.id, "fires", -1, "the rule has no example that must fire"))
    rows += [Row(doc.id, "fires", i, _must_fire(doc, rule, e)) for i, e in enumerate(doc.examples.fires)]
    if not doc.examples.passes:
        rows.append(Row(doc.id, "passes", -1, "the rule has no example that must pass"))
    rows += [Row(doc.id, "passes", i, _must_pass(rule, e)) for i, e in enumerate(doc.examples.passes)]
    return rows


def _must_fire(doc: RuleDoc, rule: Rule, event: SensorEvent) -> str:
    decision, problem = _judged(rule, event)
    if problem:
        return problem
    if decision is None:
        return "the rule does not fire"
    if decision.verdict != doc.verdict:
        return f"the rule gives {decision.verdict.name.lower()}, not {doc.verdict.name.lower()}"
    return ""


def _must_pass(rule: Rule, event: SensorEvent) -> str:
    decision, problem = _judged(rule, event)
    return problem or ("" if decision is None else "the rule fires")


def _judged(rule: Rule, event: SensorEvent) -> tuple[Decision | None, str]:
    """What a rule says of an example, and what went wrong where it could not say."""
    try:
        decision = rule.function(event)
    except Exception as e:  # noqa: BLE001 - a rule that raises would block; here it is a finding
        return None, f"the rule fails ({type(e).__name__})"
    if decision is None or decision.verdict == Verdict.ALLOW:
        return None, ""
    return decision, decision.reason if decision.policy_id == LIMITS_POLICY_ID else ""
