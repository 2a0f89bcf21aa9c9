"""Two aggregators verify one report in turns: the leader speaks, the helper answers (VDAF, section 5.7.1).

Prio3 has one round, so these are all the legal orders; any other message is refused:

    leader_initialized -> Continued                 outbound: initialize(verifier share)
    helper_initialized -> FinishedWithOutbound      outbound: finish(verifier message)
    leader_continued   -> Finished

A frame is a type byte (0 initialize, 1 continue, 2 finish), then each item behind its length in 32 bits, big-endian.
A step is a value whose repr shows its kind and never its shares. Raises: VdafError; the report then drops out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from interlock.base.codec import Malformed, Reader, Writer
from interlock.dap.backend import VdafBackend, VdafError

__all__ = [
    "Continued",
    "Finished",
    "FinishedWithOutbound",
    "helper_initialized",
    "leader_continued",
    "leader_initialized",
]

_INITIALIZE: Final = 0
_FINISH: Final = 2
_LEADER: Final = 0
_HELPER: Final = 1


@dataclass(frozen=True, slots=True)
class Continued:
    """Wait for the peer's answer: keep `state`, send `outbound`."""

    state: bytes = field(repr=False)
    outbound: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Finished:
    """The report is valid; its output share may be aggregated."""

    out_share: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class FinishedWithOutbound:
    """The report is valid on this side; the peer still needs `outbound` to finish."""

    out_share: bytes = field(repr=False)
    outbound: bytes = field(repr=False)


def leader_initialized(
    vdaf: VdafBackend, verify_key: bytes, ctx: bytes, nonce: bytes, public_share: bytes, input_share: bytes
) -> Continued:
    """The leader's first step. Raises: VdafError."""
    state, verifier_share = vdaf.verify_init(verify_key, ctx, _LEADER, nonce, public_share, input_share)
    return Continued(state, _frame(_INITIALIZE, verifier_share))


def helper_initialized(
    vdaf: VdafBackend,
    verify_key: bytes,
    ctx: bytes,
    nonce: bytes,
    public_share: bytes,
    input_share: bytes,
    inbound: bytes,
) -> FinishedWithOutbound:
    """The helper's only step: judge the report with the leader's verifier share. Raises: VdafError."""
    leader_share = _item(inbound, _INITIALIZE)
    state, helper_share = vdaf.verify_init(verify_key, ctx, _HELPER, nonce, public_share, input_share)
    message = vdaf.verifier_shares_to_message(ctx, [leader_share, helper_share])
    return FinishedWithOutbound(vdaf.verify_next(ctx, state, message), _frame(_FINISH, message))


def leader_continued(vdaf: VdafBackend, ctx: bytes, state: bytes, inbound: bytes) -> Finished:
    """The leader's last step, with the state that it kept. Raises: VdafError."""
    return Finished(vdaf.verify_next(ctx, state, _item(inbound, _FINISH)))


def _frame(kind: int, item: bytes) -> bytes:
    return Writer().u8(kind).opaque32(item).done()


def _item(frame: bytes, kind: int) -> bytes:
    """The one item of a frame that must be of this kind."""
    reader = Reader(frame, "ping-pong message")
    try:
        found = reader.u8()
        if found != kind:
            raise VdafError(f"ping-pong message is of type {found} where type {kind} belongs")
        item = reader.opaque32()
        reader.finish()
    except Malformed as error:
        raise VdafError(error.what) from None
    return item
