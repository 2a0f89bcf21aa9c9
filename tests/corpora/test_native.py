"""Both engines say the same, under the built-in policy, of every command and call that the corpora hold."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.evaluate import Outcome, evaluate
from interlock.engine.event import SensorEvent
from interlock.engine.payload import result_args
from interlock.engine.policy.builtins import builtin, resolver
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Source
from interlock.native.availability import availability

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "corpora"
EVERY = 7  # one row in so many is judged in the normal run

pytestmark = [
    pytest.mark.skipif(not FOLDER.is_dir(), reason="../shared/corpora is not there"),
    pytest.mark.skipif(not availability().installed, reason=availability().sentence),
]


def _rows(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as f:
        yield from map(json.loads, f)


def _events(name: str) -> Iterator[SensorEvent]:
    for row in _rows(name):
        if isinstance(command := row.get("command"), str):
            yield SensorEvent("Bash", {"command": command}, cwd="/home/dev/app")
        elif isinstance(args := row.get("args"), dict):
            yield SensorEvent(str(row.get("tool", "tool")), args)
        else:
            yield SensorEvent("fetch", result_args(row), "result")
            yield SensorEvent("send", row)


def _told(outcome: Outcome) -> tuple[object, ...]:
    args = json.dumps(outcome.event.args, sort_keys=True, default=repr)
    fired = [rule.id for rule in outcome.fired]
    return outcome.decision, outcome.decision.modified_args, args, fired, [r.id for r, _ in outcome.shadows]


def _compare(name: str, every: int) -> None:
    native = pytest.importorskip("interlock.native.evaluator").NativeEvaluator()
    source = Source("builtin", "coding-agent")
    policy = load_policy(builtin("coding-agent"), where="coding-agent.json", source=source, resolve=resolver(None))
    apart = []
    for at, event in enumerate(_events(name)):
        if at % every == 0 and _told(native.evaluate(policy, event)) != _told(evaluate(policy, event)):
            apart.append(at)
    assert apart == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["benign_commands", "destructive_spellings", "atomic_posix", "gtfobins", "bug_cases"])
def test_every_command_is_decided_alike(name: str) -> None:
    _compare(name, 1)


@pytest.mark.parametrize("name", ["benign_commands", "destructive_spellings"])
def test_commands_are_decided_alike(name: str) -> None:
    _compare(name, EVERY)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["benign_tool_calls", "secrets", "injections", "hook_payloads"])
def test_every_call_and_result_is_decided_alike(name: str) -> None:
    _compare(name, 1)
