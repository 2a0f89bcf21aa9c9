"""What the guard itself refuses: each row of the one table is reached, in its own words, and nothing runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

import pytest

from interlock import Blocked, Decision, NotApproved, SensorEvent, enforce_tool_call, guard, install
from interlock.engine import ambient
from interlock.engine.decision import Verdict
from interlock.engine.evaluate import Outcome, PythonEvaluator
from interlock.engine.live import LivePolicy
from interlock.engine.policy.model import Policy
from interlock.engine.receipts import Receipt
from interlock.engine.refusals import (
    APPROVER_FAILED,
    APPROVER_LATE,
    APPROVER_ODD,
    CHANGED,
    MISFIT,
    NATIVE_PANIC,
    NO_APPROVER,
    NO_DECISION,
    NO_POLICY,
    NO_RECEIPT,
    NO_SCOPE,
    REASONS,
    RULE_FAILED,
    UNKNOWN_VERDICT,
    UNREADABLE,
    reason_of,
)
from interlock.engine.sinks import InMemorySink
from interlock.interceptors.enforce import decide, new_call_id

SECRET: Final = "hunter2"


@pytest.fixture(autouse=True)
def _nothing_installed() -> Iterator[None]:
    yield
    ambient.install(None)


def escalating(event: SensorEvent) -> Decision | None:
    return Decision.escalate("ask")


def raising(error: BaseException) -> Callable[..., Any]:
    def fails(*_: object) -> Any:
        raise error

    return fails


class Full(InMemorySink):
    def append(self, receipt: Receipt) -> Receipt:
        raise OSError(SECRET)


class Panicking(PythonEvaluator):
    name = "native"

    def evaluate(self, policy: Policy, event: SensorEvent) -> Outcome:
        raise RuntimeError(SECRET)


def rule_failed() -> None:
    install(rules=[raising(KeyError(SECRET))])
    enforce_tool_call("t", {"x": SECRET})


def no_decision() -> None:
    install(rules=[lambda event: cast(Any, SECRET)])
    enforce_tool_call("t", {"x": SECRET})


def unknown_verdict() -> None:
    install(rules=[lambda event: Decision(cast(Verdict, 7))])
    enforce_tool_call("t", {"x": SECRET})


def unreadable() -> None:
    install()
    enforce_tool_call("t", {"x": SECRET, "odd": object()})


def native_panic() -> None:
    install()
    ambient.installed().evaluator = Panicking()
    enforce_tool_call("t", {"x": SECRET})


def no_policy() -> None:
    install()
    live = LivePolicy(lambda: Policy((), ""), None)
    live.refresh = raising(OSError(SECRET))  # type: ignore[method-assign]
    ambient.installed().live = live
    enforce_tool_call("t", {"x": SECRET})


class Nowhere:
    """Scopes that know nobody."""

    def policy_for(self, event: SensorEvent, policy: Policy) -> Policy:
        raise KeyError(SECRET)


def no_scope() -> None:
    install()
    ambient.installed().scopes = cast(Any, Nowhere())
    enforce_tool_call("t", {"x": SECRET})


def no_receipt() -> None:
    install(sink=Full())
    enforce_tool_call("t", {"x": SECRET})


def asking(approver: Any) -> Callable[[], None]:
    def ask() -> None:
        install(rules=[escalating], approver=approver)
        enforce_tool_call("t", {"x": SECRET})

    return ask


def changed() -> None:
    args = {"x": [SECRET]}
    install(rules=[escalating], approver=lambda request: args["x"].append("more") is None)  # type: ignore[func-returns-value]
    enforce_tool_call("t", args)


def misfit() -> None:
    @guard
    def tool(x: int) -> None: ...

    install(rules=[lambda event: Decision.modify({"y": 2})])
    tool(1)


REACHED: Final[Mapping[str, Callable[[], None]]] = {
    RULE_FAILED: rule_failed,
    NO_DECISION: no_decision,
    UNKNOWN_VERDICT: unknown_verdict,
    UNREADABLE: unreadable,
    NATIVE_PANIC: native_panic,
    NO_POLICY: no_policy,
    NO_SCOPE: no_scope,
    NO_RECEIPT: no_receipt,
    NO_APPROVER: asking(None),
    APPROVER_FAILED: asking(raising(OSError(SECRET))),
    APPROVER_LATE: asking(raising(TimeoutError(SECRET))),
    APPROVER_ODD: asking(lambda request: "yes"),
    CHANGED: changed,
    MISFIT: misfit,
}


@pytest.mark.parametrize("policy_id", REACHED)
def test_each_row_refuses_in_its_own_words_and_shows_no_value(policy_id: str) -> None:
    with pytest.raises(Blocked) as caught:
        REACHED[policy_id]()
    head = REASONS[policy_id].partition("{")[0]
    assert head in str(caught.value)
    assert SECRET not in str(caught.value)
    if isinstance(caught.value, NotApproved):
        assert caught.value.decision.verdict is Verdict.ESCALATE
    else:
        assert (caught.value.policy_id, caught.value.decision.verdict) == (policy_id, Verdict.BLOCK)


def test_every_row_is_reached_here() -> None:
    assert list(REACHED) == list(REASONS)


def test_every_row_is_in_one_line_and_names_the_guard() -> None:
    assert all(policy_id.startswith("interlock.") for policy_id in REASONS)
    assert reason_of(RULE_FAILED, rule="a\nb", error="KeyError").count("\n") == 0


def test_a_native_panic_blocks_at_the_lower_door_too() -> None:
    install()
    ambient.installed().evaluator = Panicking()
    assert decide(SensorEvent("t", {})).decision.policy_id == NATIVE_PANIC


class Odd(PythonEvaluator):
    """An evaluator of a later version, with a verdict of its own."""

    name = "odd"

    def evaluate(self, policy: Policy, event: SensorEvent) -> Outcome:
        return Outcome(Decision(cast(Verdict, 5), "pause"), event)


def test_a_verdict_that_an_evaluator_makes_up_blocks_at_both_doors() -> None:
    install()
    ambient.installed().evaluator = Odd()
    assert decide(SensorEvent("t", {})).decision.policy_id == UNKNOWN_VERDICT
    with pytest.raises(Blocked) as caught:
        enforce_tool_call("t", {})
    assert caught.value.policy_id == UNKNOWN_VERDICT


# --- where nobody keeps or watches ------------------------------------------------------------------------------------


class Quiet(PythonEvaluator):
    """An evaluator with no opinion, which notes what it was given."""

    name = "quiet"

    def __init__(self) -> None:
        self.given: list[Mapping[str, object]] = []

    def evaluate(self, policy: Policy, event: SensorEvent) -> Outcome:
        self.given.append(event.args)
        return Outcome(Decision.allow(), event)


def test_an_evaluator_reads_the_callers_own_arguments_where_nobody_keeps_or_watches() -> None:
    args: dict[str, object] = {"x": [1]}
    quiet = Quiet()
    install()
    ambient.installed().evaluator = quiet
    going = enforce_tool_call("t", args)
    assert quiet.given[0]["x"] is args["x"]
    assert going == args
    assert going is not args


@pytest.mark.parametrize("setting", [{"sink": InMemorySink()}, {"observers": [lambda event, decision: None]}])
def test_whoever_keeps_or_watches_gets_a_read_only_copy(setting: dict[str, Any]) -> None:
    args: dict[str, object] = {"x": [1]}
    quiet = Quiet()
    install(**setting)
    ambient.installed().evaluator = quiet
    enforce_tool_call("t", args)
    with pytest.raises(TypeError, match="read-only"):
        cast(list[object], quiet.given[0]["x"]).append(2)


def test_a_rule_in_python_cannot_change_the_call_where_nobody_keeps_or_watches() -> None:
    def change(event: SensorEvent) -> None:
        cast(list[object], event.args["x"]).append("evil")

    install(rules=[change])
    args: dict[str, object] = {"x": [1]}
    with pytest.raises(Blocked):
        enforce_tool_call("t", args)
    assert args == {"x": [1]}


class Fickle(Mapping[str, object]):
    """A mapping of the caller's own that says something else each time."""

    def __init__(self) -> None:
        self.reads = 0

    def __getitem__(self, key: str) -> object:
        self.reads += 1
        return f"read {self.reads}"

    def __iter__(self) -> Iterator[str]:
        return iter(["x"])

    def __len__(self) -> int:
        return 1


def test_a_mapping_of_the_callers_own_is_read_once_and_what_is_judged_goes_on() -> None:
    seen: list[object] = []
    install(rules=[lambda event: seen.append(event.args["x"])])
    assert enforce_tool_call("t", Fickle()) == {"x": seen[0]}


class Broken(Fickle):
    def __getitem__(self, key: str) -> object:
        raise OSError(SECRET)


def test_a_mapping_that_cannot_be_read_blocks_and_leaves_a_receipt() -> None:
    sink = InMemorySink()
    install(sink=sink)
    with pytest.raises(Blocked, match="fails with OSError when it is read") as caught:
        enforce_tool_call("t", Broken())
    assert caught.value.policy_id == UNREADABLE
    assert (sink.receipts[0].outcome, sink.receipts[0].args_digest) == ("blocked", None)


def test_no_two_calls_share_an_id_in_any_thread_or_process() -> None:
    ids: list[str] = []
    threads = [threading.Thread(target=lambda: ids.extend(new_call_id() for _ in range(500))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, new_call_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    ids += [os.read(read, 100).decode(), new_call_id()]
    os.close(read)
    os.close(write)
    assert len(set(ids)) == len(ids) == 2002
