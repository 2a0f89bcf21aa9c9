"""One aggregator as a process of its own, to be killed: python -m tests.sim.dap_process leader|helper FOLDER PORT."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from starlette.types import ASGIApp

from interlock.base.clock import SystemClock
from interlock.dap.driver import Driver
from interlock.dap.helper import Helper
from interlock.dap.leader import Leader
from interlock.dap.shares import KeyRing
from interlock.dap.taskfile import load_key
from interlock.node.http import Listen, serve
from interlock.node.parties import HttpExchange
from interlock.node.roles.aggregate import helper_app, leader_app
from interlock.node.storage.dap import SqliteHelperStorage
from interlock.node.storage.dap_leader import SqliteLeaderStorage
from interlock.node.storage.dap_tasks import TaskDirectory
from interlock.node.tokens import Grant, TokenTable, token_hash
from tests.unit.dap_world import vdaf_of

TOKEN = "one-token-for-all-of-this-test"


def build(role: str, folder: Path) -> ASGIApp:
    tasks = TaskDirectory(folder / "tasks", demo=True)
    path = folder / f"{role}.key"
    ring = KeyRing([load_key(path.read_bytes(), where=str(path))])
    tokens = TokenTable(lambda: {"one": Grant(token_hash(TOKEN))})
    if role == "helper":
        answers = SqliteHelperStorage(folder / "helper.db")
        helper = Helper(tasks, ring, answers, vdaf_of, SystemClock(), os.urandom)
        return helper_app(helper, leaders=tokens, close=answers.close)
    store = SqliteLeaderStorage(folder / "leader.db")
    leader = Leader(tasks, ring, store, SystemClock())
    to_helper = HttpExchange(TOKEN)
    driver = Driver(tasks, ring, store, vdaf_of, SystemClock(), os.urandom, to_helper, job_size=3, owner="leader")
    return leader_app(leader, driver, members=NoNames(tokens), collectors=tokens, drive_every_s=0.05, close=store.close)


class NoNames(TokenTable):
    """Members that share a token are told apart by it no more: each request is a member of its own."""

    def __init__(self, tokens: TokenTable) -> None:
        self._tokens = tokens

    def name_of(self, authorization: str | None, task_id: bytes | None = None) -> str:
        return self._tokens.name_of(authorization, task_id) + os.urandom(8).hex()


if __name__ == "__main__":
    serve(build(sys.argv[1], Path(sys.argv[2])), Listen(port=int(sys.argv[3])))
