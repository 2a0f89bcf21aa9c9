"""Conditions: the `when` of a rule, from its document form to a function of an event.

    {"all": [...]}  {"any": [...]}  {"not": ...}
    {"action": TEST}  {"principal": TEST}  {"phase": "call"}
    {"arg": PATH, OPERATOR: ..., ...}                      true where any value at the path passes
    {"intent": NAME}  {"intent": {"effect": TEST, ...}}    true where one intent of the command passes
    {"detector": NAME, "params": {...}}                    true where the detector objects to the event

A closed set: nothing here reads an attribute named by a document or evaluates its text. An argument that is missing
makes its condition false, and therefore a `not` of it true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from interlock.engine.analysis.effects import EFFECTS, INTENT_NAMES, Intent
from interlock.engine.analysis.intents import intents
from interlock.engine.decision import Verdict
from interlock.engine.detectors.registry import REGISTRY
from interlock.engine.event import Phase, SensorEvent
from interlock.engine.policy.argpath import compile_path
from interlock.engine.policy.matching import OPERATORS, Test, compile_test
from interlock.engine.policy.model import RuleFunction
from interlock.engine.policy.problems import BadPolicy, did_you_mean, known_key, shown

__all__ = ["INTENT_FIELDS", "KINDS", "Condition", "build_detector", "compile_condition"]

Condition: TypeAlias = Callable[[SensorEvent], bool]

_FIELD_OF: Final[dict[str, Callable[[Intent], object]]] = {
    "name": lambda intent: intent.name,
    "effect": lambda intent: intent.effect,
    "target": lambda intent: intent.target,
    "scope": lambda intent: intent.scope,
    "program": lambda intent: intent.program,
    "reversible": lambda intent: intent.reversible,
}
INTENT_FIELDS: Final = tuple(_FIELD_OF)

# fields of an intent whose values are a closed set: another one could never be met
_WORDS: Final = {"name": INTENT_NAMES, "effect": frozenset(effect for effect, _ in EFFECTS.values())}


def compile_condition(value: object, phase: Phase, where: str) -> Condition:
    """The function of a condition in a rule of a phase. Raises: BadPolicy."""
    if not isinstance(value, Mapping):
        raise BadPolicy("is not a condition", where=where, fix=f"write an object with one of {', '.join(KINDS)}")
    kinds = [key for key in value if key in KINDS]
    if not kinds:
        _no_kind(value, where)
    if len(kinds) > 1:
        raise BadPolicy(
            f"says both {shown(kinds[0])} and {shown(kinds[1])}", where=where, fix='join them with {"all": [...]}'
        )
    kind = kinds[0]
    for key in value:
        known_key(key, (kind, *_BESIDE.get(kind, ())), f"{where}.{kind}", "operator" if kind == "arg" else "field")
    return _MAKERS[kind](value, phase, f"{where}.{kind}")


def build_detector(name: object, params: object, phase: Phase, where: str) -> RuleFunction:
    """A detector's function, for a rule of a phase. Raises: BadPolicy."""
    if not isinstance(name, str) or name not in REGISTRY:
        raise BadPolicy(f"unknown detector {shown(name)}", where=where, fix=did_you_mean(name, REGISTRY))
    spec = REGISTRY[name]
    if phase not in spec.phases:
        raise BadPolicy(
            f"detector {name!r} reads events of phase {spec.phases[0]!r}, this rule those of {phase!r}",
            where=where,
            fix=f'give the rule "phase": "{spec.phases[0]}"',
        )
    if not isinstance(params, Mapping):
        raise BadPolicy("is not an object", where=f"{where}: params")
    for key in params:
        known_key(key, spec.params, f"{where}: params", "parameter")
    try:
        return spec.build(params)
    except ValueError as e:
        raise BadPolicy(str(e), where=f"{where}: params") from None


def _no_kind(value: Mapping[str, object], where: str) -> None:
    """Raises: BadPolicy, always."""
    for key in value:
        if key in OPERATORS:
            raise BadPolicy(f"operator {key!r} stands without an 'arg'", where=where)
        raise BadPolicy(f"unknown condition {shown(key)}", where=where, fix=did_you_mean(key, KINDS))
    raise BadPolicy("is empty", where=where, fix=f"give one of {', '.join(KINDS)}")


def _parts(value: object, phase: Phase, where: str) -> tuple[Condition, ...]:
    if not isinstance(value, list | tuple):
        raise BadPolicy("is not a list of conditions", where=where)
    if not value:
        raise BadPolicy("is empty", where=where, fix="give at least one condition")
    return tuple(compile_condition(part, phase, f"{where}[{i}]") for i, part in enumerate(value))


def _all(value: Mapping[str, object], phase: Phase, where: str) -> Condition:
    parts = _parts(value["all"], phase, where)
    return lambda event: all(part(event) for part in parts)


def _any(value: Mapping[str, object], phase: Phase, where: str) -> Condition:
    parts = _parts(value["any"], phase, where)
    return lambda event: any(part(event) for part in parts)


def _not(value: Mapping[str, object], phase: Phase, where: str) -> Condition:
    part = compile_condition(value["not"], phase, where)
    return lambda event: not part(event)


def _action(value: Mapping[str, object], phase: Phase, where: str) -> Condition:
    test = compile_test(value["action"], where)
    return lambda event: test(event.action)


def _principal(value: Mapping[str, object], phase: Phase, where: str) -> Condition:
    test = compile_test(value["principal"], where)
    return lambda event: event.principal is not None and test(event.principal)


def _phase(value: Mapping[str, object], phase: Phase, where: str) -> Condition:
    wanted = value["phase"]
    if wanted not in ("call", "result"):
        raise BadPolicy(f"is not a phase: {shown(wanted)}", where=where, fix='write "call" or "result"')
    if wanted != phase:
        raise BadPolicy(
            f"a rule of phase {phase!r} never sees a {wanted}", where=where, fix=f'give the rule "phase": "{wanted}"'
        )
    return lambda event: event.phase == wanted


def _arg(value: Mapping[str, object], phase: Phase, where: str) -> Condition:
    path = value["arg"]
    if not isinstance(path, str):
        raise BadPolicy("is not a path", where=where, fix="write it like command or a.b[0].c")
    values = compile_path(path, where)
    test = compile_test({key: wanted for key, wanted in value.items() if key != "arg"}, f"{where} {path}")
    return lambda event: any(test(given) for given in values(event.args))


def _intent(value: Mapping[str, object], phase: Phase, where: str) -> Condition:
    if phase != "call":
        raise BadPolicy("an intent is read from a call, and this rule sees results", where=where)
    wanted = value["intent"]
    if isinstance(wanted, str):
        holds = _intent_named(wanted, where)
    elif isinstance(wanted, Mapping) and wanted:
        holds = _intent_with(wanted, where)
    else:
        raise BadPolicy("is not an intent", where=where, fix='write a name, or {"effect": ..., "scope": ...}')
    return lambda event: any(holds(intent) for intent in intents(event))


def _intent_named(name: str, where: str) -> Callable[[Intent], bool]:
    """A name stands for itself and for all that lies below it: fs.delete also for fs.delete.root."""
    below = name + "."
    if name not in INTENT_NAMES and not any(known.startswith(below) for known in INTENT_NAMES):
        raise BadPolicy(f"unknown intent {shown(name)}", where=where, fix=did_you_mean(name, INTENT_NAMES))
    return lambda intent: intent.name == name or intent.name.startswith(below)


def _intent_with(wanted: Mapping[str, object], where: str) -> Callable[[Intent], bool]:
    tests: list[tuple[Callable[[Intent], object], Test]] = []
    for key, given in wanted.items():
        known_key(key, INTENT_FIELDS, where, "intent field")
        if key in _WORDS:
            _demand_words(given, _WORDS[key], key, f"{where}.{key}")
        tests.append((_FIELD_OF[key], compile_test(given, f"{where}.{key}")))
    return lambda intent: all(test(field(intent)) for field, test in tests)


def _demand_words(test: object, known: frozenset[str], kind: str, where: str) -> None:
    """Raises: BadPolicy, where a test asks for a word outright that is not among the known ones."""
    words: list[object] = []
    if isinstance(test, str) and not any(sign in test for sign in "*?["):
        words.append(test)
    elif isinstance(test, Mapping):
        choices = test.get("in", ())
        words += choices if isinstance(choices, list | tuple) else ()
        words += (test["equals"],) if "equals" in test else ()
    for word in words:
        if not isinstance(word, str) or word not in known:
            raise BadPolicy(f"unknown {kind} {shown(word)}", where=where, fix=did_you_mean(word, known))


def _detector(value: Mapping[str, object], phase: Phase, where: str) -> Condition:
    function = build_detector(value["detector"], value.get("params", {}), phase, where)

    def fires(event: SensorEvent) -> bool:
        decision = function(event)
        return decision is not None and decision.verdict != Verdict.ALLOW

    return fires


_Maker: TypeAlias = Callable[[Mapping[str, object], Phase, str], Condition]

_MAKERS: Final[dict[str, _Maker]] = {
    "all": _all,
    "any": _any,
    "not": _not,
    "action": _action,
    "phase": _phase,
    "principal": _principal,
    "arg": _arg,
    "intent": _intent,
    "detector": _detector,
}

KINDS: Final = tuple(_MAKERS)

# what may stand in a condition beside the key that gives its kind
_BESIDE: Final[dict[str, tuple[str, ...]]] = {"arg": (*OPERATORS, "flags"), "detector": ("params",)}
