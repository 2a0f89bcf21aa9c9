"""A PostgreSQL of the tests' own (`bench.postgres`), or the reason why a test is skipped."""

from __future__ import annotations

import atexit
import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import pytest

from bench import postgres


@contextlib.contextmanager
def private_postgres() -> Iterator[str]:
    """The URL of a running database. Skips the test where there is none to run."""
    with contextlib.ExitStack() as stack:
        try:
            url = stack.enter_context(postgres.private_postgres(*postgres.QUICK))
        except postgres.NoPostgres as e:
            pytest.skip(str(e))
        yield url


@functools.cache
def shared_postgres() -> str:
    """One for all tests of this process, stopped as it ends."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(private_postgres())


def drop_schema(url: str, schema: str) -> None:
    with psycopg_or_skip().connect(url, autocommit=True) as connection:
        connection.execute("SET client_min_messages TO warning")
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


def psycopg_or_skip() -> Any:
    return pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'interlock[postgres]'")
