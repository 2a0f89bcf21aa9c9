"""Giving a job's sealed reports to the VDAF: whole where the backend opens them, else report by report.

A backend opens what is sealed to an X25519 key, the KEM that DAP makes mandatory, in one call for the whole job. What
is sealed to a P-256 key goes through the same steps of the same backend, with HPKE's part done here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from interlock.dap import hpke
from interlock.dap.backend import SealedShare, VdafBackend, Verdict
from interlock.dap.vdaf import job

__all__ = ["helper_verdicts", "leader_verdicts"]

_Job = Callable[[Sequence[SealedShare]], list[Verdict]]


def leader_verdicts(
    vdaf: VdafBackend, verify_key: bytes, ctx: bytes, info: bytes, reports: Sequence[SealedShare]
) -> list[Verdict]:
    """`VdafBackend.leader_job`, for keys of either KEM."""
    return _joined(
        reports,
        lambda given: vdaf.leader_job(verify_key, ctx, info, given),
        lambda given: job.leader_job(vdaf, verify_key, ctx, info, given),
    )


def helper_verdicts(
    vdaf: VdafBackend, verify_key: bytes, ctx: bytes, info: bytes, reports: Sequence[SealedShare]
) -> list[Verdict]:
    """`VdafBackend.helper_job`, for keys of either KEM."""
    return _joined(
        reports,
        lambda given: vdaf.helper_job(verify_key, ctx, info, given),
        lambda given: job.helper_job(vdaf, verify_key, ctx, info, given),
    )


def _joined(reports: Sequence[SealedShare], whole: _Job, one_by_one: _Job) -> list[Verdict]:
    """Each report's verdict, in the order of the reports."""
    apart = [len(report.public_key) != hpke.X25519.public_size for report in reports]
    ours = iter(one_by_one([r for r, alone in zip(reports, apart, strict=True) if alone]))
    theirs = iter(whole([r for r, alone in zip(reports, apart, strict=True) if not alone]))
    return [next(ours if alone else theirs) for alone in apart]
