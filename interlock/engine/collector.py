"""Python's cycle collector beside work that makes many lasting objects, such as a policy of thousands of rules.

The collector stops every thread while it looks. It looks at new objects often, and at all objects of the process once
a quarter of them are new: tens of milliseconds for a large policy, in the middle of somebody's call. What a load makes
has next to no cycles, so the collector is told to hold off meanwhile and then takes all of it for old, unseen.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from interlock.engine.mutex import Mutex

__all__ = ["freed_slowly", "held_off", "short_turns"]

_MUTEX: Final = Mutex()
_holding: list[bool] = []  # one entry while the collector is told to hold off
_turns: list[float] = []  # the interval that was, once for each load that asked for a shorter one
_shortened: list[float] = []  # the interval that we have set


@contextmanager
def held_off() -> Iterator[None]:
    """No collections while this is open; cycles that other threads drop meanwhile are collected later.

    A program that turned the collector off, or that keeps objects of its own frozen, finds nothing changed.
    """
    if not gc.isenabled() or gc.get_freeze_count():
        yield
        return
    gc.disable()
    _holding[:] = [True]
    try:
        yield
    finally:
        _holding.clear()
        gc.freeze()  # freezing and thawing moves every object to the oldest generation, and looks at none
        gc.unfreeze()
        gc.enable()


@contextmanager
def short_turns(seconds: float) -> Iterator[None]:
    """Threads take turns at least this often while this is open, in however many threads it is.

    What the program itself sets meanwhile stands, then and afterwards.
    """
    with _MUTEX:
        before = _turns[0] if _turns else sys.getswitchinterval()
        if not _turns and before > seconds:
            sys.setswitchinterval(seconds)
            _shortened[:] = [sys.getswitchinterval()]  # as the interpreter has rounded it
        _turns.append(before)
    try:
        yield
    finally:
        with _MUTEX:
            _turns.pop()
            if not _turns:
                _restored(before)


def _restored(before: float) -> None:
    if _shortened and sys.getswitchinterval() == _shortened.pop():
        sys.setswitchinterval(before)


def _as_before() -> None:
    """In a forked child, where whoever asked for either is not there any more."""
    if _holding:
        _holding.clear()
        gc.enable()
    if _turns:
        _restored(_turns[0])
        _turns.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_as_before)


def freed_slowly(*held: list[Any] | dict[Any, Any]) -> None:
    """Empty containers of many objects one by one, so that other threads get their turn in between."""
    for container in held:
        take = container.popitem if isinstance(container, dict) else container.pop
        while container:
            take()
