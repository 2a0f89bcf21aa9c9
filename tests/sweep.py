"""Which moments of a sweep a run visits: a process is killed, or its disk full, at each of many writes in turn.

A normal run visits the first few, and of the others every n-th, one further each day, so that n days of CI have visited
all. The same run again: INTERLOCK_SWEEP=DAY, the number of days since 1970. All of them at once: `make test-sweeps`,
which sets INTERLOCK_SWEEP=all. Each sweep is marked `sweep`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Final

__all__ = ["moments"]

ALWAYS: Final = 6  # so that a short sweep is a whole one


def moments(every: int, most: int = 1000) -> Iterable[int]:
    """The moments from 0 on to visit, later ones `every` apart, until the work comes to its end before one of them."""
    said = os.environ.get("INTERLOCK_SWEEP", "")
    if said == "all":
        return range(most)
    day = int(said) if said else int(time.time() // 86_400)
    return (*range(ALWAYS), *range(ALWAYS + day % every, most, every))
