"""Several mirrors of one commons, one at a time: where one does not answer or is refused, the next is asked.

What is refused of one mirror says nothing of the others, so a mirror that withholds, lags or lies stops nobody. A log
that has signed two histories does, whichever mirror shows them: SplitView is never passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from interlock.base.codec import Malformed
from interlock.base.errors import BadInput
from interlock.base.fetch import Fetcher, NotFound, TooLarge, Unreachable, fetcher_of
from interlock.base.primitives import BadSignature
from interlock.commons.logged import NotLogged
from interlock.commons.newest import NotNewest
from interlock.commons.updater import MetadataRefused, Stale
from interlock.transparency.follow import Rollback
from interlock.transparency.merkle import BadProof
from interlock.transparency.policy import NoQuorum, UnknownLog

__all__ = ["InTurn", "mirrors_of"]

# What a mirror by itself can bring about, and another may not.
_PASSED_OVER: Final = (
    BadProof,
    BadSignature,
    Malformed,
    MetadataRefused,
    NoQuorum,
    NotFound,
    NotLogged,
    NotNewest,
    Rollback,
    Stale,
    TooLarge,
    UnknownLog,
    Unreachable,
)
_T = TypeVar("_T")


class InTurn:
    """A Fetcher of the mirror whose turn it is. Raises on making: ValueError, for no mirror."""

    def __init__(self, mirrors: Sequence[Fetcher]) -> None:
        if not mirrors:
            raise ValueError("InTurn needs a mirror")
        self._mirrors = tuple(mirrors)
        self._here = 0

    def fetch(self, path: str, *, max_length: int) -> bytes:
        """Raises: as the mirror's fetcher."""
        return self._mirrors[self._here].fetch(path, max_length=max_length)

    def whole(self, act: Callable[[], _T]) -> _T:
        """Do something that reads one mirror from its beginning to its end; anew with the next where that fails.

        The mirror that served is asked first the next time. Raises: as `act`, of the last mirror.
        """
        for left in range(len(self._mirrors) - 1, -1, -1):
            try:
                return act()
            except _PASSED_OVER:
                self._here = (self._here + 1) % len(self._mirrors)
                if not left:
                    raise
        raise AssertionError("there is a mirror")


def mirrors_of(places: str) -> InTurn:
    """The mirrors that a setting names, one after the other, with blanks between. Raises: BadInput, for none."""
    named = places.split()
    if not named:
        raise BadInput("names no place", where="[mesh] commons", fix="name the URL of a mirror or of the commons")
    return InTurn([fetcher_of(place) for place in named])
