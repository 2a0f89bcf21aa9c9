"""The task's file that members and the collector are handed: no secret in it, and no way to weaken what it says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.base.errors import InterlockError
from interlock.base.files import BadState, NewerFormat
from interlock.dap.messages import HpkeConfig
from interlock.dap.task import AggregatorTask, TaskRefused, task_of
from interlock.dap.taskfile import dump_client_task, dump_task, load_client_task
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
        load_client_task(data.replace(b'"v": 2', b'"v": 3'), where="f")


@given(st.binary(max_size=200))
def test_any_bytes_are_no_client_file_in_one_line(data: bytes) -> None:
    with pytest.raises(InterlockError) as caught:
        load_client_task(data, where="f")
    assert "\n" not in str(caught.value)
