"""The hook as a process: it ends in 0 with a whole answer, or in 2 with one line, whatever happens to it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.interceptors.hooks.settings import TIMEOUT_SECONDS
from tests.unit.hook_process import MAIN, bash, environment, hook, hook_words, one_refusal, receipts

RESULT = {"hook_event_name": "PostToolUse", "tool_response": {"stdout": "x"}}
DENIED = bash("rm -rf /")


def _denies(done: subprocess.CompletedProcess[bytes]) -> bool:
    assert done.returncode == 0, done
    assert done.stderr == b""
    return bool(json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny")


def test_a_plain_call_passes_in_silence_and_leaves_a_receipt(tmp_path: Path) -> None:
    done = hook(tmp_path, bash("git status"))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    last = json.loads(receipts(tmp_path).read_bytes().splitlines()[-1])
    assert (last["action"], last["verdict"], last["principal"]) == ("Bash", "ALLOW", "claude-code")
    assert (last["span_id"], last["call_id"]) == ("s", "toolu_1")


def test_a_destructive_call_is_denied(tmp_path: Path) -> None:
    assert _denies(hook(tmp_path, DENIED))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"not json at all",
        b'{"hook_event_name":"PreToolUse","tool_na',
        b"\x80\x81\xff",
        b"null",
        bash("ls") + bash("ls"),
        bash("ls", hook_event_name="Nonsense"),
        bash("ls", tool_input={"a": 1}).replace(b'{"a": 1}', b"[" * 200_000 + b"]" * 200_000),
        bash("ls", tool_input={"a": 1}).replace(b'{"a": 1}', b'{"a":' * 900 + b"1" + b"}" * 900),
    ],
    ids=["empty", "garbage", "truncated", "not-utf-8", "null", "two", "unknown-event", "deep", "deep-objects"],
)
def test_bad_input_blocks_with_one_line(tmp_path: Path, raw: bytes) -> None:
    done = hook(tmp_path, raw)
    one_refusal(done)
    assert done.stdout == b""


def test_input_over_the_limit_blocks(tmp_path: Path) -> None:
    done = hook(tmp_path, b" " * ((32 << 20) + 1))
    assert "larger than" in one_refusal(done)


@pytest.mark.parametrize("words", [[], ["codex-argv"], ["claude-code", "extra"], ["claude-code", "--config"]])
def test_wrong_words_block(tmp_path: Path, words: list[str]) -> None:
    one_refusal(hook(tmp_path, bash("ls"), [sys.executable, "-I", MAIN, "hook", *words]))


def _configured(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "interlock.toml"
    path.write_text(text, encoding="utf-8")
    return hook_words("--config", str(path))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[guard]\npolicy = "missing.json"', "missing.json"),
        ('[guard]\npolicy = "builtin:nothing"', "nothing"),
        ('[guard]\npolicy = "mesh:absent@stable"', ""),
        ("[guard]\npolicy = 3", "policy"),
        ('[guard]\npolicies = "x"', "policies"),
        ("[guard]\ndeadline_ms = 60000", "deadline_ms"),
        ("[guard", "interlock.toml"),
        ('[guard]\nreceipts = "/dev/null/receipts.jsonl"', ""),
    ],
)
def test_settings_that_cannot_be_used_block(tmp_path: Path, text: str, says: str) -> None:
    assert says in one_refusal(hook(tmp_path, bash("git status"), _configured(tmp_path, text)))


def test_a_policy_file_beside_the_configuration_is_the_policy(tmp_path: Path) -> None:
    fires = {"action": "Bash", "args": {"command": "ls"}}
    passes = {"action": "Bash", "args": {"command": "pwd"}}
    rule = {
        "id": "no.ls",
        "when": {"all": [{"action": "Bash"}, {"arg": "command", "prefix": "ls"}]},
        "verdict": "block",
        "reason": "no listing",
        "examples": {"fires": [fires], "passes": [passes]},
    }
    document = {"format": "interlock-policy", "v": 1, "name": "mine", "rules": [rule]}
    (tmp_path / "mine.json").write_text(json.dumps(document), encoding="utf-8")
    words = _configured(tmp_path, '[guard]\npolicy = "mine.json"')
    assert _denies(hook(tmp_path, bash("ls"), words))
    assert hook(tmp_path, bash("pwd"), words).stdout == b""


def test_a_receipt_that_cannot_be_written_blocks(tmp_path: Path) -> None:
    hook(tmp_path, bash("git status"))
    receipts(tmp_path).write_bytes(b"not a receipt\n")
    one_refusal(hook(tmp_path, bash("git status")))


def test_a_result_that_cannot_be_judged_also_ends_the_run(tmp_path: Path) -> None:
    words = _configured(tmp_path, '[guard]\npolicy = "missing.json"')
    done = hook(tmp_path, bash("ls", **RESULT), words)
    one_refusal(done)
    assert json.loads(done.stdout)["continue"] is False


def test_a_closed_stdin_or_stdout_blocks(tmp_path: Path) -> None:
    for redirect in ("<&-", ">&-"):
        shell = ["/bin/sh", "-c", f'exec "$@" {redirect}', "sh", *hook_words()]
        one_refusal(hook(tmp_path, DENIED, shell))


def test_a_closed_stderr_still_exits_2(tmp_path: Path) -> None:
    shell = ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", *hook_words()]
    assert hook(tmp_path, b"garbage", shell).returncode == 2


def test_a_reader_that_went_away_blocks(tmp_path: Path) -> None:
    out, into = os.pipe()
    os.close(out)
    with _started(tmp_path, stdout=into) as process:
        os.close(into)
        _, err = process.communicate(DENIED, timeout=30)
    one_refusal(subprocess.CompletedProcess([], process.returncode, b"", err))


def test_a_pipe_that_the_agent_made_non_blocking_still_gets_the_whole_answer(tmp_path: Path) -> None:
    out, into = os.pipe()
    os.set_blocking(into, False)
    with _started(tmp_path, stdout=into) as process, os.fdopen(out, "rb") as answer:
        os.close(into)
        assert process.stdin is not None
        process.stdin.write(DENIED)
        process.stdin.close()
        assert json.loads(answer.read())["hookSpecificOutput"]["permissionDecision"] == "deny"
        assert process.wait(30) == 0


@contextlib.contextmanager
def _started(home: Path, stdout: int = subprocess.PIPE, main: str = MAIN) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        hook_words(main=main),
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=environment(home),
        cwd=home,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def _catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal, as Linux tells it."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    return []


linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_blocks(tmp_path: Path, number: signal.Signals) -> None:
    with _started(tmp_path) as process:
        _until(lambda: _catches(process.pid, signal.SIGALRM))
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert number.name in one_refusal(subprocess.CompletedProcess([], process.returncode, out, err))


@contextlib.contextmanager
def _stuck(home: Path) -> Iterator[None]:
    """Hold the lock of the receipts, so that a hook waits in the middle of its work."""
    hook(home, bash("git status"))
    with open(f"{receipts(home)}.lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_its_own_deadline_blocks(tmp_path: Path) -> None:
    words = _configured(tmp_path, "[guard]\ndeadline_ms = 300")
    with _stuck(tmp_path):
        done = hook(tmp_path, bash("git status"), words)
    assert "within 300 ms" in one_refusal(done)


@linux
def test_a_judge_that_dies_in_any_way_blocks(tmp_path: Path) -> None:
    with _stuck(tmp_path), _started(tmp_path) as process:
        assert process.stdin is not None
        process.stdin.write(bash("git status"))
        process.stdin.close()
        process.stdin = None
        _until(lambda: bool(_children(process.pid)))
        os.kill(_children(process.pid)[0], signal.SIGSEGV)
        out, err = process.communicate(timeout=30)
    assert "without an answer" in one_refusal(subprocess.CompletedProcess([], process.returncode, out, err))


def _copied(tmp_path: Path) -> Path:
    """A copy of the package, to be broken."""
    package = tmp_path / "site" / "interlock"
    shutil.copytree(Path(MAIN).parent, package, ignore=shutil.ignore_patterns("__pycache__", "node", "dap", "commons"))
    return package


def test_a_stdin_that_never_ends_blocks_before_the_agent_stops_waiting(tmp_path: Path) -> None:
    """With a tenth of the time, in a copy; the time itself ends before that which the agent gives the hook."""
    path = _copied(tmp_path) / "__main__.py"
    whole, tenth = "_HARD_SECONDS: Final = 10.0", "_HARD_SECONDS: Final = 1.0"
    assert TIMEOUT_SECONDS > 10 + 3
    assert path.read_text(encoding="utf-8").count(whole) == 1
    path.write_text(path.read_text(encoding="utf-8").replace(whole, tenth), encoding="utf-8")
    started = time.monotonic()
    with _started(tmp_path, main=str(path)) as process:
        assert process.wait(14) == 2
    assert time.monotonic() - started >= 1


@pytest.mark.parametrize("broken", ["engine/evaluate.py", "interceptors/hooks/claude_code.py", "__init__.py"])
@pytest.mark.parametrize("text", ["import nothing_like_this", "def (", "raise SystemExit(0)", "1/0"])
def test_a_broken_module_of_ours_blocks(tmp_path: Path, broken: str, text: str) -> None:
    package = _copied(tmp_path)
    (package / broken).write_text(text, encoding="utf-8")
    one_refusal(hook(tmp_path, bash("git status"), hook_words(main=str(package / "__main__.py"))))


def test_a_stray_print_or_exit_of_a_module_never_reaches_the_agent(tmp_path: Path) -> None:
    package = _copied(tmp_path)
    path = package / "interceptors" / "hooks" / "claude_code.py"
    noise = "import os\nprint('{}')\nos.write(1, b'{}')\nos.write(2, b'oops')\n"
    path.write_text(path.read_text(encoding="utf-8") + noise, encoding="utf-8")
    done = hook(tmp_path, bash("git status"), hook_words(main=str(package / "__main__.py")))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    path.write_text(path.read_text(encoding="utf-8") + "os._exit(0)\n", encoding="utf-8")
    one_refusal(hook(tmp_path, bash("git status"), hook_words(main=str(package / "__main__.py"))))


def test_neither_the_working_folder_nor_the_environment_can_shadow_a_module(tmp_path: Path) -> None:
    for name in ("json.py", "interlock.py", "signal.py", "sitecustomize.py"):
        (tmp_path / name).write_text("import os\nos._exit(0)\n", encoding="utf-8")
    assert _denies(hook(tmp_path, DENIED, PYTHONPATH=str(tmp_path), PYTHONSTARTUP=str(tmp_path / "json.py")))


def test_an_installed_hook_takes_no_configuration_from_the_environment(tmp_path: Path) -> None:
    _configured(tmp_path, '[guard]\npolicy = "missing.json"')
    config = str(tmp_path / "interlock.toml")
    assert _denies(hook(tmp_path, DENIED, INTERLOCK_CONFIG=config))
    by_hand = [sys.executable, "-m", "interlock", "hook", "claude-code"]
    assert "missing.json" in one_refusal(hook(tmp_path, DENIED, by_hand, INTERLOCK_CONFIG=config))


def test_the_path_to_an_answer_imports_no_command_line_and_no_third_party(tmp_path: Path) -> None:
    code = (
        "import sys, runpy\n"
        "from interlock._install import install\n"
        "import interlock.interceptors.hooks.entry\n"
        "bad = {m for m in sys.modules if m.split('.')[0] in "
        "{'argparse', 'rich', 'httpx', 'cryptography', 'nacl', 'starlette', 'uvicorn', 'tuf', 'yaml'}"
        " or m.startswith(('interlock.node', 'interlock.dap', 'interlock.commons', 'interlock.transparency'))}\n"
        "print(sorted(bad))\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, timeout=30, check=False)
    assert done.stdout.strip() == b"[]", done


@pytest.mark.parametrize(
    "line", ["[mesh]\nhoem = 'x'", "[serve]\nprt = 1", "[report]\ntask = 1", "[guard]\npolcy = 'x'"]
)
def test_a_misspelt_setting_of_any_section_refuses_in_one_line(tmp_path: Path, line: str) -> None:
    config = tmp_path / "interlock.toml"
    config.write_text(line + "\n", encoding="utf-8")
    said = one_refusal(hook(tmp_path, bash("ls"), hook_words("--config", str(config))))
    assert str(config) in said
