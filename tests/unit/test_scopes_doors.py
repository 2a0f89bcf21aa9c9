"""Scopes at the doors, and the spans that say who is acting."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import json
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock import (
    Binding,
    Blocked,
    Decision,
    FlowTracker,
    ScopedEngine,
    ScopeRegistry,
    SensorEvent,
    Template,
    Verdict,
    deny_when,
    enforce_tool_call,
    enforce_tool_result,
    guard,
    install,
    span,
)
from interlock.engine import ambient
from interlock.engine.ambient import current_run, current_span
from interlock.engine.approvals import ApprovalRequest
from interlock.engine.evaluate import Evaluator, PythonEvaluator
from interlock.engine.policy.builtins import resolver
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Policy, Source
from interlock.engine.posture import attest
from interlock.engine.refusals import NO_SCOPE
from interlock.engine.sinks import InMemorySink
from interlock.interceptors.enforce import decide
from interlock.native.availability import availability

DENY = Template("deny", lambda tools: deny_when(lambda event: event.action in tools, "not for you", "deny"))


@pytest.fixture(autouse=True)
def _nothing_installed() -> Iterator[None]:
    yield
    ambient.install(None)


def registry(*extra: Binding) -> ScopeRegistry:
    acme, lead, agent = ("acme",), ("acme", "lead"), ("acme", "agent")
    return ScopeRegistry(
        [
            Binding(acme, DENY, {"tools": ["pay"]}),
            Binding(lead, DENY, {"tools": ["drop"]}, mode="union"),
            Binding(agent, DENY, {"tools": ["drop"]}, mode="union", delegated_from=lead),
            *extra,
        ]
    )


def _refused(action: str, **given: Any) -> str | None:
    """Why a call is refused, or None; what a scope's rules say is told from what the guard says itself."""
    try:
        enforce_tool_call(action, {}, **given)
    except Blocked as e:
        return e.reason if e.policy_id in ("deny", NO_SCOPE) else f"by {e.policy_id}"
    return None


def test_each_principal_has_the_rules_of_its_scope_after_those_for_everybody() -> None:
    install([deny_when(lambda event: event.action == "rm", "not for anybody", "deny")], scopes=registry())
    with span(principal="acme/clerk"):
        assert (_refused("pay"), _refused("drop")) == ("not for you", None)
        with pytest.raises(Blocked, match="not for anybody"):
            enforce_tool_call("rm", {})
    with span(principal="acme/lead"):
        assert (_refused("pay"), _refused("drop"), _refused("read")) == ("not for you", "not for you", None)


def test_results_are_judged_by_the_rules_of_the_scope_too() -> None:
    def no_results(event: SensorEvent) -> Decision | None:
        return Decision.block("not for you", "deny")

    no_results.phase = "result"  # type: ignore[attr-defined]
    install(scopes=registry(Binding(("acme",), Template("quiet", lambda: no_results))))
    with pytest.raises(Blocked):
        enforce_tool_result("read", "x", principal="acme/clerk")
    with pytest.raises(Blocked, match="no principal"):
        enforce_tool_result("read", object())


def test_no_principal_no_scope_and_no_delegator_each_have_a_reason_of_their_own() -> None:
    install(scopes=registry())
    reasons = [
        _refused("read"),
        _refused("read", principal="stranger"),
        _refused("read", principal="acme//x"),
        _refused("read", principal="acme/agent"),
        _refused("read", principal="acme/agent", parent_principal="acme/clerk"),
        _refused("read", principal="acme/clerk", parent_principal="acme/lead"),
    ]
    assert None not in reasons
    assert len(set(reasons)) == 5  # the last two name somebody whom they do not act for
    assert _refused("read", principal="acme/agent", parent_principal="acme/lead") is None


def test_unscoped_calls_are_allowed_only_where_that_is_said() -> None:
    install(
        [deny_when(lambda event: event.action == "rm", "no", "deny")],
        scopes=ScopedEngine(registry(), allow_unscoped=True),
    )
    assert enforce_tool_call("pay", {}) == {}
    with pytest.raises(Blocked):
        enforce_tool_call("rm", {})


def test_a_host_that_acts_on_decisions_is_told_of_the_refusal() -> None:
    sink = InMemorySink()
    install(scopes=registry(), sink=sink)
    outcome = decide(SensorEvent("read", {"a": "x"}))
    assert (outcome.decision.verdict, outcome.decision.policy_id) == (Verdict.BLOCK, NO_SCOPE)
    assert [receipt.policy_id for receipt in sink.receipts] == [NO_SCOPE]


def test_a_receipt_names_the_policy_of_the_scope() -> None:
    sink = InMemorySink()
    install(scopes=registry(), sink=sink)
    for principal in ("acme/clerk", "acme/lead", "acme/other"):
        enforce_tool_call("read", {}, principal=principal)
    clerk, lead, other = (receipt.policy_digest for receipt in sink.receipts)
    assert clerk == other
    assert clerk != lead


def test_a_template_that_fails_while_it_judges_blocks() -> None:
    def broken(event: SensorEvent) -> Decision | None:
        raise ZeroDivisionError

    install(scopes=registry(Binding(("acme",), Template("broken", lambda: broken))))
    with pytest.raises(Blocked, match="broken failed with ZeroDivisionError"):
        enforce_tool_call("read", {}, principal="acme/clerk")


def test_what_a_scope_escalates_can_be_approved_and_not_once_its_rules_have_changed() -> None:
    def ask(event: SensorEvent) -> Decision | None:
        return Decision.escalate("may I?") if event.action == "ship" else None

    scopes = registry(Binding(("acme",), Template("ask", lambda: ask)))

    def approve(request: ApprovalRequest) -> bool:
        return True

    def approve_late(request: ApprovalRequest) -> bool:
        scopes.bind(Binding(("acme",), Template("new", lambda: ask)))
        return True

    install(scopes=scopes, approver=approve)
    assert enforce_tool_call("ship", {}, principal="acme/clerk") == {}
    install(scopes=scopes, approver=approve_late)
    with pytest.raises(Blocked, match="changed while it waited"):
        enforce_tool_call("ship", {}, principal="acme/clerk")


def test_a_decorators_principal_does_not_take_over_the_delegator_of_the_span() -> None:
    install(scopes=registry())

    @guard(principal="acme/clerk")
    def read() -> str:
        return "read"

    with span(principal="acme/agent", parent_principal="acme/lead"):
        assert read() == "read"
        assert enforce_tool_call("read", {}, principal="acme/agent") == {}
        assert decide(SensorEvent("read", {}, principal="acme/clerk")).decision.verdict is Verdict.ALLOW


def test_the_posture_tells_of_unscoped_calls_and_of_a_tracker_that_forgets() -> None:
    def weak(**given: Any) -> set[str]:
        install([lambda event: None], **given)
        return {row.name for row in attest(ambient.installed()) if row.weakens} & {"scopes", "flow"}

    assert weak() == weak(scopes=registry(), flow=FlowTracker()) == set()
    assert weak(scopes=ScopedEngine(registry(), allow_unscoped=True)) == {"scopes"}
    assert weak(flow=FlowTracker(forgetful=True)) == {"flow"}
    tracker = FlowTracker()
    tracker.record(object(), "tool:t")
    assert weak(flow=tracker) == {"flow"}


def test_a_guard_whose_rules_are_all_in_scopes_is_not_one_without_rules() -> None:
    install(scopes=registry())
    assert not [row for row in attest(ambient.installed()) if row.name == "policy" and row.weakens]


# --- both evaluators


def _evaluator(name: str) -> Evaluator:
    if name == "python":
        return PythonEvaluator()
    there = availability()
    if not there.installed:
        pytest.skip(there.sentence)
    native: Evaluator = pytest.importorskip("interlock.native.evaluator").NativeEvaluator()
    return native


def _declared(tool: str) -> Policy:
    rule = {"id": f"no.{tool}", "when": {"action": tool}, "verdict": "block", "reason": "not for you"}
    body = {"format": "interlock-policy", "v": 1, "name": "tenant", "rules": [rule]}
    data = json.dumps(body).encode()
    return load_policy(data, where="test", source=Source("file", "test"), resolve=resolver(None))


@pytest.mark.parametrize("name", ["python", "native"])
def test_both_evaluators_judge_by_the_policy_of_the_scope(name: str) -> None:
    declared = Template("declared", _declared)
    install(scopes=registry(Binding(("acme",), declared, {"tool": "send"})))
    ambient.installed().evaluator = _evaluator(name)
    found = {}
    for principal, parent in (("acme/clerk", None), ("acme/lead", None), ("acme/agent", "acme/lead")):
        for action in ("read", "send", "pay", "drop"):
            event = SensorEvent(action, {"a": 1}, principal=principal, parent_principal=parent)
            found[principal, action] = decide(event).decision.verdict is Verdict.BLOCK
    refused = {key for key, blocked in found.items() if blocked}
    everybody = {(p, a) for p in ("acme/clerk", "acme/lead", "acme/agent") for a in ("send", "pay")}
    assert refused == everybody | {("acme/lead", "drop"), ("acme/agent", "drop")}


# --- spans


def _who() -> tuple[str | None, str | None]:
    here = current_span()
    return (here.principal, here.parent_principal) if here else (None, None)


def test_a_nested_span_keeps_the_delegator_and_a_new_principal_begins_without_one() -> None:
    with span(principal="lead", parent_principal="root") as outer:
        with span() as inner:
            assert (_who(), inner.run) == (("lead", "root"), outer)
        with span(principal="agent"):
            assert _who() == ("agent", None)
        with span(principal="agent", parent_principal="lead"), span():
            assert _who() == ("agent", "lead")
        with span(parent_principal="other"):
            assert _who() == ("lead", "other")
        assert (_who(), outer.run) == (("lead", "root"), outer)
    assert (current_span(), current_run()) == (None, None)


def test_delegation_follows_await_tasks_and_to_thread() -> None:
    async def deeper() -> list[tuple[str | None, str | None]]:
        await asyncio.sleep(0)
        return [_who(), await asyncio.to_thread(_who), await asyncio.create_task(asyncio.to_thread(_who))]

    async def agent(n: int) -> list[tuple[str | None, str | None]]:
        with span(principal=f"lead{n}"):
            await asyncio.sleep(0)
            with span(principal=f"agent{n}", parent_principal=f"lead{n}"):
                found = await deeper()
            await asyncio.sleep(0)
            return [*found, _who()]

    async def main() -> list[list[tuple[str | None, str | None]]]:
        return await asyncio.gather(*(agent(n) for n in range(5)))

    for n, found in enumerate(asyncio.run(main())):
        assert found == [(f"agent{n}", f"lead{n}")] * 3 + [(f"lead{n}", None)]


def test_a_span_that_a_task_enters_does_not_leak_to_whoever_started_it() -> None:
    async def child() -> None:
        span(principal="child").__enter__()

    async def main() -> tuple[str | None, str | None]:
        with span(principal="parent"):
            await asyncio.create_task(child())
            return _who()

    assert asyncio.run(main()) == ("parent", None)


def test_an_executors_thread_begins_with_no_span_and_may_enter_the_same_one() -> None:
    with span(principal="a", parent_principal="b") as same, concurrent.futures.ThreadPoolExecutor(1) as pool:

        def entered() -> tuple[str | None, str | None]:
            with same:
                return _who()

        assert pool.submit(_who).result() == (None, None)
        assert pool.submit(entered).result() == ("a", "b")
        assert pool.submit(_who).result() == (None, None)
        assert pool.submit(contextvars.copy_context().run, _who).result() == ("a", "b")


def test_without_its_span_a_call_in_an_executor_is_refused_and_not_taken_for_somebody_elses() -> None:
    install(scopes=registry())
    with span(principal="acme/clerk"), concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert _refused("read") is None
        assert "no principal" in str(pool.submit(_refused, "read").result())


def test_one_span_in_many_threads_at_once() -> None:
    same, barrier, found = span(principal="a"), threading.Barrier(8), list[bool]()

    def work() -> None:
        for _ in range(50):
            with same:
                barrier.wait(10)
                found.append(current_span() is same)
            found.append(current_span() is None)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 800
    assert all(found)


def _held_open(name: str) -> Iterator[str]:
    with span(principal=name):
        yield "first"
        yield "second"


def test_a_generator_shares_its_callers_context_and_takes_out_its_own_span_only() -> None:
    with span(principal="caller"):
        one, two = _held_open("one"), _held_open("two")
        next(one)
        assert _who() == ("one", None)  # as the reference says: a span over a yield is the caller's meanwhile
        next(two)
        assert _who() == ("two", None)
        assert [*one] == ["second"]  # ends first, though it began first
        assert _who() == ("two", None)
        two.close()  # type: ignore[attr-defined]
        assert _who() == ("caller", None)
    assert current_span() is None


def test_an_asynchronous_generator_may_end_in_another_task() -> None:
    async def held_open() -> AsyncIterator[str]:
        with span(principal="inside"):
            yield "first"
            yield "second"

    async def main() -> tuple[str | None, str | None]:
        generator = held_open()
        await asyncio.create_task(generator.__anext__())  # type: ignore[arg-type]
        with span(principal="mine"):
            await generator.aclose()  # type: ignore[attr-defined]
            return _who()

    assert asyncio.run(main()) == ("mine", None)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(order=st.permutations(range(4)))
def test_spans_may_end_in_any_order(order: list[int]) -> None:
    def run() -> None:
        spans = [span(principal=str(n)) for n in range(4)]
        left = [*spans]
        for one in spans:
            one.__enter__()
        for n in order:
            assert current_span() is left[-1]
            spans[n].__exit__(None, None, None)
            left.remove(spans[n])
        assert current_span() is None

    contextvars.copy_context().run(run)


def test_a_second_guard_with_the_same_scopes_goes_by_its_own_rules_whatever_they_are_called() -> None:
    def named(reason: str | None) -> Any:
        def rule(event: SensorEvent) -> Decision | None:
            return None if reason is None else Decision.block(reason)

        return rule

    scopes = ScopedEngine(registry())
    for reason in (None, "the second", "the third"):
        install(rules=[named(reason)], scopes=scopes)
        with span(principal="acme/lead"):
            if reason is None:
                assert enforce_tool_call("look", {"a": 1}) == {"a": 1}
            else:
                with pytest.raises(Blocked, match=reason):
                    enforce_tool_call("look", {"a": 1})
