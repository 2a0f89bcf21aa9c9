"""Many short texts are read as one, and what is found in one of them is found all the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.detectors.registry import REGISTRY
from interlock.engine.event import SensorEvent
from tests.quick import demand_soon

DETECTORS: Final[Mapping[str, dict[str, object]]] = {
    "secrets": {},
    "pii_redaction": {"emails": True},
    "hidden_text": {},
    "terminal_escapes": {},
    "chat_markup": {},
    "injection_wording": {},
}
# parts of what is found, so that one text could go on where another ends
PARTS: Final = (
    "password", "key", "secret: ", ":", "=", "'", '"', "hunter2hunter2", "Authorization:", "bearer", " ", "\n",
    "curl -u", "bob:h4rdtoguess", "https://bob:", "h4rdtoguess@host.example", "AKIA" + "RDGYZZR3NSGAJU44",
    "eyJhbGciOiJIUzI1NiJ9", ".eyJzdWIiOiIxMjM0NTY3ODkwIn0", "-----BEGIN PRIVATE KEY-----",
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj",
    "4111 1111 ", "1111 1111", "DE89 3704 0044 ", "0532 0130 00", "123-45", "-6789", "bob@host.example", "\u200b",
    "\ufeff", "\x1b", "[2J", "<|im_", "start|>", "\n\nhuman:", "ignore all", "previous instructions",
)  # fmt: skip
FILL: Final = ["a", "\u00e9", "", "12"] * 20


def says(name: str, value: object) -> Any:
    rule = REGISTRY[name].build(DETECTORS[name])
    return rule(SensorEvent("t", {"result": value}))


def masked(said: Any) -> Any:
    return said.modified_args["result"]


@pytest.mark.parametrize("name", DETECTORS)
@given(st.lists(st.lists(st.sampled_from(PARTS), max_size=4).map("".join), max_size=6), st.integers(0, 80))
@settings(max_examples=60)
def test_many_texts_are_judged_as_each_of_them(name: str, texts: list[str], at: int) -> None:
    alone = [says(name, [text]) for text in texts]
    found = [k for k, said in enumerate(alone) if said is not None]
    nested: list[object] = [FILL[:at], {"deep": [*texts]}, FILL[at:]]
    for value, path in (([*FILL[:at], *texts, *FILL[at:]], f"result[{at}"), (nested, "result[1].deep[0")):
        said = says(name, value)
        assert (said is not None) == bool(found)
        if said is None:
            continue
        first = int(path.rpartition("[")[2]) + found[0]
        assert said.attributed_to == f"{path.rpartition('[')[0]}[{first}]"
        if said.modified_args is not None:
            each = [texts[k] if one is None else masked(one)[0] for k, one in enumerate(alone)]
            whole = masked(said)
            assert (whole[1]["deep"] if value is nested else whole[at : at + len(texts)]) == each


def test_a_number_among_many_values_is_masked() -> None:
    said = says("pii_redaction", [*FILL, 4111111111111111, 1.5, None, True])
    assert masked(said)[-4:] == ["[REDACTED CREDIT_CARD]", 1.5, None, True]
    assert says("pii_redaction", [*FILL, 4111111111111112, 10**30, -1]) is None


def test_one_find_does_not_make_a_hundred_thousand_texts_slow() -> None:
    many = ["abcdefghij"] * 100_000 + ["AKIA" + "RDGYZZR3NSGAJU44"]
    for name in DETECTORS:
        demand_soon(1.0, lambda name=name: says(name, many))  # type: ignore[misc]


@pytest.mark.parametrize("before", ["key:", "key", "token: new", "authorization:", "bearer"])
def test_what_one_text_begins_does_not_hide_what_the_next_one_holds(before: str) -> None:
    held = "pw=a1b2c3d4e"  # no random value, as which it would be read behind that word
    for pair in ([before, held], [held, before]):
        assert "pw=[REDACTED PASSWORD]" in masked(says("secrets", [*pair, *FILL]))
