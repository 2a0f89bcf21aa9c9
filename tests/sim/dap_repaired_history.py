"""Histories in which the leader abandons jobs that the helper has committed; their batches are repaired, sums exact.

Some jobs, told apart by their bytes, get an answer each time that the leader cannot use. So the helper holds reports of
them which the leader turned down: its batches are other ones than the leader's until they are repaired.
"""

from __future__ import annotations

import dataclasses
import hashlib

from interlock.base.organisations import DEMO_LEAST
from interlock.dap.drafts import ReportError
from interlock.dap.jobs import AggregationJobInitReq, AggregationJobResp
from interlock.dap.transport import Reply
from tests.sim.dap_history import Fate, Sent, Simulation

__all__ = ["RepairedSimulation"]


class RepairedSimulation(Simulation):
    """A simulation in which every fourth job or so is abandoned."""

    def __init__(self, *about: object) -> None:
        self.spoilt: set[bytes] = set()  # reports of such jobs
        super().__init__(*about)  # type: ignore[arg-type]

    def _to_helper(self, method: str, url: str, media_type: str, body: bytes) -> Reply:
        reply = super()._to_helper(method, url, media_type, body)
        if not url.endswith("aggregation_jobs") or hashlib.sha256(body).digest()[0] >= 64:
            return reply
        self.spoilt |= {init.share.metadata.report_id for init in AggregationJobInitReq.decode(body).inits}
        answer = AggregationJobResp.decode(reply.body)
        return dataclasses.replace(reply, body=AggregationJobResp(answer.responses * 2).encode())

    def _excused(self, sent: Sent, fate: Fate, *, clocks: bool) -> bool:
        spoilt = sent.report.metadata.report_id in self.spoilt and fate.error == ReportError.REPORT_DROPPED.value
        return spoilt or super()._excused(sent, fate, clocks=clocks)

    def totals(self) -> list[int]:
        """What was collected; and of batches too small for it what the leader holds, as nobody can tell their sums."""
        totals = self.collected()
        for run in self.left():
            ours = self.watched["leader"].batch(self.task.task_id, run, self.vdaf.merge)
            assert ours.count < DEMO_LEAST, f"{run} could have been collected"
            for place, sent in enumerate(self.sent):
                metadata = sent.report.metadata
                if run.start <= metadata.time < run.end:
                    fate = self.fates.get(metadata.report_id, Fate("", ""))
                    totals[place] += fate.state == "aggregated"
        for side, other in (("leader", "helper"), ("helper", "leader")):
            kept = {r.selection: r.kept for r in self.watched[side].repairs(self.task.task_id)}
            assert kept == {r.selection: r.kept for r in self.watched[other].repairs(self.task.task_id)}
            for selection, count in kept.items():
                assert self.results[selection].report_count == count
                self.tally["repaired"] += 1
        return totals
