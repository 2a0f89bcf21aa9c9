"""Long JSON documents are read as short ones are, a portion at a time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.base import canonical, portions
from interlock.base.canonical import NotCanonical, parse_json
from interlock.base.portions import parse_long_json

_LEAVES: Any = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=40)
_VALUES: Any = st.recursive(
    _LEAVES,
    lambda below: st.lists(below, max_size=6) | st.dictionaries(st.text(max_size=9), below, max_size=6),
    max_leaves=40,
)


@pytest.fixture(params=[1, 2, 7, 64])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """So small a portion that every value is cut somewhere."""
    monkeypatch.setattr(portions, "_PORTION", request.param)


def _read(parse: Any, data: bytes) -> tuple[Any, str]:
    try:
        return parse(data, "x"), ""
    except NotCanonical as e:
        return None, str(e)


def _same(data: bytes) -> None:
    long, short = _read(parse_long_json, data), _read(parse_json, data)
    assert json.dumps(long) == json.dumps(short)


@given(_VALUES, st.sampled_from([None, 1]), st.booleans(), st.sampled_from([1, 2, 3, 5, 17, 100]))
@settings(max_examples=150, deadline=None)
def test_whatever_the_portion_is_the_value_is_the_same(value: Any, indent: Any, ascii_only: bool, portion: int) -> None:
    data = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "replace")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(portions, "_PORTION", portion)
        _same(data)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "[",
        "{",
        "[1,]",
        "[1 2]",
        '{"a":1,}',
        '{"a" 1}',
        "{1:2}",
        '{"a":1 "b":2}',
        '{"a":\n1,\n\n  "b": tru}',
        '{"a":[1,2,{"b":nul}]}',
        '["abc',
        '["a\\qb"]',
        '["a\\u12"]',
        '["line\nbreak"]',
        "[1]x",
        "[NaN]",
        "[1e5, -2.5E-3, 123456789012345678901234567890, -0.0, 1E+2]",
        "123456789",
        "-",
        "[01]",
        '{"a":1,"b":2,"a":3}',
        '[{"x":{"a":1,"a":2}}]',
        '"\\ud83d\\ude00 \U0001f600 é"',
        "[" + "1" * 5000 + "]",
        "\ufeff[]",
    ],
)
def test_what_is_wrong_is_told_where_and_in_the_same_words(text: str) -> None:
    _, long = _read(parse_long_json, text.encode())
    _, short = _read(parse_json, text.encode())
    assert bool(long) is bool(short)
    if "delimiter" not in long and "Unterminated" not in long and "BOM" not in short:
        assert long == short
    if not long:
        _same(text.encode())


@pytest.mark.usefixtures("small")
def test_what_is_no_utf_8_is_told_by_its_place_in_the_document() -> None:
    data = '["é", "'.encode() + b'\xff"]'
    assert _read(parse_long_json, data)[1] == "x: is not UTF-8 (byte 8)"


def test_what_is_nested_deeper_than_python_can_follow_is_refused() -> None:
    for data in (b"[" * 200_000, b'{"a":' * 200_000, (b"[" + b" " * 40_000) * 500):
        assert "nested too deeply" in _read(parse_long_json, data)[1] or "not JSON" in _read(parse_long_json, data)[1]


def test_one_long_text_is_read_in_time_that_grows_with_its_length() -> None:
    text = "x" * 8_000_000
    assert parse_long_json(json.dumps([text, {"k": text}]).encode(), "x") == [text, {"k": text}]


def test_a_document_of_many_values_is_never_decoded_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = [0]
    strict = canonical.STRICT

    class Watched:
        def raw_decode(self, text: str, at: int) -> Any:
            longest[0] = max(longest[0], len(text))
            return strict.raw_decode(text, at)

    monkeypatch.setattr(portions, "STRICT", Watched())
    rules = [{"id": f"r{k}", "when": {"action": {"equals": f"tool_{k}"}}} for k in range(5_000)]
    hosts = [f"h{k}.example" for k in range(50_000)]
    value = {"rules": rules, "more": {"in": hosts}}
    assert parse_long_json(json.dumps(value).encode(), "x") == value
    assert longest[0] <= 3 << 15
