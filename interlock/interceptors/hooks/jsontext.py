"""Edit a JSON text in place, so that everything that is not edited keeps its bytes: spaces, order, escapes.

Values are found with the standard library's own decoder; a text that it does not take never gets here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["Item", "added", "items", "removed"]

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True, slots=True)
class Item:
    """One element of an array, or member of an object: its key, value, and where it stands (key to end of value)."""

    key: str | None
    value: object
    start: int
    value_start: int
    end: int


def items(text: str, at: int) -> list[Item]:
    """The elements or members of the container that opens at `at` (its bracket)."""
    return list(_items(text, at))


def _items(text: str, at: int) -> Iterator[Item]:
    closing = "}" if text[at] == "{" else "]"
    at = _skip(text, at + 1)
    while text[at] != closing:
        start, key = at, None
        if closing == "}":
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)  # past the colon
        value, end = _DECODER.raw_decode(text, at)
        yield Item(key, value, start, at, end)
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def added(text: str, at: int, value: object, key: str | None = None) -> str:
    """The text with a value added last to the container that opens at `at`, indented as its neighbours are."""
    found = items(text, at)
    last = found[-1].end if found else at + 1
    close = _skip(text, last)
    outer = _indent(text, close if found else at)
    inner = _indent(text, found[0].start) if found else outer + _unit(text)
    compact = found and "\n" not in text[at : found[0].start]
    if compact:
        return text[:last] + ", " + _member(key, json.dumps(value, ensure_ascii=False)) + text[last:]
    line_end = "\r\n" if "\r\n" in text else "\n"
    shown = json.dumps(value, indent=_unit(text), ensure_ascii=False).replace("\n", line_end + inner)
    tail = text[last:] if found else line_end + outer + text[close:]
    return text[:last] + ("," if found else "") + line_end + inner + _member(key, shown) + tail


def _member(key: str | None, shown: str) -> str:
    return shown if key is None else f"{json.dumps(key)}: {shown}"


def removed(text: str, at: int, index: int) -> str:
    """The text without the item number `index` of the container that opens at `at`."""
    found = items(text, at)
    if len(found) == 1:
        return text[: at + 1] + text[_skip(text, found[0].end) :]
    if index:
        return text[: found[index - 1].end] + text[found[index].end :]
    return text[: found[0].start] + text[found[1].start :]


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None  # the pattern also matches nothing
    return match.end()


def _indent(text: str, at: int) -> str:
    """The white space that the line of a place begins with."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """One step of indentation as the text has it; two spaces where it shows none."""
    match = re.search(r"\n([ \t]+)\S", text)
    return match.group(1) if match else "  "
