"""A monitor's wiring: what it watches, for one look or for a process that goes on looking; it needs no server."""

from __future__ import annotations

from interlock.base.clock import Clock
from interlock.base.fetch import fetcher_of
from interlock.base.files import BadState
from interlock.base.settings import BadConfig
from interlock.commons.monitor import Monitor
from interlock.commons.pins import read_pins
from interlock.node.config import ServeConfig
from interlock.node.wiring.parts import MAKE_IT

__all__ = ["monitor_of"]


def monitor_of(config: ServeConfig, clock: Clock) -> Monitor:
    """The monitor in a folder. Raises: BadConfig, for fewer than two mirrors; BadState, NotWritable."""
    if not (config.directory / "node.json").exists():
        raise BadState("is no folder of the role monitor", where=str(config.directory), fix=f"{MAKE_IT} monitor")
    if len(config.mirrors) < 2:
        raise BadConfig("names fewer than two", where="[serve] mirrors", fix='write mirrors = ["NAME=URL", "NAME=URL"]')
    places = {name: fetcher_of(url) for name, url in config.mirrors.items()}
    return Monitor(config.directory, read_pins(config.directory), places, clock)
