"""Claude Code's payloads to events, decisions to answers: the table, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.decision import Decision, Verdict
from interlock.engine.evaluate import evaluate
from interlock.engine.event import Phase, SensorEvent
from interlock.engine.policy.model import Policy, Rule, RuleFunction
from interlock.interceptors.hooks.claude_code import BadPayload, encoded, read, reply

BASH = {"stdout": "secret", "stderr": "", "interrupted": False, "isImage": False, "noOutputExpected": False}
READ = {"type": "text", "file": {"filePath": "a", "content": "secret", "numLines": 1, "startLine": 1, "totalLines": 1}}
MCP = [{"type": "text", "text": "secret"}]
_NOTHING = object()


def _payload(tool: str = "Bash", arguments: object = None, response: object = _NOTHING, **more: object) -> bytes:
    body: dict[str, object] = {
        "session_id": "s",
        "cwd": "/home/dev/p",
        "hook_event_name": "PreToolUse" if response is _NOTHING else "PostToolUse",
        "tool_name": tool,
        "tool_input": {"command": "ls", "description": "x"} if arguments is None else arguments,
        "tool_use_id": "toolu_1",
    }
    if response is not _NOTHING:
        body["tool_response"] = response
    return json.dumps(body | more).encode()


def _answered(raw: bytes, *rules: RuleFunction) -> dict[str, object] | None:
    """What is printed where these rules are the policy, as JSON; None for nothing."""
    payload = read(raw)
    phase: Phase = payload.event.phase
    policy = Policy(tuple(Rule(f"r{n}", rule, phase) for n, rule in enumerate(rules)), "d")
    outcome = evaluate(policy, payload.event)
    data = encoded(reply(payload, outcome.decision, outcome.event))
    if not data:
        return None
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    printed = json.loads(data)
    assert isinstance(printed, dict)
    return printed


def _says(decision: Decision) -> RuleFunction:
    return lambda event: decision


def test_a_call_becomes_an_event_with_its_tool_arguments_and_place() -> None:
    event = read(_payload(), ts_us=7).event
    assert (event.action, dict(event.args), event.phase) == ("Bash", {"command": "ls", "description": "x"}, "call")
    assert (event.principal, event.span_id, event.call_id) == ("claude-code", "s", "toolu_1")
    assert (event.cwd, event.ts_us) == ("/home/dev/p", 7)


@pytest.mark.parametrize(
    ("response", "arguments"), [(BASH, BASH), ("text", {"result": "text"}), (MCP, {"result": MCP})]
)
def test_a_result_becomes_a_result_event_whatever_its_shape(response: object, arguments: object) -> None:
    event = read(_payload(response=response)).event
    assert event.phase == "result"
    assert event.args == arguments


def test_every_tool_that_runs_a_shell_command_is_judged_as_bash() -> None:
    assert read(_payload("Monitor", {"command": "rm x"})).event.action == "Bash"
    assert read(_payload("Monitor", {"ws": {"url": "wss://a"}})).event.action == "Monitor"
    assert read(_payload("Agent", {"prompt": "x"})).event.action == "Task"


def test_a_byte_order_mark_is_no_reason_to_refuse() -> None:
    assert read(b"\xef\xbb\xbf" + _payload()).event.action == "Bash"


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "not JSON"),
        (b"{not json", "not JSON"),
        (b"[]", "not a JSON object"),
        (_payload() + b'{"x":1}', "not JSON"),
        (b"\xff\xfe" + _payload(), "not UTF-8"),
        (b'{"hook_event_name":"PreToolUse","tool_input":{"command":"ls","command":"rm"}}', "twice"),
        (b"[" * 100_000, "nested too deeply"),
        (_payload(hook_event_name="FutureEvent"), "does not judge"),
        (_payload(hook_event_name=None), "no hook_event_name"),
        (_payload(tool_name=""), "no tool_name"),
        (_payload(tool_name=["Bash"]), "tool_name that is not a string"),
        (_payload(tool_input="rm -rf /"), "no object tool_input"),
        (_payload(session_id=4), "session_id that is not a string"),
        (_payload(cwd={}), "cwd that is not a string"),
        (_payload(hook_event_name="PostToolUse"), "no tool_response"),
    ],
)
def test_what_the_agent_never_sends_is_refused_and_never_quoted(raw: bytes, why: str) -> None:
    with pytest.raises(BadPayload, match=why) as e:
        read(raw)
    assert "rm" not in str(e.value).split()
    assert "\n" not in str(e.value)


@settings(deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_give_a_payload_or_one_error(raw: bytes) -> None:
    with pytest.raises(BadPayload):
        read(raw)


def test_no_objection_prints_nothing() -> None:
    assert _answered(_payload()) is None
    assert _answered(_payload(response=BASH)) is None
    assert _answered(_payload(), _says(Decision.allow("fine"))) is None


def test_a_block_denies_with_its_reason_and_rule() -> None:
    answer = _answered(_payload(), _says(Decision.block("no such thing", "fs.destroy")))
    assert answer == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "interlock: no such thing [fs.destroy]",
        }
    }


def test_an_escalation_asks() -> None:
    answer = _answered(_payload(), _says(Decision.escalate("force push")))
    assert answer is not None
    inner = answer["hookSpecificOutput"]
    assert isinstance(inner, dict)
    assert inner["permissionDecision"] == "ask"
    assert "updatedInput" not in inner


def test_a_rewrite_carries_the_whole_input_and_grants_nothing() -> None:
    answer = _answered(_payload(), _says(Decision.modify({"command": "ls -l"})))
    changed = {"command": "ls -l", "description": "x"}
    assert answer == {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": changed}}


def test_a_rewrite_that_also_needs_approval_asks_about_the_rewritten_call() -> None:
    answer = _answered(_payload(), _says(Decision.modify({"command": "ls -l"})), _says(Decision.escalate("look")))
    assert answer is not None
    inner = answer["hookSpecificOutput"]
    assert isinstance(inner, dict)
    assert inner["permissionDecision"] == "ask"
    assert inner["updatedInput"] == {"command": "ls -l", "description": "x"}


def test_a_rewrite_that_changes_nothing_prints_nothing() -> None:
    assert _answered(_payload(), _says(Decision.modify({"command": "ls"}))) is None
    assert _answered(_payload(response="text"), _says(Decision.modify_result("text"))) is None


def test_a_reason_of_many_lines_becomes_one() -> None:
    answer = _answered(_payload(), _says(Decision.block("one\ntwo\x1b[31m" + "x" * 5000)))
    assert answer is not None
    inner = answer["hookSpecificOutput"]
    assert isinstance(inner, dict)
    reason = inner["permissionDecisionReason"]
    assert reason.startswith("interlock: one two [31m")
    assert len(reason) <= 1000


@pytest.mark.parametrize(
    ("tool", "response"), [("Bash", BASH), ("Read", READ), ("mcp__s__t", MCP), ("mcp__s__t", {"a": 1}), ("Other", "s")]
)
@pytest.mark.parametrize("decision", [Decision.block("injected text"), Decision.escalate("injected text")])
def test_a_withheld_result_is_replaced_in_the_shape_of_its_tool(
    tool: str, response: object, decision: Decision
) -> None:
    answer = _answered(_payload(tool, response=response), _says(decision))
    assert answer is not None
    assert answer["decision"] == "block"
    inner = answer["hookSpecificOutput"]
    assert isinstance(inner, dict)
    assert "secret" not in json.dumps(answer)
    assert "withheld by interlock: injected text" in json.dumps(inner["updatedToolOutput"])
    assert "continue" not in answer


def test_a_tool_that_is_judged_as_bash_keeps_its_own_shape() -> None:
    answer = _answered(_payload("Monitor", {"command": "x"}, {"taskId": "t"}), _says(Decision.block("no")))
    assert answer is not None
    assert answer["continue"] is False


@pytest.mark.parametrize("response", [{"result": "secret"}, [1], None, 3, {"type": "image", "file": {"base64": "s"}}])
def test_a_withheld_result_of_unknown_shape_ends_the_run(response: object) -> None:
    answer = _answered(_payload("WebFetch", response=response), _says(Decision.block("no")))
    reason = "interlock: no"
    assert answer == {"decision": "block", "reason": reason, "continue": False, "stopReason": reason}


@pytest.mark.parametrize(
    ("tool", "response", "changed"),
    [
        ("Bash", BASH, BASH | {"stdout": "[MASKED]"}),
        ("Read", READ, READ | {"file": {**READ["file"], "content": "x"}}),  # type: ignore[dict-item]
        ("Other", "secret", "[MASKED]"),
        ("mcp__s__t", MCP, "any text"),
    ],
)
def test_a_rewritten_result_is_handed_over_in_its_shape(tool: str, response: object, changed: object) -> None:
    answer = _answered(_payload(tool, response=response), _says(Decision.modify_result(changed)))
    assert answer == {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": changed}}


@pytest.mark.parametrize("changed", ["text", {"stdout": "x"}, {**BASH, "stdout": 3}, {**BASH, "more": 1}, [BASH]])
def test_a_rewrite_that_the_host_would_drop_withholds_the_result(changed: object) -> None:
    answer = _answered(_payload(response=BASH), _says(Decision.modify_result(changed)))
    assert answer is not None
    assert answer["decision"] == "block"
    assert "secret" not in json.dumps(answer)


def test_a_rule_that_raises_denies() -> None:
    def broken(event: SensorEvent) -> Decision | None:
        raise KeyError("x")

    answer = _answered(_payload(), broken)
    assert answer is not None
    inner = answer["hookSpecificOutput"]
    assert isinstance(inner, dict)
    assert inner["permissionDecision"] == "deny"


def test_a_verdict_that_does_not_exist_is_never_an_answer() -> None:
    for raw in (_payload(), _payload(response=BASH)):
        payload = read(raw)
        decision = replace(Decision.allow(), verdict=Verdict.ALLOW)
        object.__setattr__(decision, "verdict", 9)
        with pytest.raises(AssertionError):
            reply(payload, decision, payload.event)


def test_only_a_proof_takes_the_hosts_question_away() -> None:
    payload = read(_payload("Bash", {"command": "ls"}))
    assert reply(payload, Decision.allow("fine"), payload.event) is None
    answer = reply(payload, Decision.allow(proven="reads only what lies in its tree"), payload.event)
    assert json.loads(encoded(answer))["hookSpecificOutput"] == {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",
        "permissionDecisionReason": "interlock: reads only what lies in its tree",
    }


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"hookSpecificOutput": {"hookEventName": "PreToolUse"}},
        {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "Allow"}},
        {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "Deny"}},
        {"hookSpecificOutput": {"hookEventName": "PostToolUse", "permissionDecision": "deny"}},
        {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": "text"}},
        {"hookSpecificOutput": {"hookEventName": "Stop", "updatedInput": {}}},
        {"continue": True},
        {"decision": "approve"},
        {"systemMessage": "hi"},
    ],
)
def test_nothing_outside_the_closed_table_is_printed(answer: dict[str, object]) -> None:
    with pytest.raises((AssertionError, KeyError)):
        encoded(answer)


@pytest.mark.parametrize("value", [float("nan"), b"bytes", {1: "a"}, {1, 2}, ("a",)])
def test_nothing_that_json_would_change_is_printed(value: object) -> None:
    inner = {"hookEventName": "PreToolUse", "updatedInput": {"a": value}}
    with pytest.raises((AssertionError, ValueError, TypeError)):
        encoded({"hookSpecificOutput": inner})


def test_lone_surrogates_survive_as_escapes() -> None:
    answer = _answered(_payload(), _says(Decision.modify({"command": "echo \ud800"})))
    assert answer is not None
    inner = answer["hookSpecificOutput"]
    assert isinstance(inner, dict)
    assert inner["updatedInput"]["command"] == "echo \ud800"
