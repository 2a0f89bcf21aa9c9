"""Our entries in an agent's settings: put in, found, taken out; text to text, everything else byte for byte.

Claude Code's settings.json: `hooks` -> event -> list of {matcher, hooks: [{type, command, timeout, onFailure}]}.
An entry is ours when one of its commands runs `hook claude-code` of an interlock.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from interlock.base.canonical import NotCanonical, json_object
from interlock.base.errors import InterlockError
from interlock.interceptors.hooks import claude_code, jsontext

__all__ = ["TIMEOUT_SECONDS", "BadSettings", "commands", "entry", "parsed", "with_hooks", "without_hooks"]

TIMEOUT_SECONDS: Final = 15  # over the hard deadline of the hook itself, which must end first
_OURS: Final = re.compile(r"interlock\S*['\"]?\s+hook\s+claude-code\b")


class BadSettings(InterlockError):
    """A settings file of an agent that cannot be edited safely; it is left as it is."""

    code = "bad-input"


def entry(command: str) -> dict[str, object]:
    """What install-hook writes for one event: every tool, a time-out, and a failure that blocks."""
    hook = {"type": "command", "command": command, "timeout": TIMEOUT_SECONDS, "onFailure": "block"}
    return {"matcher": "*", "hooks": [hook]}


def parsed(text: str, where: str) -> dict[str, object]:
    """The settings as a value. Raises: BadSettings, for anything that install-hook would not edit."""
    try:
        settings = json_object(text.encode("utf-8", "surrogatepass"), where)
    except NotCanonical as e:
        raise BadSettings(e.what, where=where, fix="put it right by hand, then run this again") from None
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict):
        raise BadSettings("has hooks that are not an object", where=where)
    for event in claude_code.EVENTS:
        if not isinstance(hooks.get(event, []), list):
            raise BadSettings(f"has hooks.{event} that is not a list", where=where)
    return settings


def commands(text: str, where: str) -> dict[str, list[dict[str, object]]]:
    """Our hooks in a settings text: event -> the hook objects that run interlock. Raises: BadSettings."""
    hooks = parsed(text, where).get("hooks", {})
    assert isinstance(hooks, dict)
    return {event: [h for e in hooks.get(event, []) for h in _our_hooks(e)] for event in claude_code.EVENTS}


def with_hooks(text: str, command: str, where: str) -> str:
    """The text with our entry on each event, once; an older entry of ours is replaced. Raises: BadSettings."""
    wanted = entry(command)
    settings = parsed(text, where)
    hooks = settings.get("hooks", {})
    assert isinstance(hooks, dict)
    for event in claude_code.EVENTS:
        ours = [e for e in hooks.get(event, []) if _our_hooks(e)]
        if ours == [wanted]:
            continue
        text = _with_entry(_without_event(text, event), event, wanted)
    _check(text, where, [wanted])
    return text


def without_hooks(text: str, where: str) -> str:
    """The text without our entries, and without what is empty after that. Raises: BadSettings."""
    parsed(text, where)
    for event in claude_code.EVENTS:
        text = _without_event(text, event)
    _check(text, where, [])
    return text


def _check(text: str, where: str, wanted: Sequence[object]) -> None:
    hooks = parsed(text, where).get("hooks", {})
    assert isinstance(hooks, dict)
    for event in claude_code.EVENTS:
        if [e for e in hooks.get(event, []) if _our_hooks(e)] != list(wanted):
            raise AssertionError("an edit of the settings that did not come out as meant")


def _our_hooks(entry_: object) -> list[dict[str, object]]:
    hooks = entry_.get("hooks") if isinstance(entry_, dict) else None
    return [h for h in hooks if _is_ours(h)] if isinstance(hooks, list) else []


def _is_ours(hook: object) -> bool:
    command = hook.get("command") if isinstance(hook, dict) else None
    return isinstance(command, str) and _OURS.search(command) is not None


def _place(text: str, *path: str) -> int | None:
    """Where the container under a path of keys opens."""
    at = text.index("{")
    for key in path:
        found = [i for i in jsontext.items(text, at) if i.key == key]
        if not found:
            return None
        at = found[0].value_start
    return at


def _with_entry(text: str, event: str, wanted: dict[str, object]) -> str:
    if (at := _place(text, "hooks", event)) is not None:
        return jsontext.added(text, at, wanted)
    if (at := _place(text, "hooks")) is not None:
        return jsontext.added(text, at, [wanted], key=event)
    return jsontext.added(text, text.index("{"), {event: [wanted]}, key="hooks")


def _without_event(text: str, event: str) -> str:
    at = _place(text, "hooks", event)
    if at is None:
        return text
    taken = False
    while (index := _first_ours(text, at)) is not None:
        text, taken = _without_entry(text, at, index), True
    for path in (("hooks", event), ("hooks",)) if taken else ():
        text = _without_empty(text, path)
    return text


def _first_ours(text: str, at: int) -> int | None:
    return next((n for n, i in enumerate(jsontext.items(text, at)) if _our_hooks(i.value)), None)


def _without_entry(text: str, at: int, index: int) -> str:
    """Take out one entry, or only our hook where somebody put another beside it."""
    item = jsontext.items(text, at)[index]
    assert isinstance(item.value, dict)
    if len(item.value["hooks"]) == len(_our_hooks(item.value)):
        return jsontext.removed(text, at, index)
    inner = next(i for i in jsontext.items(text, item.value_start) if i.key == "hooks").value_start
    ours = next(n for n, i in enumerate(jsontext.items(text, inner)) if _is_ours(i.value))
    return jsontext.removed(text, inner, ours)


def _without_empty(text: str, path: tuple[str, ...]) -> str:
    at = _place(text, *path)
    parent = _place(text, *path[:-1])
    if at is None or parent is None or jsontext.items(text, at):
        return text
    index = next(n for n, i in enumerate(jsontext.items(text, parent)) if i.key == path[-1])
    return jsontext.removed(text, parent, index)
