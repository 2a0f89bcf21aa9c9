"""Sixteen threads and a thousand tasks through the doors at once: nobody acts as another, nothing is counted wrongly.

Each worker says who it is in its arguments too, so that a span, a scope or a receipt that crossed over would show.
The verdicts are the same in any order of events: counts are exact, and of all who try one approval one has it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock import (
    Binding,
    Blocked,
    Decision,
    FileSink,
    NotApproved,
    ScopeRegistry,
    SensorEvent,
    Template,
    enforce_tool_call,
    enforce_tool_result,
    guard,
    install,
    span,
)
from interlock.engine import ambient
from interlock.engine.ambient import current_span
from interlock.engine.policy.builtins import resolver
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Policy, Source
from interlock.engine.sinks import read_receipts, verify_file
from interlock.native.availability import availability
from tests.unit.approval_world import queue, store_of

THREADS, TASKS, IN_TASKS = 16, 1000, 50  # threads, tasks, and the principals that the tasks share
ROUNDS = 5  # of each thread
LEAD = "acme/lead"
BRANCHES = ("main", "release")  # each with one approval, for whoever comes first
TRIERS = 24  # tasks that try them, beside every thread
PER_ONE, PER_ALL = 3, 200  # above so many, a principal's bursts and everybody's ticks are refused


def _policy(*rules: dict[str, object]) -> Policy:
    document = json.dumps({"format": "interlock-policy", "v": 1, "name": "p", "rules": rules}).encode()
    return load_policy(document, where="p", source=Source("file", "p"), resolve=resolver(None))


def _rule(name: str, verdict: str, *conditions: dict[str, object]) -> dict[str, object]:
    return {"id": name, "when": {"all": list(conditions)}, "verdict": verdict, "reason": name}


def _only(owner: str) -> Policy:
    """The rules of one principal: whoever else comes under them is refused."""
    mine = {"arg": "owner", "equals": owner}
    return _policy(_rule("crossed", "block", {"not": mine}))


def _everybody() -> Policy:
    """Made anew for each test: it counts."""
    return _policy(
        _rule("bursts", "block", {"action": "burst"}, {"count": {"above": PER_ONE, "per": "principal"}}),
        _rule("ticks", "block", {"action": "tick"}, {"count": {"above": PER_ALL, "per": "all"}}),
        _rule("push", "escalate", {"action": "push"}),
    )


@guard
def note(owner: str) -> str:
    return owner


def _tried(run: Callable[[], object]) -> str:
    try:
        run()
    except NotApproved:
        return "not approved"
    except Blocked as e:
        return e.decision.reason
    return "done"


class Tally:
    """What the workers saw, summed at the end; a worker has one of its own."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.seen: Counter[str] = Counter()
        self.passed = 0  # through a door: as many receipts there have to be

    def call(self, action: str, call_id: str) -> None:
        given = {"owner": self.owner}
        self.seen[f"{action} {_tried(lambda: enforce_tool_call(action, given, call_id=call_id))}"] += 1
        self.passed += 1

    def round(self, number: str) -> None:
        here = current_span()
        assert here is not None
        assert here.principal == self.owner
        assert note(self.owner) == self.owner
        assert enforce_tool_result("note", [self.owner], call_id=f"{self.owner} {number} r") == [self.owner]
        self.passed += 3
        for action in ("burst", "tick"):
            self.call(action, f"{self.owner} {number} {action}")

    def push(self) -> None:
        with span(principal=LEAD):
            for branch in BRANCHES:
                what = _tried(lambda to=branch: enforce_tool_call("push", {"owner": LEAD, "branch": to}))  # type: ignore[misc]
                self.seen[f"{branch} {what}"] += 1
                self.passed += 1


def _thread(tally: Tally, start: threading.Barrier) -> None:
    start.wait(30)
    with span(principal=tally.owner):
        for n in range(ROUNDS):
            tally.round(str(n))
        tally.push()
        tally.round("last")
        tally.seen["whole"] += 1


async def _task(tally: Tally, number: int) -> None:
    with span(principal=tally.owner):
        await asyncio.sleep(0)
        tally.round(str(number))
        await asyncio.sleep(0)
        if number < TRIERS:
            tally.push()
            await asyncio.to_thread(tally.call, "note", f"{tally.owner} {number} beside")
        assert note(tally.owner) == tally.owner
        tally.passed += 2
        tally.seen["whole"] += 1


async def _tasks(tallies: list[Tally], start: threading.Barrier) -> None:
    start.wait(30)
    await asyncio.gather(*(_task(tally, n) for n, tally in enumerate(tallies)))


@pytest.fixture(params=["python", "native"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Threads change places a hundred times as often as they do otherwise."""
    name: str = request.param
    if name == "python":
        monkeypatch.setenv("INTERLOCK_NATIVE", "0")
    elif not availability().installed:
        pytest.skip("interlock-native is not installed")
    before = sys.getswitchinterval()
    sys.setswitchinterval(before / 100)
    yield name
    sys.setswitchinterval(before)
    ambient.install(None)


def _installed(folder: Path, owners: list[str], crossed: list[SensorEvent]) -> FileSink:
    def watch(event: SensorEvent, decision: Decision) -> None:
        if event.phase == "call" and event.principal != event.args["owner"]:
            crossed.append(event)

    only = Template("only", _only)
    scopes = ScopeRegistry([Binding(tuple(owner.split("/")), only, {"owner": owner}) for owner in (*owners, LEAD)])
    sink = FileSink(folder / "receipts", shared=False, fsync=False)
    install(policy=_everybody(), sink=sink, approver=queue(folder), scopes=scopes, observers=[watch])
    return sink


def _approved(folder: Path) -> int:
    """Ask for each branch, and let a person say yes; returns how many calls that took."""
    with span(principal=LEAD):
        for branch in BRANCHES:
            assert _tried(lambda to=branch: enforce_tool_call("push", {"owner": LEAD, "branch": to})) == "not approved"  # type: ignore[misc]
    store = store_of(folder)
    for entry in store.entries():
        store.approve(entry.id, "mia")
    return len(BRANCHES)


def test_threads_and_tasks_at_once_share_a_guard_without_a_race(engine: str, tmp_path: Path) -> None:
    in_threads = [Tally(f"acme/thread{n}") for n in range(THREADS)]
    in_tasks = [Tally(f"acme/task{n % IN_TASKS}") for n in range(TASKS)]
    crossed: list[SensorEvent] = []
    sink = _installed(tmp_path, sorted({tally.owner for tally in (*in_threads, *in_tasks)}), crossed)
    assert ambient.installed().evaluator.name == engine
    before = _approved(tmp_path)

    start = threading.Barrier(THREADS + 1)
    threads = [threading.Thread(target=_thread, args=(tally, start)) for tally in in_threads]
    for thread in threads:
        thread.start()
    asyncio.run(_tasks(in_tasks, start))
    for thread in threads:
        thread.join(60)

    seen = sum((tally.seen for tally in (*in_threads, *in_tasks)), Counter[str]())
    each, shared = THREADS * (ROUNDS + 1 - PER_ONE), TASKS - IN_TASKS * PER_ONE
    ticks, tried = THREADS * (ROUNDS + 1) + TASKS, THREADS + TRIERS
    assert seen == {
        "whole": THREADS + TASKS,
        "burst done": (THREADS + IN_TASKS) * PER_ONE,
        "burst bursts": each + shared,
        "tick done": PER_ALL,
        "tick ticks": ticks - PER_ALL,
        "note done": TRIERS,
        **{f"{branch} done": 1 for branch in BRANCHES},
        **{f"{branch} not approved": tried - 1 for branch in BRANCHES},
    }
    assert crossed == []
    guarded = ambient.installed()
    assert (guarded.observer_failures, guarded.receipts_dropped) == (0, 0)
    sink.close()
    passed = before + sum(tally.passed for tally in (*in_threads, *in_tasks))
    assert verify_file(tmp_path / "receipts").count == passed
    _receipts_name_who_acted(tmp_path)


def _receipts_name_who_acted(folder: Path) -> None:
    """A call id of ours begins with its principal; an approval is used by one receipt."""
    receipts = [receipt for receipt, _ in read_receipts(folder / "receipts")]
    ours = [receipt for receipt in receipts if " " in receipt.call_id]
    assert len(ours) > TASKS
    assert {r.call_id for r in ours if r.call_id.split(" ")[0] != r.principal} == set()
    spans: dict[str | None, set[str | None]] = {}
    for receipt in receipts:
        spans.setdefault(receipt.span_id, set()).add(receipt.principal)
    assert {name for name, who in spans.items() if len(who) != 1} == set()
    used = [receipt.approval_id for receipt in receipts if receipt.outcome == "approved"]
    assert len(used) == len(set(used)) == len(BRANCHES)
