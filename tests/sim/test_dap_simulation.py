"""Twenty drawn histories of a DAP deployment with every fault there is, on both stores: the sums are exact in each.

Two hundred by hand: python -m tests.sim.dap_simulation --seeds 200
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.sim.dap_simulation import simulate

SEEDS = range(20)
QUICK = range(3)  # of those on PostgreSQL, in a quick run


def histories(kind: str, seeds: range, folder: Path) -> Counter[str]:
    tally: Counter[str] = Counter()
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir()
        tally += simulate(seed, kind, place)
    return tally


def test_sums_are_exact_whatever_happens(tmp_path: Path) -> None:
    tally = histories("sqlite", SEEDS, tmp_path)
    for what in (
        "died at a write",
        "killed",
        "stalled",
        "clock set",
        "swept",
        "collected",
        "helper died",
        "taken back",
        "full",
    ):
        assert tally[what] > 5, f"{what}: it has to happen for this to say anything"
    assert tally["closed by age"] > 0
    assert tally["repaired"] > 0
    assert tally["counted"] > 20 * len(SEEDS)


def test_sums_are_exact_in_postgresql_too(tmp_path: Path) -> None:
    assert histories("postgres", QUICK, tmp_path)["counted"] > 20 * len(QUICK)


@pytest.mark.slow
def test_sums_are_exact_in_postgresql_in_each_history(tmp_path: Path) -> None:
    tally = histories("postgres", SEEDS[len(QUICK) :], tmp_path)
    assert tally["counted"] > 20 * (len(SEEDS) - len(QUICK))
