"""Inputs at the limits: the work that a decision takes is bounded by one budget, whatever the input asks for."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.limits import CASES
from interlock.engine.analysis.intents import intents
from interlock.engine.detectors.hosts import urls_in_text
from interlock.engine.event import SensorEvent

COMMANDS = [name for name, make in CASES.items() if make()[0] == "Bash"]
# Those that end before all of them is read; the others are read whole.
PARTIAL = {
    "64 KB command of commands", "64 KB of nested eval", "300 nested substitutions", "wrappers around 30,000 words",
    "a subcommand of itself", "16,000 globs", "a name for each item", "joined wrappers",
    "500 variables in 3,000 branches", "500 variables before 6,000 commands", "a long IFS", "globs taken off a value",
    "parameters shifted", "an array that grows", "a directory that grows", "nested arithmetic",
    "substitutions in a here-document", "60 KB of lines for sed", "60 KB of escaped quotes in Python",
    "15,000 substitutions of sed", "aliases of git", "open comments in SQL",
}  # fmt: skip


def _command(name: str) -> str:
    command = CASES[name]()[1]["command"]
    assert isinstance(command, str)
    return command


def _is_partial(command: str) -> bool:
    return "exec.partial" in {i.name for i in intents(SensorEvent("Bash", {"command": command}, cwd="/work"))}


def _calls(work: Callable[[], object]) -> int:
    """How many functions are called, of Python and of C: the same number in each run, on each machine."""
    count = 0

    def counts(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counts)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("name", COMMANDS)
def test_the_worst_commands_take_a_bounded_number_of_steps(name: str) -> None:
    command = _command(name)
    intents(SensorEvent("Bash", {"command": "ls"}))
    assert _calls(lambda: intents(SensorEvent("Bash", {"command": command}, cwd="/w"))) < 1_200_000


def test_a_command_that_asks_for_too_much_work_is_partial_and_the_others_are_not() -> None:
    assert {name for name in COMMANDS if _is_partial(_command(name))} == PARTIAL


@pytest.mark.parametrize(
    "command",
    [
        "rm " + " ".join(f"build/f{k}.o" for k in range(2000)),
        "sudo nice rm " + " ".join(f"build/f{k}.o" for k in range(2000)),
        "git add " + " ".join(f"src/module_{k}/file_{k}.py" for k in range(1500)),
        "cat > notes.md <<'E'\n" + "a line of text\n" * 4000 + "E\n",
        "python3 - <<'E'\n" + "print(\"a line\", '\\'quoted\\'')\n" * 1000 + "E\n",
        " | ".join(["cat"] * 90),
        "psql <<'E'\n" + "INSERT INTO t VALUES ($1, 'x'); -- one\n" * 200 + "E\n",
        "sed -i '" + "s/old/new/g;" * 40 + "' a.txt",
        "".join(f"v{k}=$(date +%s);" for k in range(60)) + "for f in *.py; do wc -l $f; done",
        'x=src/a/b.py; echo "${x##*/} ${x%.py} ${x%%/*}"; ' * 100,
    ],
)
def test_long_commands_that_people_write_are_read_whole(command: str) -> None:
    assert not _is_partial(command)


# -- detectors ------------------------------------------------------------------------------------------------------


def _plainly(text: str) -> list[str]:
    """Each URL up to its own end, read again for each."""
    found = []
    for at in (k for k in range(len(text)) if text.startswith("://", k)):
        start = at
        while start > max(0, at - 32) and (text[start - 1].isascii() and text[start - 1] in "abc+"):
            start -= 1
        while start < at and not text[start].isalpha():
            start += 1
        if start == at:
            continue
        end = next((k for k in range(at + 3, min(len(text), at + 2000)) if text[k] in " ,"), min(len(text), at + 2000))
        found.append(text[start:end])
    return found


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.lists(st.sampled_from(["a", "://", "b+", " ", ",", "c" * 40, "/" * 900, "+"]), max_size=30).map("".join))
def test_urls_inside_each_other_each_reach_to_their_own_end(text: str) -> None:
    assert urls_in_text(text) == _plainly(text)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_the_worst_commands_end_within_ten_times_the_goal(name: str) -> None:
    command = _command(name)
    began = time.process_time()
    intents(SensorEvent("Bash", {"command": command}, cwd="/w/slow"))
    assert time.process_time() - began < 2.0
