"""Batches of both modes: what they are made of, queries, counts and checksums. Pure arithmetic.

A report's bucket is its time, a whole number of time precisions. In the mode time_interval a batch is a run of buckets.
In leader_selected it is what the leader gathered under one batch id, whatever times that has; there the draft calls the
batch id the bucket, and here a bucket is a time in both modes.

What an aggregator holds of a batch is a partial aggregate share a job and bucket with its count and checksum, which add
up (counts), XOR (checksums) and merge (shares) when the batch is read.
Source: draft-ietf-ppm-dap-18, sections 4.5.8, 5.1 and 5.2.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from interlock.base.codec import Malformed
from interlock.dap.jobs import CHECKSUM_SIZE, BatchSelector, CollectionJobReq, Query
from interlock.dap.messages import (
    LEADER_SELECTED,
    LEADER_SELECTED_BATCH_ID,
    TIME_INTERVAL,
    BatchId,
    Extension,
    Interval,
)
from interlock.dap.problems import DapProblem, ProblemType
from interlock.dap.task import TIME_MOST, Task, in_order

__all__ = [
    "EMPTY_CHECKSUM",
    "Batch",
    "OutShare",
    "Selection",
    "buckets_in",
    "check_collection",
    "check_job_extensions",
    "check_size",
    "checksum_of",
    "checksum_sum",
    "job_extensions",
    "query_for",
    "selected",
    "selector_for",
    "xor",
]

EMPTY_CHECKSUM: Final = bytes(CHECKSUM_SIZE)
_M = TypeVar("_M", Interval, BatchId)
Selection = Interval | BatchId  # one batch: a run of buckets, or what the leader selected


@dataclass(frozen=True)
class OutShare:
    """A verified report's output share, its bucket, and the id of its batch; that is empty in time_interval."""

    report_id: bytes
    bucket: int
    share: bytes = field(repr=False)
    batch: bytes = b""


@dataclass(frozen=True)
class Batch:
    """What an aggregator has committed to a batch; `first` and `last` are the buckets that hold a report.

    `share` is the merged aggregate share, or empty where only the rest was asked for.
    """

    share: bytes = field(repr=False)
    count: int
    checksum: bytes
    first: int = 0
    last: int = 0

    @property
    def interval(self) -> Interval:
        """The smallest interval that holds all its reports."""
        return Interval(self.first, self.last - self.first + 1)


def xor(a: bytes, b: bytes) -> bytes:
    """Raises: ValueError, for bytes of different lengths."""
    if len(a) != len(b):
        raise ValueError("bytes of different lengths have no XOR")
    return (int.from_bytes(a, "big") ^ int.from_bytes(b, "big")).to_bytes(len(a), "big")


def checksum_of(report_ids: Iterable[bytes]) -> bytes:
    """XOR of the SHA-256 of each report id; 32 zero bytes for none."""
    return checksum_sum(hashlib.sha256(report_id).digest() for report_id in report_ids)


def checksum_sum(checksums: Iterable[bytes]) -> bytes:
    """The checksum of what these are the checksums of."""
    return functools.reduce(xor, checksums, EMPTY_CHECKSUM)


def query_for(interval: Interval | None) -> Query:
    """What a collector asks for: an interval, or None for the next batch of the leader's."""
    if interval is None:
        return Query(LEADER_SELECTED, b"")
    return Query(TIME_INTERVAL, interval.encode())


def selector_for(selection: Selection) -> BatchSelector:
    return BatchSelector(LEADER_SELECTED if isinstance(selection, BatchId) else TIME_INTERVAL, selection.encode())


def buckets_in(selection: Selection) -> int:
    """For how many reports of one sender a batch is charged: one a bucket, and one where the leader selects."""
    return 1 if isinstance(selection, BatchId) else selection.duration


def selected(task: Task, job: CollectionJobReq, selector: BatchSelector) -> Selection:
    """The batch that a leader asks the helper for, which has to be one of the collector's query (5.1.2, 5.2.3).

    Raises: DapProblem.
    """
    asked = check_collection(task, job)
    _demand_mode(task, selector)
    if asked is None:
        return _decoded(task, BatchId, selector.config)
    interval = _interval(task, selector)
    if interval.start < asked.start or interval.end > asked.end:
        raise DapProblem(
            ProblemType.BATCH_INVALID, "the selector reaches outside of the collector's query", task_id=task.task_id
        )
    return interval


def check_collection(task: Task, request: CollectionJobReq) -> Interval | None:
    """What leader and helper both check of a collector's request (4.6.1).

    Returns the interval that it asks for; None where it asks for the next batch that the leader selects.
    Raises: DapProblem, invalidMessage for another batch mode, batchInvalid for an interval that holds no bucket.
    """
    _demand_mode(task, request.query)
    interval = None if task.leader_selected else _interval(task, request.query)
    if interval is None and request.query.config:
        raise DapProblem(ProblemType.INVALID_MESSAGE, "a query for the next batch says no more", task_id=task.task_id)
    if request.agg_param:
        raise DapProblem(
            ProblemType.INVALID_AGGREGATION_PARAMETER,
            "Prio3 has one aggregation parameter, the empty one",
            task_id=task.task_id,
        )
    _check_extensions(task, request.extensions, ProblemType.INVALID_EXTENSION, known=())
    return interval


def job_extensions(batch: bytes) -> tuple[Extension, ...]:
    """The extensions of an aggregation job: its batch id, where the leader selects batches (5.2.2)."""
    return (Extension(LEADER_SELECTED_BATCH_ID, batch),) if batch else ()


def check_job_extensions(task: Task, extensions: tuple[Extension, ...]) -> bytes:
    """The batch id that an aggregation job is for; empty in time_interval, which knows no extension.

    Raises: DapProblem.
    """
    known = (LEADER_SELECTED_BATCH_ID,) if task.leader_selected else ()
    _check_extensions(task, extensions, ProblemType.INVALID_MESSAGE, known)
    if not task.leader_selected:
        return b""
    if not extensions:
        raise DapProblem(ProblemType.INVALID_MESSAGE, "the job names no batch", task_id=task.task_id)
    return _decoded(task, BatchId, extensions[0].data).id


def _demand_mode(task: Task, query: Query) -> None:
    if query.batch_mode != task.config.batch_mode:
        raise DapProblem(
            ProblemType.INVALID_MESSAGE, f"the task is not of batch mode {query.batch_mode}", task_id=task.task_id
        )


def _interval(task: Task, query: Query) -> Interval:
    """The run of buckets that a query or selector names. Raises: DapProblem."""
    interval = _decoded(task, Interval, query.config)
    if interval.duration < 1 or interval.end > TIME_MOST:
        raise DapProblem(ProblemType.BATCH_INVALID, "the interval holds no whole bucket", task_id=task.task_id)
    return interval


def _decoded(task: Task, kind: type[_M], data: bytes) -> _M:
    """Raises: DapProblem, invalidMessage."""
    try:
        return kind.decode(data)
    except Malformed as e:
        raise DapProblem(ProblemType.INVALID_MESSAGE, e.what, task_id=task.task_id) from None


def _check_extensions(
    task: Task, extensions: tuple[Extension, ...], disorder: ProblemType, known: tuple[int, ...]
) -> None:
    """Each extension of an aggregation or collection job has to be known. Raises: DapProblem."""
    if not in_order(extensions):
        raise DapProblem(disorder, "extensions are not in increasing order", task_id=task.task_id)
    unknown = [e.kind for e in extensions if e.kind not in known]
    if unknown:
        raise DapProblem(
            ProblemType.UNSUPPORTED_EXTENSION,
            f"extension {unknown[0]} is not known here",
            task_id=task.task_id,
            extra={"unsupported_extensions": unknown},
        )


def check_size(task: Task, batch: Batch) -> None:
    """Raises: DapProblem, for a batch with fewer reports than the task allows."""
    if batch.count < task.config.min_batch_size:
        raise DapProblem(
            ProblemType.INVALID_BATCH_SIZE,
            f"the batch has fewer than {task.config.min_batch_size} valid reports",
            task_id=task.task_id,
        )
