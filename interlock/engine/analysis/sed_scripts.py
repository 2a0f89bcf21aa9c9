"""What a script of sed would run or write, found in one pass whatever the script holds."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["commands", "substitutions", "writes"]

# A blank before a command is no newline: each newline is a start of its own, so that no run of them is read twice.
_COMMAND: Final = re.compile(
    r"(?:^|[;\n{}])[^\S\n]*(?:(?:[0-9$,~+!]|/(?:[^/\\\n]|\\.)*/)+\s*)?e\s+([^\n]+)",
)
_WRITE: Final = re.compile(r"(?:^|[;\n{}/])[^\S\n]*[0-9$,]*w\s+(/\S+)")
_SUBSTITUTE: Final = re.compile(r"(?:^|[;\n{}])(?:[0-9$,]+\s*|[^\S\n]*)s([/|#,:@])")
_UNIT: Final = re.compile(r"\\.|[^\\\n]|\\?\n|\\")
_FLAGS: Final = re.compile(r"[gpIM0-9]*e")
_MAX_PART: Final = 500  # characters of one part, with a character that a backslash hides counted as one


def commands(script: str) -> Iterator[str]:
    """The commands of `e command`."""
    for m in _COMMAND.finditer(script):
        yield m.group(1)


def writes(script: str) -> Iterator[str]:
    """The absolute paths of `w file`."""
    for m in _WRITE.finditer(script):
        yield m.group(1)


def substitutions(script: str) -> Iterator[str]:
    """The replacements of `s/.../replacement/e`, which run."""
    units: _Units | None = None
    end = 0
    for m in _SUBSTITUTE.finditer(script):
        units = units or _Units(script)
        found = units.parts(m.group(1), m.end()) if m.start() >= end else None
        if found is not None:
            yield script[found.start : found.end]
            end = found.after


class _Part(NamedTuple):
    start: int
    end: int
    after: int  # where the flags end


class _Units:
    """The characters of a script, with those that a backslash hides, and where the parts of substitutions end."""

    def __init__(self, script: str) -> None:
        self.script = script
        self.texts: list[str] = _UNIT.findall(script)
        self.offsets = [0]
        for text in self.texts:
            self.offsets.append(self.offsets[-1] + len(text))
        self.barriers = [k for k, text in enumerate(self.texts) if text[-1] == "\n" or text == "\\"]
        self.marks: dict[str, tuple[list[int], list[int]]] = {}

    def _of(self, mark: str) -> tuple[list[int], list[int]]:
        """The places of a mark, and of those among them behind which flags with an `e` stand."""
        if mark not in self.marks:
            places = [k for k, text in enumerate(self.texts) if text == mark]
            closing = [k for k in places if _FLAGS.match(self.script, self.offsets[k] + 1)]
            self.marks[mark] = places, closing
        return self.marks[mark]

    def parts(self, mark: str, offset: int) -> _Part | None:
        """The second part of a substitution whose first one starts at `offset`: with the shortest first part."""
        places, closing = self._of(mark)
        start = bisect.bisect_left(self.offsets, offset)
        barrier = _at(self.barriers, start, len(self.texts))
        first = _at(places, start, barrier)
        while first < barrier and first - start <= _MAX_PART:
            last = _at(closing, first + 1, barrier)
            if last >= barrier:
                return None
            if last - first - 1 <= _MAX_PART:
                flags = _FLAGS.match(self.script, self.offsets[last] + 1)
                after = flags.end() if flags else self.offsets[last]
                return _Part(self.offsets[first + 1], self.offsets[last], after)
            first = _at(places, last - _MAX_PART - 1, barrier)
        return None


def _at(places: list[int], start: int, default: int) -> int:
    """The first of the sorted places from `start` on."""
    k = bisect.bisect_left(places, start)
    return places[k] if k < len(places) else default
