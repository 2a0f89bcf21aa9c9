"""The worked example of docs/reference/cli.md, run line by line in a shell, with ports that are free."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ports import free_port

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")]
COMMONS, PAIR = re.findall(r"^```sh\n(.*?)^```$", PAGE, flags=re.M | re.S)


def run(script: str, folder: Path) -> str:
    """The output of the script; whatever it started is ended with it."""
    shim = folder / "bin" / "interlock"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m interlock "$@"\n')
    shim.chmod(0o755)
    for port in sorted(set(re.findall(r"\b81\d\d\b", script))):
        script = script.replace(port, str(free_port()))
    kept = {k: v for k, v in os.environ.items() if not k.startswith("INTERLOCK_")}
    env = kept | {"PATH": f"{shim.parent}:{kept['PATH']}", "HOME": str(folder), "PYTHONPATH": str(Path.cwd())}
    with (folder / "out.txt").open("w+") as out:
        # A file and no pipe: what runs in the background would keep a pipe open.
        process = subprocess.Popen(
            ["bash", "-e", "-c", script],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        try:
            code = process.wait(300)  # 12 s here; the rest is room for a busy machine
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            out.seek(0)
            said = out.read()
    assert code == 0, said
    return said


def test_a_small_commons_is_set_up_as_the_page_says(tmp_path: Path) -> None:
    out = run(COMMONS, tmp_path)
    assert "coding-agent@stable version 1" in out
    assert re.search(r"^last update .*: ok$", out, flags=re.M)
    assert re.search(r"^ok +coding-agent@stable", out, flags=re.M)
    assert "Traceback" not in out


def test_a_dap_pair_is_let_in_as_the_page_says(tmp_path: Path) -> None:
    assert "acme may come as member" in run(PAIR, tmp_path)
