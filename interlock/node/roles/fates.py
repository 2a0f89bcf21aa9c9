"""What became of this node's reports: what it knows itself, and what the leader says of those that were sent.

A report that proves membership is asked for in a request of its own and without a token, so that the leader cannot tell
from the question that two reports are of one member. What shows that a report is ours was made with it, and its key is
forgotten; it is good for asking and for nothing else. What the leader has forgotten is forgotten here, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from interlock.base.clock import rfc3339
from interlock.dap.fates import QUESTIONS_MOST, Fate, Question, Standing, ask_fates
from interlock.dap.task import Task
from interlock.dap.transport import Exchange
from interlock.node.storage.node import NodeStore, OutboxRow, OutboxState

__all__ = ["Outcome", "outcomes"]

_HERE: Final = {
    OutboxState.QUEUED: "not sent yet",
    OutboxState.DROPPED: "dropped here",
    OutboxState.SENT: "sent; its id is kept no more",
    OutboxState.REFUSED: "rejected",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One report's end so far; `reason` is an error of DAP's or our own word, `side` and `step` where that was."""

    task: str
    epoch: str
    report: str
    standing: str
    reason: str = ""
    side: str = ""
    step: str = ""


def outcomes(store: NodeStore, task: Task, exchange: Exchange, last: int) -> list[Outcome]:
    """What became of the last reports of a task, oldest epoch first; `exchange` carries the token that it asks for.

    Raises: Unreachable, DapProblem, Malformed.
    """
    rows = [row for row in store.outbox() if row.dap_task == task.task_id][-last:]
    sent = [row for row in rows if row.state is OutboxState.SENT and row.report_id]
    at_once = QUESTIONS_MOST if task.membership is None else 1
    fates: dict[bytes, Fate] = {}
    for part in _parts(sent, at_once):
        questions = tuple(Question(row.report_id, task.time_of(row.epoch_start), row.asks) for row in part)
        fates |= ask_fates(exchange, task, questions)
    for row in sent:
        if fates[row.report_id].standing is Standing.FORGOTTEN:
            store.forget_question(row)
    return [_outcome(row, fates.get(row.report_id)) for row in rows]


def _outcome(row: OutboxRow, fate: Fate | None) -> Outcome:
    about = row.task, rfc3339(row.epoch_start), row.report_id.hex()
    if fate is None:
        refused = row.state is OutboxState.REFUSED
        side, step = ("leader", "upload") if refused else ("", "")
        return Outcome(*about, _HERE[row.state], row.reason, side, step)
    error = "" if fate.error is None else fate.error.value
    side = "" if fate.side is None else fate.side.name.lower()
    return Outcome(*about, fate.standing.value, error, side, "" if fate.step is None else fate.step.value)


def _parts(rows: Sequence[OutboxRow], size: int) -> Iterator[tuple[OutboxRow, ...]]:
    rest = iter(rows)
    while part := tuple(itertools.islice(rest, size)):
        yield part
