"""Python's cycle collector beside work that makes many lasting objects, such as a policy of thousands of rules.

The collector stops every thread while it looks. It looks at new objects often, and at all objects of the process once
a quarter of them are new: tens of milliseconds for a large policy, in the middle of somebody's call. What a load makes
has next to no cycles, so the collector is told to hold off meanwhile and then takes all of it for old, unseen.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["freed_slowly", "held_off"]


@contextmanager
def held_off() -> Iterator[None]:
    """No collections while this is open; cycles that other threads drop meanwhile are collected later.

    A program that turned the collector off, or that keeps objects of its own frozen, finds nothing changed.
    """
    if not gc.isenabled() or gc.get_freeze_count():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # freezing and thawing moves every object to the oldest generation, and looks at none
        gc.unfreeze()
        gc.enable()


def freed_slowly(*held: list[Any] | dict[Any, Any]) -> None:
    """Empty containers of many objects one by one, so that other threads get their turn in between."""
    for container in held:
        take = container.popitem if isinstance(container, dict) else container.pop
        while container:
            take()
