"""What the system says of another process that is measured."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cpu_s"]


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process has had; 0 where the system does not tell."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return 0.0
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
