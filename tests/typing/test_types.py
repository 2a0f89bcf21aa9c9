"""mypy --strict agrees with what tests/typing/public_api.py says of the public face."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")
ROOT = Path(__file__).resolve().parents[2]


def test_the_public_face_has_the_types_that_it_promises() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "tests/typing/public_api.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
