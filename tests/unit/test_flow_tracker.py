"""FlowTracker: bounded, by run, safe between threads, and never silently clean."""

from __future__ import annotations

import dataclasses
import string
import threading
import uuid
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import pytest

from interlock.engine.ambient import span
from interlock.engine.event import Origin
from interlock.engine.flow import MAX_ORIGINS, FlowTracker
from interlock.engine.sources import UNKNOWN

SECRET = "the launch code is kingfisher-7731"


def sources(tracker: FlowTracker, value: object, run: Any = None) -> list[str]:
    return [origin.source for origin in tracker.origins({"body": value}, run)]


def words(n: int, seed: str = "") -> str:
    """Text in which no long part comes twice."""
    letters = string.ascii_lowercase + string.digits
    return " ".join(f"{seed}{i}{letters[i % 36]}{letters[i // 36 % 36]}q{i * 7919}" for i in range(n))


def test_every_text_of_a_result_is_remembered_with_its_sources() -> None:
    tracker = FlowTracker()
    tracker.record({"page": [SECRET, {"link 2 here please": "https://evil.example/x1"}]}, "tool:fetch", "principal:a/b")
    assert tracker.origins({"to": "nobody", "body": {"text": ["x", f"FYI: {SECRET}"]}}) == (
        Origin("principal:a/b", "body.text[1]"),
        Origin("tool:fetch", "body.text[1]"),
    )
    assert sources(tracker, "Link 2 Here Please") == ["principal:a/b", "tool:fetch"]
    assert sources(tracker, "http://evil.example/x1") == ["principal:a/b", "tool:fetch"]


def test_a_text_of_two_tools_has_both_sources() -> None:
    tracker = FlowTracker()
    for tool in ("tool:b", "tool:a", "tool:b"):
        tracker.record(SECRET, tool)
    assert sources(tracker, SECRET) == ["tool:a", "tool:b"]


@pytest.mark.parametrize(
    "value",
    [
        SECRET.encode(),
        bytearray(SECRET.encode()),
        (SECRET,),
        {SECRET},
        {"k": {SECRET: 1}},
        453914880343646712,
        PurePosixPath("/srv/launch/codes-of-today"),
        uuid.UUID("12345678-9abc-4def-8123-456789abcdef"),
        Decimal("4539148803436467"),
    ],
)
def test_texts_are_read_wherever_they_stand(value: object) -> None:
    tracker = FlowTracker()
    tracker.record(value, "tool:t")
    text = SECRET if SECRET in str(value) or isinstance(value, bytes | bytearray) else str(value)
    assert sources(tracker, f"<{text}>") == ["tool:t"]
    other = FlowTracker()
    other.record(text, "tool:t")
    assert [origin.source for origin in other.origins({"body": value})] == ["tool:t"]


def test_a_key_that_holds_a_value_is_not_written_into_the_path() -> None:
    tracker = FlowTracker()
    tracker.record(SECRET, "tool:t")
    assert tracker.origins({"body": {SECRET: 1}}) == (Origin("tool:t", "body.*"),)


def test_runs_know_nothing_of_each_other() -> None:
    tracker = FlowTracker()
    one, two = span("a"), span("b")
    tracker.record(SECRET, "tool:t", run=one)
    tracker.record(SECRET, "tool:named", run="session-1")
    assert sources(tracker, SECRET, one) == ["tool:t"]
    assert sources(tracker, SECRET, "session-1") == ["tool:named"]
    assert [sources(tracker, SECRET, run) for run in (two, None, "session-2")] == [[], [], []]


def test_what_a_run_recorded_is_dropped_with_its_span_and_nothing_counts_as_forgotten() -> None:
    tracker = FlowTracker(max_spans=1)
    for _ in range(5):
        run = span("a")
        tracker.record(SECRET, "tool:t", run=run)
        del run
    assert len(tracker._spans) == 0
    assert tracker.forgot == 0


def test_a_run_that_overflows_says_unknown_of_every_text_from_then_on() -> None:
    tracker = FlowTracker(max_fragments=50)
    tracker.record(SECRET, "tool:first")
    assert sources(tracker, "something else entirely") == []
    tracker.record(words(200), "tool:flood")
    assert tracker.forgot > 0
    assert sources(tracker, SECRET) == [UNKNOWN]
    assert sources(tracker, "something else entirely") == [UNKNOWN]
    assert sources(tracker, "short") == []
    assert sources(tracker, words(200)[-60:]) == ["tool:flood", UNKNOWN]
    assert len(tracker._named[None].young.known) + len(tracker._named[None].old.known) <= 50


def test_the_newest_half_of_a_runs_fragments_is_kept() -> None:
    tracker = FlowTracker(max_fragments=400)
    tracker.record(words(1000), "tool:flood")
    tracker.record(SECRET, "tool:new")
    assert sources(tracker, SECRET) == ["tool:new", UNKNOWN]


def test_a_forgetful_tracker_counts_and_says_nothing() -> None:
    tracker = FlowTracker(max_fragments=50, forgetful=True)
    tracker.record(words(200), "tool:flood")
    assert tracker.forgot > 0
    assert sources(tracker, "something else entirely") == []


def test_too_many_runs_make_the_one_that_was_idle_longest_forget() -> None:
    tracker = FlowTracker(max_spans=2)
    runs = [span(str(n)) for n in range(3)]
    tracker.record(SECRET, "tool:t", run=runs[0])
    tracker.record(SECRET, "tool:t", run=runs[1])
    tracker.record(words(3), "tool:t", run=runs[0])
    tracker.record(SECRET, "tool:t", run=runs[2])
    assert [sources(tracker, SECRET, run) for run in runs] == [["tool:t"], [UNKNOWN], ["tool:t"]]


def test_the_bytes_of_all_runs_are_bounded() -> None:
    tracker = FlowTracker(max_bytes=4000)
    runs = [span(str(n)) for n in range(8)]
    for run in runs:
        tracker.record(words(100), "tool:t", run=run)
    assert sum(memory.size for memory in tracker._spans.values()) <= 4000
    assert sources(tracker, words(100), runs[-1])[:1] == ["tool:t"]
    assert sources(tracker, words(100), runs[0]) == [UNKNOWN]
    alone = FlowTracker(max_bytes=100)
    alone.record(words(1000), "tool:t")
    assert alone._named[None].size <= 100
    assert sources(alone, "something else entirely") == [UNKNOWN]


def test_runs_by_name_that_are_lost_from_sight_are_unknown_too() -> None:
    tracker = FlowTracker(max_spans=1)
    for n in range(40):
        tracker.record(SECRET, "tool:t", run=f"session-{n}")
    assert len(tracker._named) <= 16
    assert sources(tracker, SECRET, "session-39") == ["tool:t", UNKNOWN]
    assert sources(tracker, SECRET, "session-0") == [UNKNOWN]
    assert sources(tracker, SECRET, span("fresh")) == []


def test_a_host_that_ends_its_runs_by_name_never_loses_one_from_sight() -> None:
    tracker = FlowTracker(max_spans=2)
    for n in range(100):
        tracker.record(SECRET, "tool:t", run=f"session-{n}")
        assert sources(tracker, SECRET, f"session-{n}") == ["tool:t"]
        tracker.end(f"session-{n}")
    assert (tracker.forgot, sources(tracker, SECRET, "session-0")) == (0, [])


def test_a_text_over_the_limit_is_read_up_to_it_and_the_rest_is_unknown() -> None:
    tracker = FlowTracker(max_text=1000)
    tracker.record(SECRET + " " * 1000 + words(5), "tool:t")
    assert sources(tracker, SECRET) == ["tool:t", UNKNOWN]
    fresh = FlowTracker(max_text=1000)
    fresh.record(SECRET, "tool:t")
    found = fresh.origins({"a": "x" * 800, "b": f"{SECRET} {'y' * 800}", "c": SECRET})
    assert found == (Origin("tool:t", "b"), Origin(UNKNOWN, "b"), Origin(UNKNOWN, "c"))


@dataclasses.dataclass
class _Row:
    text: str


class _Hostile(dict[str, object]):
    def items(self) -> Any:
        raise OSError("disk on fire")


def test_what_cannot_be_read_is_unknown() -> None:
    loop: list[object] = []
    loop.append(loop)
    for result in (_Row(SECRET), _Hostile(), loop, 1 << 20_000):
        tracker = FlowTracker()
        tracker.record(result, "tool:t")
        assert tracker.forgot == 1
        assert sources(tracker, "something else entirely") == [UNKNOWN]
    assert FlowTracker().origins({"body": _Row(SECRET)}) == ()  # nothing was recorded, so nothing can come from it
    tracker = FlowTracker()
    tracker.record(SECRET, "tool:t")
    assert tracker.origins({"body": _Row(SECRET)}) == (Origin(UNKNOWN, "body"),)


def test_values_that_hold_no_text_are_not_in_doubt() -> None:
    tracker = FlowTracker()
    tracker.record([None, True, 1.5, 7, b"", ""], "tool:t")
    assert tracker.forgot == 0
    assert sources(tracker, "something else entirely") == []


def test_many_origins_stand_for_the_whole_call() -> None:
    tracker = FlowTracker()
    tracker.record(SECRET, "tool:t")
    found = tracker.origins({"rows": [SECRET] * (MAX_ORIGINS + 50)})
    assert len(found) == MAX_ORIGINS + 1
    assert found[-1] == Origin("tool:t", "")


def test_threads_record_and_ask_at_once() -> None:
    tracker = FlowTracker(max_fragments=2000)
    run, failures = span("a"), list[BaseException]()

    def work(n: int) -> None:
        try:
            for i in range(20):
                tracker.record(words(50, f"t{n}x{i}"), f"tool:{n}", run=run)
                assert sources(tracker, words(50, f"t{n}x{i}"), run)
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert tracker.forgot > 0


@pytest.mark.parametrize("limit", ["max_fragments", "max_bytes", "max_spans", "max_text"])
def test_a_limit_is_at_least_one(limit: str) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        FlowTracker(**{limit: 0})  # type: ignore[arg-type]
