"""A DAP task in the commons: signed and logged once, read with its proof, and watched like everything else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.codec import Malformed
from interlock.base.errors import BadInput
from interlock.base.fetch import NotFound
from interlock.commons.indicators import BadCatalog
from interlock.commons.layout import MAX_DAP_TASK
from interlock.commons.logged import NotLogged
from interlock.commons.monitor import GRACE_US
from interlock.commons.updater import Stale
from tests.unit.commons_world import World, sign_past_the_log, world
from tests.unit.test_commons_monitor import Watched

DATA = b'{"format": "interlock-dap-client-task"}'


@pytest.fixture
def commons(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


def test_a_task_comes_with_its_proof_and_byte_for_byte(commons: World) -> None:
    done = commons.publisher.publish_dap_task("task-1", DATA)
    assert (done.entry.type, done.entry.ring, done.entry.version) == ("task", "dap-tasks", 1)
    assert commons.member("node").dap_task("task-1") == DATA


def test_a_task_never_changes(commons: World) -> None:
    first = commons.publisher.publish_dap_task("task-1", DATA)
    assert commons.publisher.publish_dap_task("task-1", DATA) == first
    with pytest.raises(BadCatalog, match="never changes"):
        commons.publisher.publish_dap_task("task-1", DATA + b" ")
    assert commons.member("node").dap_task("task-1") == DATA


@pytest.mark.parametrize("data", [b"", bytes(MAX_DAP_TASK + 1)])
def test_a_file_that_nobody_could_read_is_not_published(commons: World, data: bytes) -> None:
    with pytest.raises(BadInput, match="is empty, or larger"):
        commons.publisher.publish_dap_task("task-1", data)
    with pytest.raises(Malformed, match="task is not of"):
        commons.publisher.publish_dap_task("Task/1", DATA)


def test_a_task_that_nobody_published_is_not_there(commons: World) -> None:
    commons.publisher.publish_dap_task("task-1", DATA)
    with pytest.raises(NotFound):
        commons.member("node").dap_task("task-2")
    with pytest.raises(Malformed):
        commons.member("node").dap_task("../task-1")


def test_a_task_that_was_signed_past_the_log_is_refused(commons: World) -> None:
    commons.publisher.publish_dap_task("other", DATA)
    sign_past_the_log(commons, "tasks/task-1.json")
    with pytest.raises(NotLogged):
        commons.member("node").dap_task("task-1")


def test_a_task_of_a_commons_that_stands_still_is_refused(commons: World) -> None:
    commons.publisher.publish_dap_task("task-1", DATA)
    commons.clock.advance(2 * 86_400)
    with pytest.raises(Stale):
        commons.member("node").dap_task("task-1")


def test_a_monitor_finds_a_published_task_in_the_log_and_at_each_mirror(commons: World) -> None:
    commons.publisher.publish_dap_task("task-1", DATA)
    watched = Watched(commons)
    assert watched.look(GRACE_US + 1).open == ()
    watched.monitor.close()
