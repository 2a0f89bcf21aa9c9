"""The parts by which a text is known again: after encoding, and inside another text.

A text has views: itself, and what it is once URL escapes, JSON and HTML escapes, hexadecimal digits (in either case,
with or without separators) and base64 (standard and URL-safe, beginning anywhere) are undone, three layers deep. Each
view has a normal form: that of string tests in policies (NFKC, without characters that nobody sees; policy.normalise),
case folded, without white space, quotes, backslashes and the scheme of a URL. The fragments of a text are
- every STRIDE-th run of GRAM characters of a normal form, so that any WHOLE characters that go over are seen;
- every field (a line, a value after a colon, a word, a number in groups) of FIELD to WHOLE - 1 characters, whole.
What is common is no fragment: dates, times, decimal numbers, runs of few different characters, letters alone where
they are fewer than LETTERS. Each step is linear in the text.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterator
from html import unescape
from typing import Final
from urllib.parse import unquote

from interlock.engine.policy import normalise

__all__ = ["FIELD", "GRAM", "LETTERS", "STRIDE", "WHOLE", "fragments", "normal", "views"]

FIELD: Final = 12  # characters of the shortest fragment
GRAM: Final = 16
STRIDE: Final = 8
WHOLE: Final = GRAM + STRIDE - 1  # any so many characters of a text hold one of its grams
LETTERS: Final = 16  # letters alone, with no digit or sign between, say something from here on
LAYERS: Final = 3  # encodings inside encodings
VIEWED: Final = 16  # characters of views for each character of a text; an honest text needs less than 4
_DISTINCT: Final = 5

_DROPPED: Final = re.compile(r"""(?:[\s"'`]|\\+[bfnrtv]?|https?:[\\/]+(?:www\.)?)+""")
_LINE_ENDS: Final = re.compile(r"\\+[bfnrtv]?")
_SQUEEZED: Final = str.maketrans("", "", " \t\n\r\x0b\x0c\"'`\0\xa0")
_FIELDS: Final = re.compile(r"""[\r\n\t]+|[:=,;|]\s+|["<>()\[\]{}`]+|\s{2,}|\\[bfnrtv]""")
_WORDS: Final = re.compile(r"""[\s"'<>()\[\]{},;`|]+""")
_PARTS: Final = re.compile(r"""[\s"'<>()\[\]{},;`|:=&]+""")
_NUMBERS: Final = re.compile(r"(?<![\d.,])\d(?:[ -]?\d){11,}")
_EDGES: Final = ".:,;!?-"
_LONG_PART: Final = 4 * WHOLE  # a longer one is no field: white space inside is single
_OF_NUMBERS: Final = "0123456789:./+,-tze"
_DATE: Final = re.compile(r"(?=.*(?:(?:19|20)\d\d[-/.]|\d\d:|:\d\d|\d\d[-/.]\d\d))[\d:./+,tz-]+\Z")
_DECIMAL: Final = re.compile(r"[-+]?\d*[.,]\d+(?:e[-+]?\d+)?\Z")
_ESCAPED: Final = re.compile(r"\\[uU]([0-9A-Fa-f]{4})|\\[xX]([0-9A-Fa-f]{2})")
_ESCAPES: Final[tuple[tuple[str, Callable[[str], str]], ...]] = (
    ("%", lambda text: unquote(text, errors="replace")),
    ("+", lambda text: unquote(text.replace("+", " "), errors="replace")),
    ("&", unescape),
)
_HEX: Final = re.compile(r"(?:(?:0?[xX])?[0-9A-Fa-f]{2}[:,-]?){12,}[0-9A-Fa-f]?")
_HEX_PAIR: Final = re.compile(r"(?:0?[xX])?([0-9A-Fa-f]{2})[:,-]?")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{16,}")
_URL_SAFE: Final = str.maketrans("-_", "+/")
_TEXT: Final = re.compile(  # bytes that are UTF-8 without control characters
    rb"(?:[\x09-\x0d\x1b-\x7e]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}){4,}"
)


def normal(text: str) -> str:
    """The form in which texts are compared."""
    return _DROPPED.sub("", normalise.normal(text).casefold())


def views(text: str) -> tuple[list[str], bool]:
    """A text and everything that it decodes to; and whether that is all of it (false where it is cut at VIEWED)."""
    budget = VIEWED * (len(text) + 100)
    text = normalise.normal(text)  # what nobody sees, or another form of a letter, hides no encoding
    found, seen = [text], {text}
    layer = [text]
    for _ in range(LAYERS):
        inner: list[str] = []
        for view in layer:
            for decoded in _decoded(view):
                if len(decoded) < FIELD or decoded in seen:
                    continue
                budget -= len(decoded)
                if budget < 0:
                    return found + inner, False
                seen.add(decoded)
                inner.append(decoded)
        found += inner
        layer = inner
    return found, True


def fragments(text: str) -> Iterator[str]:
    """The fragments of one view of a text."""
    whole = normal(text)
    for at in range(0, len(whole) - GRAM + 1, STRIDE):
        if not _common(gram := whole[at : at + GRAM]):
            yield gram
    parts = dict.fromkeys(part for splitter in (_FIELDS, _WORDS, _PARTS) for part in splitter.split(text))
    parts.update(dict.fromkeys(_NUMBERS.findall(text)))
    for part in parts:
        if FIELD <= len(part) < _LONG_PART:
            yield from _field(normal(part).strip(_EDGES))
    yield from _field(whole)


def _field(field: str) -> Iterator[str]:
    if FIELD <= len(field) < WHOLE and not _common(field):
        yield field


def _common(fragment: str) -> bool:
    if len(fragment) < LETTERS and fragment.isalpha():
        return True
    if len(set(fragment)) < _DISTINCT:
        return True
    if fragment.strip(_OF_NUMBERS):
        return False
    return _DATE.match(fragment) is not None or _DECIMAL.match(fragment) is not None


def _decoded(text: str) -> Iterator[str]:
    """One layer undone, in each way that is possible; of escapes also with the white space inside them left out."""
    squeezed = _squeezed(text)
    for sign, undo in _ESCAPES:
        if sign in text:
            plain = undo(text)
            yield plain
            if len(squeezed) != len(text):
                spaced = undo(squeezed)
                if _squeezed(spaced) != _squeezed(plain):
                    yield spaced
    if "\\" in text:
        yield _unescaped(text)
    yield from _of_hex(squeezed)
    yield from _of_base64(squeezed)


def _squeezed(text: str) -> str:
    return (_LINE_ENDS.sub("", text) if "\\" in text else text).translate(_SQUEEZED)


def _unescaped(text: str) -> str:
    plain = _ESCAPED.sub(lambda m: chr(int(m[1] or m[2], 16)), text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # joins surrogate pairs


def _of_hex(squeezed: str) -> Iterator[str]:
    for run in _HEX.findall(squeezed):
        digits = run if run.isalnum() and "x" not in run.lower() else "".join(_HEX_PAIR.findall(run))
        for start in (0, 1):
            end = start + (len(digits) - start) // 2 * 2
            yield from _texts(bytes.fromhex(digits[start:end]))


def _of_base64(squeezed: str) -> Iterator[str]:
    for run in _BASE64.findall(squeezed):
        digits = run.translate(_URL_SAFE)
        for start in range(4):
            part = digits[start:]
            part = part[:-1] if len(part) % 4 == 1 else part
            yield from _texts(binascii.a2b_base64(part + "=" * (-len(part) % 4)))


def _texts(data: bytes) -> Iterator[str]:
    """The texts in decoded bytes; zero bytes are left out, so that UTF-16 of plain letters is read too."""
    for run in _TEXT.findall(data.replace(b"\0", b"")):
        if len(run) >= FIELD:
            yield run.decode("utf-8", "replace")
