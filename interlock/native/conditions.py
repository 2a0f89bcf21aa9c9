"""A rule's condition in the form that the native engine compiles, or why the rule stays with Python.

The document form says what a person wrote; here everything is worked out that Python works out when it compiles a
rule: names of a tool in other frameworks, normal forms of the texts that are looked for, patterns as sets of code
points, how much of a text is read. So the native engine has one reading of it, and nothing to guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from interlock.engine.detectors.registry import REGISTRY
from interlock.engine.event import Phase
from interlock.engine.origins import readings_of
from interlock.engine.policy.argpath import path_steps
from interlock.engine.policy.conditions_call import ACCESSES, PATH_FIELDS, host_literal, widened_source
from interlock.engine.policy.glob import glob_tree
from interlock.engine.policy.limits import Limits, Oversize, Reading, limit_of
from interlock.engine.policy.matching import BESIDE, MAX_TEXT
from interlock.engine.policy.names import widened
from interlock.engine.policy.normalise import LONGEST, normal, normal_deep
from interlock.engine.policy.regex import judges_up_to
from interlock.engine.policy.regex_automaton import sure_length
from interlock.engine.policy.regex_syntax import Node, parse
from interlock.native.numbers import comparison, equal_to
from interlock.native.spelling import Unspellable, spelling

__all__ = ["Frame", "Stays", "native_condition", "native_detector", "native_flow"]

_WHOLE: Final = Reading(MAX_TEXT)
_ANY_LENGTH: Final = Reading(1 << 62)
_TEXTS: Final = frozenset({"equals", "in", "prefix", "suffix", "contains"})
_LITERALS: Final = _TEXTS | {"glob"}
_ORDERS: Final = frozenset({"lt", "le", "gt", "ge"})
_Json: TypeAlias = dict[str, Any]


class Stays(Exception):
    """A rule that only Python runs; says why, in words that go on from "because"."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands for all conditions of one rule: its phase, the limits under which texts are read, whether the places
    to which paths lead on the file system are tried too, and whether it is told at any cost how long a text its
    patterns judge natively."""

    phase: Phase
    limits: Limits
    oversize: Oversize
    resolves: bool = False
    patient: bool = False

    def reading(self, argument: str) -> Reading:
        """How patterns read the argument of this name."""
        return Reading(limit_of(argument, self.phase, self.limits), self.oversize.verdict(self.phase) is None)


def native_condition(when: Mapping[str, Any], frame: Frame) -> _Json:
    """The native form of a condition. Raises: Stays."""
    kind = next((key for key in when if key in _MAKERS), None)
    if kind is None:
        raise Stays(_STAYS.get(next(iter(when), ""), "it asks what the native engine does not know"))
    return _MAKERS[kind](when, frame)


def _all(when: Mapping[str, Any], frame: Frame) -> _Json:
    return {"all": [native_condition(part, frame) for part in when["all"]]}


def _any(when: Mapping[str, Any], frame: Frame) -> _Json:
    return {"any": [native_condition(part, frame) for part in when["any"]]}


def _not(when: Mapping[str, Any], frame: Frame) -> _Json:
    return {"not": native_condition(when["not"], frame)}


def _action(when: Mapping[str, Any], frame: Frame) -> _Json:
    return {"action": _test(widened(when["action"]))}


def _principal(when: Mapping[str, Any], frame: Frame) -> _Json:
    return {"principal": _test(when["principal"])}


def _phase(when: Mapping[str, Any], frame: Frame) -> _Json:
    return {"phase": when["phase"]}


def _arg(when: Mapping[str, Any], frame: Frame) -> _Json:
    path = when["arg"]
    test = {key: wanted for key, wanted in when.items() if key != "arg"}
    reading = frame.reading(str(path_steps(path, "")[0]))
    return {"arg": path, "values": frame.limits.values, "test": _test(test, reading, frame.patient)}


def _detector(when: Mapping[str, Any], frame: Frame) -> _Json:
    return native_detector(when["detector"], when.get("params", {}), 0)


def native_detector(name: str, params: Mapping[str, Any], finds: int) -> _Json:
    """A detector; one that masks is told how many finds of a text it masks one by one, none of them in a condition."""
    return {"detector": name, "params": {**params, "finds": finds} if REGISTRY[name].redacts else params}


def _intent(when: Mapping[str, Any], frame: Frame) -> _Json:
    wanted = when["intent"]
    return {"intent": {"named": wanted} if isinstance(wanted, str) else _fields(wanted)}


def _effects(when: Mapping[str, Any], frame: Frame) -> _Json:
    names = {"kind": "effect", "undoable": "reversible"}
    return {"intent": _fields({names.get(key, key): test for key, test in when["effects"].items()})}


def _fields(wanted: Mapping[str, Any]) -> _Json:
    rows = [[key, _test({"equals": test} if isinstance(test, bool) else test)] for key, test in wanted.items()]
    return {"fields": rows}


def _host(when: Mapping[str, Any], frame: Frame) -> _Json:
    wanted = when["host"] if isinstance(when["host"], Mapping) else {"glob": when["host"]}
    rest = {key: held for key, held in wanted.items() if key != "class"}
    spelt = {key: host_literal(key, held, "") if key in _LITERALS else held for key, held in rest.items()}
    test = _test(spelt) if spelt else None
    return {"host": {"classes": _words(wanted["class"]) if "class" in wanted else None, "test": test}}


def _path(when: Mapping[str, Any], frame: Frame) -> _Json:
    wanted = when["path"] if isinstance(when["path"], Mapping) else {"glob": when["path"]}
    links = frame.resolves and bool(wanted.get("symlinks", True))
    rest = {key: held for key, held in wanted.items() if key not in PATH_FIELDS}
    under = [normal(top).rstrip("/") for top in _words(wanted["under"])] if "under" in wanted else None
    accesses = _words(wanted.get("access", ACCESSES))
    return {"path": {"accesses": accesses, "under": under, "test": _test(rest) if rest else None, "links": links}}


def _flow(when: Mapping[str, Any], frame: Frame) -> _Json:
    return {"flow": native_flow(when["flow"])}


def native_flow(wanted: Mapping[str, Any]) -> _Json:
    """The native form of what stands under `flow`. Raises: Stays."""
    sink = None
    if "sink" in wanted:
        sink = [
            [_test({"glob": glob, "raw": True}, _ANY_LENGTH) if glob else None, list(steps)]
            for glob, steps in readings_of(wanted["sink"])
        ]
    return {"source": _test(widened_source(wanted["source"], "")), "sink": sink}


def _words(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _test(test: object, reading: Reading = _WHOLE, patient: bool = False) -> _Json:
    """A test: its operators in the order in which they are asked, and how they read a text. Raises: Stays."""
    given: Mapping[str, object] = test if isinstance(test, Mapping) else {"glob": test}
    raw = given.get("raw", False)
    flags = str(given.get("flags", ""))
    longest = reading.limit + 1 if raw is True else LONGEST * (reading.limit + 1)
    told = _Told(longest, patient)
    ops = [_operator(key, wanted, flags, raw is True, told) for key, wanted in given.items() if key not in BESIDE]
    return {"ops": ops, "raw": raw, "limit": reading.limit, "partial": reading.partial}


class _Told(NamedTuple):
    """How long a text a pattern may have to read, and whether that is told at any cost."""

    longest: int
    patient: bool


def _operator(key: str, wanted: Any, flags: str, raw: bool, told: _Told) -> list[object]:
    if key in _ORDERS:
        return comparison(key, wanted)
    if key == "regex":
        tree, unicode = parse(wanted, flags)
        return ["pattern", _spelt(tree, unicode, judges_up_to(tree, unicode, *told), told.longest)]
    if key == "glob" and ("?" in wanted or "[" in wanted):
        tree = glob_tree(wanted)
        return ["pattern", _spelt(tree, False, sure_length(tree, False, *told), told.longest)]
    form = normal_deep(wanted) if key in _TEXTS and not raw else wanted
    return equal_to(key, form) if key in ("equals", "in") else [key, form]


def _spelt(tree: Node, unicode: bool, sure: int, longest: int) -> object:
    """The spelling of a tree; and where a text may be too costly for Python, up to how many characters none is.

    Raises: Stays.
    """
    try:
        spelt = spelling(tree, unicode)
    except Unspellable as e:
        raise Stays(str(e)) from None
    return spelt if sure >= longest else [spelt, sure]


_MAKERS: Final[dict[str, Callable[[Mapping[str, Any], Frame], _Json]]] = {
    "all": _all,
    "any": _any,
    "not": _not,
    "action": _action,
    "principal": _principal,
    "phase": _phase,
    "arg": _arg,
    "detector": _detector,
    "intent": _intent,
    "effects": _effects,
    "host": _host,
    "path": _path,
    "flow": _flow,
}

# condition -> why a rule with it stays with Python
_STAYS: Final = {
    "count": "it counts events",
    "rate": "it counts events",
}
