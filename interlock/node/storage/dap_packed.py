"""What a leader's job holds in one column each: the numbers of its reports, and what it kept of each."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from interlock.base.codec import Reader, Writer
from interlock.dap.messages import REPORT_ID_SIZE
from interlock.dap.storage import States

__all__ = ["packed", "packed_states", "unpacked", "unpacked_states"]


def packed(members: Sequence[int]) -> bytes:
    return struct.pack(f">{len(members)}q", *members)


def unpacked(data: bytes) -> list[int]:
    return list(struct.unpack(f">{len(data) // 8}q", data))


def packed_states(states: States) -> bytes:
    out = Writer()
    for report_id, (bucket, state) in states.items():
        out.fixed(report_id, REPORT_ID_SIZE).u64(bucket).opaque32(state)
    return out.done()


def unpacked_states(data: bytes) -> States:
    states, reader = dict[bytes, tuple[int, bytes]](), Reader(data)
    while reader.left:
        report_id = reader.take(REPORT_ID_SIZE)
        states[report_id] = (reader.u64(), reader.opaque32())
    return states
