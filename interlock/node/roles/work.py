"""What aggregators do beside answering: a worker's application, which drives a leader's jobs, and the sweeping."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator
from typing import Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from interlock.dap.driver import Driver
from interlock.dap.sweep import Sweeper

__all__ = ["DRIVE_EVERY_S", "Kick", "driving", "keep_sweeping", "worker_app"]

DRIVE_EVERY_S: Final = 1.0
SIDE_BY_SIDE: Final = 3  # passes: while one waits for the helper and one for the disk, another opens and verifies
SWEEP_EVERY_S: Final = 600.0
_log = logging.getLogger(__name__)


def worker_app(driver: Driver, drive_every_s: float = DRIVE_EVERY_S) -> Starlette:
    """A worker: nobody asks it for anything; GET /status says how many jobs it has done since it started."""
    done = [0]

    async def status(request: Request) -> Response:
        return JSONResponse({"role": "dap-worker", "jobs_done": done[0]})

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with driving(driver, Kick(), drive_every_s, done):
            yield

    return Starlette(routes=[Route("/status", status)], lifespan=lifespan)


class Kick:
    """Says to each loop of a driver that there may be work; what was said while one was at work is not lost on it."""

    def __init__(self) -> None:
        self._waiting = [asyncio.Event() for _ in range(SIDE_BY_SIDE)]

    def set(self) -> None:
        for event in self._waiting:
            event.set()

    def of(self, loop: int) -> asyncio.Event:
        return self._waiting[loop]


@contextlib.asynccontextmanager
async def driving(driver: Driver, kick: Kick, every_s: float, done: list[int] | None = None) -> AsyncIterator[None]:
    """Drive for as long as the block lasts."""
    stopping, counted = asyncio.Event(), [0] if done is None else done
    loops = [asyncio.create_task(_drive(driver, kick, k, stopping, every_s, counted)) for k in range(SIDE_BY_SIDE)]
    try:
        yield
    finally:
        stopping.set()
        kick.set()
        driver.stop()
        await asyncio.gather(*loops)


async def _drive(
    driver: Driver, kick: Kick, loop: int, stopping: asyncio.Event, every_s: float, done: list[int]
) -> None:
    """Pass after pass; at once while there is work, else when something came or time went by. The first collects."""
    while not stopping.is_set():
        kick.of(loop).clear()
        idle = True
        try:
            progress = await run_in_threadpool(driver.drive_once, collect=loop == 0)
            idle = progress.idle
            done[0] += progress.jobs_done
        except Exception:  # noqa: BLE001 - a fault of ours or of the disk must not end the driver for good
            _log.exception("a pass of the driver failed")
        if not idle:
            kick.set()  # a batch may be whole now, and another loop idle
        else:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(kick.of(loop).wait(), every_s)


def keep_sweeping(sweeper: Sweeper, stop: threading.Event, every_s: float = SWEEP_EVERY_S) -> None:
    """Forget what can be forgotten, now and then."""
    while not stop.wait(every_s):
        try:
            gone = sweeper.sweep_once(stop.is_set)
        except Exception:  # noqa: BLE001 - as above
            _log.exception("sweeping failed")
            continue
        if gone:
            _log.info("%d rows of reports that are past were forgotten", gone)
