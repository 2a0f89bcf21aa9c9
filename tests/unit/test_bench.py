"""The goals of benchmarks are computed right from given figures; a miss shows where its time went. Nothing is timed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from bench import coding_agent, limits, load, plain, scale
from bench.report import Goal, Line, Report, profiles
from bench.timing import Figures
from bench.waits import Waits


def us(p50: float, p99: float = 0.0) -> Figures:
    """Figures in microseconds."""
    return Figures(int(p50 * 1000), int(p50 * 1000), int((p99 or p50) * 1000), int(p99 * 1000), 100)


def told(goals: list[Goal]) -> list[tuple[float, bool]]:
    return [(round(reached, 3), met) for _, reached, met in goals]


def test_figures_are_taken_at_their_share_of_the_calls() -> None:
    assert Figures.of(list(range(1000, 0, -1))) == Figures(501, 951, 991, 1000, 1000)
    assert Figures.of([7]) == Figures(7, 7, 7, 7, 1)
    assert Figures(1500, 2000, 30_000, 40_000, 9).row() == "p50      1.50 µs  p95      2.00 µs  p99     30.00 µs"


@pytest.mark.parametrize(
    ("floor", "ours", "cedar", "expected"),
    [
        (1, 3, 15, [(3.0, True), (5.0, True)]),
        (1, 3.1, 15, [(3.1, False), (4.839, False)]),
        (2, 3, 16, [(1.5, True), (5.333, True)]),
        (2, 3, None, [(1.5, True)]),
    ],
)
def test_plain_rules_are_held_to_the_closures_and_to_cedar(
    floor: float, ours: float, cedar: float | None, expected: list[tuple[float, bool]]
) -> None:
    found = {"20 Python closures": us(floor), "interlock, as installed": us(ours), "interlock, Python engine": us(99)}
    if cedar is not None:
        found["cedarpy, policies parsed once"] = us(cedar)
    assert told(plain.goals(found)) == expected


@pytest.mark.parametrize(
    ("ours", "p99", "trip", "python", "kept", "expected"),
    [
        (15, 100, 3.75, 300, 40, [(15, True), (100, True), (4, True), (20, True), (25, True)]),
        (16, 101, 3.75, 300, 41.5, [(16, False), (101, False), (4.267, False), (18.75, False), (25.5, False)]),
        (1, 2, 4, 19, 1, [(1, True), (2, True), (0.25, True), (19, False), (0, True)]),
    ],
)
def test_the_coding_agents_policy_is_held_to_five_figures(
    ours: float, p99: float, trip: float, python: float, kept: float, expected: list[tuple[float, bool]]
) -> None:
    found = {
        "as installed": us(ours, p99),
        "as installed, with receipts": us(kept),
        "Python engine": us(python),
        "one JSON round trip": us(trip),
    }
    assert told(coding_agent.goals(found)) == expected


def test_the_slowest_case_of_each_engine_is_held_to_its_time() -> None:
    assert told(limits.goals(5_000_000, 200_000_000)) == [(5.0, True), (200.0, True)]
    assert told(limits.goals(5_000_001, 200_000_001)) == [(5.0, False), (200.0, False)]


def test_threads_keep_what_work_by_hand_keeps_and_tasks_the_throughput_of_one() -> None:
    rates = {"by hand, one thread": 100.0, "by hand, 16 threads": 80.0, "one thread": 1000.0, "16 threads": 724.0}
    rates |= {"one task": 500.0, "1,000 tasks": 449.0}
    assert told(load.goals(rates)) == [(0.905, True), (0.898, False)]
    assert told(load.goals(rates | {"16 threads": 719.0}))[0] == (0.899, False)


def test_more_rules_cost_a_call_little_and_a_reload_pauses_nobody() -> None:
    met = [(1.99, True), (1.0, True), (1.0, True), (1.5, True)]
    assert told(scale.goals([100, 120, 199, 150, 160], 1.0, 1.0, 1.5)) == met
    missed = [(2.0, False), (1.01, False), (1.5, False), (1.6, False)]
    assert told(scale.goals([100, 200, 110, 110, 110], 1.01, 1.5, 1.6)) == missed


def test_what_a_call_waited_for_a_core_is_taken_off_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = Waits()
    waits.look()
    waits.begin()
    started = time.perf_counter_ns()
    time.sleep(0.003)
    wall = time.perf_counter_ns() - started
    assert 0 < waits.left(wall) <= wall
    now = {"own": 0, "loader": 0}
    monkeypatch.setattr(waits, "_own", "own")
    monkeypatch.setattr(waits, "_waited", lambda: dict(now))
    monkeypatch.setattr(time, "thread_time_ns", lambda: 0)
    for own, loader, left in ((0, 0, 9), (4, 0, 5), (0, 3, 6), (4, 3, 2), (4, 99, 0), (99, 0, 0)):
        now.update(own=0, loader=0)
        waits.begin()
        now.update(own=own, loader=loader)
        assert waits.left(9) == left
    now.update(own=0, loader=0)
    waits.begin()
    now.update(loader=99)
    monkeypatch.setattr(time, "thread_time_ns", lambda: 7)  # it ran itself: what another thread waited for cost it 2
    assert waits.left(9) == 7


def test_a_report_says_what_was_met_and_what_was_missed() -> None:
    goals: list[Goal] = [("ms (5)", 4.2, True), ("times (2)", 2.5, False)]
    report = Report("a title", [Line("ours", us(1)), Line("theirs, long", us(2))], goals, ["and so on"])
    title, ours, theirs, met, missed, note = report.text().splitlines()
    assert (title, met, missed, note) == (
        "a title",
        "  met     4.20 ms (5)",
        "  MISSED  2.50 times (2)",
        "  note: and so on",
    )
    assert ours.index("p50") == theirs.index("p50")
    values = json.loads(json.dumps(report.values()))
    assert values["goals"][1] == {"asked": "times (2)", "reached": 2.5, "met": False}
    assert values["contenders"]["ours"]["p50"] == 1000
    assert values["notes"] == ["and so on"]


def busy() -> int:
    return sum(i * i for i in range(20_000))


def _run(ran: list[str], name: str) -> Callable[[], object]:
    def run() -> None:
        ran.append(name)
        busy()

    return run


def test_a_miss_is_followed_by_the_profile_of_what_missed_and_of_nothing_else() -> None:
    ran: list[str] = []
    goals: list[Goal] = [("a", 1, True), ("b", 2, False), ("c", 3, False), ("d", 4, False)]
    ours, kept = ("ours", _run(ran, "ours")), ("kept", _run(ran, "kept"))
    notes = profiles(goals, [("met", _run(ran, "met")), ours, ours, kept])
    assert ran == ["ours", "kept"]  # each once, however many goals it missed
    heads = [note for note in notes if note.startswith("profile of ")]
    assert [head.split(",")[0] for head in heads] == ["profile of ours", "profile of kept"]
    first = notes[1 : notes.index(heads[1])]
    assert 3 <= len(first) <= 8
    assert any("test_bench.py:" in row and "busy" in row for row in first)
    shares = [float(row.split("%")[0]) for row in first]
    assert shares == sorted(shares, reverse=True)
    assert 0 < sum(shares) <= 100.5


def test_where_every_goal_is_met_nothing_is_profiled() -> None:
    ran: list[str] = []
    assert profiles([("a", 1, True)], [("ours", _run(ran, "ours"))]) == []
    assert ran == []
    with pytest.raises(ValueError, match="shorter"):
        profiles([("a", 1, False)], [])
