"""A monitor that is served: loaded only where it is served, as commands open its folder without a server."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from starlette.applications import Starlette

from interlock.base.clock import Clock
from interlock.node.config import ServeConfig
from interlock.node.roles import monitor
from interlock.node.wiring.monitor import monitor_of
from interlock.node.wiring.parts import in_background

__all__ = ["serving"]


@contextlib.contextmanager
def serving(config: ServeConfig, clock: Clock) -> Iterator[Starlette]:
    """What the monitor found, while it goes on looking. Raises: BadConfig, BadState, NotWritable."""
    with contextlib.closing(monitor_of(config, clock)) as watching:

        def look(stop: threading.Event) -> None:
            monitor.keep_looking(watching, stop, every_s=config.poll_s)

        with in_background("look", look):
            yield monitor.app(watching, clock, every_s=config.poll_s)
