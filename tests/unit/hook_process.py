"""Start the hook as an agent does: by the installed command's own words, in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import interlock.__main__ as console

__all__ = ["MAIN", "bash", "environment", "hook", "hook_words", "one_refusal", "receipts"]

MAIN = os.path.abspath(console.__file__)


def environment(home: Path) -> dict[str, str]:
    """A user with nothing configured, whose state is under `home`."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_STATE_HOME": str(home / "state")}


def receipts(home: Path) -> Path:
    return home / "state" / "interlock" / "receipts.jsonl"


def hook_words(*more: str, main: str = MAIN) -> list[str]:
    return [sys.executable, "-I", main, "hook", "claude-code", *more]


def hook(
    home: Path, raw: bytes, words: Sequence[str] = (), cwd: Path | None = None, **env: str
) -> subprocess.CompletedProcess[bytes]:
    """One hook call, bounded by a time-out of the test's own."""
    return subprocess.run(
        list(words) or hook_words(),
        input=raw,
        capture_output=True,
        env=environment(home) | env,
        cwd=cwd or home,
        timeout=30,
        check=False,
    )


def bash(command: str, **more: object) -> bytes:
    """A PreToolUse payload for one shell command."""
    body = {
        "session_id": "s",
        "cwd": "/home/dev/p",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "tool_use_id": "toolu_1",
    }
    return json.dumps(body | more).encode()


def one_refusal(done: subprocess.CompletedProcess[bytes]) -> str:
    """The one line of a refusal by exit code 2, after checking that it is just that."""
    assert done.returncode == 2, done
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("interlock: blocked: ")
    assert "Traceback" not in lines[0]
    return lines[0]
