"""What the README shows is run as it stands, and the commands that it names exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import interlock
from interlock.engine.detectors.registry import REGISTRY

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_example_of_the_readme_does_what_its_comments_say() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.S)
    names: dict[str, object] = {}
    for line in code.splitlines():
        if not line.startswith(("enforce_tool_call(", "#")):
            exec(line, names)
    calls = re.findall(r"^(enforce_tool_call\(.*\))\n# -> (.*)$", code, flags=re.M)
    assert len(calls) == 2
    for call, promise in calls:
        if promise.startswith("raises Blocked: "):
            with pytest.raises(interlock.Blocked) as e:
                eval(call, names)
            assert str(e.value) == promise.removeprefix("raises Blocked: ")
        else:
            assert repr(eval(call, names)) == promise


def test_every_command_of_the_readme_is_there() -> None:
    named = sorted(
        set(re.findall(r"interlock ((?:mesh )?[a-z-]+)", "\n".join(re.findall(r"^    .*$", README, flags=re.M))))
    )
    assert named
    for command in named:
        done = subprocess.run(
            [sys.executable, "-m", "interlock", *command.split(), "--help"],
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)


def test_every_file_that_the_readme_links_to_is_there() -> None:
    root = Path(__file__).parents[2]
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (root / target).exists(), target


def test_the_numbers_of_the_readme_are_those_of_the_tables() -> None:
    grammars = len(list((Path(interlock.__file__).parent / "engine/analysis/grammars").glob("*.json")))
    assert f"; {len(REGISTRY)} detectors;" in README
    assert f"knowledge of some {grammars // 50 * 50} programs as data" in README
