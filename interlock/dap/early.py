"""Reports that the helper found too early: its clock lags behind the leader's, and they are sent again in a later job.

A report rejected for anything else is in no job again; one that is `report_too_early` may be (4.5.3.1, 4.5.4.1). The
helper has committed nothing of it, so nothing is spent. What was sent of it is sent again as it was: the leader's share
was opened and verified once, and needs no second time.

    rejected as too early, and its bucket began less than PATIENCE_US ago -> in a job of such reports, AGAIN_US later
    later than that                                                       -> rejected: such a clock is wrong, not late

The leader itself puts no report into a job before its bucket has begun by its own clock (`JobOrder.not_after`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from interlock.base.clock import MICROSECONDS
from interlock.dap.drafts import ReportError
from interlock.dap.helper import AGGREGATION_JOB
from interlock.dap.jobs import AggregationJobInitReq
from interlock.dap.storage import LaterJob, LeasedJob
from interlock.dap.task import AggregatorTask

__all__ = ["AGAIN_US", "PATIENCE_US", "put_off"]

AGAIN_US: Final = 60 * MICROSECONDS
PATIENCE_US: Final = 3600 * MICROSECONDS


def put_off(
    held: AggregatorTask, job: LeasedJob, rejected: Mapping[bytes, ReportError], now_us: int
) -> LaterJob | None:
    """The job in which a begun job's early reports are sent again; None where there are none, or they waited enough."""
    states = {
        report_id: (bucket, state)
        for report_id, (bucket, state) in job.states.items()
        if rejected.get(report_id) is ReportError.REPORT_TOO_EARLY and now_us < held.task.start_us(bucket) + PATIENCE_US
    }
    if not states:
        return None
    request = AggregationJobInitReq.decode(job.request)
    inits = tuple(init for init in request.inits if init.share.metadata.report_id in states)
    body = dataclasses.replace(request, inits=inits).encode()
    return LaterJob(held.resource_id(AGGREGATION_JOB, body), body, states, now_us + AGAIN_US)
