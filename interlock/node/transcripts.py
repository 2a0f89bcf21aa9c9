"""What agents did, out of the session files that they keep: events to try a pack on. Nothing is copied or sent.

A file is JSON lines. Two kinds of line are read, and every other is skipped:

    {"type": "assistant", "sessionId": S, "cwd": D, "timestamp": T, "message": {"content": [{"type": "tool_use", ...}]}}
    {"type": "user", ..., "message": {"content": [{"type": "tool_result", "tool_use_id": I, ...}]}, "toolUseResult": R}

as Claude Code writes them (2.1), and payloads of hooks as they were handed over ({"hook_event_name": ...}). A call is
what the agent asked for; a result is joined to its call by the call's id.
"""

from __future__ import annotations

import contextlib
import datetime
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.base.clock import MICROSECONDS
from interlock.base.errors import BadInput
from interlock.base.files import os_reason
from interlock.engine.event import SensorEvent
from interlock.interceptors.hooks import claude_code
from interlock.interceptors.hooks.claude_code import BadPayload

__all__ = ["Transcripts", "transcript_files"]

MAX_LINE: Final = 16 << 20  # bytes of one line; a longer one is skipped and counted
_SUFFIX: Final = ".jsonl"


def transcript_files(place: Path) -> list[Path]:
    """A file, or all session files in a folder and below. Raises: BadInput, where there is none."""
    if place.is_file():
        return [place]
    found = sorted(path for path in place.rglob(f"*{_SUFFIX}") if path.is_file()) if place.is_dir() else []
    if not found:
        told = f"holds no session files (*{_SUFFIX})" if place.is_dir() else "is neither a file nor a folder"
        raise BadInput(told, where=str(place), fix="name an agent's session file, or the folder of them")
    return found


@dataclass(slots=True)
class _File:
    """What is known while one file is read: the tool and input of each call, by its id."""

    name: str
    calls: dict[str, tuple[str, dict[str, object]]]


class Transcripts:
    """Events of session files, in the order of files and lines; `skipped` counts lines that could not be read."""

    def __init__(self, files: list[Path]) -> None:
        self._files = files
        self.skipped = 0

    def __iter__(self) -> Iterator[SensorEvent]:
        """Raises: BadInput, for a file that cannot be opened."""
        for path in self._files:
            try:
                yield from self._of(path)
            except OSError as e:
                raise BadInput(f"cannot be read ({os_reason(e)})", where=str(path)) from None

    def _of(self, path: Path) -> Iterator[SensorEvent]:
        file = _File(path.stem, {})
        with path.open("rb") as lines:
            while line := lines.readline(MAX_LINE + 1):
                if len(line) > MAX_LINE:
                    self.skipped += 1
                    while line and not line.endswith(b"\n"):
                        line = lines.readline(MAX_LINE)
                elif line.strip():
                    yield from self._events(line, file)

    def _events(self, line: bytes, file: _File) -> Iterator[SensorEvent]:
        try:
            body = json.loads(line)
        except (ValueError, RecursionError):
            self.skipped += 1
            return
        if not isinstance(body, dict):
            self.skipped += 1
            return
        for payload in _payloads(body, file):
            try:
                yield claude_code.read(json.dumps(payload).encode("utf-8", "replace"), _time(body)).event
            except (BadPayload, ValueError, RecursionError):
                self.skipped += 1


def _payloads(body: Mapping[str, object], file: _File) -> Iterator[dict[str, object]]:
    """The hook payloads that a line stands for."""
    if "hook_event_name" in body:
        if body.get("hook_event_name") in claude_code.EVENTS:
            yield dict(body)
        return
    message = body.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict):
            yield from _payload(body, part, file)


def _payload(body: Mapping[str, object], part: Mapping[str, object], file: _File) -> Iterator[dict[str, object]]:
    given = {"session_id": body.get("sessionId") or file.name, "cwd": body.get("cwd")}
    kind, name, tool_input = part.get("type"), part.get("name"), part.get("input")
    if kind == "tool_use" and isinstance(name, str) and isinstance(tool_input, dict):
        file.calls[str(part.get("id"))] = (name, tool_input)
        call = {"tool_name": name, "tool_input": tool_input, "tool_use_id": part.get("id")}
        yield {"hook_event_name": "PreToolUse", **given, **call}
    elif kind == "tool_result" and str(part.get("tool_use_id")) in file.calls:
        name, tool_input = file.calls[str(part.get("tool_use_id"))]
        call = {"tool_name": name, "tool_input": tool_input, "tool_use_id": part.get("tool_use_id")}
        response = body.get("toolUseResult", part.get("content"))
        yield {"hook_event_name": "PostToolUse", **given, **call, "tool_response": response}


def _time(body: Mapping[str, object]) -> int:
    """When a line was written, in microseconds; 0 where it does not say."""
    said = body.get("timestamp")
    if isinstance(said, str):
        with contextlib.suppress(ValueError, OverflowError):
            when = datetime.datetime.fromisoformat(said.replace("Z", "+00:00"))
            return round(when.replace(tzinfo=when.tzinfo or datetime.UTC).timestamp() * MICROSECONDS)
    return 0
