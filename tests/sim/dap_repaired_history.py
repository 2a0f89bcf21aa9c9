"""Histories in which leader and helper come to hold other reports of a batch; they repair it, and sums are exact.

Some jobs, told apart by their bytes, get an answer each time that the leader cannot use. So the helper holds reports of
them which the leader turned down. Of others the helper loses what it had committed. Its batches are other ones than the
leader's until they are repaired, in both batch modes.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable
from typing import Any

from interlock.base.organisations import DEMO_LEAST
from interlock.dap.batches import Selection
from interlock.dap.drafts import ReportError
from interlock.dap.helper import AGGREGATION_JOB
from interlock.dap.jobs import AggregationJobInitReq, AggregationJobResp
from interlock.dap.messages import BatchId
from interlock.dap.transport import Reply
from tests.sim.dap_history import PLACES, Fate, Sent, Simulation
from tests.sim.dap_selected_history import SelectedSimulation

__all__ = ["RepairedSelectedSimulation", "RepairedSimulation"]

LOSSES = 3  # a run


class RepairedSimulation(Simulation):
    """A simulation in which every fourth job or so is abandoned, and the helper loses what some had committed."""

    def __init__(self, *about: object) -> None:
        self.jobs: dict[bytes, set[bytes]] = {}  # job -> its reports
        self.spoilt: set[bytes] = set()  # reports of jobs that were abandoned or lost
        super().__init__(*about)  # type: ignore[arg-type]

    def actions(self) -> list[tuple[int, Callable[[], None]]]:
        return [*super().actions(), (3, self.lose)]

    def lose(self) -> None:
        """What one job committed is gone at the helper, of batches that are neither released nor repaired.

        Not while the two speak of a batch: what makes them agree again after they did not would be left for ever.
        """
        store = self.watched["helper"]
        if self.watched["leader"]._read("SELECT 1 FROM collections WHERE state = 'frozen'"):
            return
        rows: Any = store._read("SELECT job, batch, bucket FROM accumulators WHERE length(share) > 0")
        repaired = [repair.selection for repair in store.repairs(self.task.task_id)]
        held = {bytes(job) for job, *_ in rows}
        held -= {bytes(job) for job, batch, bucket in rows for of in repaired if _holds(of, bytes(batch), bucket)}
        if held and self.tally["lost"] < LOSSES:
            lost = self.rng.choice(sorted(held))
            with store._write() as tx:
                tx.execute("DELETE FROM accumulators WHERE job = ?", (lost,))
            self.spoilt |= self.jobs[lost]
            self.tally["lost"] += 1

    def _to_helper(self, method: str, url: str, media_type: str, body: bytes) -> Reply:
        if not url.endswith("aggregation_jobs"):
            return super()._to_helper(method, url, media_type, body)
        ids = {init.share.metadata.report_id for init in AggregationJobInitReq.decode(body).inits}
        self.jobs[self.tasks[self.task.task_id].resource_id(AGGREGATION_JOB, body)] = ids
        reply = super()._to_helper(method, url, media_type, body)
        if hashlib.sha256(body).digest()[0] >= 64:
            return reply
        self.spoilt |= ids
        answer = AggregationJobResp.decode(reply.body)
        return dataclasses.replace(reply, body=AggregationJobResp(answer.responses * 2).encode())

    def _excused(self, sent: Sent, fate: Fate, *, clocks: bool) -> bool:
        spoilt = sent.report.metadata.report_id in self.spoilt and fate.error == ReportError.REPORT_DROPPED.value
        return spoilt or super()._excused(sent, fate, clocks=clocks)

    def totals(self) -> list[int]:
        """What was collected; and of batches too small for it what the leader holds, as nobody can tell their sums."""
        totals = self.collected()
        for run in self.left():
            assert self.alike(run) < DEMO_LEAST, f"{run} could have been collected"
            for place, (sent, fate) in enumerate(self.fated()):
                inside = run.start <= sent.report.metadata.time < run.end
                totals[place] += inside and fate.state == "aggregated"
        for selection, count in self.agreed().items():
            assert self.results[selection].report_count == count  # type: ignore[index]
        self.amend(totals)
        return totals

    def alike(self, of: Selection) -> int:
        """How many reports of a batch both sides hold, by whole jobs."""
        sides: list[set[Any]] = []
        for store in self.watched.values():
            with store._write() as tx:
                sides.append(set(store._parts(tx, self.task.task_id, of)))
        return sum(part.count for part in sides[0] & sides[1])

    def amend(self, totals: list[int]) -> None:
        """A report that was left out after its id was forgotten is known from the record of the repair alone."""
        repairs = self.watched["leader"].repairs(self.task.task_id)
        rows: Any = self.watched["leader"]._read("SELECT id FROM reports")
        known = {bytes(row[0]) for row in rows}
        for place, (sent, fate) in enumerate(self.fated()):
            report_id, bucket = sent.report.metadata.report_id, sent.report.metadata.time
            of = [r for r in repairs if _holds(r.selection, fate.batch, bucket)]  # a job may be of several hours
            dropped = {part.job_id for r in of for part in r.ours}
            jobs = {job for job, ids in self.jobs.items() if report_id in ids}
            if fate.state == "aggregated" and report_id not in known and jobs & dropped:
                counted = len(jobs) > 1 and totals[place]  # in the later one, of two that it was in
                self.fates[report_id] = fate if counted else Fate("rejected", ReportError.REPORT_DROPPED.value)

    def fated(self) -> Iterable[tuple[Sent, Fate]]:
        """Each report, with what became of it."""
        return ((sent, self.fates.get(sent.report.metadata.report_id, Fate("", ""))) for sent in self.sent)

    def agreed(self) -> dict[Selection, int]:
        """The batches that were repaired, and how many reports remained; both sides wrote down the same."""
        leader, helper = (store.repairs(self.task.task_id) for store in self.watched.values())
        assert {r.selection: (r.kept, r.ours, r.theirs) for r in leader} == {
            r.selection: (r.kept, r.theirs, r.ours) for r in helper
        }
        self.tally["repaired"] += len(leader)
        self.tally["left out here"] += sum(bool(r.ours) for r in leader)
        self.tally["left out there"] += sum(bool(r.theirs) for r in leader)
        return {r.selection: r.kept for r in leader}


class RepairedSelectedSimulation(RepairedSimulation, SelectedSimulation):
    """The same where the leader selects batches, and fills them beyond the least that they need or not."""

    def most(self) -> int:
        return PLACES  # one of which the two hold too little alike fills on

    def totals(self) -> list[int]:
        totals = self.collected()
        rows: Any = self.watched["leader"]._read("SELECT id FROM batches")
        left = {bytes(row[0]) for row in rows}
        for batch in left:
            assert self.alike(BatchId(batch)) < DEMO_LEAST, f"{batch.hex()} could have been collected"
        for place, (_, fate) in enumerate(self.fated()):
            totals[place] += fate.state == "aggregated" and fate.batch in left
        repaired = self.agreed()
        assert not any(isinstance(of, BatchId) and of.id in left for of in repaired), "what was repaired was collected"
        assert set(repaired.values()) <= {found.report_count for found in self.found()}
        self.amend(totals)
        return totals


def _holds(of: Selection, batch: bytes, bucket: int) -> bool:
    return of.id == batch if isinstance(of, BatchId) else of.start <= bucket < of.end
