"""The loops that drive a leader's jobs: side by side, one collects, and no word that there is work is lost on any."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

from interlock.dap.driver import Driver, Progress
from interlock.node.roles.work import SIDE_BY_SIDE, Kick, driving

LONG_S = 60.0  # nobody waits so long here


class Counting:
    """A driver whose passes are counted by loop; the first ones meet, and end only once all loops are in one."""

    def __init__(self) -> None:
        self.together = threading.Barrier(SIDE_BY_SIDE)
        self.passes: list[bool] = []
        self.busy = 0

    def drive_once(self, *, collect: bool) -> Progress:
        self.passes.append(collect)
        if len(self.passes) <= SIDE_BY_SIDE:
            self.together.wait(10)
        busy, self.busy = self.busy, max(0, self.busy - 1)
        return Progress(jobs_done=busy)

    def stop(self) -> None:
        self.together.abort()


async def until(said: Any) -> None:
    for _ in range(1000):
        if said():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not come to that")


def test_passes_run_side_by_side_and_one_loop_collects() -> None:
    driver = Counting()

    async def run() -> None:
        async with driving(cast(Driver, driver), Kick(), LONG_S):
            await until(lambda: len(driver.passes) == SIDE_BY_SIDE)

    asyncio.run(run())
    assert sorted(driver.passes) == [False] * (SIDE_BY_SIDE - 1) + [True]


def test_a_kick_wakes_every_loop_and_so_does_work_that_another_has_done() -> None:
    driver, done = Counting(), [0]

    async def run() -> None:
        kick = Kick()
        async with driving(cast(Driver, driver), kick, LONG_S, done):
            await until(lambda: len(driver.passes) == SIDE_BY_SIDE and not driver.together.n_waiting)
            await asyncio.sleep(0.05)  # all are idle
            kick.set()
            await until(lambda: len(driver.passes) == 2 * SIDE_BY_SIDE)
            assert driver.passes.count(True) == 2
            await asyncio.sleep(0.05)
            driver.busy = 1
            kick.of(1).set()  # only one loop hears of it, and tells the others when it has done something
            await until(lambda: driver.passes.count(True) >= 3)

    asyncio.run(run())
    assert done == [1]
