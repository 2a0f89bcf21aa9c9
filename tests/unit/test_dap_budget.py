"""Noise in a release: full from each side, once a batch, within a budget that outlives kill -9."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest

from interlock.base.primitives import Rng
from interlock.dap import budget as budget_module
from interlock.dap.budget import BARE, Charge, NoisyRelease
from interlock.dap.collector import BadCollection, Collected, Pending
from interlock.dap.messages import Extension, TaskConfiguration
from interlock.dap.noise import NOISE, Mechanism, Noise, Shape
from interlock.dap.problems import BudgetSpent, DapProblem, ProblemType, problem_type
from interlock.dap.task import TaskRefused, task_of
from interlock.dap.transport import Reply
from interlock.node.storage.dap_budget import BudgetStore, BudgetTables, PostgresBudgetStore
from tests.postgres import drop_schema, shared_postgres
from tests.unit.dap_stores import KINDS
from tests.unit.dap_world import LENGTH, World, bits, configuration, lost, vdaf_of

GAUSSIAN = Noise(Mechanism.GAUSSIAN, Fraction(2), Fraction(5))  # sigma squared 4 on 16 places; two batches fit

MakeWorld = Callable[..., World]


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[MakeWorld]:
    made: list[World] = []

    def make(noise: Noise = GAUSSIAN) -> World:
        made.append(World(tmp_path, noise=noise))
        return made[-1]

    yield make
    for world in made:
        world.close()


def filled(world: World, count: int = 4) -> World:
    assert world.upload(*[world.report(bits(0, 1)) for _ in range(count)]) == []
    world.drive()
    return world


def test_a_sum_comes_out_with_the_full_noise_of_both_aggregators(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = iter([[3] * LENGTH, [-5] * LENGTH])
    monkeypatch.setattr(budget_module, "sample", lambda noise, shape, rng: next(made))
    found = filled(make_world()).collect()
    assert found.sums == (2, 2, *[-2] * (LENGTH - 2))
    assert (found.report_count, found.noise) == (4, GAUSSIAN)
    assert next(made, None) is None


def test_real_noise_changes_the_sums_and_stays_within_its_reach(make_world: MakeWorld) -> None:
    found = filled(make_world()).collect()
    exact = (4, 4, *[0] * (LENGTH - 2))
    off = [a - b for a, b in zip(found.sums, exact, strict=True)]
    assert any(off)  # all 16 are zero with a chance below 2**-30
    assert max(map(abs, off)) < 40


def test_asked_again_a_batch_gives_the_same_noised_sums_for_no_further_cost(make_world: MakeWorld) -> None:
    world = filled(make_world())
    first = world.collect()
    world.restart()
    assert world.collect() == first
    assert [[row.cost for row in store.rows(world.task.task_id)] for store in world.budgets] == [[2], [2]]


def test_an_answer_that_is_lost_is_asked_for_again_under_the_same_noise(make_world: MakeWorld) -> None:
    world = filled(make_world())
    shares: list[bytes] = []
    pending = world.collector.ask(world.hour())

    def heard(reply: Reply) -> Reply:
        shares.append(reply.body)
        return lost(reply) if len(shares) < 3 else reply

    for _ in range(3):
        world.post.after = heard
        world.drive()
        world.restart()
    assert isinstance(pending, Pending)
    assert isinstance(world.collector.poll(pending), Collected)
    assert len(shares) > 1
    assert len(set(shares)) == 1
    assert len(world.budgets[1].rows(world.task.task_id)) == 1


def test_a_third_batch_is_refused_where_the_budget_is_for_two_and_nothing_of_it_is_closed(
    make_world: MakeWorld,
) -> None:
    world = make_world()
    for _ in range(2):
        filled(world).collect()
        world.clock.advance(3600 * 1_000_000)
    filled(world)
    hour = world.hour()
    pending = world.collector.ask(hour)
    sent = len(world.post.sent)
    world.drive()
    assert isinstance(pending, Pending)
    with pytest.raises(BudgetSpent) as caught:
        world.collector.poll(pending)
    assert caught.value.code == "budget-spent"
    assert len(world.post.sent) == sent, "the helper was not even asked"
    assert world.upload(world.report(bits(3))) == []
    world.restart()
    with pytest.raises(BudgetSpent):
        world.collector.ask(hour)


def test_the_helper_refuses_by_its_own_ledger_whatever_the_leader_believes(make_world: MakeWorld) -> None:
    world = filled(make_world())
    world.budgets[1].charge(Charge(world.task.task_id, b"another", Fraction(4), Fraction(5)), 0)
    pending = world.collector.ask(world.hour())
    world.drive()
    assert isinstance(pending, Pending)
    with pytest.raises(BudgetSpent):
        world.collector.poll(pending)
    assert [row.batch for row in world.budgets[1].rows(world.task.task_id)] == [b"another"]
    assert world.upload(world.report(bits(3))) == []
    world.drive()
    assert world.leader_store.states(world.task.task_id).aggregated == 5, "the batch is open on both sides still"


def test_a_batch_of_more_buckets_costs_more(make_world: MakeWorld) -> None:
    world = filled(make_world())
    two = dataclasses.replace(world.hour(1), duration=2)
    pending = world.collector.ask(two)
    world.drive()
    assert isinstance(pending, Pending)
    with pytest.raises(BudgetSpent):  # 2 * 2 * 2 of a budget of 5
        world.collector.poll(pending)
    assert isinstance(world.collect(), Collected)


def test_an_aggregator_without_a_ledger_releases_nothing_of_a_task_with_noise() -> None:
    task = task_of(configuration(noise=GAUSSIAN), demo=True)
    with pytest.raises(TaskRefused, match="none can be made here"):
        BARE(task, b"", b"", 1, BARE.draw(task))
    plain = task_of(configuration(), demo=True)
    assert BARE(plain, b"share", b"", 1, BARE.draw(plain)) == b"share"


def test_no_noise_is_drawn_while_a_store_is_locked(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sampling takes its time, and others would wait to write: here another thread writes while noise is drawn."""
    world, drawn = filled(make_world()), []

    def slow(noise: Noise, shape: Shape, rng: Rng) -> list[int]:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(world.helper_store.sweep, world.task.task_id, 0, 10).result(timeout=5)
            pool.submit(world.leader_store.sweep, world.task.task_id, 0, 10).result(timeout=5)
        drawn.append(noise)
        return [0] * shape.length

    monkeypatch.setattr(budget_module, "sample", slow)
    assert world.collect().sums[:3] == (4, 4, 0)
    assert drawn == [GAUSSIAN] * 2


def test_a_release_whose_noise_was_not_drawn_lets_nothing_out(make_world: MakeWorld) -> None:
    world = make_world()
    release = NoisyRelease(vdaf_of, world.budgets[0], world.clock, secrets.token_bytes)
    with pytest.raises(ValueError, match="was not drawn"):
        release(world.task, b"", b"batch", 1, b"")
    assert world.budgets[0].rows(world.task.task_id) == []


def test_sums_beyond_any_noise_are_no_result(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_module, "sample", lambda noise, shape, rng: [50] * LENGTH)
    with pytest.raises(BadCollection, match="not hold the same batch"):
        filled(make_world()).collect()


def test_a_tasks_noise_is_part_of_its_id() -> None:
    plain, noised = (task_of(configuration(noise=noise), demo=True) for noise in (None, GAUSSIAN))
    assert (plain.noise, noised.noise) == (None, GAUSSIAN)
    assert plain.task_id != noised.task_id


@pytest.mark.parametrize(("data", "why"), [(b"x", "early"), (bytes([9]) + GAUSSIAN.encode()[1:], "mechanism 9")])
def test_a_task_whose_noise_cannot_be_read_is_refused(data: bytes, why: str) -> None:
    good = TaskConfiguration.decode(configuration())
    changed = dataclasses.replace(good, extensions=(Extension(NOISE, data),))
    with pytest.raises(TaskRefused, match=why):
        task_of(changed.encode(), demo=True)


@pytest.fixture(params=KINDS)
def open_ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], BudgetTables]]:
    """Opens one ledger, as often as there are processes."""
    made: list[BudgetTables] = []
    url = shared_postgres() if request.param == "postgres" else ""
    role = f"t{secrets.token_hex(6)}"

    def make() -> BudgetTables:
        made.append(PostgresBudgetStore(url, role) if url else BudgetStore(tmp_path / "b.sqlite"))
        return made[-1]

    yield make
    for store in made:
        store.close()
    if url:
        drop_schema(url, f"interlock_{role}_budget")


def test_a_ledger_is_exact_counts_a_batch_once_and_is_kept(open_ledger: Callable[[], BudgetTables]) -> None:
    store, third = open_ledger(), Fraction(1, 3)
    for batch in (b"1", b"2", b"2", b"3", b"1"):
        store.charge(Charge(b"t", batch, third, Fraction(1)), 7)
    store.close()
    store = open_ledger()
    assert [(row.batch, row.cost, row.at) for row in store.rows(b"t")] == [(b, third, 7) for b in (b"1", b"2", b"3")]
    with pytest.raises(BudgetSpent, match="1 of 1 is spent"):
        store.charge(Charge(b"t", b"4", Fraction(1, 10**9), Fraction(1)), 8)
    with pytest.raises(BudgetSpent, match="1 of 1 is spent"):
        store.check(Charge(b"t", b"4", third, Fraction(1)))
    store.charge(Charge(b"u", b"4", third, Fraction(1)), 8)
    store.check(Charge(b"t", b"3", third, Fraction(1)))
    assert len(store.rows(b"t")) == 3


def test_processes_that_charge_at_once_never_spend_more_than_there_is(
    open_ledger: Callable[[], BudgetTables],
) -> None:
    stores = [open_ledger() for _ in range(4)]

    def charged(number: int) -> int:
        try:
            charge = Charge(b"t", str(number).encode(), Fraction(1), Fraction(5))
            stores[number % 4].charge(charge, number)
        except BudgetSpent:
            return 0
        return 1

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(charged, range(20))) == 5
    assert len(stores[0].rows(b"t")) == 5


def test_a_spent_budget_goes_over_the_wire_as_a_type_of_our_own() -> None:
    problem = BudgetSpent("it is spent", task_id=b"t" * 32)
    assert problem.status == 403
    assert b'"type": "mesh:dap/error/budgetSpent"' in problem.document()
    assert problem_type(problem.document()) is ProblemType.BUDGET_SPENT
    others = {problem_type(DapProblem(kind, "x").document()) for kind in ProblemType}
    assert others == set(ProblemType)


def test_a_leader_that_cannot_write_its_ledger_releases_nothing(make_world: MakeWorld) -> None:
    world = filled(make_world())
    pending = world.collector.ask(world.hour())
    world.driver.drive_once()  # freezes
    world.budgets[0].close()
    with pytest.raises(Exception):  # noqa: B017 - whatever the closed store says
        world.driver.drive_once()
    assert isinstance(pending, Pending)
    assert isinstance(world.collector.poll(pending), Pending)
