"""The one canonical JSON encoding (RFC 8785), and domain-tagged SHA-256 digests over it.

RFC 8785 covers JSON values. A tool's arguments also hold what JSON has not, so each such value has one spelling
of its own, an object {"$il": [TAG, ...]} from this table; a real object that has the key "$il" is itself spelt
as a tagged value, so that no two different values share an encoding:

    bytes, bytearray     {"$il": ["bytes", BASE64]}
    NaN, Infinity        {"$il": ["float", "NaN" | "Infinity" | "-Infinity"]}
    lone surrogates      {"$il": ["utf16", HEX of the UTF-16-BE code units]}    (strings, and object keys)
    tuple                as a JSON array
    set, frozenset       {"$il": ["set", ELEMENTS in the order of their encodings]}
    datetime, date, UUID, Decimal, Path    {"$il": [TYPE, TEXT]}
    a key that is not a string, or "$il"   {"$il": ["map", [[KEY, VALUE], ...] in the order of the keys' encodings]}

Integers of any size are written in decimal (RFC 8785 alone would round them to a double). Any other object is
refused with its type named: a guard that cannot say what it saw does not say that it saw it.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from json.encoder import encode_basestring
from typing import Any, Final

from interlock.base.errors import InterlockError

__all__ = [
    "MAX_DEPTH",
    "STRICT",
    "NotCanonical",
    "NotStrict",
    "digest",
    "encode",
    "json_encoder",
    "json_object",
    "known_object",
    "long_digest",
    "not_json",
    "parse_json",
    "plain",
]

MAX_DEPTH: Final = 200
_TAG: Final = "$il"
_HUGE: Final = 10**4000


class NotCanonical(InterlockError):
    """A value that has no canonical encoding; its type is named, never its content."""

    code = "not-canonical"


def encode(value: object) -> bytes:
    """The canonical UTF-8 encoding of a value.

    Raises: NotCanonical, for an object of an unknown type, a cycle, or nesting deeper than MAX_DEPTH.
    """
    if _is_plain(value, 0):
        try:
            return _quick(value).encode("utf-8")
        except UnicodeEncodeError:  # a lone surrogate, which has a spelling of its own
            pass
    out: list[str] = []
    _write(value, out, 0)
    return "".join(out).encode("utf-8")


def json_encoder(
    *, sort_keys: bool = False, default: Callable[[object], object] | None = None
) -> Callable[[object], str]:
    """What json's own encoder makes of a value: no spaces, every character as it is; cycles are not looked for.

    `JSONEncoder.encode` makes a C encoder for each value, which takes longer than to encode the arguments of a call.
    """
    encoder = json.JSONEncoder(
        ensure_ascii=False,
        sort_keys=sort_keys,
        separators=(",", ":"),
        check_circular=False,
        allow_nan=False,
        default=default,
    )
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # pragma: no cover - another Python than CPython
        return encoder.encode
    pieces = make(None, encoder.default, encode_basestring, None, ":", ",", sort_keys, False, False)
    return lambda value: "".join(pieces(value, 0))


# Spells as RFC 8785 does, many times faster than what is below; sorted by code points: for ASCII keys only.
_quick: Final = json_encoder(sort_keys=True)
_PLAIN: Final = frozenset({str, bool, type(None)})
_ORDINARY_INT: Final = 1 << 64
_STEP: Final = 2047  # bytes that hashlib hashes without letting go of the interpreter
_PORTION: Final = 500  # elements of a list that `long_digest` encodes at a time


def _is_plain(value: object, depth: int) -> bool:
    """Whether `_quick` spells a value as it has to be; what could read differently each time is not plain."""
    if depth > MAX_DEPTH:
        return False
    kind = type(value)
    if kind in _PLAIN:
        return True
    if kind is int:
        return isinstance(value, int) and -_ORDINARY_INT < value < _ORDINARY_INT
    if isinstance(value, dict) and type(value).items is dict.items:
        return _are_plain(dict.values(value), depth) and _are_plain_keys(dict.keys(value))
    if isinstance(value, list) and type(value).__iter__ is list.__iter__:
        return _are_plain(value, depth)
    return isinstance(value, tuple) and kind is tuple and _are_plain(value, depth)


def _are_plain(values: Iterable[object], depth: int) -> bool:
    below = depth + 1
    plain = _PLAIN if below <= MAX_DEPTH else frozenset[type]()
    for value in values:  # noqa: SIM110 - a generator would cost as much again, for every argument of every call
        if type(value) not in plain and not _is_plain(value, below):
            return False
    return True


def _are_plain_keys(keys: Iterable[object]) -> bool:
    for key in keys:  # noqa: SIM110 - as above
        if type(key) is not str or not key.isascii() or key == _TAG:
            return False
    return True


def digest(domain: str, value: object) -> bytes:
    """SHA-256 over a domain tag and a value's canonical encoding; 32 bytes.

    The tag keeps digests of different uses apart: no digest of one domain is ever one of another.
    """
    tag = domain.encode("ascii")
    return _hashed([len(tag).to_bytes(2, "big") + tag + encode(value)])


def long_digest(domain: str, value: object) -> bytes:
    """The same as `digest`, made a portion at a time: thousands of values at once would hold up every other thread."""
    tag = domain.encode("ascii")
    return _hashed(itertools.chain([len(tag).to_bytes(2, "big") + tag], _portions(value)))


def _hashed(portions: Iterable[bytes]) -> bytes:
    """SHA-256 in short steps, for which hashlib keeps the interpreter.

    For longer ones it lets go, and has it back before a thread that waits is awake. That one then waits anew, for as
    long as there are such steps: it asks for its turn only after a wait that nothing ended.
    """
    hashed = hashlib.sha256()
    for portion in portions:
        if len(portion) <= _STEP:
            hashed.update(portion)
        else:
            view = memoryview(portion)
            for start in range(0, len(view), _STEP):
                hashed.update(view[start : start + _STEP])
    return hashed.digest()


def _portions(value: object) -> Iterator[bytes]:
    """The canonical encoding in pieces; long lists at the top, and in the values of an object there, are cut."""
    if isinstance(value, dict) and _are_plain_keys(value):
        for i, key in enumerate(sorted(value)):
            yield (b"," if i else b"{") + encode(key) + b":"
            yield from _portions(value[key]) if isinstance(value[key], list) else (encode(value[key]),)
        yield b"}" if value else b"{}"
    elif isinstance(value, list) and len(value) > _PORTION:
        for start in range(0, len(value), _PORTION):
            yield (b"," if start else b"[") + encode(value[start : start + _PORTION])[1:-1]
        yield b"]"
    elif isinstance(value, list) and value:
        for i, held in enumerate(value):
            yield b"," if i else b"["
            yield from _portions(held)
        yield b"]"
    else:
        yield encode(value)


def parse_json(data: bytes, what: str) -> object:
    """Parse JSON strictly: UTF-8, no duplicate key, no NaN, bounded nesting.

    Raises: NotCanonical, with the reason in one line.
    """
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as e:
        raise not_json(e, what) from None


def not_json(e: ValueError | RecursionError, what: str) -> NotCanonical:
    """The refusal of a document that `STRICT` does not read, by what reading it raised."""
    if isinstance(e, UnicodeDecodeError):
        return NotCanonical(f"is not UTF-8 (byte {e.start})", where=what)
    if isinstance(e, json.JSONDecodeError):
        return NotCanonical(f"is not JSON (line {e.lineno}, column {e.colno}: {e.msg})", where=what)
    if isinstance(e, RecursionError):
        return NotCanonical("is nested too deeply", where=what)
    if isinstance(e, NotStrict):
        return NotCanonical(f"is not JSON ({e})", where=what)
    return NotCanonical("holds an integer of too many digits", where=what)  # int() refuses some thousand digits


def json_object(data: bytes, what: str) -> dict[str, object]:
    """Parse JSON strictly and demand an object. Raises: NotCanonical."""
    value = parse_json(data, what)
    if not isinstance(value, dict):
        raise NotCanonical("is not a JSON object", where=what)
    return value


def known_object(data: bytes, format_: str, v: int, *, most: int, where: str) -> dict[str, object]:
    """The fields of a file that somebody signs or logs: of this format and version, of at most so many bytes, and in
    its one spelling. Raises: NotCanonical.
    """
    if len(data) > most:
        raise NotCanonical(f"is larger than {most} bytes", where=where)
    body = json_object(data, where)
    if body.get("format") != format_ or body.get("v") != v or encode(body) != data:
        raise NotCanonical(f"is not a canonical file (RFC 8785) of format {format_}, version {v}", where=where)
    return body


class NotStrict(ValueError):
    """What Python's parser takes and JSON does not have."""


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    seen = dict(pairs)
    if len(seen) != len(pairs):
        keys = [k for k, _ in pairs]
        twice = next(k for k in keys if keys.count(k) > 1)
        raise NotStrict(f"key {twice!r} stands twice in one object")
    return seen


def _no_constant(name: str) -> object:
    raise NotStrict(f"{name} is not JSON")


STRICT: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def _write(value: object, out: list[str], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise NotCanonical(f"is nested deeper than {MAX_DEPTH} levels")
    if value is None:
        out.append("null")
    elif value is True:
        out.append("true")
    elif value is False:
        out.append("false")
    elif isinstance(value, str):
        _write_text(str.__str__(value), out)  # what it holds, whatever its class says of itself; as below
    elif isinstance(value, int):
        out.append(_decimal(int.__index__(value)))
    elif isinstance(value, float):
        _write_float(float.__float__(value), out)
    elif isinstance(value, Mapping):
        _write_map(value, out, depth)
    elif isinstance(value, list | tuple):
        _write_list(value, out, depth)
    elif isinstance(value, bytes | bytearray | memoryview):
        _write_tagged(["bytes", base64.b64encode(bytes(value)).decode("ascii")], out)
    elif isinstance(value, set | frozenset):
        _write_raw_tagged("set", sorted(encode(v) for v in value), out)
    else:
        _write_tagged(_named(value), out)


def _decimal(value: int) -> str:
    # str() refuses integers over 4,300 digits (a denial-of-service guard); an argument may hold one all the same.
    if -_HUGE < value < _HUGE:
        return str(value)
    raise NotCanonical("holds an integer of more than 4,000 digits")


def _named(value: object) -> list[str]:
    if isinstance(value, _of("datetime", "date", "time")):  # a datetime is a date
        return [type(value).__name__, value.isoformat()]
    if isinstance(value, _of("uuid", "UUID")):
        return ["uuid", str(value)]
    if isinstance(value, _of("decimal", "Decimal")):
        return ["decimal", str(value)]
    if isinstance(value, _of("pathlib", "PurePath")):
        return ["path", str(value)]
    raise NotCanonical(f"holds an object of type {type(value).__module__}.{type(value).__qualname__}")


def plain(value: object) -> object:
    """A value as a person would write it in JSON: bytes, paths, times and UUIDs as text, a Decimal as a number.

    Any other value is returned as it is; containers are not looked into. Raises: whatever the object's own text does.
    """
    kind = type(value)
    if kind in _PLAIN or kind is int or kind is float:  # most values, without a look at what has been imported
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, _of("decimal", "Decimal")):
        number: Any = value
        whole = number.is_finite() and -_ORDINARY_INT < number < _ORDINARY_INT and number == int(number)
        return int(number) if whole else float(number)
    if isinstance(value, (*_of("datetime", "date", "time"), *_of("uuid", "UUID"), *_of("pathlib", "PurePath"))):
        return _named(value)[1]
    return value


def _of(module: str, *names: str) -> tuple[type[Any], ...]:
    """Types of a module that costs a lot to import: where nobody did, no value is of them."""
    loaded = sys.modules.get(module)
    return () if loaded is None else tuple(getattr(loaded, name) for name in names)


def _write_text(text: str, out: list[str]) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        _write_tagged(["utf16", text.encode("utf-16-be", "surrogatepass").hex()], out)
        return
    # RFC 8785, 3.2.2.2: json's encoder escapes just what ECMAScript does, with \b \t \n \f \r and \u00xx in lower case.
    out.append(encode_basestring(text))


def _write_float(value: float, out: list[str]) -> None:
    if math.isnan(value):
        _write_tagged(["float", "NaN"], out)
    elif math.isinf(value):
        _write_tagged(["float", "Infinity" if value > 0 else "-Infinity"], out)
    else:
        out.append(_ecmascript_number(value))


def _ecmascript_number(value: float) -> str:
    """ECMA-262 Number::toString, which RFC 8785, 3.2.2.3 demands."""
    if value == 0:
        return "0"
    sign, text = ("-", repr(-value)) if value < 0 else ("", repr(value))
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    size = len(digits)
    if size <= point <= 21:
        return sign + digits + "0" * (point - size)
    if 0 < point <= 21:
        return sign + digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    power = f"e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return sign + digits[0] + ("." + digits[1:] if size > 1 else "") + power


def _write_list(values: list[object] | tuple[object, ...], out: list[str], depth: int) -> None:
    out.append("[")
    for i, item in enumerate(values):
        if i:
            out.append(",")
        _write(item, out, depth + 1)
    out.append("]")


def _write_map(value: Mapping[object, object], out: list[str], depth: int) -> None:
    if not all(isinstance(k, str) and _is_text(k) for k in map(_exact, value)):
        pairs = sorted((encode(k), v) for k, v in value.items())
        rows = []
        for encoded, item in pairs:
            inner: list[str] = []
            _write(item, inner, depth + 3)
            rows.append(b"[" + encoded + b"," + "".join(inner).encode("utf-8") + b"]")
        out.append('{"$il":["map",[' + b",".join(rows).decode("utf-8") + "]]}")
        return
    # RFC 8785, 3.2.3: keys in the order of their UTF-16 code units.
    held = {str.__str__(key): item for key, item in value.items()}
    if len(held) != len(value):  # keys of a class whose instances differ though they hold the same
        raise NotCanonical("holds a key twice")
    out.append("{")
    for i, key in enumerate(sorted(held, key=lambda k: k.encode("utf-16-be"))):
        if i:
            out.append(",")
        _write_text(key, out)
        out.append(":")
        _write(held[key], out, depth + 1)
    out.append("}")


def _exact(key: object) -> object:
    return str.__str__(key) if isinstance(key, str) else key


def _is_text(text: str) -> bool:
    """Whether a key stands in an object as it is."""
    if text == _TAG:
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _write_tagged(row: list[str], out: list[str]) -> None:
    out.append('{"$il":' + json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "}")


def _write_raw_tagged(tag: str, encoded: list[bytes], out: list[str]) -> None:
    out.append(f'{{"$il":["{tag}",[' + b",".join(encoded).decode("utf-8") + "]]}")
