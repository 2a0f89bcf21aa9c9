"""A monitor as a server: the loop that looks, and what it has found for whoever asks.

GET /alarms    all alarms, the newest first, as JSON; 503 while one is open, so that any watchdog can read it
"""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import asdict

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from interlock.base.errors import InterlockError, fault_line
from interlock.commons.monitor import Monitor

__all__ = ["app", "keep_looking"]

log = logging.getLogger("interlock.monitor")


def app(monitor: Monitor) -> Starlette:
    """Serves what the monitor found; it takes nothing in."""

    async def alarms(_request: Request) -> Response:
        found = await asyncio.to_thread(monitor.store.alarms)
        size = await asyncio.to_thread(lambda: monitor.store.size)
        status = 503 if any(alarm.closed is None for alarm in found) else 200
        body = {"tree_size": size, "alarms": [asdict(alarm) for alarm in found]}
        return JSONResponse(body, status, headers={"Cache-Control": "no-store"})

    return Starlette(routes=[Route("/alarms", alarms, methods=["GET"])])


def keep_looking(monitor: Monitor, stop: threading.Event, *, every_s: float) -> None:
    """Look until `stop` is set; each new alarm is said once."""
    while not stop.is_set():
        try:
            looked = monitor.look()
        except InterlockError as e:
            log.error("cannot look: %s", e)
        except Exception as e:  # noqa: BLE001 - said too, for the loop must not end of what nobody foresaw
            log.error("cannot look: %s", fault_line(e))
        else:
            for alarm in looked.new:
                log.error("%s: %s: %s", alarm.kind, alarm.where, alarm.what)
        stop.wait(every_s)
