"""Leader, workers, helper, members and a collector for some hours, with every fault there is; then sums are checked.

Each report marks a place of its own, so that any report that is lost or counted twice shows as a sum that is not what
it has to be. Everything is drawn from one seed: who acts when, what the lines do, at which write a process dies (before
or after it is durable), whose clock is set to what, which worker stalls while others take its jobs over, when is swept.

Every fourth history is one of a task whose leader selects the batches, and fills them to a size that is drawn. In
every fourth the two sides come to hold other reports of a batch, and repair it.

    python -m tests.sim.dap_simulation --seeds 200 [--first 0] [--store sqlite|postgres|both]
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections import Counter
from pathlib import Path

from tests.sim.dap_history import Simulation
from tests.sim.dap_repaired_history import RepairedSelectedSimulation, RepairedSimulation
from tests.sim.dap_selected_history import SelectedSimulation
from tests.unit.dap_stores import KINDS, PostgresStores, SqliteStores

KINDS_OF = (
    *(Simulation, Simulation, Simulation, SelectedSimulation),
    *(Simulation, RepairedSimulation, Simulation, RepairedSelectedSimulation),
)


def simulate(seed: int, kind: str, folder: Path) -> Counter[str]:
    """One run on one kind of store; what happened in it. Raises: AssertionError, where a sum is not exact."""
    simulation = KINDS_OF[seed % len(KINDS_OF)](seed, PostgresStores() if kind == "postgres" else SqliteStores(folder))
    try:
        simulation.run()
    finally:
        simulation.close()
    return simulation.tally


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--store", choices=(*KINDS, "both"), default="both")
    args = parser.parse_args()
    logging.disable()
    total: Counter[str] = Counter()
    kinds = KINDS if args.store == "both" else (args.store,)
    for seed in range(args.first, args.first + args.seeds):
        for kind in kinds:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    total += simulate(seed, kind, Path(folder))
                except BaseException:
                    print(f"seed {seed} on {kind} failed", flush=True)
                    raise
        if seed % 20 == 19 or seed + 1 == args.first + args.seeds:
            print(f"{seed + 1 - args.first} seeds, sums exact in each: {dict(total)}", flush=True)


if __name__ == "__main__":
    main()
