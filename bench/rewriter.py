"""Writes a policy of 10,000 rules over again, in a process of its own: `python -m bench.rewriter FILE TIMES`.

In the measured process it would hold the interpreter itself. Each version is made before the first is written; a line
on standard input says that one is loaded, and some time after that comes the next.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

from bench.scale import policy_of, rules_from

__all__ = ["main"]

_PAUSE_S: Final = 1.5  # between a load and the next version, for what is left to do after a load to show


def main(file: Path, times: int) -> None:
    """Replace the file that many times, each version with another digest."""
    *rules, last = rules_from(0, 10_000)
    versions = [policy_of("reload", [*rules, {**last, "reason": f"listed, turn {turn}"}]) for turn in range(times)]
    for data in versions:
        new = file.with_suffix(".new")
        new.write_bytes(data)
        new.replace(file)
        sys.stdin.readline()
        time.sleep(_PAUSE_S)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
