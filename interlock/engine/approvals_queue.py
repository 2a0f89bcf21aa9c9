"""A queue as an approver: it answers at once, with a yes only where somebody has approved this very call before.

What is not approved yet is put into the queue and refused; the agent tries the identical call again, once somebody has
approved it with `interlock approve`. With `hold_s` the call itself stands still for a while and waits.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from interlock.base.clock import MICROSECONDS, Clock, rfc3339
from interlock.engine.approvals import Approval, ApprovalRequest
from interlock.engine.approvals_store import ApprovalStore, Asked, Entry, Use
from interlock.engine.approvals_text import document_of
from interlock.engine.mutex import Mutex
from interlock.engine.processes import Process, own_process

__all__ = ["USE_S", "WAIT_S", "ApprovalQueue"]

WAIT_S: Final = 3600.0
USE_S: Final = 600.0
_MOST_S: Final = 30 * 86_400
_LOOK_S: Final = 0.2  # between two looks, while a call is held
_BEFORE: Final = {
    "unanswered": "nobody answered the request before in time",
    "lapsed": "the approval before was not used in time",
    "used": "the approval before has been used",
    "revoked": "the approval before was revoked",
    "void": "what was open before became void when the clock went back",
}


class ApprovalQueue:
    """An approver for `install(approver=...)` and `on_escalate=`: requests in a SQLite file that processes share.

    `wait_s` is how long a request waits for an answer, `use_s` how long an approval may be used once it is given.
    `four_eyes` demands two approvers by different names. `hold_s` is how long a call stands still for its answer, at
    most as long as it may wait. The file is made if missing, private to this user, in a folder that exists.
    `guarded` names the process that nothing may approve under; it is this one, unless given.
    Raises, when made: NotWritable, BadState, NewerFormat, Locked; ValueError, for times that make no sense.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        wait_s: float = WAIT_S,
        use_s: float = USE_S,
        hold_s: float = 0.0,
        four_eyes: bool = False,
        clock: Clock | None = None,
        guarded: Callable[[], Process | None] = own_process,
    ) -> None:
        self._wait_us = _microseconds("wait_s", wait_s, least=1e-6)
        self._use_us = _microseconds("use_s", use_s, least=1e-6)
        self._hold_s = min(_microseconds("hold_s", hold_s, least=0) / MICROSECONDS, wait_s)
        self._four_eyes = four_eyes
        self._path = Path(os.path.abspath(path))  # wherever this process goes later
        self._clock = clock
        self._guarded = guarded
        self._mutex = Mutex()
        self._open: tuple[int, ApprovalStore] | None = None
        self._inherited: list[ApprovalStore] = []  # of a parent; a child that closed them would do so under its feet
        self._store()

    def __call__(self, request: ApprovalRequest) -> Approval:
        """A yes that was given for this binding and may be used now; else a no that names the request.

        Raises: InterlockError, where the queue cannot be used; the guard then refuses.
        """
        asked = Asked(
            request.digest,
            _storable(request.action) or "",
            _storable(request.principal),
            _storable(request.parent_principal),
            _storable(request.span_id),
            document_of(request),
            self._wait_us,
            self._use_us,
            self._four_eyes,
        )
        store = self._store()
        until = time.monotonic() + self._hold_s
        use = store.use_or_ask(asked)
        while not use.used and use.entry.state == "pending" and time.monotonic() < until:
            time.sleep(_LOOK_S)
            if store.get(use.entry.id).state != "pending":
                use = store.use_or_ask(asked)
        return _answer(use)

    @property
    def queue_file(self) -> Path:
        """Where the requests lie."""
        return self._path

    def close(self) -> None:
        """Let go of the file; the next request opens it again."""
        with self._mutex:
            if self._open is not None and self._open[0] == os.getpid():
                self._open[1].close()
            self._open = None

    def _store(self) -> ApprovalStore:
        """The open file; a forked child opens its own, and is noted as guarded too."""
        with self._mutex:
            if self._open is None or self._open[0] != os.getpid():
                if self._open is not None:
                    self._inherited.append(self._open[1])
                store = ApprovalStore(self._path, self._clock)
                process = self._guarded()
                if process is not None:
                    store.mark(process)
                self._open = os.getpid(), store
            return self._open[1]


def _storable(text: str | None) -> str | None:
    """A name as SQLite can hold it; the document holds it as it is."""
    return None if text is None else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _answer(use: Use) -> Approval:
    entry = use.entry
    if use.used:
        return Approval(True, entry.answered_by, request_id=entry.id)
    if entry.state == "denied":
        return Approval(False, entry.answered_by, f"request {entry.id} was denied", request_id=entry.id)
    return Approval(False, note=_waits(entry, use.before), request_id=entry.id)


def _waits(entry: Entry, before: str) -> str:
    why = f"{_BEFORE[before]}; " if before in _BEFORE else ""
    eyes = "two persons have" if entry.four_eyes else "a person has"
    return (
        f"{why}{eyes} to approve request {entry.id} until {rfc3339(entry.wait_until_us // MICROSECONDS * MICROSECONDS)}"
    )


def _microseconds(name: str, seconds: float, *, least: float) -> int:
    number: object = seconds
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise ValueError(f"{name} is a number of seconds")
    if not least <= seconds <= _MOST_S:
        raise ValueError(f"{name} is between {least:g} and {_MOST_S} seconds")
    return round(seconds * MICROSECONDS)
