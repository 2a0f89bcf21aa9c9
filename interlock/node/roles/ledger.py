"""The ledger: what a node told of itself, epoch by epoch, to what end it came, and what it cost in privacy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from interlock.base.clock import rfc3339
from interlock.dap.task import Task
from interlock.node.roles.report import BEARER, NOTES, mechanism_of
from interlock.node.storage.node import NodeStore, OutboxState

__all__ = ["LedgerRow", "Spending", "ledger", "spending"]


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """What this node has told of itself in one epoch; times in RFC 3339, `due` empty once it has gone.

    `remade` is how often the report was sealed anew, as an aggregator's key was replaced before it came.
    """

    task: str
    epoch: str
    state: str
    reason: str
    at: str
    due: str
    membership: str
    note: str
    mechanism: str
    dap_task: str
    remade: int


@dataclass(frozen=True, slots=True)
class Spending:
    """What all reports of one task cost: how many went, and in the noise's measure what they spent at most and what is
    left at least; empty where the sums carry no noise, and so no budget."""

    task: str
    dap_task: str
    sent: int
    mechanism: str
    measure: str
    spent: str
    left: str


def ledger(store: NodeStore) -> list[LedgerRow]:
    """Every report of this node, oldest epoch first: what was told, to what end it came, and what protects it."""
    return [
        LedgerRow(
            row.task,
            rfc3339(row.epoch_start),
            row.state.value,
            row.reason,
            rfc3339(row.at),
            rfc3339(row.due) if row.state is OutboxState.QUEUED else "",
            row.shown or BEARER,
            NOTES[row.shown or BEARER],
            row.mechanism,
            row.dap_task.hex(),
            row.remade,
        )
        for row in store.outbox()
    ]


def spending(store: NodeStore, tasks: Iterable[Task]) -> list[Spending]:
    """What this node's reports have cost it in privacy, a row a task of which something was sent.

    Of a task with noise each epoch's sums are released once at most. How many epochs a batch holds is for the collector
    to choose, so the cost told is that of one batch of all of them, which is the most; but no more than the budget.
    """
    sent = [row for row in store.outbox() if row.state is OutboxState.SENT]
    found = []
    for task in tasks:
        names = {row.task for row in sent if row.dap_task == task.task_id}
        count = sum(row.dap_task == task.task_id for row in sent)
        if count:
            spent = None if task.noise is None else min(task.noise.cost_of(count), task.noise.budget)
            left = None if task.noise is None or spent is None else task.noise.budget - spent
            measure = "" if task.noise is None else task.noise.mechanism.measure
            told = "" if spent is None else f"{spent}", "" if left is None else f"{left}"
            found.append(Spending(min(names), task.task_id.hex(), count, mechanism_of(task), measure, *told))
    return found
