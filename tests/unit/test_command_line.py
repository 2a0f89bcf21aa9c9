"""The edge of the command line: one line and the documented exit code, whatever the environment does to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.hook_process import environment

MAIN = "import sys; from interlock.__main__ import main; sys.exit(main())"
COMMANDS = [
    (),
    ("install-hook",),
    ("hook",),
    ("hook", "claude-code"),
    ("doctor",),
    ("policy",),
    ("policy", "test"),
    ("policy", "show"),
    ("mesh",),
]


def words(*argv: str, code: str = MAIN) -> list[str]:
    return [sys.executable, "-c", code, *argv]


def run(
    home: Path, *argv: str, shell: str = "", code: str = MAIN, **env: str | None
) -> subprocess.CompletedProcess[bytes]:
    """One command; `shell` says what a shell does to its descriptors ("2>&-"), an env of None takes a variable out."""
    variables = {k: v for k, v in (environment(home) | env).items() if v is not None}
    variables["PYTHONPATH"] = os.getcwd()
    line: Sequence[str] = words(*argv, code=code)
    if shell:
        line = ["/bin/sh", "-c", f'"$@" {shell}', "sh", *line]
    return subprocess.run(
        line, stdin=subprocess.DEVNULL, capture_output=True, env=variables, cwd=home, timeout=30, check=False
    )


def one_line(done: subprocess.CompletedProcess[bytes], code: int) -> str:
    text = done.stderr.decode()
    assert done.returncode == code, text
    assert text.startswith("interlock"), text
    assert text.count("\n") == 1, text
    assert done.stdout == b""
    return text


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_command_explains_itself(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = run(tmp_path, *command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(b"usage: interlock")
    assert done.stderr == b""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "argv",
    [("nothing-like-this",), ("policy", "tets", "x"), ("policy", "test"), ("doctor", "x"), ("install-hook", "nobody")],
)
def test_wrong_words_are_one_line_and_exit_code_2(tmp_path: Path, argv: tuple[str, ...]) -> None:
    assert "--help" in one_line(run(tmp_path, *argv), 2)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("argv", [("--help",), ("policy", "test", "builtin:coding-agent")])
def test_output_that_cannot_be_written_is_one_line_and_exit_code_2(tmp_path: Path, argv: tuple[str, ...]) -> None:
    assert "standard output" in one_line(run(tmp_path, *argv, shell=">/dev/full"), 2)


@pytest.mark.parametrize("argv", [("--help",), ("policy", "show", "builtin:coding-agent")])
def test_a_reader_that_goes_away_ends_it_in_silence(tmp_path: Path, argv: tuple[str, ...]) -> None:
    done = run(tmp_path, *argv, shell="| true", code=f"import time; time.sleep(0.2); {MAIN}")
    assert done.stderr == b""


def test_the_exit_code_after_a_reader_went_away_is_1(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            words("policy", "show", "builtin:coding-agent"),
            stdout=writer,
            stderr=subprocess.PIPE,
            env=environment(tmp_path) | {"PYTHONPATH": os.getcwd()},
            timeout=30,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize("shell", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize("argv", [("nothing-like-this",), ("policy", "test", "no-file")])
def test_a_stderr_that_takes_nothing_changes_no_exit_code(tmp_path: Path, argv: tuple[str, ...], shell: str) -> None:
    done = run(tmp_path, *argv, shell=shell)
    assert (done.returncode, done.stdout) == (2, b"")


def test_a_closed_stdout_is_no_fault(tmp_path: Path) -> None:
    done = run(tmp_path, "policy", "test", "builtin:coding-agent", shell=">&-")
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("when", ["interlock.node.cli.main", "interlock.engine.policy.check"])
def test_ctrl_c_at_any_moment_is_one_line_and_exit_code_1(tmp_path: Path, when: str) -> None:
    """The signal comes while a module of ours is being imported, or in the middle of a command."""
    code = f"""
import os, signal, sys
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == {when!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Stop())
{MAIN}
"""
    assert "stopped" in one_line(run(tmp_path, "policy", "test", "builtin:coding-agent", code=code), 1)


def test_ctrl_c_while_a_command_works_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "policy.json")  # nobody writes: the command waits to read it
    started = subprocess.Popen(
        words("policy", "test", "policy.json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment(tmp_path) | {"PYTHONPATH": os.getcwd()},
    )
    time.sleep(1)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=30)
    assert (started.returncode, out, err) == (1, b"", b"interlock: stopped\n")


def test_a_damaged_install_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    code = f"import sys; sys.modules['interlock.engine.policy.check'] = None\n{MAIN}"
    assert "install it again" in one_line(run(tmp_path, "policy", code=code), 2)


@pytest.mark.parametrize("home", ["somewhere", ""])
@pytest.mark.parametrize("argv", [("doctor",), ("install-hook", "claude-code", "--dry-run")], ids=" ".join)
def test_a_home_that_is_no_absolute_path_is_said(tmp_path: Path, argv: tuple[str, ...], home: str) -> None:
    done = run(tmp_path, *argv, HOME=home, XDG_STATE_HOME=None)
    text = (done.stdout + done.stderr).decode()
    assert done.returncode in (1, 2), text
    assert "set HOME" in text
    assert "Traceback" not in text
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('receipts = "a\\u0000b"', "null character"),
        ('policy = "a\\u0000b"', "null character"),
        ('receipts = "~no-such-user-here/x"', "home of a user"),
        ('policy = "mesh:a@b"\n[mesh]\nhoem = "/x"', "is not a setting"),
        ('policy = "mesh:a@b"\n[mesh]\nhome = 5', "wrong type"),
    ],
)
def test_a_setting_that_cannot_be_used_is_said_by_doctor_and_the_hook(tmp_path: Path, text: str, says: str) -> None:
    config = tmp_path / "c.toml"
    config.write_text(f"[guard]\n{text}\n", encoding="utf-8")
    done = run(tmp_path, "doctor", "--config", str(config))
    assert done.returncode == 1
    assert says in done.stdout.decode()
    payload = b'{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}'
    hook = subprocess.run(
        [*words("hook", "claude-code", "--config", str(config))],
        input=payload,
        capture_output=True,
        env=environment(tmp_path) | {"PYTHONPATH": os.getcwd()},
        timeout=30,
        check=False,
    )
    assert says in one_line(hook, 2)
