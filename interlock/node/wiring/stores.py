"""The aggregators' stores, for those that serve and for commands that look into them; by itself it needs no server."""

from __future__ import annotations

import contextlib

from interlock.dap.repair import Repair
from interlock.node.config import ServeConfig
from interlock.node.storage.dap import SqliteHelperStorage
from interlock.node.storage.dap_budget import BUDGET_FILE, BudgetStore, BudgetTables, PostgresBudgetStore
from interlock.node.storage.dap_leader import SqliteLeaderStorage
from interlock.node.storage.postgres import PostgresHelperStorage, PostgresLeaderStorage

__all__ = ["budget_store", "helper_store", "leader_store", "repairs_of"]


def leader_store(config: ServeConfig) -> SqliteLeaderStorage | PostgresLeaderStorage:
    if config.store:
        return PostgresLeaderStorage(config.store)
    return SqliteLeaderStorage(config.directory / "leader.sqlite")


def helper_store(config: ServeConfig) -> SqliteHelperStorage | PostgresHelperStorage:
    if config.store:
        return PostgresHelperStorage(config.store)
    return SqliteHelperStorage(config.directory / "helper.sqlite")


def budget_store(config: ServeConfig, role: str) -> BudgetTables:
    """The ledger of a "leader" or "helper", where its own store is. Raises: BadConfig, BadState, Unreachable."""
    if config.store:
        return PostgresBudgetStore(config.store, role)
    return BudgetStore(config.directory / BUDGET_FILE)


def repairs_of(config: ServeConfig, role: str, task_id: bytes) -> list[Repair]:
    """What the store of a "leader" or "helper" says was left out of a task's batches. Raises: as the store."""
    if not config.store and not (config.directory / f"{role}.sqlite").exists():
        return []
    open_store = leader_store if role == "leader" else helper_store
    with contextlib.closing(open_store(config)) as store:
        return store.repairs(task_id)
