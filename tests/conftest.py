"""Settings of the whole suite: the same examples of property tests on every run, and temporary files in memory.

Set INTERLOCK_EXPLORE=1 to draw new examples: a run by hand that looks for what nobody has seen yet.

What is kept safely is written through to the disk, thousands of times in a run, and a disk takes milliseconds for it.
No test loses its power, so none needs the disk: a process that is killed leaves the same files in memory. So temporary
files go to /dev/shm where it can hold them; a TMPDIR that is set stays.

Several workers share the files of a run, half as many again as there are cores (-n auto): many a test waits, for a
process, a server or a clock. Files with slow tests come first: one of them at the end would leave the other workers
with nothing to do.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("explore" if os.environ.get("INTERLOCK_EXPLORE") == "1" else "repeatable")

IN_MEMORY = Path("/dev/shm")  # nothing is written there but in private folders
ROOM = 2 << 30  # bytes; a run takes some hundred megabytes


def _can_hold(folder: Path) -> bool:
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return False
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & getattr(os, "ST_NOEXEC", 0)


if "TMPDIR" not in os.environ and _can_hold(IN_MEMORY):
    os.environ["TMPDIR"] = str(IN_MEMORY)
    tempfile.tempdir = None  # where temporary files go is found out once, and perhaps has been


def pytest_configure(config: pytest.Config) -> None:
    """Keep xdist, where it is there, from putting the files in the order of how many tests they hold."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """What -n auto means; as xdist has it, where its own variable says a number."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + max(1, cores // 2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first, and of the others those with many tests; a file's own tests stay as they are."""
    size = Counter(item.path for item in items)
    slow = {item.path for item in items if item.get_closest_marker("slow") or item.get_closest_marker("sweep")}
    items.sort(key=lambda item: (item.path not in slow, -size[item.path], item.path))


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """A command that sends the log to standard error does so for its own test only, whose standard error it was."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
