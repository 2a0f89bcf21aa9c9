"""Pinned offline: a node without a network is brought its commons on a stick, and says how old that may grow.

Each bundle is judged at the time at which its checkpoint was cosigned, as its signatures will have ended by the time it
arrives. It is refused where that time is older than the node's `max_offline_age`, or than that of what is held. What is
held grows old too: past the age doctor and status fail and receipts say `stale`, and the policy stays in force.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from interlock.base.clock import DAY_US, rfc3339
from interlock.base.errors import BadInput
from interlock.commons.timefloor import cosigned_us, trusted_now
from interlock.commons.updater import Stale
from interlock.commons.windows import length_us
from interlock.transparency.follow import Rollback

__all__ = ["age_us", "demand_bundle", "overdue"]

MAX_AGE: Final = 10_000 * DAY_US


def age_us(text: str) -> int:
    """How old a bundle may be, written as `30d`, `12h` or `2w`; in microseconds. Raises: BadInput."""
    age = length_us(text)
    if not 0 < age <= MAX_AGE:
        raise BadInput("is no age for a bundle", where=f"--max-offline-age {text}", fix="write 30d, 12h or 2w")
    return age


def demand_bundle(home: Path, cosigned: int, now_us: int, max_age_us: int) -> None:
    """Refuse a bundle whose checkpoint was cosigned too long ago, or before that of what is held.

    The same bundle again brings nothing new, and is let through. Raises: Stale, Rollback, BadState.
    """
    held, now = cosigned_us(home), trusted_now(home, now_us)
    if cosigned < held:
        told = f"was cosigned at {rfc3339(cosigned)}, and what is held at {rfc3339(held)}"
        raise Rollback(told, where="bundle", fix="bring a newer one")
    if now - cosigned > max_age_us:
        told = f"was cosigned at {rfc3339(cosigned)}, which is longer ago than this node lets a bundle be"
        raise Stale(told, where="bundle", fix="bring a newer one")


def overdue(home: Path, now_us: int, max_age_us: int) -> str:
    """What is wrong with what an offline node holds, '' where nothing is. Raises: BadState, NewerFormat."""
    held = cosigned_us(home)
    if not held:
        return "no bundle was taken yet"
    if trusted_now(home, now_us) - held <= max_age_us:
        return ""
    days = max_age_us / DAY_US
    return f"what is held was cosigned at {rfc3339(held)}, and may be {days:g} days old"
