"""pii_redaction: what is masked, and what only looks like it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock import SensorEvent, enforce_tool_call, install
from interlock.detectors import pii_redaction_guard
from interlock.engine import ambient
from interlock.engine.detectors.pii import redacted_pii
from interlock.engine.detectors.registry import REGISTRY
from tests.quick import demand_soon


@pytest.fixture(autouse=True)
def _nothing_installed() -> Iterator[None]:
    yield
    ambient.install(None)


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        ("4111 1111 1111 1111", "CREDIT_CARD"),
        ("4111-1111-1111-1111", "CREDIT_CARD"),
        ("4111111111111111", "CREDIT_CARD"),
        ("4111\u00a01111\u00a01111\u00a01111", "CREDIT_CARD"),
        ("4111\u200b1111\u200b1111\u200b1111", "CREDIT_CARD"),
        ("4111 - 1111", None),
        ("5555 5555 5555 4444", "CREDIT_CARD"),
        ("2223003122003222", "CREDIT_CARD"),
        ("3782 822463 10005", "CREDIT_CARD"),
        ("371449635398431", "CREDIT_CARD"),
        ("6011111111111117", "CREDIT_CARD"),
        ("3530111333300000", "CREDIT_CARD"),
        ("3056 930902 5904", "CREDIT_CARD"),
        ("4222222222222", "CREDIT_CARD"),
        ("\uff14\uff11\uff11\uff11 1111 1111 1111", "CREDIT_CARD"),
        ("4111 1111 1111 1112", None),
        ("1111 1111 1111 1117", None),
        ("0000000000000000", None),
        ("20261129123456789012345", None),
        ("41111111111111111111", None),
        ("078-05-1120", "SSN"),
        ("078 05 1120", "SSN"),
        ("000-12-3456", None),
        ("666-12-3456", None),
        ("900-12-3456", None),
        ("123-00-4567", None),
        ("123-45-0000", None),
        ("1123-45-6789", None),
        ("DE89 3704 0044 0532 0130 00", "IBAN"),
        ("DE89370400440532013000", "IBAN"),
        ("gb82 west 1234 5698 7654 32", "IBAN"),
        ("NO93 8601 1117 947", "IBAN"),
        ("DE88 3704 0044 0532 0130 00", None),
        ("ZZ89370400440532013000", None),
    ],
)
def test_a_number_is_masked_where_its_check_holds(number: str, kind: str | None) -> None:
    text, kinds = redacted_pii(f"pay with {number}, please")
    assert kinds == ([kind] if kind else [])
    assert text == (f"pay with [REDACTED {kind}], please" if kind else f"pay with {number}, please")


def test_several_numbers_in_one_text_are_masked_and_the_rest_stays() -> None:
    text, kinds = redacted_pii(
        "1 4111 1111 1111 1111 and 2: 5555555555554444;DE89370400440532013000 GB82WEST12345698765432"
    )
    assert text == "1 [REDACTED CREDIT_CARD] and 2: [REDACTED CREDIT_CARD];[REDACTED IBAN] [REDACTED IBAN]"
    assert kinds == ["IBAN", "IBAN", "CREDIT_CARD", "CREDIT_CARD"]


def test_two_cards_with_only_a_blank_between_are_both_masked() -> None:
    assert redacted_pii("4111 1111 1111 1111 5555 5555 5555 4444")[0] == "[REDACTED CREDIT_CARD] [REDACTED CREDIT_CARD]"


@pytest.mark.parametrize(
    "text",
    [
        "at 2026-11-29T20:42:46Z, 1764448966000, 1764448966000000, 1764448966000000000",
        "id 6433eb7b-ed99-4456-806a-98cea4aaaf05",
        "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
        "order 202611291234567890",
        "call 555-867-5309 or +1 555 867 5309",
        "mia@example.org",
    ],
)
def test_what_only_looks_like_it_is_left_alone(text: str) -> None:
    assert redacted_pii(text) == (text, [])


def test_mail_addresses_are_masked_on_demand() -> None:
    assert redacted_pii("to mia.k+x@example.org.", emails=True)[0] == "to [REDACTED EMAIL]."


def test_nested_values_are_masked_in_a_copy_and_the_first_path_is_named() -> None:
    install(rules=[pii_redaction_guard()])
    args: dict[str, Any] = {
        "a": "fine",
        "rows": [{"note": ["ok", "4111111111111111"]}, "078-05-1120"],
        "n": 4111111111111111,
    }
    going = enforce_tool_call("t", args)
    assert going["rows"] == [{"note": ["ok", "[REDACTED CREDIT_CARD]"]}, "[REDACTED SSN]"]
    assert going["n"] == "[REDACTED CREDIT_CARD]"
    assert args["rows"][0]["note"][1] == "4111111111111111"
    rule = pii_redaction_guard()
    decision = rule(call(args))
    assert decision is not None
    assert decision.attributed_to == "rows[0].note[1]"
    assert decision.reason == "masked CREDIT_CARD, SSN"
    assert set(decision.modified_args or {}) == {"rows", "n"}


def call(args: dict[str, Any]) -> SensorEvent:
    return SensorEvent("t", args)


def test_bytes_are_masked_and_keys_never_named() -> None:
    rule = pii_redaction_guard()
    decision = rule(call({"x": {"4111 1111": b"\xff 4111111111111111"}}))
    assert decision is not None
    assert decision.modified_args == {"x": {"4111 1111": b"\xff [REDACTED CREDIT_CARD]"}}
    assert decision.attributed_to == "x.*"


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="has no parameter 'mail'"):
        REGISTRY["pii_redaction"].build({"mail": True})
    with pytest.raises(ValueError, match="wrong type"):
        REGISTRY["pii_redaction"].build({"emails": 1})


def test_what_a_label_lays_open_is_masked_too() -> None:
    text, kinds = redacted_pii("4111111111111111DE89370400440532013000")
    assert (text, kinds) == ("[REDACTED CREDIT_CARD][REDACTED IBAN]", ["CREDIT_CARD", "IBAN"])


@given(st.text(alphabet="0123456789 -ABCDEabc.@", max_size=60))
def test_masking_is_done_once_and_for_all(text: str) -> None:
    once, _ = redacted_pii(text, emails=True)
    assert redacted_pii(once, emails=True) == (once, [])


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 111" * 14000,
        "4" * 262144,
        "4444 " * 52000,
        "4444 1 " * 37000,
        "DE89 " * 52000,
        "a@" * 131072,
        "a" * 262144,
    ],
    ids=["cards", "digits", "groups", "mixed", "ibans", "ats", "prose"],
)
def test_a_quarter_megabyte_is_read_in_linear_time(text: str) -> None:
    demand_soon(1.0, lambda: redacted_pii(text[:262144], emails=True))  # 0.3 s; a quadratic reading takes minutes
