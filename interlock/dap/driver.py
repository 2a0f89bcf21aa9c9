"""The leader's work: waiting reports become aggregation jobs, jobs are run with the helper, batches are collected.

Each step is a stored state and the move out of it, so that after kill -9 a driver goes on where the store says:

    reports wait          -> gather them into a job: a full one at once, fewer once one of them waits long enough
    a job is gathered     -> open and verify each share, store the exact request
    a job is begun        -> send those bytes; the helper answers the same to the same; commit, done
                             who finds one begun without states was not there: the same shares give the same states
                             what is too early for the helper goes on into a begun job, for a while (`early`)
    a collection pends    -> when no report of its interval waits or is taken: close it, store the share request;
                             in leader_selected, when a batch is ready and verified: that one, the eldest first
    a collection is frozen-> send those bytes; seal the leader's own share; ready
                             where the helper holds another batch: repair it, once (`repairing`), and send again

What the helper names as one of DAP's errors is final for a job or a collection; any other failure leaves the step to
be tried again. A job is worked on under a lease: any number of drivers share a store, and where one dies, another takes
its jobs over once its leases ran out; a driver that starts again under its own name takes them at once.
Source: draft-ietf-ppm-dap-18, sections 4.5.3.1 and 4.6.3.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from interlock.base.clock import Clock
from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.fetch import Unreachable
from interlock.base.primitives import Rng
from interlock.dap.asking import Answer, Asking
from interlock.dap.backend import VdafError
from interlock.dap.batches import (
    Batch,
    OutShare,
    Selection,
    buckets_in,
    check_size,
    selected,
    selector_for,
)
from interlock.dap.beginning import GONE, begin, states_again
from interlock.dap.budget import BARE, Release
from interlock.dap.drafts import Draft, ReportError, Role
from interlock.dap.early import put_off
from interlock.dap.helper import AGGREGATION_JOB, VdafFactory
from interlock.dap.jobs import (
    AggregateShare,
    AggregateShareReq,
    AggregationJobResp,
    CollectionJobReq,
    CollectionJobResp,
    VerifyResp,
)
from interlock.dap.messages import BATCH_ID_SIZE, Interval
from interlock.dap.problems import DapProblem, ProblemType, to_b64url
from interlock.dap.repairing import Repairing
from interlock.dap.shares import KeyRing, ReportRejected, seal_aggregate_share
from interlock.dap.storage import (
    CollectionJob,
    CollectionState,
    Filling,
    JobOrder,
    LeaderStorage,
    Lease,
    LeasedJob,
    States,
)
from interlock.dap.task import AggregatorTask, Task
from interlock.dap.transport import Exchange
from interlock.dap.vdaf.ping_pong import leader_continued

__all__ = ["JOB_SIZE", "Driver", "Progress"]

JOB_SIZE: Final = 200  # reports a job, at most: each job costs a few transactions and a request beside its reports
JOB_BYTES: Final = 8 << 20  # of leader's shares a job, at most: of long reports a job holds fewer, and one at least
JOBS_A_PASS: Final = 10  # jobs made, jobs sent and collections moved in one pass over a task
LEASE_US: Final = 120_000_000  # how long others leave a job alone; longer each time that proves too short
SPOILT_MOST: Final = 3  # answers that cannot be read, before a job is abandoned
_log = logging.getLogger(__name__)


@dataclass
class Progress:
    """What one pass did; `trouble` is the last failure that will be tried again."""

    jobs_made: int = 0
    jobs_done: int = 0
    collections_moved: int = 0
    trouble: InterlockError | None = None

    @property
    def idle(self) -> bool:
        return not (self.jobs_made or self.jobs_done or self.collections_moved)


@dataclass
class _Unfinished:
    """A job that goes back at the end of a pass: when to look at it again, and the states that no store has yet."""

    again_us: int
    states: States = field(default_factory=dict, repr=False)


class Driver:
    """Moves the leader's store forward; `drive_once` may run at any time, from any number of threads or processes."""

    def __init__(
        self,
        tasks: Mapping[bytes, AggregatorTask],
        keys: KeyRing,
        storage: LeaderStorage,
        vdaf: VdafFactory,
        clock: Clock,
        rng: Rng,
        helper: Exchange,
        *,
        job_size: int = JOB_SIZE,
        release: Release = BARE,
        patience_us: int = 0,
        owner: str = "",
        aggregates: bool = True,
        collects: bool = True,
    ) -> None:
        """`patience_us` is how long reports wait for a job to fill; `owner` is a name that nobody else works under.

        One that does not collect is a worker beside the leader's own driver; that one may leave all jobs to workers.
        """
        self._release = release
        self._tasks = tasks
        self._keys = keys
        self._storage = storage
        self._vdaf = vdaf
        self._clock = clock
        self._rng = rng
        self._helper = Asking(helper, clock)
        self._repairing = Repairing(storage, clock, helper)
        self._spoilt: dict[bytes, int] = {}  # job -> answers that could not be read
        self._job_size = job_size
        self._patience_us = patience_us
        self._aggregates, self._collects = aggregates, collects
        self._owner = owner or rng(16).hex()
        self._returned = not owner
        self._returning = threading.Lock()
        self._stopped = False

    def stop(self) -> None:
        """End the pass under way after the step it is in; later passes do nothing."""
        self._stopped = True

    def drive_once(self, *, collect: bool = True) -> Progress:
        """One bounded pass over all tasks; several may run side by side, of which one collects.

        Raises only what is our own fault, or the store's.
        """
        progress = Progress()
        with self._returning:
            if not self._returned:  # what it held when it died is its own again
                self._storage.free_jobs(self._owner)
                self._returned = True
        for task_id in list(self._tasks):
            try:
                held = self._tasks[task_id]
            except KeyError:
                continue  # taken away since
            except InterlockError as e:  # one damaged task file stops no other task
                _log.error("a task cannot be worked on: %s", e)
                progress.trouble = e
                continue
            self._drive_task(held, progress, collect=collect and self._collects)
        return progress

    def _drive_task(self, held: AggregatorTask, progress: Progress, *, collect: bool) -> None:
        task_id = held.task.task_id
        try:
            if self._aggregates:
                self._run_jobs(held, progress)
            for collection in self._storage.open_collections(task_id, JOBS_A_PASS) if collect else ():
                progress.collections_moved += not self._stopped and self._move(held, collection)
        except InterlockError as e:  # most often a helper that does not answer; the other tasks go on
            _log.warning("task %s cannot be worked on now: %s", to_b64url(task_id), e)
            progress.trouble = e

    # aggregation

    def _order(self, task: Task) -> JobOrder:
        now_us = self._clock.now_us()
        filling = self._filling(task, now_us)
        new_batch = b"" if filling is None else self._rng(BATCH_ID_SIZE)
        size = max(1, min(self._job_size, JOB_BYTES // task.shape.share_bytes))
        return JobOrder(size, task.time_of(now_us), now_us, self._patience_us, filling, new_batch)

    @staticmethod
    def _filling(task: Task, now_us: int) -> Filling | None:
        """How batches are filled, where the leader selects them: in an epoch each member had its turn."""
        if not task.leader_selected:
            return None
        return Filling(task.batch_size, task.config.min_batch_size, now_us, task.start_us(1))

    def _run_jobs(self, held: AggregatorTask, progress: Progress) -> None:
        """Make jobs, and work on what nobody works on; what is not done in this pass is given back at its end."""
        task_id, unfinished = held.task.task_id, dict[bytes, _Unfinished]()  # by lease
        for _ in range(JOBS_A_PASS):
            if self._stopped or not self._storage.gather(task_id, self._order(held.task)):
                break
            progress.jobs_made += 1
        try:
            for _ in range(JOBS_A_PASS):
                lease = Lease(self._rng(16), self._owner, LEASE_US)
                job = None if self._stopped else self._storage.lease_job(task_id, lease, self._clock.now_us())
                if job is None:
                    break
                left = unfinished[lease.token] = _Unfinished(self._clock.now_us())
                if job.bodies:
                    job = self._again(held, job) if job.request else self._begin(held, job, lease)
                    left.states = job.states
                again_us = self._run_job(held, job, lease)
                if again_us is None:
                    del unfinished[lease.token]
                    progress.jobs_done += 1
                else:
                    left.again_us = again_us
        except Exception:
            self._give_back(task_id, unfinished)
            raise
        self._give_back(task_id, unfinished)

    def _give_back(self, task_id: bytes, leases: Mapping[bytes, _Unfinished]) -> None:
        for token, left in leases.items():
            self._storage.release_job(task_id, token, left.again_us, left.states)

    def _begin(self, held: AggregatorTask, job: LeasedJob, lease: Lease) -> LeasedJob:
        """Begin a gathered job, and store that; what comes back has no request where it is over or lost."""
        task = held.task
        begun = begin(held, self._vdaf(task), self._keys, job, self._clock.now_us())
        job_id = held.resource_id(AGGREGATION_JOB, begun.request)
        about = (job_id, begun.request, begun.rejected, self._clock.now_us())
        if not self._storage.begin_job(task.task_id, lease, *about):
            return LeasedJob()
        return LeasedJob((), job_id, begun.request, begun.states, job.batch)

    def _again(self, held: AggregatorTask, job: LeasedJob) -> LeasedJob:
        """A begun job with the states that it had, which nobody has any more."""
        return replace(job, states=states_again(held, self._vdaf(held.task), self._keys, job))

    def _run_job(self, held: AggregatorTask, job: LeasedJob, lease: Lease) -> int | None:
        """Take a job as far as it goes; when to look again, or None where it is over. Raises: Unreachable, TooLarge."""
        if not job.request:
            return None
        task, found = held.task, Answer(b"")
        url = task.helper_resource("aggregation_jobs")
        try:
            about = (job.job_id, url, "aggregation-job-init-req", job.request, "aggregation-job-resp")
            found = self._helper.ask(*about, step=0)
            if not found.body:
                return found.due_us  # deferred (3.1)
            answer = self._read(job, found.body, task.draft, url)
        except (DapProblem, Malformed) as e:
            if isinstance(e, DapProblem) and e.status == 404:
                raise _try_again(e, url) from None
            _log.warning("aggregation job %s is abandoned: %s", to_b64url(job.job_id), e)
            self._storage.abandon_job(task.task_id, lease.token, ReportError.REPORT_DROPPED)
            self._helper.delete(found)  # 4.5.5
            return None
        if self._commit(held, job, lease, answer):
            self._helper.delete(found)  # the same bytes are sent again, and have to be judged anew
        return None

    def _read(self, job: LeasedJob, body: bytes, draft: Draft, url: str) -> AggregationJobResp:
        """The helper's words on each report of a job, in its order; Prio3 has no `finish` here (4.5.3.1).

        The helper has committed by now, so an answer that was spoilt on its way is asked for again before the job is
        abandoned. Raises: Malformed, for what is final; Unreachable, for what is worth another try.
        """
        try:
            answer = AggregationJobResp.decode(body, draft)
        except Malformed as e:
            tries = self._spoilt.pop(job.job_id, 0) + 1
            if tries == SPOILT_MOST:
                raise
            self._spoilt[job.job_id] = tries
            raise Unreachable(f"answered what cannot be read ({e.what})", where=url) from None
        self._spoilt.pop(job.job_id, None)
        if [r.report_id for r in answer.responses] != list(job.states):
            raise Malformed("the helper answered for other reports, or in another order")
        if any(r.error is None and not r.payload for r in answer.responses):
            raise Malformed("the helper finished a report that it has not verified")
        return answer

    def _commit(self, held: AggregatorTask, job: LeasedJob, lease: Lease, answer: AggregationJobResp) -> bool:
        """Commit what both verified; whether all of the job is too early for the helper, and goes on as it was."""
        task = held.task
        outs: list[OutShare] = []
        rejected: dict[bytes, ReportError] = {}
        by_helper = {r.report_id: r.error for r in answer.responses if r.error is not None}
        for response in answer.responses:
            if response.report_id in by_helper:
                continue
            bucket, state = job.states[response.report_id]
            try:
                share = self._finished(task, state, response)
                outs.append(OutShare(response.report_id, bucket, share, job.batch))
            except ReportRejected as e:
                rejected[response.report_id] = e.error
        later = put_off(held, job, by_helper, self._clock.now_us())
        final = by_helper if later is None else {k: error for k, error in by_helper.items() if k not in later.states}
        fold = self._vdaf(task).aggregate
        self._storage.finish_job(task.task_id, lease.token, outs, rejected, fold, by_helper=final, later=later)
        return later is not None and later.job_id == job.job_id

    def _finished(self, task: Task, state: bytes, response: VerifyResp) -> bytes:
        """The leader's output share of a report. Raises: ReportRejected."""
        if state == GONE:
            raise ReportRejected(ReportError.HPKE_UNKNOWN_CONFIG_ID, "the key that the share is sealed to is gone")
        try:
            return leader_continued(self._vdaf(task), task.context, state, response.payload).out_share
        except VdafError as e:
            raise ReportRejected(ReportError.VDAF_VERIFY_ERROR, e.what) from None

    # collection

    def _move(self, held: AggregatorTask, job: CollectionJob) -> bool:
        """Take a collection job one state further, or fail it. Raises: Unreachable, TooLarge."""
        task_id = held.task.task_id
        try:
            if job.state is CollectionState.PENDING:
                return self._freeze(held, job)
            return self._collect(held, job)
        except DapProblem as e:
            if e.status == 404:
                raise _try_again(e, held.task.helper_resource("aggregate_shares")) from None
            problem = e.kind.value if e.kind else ""
            _log.warning("collection job %s failed: %s", to_b64url(job.job_id), e)
            more = self._filling(held.task, self._clock.now_us()) if e.kind is ProblemType.INVALID_BATCH_SIZE else None
            return self._storage.fail_collection(task_id, job.job_id, job.state, problem, e.what, more)

    def _freeze(self, held: AggregatorTask, job: CollectionJob) -> bool:
        """Close the batch once nothing of it is under way. Raises: DapProblem, where it stays too small."""
        task = held.task
        request = CollectionJobReq.decode(job.request)

        def ready(batch: Batch, selection: Selection) -> bytes:
            selector = selector_for(selection)
            self._release.check(task, selector.encode(), buckets_in(selection))
            check_size(task, batch)
            return AggregateShareReq(request, selector, batch.count, batch.checksum).encode()

        filling = self._filling(task, self._clock.now_us())
        try:
            return self._storage.freeze(task.task_id, job.job_id, ready, filling) is not None
        except DapProblem as e:
            small = e.kind is ProblemType.INVALID_BATCH_SIZE
            if (
                small
                and isinstance(job.selection, Interval)
                and self._clock.now_us() < task.start_us(job.selection.end)
            ):
                return False  # more reports may come (4.6.1)
            raise

    def _collect(self, held: AggregatorTask, job: CollectionJob) -> bool:
        task = held.task
        if job.repair_request and not job.repaired:
            return self._repairing.go_on(task, job)
        url = task.helper_resource("aggregate_shares")
        about = (job.job_id, url, "aggregate-share-req", job.share_request, "aggregate-share")
        try:
            found = self._helper.ask(*about)
        except DapProblem as e:
            if e.kind is not ProblemType.BATCH_MISMATCH or job.repaired:
                raise
            return self._repairing.begin(task, job)
        if not found.body:
            return False
        helper_share = AggregateShare.decode(found.body).ciphertext
        share_request = AggregateShareReq.decode(job.share_request)
        request, selector = share_request.job, share_request.selector
        selection = selected(task, request, selector)
        batch = self._storage.batch(task.task_id, selection, self._vdaf(task).merge)
        drawn = self._release.draw(task)
        share = self._release(task, batch.share, selector.encode(), buckets_in(selection), drawn)
        sealed = seal_aggregate_share(task, Role.LEADER, held.collector, request, share, self._rng)
        answer = CollectionJobResp(batch.count, batch.interval, sealed, helper_share).encode()
        return self._storage.finish_collection(task.task_id, job.job_id, answer)


def _try_again(e: DapProblem, url: str) -> InterlockError:
    """A helper that does not know the task yet loses us no report."""
    return Unreachable(e.what, where=url, fix="give the helper the task")
