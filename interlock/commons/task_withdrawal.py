"""A task that the commons has taken back: a record that it signs and logs, as the task itself never changes.

    {"format": "interlock-task-withdrawal", "v": 1, "task": "hosts-1", "why": TEXT}

It is canonical JSON, the signed target `tasks/<task>.withdrawn.json` and an entry of the log, which says when. From
then on nobody takes part in the task, and what was told of its sums is believed no more. It is for ever: a new task has
another name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from interlock.base import canonical
from interlock.base.canonical import NotCanonical
from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError, one_line
from interlock.commons.statements import known_task

__all__ = ["MAX_WITHDRAWAL", "TaskWithdrawn", "Withdrawal", "build_withdrawal", "parse_withdrawal"]

MAX_WITHDRAWAL: Final = 4096  # bytes
_FORMAT: Final = "interlock-task-withdrawal"
_WHY_MOST: Final = 300  # characters


class TaskWithdrawn(InterlockError):
    """A task that the commons published, and took back since."""

    code = "task-refused"


@dataclass(frozen=True)
class Withdrawal:
    """Which task was taken back, and why, in one line. `data` is its one spelling."""

    task: str
    why: str
    data: bytes = field(repr=False)

    @property
    def refusal(self) -> TaskWithdrawn:
        """What whoever asks for the task is told."""
        fix = "nothing is reported to it, and nothing that was told of it is believed; another task has another name"
        return TaskWithdrawn(f"was withdrawn by the commons ({self.why})", where=f"task {self.task}", fix=fix)


def build_withdrawal(task: str, why: str) -> Withdrawal:
    """Raises: Malformed, for no task's name, and a reason that is no line of its own."""
    body = {"format": _FORMAT, "v": 1, "task": task, "why": why}
    return parse_withdrawal(canonical.encode(body), where=f"withdrawal of {one_line(task, 80)}")


def parse_withdrawal(data: bytes, *, where: str) -> Withdrawal:
    """Read one strictly. Raises: Malformed."""
    try:
        body = canonical.known_object(data, _FORMAT, 1, most=MAX_WITHDRAWAL, where=where)
    except NotCanonical as e:
        raise Malformed(e.what, where=where) from None
    if set(body) != {"format", "v", "task", "why"}:
        raise Malformed("has other fields than task and why", where=where)
    task, why = known_task(body["task"], where=where), body["why"]
    if not isinstance(why, str) or not why or why != one_line(why, _WHY_MOST):
        raise Malformed(f"why is not one line of at most {_WHY_MOST} characters", where=where)
    return Withdrawal(task, why, data)
