"""The demo as a stranger runs it: every step holds, nothing is left behind, and Ctrl-C ends all of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from interlock.base.errors import EXIT_REFUSED
from interlock.node.cli.main import main
from interlock.node.demo import cast
from interlock.node.demo.acts import Acts, Evidence
from interlock.node.demo.cast import CommandFailed

DEMO = [sys.executable, "-m", "interlock", "mesh", "demo"]
STEPS = 15


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def _wait_until_gone(pids: list[int]) -> None:
    until = time.monotonic() + 10
    while not all(map(_gone, pids)):
        assert time.monotonic() < until, f"still running: {[p for p in pids if not _gone(p)]}"
        time.sleep(0.05)


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    if not path.exists():
        pytest.skip("this system does not list a process's children")
    return [int(p) for p in path.read_text().split()]


@pytest.mark.slow
def test_every_step_of_the_demo_holds_and_every_process_is_gone(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    done = subprocess.run([*DEMO, "--json", "--keep", str(kept)], capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()[-2000:]
    result = json.loads(done.stdout)
    assert result["ok"] is True
    assert len(result["steps"]) == STEPS
    assert all(step["ok"] for step in result["steps"])
    assert set(result["processes"]) == {
        "acme", "borealis", "cobalt", "commons", "dap-helper", "dap-leader", "evil", "issuer", "log", "mirror",
        "witness-a.example", "witness-b.example",
    }  # fmt: skip
    _wait_until_gone(list(result["processes"].values()))
    for member in ("acme", "borealis", "cobalt"):
        assert (kept / member / "home" / "node.sqlite").exists()
    assert not [
        line for log in (kept / "logs").iterdir() for line in log.read_text().splitlines() if "Traceback" in line
    ]


def test_the_demo_refuses_a_folder_that_is_there(tmp_path: Path) -> None:
    done = subprocess.run([*DEMO, "--keep", str(tmp_path)], capture_output=True, timeout=300, check=False)
    assert done.returncode == 2
    assert done.stderr.decode().count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_step_that_does_not_hold_ends_the_demo_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Acts) -> Evidence:
        raise CommandFailed("was refused", where="publish")

    monkeypatch.setattr(Acts, "publish", refused)
    assert main(["mesh", "demo", "--json"]) == EXIT_REFUSED
    result = json.loads(capsys.readouterr().out)
    assert [step["ok"] for step in result["steps"]] == [True, True, False]
    assert (result["ok"], result["steps"][-1]["evidence"]) == (False, {"failed": "publish: was refused"})
    _wait_until_gone(list(result["processes"].values()))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_demo_takes_all_its_processes_with_it(number: signal.Signals, tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [*DEMO, "--keep", str(tmp_path / "kept")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert demo.stdout is not None
    try:
        for line in demo.stdout:
            if b"pack published" in line:
                break
        children = _children(demo.pid)
        assert len(children) >= 4
        demo.send_signal(number)
        _, err = demo.communicate(timeout=120)
    finally:
        demo.kill()
        demo.wait()
    _wait_until_gone(children)
    if number is not signal.SIGKILL:
        assert demo.returncode == 1
        assert err.decode() == "interlock: stopped\n"


def test_a_command_that_does_not_end_is_ended_and_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cast, "COMMAND_S", 0.1)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=subprocess.PIPE)
    with pytest.raises(CommandFailed, match="did not end within"):
        cast.Cast(tmp_path).finish(process, ["mesh", "update"])
    assert process.returncode == -signal.SIGKILL
