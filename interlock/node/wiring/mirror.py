"""A mirror's wiring: the copy, and serving it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from starlette.applications import Starlette

from interlock.base.clock import Clock
from interlock.base.fetch import fetcher_of
from interlock.base.files import private_dir
from interlock.base.settings import BadConfig
from interlock.commons.mirror import Mirror
from interlock.commons.pins import read_pins
from interlock.node.config import ServeConfig
from interlock.node.roles import mirror
from interlock.node.wiring.parts import in_background

__all__ = ["serving"]


@contextlib.contextmanager
def serving(config: ServeConfig, clock: Clock) -> Iterator[Starlette]:
    """A verified copy, brought up to date while it is served. Raises: BadConfig, BadState, NotWritable."""
    if not (config.upstream and config.log_url):
        raise BadConfig("needs upstream and log_url", where="[serve]")
    upstream, tiles = fetcher_of(config.upstream), fetcher_of(config.log_url)
    copy = Mirror(config.directory, upstream, read_pins(config.directory), clock, log=tiles)
    private_dir(copy.public)
    with in_background("copy", lambda stop: mirror.keep_copying(copy, stop, every_s=config.poll_s)):
        yield mirror.app(copy)
