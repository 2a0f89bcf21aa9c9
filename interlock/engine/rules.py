"""Rules that are code: from a function, or from a predicate that says when to deny."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from interlock.base.canonical import digest
from interlock.engine.decision import Decision
from interlock.engine.event import Phase, SensorEvent
from interlock.engine.policy.model import Policy, Rule, RuleFunction

__all__ = ["CODE_DIGEST", "code_rules", "deny_when", "with_code_rules"]

CODE_DIGEST: Final = "interlock/policy/code/v1"


def deny_when(
    test: Callable[[SensorEvent], object],
    reason: str,
    policy_id: str | None = None,
    attributed_to: str | None = None,
) -> RuleFunction:
    """A rule that blocks where `test` is true of a call; a test that crashes blocks too."""

    def rule(event: SensorEvent) -> Decision | None:
        return Decision.block(reason, policy_id, attributed_to) if test(event) else None

    rule.__name__ = policy_id or str(getattr(test, "__name__", "deny_when"))
    return rule


def code_rules(rules: Iterable[RuleFunction | Rule]) -> tuple[Rule, ...]:
    """Compiled rules of functions, in order; each is named for its function, and numbered where two share a name.

    A function's attribute `phase` ("call" by default) says which events it sees; `redacts` keeps it out of counts;
    a plan that is tied to it (`tie_plan`) says which detector it is, so that it can run natively.
    Raises: TypeError, ValueError for what is no rule.
    """
    found: list[Rule] = []
    taken: set[str] = set()
    for item in rules:
        rule = item if isinstance(item, Rule) else _compiled(item)
        name, n = rule.id, 1
        while name in taken:
            n += 1
            name = f"{rule.id}#{n}"
        taken.add(name)
        found.append(rule if name == rule.id else replace(rule, id=name))
    return tuple(found)


def with_code_rules(policy: Policy | None, rules: tuple[Rule, ...]) -> Policy:
    """A policy's rules and then those of code; the digest counts code rules by name."""
    if policy is not None and not rules:
        return policy
    base = policy or Policy((), "")
    names = [base.digest, [[rule.id, rule.phase] for rule in rules]]
    return replace(base, rules=base.rules + rules, digest=digest(CODE_DIGEST, names).hex())


def _compiled(function: object) -> Rule:
    if not callable(function):
        raise TypeError(f"a rule is a function of an event, not a {type(function).__name__}")
    phase: Phase = getattr(function, "phase", "call")
    if phase not in ("call", "result"):
        raise ValueError(f"rule.phase is {phase!r}; it can be 'call' or 'result'")
    name = getattr(function, "__name__", type(function).__name__)
    return Rule(id=str(name), function=function, phase=phase, redacts=bool(getattr(function, "redacts", False)))
