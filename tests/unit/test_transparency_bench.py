"""The goals of the log's benchmark are computed right from given figures. Nothing is timed."""

from __future__ import annotations

import pytest

from bench.log import Grown, Load, goals
from bench.timing import Figures


def figures(p50: float, p99: float) -> Figures:
    """Figures in milliseconds."""
    return Figures(int(p50 * 1e6), int(p50 * 1e6), int(p99 * 1e6), int(p99 * 1e6), 100)


def grown(append: float, proof: float, start_s: float, memory_kib: int) -> Grown:
    return Grown(figures(append, append), figures(proof, proof), figures(proof, proof), start_s, memory_kib)


@pytest.mark.parametrize(
    ("most", "under", "expected"),
    [
        (grown(3, 3, 1.0, 75), Load(2000, figures(9, 1999), 199), [2000, 1.999, 199, 1.5, 3, 1.0, 1.5]),
        (grown(2, 1, 0.1, 50), Load(9000, figures(9, 10), 100), [9000, 0.01, 100, 1, 1, 0.2, 1]),
    ],
)
def test_each_figure_that_is_asked_is_met_up_to_its_bound(most: Grown, under: Load, expected: list[float]) -> None:
    found = goals([grown(2, 1, 0.1, 50), grown(2, 1, 0.2, 50), most], under)
    assert [(round(reached, 3), met) for _, reached, met in found] == [(reached, True) for reached in expected]


def test_each_figure_that_is_missed_is_told() -> None:
    some = [grown(2, 1, 0.1, 50), grown(2, 1, 1.1, 50), grown(3.1, 3.1, 0.1, 76)]
    found = goals(some, Load(1999, figures(9, 2000), 200))
    assert [met for _, _, met in found] == [False] * 7
