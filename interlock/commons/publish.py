"""What a commons publishes: packs (see `release`), and what tasks need; each in the six steps of `steps`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from interlock.base.errors import BadInput
from interlock.commons.indicators import BadCatalog, Catalog
from interlock.commons.journal import Item
from interlock.commons.layout import CATALOG_RING, DAP_RING, MAX_DAP_TASK, catalog_path, dap_task_path
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
from interlock.commons.statements import known_task
from interlock.commons.steps import (
    Append,
    Published,
    UnfinishedPublish,
    create_commons,
    is_commons,
    make_commons_keys,
)

__all__ = [
    "Append",
    "Published",
    "Publisher",
    "UnfinishedPublish",
    "create_commons",
    "is_commons",
    "make_commons_keys",
]


class Publisher(Releases, Rekeying):
    """Publishes in one commons."""

    def publish_catalog(self, catalog: Catalog) -> Published:
        """Publish a task's catalog, which has to be out before it opens. Raises: BadCatalog, and as `publish`."""
        if self._clock.now_us() >= catalog.opens_at:
            raise BadCatalog("opens in the past", where=f"catalog {catalog.task}", fix="give it a later opens_at")
        path, role = catalog_path(catalog.task), CATALOG_RING

        def begin(base: Mapping[str, int]) -> tuple[Item, ...]:
            if self._repository.target(role, base[role], path) is not None:
                raise BadCatalog("is out, and a catalog never changes", where=path, fix="publish a new task")
            return (self._item("task", catalog.task, 1, role, catalog.data, path, role, self._key(role)),)

        return self._run((("task", f"{role}/{path}", catalog.data),), begin, None)

    def publish_dap_task(self, task: str, data: bytes) -> Published:
        """Publish the DAP task that a catalog's task is counted by; it stands there for ever.

        What the bytes mean is for the caller to judge: DAP is not spoken here. Raises: as `publish_catalog`.
        """
        known_task(task, where=f"task {task}")
        if not 0 < len(data) <= MAX_DAP_TASK:
            raise BadInput(f"is empty, or larger than {MAX_DAP_TASK} bytes", where=f"task {task}")
        path, role = dap_task_path(task), CATALOG_RING

        def begin(base: Mapping[str, int]) -> tuple[Item, ...]:
            if self._repository.target(role, base[role], path) is not None:
                raise BadCatalog("is out, and a task never changes", where=path, fix="publish a new task")
            return (self._item("task", task, 1, DAP_RING, data, path, role, self._key(role)),)

        return self._run((("task", f"{DAP_RING}/{path}", data),), begin, None)

    def publish_members(self, files: Sequence[TaskFile]) -> Published:
        """Publish member keys and counts in one snapshot; each stands there for ever. Raises: as `publish_catalog`."""
        role, last = CATALOG_RING, files[-1]

        def begin(base: Mapping[str, int]) -> tuple[Item, ...]:
            for file in files:
                if self._repository.target(role, base[role], file.path) is not None:
                    raise BadCatalog("is out, and an epoch's never changes", where=file.path, fix="leave it away")
            key = self._key(role)
            return tuple(self._item("task", f.task, f.epoch, f.ring, f.data, f.path, role, key) for f in files)

        return self._run((("task", f"{last.ring}/{last.path}", last.data),), begin, None)

    def publish_operators(self, operators: Operators) -> Published:
        """Publish who runs what; the snapshot's key logs it. Raises: OneHand, BadInput, NeedsHolders; as `publish`."""
        demand_separate_witnesses(operators, self._policy)
        path, role = OPERATORS_PATH, "targets"

        def begin(base: Mapping[str, int]) -> tuple[Item, ...]:
            out = self._wanted(role, path, base)
            if out is not None and parse_operators(out, where=path).version >= operators.version:
                fix = "give it a higher version"
                raise BadInput(f"version {operators.version} is not newer than what is out", where=path, fix=fix)
            named, key = (OPERATORS_RING, operators.version, OPERATORS_RING), self._key("snapshot")
            return (self._item("operators", *named, operators.data, path, role, key),)

        return self._run((("operators", f"{OPERATORS_RING}/{path}", operators.data),), begin, None)
