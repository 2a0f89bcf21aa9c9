"""Both kinds of store, behind one way to open them: what the storage tests and the simulation run on."""

from __future__ import annotations

import contextlib
import random
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from interlock.dap.storage import HelperStorage, LeaderStorage
from interlock.node.storage.dap import SqliteHelperStorage
from interlock.node.storage.dap_leader import SqliteLeaderStorage
from interlock.node.storage.postgres import PostgresHelperStorage, PostgresLeaderStorage
from tests.postgres import drop_schema, shared_postgres

KINDS = ("sqlite", "postgres")


class Leading(LeaderStorage, Protocol):
    def close(self) -> None: ...


class Helping(HelperStorage, Protocol):
    def close(self) -> None: ...


class Stores(Protocol):
    """Opens the stores of one deployment, as often as there are processes."""

    def leader(self) -> Leading: ...
    def helper(self) -> Helping: ...
    def drop(self) -> None: ...


@dataclass
class SqliteStores:
    folder: Path

    def leader(self) -> Leading:
        return SqliteLeaderStorage(self.folder / "leader.db")

    def helper(self) -> Helping:
        return SqliteHelperStorage(self.folder / "helper.db")

    def drop(self) -> None:
        pass


@dataclass
class PostgresStores:
    url: str = field(default_factory=shared_postgres)
    name: str = field(default_factory=lambda: f"t{secrets.token_hex(6)}")

    def leader(self) -> Leading:
        return PostgresLeaderStorage(self.url, schema=f"{self.name}_leader")

    def helper(self) -> Helping:
        return PostgresHelperStorage(self.url, schema=f"{self.name}_helper")

    def drop(self) -> None:
        for role in ("leader", "helper"):
            drop_schema(self.url, f"{self.name}_{role}")


def stores_of(kind: str, folder: Path) -> Stores:
    """Skips the test, where there is no PostgreSQL to be had."""
    return PostgresStores() if kind == "postgres" else SqliteStores(folder)


class History(Protocol):
    """A store under drawn events, each a method by its name, and what has to be so at the end."""

    def finish(self) -> None: ...


def drawn(
    stores: Stores, history_of: Callable[[Leading, random.Random], History], events: Sequence[str], seed: int
) -> None:
    """Let the events come over a leader's store, and drop it."""
    try:
        with contextlib.closing(stores.leader()) as leader:
            history = history_of(leader, random.Random(seed))
            for event in events:
                getattr(history, event)()
            history.finish()
    finally:
        stores.drop()
