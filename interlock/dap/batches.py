"""Batches of the time_interval mode: buckets, queries, counts and checksums. Pure arithmetic.

A report's bucket is its time (a whole number of time precisions), and a batch is a run of buckets. What an aggregator
holds of a batch is a partial aggregate share a job and bucket with its count and checksum, which add up (counts),
XOR (checksums) and merge (shares) when the batch is read. Source: draft-ietf-ppm-dap-18, sections 4.5.8 and 5.1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from interlock.base.codec import Malformed
from interlock.dap.jobs import CHECKSUM_SIZE, BatchSelector, CollectionJobReq, Query
from interlock.dap.messages import TIME_INTERVAL, Extension, Interval
from interlock.dap.problems import DapProblem, ProblemType
from interlock.dap.task import TIME_MOST, Task, in_order

__all__ = [
    "EMPTY_CHECKSUM",
    "Batch",
    "OutShare",
    "batch_interval",
    "check_collection",
    "check_extensions",
    "check_size",
    "checksum_of",
    "query_for",
    "selector_for",
    "xor",
]

EMPTY_CHECKSUM = bytes(CHECKSUM_SIZE)


@dataclass(frozen=True)
class OutShare:
    """A verified report's output share, and the bucket it goes into."""

    report_id: bytes
    bucket: int
    share: bytes = field(repr=False)


@dataclass(frozen=True)
class Batch:
    """What an aggregator has committed to a run of buckets; `first` and `last` are the buckets that hold a report.

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
    return bytes(x ^ y for x, y in zip(a, b, strict=True))


def checksum_of(report_ids: Iterable[bytes]) -> bytes:
    """XOR of the SHA-256 of each report id; 32 zero bytes for none."""
    checksum = EMPTY_CHECKSUM
    for report_id in report_ids:
        checksum = xor(checksum, hashlib.sha256(report_id).digest())
    return checksum


def query_for(interval: Interval) -> Query:
    return Query(TIME_INTERVAL, interval.encode())


def selector_for(interval: Interval) -> BatchSelector:
    return BatchSelector(TIME_INTERVAL, interval.encode())


def batch_interval(task: Task, query: Query) -> Interval:
    """The run of buckets that a query or selector names.

    Raises: DapProblem, invalidMessage for another batch mode, batchInvalid for a run that is none.
    """
    if query.batch_mode != task.config.batch_mode:
        raise DapProblem(
            ProblemType.INVALID_MESSAGE, f"the task is not of batch mode {query.batch_mode}", task_id=task.task_id
        )
    try:
        interval = Interval.decode(query.config)
    except Malformed as e:
        raise DapProblem(ProblemType.INVALID_MESSAGE, e.what, task_id=task.task_id) from None
    if interval.duration < 1 or interval.end > TIME_MOST:
        raise DapProblem(ProblemType.BATCH_INVALID, "the interval holds no whole bucket", task_id=task.task_id)
    return interval


def check_collection(task: Task, request: CollectionJobReq) -> Interval:
    """What leader and helper both check of a collector's request (4.6.1); returns the interval it asks for.

    Raises: DapProblem.
    """
    interval = batch_interval(task, request.query)
    if request.agg_param:
        raise DapProblem(
            ProblemType.INVALID_AGGREGATION_PARAMETER,
            "Prio3 has one aggregation parameter, the empty one",
            task_id=task.task_id,
        )
    check_extensions(task, request.extensions, ProblemType.INVALID_EXTENSION)
    return interval


def check_extensions(task: Task, extensions: tuple[Extension, ...], disorder: ProblemType) -> None:
    """No extension of an aggregation or collection job is known in this batch mode. Raises: DapProblem."""
    if not in_order(extensions):
        raise DapProblem(disorder, "extensions are not in increasing order", task_id=task.task_id)
    if extensions:
        raise DapProblem(
            ProblemType.UNSUPPORTED_EXTENSION,
            f"extension {extensions[0].kind} is not known here",
            task_id=task.task_id,
            extra={"unsupported_extensions": [e.kind for e in extensions]},
        )


def check_size(task: Task, batch: Batch) -> None:
    """Raises: DapProblem, for a batch with fewer reports than the task allows."""
    if batch.count < task.config.min_batch_size:
        raise DapProblem(
            ProblemType.INVALID_BATCH_SIZE,
            f"the batch has fewer than {task.config.min_batch_size} valid reports",
            task_id=task.task_id,
        )
