"""Forgetting: ids and answers that nothing can ask for any more, for leader and helper alike.

A report is taken for so long after its time (`keep_us`), counted back from the newest report that the store knows and
never from a clock that runs ahead of it. Below that horizon nothing is taken, so what was taken there need not be
known for a replay. What belongs to a batch that is not collected stays, however old it is: sums stay exact whenever
this runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from interlock.base.clock import Clock
from interlock.base.errors import InterlockError
from interlock.dap.storage import SweptStorage
from interlock.dap.task import AggregatorTask, Task

__all__ = ["Sweeper"]

AT_ONCE: Final = 2000  # rows of a kind in one transaction, so that nobody waits long for it
_log = logging.getLogger(__name__)


class Sweeper:
    """Goes through all tasks; may run at any time, beside everything else."""

    def __init__(
        self, tasks: Mapping[bytes, AggregatorTask], storage: SweptStorage, clock: Clock, keep_us: int
    ) -> None:
        self._tasks = tasks
        self._storage = storage
        self._clock = clock
        self._keep_us = keep_us

    def sweep_once(self, stopped: Callable[[], bool] = lambda: False) -> int:
        """Forget all that can be forgotten; returns how many rows went. One task's trouble stops no other."""
        gone = 0
        for task_id in list(self._tasks):
            try:
                horizon = self._horizon(self._tasks[task_id].task)
                while horizon is not None and not stopped():
                    went = self._storage.sweep(task_id, horizon, AT_ONCE)
                    gone += went
                    if not went:
                        break
            except KeyError:
                continue  # taken away since
            except InterlockError as e:
                _log.warning("a task cannot be swept now: %s", e)
        return gone

    def _horizon(self, task: Task) -> int | None:
        newest = self._storage.newest(task.task_id)
        if newest is None:
            return None
        precision_us = task.start_us(1)
        return max(0, min(newest, task.time_of(self._clock.now_us())) - -(-self._keep_us // precision_us))
