"""Releasing an aggregate share: noise goes on, once a batch, and the task's privacy budget is charged before it leaves.

    release = NoisyRelease(vdaf_of, budget, clock, rng)
    release.check(task, batch, buckets)                 # before anything is closed; changes nothing
    drawn = release.draw(task)                          # before a store is locked: sampling takes its time
    share = release(task, share, batch, buckets, drawn) # charged, noised; stored in the answer before it is sent

A batch is charged once, by its selector's bytes, however often its release is begun: what was begun and not stored was
never seen, and the noise that was drawn for it is thrown away. The stored answer is what is replayed, so nobody gets
the same sums under fresh noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Protocol

from interlock.base.clock import Clock
from interlock.base.primitives import Rng
from interlock.dap.backend import VdafBackend
from interlock.dap.noise import noise_share, sample
from interlock.dap.problems import BudgetSpent
from interlock.dap.task import Task, TaskRefused

__all__ = ["BARE", "BareRelease", "Budget", "Charge", "NoisyRelease", "Release", "spent_out"]


@dataclass(frozen=True)
class Charge:
    """What the release of one batch costs, and what the whole task may cost."""

    task_id: bytes
    batch: bytes
    cost: Fraction
    budget: Fraction


class Budget(Protocol):
    """A ledger of what was released, by task and batch; durable before `charge` returns."""

    def charge(self, charge: Charge, now_us: int) -> None:
        """Write a charge down, once a batch. Raises: BudgetSpent, with nothing written."""

    def check(self, charge: Charge) -> None:
        """Raises: BudgetSpent, where `charge` would."""


class Release(Protocol):
    """What is done to an aggregate share before it is sealed to the collector."""

    def check(self, task: Task, batch: bytes, buckets: int) -> None:
        """Raises: BudgetSpent, where a release of this batch would be refused."""

    def draw(self, task: Task) -> bytes:
        """Fresh noise for one release, as an aggregate share; empty for a task without."""

    def __call__(self, task: Task, share: bytes, batch: bytes, buckets: int, drawn: bytes) -> bytes:
        """The share to release; `batch` is its selector's encoding, `drawn` what `draw` gave for it alone.

        Raises: BudgetSpent.
        """


class BareRelease:
    """For tasks without noise; it refuses one that asks for it, so that no wiring can forget it."""

    def check(self, task: Task, batch: bytes, buckets: int) -> None:
        if task.noise is not None:
            raise TaskRefused("asks for noise, and none can be made here", fix="give the aggregator a budget ledger")

    def draw(self, task: Task) -> bytes:
        return b""

    def __call__(self, task: Task, share: bytes, batch: bytes, buckets: int, drawn: bytes) -> bytes:
        self.check(task, batch, buckets)
        return share


BARE: Final = BareRelease()


class NoisyRelease:
    """Adds a task's full noise to this aggregator's share, within its budget; a task without noise passes as it is."""

    def __init__(self, vdaf: Callable[[Task], VdafBackend], budget: Budget, clock: Clock, rng: Rng) -> None:
        self._vdaf = vdaf
        self._budget = budget
        self._clock = clock
        self._rng = rng

    def check(self, task: Task, batch: bytes, buckets: int) -> None:
        if task.noise is not None:
            self._budget.check(Charge(task.task_id, batch, task.noise.cost_of(buckets), task.noise.budget))

    def draw(self, task: Task) -> bytes:
        return b"" if task.noise is None else noise_share(task.shape, sample(task.noise, task.shape, self._rng))

    def __call__(self, task: Task, share: bytes, batch: bytes, buckets: int, drawn: bytes) -> bytes:
        noise = task.noise
        if noise is None:
            return share
        if not drawn:
            raise ValueError("the noise of this release was not drawn")
        self._budget.charge(Charge(task.task_id, batch, noise.cost_of(buckets), noise.budget), self._clock.now_us())
        return self._vdaf(task).merge([share, drawn])


def spent_out(charge: Charge, spent: Fraction) -> BudgetSpent | None:
    """The refusal of a charge on top of what was spent; None where there is room."""
    if spent + charge.cost <= charge.budget:
        return None
    told = f"{spent} of {charge.budget} is spent, and this batch would cost {charge.cost}"
    return BudgetSpent(f"the task's privacy budget does not allow it: {told}", task_id=charge.task_id)
