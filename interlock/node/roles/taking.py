"""Taking part in a DAP task: what a node checks before it lends itself to one, each with an error of its own.

    published   signed by the commons, in its log, and the commons of now    NotPublished, NotLogged, Stale
    floor       as many organisations in a batch as a real task has          TaskRefused (dap.task.task_of)
    members     each report proves that a member sent it                     Unproven
    operators   two different bodies run the aggregators                     OneHand

A demonstration's task (`demo`) counts from fewer organisations, and may do without proofs and without a list of
operators; whoever takes part in one says so. The checks are the same for a member, an aggregator and a collector.
"""

from __future__ import annotations

from typing import Final, Protocol
from urllib.parse import urlsplit

from interlock.base.codec import Malformed
from interlock.base.fetch import NotFound
from interlock.base.organisations import LEAST
from interlock.commons.membership import TaskMembership
from interlock.commons.operators import OneHand, Operators, demand_two_aggregators
from interlock.dap.task import Task, TaskRefused
from interlock.dap.taskfile import load_client_task
from interlock.engine.detectors.hosts import normal_host

__all__ = ["NotPublished", "Unproven", "demand_apart", "demand_published", "demand_safe", "published_task"]


_PORTS: Final = {"http": 80, "https": 443}
_HERE: Final = ("127.0.0.1", "::1")


class Unproven(TaskRefused):
    """A task whose reports prove nothing: its leader could send as many as it likes."""


class NotPublished(TaskRefused):
    """A task that the commons did not publish, or not so: others may count by another."""


class _Commons(Protocol):
    def dap_task(self, task: str) -> bytes: ...


def published_task(commons: _Commons, name: str) -> Task:
    """The DAP task of a name, as the commons signed and logged it; judged by `demand_safe` before it is used.

    Raises: NotFound, NotLogged, Stale and whatever else refuses a commons; BadState, TaskRefused.
    """
    return load_client_task(commons.dap_task(name), where=f"task {name}")


def demand_published(commons: _Commons, name: str, task: Task) -> None:
    """Demand that a task that came by another way is the published one. Raises: NotPublished, and as above."""
    try:
        found = published_task(commons, name)
    except NotFound:
        told = "is not published by the commons, so nobody could tell who else counts by it"
        raise NotPublished(told, where=f"task {name}", fix="ask the commons to publish it") from None
    if (found.task_id, found.draft.tag, found.demo) != (task.task_id, task.draft.tag, task.demo):
        told = f"is not the task {name} that the commons published"
        raise NotPublished(told, where=f"task {task.task_id.hex()[:16]}", fix="take the file from the commons")


def demand_safe(task: Task, name: str, operators: Operators | None, *, demo: bool = False) -> None:
    """Demand what makes a task safe to take part in; `operators` is the commons' list, None where there is none.

    Raises: TaskRefused (the floor of a demo, and `demo` was not said), Unproven, OneHand.
    """
    where = f"task {name}"
    if task.demo and not demo:
        told = f"counts from {task.config.min_batch_size} organisations on, and a real task needs {LEAST}"
        raise TaskRefused(told, where=where, fix="give --demo to take part all the same")
    if task.leader_selected:
        told = "has batches that its leader selects, so its sums count reports and not organisations"
        raise TaskRefused(told, where=where, fix="ask its author for a task of time intervals")
    _demand_members(task, name)
    leader, helper = (url.decode("ascii") for url in (task.config.leader_url, task.config.helper_url))
    if operators is not None:
        demand_two_aggregators(operators, leader, helper)
    elif not task.demo:
        told = "is run by nobody that the commons names, so one body may run both aggregators"
        raise OneHand(told, where=where, fix="ask the commons to publish who runs what; update, and try again")
    demand_apart(task, name)


def demand_apart(task: Task, name: str) -> None:
    """Demand that a real task's aggregators are not at one address, whoever is said to run them. Raises: OneHand."""
    leader, helper = (_address(url) for url in (task.config.leader_url, task.config.helper_url))
    if not task.demo and leader == helper:
        fix = "nothing is reported to this task"
        raise OneHand("has both aggregators at one address", where=f"task {name}", fix=fix)


def _address(url: bytes) -> tuple[str, int]:
    """Host and port of an aggregator's URL, whatever its spelling. Raises: TaskRefused."""
    parts = urlsplit(url.decode("ascii"))
    try:
        host, port = normal_host(_bracketed(parts.hostname or "")), parts.port
    except ValueError:
        raise TaskRefused("has an aggregator at no host that can be read in one way", fix="spell its URL out") from None
    return ("localhost" if host in _HERE else host), port or _PORTS[parts.scheme]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _demand_members(task: Task, name: str) -> None:
    where = f"task {name}"
    if task.membership is None:
        if task.demo:
            return
        raise Unproven(
            "asks for no proof of membership: its leader could add reports of its own",
            where=where,
            fix="ask its author for a task with the membership extension",
        )
    try:
        wanted = TaskMembership.decode(task.membership)
    except Malformed as e:
        raise Unproven(f"asks for a proof that is not known here ({e.what})", where=where, fix="upgrade") from None
    if wanted.task != name:
        raise Unproven(f"asks for the members of another task ({wanted.task})", where=where, fix="tell the commons")
