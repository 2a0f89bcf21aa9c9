"""The helper: verifies each report with the leader, and hands its aggregate share to the collector alone.

Each `process_*` takes a request's bytes and gives a `Resource`: its id and its representation. For Prio3 the helper
commits when a job is made, before the leader has the answer, so the answer is stored in the same transaction and a
retry of the same bytes gets it again, whatever happened in between: it is never computed a second time.

Legal orders: a job is made once, by its bytes; a report is committed once in a task; a batch is collected once, and
nothing is committed to it afterwards; before that it may be repaired once (`dap.repair`).
Source: draft-ietf-ppm-dap-18, sections 4.5.3.2 and 4.6.3. Raises, throughout: DapProblem. Nothing here knows HTTP.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from interlock.base.clock import Clock
from interlock.base.primitives import Rng
from interlock.dap.backend import SealedShare, VdafBackend
from interlock.dap.batches import Batch, OutShare, buckets_in, check_job_extensions, check_size, selected
from interlock.dap.budget import BARE, Release
from interlock.dap.drafts import Draft, ReportError, Role
from interlock.dap.jobs import (
    AggregateShare,
    AggregateShareReq,
    AggregationJobContinueReq,
    AggregationJobInitReq,
    AggregationJobResp,
    VerifyInit,
    VerifyResp,
)
from interlock.dap.membership import Admit, admit_all
from interlock.dap.opening import helper_verdicts
from interlock.dap.problems import DapProblem, ProblemType, decoded, missing, to_b64url
from interlock.dap.repair import REPAIR, JobPart, Repair, RepairReq, RepairResp, agreed
from interlock.dap.shares import KeyRing, ReportRejected, seal_aggregate_share, sealed_share
from interlock.dap.storage import HelperStorage
from interlock.dap.task import AggregatorTask, Task

__all__ = ["AGGREGATE_SHARE", "AGGREGATION_JOB", "Helper", "Resource", "VdafFactory", "task_of_id"]

AGGREGATION_JOB = "aggregation-job"
AGGREGATE_SHARE = "aggregate-share"
VdafFactory = Callable[[Task], VdafBackend]
_Verdict = tuple[bytes, bytes] | ReportError  # (output share, message to the leader)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Resource:
    """What a request made or found: its id, and its representation; empty while it is not ready.

    `place` is the URL of what was made, below the aggregator's own URL as the task spells it.
    """

    id: bytes
    body: bytes = field(repr=False)
    place: str = ""


def task_of_id(tasks: Mapping[bytes, AggregatorTask], task_id: bytes) -> AggregatorTask:
    """Raises: DapProblem, unrecognizedTask."""
    found = tasks.get(task_id)
    if found is None:
        raise DapProblem(ProblemType.UNRECOGNIZED_TASK, "no task has this id here", task_id=task_id)
    return found


class Helper:
    """The second aggregator; `tasks` may be a live view, and is read at each request."""

    def __init__(
        self,
        tasks: Mapping[bytes, AggregatorTask],
        keys: KeyRing,
        storage: HelperStorage,
        vdaf: VdafFactory,
        clock: Clock,
        rng: Rng,
        *,
        admit: Admit = admit_all,
        release: Release = BARE,
    ) -> None:
        self._release = release
        self._tasks = tasks
        self._keys = keys
        self._storage = storage
        self._vdaf = vdaf
        self._clock = clock
        self._rng = rng
        self._admit = admit

    def hpke_configs(self) -> bytes:
        return self._keys.configs.encode()

    def process_aggregation_init(self, task_id: bytes, body: bytes) -> Resource:
        """AggregationJobInitReq -> AggregationJobResp. Raises also: what `admit` raises where it cannot tell now."""
        held = task_of_id(self._tasks, task_id)
        job_id = held.resource_id(AGGREGATION_JOB, body)
        place = held.task.helper_resource("aggregation_jobs", to_b64url(job_id))
        stored = self._storage.answer(task_id, AGGREGATION_JOB, job_id)
        if stored is not None:
            return Resource(job_id, stored, place)
        request, batch = self._checked_job(held, body)
        if request.verification_key_id == held.verify_key_id:
            verdicts = self._verdicts(held, request.inits)
        else:
            unknown = ReportError.UNKNOWN_VERIFICATION_KEY_ID
            verdicts = {init.share.metadata.report_id: unknown for init in request.inits}
        outs = [
            OutShare(init.share.metadata.report_id, init.share.metadata.time, verdict[0], batch)
            for init in request.inits
            if isinstance(verdict := verdicts[init.share.metadata.report_id], tuple)
        ]

        def respond(refused: Mapping[bytes, ReportError]) -> bytes:
            draft = held.task.draft
            responses = [_response(draft, report_id, refused.get(report_id, v)) for report_id, v in verdicts.items()]
            return AggregationJobResp(tuple(responses)).encode(draft)

        newest = max(init.share.metadata.time for init in request.inits)
        fold = self._vdaf(held.task).aggregate
        answer = self._storage.commit_job(task_id, job_id, newest, outs, fold, respond)
        return Resource(job_id, answer, place)

    def aggregation_job(self, task_id: bytes, job_id: bytes, step: str | None) -> Resource:
        """An existing job's answer; Prio3 has step 0 only."""
        task_of_id(self._tasks, task_id)
        answer = self._storage.answer(task_id, AGGREGATION_JOB, job_id)
        if answer is None:
            kind = ProblemType.UNRECOGNIZED_AGGREGATION_JOB
            raise DapProblem(kind, "no aggregation job has this id here", task_id=task_id)
        if step is None:
            raise DapProblem(ProblemType.INVALID_MESSAGE, "the step is not given", task_id=task_id)
        if step != "0":
            raise DapProblem(ProblemType.STEP_MISMATCH, "Prio3 has no step but 0", task_id=task_id)
        return Resource(job_id, answer)

    def delete_aggregation_job(self, task_id: bytes, job_id: bytes) -> None:
        """Forget a job of which no report is in time yet, so that the same bytes are judged anew; any other stays.

        What it stays for are replays and a leader that lost its answer (4.5.5: no information that those need may go).
        """
        draft = task_of_id(self._tasks, task_id).task.draft
        answer = self.aggregation_job(task_id, job_id, "0").body
        errors = {response.error for response in AggregationJobResp.decode(answer, draft).responses}
        if errors == {ReportError.REPORT_TOO_EARLY}:
            self._storage.forget_answer(task_id, AGGREGATION_JOB, job_id, answer)

    def process_aggregation_continue(self, task_id: bytes, job_id: bytes, body: bytes) -> Resource:
        """Prio3 is done after the first step, so a continuation that is well formed is one step too far (4.5.4.2)."""
        self.aggregation_job(task_id, job_id, "0")
        request = decoded(AggregationJobContinueReq.decode, body, task_id)
        ids = {each.report_id for each in request.continues}
        if request.step == 0 or len(ids) != len(request.continues):
            raise DapProblem(ProblemType.INVALID_MESSAGE, "the step is 0, or a report is named twice", task_id=task_id)
        raise DapProblem(ProblemType.STEP_MISMATCH, "Prio3 has no step but 0", task_id=task_id)

    def process_aggregate_share(self, task_id: bytes, body: bytes) -> Resource:
        """AggregateShareReq -> AggregateShare; closes the batch."""
        held = task_of_id(self._tasks, task_id)
        share_id = held.resource_id(AGGREGATE_SHARE, body)
        place = held.task.helper_resource("aggregate_shares", to_b64url(share_id))
        stored = self._storage.answer(task_id, AGGREGATE_SHARE, share_id)
        if stored is not None:
            return Resource(share_id, stored, place)
        request = decoded(AggregateShareReq.decode, body, task_id)
        selection = selected(held.task, request.job, request.selector)
        drawn = self._release.draw(held.task)  # here, and not in `respond`: the store is locked there

        def respond(batch: Batch) -> bytes:
            return self._aggregate_share(held, request, batch, drawn)

        merge = self._vdaf(held.task).merge
        return Resource(share_id, self._storage.collect(task_id, share_id, selection, merge, respond), place)

    def aggregate_share(self, task_id: bytes, share_id: bytes) -> Resource:
        """An existing aggregate share."""
        task_of_id(self._tasks, task_id)
        answer = self._storage.answer(task_id, AGGREGATE_SHARE, share_id)
        if answer is None:
            raise missing("aggregate share", task_id)
        return Resource(share_id, answer)

    def process_repair(self, task_id: bytes, body: bytes, leader: str = "") -> Resource:
        """RepairReq -> RepairResp; leaves out what the leader does not hold alike, and writes down who asked."""
        held = task_of_id(self._tasks, task_id)
        repair_id = held.resource_id(REPAIR, body)
        request = decoded(RepairReq.decode, body, task_id)
        selection = selected(held.task, request.job, request.selector)

        def judge(ours: tuple[JobPart, ...]) -> tuple[bytes, Repair]:
            found = agreed(held.task, request.parts, ours)
            sides = found.of_helper, found.of_leader
            repair = Repair(selection, self._clock.now_us(), leader, found.count, *sides)
            _log.warning("a batch of task %s is repaired: %s", to_b64url(task_id), repair.text)
            return RepairResp(ours).encode(), repair

        return Resource(repair_id, self._storage.repair(task_id, repair_id, selection, judge))

    def _checked_job(self, held: AggregatorTask, body: bytes) -> tuple[AggregationJobInitReq, bytes]:
        """The conditions of 4.5.3.2 that fail the whole job; returns it and its batch id, where it has one."""
        task = held.task
        request = decoded(AggregationJobInitReq.decode, body, task.task_id)
        batch = check_job_extensions(task, request.extensions)
        if request.agg_param:
            kind = ProblemType.INVALID_AGGREGATION_PARAMETER
            raise DapProblem(kind, "Prio3 has one aggregation parameter, the empty one", task_id=task.task_id)
        if request.verification_key_id != held.verify_key_id and not task.draft.rejects_each_report:
            raise DapProblem(ProblemType.INVALID_MESSAGE, "no such verification key", task_id=task.task_id)
        ids = {init.share.metadata.report_id for init in request.inits}
        if not ids or len(ids) != len(request.inits):
            raise DapProblem(
                ProblemType.INVALID_MESSAGE, "a job has one report or more, each once", task_id=task.task_id
            )
        return request, batch

    def _verdicts(self, held: AggregatorTask, inits: Sequence[VerifyInit]) -> dict[bytes, _Verdict]:
        """What became of each report, in the order of the job: (output share, message), or why not."""
        verdicts: dict[bytes, _Verdict] = {}
        reports: list[SealedShare] = []
        for init in inits:
            report_id = init.share.metadata.report_id
            verdicts[report_id] = ReportError.REPORT_DROPPED  # its place; what became of it comes below
            try:
                reports.append(self._sealed(held, init))
            except ReportRejected as e:
                verdicts[report_id] = e.error
        task = held.task
        info = task.draft.input_share_info(Role.HELPER)
        found = helper_verdicts(self._vdaf(task), held.verify_key, task.context, info, reports)
        for report, verdict in zip(reports, found, strict=True):
            verdicts[report.nonce] = verdict if isinstance(verdict, tuple) else ReportRejected.of(verdict).error
        return verdicts

    def _sealed(self, held: AggregatorTask, init: VerifyInit) -> SealedShare:
        """A report for the VDAF. Raises: ReportRejected."""
        share, task, now_us = init.share, held.task, self._clock.now_us()
        about = (share.metadata, share.public_share)
        admit = functools.partial(self._admit, task, *about)
        return sealed_share(task, self._keys, *about, share.ciphertext, now_us, init.payload, admit)

    def _aggregate_share(self, held: AggregatorTask, request: AggregateShareReq, batch: Batch, drawn: bytes) -> bytes:
        check_size(held.task, batch)
        if (batch.count, batch.checksum) != (request.report_count, request.checksum):
            raise DapProblem(
                ProblemType.BATCH_MISMATCH,
                f"the helper holds {batch.count} reports of the batch, the leader {request.report_count}, "
                "or not the same ones",
                task_id=held.task.task_id,
            )
        buckets = buckets_in(selected(held.task, request.job, request.selector))
        share = self._release(held.task, batch.share, request.selector.encode(), buckets, drawn)
        sealed = seal_aggregate_share(held.task, Role.HELPER, held.collector, request.job, share, self._rng)
        return AggregateShare(sealed).encode()


def _response(draft: Draft, report_id: bytes, verdict: _Verdict) -> VerifyResp:
    if isinstance(verdict, ReportError):
        return VerifyResp(report_id, error=draft.named(verdict))
    return VerifyResp(report_id, payload=verdict[1])
