"""Rings: how far a pack has come, and the most that its rules may do there.

canary   shadow: a rule is evaluated, and what it says holds nothing up
beta     escalate: a person is asked
stable   escalate; mask and block where the operator granted it

What may not block or mask asks, or stays in shadow where the operator chose so.
"""

from __future__ import annotations

from typing import Final

from interlock.base.errors import BadInput
from interlock.commons.grants import Ungranted
from interlock.engine.decision import Verdict

__all__ = ["ACTING", "RINGS", "at_ring", "capped", "known_ring"]

RINGS: Final = ("canary", "beta", "stable")
ACTING: Final = "stable"  # the one ring where a rule may block and mask, if it is granted


def known_ring(ring: str) -> str:
    """The ring itself. Raises: ValueError, with the rings there are."""
    if ring not in RINGS:
        raise ValueError(f"{ring!r} is not a ring; there are {', '.join(RINGS)}")
    return ring


def at_ring(text: str) -> tuple[str, str]:
    """A pack and its ring, of PACK@RING or mesh:PACK@RING. Raises: BadInput."""
    pack, _, ring = text.removeprefix("mesh:").rpartition("@")
    if not pack:
        raise BadInput("is not of the form mesh:PACK@RING", where=text)
    try:
        return pack, known_ring(ring)
    except ValueError as e:
        raise BadInput(str(e), where=text) from None


def capped(verdict: Verdict, ring: str, *, granted: bool, ungranted: Ungranted = "escalate") -> Verdict:
    """What a community rule's verdict becomes in a ring; never more than it was, ALLOW stays ALLOW.

    A ring that is not known holds everything in shadow: the least that a pack can do.
    """
    if verdict is Verdict.ALLOW or ring not in ("beta", "stable"):
        return Verdict.ALLOW
    if ring == ACTING and granted:
        return verdict
    return Verdict.ESCALATE if verdict is Verdict.ESCALATE or ungranted == "escalate" else Verdict.ALLOW
