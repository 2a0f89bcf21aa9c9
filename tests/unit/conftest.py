"""Fixtures of several rooms: a leader's and a helper's store, on SQLite and on PostgreSQL."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.dap_stores import KINDS, Helping, Leading, Stores, stores_of


@pytest.fixture(params=KINDS)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    found = stores_of(request.param, tmp_path)
    yield found
    found.drop()


@pytest.fixture
def leader(stores: Stores) -> Iterator[Leading]:
    with contextlib.closing(stores.leader()) as found:
        yield found


@pytest.fixture
def helper(stores: Stores) -> Iterator[Helping]:
    with contextlib.closing(stores.helper()) as found:
        yield found
