"""A member's reporting, wired: its task, its store, and exchanges with both aggregators."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.base.clock import Clock, SystemClock
from interlock.base.errors import InterlockError
from interlock.base.files import read_bounded
from interlock.dap.task import Task
from interlock.dap.taskfile import load_client_task
from interlock.node.config import MeshConfig, ReportConfig
from interlock.node.parties import HttpExchange, secret_in, vdaf_of
from interlock.node.roles import report
from interlock.node.storage.node import NodeStore, open_store

__all__ = ["Reporter", "read_task", "reporter_of"]

log = logging.getLogger("interlock.report")

REPORT_EVERY_S: Final = 60.0
_LIMIT: Final = 1 << 20


@dataclass(frozen=True)
class Reporter:
    """One node's reporting for one task. `keys` fetches public keys and carries no token; `leader` carries it."""

    home: Path
    store: NodeStore
    task: Task
    keys: HttpExchange
    leader: HttpExchange
    clock: Clock

    def once(self, *, early: bool = False) -> tuple[int, report.Sent]:
        """Close what has ended (and, `early`, the running epoch), then send what is due.

        Raises: NoConsent, TaskRefused, Unreachable, DapProblem.
        """
        vdaf = vdaf_of(self.task)
        made = report.close_epochs(
            self.home, self.store, self.task, vdaf, self.keys, self.clock, os.urandom, early=early
        )
        return made, report.send_due(self.home, self.store, self.task, self.leader, self.clock)

    def keep_reporting(self, stop: threading.Event) -> None:
        """Report until `stop` is set; what fails is said and tried again at the next turn."""
        while not stop.wait(REPORT_EVERY_S):
            try:
                self.once()
            except InterlockError as e:
                log.warning("no report: %s", e)


@contextlib.contextmanager
def reporter_of(config: MeshConfig, reporting: ReportConfig) -> Iterator[Reporter]:
    """Raises: BadState, TaskRefused."""
    task, token = read_task(reporting.task), secret_in(reporting.token)
    with contextlib.ExitStack() as stack:
        keys, leader = HttpExchange(), HttpExchange(token)
        store = open_store(config.home)
        for opened in (keys, leader, store):
            stack.callback(opened.close)
        yield Reporter(config.home, store, task, keys, leader, SystemClock())


def read_task(path: Path) -> Task:
    """A task as its members have it. Raises: BadState, NewerFormat, TaskRefused."""
    return load_client_task(read_bounded(path, _LIMIT), where=str(path))
