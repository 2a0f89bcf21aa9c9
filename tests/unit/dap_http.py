"""A leader and a helper on loopback in this process, with real HTTP between them; and how any app is served so."""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from interlock.base.clock import SystemClock
from interlock.dap.client import build_report, fetch_config
from interlock.dap.collector import Collected, Collector, Pending
from interlock.dap.driver import Driver
from interlock.dap.helper import Helper
from interlock.dap.leader import Leader
from interlock.dap.messages import TIME_INTERVAL, Interval, Report
from interlock.dap.shares import HpkeKey, KeyRing, new_key
from interlock.dap.task import AggregatorTask, Task, task_of, verify_key_of
from interlock.node.http import BODY_S
from interlock.node.parties import HttpExchange
from interlock.node.posts import protocol_of
from interlock.node.roles.aggregate import helper_app, leader_app
from interlock.node.storage.dap import SqliteHelperStorage
from interlock.node.storage.dap_leader import SqliteLeaderStorage
from interlock.node.tokens import Grant, TokenTable, token_hash
from tests.unit.dap_world import VDAF, configuration, vdaf_of

LONG = 10**6  # seconds: no test on the real clock ever sees its bucket end
TOKENS = {name: f"the-token-of-{name}-{'x' * 16}" for name in ("acme", "globex", "initech", "collector", "leader")}


def table(*names: str) -> TokenTable:
    kept = {name: Grant(token_hash(TOKENS[name])) for name in names}
    return TokenTable(lambda: kept)


def free_socket() -> socket.socket:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen(64)
    return sock


@contextlib.contextmanager
def serving(app: ASGIApp, sock: socket.socket) -> Iterator[None]:
    http = protocol_of(app, BODY_S)
    server = uvicorn.Server(uvicorn.Config(app, http=http, log_config=None, access_log=False, lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        yield
    finally:
        server.should_exit = True
        thread.join(15)
        sock.close()
        assert not thread.is_alive()


def wait_until(there: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end, "it did not come in time"
        time.sleep(0.01)


class Deployment:
    """Both aggregators, for one task whose URLs are those of the two sockets."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack, *, batch_mode: int = TIME_INTERVAL) -> None:
        leader_sock, helper_sock = free_socket(), free_socket()
        self.leader_url = f"http://127.0.0.1:{leader_sock.getsockname()[1]}/dap"
        self.helper_url = f"http://127.0.0.1:{helper_sock.getsockname()[1]}"
        urls = {"leader_url": self.leader_url, "helper_url": self.helper_url}
        data = configuration(**urls, precision=LONG, batch_mode=batch_mode)  # type: ignore[arg-type]
        self.task: Task = task_of(data, demo=True)
        self.collector_key: HpkeKey = new_key(9, secrets.token_bytes)
        verify_key = verify_key_of(secrets.token_bytes(32), self.task.task_id)
        tasks = {self.task.task_id: AggregatorTask(self.task, verify_key, self.collector_key.config)}
        self._stack = stack
        stack.enter_context(serving(self._helper(folder, tasks), helper_sock))
        stack.enter_context(serving(self._leader(folder, tasks), leader_sock))

    def exchange(self, name: str = "") -> HttpExchange:
        found = HttpExchange(TOKENS.get(name, name))
        self._stack.callback(found.close)
        return found

    def report(self, measurement: list[int]) -> Report:
        anyone = self.exchange()
        configs = [fetch_config(anyone, url.encode()) for url in (self.leader_url, self.helper_url)]
        now_us = SystemClock().now_us()
        return build_report(self.task, VDAF, measurement, *configs, now_us=now_us, rng=secrets.token_bytes)

    def collect(self, interval: Interval) -> Collected:
        found = Collector(self.task, self.collector_key, VDAF, self.exchange("collector"))
        result = found.ask(interval)
        for _ in range(500):
            if not isinstance(result, Pending):
                return result
            time.sleep(0.02)
            result = found.poll(result)
        raise AssertionError("the batch was not collected in time")

    @staticmethod
    def _helper(folder: Path, tasks: dict[bytes, AggregatorTask]) -> ASGIApp:
        store = SqliteHelperStorage(folder / "helper.db")
        ring = KeyRing([new_key(2, secrets.token_bytes)])
        helper = Helper(tasks, ring, store, vdaf_of, SystemClock(), secrets.token_bytes)
        return helper_app(helper, leaders=table("leader"), close=store.close)

    def _leader(self, folder: Path, tasks: dict[bytes, AggregatorTask]) -> ASGIApp:
        self.leader_store = store = SqliteLeaderStorage(folder / "leader.db")
        ring = KeyRing([new_key(1, secrets.token_bytes)])
        leader = Leader(tasks, ring, store, SystemClock())
        to_helper = self.exchange("leader")
        driver = Driver(tasks, ring, store, vdaf_of, SystemClock(), secrets.token_bytes, to_helper)
        return leader_app(
            leader,
            driver,
            members=table("acme", "globex", "initech"),
            collectors=table("collector"),
            prefix="/dap",
            drive_every_s=0.05,
            close=store.close,
        )
