"""A folder of task files as a live mapping: a task that is put there is served at once, by leader and helper alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from interlock.base.files import BadState, private_dir, read_private, replace
from interlock.base.primitives import Rng
from interlock.dap.shares import HpkeKey, new_key
from interlock.dap.task import AggregatorTask, TaskRefused
from interlock.dap.taskfile import dump_key, dump_task, load_key, load_task

__all__ = ["TaskDirectory", "hpke_key_in"]

_SUFFIX: Final = ".task.json"
_LIMIT: Final = 1 << 20


class TaskDirectory(Mapping[bytes, AggregatorTask]):
    """Task id -> task, one private file each, named by the id in hex: its verification key is secret. It never changes.

    A task with fewer organisations than a real one needs is refused unless `demo`.
    """

    def __init__(self, folder: Path, *, demo: bool = False) -> None:
        self._folder = private_dir(folder)
        self._demo = demo
        self._read: dict[bytes, AggregatorTask] = {}

    def add(self, held: AggregatorTask) -> None:
        """Raises: NotWritable; TaskRefused, where the task is held already and otherwise, in another draft say."""
        path = self._path(held.task.task_id)
        if path.exists():
            held.demand_same(load_task(read_private(path, _LIMIT), where=str(path)))
        replace(path, dump_task(held))

    def __getitem__(self, task_id: bytes) -> AggregatorTask:
        """Raises: KeyError, where there is no such task; BadState, NewerFormat, TaskRefused for a damaged file."""
        path = self._path(task_id)
        if not path.exists():
            self._read.pop(task_id, None)
            raise KeyError(task_id.hex())
        if task_id not in self._read:
            held = load_task(read_private(path, _LIMIT), where=str(path))
            if held.task.task_id != task_id:
                raise BadState("holds another task than its name says", where=str(path))
            if held.task.demo and not self._demo:
                raise TaskRefused("has the floor of a demo", where=str(path), fix="serve with --demo to take it")
            self._read[task_id] = held
        return self._read[task_id]

    def __iter__(self) -> Iterator[bytes]:
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            try:
                yield bytes.fromhex(path.name.removesuffix(_SUFFIX))
            except ValueError:
                continue

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _path(self, task_id: bytes) -> Path:
        return self._folder / f"{task_id.hex()}{_SUFFIX}"


def hpke_key_in(path: Path, rng: Rng) -> HpkeKey:
    """The HPKE key in a file, made if it is not there. Raises: NotWritable, BadState."""
    if not path.exists():
        replace(path, dump_key(new_key(1, rng)))
    return load_key(read_private(path, _LIMIT), where=str(path))
