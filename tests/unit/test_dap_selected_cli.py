"""`interlock mesh dap` for tasks whose leader selects batches: made, shown, collected batch by batch."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from interlock.base.fetch import Unreachable
from interlock.base.files import replace
from interlock.dap.collector import Collector
from interlock.dap.messages import LEADER_SELECTED
from interlock.dap.taskfile import dump_client_task, dump_key, load_client_task
from interlock.node.cli.main import main
from tests.unit.dap_http import TOKENS, Deployment

URLS = ("--leader", "https://dap.acme.example", "--helper", "https://dap.globex.example")
TRIAL = ("--members", "none", "--batch-mode", "leader-selected", "--length", "4")


def dap(*words: object) -> int:
    return main(["mesh", "dap", *map(str, words)])


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """Both aggregators behind HTTP; the words that name the collector's files."""
    for name, token in list(TOKENS.items()):
        monkeypatch.setitem(TOKENS, name, token.replace("-", ""))  # as a token's file has it
    with contextlib.ExitStack() as stack:
        deployment = Deployment(tmp_path, stack, batch_mode=LEADER_SELECTED)
        (tmp_path / "task.json").write_bytes(dump_client_task(deployment.task))
        replace(tmp_path / "collector.json", dump_key(deployment.collector_key))
        for name in ("collector", "acme", "globex", "initech"):
            replace(tmp_path / f"{name}.token", TOKENS[name].encode())
        yield ["--task", tmp_path / "task.json", "--key", tmp_path / "collector.json"]


def submitted(folder: Path, *members: str) -> None:
    for member in members:
        words = ("--task", folder / "task.json", "--token", folder / f"{member}.token", "--ones", "0")
        assert dap("submit", *words) == EXIT_OK


def collected(folder: Path, files: list[object], *words: object) -> int:
    return dap("collect", *files, "--token", folder / "collector.token", "--next", *words)


def test_such_a_task_is_made_and_says_what_a_sum_of_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dap("task", "create", "t", *URLS, *TRIAL, "--out", tmp_path / "t.json") == EXIT_OK
    task = load_client_task((tmp_path / "t.json").read_bytes(), where="t")
    assert task.leader_selected
    assert "a sum is of reports, and may hold several of one member" in capsys.readouterr().out
    assert dap("task", "show", tmp_path / "t.json", "--json") == EXIT_OK
    assert json.loads(capsys.readouterr().out)["batch_mode"] == "leader-selected"


def test_proofs_of_membership_and_such_batches_do_not_go_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (*URLS, *TRIAL[2:], "--out", tmp_path / "t.json")
    assert dap("task", "create", "t", *words) == EXIT_REFUSED
    assert "may hold a member many times" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_each_collect_is_of_another_batch_and_one_that_was_not_told_comes_again(
    tmp_path: Path,
    files: list[object],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    submitted(tmp_path, "acme", "globex", "initech")
    capsys.readouterr()
    with monkeypatch.context() as deaf:
        deaf.setattr(Collector, "taken", unheard)
        assert collected(tmp_path, files, "--json") == EXIT_OK
    told = capsys.readouterr()
    first = json.loads(told.out)
    assert f"batch {first['batch']} is here, and gives it again" in told.err
    assert collected(tmp_path, files, "--out", tmp_path / "first.json") == EXIT_OK
    assert "not how many senders" in capsys.readouterr().out
    assert json.loads((tmp_path / "first.json").read_text())["batch"] == first["batch"], "the same batch"
    assert collected(tmp_path, files, "--wait", 0.3) == EXIT_REFUSED, "no other is full"
    assert "the leader's next batch" in capsys.readouterr().err


def test_a_result_that_could_not_be_told_is_not_taken(
    tmp_path: Path, files: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Torn(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    submitted(tmp_path, "acme", "globex", "initech")
    with monkeypatch.context() as torn:
        torn.setattr(sys, "stdout", Torn())
        with contextlib.suppress(BrokenPipeError):
            assert collected(tmp_path, files) != EXIT_OK
    assert collected(tmp_path, files) == EXIT_OK, "it is there still"


@pytest.mark.parametrize("words", [("--first", 3), ("--epochs", 2), ("--running",)])
def test_the_next_batch_is_of_no_named_epochs(
    tmp_path: Path, files: list[object], capsys: pytest.CaptureFixture[str], words: tuple[object, ...]
) -> None:
    assert collected(tmp_path, files, *words) == EXIT_USAGE
    assert "name epochs" in capsys.readouterr().err
    assert dap("collect", *files, "--token", tmp_path / "collector.token", *words) == EXIT_USAGE
    assert "ask for the next with --next" in capsys.readouterr().err


def test_no_consensus_of_organisations_comes_from_such_a_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dap("task", "create", "t", *URLS, *TRIAL, "--out", tmp_path / "t.json") == EXIT_OK
    words = ["--task", str(tmp_path / "t.json"), "--key", "x", "--out", str(tmp_path / "said.json")]
    assert main(["mesh", "indicator", "consensus", "result.json", *words]) == EXIT_REFUSED
    assert "does not say of how many organisations" in capsys.readouterr().err


def unheard(self: Collector, place: str) -> None:
    raise Unreachable("does not answer", where=place)
