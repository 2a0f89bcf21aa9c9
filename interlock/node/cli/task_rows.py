"""The rows of `interlock mesh status` and `doctor` about the tasks that this node keeps: which DAP each one speaks, and
whether what was agreed to still covers it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from interlock.base.clock import rfc3339
from interlock.base.errors import InterlockError
from interlock.base.files import read_bounded
from interlock.commons.consent import ended_consents
from interlock.dap.task import Task
from interlock.dap.taskfile import load_client_task
from interlock.node.cli.rows import Row
from interlock.node.roles.report import outgrown

__all__ = ["task_rows"]

_LIMIT: Final = 1 << 16


def task_rows(home: Path) -> Iterator[Row]:
    """A row a task of this node, and one of each that ended; a draft that nobody verified is told of each time."""
    yield from _ended(home)
    for path in sorted(p for p in (home / "tasks").glob("*.json") if p.name[0] != "."):
        try:
            task = load_client_task(read_bounded(path, _LIMIT), where=str(path))
        except InterlockError as e:
            yield Row("task", "fail", f"{e.where}: {e.what}", e.fix)
            continue
        yield from _outgrown(home, task)
        told = f"{task.task_id.hex()[:16]} speaks {task.draft.label}"
        noise = "no noise" if task.noise is None else task.noise.text
        if task.draft.verified:
            yield Row("task", "ok", f"{told}, {noise}")
        else:
            yield Row("task", "warn", f"{told}, {noise}", "ask its author for a task in a draft that is verified")


def _ended(home: Path) -> Iterator[Row]:
    """What the commons took back; a consent that cannot be read is told of by its task's own row."""
    with contextlib.suppress(InterlockError):
        for end in ended_consents(home).values():
            told = f"{end.subject} ended at {rfc3339(end.at)}: it {end.why}; nothing is counted or sent for it"
            yield Row("task", "warn", told, "ask the commons what follows it")


def _outgrown(home: Path, task: Task) -> Iterator[Row]:
    try:
        beyond = outgrown(home, task)
    except InterlockError as e:
        yield Row("consent", "fail", f"{e.where}: {e.what}", e.fix)
        return
    if beyond:
        told = f"{task.task_id.hex()[:16]} is not reported: {'; '.join(beyond)}"
        yield Row("consent", "warn", told, "see it with interlock mesh consent show, then agree again")
