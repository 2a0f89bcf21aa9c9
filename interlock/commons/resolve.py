"""From packs to a Policy: the operator's own base first, then each pack's rules as they stand on this node.

A pack can only add objections. The base rules always run, in full; a pack's rule that means the same as a base rule
(the same semantic digest) is that base rule, and acts in full because the operator has it already. Any other rule of a
pack is held to its ring and to what the operator granted, whatever other packs say of it: where two have the same rule
it acts as the one that may do more.

    granted       acts in full
    ungranted     asks where its author would block or mask; or is in shadow, where the operator chose so
    superseded    was granted, and its pack has changed or dropped it, or is in shadow now: it acts in full, beside what
                  replaced it
    asking        its author only asks
    beta, canary  the ring allows no more than asking, or than shadow
    watched       of a version in its monitor window: in shadow
    stepped-back  in shadow, by a step back
    shadow        in shadow, as its author wrote it, or as the pack's status says

What was removed from the commons is not there, granted or not. An allow of a pack never lifts an objection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from interlock.base.canonical import digest
from interlock.commons.grants import Grant, Grants
from interlock.commons.pack import Pack
from interlock.commons.rings import capped
from interlock.commons.withdrawn import Withdrawn, removes
from interlock.engine.decision import Verdict
from interlock.engine.policy.document import RuleDoc, semantic_digest
from interlock.engine.policy.load import compile_rules
from interlock.engine.policy.model import Policy, Rule, Source

__all__ = ["BASE_NAME", "Resolved", "Standing", "State", "Subscribed", "resolve", "resolved"]

BASE_NAME: Final = "coding-agent"
_DIGEST: Final = "interlock/commons/policy/v1"
_FULL: Final = 2  # how far a rule goes that masks or blocks; one that asks goes to 1, one in shadow to 0

State = Literal[
    "base", "granted", "ungranted", "superseded", "asking", "beta", "canary", "watched", "stepped-back", "shadow"
]


@dataclass(frozen=True)
class Subscribed:
    """A pack as a node has it: in which ring, where it stands in the log, and whether it is only watched yet."""

    pack: Pack
    ring: str
    log_index: int
    watched: bool = False

    @property
    def source(self) -> Source:
        return Source("pack", f"{self.pack.name}@{self.ring}", self.pack.digest, self.log_index)


@dataclass(frozen=True, slots=True)
class Standing:
    """How one rule of a pack stands: `id` is its name in the Policy, `acts` the most it does (ALLOW: nothing)."""

    id: str
    pack: str
    ring: str
    version: int
    rule: str
    semantic: str
    state: State
    acts: Verdict
    doc: RuleDoc = field(repr=False)


@dataclass(frozen=True)
class Resolved:
    """A Policy, and how each rule of the packs stands in it."""

    policy: Policy
    standings: tuple[Standing, ...]


def resolve(base: Sequence[RuleDoc], packs: Sequence[Subscribed], grants: Grants) -> Policy:
    """One Policy of base rules and packs. Raises: BadPolicy, where a rule does not compile; BadState."""
    return resolved(base, packs, grants).policy


def resolved(
    base: Sequence[RuleDoc], packs: Sequence[Subscribed], grants: Grants, withdrawn: Sequence[Withdrawn] = ()
) -> Resolved:
    """As `resolve`, with how each rule stands. A watched pack comes after those that are in force."""
    shared = {semantic_digest(doc): s.source for s in reversed(packs) for doc in s.pack.rules}
    own: dict[str, RuleDoc] = {semantic_digest(doc): doc for doc in base}
    rules: list[Rule] = []
    for semantic, doc in own.items():
        rules += compile_rules([doc], shared.get(semantic, Source("builtin", BASE_NAME)))
    standing = _Standing(own, [rule.id for rule in rules], grants, withdrawn)
    held = [pair for subscribed in packs for pair in standing.of(subscribed)]
    marks = [[s.pack.name, s.ring, s.pack.digest] for s in packs]
    states = sorted([s.semantic, s.state, s.acts.name] for s, _ in held if s.state not in ("base", "asking"))
    policy = Policy((*rules, *(_compiled(*pair) for pair in held if pair[0].state != "base")), "")
    named = digest(_DIGEST, [sorted(own), marks, states]).hex()
    return Resolved(replace(policy, digest=named), tuple(s for s, _ in held))


class _Standing:
    """What has been named so far, while packs are gone through in order."""

    def __init__(self, own: dict[str, RuleDoc], ids: list[str], grants: Grants, withdrawn: Sequence[Withdrawn]) -> None:
        self._own = own
        self._seen = dict.fromkeys(own, _FULL)  # what a rule means, and how far it goes already
        self._taken = dict.fromkeys(ids, "")  # ids of rules, and whose they are
        self._grants = grants
        self._withdrawn = withdrawn

    def of(self, subscribed: Subscribed) -> Iterator[tuple[Standing, Source]]:
        """A pack's rules in their order; those that it no longer has, and that were granted, come first."""
        pack, ring = subscribed.pack, subscribed.ring
        meant = {semantic_digest(doc): doc for doc in pack.rules}
        if ring == "stable" and not subscribed.watched:
            acting = {} if pack.status == "shadow" else {semantic: doc.id for semantic, doc in meant.items()}
            for row in self._grants.superseded(pack.name, pack.version, acting):
                if removes(self._withdrawn, pack.name, row.version, ring, row.rule):
                    continue
                doc = row.rule_doc()
                if self._adds(row.semantic, doc.verdict):
                    yield self._superseded(row, doc, ring)
        for semantic, doc in meant.items():
            if removes(self._withdrawn, pack.name, pack.version, ring, doc.id):
                continue
            if semantic in self._own:
                yield self._named(doc, subscribed, semantic, "base", doc.verdict), subscribed.source
                continue
            state, acts = self._state(doc, subscribed, semantic)
            if self._adds(semantic, acts):
                yield self._named(doc, subscribed, semantic, state, acts), subscribed.source

    def _adds(self, semantic: str, acts: Verdict) -> bool:
        """Whether a rule goes further than it does already, for the same one in another pack; it is noted if so."""
        strength = {Verdict.ALLOW: 0, Verdict.ESCALATE: 1}.get(acts, _FULL)
        if strength <= self._seen.get(semantic, -1):
            return False
        self._seen[semantic] = strength
        return True

    def _superseded(self, row: Grant, doc: RuleDoc, ring: str) -> tuple[Standing, Source]:
        name = self._free(f"{row.rule}@{row.version}", row.pack, row.version)
        found = Standing(name, row.pack, ring, row.version, row.rule, row.semantic, "superseded", doc.verdict, doc)
        return found, Source("pack", f"{row.pack}@{ring}", row.sha256, row.log_index)

    def _named(self, doc: RuleDoc, of: Subscribed, semantic: str, state: State, acts: Verdict) -> Standing:
        pack = of.pack
        name = doc.id if state == "base" else self._free(doc.id, pack.name, pack.version)
        return Standing(name, pack.name, of.ring, pack.version, doc.id, semantic, state, acts, doc)

    def _free(self, name: str, pack: str, version: int) -> str:
        """An id that no other rule has: its own, or with its version where its own pack has it already."""
        told = f"{name}@{version}" if self._taken.get(name) == pack else f"{pack}/{name}"
        free = next(n for n in (name, told, f"{pack}/{name}@{version}") if n not in self._taken)
        self._taken[free] = pack
        return free

    def _state(self, doc: RuleDoc, of: Subscribed, semantic: str) -> tuple[State, Verdict]:
        name, ring = of.pack.name, of.ring
        granted = self._grants.covers(name, semantic)
        if doc.shadow or of.pack.status == "shadow":
            return "shadow", Verdict.ALLOW
        if of.watched:
            return "watched", Verdict.ALLOW
        if self._grants.stepped_back(name, semantic):
            return "stepped-back", Verdict.ALLOW
        acts = capped(doc.verdict, ring, granted=granted, ungranted=self._grants.ungranted)
        if ring != "stable":
            return ("beta" if ring == "beta" else "canary"), acts
        if doc.verdict is Verdict.ESCALATE:
            return "asking", acts
        return ("granted" if granted else "ungranted"), acts


def _compiled(standing: Standing, source: Source) -> Rule:
    """A community rule under its ceiling, under the id that it has here."""
    doc, acts = standing.doc, standing.acts
    if acts is Verdict.ESCALATE and doc.verdict is not Verdict.ESCALATE:
        doc = _asking(doc, source.name, standing.ring)
    (rule,) = compile_rules([doc], source, asks=acts is Verdict.ESCALATE)
    return replace(rule, id=standing.id, locked=False, shadow=rule.shadow or acts is Verdict.ALLOW)


def _asking(doc: RuleDoc, name: str, ring: str) -> RuleDoc:
    """A rule that would block or rewrite, as one that asks; what it masks is left as it is."""
    asking = replace(doc, verdict=Verdict.ESCALATE, reason=f"{doc.reason} ({_why(doc.verdict, name, ring)})", mask=None)
    mask = doc.mask
    if mask is None:
        return asking
    finds = {"detector": mask.detector, "params": mask.params}
    condition, masks = doc.condition, mask.function
    return replace(
        asking,
        when={"all": [doc.when, finds]},
        condition=lambda event: condition(event) and masks(event) is not None,
    )


def _why(wanted: Verdict, name: str, ring: str) -> str:
    does = "block" if wanted is Verdict.BLOCK else "rewrite"
    if ring == "beta":
        return f"{name} would {does} it; a beta pack may only ask"
    return f"{name} would {does} it and is not granted to; allow it with: interlock mesh grant"
