"""The same history, of a task whose leader selects the batches: each is collected once it is full, or old enough."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from interlock.base.fetch import Unreachable
from interlock.base.organisations import DEMO_LEAST
from interlock.dap.collector import Collected, Collector, Pending
from interlock.dap.messages import LEADER_SELECTED
from tests.sim.dap_history import PLACES, Simulation
from tests.unit.dap_stores import Stores


class SelectedSimulation(Simulation):
    """Results stand under their marks: the same batch under another name would show, and so would two of one name."""

    MODE = LEADER_SELECTED

    def __init__(self, seed: int, stores: Stores) -> None:
        super().__init__(seed, stores)
        self.by_mark: dict[str, Collected] = {}
        self.taken: list[str] = []  # places that were said to be taken

    def _size(self) -> int:
        return self.rng.choice([DEMO_LEAST, DEMO_LEAST + 1, 2 * DEMO_LEAST, 3 * DEMO_LEAST])

    def found(self) -> Iterable[Collected]:
        return self.by_mark.values()

    def collect(self) -> None:
        collector = Collector(self.task, self.keys["collector"], self.vdaf, self._from_collector)
        with contextlib.suppress(Unreachable):
            if self.taken and self.rng.random() < 0.3:  # a word that was on its way for long
                collector.taken(self.rng.choice(self.taken))
                self.tally["taken late"] += 1
            found = collector.ask_next()
            if isinstance(found, Pending):
                return
            self.keep(found)
            if self.quiet or self.rng.random() < 0.7:  # else it dies here, and asks again
                self.taken.append(found.place)
                collector.taken(found.place)

    def keep(self, found: Collected) -> None:
        """A result that is told again is the same, and of as many reports as a batch may have."""
        assert DEMO_LEAST <= found.report_count <= self.most()
        if found.mark not in self.by_mark:
            self.tally["full" if found.report_count == self.task.batch_size else "closed by age"] += 1
        assert self.by_mark.setdefault(found.mark, found) == found
        self.tally["collected"] += 1

    def most(self) -> int:
        """How many reports a batch has at most."""
        return self.task.batch_size

    def collect_all(self) -> None:
        for _ in range(PLACES):
            self.collect()
            self.drive_all()

    def totals(self) -> list[int]:
        """What was collected, and what both sides hold, alike, of batches that are not full."""
        totals = self.collected()
        sql = "SELECT batch, job, bucket, count, checksum, share FROM accumulators ORDER BY batch, job, bucket"
        rows: list[list[Any]] = [[tuple(row) for row in store._read(sql)] for store in self.watched.values()]
        told = [[row[:5] for row in side] for side in rows]
        assert told[0] == told[1], "they hold the same"
        sizes: dict[bytes, int] = {}
        for ours, theirs in zip(*rows, strict=True):
            sizes[ours[0]] = sizes.get(ours[0], 0) + ours[3]
            sums = self.vdaf.unshard([bytes(ours[5]), bytes(theirs[5])], ours[3])
            totals = [a + b for a, b in zip(totals, sums, strict=True)]
        assert all(size < DEMO_LEAST for size in sizes.values()), "no batch is left that could be collected"
        return totals
