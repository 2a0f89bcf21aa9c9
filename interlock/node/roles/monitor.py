"""A monitor as a server: the loop that looks, what it has found for whoever asks, and what nodes tell it.

GET /alarms      all alarms, the newest first, as JSON; 503 while one is open, and while this monitor has not looked for
                 longer than it should, so that any watchdog can read it
POST /notices    what a node saw of the log (commons.notices); whoever posts is neither asked who it is nor remembered
                 200 with the answer; 400, 403, 404, 413 for what is no notice, is not signed by the log, is of another
                 log, is too large; 429 for too many at once, whoever sends them; 503 where this monitor is out of order
"""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import asdict
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from interlock.base.clock import MICROSECONDS, Clock
from interlock.base.errors import EXIT_REFUSED, InterlockError, fault_line
from interlock.commons.monitor import Monitor
from interlock.commons.notices import MAX_NOTICE, answer_of
from interlock.node.http import BadBody, body_of

__all__ = ["app", "keep_looking"]

log = logging.getLogger("interlock.monitor")


LOOK_S: Final = 600  # how long a pass may take
PER_SECOND: Final = 20  # notices, of all nodes together
AT_ONCE: Final = 200  # before that counts
BODIES: Final = 16  # that are on their way at a time, of the longest; and so many that are said to be short:
SHORT_BODIES: Final = 256
SHORT: Final = 64 * 1024  # bytes: all that an honest node posts, but for notes with very many signatures
_STATUS: Final = {"bad-signature": 403, "not-found": 404}


def app(monitor: Monitor, clock: Clock, *, every_s: float) -> Starlette:
    """Serves what the monitor found, which looks so often, and takes notices."""
    door, late_us = _Door(clock), round((3 * every_s + LOOK_S) * MICROSECONDS)

    async def alarms(_request: Request) -> Response:
        found = await asyncio.to_thread(monitor.store.alarms)
        size = await asyncio.to_thread(lambda: monitor.store.size)
        told = await asyncio.to_thread(monitor.notices.told)
        blind = monitor.looked is None or clock.now_us() - monitor.looked > late_us
        status = 503 if blind or any(alarm.closed is None for alarm in found) else 200
        body: dict[str, object] = {
            "tree_size": size,
            "looked": monitor.looked,
            "alarms": [asdict(alarm) for alarm in found],
            "notices": told.body,
        }
        return JSONResponse(body, status, headers={"Cache-Control": "no-store"})

    async def notices(request: Request) -> Response:
        told = request.headers.get("content-length", "")
        most = SHORT if told.isdecimal() and int(told[:18]) <= SHORT else MAX_NOTICE
        if not door.lets_in(most):
            return PlainTextResponse("too many notices; come again later\n", 429, headers={"Retry-After": "60"})
        try:
            body = await body_of(request, most)
            taken = await asyncio.to_thread(monitor.notices.take, body)
        finally:
            door.inside[most] -= 1
        if taken.alarm is not None:
            log.error("%s: %s: %s", taken.alarm.kind, taken.alarm.where, taken.alarm.what)
        return Response(answer_of(taken.result), media_type="application/json")

    return Starlette(
        routes=[Route("/alarms", alarms, methods=["GET"]), Route("/notices", notices, methods=["POST"])],
        exception_handlers={InterlockError: _refused},
    )


class _Door:
    """Lets so many in a second, and so many be inside; it looks at nobody's face.

    Few long bodies that never come whole would otherwise be enough to keep every short one out.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left = float(AT_ONCE)
        self._at = clock.now_us()
        self.inside = {SHORT: 0, MAX_NOTICE: 0}

    def lets_in(self, most: int) -> bool:
        """Whether one more with so long a body may come in now, which then is inside."""
        now = self._clock.now_us()
        self._left = min(AT_ONCE, self._left + max(0, now - self._at) * PER_SECOND / MICROSECONDS)
        self._at = now
        if self._left < 1 or self.inside[most] >= (SHORT_BODIES if most == SHORT else BODIES):
            return False
        self._left -= 1
        self.inside[most] += 1
        return True


def _refused(_request: Request, e: Exception) -> Response:
    if isinstance(e, BadBody):
        return PlainTextResponse(e.what + "\n", e.status)
    if isinstance(e, InterlockError) and e.exit_code == EXIT_REFUSED:
        return PlainTextResponse(f"{e.what}\n", _STATUS.get(e.code, 400))
    log.error("a notice was not taken: %s", e)
    return PlainTextResponse("this monitor is out of order\n", 503)


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
