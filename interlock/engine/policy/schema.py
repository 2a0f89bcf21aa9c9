"""The JSON Schema of a policy document, for editors: made from the tables that the parser reads by.

What the schema refuses, the parser refuses too. The parser refuses more: what no schema can say (a pattern's syntax, a
detector's parameters, a rule that could never fire).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from interlock.engine.analysis.effects import INTENT_NAMES
from interlock.engine.detectors.registry import REGISTRY
from interlock.engine.event import PHASES
from interlock.engine.policy.conditions import KINDS
from interlock.engine.policy.conditions_call import (
    ACCESSES,
    EFFECT_FIELDS,
    FLOW_FIELDS,
    HOST_CLASSES,
    INTENT_FIELDS,
    PATH_FIELDS,
)
from interlock.engine.policy.counting import COUNT_FIELDS, MAX_ABOVE, MAX_SECONDS, PER
from interlock.engine.policy.document import DOCUMENT_FIELDS, FORMAT, MAX_EXTENDS, VERSION
from interlock.engine.policy.limits import CEILINGS, MEASURES, OVERSIZE
from interlock.engine.policy.matching import BESIDE, MAX_CHOICES, OPERATORS
from interlock.engine.policy.rule_document import (
    EVENT_FIELDS,
    EXAMPLE_KINDS,
    MASK_FIELDS,
    MAX_EXAMPLES,
    MAX_LINE,
    MAX_RULES,
    NAME,
    RULE_FIELDS,
    VERDICTS,
)
from interlock.engine.policy.settings import LIMIT_NAMES, MAX_OVERLAYS, QUARANTINE_FIELDS

__all__ = ["document_schema"]

_Schema = dict[str, Any]
_TEXT: Final[_Schema] = {"type": "string"}
_LINE: Final[_Schema] = {
    "type": "string",
    "maxLength": MAX_LINE,
    "pattern": "^[^\\u0000-\\u001f\\u007f]*[^\\s][^\\u0000-\\u001f\\u007f]*$",
}
_NAME: Final[_Schema] = {"type": "string", "pattern": f"^{NAME}$"}
_FLAG: Final[_Schema] = {"type": "boolean"}
_DIRECTORY: Final[_Schema] = {"type": "string", "pattern": "^(?:/|~(?:/|$)|[.](?:/|$))"}
_FLAGS: Final = {"flags": ["regex"]}  # dependentRequired
_JSON_TYPES: Final[Mapping[type, str]] = {
    bool: "boolean",
    dict: "object",
    float: "number",
    int: "integer",
    list: "array",
    str: "string",
}
_OPERATORS: Final[Mapping[str, _Schema]] = {
    "equals": {},
    "in": {"type": "array", "minItems": 1, "maxItems": MAX_CHOICES},
    **{key: {"type": "string", "minLength": 1} for key in ("glob", "prefix", "suffix", "contains", "regex")},
    **{key: {"type": "number"} for key in ("lt", "le", "gt", "ge")},
    "flags": {"type": "string", "pattern": "^[isu]*$"},
    "raw": _FLAG,
}


def document_schema() -> _Schema:
    """The schema, as a JSON value (draft 2020-12)."""
    fields: Mapping[str, _Schema] = {
        "format": {"const": FORMAT},
        "v": {"type": "integer", "minimum": 1, "maximum": VERSION},
        "name": _NAME,
        "description": _TEXT,
        "extends": {"type": "array", "maxItems": MAX_EXTENDS, "uniqueItems": True, "items": _line()},
        "rules": {"type": "array", "maxItems": MAX_RULES, "items": {"$ref": "#/$defs/rule"}},
        **_settings(),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "interlock policy",
        **_object(_taken(DOCUMENT_FIELDS, fields), "format", "v", "name", "rules"),
        "$defs": {
            "rule": _rule(),
            "event": _event(),
            "test": _text_test(),
            "truth": _truth_test(),
            "condition": {"oneOf": [_conditions()[kind] for kind in KINDS]},
            "directories": {"anyOf": [_DIRECTORY, {"type": "array", "minItems": 1, "items": _DIRECTORY}]},
        },
    }


def _settings() -> dict[str, _Schema]:
    limits = {
        name: {"type": "integer", "minimum": 1, "maximum": CEILINGS[name], "description": MEASURES[name]}
        for name in LIMIT_NAMES
    }
    return {
        "limits": _object(limits),
        "oversize": _object({phase: {"enum": list(words)} for phase, words in OVERSIZE.items()}),
        "harmless": {"const": "prove"},
        "quarantine": {
            "type": "array",
            "items": _object(dict.fromkeys(QUARANTINE_FIELDS, _LINE), *QUARANTINE_FIELDS),
        },
        "tools": {
            "type": "object",
            "additionalProperties": {"type": "object", "properties": {"properties": {"type": "object"}}},
        },
        "overlays": {"type": "array", "maxItems": MAX_OVERLAYS, "items": _line()},
    }


def _rule() -> _Schema:
    events = {"type": "array", "maxItems": MAX_EXAMPLES, "items": {"$ref": "#/$defs/event"}}
    masks = [_detector(name) for name, spec in sorted(REGISTRY.items()) if spec.redacts]
    fields: Mapping[str, _Schema] = {
        "id": _NAME,
        "phase": {"enum": list(PHASES)},
        "when": {"$ref": "#/$defs/condition"},
        "verdict": {"enum": list(VERDICTS)},
        "reason": _LINE,
        "policy_id": _NAME,
        "attributed_to": _LINE,
        "locked": _FLAG,
        "shadow": _FLAG,
        "description": _TEXT,
        "mask": {"anyOf": masks},
        "remove": {"anyOf": masks},
        "examples": _object(dict.fromkeys(EXAMPLE_KINDS, events)),
    }
    made = _object(_taken(RULE_FIELDS, fields), "id", "when", "verdict", "reason")
    modifies = {"properties": {"verdict": {"const": "modify"}}, "required": ["verdict"]}
    rewrites = [{"required": [field]} for field in ("mask", "remove")]
    return {**made, "if": modifies, "then": {"oneOf": rewrites}, "else": {"not": {"anyOf": rewrites}}}


def _detector(name: str) -> _Schema:
    """A detector by its name, with its own parameters."""
    params = _object({key: _of_type(types) for key, types in REGISTRY[name].params.items()})
    return _object(_taken(MASK_FIELDS, {"detector": {"const": name}, "params": params}), "detector")


def _of_type(types: type | tuple[type, ...]) -> _Schema:
    """The JSON values that pass for a parameter's Python types."""
    given = types if isinstance(types, tuple) else (types,)
    return {"type": sorted({word for one, word in _JSON_TYPES.items() if one in given})}


def _event() -> _Schema:
    origin = _object({"source": _TEXT, "path": _TEXT}, "source")
    fields: Mapping[str, _Schema] = {
        "action": _line(),
        "args": _anything(),
        "phase": {"enum": list(PHASES)},
        "principal": _TEXT,
        "cwd": _TEXT,
        "origins": {"type": "array", "items": origin},
    }
    return _object(_taken(EVENT_FIELDS, fields), "action")


def _text_test() -> _Schema:
    """A test of what is always a text: the operators of texts, and texts to be equal to."""
    operators = _text_operators()
    asked = [{"required": [key]} for key in operators if key not in BESIDE]
    return {"anyOf": [_line(), {**_object(operators), "anyOf": asked, "dependentRequired": _FLAGS}]}


def _text_operators() -> dict[str, _Schema]:
    words = {"type": "array", "minItems": 1, "maxItems": MAX_CHOICES, "items": _TEXT}
    operators = {key: _OPERATORS[key] for key in (*OPERATORS, *BESIDE) if key not in ("lt", "le", "gt", "ge")}
    return {**operators, "equals": _TEXT, "in": words}


def _truth_test() -> _Schema:
    """A test of what is true or false."""
    words = {"type": "array", "minItems": 1, "items": _FLAG}
    return {"anyOf": [_FLAG, {**_object({"equals": _FLAG, "in": words, "raw": _FLAG}), "minProperties": 1}]}


def _conditions() -> dict[str, _Schema]:
    """The schema of each kind of condition."""
    part, test = {"$ref": "#/$defs/condition"}, {"$ref": "#/$defs/test"}
    parts = {"type": "array", "minItems": 1, "items": part}
    operators = _taken((*OPERATORS, *BESIDE), _OPERATORS)
    argument = _object({"arg": _line(), **operators}, "arg")
    return {
        "all": _object({"all": parts}, "all"),
        "any": _object({"any": parts}, "any"),
        "not": _object({"not": part}, "not"),
        "action": _object({"action": test}, "action"),
        "phase": _object({"phase": {"enum": list(PHASES)}}, "phase"),
        "principal": _object({"principal": test}, "principal"),
        "arg": {**argument, "anyOf": [{"required": [key]} for key in OPERATORS], "dependentRequired": _FLAGS},
        "detector": {"anyOf": [_detector(name) for name in sorted(REGISTRY)]},
        "intent": _object({"intent": {"anyOf": [_intent_names(), _tests(INTENT_FIELDS)]}}, "intent"),
        "effects": _object({"effects": _tests(EFFECT_FIELDS)}, "effects"),
        "host": _object({"host": _host(_text_operators())}, "host"),
        "path": _object({"path": _path(_text_operators())}, "path"),
        "flow": _object({"flow": _object(_taken(FLOW_FIELDS, {"source": test, "sink": _line()}), "source")}, "flow"),
        "count": _object({"count": _counter("count")}, "count"),
        "rate": _object({"rate": _counter("rate")}, "rate"),
    }


def _intent_names() -> _Schema:
    above = {name.rsplit(".", cut)[0] for name in INTENT_NAMES for cut in range(name.count(".") + 1)}
    return {"enum": sorted(above)}


def _tests(fields: tuple[str, ...]) -> _Schema:
    truths = ("reversible", "undoable")
    made = {key: {"$ref": f"#/$defs/{'truth' if key in truths else 'test'}"} for key in fields}
    return {**_object(made), "minProperties": 1}


def _host(operators: Mapping[str, _Schema]) -> _Schema:
    names = {"enum": list(HOST_CLASSES)}
    classes = {"anyOf": [names, {"type": "array", "minItems": 1, "items": names}]}
    made = {**_object({"class": classes, **operators}), "minProperties": 1, "dependentRequired": _FLAGS}
    return {"anyOf": [_line(), made]}


def _path(operators: Mapping[str, _Schema]) -> _Schema:
    names = {"enum": list(ACCESSES)}
    fields: Mapping[str, _Schema] = {
        "access": {"anyOf": [names, {"type": "array", "minItems": 1, "items": names}]},
        "under": {"$ref": "#/$defs/directories"},
        "symlinks": _FLAG,
    }
    return {"anyOf": [_line(), {**_object({**_taken(PATH_FIELDS, fields), **operators}), "dependentRequired": _FLAGS}]}


def _counter(kind: str) -> _Schema:
    fields: Mapping[str, _Schema] = {
        "above": {"type": "integer", "minimum": 0, "maximum": MAX_ABOVE[kind]},
        "seconds": {"type": "integer", "minimum": 1, "maximum": MAX_SECONDS},
        "per": {"enum": list(PER)},
    }
    return _object(_taken(COUNT_FIELDS[kind], fields), *(key for key in COUNT_FIELDS[kind] if key != "per"))


def _taken(names: tuple[str, ...], known: Mapping[str, _Schema]) -> dict[str, _Schema]:
    """The schemas of the fields that the parser knows: one that it knows and this module does not is a KeyError."""
    return {name: known[name] for name in names}


def _object(properties: Mapping[str, _Schema], *required: str) -> _Schema:
    made: _Schema = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return {**made, "required": list(required)} if required else made


def _line() -> _Schema:
    return {"type": "string", "minLength": 1}


def _anything() -> _Schema:
    return {"type": "object"}
