"""Long JSON documents, parsed a portion at a time: parsed whole, one would hold up every other thread.

What is read is what `canonical.parse_json` reads, and the value is the same. Text is decoded some kilobytes at a time,
and json's own decoder reads each value that lies in what is decoded; of longer ones, this reads the brackets.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from interlock.base.canonical import STRICT, NotStrict, not_json

__all__ = ["parse_long_json"]

_PORTION: Final = 1 << 15  # bytes that are decoded at a time, at least
_EDGE: Final = 12  # characters of a value that may be cut in two and be an error only for that
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_OF_NUMBERS: Final = "0123456789+-.eE"


def parse_long_json(data: bytes, what: str) -> object:
    """The value of a JSON document, strictly; see `canonical.parse_json`. Raises: NotCanonical."""
    text = _Text(data)
    try:
        value = text.value()
        if text.sign():
            raise text.error("Extra data")
        return value
    except (ValueError, RecursionError) as e:
        raise not_json(e, what) from None


class _Text:
    """A document of which `held` is decoded and `at` is the place of the next character in it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._read = 0  # bytes that are decoded
        self._line, self._column = 1, 0  # of the first character of `held`
        self.held = ""
        self.at = 0

    def value(self) -> Any:
        """The value that begins here."""
        sign = self.sign()
        while True:
            try:
                value, end = STRICT.raw_decode(self.held, self.at)
            except json.JSONDecodeError as e:
                wrong: json.JSONDecodeError | None = e
            else:
                wrong = None
                if not self._is_cut(value, end):
                    self.at = end
                    return value
            if self.at and len(self.held) - self.at < _PORTION and self._more():
                continue
            if sign == "{":
                return self._object()
            if sign == "[":
                return self._array()
            if not (wrong is None or self._is_near_edge(wrong)) or not self._more(len(self.held)):
                raise self.error(wrong.msg if wrong else "Expecting value", wrong.pos if wrong else self.at)

    def sign(self) -> str:
        """The next character that is no space, "" at the end."""
        while True:
            space = _SPACE.match(self.held, self.at)
            self.at = space.end() if space else self.at
            if self.at < len(self.held) or not self._more():
                return self.held[self.at : self.at + 1]

    def error(self, message: str, at: int | None = None) -> json.JSONDecodeError:
        """What is wrong at a place in `held`, with that place in the document."""
        before = self.held[: self.at if at is None else at]
        e = json.JSONDecodeError(message, before, len(before))
        e.colno += self._column if e.lineno == 1 else 0
        e.lineno += self._line - 1
        return e

    def _array(self) -> list[object]:
        out: list[object] = []
        self.at += 1
        if self.sign() == "]":
            self.at += 1
            return out
        while True:
            out.append(self.value())
            if not self._goes_on("]"):
                return out

    def _object(self) -> dict[str, object]:
        out: dict[str, object] = {}
        self.at += 1
        if self.sign() == "}":
            self.at += 1
            return out
        while True:
            if self.sign() != '"':
                raise self.error("Expecting property name enclosed in double quotes")
            key = self.value()
            if key in out:
                raise NotStrict(f"key {key!r} stands twice in one object")
            if self.sign() != ":":
                raise self.error("Expecting ':' delimiter")
            self.at += 1
            out[key] = self.value()
            if not self._goes_on("}"):
                return out

    def _goes_on(self, end: str) -> bool:
        """Whether a comma is next, and not the end of the array or object."""
        sign = self.sign()
        if sign != end and sign != ",":
            raise self.error("Expecting ',' delimiter")
        self.at += 1
        return sign == ","

    def _is_cut(self, value: object, end: int) -> bool:
        """Whether a number may go on in what is not decoded yet."""
        number = isinstance(value, int | float) and self._read < len(self._data)
        return number and not self.held[end : end + _EDGE].strip(_OF_NUMBERS) and len(self.held) - end < _EDGE

    def _is_near_edge(self, wrong: json.JSONDecodeError) -> bool:
        return wrong.msg.startswith("Unterminated string") or wrong.pos >= len(self.held) - _EDGE

    def _more(self, size: int = 0) -> bool:
        """Decode the next portion, and let go of what is read; False at the end of the document.

        `size` is how much is to be decoded at least: twice as much each time, and a long text is soon whole.
        """
        if self._read == len(self._data):
            return False
        gone = self.held[: self.at]
        self._column = len(gone) - gone.rfind("\n") - 1 + (0 if "\n" in gone else self._column)
        self._line += gone.count("\n")
        rest = self.held[self.at :]
        start = self._read
        end = min(len(self._data), start + max(_PORTION, size))
        while end < len(self._data) and self._data[end] & 0xC0 == 0x80:
            end += 1
        try:
            self.held = rest + self._data[start:end].decode("utf-8")
        except UnicodeDecodeError as e:
            e.start += start
            raise
        self.at, self._read = 0, end
        return True
