"""A witness that listens: loaded only where it is served, as commands open its folder without a server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from starlette.applications import Starlette

from interlock.base.clock import Clock
from interlock.node.config import ServeConfig
from interlock.node.roles import witness
from interlock.node.wiring.witness import witness_of

__all__ = ["serving"]


@contextlib.contextmanager
def serving(config: ServeConfig, clock: Clock) -> Iterator[Starlette]:
    """A witness that listens. Raises: as `witness_of`."""
    yield witness.app(witness_of(config, clock))
