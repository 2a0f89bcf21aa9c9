"""From documents to the Policy that the engine evaluates: compiled and extended.

`extends` comes first: a document's own rules run after those it extends, in the order it names them. A rule whose id
an extended document already has takes that rule's place, unless that rule is locked: a locked rule stands. Two
documents that are extended side by side may not define one id differently.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Final

from interlock.base.canonical import digest
from interlock.engine.decision import Decision, Verdict
from interlock.engine.event import SensorEvent
from interlock.engine.policy.document import MAX_RULES, Document, RuleDoc, parse_document, plain, semantic_digest
from interlock.engine.policy.model import Policy, Rule, RuleFunction, Source
from interlock.engine.policy.problems import BadPolicy, CannotJudge

__all__ = ["LIMITS_POLICY_ID", "MAX_CHAIN", "Resolver", "compile_rules", "load_policy"]

MAX_CHAIN: Final = 8  # documents that extend one another in a row
LIMITS_POLICY_ID: Final = "interlock.limits"  # the policy_id of a block by a rule that could not judge

Resolver = Callable[[str], "Policy | bytes"]


def compile_rules(docs: Iterable[RuleDoc], source: Source) -> tuple[Rule, ...]:
    """Rules that the engine can run."""
    return tuple(
        Rule(
            id=doc.id,
            function=_function(doc),
            phase=doc.phase,
            verdict=doc.verdict,
            locked=doc.locked,
            redacts=doc.mask is not None,
            source=source,
            shadow=doc.shadow,
            plan=_plan(doc),
        )
        for doc in docs
    )


def _plan(doc: RuleDoc) -> dict[str, object]:
    """The rule as plain JSON with all defaults filled in: what another engine compiles it from."""
    return {
        "id": doc.id,
        "phase": doc.phase,
        "when": plain(doc.when),
        "verdict": doc.verdict.name.lower(),
        "reason": doc.reason,
        "policy_id": doc.policy_id,
        "attributed_to": doc.attributed_to,
        "mask": None if doc.mask is None else {"detector": doc.mask.detector, "params": plain(doc.mask.params)},
        "shadow": doc.shadow,
    }


def load_policy(data: bytes, *, where: str, source: Source, resolve: Resolver) -> Policy:
    """The Policy of a document and of all that it extends.

    `resolve` gives what a name in `extends` stands for, a document's bytes or a Policy; it raises an InterlockError
    for a name that it does not know.

    Raises: BadPolicy.
    """
    return _Loading(resolve).load(parse_document(data, where=where), where, source, (where,))


def _function(doc: RuleDoc) -> RuleFunction:
    """A rule's function. A rule that cannot judge an event blocks it, under a policy_id that is not its own."""

    def function(event: SensorEvent) -> Decision | None:
        try:
            return _decision(doc, event) if doc.condition(event) else None
        except CannotJudge as e:
            return Decision.block(f"rule {doc.id} cannot judge this: {e.what}", LIMITS_POLICY_ID, doc.attributed_to)

    return function


def _decision(doc: RuleDoc, event: SensorEvent) -> Decision | None:
    if doc.mask is None:
        return Decision(doc.verdict, doc.reason, doc.policy_id, doc.attributed_to)
    masked = doc.mask.function(event)
    if masked is None or masked.verdict == Verdict.ALLOW:
        return None
    return dataclasses.replace(
        masked, reason=doc.reason, policy_id=doc.policy_id, attributed_to=doc.attributed_to or masked.attributed_to
    )


class _Loading:
    """One load: each name in `extends` is resolved once, so that what two documents share is the same."""

    def __init__(self, resolve: Resolver) -> None:
        self._resolve = resolve
        self._loaded: dict[str, Policy] = {}

    def load(self, document: Document, where: str, source: Source, chain: tuple[str, ...]) -> Policy:
        bases = [self._extended(name, where, source, chain) for name in document.extends]
        own = compile_rules(document.rules, source)
        if not bases:
            return Policy(own, document.digest)
        rules = _joined(bases, document.extends, where)
        for rule in own:
            base = rules.get(rule.id)
            if base is not None and base.locked:
                raise BadPolicy(
                    f"redefines a locked rule of {base.source.name}",
                    where=f"{where}: rule {rule.id}: id",
                    fix="give the rule another id; a locked rule stands",
                )
            rules[rule.id] = rule
        if len(rules) > MAX_RULES:
            raise BadPolicy(f"has more than {MAX_RULES} rules with those it extends", where=where)
        marks = [*(base.digest for base in bases), [semantic_digest(doc) for doc in document.rules]]
        return Policy(tuple(rules.values()), digest("interlock/policy-extended/v1", marks).hex())

    def _extended(self, name: str, where: str, source: Source, chain: tuple[str, ...]) -> Policy:
        at = f"{where}: extends"
        if name in chain:
            raise BadPolicy(f"goes round in a circle ({' -> '.join([*chain, name])})", where=at, fix="remove one link")
        if len(chain) >= MAX_CHAIN:
            raise BadPolicy(f"is a chain of more than {MAX_CHAIN} documents", where=at)
        if name not in self._loaded:
            found = self._resolve(name)
            if isinstance(found, Policy):
                self._loaded[name] = found
            else:
                kind = "builtin" if name.startswith("builtin:") else source.kind
                base = Source(kind, name.removeprefix("builtin:"))
                self._loaded[name] = self.load(parse_document(found, where=name), name, base, (*chain, name))
        return self._loaded[name]


def _joined(bases: list[Policy], names: tuple[str, ...], where: str) -> dict[str, Rule]:
    """The rules of all bases in order; one that came along two ways counts once."""
    rules: dict[str, Rule] = {}
    for base, name in zip(bases, names, strict=True):
        for rule in base.rules:
            known = rules.setdefault(rule.id, rule)
            if known is not rule:
                raise BadPolicy(
                    f"{name} defines rule {rule.id}, which another extended policy has too",
                    where=f"{where}: extends",
                    fix="extend one of the two",
                )
    return rules
