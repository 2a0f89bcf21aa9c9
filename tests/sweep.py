"""Which moments of a sweep a run visits: a process is killed, or its disk full, at each of many writes in turn.

A normal run visits the first few, and of the others every n-th: the same ones each time. INTERLOCK_SWEEP=K begins those
K later, so that n runs visit all; `make test-sweeps` sets INTERLOCK_SWEEP=all, which is all of them at once. Each sweep
is marked `sweep`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

__all__ = ["moments"]

ALWAYS: Final = 6  # so that a short sweep is a whole one


def moments(every: int, most: int = 1000) -> Iterable[int]:
    """The moments from 0 on to visit, later ones `every` apart, until the work comes to its end before one of them."""
    said = os.environ.get("INTERLOCK_SWEEP", "")
    if said == "all":
        return range(most)
    return (*range(ALWAYS), *range(ALWAYS + int(said or 0) % every, most, every))
