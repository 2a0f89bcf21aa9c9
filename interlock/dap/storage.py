"""What leader and helper ask of a store: each method that changes something is one transaction, whole or not at all.

A method returns only once its change is durable; whoever was answered may then be killed. Conditions are part of the
write: two workers, or one and its ghost after a restart, never both make the same change.

    a report       waiting -> taken -> aggregated | rejected        (abandoned jobs reject theirs)
    a job          gathered -> begun -> done | abandoned;  gathered -> abandoned, where no report of it is left
                   reports that the helper found too early go on into a begun job of their own
    a collection   pending -> frozen -> ready | failed;  pending -> failed -> pending (a batch that was too small)
    a batch        open -> collected;  collected -> open only where the helper refused it
    a repair       none -> asked -> done, of a frozen collection, once a batch

A batch is a run of time buckets, or in leader_selected what the leader filled under one batch id: jobs are gathered for
the eldest batch that lacks reports, and one that drops out leaves its place to another. A batch is collected once, when
it is full, or has waited long enough and holds the least that it needs. From then on it takes no report any more.

Any number of workers move jobs on. Each works under a lease: a token of its own and a time when others may take the
job over. Whoever lost its lease changes nothing any more, so a dead worker's job goes on and its ghost commits nothing.

What is committed stands as one row a (bucket, job) until the batch is released, so no two workers ever write the same
row, and whole jobs can be told apart until then. Released shares are forgotten.

What can be forgotten is decided by one number a task, the horizon, that only rises: reports of buckets below it are
turned down, so their ids, and answers about them alone, need not be known any more. No clock is asked.

Callables that are passed in run inside the transaction: they fold shares or build the answer from what was found,
and what they raise rolls it back.
"""

from __future__ import annotations

import enum
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol

from interlock.dap.batches import Batch, OutShare, Selection
from interlock.dap.drafts import ReportError
from interlock.dap.fates import Fate
from interlock.dap.messages import Interval
from interlock.dap.repair import JobPart, Repair

__all__ = [
    "LONGEST",
    "NOTHING",
    "NO_STATES",
    "Accepted",
    "CollectionJob",
    "CollectionState",
    "Filling",
    "Fold",
    "HelperStorage",
    "JobOrder",
    "KnownReport",
    "LaterJob",
    "LeaderStorage",
    "Lease",
    "LeasedJob",
    "NewReport",
    "RepairedStorage",
    "ReportStates",
    "States",
    "SweptStorage",
]

LONGEST: Final = 5  # how often a lease is doubled
NOTHING: Final[Mapping[bytes, ReportError]] = MappingProxyType({})
States = Mapping[bytes, tuple[int, bytes]]  # what a job keeps of its reports: id -> bucket, VDAF state
NO_STATES: Final[States] = MappingProxyType({})
Fold = Callable[[Sequence[bytes]], bytes]  # output shares of one bucket, or aggregate shares -> one aggregate share


class Accepted(enum.Enum):
    """What became of an uploaded report."""

    STORED = "stored"
    SAME = "same"  # these very bytes were stored before: a retry
    REPLAYED = "replayed"  # another report has this id
    COLLECTED = "collected"  # its batch is closed
    SECOND = "second"  # this member has another report in this bucket
    PAST = "past"  # its bucket lies below the task's horizon


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

    @functools.cached_property
    def digest(self) -> bytes:
        """SHA-256 of the encoding, by which a retry is known."""
        return hashlib.sha256(self.body).digest()


@dataclass(frozen=True)
class KnownReport:
    """What became of a report, and the member that sent it, where one is known."""

    fate: Fate
    member: str | None


@dataclass(frozen=True)
class Filling:
    """How the leader fills the batches that it selects: each up to `size` reports.

    One that was begun `wait_us` ago waits no longer: it is done with `least` reports. A beginning that lies further
    ahead than that was written by a clock that was set back since, and is long ago, too.
    """

    size: int
    least: int
    now_us: int
    wait_us: int

    @property
    def begun_by(self) -> int:
        """Whoever was begun at this time or before has waited long enough."""
        return self.now_us - self.wait_us

    @property
    def ahead(self) -> int:
        """So has whoever was begun after this one."""
        return self.now_us + self.wait_us


@dataclass(frozen=True)
class JobOrder:
    """How waiting reports become a job: up to `size` of them, of times up to `not_after`, the oldest first.

    Fewer than `size` wait for more until one of them waits `patience_us`, or a collection waits for them. Where the
    leader selects batches, they are for the eldest that lacks some, or else for `new_batch`, and what makes a batch
    ready waits for nothing.
    """

    size: int
    not_after: int
    now_us: int
    patience_us: int = 0
    filling: Filling | None = None  # where the leader selects batches
    new_batch: bytes = b""  # its id; empty in time_interval


@dataclass(frozen=True)
class Lease:
    """The right to move one job on: `token` is new for each lease, `owner` is who holds it, for `length_us`."""

    token: bytes
    owner: str
    length_us: int

    def until(self, now_us: int, attempts: int) -> int:
        """When it ends; each lease on the job that ran out before makes it twice as long, up to 32 times."""
        return now_us + (self.length_us << min(attempts, LONGEST))


@dataclass(frozen=True)
class LeasedJob:
    """A job under a lease. Gathered: `bodies` are its reports. Begun: the exact request, and of each report its state.

    A job that was begun and not put off since has its bodies, and no states yet: they follow from the bodies.
    """

    bodies: tuple[bytes, ...] = field(default=(), repr=False)
    job_id: bytes = b""
    request: bytes = field(default=b"", repr=False)
    states: States = field(default_factory=dict, repr=False)
    batch: bytes = b""  # the id of the batch that it is for, where the leader selects batches


@dataclass(frozen=True)
class LaterJob:
    """A begun job that is made of reports of another one, which the helper found too early; not before `not_before`."""

    job_id: bytes
    request: bytes = field(repr=False)
    states: States = field(repr=False)
    not_before: int  # microseconds


@dataclass(frozen=True)
class CollectionJob:
    """A collection job; `share_request` once frozen, `answer` once ready, `problem` and `detail` once failed.

    `selection` is None until the leader has selected its batch.
    """

    job_id: bytes
    request: bytes = field(repr=False)
    selection: Selection | None
    state: CollectionState
    share_request: bytes = field(default=b"", repr=False)
    answer: bytes = field(default=b"", repr=False)
    problem: str = ""
    detail: str = ""
    repair_request: bytes = field(default=b"", repr=False)  # once a repair of its batch is asked for
    repaired: bool = False


@dataclass(frozen=True)
class ReportStates:
    """How many reports of a task stand in each state; for status and tests."""

    waiting: int = 0
    taken: int = 0
    aggregated: int = 0
    rejected: int = 0


class SweptStorage(Protocol):
    """What forgetting asks of either store."""

    def newest(self, task_id: bytes) -> int | None:
        """The latest bucket of any report whose end is known."""

    def sweep(self, task_id: bytes, horizon: int, limit: int) -> int:
        """Raise the horizon, and forget up to `limit` rows of each kind that lie below it; returns how many went.

        Nothing goes that is waiting or under way, or that an uncollected batch is made of. A horizon never sinks.
        """


class RepairedStorage(Protocol):
    """What whoever looks at repairs asks of either store."""

    def repairs(self, task_id: bytes) -> list[Repair]:
        """What was left out of batches of a task, in the order of their times."""


class HelperStorage(SweptStorage, RepairedStorage, Protocol):
    """The helper's store."""

    def answer(self, task_id: bytes, kind: str, resource_id: bytes) -> bytes | None:
        """What was answered when the resource was made."""

    def forget_answer(self, task_id: bytes, kind: str, resource_id: bytes, answer: bytes) -> None:
        """Let the same request make a resource anew whose answer is this one, which committed nothing."""

    def commit_job(
        self,
        task_id: bytes,
        job_id: bytes,
        newest: int,
        outs: Sequence[OutShare],
        fold: Fold,
        respond: Callable[[Mapping[bytes, ReportError]], bytes],
    ) -> bytes:
        """Commit the output shares that may be (4.5.8), and store the answer that `respond` makes of the refused ones.

        `newest` is the latest bucket of any of the job's reports. Where the job was made before, nothing is committed
        and its stored answer is returned.
        """

    def collect(
        self, task_id: bytes, share_id: bytes, selection: Selection, merge: Fold, respond: Callable[[Batch], bytes]
    ) -> bytes:
        """Close a batch, store the answer and forget the shares; the same share id again gets the stored answer.

        Raises: DapProblem, batchOverlap where any of it was collected, or what `respond` raises.
        """

    def repair(
        self,
        task_id: bytes,
        repair_id: bytes,
        selection: Selection,
        judge: Callable[[tuple[JobPart, ...]], tuple[bytes, Repair]],
    ) -> bytes:
        """Drop what `judge` leaves out of a batch, and store its answer; the same id again gets the stored answer.

        Raises: DapProblem, batchOverlap where any of it was collected, batchMismatch where any of it was repaired, or
        what `judge` raises; nothing is changed then.
        """

    def batch(self, task_id: bytes, selection: Selection, merge: Fold) -> Batch:
        """All that was committed to a batch."""


class LeaderStorage(SweptStorage, RepairedStorage, Protocol):
    """The leader's store."""

    def add_reports(self, task_id: bytes, reports: Sequence[NewReport], now_us: int) -> list[Accepted]: ...

    def fates(self, task_id: bytes, report_ids: Sequence[bytes]) -> dict[bytes, KnownReport]:
        """What became of reports; of one that is not known, or not any more, nothing."""

    def horizon(self, task_id: bytes) -> int:
        """The bucket below which no report is taken, and what was taken may be forgotten."""

    def waiting_reports(self, task_id: bytes, limit: int) -> list[bytes]:
        """Encoded reports that are in no job yet, oldest first; for tests and for whoever looks."""

    def gather(self, task_id: bytes, order: JobOrder) -> bool:
        """Put waiting reports into one new job; False where that has to wait."""

    def lease_job(self, task_id: bytes, lease: Lease, now_us: int) -> LeasedJob | None:
        """Take the oldest job that nobody works on.

        A lease that ends later than any lease can was taken by a clock that ran ahead, and holds no longer.
        """

    def free_jobs(self, owner: str) -> None:
        """Give back what an owner leased before; for one that starts again under its own name."""

    def release_job(self, task_id: bytes, token: bytes, again_us: int, states: States = NO_STATES) -> None:
        """Give a leased job back, to be taken again from `again_us` on; with `states`, in place of its bodies.

        So a job that waits long for its helper needs no key that its reports are sealed to.
        """

    def begin_job(
        self,
        task_id: bytes,
        lease: Lease,
        job_id: bytes,
        request: bytes,
        rejected: Mapping[bytes, ReportError],
        now_us: int,
    ) -> bool:
        """Store a gathered job's request, and turn reports down; with no report left in a request, the job is over.

        The lease begins anew. False, and nothing changed, where it was lost.
        """

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
        """Commit a begun job's output shares, and turn reports down; False where the job is not ours any more.

        With `later`, its reports go on into that job, which is of the same batch.
        """

    def abandon_job(self, task_id: bytes, token: bytes, error: ReportError) -> bool: ...

    def open_collection(self, task_id: bytes, job_id: bytes, request: bytes, interval: Interval) -> CollectionJob:
        """Make a collection job or find it; one that failed for want of reports, or of a mismatch, is opened again.

        Raises: DapProblem, batchOverlap with another job that has not failed, or with a closed interval.
        """

    def open_next(self, task_id: bytes, request: bytes, name: Callable[[int], bytes]) -> CollectionJob:
        """Find the collection job of a request for the next batch, or make one; a failed one is not found.

        `name` makes its id of a number that no other job ever had: the same bytes are a new job once the last is over,
        and a late word about that one has to miss this one.
        """

    def forget_collection(self, task_id: bytes, job_id: bytes) -> bool:
        """Forget a ready job, so that its bytes ask for the next batch; its own stays closed."""

    def collection(self, task_id: bytes, job_id: bytes) -> CollectionJob | None: ...

    def open_collections(self, task_id: bytes, limit: int) -> list[CollectionJob]:
        """Those that are pending or frozen, oldest first."""

    def freeze(
        self,
        task_id: bytes,
        job_id: bytes,
        ready: Callable[[Batch, Selection], bytes],
        filling: Filling | None = None,
    ) -> bytes | None:
        """Close a pending job's batch and store the share request that `ready` makes of the batch, but its share.

        None, and nothing changed, while a report of the interval waits or is taken; or while no batch is ready by
        `filling`, where the leader selects. Raises: what `ready` raises.
        """

    def batch(self, task_id: bytes, selection: Selection, merge: Fold) -> Batch:
        """All that was committed to a batch."""

    def finish_collection(self, task_id: bytes, job_id: bytes, answer: bytes) -> bool:
        """Store a frozen job's answer, and forget the shares of its batch."""

    def fail_collection(
        self,
        task_id: bytes,
        job_id: bytes,
        state: CollectionState,
        problem: str,
        detail: str,
        more: Filling | None = None,
    ) -> bool:
        """Fail a job that is still in this state; a frozen batch is opened again, and tried after all others.

        With `more`, one that the leader selected fills on by as many as a batch needs, unless it was repaired: what
        the helper holds of it is too little now, and will not be then.
        """

    def begin_repair(self, task_id: bytes, job_id: bytes, ask: Callable[[tuple[JobPart, ...]], bytes]) -> bool:
        """Store the repair request that `ask` makes of a frozen job's batch; False where another did, or it is over.

        Raises: DapProblem, batchMismatch, where any of the batch was repaired before.
        """

    def finish_repair(
        self, task_id: bytes, job_id: bytes, judge: Callable[[tuple[JobPart, ...]], tuple[bytes, Repair]]
    ) -> bool:
        """Drop what `judge` leaves out of a frozen job's batch, turn its reports down, store the new share request.

        False, and nothing changed, where that is done. Raises: what `judge` raises.
        """

    def states(self, task_id: bytes) -> ReportStates: ...
