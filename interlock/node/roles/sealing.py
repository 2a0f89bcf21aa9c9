"""What a member's reports are made with: for the first time, and again where an aggregator's key was replaced.

A report that is sealed anew keeps its id, and shows the same right to report. So a leader that has the first one all
the same (its answer was lost before its key was replaced) calls the second a replay, and so does the helper: whatever
happens on the way, an epoch has one report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from interlock.base.primitives import Rng
from interlock.dap.backend import VdafBackend
from interlock.dap.client import build_report, fetch_config
from interlock.dap.membership import ReportProof
from interlock.dap.messages import HpkeConfig, Report
from interlock.dap.task import Task
from interlock.dap.transport import Exchange
from interlock.node.storage.node import OutboxRow

__all__ = ["Keys", "ProofOf", "Sealer", "is_for"]

Keys = tuple[HpkeConfig, HpkeConfig]  # the leader's and the helper's
ProofOf = Callable[[int], ReportProof | None]  # a DAP epoch -> the right to report it; none where it is not had


@dataclass(frozen=True)
class Sealer:
    """A task's VDAF, the way to both aggregators' keys, randomness, and the rights to report, where it asks for any.

    `exchange` fetches the keys and should carry no token, which would tell the helper the leader's.
    """

    task: Task
    vdaf: VdafBackend
    exchange: Exchange
    rng: Rng
    proof_of: ProofOf

    def keys(self) -> Keys:
        """What both aggregators offer now. Raises: Unreachable, Malformed, DapProblem."""
        config = self.task.config
        return fetch_config(self.exchange, config.leader_url), fetch_config(self.exchange, config.helper_url)

    def right_to(self, start: int) -> ReportProof | None:
        """The right to report the epoch that begins at a time. Raises: what `proof_of` raises."""
        return self.proof_of(self.task.time_of(start))

    def sealed(self, keys: Keys, start: int, seen: Sequence[int], report_id: bytes = b"") -> Report | None:
        """The report of an epoch; none where the task asks for a right to it, and that is not had."""
        proof = self.right_to(start)
        if (proof is None) != (self.task.membership is None):
            return None
        return build_report(
            *(self.task, self.vdaf, seen, *keys), now_us=start, rng=self.rng, proof=proof, report_id=report_id
        )

    def anew(self, keys: Keys, row: OutboxRow) -> Report | None:
        """The report of a row for other keys; none where what it measured, or the right to it, is not kept."""
        same = Report.decode(row.report).metadata.report_id
        return self.sealed(keys, row.epoch_start, [*row.measurement], same) if row.measurement else None


def is_for(report: Report, keys: Keys) -> bool:
    """Whether a report is sealed for keys of these ids."""
    return (report.leader_share.config_id, report.helper_share.config_id) == (keys[0].id, keys[1].id)
