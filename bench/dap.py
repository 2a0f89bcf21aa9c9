"""Counting: what our pair of aggregators takes over HTTP, beside the arithmetic alone and beside the Python reference.

`python -m bench.dap [--quick] [--json] [--postgres URL|auto]`; exit code 0 when every goal was met, 1 when one was
missed, 2 without the native wheel. With --json the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.dap_world import OPERATOR, TOKEN, World, collected, keys_of, made
from bench.postgres import chosen_postgres
from bench.processes import aggregator, cpu_s, free_ports, peak_mib
from bench.report import Goal, Report, shown
from interlock.base.clock import SystemClock
from interlock.dap.backend import SealedShare, VdafBackend
from interlock.dap.client import upload
from interlock.dap.collector import Collector
from interlock.dap.drafts import Role
from interlock.dap.driver import JOB_SIZE
from interlock.dap.messages import Interval
from interlock.dap.messages import Report as DapReport
from interlock.dap.shares import KeyRing, sealed_share
from interlock.dap.vdaf.prio3 import prio3_of_config
from interlock.native.vdaf import NativeVdaf
from interlock.node.parties import HttpExchange, vdaf_of
from interlock.node.roles.admission import Admission

__all__ = ["run"]

_LEAST: Final = {100: 1 / 3, 1000: 1 / 2}  # length -> part of the arithmetic alone that the pair has to do
_REFERENCE_LEAST: Final = 20.0
_RATE_LEAST: Final = 2_000.0  # reports a second of length 100 into one task, upload included
_COUNT: Final = {100: 6_000, 1000: 2_000}
_QUICK: Final = {100: 2_000, 1000: 600}
_REFERENCE: Final = 40  # reports
_BATCH: Final = 100  # reports of a request
_UPLOADERS: Final = 2
_MEMORY_MOST_MIB: Final = 300


@dataclass(frozen=True)
class Pair:
    """What leader and helper did over HTTP: seconds for all, CPU microseconds a report, the leader's memory."""

    seconds: float
    leader_us: float
    helper_us: float
    memory_mib: float


def run(*, quick: bool = False, postgres: str = "") -> Report:
    """With the URL of an empty PostgreSQL database, on stores there too.

    Raises: RuntimeError, where the native VDAF is not there to be measured.
    """
    goals: list[Goal] = []
    notes: list[str] = []
    for length, count in (_QUICK if quick else _COUNT).items():
        with tempfile.TemporaryDirectory() as folder:
            _one_length(Path(folder), length, count, postgres, goals, notes)
    notes.append(f"{os.cpu_count()} cores, shared by leader, helper and clients; load {os.getloadavg()[0]:.1f}")
    return Report("counting: reports a second, from upload to the collected sum", (), goals, notes)


def _one_length(root: Path, length: int, count: int, postgres: str, goals: list[Goal], notes: list[str]) -> None:
    ports = free_ports()
    world = made(root, length, *(f"http://127.0.0.1:{port}" for port in ports))
    native = vdaf_of(world.task)
    if not isinstance(native, NativeVdaf):
        raise RuntimeError("interlock-native is not installed")
    reports = world.reports(native, count)
    alone = count / _alone(world, root, native, reports)
    reference = prio3_of_config(3, world.task.config.vdaf_configuration)
    plain = _REFERENCE / _alone(world, root, reference, reports[:_REFERENCE])
    named = f"SumVec of length {length}"
    notes += [
        f"{named}: the jobs alone (token, open, verify in one call; both sides, every core) {alone:,.0f}/s",
        f"{named}: the same by the Python reference {plain:,.0f}/s",
    ]
    for kind, stores in _stores(root, postgres).items():
        pair = _pair(world, root, reports, ports, stores)
        rate = count / pair.seconds
        goals += _goals(f"{named}, {kind}", length, rate, pair.memory_mib, alone, plain)
        notes.append(
            f"{named}: our pair over HTTP and {kind}, {count:,} reports, {rate:,.0f}/s; CPU a report: leader "
            f"{pair.leader_us:.0f} us, helper {pair.helper_us:.0f} us"
        )


def _stores(root: Path, postgres: str) -> dict[str, tuple[str, str]]:
    """Where leader and helper keep things, by the kind of store."""
    files = {"SQLite": (str(root / "leader.db"), str(root / "helper.db"))}
    return {**files, "PostgreSQL": (postgres, postgres)} if postgres else files


def _goals(named: str, length: int, rate: float, memory: float, alone: float, plain: float) -> list[Goal]:
    least, times = _LEAST[length], _REFERENCE_LEAST
    goals = [
        (f"of the jobs alone, {named} (at least {least:.2f})", rate / alone, rate >= least * alone),
        (f"times the Python reference, {named} (at least {times:g})", rate / plain, rate >= times * plain),
        (f"MiB of the leader, {named} (at most {_MEMORY_MOST_MIB})", memory, memory <= _MEMORY_MOST_MIB),
    ]
    if length == min(_LEAST):
        goals.append((f"reports a second, {named} (at least {_RATE_LEAST:,.0f})", rate, rate >= _RATE_LEAST))
    return goals


def _alone(world: World, root: Path, vdaf: VdafBackend, reports: Sequence[DapReport]) -> float:
    """Seconds for the jobs of both sides (check tokens, open, verify), with nothing stored or sent."""
    rings = {Role.LEADER: KeyRing([world.leader]), Role.HELPER: KeyRing([world.helper])}
    clock, task = SystemClock(), world.task
    admit, now_us = Admission(keys_of(root), OPERATOR, clock), clock.now_us()

    def sealed(role: Role, report: DapReport, inbound: bytes = b"") -> SealedShare:
        about = (report.metadata, report.public_share)
        share = report.leader_share if role is Role.LEADER else report.helper_share
        return sealed_share(task, rings[role], *about, share, now_us, inbound, lambda: admit(task, *about))

    started = time.perf_counter()
    for at in range(0, len(reports), JOB_SIZE):
        some = reports[at : at + JOB_SIZE]
        info = task.draft.input_share_info(Role.LEADER)
        firsts = vdaf.leader_job(
            world.held.verify_key, task.context, info, [sealed(Role.LEADER, report) for report in some]
        )
        messages = [first[1] for first in firsts if isinstance(first, tuple)]
        info = task.draft.input_share_info(Role.HELPER)
        job = [sealed(Role.HELPER, report, message) for report, message in zip(some, messages, strict=True)]
        if not all(isinstance(v, tuple) for v in vdaf.helper_job(world.held.verify_key, task.context, info, job)):
            raise AssertionError("a good report does not verify")
    return time.perf_counter() - started


def _pair(
    world: World, root: Path, reports: Sequence[DapReport], ports: Sequence[int], stores: tuple[str, str]
) -> Pair:
    task, bucket = world.task, world.members.epoch
    requests = [reports[at : at + _BATCH] for at in range(0, len(reports), _BATCH)]
    collector, send = Collector(task, world.collector, vdaf_of(task), HttpExchange(TOKEN)), _uploader(world)
    with (
        aggregator("helper", root, stores[1], ports[1]) as helper,
        aggregator("leader", root, stores[0], ports[0]) as leader,
    ):
        before = cpu_s(leader.pid), cpu_s(helper.pid)
        started = time.perf_counter()
        with ThreadPoolExecutor(_UPLOADERS) as pool:
            refused = [errors for errors in pool.map(send, requests) if errors]
        found = collected(collector, Interval(bucket, 1))
        seconds = time.perf_counter() - started
        spent = cpu_s(leader.pid) - before[0], cpu_s(helper.pid) - before[1]
        memory = peak_mib(leader.pid)
    if refused or found.report_count != len(reports):
        raise AssertionError(f"{found.report_count} of {len(reports)} reports were counted")
    leader_us, helper_us = (taken / len(reports) * 1e6 for taken in spent)
    return Pair(seconds, leader_us, helper_us, memory)


def _uploader(world: World) -> Callable[[Sequence[DapReport]], object]:
    exchange = HttpExchange(TOKEN)
    return lambda reports: upload(exchange, world.task, reports)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.dap", description="Measure counting; see bench/METHOD.md.")
    parser.add_argument("--quick", action="store_true", help="fewer reports, below a minute in all")
    parser.add_argument("--json", action="store_true", help="figures for programs")
    parser.add_argument("--postgres", metavar="URL", default="", help="measure an empty database too; auto: start one")
    given = parser.parse_args()
    try:
        with chosen_postgres(given.postgres) as postgres:
            report = run(quick=given.quick, postgres=postgres)
    except RuntimeError as e:
        print(f"{e}: there is nothing to compare", file=sys.stderr)
        return 2
    return shown(report, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
