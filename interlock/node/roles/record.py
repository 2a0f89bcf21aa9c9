"""The observer that keeps events in the node's journal: in a guarded process, beside the calls and never in their way.

A call only hands its event over, in memory; a thread of its own encrypts and writes. Where that cannot keep up, or
cannot write, events are left out and counted: no call waits for it and none fails. What is still in memory when the
process ends is written if that is done within FLUSH_S.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import threading
from typing import Final

from interlock.base.errors import InterlockError
from interlock.commons.eventlog import EventLog
from interlock.engine.decision import Decision
from interlock.engine.event import SensorEvent, with_args
from interlock.engine.payload import frozen_mapping

__all__ = ["EventRecorder"]

log = logging.getLogger("interlock.record")

WAITING: Final = 1024  # events in memory
BATCH: Final = 256
FLUSH_S: Final = 0.5


class EventRecorder:
    """An observer for `interlock.install(observers=[...])`; `install` adds it by itself where the journal is on."""

    def __init__(self, journal: EventLog) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._process = 0
        self._waiting: queue.Queue[tuple[SensorEvent, Decision] | None] = queue.Queue(WAITING)
        self.lost = 0
        atexit.register(self.close)

    def __call__(self, event: SensorEvent, decision: Decision) -> None:
        if self._process != os.getpid():
            self._begin()
        try:
            # a copy of its containers: the caller goes on with its own
            self._waiting.put_nowait((with_args(event, frozen_mapping(event.args)), decision))
        except (queue.Full, InterlockError):
            self.lost += 1

    def close(self) -> None:
        """Write what is in memory, within FLUSH_S; events after that are left out."""
        if self._process == os.getpid():
            self._process = -1
            try:
                self._waiting.put_nowait(None)
            except queue.Full:
                return
            self._thread.join(FLUSH_S)

    def _begin(self) -> None:
        """Begin to write, in this process: a fork has no threads of its parent's."""
        with self._lock:
            if self._process != os.getpid() and self._process >= 0:
                self._waiting = queue.Queue(WAITING)
                self._thread = threading.Thread(target=self._write, name="interlock-journal", daemon=True)
                self._thread.start()
                self._process = os.getpid()

    def _write(self) -> None:
        while (row := self._waiting.get()) is not None:
            rows, end = [row], False
            while len(rows) < BATCH and not self._waiting.empty():
                more = self._waiting.get()
                if more is None:
                    end = True
                    break
                rows.append(more)
            self._keep(rows)
            if end:
                return

    def _keep(self, rows: list[tuple[SensorEvent, Decision]]) -> None:
        try:
            self.lost += len(rows) - self._journal.append(rows)
        except Exception as e:  # noqa: BLE001 - whatever is wrong with the journal, no call feels it
            if not self.lost:
                log.warning("events are not kept: %s", e)
            self.lost += len(rows)
