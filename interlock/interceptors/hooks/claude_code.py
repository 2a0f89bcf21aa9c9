"""Claude Code's hook payloads to events, and decisions back to its answers; bytes in, bytes out.

Measured with the real program (2.1.332; tests/integration/test_claude_code.py measures most of it again):

- An answer on PreToolUse without `permissionDecision` leaves the host's own permission check in force, and
  `updatedInput` in it is still applied; the host then judges the rewritten input by its own rules. So a rewrite
  never carries "allow": it would release what the host meant to ask about.
- `deny` and `ask` hold in every permission mode, `bypassPermissions` too; with nobody to ask, `ask` refuses.
- On PostToolUse neither `decision: "block"` nor exit code 2 keeps the output from the model; `updatedToolOutput`
  does, but only where it fits the tool's output schema (else the original is used, silently), and so does
  `continue: false`, which ends the run. So a withheld result is replaced in the shape of its tool where that shape
  is known, and ends the run where it is not.
- The answer of an MCP tool may be replaced by any text.
- A command that fails reports its output to PostToolUseFailure, where no answer of a hook keeps it from the model;
  that event is not ours, and result rules do not see such output.
- `Monitor` runs its `command` in a shell as `Bash` does, so it is judged as Bash.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from interlock.base.canonical import NotCanonical, json_object
from interlock.base.errors import InterlockError, one_line
from interlock.engine.decision import Decision, Verdict
from interlock.engine.event import Phase, SensorEvent
from interlock.engine.payload import frozen_mapping, result_args, result_of, thawed

__all__ = ["AGENT", "EVENTS", "BadPayload", "Payload", "encoded", "read", "reply"]

AGENT: Final = "claude-code"
EVENTS: Final[dict[str, Phase]] = {"PreToolUse": "call", "PostToolUse": "result"}
_ALIASES: Final = {"Monitor": "Bash", "Agent": "Task"}
_BOM: Final = b"\xef\xbb\xbf"
_REASON_LIMIT: Final = 1000


class BadPayload(InterlockError):
    """Hook input that is not what this agent sends; the call that it stands for does not go ahead."""

    code = "bad-input"


@dataclass(frozen=True, slots=True)
class Payload:
    """One hook call: its event and tool by the host's names, the event to judge, the input, the response if any."""

    name: str
    tool: str
    event: SensorEvent = field(repr=False)
    tool_input: Mapping[str, object] = field(repr=False)
    response: object = field(default=None, repr=False)


def read(raw: bytes, ts_us: int = 0) -> Payload:
    """Parse what the agent wrote to the hook's standard input.

    Raises: BadPayload, for anything but one strict JSON object of a known event.
    """
    try:
        body = json_object(raw.removeprefix(_BOM), "hook input")
    except NotCanonical as e:
        raise BadPayload(e.what, where="hook input") from None
    name = _text(body, "hook_event_name")
    if name not in EVENTS:
        raise BadPayload(
            "is of an event that this version does not judge", where="hook input", fix="run interlock doctor"
        )
    tool_input = body.get("tool_input")
    if not isinstance(tool_input, dict):
        raise BadPayload("has no object tool_input", where="hook input")
    if EVENTS[name] == "result" and "tool_response" not in body:
        raise BadPayload("has no tool_response", where="hook input")
    response = body.get("tool_response") if EVENTS[name] == "result" else None
    tool = _text(body, "tool_name")
    return Payload(name, tool, _event(body, EVENTS[name], tool_input, response, ts_us), tool_input, response)


def _event(
    body: Mapping[str, object], phase: Phase, tool_input: dict[str, object], response: object, ts_us: int
) -> SensorEvent:
    return SensorEvent(
        action=_action(_text(body, "tool_name"), tool_input),
        args=frozen_mapping(tool_input) if phase == "call" else result_args(response),
        phase=phase,
        principal=AGENT,
        span_id=_optional_text(body, "session_id"),
        call_id=_optional_text(body, "tool_use_id") or "",
        ts_us=ts_us,
        cwd=_optional_text(body, "cwd"),
    )


def _action(tool: str, tool_input: Mapping[str, object]) -> str:
    """The name that policies know a tool by: what runs a shell command is Bash, whatever the host calls it."""
    if tool == "Monitor" and "command" not in tool_input:
        return tool
    return _ALIASES.get(tool, tool)


def _text(body: Mapping[str, object], key: str) -> str:
    value = _optional_text(body, key)
    if not value:
        raise BadPayload(f"has no {key}", where="hook input")
    return value


def _optional_text(body: Mapping[str, object], key: str) -> str | None:
    value = body.get(key)
    if value is not None and not isinstance(value, str):
        raise BadPayload(f"has a {key} that is not a string", where="hook input")
    return value


def reply(payload: Payload, decision: Decision, final: SensorEvent) -> dict[str, object] | None:
    """The answer to a decision, or None where there is no objection; `final` is the event after all rewrites."""
    if payload.event.phase == "call":
        return _call_reply(payload, decision, final)
    return _result_reply(payload, decision, final)


def _call_reply(payload: Payload, decision: Decision, final: SensorEvent) -> dict[str, object] | None:
    rewritten = final.args != payload.tool_input
    inner: dict[str, object] = {"hookEventName": payload.name}
    if decision.verdict is Verdict.BLOCK:
        return {"hookSpecificOutput": {**inner, **_permission("deny", decision)}}
    if decision.verdict is Verdict.ESCALATE:
        inner |= _permission("ask", decision)
    elif decision.verdict not in (Verdict.ALLOW, Verdict.MODIFY):
        raise AssertionError("a verdict that the hook does not know")
    elif decision.proven and not rewritten:  # the host's own rules that deny or ask still stand (measured)
        return {"hookSpecificOutput": {**inner, **_permission("allow", decision)}}
    elif not rewritten:
        return None
    if rewritten:
        inner["updatedInput"] = thawed(final.args)
    return {"hookSpecificOutput": inner}


def _permission(word: str, decision: Decision) -> dict[str, object]:
    return {"permissionDecision": word, "permissionDecisionReason": _reason(decision)}


def _reason(decision: Decision) -> str:
    rule = f" [{decision.policy_id}]" if decision.policy_id else ""
    why = decision.proven or decision.reason or "refused by policy"
    return one_line(f"interlock: {why}{rule}", _REASON_LIMIT)


def _result_reply(payload: Payload, decision: Decision, final: SensorEvent) -> dict[str, object] | None:
    if decision.verdict in (Verdict.BLOCK, Verdict.ESCALATE):  # nobody can be asked once the tool has run
        return _withheld(payload, _reason(decision))
    if decision.verdict not in (Verdict.ALLOW, Verdict.MODIFY):
        raise AssertionError("a verdict that the hook does not know")
    result = thawed(result_of(final))
    if result == payload.response:
        return None
    if _is_mcp(payload) or _same_shape(payload.response, result):
        return {"hookSpecificOutput": {"hookEventName": payload.name, "updatedToolOutput": result}}
    return _withheld(payload, _reason(decision))


def _withheld(payload: Payload, reason: str) -> dict[str, object]:
    """Keep a result from the model: a notice in the tool's own shape, or the end of the run."""
    notice = f"[withheld by {reason}]"
    answer: dict[str, object] = {"decision": "block", "reason": reason}
    replaced = _notice(payload, notice)
    if replaced is None:
        return {**answer, "continue": False, "stopReason": reason}
    return {**answer, "hookSpecificOutput": {"hookEventName": payload.name, "updatedToolOutput": replaced}}


def _notice(payload: Payload, notice: str) -> object:
    """A replacement that the host takes for this tool, or None where no shape was measured."""
    if _is_mcp(payload) or isinstance(payload.response, str):
        # A built-in tool whose response is bare text has a schema of text.
        return notice
    if not isinstance(payload.response, dict):
        return None
    if payload.tool == "Bash":
        return {"stdout": notice, "stderr": "", "interrupted": False, "isImage": False}
    file = payload.response.get("file")
    if payload.tool == "Read" and payload.response.get("type") == "text" and isinstance(file, dict):
        path = file.get("filePath", "")
        shown = {"filePath": path, "content": notice, "numLines": 1, "startLine": 1, "totalLines": 1}
        return {"type": "text", "file": shown}
    return None


def _is_mcp(payload: Payload) -> bool:
    return payload.tool.startswith("mcp__")


def _same_shape(old: object, new: object) -> bool:
    if isinstance(old, dict):
        return isinstance(new, dict) and old.keys() == new.keys() and all(_same_shape(old[k], new[k]) for k in old)
    if isinstance(old, list):
        return isinstance(new, list) and len(old) == len(new) and all(map(_same_shape, old, new))
    return type(old) is type(new)


# The closed table of answers: place -> what may stand there. Whatever is not listed is never printed.
_TOP: Final = {"hookSpecificOutput": dict, "decision": str, "reason": str, "continue": bool, "stopReason": str}
_INNER: Final[dict[str, dict[str, type]]] = {
    "PreToolUse": {
        "hookEventName": str,
        "permissionDecision": str,
        "permissionDecisionReason": str,
        "updatedInput": dict,
    },
    "PostToolUse": {"hookEventName": str, "updatedToolOutput": object},
}
_WORDS: Final[dict[str, tuple[object, ...]]] = {
    "decision": ("block",),
    "continue": (False,),
    "permissionDecision": ("allow", "deny", "ask"),
}


def encoded(answer: Mapping[str, object] | None) -> bytes:
    """The bytes to print for an answer, checked against the closed table; nothing for None.

    Raises: AssertionError, for an answer that is not in the table; ValueError or TypeError, for one that is not JSON.
    """
    if answer is None:
        return b""
    _check(answer, _TOP)
    inner = answer.get("hookSpecificOutput")
    if isinstance(inner, dict):
        _check(inner, _INNER[inner["hookEventName"]])
    if not answer or (isinstance(inner, dict) and len(inner) < 2):
        raise AssertionError("an answer that says nothing")
    data = json.dumps(answer, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"
    if json.loads(data) != answer:
        raise AssertionError("an answer that JSON changes")
    return data


def _check(part: Mapping[str, object], table: Mapping[str, type]) -> None:
    for key, value in part.items():
        if key not in table or not isinstance(value, table[key]):
            raise AssertionError(f"an answer with {key!r} out of place")
        if key in _WORDS and value not in _WORDS[key]:
            raise AssertionError(f"an answer with an unknown word for {key!r}")
