"""What a commons publishes: packs (see `release`), and what tasks need; each in the six steps of `steps`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from interlock.base.clock import Clock
from interlock.base.errors import BadInput
from interlock.base.fetch import NotFound
from interlock.commons.indicators import BadCatalog, Catalog, parse_catalog
from interlock.commons.journal import Item
from interlock.commons.layout import (
    CATALOG_RING,
    DAP_RING,
    MAX_DAP_TASK,
    WITHDRAWN_RING,
    catalog_path,
    dap_task_path,
    withdrawal_path,
)
from interlock.commons.memberfiles import TaskFile
from interlock.commons.operators import (
    OPERATORS_PATH,
    OPERATORS_RING,
    Operators,
    demand_separate_witnesses,
    parse_operators,
)
from interlock.commons.rekey import Rekeying
from interlock.commons.release import Releases
from interlock.commons.signers import RoleSigner
from interlock.commons.statements import known_task
from interlock.commons.steps import Append, Published, Steps, UnfinishedPublish
from interlock.commons.task_withdrawal import build_withdrawal, parse_withdrawal
from interlock.transparency.policy import TlogPolicy

__all__ = ["Append", "Published", "Publisher", "UnfinishedPublish"]


class Publisher(Releases, Rekeying):
    """All that is published in one commons; its `steps` do the work.

    `append` brings an entry into the log; `policy` is what members pin.
    """

    def __init__(self, home: Path, append: Append, policy: TlogPolicy, clock: Clock) -> None:
        super().__init__(Steps(home, append, policy, clock))

    def resume(self, *, signer: RoleSigner | None = None) -> Published | None:
        """Finish what was cut short. Raises: as `Steps.resume`."""
        return self.steps.resume(signer=signer)

    def abandon(self) -> None:
        """Give up what the log has not acknowledged. Raises: as `Steps.abandon`."""
        self.steps.abandon()

    def due(self, after_s: float) -> bool:
        """Whether the timestamp was signed so long ago. Raises: as `Steps.due`."""
        return self.steps.due(after_s)

    def renew(self) -> None:
        """Sign again what would otherwise end. Raises: as `Steps.renew`."""
        self.steps.renew()

    def publish_catalog(self, catalog: Catalog) -> Published:
        """Publish a task's catalog, which has to be out before it opens. Raises: BadCatalog, and as `publish`."""
        if self.steps.clock.now_us() >= catalog.opens_at:
            raise BadCatalog("opens in the past", where=f"catalog {catalog.task}", fix="give it a later opens_at")
        path, role = catalog_path(catalog.task), CATALOG_RING

        def begin(base: Mapping[str, int]) -> tuple[Item, ...]:
            if self.steps.repository.target(role, base[role], path) is not None:
                raise BadCatalog("is out, and a catalog never changes", where=path, fix="publish a new task")
            return (self.steps.item("task", catalog.task, 1, role, catalog.data, path, role, self.steps.key(role)),)

        return self.steps.run((("task", f"{role}/{path}", catalog.data),), begin, None)

    def publish_dap_task(self, task: str, data: bytes) -> Published:
        """Publish the DAP task that a catalog's task is counted by; it stands there for ever.

        What the bytes mean is for the caller to judge: DAP is not spoken here. Raises: TaskWithdrawn; as
        `publish_catalog`.
        """
        known_task(task, where=f"task {task}")
        if not 0 < len(data) <= MAX_DAP_TASK:
            raise BadInput(f"is empty, or larger than {MAX_DAP_TASK} bytes", where=f"task {task}")
        self._demand_stands(task)
        path, role = dap_task_path(task), CATALOG_RING

        def begin(base: Mapping[str, int]) -> tuple[Item, ...]:
            if self.steps.repository.target(role, base[role], path) is not None:
                raise BadCatalog("is out, and a task never changes", where=path, fix="publish a new task")
            return (self.steps.item("task", task, 1, DAP_RING, data, path, role, self.steps.key(role)),)

        return self.steps.run((("task", f"{DAP_RING}/{path}", data),), begin, None)

    def withdraw_task(self, task: str, why: str) -> Published:
        """Take a DAP task back, for ever: nobody takes part in it from then on.

        The same again is answered. Raises: Malformed; NotFound, where it was not published; BadCatalog, where it was
        withdrawn for another reason; and as `publish_catalog`.
        """
        made = build_withdrawal(task, why)
        path, role = withdrawal_path(task), CATALOG_RING

        def begin(base: Mapping[str, int]) -> tuple[Item, ...]:
            if self.steps.repository.target(role, base[role], dap_task_path(task)) is None:
                raise NotFound("was not published here", where=f"task {task}")
            if self.steps.repository.target(role, base[role], path) is not None:
                raise BadCatalog("was withdrawn before", where=f"task {task}")
            return (self.steps.item("task", task, 1, WITHDRAWN_RING, made.data, path, role, self.steps.key(role)),)

        return self.steps.run((("task", f"{WITHDRAWN_RING}/{path}", made.data),), begin, None)

    def dap_task(self, task: str) -> bytes:
        """The DAP task of a name, as this commons signed it. Raises: NotFound, TaskWithdrawn, BadState."""
        self._demand_stands(known_task(task, where=f"task {task}"))
        return self._signed(CATALOG_RING, dap_task_path(task))

    def _demand_stands(self, task: str) -> None:
        """Raises: TaskWithdrawn, BadState."""
        path = withdrawal_path(task)
        with contextlib.suppress(NotFound):
            raise parse_withdrawal(self._signed(CATALOG_RING, path), where=path).refusal

    def catalog(self, task: str) -> Catalog:
        """The catalog of a task, as this commons signed it. Raises: NotFound, BadState, BadCatalog."""
        path = catalog_path(known_task(task, where=f"task {task}"))
        return parse_catalog(self._signed(CATALOG_RING, path), where=path)

    def operators(self) -> Operators | None:
        """The list of operators that is out; None where there is none. Raises: BadState."""
        data = self.steps.repository.target("targets", self.steps.seen()["targets"], OPERATORS_PATH)
        return None if data is None else parse_operators(data, where=OPERATORS_PATH)

    def _signed(self, role: str, path: str) -> bytes:
        data = self.steps.repository.target(role, self.steps.seen()[role], path)
        if data is None:
            raise NotFound("was not published here", where=path)
        return data

    def publish_members(self, files: Sequence[TaskFile]) -> Published:
        """Publish member keys and counts in one snapshot; each stands there for ever. Raises: as `publish_catalog`."""
        role, last = CATALOG_RING, files[-1]

        def begin(base: Mapping[str, int]) -> tuple[Item, ...]:
            for file in files:
                if self.steps.repository.target(role, base[role], file.path) is not None:
                    raise BadCatalog("is out, and an epoch's never changes", where=file.path, fix="leave it away")
            key = self.steps.key(role)
            return tuple(self.steps.item("task", f.task, f.epoch, f.ring, f.data, f.path, role, key) for f in files)

        return self.steps.run((("task", f"{last.ring}/{last.path}", last.data),), begin, None)

    def publish_operators(self, operators: Operators) -> Published:
        """Publish who runs what; the snapshot's key logs it. Raises: OneHand, BadInput, NeedsHolders; as `publish`."""
        demand_separate_witnesses(operators, self.steps.policy)
        path, role = OPERATORS_PATH, "targets"

        def begin(base: Mapping[str, int]) -> tuple[Item, ...]:
            out = self.steps.wanted(role, path, base)
            if out is not None and parse_operators(out, where=path).version >= operators.version:
                fix = "give it a higher version"
                raise BadInput(f"version {operators.version} is not newer than what is out", where=path, fix=fix)
            named, key = (OPERATORS_RING, operators.version, OPERATORS_RING), self.steps.key("snapshot")
            return (self.steps.item("operators", *named, operators.data, path, role, key),)

        return self.steps.run((("operators", f"{OPERATORS_RING}/{path}", operators.data),), begin, None)
