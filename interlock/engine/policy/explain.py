"""Why a rule fires on an event, or does not: which of its conditions decided, and what would have to change."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from interlock.engine.decision import Decision, Verdict
from interlock.engine.evaluate import evaluate
from interlock.engine.event import SensorEvent
from interlock.engine.policy.conditions import COUNTED, compile_condition
from interlock.engine.policy.limits import Limits, Oversize
from interlock.engine.policy.model import Policy, Rule
from interlock.engine.policy.problems import CannotJudge
from interlock.engine.policy.setup import Resolve, Setup

__all__ = ["Explained", "Part", "explained"]

_SHOWN: Final = 200  # characters of a condition
_JOINED: Final = ("all", "any")


@dataclass(frozen=True, slots=True)
class Part:
    """One condition: where it stands in the rule, its text, and whether it holds (None: it could not judge)."""

    at: str
    text: str
    holds: bool | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Explained:
    """One rule's answer. `decided` are the conditions that settled it; `change` says what would turn it round."""

    rule: Rule
    decision: Decision | None
    seen: bool  # whether the rule sees events of this phase at all
    decided: tuple[Part, ...] = ()
    change: str = ""


def explained(policy: Policy, event: SensorEvent, links: Resolve | None = None) -> Iterator[Explained]:
    """Each rule's answer to an event, in order; later rules see what earlier ones rewrote.

    A rule before the last rewrite that objects only to the final call is shown with its answer to that. Rules that
    count count the event; one with a call_id counts once, however often it is judged.
    """
    rows: list[Explained] = []
    current, rewritten = event, 0
    for at, rule in enumerate(policy.rules):
        if rule.phase != event.phase:
            rows.append(Explained(rule, None, seen=False))
            continue
        told = _explained(rule, current, _setup(rule, links))
        rows.append(told)
        if told.decision is not None and told.decision.verdict is Verdict.MODIFY and not rule.shadow:
            current = evaluate(replace(policy, rules=policy.rules[: at + 1]), event).event
            rewritten = at if event.phase == "call" else 0
    blocked = any(row.decision is not None and row.decision.verdict is Verdict.BLOCK for row in rows)
    for at, row in enumerate(rows[: 0 if blocked else rewritten]):
        if row.seen and row.decision is None and not row.rule.shadow:
            again = _explained(row.rule, current, _setup(row.rule, links))
            if again.decision is not None and again.decision.verdict is not Verdict.MODIFY:
                rows[at] = again
    return iter(rows)


def _setup(rule: Rule, links: Resolve | None) -> Setup:
    """How the rule itself reads texts: those of a pack not as the policy that extends it."""
    plan = rule.plan or {}
    limits, word = plan.get("limits"), plan.get("oversize")
    held = Limits(**limits) if isinstance(limits, Mapping) else Limits()
    return Setup(held, Oversize(**{rule.phase: str(word)}) if word else Oversize(), links)


def _explained(rule: Rule, event: SensorEvent, setup: Setup) -> Explained:
    decision = rule.function(event)
    plan = rule.plan
    if plan is None or not isinstance(when := plan.get("when"), Mapping):
        return Explained(rule, decision, seen=True)
    tree = _tree(when, "when", rule, event, setup, decision)
    holds = tree.holds
    if holds and decision is None and isinstance(mask := plan.get("mask"), Mapping):
        word = "remove" if mask.get("removes") else "mask"
        found = Part(word, f"the {word} finds something", False)
        return Explained(rule, decision, True, (found,), f"the {word} must find something")
    wanted = not holds
    return Explained(rule, decision, True, tuple(_decided(tree)), _needed(tree, wanted))


@dataclass(frozen=True, slots=True)
class _Node:
    kind: str  # all, any, not, or "" for a condition of its own
    part: Part
    below: tuple[_Node, ...] = ()

    @property
    def holds(self) -> bool:
        return bool(self.part.holds)


def _tree(
    when: Mapping[str, object], at: str, rule: Rule, event: SensorEvent, setup: Setup, decision: Decision | None
) -> _Node:
    for kind in _JOINED:
        if isinstance(parts := when.get(kind), list | tuple):
            below = tuple(
                _tree(part, f"{at}.{kind}[{i}]", rule, event, setup, decision)
                for i, part in enumerate(parts)
                if isinstance(part, Mapping)
            )
            holds = all(n.holds for n in below) if kind == "all" else any(n.holds for n in below)
            return _Node(kind, Part(at, kind, holds), below)
    if isinstance(inner := when.get("not"), Mapping):
        below = (_tree(inner, f"{at}.not", rule, event, setup, decision),)
        problem = below[0].part.problem
        return _Node("not", Part(at, "not", None if problem else not below[0].holds, problem), below)
    return _Node("", _leaf(when, at, rule, event, setup, decision))


def _leaf(
    when: Mapping[str, object], at: str, rule: Rule, event: SensorEvent, setup: Setup, decision: Decision | None
) -> Part:
    text = json.dumps(when, ensure_ascii=True)
    text = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
    if any(kind in when for kind in COUNTED):
        return Part(at, text, decision is not None)  # how often, only the rule itself knows
    try:
        return Part(at, text, compile_condition(when, rule.phase, at, setup)(event))
    except CannotJudge as e:
        return Part(at, text, None, e.what)


def _decided(node: _Node) -> Iterator[Part]:
    """The conditions that settle it: all parts of what holds together, or the ones that alone are enough."""
    if not node.kind:
        yield node.part
        return
    if node.kind == "not":
        yield from _decided(node.below[0])
        return
    for below in node.below:
        if below.holds == node.holds:
            yield from _decided(below)


def _needed(node: _Node, wanted: bool) -> str:
    """What would have to change for the condition to hold, or not to hold."""
    if not node.kind:
        return f"{node.part.text} must {'hold' if wanted else 'not hold'}"
    if node.kind == "not":
        return _needed(node.below[0], not wanted)
    together = (node.kind == "all") == wanted
    told = [_needed(below, wanted) for below in node.below if below.holds != wanted]
    if len(told) == 1:
        return told[0]
    return (" and " if together else " or ").join(f"({part})" if " or " in part and together else part for part in told)
