"""The collector: asks the leader for one batch, opens both aggregate shares and adds them up.

    collector = Collector(task, key, vdaf, exchange)
    found = collector.ask(interval)             # Collected, or Pending where the leader is not ready
    found = collector.poll(found)               # again, after found.retry_after seconds

The same interval asked again is the same job, so that asking is safe to repeat after a crash. Where the leader selects
batches, the next one is asked for, and is the same until it is taken:

    found = collector.ask_next()
    keep what it says for good, then collector.taken(found.place); the next question is about another batch

A question that cannot be answered, of a batch that never fills, is taken back with `give_up`.
Source: draft-ietf-ppm-dap-18, sections 4.6.1, 4.6.3, 4.6.4 and 5.2.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final
from urllib.parse import urlsplit

from interlock.base.errors import InterlockError
from interlock.dap.backend import VdafBackend
from interlock.dap.batches import query_for
from interlock.dap.drafts import Role
from interlock.dap.jobs import CollectionJobReq, CollectionJobResp
from interlock.dap.messages import Interval, media_type
from interlock.dap.noise import Noise, centred, reach
from interlock.dap.problems import ProblemType, problem_type
from interlock.dap.shares import HpkeKey, open_aggregate_share
from interlock.dap.task import Task
from interlock.dap.transport import Exchange, Reply, checked, place_of

__all__ = [
    "WHILE_WAITING",
    "BadCollection",
    "BatchTooSmall",
    "Collected",
    "Collector",
    "GivenUp",
    "Pending",
    "give_up",
]

_MARK: Final = 32  # digits
_LATEST_US: Final = 253_402_300_800_000_000  # the year 10000, which no report is of
_GONE: Final = (404, 410)
WHILE_WAITING: Final = "interlock=waiting"  # in the query of a DELETE: only of a job that has no result yet


class BatchTooSmall(InterlockError):
    """A result of fewer reports than the task allows: the leader broke the task's promise."""

    code: ClassVar[str] = "batch-too-small"


class BadCollection(InterlockError):
    """A result that cannot be one of the batch that was asked for."""

    code: ClassVar[str] = "malformed"


@dataclass(frozen=True)
class Collected:
    """A batch: how many reports, the span of their times, a sum for each place, and the noise that is in each sum.

    Under noise a sum may be negative, or more than the number of reports; the count has no noise. `place` is where the
    leader keeps it. `mark` tells one batch from another, whatever the leader says: the helper seals a batch once.
    """

    report_count: int
    interval: Interval
    sums: tuple[int, ...]
    noise: Noise | None = None
    place: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Pending:
    """A collection job that is not ready: where it is, and when to look again."""

    request: bytes = field(repr=False)
    location: str
    retry_after: int


class Collector:
    """The one party that may see a sum; `exchange` carries its token to the leader."""

    def __init__(self, task: Task, key: HpkeKey, vdaf: VdafBackend, exchange: Exchange) -> None:
        self._task = task
        self._key = key
        self._vdaf = vdaf
        self._exchange = exchange

    def ask(self, interval: Interval) -> Collected | Pending:
        """Make the collection job of an interval, or find it.

        Raises: DapProblem, where leader or helper refuse the batch; Unreachable; what `opened` raises.
        """
        return self._asked(interval)

    def ask_next(self) -> Collected | Pending:
        """Make the collection job of the leader's next batch, or find the one that was not taken yet. Raises: as `ask`.

        A job that failed is told once; asking again is about a batch that did not fail, where there is one.
        """
        return self._asked(None)

    def taken(self, place: str) -> None:
        """Tell the leader that the result at a place is kept here, so that the next question is about another batch.

        May be said again. Raises: DapProblem, Unreachable, TooLarge; then the leader may have the result still.
        """
        reply = self._exchange("DELETE", place)
        if reply.status not in _GONE:  # it was told before, and that answer was lost
            checked(reply, place)

    def _asked(self, interval: Interval | None) -> Collected | Pending:
        request = CollectionJobReq(query_for(interval)).encode()
        reply, place = _made(self._exchange, self._task, request)
        return self._result(request, reply, place)

    def poll(self, pending: Pending) -> Collected | Pending:
        """Look at a job again. Raises: as `ask`."""
        reply = checked(self._exchange("GET", pending.location), pending.location, media_type("collection-job-resp"))
        return self._result(pending.request, reply, pending.location)

    def opened(self, request: bytes, answer: bytes) -> Collected:
        """Open and check a CollectionJobResp.

        Raises: Malformed, BadSignature (a share that does not open), VdafError, BatchTooSmall, BadCollection.
        """
        asked, found = CollectionJobReq.decode(request), CollectionJobResp.decode(answer)
        if found.report_count < self._task.config.min_batch_size:
            raise BatchTooSmall(f"the result is of {found.report_count} reports", fix="do not trust this leader")
        self._check_interval(asked, found.interval)
        shares = [
            open_aggregate_share(self._task, role, self._key, asked, sealed)
            for role, sealed in ((Role.LEADER, found.leader_share), (Role.HELPER, found.helper_share))
        ]
        sums = self._sums(self._vdaf.unshard(shares, found.report_count), found.report_count)
        mark = hashlib.sha256(found.helper_share.encode()).hexdigest()[:_MARK]
        return Collected(found.report_count, found.interval, sums, self._task.noise, mark=mark)

    def _check_interval(self, asked: CollectionJobReq, found: Interval) -> None:
        """Raises: BadCollection, for times that were not asked for; a batch of the leader's choice may be of any."""
        if self._task.leader_selected:
            asked_for = Interval(0, self._task.time_of(_LATEST_US))
        else:
            asked_for = Interval.decode(asked.query.config)
        if found.start < asked_for.start or found.end > asked_for.end or found.duration < 1:
            raise BadCollection("the result is of another interval than was asked for")

    def _sums(self, sums: Sequence[int], count: int) -> tuple[int, ...]:
        """The sums as integers. Raises: BadCollection, for one that no batch of this size has."""
        noise, shape, slack = self._task.noise, self._task.shape, 0
        if noise is not None:
            sums, slack = [centred(shape, total) for total in sums], reach(noise, shape)
        if not all(-slack <= total <= count * shape.most + slack for total in sums):
            raise BadCollection(
                "a sum is larger than so many reports allow: the aggregators do not hold the same batch"
            )
        return tuple(sums)

    def _result(self, request: bytes, reply: Reply, location: str) -> Collected | Pending:
        if reply.body:
            return replace(self.opened(request, reply.body), place=location)
        return Pending(request, location, reply.retry_after)


class GivenUp(enum.Enum):
    """What came of giving a question up."""

    DONE = "given up"
    READY = "ready"  # there is a result, which stays
    CLOSED = "closed"  # the leader closed the batch, and waits for the helper


def give_up(exchange: Exchange, task: Task, interval: Interval | None) -> GivenUp:
    """Take the question about an interval back, or about the leader's next batch; `exchange` carries the token.

    Its reports stay, for whichever batch is asked for then. It is found by asking once more, so that it need not be
    known where it is. A leader of ours ends it only while it waits: a batch that became ready between the two is not
    taken for one that was kept.
    Raises: DapProblem, where the leader refuses the question itself; Unreachable, TooLarge.
    """
    reply, place = _made(exchange, task, CollectionJobReq(query_for(interval)).encode())
    if reply.body:
        return GivenUp.READY
    waiting = f"{place}{'&' if urlsplit(place).query else '?'}{WHILE_WAITING}"
    checked(exchange("DELETE", waiting), waiting)
    reply = exchange("GET", place)
    if reply.status in _GONE or problem_type(reply.body) is ProblemType.INVALID_BATCH_SIZE:
        return GivenUp.DONE
    return GivenUp.READY if checked(reply, place).body else GivenUp.CLOSED


def _made(exchange: Exchange, task: Task, request: bytes) -> tuple[Reply, str]:
    """A collection job of these bytes, made or found, and where it is. Raises: DapProblem, Unreachable, TooLarge."""
    url = task.leader_resource("collection_jobs")
    reply = exchange("POST", url, media_type("collection-job-req"), request)
    return checked(reply, url, media_type("collection-job-resp")), place_of(url, reply.location)
