"""What is judged: a read-only deep copy of a call's arguments or of a result.

A rule sees ordinary dicts and lists that refuse to be changed, so that no rule can disarm the next one, and neither
the caller's objects nor what the tool receives ever change under a rule's hand. What has no canonical encoding is
refused while it is copied, so that no rule judges what no receipt or approval could be bound to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

from interlock.base.canonical import MAX_DEPTH, NotCanonical, encode
from interlock.engine.event import SensorEvent

__all__ = [
    "RESULT_KEY",
    "FrozenDict",
    "FrozenList",
    "frozen",
    "frozen_mapping",
    "result_args",
    "result_of",
    "same_tuple",
    "thawed",
]

RESULT_KEY: Final = "result"
# Of these every value has a canonical encoding, and none can be changed.
_PLAIN: Final = frozenset({str, bool, float, type(None)})
_ORDINARY_INT: Final = 1 << 64


def _refuse(self: object, *_: object, **__: object) -> NoReturn:
    raise TypeError("what a rule sees is read-only; return Decision.modify(...) to change the call")


class FrozenDict(dict[Any, Any]):
    """A dict that cannot be changed; `copy` and `copy.deepcopy` give an ordinary one."""

    __slots__ = ()
    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __deepcopy__(self, memo: object) -> dict[Any, Any]:
        return {k: thawed(v) for k, v in self.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class _Wrapped(FrozenDict):
    """The arguments of a result event whose result was no mapping: it stands under the key "result"."""

    __slots__ = ()


class FrozenList(list[Any]):
    """A list that cannot be changed; `copy` and `copy.deepcopy` give an ordinary one."""

    __slots__ = ()
    __setitem__ = __delitem__ = append = extend = insert = pop = remove = _refuse
    reverse = sort = clear = __iadd__ = __imul__ = _refuse

    def __deepcopy__(self, memo: object) -> list[Any]:
        return [thawed(v) for v in self]

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


def frozen(value: object, depth: int = 0) -> object:
    """A read-only deep copy of the containers in a value.

    Raises: NotCanonical, for an object without a canonical encoding, a cycle, or nesting deeper than MAX_DEPTH; and
    whatever an object of the caller's own raises when it is read.
    """
    if depth > MAX_DEPTH:
        raise NotCanonical(f"is nested deeper than {MAX_DEPTH} levels")
    if type(value) in _PLAIN:
        return value
    below = depth + 1
    plain = _PLAIN if below <= MAX_DEPTH else ()  # most of what a container holds is plain, and is not called for
    if isinstance(value, Mapping):
        return FrozenDict(
            {k if type(k) is str else _key(k): v if type(v) in plain else frozen(v, below) for k, v in value.items()}
        )
    if isinstance(value, list):
        return FrozenList([v if type(v) in plain else frozen(v, below) for v in value])
    if isinstance(value, tuple):
        return same_tuple(value, [frozen(v, below) for v in value])
    return _leaf(value)


def _leaf(value: object) -> object:
    """What is no container of ours, or has no read-only form that passes for one: there each reader gets a copy."""
    if type(value) is int and -_ORDINARY_INT < value < _ORDINARY_INT:
        return value
    encode(value)
    if type(value) is set:
        return set(value)
    if type(value) is bytearray:
        return bytearray(value)
    return memoryview(bytes(value)) if type(value) is memoryview else value


def _key(key: object) -> object:
    encode(key)
    return key


def frozen_mapping(args: Mapping[str, object]) -> Mapping[str, object]:
    """Read-only arguments; those that are frozen already are returned as they are. Raises: NotCanonical."""
    if isinstance(args, FrozenDict):
        return args
    return FrozenDict({k: v if type(v) in _PLAIN else frozen(v, 1) for k, v in args.items()})


def thawed(value: object) -> Any:
    """An ordinary deep copy of a value that a rule gave, which may hold parts of what the rule saw."""
    if isinstance(value, Mapping):
        return {k: thawed(v) for k, v in value.items()}
    if isinstance(value, list):
        return [thawed(v) for v in value]
    if isinstance(value, tuple):
        return same_tuple(value, [thawed(v) for v in value])
    return set(value) if type(value) is set else value


def result_args(result: object) -> Mapping[str, object]:
    """The `args` of a result event: a mapping as itself, anything else under the key "result". Raises: NotCanonical."""
    if isinstance(result, Mapping) and all(isinstance(k, str) for k in result):
        return frozen_mapping(result)
    return _Wrapped({RESULT_KEY: frozen(result, 1)})


def result_of(event: SensorEvent) -> object:
    """The whole result that a result event stands for: what `Decision.modify_result` replaces."""
    return event.args[RESULT_KEY] if isinstance(event.args, _Wrapped) else event.args


def same_tuple(original: tuple[object, ...], items: Iterable[object]) -> tuple[object, ...]:
    """These items as a tuple of the same kind: a named tuple stays one."""
    make = getattr(type(original), "_make", tuple)
    made: tuple[object, ...] = make(items)
    return made
