"""A process that dies at any write of its store, acted out in this one."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from interlock.base.database import Database

_Found = TypeVar("_Found")


class Killed(BaseException):
    """The process is gone, just here."""


class Reaper:
    """Ends the process at the n-th write of a store of this kind, before or after that write is durable.

    for folder in reaper.moments(tmp_path):    # n = 1, 2, 3 ... until a life comes to its end without dying
        found = reaper.life(live, again)
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, durable: bool, kind: type[Database] = Database) -> None:
        self.moment = self.deaths = 0
        self._writes: int | None = None  # of the life that is lived; nobody dies otherwise
        original: Any = Database._write
        reaper = self

        @contextlib.contextmanager
        def write(self: Database) -> Iterator[sqlite3.Connection]:
            last = reaper._is_last()
            with original(self) as db:
                yield db
                if last and not durable:
                    raise Killed
            if last:
                raise Killed

        monkeypatch.setattr(kind, "_write", write)

    def _is_last(self) -> bool:
        if self._writes is None:
            return False
        self._writes += 1
        return self._writes == self.moment

    def moments(self, folder: Path) -> Iterator[Path]:
        """A new folder for each write to die at."""
        while self.moment == self.deaths:
            self.moment += 1
            own = folder / str(self.moment)
            own.mkdir()
            yield own

    def life(self, live: Callable[[], _Found], again: Callable[[], object]) -> _Found:
        """Live up to this moment's write; if that was the death, come `again`, and live once more."""
        self._writes = 0
        try:
            return live()
        except Killed:
            self.deaths += 1
            self._writes = None
            again()
            return live()
        finally:
            self._writes = None
