"""`remove`: what a mask would change is taken away whole, each value that it finds something in.

Where a mask puts a label in place of what it found, the text around it stays. Here nothing stays: an empty text takes
the value's place (empty bytes, where it is bytes), under the same key and in the same position, so that what reads it
still finds it. Nothing is joined that was apart, and nothing of the rule's author is written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from interlock.engine.decision import Decision
from interlock.engine.event import SensorEvent
from interlock.engine.payload import result_of, same_tuple

__all__ = ["removing"]


def removing(masked: Decision, event: SensorEvent) -> Decision:
    """A mask's decision about an event, as the one that removes."""
    if event.phase == "result":
        return dataclasses.replace(masked, modified_result=_emptied(result_of(event), masked.modified_result))
    changes = masked.modified_args or {}
    return dataclasses.replace(
        masked, modified_args={name: _emptied(event.args.get(name), new) for name, new in changes.items()}
    )


def _emptied(old: object, new: object) -> object:
    """What a mask made of a value, with nothing left of each value that it changed."""
    if new is old:
        return old
    if isinstance(new, Mapping) and isinstance(old, Mapping):
        return {key: _emptied(old.get(key), held) for key, held in new.items()}
    if isinstance(new, list) and isinstance(old, list):
        return [_emptied(was, held) for was, held in zip(old, new, strict=True)]
    if isinstance(new, tuple) and isinstance(old, tuple):
        return same_tuple(new, [_emptied(was, held) for was, held in zip(old, new, strict=True)])
    if isinstance(new, set | frozenset) and isinstance(old, set | frozenset):
        return type(new)(held if held in old else _emptied(None, held) for held in new)
    return type(new)() if isinstance(new, bytes | bytearray) else ""
