"""How often flow is wrong and right on real texts: the corpora beside the repository, where they are there."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.event import Origin
from interlock.engine.flow import FlowTracker
from interlock.engine.fragments import fragments, normal

CORPORA = Path(__file__).parents[2].parent / "shared" / "corpora"

pytestmark = pytest.mark.skipif(not CORPORA.is_dir(), reason="../shared/corpora is not here")


def rows(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(CORPORA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def family(row: dict[str, Any]) -> str:
    """The benchmark that a row comes from: what two of them share is common language and no flow."""
    return str(row["source"]).split()[0].lower().split("@")[0].split("/")[0]


@pytest.mark.slow
def test_few_calls_carry_what_only_other_benchmarks_texts_hold() -> None:
    """Far worse than any run: every text of one benchmark in one memory, against the calls of the others."""
    tracker = FlowTracker(max_fragments=10_000_000, max_bytes=1 << 30)
    for row in rows("injections"):
        tracker.record(row["text"], f"tool:{family(row)}", run="all")
    calls = list(rows("benign_tool_calls"))
    wrong = []
    for call in calls:
        found = tracker.origins(call["args"], "all")
        if any(origin.source != f"tool:{family(call)}" for origin in found):
            wrong.append(call["id"])
    print(f"flow: {len(wrong)} of {len(calls)} calls matched texts of other benchmarks")
    assert tracker.forgot == 0
    assert len(calls) > 1000
    assert len(wrong) <= 15


def test_one_result_rarely_matches_an_unrelated_call() -> None:
    """What a run is like: one result in memory, and a call that has nothing to do with it."""
    results = [row for row in rows("injections") if row["channel"] == "tool_result"]
    calls = list(rows("benign_tool_calls"))
    pairs = wrong = 0
    for n, row in enumerate(results[::5]):
        tracker = FlowTracker()
        tracker.record(row["text"], "tool:t")
        for call in calls[n % 50 :: 50]:
            if family(call) != family(row):
                pairs += 1
                wrong += bool(tracker.origins(call["args"]))
    print(f"flow: {wrong} of {pairs} unrelated pairs matched")
    assert pairs > 1000
    assert wrong <= pairs // 1000


def test_every_result_is_known_again_where_it_is_carried_whole() -> None:
    missed = []
    texts = [row["text"] for row in rows("injections")][::10]
    for text in texts:
        if not any(fragments(text)):
            assert len(normal(text)) < 40  # nothing in it but what is short or common
            continue
        tracker = FlowTracker()
        tracker.record(text, "tool:t")
        if tracker.origins({"body": f"Forwarded:\n> {text.upper()}"}) != (Origin("tool:t", "body"),):
            missed.append(text[:80])
    assert missed == []
