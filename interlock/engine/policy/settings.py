"""Settings: what an operator's document says beside its rules, and what no pack or overlay may say.

"limits": {...}, "oversize": {...}       see `limits`
"harmless": "prove"                      calls that are proven harmless are allowed with that proof
"quarantine": [{"rule": ID, "by": NAME, "reason": "one line"}]
    rules that a person has put out of force: they are not evaluated, and reported; a locked rule cannot be
"tools": {NAME: JSON SCHEMA}             the arguments of known tools: a rule that names another one is refused
"overlays": [FILE]                       documents that may only add objections: see `overlay`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Final

from interlock.engine.policy.limits import CEILINGS, OVERSIZE, Limits, Oversize
from interlock.engine.policy.model import Quarantined
from interlock.engine.policy.problems import BadPolicy, known_key, shown

__all__ = ["LIMIT_NAMES", "MAX_OVERLAYS", "MAX_TOOLS", "QUARANTINE_FIELDS", "SETTINGS", "Settings", "parse_settings"]

SETTINGS: Final = ("limits", "oversize", "harmless", "quarantine", "tools", "overlays")
MAX_TOOLS: Final = 2000
MAX_OVERLAYS: Final = 8
LIMIT_NAMES: Final = tuple(field.name for field in fields(Limits))
QUARANTINE_FIELDS: Final = ("rule", "by", "reason")
_LINE: Final = 500


@dataclass(frozen=True, slots=True)
class Settings:
    """What a document says beside its rules; None where it says nothing of a limit or of what is larger."""

    limits: Limits | None = None
    oversize: Oversize | None = None
    prove_harmless: bool = False
    quarantine: tuple[Quarantined, ...] = ()
    tools: Mapping[str, Mapping[str, object]] = field(default_factory=lambda: MappingProxyType({}))
    overlays: tuple[str, ...] = ()


def parse_settings(body: Mapping[str, object], where: str) -> Settings:
    """The settings in a document's body. Raises: BadPolicy."""
    return Settings(
        limits=_limits(body["limits"], f"{where}: limits") if "limits" in body else None,
        oversize=_oversize(body["oversize"], f"{where}: oversize") if "oversize" in body else None,
        prove_harmless=_harmless(body, f"{where}: harmless"),
        quarantine=_quarantine(body.get("quarantine", []), f"{where}: quarantine"),
        tools=_tools(body.get("tools", {}), f"{where}: tools"),
        overlays=_overlays(body.get("overlays", []), f"{where}: overlays"),
    )


def _object(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise BadPolicy("is not an object", where=where)
    return value


def _limits(value: object, where: str) -> Limits:
    given: dict[str, int] = {}
    for name, number in _object(value, where).items():
        known_key(name, LIMIT_NAMES, where, "limit")
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= CEILINGS[name]:
            raise BadPolicy(f"is no whole number from 1 to {CEILINGS[name]}", where=f"{where}.{name}")
        given[name] = number
    return Limits(**given)


def _oversize(value: object, where: str) -> Oversize:
    given: dict[str, str] = {}
    for phase, word in _object(value, where).items():
        known_key(phase, OVERSIZE, where)
        words = OVERSIZE["call" if phase == "call" else "result"]
        if not isinstance(word, str) or word not in words:
            raise BadPolicy(f"is none of {', '.join(words)}", where=f"{where}.{phase}")
        given[phase] = word
    return Oversize(**given)


def _harmless(body: Mapping[str, object], where: str) -> bool:
    if "harmless" in body and body["harmless"] != "prove":
        raise BadPolicy('can be "prove" only', where=where, fix="leave it out to prove nothing")
    return "harmless" in body


def _quarantine(value: object, where: str) -> tuple[Quarantined, ...]:
    if not isinstance(value, list):
        raise BadPolicy("is not a list", where=where, fix='write [{"rule": ID, "by": NAME, "reason": ...}]')
    rows: list[Quarantined] = []
    for i, given in enumerate(value):
        at = f"{where}[{i}]"
        row = _object(given, at)
        for key in row:
            known_key(key, QUARANTINE_FIELDS, at)
        rows.append(Quarantined(*(_line(row, key, at) for key in QUARANTINE_FIELDS)))
    if len({row.rule for row in rows}) != len(rows):
        raise BadPolicy("names one rule twice", where=where)
    return tuple(rows)


def _line(row: Mapping[str, object], key: str, where: str) -> str:
    given = row.get(key)
    if isinstance(given, str) and given.strip() and given.isprintable() and len(given) <= _LINE:
        return given
    raise BadPolicy("is missing" if key not in row else "is not one line", where=f"{where}.{key}")


def _tools(value: object, where: str) -> Mapping[str, Mapping[str, object]]:
    tools = _object(value, where)
    if len(tools) > MAX_TOOLS:
        raise BadPolicy(f"names more than {MAX_TOOLS} tools", where=where)
    for name, schema in tools.items():
        properties = _object(schema, f"{where}: {shown(name)}").get("properties", {})
        _object(properties, f"{where}: {shown(name)}.properties")
    return MappingProxyType({name: _object(schema, where) for name, schema in tools.items()})


def _overlays(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MAX_OVERLAYS or not all(isinstance(v, str) and v for v in value):
        raise BadPolicy(f"is not a list of at most {MAX_OVERLAYS} files", where=where)
    return tuple(value)
