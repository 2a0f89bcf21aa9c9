"""A process that dies at any write of its store, acted out in this one."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from interlock.base.database import Database


class Killed(BaseException):
    """The process is gone, just here."""


class Reaper:
    """Ends the process at the n-th write of a store of this kind, before or after that write is durable."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: type[Database] = Database) -> None:
        self.writes = 0
        self.at: tuple[int, bool] | None = None
        original: Any = Database._write
        reaper = self

        @contextlib.contextmanager
        def write(self: Database) -> Iterator[sqlite3.Connection]:
            reaper.writes += 1
            now = reaper.writes
            with original(self) as db:
                yield db
                if reaper.at == (now, False):
                    raise Killed
            if reaper.at == (now, True):
                raise Killed

        monkeypatch.setattr(kind, "_write", write)
