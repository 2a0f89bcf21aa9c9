"""What bench.dap_scale asks of its figures; the figures themselves are taken by hand."""

from __future__ import annotations

import dataclasses

import pytest

from bench.dap_scale import Grown, goals, run

SMALL = Grown(10_000, 200.0, 100.0, 90.0, 80.0, 1300.0, 0.07)


def test_a_report_may_cost_a_quarter_more_among_a_million_and_the_leader_hold_300_mib() -> None:
    large = dataclasses.replace(SMALL, reports=1_000_000, leader_us=250.0, helper_us=125.0, leader_mib=300.0)
    assert [met for _, _, met in goals([SMALL, large])] == [True, True]
    assert [met for _, _, met in goals([SMALL, dataclasses.replace(large, leader_mib=301.0)])] == [False, True]
    assert [met for _, _, met in goals([SMALL, dataclasses.replace(large, helper_us=126.0)])] == [True, False]


@pytest.mark.parametrize("sizes", [[], [5_000], [15_000], [20_000, 10_000], [10_000, 10_000]])
def test_sizes_are_rising_numbers_of_whole_blocks(sizes: list[int]) -> None:
    with pytest.raises(ValueError, match="rising multiples of 10,000"):
        run(sizes)
