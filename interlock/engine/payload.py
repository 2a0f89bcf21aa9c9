"""What is judged: a read-only deep copy of a call's arguments or of a result.

A rule sees ordinary dicts and lists that refuse to be changed, so that no rule can disarm the next one, and neither
the caller's objects nor what the tool receives ever change under a rule's hand. What has no canonical encoding is
refused while it is copied, so that no rule judges what no receipt or approval could be bound to.

Objects of classes of the caller's own are read by what they hold, and never by methods that those classes override: a
text is seen as its characters, whatever its class says of itself. A container that reads one way by its own methods
and holds something else is refused.
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
    "FrozenSet",
    "GivenResult",
    "exact_text",
    "frozen",
    "frozen_mapping",
    "result_args",
    "result_of",
    "same_tuple",
    "thawed",
    "unchanged",
]

RESULT_KEY: Final = "result"
# Of these every value has a canonical encoding, and none can be changed.
_PLAIN: Final = frozenset({str, bool, float, type(None)})
_ORDINARY_INT: Final = 1 << 64
_IMMUTABLE: Final = _PLAIN | {int, bytes}  # a frozen copy holds these very objects
_ALL: Final = slice(None)


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


class GivenResult(_Wrapped):
    """The same before it is copied: under the key "result" stands the tool's own object.

    It is for whoever reads the result at once and keeps nothing of it; `frozen_mapping` makes the copy.
    """

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


class FrozenSet(set[Any]):
    """A set that cannot be changed; `copy.deepcopy` gives an ordinary one."""

    __slots__ = ()
    add = clear = difference_update = discard = intersection_update = pop = remove = _refuse
    symmetric_difference_update = update = __iand__ = __ior__ = __isub__ = __ixor__ = _refuse

    def __deepcopy__(self, memo: object) -> set[Any]:
        return set(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return set, (set(self),)


def frozen(value: object, depth: int = 0) -> object:
    """A read-only deep copy of the containers in a value, of types that are Python's own.

    Raises: NotCanonical, for an object without a canonical encoding, a cycle, nesting deeper than MAX_DEPTH, or a
    container that reads in two ways; and whatever an object of the caller's own raises when it is read.
    """
    if depth > MAX_DEPTH:
        raise NotCanonical(f"is nested deeper than {MAX_DEPTH} levels")
    if type(value) in _PLAIN:
        return value
    below = depth + 1
    plain = _PLAIN if below <= MAX_DEPTH else ()  # most of what a container holds is plain, and is not called for
    if isinstance(value, Mapping):
        pairs = value.items() if type(value) is dict else _pairs(value)
        made = {k if type(k) is str else _key(k): v if type(v) in plain else frozen(v, below) for k, v in pairs}
        return FrozenDict(_distinct(made, pairs))
    if isinstance(value, list):
        items = value if type(value) is list else _items(value, list.__getitem__(value, _ALL))
        return FrozenList([v if type(v) in plain else frozen(v, below) for v in items])
    if isinstance(value, tuple):
        items = value if type(value) is tuple else _items(value, tuple.__getitem__(value, _ALL))
        return same_tuple(value, [frozen(v, below) for v in items])
    if isinstance(value, set | frozenset):
        return _frozen_set(value, below)
    return _leaf(value)


def _pairs(value: Mapping[Any, Any]) -> Any:
    """What a mapping holds, read once. Raises: NotCanonical, where a dict of another class says something else."""
    said = list(value.items())
    if isinstance(value, dict) and type(value).items is not dict.items:
        held = {id(k): v for k, v in dict.items(value)}
        if len(said) != len(held) or any(id(k) not in held or held[id(k)] is not v for k, v in said):
            raise NotCanonical(f"holds a {type(value).__qualname__} that reads in two ways")
    return said


def _items(value: Any, held: Any) -> Any:
    """What a list or tuple holds. Raises: NotCanonical, where its class says something else."""
    said = list(value)
    if len(said) != len(held) or any(a is not b for a, b in zip(said, held, strict=True)):
        raise NotCanonical(f"holds a {type(value).__qualname__} that reads in two ways")
    return held


def _distinct(made: dict[Any, Any], pairs: Any) -> dict[Any, Any]:
    if len(made) != len(pairs):  # keys of a class whose instances differ though they hold the same
        raise NotCanonical("holds a key twice")
    return made


def _frozen_set(value: set[Any] | frozenset[Any], below: int) -> object:
    own = set.copy(value) if isinstance(value, set) else frozenset.copy(value)  # fails where the class is a pretence
    held = [v if type(v) in _PLAIN else frozen(v, below) for v in frozenset(own)]
    made = frozenset(held)
    _distinct(dict.fromkeys(made), held)
    encode(made)
    return FrozenSet(made) if isinstance(value, set) else made


def _leaf(value: object) -> object:
    """What is no container that we have a read-only form of, as an object of Python's own type."""
    if type(value) is int and -_ORDINARY_INT < value < _ORDINARY_INT:
        return value
    if isinstance(value, str):
        value = str.__str__(value)
    elif isinstance(value, int):
        value = int.__index__(value)
    elif isinstance(value, float):
        value = float.__float__(value)
    elif isinstance(value, bytes):
        value = bytes.__getitem__(value, _ALL)
    elif isinstance(value, bytearray):
        value = bytearray.__getitem__(value, _ALL)  # it has no read-only form that passes for one
    encode(value)
    return memoryview(bytes(value)) if isinstance(value, memoryview) else value


def _key(key: object) -> object:
    return exact_text(key) if isinstance(key, str) else frozen(key)


def exact_text(text: str) -> str:
    """The characters of a text, whatever its class says of itself. Raises: TypeError, where it is none."""
    return text if type(text) is str else str.__str__(text)


def unchanged(judged: object, now: object) -> bool:
    """Whether a value still holds what it held when `judged` was frozen from it. Never raises."""
    try:
        return _is_still(judged, now)
    except Exception:  # noqa: BLE001 - what cannot be read now is not what was read before
        return False


def _is_still(judged: object, now: object) -> bool:
    kind = type(now)
    if kind in _IMMUTABLE:
        return judged is now
    if kind is dict and isinstance(judged, dict) and isinstance(now, dict):
        if len(judged) != len(now):
            return False
        for key, value in now.items():
            if type(key) is not str or key not in judged or not _is_still(judged[key], value):
                break
        else:
            return True
    elif kind is list and isinstance(judged, list) and isinstance(now, list):
        return len(judged) == len(now) and all(map(_is_still, judged, now))
    return encode(judged) == encode(frozen(now))


def frozen_mapping(args: Mapping[str, object]) -> Mapping[str, object]:
    """Read-only arguments; those that are frozen already are returned as they are. Raises: NotCanonical."""
    if isinstance(args, GivenResult):
        return result_args(args[RESULT_KEY])
    if isinstance(args, FrozenDict):
        return args
    pairs = args.items() if type(args) is dict else _pairs(args)
    made = {k if type(k) is str else _key(k): v if type(v) in _PLAIN else frozen(v, 1) for k, v in pairs}
    return FrozenDict(_distinct(made, pairs))


def thawed(value: object) -> Any:
    """An ordinary deep copy of a value that a rule gave, which may hold parts of what the rule saw."""
    if isinstance(value, Mapping):
        return {k: thawed(v) for k, v in value.items()}
    if isinstance(value, list):
        return [thawed(v) for v in value]
    if isinstance(value, tuple):
        return same_tuple(value, [thawed(v) for v in value])
    return set(value) if isinstance(value, set) else value


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
