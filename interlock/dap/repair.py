"""Repair of a batch of which leader and helper do not hold the same: what both hold alike stays, the rest is left out.

An extension of ours, beside DAP, which finds a mismatch and leaves it at that. The unit is what one aggregation job
committed to the batch: it stays where both hold it with the same count and checksum, and else both drop it.

    leader  --RepairReq-->   its parts of the batch, said before it knows the helper's
    helper  --RepairResp-->  its parts as they were; it has dropped what does not agree, and both can tell what that is

Legal only before any aggregate share of the batch was released, once a batch, where something differs and where what
remains is enough reports for a batch. Ids that are dropped stay spent, nothing is verified twice, and a repaired batch
takes no report any more. Each side writes down what it dropped, when and whom it agreed with.
Pure: each side calls `agreed` inside its own transaction, over what stands in its store then.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from interlock.base.codec import Malformed, Reader, Writer
from interlock.dap.batches import Selection
from interlock.dap.jobs import CHECKSUM_SIZE, BatchSelector, CollectionJobReq
from interlock.dap.messages import Message, write_all
from interlock.dap.problems import DapProblem, ProblemType
from interlock.dap.task import Task

__all__ = ["REPAIR", "REPAIRS", "Agreement", "JobPart", "Repair", "RepairReq", "RepairResp", "agreed", "too_few"]

REPAIR: Final = "repair"
REPAIRS: Final = ("interlock", "repairs")  # where the helper takes them, below the task
JOB_ID_SIZE: Final = 16
PARTS_MOST: Final = 200_000  # jobs of a batch; 56 bytes each
_VERSION: Final = 1  # of these two messages
_COUNT_MOST: Final = (1 << 63) - 1


@dataclass(frozen=True)
class JobPart(Message):
    """What one aggregation job committed to a batch: how many reports, and the XOR of the hashes of their ids."""

    job_id: bytes
    count: int
    checksum: bytes

    def write(self, w: Writer) -> None:
        w.fixed(self.job_id, JOB_ID_SIZE).u64(self.count).fixed(self.checksum, CHECKSUM_SIZE)

    @classmethod
    def read(cls, r: Reader) -> Self:
        part = cls(r.take(JOB_ID_SIZE), r.u64(), r.take(CHECKSUM_SIZE))
        if not 1 <= part.count <= _COUNT_MOST:
            raise Malformed(f"an aggregation job committed {part.count} reports to the batch")
        return part


@dataclass(frozen=True)
class RepairReq(Message):
    """The leader's request to repair a batch, with all that it committed to it."""

    job: CollectionJobReq
    selector: BatchSelector
    parts: tuple[JobPart, ...]

    def write(self, w: Writer) -> None:
        w.u8(_VERSION)
        write_all(w, (self.job, self.selector, *self.parts))

    @classmethod
    def read(cls, r: Reader) -> Self:
        _demand_version(r)
        return cls(CollectionJobReq.read(r), BatchSelector.read(r), _parts(r))


@dataclass(frozen=True)
class RepairResp(Message):
    """All that the helper had committed to the batch before it was repaired."""

    parts: tuple[JobPart, ...]

    def write(self, w: Writer) -> None:
        w.u8(_VERSION)
        write_all(w, self.parts)

    @classmethod
    def read(cls, r: Reader) -> Self:
        _demand_version(r)
        return cls(_parts(r))


@dataclass(frozen=True)
class Agreement:
    """What both sides hold alike, and what only one of them does, or otherwise."""

    kept: tuple[JobPart, ...]
    of_leader: tuple[JobPart, ...]
    of_helper: tuple[JobPart, ...]

    @property
    def count(self) -> int:
        return sum(part.count for part in self.kept)


@dataclass(frozen=True)
class Repair:
    """One side's record: what it dropped of a batch, what the other side had to, and how many reports remain."""

    selection: Selection
    at_us: int
    who: str  # the other side
    kept: int
    ours: tuple[JobPart, ...] = field(repr=False)
    theirs: tuple[JobPart, ...] = field(repr=False)

    @property
    def text(self) -> str:
        """What became of the batch, in one phrase."""
        ours, theirs = (sum(part.count for part in parts) for parts in (self.ours, self.theirs))
        return (
            f"{self.kept} reports remain; left out: {ours} here, of {len(self.ours)} jobs, "
            f"and {theirs} at the other side, of {len(self.theirs)}"
        )


def agreed(task: Task, leader: Sequence[JobPart], helper: Sequence[JobPart]) -> Agreement:
    """What is left of a batch of both sides' parts.

    Raises: DapProblem, invalidMessage where they hold the same, invalidBatchSize where too little would remain.
    """
    both = frozenset(leader) & frozenset(helper)
    found = Agreement(*(tuple(parts) for parts in (_in(leader, both), _out(leader, both), _out(helper, both))))
    if not found.of_leader and not found.of_helper:
        raise DapProblem(
            ProblemType.INVALID_MESSAGE, "both hold the same of the batch, which needs no repair", task_id=task.task_id
        )
    if found.count < task.config.min_batch_size:
        raise too_few(task)
    return found


def too_few(task: Task) -> DapProblem:
    """The refusal of a repair that would leave less than a batch."""
    told = f"leader and helper hold fewer than {task.config.min_batch_size} reports of the batch alike"
    return DapProblem(ProblemType.INVALID_BATCH_SIZE, told, task_id=task.task_id)


def _in(parts: Iterable[JobPart], both: frozenset[JobPart]) -> Iterable[JobPart]:
    return (part for part in parts if part in both)


def _out(parts: Iterable[JobPart], both: frozenset[JobPart]) -> Iterable[JobPart]:
    return (part for part in parts if part not in both)


def _demand_version(r: Reader) -> None:
    version = r.u8()
    if version != _VERSION:
        raise Malformed(f"repair of version {version} is not known here", fix="upgrade interlock")


def _parts(r: Reader) -> tuple[JobPart, ...]:
    """Jobs in increasing order of their ids, so that a batch has one spelling."""
    parts = r.many(JobPart.read, most=PARTS_MOST)
    if any(a.job_id >= b.job_id for a, b in itertools.pairwise(parts)):
        raise Malformed("aggregation jobs are not in increasing order of their ids")
    return tuple(parts)
