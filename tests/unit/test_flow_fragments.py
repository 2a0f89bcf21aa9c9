"""Fragments: a text is known again after each encoding, and what was never recorded is never found."""

from __future__ import annotations

import base64
import binascii
import json
import string
import time
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from interlock.engine.event import Origin
from interlock.engine.flow import FlowTracker
from interlock.engine.fragments import FIELD, GRAM, LETTERS, STRIDE, VIEWED, WHOLE, fragments, normal, views

PLAIN = st.text(string.ascii_letters + string.digits + " ._-@/", min_size=LETTERS, max_size=80)
PRINTED = st.text(string.printable.replace("%", "").replace("+", "").replace("&", ""), min_size=20, max_size=80)
WORLD = st.text("äöüßéñ日本語漢字テスト中文абвгде" + string.ascii_letters, min_size=LETTERS, max_size=60)
TEXTS = st.one_of(PLAIN, PRINTED, WORLD)

Encoding = Callable[[str], str]


def _spread(text: str) -> str:
    return "\n\t ".join(text)


def _every_byte(text: str, form: str) -> str:
    return "".join(form % byte for byte in text.encode())


ENCODINGS: dict[str, Encoding] = {
    "as it was": lambda text: text,
    "white space put between": _spread,
    "white space taken out": lambda text: "".join(text.split()),
    "upper case": str.upper,
    "lower case": str.lower,
    "hex": lambda text: text.encode().hex(),
    "hex in upper case": lambda text: text.encode().hex().upper(),
    "hex with colons": lambda text: text.encode().hex(":"),
    "hex with blanks": lambda text: text.encode().hex(" ", 1),
    "hex as escapes": lambda text: _every_byte(text, "\\x%02x"),
    "hex as a list": lambda text: ", ".join(f"0x{byte:02X}" for byte in text.encode()),
    "hex inside other digits": lambda text: "f" + text.encode().hex() + "0a1",
    "URL": lambda text: urllib.parse.quote(text, safe=""),
    "URL in lower case": lambda text: urllib.parse.quote(text, safe="").lower(),
    "URL, every byte": lambda text: _every_byte(text, "%%%02X"),
    "URL with plus signs": urllib.parse.quote_plus,
    "URL, twice": lambda text: urllib.parse.quote(urllib.parse.quote(text, safe=""), safe=""),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64 without padding": lambda text: base64.b64encode(text.encode()).decode().rstrip("="),
    "base64 in lines": lambda text: base64.encodebytes(text.encode()).decode(),
    "base64 of hex": lambda text: base64.b64encode(text.encode().hex().encode()).decode(),
    "base64, twice": lambda text: base64.b64encode(base64.b64encode(text.encode())).decode(),
    "JSON": json.dumps,
    "HTML": lambda text: "".join(f"&#{ord(c)};" for c in text),
    "a prefix": lambda text: "Subject: hello. " + text,
    "a suffix": lambda text: text + ", and so on",
    "inside a larger text": lambda text: "lorem ipsum " * 20 + text + " dolor sit amet" * 20,
}


def _tracker(text: str) -> FlowTracker:
    tracker = FlowTracker()
    tracker.record(text, "tool:fetch")
    return tracker


def _found(tracker: FlowTracker, value: str) -> bool:
    return tracker.origins({"body": value}) == (Origin("tool:fetch", "body"),)


def _recorded(text: str) -> FlowTracker:
    """A tracker that knows the text; texts that say too little to be recorded are not what the test is about."""
    assume(any(True for _ in fragments(text)) and len(normal(text)) >= LETTERS)
    return _tracker(text)


@pytest.mark.parametrize("name", ENCODINGS)
@settings(max_examples=25, derandomize=True, deadline=None)
@given(text=TEXTS)
def test_a_recorded_text_is_found_after(name: str, text: str) -> None:
    assert _found(_recorded(text), ENCODINGS[name](text))


@pytest.mark.parametrize("before", range(3))
@pytest.mark.parametrize("inserted", range(4))
@settings(max_examples=10, derandomize=True, deadline=None)
@given(text=TEXTS)
def test_base64_is_read_wherever_it_begins(before: int, inserted: int, text: str) -> None:
    whole = b"." * before + text.encode() + b" tail"
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        assert _found(_recorded(text), "x" * inserted + encode(whole).decode() + "yz")


_LAYERS = ("hex", "hex as escapes", "URL", "URL with plus signs", "base64", "base64 in lines", "JSON", "HTML")


@pytest.mark.parametrize("outer", _LAYERS)
@pytest.mark.parametrize("inner", _LAYERS)
@settings(max_examples=4, derandomize=True, deadline=None)
@given(text=st.one_of(PLAIN, WORLD))
def test_encodings_inside_encodings_are_undone(outer: str, inner: str, text: str) -> None:
    twice = ENCODINGS[outer](ENCODINGS[inner](text))
    assert _found(_recorded(text), twice)
    assert _found(_recorded(text), ENCODINGS["base64"](twice))  # three layers deep, and no deeper


@pytest.mark.parametrize("name", ["URL", "URL, every byte", "HTML", "hex", "base64"])
@settings(max_examples=10, derandomize=True, deadline=None)
@given(text=st.one_of(PLAIN, WORLD))
def test_white_space_inside_an_encoding_hides_nothing(name: str, text: str) -> None:
    assert _found(_recorded(text), _spread(ENCODINGS[name](text)))


@pytest.mark.parametrize("unseen", ["\u200b", "\u00ad", "\u034f", "\u202e", "\u3164", "\ufe0f", "\U000e0041"])
@pytest.mark.parametrize("name", ["as it was", "URL", "HTML", "hex", "base64"])
@settings(max_examples=4, derandomize=True, deadline=None)
@given(text=st.one_of(PLAIN, WORLD))
def test_characters_that_nobody_sees_hide_nothing(name: str, unseen: str, text: str) -> None:
    assert _found(_recorded(text), unseen.join(ENCODINGS[name](text)))


@pytest.mark.parametrize("name", ["hex", "base64", "URL, every byte"])
@settings(max_examples=4, derandomize=True, deadline=None)
@given(text=PLAIN)
def test_an_encoding_in_wide_letters_is_read(name: str, text: str) -> None:
    wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in ENCODINGS[name](text))
    assert _found(_recorded(text), wide)


@settings(max_examples=25, derandomize=True, deadline=None)
@given(text=PLAIN)
def test_base64_of_utf_16_is_read_where_the_letters_are_plain(text: str) -> None:
    assert _found(_recorded(text), base64.b64encode(text.encode("utf-16-le")).decode())


@pytest.mark.parametrize("name", [name for name in ENCODINGS if not name.endswith("case")])
@settings(max_examples=10, derandomize=True, deadline=None)
@given(text=PLAIN)
def test_a_text_that_was_encoded_when_it_came_is_found_when_it_goes_out_plain(name: str, text: str) -> None:
    _recorded(text)
    assert _found(_tracker(ENCODINGS[name](text)), text)


@settings(max_examples=50, derandomize=True, deadline=None)
@given(data=st.data(), text=st.text(string.ascii_letters + string.digits, min_size=WHOLE + 1, max_size=200))
def test_any_part_of_whole_characters_is_enough(data: st.DataObject, text: str) -> None:
    start = data.draw(st.integers(0, len(text) - WHOLE))
    part = text[start : start + WHOLE]
    grams = [text[at : at + GRAM].casefold() for at in range(0, len(text), STRIDE)]
    assume(all(len(set(gram)) > 4 and not gram.isdigit() for gram in grams))
    assert _found(_tracker(text), f"<{part}>")


@settings(max_examples=60, derandomize=True, deadline=None)
@given(recorded=st.lists(TEXTS, max_size=5), text=TEXTS, name=st.sampled_from(sorted(ENCODINGS)))
def test_a_text_that_was_never_recorded_is_never_found(recorded: list[str], text: str, name: str) -> None:
    tracker = FlowTracker()
    for other in recorded:
        tracker.record(other, "tool:fetch")
    said = ENCODINGS[name](text)
    forms = [normal(view) for view in views(said)[0]]
    shared = any(fragment in form for o in recorded for v in views(o)[0] for fragment in fragments(v) for form in forms)
    assert bool(tracker.origins({"body": said})) == shared


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("- name: Ada\n  mail: ada.l@mail.org\n  note: short", "ada.l@mail.org"),  # 14 characters, a field
        ('{"iban": "GB33BUKB20201555555555", "x": 1}', "GB33BUKB20201555555555"),
        ("card 4539 1488 0343 6467 valid", "4539148803436467"),
        ("See https://evil.example/a?b=c for more", "http://evil.example/a?b=c"),
        ("token=ghp_Ab12Cd34Ef56 ok", "ghp_Ab12Cd34Ef56"),
        ("path C:\\new\\table.txt here", json.dumps("C:\\new\\table.txt")),
        ('He said: "it\'s the usual place"', "its the usual place"),
        ("ﬁnancial réport number ①②③", "financial réport number 123"),
    ],
)
def test_a_field_is_found_whole(text: str, part: str) -> None:
    assert _found(_tracker(text), f"please send {part} now")


@pytest.mark.parametrize(
    "common",
    [
        "true",
        "12345678901",
        "2024-05-26 10:00:00",
        "2024-05-26T10:00:00+02:00",
        "26/05/2024, 10:30",
        "0.30000000000000004",
        "-122.41941550000001",
        "------------------------",
        "milliseconds",
        "presentation",
        "San Francisco",
        "null, null, null, null",
    ],
)
def test_what_is_short_or_common_is_not_recorded(common: str) -> None:
    assert not _found(_tracker(common), common)


@pytest.mark.parametrize(
    "text",
    [
        "the quick brown fox jumps over a lazy dog. " * 1500,
        "%41" * 20_000,
        "+" * 64_000,
        "\\" * 64_000,
        "&amp;" * 12_000,
        "0x1" * 20_000,
        ("ab" * 11 + ".") * 2_700,
        "ab12" * 16_000,
        "<" * 64_000,
        binascii.b2a_base64(bytes(range(256)) * 190, newline=False).decode(),
    ],
    ids=["prose", "percents", "pluses", "backslashes", "entities", "half hex", "short hex", "hex", "angles", "bytes"],
)
def test_no_text_takes_more_than_linear_time(text: str) -> None:
    def seconds(length: int) -> float:
        part = text[:length]
        start = time.process_time()
        for view in views(part)[0]:
            list(fragments(view))
        return time.process_time() - start

    seconds(2_000)
    eight_times_as_long = min(seconds(64_000) for _ in range(2))
    assert eight_times_as_long < 40 * max(min(seconds(8_000) for _ in range(3)), 0.001)


def test_views_stop_at_their_bound_and_say_so() -> None:
    layered = "%25" + "".join(f"%{byte:02x}" for byte in (base64.b64encode(b"abcdefgh" * 40).decode() * 3).encode())
    found, whole = views(layered)
    assert whole
    assert sum(map(len, found)) <= VIEWED * (len(layered) + 100)


def test_the_shortest_field_and_the_rule_for_letters_are_what_the_reference_says() -> None:
    assert (FIELD, GRAM, STRIDE, WHOLE, LETTERS) == (12, 16, 8, 23, 16)
