"""What a leader's job knows of its reports between two steps: held while it goes on, worked out again, or put down."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.dap.drafts import ReportError, Role
from interlock.dap.fates import Standing, Step
from interlock.dap.shares import new_key
from tests.sim.reaper import Killed
from tests.unit.dap_world import World, bits, unreachable


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def uploaded(world: World) -> list[bytes]:
    reports = [world.report(bits(place)) for place in range(3)]
    assert world.upload(*reports) == []
    return [report.metadata.report_id for report in reports]


def killed_while_asking(world: World) -> bytes:
    """Kill the leader once it has sent its job and before it has the answer; what it sent."""

    def die() -> None:
        raise Killed

    world.post.before = die
    with pytest.raises(Killed):
        world.drive()
    ((_, request),) = world.post.sent
    world.restart()
    return request


def test_a_leader_that_died_over_a_job_sends_the_same_bytes_whatever_its_clock_says_then(world: World) -> None:
    uploaded(world)
    hour = world.hour()
    request = killed_while_asking(world)
    world.clock.advance(-86_400)
    world.drive()
    assert [body for _, body in world.post.sent] == [request]
    world.clock.advance(86_400)
    assert world.collect(hour).sums[:4] == (1, 1, 1, 0)


def test_a_job_that_is_put_off_outlives_the_key_that_its_reports_are_sealed_to(world: World) -> None:
    uploaded(world)
    world.post.before = unreachable
    world.drive()
    world.leader_key = new_key(3, secrets.token_bytes)
    world.restart()
    assert world.collect().report_count == 3


def test_reports_whose_key_was_lost_with_the_leader_drop_out_and_are_told_so(world: World) -> None:
    ids = uploaded(world)
    killed_while_asking(world)
    world.leader_key = new_key(3, secrets.token_bytes)
    world.restart()
    world.drive()
    for report_id, known in world.leader_store.fates(world.task.task_id, ids).items():
        fate = known.fate
        assert (fate.report_id, fate.standing, fate.error) == (
            report_id,
            Standing.REJECTED,
            ReportError.HPKE_UNKNOWN_CONFIG_ID,
        )
        assert (fate.side, fate.step) == (Role.LEADER, Step.FINISH)
