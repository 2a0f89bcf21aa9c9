"""Limits are bytes of UTF-8: which texts fit, what is read of those that do not, and what a receipt says of them."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from interlock.engine.event import PHASES, SensorEvent
from interlock.engine.policy.limits import CEILINGS, MEASURES, Limits, Reading, oversized

TEXTS = st.text(st.sampled_from("ab\n\u00e9\u20ac\ud83d\ude00\U0001f600"), max_size=12)


def size(text: str) -> int:
    """Bytes of UTF-8, where half of a pair has three."""
    return sum(1 + (c > "\x7f") + (c > "\u07ff") + (c > "\uffff") for c in text)


@given(TEXTS, st.integers(1, 40))
@example("\ud83d\ude00", 6)  # two halves, which are no pair here
@example("\U0001f600", 3)
def test_a_text_is_read_whole_or_as_the_most_that_half_the_limit_holds_at_either_end(text: str, limit: int) -> None:
    seen = Reading(limit, partial=True).seen(text)
    if size(text) <= limit:
        assert seen == text
        assert Reading(limit).seen(text) == text
        return
    assert Reading(limit).seen(text) is None
    half = limit // 2
    if half == 0:
        assert seen is None
        return
    ends = range(len(text) + 1)
    head = max((text[:end] for end in ends if size(text[:end]) <= half), key=len)
    tail = max((text[start:] for start in ends if size(text[start:]) <= half), key=len)
    assert seen == f"{head}\n{tail}"


@given(TEXTS, st.integers(1, 40))
def test_an_argument_is_told_as_read_in_part_just_where_it_is(text: str, limit: int) -> None:
    limits = Limits(command=limit, argument=limit, result=limit)
    for phase in PHASES:
        event = SensorEvent("t", {"command": text, "other": [{"deep": text}], "short": ""}, phase=phase)
        assert oversized(event, limits) == (() if size(text) <= limit else ("command", "other"))


def test_each_limit_says_what_it_counts() -> None:
    assert MEASURES.keys() == CEILINGS.keys()
    assert [name for name, said in MEASURES.items() if said.startswith("bytes of UTF-8")] == list(MEASURES)[:3]
