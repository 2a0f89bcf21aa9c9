"""What protects this process, and what weakens it: `interlock.posture.attest()` and `interlock.posture.require()`."""

from __future__ import annotations

from collections.abc import Iterable

from interlock.engine import posture
from interlock.engine.ambient import find_installed
from interlock.engine.posture import Row, Weakened

__all__ = ["Row", "Weakened", "attest", "require"]


def attest() -> tuple[Row, ...]:
    """One row a setting, from what is really installed; `weakens` says why a setting weakens the guard."""
    return posture.attest(find_installed())


def require(*, accept: Iterable[str] = ()) -> None:
    """Go on only under a guard that nothing weakens but what the program accepts, by the rows' names.

    Raises: Weakened, naming every setting that weakens; ValueError, for a name that no row has.
    """
    posture.require(find_installed(), accept=accept)
