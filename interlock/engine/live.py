"""The live policy: what is in force now, swapped whole, with the last good one kept where a new one is bad.

A changed source is loaded beside the calls, in a thread of its own, so that no call waits for a long policy: until it
is there, and the evaluator ready for it, calls go by the last good one. While it loads, threads take turns more
often and the cycle collector holds off, so that no call stands still for longer than a moment. The policy before the
last one is taken apart there too.
"""

from __future__ import annotations

import _thread
import logging
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, Protocol

from interlock.base.errors import InterlockError
from interlock.engine.collector import freed_slowly, held_off, short_turns
from interlock.engine.mutex import Mutex
from interlock.engine.policy.model import Policy, Rule

__all__ = ["Follower", "LivePolicy"]

_LOG: Final = logging.getLogger("interlock")
_UNASKED: Final = object()  # a fingerprint that no source has
_TURN_S: Final = 0.0002  # seconds for which a thread may keep the interpreter while a policy loads


class Follower(Protocol):
    """What has to be ready for a policy before that is in force: an evaluator that compiles it."""

    def prepare(self, policy: Policy) -> None:
        """Get ready for a policy, in the thread that loaded it. Raises: anything, and the policy is not taken over."""
        ...

    def retire(self, policy: Policy) -> None:
        """Let go of a policy that no call goes by any more."""
        ...


class LivePolicy:
    """A policy that follows its source.

    `load` makes the policy; `fingerprint` gives something cheap that changes when `load` would give another one (file
    times, say), and None says that nothing ever does. The epoch begins at 1 and rises only when the policy's digest
    changes. A source that has gone bad leaves the last good policy in force and stands in `trouble` until it is good
    again. `follower` is told of each policy before it is in force.
    Raises, when made: what `load` raises, since there is no last good policy yet.
    """

    def __init__(
        self,
        load: Callable[[], Policy],
        fingerprint: Callable[[], object] | None,
        follower: Follower | None = None,
    ) -> None:
        self._load = load
        self._fingerprint = fingerprint
        self._follower = follower
        self._mutex = Mutex()
        self._loading: _Load | None = None
        # before loading: a change during the load is then seen at the next refresh
        self._seen = fingerprint() if fingerprint else None
        with held_off():
            policy = load()
            if follower is not None:
                follower.prepare(policy)
        self._state = (policy, 1)
        self._retired: Policy | None = None  # the one before: calls that began under it may still be at it
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

    def refresh(self, *, wait: bool = False) -> None:
        """Take over a changed source; cheap where nothing changed.

        With `wait` it is in force when this returns, else soon after: no call waits for a load, not even to begin.
        """
        ask = self._fingerprint
        if ask is None or not (wait or self._loading is None or not self._loading.alive):
            return  # while one loads, the source is not asked for the next
        try:
            while (now := ask()) != self._seen:
                loading = self._begun(now)
                if not wait:
                    return
                loading.join()
        except Exception as e:  # noqa: BLE001 - the source cannot be asked: the last good policy stays
            self._seen, self._trouble = _UNASKED, _as_ours(e)

    def _begun(self, now: object) -> _Load:
        """The load that is under way, or a new one. Raises: RuntimeError, where no thread can be started."""
        with self._mutex:
            if self._loading is None or not self._loading.alive:
                turns = ExitStack()  # shortened here: whoever waits already would wait for as long as turns were before
                turns.enter_context(short_turns(_TURN_S))
                try:
                    self._loading = _Load(lambda: self._swap(now, turns))
                except RuntimeError:
                    turns.close()
                    raise
            return self._loading

    def _swap(self, now: object, turns: ExitStack) -> None:
        try:
            with turns, held_off():
                self._take_over()
        except Exception as e:  # noqa: BLE001 - whatever is wrong with the new one, the last good one stays
            self._trouble = _as_ours(e)
            _LOG.error("policy not reloaded, the last good one stays in force: %s", self._trouble)
        finally:
            self._seen = now

    def _take_over(self) -> None:
        """Raises: whatever the source raises, and the follower."""
        gone = [self._load()]
        old, epoch = self._state
        if gone[0].digest != old.digest:
            if self._follower is not None:
                self._follower.prepare(gone[0])
            self._state = (gone.pop(), epoch + 1)
            gone += [] if self._retired is None else [self._retired]
            self._retired = old
        self._trouble = None
        if gone:
            if self._follower is not None:
                self._follower.retire(gone[0])
            rules: list[Rule] = []
            for rule in gone.pop().rules:  # one by one here too: most of them nobody has looked at for long
                rules.append(rule)
            freed_slowly(rules)


class _Load:
    """A load under way, in a thread that a call begins and does not wait for.

    `Thread.start` waits until the thread runs, and has to wait for the interpreter once more then: that is left to a
    first thread, which does nothing else.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        """Raises: RuntimeError, where no thread can be started."""
        self._work = work
        self._pid = os.getpid()
        self._under_way = _thread.allocate_lock()
        self._under_way.acquire()
        _thread.start_new_thread(self._begin, ())

    @property
    def alive(self) -> bool:
        return self._under_way.locked() and self._pid == os.getpid()  # in a forked child no other thread is alive

    def join(self) -> None:
        with self._under_way:
            pass

    def _begin(self) -> None:
        try:
            threading.Thread(target=self._run, name="interlock-reload", daemon=True).start()
        except Exception:  # noqa: BLE001 - no second thread: then in this one, which has no name
            self._run()

    def _run(self) -> None:
        try:
            self._work()
        finally:
            self._under_way.release()


class _Unloadable(InterlockError):
    """A source that fails in a way of its own."""

    code = "bad-policy"


def _as_ours(e: Exception) -> InterlockError:
    return e if isinstance(e, InterlockError) else _Unloadable(f"the policy's source fails with {type(e).__name__}")
