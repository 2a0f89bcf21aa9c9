"""How long an uploaded report waits until it can be collected: a bound that is stated, on a clock that tests own.

With a helper that answers: `patience` for company in a job, one pass of a driver, and where the driver dies that had
the job, one lease more. docs/reference/dap-stores.md states the same.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.base.clock import MICROSECONDS
from interlock.dap import driver as driver_module
from interlock.dap.collector import Pending
from interlock.dap.driver import LEASE_US, Driver
from interlock.dap.messages import LEADER_SELECTED
from interlock.dap.shares import KeyRing
from interlock.node.config import ServeConfig
from interlock.node.roles.work import DRIVE_EVERY_S
from tests.unit.dap_world import PRECISION, World, bits, unreachable, vdaf_of

PATIENCE_S = 10
SIZE = 4


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def driver_of(world: World, owner: str = "") -> Driver:
    return Driver(
        *({world.task.task_id: world.held}, KeyRing([world.leader_key]), world.leader_store, vdaf_of, world.clock),
        *(secrets.token_bytes, world.post),
        job_size=SIZE,
        patience_us=PATIENCE_S * MICROSECONDS,
        owner=owner,
    )


class Dead(BaseException):
    """No driver survives this, nor gives anything back."""


def dies() -> None:
    raise Dead


def counted(world: World) -> int:
    return int(world.leader_store.states(world.task.task_id).aggregated)


def jobs(world: World) -> int:
    return sum(url.endswith("aggregation_jobs") for url, _ in world.post.sent)


def test_what_operators_are_told_is_what_is_served() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/reference/dap-stores.md").read_text()
    assert f"patience_seconds = {ServeConfig.patience_s:g} " in page
    assert "at least every second" in page
    assert DRIVE_EVERY_S == 1
    assert "a lease of two minutes" in page
    assert "It waits for that one epoch at most" in page
    assert LEASE_US == 120 * MICROSECONDS
    assert f"`keep_days` ({ServeConfig.keep_s / 86_400:g})" in page


def test_a_job_holds_fewer_reports_where_they_are_long(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "JOB_BYTES", 2 * world.task.shape.share_bytes)
    world.upload(*(world.report(bits(i)) for i in range(5)))
    world.clock.advance(PATIENCE_S)
    driver = driver_of(world)
    while driver.drive_once().jobs_made:
        pass
    assert (jobs(world), counted(world)) == (3, 5)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(gaps=st.lists(st.integers(0, 13), min_size=1, max_size=9))
def test_each_report_counts_within_the_patience_and_one_pass_and_few_jobs_carry_them(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[int]
) -> None:
    world = World(tmp_path_factory.mktemp("lively"))
    driver = driver_of(world)
    uploaded: list[int] = []
    now = 0
    for gap in [*gaps, PATIENCE_S + 1]:
        for _ in range(gap):  # a pass a second
            now += 1
            world.clock.advance(1)
            driver.drive_once()
            due = sum(at <= now - PATIENCE_S - 1 for at in uploaded)
            assert counted(world) >= due, f"at {now}, of {uploaded}"
        if len(uploaded) < len(gaps):
            assert world.upload(world.report(bits(len(uploaded)))) == []
            uploaded.append(now)
    assert counted(world) == len(gaps)
    assert jobs(world) <= len(gaps) // SIZE + now // PATIENCE_S + 1, "stragglers share their jobs"
    world.close()


@pytest.fixture
def selecting(tmp_path: Path) -> Iterator[World]:
    """A batch is full with six reports, and needs three."""
    found = World(tmp_path, batch_mode=LEADER_SELECTED, batch_size=6)
    yield found
    found.close()


def had(world: World, driver: Driver) -> int:
    """How many reports the next batch has, where it is there after one pass."""
    asked = world.collector.ask_next()
    if isinstance(asked, Pending):
        driver.drive_once()
        driver.drive_once()
        asked = world.collector.ask_next()
    return 0 if isinstance(asked, Pending) else asked.report_count


def test_a_batch_that_holds_the_least_waits_an_epoch_for_the_rest_and_no_longer(selecting: World) -> None:
    driver = driver_of(selecting)
    assert selecting.upload(*(selecting.report(bits(i)) for i in range(4))) == []
    driver.drive_once()
    assert counted(selecting) == 4
    selecting.clock.advance(PRECISION - 1)
    assert had(selecting, driver) == 0
    selecting.clock.advance(1)
    assert had(selecting, driver) == 4


def test_an_old_batch_is_ready_with_the_report_that_it_lacked_and_that_waits_for_no_patience(selecting: World) -> None:
    driver = driver_of(selecting)
    assert selecting.upload(*(selecting.report(bits(i)) for i in range(2))) == []
    selecting.clock.advance(PATIENCE_S)
    driver.drive_once()
    selecting.clock.advance(5 * PRECISION)
    assert had(selecting, driver) == 0, "two are too few, however long they wait"
    assert selecting.upload(selecting.report(bits(2))) == []
    assert had(selecting, driver) == 3


def test_a_question_makes_no_jobs_of_single_reports(selecting: World) -> None:
    driver = driver_of(selecting)
    selecting.collector.ask_next()
    for place in range(3):
        assert selecting.upload(selecting.report(bits(place))) == []
        driver.drive_once()
    assert jobs(selecting) == 0
    selecting.clock.advance(PATIENCE_S)
    driver.drive_once()
    assert (jobs(selecting), counted(selecting)) == (1, 3)


def test_a_collector_that_asks_waits_for_no_patience(world: World) -> None:
    driver = driver_of(world)
    assert world.upload(*(world.report(bits(i)) for i in range(SIZE - 1))) == []
    assert driver.drive_once().idle
    world.collector.ask(world.hour())
    driver.drive_once()
    assert counted(world) == SIZE - 1


def test_a_full_job_waits_for_nothing(world: World) -> None:
    driver = driver_of(world)
    assert world.upload(*(world.report(bits(i)) for i in range(SIZE + 1))) == []
    driver.drive_once()
    assert counted(world) == SIZE


def test_when_a_driver_dies_over_a_job_another_has_it_counted_one_lease_later(world: World) -> None:
    assert world.upload(*(world.report(bits(i)) for i in range(SIZE))) == []
    world.post.before = dies
    with pytest.raises(Dead):
        driver_of(world, "first").drive_once()
    world.post.before = lambda: None
    other = driver_of(world, "second")
    other.drive_once()
    assert counted(world) == 0, "it is still the first one's"
    world.clock.advance(LEASE_US / MICROSECONDS)
    other.drive_once()
    assert counted(world) == SIZE


def test_a_driver_that_starts_again_under_its_name_waits_for_no_lease(world: World) -> None:
    assert world.upload(*(world.report(bits(i)) for i in range(SIZE))) == []
    world.post.before = dies
    with pytest.raises(Dead):
        driver_of(world, "first").drive_once()
    world.post.before = lambda: None
    driver_of(world, "second").drive_once()
    assert counted(world) == 0
    driver_of(world, "first").drive_once()
    assert counted(world) == SIZE


def test_a_helper_that_does_not_answer_costs_no_lease(world: World) -> None:
    assert world.upload(*(world.report(bits(i)) for i in range(SIZE))) == []
    world.post.before = unreachable
    assert driver_of(world).drive_once().trouble is not None
    world.post.before = lambda: None
    driver_of(world).drive_once()
    assert counted(world) == SIZE


def test_a_worker_makes_jobs_and_leaves_collecting_to_the_leader(world: World) -> None:
    about = ({world.task.task_id: world.held}, KeyRing([world.leader_key]), world.leader_store, vdaf_of, world.clock)
    worker = Driver(*about, secrets.token_bytes, world.post, collects=False)
    leader = Driver(*about, secrets.token_bytes, world.post, aggregates=False)
    assert world.upload(*(world.report(bits(i)) for i in range(3))) == []
    world.collector.ask(world.hour())
    leader.drive_once()
    assert counted(world) == 0
    worker.drive_once()
    worker.drive_once()
    assert counted(world) == 3
    assert jobs(world) == len(world.post.sent), "no share was asked for"
    leader.drive_once()
    leader.drive_once()
    assert world.collector.ask(world.hour()).report_count == 3  # type: ignore[union-attr]
