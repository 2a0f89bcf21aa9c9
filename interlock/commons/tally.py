"""The tally: which places of a catalog one organisation saw in an epoch. A place is seen or not; how often is not kept.

Counted are objections only (blocked, escalated), so a report never says what an organisation does in peace. Never
counted: what a redacting rule found, what came before consent, before the catalog opened or outside the epoch.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from interlock.commons.consent import Consent, NoConsent
from interlock.commons.indicators import Catalog
from interlock.engine.decision import Decision, Verdict
from interlock.engine.detectors.indicator import KINDS, indicators_of
from interlock.engine.event import SensorEvent

__all__ = ["Tally", "places_of"]

_COUNTED = (Verdict.BLOCK, Verdict.ESCALATE)


def places_of(event: SensorEvent, decision: Decision, catalog: Catalog, redacting: Collection[str]) -> frozenset[int]:
    """The places that one decided event sets. Pure; `redacting` are the ids of rules that mask."""
    if decision.verdict not in _COUNTED or decision.policy_id in redacting:
        return frozenset()
    seen = {f"rule:{decision.policy_id}"}
    kinds = [kind for kind in catalog.kinds if kind in KINDS]
    if event.phase == "call" and kinds:
        seen |= indicators_of(event, kinds)
    return frozenset(catalog.index[place] for place in seen if place in catalog.index)


@dataclass
class Tally:
    """One organisation's places of one epoch, [start_us, end_us)."""

    catalog: Catalog
    consent: Consent
    start_us: int
    end_us: int
    redacting: frozenset[str] = frozenset()
    seen: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.consent.terms.catalog != self.catalog.digest:
            raise NoConsent("was not consented to", where=f"task {self.catalog.task}")
        if self.start_us < self.catalog.opens_at:
            raise ValueError("an epoch begins when its catalog opens, or later")

    def observe(
        self, event: SensorEvent, decision: Decision, now_us: int, taken: Collection[str] = ()
    ) -> tuple[frozenset[int], frozenset[str]]:
        """Take one decided event in; returns the places that it set for the first time, and the names of all it met.

        `taken` are places, by name, of which another task has the bit.
        """
        if now_us < self.consent.at or not self.start_us <= now_us < self.end_us:
            return frozenset(), frozenset()
        met = places_of(event, decision, self.catalog, self.redacting)
        met = frozenset(i for i in met if self.catalog.places[i] not in taken)
        fresh = met - self.seen
        self.seen |= fresh
        return fresh, frozenset(self.catalog.places[i] for i in met)

    def measurement(self) -> list[int]:
        """The report: a 0 or a 1 for each place, in the catalog's order."""
        return [int(i in self.seen) for i in range(len(self.catalog.places))]
