"""Who started whom on this machine, as far as Linux's /proc tells: is a person at work here, or a guarded agent?

A process is named by its pid, its start time in clock ticks, and the boot and pid namespace that both count in.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from interlock.base.errors import InterlockError

__all__ = ["AGENT_MARKS", "Process", "UnknownLineage", "agent_above", "lineage", "marked", "own_process"]

# Variables that coding agents set for whatever they start.
AGENT_MARKS: Final = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CODEX_SANDBOX", "CURSOR_AGENT", "GEMINI_CLI")
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "busybox"})
_MOST: Final = 256  # processes above one another
_LIMIT: Final = 4 << 20  # bytes of one file in /proc
_PIECE: Final = 1 << 15


class UnknownLineage(InterlockError):
    """It cannot be told who started this process."""

    code = "unsupported-platform"


class Process(NamedTuple):
    """One process: `space` is the boot and the pid namespace, `start` is in clock ticks since that boot."""

    space: str
    pid: int
    start: int


def own_process() -> Process | None:
    """This process, or None where there is no /proc."""
    try:
        return Process(_space(), os.getpid(), _stat(os.getpid())[1])
    except (OSError, ValueError):
        return None


def lineage() -> tuple[Process, ...]:
    """This process and all above it. Raises: UnknownLineage, where the system does not tell all of them."""
    try:
        space = _space()
        return tuple(Process(space, pid, start) for pid, start in _upwards(os.getpid()))
    except (OSError, ValueError):
        raise UnknownLineage(
            "cannot tell which program started this one, so it may be an agent",
            where="/proc",
            fix="approve from a terminal on Linux with /proc in sight",
        ) from None


def marked(processes: tuple[Process, ...]) -> str:
    """The variable by which one of these processes says that a coding agent started it; "" where none does.

    A process of another user, and the first of all, which no agent started, are not asked.
    Raises: UnknownLineage, where one of ours does not let itself be read.
    """
    for process in processes:
        if process.pid == 1:
            continue
        folder = f"/proc/{process.pid}"
        try:
            if os.stat(folder).st_uid != os.geteuid():
                continue
            names = {item.partition(b"=")[0] for item in _read(f"{folder}/environ").split(b"\0")}
        except OSError:
            raise UnknownLineage(f"process {process.pid} above this one cannot be read", where="/proc") from None
        for mark in AGENT_MARKS:
            if mark.encode() in names:
                return mark
    return ""


def agent_above() -> Process | None:
    """The agent that runs a hook: the nearest process above this one and its forks that is no shell running a command.

    None where a person at a shell did it, or it cannot be told.
    """
    try:
        own = _read(f"/proc/{os.getpid()}/cmdline")
        for process in lineage()[1:]:
            words = _read(f"/proc/{process.pid}/cmdline")
            program = os.path.basename(words.split(b"\0")[0].decode("utf-8", "replace")).lstrip("-")
            if program in _SHELLS and b"-c" not in words.split(b"\0"):
                return None
            if program not in _SHELLS and words != own and process.pid != 1:
                return process
    except (OSError, UnknownLineage):
        pass
    return None


def _space() -> str:
    boot = _read("/proc/sys/kernel/random/boot_id").decode("ascii").strip()
    return f"{boot} {os.readlink('/proc/self/ns/pid')}"


def _upwards(pid: int) -> Iterator[tuple[int, int]]:
    """(pid, start) of a process and those above it, up to the first of its namespace. Raises: OSError, ValueError."""
    for _ in range(_MOST):
        above, start = _stat(pid)
        yield pid, start
        if above == 0 or pid == 1:
            return
        pid = above
    raise ValueError("too many processes above one another")


def _stat(pid: int) -> tuple[int, int]:
    """(parent, start) of a process; its name, in parentheses, may hold anything."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return int(fields[1]), int(fields[19])


def _read(path: str) -> bytes:
    """A whole file of /proc, in pieces that the kernel has room for. Raises: OSError, also where it is too large."""
    with open(path, "rb", buffering=0) as f:
        whole = b""
        while part := f.read(_PIECE):
            whole += part
            if len(whole) > _LIMIT:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return whole
