"""Programs in Go, built from their modules: skipped, with the reason, where Go or a module is not to be had."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

__all__ = ["built", "installed"]

_LEAST = (1, 25)
_MODULES_S = 240  # how long modules may take to come


def built(folder: Path, out: Path) -> Path:
    """A program of ours, from its folder below tests/interop/go; one that does not compile fails the test."""
    env = _go()
    source = Path(__file__).parent / "go" / folder
    _had(["go", "mod", "download"], source, env)
    done = subprocess.run(["go", "build", "-o", str(out), "."], cwd=source, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def installed(package: str, version: str, folder: Path) -> Path:
    """A program of others, by the name and version of its package."""
    env = {**_go(), "GOBIN": str(folder)}
    _had(["go", "install", f"{package}@{version}"], folder, env)
    return folder / package.rpartition("/")[2]


def _go() -> dict[str, str]:
    """The environment for Go. Skips where it is missing or too old."""
    if shutil.which("go") is None:
        pytest.skip("needs Go, which is not here")
    said = subprocess.run(["go", "version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"go(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < _LEAST:
        pytest.skip(f"needs Go 1.25 or later; here is {said.strip()}")
    return {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}


def _had(command: list[str], folder: Path, env: dict[str, str]) -> None:
    """Run what brings modules. Skips where they do not come."""
    try:
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=_MODULES_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"Go modules did not come in {_MODULES_S} seconds")
    if done.returncode:
        pytest.skip(f"Go modules could not be had: {done.stderr.strip().splitlines()[-1][:200]}")
