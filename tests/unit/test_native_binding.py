"""The binding itself: what it raises where the engine panics, and who may run while it judges much text.

That a panic is caught is held by `cargo test` (engine/src/caught.rs, and the C ABI): a wheel has no way to cause one.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock import Blocked, FileSink, enforce_tool_call, enforce_tool_result, install
from interlock.engine import ambient
from interlock.engine.decision import Verdict
from interlock.engine.event import SensorEvent
from interlock.engine.payload import frozen_mapping
from interlock.engine.refusals import NATIVE_PANIC
from interlock.engine.sinks import read_receipts
from interlock.native.availability import availability
from tests.unit.test_native_evaluator import RULES, policy

if not availability().installed:
    pytest.skip(availability().sentence, allow_module_level=True)

from interlock.native.evaluator import NativeEvaluator

BINDING: Any = importlib.import_module("interlock_native")
FOREVER = 3600.0  # seconds that a thread keeps the interpreter to itself, unless it lets go


class Panicking:
    """A plan of an engine that panics, as the binding tells of it."""

    def opinions(self, *_: object) -> None:
        raise BINDING.Panicked("the native engine failed")


@pytest.fixture(autouse=True)
def _nothing_installed() -> Iterator[None]:
    yield
    ambient.install(None)


@pytest.mark.parametrize("kept", [False, True], ids=["without a sink", "with a sink"])
def test_a_panic_that_the_binding_tells_of_refuses_the_call_and_the_result(
    kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = FileSink(tmp_path / "r") if kept else None
    result_rule = {**RULES[0], "id": "result", "phase": "result", "when": {"action": "gone"}}
    both = policy(RULES[0], result_rule)
    install(policy=both, sink=sink)
    assert enforce_tool_call("Bash", {"command": "ls"}) == {"command": "ls"}
    monkeypatch.setattr(NativeEvaluator, "_made", lambda self, plan: Panicking())
    install(policy=both, sink=sink)
    doors: list[Callable[[], object]] = [
        lambda: enforce_tool_call("Bash", {"command": "ls"}),
        lambda: enforce_tool_result("Bash", "out"),
    ]
    for through in doors:
        with pytest.raises(Blocked) as refused:
            through()
        assert refused.value.decision.verdict is Verdict.BLOCK
        assert refused.value.decision.policy_id == NATIVE_PANIC
    if kept:
        receipts = [receipt for receipt, _ in read_receipts(tmp_path / "r")]
        assert [(r.verdict, r.policy_id, r.phase) for r in receipts[1:]] == [
            ("BLOCK", NATIVE_PANIC, "call"),
            ("BLOCK", NATIVE_PANIC, "result"),
        ]


def test_a_panic_is_an_ordinary_exception_that_except_exception_sees() -> None:
    assert issubclass(BINDING.Panicked, Exception)
    assert NATIVE_PANIC == "interlock.native-panic"


def _another_ran(ask: Callable[[], object], times: int) -> bool:
    """Whether a thread that is ready to run came to run while `ask` was called, at most so many times.

    The interpreter does not change threads by itself meanwhile: only who lets go of it lets another run.
    """
    gate, ran = threading.Lock(), list[bool]()
    gate.acquire()

    def wait() -> None:
        with gate:
            ran.append(True)

    thread = threading.Thread(target=wait)
    before = sys.getswitchinterval()
    thread.start()
    sys.setswitchinterval(FOREVER)
    try:
        gate.release()
        for _ in range(times):
            ask()
            if ran:
                break
        return bool(ran)
    finally:
        sys.setswitchinterval(before)
        thread.join()


def test_other_threads_run_while_much_text_is_judged_and_not_while_little_is() -> None:
    judged_by = policy({**RULES[0], "when": {"arg": "command", "regex": "(a|b)*c(d|e)*f$"}})
    evaluator = NativeEvaluator()
    evaluator.prepare(judged_by)

    def asking(size: int) -> Callable[[], object]:
        event = SensorEvent("Bash", frozen_mapping({"command": "ab" * (size // 2)}))
        return lambda: evaluator.evaluate(judged_by, event)

    assert not _another_ran(asking(1 << 10), 300)
    assert _another_ran(asking(1 << 18), 5_000)  # a busy machine lets it run late
