"""A lock between threads that survives a fork."""

from __future__ import annotations

import _thread  # what threading.Lock is, without what threading imports
import os
from types import TracebackType

__all__ = ["Mutex"]


class Mutex:
    """Held with `with`, by one thread at a time. A forked child finds it free, for whoever held it is not there."""

    __slots__ = ("_lock", "_pid")

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._pid = os.getpid()

    def __enter__(self) -> None:
        if self._pid != os.getpid():
            self._lock, self._pid = _thread.allocate_lock(), os.getpid()
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
