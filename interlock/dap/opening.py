"""Giving a job's sealed reports to the VDAF: whole where the backend opens them, else report by report.

A backend opens what is sealed to an X25519 key, the KEM that DAP makes mandatory, in one call for the whole job. What
is sealed to a P-256 key goes through the same steps of the same backend, with HPKE's part done here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from interlock.dap import hpke
from interlock.dap.backend import SealedShare, VdafBackend, Verdict
from interlock.dap.messages import PlaintextInputShare
from interlock.dap.vdaf import job

__all__ = ["helper_verdicts", "leader_verdicts"]

_Job = Callable[[Sequence[SealedShare]], list[Verdict]]
_TAG_SIZE: Final = 16  # of AES-GCM
_AROUND: Final = len(PlaintextInputShare((), b"?").encode()) - 1 + _TAG_SIZE  # bytes that a share has around it, sealed


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
    """`VdafBackend.helper_job`, for keys of either KEM; what does not decode is told from what does not verify (4.5.5).

    A helper's share is seeds and nothing else, as many as each aggregator has of what its member drew: only its size
    can be wrong.
    """
    found = _joined(
        reports,
        lambda given: vdaf.helper_job(verify_key, ctx, info, given),
        lambda given: job.helper_job(vdaf, verify_key, ctx, info, given),
    )
    size = vdaf.rand_size // vdaf.shares + _AROUND
    pairs = zip(reports, found, strict=True)
    return ["malformed" if verdict == "invalid" and len(r.payload) != size else verdict for r, verdict in pairs]


def _joined(reports: Sequence[SealedShare], whole: _Job, one_by_one: _Job) -> list[Verdict]:
    """Each report's verdict, in the order of the reports."""
    apart = [len(report.public_key) != hpke.X25519.public_size for report in reports]
    ours = iter(one_by_one([r for r, alone in zip(reports, apart, strict=True) if alone]))
    theirs = iter(whole([r for r, alone in zip(reports, apart, strict=True) if not alone]))
    return [next(ours if alone else theirs) for alone in apart]
