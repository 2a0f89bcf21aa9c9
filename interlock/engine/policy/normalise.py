"""The normal form in which string tests read a text: NFKC of one pinned Unicode version, without invisible characters.

What stands in nfkc.txt is stripped (the default ignorable characters: zero-width and bidi controls, soft hyphens,
variation selectors, tags), then the rest is brought to NFKC (Unicode Standard Annex 15). The running Python's own
tables play no part, so that every engine on every machine reads a text in the same way; characters that the pinned
version did not know stand for themselves. ASCII text is its own normal form.

nfkc.txt is ASCII, one record a line, all numbers hexadecimal but the combining class; SPAN is CP or FIRST-LAST:

    interlock-nfkc 1 unicode 14.0.0     the first line: format, its version, the pinned Unicode version
    S SPAN                              stripped
    C SPAN CLASS                        canonical combining class (decimal); all others have 0
    D CP CP CP ...                      full compatibility decomposition of the first
    R SPAN CP                           FIRST decomposes to CP, the next one to CP + 1, and so on to LAST
    P CP CP CP                          the first two compose to the third (exclusions are left out already)

Hangul syllables have no record: they are composed by arithmetic (Unicode Standard 3.12). tools/make_nfkc.py writes
the file.
"""

from __future__ import annotations

import functools
import importlib.resources
import itertools
import re
from typing import Final, NamedTuple

__all__ = ["LONGEST", "UNICODE", "normal", "normal_deep", "possible"]

UNICODE: Final = "14.0.0"  # the version that the table is of
LONGEST: Final = 18  # characters that one becomes at most
_HEADER: Final = f"interlock-nfkc 1 unicode {UNICODE}"
_S, _L, _V, _T = 0xAC00, 0x1100, 0x1161, 0x11A7
_SYLLABLES, _VS, _TS = 11172, 21, 28
_MARKS: Final = re.compile(b"[^\\0]{2,}")
_KEPT: Final = 8  # normal forms kept for the next test of the same text


class _Table(NamedTuple):
    """The records of nfkc.txt, and what follows from them."""

    stripped: frozenset[int]
    classes: dict[int, int]
    decomposed: dict[int, tuple[int, ...]]
    composed: dict[tuple[int, int], int]
    joining: frozenset[str]  # characters that what stands before them may reorder or compose with


def normal(text: str) -> str:
    """The normal form of a text; `normal(normal(text)) == normal(text)`."""
    return text if text.isascii() else _normal(text)


def normal_deep(value: object) -> object:
    """A JSON value with each text in it (keys apart) in its normal form."""
    if isinstance(value, str):
        return normal(value)
    if isinstance(value, dict):
        return {key: normal_deep(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [normal_deep(held) for held in value]
    return value


def possible(code_point: int) -> bool:
    """Whether a normal form can hold this character at all."""
    table = _table()
    if code_point < 0x80:
        return True
    return code_point not in table.stripped and normal(chr(code_point)) == chr(code_point)


@functools.lru_cache(maxsize=_KEPT)
def _normal(text: str) -> str:
    """Each character by itself first, then what joins: NFKC of a whole is NFKC of its parts' NFKC, put together."""
    alone = {sign: _alone(sign) for sign in set(text)}
    if any(sign != form for sign, form in alone.items()):
        text = text.translate({ord(sign): form for sign, form in alone.items()})
    joining = _table().joining.intersection("".join(alone.values()))
    if not joining:
        return text
    pieces = _joining(joining).split(text)  # each second one is a run that joins
    forms = {piece: _segment(piece) for piece in set(pieces[1::2])}
    pieces[1::2] = map(forms.__getitem__, pieces[1::2])
    return "".join(pieces)


@functools.lru_cache(maxsize=4096)
def _alone(sign: str) -> str:
    return sign if sign.isascii() else _segment(sign)


@functools.lru_cache(maxsize=64)
def _joining(signs: frozenset[str]) -> re.Pattern[str]:
    """Runs of characters that join, each with the one before it, which they may join."""
    held = "".join(rf"\U{ord(sign):08x}" for sign in sorted(signs))
    return re.compile(f"([^{held}]?[{held}]+)")


def _segment(text: str) -> str:
    return _composed(*_ordered(_decomposed(text)))


def _decomposed(text: str) -> list[int]:
    parts = {sign: _parts(ord(sign)) for sign in set(text)}
    if all(part == (ord(sign),) for sign, part in parts.items()):
        return list(map(ord, text))
    return list(itertools.chain.from_iterable(map(parts.__getitem__, text)))


def _parts(code: int) -> tuple[int, ...]:
    table = _table()
    if 0 <= (index := code - _S) < _SYLLABLES:
        last = index % _TS
        both = (_L + index // (_VS * _TS), _V + index % (_VS * _TS) // _TS)
        return (*both, _T + last) if last else both
    whole = () if code in table.stripped else table.decomposed.get(code, (code,))
    return tuple(part for part in whole if part not in table.stripped)


def _ordered(codes: list[int]) -> tuple[list[int], bytearray]:
    """Canonical ordering: each run of combining characters by its class, otherwise as it stood; with the classes."""
    known = _table().classes
    classes = bytes(map({code: known.get(code, 0) for code in set(codes)}.__getitem__, codes))
    ordered = bytearray(classes)
    for marks in _MARKS.finditer(classes):
        run, at = marks.group(), slice(*marks.span())
        if run.count(run[0]) < len(run):
            codes[at] = sorted(codes[at], key=known.__getitem__)
            ordered[at] = sorted(run)
    return codes, ordered


def _composed(codes: list[int], classes: bytearray) -> str:
    """Canonical composition: each character with the last starter, where nothing between them blocks it."""
    out: list[int] = []
    starter, last_class = -1, -1  # where the last starter stands in `out`; the class of what was kept after it
    at, end = 0, len(codes)
    while at < end:
        code, own = codes[at], classes[at]
        at += 1
        if starter >= 0 and (last_class < own or last_class == -1):
            pair = _pair(out[starter], code)
            if pair is not None:
                out[starter] = pair
                continue
        out.append(code)
        if own == 0:
            starter, last_class = len(out) - 1, -1
            continue
        last_class = own
        if at < end and classes[at] == own:  # all that follow of its class are blocked as well
            marked = classes.find(0, at)
            past = classes.rfind(own, at, end if marked < 0 else marked) + 1
            out += codes[at:past]
            at = past
    return "".join(map(chr, out))


def _pair(first: int, second: int) -> int | None:
    if 0 <= first - _L < 19 and 0 <= second - _V < _VS:
        return _S + ((first - _L) * _VS + (second - _V)) * _TS
    if 0 <= first - _S < _SYLLABLES and (first - _S) % _TS == 0 and 0 < second - _T < _TS:
        return first + (second - _T)
    return _table().composed.get((first, second))


@functools.cache
def _table() -> _Table:
    header, *lines = (
        importlib.resources.files("interlock.engine.policy").joinpath("nfkc.txt").read_text("ascii").splitlines()
    )
    assert header == _HEADER, "nfkc.txt is of another version than this module"
    stripped: set[int] = set()
    classes: dict[int, int] = {}
    decomposed: dict[int, tuple[int, ...]] = {}
    composed: dict[tuple[int, int], int] = {}
    for line in lines:
        kind, first, *rest = line.split(" ")
        if kind == "S":
            stripped.update(_span(first))
        elif kind == "C":
            classes.update(dict.fromkeys(_span(first), int(rest[0])))
        elif kind == "D":
            decomposed[int(first, 16)] = tuple(int(part, 16) for part in rest)
        elif kind == "R":
            decomposed.update({code: (int(rest[0], 16) + i,) for i, code in enumerate(_span(first))})
        else:
            composed[int(first, 16), int(rest[0], 16)] = int(rest[1], 16)
    seconds = {second for _, second in composed} | {*range(_V, _V + _VS), *range(_T + 1, _T + _TS)}
    joining = frozenset(map(chr, seconds | classes.keys()))
    return _Table(frozenset(stripped), classes, decomposed, composed, joining)


def _span(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first, 16), int(last or first, 16) + 1)
