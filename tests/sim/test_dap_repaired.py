"""Jobs are abandoned after the helper committed them, among all other faults: batches are repaired, and sums exact."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.sim.dap_repaired_history import RepairedSimulation
from tests.unit.dap_stores import KINDS, stores_of


@pytest.mark.parametrize("kind", KINDS)
def test_batches_with_abandoned_jobs_are_repaired_and_their_sums_are_exact(tmp_path: Path, kind: str) -> None:
    total: Counter[str] = Counter()
    for seed in range(8 if kind == "sqlite" else 3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        simulation = RepairedSimulation(seed, stores_of(kind, folder))
        try:
            simulation.run()
        finally:
            simulation.close()
        total += simulation.tally
    assert total["repaired"] > 0
    assert total["counted"] > 20
