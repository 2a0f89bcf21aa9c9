"""The canonical encoding: one spelling a value, and no two values with one spelling."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import hashlib
import json
import math
import pathlib
import uuid
from enum import IntEnum
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.base.canonical import NotCanonical, digest, encode, json_object, long_digest, parse_json

VECTORS = pathlib.Path(__file__).parents[1] / "conformance" / "canonical.json"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_the_shared_vectors_hold() -> None:
    rows = json.loads(VECTORS.read_text(encoding="utf-8"))["rows"]
    assert len(rows) >= 20
    for row in rows:
        value = json.loads(row["json"])
        assert encode(value).decode("utf-8") == row["canonical"], row
        assert digest("interlock/test/v1", value).hex() == row["digest"], row


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (333333333.33333329, "333333333.3333333"),
        (1e30, "1e+30"),
        (4.50, "4.5"),
        (2e-3, "0.002"),
        (1e-27, "1e-27"),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (1e-7, "1e-7"),
        (0.000001, "0.000001"),
        (-0.0, "0"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (2**70, "1180591620717411303424"),
    ],
)
def test_numbers_are_spelt_as_rfc_8785_says(value: float, text: str) -> None:
    assert encode(value).decode() == text


def test_keys_are_ordered_by_utf_16_code_units() -> None:
    # RFC 8785, 3.2.3: the smiley's surrogates sort before the dalet of the presentation forms.
    value = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}
    assert list(json.loads(encode(value))) == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


@given(json_values)
def test_an_encoding_reads_back_as_the_value_and_encodes_to_itself(value: object) -> None:
    again = json.loads(encode(value))
    assert encode(again) == encode(value)


class Odd(IntEnum):
    ONE = 1


def _the_long_way(value: object) -> object:
    """The same value in mappings that are no dicts, which are spelt one by one."""
    if isinstance(value, dict):
        return MappingProxyType({k: _the_long_way(v) for k, v in value.items()})
    return [_the_long_way(v) for v in value] if isinstance(value, list) else value


@given(json_values)
def test_the_quick_way_spells_as_the_long_way_does(value: object) -> None:
    assert encode({"k": value}) == encode(_the_long_way({"k": value}))


@pytest.mark.parametrize(
    "value",
    [
        "\ud800",
        {"\udfff": 1},
        {"$il": 1},
        {1: "a"},
        [1.0, 1e21, -0.0],
        1 << 64,
        '\u2028\x7f\x00"\\/',
        {"\U0001f600": 1, "\ufb33": 2},
        (1, [2, {"b": (), "a": None}]),
        [Odd.ONE, True],
    ],
)
def test_what_is_not_plain_is_spelt_the_long_way(value: object) -> None:
    assert encode({"k": value}) == encode(_the_long_way({"k": value}))


class Liar(dict[str, object]):
    """A dict that shows other values than it holds."""

    def values(self) -> Any:
        return ["plain"]


def test_a_dict_that_lies_about_what_it_holds_is_not_believed() -> None:
    with pytest.raises(NotCanonical, match="object"):
        encode(Liar({"k": object()}))


def test_values_that_json_lacks_have_spellings_that_no_json_value_shares() -> None:
    odd = [
        math.nan,
        math.inf,
        -math.inf,
        b"x",
        "\ud800",
        {"\udfff": 1},
        {1, 2},
        {1: "a"},
        {"1": "a"},
        {"$il": ["float", "NaN"]},
        {"$il": ["bytes", "eA=="]},
        {"$il": 1},
        "NaN",
        "x",
        dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        dt.date(2026, 1, 1),
        "2026-01-01",
        uuid.UUID(int=1),
        decimal.Decimal("1.0"),
        decimal.Decimal("1"),
        pathlib.PurePosixPath("a"),
        "a",
        1,
    ]
    spellings = [encode(v) for v in odd]
    assert len(set(spellings)) == len(odd)
    assert encode(True) != encode(1)


def test_an_unknown_object_is_refused_by_its_type_and_never_by_its_value() -> None:
    class Widget:
        def __repr__(self) -> str:
            return "secret"

    with pytest.raises(NotCanonical) as e:
        encode({"a": [Widget()]})
    assert "Widget" in str(e.value)
    assert "secret" not in str(e.value)


def test_a_cycle_and_an_abyss_are_refused() -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    with pytest.raises(NotCanonical):
        encode(cycle)
    with pytest.raises(NotCanonical):
        encode(10**5000)


@given(json_values)
def test_a_digest_made_in_portions_is_the_same(value: Any) -> None:
    for one in (value, {"rules": value, "name": "x"}, [value] * 3):
        assert long_digest("interlock/test/v1", one) == digest("interlock/test/v1", one)


@pytest.mark.parametrize("size", [0, 1, 499, 500, 501, 1000, 1001])
def test_a_long_list_is_cut_without_a_trace(size: int) -> None:
    rows = [f"{k}" for k in range(size)]
    for value in (rows, {"name": "x", "rules": rows, "v": 1}, ["a", rows, []], {"\u00e9": rows}, [{"rules": rows}]):
        assert long_digest("interlock/test/v1", value) == digest("interlock/test/v1", value)


@pytest.mark.parametrize("size", [0, 2000, 2047, 2048, 5000])
def test_a_long_text_is_hashed_in_steps_that_let_no_thread_wait_for_nothing(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    value, steps = {"text": "x" * size}, []

    class Hash:
        def __init__(self) -> None:
            self._hash = sha256()

        def update(self, data: bytes) -> None:
            steps.append(len(data))
            self._hash.update(data)

        def digest(self) -> bytes:
            return self._hash.digest()

    sha256 = hashlib.sha256
    wanted = sha256(b"\x00\x04test" + encode(value)).digest()
    monkeypatch.setattr(hashlib, "sha256", Hash)
    assert digest("test", value) == long_digest("test", value) == wanted
    assert max(steps) < 2048  # from there on hashlib lets go of the interpreter


def test_digests_of_different_domains_differ() -> None:
    assert digest("a", {"x": 1}) != digest("b", {"x": 1})
    assert digest("ab", "c") != digest("a", "bc")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff{}", "UTF-8"),
        (b"{", "line 1"),
        (b'{"a":1,"a":2}', "twice"),
        (b'{"a":NaN}', "NaN"),
        (b"[" * 100_000, "deep"),
        (b"[]", "object"),
        (b"1" * 10_000, "file.json: holds an integer of too many digits"),
    ],
)
def test_json_that_is_not_strict_is_refused_in_one_line(data: bytes, reason: str) -> None:
    with pytest.raises(NotCanonical) as e:
        json_object(data, "file.json")
    assert reason in str(e.value)
    assert "\n" not in str(e.value)


@given(st.binary(max_size=200))
def test_the_strict_parser_raises_its_own_error_only(data: bytes) -> None:
    with contextlib.suppress(NotCanonical):
        parse_json(data, "x")
