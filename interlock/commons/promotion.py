"""A promotion's evidence: why a pack may be in its ring, checked by whoever takes it, without trust in who serves it.

Beside a pack that was promoted lies a target, `<pack's path>.promotion`: the promotion, the gate and the reviews, each
a record with its log entry and the entry's proof. They hold for a pack only together:

    promotion   of this very pack, to this ring, in the word of a key of the ring's role
    gate        the entry that the promotion cites, of this very pack and this ring, in the word of such a key
    reviews     the entries that it cites, each an approval of this very pack in the ring that it came from, by a
                reviewer who is listed; as many distinct ones as the list asks for, none of them the pack's author

and each entry stands in the log. Whoever steals a ring's key can therefore not make a stable pack alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from interlock.base.errors import InterlockError
from interlock.base.fetch import NotFound
from interlock.commons.layout import REVIEWERS_PATH, pack_path, promotion_path, role_of_pack
from interlock.commons.pack import Pack
from interlock.commons.records import (
    MAX_EVIDENCE,
    BadRecord,
    CheckEntry,
    Evidence,
    Promotion,
    demand_gate_of,
    parse_evidence_list,
    parse_promotion,
    parse_review,
)
from interlock.commons.reviewers import MAX_REVIEWERS, Reviewers, parse_reviewers
from interlock.commons.speakers import Speakers
from interlock.commons.updater import View

__all__ = ["NEEDS_PROMOTION", "NotPromoted", "Promoted", "demand_promoted", "demand_promotion"]

NEEDS_PROMOTION: Final = frozenset({"stable"})  # rings that nothing comes to in another way


class NotPromoted(InterlockError):
    """A pack in a ring to which it did not come by a promotion that the log has."""

    code = "not-promoted"


@dataclass(frozen=True)
class Promoted:
    """A promotion that holds: where it came from, and who approved it."""

    from_ring: str
    reviewers: tuple[str, ...]


def demand_promoted(view: View, pack: Pack, ring: str, check: CheckEntry) -> Promoted | None:
    """Check that a pack came to a ring by a promotion; None for a ring that needs none.

    `check` takes an entry's bytes and its proof's, and raises where the log has it not.
    Raises: NotPromoted; of the view and of `check`, theirs.
    """
    if ring not in NEEDS_PROMOTION:
        return None
    path = promotion_path(pack_path(ring, pack.name, pack.version))
    try:
        evidence = view.target(path, MAX_EVIDENCE)
        reviewers = view.target(REVIEWERS_PATH, MAX_REVIEWERS)
    except NotFound as e:
        raise NotPromoted(
            f"came to {ring} without what a promotion needs ({e.where})",
            where=pack.name,
            fix="tell the commons; follow it in another ring",
        ) from None
    keys = view.speakers(role_of_pack(ring, pack.kind))
    return demand_promotion(evidence, pack, ring, keys=keys, reviewers=reviewers, check=check)


def demand_promotion(
    evidence: bytes, pack: Pack, ring: str, *, keys: Speakers, reviewers: bytes, check: CheckEntry
) -> Promoted:
    """As `demand_promoted`, from bytes; `keys` are the ring's role's. Raises: NotPromoted; as `check`."""
    where = f"{pack.name} version {pack.version}"
    try:
        rows = parse_evidence_list(evidence, promotion_path(where))
        listed = parse_reviewers(reviewers, REVIEWERS_PATH)
        if len(rows) < 2:
            raise BadRecord("holds no promotion and gate", where=promotion_path(where))
        promoted, gate, *reviews = rows
        promotion = _promotion(promoted, pack, ring, keys, check)
        _demand_cited(promotion, gate, reviews)
        gate.verified("gate", keys, check, "gate")
        demand_gate_of(gate.record, pack, ring, "gate")
        names = _approvals(reviews, promotion, pack, listed, check)
    except BadRecord as e:
        told = f"came to {ring} on evidence that does not hold ({e.where}: {e.what})"
        raise NotPromoted(told, where=where, fix="tell the commons; keep what is in force") from None
    return Promoted(promotion.from_ring, names)


def _promotion(promoted: Evidence, pack: Pack, ring: str, keys: Speakers, check: CheckEntry) -> Promotion:
    entry, _ = promoted.verified("promote", keys, check, "promotion")
    promotion = parse_promotion(promoted.record, "promotion")
    of = (promotion.pack, promotion.name, promotion.version, promotion.ring)
    if of != (pack.digest, pack.name, pack.version, ring):
        raise BadRecord("is of another pack or ring", where="promotion")
    if (entry.name, entry.version, entry.ring) != of[1:]:
        raise BadRecord("is logged under another name", where="promotion")
    return promotion


def _demand_cited(promotion: Promotion, gate: Evidence, reviews: list[Evidence]) -> None:
    """Raises: BadRecord, where the evidence is not what the promotion cites."""
    if gate.leaf != promotion.gate:
        raise BadRecord("is not the one that the promotion cites", where="gate")
    if tuple(review.leaf for review in reviews) != promotion.reviews:
        raise BadRecord("are not those that the promotion cites", where="reviews")


def _approvals(
    reviews: list[Evidence], promotion: Promotion, pack: Pack, listed: Reviewers, check: CheckEntry
) -> tuple[str, ...]:
    """The distinct reviewers who approved. Raises: BadRecord, where they are too few, or one may not."""
    known = Speakers(frozenset(row.key for row in listed.rows.values()))
    names: set[str] = set()
    for number, evidence in enumerate(reviews):
        where = f"review {number}"
        entry, seen = evidence.verified("review", known, check, where)
        review = parse_review(evidence.record, where)
        of = (review.pack, review.name, review.version, review.ring)
        if of != (pack.digest, pack.name, pack.version, promotion.from_ring) or review.verdict != "approve":
            raise BadRecord("is no approval of this pack in the ring that it came from", where=where)
        if entry.by == pack.author_key:
            raise BadRecord("is by the pack's own author", where=where)
        name = listed.by_key(entry.by, seen)
        if name is None:
            raise BadRecord("is by somebody whose term was over", where=where)
        names.add(name)
    if len(names) < listed.threshold:
        raise BadRecord(f"are by {len(names)} reviewers, and {listed.threshold} are needed", where="reviews")
    return tuple(sorted(names))
