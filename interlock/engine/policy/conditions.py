"""Conditions: the `when` of a rule, from its document form to a function of an event.

    {"all": [...]}  {"any": [...]}  {"not": ...}
    {"action": TEST}  {"principal": TEST}  {"phase": "call"}
    {"arg": PATH, OPERATOR: ..., ...}                      true where any value at the path passes
    {"intent": NAME}  {"intent": {"effect": TEST, ...}}    true where one intent of the command passes
    {"effects": {...}}  {"flow": {...}}  {"host": ...}  {"path": ...}      what the call does: see `conditions_call`
    {"detector": NAME, "params": {...}}                    true where the detector objects to the event
    {"count": {...}}  {"rate": {...}}                      how often: see `counting`; only at the top of a `when`

A closed set: nothing here reads an attribute named by a document or evaluates its text. An argument that is missing
makes its condition false, and therefore a `not` of it true. An action given outright also stands for the names that
other frameworks have for the same tool: see `names`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from interlock.engine.decision import Verdict
from interlock.engine.detectors.registry import REGISTRY
from interlock.engine.event import Phase, SensorEvent
from interlock.engine.policy.argpath import compile_path, path_steps
from interlock.engine.policy.conditions_call import CALL_KINDS
from interlock.engine.policy.matching import BESIDE, OPERATORS, compile_test
from interlock.engine.policy.model import RuleFunction
from interlock.engine.policy.names import widened
from interlock.engine.policy.problems import BadPolicy, did_you_mean, known_key, one_holds, shown
from interlock.engine.policy.setup import PLAIN, Frame, Setup

__all__ = ["COUNTED", "KINDS", "RESERVED", "Condition", "build_detector", "compile_condition", "parts_of"]

Condition: TypeAlias = Callable[[SensorEvent], bool]

COUNTED: Final = ("count", "rate")
RESERVED: Final = ("sql", "a2a")  # words of conditions whose analysers are not there yet


def compile_condition(value: object, phase: Phase, where: str, setup: Setup = PLAIN) -> Condition:
    """The function of a condition in a rule of a phase. Raises: BadPolicy."""
    return _compiled(value, Frame(phase, setup), where)


def parts_of(when: object) -> Iterator[Mapping[str, object]]:
    """A condition in its document form, and all that it is joined of."""
    if isinstance(when, Mapping):
        yield when
        for kind in ("all", "any", "not"):
            yield from parts_of(when.get(kind))
    elif isinstance(when, list | tuple):
        for part in when:
            yield from parts_of(part)


def build_detector(name: object, params: object, phase: Phase, where: str, finds: int = 0) -> RuleFunction:
    """A detector's function, for a rule of a phase; `finds` are those of a text that it masks one by one, and with none
    of them the first one ends the reading. Raises: BadPolicy.
    """
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
        return spec.build({**params, "finds": finds} if spec.redacts else params)
    except ValueError as e:
        raise BadPolicy(str(e), where=f"{where}: params") from None


def _compiled(value: object, frame: Frame, where: str) -> Condition:
    if not isinstance(value, dict):
        raise BadPolicy("is not a condition", where=where, fix=f"write an object with one of {', '.join(KINDS)}")
    kinds = [key for key in value if key in _MAKERS]
    if not kinds:
        _no_kind(value, where)
    if len(kinds) > 1:
        raise BadPolicy(
            f"says both {shown(kinds[0])} and {shown(kinds[1])}", where=where, fix='join them with {"all": [...]}'
        )
    kind = kinds[0]
    if len(value) > 1:
        for key in value:
            known_key(key, (kind, *_BESIDE.get(kind, ())), f"{where}.{kind}", "operator" if kind == "arg" else "field")
    return _MAKERS[kind](value, frame, f"{where}.{kind}")


def _no_kind(value: Mapping[str, object], where: str) -> None:
    """Raises: BadPolicy, always."""
    for key in value:
        if key in RESERVED:
            raise BadPolicy(
                f"condition {key!r} is reserved: this interlock has no analyser for it yet",
                where=where,
                fix="leave the rule out; without the analyser it could never fire",
            )
        if key in COUNTED:
            raise BadPolicy(
                f"{key!r} stands within another condition",
                where=where,
                fix='write it as a part of the "all" that is the rule\'s own "when"',
            )
        if key in OPERATORS:
            raise BadPolicy(f"operator {key!r} stands without an 'arg'", where=where)
        raise BadPolicy(f"unknown condition {shown(key)}", where=where, fix=did_you_mean(key, KINDS))
    raise BadPolicy("is empty", where=where, fix=f"give one of {', '.join(KINDS)}")


def _parts(value: object, frame: Frame, where: str) -> tuple[Condition, ...]:
    if not isinstance(value, list | tuple):
        raise BadPolicy("is not a list of conditions", where=where)
    if not value:
        raise BadPolicy("is empty", where=where, fix="give at least one condition")
    return tuple(_compiled(part, frame, f"{where}[{i}]") for i, part in enumerate(value))


def _all(value: Mapping[str, object], frame: Frame, where: str) -> Condition:
    parts = _parts(value["all"], frame, where)
    return lambda event: all(part(event) for part in parts)


def _any(value: Mapping[str, object], frame: Frame, where: str) -> Condition:
    parts = _parts(value["any"], frame, where)
    return lambda event: one_holds((part, event) for part in parts)


def _not(value: Mapping[str, object], frame: Frame, where: str) -> Condition:
    part = _compiled(value["not"], frame, where)
    return lambda event: not part(event)


def _action(value: Mapping[str, object], frame: Frame, where: str) -> Condition:
    test = compile_test(widened(value["action"]), where)
    return lambda event: test(event.action)


def _principal(value: Mapping[str, object], frame: Frame, where: str) -> Condition:
    test = compile_test(value["principal"], where)
    return lambda event: event.principal is not None and test(event.principal)


def _phase(value: Mapping[str, object], frame: Frame, where: str) -> Condition:
    wanted = value["phase"]
    if wanted not in ("call", "result"):
        raise BadPolicy(f"is not a phase: {shown(wanted)}", where=where, fix='write "call" or "result"')
    if wanted != frame.phase:
        raise BadPolicy(
            f"a rule of phase {frame.phase!r} never sees a {wanted}",
            where=where,
            fix=f'give the rule "phase": "{wanted}"',
        )
    return lambda event: event.phase == wanted


def _arg(value: Mapping[str, object], frame: Frame, where: str) -> Condition:
    path = value["arg"]
    if not isinstance(path, str):
        raise BadPolicy("is not a path", where=where, fix="write it like command or a.b[0].c")
    values = compile_path(path, where, frame.setup.limits.values)
    reading = frame.reading(str(path_steps(path, where)[0]))
    test = compile_test({key: wanted for key, wanted in value.items() if key != "arg"}, f"{where} {path}", reading)
    return lambda event: one_holds((test, given) for given in values(event.args))


def _detector(value: Mapping[str, object], frame: Frame, where: str) -> Condition:
    function = build_detector(value["detector"], value.get("params", {}), frame.phase, where)

    def fires(event: SensorEvent) -> bool:
        decision = function(event)
        return decision is not None and decision.verdict != Verdict.ALLOW

    return fires


_Maker: TypeAlias = Callable[[Mapping[str, object], Frame, str], Condition]

_MAKERS: Final[dict[str, _Maker]] = {
    "all": _all,
    "any": _any,
    "not": _not,
    "action": _action,
    "phase": _phase,
    "principal": _principal,
    "arg": _arg,
    "detector": _detector,
    **CALL_KINDS,
}

KINDS: Final = (*_MAKERS, *COUNTED)

# what may stand in a condition beside the key that gives its kind
_BESIDE: Final[dict[str, tuple[str, ...]]] = {"arg": (*OPERATORS, *BESIDE), "detector": ("params",)}
