"""The leader's side of a repair: ask the helper, leave out what does not agree, and let the batch be asked for again.

    the helper says batchMismatch   -> `begin`: store the request with all that the leader holds of the batch
    a repair is asked for           -> `go_on`: send those bytes; drop, write down, make the share request anew

Each step is stored before the next, so after kill -9 the driver sends the same bytes, and the helper answers the same.
A helper that knows no repairs, or refuses this one, ends the collection job with what it ended with before: a mismatch.
"""

from __future__ import annotations

import logging
from typing import Final

from interlock.base.clock import Clock
from interlock.base.fetch import Unreachable
from interlock.dap.batches import checksum_sum, selected
from interlock.dap.jobs import AggregateShareReq
from interlock.dap.messages import media_type
from interlock.dap.problems import DapProblem, ProblemType, problem_type, to_b64url
from interlock.dap.repair import REPAIRS, JobPart, Repair, RepairReq, RepairResp, agreed, too_few
from interlock.dap.storage import CollectionJob, LeaderStorage
from interlock.dap.task import Task
from interlock.dap.transport import Exchange, checked

__all__ = ["Repairing"]

_UNKNOWN: Final = frozenset({404, 405, 415, 501})  # what a server says of a resource that it does not have
_log = logging.getLogger(__name__)


class Repairing:
    """Both steps of a leader's repairs; `helper` sends one request."""

    def __init__(self, storage: LeaderStorage, clock: Clock, helper: Exchange) -> None:
        self._storage = storage
        self._clock = clock
        self._helper = helper

    def begin(self, task: Task, job: CollectionJob) -> bool:
        """Make ready to repair a frozen batch that the helper holds otherwise. Raises: DapProblem."""
        share_request = AggregateShareReq.decode(job.share_request)

        def ask(parts: tuple[JobPart, ...]) -> bytes:
            return RepairReq(share_request.job, share_request.selector, parts).encode()

        return self._storage.begin_repair(task.task_id, job.job_id, ask)

    def go_on(self, task: Task, job: CollectionJob) -> bool:
        """Repair the batch with the helper. Raises: DapProblem, Unreachable, TooLarge, Malformed."""
        theirs = RepairResp.decode(self._asked(task, job.repair_request)).parts
        before = AggregateShareReq.decode(job.share_request)
        selection = selected(task, before.job, before.selector)

        def judge(ours: tuple[JobPart, ...]) -> tuple[bytes, Repair]:
            try:
                found = agreed(task, ours, theirs)
            except DapProblem as e:
                if e.kind is ProblemType.INVALID_BATCH_SIZE and not task.leader_selected:
                    raise
                raise _mismatch(task, f"and the helper repaired it otherwise ({e.what})") from None
            whom = task.config.helper_url.decode("ascii")
            repair = Repair(selection, self._clock.now_us(), whom, found.count, found.of_leader, found.of_helper)
            checksum = checksum_sum(part.checksum for part in found.kept)
            _log.warning("a batch of task %s is repaired: %s", to_b64url(task.task_id), repair.text)
            return AggregateShareReq(before.job, before.selector, found.count, checksum).encode(), repair

        return self._storage.finish_repair(task.task_id, job.job_id, judge)

    def _asked(self, task: Task, body: bytes) -> bytes:
        """The helper's answer to a repair request. Raises: DapProblem, where it will not; Unreachable, TooLarge."""
        url, answer = task.helper_resource(*REPAIRS), media_type("repair-resp")
        reply = self._helper("POST", url, media_type("repair-req"), body)
        if reply.status in _UNKNOWN and problem_type(reply.body) is None:
            raise _mismatch(task, "and the helper does not know how to repair a batch")
        try:
            found = checked(reply, url, answer).body
        except DapProblem as e:
            if e.status == 404 or e.kind is None:
                raise
            if e.kind is ProblemType.INVALID_BATCH_SIZE:
                raise too_few(task) from None
            raise _mismatch(task, f"and the helper refuses to repair it ({e.kind.value})") from None
        if not found:
            raise Unreachable("has no answer to a repair yet", where=url)
        return found


def _mismatch(task: Task, what: str) -> DapProblem:
    told = f"leader and helper hold different reports of the batch, {what}"
    return DapProblem(ProblemType.BATCH_MISMATCH, told, task_id=task.task_id)
