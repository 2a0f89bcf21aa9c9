"""The leader's doors: reports come in, collection jobs come in; `driver.Driver` does the work between them.

Both aggregators see who is asked what: here nothing is sent anywhere. A report is acknowledged only once it is stored
for good; the same bytes again are acknowledged again and stored once. A collection job is named by its bytes, so that
asking twice finds the first; a batch is collected once, whoever asks.

    member  --upload-->  waiting            refused with a ReportError of its own, the others of the request go on
    collector --request--> pending          an empty representation until the driver has made it ready

Requests for the next batch of the leader's choice are all the same bytes. So the first of them is found again, ready or
not, until its collector deletes it: only then do the same bytes ask for another batch. Whoever crashed in between asks
again and loses nothing; what was deleted stays closed.
Source: draft-ietf-ppm-dap-18, sections 4.4.2 and 4.6.1. Raises, throughout: DapProblem. Nothing here knows HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from interlock.base.claims import CheckClaims, Claim, failing
from interlock.base.clock import Clock
from interlock.dap.batches import check_collection
from interlock.dap.drafts import ReportError
from interlock.dap.fates import Fate, FateReq, FateResp, Question, Standing
from interlock.dap.helper import Resource, task_of_id
from interlock.dap.jobs import CollectionJobReq
from interlock.dap.membership import Admit, Owner, admit_all, owned_by_none
from interlock.dap.messages import Report, UploadErrors, UploadRequest
from interlock.dap.problems import DapProblem, ProblemType, decoded, missing, to_b64url
from interlock.dap.shares import KeyRing, ReportRejected, demand_timely
from interlock.dap.storage import Accepted, CollectionJob, CollectionState, LeaderStorage, NewReport
from interlock.dap.task import AggregatorTask, Task

__all__ = ["COLLECTION_JOB", "Leader"]

COLLECTION_JOB: Final = "collection-job"

# What a client is told. The draft would call a report for a closed batch "replayed" too (4.4.2); the registry has a
# name that tells the client the truth, and clients treat both alike.
_ANSWERS: Final[Mapping[Accepted, ReportError | None]] = {
    Accepted.STORED: None,
    Accepted.SAME: None,
    Accepted.REPLAYED: ReportError.REPORT_REPLAYED,
    Accepted.COLLECTED: ReportError.BATCH_COLLECTED,
    Accepted.SECOND: ReportError.REPORT_DROPPED,
    Accepted.PAST: ReportError.REPORT_DROPPED,
}
# 4.4.2 names the errors of an upload otherwise than 4.5.5 those of an aggregation.
_AT_UPLOAD: Final[Mapping[ReportError, ReportError]] = {
    ReportError.TASK_EXPIRED: ReportError.REPORT_DROPPED,
    ReportError.TASK_NOT_STARTED: ReportError.REPORT_DROPPED,
}


class Leader:
    """The first aggregator's side towards members and the collector; `tasks` may be a live view."""

    def __init__(
        self,
        tasks: Mapping[bytes, AggregatorTask],
        keys: KeyRing,
        storage: LeaderStorage,
        clock: Clock,
        *,
        admit: Admit = admit_all,
        owner: Owner = owned_by_none,
        failing: CheckClaims = failing,
    ) -> None:
        self._tasks = tasks
        self._keys = keys
        self._storage = storage
        self._clock = clock
        self._admit = admit
        self._owner = owner
        self._failing = failing

    def hpke_configs(self) -> bytes:
        return self._keys.configs.encode()

    def proves_membership(self, task_id: bytes) -> bool:
        """Whether reports of a task prove whom they are from, so that who uploads them need not be asked."""
        held = self._tasks.get(task_id)
        return held is not None and held.task.membership is not None

    def process_upload(self, task_id: bytes, body: bytes, member: str | None = None) -> bytes:
        """UploadRequest -> UploadErrors, empty where all are stored.

        With `member`, each member has one report a bucket that counts; so a sum is a number of members.
        Raises, beside DapProblem: what `admit` raises where it cannot tell now; nothing is stored then.
        """
        held = task_of_id(self._tasks, task_id)
        request = decoded(UploadRequest.decode, body, task_id)
        refusals = self._refusals(held, request.reports)
        new = [
            NewReport(report.metadata.report_id, report.metadata.time, report.encode(), member)
            for report, refusal in zip(request.reports, refusals, strict=True)
            if refusal is None
        ]
        stored = iter(self._storage.add_reports(task_id, new, self._clock.now_us()))
        answers = [refusal or _ANSWERS[next(stored)] for refusal in refusals]
        draft = held.task.draft
        errors = [
            (report.metadata.report_id, draft.named(error))
            for report, error in zip(request.reports, answers, strict=True)
            if error is not None
        ]
        return UploadErrors(tuple(errors)).encode(draft)

    def process_fates(self, task_id: bytes, body: bytes, member: str | None = None) -> bytes:
        """FateReq -> FateResp; of a report that is not the asker's as of one that never was."""
        held = task_of_id(self._tasks, task_id)
        questions = decoded(FateReq.decode, body, task_id).questions
        known = self._storage.fates(task_id, [question.report_id for question in questions])
        horizon = self._storage.horizon(task_id)
        fates: list[Fate] = []
        for question in questions:
            found = known.get(question.report_id)
            if found is not None and self._owns(held.task, question, found.member, member):
                fates.append(found.fate)
            else:
                standing = Standing.FORGOTTEN if question.time < horizon else Standing.UNKNOWN
                fates.append(Fate(question.report_id, standing))
        return FateResp(tuple(fates)).encode()

    def process_collection_init(self, task_id: bytes, body: bytes) -> Resource:
        """CollectionJobReq -> CollectionJobResp, once the driver has made it."""
        held = task_of_id(self._tasks, task_id)
        request = decoded(CollectionJobReq.decode, body, task_id)
        interval = check_collection(held.task, request)
        if interval is None:
            job = self._storage.open_next(task_id, body, lambda number: _numbered(held, number, body))
        else:
            job = self._storage.open_collection(task_id, held.resource_id(COLLECTION_JOB, body), body, interval)
        shown = _shown(task_id, job)
        return replace(shown, place=held.task.leader_resource("collection_jobs", to_b64url(job.job_id)))

    def collection_job(self, task_id: bytes, job_id: bytes) -> Resource:
        """An existing collection job; a failed one raises what it failed of."""
        task_of_id(self._tasks, task_id)
        job = self._storage.collection(task_id, job_id)
        if job is None:
            raise missing("collection job", task_id)
        return _shown(task_id, job)

    def give_up_collection(self, task_id: bytes, job_id: bytes, *, taken: bool = True) -> None:
        """End a job that waits for its batch; the same request makes it anew (4.6.3).

        One that got further stays. But one that is ready is forgotten where the leader selects batches and its
        collector may have `taken` the result: so it says that it has it, and asks for the next.
        """
        self.collection_job(task_id, job_id)
        selects = task_of_id(self._tasks, task_id).task.leader_selected
        if taken and selects and self._storage.forget_collection(task_id, job_id):
            return
        problem, what = ProblemType.INVALID_BATCH_SIZE.value, "the collector gave the job up"
        self._storage.fail_collection(task_id, job_id, CollectionState.PENDING, problem, what)

    def _owns(self, task: Task, question: Question, sender: str | None, member: str | None) -> bool:
        if task.membership is None:
            return member is not None and member == sender
        try:
            self._owner(task, question.report_id, question.proof)
        except ReportRejected:
            return False
        return True

    def _refusals(self, held: AggregatorTask, reports: Sequence[Report]) -> list[ReportError | None]:
        """Why reports are turned down before they are stored, what is signed of them all checked at once.

        Anyone may send reports that prove whom they are from, so one without a token takes no place in the store. Its
        share is opened when its job begins, and not here (4.4.2 leaves it open): members would wait for it, and the
        work would be done twice.
        """
        found = [self._owed(held, report) for report in reports]
        dropped = self._failing([() if isinstance(owed, ReportError) else owed for owed in found])
        return [
            owed if isinstance(owed, ReportError) else ReportRejected.of("unsigned").error if at in dropped else None
            for at, owed in enumerate(found)
        ]

    def _owed(self, held: AggregatorTask, report: Report) -> Sequence[Claim] | ReportError:
        """What has to be signed for a report to be stored, or why it is turned down whatever is signed."""
        now_us, metadata = self._clock.now_us(), report.metadata
        if self._keys.find(report.leader_share.config_id, now_us) is None:
            return ReportError.OUTDATED_CONFIG
        try:
            demand_timely(held.task, metadata, now_us)
            return self._admit(held.task, metadata, report.public_share)
        except ReportRejected as e:
            return _AT_UPLOAD.get(e.error, e.error)


def _numbered(held: AggregatorTask, number: int, body: bytes) -> bytes:
    return held.resource_id(COLLECTION_JOB, number.to_bytes(8, "big") + body)


def _shown(task_id: bytes, job: CollectionJob) -> Resource:
    if job.state is CollectionState.FAILED:
        kind = next((k for k in ProblemType if k.value == job.problem), None)
        raise DapProblem(kind, job.detail, task_id=task_id)
    return Resource(job.job_id, job.answer)
