"""What leader and helper ask of a store: each method that changes something is one transaction, whole or not at all.

A method returns only once its change is durable; whoever was answered may then be killed. Conditions are part of the
write: two workers, or one and its ghost after a restart, never both make the same change.

    a report       waiting -> taken -> aggregated | rejected        (abandoned jobs reject theirs)
    a job          pending -> done | abandoned
    a collection   pending -> frozen -> ready | failed;  pending -> failed -> pending (a batch that was too small)
    an interval    open -> collected;  collected -> open only where the helper refused the batch

Callables that are passed in run inside the transaction: they fold shares or build the answer from what was found,
and what they raise rolls it back.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from interlock.dap.batches import Batch, OutShare
from interlock.dap.drafts import ReportError
from interlock.dap.messages import Interval

__all__ = [
    "Accepted",
    "CollectionJob",
    "CollectionState",
    "Fold",
    "HelperStorage",
    "LeaderStorage",
    "NewReport",
    "PendingJob",
    "ReportStates",
]

Fold = Callable[[Sequence[bytes]], bytes]  # output shares of one bucket -> one aggregate share


class Accepted(enum.Enum):
    """What became of an uploaded report."""

    STORED = "stored"
    SAME = "same"  # these very bytes were stored before: a retry
    REPLAYED = "replayed"  # another report has this id
    COLLECTED = "collected"  # its batch is closed
    SECOND = "second"  # this member has another report in this bucket


class CollectionState(enum.Enum):
    """Where a collection job stands."""

    PENDING = "pending"
    FROZEN = "frozen"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True)
class NewReport:
    """A report to store: its id, time and whole encoding, and the member that sent it, where one is known."""

    report_id: bytes
    time: int
    body: bytes = field(repr=False)
    member: str | None = None


@dataclass(frozen=True)
class PendingJob:
    """An aggregation job whose answer the leader has not got: the exact request, and what it kept for each report."""

    job_id: bytes
    request: bytes = field(repr=False)
    states: Mapping[bytes, tuple[int, bytes]] = field(repr=False)  # report id -> bucket, VDAF state; in job order


@dataclass(frozen=True)
class CollectionJob:
    """A collection job; `share_request` once frozen, `answer` once ready, `problem` and `detail` once failed."""

    job_id: bytes
    request: bytes = field(repr=False)
    interval: Interval
    state: CollectionState
    share_request: bytes = field(default=b"", repr=False)
    answer: bytes = field(default=b"", repr=False)
    problem: str = ""
    detail: str = ""


@dataclass(frozen=True)
class ReportStates:
    """How many reports of a task stand in each state; for status and tests."""

    waiting: int = 0
    taken: int = 0
    aggregated: int = 0
    rejected: int = 0


class HelperStorage(Protocol):
    """The helper's store."""

    def answer(self, task_id: bytes, kind: str, resource_id: bytes) -> bytes | None:
        """What was answered when the resource was made."""

    def commit_job(
        self,
        task_id: bytes,
        job_id: bytes,
        outs: Sequence[OutShare],
        fold: Fold,
        respond: Callable[[Mapping[bytes, ReportError]], bytes],
    ) -> bytes:
        """Commit the output shares that may be (4.5.8), and store the answer that `respond` makes of the refused ones.

        Where the job was made before, nothing is committed and its stored answer is returned.
        """

    def collect(self, task_id: bytes, share_id: bytes, interval: Interval, respond: Callable[[Batch], bytes]) -> bytes:
        """Close an interval and store the answer; the same share id again gets the stored answer.

        Raises: DapProblem, batchOverlap where any of it was collected, or what `respond` raises.
        """


class LeaderStorage(Protocol):
    """The leader's store."""

    def add_reports(self, task_id: bytes, reports: Sequence[NewReport]) -> list[Accepted]: ...

    def waiting_reports(self, task_id: bytes, limit: int, not_after: int) -> list[bytes]:
        """Encoded reports that are in no job yet, oldest first, of times up to `not_after`."""

    def create_job(
        self,
        task_id: bytes,
        job_id: bytes,
        request: bytes,
        states: Mapping[bytes, bytes],
        rejected: Mapping[bytes, ReportError],
    ) -> bool:
        """Take reports into a job, and turn others down; no job is made of no state.

        False, and nothing changed, where any of the reports is no longer waiting.
        """

    def pending_jobs(self, task_id: bytes, limit: int) -> list[PendingJob]: ...

    def finish_job(
        self,
        task_id: bytes,
        job_id: bytes,
        outs: Sequence[OutShare],
        rejected: Mapping[bytes, ReportError],
        fold: Fold,
    ) -> bool:
        """Commit a job's output shares; False where it is not pending any more."""

    def abandon_job(self, task_id: bytes, job_id: bytes, error: ReportError) -> bool: ...

    def open_collection(self, task_id: bytes, job_id: bytes, request: bytes, interval: Interval) -> CollectionJob:
        """Make a collection job or find it; one that failed for want of reports is opened again.

        Raises: DapProblem, batchOverlap with another job that has not failed, or with a closed interval.
        """

    def collection(self, task_id: bytes, job_id: bytes) -> CollectionJob | None: ...

    def open_collections(self, task_id: bytes, limit: int) -> list[CollectionJob]:
        """Those that are pending or frozen, oldest first."""

    def freeze(self, task_id: bytes, job_id: bytes, ready: Callable[[Batch], bytes]) -> bytes | None:
        """Close a pending job's interval and store the share request that `ready` makes of the batch.

        None, and nothing changed, while a report of the interval waits or is taken. Raises: what `ready` raises.
        """

    def batch(self, task_id: bytes, interval: Interval) -> Batch: ...

    def finish_collection(self, task_id: bytes, job_id: bytes, answer: bytes) -> bool:
        """Store a frozen job's answer, and forget the bodies of the batch's reports."""

    def fail_collection(self, task_id: bytes, job_id: bytes, problem: str, detail: str) -> bool:
        """Fail a job that is not ready; a frozen interval is opened again."""

    def states(self, task_id: bytes) -> ReportStates: ...
