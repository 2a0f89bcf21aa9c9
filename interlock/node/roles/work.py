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

__all__ = ["DRIVE_EVERY_S", "driving", "keep_sweeping", "worker_app"]

DRIVE_EVERY_S: Final = 1.0
SWEEP_EVERY_S: Final = 600.0
_log = logging.getLogger(__name__)


def worker_app(driver: Driver, drive_every_s: float = DRIVE_EVERY_S) -> Starlette:
    """A worker: nobody asks it for anything; GET /status says how many jobs it has done since it started."""
    done = [0]

    async def status(request: Request) -> Response:
        return JSONResponse({"role": "dap-worker", "jobs_done": done[0]})

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with driving(driver, asyncio.Event(), drive_every_s, done):
            yield

    return Starlette(routes=[Route("/status", status)], lifespan=lifespan)


@contextlib.asynccontextmanager
async def driving(
    driver: Driver, kick: asyncio.Event, every_s: float, done: list[int] | None = None
) -> AsyncIterator[None]:
    """Drive for as long as the block lasts; `kick` says that there is work."""
    stopping = asyncio.Event()
    work = asyncio.create_task(_drive(driver, kick, stopping, every_s, [0] if done is None else done))
    try:
        yield
    finally:
        stopping.set()
        kick.set()
        driver.stop()
        await work


async def _drive(driver: Driver, kick: asyncio.Event, stopping: asyncio.Event, every_s: float, done: list[int]) -> None:
    """Pass after pass; at once while there is work, else when something came or time went by."""
    while not stopping.is_set():
        kick.clear()
        idle = True
        try:
            progress = await run_in_threadpool(driver.drive_once)
            idle = progress.idle
            done[0] += progress.jobs_done
        except Exception:  # noqa: BLE001 - a fault of ours or of the disk must not end the driver for good
            _log.exception("a pass of the driver failed")
        if idle:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(kick.wait(), every_s)


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
