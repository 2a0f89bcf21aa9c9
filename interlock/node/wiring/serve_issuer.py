"""An issuer that is served: loaded only where it is served, as commands open its folder without a server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from starlette.applications import Starlette

from interlock.base.clock import Clock
from interlock.node.config import ServeConfig
from interlock.node.roles import issuer_http
from interlock.node.wiring.issuer import issuer_of

__all__ = ["serving"]


@contextlib.contextmanager
def serving(config: ServeConfig, clock: Clock) -> Iterator[Starlette]:
    """The issuer's application. Raises: BadConfig, BadState, BadKey, NotWritable."""
    with issuer_of(config, clock) as opened:
        yield issuer_http.app(opened)
