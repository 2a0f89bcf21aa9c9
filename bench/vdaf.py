"""Verifying reports: what the native VDAF takes beside the Python reference, a report and a whole job.

`python -m bench.vdaf [--json]`; exit code 0 when every goal was met, 1 when one was missed, 2 without the native wheel.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Callable
from typing import Final

from bench.report import Goal, Line, Report, shown
from bench.timing import measure, race
from interlock.dap import hpke
from interlock.dap.backend import NONCE_SIZE, VERIFY_KEY_SIZE, SealedShare, VdafBackend, VdafError
from interlock.dap.messages import PlaintextInputShare
from interlock.dap.vdaf.circuits import SumVec, best_chunk_length
from interlock.dap.vdaf.ping_pong import leader_initialized
from interlock.dap.vdaf.prio3 import Prio3
from interlock.native.vdaf import NativeVdaf, chosen_vdaf

__all__ = ["run"]

_LEAST: Final = {100: 7.0, 1000: 7.0}  # length -> times the reference, of one report on one core
_ROUNDS: Final = 100
_JOB: Final = 40  # reports
_JOBS: Final = 5
_CTX: Final = b"bench"
_INFO: Final = b"bench input share"
_KEY: Final = bytes(VERIFY_KEY_SIZE)

Sent = tuple[bytes, bytes, tuple[bytes, ...]]  # nonce, public share, input shares


def run() -> Report:
    """Raises: RuntimeError, where the native VDAF is not there to be measured."""
    lines: list[Line] = []
    goals: list[Goal] = []
    notes: list[str] = []
    for length, least in _LEAST.items():
        reference = Prio3(SumVec(length, 1, best_chunk_length(length)))
        native = chosen_vdaf(reference, VdafError)
        if not isinstance(native, NativeVdaf):
            raise RuntimeError("interlock-native is not installed")
        vdafs: dict[str, VdafBackend] = {f"native, SumVec {length}": native, f"reference, SumVec {length}": reference}
        reports = _reports(native, length)
        found = race({name: _verify(vdaf) for name, vdaf in vdafs.items()}, reports, _ROUNDS)
        lines += [Line(name, found[name]) for name in vdafs]
        fast, slow = (found[name].p50 for name in vdafs)
        asked = f"times as quick as the reference at length {length} (at least {least:g})"
        goals.append((asked, slow / fast, slow >= least * fast))
        job = _job(native, reports)
        notes += [_rate(name, vdaf, job) for name, vdaf in vdafs.items()]
    return Report("verify_init of leader and helper, one report on one core", lines, goals, notes)


def _reports(vdaf: VdafBackend, length: int) -> list[Sent]:
    draw = random.Random(5)  # noqa: S311 - the same reports on every run
    reports = []
    for _ in range(_JOB):
        nonce, rand = draw.randbytes(NONCE_SIZE), draw.randbytes(vdaf.rand_size)
        reports.append((nonce, *vdaf.shard(_CTX, [draw.randrange(2) for _ in range(length)], nonce, rand)))
    return reports


def _verify(vdaf: VdafBackend) -> Callable[[Sent], None]:
    """Both sides' first step of a report."""

    def verify(sent: Sent) -> None:
        nonce, public, shares = sent
        for agg_id, share in enumerate(shares):
            vdaf.verify_init(_KEY, _CTX, agg_id, nonce, public, share)

    return verify


def _job(vdaf: VdafBackend, reports: list[Sent]) -> list[SealedShare]:
    """The helper's job of these reports, as it comes from the leader."""
    pair, job = hpke.derive_key_pair(bytes(32)), []
    for nonce, public, (leader, helper) in reports:
        first = leader_initialized(vdaf, _KEY, _CTX, nonce, public, leader)
        plaintext = PlaintextInputShare((), helper).encode()
        enc, payload = hpke.seal(pair.public, _INFO, nonce, plaintext, ikm=os.urandom(32))
        job.append(SealedShare(nonce, public, pair.public, pair.private, enc, payload, nonce, first.outbound))
    return job


def _rate(name: str, vdaf: VdafBackend, job: list[SealedShare]) -> str:
    if not all(isinstance(verdict, tuple) for verdict in vdaf.helper_job(_KEY, _CTX, _INFO, job)):
        raise AssertionError("a good report does not verify")
    taken = measure(lambda: vdaf.helper_job(_KEY, _CTX, _INFO, job), _JOBS).p50
    return (
        f"{name}: the helper opens and verifies {len(job) * 1e9 / taken:,.0f} reports a second, in jobs of {len(job)}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.vdaf", description=__doc__)
    parser.add_argument("--json", action="store_true", help="figures for programs, in nanoseconds")
    given = parser.parse_args()
    try:
        report = run()
    except RuntimeError as e:
        print(f"{e}: there is nothing to compare", file=sys.stderr)
        return 2
    return shown(report, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
