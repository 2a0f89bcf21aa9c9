"""A policy document: from the bytes of a JSON or YAML file to frozen rules, or one line that says what is wrong.

    {"format": "interlock-policy", "v": 1, "name": "team", "description": "...", "extends": ["builtin:coding-agent"],
     "rules": [{"id": "fs.destroy", "phase": "call", "when": CONDITION, "verdict": "block", "reason": "one line",
                "policy_id": ID, "attributed_to": "command", "locked": false, "shadow": false, "description": "...",
                "mask": {"detector": NAME, "params": {...}},
                "examples": {"fires": [EVENT, ...], "passes": [EVENT, ...]}}]}
    EVENT = {"action": "Bash", "args": {"command": "ls"}, "phase": "call", "principal": "p", "cwd": "/"}

Needed are format, v, name and rules; of a rule id, when, verdict and reason. Nothing unknown is skipped: a document
with one bad rule is refused whole. A verdict is block, escalate, or modify, which needs `mask` (and only it has one):
a document changes a call only through a detector that redacts. A shadow rule is evaluated and recorded and decides
nothing.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from interlock.base.canonical import digest
from interlock.engine.decision import Verdict
from interlock.engine.detectors.registry import REGISTRY
from interlock.engine.event import Phase, SensorEvent, frozen_args
from interlock.engine.policy.conditions import Condition, build_detector, compile_condition
from interlock.engine.policy.model import RuleFunction
from interlock.engine.policy.problems import BadPolicy, did_you_mean, known_key, shown
from interlock.engine.policy.source import demand_plain, plain_values

__all__ = [
    "FORMAT",
    "MAX_EXAMPLES",
    "MAX_EXTENDS",
    "MAX_LINE",
    "MAX_RULES",
    "VERSION",
    "BadPolicy",
    "Document",
    "Examples",
    "Mask",
    "RuleDoc",
    "parse_document",
    "plain",
    "rule_docs",
    "semantic_digest",
]

FORMAT: Final = "interlock-policy"
VERSION: Final = 1
MAX_RULES: Final = 10_000  # rules of a document
MAX_EXTENDS: Final = 16  # documents that one document extends
MAX_EXAMPLES: Final = 100  # examples of each kind, of one rule
MAX_LINE: Final = 500  # characters of a reason or of any other one-line text

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_DOCUMENT_FIELDS: Final = ("format", "v", "name", "description", "extends", "rules")
_RULE_FIELDS: Final = (
    "id",
    "phase",
    "when",
    "verdict",
    "reason",
    "policy_id",
    "attributed_to",
    "locked",
    "shadow",
    "description",
    "mask",
    "examples",
)
_EVENT_FIELDS: Final = ("action", "args", "phase", "principal", "cwd")
_VERDICTS: Final = {"block": Verdict.BLOCK, "escalate": Verdict.ESCALATE, "modify": Verdict.MODIFY}


@dataclass(frozen=True, slots=True)
class Mask:
    """The detector through which a rule rewrites."""

    detector: str
    params: Mapping[str, object]
    function: RuleFunction = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Examples:
    """Events that must make their rule fire, and events that must not."""

    fires: tuple[SensorEvent, ...] = ()
    passes: tuple[SensorEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleDoc:
    """One rule as its document says it, defaults filled in; `condition` is its `when`, compiled."""

    id: str
    phase: Phase
    when: Mapping[str, object]
    verdict: Verdict
    reason: str
    policy_id: str
    attributed_to: str | None
    locked: bool
    mask: Mask | None
    description: str
    examples: Examples = field(repr=False)
    condition: Condition = field(repr=False, compare=False)
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """A whole policy document; `digest` (hex SHA-256) covers what it does, not its descriptions and examples."""

    name: str
    description: str
    extends: tuple[str, ...]
    rules: tuple[RuleDoc, ...]
    digest: str


def parse_document(data: bytes, *, where: str) -> Document:
    """Read a document's bytes; `where` names the file and, by its ending, the language. Raises: BadPolicy."""
    body = plain_values(data, where=where)
    if not isinstance(body, dict):
        raise BadPolicy("is not an object", where=where, fix=f'begin with "format": "{FORMAT}"')
    _demand_version(body, where)
    for key in body:
        known_key(key, _DOCUMENT_FIELDS, where)
    name = _name(body, "name", where)
    extends = _extends(body.get("extends", []), where)
    if "rules" not in body or not isinstance(body["rules"], list):
        raise BadPolicy("has no list of rules" if "rules" not in body else "is not a list", where=f"{where}: rules")
    rules = _rules(body["rules"], where)
    marks = {"name": name, "extends": extends, "rules": [semantic_digest(rule) for rule in rules]}
    return Document(
        name=name,
        description=_description(body, where),
        extends=extends,
        rules=rules,
        digest=digest("interlock/policy-document/v1", marks).hex(),
    )


def rule_docs(rules: Sequence[object], where: str) -> tuple[RuleDoc, ...]:
    """Rules from their document form, as JSON gives it; they keep nothing of the caller's. Raises: BadPolicy."""
    demand_plain(list(rules), where)
    return _rules(copy.deepcopy(rules), where)


def _rules(rules: Sequence[object], where: str) -> tuple[RuleDoc, ...]:
    if len(rules) > MAX_RULES:
        raise BadPolicy(f"has more than {MAX_RULES} rules", where=where)
    docs: list[RuleDoc] = []
    seen: dict[str, int] = {}
    for number, body in enumerate(rules, start=1):
        if not isinstance(body, dict):
            raise BadPolicy("is not an object", where=f"{where}: rule {number}")
        doc = _rule(body, f"{where}: rule {_rule_name(body, number)}")
        if doc.id in seen:
            raise BadPolicy(f"stands twice (rules {seen[doc.id]} and {number})", where=f"{where}: rule {doc.id}: id")
        seen[doc.id] = number
        docs.append(doc)
    return tuple(docs)


def semantic_digest(doc: RuleDoc) -> str:
    """Hex SHA-256 of what a rule does: all of it but its description and its examples."""
    mask = None if doc.mask is None else {"detector": doc.mask.detector, "params": doc.mask.params}
    marks: dict[str, object] = {
        "id": doc.id,
        "phase": doc.phase,
        "when": doc.when,
        "verdict": doc.verdict.name,
        "reason": doc.reason,
        "policy_id": doc.policy_id,
        "attributed_to": doc.attributed_to,
        "locked": doc.locked,
        "mask": mask,
    }
    if doc.shadow:  # only where it is said: the digest of every other rule stays what it always was
        marks["shadow"] = True
    return digest("interlock/rule/v1", marks).hex()


def _demand_version(body: dict[str, object], where: str) -> None:
    if body.get("format") != FORMAT:
        raise BadPolicy(f'is not a policy (its "format" is not "{FORMAT}")', where=f"{where}: format")
    v = body.get("v")
    if isinstance(v, bool) or not isinstance(v, int) or v < 1:
        raise BadPolicy("is not a version", where=f"{where}: v", fix=f'write "v": {VERSION}')
    if v > VERSION:
        raise BadPolicy(
            f"is newer than this interlock reads (it reads {VERSION})", where=f"{where}: v", fix="upgrade interlock"
        )


def _extends(value: object, where: str) -> tuple[str, ...]:
    at = f"{where}: extends"
    if not isinstance(value, list) or len(value) > MAX_EXTENDS:
        raise BadPolicy(f"is not a list of at most {MAX_EXTENDS} policies", where=at)
    for reference in value:
        if not isinstance(reference, str) or not reference:
            raise BadPolicy("holds what is not the name of a policy", where=at, fix='write it like "builtin:NAME"')
    if len(set(value)) != len(value):
        raise BadPolicy("names one policy twice", where=at)
    return tuple(value)


def _rule_name(body: dict[str, object], number: int) -> str:
    given = body.get("id")
    return given if isinstance(given, str) and _NAME.fullmatch(given) else str(number)


def _rule(body: dict[str, object], where: str) -> RuleDoc:
    for key in body:
        known_key(key, _RULE_FIELDS, where)
    rule_id = _name(body, "id", where)
    phase = _phase(body.get("phase", "call"), f"{where}: phase")
    verdict = _verdict(body, where)
    when = body.get("when")
    if not isinstance(when, dict):
        raise BadPolicy("is missing or no object", where=f"{where}: when")
    return RuleDoc(
        id=rule_id,
        phase=phase,
        when=_frozen_object(when),
        verdict=verdict,
        reason=_line(body, "reason", where),
        policy_id=_name(body, "policy_id", where) if "policy_id" in body else rule_id,
        attributed_to=_line(body, "attributed_to", where) if "attributed_to" in body else None,
        locked=_flag(body.get("locked", False), f"{where}: locked"),
        shadow=_flag(body.get("shadow", False), f"{where}: shadow"),
        mask=_mask(body, phase, verdict, where),
        description=_description(body, where),
        examples=_examples(body.get("examples", {}), phase, f"{where}: examples"),
        condition=compile_condition(when, phase, f"{where}: when"),
    )


def _verdict(body: dict[str, object], where: str) -> Verdict:
    at, given = f"{where}: verdict", body.get("verdict")
    if given == "allow":
        raise BadPolicy(
            "'allow' is no verdict of a rule: what no rule objects to is allowed, and no rule overrules an objection",
            where=at,
            fix="narrow the rule that objects, with 'not'",
        )
    if not isinstance(given, str) or given not in _VERDICTS:
        what = "is missing" if given is None else f"unknown verdict {shown(given)}"
        raise BadPolicy(what, where=at, fix=did_you_mean(given, _VERDICTS))
    return _VERDICTS[given]


def _mask(body: dict[str, object], phase: Phase, verdict: Verdict, where: str) -> Mask | None:
    at, given = f"{where}: mask", body.get("mask")
    if given is None and "mask" not in body:
        if verdict is Verdict.MODIFY:
            raise BadPolicy("verdict modify needs a 'mask'", where=at, fix='write "mask": {"detector": NAME}')
        return None
    if verdict is not Verdict.MODIFY:
        raise BadPolicy("stands with a verdict that rewrites nothing", where=at, fix='write "verdict": "modify"')
    if not isinstance(given, dict):
        raise BadPolicy("is not an object", where=at, fix='write {"detector": NAME, "params": {...}}')
    for key in given:
        known_key(key, ("detector", "params"), at)
    name, params = given.get("detector"), given.get("params", {})
    function = build_detector(name, params, phase, f"{at}.detector")
    if not REGISTRY[str(name)].redacts:
        redacting = sorted(n for n, spec in REGISTRY.items() if spec.redacts)
        raise BadPolicy(
            f"detector {name!r} masks nothing", where=f"{at}.detector", fix=f"those that do: {', '.join(redacting)}"
        )
    return Mask(str(name), _frozen_object(params), function)


def _examples(value: object, phase: Phase, where: str) -> Examples:
    if not isinstance(value, dict):
        raise BadPolicy("is not an object", where=where, fix='write {"fires": [...], "passes": [...]}')
    for key in value:
        known_key(key, ("fires", "passes"), where)
    kinds: list[tuple[SensorEvent, ...]] = []
    for kind in ("fires", "passes"):
        events = value.get(kind, [])
        if not isinstance(events, list) or len(events) > MAX_EXAMPLES:
            raise BadPolicy(f"is not a list of at most {MAX_EXAMPLES} events", where=f"{where}.{kind}")
        kinds.append(tuple(_event(event, phase, f"{where}.{kind}[{i}]") for i, event in enumerate(events)))
    return Examples(*kinds)


def _event(value: object, phase: Phase, where: str) -> SensorEvent:
    if not isinstance(value, dict):
        raise BadPolicy("is not an event", where=where, fix='write {"action": "Bash", "args": {"command": "ls"}}')
    for key in value:
        known_key(key, _EVENT_FIELDS, where)
    action, args = value.get("action"), value.get("args", {})
    if not isinstance(action, str) or not action:
        raise BadPolicy("is missing or no text", where=f"{where}.action")
    if not isinstance(args, dict):
        raise BadPolicy("is not an object", where=f"{where}.args")
    for key in ("principal", "cwd"):
        if not isinstance(value.get(key, ""), str):
            raise BadPolicy("is not a text", where=f"{where}.{key}")
    if _phase(value.get("phase", phase), f"{where}.phase") != phase:
        raise BadPolicy(f"is of a phase that a rule of phase {phase!r} never sees", where=where)
    return SensorEvent(action, frozen_args(args), phase, principal=value.get("principal"), cwd=value.get("cwd"))


def _phase(value: object, where: str) -> Phase:
    if value == "call":
        return "call"
    if value == "result":
        return "result"
    raise BadPolicy(f"is not a phase: {shown(value)}", where=where, fix='write "call" or "result"')


def _name(body: dict[str, object], key: str, where: str) -> str:
    given = body.get(key)
    if isinstance(given, str) and _NAME.fullmatch(given):
        return given
    what = "is missing" if key not in body else "is not a name"
    raise BadPolicy(
        what, where=f"{where}: {key}", fix="a name has 1 to 100 letters, digits and . _ -, the first a letter or digit"
    )


def _line(body: dict[str, object], key: str, where: str) -> str:
    given = body.get(key)
    if isinstance(given, str) and given.strip() and given.isprintable() and len(given) <= MAX_LINE:
        return given
    what = "is missing" if key not in body else f"is not one line of 1 to {MAX_LINE} characters"
    raise BadPolicy(what, where=f"{where}: {key}")


def _description(body: dict[str, object], where: str) -> str:
    given = body.get("description", "")
    if not isinstance(given, str):
        raise BadPolicy("is not a text", where=f"{where}: description")
    return given


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise BadPolicy("is neither true nor false", where=where)
    return value


def _frozen_object(value: Mapping[str, object]) -> Mapping[str, object]:
    return MappingProxyType({key: _frozen(held) for key, held in value.items()})


def _frozen(value: object) -> object:
    if isinstance(value, Mapping):
        return _frozen_object(value)
    if isinstance(value, list | tuple):
        return tuple(_frozen(held) for held in value)
    return value


def plain(value: object) -> Any:
    """A frozen part of a document as the JSON value that it was read from: dicts and lists of the caller's own."""
    if isinstance(value, Mapping):
        return {key: plain(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [plain(held) for held in value]
    return value
