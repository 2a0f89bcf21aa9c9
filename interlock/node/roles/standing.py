"""Whether a task still stands: asked of the commons before anything is made, fetched or sent for it.

    it stands      the commons of now signs and logs just this task
    it ended       the commons logged that it took it back, or signs it no more: consent ends, what is queued and what
                   was seen is dropped, and nothing resumes
    nobody knows   the commons cannot be read, is stale, or does not verify: nothing goes out, and it is asked again

What ended is counted again only where a person agrees to it again, for which the commons has to publish it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from interlock.base.clock import Clock
from interlock.base.errors import InterlockError
from interlock.base.fetch import NotFound
from interlock.commons.consent import Ended
from interlock.commons.task_withdrawal import TaskWithdrawn
from interlock.dap.task import Task
from interlock.node.roles.report import agreed_name, withdraw
from interlock.node.roles.taking import NotPublished, demand_published, published_task
from interlock.node.storage.node import NodeStore

__all__ = ["TaskEnded", "TaskStanding"]


class TaskEnded(InterlockError):
    """A task that the commons does not publish any more; what this node had for it is gone."""

    code = "task-refused"


class _Commons(Protocol):
    def dap_task(self, task: str) -> bytes: ...


class TaskStanding:
    """What the commons says of one node's tasks, asked once of each in one turn of reporting.

    `commons` opens it; called only where there is something to ask. `kept` are the ids of the tasks of this node.
    """

    def __init__(
        self,
        home: Path,
        store: NodeStore,
        commons: Callable[[], _Commons],
        clock: Clock,
        kept: frozenset[bytes] = frozenset(),
    ) -> None:
        self._home = home
        self._store = store
        self._commons = commons
        self._clock = clock
        self._kept = kept
        self._good: set[bytes] = set()

    def demand(self, task: Task) -> None:
        """Demand that a task stands; one without a yes is nobody's to ask about.

        Raises: TaskEnded, once all that was had for it is dropped; NotPublished, where this node keeps the published
        one as well, to which the yes is; and whatever refuses a commons (Stale, Unreachable, NotLogged, ...), for then
        nobody knows.
        """
        name = "" if task.task_id in self._good else agreed_name(self._home, task)
        if not name:
            return
        try:
            demand_published(self._commons(), name, task)
        except (NotPublished, TaskWithdrawn) as e:
            if self._keeps_the_published(name):
                raise
            now_us = self._clock.now_us()
            dropped = withdraw(self._home, self._store, name, now_us, Ended(name, e.what, now_us))
            told = f"{e.what}; it is counted no more, and {dropped} queued reports are dropped"
            raise TaskEnded(told, where=f"task {name}") from None
        self._good.add(task.task_id)

    def _keeps_the_published(self, name: str) -> bool:
        """Whether the task that the commons publishes by a name is one of this node's. Raises: as `demand`."""
        try:
            return published_task(self._commons(), name).task_id in self._kept
        except (NotFound, TaskWithdrawn):
            return False
