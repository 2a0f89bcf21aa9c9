"""Leader and helper die at any write, and batches that the leader selects stay whole: each report is in one of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from interlock.dap.collector import Collected
from interlock.dap.messages import LEADER_SELECTED
from tests.sim.reaper import Reaper
from tests.unit.dap_world import PRECISION, World, bits


def whole_run(world: World, reports: list[Any], results: dict[str, Collected]) -> None:
    """Report, and collect batch after batch until there are two; what is known already is not counted again."""
    assert world.upload(*reports) == []
    while len(results) < 2:
        found = world.collect_next()
        assert results.setdefault(found.mark, found).sums == found.sums
        world.collector.taken(found.place)


@pytest.mark.parametrize("durable", [False, True], ids=["before", "after"])
def test_a_death_at_any_write_of_a_batch_that_its_age_closes_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    """A batch of five that is full, and one of three that waited an epoch for two more."""
    reaper = Reaper(monkeypatch, durable=durable)
    for folder in reaper.moments(tmp_path):
        world = World(folder, job_size=2, batch_mode=LEADER_SELECTED, batch_size=5)
        reports, results = [world.report(bits(place)) for place in range(8)], dict[str, Collected]()
        reaper.life(partial(aged_run, world, reports, results), world.restart)
        totals = [sum(column) for column in zip(*(found.sums for found in results.values()), strict=True)]
        assert totals[:9] == [1] * 8 + [0], f"died at write {reaper.moment}"
        assert [found.report_count for found in results.values()] == [5, 3]
        world.close()
    assert reaper.deaths > 20, "every write of a run was a moment to die at"


def aged_run(world: World, reports: list[Any], results: dict[str, Collected]) -> None:
    assert world.upload(*reports) == []
    while len(results) < 2:
        if len(results) == 1:
            world.drive()
            world.clock.advance(PRECISION)
        found = world.collect_next()
        assert results.setdefault(found.mark, found).sums == found.sums
        world.collector.taken(found.place)


@pytest.mark.parametrize("durable", [False, True], ids=["before", "after"])
def test_a_death_at_any_write_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    reaper = Reaper(monkeypatch, durable=durable)
    for folder in reaper.moments(tmp_path):
        world = World(folder, job_size=2, batch_mode=LEADER_SELECTED)
        reports, results = [world.report(bits(place)) for place in range(6)], dict[str, Collected]()
        reaper.life(partial(whole_run, world, reports, results), world.restart)
        totals = [sum(column) for column in zip(*(found.sums for found in results.values()), strict=True)]
        assert totals[:7] == [1] * 6 + [0], f"died at write {reaper.moment}"
        assert [found.report_count for found in results.values()] == [3, 3]
        world.close()
    assert reaper.deaths > 20, "every write of a run was a moment to die at"
