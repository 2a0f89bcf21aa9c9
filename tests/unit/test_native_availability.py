"""Without Rust, or with a native wheel that does not fit, the Python engine is in use and one line says so."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from interlock.native.availability import ABI_VERSION, PLAN_VERSION, availability

ROOT = Path(__file__).parents[2]
OURS = importlib.metadata.version("interlock")


def _native(monkeypatch: pytest.MonkeyPatch, **has: object) -> None:
    module = ModuleType("interlock_native")
    vars(module).update(has)
    monkeypatch.setitem(sys.modules, "interlock_native", module)
    monkeypatch.delenv("INTERLOCK_NATIVE", raising=False)


def test_without_the_wheel_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "interlock_native", None)  # which Python refuses to import
    monkeypatch.delenv("INTERLOCK_NATIVE", raising=False)
    found = availability()
    assert not found.installed
    assert found.sentence == "the Python engine is in use (interlock-native is not installed)"


@pytest.mark.parametrize(
    ("has", "says"),
    [
        ({"abi_version": lambda: ABI_VERSION + 1, "__version__": OURS}, f"ABI {ABI_VERSION + 1}, plans"),
        ({"abi_version": lambda: ABI_VERSION, "__version__": "0.0.0"}, "interlock-native 0.0.0"),
        ({"abi_version": lambda: ABI_VERSION, "plan_version": lambda: 99, "__version__": OURS}, "plans 99; wanted"),
        ({"abi_version": lambda: ABI_VERSION, "__version__": OURS}, f"plans 1; wanted {OURS}"),
        ({}, "is not ours"),
    ],
)
def test_a_wheel_that_does_not_fit_is_not_used(
    monkeypatch: pytest.MonkeyPatch, has: dict[str, object], says: str
) -> None:
    _native(monkeypatch, **has)
    found = availability()
    assert not found.installed
    assert found.sentence.startswith("the Python engine is in use (")
    assert says in found.sentence
    assert "\n" not in found.sentence


def test_to_look_for_the_wheel_reads_no_package_s_metadata() -> None:
    """A hook is a process a call, and the standard library's way to a version takes half as long as all the rest."""
    look = "from interlock.native.evaluator import availability; availability()"
    code = f"import sys; {look}; sys.exit('importlib.metadata' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_wheel_that_fits_is_used_unless_it_is_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    _native(monkeypatch, abi_version=lambda: ABI_VERSION, plan_version=lambda: PLAN_VERSION, __version__=OURS)
    assert availability().installed
    monkeypatch.setenv("INTERLOCK_NATIVE", "0")
    assert not availability().installed


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not here")
@pytest.mark.parametrize(("cargo", "builds"), [(False, False), (True, True)])
def test_the_makefile_builds_the_wheel_only_where_cargo_is(tmp_path: Path, cargo: bool, builds: bool) -> None:
    """What `make setup` would do, with a path that holds a cargo, or none."""
    if cargo:
        (tmp_path / "cargo").write_text("#!/bin/sh\n")
        (tmp_path / "cargo").chmod(0o755)
    make = shutil.which("make")
    assert make is not None
    done = subprocess.run(
        [make, "--dry-run", "--always-make", "setup"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(tmp_path), "SHELL": "/bin/sh"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ("./native" in done.stdout) == builds
    assert "availability().sentence" in done.stdout
