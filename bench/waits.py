"""How long a call took by its own doing: without the time in which its process was ready to run and had no core.

Linux counts that time for each thread (`/proc/self/task/ID/schedstat`). A call also waits while another thread of the
process holds the interpreter and has no core; that is taken off too, as long as the call was really waiting. Where
the system does not count it, nothing is taken off.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from typing import Final

__all__ = ["Waits"]

_TASKS: Final = Path("/proc/self/task")
_SIZE: Final = 64  # bytes of a schedstat, at most


class Waits:
    """Watches the calls of the thread that makes it, one at a time: `look` now and then, `begin`, the call, `left`."""

    def __init__(self) -> None:
        self._own = str(threading.get_native_id())
        self._open: dict[str, int] = {}
        self._before: dict[str, int] = {}
        self._busy = 0

    def look(self) -> None:
        """See which threads there are."""
        now = set(os.listdir(_TASKS)) if _TASKS.is_dir() else set()
        for thread in now - self._open.keys():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                self._open[thread] = os.open(_TASKS / thread / "schedstat", os.O_RDONLY)
        for thread in self._open.keys() - now:
            os.close(self._open.pop(thread))

    def begin(self) -> None:
        self._before = self._waited()
        self._busy = time.thread_time_ns()

    def left(self, wall: int) -> int:
        """The nanoseconds that are left of a call's when it waited for no core."""
        busy = time.thread_time_ns() - self._busy
        self.look()  # a load that the call itself began is a new thread
        waited = {thread: ns - self._before.get(thread, 0) for thread, ns in self._waited().items()}
        own = waited.pop(self._own, 0)
        idle = max(0, wall - busy - own)  # asleep, or waiting for the interpreter
        return min(wall, busy + max(0, idle - sum(waited.values())))

    def _waited(self) -> dict[str, int]:
        """Nanoseconds that each thread has waited for a core so far."""
        found: dict[str, int] = {}
        for thread, at in self._open.items():
            with contextlib.suppress(OSError):
                found[thread] = int(os.pread(at, _SIZE, 0).split()[1])
        return found
