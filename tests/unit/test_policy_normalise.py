"""The normal form of texts: NFKC of the pinned Unicode version, without what cannot be seen."""

from __future__ import annotations

import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.policy import normalise
from interlock.engine.policy.normalise import UNICODE, normal, normal_deep, possible
from tests.quick import demand_soon

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "interlock/engine/policy/nfkc.txt"
SAME_VERSION = unicodedata.unidata_version == UNICODE
needs_pinned = pytest.mark.skipif(not SAME_VERSION, reason=f"this Python's Unicode is not {UNICODE}")
assigned = [chr(c) for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
HIDDEN = "\u200b\u200d\u202e\u2066\ufeff\u00ad\u061c\ufe0f\U000e0041"


def stripped(text: str) -> str:
    return "".join(sign for sign in text if ord(sign) not in normalise._table().stripped)


def test_compatibility_forms_become_plain_ones() -> None:
    assert normal("ｒｍ　－ｒｆ") == "rm -rf"
    assert normal("ﬁle") == "file"
    assert normal("𝓻𝓂") == "rm"
    assert normal("e\u0301") == "é"
    assert normal("\u1112\u1161\u11ab") == "한"
    assert normal("a\u0323\u0307") == normal("a\u0307\u0323")


def test_what_cannot_be_seen_is_dropped() -> None:
    for sign in HIDDEN:
        assert normal(f"r{sign}m") == "rm"
    assert normal(f"e{HIDDEN}\u0301") == "é"


def test_ascii_is_its_own_normal_form_and_never_loads_the_table() -> None:
    program = "from interlock.engine.policy import normalise as n; assert n.normal('rm -rf /\\0') == 'rm -rf /\\0'; "
    program += "print(n._table.cache_info().currsize)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "0"


@needs_pinned
def test_every_character_alone_and_after_a_letter_is_as_unicode_says() -> None:
    for sign in assigned:
        assert normal(sign) == unicodedata.normalize("NFKC", stripped(sign)), hex(ord(sign))
        assert normal("e" + sign) == unicodedata.normalize("NFKC", "e" + stripped(sign)), hex(ord(sign))


_changing = [c for c in assigned if unicodedata.combining(c) or unicodedata.decomposition(c)]
_jamo = [chr(c) for c in [*range(0x1100, 0x1200), *range(0xAC00, 0xAC40)]]


@needs_pinned
@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.text(st.sampled_from(assigned) | st.sampled_from(_changing) | st.sampled_from(_jamo), max_size=12))
def test_every_text_of_known_characters_is_as_unicode_says(text: str) -> None:
    assert normal(text) == unicodedata.normalize("NFKC", stripped(text))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(max_size=20))
def test_a_normal_form_is_its_own(text: str) -> None:
    once = normal(text)
    assert normal(once) == once
    assert all(possible(ord(sign)) for sign in once)


@needs_pinned
def test_the_table_is_what_the_tool_writes_and_is_small() -> None:
    tool = [sys.executable, str(ROOT / "tools/make_nfkc.py")]
    made = subprocess.run(tool, capture_output=True, check=True).stdout
    assert made == TABLE.read_bytes()
    assert len(made) < 150_000


def test_a_character_is_possible_where_a_normal_form_can_hold_it() -> None:
    assert possible(ord("é"))
    assert possible(0x0301)
    assert not possible(0x200B)
    assert not possible(ord("ﬁ"))


def test_each_text_within_a_value_takes_its_normal_form() -> None:
    assert normal_deep({"ｋ": ["ａ", 1, None, ("ｂ",)]}) == {"ｋ": ["a", 1, None, ["b"]]}


def test_a_long_run_of_combining_marks_takes_time_in_proportion() -> None:
    text = "e" + "\u0301\u0323" * 100_000  # Python's own normalisation takes a minute: it sorts by insertion
    demand_soon(5, lambda: normal(text))
    assert normal(text) == "ẹ" + "\u0323" * 99_999 + "\u0301" * 100_000
