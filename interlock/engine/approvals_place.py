"""Where a queue may lie: an ordinary file of this user's own, which nobody else can put another one in place of."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from interlock.base.files import BadState, Locked, NotWritable, file_lock, os_reason

__all__ = ["FILES", "demand_safe", "opening"]

FILES: Final = ("", "-wal", "-shm", "-journal", ".lock")  # ends of the names of what SQLite and we keep there
_OPENING_S: Final = 5.0


def demand_safe(path: Path) -> None:
    """Raises: BadState, where somebody else could have put the file there, or another in its place; NotWritable."""
    try:
        for end in FILES:
            _demand_own_file(path.with_name(path.name + end))
        folder = path.parent.stat()
    except OSError as e:
        raise NotWritable(f"cannot be written ({os_reason(e)})", where=str(path)) from None
    if os.name != "nt" and folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX:
        raise BadState("is a folder that everybody can write", where=str(path.parent), fix="choose a private folder")


def _demand_own_file(path: Path) -> None:
    try:
        about = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(about.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(about.st_mode) else "not a file"
        raise BadState(f"is {kind}, and the queue is an ordinary file of its own", where=str(path))
    if os.name != "nt" and about.st_uid != os.geteuid():
        raise BadState("belongs to another user", where=str(path))
    if about.st_nlink > 1:
        raise BadState("has a second name (a hard link)", where=str(path))


@contextlib.contextmanager
def opening(path: Path) -> Iterator[None]:
    """One process opens the file at a time, for SQLite does not wait where two make it at once. Raises: Locked."""
    until = time.monotonic() + _OPENING_S
    while True:
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(file_lock(path.with_name(f"{path.name}.lock")))
            except Locked:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)
                continue
            yield
            return
