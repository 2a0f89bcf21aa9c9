"""The leader's jobs in its store: gathered of waiting reports, leased, begun, and ended with what they come to.

    gathered -> begun -> done | abandoned;  gathered -> abandoned, where no report of it is left

Who moves a job on holds its lease, and each change of a job names its token: whoever lost it changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from interlock.base.database import as_bytes, as_int
from interlock.dap.batches import OutShare
from interlock.dap.drafts import ReportError, Role
from interlock.dap.fates import Step
from interlock.dap.storage import (
    LONGEST,
    NO_STATES,
    NOTHING,
    Fold,
    JobOrder,
    LaterJob,
    Lease,
    LeasedJob,
    States,
)
from interlock.node.storage.dap_bodies import bodies_of, forget_bodies
from interlock.node.storage.dap_collections import LIVE
from interlock.node.storage.dap_fates import LeaderFates, reject, reject_all
from interlock.node.storage.dap_later import JOB_COLUMNS, EndedJob, put_off
from interlock.node.storage.dap_packed import packed, packed_states, unpacked, unpacked_states
from interlock.node.storage.dap_selected import enter, lacking, leave
from interlock.node.storage.sql import Tx, of_rows, of_values

__all__ = ["OPEN", "LeaderJobs"]

OPEN: Final = "state IN ('gathered', 'begun')"  # as the index has it


class LeaderJobs(LeaderFates):
    """What LeaderTables knows of jobs."""

    def gather(self, task_id: bytes, order: JobOrder) -> bool:
        sql = (
            "SELECT seq, bucket, at FROM reports WHERE task = ? AND state = 'waiting' AND bucket <= ?"
            f" ORDER BY bucket, seq LIMIT ?{self.SKIP_LOCKED}"
        )
        with self._write() as tx:
            batch, room, enough = b"", order.size, order.size
            if order.filling is not None:
                self._alone(tx, task_id)  # no two batches are begun where one was lacking
                batch, room, enough = lacking(tx, task_id, order.filling, order.new_batch)
            size = min(order.size, room)
            rows = tx.execute(sql, (task_id, order.not_after, size)).fetchall()
            seqs, buckets, times = ([as_int(row[i]) for row in rows] for i in range(3))
            if not rows or not (len(rows) >= min(size, enough) or _due(tx, task_id, order, buckets, times)):
                return False
            of_values(tx, "UPDATE reports SET state = 'taken' WHERE seq IN ({})", seqs)
            row = (task_id, b"", "gathered", min(buckets), max(buckets), b"", "", 0, 0, packed(seqs), b"", b"", batch)
            of_rows(tx, f"INSERT INTO jobs ({JOB_COLUMNS}) VALUES {{}}", [row])
            if order.filling is not None:
                enter(tx, task_id, batch, order.filling, len(rows))
            return True

    def lease_job(self, task_id: bytes, lease: Lease, now_us: int) -> LeasedJob | None:
        free = (
            f"SELECT seq, attempts FROM jobs WHERE task = ? AND {OPEN} AND (until <= ? OR until > ?)"
            f" ORDER BY seq LIMIT 1{self.SKIP_LOCKED}"
        )
        take = "UPDATE jobs SET token = ?, owner = ?, until = ?, attempts = attempts + 1 WHERE seq = ?"
        with self._write() as tx:
            row = tx.execute(free, (task_id, now_us, lease.until(now_us, LONGEST))).fetchone()
            if row is None:
                return None
            seq, before = as_int(row[0]), as_int(row[1])
            tx.execute(take, (lease.token, lease.owner, lease.until(now_us, before), seq))
            job = tx.execute("SELECT state, id, members, request, kept, batch FROM jobs WHERE seq = ?", (seq,))
            state, job_id, members, request, kept, batch = job.fetchone() or ()
            states = unpacked_states(as_bytes(kept))
            bodies = () if states else bodies_of(tx, unpacked(as_bytes(members)))
            if state == "gathered":
                return LeasedJob(bodies, batch=as_bytes(batch))
            return LeasedJob(bodies, as_bytes(job_id), as_bytes(request), states, as_bytes(batch))

    def free_jobs(self, owner: str) -> None:
        with self._write() as tx:
            tx.execute(f"UPDATE jobs SET token = ?, until = 0 WHERE owner = ? AND {OPEN}", (b"", owner))

    def release_job(self, task_id: bytes, token: bytes, again_us: int, states: States = NO_STATES) -> None:
        free = f"UPDATE jobs SET token = ?, until = ?, attempts = 0 WHERE task = ? AND token = ? AND {OPEN}"
        keep = f"UPDATE jobs SET kept = ? WHERE task = ? AND token = ? AND {OPEN} RETURNING members"
        with self._write() as tx:
            if states:
                row = tx.execute(keep, (packed_states(states), task_id, token)).fetchone()
                forget_bodies(tx, unpacked(as_bytes(row[0])) if row else ())
            tx.execute(free, (b"", again_us, task_id, token))

    def begin_job(
        self,
        task_id: bytes,
        lease: Lease,
        job_id: bytes,
        request: bytes,
        rejected: Mapping[bytes, ReportError],
        now_us: int,
    ) -> bool:
        find = (
            "SELECT seq, attempts, batch FROM jobs"
            f" WHERE task = ? AND token = ? AND {OPEN} AND state = 'gathered'{self.FOR_UPDATE}"
        )
        begin = "UPDATE jobs SET state = ?, id = ?, request = ?, until = ? WHERE seq = ?"
        down = "DELETE FROM bodies WHERE seq IN (SELECT seq FROM reports WHERE task = ? AND id IN ({}))"
        with self._write() as tx:
            row = tx.execute(find, (task_id, lease.token)).fetchone()
            if row is None:
                return False
            until = lease.until(now_us, as_int(row[1]) - 1)
            tx.execute(begin, ("begun" if request else "abandoned", job_id, request, until, row[0]))
            turned_down = reject(tx, task_id, rejected, Role.LEADER, Step.INIT)
            of_values(tx, down, rejected, [task_id])
            leave(tx, task_id, as_bytes(row[2]), turned_down)
            return True

    def finish_job(
        self,
        task_id: bytes,
        token: bytes,
        outs: Sequence[OutShare],
        rejected: Mapping[bytes, ReportError],
        fold: Fold,
        *,
        by_helper: Mapping[bytes, ReportError] = NOTHING,
        later: LaterJob | None = None,
    ) -> bool:
        done = "UPDATE reports SET state = 'aggregated', batch = ? WHERE state = 'taken' AND seq IN ({})"
        with self._write() as tx:
            self._among_others(tx, task_id)
            job = _end_job(tx, task_id, token, "done", "AND state = 'begun'")
            if job is None:
                return False
            forget_bodies(tx, job.members)
            # A batch is closed only once no report of it is under way; one that is closed all the same gets none.
            refused = self._refused(tx, task_id, outs)
            late = {key: error for key, error in refused.items() if error is ReportError.BATCH_COLLECTED}
            turned_down = reject(tx, task_id, {**rejected, **late}, Role.LEADER, Step.FINISH)
            turned_down += reject(tx, task_id, by_helper, Role.HELPER, Step.INIT)
            self._add_up(tx, task_id, job.id, [out for out in outs if out.report_id not in late], fold)
            put = set() if later is None else put_off(tx, task_id, later, job)
            of_values(tx, done, [seq for seq in job.members if seq not in put], [job.batch])
            leave(tx, task_id, job.batch, turned_down)
            return True

    def abandon_job(self, task_id: bytes, token: bytes, error: ReportError) -> bool:
        with self._write() as tx:
            job = _end_job(tx, task_id, token, "abandoned")
            if job is None:
                return False
            left = of_values(tx, "SELECT seq FROM reports WHERE state = 'taken' AND seq IN ({})", job.members)
            reject_all(tx, job.members, error)
            forget_bodies(tx, job.members)
            leave(tx, task_id, job.batch, len(left))
            return True


def _due(tx: Tx, task_id: bytes, order: JobOrder, buckets: Sequence[int], times: Sequence[int]) -> bool:
    """Whether fewer reports than a job holds go now: by their age, or asked for.

    A report that came after `now` was read is young; one that is further ahead came before a clock was set back.
    """
    if any(abs(order.now_us - at) >= order.patience_us for at in times):
        return True
    if order.filling is not None:
        return False  # whoever asks for a batch has no use for what makes none ready
    sql = f"SELECT 1 FROM collections WHERE task = ? AND {LIVE} AND state = 'pending' AND start <= ? AND stop > ?"
    return tx.execute(sql, (task_id, max(buckets), min(buckets))).fetchone() is not None


def _end_job(tx: Tx, task_id: bytes, token: bytes, state: str, also: str = "") -> EndedJob | None:
    """End the job that is under this lease."""
    sql = (
        "UPDATE jobs SET state = ?, token = ?, request = ?, kept = ?"
        f" WHERE task = ? AND token = ? AND {OPEN} {also} RETURNING id, members, batch"
    )
    row = tx.execute(sql, (state, b"", b"", b"", task_id, token)).fetchone()
    return None if row is None else EndedJob(as_bytes(row[0]), unpacked(as_bytes(row[1])), as_bytes(row[2]))
