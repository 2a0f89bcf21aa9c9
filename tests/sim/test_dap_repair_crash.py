"""Leader or helper dies at any write while a batch is repaired, on both stores: once, and the sums are exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.dap.collector import Collected, Pending
from interlock.dap.messages import LEADER_SELECTED, TIME_INTERVAL
from tests.sim.dap_parts import Mortal
from tests.sim.reaper import Killed
from tests.unit.dap_stores import Stores, stores_of
from tests.unit.dap_world import World
from tests.unit.test_dap_repair import JOBS, REPAIRS, each_of_nine, execute, nine, posted

SUMS = [1, 1, 1, 0, 0, 0, 1, 1, 1] + [0] * 7


def begun(folder: Path, mode: int, stores: Stores) -> World:
    """Three jobs of three reports each; of the second one the helper alone holds what it committed, or the leader."""
    if mode == TIME_INTERVAL:
        world = World(folder, job_size=3, stores=stores)
        nine(world)
        return world
    world = World(folder, job_size=3, stores=stores, batch_mode=mode, batch_size=9)
    each_of_nine(world)
    lost = world.helper.process_aggregation_init(world.task.task_id, posted(world, JOBS)[1]).id
    execute(world, "DELETE FROM accumulators WHERE job = ?", lost)
    return world


def asked(world: World) -> Collected | Pending:
    return world.collector.ask_next() if world.task.leader_selected else world.collector.ask(world.hour())


def collected(world: World) -> Collected:
    """Pass after pass, until the collector has its sums."""
    asked(world)
    for _ in range(8):
        world.driver.drive_once()
        found = asked(world)
        if isinstance(found, Collected):
            return found
    raise AssertionError("the batch did not get ready")


def lived_on(world: World, party: str, write: int, *, durable: bool) -> tuple[bool, bool]:
    """Collect, with one party's death at its n-th write from now, and start again.

    Whether it died, and whether it came to as many writes; one that was rolled back anyway kills nobody.
    """
    mortal, died = Mortal(getattr(world, f"{party}_store")), False
    mortal.doom(write, durable=durable)
    try:
        collected(world)
    except Killed:
        died = True
    mortal.bury()
    sent = world.post.sent
    world.restart()
    world.post.sent += sent
    return died, mortal._left is not None and mortal._left <= 0


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
@pytest.mark.parametrize("party", ["leader", "helper"])
@pytest.mark.parametrize("durable", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("mode", [TIME_INTERVAL, LEADER_SELECTED], ids=["interval", "selected"])
def test_a_death_at_any_write_repairs_once_and_loses_nothing(
    tmp_path: Path, kind: str, party: str, durable: bool, mode: int
) -> None:
    writes, deaths, reached = 0, 0, True
    while reached:
        folder = tmp_path / str(writes)
        folder.mkdir()
        stores = stores_of(kind, folder)
        world = begun(folder, mode, stores)
        writes += 1
        died, reached = lived_on(world, party, writes, durable=durable)
        deaths += died
        found = collected(world)
        assert (found.report_count, list(found.sums)) == (6, SUMS), f"died at write {writes}"
        assert len(set(posted(world, REPAIRS))) == 1
        for store in (world.leader_store, world.helper_store):
            assert [repair.kept for repair in store.repairs(world.task.task_id)] == [6]
        states = world.leader_store.states(world.task.task_id)
        assert (states.aggregated, states.rejected) == (6, 3)
        world.close()
        stores.drop()
    assert deaths >= {"leader": 5, "helper": 2}[party], "each write of a repair was a moment to die at"
