"""Reports of a leader's job that go on into a later one, as they were sent before."""

from __future__ import annotations

from typing import Final, NamedTuple

from interlock.base.database import as_int
from interlock.dap.storage import LaterJob
from interlock.node.storage.dap_packed import packed, packed_states
from interlock.node.storage.sql import Tx, of_rows, of_values

__all__ = ["JOB_COLUMNS", "EndedJob", "put_off"]

JOB_COLUMNS: Final = "task, id, state, first, last, token, owner, until, attempts, members, request, kept, batch"


class EndedJob(NamedTuple):
    """What is left to say of a job that is over: `members` are the numbers of its reports."""

    id: bytes
    members: list[int]
    batch: bytes


def put_off(tx: Tx, task_id: bytes, later: LaterJob, job: EndedJob) -> set[int]:
    """Make the later job, which is begun and free from its time on; the numbers of its reports, which stay taken.

    `job` is the one that they come from, and leave: what it is said to hold may be left out of its batch.
    """
    find = "SELECT seq FROM reports WHERE task = ? AND state = 'taken' AND id IN ({})"
    put = {as_int(row[0]) for row in of_values(tx, find, list(later.states), [task_id])}
    buckets = [bucket for bucket, _ in later.states.values()]
    about = (task_id, later.job_id, "begun", min(buckets), max(buckets), b"", "", later.not_before, 0)
    row = (*about, packed(sorted(put)), later.request, packed_states(later.states), job.batch)
    left = packed([seq for seq in job.members if seq not in put])
    tx.execute("UPDATE jobs SET members = ? WHERE task = ? AND id = ? AND state = 'done'", (left, task_id, job.id))
    of_rows(tx, f"INSERT INTO jobs ({JOB_COLUMNS}) VALUES {{}}", [row])
    return put
