"""A DAP task in the commons: signed and logged once, read with its proof, and watched like everything else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.codec import Malformed
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, BadInput
from interlock.base.fetch import NotFound
from interlock.commons.indicators import BadCatalog
from interlock.commons.layout import MAX_DAP_TASK
from interlock.commons.logged import NotLogged
from interlock.commons.monitor import GRACE_US
from interlock.commons.task_withdrawal import TaskWithdrawn, build_withdrawal, parse_withdrawal
from interlock.commons.updater import Stale
from interlock.node.cli import mesh_dap_withdraw
from interlock.node.cli.main import main
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


def test_a_task_is_taken_back_once_for_all_in_the_log(commons: World) -> None:
    commons.publisher.publish_dap_task("task-1", DATA)
    done = commons.publisher.withdraw_task("task-1", "its key was lost")
    assert (done.entry.type, done.entry.name, done.entry.ring) == ("task", "task-1", "withdrawn-tasks")
    assert commons.publisher.withdraw_task("task-1", "its key was lost") == done
    with pytest.raises(BadCatalog, match="was withdrawn before"):
        commons.publisher.withdraw_task("task-1", "for another reason")
    for reader in (commons.member("node"), commons.publisher):
        with pytest.raises(TaskWithdrawn, match=r"was withdrawn by the commons \(its key was lost\)"):
            reader.dap_task("task-1")
    for again in (DATA, DATA + b" "):
        with pytest.raises(TaskWithdrawn):
            commons.publisher.publish_dap_task("task-1", again)


def test_only_what_was_published_is_taken_back_and_for_a_reason_of_one_line(commons: World) -> None:
    with pytest.raises(NotFound):
        commons.publisher.withdraw_task("task-1", "never was")
    commons.publisher.publish_dap_task("task-1", DATA)
    for why in ("", "two\nlines", "x" * 301):
        with pytest.raises(Malformed, match="why is not one line"):
            commons.publisher.withdraw_task("task-1", why)
    assert commons.member("node").dap_task("task-1") == DATA


def test_a_withdrawal_that_not_everybody_is_shown_takes_nothing_back_and_lets_nobody_go_on(commons: World) -> None:
    commons.publisher.publish_dap_task("task-1", DATA)
    sign_past_the_log(commons, "tasks/task-1.withdrawn.json")
    with pytest.raises(NotLogged):
        commons.member("node").dap_task("task-1")


def test_a_withdrawal_whose_bytes_are_none_or_anothers_is_refused(commons: World) -> None:
    made = build_withdrawal("task-2", "why")
    assert parse_withdrawal(made.data, where="w") == made
    for data in (b"", b"{}", made.data + b" ", made.data.replace(b"task-2", b"Task/2")):
        with pytest.raises(Malformed):
            parse_withdrawal(data, where="w")


def test_a_monitor_finds_a_withdrawal_in_the_log_and_at_each_mirror(commons: World) -> None:
    commons.publisher.publish_dap_task("task-1", DATA)
    commons.publisher.withdraw_task("task-1", "why")
    watched = Watched(commons)
    assert watched.look(GRACE_US + 1).open == ()
    watched.monitor.close()


def test_an_operator_takes_a_task_back_by_a_command(
    commons: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mesh_dap_withdraw, "publisher_of", lambda config, clock: commons.publisher)
    commons.publisher.publish_dap_task("task-1", DATA)

    def withdraw(name: str, why: str) -> int:
        command = ["mesh", "dap", "task", "withdraw", name, "--why", why, "--dir", str(commons.home / "commons")]
        return main(command)

    assert withdraw("task-1", "its key was lost") == EXIT_OK
    told = capsys.readouterr().out
    assert "task-1@withdrawn-tasks version 1" in told
    assert "is withdrawn, for ever" in told
    with pytest.raises(TaskWithdrawn):
        commons.member("node").dap_task("task-1")
    for name, why, said in (
        ("task-2", "why", "was not published here"),
        ("task-1", "x\ny", "why is not one line"),
        ("Task/1", "why", "task is not of"),
    ):
        assert withdraw(name, why) == EXIT_REFUSED
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line
