"""From packs to a Policy: the operator's own base first, then each pack's rules under its ring's ceiling.

A pack can only add objections. The base rules always run, in full; a pack's rule that means the same as a base rule
(the same semantic digest) is that base rule, and acts in full because the operator has it already; any other rule of
a pack is held to its ring and to what the operator granted. An allow of a pack never lifts an objection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from interlock.base.canonical import digest
from interlock.commons.grants import Grants
from interlock.commons.pack import Pack
from interlock.commons.rings import capped
from interlock.engine.decision import Verdict
from interlock.engine.policy.document import RuleDoc, semantic_digest
from interlock.engine.policy.load import compile_rules
from interlock.engine.policy.model import Policy, Rule, Source

__all__ = ["BASE_NAME", "Subscribed", "resolve"]

BASE_NAME: Final = "coding-agent"
_DIGEST: Final = "interlock/commons/policy/v1"


@dataclass(frozen=True)
class Subscribed:
    """A pack as a node has it: in which ring, and where it stands in the log."""

    pack: Pack
    ring: str
    log_index: int

    @property
    def source(self) -> Source:
        return Source("pack", f"{self.pack.name}@{self.ring}", self.pack.digest, self.log_index)


def resolve(base: Sequence[RuleDoc], packs: Sequence[Subscribed], grants: Grants) -> Policy:
    """One Policy of base rules and packs. Raises: BadPolicy, where a rule does not compile."""
    shared = {semantic_digest(doc): s.source for s in reversed(packs) for doc in s.pack.rules}
    own: dict[str, RuleDoc] = {semantic_digest(doc): doc for doc in base}
    rules: list[Rule] = []
    for semantic, doc in own.items():
        rules += compile_rules([doc], shared.get(semantic, Source("builtin", BASE_NAME)))
    granted: list[str] = []
    seen, taken = set(own), {rule.id for rule in rules}
    for subscribed in packs:
        for doc in subscribed.pack.rules:
            semantic = semantic_digest(doc)
            if semantic in seen:
                continue
            seen.add(semantic)
            may = grants.covers(subscribed.pack.name, semantic)
            granted += [semantic] if may else []
            rules.append(_held(doc, subscribed, may, taken))
    named = [[s.pack.name, s.ring, s.pack.digest] for s in packs]
    return Policy(tuple(rules), digest(_DIGEST, [sorted(own), named, sorted(granted)]).hex())


def _held(doc: RuleDoc, subscribed: Subscribed, granted: bool, taken: set[str]) -> Rule:
    """A community rule under its ceiling, under an id that no other rule has."""
    may = capped(doc.verdict, subscribed.ring, granted=granted)
    if may is Verdict.ESCALATE and doc.verdict is not Verdict.ESCALATE:
        doc = _asking(doc, subscribed)
    (rule,) = compile_rules([doc], subscribed.source, asks=may is Verdict.ESCALATE)
    name = rule.id if rule.id not in taken else f"{subscribed.pack.name}/{rule.id}"
    taken.add(name)
    return replace(rule, id=name, locked=False, shadow=rule.shadow or may is Verdict.ALLOW)


def _asking(doc: RuleDoc, subscribed: Subscribed) -> RuleDoc:
    """A rule that would block or rewrite, as one that asks; what it masks is left as it is."""
    why = _why(doc.verdict, f"{subscribed.pack.name}@{subscribed.ring}", subscribed.ring)
    asking = replace(doc, verdict=Verdict.ESCALATE, reason=f"{doc.reason} ({why})", mask=None)
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
