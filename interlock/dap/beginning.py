"""The leader's first step on a job's reports: open and verify each as far as one aggregator can alone.

The same reports give the same states, so whoever finds a job that was begun, and not its states, works them out again
(`states_again`); the request stays as it was stored. Source: draft-ietf-ppm-dap-18, section 4.5.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from interlock.dap.backend import SealedShare, VdafBackend, Verdict
from interlock.dap.batches import job_extensions
from interlock.dap.drafts import ReportError, Role
from interlock.dap.jobs import AggregationJobInitReq, ReportShare, VerifyInit
from interlock.dap.messages import Report
from interlock.dap.opening import leader_verdicts
from interlock.dap.shares import KeyRing, ReportRejected, sealed_share, sealed_share_again
from interlock.dap.storage import LeasedJob, States
from interlock.dap.task import AggregatorTask

__all__ = ["GONE", "Begun", "begin", "states_again"]

GONE: Final = b""  # in place of a state
_Step = tuple[bytes, bytes] | ReportError  # (VDAF state to keep, message to the helper)


@dataclass(frozen=True)
class Begun:
    """The request to the helper, empty where no report is left; each report's state; and why others are turned down."""

    request: bytes = field(repr=False)
    states: States = field(repr=False)
    rejected: Mapping[bytes, ReportError]


def begin(held: AggregatorTask, vdaf: VdafBackend, keys: KeyRing, job: LeasedJob, now_us: int) -> Begun:
    """Begin a gathered job."""
    inits: list[VerifyInit] = []
    states: dict[bytes, tuple[int, bytes]] = {}
    rejected: dict[bytes, ReportError] = {}
    seal = partial(sealed_share, now_us=now_us)
    for report, step in _steps(held, vdaf, keys, map(Report.decode, job.bodies), seal):
        report_id = report.metadata.report_id
        if isinstance(step, ReportError):
            rejected[report_id] = step
            continue
        state, message = step
        states[report_id] = report.metadata.time, state
        inits.append(VerifyInit(ReportShare(report.metadata, report.public_share, report.helper_share), message))
    extensions = job_extensions(job.batch)
    request = AggregationJobInitReq(held.verify_key_id, b"", extensions, tuple(inits)).encode() if inits else b""
    return Begun(request, states, rejected)


def states_again(held: AggregatorTask, vdaf: VdafBackend, keys: KeyRing, job: LeasedJob) -> States:
    """The states of a job that was begun, in its request's order, whatever the time is now.

    Where a report's key is gone since, so is its state: it is GONE.
    """
    reports = {report.metadata.report_id: report for report in map(Report.decode, job.bodies)}
    sent = [init.share.metadata.report_id for init in AggregationJobInitReq.decode(job.request).inits]
    steps = _steps(held, vdaf, keys, [reports[report_id] for report_id in sent], sealed_share_again)
    states = {r.metadata.report_id: (r.metadata.time, s[0] if isinstance(s, tuple) else GONE) for r, s in steps}
    return {report_id: states[report_id] for report_id in sent}


def _steps(
    held: AggregatorTask, vdaf: VdafBackend, keys: KeyRing, reports: Iterable[Report], seal: Callable[..., SealedShare]
) -> list[tuple[Report, _Step]]:
    """The reports that take their step, then those that are turned down before."""
    task = held.task
    sealed: list[tuple[Report, SealedShare]] = []
    turned_down: list[tuple[Report, _Step]] = []
    for report in reports:
        try:
            share = seal(task, keys, report.metadata, report.public_share, report.leader_share)
            sealed.append((report, share))
        except ReportRejected as e:
            turned_down.append((report, e.error))
    info = task.draft.input_share_info(Role.LEADER)
    verdicts = leader_verdicts(vdaf, held.verify_key, task.context, info, [share for _, share in sealed])
    return [(report, _step(v)) for (report, _), v in zip(sealed, verdicts, strict=True)] + turned_down


def _step(verdict: Verdict) -> _Step:
    """The leader judges no proof at its first step, it only decodes (4.5.5)."""
    if isinstance(verdict, tuple):
        return verdict
    return ReportRejected.of("malformed" if verdict == "invalid" else verdict).error
