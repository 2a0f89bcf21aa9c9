"""A collector, with a leader or without, that wants a batch's sums without their noise, or a budget to be wasted."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from interlock.base.errors import InterlockError
from interlock.dap import driver as driver_module
from interlock.dap import helper as helper_module
from interlock.dap.batches import query_for, selector_for
from interlock.dap.collector import Collected, Pending
from interlock.dap.jobs import AggregateShareReq, CollectionJobReq
from interlock.dap.messages import Interval
from interlock.dap.noise import Mechanism, Noise
from interlock.dap.problems import DapProblem, ProblemType
from tests.unit.dap_world import World, bits

NOISE = Noise(Mechanism.GAUSSIAN, Fraction(1), Fraction(100))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Two hours with reports, and a budget that no honest question of them meets."""
    made = World(tmp_path, noise=NOISE)
    for _ in range(2):
        assert made.upload(*(made.report(bits(0, 1)) for _ in range(4))) == []
        made.drive()
        made.clock.advance(3600)
    yield made
    made.close()


def asked(world: World, interval: Interval) -> Collected | None:
    """What a question comes to, whatever state its batch is in."""
    with contextlib.suppress(InterlockError):
        found = world.collector.ask(interval)
        world.drive()
        found = world.collector.poll(found) if isinstance(found, Pending) else found
        return found if isinstance(found, Collected) else None
    return None


def batches(world: World) -> list[int]:
    return [len(budget.rows(world.task.task_id)) for budget in world.budgets]


def test_however_a_batch_is_asked_for_its_noise_is_drawn_once(world: World) -> None:
    hour = world.hour(2)
    wider = [dataclasses.replace(hour, start=hour.start - back, duration=n) for back in (0, 1) for n in (2, 3, 4)]
    heard = set()
    for interval in (hour, *wider, hour, hour, *reversed(wider), hour):
        found = asked(world, interval)
        heard |= {found.sums} if found else set()
        world.restart()
    assert len(heard) == 1
    assert batches(world) == [1, 1]


def test_a_wide_batch_leaves_no_narrow_one_to_take_from_it(world: World) -> None:
    hour = world.hour(2)
    both = asked(world, dataclasses.replace(hour, duration=2))
    assert both is not None
    assert both.report_count == 8
    assert [asked(world, world.hour(back)) for back in (2, 1)] == [None, None]
    assert [row.cost for row in world.budgets[1].rows(world.task.task_id)] == [4]


def test_a_leader_that_asks_wrongly_spends_nothing_of_the_helpers_budget(world: World) -> None:
    hour = world.hour(2)
    job = CollectionJobReq(query_for(dataclasses.replace(hour, duration=2)), b"", ())
    for selection, count in ((hour, 3), (hour, 4), (dataclasses.replace(hour, duration=2), 8)):
        body = AggregateShareReq(job, selector_for(selection), count, bytes(32)).encode()
        with pytest.raises(DapProblem) as caught:
            world.helper.process_aggregate_share(world.task.task_id, body)
        assert caught.value.kind is ProblemType.BATCH_MISMATCH
    assert batches(world) == [0, 0]
    assert asked(world, hour) is not None


@pytest.mark.parametrize(("module", "side"), [(driver_module, 0), (helper_module, 1)], ids=["leader", "helper"])
def test_a_death_between_the_charge_and_the_answer_costs_once_and_shows_one_noise(
    world: World, monkeypatch: pytest.MonkeyPatch, module: object, side: int
) -> None:
    def dies(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "seal_aggregate_share", dies)
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                asked(world, world.hour(2))
            world.restart()
    assert batches(world)[side] == 1, "what is charged stays charged"
    first = asked(world, world.hour(2))
    world.restart()
    assert first is not None
    assert asked(world, world.hour(2)) == first
    assert batches(world) == [1, 1]
