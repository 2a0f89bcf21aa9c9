"""Walking arguments: every text in them with its path, and a copy in which some are replaced.

A path is written as policies write it: `body`, `to[0].name`. A key that is no plain name stands as `*`, since a key
can hold a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from interlock.base.canonical import plain
from interlock.engine.decision import Decision
from interlock.engine.event import SensorEvent
from interlock.engine.payload import RESULT_KEY, FrozenDict, FrozenList, result_of, same_tuple

__all__ = [
    "MOST_FINDS",
    "Found",
    "TooManyFinds",
    "mask_decision",
    "path_under",
    "texts",
    "together",
    "visible",
    "withheld",
]

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")
_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]")
MOST_FINDS: Final = 1024  # that are masked one by one in one text; limits.finds says otherwise
_APART: Final = "\n" * 8  # more blanks than any pattern of a detector reads over
_PART: Final = 256  # items of a list that are looked at together
_FEW: Final = 64  # texts that are looked at one by one
_NUMBERS: Final = range(10**11, 10**19)  # that may be found in a text
# what replaces a value, and the kind of what was found in it; None where nothing was
Found = tuple[object, str]
_How: TypeAlias = tuple[Callable[[object], Found | None], Callable[[str], bool]]  # see `mask_decision`


class TooManyFinds(Exception):  # a turn of the reading, seen by no caller
    """Ends the reading of a text in which more was found than is masked find by find."""


def withheld(kinds: list[str], most: int) -> tuple[str, list[str]]:
    """What stands for such a text as a whole, and the kinds found until then with how many there are at least."""
    return "[REDACTED TEXT]", [*kinds, f"a whole text of more than {most} finds"]


def texts(value: object, path: str = "", key: str = "") -> Iterator[tuple[str, str, str]]:
    """Every text as (path, the nearest key above it, text)."""
    if isinstance(value, str):
        yield path, key, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from texts(item, path_under(path, name), str(name))
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from texts(item, f"{path}[{i}]", key)
    elif isinstance(value, set | frozenset):
        for item in value:
            yield from texts(item, f"{path}[*]", key)
    elif isinstance(as_text := plain(value), str):
        yield path, key, as_text


def together(values: Iterable[object]) -> str | None:
    """Many texts of values as one, in which something is found if it is in one of them; None where there are few.

    So that a hundred thousand short texts without finds are read as quickly as a long one. None as well where a value
    is of another type than JSON has.
    """
    level: list[Any] = [*values]
    found: list[str] = []
    while level:
        held = level.pop()
        kind = type(held)
        if kind is str:
            found.append(held)
        elif kind is FrozenList or kind is list or kind is tuple:
            level += held
        elif kind is FrozenDict or kind is dict:
            level += held.values()
        elif kind is int:
            if held in _NUMBERS:
                found.append(str(held))
        elif not (held is None or kind is bool or kind is float):
            return None
    return _APART.join(found) if len(found) > _FEW else None


def visible(text: str) -> str:
    """The text without characters that nobody sees and that would split a number or a key; the same object if none."""
    return text if text.isascii() else _INVISIBLE.sub("", text)


def mask_decision(
    event: SensorEvent, mask: Callable[[object], Found | None], policy_id: str, holds: Callable[[str], bool]
) -> Decision | None:
    """The rewrite that masks what `mask` finds in an event's values (of any type), or None where it finds nothing.

    `holds` says whether it would find anything in a text.
    """
    many = together(event.args.values())
    if many is not None and not holds(many):
        return None
    seen: list[tuple[str, str]] = []
    whole = result_of(event) if event.phase == "result" else event.args
    new = _masked(whole, "" if whole is event.args else RESULT_KEY, (mask, holds), seen)
    if not seen:
        return None
    reason = "masked " + ", ".join(dict.fromkeys(kind for _, kind in seen))
    where = seen[0][0]
    if event.phase == "result":
        return Decision.modify_result(new, reason, policy_id, where)
    assert isinstance(new, dict)
    changed = {name: value for name, value in new.items() if value is not event.args[name]}
    return Decision.modify(changed, reason, policy_id, where)


def _masked(value: object, path: str, how: _How, seen: list[tuple[str, str]]) -> object:
    """The value itself where nothing in it was found, else a copy."""
    mask, _ = how
    if type(value) is str:
        found = mask(value)
        if found is None:
            return value
        seen.append((path, found[1]))
        return found[0]
    if isinstance(value, Mapping):
        pairs = {k: _masked(v, path_under(path, k), how, seen) for k, v in value.items()}
        return pairs if any(pairs[k] is not v for k, v in value.items()) else value
    if isinstance(value, list | tuple):
        items = _masked_items(value, path, how, seen)
        if all(a is b for a, b in zip(items, value, strict=True)):
            return value
        return items if isinstance(value, list) else same_tuple(value, items)
    if isinstance(value, set | frozenset):
        members = [_masked(v, f"{path}[*]", how, seen) for v in value]
        return value if set(members) == value else type(value)(members)
    in_bytes = isinstance(value, bytes | bytearray | memoryview)
    found = mask(bytes(value) if isinstance(value, bytearray | memoryview) else value if in_bytes else plain(value))
    if found is None:
        return value
    seen.append((path, found[1]))
    return bytearray(found[0]) if isinstance(value, bytearray) and isinstance(found[0], bytes) else found[0]


def _masked_items(value: Sequence[object], path: str, how: _How, seen: list[tuple[str, str]]) -> list[object]:
    """The items of a list; those of a part in which nothing is found are not looked at one by one."""
    items: list[object] = []
    for begin in range(0, len(value), _PART):
        part = value[begin : begin + _PART]
        many = together(part)
        if many is not None and not how[1](many):
            items += part
        else:
            items += [_masked(v, f"{path}[{begin + i}]", how, seen) for i, v in enumerate(part)]
    return items


def path_under(path: str, key: object) -> str:
    """The path of what a mapping at this path holds under a key."""
    name = key if isinstance(key, str) and _PLAIN.match(key) else "*"
    return f"{path}.{name}" if path else name
