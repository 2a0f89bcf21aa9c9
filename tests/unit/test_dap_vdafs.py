"""Every type of Prio3 as a task: made, reported, verified by both aggregators, collected, with noise and without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from interlock.base.errors import BadInput
from interlock.dap import budget as budget_module
from interlock.dap.noise import Mechanism, Noise
from interlock.dap.task import Task, TaskRefused, task_of
from interlock.node.parties import vdaf_of
from interlock.node.roles.tasks import VDAFS, Wanted, described, made_task
from tests.unit import dap_world
from tests.unit.dap_world import World

URLS = ("http://127.0.0.1:1", "http://127.0.0.1:2")
# vdaf, length, most; three reports; what they add up to
CASES = [
    ("count", 1, 1, [[1], [0], [1]], (2,)),
    ("sum", 1, 200, [[200], [7], [0]], (207,)),
    ("sumvec", 3, 1, [[1, 0, 1], [1, 0, 0], [1, 1, 0]], (3, 1, 1)),
    ("sumvec", 3, 9, [[9, 0, 1], [9, 0, 0], [9, 5, 0]], (27, 5, 1)),
    ("histogram", 4, 1, [[0], [3], [3]], (1, 0, 0, 2)),
    ("multihot", 5, 2, [[1, 1, 0, 0, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 0]], (2, 1, 0, 0, 1)),
]


def made(vdaf: str, length: int, most: int, noise: Noise | None = None, members: str = "") -> Task:
    wanted = Wanted("t", length, *URLS, vdaf=vdaf, most=most, min_batch=3, demo=True, noise=noise, members=members)
    return made_task(wanted, 1_800_000_000_000_000)


@pytest.fixture
def make_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Task], World]]:
    made: list[World] = []

    def make(task: Task) -> World:
        monkeypatch.setattr(dap_world, "task", lambda *_: task)
        monkeypatch.setattr(dap_world, "vdaf_of", vdaf_of)
        monkeypatch.setattr(dap_world, "VDAF", vdaf_of(task))
        made.append(World(tmp_path))
        return made[-1]

    yield make
    for world in made:
        world.close()


@pytest.mark.parametrize(("vdaf", "length", "most", "reports", "sums"), CASES)
@pytest.mark.parametrize("noise", [None, Noise(Mechanism.LAPLACE, Fraction(1), Fraction(2))])
def test_a_task_of_each_type_is_counted(
    make_world: Callable[[Task], World],
    monkeypatch: pytest.MonkeyPatch,
    vdaf: str,
    length: int,
    most: int,
    reports: list[list[int]],
    sums: tuple[int, ...],
    noise: Noise | None,
) -> None:
    monkeypatch.setattr(budget_module, "sample", lambda noise, shape, rng: [-2] * shape.length)
    world = make_world(made(vdaf, length, most, noise))
    assert world.upload(*map(world.report, reports)) == []
    off = 0 if noise is None else -4
    assert world.collect(world.hour()).sums == tuple(total + off for total in sums)


@pytest.mark.parametrize(("vdaf", "length", "most", "reports", "sums"), CASES)
def test_a_task_of_each_type_is_described_and_reads_back(
    vdaf: str, length: int, most: int, reports: list[list[int]], sums: tuple[int, ...]
) -> None:
    task = made(vdaf, length, most)
    assert task_of(task.configuration, demo=True) == task
    said = described(task)
    assert (said["vdaf"], said["length"]) == (VDAFS[task.config.vdaf_type], length)
    assert said["most"] == (most if vdaf in ("sum", "sumvec") else 1)


@pytest.mark.parametrize(("vdaf", "length", "most"), [("sum", 1, 0), ("multihot", 3, 4), ("sumvec", 1 << 17, 65_535)])
def test_a_type_with_parameters_that_cannot_be_is_refused(vdaf: str, length: int, most: int) -> None:
    with pytest.raises(BadInput, match=f"the type of count, {vdaf}"):
        made(vdaf, length, most)


def test_a_catalog_is_counted_by_one_bit_a_place_and_by_nothing_else() -> None:
    for vdaf, most in (("sum", 1), ("sumvec", 2), ("multihot", 1)):
        with pytest.raises(BadInput, match="counts a catalog by one bit a place"):
            made_task(Wanted("t", 2, *URLS, catalog=bytes(32), vdaf=vdaf, most=most, demo=True, min_batch=3), 0)


@pytest.mark.parametrize("vdaf", ["count", "sum"])
def test_a_type_whose_reports_no_proof_could_be_bound_to_takes_none(vdaf: str) -> None:
    with pytest.raises(TaskRefused, match="binds no report"):
        made(vdaf, 1, 1, members="blind-token")
