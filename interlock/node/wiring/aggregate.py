"""The aggregators' wiring: their tasks and keys, and how each checks that a report is a member's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from starlette.applications import Starlette

from interlock.base.claims import failing
from interlock.base.clock import MICROSECONDS, Clock
from interlock.base.fetch import fetcher_of, http_client
from interlock.base.settings import BadConfig
from interlock.commons.subscribe import Subscriber
from interlock.dap.budget import NoisyRelease, Release
from interlock.dap.driver import Driver
from interlock.dap.helper import Helper
from interlock.dap.leader import Leader
from interlock.dap.membership import Admit, admit_all
from interlock.dap.shares import KeyRing
from interlock.dap.storage import SweptStorage
from interlock.dap.sweep import Sweeper
from interlock.native.vdaf import chosen_failing
from interlock.node.certified import client_context
from interlock.node.config import ServeConfig
from interlock.node.hpke_file import HpkeKeyFile
from interlock.node.parties import HttpExchange, vdaf_of
from interlock.node.roles import aggregate
from interlock.node.roles.admission import Admission, demand_owner
from interlock.node.roles.work import keep_sweeping, worker_app
from interlock.node.storage.dap_tasks import TaskDirectory
from interlock.node.tokens import TokenTable, read_tokens, secret_in
from interlock.node.wiring.parts import APART, in_background
from interlock.node.wiring.stores import budget_store, helper_store, leader_store

__all__ = ["serving_helper", "serving_leader", "serving_worker"]


@contextlib.contextmanager
def serving_leader(config: ServeConfig, clock: Clock) -> Iterator[Starlette]:
    """A leader, and the driver of its jobs. Raises: BadConfig, BadState, NotWritable."""
    place, tasks = config.directory, TaskDirectory(config.directory / "tasks", demo=config.demo)
    keys = KeyRing(read=HpkeKeyFile(place / "hpke.json"))
    exchange = _to_helper(config)
    with contextlib.ExitStack() as stack:
        stack.callback(exchange.close)
        storage = stack.enter_context(contextlib.closing(leader_store(config)))
        driver = Driver(
            *(tasks, keys, storage, vdaf_of, clock, os.urandom, exchange),
            patience_us=round(config.patience_s * MICROSECONDS),
            owner="leader",
            aggregates=config.drive,
            release=stack.enter_context(_release(config, clock, "leader")),
        )
        stack.enter_context(_sweeping(tasks, storage, config, clock))
        leader = Leader(
            tasks,
            keys,
            storage,
            clock,
            admit=_admission(config, clock),
            owner=demand_owner,
            failing=chosen_failing(failing),
        )
        path = place / "members.json"  # which an aggregator of proofs alone does without
        members = read_tokens(path) if path.exists() or not config.upstream else TokenTable(dict)
        collectors = read_tokens(place / "collectors.json")
        yield aggregate.leader_app(leader, driver, members=members, collectors=collectors)


@contextlib.contextmanager
def serving_helper(config: ServeConfig, clock: Clock) -> Iterator[Starlette]:
    """A helper. Raises: BadConfig, BadState, NotWritable."""
    place, tasks = config.directory, TaskDirectory(config.directory / "tasks", demo=config.demo)
    keys = KeyRing(read=HpkeKeyFile(place / "hpke.json"))
    with (
        contextlib.closing(helper_store(config)) as storage,
        _release(config, clock, "helper") as release,
        _sweeping(tasks, storage, config, clock),
    ):
        admit = _admission(config, clock)
        helper = Helper(tasks, keys, storage, vdaf_of, clock, os.urandom, admit=admit, release=release)
        yield aggregate.helper_app(helper, leaders=read_tokens(place / "leaders.json"))


@contextlib.contextmanager
def serving_worker(config: ServeConfig, clock: Clock) -> Iterator[Starlette]:
    """One more driver of a leader's jobs, from a folder like the leader's; the leader itself does the collecting."""
    place, tasks = config.directory, TaskDirectory(config.directory / "tasks", demo=config.demo)
    keys = KeyRing(read=HpkeKeyFile(place / "hpke.json"))
    exchange = _to_helper(config)
    with contextlib.closing(exchange), contextlib.closing(leader_store(config)) as storage:
        driver = Driver(
            *(tasks, keys, storage, vdaf_of, clock, os.urandom, exchange),
            patience_us=round(config.patience_s * MICROSECONDS),
            owner=config.name and f"worker {config.name}",
            collects=False,
        )
        yield worker_app(driver)


def _to_helper(config: ServeConfig) -> HttpExchange:
    """The leader's way to the helper: its token, and its certificate where it has one. Raises: BadState, BadConfig."""
    tls = client_context(config.helper_cert, config.helper_key, config.helper_ca)
    return HttpExchange(secret_in(config.directory / "helper-token"), http_client(tls=tls))


def _sweeping(
    tasks: TaskDirectory, storage: SweptStorage, config: ServeConfig, clock: Clock
) -> contextlib.AbstractContextManager[None]:
    sweeper = Sweeper(tasks, storage, clock, round(config.keep_s * MICROSECONDS))
    return in_background("sweep", lambda stop: keep_sweeping(sweeper, stop))


@contextlib.contextmanager
def _release(config: ServeConfig, clock: Clock, role: str) -> Iterator[Release]:
    """What an aggregator does to its shares before it lets them out: noise where a task has some, within its budget."""
    with contextlib.closing(budget_store(config, role)) as budget:
        yield NoisyRelease(vdaf_of, budget, clock, os.urandom)


def _admission(config: ServeConfig, clock: Clock) -> Admit:
    """How an aggregator checks members: against a commons, where it has pinned one; else by bearer tokens alone."""
    if (config.directory / "issuer.key").exists():
        raise BadConfig("is an issuer's too", where=str(config.directory), fix=APART)
    if not config.upstream:
        return admit_all
    if not config.operator:
        raise BadConfig("is not set", where="[serve] operator", fix="name who runs this aggregator")
    subscriber = Subscriber(config.directory, fetcher_of(config.upstream), clock)
    return Admission(subscriber.member_keys, config.operator, clock)
