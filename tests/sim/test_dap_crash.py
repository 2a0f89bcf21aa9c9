"""Leader and helper die at any moment, and every acknowledged report is counted exactly once.

Each report marks a place of its own, so that one report lost or counted twice shows as one sum that is not 1.
"""

from __future__ import annotations

import random
import secrets
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from interlock.base.clock import SystemClock
from interlock.base.fetch import Unreachable
from interlock.dap.client import build_report, upload
from interlock.dap.collector import Collected, Collector, Pending
from interlock.dap.drafts import ReportError
from interlock.dap.messages import Interval
from interlock.dap.shares import HpkeKey, new_key
from interlock.dap.task import AggregatorTask, task_of, verify_key_of
from interlock.dap.taskfile import dump_key
from interlock.node.parties import HttpExchange
from interlock.node.storage.dap_tasks import TaskDirectory
from tests.ports import free_port
from tests.sim.dap_process import TOKEN
from tests.sim.reaper import Reaper
from tests.unit.dap_http import LONG
from tests.unit.dap_world import LENGTH, VDAF, World, bits, configuration

ROOT = Path(__file__).resolve().parents[2]


def whole_run(world: World, reports: list[Any]) -> Collected:
    for report in reports:
        assert world.upload(report) == []
    return world.collect()


@pytest.mark.parametrize("durable", [False, True], ids=["before", "after"])
def test_a_death_at_any_write_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    reaper = Reaper(monkeypatch, durable=durable)
    for folder in reaper.moments(tmp_path):
        world = World(folder, job_size=2)
        reports = [world.report(bits(place)) for place in range(4)]
        found = reaper.life(partial(whole_run, world, reports), world.restart)
        assert (found.report_count, list(found.sums[:5])) == (4, [1, 1, 1, 1, 0]), f"died at write {reaper.moment}"
        world.close()
    assert reaper.deaths > 10, "every write of a run was a moment to die at"


class Aggregators:
    """Two real processes on fixed ports, that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {role: free_port() for role in ("leader", "helper")}
        self.keys = {role: new_key(i, secrets.token_bytes) for i, role in enumerate(("leader", "helper"), 1)}
        for role, key in self.keys.items():
            (folder / f"{role}.key").write_bytes(dump_key(key))
        self.collector_key: HpkeKey = new_key(9, secrets.token_bytes)
        urls = {f"{role}_url": f"http://127.0.0.1:{port}" for role, port in self.ports.items()}
        self.task = task_of(configuration(precision=LONG, **urls), demo=True)  # type: ignore[arg-type]
        verify_key = verify_key_of(secrets.token_bytes(32), self.task.task_id)
        TaskDirectory(folder / "tasks").add(AggregatorTask(self.task, verify_key, self.collector_key.config))
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.deaths = 0

    def start(self, role: str) -> None:
        command = [sys.executable, "-m", "tests.sim.dap_process", role, str(self.folder), str(self.ports[role])]
        with (self.folder / f"{role}.err").open("ab") as err:
            self._running[role] = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=err)

    def kill(self, role: str) -> None:
        process = self._running.pop(role)
        process.kill()
        process.wait()
        self.deaths += 1

    def stop(self) -> None:
        for role in list(self._running):
            self.kill(role)


def killing(aggregators: Aggregators, rng: random.Random, deaths: int, done: threading.Event) -> None:
    """Kill one of the two again and again, with moments of all lengths between."""
    for _ in range(deaths):
        if done.wait(rng.choice([0.05, 0.4, 0.9, 1.3]) * rng.random()):
            return
        role = rng.choice(["leader", "helper"])
        aggregators.kill(role)
        done.wait(rng.random() * 0.2)
        aggregators.start(role)
        done.wait(0.6)  # long enough to come up more often than not


def insist(step: Any, until: float) -> Any:
    """A step again and again until the other side lives long enough to answer."""
    while True:
        try:
            return step()
        except Unreachable:
            assert time.monotonic() < until, "the aggregators did not come back in time"
            time.sleep(0.03)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_kill_9_at_random_moments_loses_and_doubles_nothing(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    aggregators = Aggregators(tmp_path)
    exchange = HttpExchange(TOKEN)
    done = threading.Event()
    for role in aggregators.ports:
        aggregators.start(role)
    killer = threading.Thread(target=killing, args=(aggregators, rng, 12, done))
    killer.start()
    try:
        found = report_and_collect(aggregators, exchange, time.monotonic() + 90)
        deaths = aggregators.deaths
    finally:
        done.set()
        killer.join()
        aggregators.stop()
        exchange.close()
    print(deaths)
    assert deaths >= 3, "they died while they worked"
    assert (found.report_count, list(found.sums)) == (LENGTH, [1] * LENGTH)


def report_and_collect(aggregators: Aggregators, exchange: HttpExchange, until: float) -> Collected:
    task, now_us = aggregators.task, SystemClock().now_us()
    configs = [aggregators.keys[role].config for role in ("leader", "helper")]
    for place in range(LENGTH):
        report = build_report(task, VDAF, bits(place), *configs, now_us=now_us, rng=secrets.token_bytes)
        errors: dict[bytes, ReportError] = insist(lambda report=report: upload(exchange, task, [report]), until)
        assert errors == {}, "acknowledged"
        time.sleep(0.4)
    collector = Collector(task, aggregators.collector_key, VDAF, exchange)
    interval = Interval(task.time_of(now_us), 1)
    while True:
        found: Collected | Pending = insist(lambda: collector.ask(interval), until)
        if isinstance(found, Collected):
            return found
        time.sleep(0.1)
