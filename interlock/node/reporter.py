"""A member's reporting, wired: its tasks, its store, its membership, and exchanges with both aggregators.

A node reports for the task that `[report] task` names and for those in HOME/tasks, which `interlock mesh report init`
keeps there.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.base.clock import Clock, SystemClock
from interlock.base.errors import InterlockError
from interlock.base.files import private_dir, read_bounded, replace
from interlock.base.settings import BadConfig
from interlock.commons.consent import NoConsent
from interlock.commons.known_operators import known_operators
from interlock.commons.subscribe import Subscriber
from interlock.commons.turns import mirrors_of
from interlock.dap.membership import ReportProof
from interlock.dap.task import Task
from interlock.dap.taskfile import dump_client_task, load_client_task
from interlock.dap.transport import Exchange
from interlock.native.blind_rsa import chosen_blind_rsa
from interlock.node.config import MeshConfig, ReportConfig
from interlock.node.parties import HttpExchange, vdaf_of
from interlock.node.roles import report, rollup
from interlock.node.roles.member import ClockAhead, Credentials, read_joined
from interlock.node.roles.sealing import Sealer
from interlock.node.roles.standing import TaskStanding
from interlock.node.storage.node import NodeStore, open_store
from interlock.node.tokens import secret_in

__all__ = ["Reporter", "keep_reporting", "keep_task", "read_task", "reporters_of", "tasks_of"]

log = logging.getLogger("interlock.report")

REPORT_EVERY_S: Final = 60.0
_LIMIT: Final = 1 << 20
_TASKS: Final = "tasks"


@dataclass(frozen=True)
class Reporter:
    """One node's reporting for one task. `keys` fetches public keys and carries no token; `leader` carries it.

    `credentials` is there for a task that asks for proofs of membership; then `leader` carries no token either.
    `nodes` are the organisation's other nodes, whose places are reported from here. `standing` is asked before
    anything is made, fetched or sent.
    """

    home: Path
    store: NodeStore
    task: Task
    keys: Exchange
    leader: Exchange
    clock: Clock
    standing: TaskStanding
    credentials: Credentials | None = None
    nodes: tuple[Path, ...] = ()

    def build(self, *, early: bool = False) -> int:
        """Make the reports of what has ended (and, `early`, of the running epoch); returns how many were made.

        Raises: NoConsent, TaskRefused, TaskEnded, NotGathered, Unreachable, DapProblem; what refuses a commons.
        """
        report.step_back(self.home, self.store, self.task, self.clock)
        due = report.epochs_to_report(self.home, self.store, self.task, self.clock, early=early)
        name = report.catalog_task(self.home, self.task)
        if due:
            self.standing.demand(self.task)
        if self.credentials is not None:  # the running epoch's too: asked for long before it is used
            for epoch, why in self.fetch_credentials()[1].items():
                log.warning("task %s, epoch %s: no right to report yet: %s", name, epoch, why)
        rollup.gather(self.store, self.home, name, self.nodes, due, self.clock.now_us())
        return report.close_epochs(self.home, self.store, self._sealer(), self.clock, early=early)

    def send(self, *, at_once: bool = False) -> report.Sent:
        """Send what is due (or, `at_once`, all that is queued). Raises: as `build`."""
        if self.store.queued(self.task.task_id, None if at_once else self.clock.now_us()):
            self.standing.demand(self.task)
        return report.send_due(self.home, self.store, self.leader, self._sealer(), self.clock, at_once=at_once)

    def fetch_credentials(self) -> tuple[list[int], dict[int, InterlockError]]:
        """Fetch the right to report each due epoch and the running one; returns those held, and why others are not.

        Raises: NoConsent, TaskRefused, TaskEnded; what refuses a commons.
        """
        assert self.credentials is not None, "the task asks for none"
        starts = report.epochs_to_report(self.home, self.store, self.task, self.clock, early=True)
        if any(self._proof(epoch) is None for epoch in map(self.task.time_of, starts)):
            self.standing.demand(self.task)
        held: list[int] = []
        missing: dict[int, InterlockError] = {}
        for epoch in map(self.task.time_of, starts):
            try:
                self.credentials.proof(self.task, epoch)
                held.append(epoch)
            except ClockAhead as e:  # said once, and not of each epoch that has not begun
                missing[epoch] = e
                break
            except InterlockError as e:
                missing[epoch] = e
        return held, missing

    def _sealer(self) -> Sealer:
        return Sealer(self.task, vdaf_of(self.task), self.keys, os.urandom, self._proof)

    def _proof(self, epoch: int) -> ReportProof | None:
        """The right to report an epoch, if it is held; nothing is fetched in the middle of making reports."""
        if self.credentials is None:
            return None
        return self.credentials.held(self.task, epoch)


def keep_reporting(config: MeshConfig, reporting: ReportConfig, stop: threading.Event) -> None:
    """Report until `stop` is set, for every task there then is; what fails is said and tried again at the next turn."""
    while not stop.wait(REPORT_EVERY_S):
        try:
            with reporters_of(config, reporting) as reporters:
                for reporter in reporters:
                    _report(reporter)
        except InterlockError as e:
            log.warning("no report: %s", e)


def _report(reporter: Reporter) -> None:
    """One turn of one task, whose trouble keeps no other from its turn."""
    try:
        _turn(reporter)
    except InterlockError as e:
        log.warning("no report: %s", e)


def _turn(reporter: Reporter) -> None:
    """Build and send. A task that nobody has agreed to is no news, one that outgrew its yes is."""
    try:
        reporter.build()
        reporter.send()
    except NoConsent as e:
        report.drop_uncovered(reporter.home, reporter.store, reporter.task, reporter.clock)
        known = report.outgrown(reporter.home, reporter.task)
        log.log(logging.WARNING if known else logging.DEBUG, "no report: %s", e)


@contextlib.contextmanager
def reporters_of(config: MeshConfig, reporting: ReportConfig) -> Iterator[list[Reporter]]:
    """A reporter a task of this node; none where it has no task. Raises: BadState, BadConfig, TaskRefused."""
    tasks = tasks_of(config.home, reporting)
    with contextlib.ExitStack() as stack:
        if not tasks:
            yield []
            return
        keys = HttpExchange()
        stack.callback(keys.close)
        store = open_store(config.home)
        stack.callback(store.close)

        @functools.cache
        def commons() -> Subscriber:
            return Subscriber(config.home, mirrors_of(config.commons_url()), SystemClock())

        leader = credentials = None
        if any(task.membership is None for task in tasks):
            leader = HttpExchange(_token(reporting))
            stack.callback(leader.close)
        if any(task.membership is not None for task in tasks):
            credentials = _credentials(config, store, keys, commons())
        standing = TaskStanding(config.home, store, commons, SystemClock(), frozenset(task.task_id for task in tasks))
        shared = (SystemClock(), standing, reporting.nodes)
        yield [_reporter(config.home, store, task, keys, leader, credentials, *shared) for task in tasks]


def _reporter(
    home: Path,
    store: NodeStore,
    task: Task,
    keys: HttpExchange,
    leader: HttpExchange | None,
    credentials: Credentials | None,
    clock: Clock,
    standing: TaskStanding,
    nodes: tuple[Path, ...],
) -> Reporter:
    if task.membership is None:
        assert leader is not None, "made where a task needs it"
        return Reporter(home, store, task, keys, leader, clock, standing, None, nodes)
    # no token: it would tell the leader who reports
    return Reporter(home, store, task, keys, keys, clock, standing, credentials, nodes)


def tasks_of(home: Path, reporting: ReportConfig) -> list[Task]:
    """The tasks of a node, each once. Raises: BadState, NewerFormat, TaskRefused."""
    named = [] if reporting.task is None else [reporting.task]
    kept = sorted(path for path in (home / _TASKS).glob("*.json") if path.name[0] != ".")
    tasks = [read_task(path) for path in (*named, *kept)]
    return list({task.task_id: task for task in tasks}.values())


def keep_task(home: Path, task: Task) -> None:
    """Let a node report for a task, once it is consented to. Raises: NotWritable."""
    replace(private_dir(home / _TASKS) / f"{task.task_id.hex()}.json", dump_client_task(task))


def read_task(path: Path) -> Task:
    """A task as its members have it. Raises: BadState, NewerFormat, TaskRefused."""
    return load_client_task(read_bounded(path, _LIMIT), where=str(path))


def _token(reporting: ReportConfig) -> str:
    if reporting.token is None:
        raise BadConfig("is not set", where="[report] token", fix="name the file of the leader's token")
    return secret_in(reporting.token)


def _credentials(config: MeshConfig, store: NodeStore, exchange: HttpExchange, commons: Subscriber) -> Credentials:
    joined = read_joined(config.home)
    return Credentials(
        joined,
        store,
        commons.member_keys,
        exchange,
        chosen_blind_rsa(),
        os.urandom,
        operators=lambda: known_operators(config.home),
    )
