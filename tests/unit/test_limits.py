"""Inputs at the limits: the work that a decision takes is bounded by one budget, whatever the input asks for."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.limits import CASES
from interlock.engine.analysis.intents import _command as _command_intents
from interlock.engine.analysis.intents import intents
from interlock.engine.detectors.hosts import urls_in_text
from interlock.engine.detectors.registry import REGISTRY
from interlock.engine.evaluate import PythonEvaluator
from interlock.engine.event import SensorEvent
from interlock.engine.policy.builtins import resolver
from interlock.engine.policy.conditions import build_detector
from interlock.engine.policy.limits import Limits
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Source
from interlock.native.evaluator import chosen_evaluator
from tests.quick import demand_soon

COMMANDS = [name for name, make in CASES.items() if make()[0] == "Bash"]
# Those that end before all of them is read; the others are read whole.
PARTIAL = {
    "64 KB command of commands", "64 KB of nested eval", "300 nested substitutions", "wrappers around 30,000 words",
    "a subcommand of itself", "16,000 globs", "a name for each item", "joined wrappers",
    "500 variables in 3,000 branches", "500 variables before 6,000 commands", "a long IFS", "globs taken off a value",
    "parameters shifted", "an array that grows", "a directory that grows", "nested arithmetic",
    "substitutions in a here-document", "60 KB of lines for sed", "60 KB of escaped quotes in Python",
    "15,000 substitutions of sed", "aliases of git", "open comments in SQL",
    "a makefile of settings", "7,000 options with code", "5,000 unknown programs with a known one",
    "13,000 commands behind dashes",
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


MANY = {
    "secrets": "password = 'hunter2hunter2'\n",
    "pii_redaction": "4111 1111 1111 1111, ",
}


@pytest.mark.parametrize("name", MANY)
def test_a_text_with_more_finds_than_the_limit_is_masked_whole_and_read_no_further(name: str) -> None:
    mask = REGISTRY[name].build({"finds": 40})
    found, over = (mask(SensorEvent("t", {"text": MANY[name] * count, "note": "stays"})) for count in (40, 41))
    assert found is not None
    assert over is not None
    assert str((found.modified_args or {})["text"]).count("[REDACTED") == 40
    assert over.modified_args == {"text": "[REDACTED TEXT]"}
    assert over.reason == f"{found.reason}, a whole text of more than 40 finds"
    events = [SensorEvent("t", {"text": MANY[name] * count}) for count in (41, 4_000)]
    few, many = (_calls(functools.partial(mask, event)) for event in events)
    assert many - few < 10


def test_bytes_with_too_many_finds_stay_bytes_and_the_default_is_the_limit_of_a_policy() -> None:
    mask = REGISTRY["secrets"].build({})
    many = MANY["secrets"].encode() * (Limits().finds + 1)
    said = mask(SensorEvent("t", {"body": many}))
    assert said is not None
    assert said.modified_args == {"body": b"[REDACTED TEXT]"}
    assert f"more than {Limits().finds} finds" in said.reason


def test_a_limit_of_a_policy_says_how_many_finds_are_masked_one_by_one() -> None:
    text = "pay 4111 1111 1111 1111 or 5500 0000 0000 0004"
    for limits, expected in (
        ({}, "pay [REDACTED CREDIT_CARD] or [REDACTED CREDIT_CARD]"),
        ({"finds": 1}, "[REDACTED TEXT]"),
    ):
        document = {
            "format": "interlock-policy", "v": 1, "name": "p", "limits": limits,
            "rules": [{"id": "m", "when": {"action": "*"}, "verdict": "modify", "reason": "masked",
                       "mask": {"detector": "pii_redaction"}}],
        }  # fmt: skip
        policy = load_policy(json.dumps(document).encode(), where="p", source=Source("file"), resolve=resolver(None))
        for engine in (PythonEvaluator(), chosen_evaluator()):
            assert engine.evaluate(policy, SensorEvent("t", {"text": text})).event.args == {"text": expected}


def test_a_condition_stops_at_the_first_find() -> None:
    finds = build_detector("secrets", {}, "call", "here")
    events = [SensorEvent("t", {"text": MANY["secrets"] * count}) for count in (2, 4_000)]
    few, many = (_calls(functools.partial(finds, event)) for event in events)
    assert many - few < 10
    assert finds(SensorEvent("t", {"text": "nothing is here"})) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_the_worst_commands_end_within_ten_times_the_goal(name: str) -> None:
    command = _command(name)
    demand_soon(2.0, lambda: intents(SensorEvent("Bash", {"command": command})), _command_intents.cache_clear)
