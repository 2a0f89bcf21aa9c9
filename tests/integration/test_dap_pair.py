"""`interlock mesh dap pair` as real processes: one command, two operators' folders, and nothing left when it ends."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.dap.taskfile import load_client_task
from interlock.node.tokens import grants_in

pytestmark = pytest.mark.slow


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "interlock", "mesh", "dap", *words]


def env(folder: Path) -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("INTERLOCK_")} | {"HOME": str(folder)}


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words), cwd=folder, env=env(folder), capture_output=True, text=True, timeout=180, check=False
    )


@contextlib.contextmanager
def pair(folder: Path, *words: str) -> Iterator[str]:
    """A running trial; what it printed first. It ends by Ctrl-C, in time and with exit code 0."""
    process = subprocess.Popen(
        command("pair", "--dir", "trial", *words),
        cwd=folder,
        env=env(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        lines: list[str] = []
        while not lines or not lines[-1].startswith("Ctrl-C"):
            line = process.stdout.readline()
            assert line, "".join(lines)
            lines.append(line)
        yield "".join(lines)
        process.send_signal(signal.SIGINT)
        assert process.wait(15) == 0
    finally:
        process.kill()
        process.communicate()


def told(printed: str, name: str) -> list[str]:
    """The first command of that name that the trial printed."""
    found = re.search(rf"^  interlock mesh dap ({name} .*)$", printed, flags=re.M)
    assert found is not None, printed
    return found[1].split()


def answers(url: str) -> bool:
    return (
        subprocess.run([sys.executable, "-c", f"import httpx; httpx.get({url!r})"], capture_output=True).returncode == 0
    )


def test_a_trial_is_one_command_prints_what_to_do_next_and_can_be_started_again(tmp_path: Path) -> None:
    with pair(tmp_path, "--epoch", "86400") as printed:
        assert "One operator runs both aggregators here" in printed
        sent = run(tmp_path, *told(printed, "submit"))
        assert sent.stdout.startswith("12 of 12 reports are stored at the leader"), sent
        second = run(tmp_path, "pair", "--dir", "trial")
        assert (second.returncode, second.stderr.count("\n")) == (2, 1)
        assert "is served by another process" in second.stderr
        first = run(tmp_path, *told(printed, "collect"), "--json")
        assert json.loads(first.stdout)["sums"] == [12, 10, 8, 6, 4, 3, 2, 1]
    leader = re.search(r"^leader +(\S+)$", printed, flags=re.M)
    assert leader is not None
    assert not answers(leader[1]), "the leader is gone with its starter"
    with pair(tmp_path) as again:
        assert told(again, "collect") == told(printed, "collect")
        assert run(tmp_path, *told(again, "collect"), "--json").stdout == first.stdout
    assert {p.name for p in (tmp_path / "trial").iterdir()} == {
        *(
            "leader-operator",
            "helper-operator",
            "collector",
            "members",
            "logs",
            "task.json",
            "reports.txt",
            "trial.json",
        )
    }


def test_a_trial_whose_leader_selects_batches_fills_one_to_its_size(tmp_path: Path) -> None:
    words = ("--batch-mode", "leader-selected", "--min-batch", "3", "--batch-size", "14", "--length", "1")
    with pair(tmp_path, *words) as printed:
        assert "each of 14 reports" in printed
        sent = run(tmp_path, *told(printed, "submit"))
        assert sent.stdout.startswith("14 of 14 reports are stored at the leader"), sent
        found = run(tmp_path, *told(printed, "collect"), "--json")
        assert json.loads(found.stdout)["report_count"] == 14, found
        waits = run(tmp_path, *told(printed, "collect"), "--wait", "0.1")
        assert (waits.returncode, waits.stderr.count("filled to 14 valid reports, for an epoch, and needs 3")) == (1, 1)


def test_what_each_operator_has_is_what_they_alone_would_have(tmp_path: Path) -> None:
    with pair(tmp_path):
        until = time.monotonic() + 20
        while not (tmp_path / "trial" / "helper-operator" / "helper.sqlite").exists():
            assert time.monotonic() < until
            time.sleep(0.05)
    leader, helper = (
        {p.name for p in (tmp_path / "trial" / f"{role}-operator").iterdir() if not p.name.endswith(("-wal", "-shm"))}
        for role in ("leader", "helper")
    )
    assert {"helper-token", "members.json", "collectors.json"} <= leader
    assert "leaders.json" in helper
    assert not {"members.json", "collectors.json", "helper-token"} & helper
    task = frozenset({load_client_task((tmp_path / "trial" / "task.json").read_bytes(), where="task").task_id})
    for name in ("leader-operator/members", "leader-operator/collectors", "helper-operator/leaders"):
        assert {grant.tasks == task for grant in grants_in(tmp_path / "trial" / f"{name}.json").values()} == {True}
    keys = [(tmp_path / "trial" / f"{role}-operator" / "hpke.json").read_bytes() for role in ("leader", "helper")]
    assert keys[0] != keys[1]
    for path in (tmp_path / "trial").rglob("*"):
        if (path.is_file() and path.suffix in (".token", ".json", ".sqlite")) or path.name == "leader-token":
            assert path.stat().st_mode & 0o077 == 0, path
    for token in (tmp_path / "trial" / "members").iterdir():
        assert token.read_text() not in (tmp_path / "trial" / "leader-operator" / "members.json").read_text()


@pytest.mark.parametrize(
    "words", [("--min-batch", "2"), ("--length", "0"), ("--noise", "laplace"), ("--batch-size", "9")]
)
def test_a_trial_that_cannot_be_leaves_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run(tmp_path, "pair", "--dir", "trial", *words)
    assert done.returncode in (1, 2)
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "trial").mkdir()
    (tmp_path / "trial" / "mine.txt").write_text("mine")
    done = run(tmp_path, "pair", "--dir", "trial")
    assert (done.returncode, "not empty" in done.stderr) == (2, True)
    assert [p.name for p in (tmp_path / "trial").iterdir()] == ["mine.txt"]
