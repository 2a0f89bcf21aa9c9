"""The live policy: what is in force now, swapped whole, with the last good one kept where a new one is bad."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from interlock.base.errors import InterlockError
from interlock.engine.mutex import Mutex
from interlock.engine.policy.model import Policy

__all__ = ["LivePolicy"]

_LOG: Final = logging.getLogger("interlock")
_UNASKED: Final = object()  # a fingerprint that no source has


class LivePolicy:
    """A policy that follows its source.

    `load` makes the policy; `fingerprint` gives something cheap that changes when `load` would give another one (file
    times, say), and is None where `load` always gives the same. The epoch begins at 1 and rises only when the policy's
    digest changes. A source that has gone bad leaves the last good policy in force and stands in `trouble` until it is
    good again.
    Raises, when made: what `load` raises, since there is no last good policy yet.
    """

    def __init__(self, load: Callable[[], Policy], fingerprint: Callable[[], object] | None) -> None:
        self._load = load
        self._fingerprint = fingerprint
        self._mutex = Mutex()
        self._seen = (
            fingerprint() if fingerprint else None
        )  # before loading: a change during the load is then seen at the next refresh
        self._state = (load(), 1)
        self._trouble: InterlockError | None = None

    @property
    def current(self) -> Policy:
        return self._state[0]

    @property
    def epoch(self) -> int:
        return self._state[1]

    @property
    def state(self) -> tuple[Policy, int]:
        """Policy and epoch that belong together, however often it is swapped meanwhile."""
        return self._state

    @property
    def trouble(self) -> InterlockError | None:
        return self._trouble

    def refresh(self) -> None:
        """Take over a changed source; cheap where nothing changed. Whoever calls while it loads waits for it."""
        ask = self._fingerprint
        if ask is None:
            return
        try:
            if ask() == self._seen:
                return
            with self._mutex:
                now = ask()
                if now != self._seen:
                    self._swap()
                    self._seen = now
        except Exception as e:  # noqa: BLE001 - the source cannot be asked: the last good policy stays
            self._seen, self._trouble = _UNASKED, _as_ours(e)

    def _swap(self) -> None:
        try:
            policy = self._load()
        except Exception as e:  # noqa: BLE001 - whatever is wrong with the new one, the last good one stays
            self._trouble = _as_ours(e)
            _LOG.error("policy not reloaded, the last good one stays in force: %s", self._trouble)
            return
        self._trouble = None
        old, epoch = self._state
        if policy.digest != old.digest:
            self._state = (policy, epoch + 1)


class _Unloadable(InterlockError):
    """A source that fails in a way of its own."""

    code = "bad-policy"


def _as_ours(e: Exception) -> InterlockError:
    return e if isinstance(e, InterlockError) else _Unloadable(f"the policy's source fails with {type(e).__name__}")
