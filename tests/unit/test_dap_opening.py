"""A job of reports to keys of both KEMs: each keeps its verdict and its place, on the reference and the native VDAF."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.dap.backend import SealedShare, VdafBackend, VdafError
from interlock.dap.drafts import Role
from interlock.dap.hpke import KEMS
from interlock.dap.opening import helper_verdicts, leader_verdicts
from interlock.dap.shares import KeyRing, new_key, sealed_share
from interlock.native.vdaf import chosen_vdaf
from tests.unit.dap_world import VDAF, World, bits

BACKENDS = [VDAF, chosen_vdaf(VDAF, VdafError)]


@pytest.mark.parametrize("vdaf", BACKENDS, ids=["reference", "chosen"])
def test_reports_to_both_kinds_of_key_are_verified_in_their_order(vdaf: VdafBackend, tmp_path: Path) -> None:
    world = World(tmp_path)
    leader_keys = [new_key(i, secrets.token_bytes, kem) for i, kem in enumerate(KEMS.values())]
    helper_keys = [new_key(i, secrets.token_bytes, kem) for i, kem in enumerate(KEMS.values())]
    first: list[SealedShare] = []
    reports = []
    for i in range(6):
        world.leader_key = leader_keys[i % 2]
        report = world.report(bits(i), helper=helper_keys[(i // 2) % 2])
        sealed = report.leader_share
        if i == 3:
            sealed = replace(sealed, payload=sealed.payload[:-1] + bytes([sealed.payload[-1] ^ 1]))
        reports.append(report)
        about = (report.metadata, report.public_share, sealed, world.clock.now_us())
        first.append(sealed_share(world.task, KeyRing(leader_keys), *about))
    task, key = world.task, world.held.verify_key
    begun = leader_verdicts(vdaf, key, task.context, task.draft.input_share_info(Role.LEADER), first)
    assert [isinstance(v, tuple) for v in begun] == [True, True, True, False, True, True]
    assert begun[3] == "sealed"
    second = [
        sealed_share(
            *(task, KeyRing(helper_keys), r.metadata, r.public_share, r.helper_share, world.clock.now_us(), v[1])
        )
        for r, v in zip(reports, begun, strict=True)
        if isinstance(v, tuple)
    ]
    done = helper_verdicts(vdaf, key, task.context, task.draft.input_share_info(Role.HELPER), second)
    assert all(isinstance(v, tuple) for v in done)
    world.close()
