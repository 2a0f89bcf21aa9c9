"""The product's own processes: a leader that leaves its jobs to workers, a helper; each is killed with kill -9 at will.

Each report marks a place of its own, so that one report lost or counted twice shows as one sum that is not 1.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from interlock.base.clock import SystemClock
from interlock.base.fetch import Unreachable
from interlock.base.files import replace
from interlock.dap.client import build_report, fetch_config, upload
from interlock.dap.collector import Collected, Collector, Pending
from interlock.dap.messages import LEADER_SELECTED, TIME_INTERVAL, Interval
from interlock.dap.shares import HpkeKey, new_key
from interlock.dap.task import task_of
from interlock.node.parties import HttpExchange
from interlock.node.setup import make_aggregator, put_task
from interlock.node.tokens import add_token
from tests.postgres import drop_schema, shared_postgres
from tests.unit.dap_http import LONG, free_socket
from tests.unit.dap_stores import KINDS
from tests.unit.dap_world import LENGTH, VDAF, bits, configuration

ROOT = Path(__file__).resolve().parents[2]
ROLES = {"helper": "dap-helper", "leader": "dap-leader", "w1": "dap-worker", "w2": "dap-worker"}
DEATHS = 7
T = TypeVar("T")


class Deployment:
    """Folders as `mesh setup` makes them, and a process for each of ROLES."""

    def __init__(self, folder: Path, store: str, mode: int) -> None:
        self.folder = folder
        with contextlib.ExitStack() as stack:
            socks = {role: stack.enter_context(free_socket()) for role in ("leader", "helper")}
            self.ports = {role: sock.getsockname()[1] for role, sock in socks.items()}
        self.urls = {role: f"http://127.0.0.1:{port}" for role, port in self.ports.items()}
        self.key: HpkeKey = new_key(9, secrets.token_bytes)
        self.tokens = {name: secrets.token_hex(32) for name in ("collector", *map(str, range(LENGTH)))}
        urls = (self.urls["leader"], self.urls["helper"])
        data = configuration(leader_url=urls[0], helper_url=urls[1], precision=LONG, batch_mode=mode)
        self.task = task_of(data, demo=True, batch_size=LENGTH // 2 if mode == LEADER_SELECTED else None)
        for role in ("leader", "helper"):
            make_aggregator(folder / role, secrets.token_bytes)
            lines = ["[serve]", f'dir = "{folder / role}"', "patience_seconds = 0.2"]
            lines += [f'store = "{store}"'] * bool(store) + ["drive = false"] * (role == "leader")
            replace(folder / role / "interlock.toml", "\n".join(lines).encode())
        put_task([folder / "leader", folder / "helper"], self.task, self.key, secrets.token_bytes)
        self._let_in()
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def _let_in(self) -> None:
        for name, token in self.tokens.items():
            add_token(
                self.folder / "leader" / ("collectors.json" if name == "collector" else "members.json"), name, token
            )
        token = secrets.token_hex(32)
        add_token(self.folder / "helper" / "leaders.json", "leader", token)
        replace(self.folder / "leader" / "helper-token", token.encode("ascii"))

    def start(self, name: str) -> None:
        directory = self.folder / ("helper" if name == "helper" else "leader")
        command = [sys.executable, "-m", "interlock", "mesh", "serve", "--role", ROLES[name], "--dir", str(directory)]
        command += ["--demo", "--port", str(self.ports.get(name, 0))] + (
            ["--name", name] if name not in self.ports else []
        )
        with (self.folder / f"{name}.err").open("ab") as err:
            self._running[name] = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=err)

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def stop(self) -> None:
        for name in list(self._running):
            self.kill(name)


@pytest.fixture(params=[TIME_INTERVAL, LEADER_SELECTED], ids=["interval", "selected"])
def mode(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.fixture(params=KINDS)
def deployment(request: pytest.FixtureRequest, tmp_path: Path, mode: int) -> Iterator[Deployment]:
    url = shared_postgres() if request.param == "postgres" else ""
    for schema in ("interlock_leader", "interlock_helper") if url else ():
        drop_schema(url, schema)
    found = Deployment(tmp_path, url, mode)
    for name in ROLES:
        found.start(name)
    yield found
    found.stop()


def killing(deployment: Deployment, rng: random.Random, done: threading.Event) -> None:
    for _ in range(DEATHS):
        if done.wait(rng.uniform(0.3, 1.6)):
            return
        name = rng.choice([*ROLES, "w1", "w2"])
        deployment.kill(name)
        done.wait(rng.random() * 0.3)
        deployment.start(name)


def insist(step: Callable[[], T], until: float) -> T:
    """A step again and again until the other side lives long enough to answer."""
    while True:
        try:
            return step()
        except Unreachable:
            assert time.monotonic() < until, "they did not come back in time"
            time.sleep(0.05)


@pytest.mark.slow
def test_workers_that_are_killed_lose_and_double_nothing(deployment: Deployment) -> None:
    done, until = threading.Event(), time.monotonic() + 90
    killer = threading.Thread(target=killing, args=(deployment, random.Random(7), done))
    killer.start()
    try:
        now_us = SystemClock().now_us()
        for place in range(LENGTH):
            report_one(deployment, place, now_us, until)
        killer.join()  # all deaths died, and everything runs again
        sums = collected(deployment, Interval(deployment.task.time_of(now_us), 1), until)
    finally:
        done.set()
        killer.join()
    assert sums == [1] * LENGTH
    said = "".join(path.read_text() for path in deployment.folder.glob("*.err"))
    assert said.count("dap-worker at http") >= 2
    assert "Traceback" not in said, said


def report_one(deployment: Deployment, place: int, now_us: int, until: float) -> None:
    with contextlib.closing(HttpExchange(deployment.tokens[str(place)])) as exchange:
        configs = [
            insist(lambda url=deployment.urls[role]: fetch_config(exchange, url.encode()), until)  # type: ignore[misc]
            for role in ("leader", "helper")
        ]
        report = build_report(deployment.task, VDAF, bits(place), *configs, now_us=now_us, rng=secrets.token_bytes)
        assert insist(lambda: upload(exchange, deployment.task, [report]), until) == {}, "acknowledged"
    time.sleep(0.3)


def collected(deployment: Deployment, interval: Interval, until: float) -> list[int]:
    """What all reports come to: those of the interval, or of both batches that they fill."""
    with contextlib.closing(HttpExchange(deployment.tokens["collector"])) as exchange:
        collector = Collector(deployment.task, deployment.key, VDAF, exchange)
        if not deployment.task.leader_selected:
            return list(asked(lambda: collector.ask(interval), until).sums)
        batches: list[Collected] = []
        for _ in range(2):
            batches.append(asked(collector.ask_next, until))
            insist(lambda place=batches[-1].place: collector.taken(place), until)  # type: ignore[misc]
    assert [batch.report_count for batch in batches] == [LENGTH // 2] * 2
    return [a + b for a, b in zip(*(batch.sums for batch in batches), strict=True)]


def asked(ask: Callable[[], Collected | Pending], until: float) -> Collected:
    while True:
        found = insist(ask, until)
        if isinstance(found, Collected):
            return found
        assert time.monotonic() < until, "it was not ready in time"
        time.sleep(0.1)
