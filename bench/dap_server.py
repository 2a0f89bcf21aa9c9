"""One aggregator of `bench.dap` on its own port: `python -m bench.dap_server leader|helper DIR STORE PORT [unproved]`.

Prints its URL, and stops when its standard input is closed. STORE is a file, or the URL of a PostgreSQL database. The
application and the server are those of `interlock mesh serve`. With `unproved` no proof of membership is checked.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from starlette.types import ASGIApp

from bench.dap_world import OPERATOR, TOKEN, is_url, keys_of, leader_storage, ring_key
from interlock.base.claims import Claim, failing
from interlock.base.clock import SystemClock
from interlock.dap.driver import Driver
from interlock.dap.helper import Helper
from interlock.dap.leader import Leader
from interlock.dap.messages import ReportMetadata
from interlock.dap.shares import KeyRing
from interlock.dap.task import Task
from interlock.native.vdaf import chosen_failing
from interlock.node.http import Listen, serve
from interlock.node.parties import HttpExchange, vdaf_of
from interlock.node.roles.admission import Admission
from interlock.node.roles.aggregate import helper_app, leader_app
from interlock.node.storage.dap import SqliteHelperStorage
from interlock.node.storage.dap_tasks import TaskDirectory
from interlock.node.storage.postgres import PostgresHelperStorage
from interlock.node.tokens import Grant, TokenTable, token_hash

__all__: list[str] = []


def _app(role: str, root: Path, store: str, *, unproved: bool) -> ASGIApp:
    clock, tasks = SystemClock(), TaskDirectory(root / "tasks")
    ring, tokens = KeyRing([ring_key(root, role)]), TokenTable(lambda: {"bench": Grant(token_hash(TOKEN))})
    admit = _unchecked if unproved else Admission(keys_of(root), OPERATOR, clock)
    if role == "helper":
        answers = PostgresHelperStorage(store) if is_url(store) else SqliteHelperStorage(Path(store))
        helper = Helper(tasks, ring, answers, vdaf_of, clock, os.urandom, admit=admit)
        return helper_app(helper, leaders=tokens, close=answers.close)
    reports = leader_storage(store)
    leader = Leader(tasks, ring, reports, clock, admit=admit, failing=chosen_failing(failing))
    driver = Driver(tasks, ring, reports, vdaf_of, clock, os.urandom, HttpExchange(TOKEN))
    return leader_app(leader, driver, members=tokens, collectors=tokens, close=reports.close)


def _unchecked(task: Task, metadata: ReportMetadata, public_share: bytes) -> Sequence[Claim]:
    """Let in whatever comes."""
    return ()


def _run(role: str, root: Path, store: str, port: int, *, unproved: bool) -> None:
    stop = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=wait, daemon=True).start()
    app = _app(role, root, store, unproved=unproved)
    serve(app, Listen(port=port), ready=lambda url: print(url, flush=True), stop=stop)


if __name__ == "__main__":
    _run(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), unproved=sys.argv[5:] == ["unproved"])
