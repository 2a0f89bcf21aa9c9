"""From documents to the Policy that the engine evaluates: extended, its overlays added, its quarantine applied.

`extends` comes first: a document's own rules run after those it extends, in the order it names them. A rule whose id an
extended document already has takes that rule's place, unless that rule is locked: a locked rule stands. Two documents
that are extended side by side may not define one id differently. Overlays only add (see `overlay`): their rules and
those of packs come last (see `model.Policy`). What a document says of limits and of what is larger stands for all its
rules, those that it extends included; where it says nothing, the smallest limits and the strictest answers of what it
extends do. To prove calls harmless is never inherited. Every example of a file must hold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from interlock.base.canonical import long_digest
from interlock.base.clock import SystemClock
from interlock.engine.policy.check import check_rules
from interlock.engine.policy.compiled import LIMITS_POLICY_ID, Counts, compile_rules
from interlock.engine.policy.counting import CountStore
from interlock.engine.policy.document import (
    Document,
    Opened,
    finish_document,
    open_document,
    semantic_digest,
    settings_marks,
)
from interlock.engine.policy.limits import Limits, Oversize, strictest
from interlock.engine.policy.model import Policy, Quarantined, Rule, Source
from interlock.engine.policy.overlay import demand_monotone
from interlock.engine.policy.problems import BadPolicy
from interlock.engine.policy.setup import Resolve, Setup

__all__ = ["LIMITS_POLICY_ID", "MAX_CHAIN", "MAX_TOGETHER", "Resolver", "compile_rules", "load_policy"]

MAX_CHAIN: Final = 8  # documents that extend one another in a row
MAX_TOGETHER: Final = 200_000  # rules of a document with those that it extends

Resolver = Callable[[str], "Policy | bytes"]


def load_policy(
    data: bytes,
    *,
    where: str,
    source: Source,
    resolve: Resolver,
    trusted: Callable[[str], bool] = lambda sha256: False,
    links: Resolve | None = None,
    counts: Counts | None = None,
    examples: bool = True,
) -> Policy:
    """The Policy of a document and of all that it extends.

    `resolve` gives what a name in `extends` or `overlays` stands for, a document's bytes or a Policy; it raises an
    InterlockError for a name that it does not know. `trusted` says of an overlay's SHA-256 (hex) whether a person has
    trusted that very content. `links` follows symbolic links, `counts` counts for rules that ask how often.
    `examples` is false only for whoever runs the examples anyway, and shows which do not hold.

    Raises: BadPolicy.
    """
    top = _Opening(resolve).opened(data, where, source, (where,))
    limits, oversize = _sizes(top)
    setup = Setup(limits, oversize, links)
    return _Making(resolve, trusted, setup, counts or CountStore(SystemClock().now_us), examples).made(top)


@dataclass(frozen=True, slots=True)
class _Tree:
    """An opened document with what it extends."""

    opened: Opened
    source: Source
    bases: tuple[_Tree | Policy, ...]


def _sizes(tree: _Tree) -> tuple[Limits, Oversize]:
    """A pack has no say: a smaller limit reads less of what is larger, where that is let through in part."""
    limits, oversize = strictest([_sizes(base) for base in tree.bases if isinstance(base, _Tree)])
    return tree.opened.settings.limits or limits, tree.opened.settings.oversize or oversize


class _Opening:
    """Opens a document and all that it extends; each name is resolved once, so that what two share is the same."""

    def __init__(self, resolve: Resolver) -> None:
        self._resolve = resolve
        self._known: dict[str, _Tree | Policy] = {}

    def opened(self, data: bytes, where: str, source: Source, chain: tuple[str, ...]) -> _Tree:
        document = open_document(data, where=where)
        return _Tree(document, source, tuple(self._base(name, where, source, chain) for name in document.extends))

    def _base(self, name: str, where: str, source: Source, chain: tuple[str, ...]) -> _Tree | Policy:
        at = f"{where}: extends"
        if name in chain:
            raise BadPolicy(f"goes round in a circle ({' -> '.join([*chain, name])})", where=at, fix="remove one link")
        if len(chain) >= MAX_CHAIN:
            raise BadPolicy(f"is a chain of more than {MAX_CHAIN} documents", where=at)
        if name not in self._known:
            found = self._resolve(name)
            if isinstance(found, Policy):
                self._known[name] = found
            else:
                kind = "builtin" if name.startswith("builtin:") else source.kind
                base = Source(kind, name.removeprefix("builtin:"))
                self._known[name] = self.opened(found, name, base, (*chain, name))
        return self._known[name]


class _Making:
    """Makes the policies of opened documents, all with one setup."""

    def __init__(
        self, resolve: Resolver, trusted: Callable[[str], bool], setup: Setup, counts: Counts, examples: bool
    ) -> None:
        self._resolve = resolve
        self._trusted = trusted
        self._setup = setup
        self._counts = counts
        self._examples = examples
        self._made: dict[str, Policy] = {}

    def made(self, tree: _Tree | Policy) -> Policy:
        if isinstance(tree, Policy):
            return tree
        where = tree.opened.where
        if where not in self._made:
            self._made[where] = self._policy(tree, where)
        return self._made[where]

    def _policy(self, tree: _Tree, where: str) -> Policy:
        bases = [self.made(base) for base in tree.bases]
        document = finish_document(tree.opened, self._setup)
        if self._examples and tree.source.kind != "builtin":  # the tests hold the examples of what ships
            _demand_examples(document, where)
        own = compile_rules(document.rules, tree.source, self._counts)
        rules = _with_own(_joined(bases, document.extends, where), own, where)
        overlays = [self._overlay(name, where, rules) for name in document.settings.overlays]
        if len(rules) > MAX_TOGETHER:
            raise BadPolicy(f"has more than {MAX_TOGETHER} rules with those it extends", where=where)
        quarantined = _without(rules, document.settings.quarantine, where)
        return Policy(
            rules=tuple(rules.values()),
            digest=_digest(document, bases, overlays),
            limits=self._setup.limits,
            oversize=self._setup.oversize,
            prove_harmless=document.settings.prove_harmless,
            quarantined=tuple(dict.fromkeys([*quarantined, *(row for base in bases for row in base.quarantined)])),
        )

    def _overlay(self, name: str, where: str, rules: dict[str, Rule]) -> str:
        """Add an overlay's rules after all others; returns its digest. Raises: BadPolicy."""
        data = self._resolve(name)
        if isinstance(data, Policy) or name.startswith("builtin:"):
            raise BadPolicy("is no file", where=f"{where}: overlays", fix="name a file, or put it into 'extends'")
        if not self._trusted(hashlib.sha256(data).hexdigest()):
            raise BadPolicy(
                "is an overlay that nobody has trusted as it now stands",
                where=name,
                fix=f"read it, then: interlock policy trust {name}",
            )
        overlay = finish_document(open_document(data, where=name), self._setup)
        demand_monotone(overlay, name)
        _demand_examples(overlay, name)
        # Counts of its own: in the operator's store, an overlay's could push out those that other rules rely on.
        for rule in compile_rules(overlay.rules, Source("overlay", name)):
            if rule.id in rules:
                raise BadPolicy(
                    f"redefines a rule of {rules[rule.id].source.name}",
                    where=f"{name}: rule {rule.id}: id",
                    fix="give the rule another id; an overlay only adds",
                )
            rules[rule.id] = rule
        return overlay.digest


def _demand_examples(document: Document, where: str) -> None:
    """Raises: BadPolicy, for the first example that does not hold; a rule may be without."""
    for row in check_rules(rule for rule in document.rules if rule.examples.fires or rule.examples.passes).failures:
        if row.index >= 0:
            raise BadPolicy(row.problem, where=f"{where}: rule {row.rule}: examples.{row.kind}[{row.index}]")


def _with_own(rules: dict[str, Rule], own: tuple[Rule, ...], where: str) -> dict[str, Rule]:
    for rule in own:
        base = rules.get(rule.id)
        if base is not None and base.locked:
            raise BadPolicy(
                f"redefines a locked rule of {base.source.name}",
                where=f"{where}: rule {rule.id}: id",
                fix="give the rule another id; a locked rule stands",
            )
        rules[rule.id] = rule
    return rules


def _without(rules: dict[str, Rule], quarantine: tuple[Quarantined, ...], where: str) -> tuple[Quarantined, ...]:
    """Take the quarantined rules out. Raises: BadPolicy, for one that is locked or not there."""
    for row in quarantine:
        rule = rules.get(row.rule)
        if rule is None:
            raise BadPolicy(f"names {row.rule!r}, and there is no such rule", where=f"{where}: quarantine")
        if rule.locked:
            raise BadPolicy(f"names {row.rule!r}, which is locked", where=f"{where}: quarantine", fix="let it stand")
        del rules[row.rule]
    return quarantine


def _digest(document: Document, bases: list[Policy], overlays: list[str]) -> str:
    if not bases and not overlays:
        return document.digest
    marks: list[object] = [*(base.digest for base in bases), [semantic_digest(doc) for doc in document.rules]]
    settings = settings_marks(document.settings)
    if settings or overlays:  # only where there are any: every other digest stays what it always was
        marks.append([settings, overlays])
    return long_digest("interlock/policy-extended/v1", marks).hex()


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
