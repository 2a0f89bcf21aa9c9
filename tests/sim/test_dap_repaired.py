"""Leader or helper lack jobs that the other one committed, among all other faults: batches are repaired, sums exact."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.sim.dap_repaired_history import RepairedSelectedSimulation, RepairedSimulation
from tests.unit.dap_stores import KINDS, stores_of


@pytest.mark.parametrize("mode", [RepairedSimulation, RepairedSelectedSimulation], ids=["interval", "selected"])
@pytest.mark.parametrize("kind", KINDS)
def test_batches_with_jobs_that_one_side_lacks_are_repaired_and_their_sums_are_exact(
    tmp_path: Path, kind: str, mode: type[RepairedSimulation]
) -> None:
    total: Counter[str] = Counter()
    for seed in range(8 if kind == "sqlite" else 3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        simulation = mode(seed, stores_of(kind, folder))
        try:
            simulation.run()
        finally:
            simulation.close()
        total += simulation.tally
    assert total["left out there"] > 0, "jobs that the leader abandoned"
    assert total["left out here"] > 0, "jobs that the helper lost"
    assert total["counted"] > 20
