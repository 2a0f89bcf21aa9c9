"""Processes that are measured: aggregators on ports of their own, and what the system says of any."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["aggregator", "cpu_s", "free_ports", "peak_mib"]


@contextlib.contextmanager
def aggregator(role: str, root: Path, store: str, port: int, *more: str) -> Iterator[subprocess.Popen[str]]:
    """An aggregator in a process of its own (`bench.dap_server`), which ends with the block.

    Raises: RuntimeError, where it does not start, or fails.
    """
    words = [sys.executable, "-m", "bench.dap_server", role, str(root), store, str(port), *more]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise RuntimeError(f"the {role} did not start")
        yield process
    finally:
        process.communicate()
        if process.returncode:
            raise RuntimeError(f"the {role} ended with {process.returncode}")


def free_ports() -> list[int]:
    """Two ports of this machine that nobody has."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(2)]
        for sock in held:
            sock.bind(("127.0.0.1", 0))
        return [int(sock.getsockname()[1]) for sock in held]


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process has had; 0 where the system does not tell."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return 0.0
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid: int) -> float:
    """The most memory that a process has held; 0 where the system does not tell."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 0.0
    found = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
    return int(found[0]) / 1024 if found else 0.0
