"""Commands grown from a tree whose simple commands are known: each one that runs is seen, none that is text."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from interlock.engine.analysis.intents import intents
from interlock.engine.analysis.shell import parse
from interlock.engine.event import SensorEvent
from tests.unit.shell_grower import grown

BASH = shutil.which("bash")
FEW = 1500
MANY = 20_000


def _check(seed: int) -> None:
    command, grower = grown(seed)
    found = intents(SensorEvent("Bash", {"command": command}))
    deleted = {i.target for i in found if i.name == "fs.delete"}
    targets = {i.target for i in found}
    assert grower.live <= deleted, f"seed {seed}: hidden {sorted(grower.live - deleted)} in\n{command}"
    assert not grower.data & targets, f"seed {seed}: text taken for code {sorted(grower.data & targets)} in\n{command}"


def test_no_command_is_hidden_and_no_text_is_taken_for_one() -> None:
    for seed in range(FEW):
        _check(seed)


@pytest.mark.slow
def test_no_command_is_hidden_in_twenty_thousand() -> None:
    for seed in range(FEW, MANY):
        _check(seed)


@pytest.mark.skipif(BASH is None, reason="bash is not there")
def test_bash_accepts_what_is_grown_and_the_parser_reads_it_whole() -> None:
    assert BASH is not None
    for seed in range(0, FEW, 10):
        command, _ = grown(seed)
        done = subprocess.run([BASH, "-n"], input=command.encode(), capture_output=True, check=False)
        assert done.returncode == 0, f"seed {seed}: {done.stderr.decode()} in\n{command}"
        assert parse(command).partial == "", f"seed {seed} in\n{command}"
