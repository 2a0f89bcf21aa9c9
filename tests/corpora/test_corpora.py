"""How the built-in policy does on commands that others wrote: spellings to meet, and ordinary commands to let through.

The thresholds are what this form reaches with a little room; the numbers themselves stand in the assertions' messages.
And both engines say the same, under that policy, of every command and call that the corpora hold. Each command is
judged once for all tests, by both.
"""

from __future__ import annotations

import functools
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from interlock.commons.harness import TREE, OrdinaryCheckout
from interlock.engine.analysis.harmless import prove
from interlock.engine.decision import Verdict
from interlock.engine.evaluate import Outcome, evaluate
from interlock.engine.event import SensorEvent
from interlock.engine.payload import result_args
from interlock.native.availability import availability
from tests.unit.both_engines import coding_agent, native_or_none

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "corpora"
SAMPLE = 3000  # ordinary commands judged in the normal run
EVERY = 7  # one row in so many is compared in the normal run
MET = (Verdict.BLOCK, Verdict.ESCALATE)

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="../shared/corpora is not there")
NATIVE = pytest.mark.skipif(not availability().installed, reason=availability().sentence)

Row = dict[str, Any]


class Judged(NamedTuple):
    """What Python said of a command, whether a rule failed, and whether the native engine said all the same."""

    verdict: Verdict
    failed: bool
    alike: bool


@functools.cache
def _rows(name: str) -> list[Row]:
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def _told(outcome: Outcome) -> tuple[object, ...]:
    args = json.dumps(outcome.event.args, sort_keys=True, default=repr)
    fired = [rule.id for rule in outcome.fired]
    return outcome.decision, outcome.decision.modified_args, args, fired, [r.id for r, _ in outcome.shadows]


def _judged_event(event: SensorEvent) -> Judged:
    outcome, native = evaluate(coding_agent(), event), native_or_none()
    alike = native is None or _told(native.evaluate(coding_agent(), event)) == _told(outcome)
    return Judged(outcome.decision.verdict, outcome.cause is not None, alike)


@functools.cache
def _judged(command: str) -> Judged:
    return _judged_event(SensorEvent("Bash", {"command": command}, cwd="/home/dev/app"))


def _verdict(command: str) -> Verdict:
    judged = _judged(command)
    assert not judged.failed, command  # a rule that raised would block, and look like a success
    return judged.verdict


def _spellings(tier: str, *expect: str) -> list[Row]:
    return [
        r
        for r in _rows("destructive_spellings")
        if r["tier"] == tier and r["shell"] == "posix" and r["expect"] in expect
    ]


def _share(rows: list[Row]) -> float:
    return sum(_verdict(r["command"]) in MET for r in rows) / len(rows)


def _benign() -> list[Row]:
    return [
        r for r in _rows("benign_commands") if r["class"] == "benign" and r["shell"] == "posix" and not r.get("maybe")
    ]


def _rates(rows: list[Row]) -> tuple[float, float]:
    """Shares blocked and escalated."""
    counts = Counter(_verdict(r["command"]) for r in rows)
    return counts[Verdict.BLOCK] / len(rows), counts[Verdict.ESCALATE] / len(rows)


def test_spellings_that_must_be_met_are_met() -> None:
    assert _share(_spellings("core", "block", "ask")) >= 0.98


def test_no_look_alike_is_stopped() -> None:
    wrong = [r["command"] for r in _spellings("core", "allow") if _verdict(r["command"]) is not Verdict.ALLOW]
    assert len(wrong) <= 1, wrong


def test_most_of_what_other_guards_stop_by_default_is_met() -> None:
    assert _share(_spellings("peer-default", "block")) >= 0.75


def test_few_of_other_guards_look_alikes_are_stopped() -> None:
    assert _share(_spellings("peer-default", "allow")) <= 0.09
    assert _share(_spellings("peer-pack", "allow")) <= 0.01


def test_ordinary_commands_are_let_through() -> None:
    rows = _benign()
    blocked, escalated = _rates(rows[:: max(1, len(rows) // SAMPLE)])
    assert blocked <= 0.001, blocked
    assert escalated <= 0.01, escalated


def test_most_of_the_gravest_commands_in_the_documentation_are_met() -> None:
    rows = [r for r in _rows("benign_commands") if r["class"] == "destructive-doc" and r["shell"] == "posix"]
    grave = [r for r in rows if r.get("grade") == "catastrophic"]
    assert len(grave) > 100
    assert _share(grave) >= 0.60, _share(grave)


@pytest.mark.slow
def test_all_ordinary_commands_are_let_through() -> None:
    blocked, escalated = _rates(_benign())
    assert blocked <= 0.001, blocked
    assert escalated <= 0.01, escalated


# -- proofs of harmlessness ------------------------------------------------------------------------------------------

# Rows labelled destructive-doc by pattern that destroy nothing: "-prune" and "cut -d" were taken for deleting.
ONLY_READS = ("-prune", "cut -d")


@functools.cache
def _proven(command: str) -> bool:
    return prove(SensorEvent("Bash", {"command": command}, cwd=TREE), OrdinaryCheckout()) is not None


def test_nothing_that_must_be_met_is_proven_harmless() -> None:
    rows = _spellings("core", "block", "ask") + _spellings("peer-default", "block") + _spellings("peer-pack", "block")
    assert not [r["command"] for r in rows if _proven(r["command"])]


def test_nothing_destructive_in_the_documentation_is_proven_harmless() -> None:
    rows = [r for r in _rows("benign_commands") if r["class"] == "destructive-doc" and r["shell"] == "posix"]
    proven = [r["command"] for r in rows if _proven(r["command"])]
    assert not [c for c in proven if not any(word in c for word in ONLY_READS)]
    assert not [r["command"] for r in rows if r.get("grade") == "catastrophic" and _proven(r["command"])]


def test_a_share_of_ordinary_commands_is_proven_harmless() -> None:
    rows = _benign()[:: max(1, len(_benign()) // SAMPLE)]
    share = sum(_proven(r["command"]) for r in rows) / len(rows)
    assert share >= 0.13, share


@pytest.mark.slow
def test_the_share_of_all_ordinary_commands_that_is_proven_harmless_is_the_one_that_is_written_down() -> None:
    rows = _benign()
    share = sum(_proven(r["command"]) for r in rows) / len(rows)
    assert 0.144 <= share <= 0.17, share  # docs/reference/shell.md says 14.6 %, and how many could be


# -- both engines ----------------------------------------------------------------------------------------------------


def _events_beside_commands(row: Row) -> Iterator[SensorEvent]:
    if isinstance(args := row.get("args"), dict):
        yield SensorEvent(str(row.get("tool", "tool")), args)
    else:
        yield SensorEvent("fetch", result_args(row), "result")
        yield SensorEvent("send", row)


def _is_alike(row: Row) -> bool:
    if isinstance(command := row.get("command"), str):
        return _judged(command).alike
    return all(_judged_event(event).alike for event in _events_beside_commands(row))


def _apart(name: str, every: int = 1) -> list[int]:
    return [at for at, row in enumerate(_rows(name)) if at % every == 0 and not _is_alike(row)]


@NATIVE
@pytest.mark.slow
@pytest.mark.parametrize("name", ["benign_commands", "destructive_spellings", "atomic_posix", "gtfobins", "bug_cases"])
def test_every_command_is_decided_alike(name: str) -> None:
    assert _apart(name) == []


@NATIVE
@pytest.mark.parametrize("name", ["benign_commands", "destructive_spellings"])
def test_commands_are_decided_alike(name: str) -> None:
    assert _apart(name, EVERY) == []


@NATIVE
@pytest.mark.slow
@pytest.mark.parametrize("name", ["benign_tool_calls", "secrets", "injections", "hook_payloads"])
def test_every_call_and_result_is_decided_alike(name: str) -> None:
    assert _apart(name) == []
