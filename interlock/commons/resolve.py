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
from interlock.engine.decision import Decision, Verdict
from interlock.engine.event import SensorEvent
from interlock.engine.policy.document import RuleDoc, semantic_digest
from interlock.engine.policy.load import compile_rules
from interlock.engine.policy.model import Policy, Rule, RuleFunction, Source

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
            rules += [_held(r, subscribed, may, taken) for r in compile_rules([doc], subscribed.source)]
    named = [[s.pack.name, s.ring, s.pack.digest] for s in packs]
    return Policy(tuple(rules), digest(_DIGEST, [sorted(own), named, sorted(granted)]).hex())


def _held(rule: Rule, subscribed: Subscribed, granted: bool, taken: set[str]) -> Rule:
    """A community rule under its ceiling, under an id that no other rule has."""
    name = rule.id if rule.id not in taken else f"{subscribed.pack.name}/{rule.id}"
    taken.add(name)
    verdict = None if rule.verdict is None else capped(rule.verdict, subscribed.ring, granted=granted)
    function = _under_ceiling(rule.function, subscribed, granted)
    return replace(rule, id=name, function=function, verdict=verdict, locked=False)


def _under_ceiling(function: RuleFunction, subscribed: Subscribed, granted: bool) -> RuleFunction:
    name, ring = f"{subscribed.pack.name}@{subscribed.ring}", subscribed.ring

    def held(event: SensorEvent) -> Decision | None:
        said = function(event)
        if said is None:
            return None
        verdict = capped(said.verdict, ring, granted=granted)
        if verdict is said.verdict:
            return said
        return Decision(
            verdict, f"{said.reason} ({_why(said.verdict, name, ring)})", said.policy_id, said.attributed_to
        )

    return held


def _why(wanted: Verdict, name: str, ring: str) -> str:
    does = {Verdict.BLOCK: "block", Verdict.MODIFY: "rewrite"}.get(wanted, "ask")
    if ring == "beta":
        return f"{name} would {does} it; a beta pack may only ask"
    if ring == "stable":
        return f"{name} would {does} it and is not granted to; allow it with: interlock mesh grant"
    return f"{name} would {does} it; a {ring} pack only watches"
