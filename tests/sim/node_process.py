"""A guarded process to be killed: python -m tests.sim.node_process HOME SEED.

It meets blocked events in an order of its own, and prints each rule's number once its observer has returned.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from interlock.base.clock import SystemClock
from interlock.commons.indicators import Catalog, build_catalog
from interlock.engine.decision import Decision
from interlock.engine.event import SensorEvent
from interlock.node.roles.observe import TallyObserver

PLACES = 4000
EVER = 1 << 40  # seconds: one epoch, so that no round of the test falls across two
CALL = SensorEvent("Bash", {"command": "true"})


def counted() -> Catalog:
    return build_catalog("killed", opens_at=0, rules=[f"rule-{i}" for i in range(PLACES)])


def observe(home: Path, seed: int) -> None:
    observer = TallyObserver(home, SystemClock(), redacting=lambda: ())
    order = list(range(PLACES))
    random.Random(seed).shuffle(order)
    for place in order:
        observer(CALL, Decision.block("no", policy_id=f"rule-{place}"))
        sys.stdout.write(f"{place}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    observe(Path(sys.argv[1]), int(sys.argv[2]))
