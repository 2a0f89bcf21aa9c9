"""Consensus: which places of a catalog enough organisations saw. What fewer saw is not shown, not even its number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from interlock.base.errors import InterlockError
from interlock.base.organisations import DEMO_LEAST, LEAST
from interlock.commons.indicators import Catalog

__all__ = ["Seen", "TooFew", "agreed"]


class TooFew(InterlockError):
    """A batch behind which too few organisations stand."""

    code = "batch-too-small"


@dataclass(frozen=True, slots=True)
class Seen:
    """A place, and how many distinct organisations saw it."""

    place: str
    organisations: int


def agreed(
    catalog: Catalog, counts: Sequence[int], reports: int, *, threshold: int, demo: bool = False
) -> tuple[Seen, ...]:
    """The places that at least `threshold` of `reports` organisations saw, in the catalog's order.

    A threshold under LEAST needs `demo`, and is never under DEMO_LEAST: the caller's mistake (ValueError).
    Raises: TooFew, where fewer than `threshold` reported at all.
    """
    floor = DEMO_LEAST if demo else LEAST
    if threshold < floor:
        raise ValueError(f"a threshold of {threshold} is under the floor of {floor} organisations")
    if len(counts) != len(catalog.places) or any(not 0 <= c <= reports for c in counts):
        raise ValueError("counts are one number a place, each from 0 to the number of reports")
    if reports < threshold:
        raise TooFew(
            f"has reports of {reports} organisations, and {threshold} are needed",
            where=f"task {catalog.task}",
            fix="wait for more members",
        )
    pairs = zip(catalog.places, counts, strict=True)
    return tuple(Seen(place, count) for place, count in pairs if count >= threshold)
