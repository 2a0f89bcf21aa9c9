"""One rule of a document: from plain JSON values to a frozen rule with its condition compiled.

    {"id": "fs.destroy", "phase": "call", "when": CONDITION, "verdict": "block", "reason": "one line",
     "policy_id": ID, "attributed_to": "command", "locked": false, "shadow": false, "description": "...",
     "mask" (or "remove"): {"detector": NAME, "params": {...}},
     "examples": {"fires": [EVENT, ...], "passes": [EVENT, ...]}}
    EVENT = {"action": "Bash", "args": {"command": "ls"}, "phase": "call", "principal": "p", "cwd": "/",
             "origins": [{"source": "tool:fetch", "path": "body"}]}

Needed are id, when, verdict and reason. A verdict is block, escalate, or modify, which needs `mask` or `remove`
(and only it has one): a document changes a call only through a detector that redacts. A shadow rule is evaluated and
recorded and decides nothing.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from interlock.base.canonical import digest
from interlock.engine.collector import freed_slowly
from interlock.engine.decision import Verdict
from interlock.engine.detectors.registry import REGISTRY
from interlock.engine.event import Origin, Phase, SensorEvent, frozen_args
from interlock.engine.payload import FrozenDict, FrozenList
from interlock.engine.policy.argpath import path_steps
from interlock.engine.policy.conditions import COUNTED, Condition, build_detector, compile_condition
from interlock.engine.policy.conditions_call import flow_origin
from interlock.engine.policy.counting import Counter, parse_counter
from interlock.engine.policy.model import RuleFunction
from interlock.engine.policy.problems import BadPolicy, did_you_mean, known_key, shown
from interlock.engine.policy.reach import demand_reach
from interlock.engine.policy.sense import demand_sense
from interlock.engine.policy.setup import PLAIN, Frame, Setup
from interlock.engine.policy.source import demand_plain
from interlock.engine.sources import is_source

__all__ = [
    "EVENT_FIELDS",
    "EXAMPLE_KINDS",
    "MASK_FIELDS",
    "MAX_EXAMPLES",
    "MAX_LINE",
    "MAX_RULES",
    "NAME",
    "RULE_FIELDS",
    "VERDICTS",
    "Examples",
    "Mask",
    "RuleDoc",
    "description_of",
    "name_of",
    "parse_event",
    "parse_rules",
    "rule_docs",
    "semantic_digest",
]

MAX_RULES: Final = 10_000  # rules of a document
MAX_EXAMPLES: Final = 100  # examples of each kind, of one rule
MAX_LINE: Final = 500  # characters of a reason or of any other one-line text

NAME: Final = "[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_NAME: Final = re.compile(NAME)
RULE_FIELDS: Final = (
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
    "remove",
    "examples",
)
_RULE_FIELDS: Final = frozenset(RULE_FIELDS)
EVENT_FIELDS: Final = ("action", "args", "phase", "principal", "cwd", "origins")
MASK_FIELDS: Final = ("detector", "params")
EXAMPLE_KINDS: Final = ("fires", "passes")
VERDICTS: Final = {"block": Verdict.BLOCK, "escalate": Verdict.ESCALATE, "modify": Verdict.MODIFY}
_MAX_ORIGINS: Final = 100


@dataclass(frozen=True, slots=True)
class Mask:
    """The detector through which a rule rewrites; `removes` takes the values away that it finds something in."""

    detector: str
    params: Mapping[str, object]
    function: RuleFunction = field(repr=False, compare=False)
    removes: bool = False

    @property
    def plain(self) -> dict[str, object]:
        """As plain JSON. Only where it is said does it say that it removes: what masks keeps the digest it had."""
        return {"detector": self.detector, "params": self.params, **({"removes": True} if self.removes else {})}


@dataclass(frozen=True, slots=True)
class Examples:
    """Events that must make their rule fire, and events that must not."""

    fires: tuple[SensorEvent, ...] = ()
    passes: tuple[SensorEvent, ...] = ()


_NO_EXAMPLES: Final = Examples()


@dataclass(frozen=True, slots=True)
class RuleDoc:
    """One rule as its document says it, defaults filled in.

    `condition` is its `when`, compiled, without the `counters`, which are asked last. `about` is the argument in which
    `attributed_to` lies (None for any). `origin` gives the first origin that a flow in it is met by: what a decision is
    attributed to where the rule itself does not say, or the event has no such argument.
    """

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
    counters: tuple[Counter, ...] = ()
    about: str | None = None
    origin: Callable[[SensorEvent], Origin | None] | None = field(default=None, repr=False, compare=False)
    setup: Setup = field(default=PLAIN, repr=False, compare=False)


def rule_docs(rules: Sequence[object], where: str) -> tuple[RuleDoc, ...]:
    """Rules from their document form, as JSON gives it; they keep nothing of the caller's. Raises: BadPolicy."""
    demand_plain(list(rules), where)
    return parse_rules(list(copy.deepcopy(rules)), where)


def parse_rules(rules: list[object], where: str, setup: Setup = PLAIN) -> tuple[RuleDoc, ...]:
    """Rules of the caller's own plain values, which are used up: None takes their place. Raises: BadPolicy."""
    if len(rules) > MAX_RULES:
        raise BadPolicy(f"has more than {MAX_RULES} rules", where=where)
    docs: list[RuleDoc] = []
    seen: dict[str, int] = {}
    for number, body in enumerate(rules, start=1):
        if not isinstance(body, dict):
            raise BadPolicy("is not an object", where=f"{where}: rule {number}")
        doc = _rule(body, f"{where}: rule {_rule_name(body, number)}", setup)
        if doc.id in seen:
            raise BadPolicy(f"stands twice (rules {seen[doc.id]} and {number})", where=f"{where}: rule {doc.id}: id")
        seen[doc.id] = number
        docs.append(doc)
        rules[number - 1] = None  # freed here, one by one: all together would hold up every other thread
    freed_slowly(seen)
    return tuple(docs)


def semantic_digest(doc: RuleDoc) -> str:
    """Hex SHA-256 of what a rule does: all of it but its description and its examples."""
    mask = None if doc.mask is None else doc.mask.plain
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


def _rule_name(body: dict[str, object], number: int) -> str:
    given = body.get("id")
    return given if isinstance(given, str) and _NAME.fullmatch(given) else str(number)


def _rule(body: dict[str, object], where: str, setup: Setup) -> RuleDoc:
    for key in body:
        if key not in _RULE_FIELDS:
            known_key(key, RULE_FIELDS, where)
    rule_id = name_of(body, "id", where)
    phase = _phase(body["phase"], f"{where}: phase") if "phase" in body else "call"
    verdict = _verdict(body, where)
    when = body.get("when")
    if not isinstance(when, dict):
        raise BadPolicy("is missing or no object", where=f"{where}: when")
    at = f"{where}: when"
    stateless, counters = _split(when, at)
    condition: Condition = _always
    if stateless or not counters:
        condition = compile_condition(stateless, phase, at, setup)
    demand_sense(when, at)
    demand_reach(when, at)
    path, about = _attributed(body, where) if "attributed_to" in body else (None, None)
    return RuleDoc(
        id=rule_id,
        phase=phase,
        when=_frozen_object(when),
        verdict=verdict,
        reason=_line(body, "reason", where),
        policy_id=name_of(body, "policy_id", where) if "policy_id" in body else rule_id,
        attributed_to=path,
        locked="locked" in body and _flag(body["locked"], f"{where}: locked"),
        shadow="shadow" in body and _flag(body["shadow"], f"{where}: shadow"),
        mask=_mask(body, phase, verdict, setup, where),
        description=description_of(body, where),
        examples=_examples(body["examples"], phase, f"{where}: examples") if "examples" in body else _NO_EXAMPLES,
        condition=condition,
        counters=counters,
        about=about,
        origin=_origin(stateless, phase, setup, at),
        setup=setup,
    )


def _always(event: SensorEvent) -> bool:
    return True


def _split(when: dict[str, object], where: str) -> tuple[dict[str, object], tuple[Counter, ...]]:
    """A `when` without its counters ({} where nothing is left), and they. Raises: BadPolicy."""
    parts = when["all"] if set(when) == {"all"} and isinstance(when["all"], list) else [when]
    counters: list[Counter] = []
    rest: list[object] = []
    for i, part in enumerate(parts):
        kind = next(iter(part)) if isinstance(part, dict) and len(part) == 1 else ""
        if kind in COUNTED:
            at = where if parts[0] is when else f"{where}.all[{i}]"
            counters.append(parse_counter("count" if kind == "count" else "rate", part[kind], f"{at}.{kind}"))
        else:
            rest.append(part)
    if not counters:
        return when, ()
    return ({"all": rest} if rest else {}), tuple(counters)


def _origin(
    when: Mapping[str, object], phase: Phase, setup: Setup, where: str
) -> Callable[[SensorEvent], Origin | None] | None:
    """The first flow at the top of a `when`, as what finds the origin that it is met by."""
    parts = when.get("all", [when])
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and "flow" in part:
            return flow_origin(part["flow"], Frame(phase, setup), where)
    return None


def _attributed(body: dict[str, object], where: str) -> tuple[str, str | None]:
    """The path that a rule says it is about, and the argument in which that lies. Raises: BadPolicy."""
    path = _line(body, "attributed_to", where)
    first = path_steps(path, f"{where}: attributed_to")[0]
    return path, first if isinstance(first, str) else None


def _verdict(body: dict[str, object], where: str) -> Verdict:
    at, given = f"{where}: verdict", body.get("verdict")
    if given == "allow":
        raise BadPolicy(
            "'allow' is no verdict of a rule: what no rule objects to is allowed, and no rule overrules an objection",
            where=at,
            fix="narrow the rule that objects, with 'not'",
        )
    if not isinstance(given, str) or given not in VERDICTS:
        what = "is missing" if given is None else f"unknown verdict {shown(given)}"
        raise BadPolicy(what, where=at, fix=did_you_mean(given, VERDICTS))
    return VERDICTS[given]


def _mask(body: dict[str, object], phase: Phase, verdict: Verdict, setup: Setup, where: str) -> Mask | None:
    if "mask" not in body and "remove" not in body:
        if verdict is Verdict.MODIFY:
            raise BadPolicy(
                "verdict modify needs a 'mask' or a 'remove'",
                where=f"{where}: mask",
                fix='write "mask": {"detector": NAME}',
            )
        return None
    word = "remove" if "remove" in body else "mask"
    at, given = f"{where}: {word}", body[word]
    if word == "remove" and "mask" in body:
        raise BadPolicy("stands beside a 'mask'", where=at, fix="keep one of the two")
    if verdict is not Verdict.MODIFY:
        raise BadPolicy("stands with a verdict that rewrites nothing", where=at, fix='write "verdict": "modify"')
    if not isinstance(given, dict):
        raise BadPolicy("is not an object", where=at, fix='write {"detector": NAME, "params": {...}}')
    for key in given:
        known_key(key, MASK_FIELDS, at)
    name, params = given.get("detector"), given.get("params", {})
    function = build_detector(name, params, phase, f"{at}.detector", setup.limits.finds)
    if not REGISTRY[str(name)].redacts:
        redacting = sorted(n for n, spec in REGISTRY.items() if spec.redacts)
        raise BadPolicy(
            f"detector {name!r} masks nothing", where=f"{at}.detector", fix=f"those that do: {', '.join(redacting)}"
        )
    return Mask(str(name), _frozen_object(params), function, word == "remove")


def _examples(value: object, phase: Phase, where: str) -> Examples:
    if not isinstance(value, dict):
        raise BadPolicy("is not an object", where=where, fix='write {"fires": [...], "passes": [...]}')
    if not value:
        return _NO_EXAMPLES
    for key in value:
        known_key(key, EXAMPLE_KINDS, where)
    kinds: list[tuple[SensorEvent, ...]] = []
    for kind in EXAMPLE_KINDS:
        events = value.get(kind, [])
        if not isinstance(events, list) or len(events) > MAX_EXAMPLES:
            raise BadPolicy(f"is not a list of at most {MAX_EXAMPLES} events", where=f"{where}.{kind}")
        kinds.append(tuple(parse_event(event, phase, f"{where}.{kind}[{i}]") for i, event in enumerate(events)))
    return Examples(*kinds)


def parse_event(value: object, phase: Phase, where: str) -> SensorEvent:
    """An event from its document form; `phase` is what it has where it does not say. Raises: BadPolicy."""
    if not isinstance(value, dict):
        raise BadPolicy("is not an event", where=where, fix='write {"action": "Bash", "args": {"command": "ls"}}')
    for key in value:
        known_key(key, EVENT_FIELDS, where)
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
    return SensorEvent(
        action,
        frozen_args(args),
        phase,
        principal=value.get("principal"),
        cwd=value.get("cwd"),
        origins=_origins(value.get("origins", []), f"{where}.origins"),
    )


def _origins(value: object, where: str) -> tuple[Origin, ...]:
    if not isinstance(value, list) or len(value) > _MAX_ORIGINS:
        raise BadPolicy(f"is not a list of at most {_MAX_ORIGINS} origins", where=where)
    origins: list[Origin] = []
    for row in value:
        source, path = (row.get("source"), row.get("path", "")) if isinstance(row, dict) else (None, None)
        if not isinstance(source, str) or not isinstance(path, str) or not set(row) <= {"source", "path"}:
            source = path = ""
        if not is_source(source):
            raise BadPolicy("is no origin", where=where, fix='write {"source": "tool:NAME", "path": "body"}')
        origins.append(Origin(source, path))
    return tuple(origins)


def _phase(value: object, where: str) -> Phase:
    if value == "call":
        return "call"
    if value == "result":
        return "result"
    raise BadPolicy(f"is not a phase: {shown(value)}", where=where, fix='write "call" or "result"')


def name_of(body: dict[str, object], key: str, where: str) -> str:
    """A field that is a name. Raises: BadPolicy."""
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


def description_of(body: dict[str, object], where: str) -> str:
    """The description of a rule or document, "" where it has none. Raises: BadPolicy."""
    given = body.get("description", "")
    if not isinstance(given, str):
        raise BadPolicy("is not a text", where=f"{where}: description")
    return given


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise BadPolicy("is neither true nor false", where=where)
    return value


def _frozen_object(value: Mapping[str, object]) -> FrozenDict:
    return FrozenDict({key: held if isinstance(held, str) else _frozen(held) for key, held in value.items()})


def _frozen(value: object) -> object:
    """A read-only copy of a plain value, which still is dicts and lists: json writes it as it stands."""
    if isinstance(value, dict):
        return _frozen_object(value)
    if isinstance(value, list):
        return FrozenList([held if isinstance(held, str) else _frozen(held) for held in value])
    return value
