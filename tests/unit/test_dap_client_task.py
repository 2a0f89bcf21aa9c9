"""The task's file that members and the collector are handed: no secret in it, and no way to weaken what it says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.base.errors import InterlockError
from interlock.base.files import BadState, NewerFormat
from interlock.dap.messages import LEADER_SELECTED, HpkeConfig
from interlock.dap.task import TIME_MOST, AggregatorTask, TaskRefused, task_of
from interlock.dap.taskfile import dump_client_task, dump_task, load_client_task, load_task
from tests.unit.dap_world import configuration


@given(st.integers(10, 1 << 40), st.integers(1, 1 << 40))
def test_a_task_survives_its_client_file(least: int, precision: int) -> None:
    task = task_of(configuration(least=least, precision=precision))
    assert load_client_task(dump_client_task(task), where="f") == task


def test_a_demonstration_stays_one() -> None:
    task = task_of(configuration(least=3), demo=True)
    assert load_client_task(dump_client_task(task), where="f").demo is True


def test_a_client_file_holds_the_configuration_and_nothing_else() -> None:
    assert set(json.loads(dump_client_task(task_of(configuration(least=10))))) == {
        "format",
        "v",
        "configuration",
        "demo",
        "draft",
    }


def test_a_batch_below_the_floor_is_refused_outside_a_demonstration() -> None:
    data = dump_client_task(task_of(configuration(least=3), demo=True)).replace(b"true", b"false")
    with pytest.raises(TaskRefused, match="says too much about each"):
        load_client_task(data, where="f")


def test_an_aggregators_file_is_no_client_file() -> None:
    held = AggregatorTask(task_of(configuration(least=10)), b"v" * 32, HpkeConfig(9, 32, 1, 1, b"k" * 32))
    with pytest.raises(BadState, match="interlock-dap-client-task"):
        load_client_task(dump_task(held), where="f")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"configuration": "', b'"configuration": "?'),
        (b'"demo": false', b'"demo": 0'),
        (b'"demo": false', b'"other": false'),
        (b'"demo": false', b'"demo": false, "more": 1'),
        (b',\n "draft": "dap-18"', b""),
    ],
)
def test_a_damaged_client_file_is_refused_by_name(old: bytes, new: bytes) -> None:
    data = dump_client_task(task_of(configuration(least=10)))
    assert old in data
    with pytest.raises(BadState, match=r"the file: is damaged") as caught:
        load_client_task(data.replace(old, new), where="the file")
    assert "\n" not in str(caught.value)


def test_a_newer_client_file_is_refused() -> None:
    data = dump_client_task(task_of(configuration(least=10)))
    with pytest.raises(NewerFormat):
        load_client_task(data.replace(b'"v": 2', b'"v": 4'), where="f")


def selected(size: int | None = None) -> AggregatorTask:
    """A task whose leader selects batches, each of ten reports or more."""
    task = task_of(configuration(least=10, batch_mode=LEADER_SELECTED), batch_size=size)
    return AggregatorTask(task, b"v" * 32, HpkeConfig(9, 32, 1, 1, b"k" * 32))


@given(st.integers(10, TIME_MOST))
def test_the_size_that_batches_are_filled_to_stands_in_both_files(size: int) -> None:
    held = selected(size)
    assert held.task.batch_size == size
    assert load_task(dump_task(held), where="f") == held
    assert load_client_task(dump_client_task(held.task), where="f") == held.task


def test_without_a_size_batches_have_the_least_that_they_need_and_so_have_those_of_older_files() -> None:
    held = selected()
    assert held.task.batch_size == 10
    for data, load in ((dump_task(held), load_task), (dump_client_task(held.task), load_client_task)):
        body = json.loads(data)
        assert (body.pop("v"), body.pop("batch_size")) == (3, 10)
        assert load(json.dumps({**body, "v": 2}).encode(), where="f") == load(data, where="f")


def test_a_task_of_time_intervals_has_no_size_and_is_written_as_an_older_interlock_reads_it() -> None:
    data = dump_client_task(task_of(configuration(least=10)))
    assert json.loads(data)["v"] == 2
    with pytest.raises(TaskRefused, match="as large as their reports make them"):
        load_client_task(json.dumps({**json.loads(data), "v": 3, "batch_size": 10}).encode(), where="f")


@pytest.mark.parametrize(
    ("size", "told"),
    [
        (9, "each needs 10 at least"),
        (1 << 63, "not a number"),
        (0, "not a number"),
        (-1, "not a number"),
        (True, "not a number"),
        ("12", "not a number"),
        (None, "not a number"),
    ],
)
def test_a_size_that_no_batch_can_have_is_refused(size: object, told: str) -> None:
    held = selected(12)
    for data, load in ((dump_task(held), load_task), (dump_client_task(held.task), load_client_task)):
        with pytest.raises(InterlockError, match=told):
            load(json.dumps({**json.loads(data), "batch_size": size}).encode(), where="f")


def test_a_task_that_is_held_with_another_size_is_not_the_same() -> None:
    selected(12).demand_same(selected(12))
    with pytest.raises(TaskRefused, match="batches of 12 reports"):
        selected(20).demand_same(selected(12))


@given(st.binary(max_size=200))
def test_any_bytes_are_no_client_file_in_one_line(data: bytes) -> None:
    with pytest.raises(InterlockError) as caught:
        load_client_task(data, where="f")
    assert "\n" not in str(caught.value)
