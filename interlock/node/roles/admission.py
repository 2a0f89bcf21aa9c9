"""Admission of reports at an aggregator: what each proof owes by member keys from the commons.

Leader and helper each have one of their own, with pins of their own: what one of them let in by mistake or by malice,
the other still turns down. It fills dap.membership.Admit: signatures are named here, and checked a job at a time.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from interlock.base.claims import Claim
from interlock.base.clock import MICROSECONDS, Clock
from interlock.base.codec import Malformed
from interlock.base.fetch import NotFound, Unreachable
from interlock.commons.membership import MemberKeys, NotMember, TaskMembership, demand_sender, owed_by
from interlock.dap.membership import NotAdmitted, proof_in
from interlock.dap.messages import ReportMetadata
from interlock.dap.task import Task
from interlock.node.roles.report import BACKLOG_MOST

__all__ = ["Admission", "demand_owner"]

KEPT_MOST: Final = 1024  # epochs' keys in memory; a report may name one of about a hundred a task
AGAIN_US: Final = 30 * MICROSECONDS  # how long keys that are not published are not asked for again


class Admission:
    """`keys_of` brings the member keys of a task and epoch, verified; `operator` runs this aggregator.

    From any thread. A call raises: NotAdmitted, to turn a report down for good; Unreachable and what else `keys_of`
    raises, where it cannot be told now.
    """

    def __init__(self, keys_of: Callable[[str, int], MemberKeys], operator: str, clock: Clock) -> None:
        self._keys_of = keys_of
        self._operator = operator
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int], MemberKeys | int] = OrderedDict()  # an int: not there, ask again then

    def __call__(self, task: Task, metadata: ReportMetadata, public_share: bytes) -> Sequence[Claim]:
        if task.membership is None:
            return ()
        proof, wanted = proof_in(metadata), _wanted(task.membership)
        if task.time_of(self._clock.now_us()) - metadata.time > BACKLOG_MOST:
            raise NotAdmitted("report is older than members report")
        keys = self._keys(wanted.task, metadata.time)
        if keys.operator == self._operator:  # who enrols must not hold shares, or it could tell whose they are
            raise NotAdmitted("the operator of this aggregator is the issuer's too")
        if keys.backend != wanted.backend:
            raise NotAdmitted("member keys are for another kind of proof than the task asks for")
        try:
            return owed_by(
                keys,
                task_id=task.task_id,
                report_id=metadata.report_id,
                time=metadata.time,
                public_share=public_share,
                proof=proof,
            )
        except NotMember as e:
            raise NotAdmitted(e.what) from None

    def _keys(self, task: str, epoch: int) -> MemberKeys:
        """Raises: Unreachable, where none are published here yet, which may be our mirror's delay; of `keys_of`."""
        with self._lock:  # held while fetching, so that a burst of reports fetches once
            found = self._kept.get((task, epoch), 0)
            if isinstance(found, int):
                found = self._fetched(task, epoch, found)
                self._kept[task, epoch] = found
                while len(self._kept) > KEPT_MOST:
                    self._kept.popitem(last=False)
        if isinstance(found, int):
            raise Unreachable("are not published here yet", where=f"member keys of {task}, epoch {epoch}")
        return found

    def _fetched(self, task: str, epoch: int, not_before: int) -> MemberKeys | int:
        if self._clock.now_us() < not_before:
            return not_before
        try:
            return self._keys_of(task, epoch)
        except NotFound:
            return self._clock.now_us() + AGAIN_US


def demand_owner(task: Task, report_id: bytes, proof: bytes) -> None:
    """Fills dap.membership.Owner. Raises: NotAdmitted."""
    try:
        demand_sender(task.task_id, report_id, proof)
    except NotMember as e:
        raise NotAdmitted(e.what) from None


@functools.lru_cache(maxsize=64)
def _wanted(membership: bytes) -> TaskMembership:
    """What a task's membership extension asks for. Raises: NotAdmitted."""
    try:
        return TaskMembership.decode(membership)
    except Malformed as e:
        raise NotAdmitted(f"the task's membership extension cannot be read ({e.what})") from None
