"""The types of the public face, checked by mypy and never run (tests/typing/test_types.py)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, assert_type

import interlock
from interlock import (
    Binding,
    Blocked,
    Decision,
    FileSink,
    FlowTracker,
    InMemorySink,
    NotApproved,
    NullSink,
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
    monitor,
    origin_for_tool,
    record_origin,
    span,
)
from interlock.detectors import mesh_indicator_guard, network_egress_guard, pii_redaction_guard, secrets_guard
from interlock.engine.policy.model import RuleFunction


@guard
def plain(to: str, *, body: str = "") -> int:
    return len(to + body)


@guard(name="fetch", principal="acme/a", enforcement="monitor")
async def fetch(url: str) -> bytes:
    return url.encode()


@monitor()
def watched(n: int) -> str:
    return str(n)


@monitor
def watched_too(n: int) -> str:
    return str(n)


def my_rule(event: SensorEvent) -> Decision | None:
    assert_type(event.action, str)
    assert_type(event.principal, str | None)
    return Decision.block("no", policy_id="p", attributed_to="path")


def face() -> None:
    assert_type(plain("a", body="b"), int)
    started: Coroutine[Any, Any, bytes] = assert_type(fetch("u"), Coroutine[Any, Any, bytes])
    started.close()
    assert_type(watched(1), str)
    assert_type(watched_too(1), str)
    assert_type(enforce_tool_call("t", {"a": 1}), dict[str, object])
    assert_type(enforce_tool_result("t", [1]), object)
    assert_type(deny_when(lambda event: event.action == "x", "no"), RuleFunction)
    assert_type(pii_redaction_guard(), RuleFunction)
    assert_type(secrets_guard(), RuleFunction)
    assert_type(network_egress_guard(allowed_hosts=["a"]), RuleFunction)
    assert_type(network_egress_guard(block_origins=["tool:read"]), RuleFunction)
    assert_type(mesh_indicator_guard(["0" * 64], block=True), RuleFunction)
    assert_type(Decision.escalate("ask").verdict, Verdict)
    with span(principal="acme/a", parent_principal="acme/b") as here:
        assert_type(here.id, str)
        assert_type(here.principal, str | None)
    install(
        rules=[my_rule, secrets_guard()], policy="builtin:coding-agent", sink=FileSink("x"), approver=lambda r: True
    )
    install(observers=[lambda event, decision: None])
    registry = ScopeRegistry([Binding(("acme",), Template("t", lambda: my_rule), delegated_from=("lead",))])
    install(scopes=registry, flow=FlowTracker(max_spans=10))
    install(scopes=ScopedEngine(registry, allow_unscoped=True))
    assert_type(origin_for_tool("fetch"), str)
    enforce_tool_call("t", {}, origins={"a": origin_for_tool("fetch")}, server_pin="ab")
    enforce_tool_result("t", 1, server_pin=None)
    guard(server_pin=1)  # type: ignore[call-overload]
    install(sink=InMemorySink(key=b"k" * 16))
    install(sink=NullSink())
    record_origin("value", "tool:inbox")
    assert_type(interlock.__version__, str)


def refusals(e: Blocked, n: NotApproved) -> None:
    assert_type(e.decision, Decision)
    assert_type(e.reason, str)
    assert_type(e.policy_id, str | None)
    assert_type(e.attributed_to, str | None)
    assert_type(e.event_action, str)
    assert_type(n.why, str)


def misuse() -> None:
    plain(1)  # type: ignore[arg-type]
    guard(name=1)  # type: ignore[call-overload]
    guard(enforcement="off")  # type: ignore[call-overload]
    install(rules=[lambda event: True])  # type: ignore[list-item, return-value]
    enforce_tool_call("t", {"a": 1}, enforcement="off")  # type: ignore[arg-type]
    network_egress_guard()  # type: ignore[call-overload]
    install(scopes={})  # type: ignore[arg-type]
    Binding("acme", Template("t", my_rule))  # type: ignore[arg-type]


wrapped: Callable[[int], str] = watched
