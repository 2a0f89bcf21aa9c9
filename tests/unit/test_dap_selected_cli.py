"""`interlock mesh dap` for tasks whose leader selects batches: made, shown, collected batch by batch."""

from __future__ import annotations

import contextlib
import io
import json
import secrets
import sqlite3
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
from interlock.node.setup import make_aggregator
from interlock.node.storage.dap_tasks import TaskDirectory
from tests.unit.dap_http import TOKENS, Deployment, wait_until

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


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_a_size_of_batches_above_the_least_is_kept_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, words = tmp_path / "tasks" / "t.json", (*URLS, *TRIAL, "--batch-size", 30)
    out.parent.mkdir()
    assert dap("task", "create", "t", *words, "--out", out) == EXIT_OK
    assert "the leader selects, each of 30 reports; after an epoch, of those that are there" in told(capsys)
    assert load_client_task(out.read_bytes(), where="t").batch_size == 30
    assert dap("task", "show", out) == EXIT_OK
    assert "each of 30 reports" in told(capsys)
    assert dap("task", "show", out, "--json") == EXIT_OK
    assert json.loads(capsys.readouterr().out)["batch_size"] == 30
    assert dap("task", "list", "--dir", tmp_path) == EXIT_OK
    assert "leader-selected up to 30" in told(capsys)
    assert dap("task", "list", "--dir", tmp_path, "--json") == EXIT_OK
    assert [row["batch_size"] for row in json.loads(capsys.readouterr().out)["tasks"]] == [30]


def test_without_a_size_batches_have_the_least_and_those_of_epochs_have_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dap("task", "create", "t", *URLS, *TRIAL, "--out", tmp_path / "t.json") == EXIT_OK
    assert "the leader selects, each of 10 reports a sum" in told(capsys)
    words = (*URLS, "--members", "none", "--length", 4, "--out", tmp_path / "u.json")
    assert dap("task", "create", "u", *words) == EXIT_OK
    sizes = []
    for name in ("t", "u"):
        capsys.readouterr()
        assert dap("task", "show", tmp_path / f"{name}.json", "--json") == EXIT_OK
        sizes.append(json.loads(capsys.readouterr().out)["batch_size"])
    assert sizes == [10, None]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*TRIAL, "--batch-size", 9), "the batch size: is 10 or more"),
        ((*TRIAL, "--batch-size", 0), "the batch size: is 10 or more"),
        ((*TRIAL, "--batch-size", -5), "the batch size: is 10 or more"),
        ((*TRIAL, "--batch-size", 1 << 63), "the batch size: is 10 or more"),
        (("--members", "none", "--length", 4, "--batch-size", 30), "is for batches that the leader selects"),
    ],
)
def test_a_size_that_no_batch_of_the_task_can_have_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[object, ...], said: str
) -> None:
    assert dap("task", "create", "t", *URLS, *words, "--out", tmp_path / "t.json") == EXIT_USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert list(tmp_path.iterdir()) == []


def test_a_task_from_its_configuration_alone_has_the_least_unless_its_leader_says_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing of it stands in the configuration: that is what all agree on, and this is the leader's own affair."""
    assert dap("task", "create", "t", *URLS, *TRIAL, "--batch-size", 30, "--out", tmp_path / "t.json") == EXIT_OK
    task = load_client_task((tmp_path / "t.json").read_bytes(), where="t")
    (tmp_path / "taskprov.txt").write_text(task.configuration.hex())
    assert dap("task", "import", tmp_path / "taskprov.txt", "--out", tmp_path / "least.json") == EXIT_OK
    words = ("--batch-size", 40, "--out", tmp_path / "more.json")
    assert dap("task", "import", tmp_path / "taskprov.txt", *words) == EXIT_OK
    loaded = [load_client_task((tmp_path / f"{name}.json").read_bytes(), where="t") for name in ("least", "more")]
    assert [found.batch_size for found in loaded] == [10, 40]
    assert {found.task_id for found in loaded} == {task.task_id}
    capsys.readouterr()
    assert dap("task", "import", tmp_path / "taskprov.txt", "--batch-size", 3, "--out", tmp_path / "x.json") == 1
    assert "batches of 3 reports, and each needs 10" in capsys.readouterr().err


def test_an_aggregator_takes_the_size_on_with_the_task_and_holds_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_aggregator(tmp_path / "leader", secrets.token_bytes)
    assert dap("key", "--out", tmp_path / "collector.json", "--public", tmp_path / "collector.pub") == EXIT_OK
    for size in (30, 40):
        words = (*TRIAL, "--epoch", 86_400, "--batch-size", size, "--out", tmp_path / f"{size}.json")
        assert dap("task", "create", "t", *URLS, *words) == EXIT_OK
    took = ("--dir", tmp_path / "leader", "--collector", tmp_path / "collector.pub", "--secret", tmp_path / "secret")
    assert dap("task", "add", tmp_path / "30.json", *took) == EXIT_OK
    (held,) = TaskDirectory(tmp_path / "leader" / "tasks").values()
    assert held.task.batch_size == 30
    capsys.readouterr()
    assert dap("task", "add", tmp_path / "40.json", *took) == EXIT_REFUSED
    assert "held with batches of 30 reports, and a task never changes" in capsys.readouterr().err


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


def test_a_batch_of_which_the_two_hold_too_little_alike_is_told_and_another_may_be_asked_for(
    tmp_path: Path, files: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    submitted(tmp_path, "acme", "globex", "initech")
    with contextlib.closing(sqlite3.connect(tmp_path / "helper.db", timeout=20)) as helper:
        wait_until(lambda: helper.execute("SELECT sum(count) FROM accumulators").fetchone() == (3,))
        helper.execute("UPDATE accumulators SET count = 9")
        helper.commit()
    assert collected(tmp_path, files) == EXIT_REFUSED
    told = capsys.readouterr().err
    assert "the leader's next batch: has fewer than the 3 valid reports" in told
    assert "ask again for another" in told


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
