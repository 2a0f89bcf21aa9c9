"""A signature that is to hold, as a value: who says what must be signed leaves the arithmetic to somebody else.

So an aggregator's admission, which knows members, names the signatures that let a report in, and whoever works on a
whole job of reports checks them all at once. This is the readable check, and the measure of the native wheel's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from interlock.base.blind_rsa import PythonBlindRsa
from interlock.base.keys import BadKey, Ed25519Verifier
from interlock.base.primitives import BadSignature

__all__ = ["CheckClaims", "Claim", "failing"]

# Of the claims of each report, the places of the reports of which one does not hold.
CheckClaims = Callable[[Sequence[Sequence["Claim"]]], set[int]]


class Claim(NamedTuple):
    """That a message is signed so under a key, as whoever sent it claims; nobody has checked it yet.

    `rsabssa` is a plain check of a blind signature (`blind_rsa`): the key SubjectPublicKeyInfo, the message prepared.
    `ed25519` has a key of 32 bytes.
    """

    scheme: Literal["rsabssa", "ed25519"]
    key: bytes
    message: bytes
    signature: bytes

    def __repr__(self) -> str:
        return f"Claim({self.scheme!r})"  # a credential is nobody else's


def failing(reports: Sequence[Sequence[Claim]]) -> set[int]:
    """Fills `CheckClaims`, one signature after the other, RSA by the library."""
    return {at for at, report in enumerate(reports) if not all(map(_holds, report))}


def _holds(claim: Claim) -> bool:
    try:
        if claim.scheme == "rsabssa":
            PythonBlindRsa().verify(claim.key, claim.message, claim.signature)
        else:
            Ed25519Verifier(claim.key).verify(claim.message, claim.signature)
    except (BadSignature, BadKey):
        return False
    return True
