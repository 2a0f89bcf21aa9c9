"""A whole aggregation job by the reference: check what is signed, open each sealed share, decode it, take its step.

One report after the other. What the native VDAF does in one call on every core, and the measure of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from interlock.base.claims import failing
from interlock.base.codec import Malformed
from interlock.base.primitives import BadSignature
from interlock.dap import hpke
from interlock.dap.backend import SealedShare, VdafBackend, VdafError, Verdict
from interlock.dap.messages import PlaintextInputShare
from interlock.dap.vdaf.ping_pong import helper_initialized, leader_initialized

__all__ = ["helper_job", "leader_job"]


def leader_job(
    vdaf: VdafBackend, verify_key: bytes, ctx: bytes, info: bytes, reports: Sequence[SealedShare]
) -> list[Verdict]:
    """See `VdafBackend.leader_job`."""

    def step(report: SealedShare, share: bytes) -> tuple[bytes, bytes]:
        begun = leader_initialized(vdaf, verify_key, ctx, report.nonce, report.public_share, share)
        return begun.state, begun.outbound

    return [_verdict(report, info, step) for report in reports]


def helper_job(
    vdaf: VdafBackend, verify_key: bytes, ctx: bytes, info: bytes, reports: Sequence[SealedShare]
) -> list[Verdict]:
    """See `VdafBackend.helper_job`."""

    def step(report: SealedShare, share: bytes) -> tuple[bytes, bytes]:
        public, inbound = report.public_share, report.inbound
        done = helper_initialized(vdaf, verify_key, ctx, report.nonce, public, share, inbound)
        return done.out_share, done.outbound

    return [_verdict(report, info, step) for report in reports]


def _verdict(report: SealedShare, info: bytes, step: Callable[[SealedShare, bytes], tuple[bytes, bytes]]) -> Verdict:
    if failing([report.claims]):
        return "unsigned"
    try:
        key = hpke.KeyPair(report.public_key, report.private_key)
        plaintext = PlaintextInputShare.decode(hpke.unseal(key, report.enc, info, report.aad, report.payload))
        return "malformed" if plaintext.extensions else step(report, plaintext.payload)
    except BadSignature:
        return "sealed"
    except Malformed:
        return "malformed"
    except VdafError:
        return "invalid"
