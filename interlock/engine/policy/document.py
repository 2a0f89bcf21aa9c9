"""A policy document: from the bytes of a JSON or YAML file to frozen rules, or one line that says what is wrong.

    {"format": "interlock-policy", "v": 1, "name": "team", "description": "...", "extends": ["builtin:coding-agent"],
     "rules": [RULE, ...], SETTING: ...}

Needed are format, v, name and rules; a RULE is described in `rule_document`, a SETTING in `settings`. Nothing unknown
is skipped: a document with one bad rule is refused whole, and so is one with a rule that could never fire or that an
earlier one makes idle (`sense`), or that names an argument which no known tool has (`tools`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from interlock.base.canonical import long_digest
from interlock.engine.collector import freed_slowly
from interlock.engine.policy.limits import Limits, Oversize
from interlock.engine.policy.problems import BadPolicy, known_key
from interlock.engine.policy.rule_document import (
    Examples,
    Mask,
    RuleDoc,
    description_of,
    name_of,
    parse_rules,
    rule_docs,
    semantic_digest,
)
from interlock.engine.policy.sense import idle_rules, literals_of
from interlock.engine.policy.settings import SETTINGS, Settings, parse_settings
from interlock.engine.policy.setup import Setup
from interlock.engine.policy.source import plain_values
from interlock.engine.policy.tools import demand_known_arguments

__all__ = [
    "DOCUMENT_FIELDS",
    "FORMAT",
    "MAX_EXTENDS",
    "VERSION",
    "BadPolicy",
    "Document",
    "Examples",
    "Mask",
    "Opened",
    "RuleDoc",
    "finish_document",
    "open_document",
    "parse_document",
    "rule_docs",
    "semantic_digest",
    "settings_marks",
]

FORMAT: Final = "interlock-policy"
VERSION: Final = 1
MAX_EXTENDS: Final = 16  # documents that one document extends
DOCUMENT_FIELDS: Final = ("format", "v", "name", "description", "extends", "rules", *SETTINGS)


@dataclass(frozen=True, slots=True)
class Document:
    """A whole policy document; `digest` (hex SHA-256) covers what it does, not its descriptions and examples."""

    name: str
    description: str
    extends: tuple[str, ...]
    rules: tuple[RuleDoc, ...]
    digest: str
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True, slots=True)
class Opened:
    """A document whose frame is read and whose rules are not yet: what it extends may say how they are to be read."""

    where: str
    name: str
    extends: tuple[str, ...]
    settings: Settings
    body: dict[str, object] = field(repr=False)


def parse_document(data: bytes, *, where: str) -> Document:
    """Read a document's bytes; `where` names the file and, by its ending, the language. Raises: BadPolicy."""
    opened = open_document(data, where=where)
    settings = opened.settings
    return finish_document(opened, Setup(settings.limits or Limits(), settings.oversize or Oversize()))


def open_document(data: bytes, *, where: str) -> Opened:
    """Read all of a document but its rules. Raises: BadPolicy."""
    body = plain_values(data, where=where)
    if not isinstance(body, dict):
        raise BadPolicy("is not an object", where=where, fix=f'begin with "format": "{FORMAT}"')
    _demand_version(body, where)
    for key in body:
        known_key(key, DOCUMENT_FIELDS, where)
    name = name_of(body, "name", where)
    extends = _extends(body.get("extends", []), where)
    settings = parse_settings(body, where)
    if "rules" not in body or not isinstance(body["rules"], list):
        raise BadPolicy("has no list of rules" if "rules" not in body else "is not a list", where=f"{where}: rules")
    return Opened(where, name, extends, settings, body)


def finish_document(opened: Opened, setup: Setup) -> Document:
    """Read the rules of a document as a setup says. Raises: BadPolicy."""
    where, settings, given = opened.where, opened.settings, opened.body["rules"]
    assert isinstance(given, list), "an opened document has a list of rules"
    rules = parse_rules(given, where, setup)
    _demand_live(rules, {row.rule for row in settings.quarantine}, where)
    for rule in rules:
        demand_known_arguments(rule.when, rule.attributed_to, rule.phase, settings.tools, f"{where}: rule {rule.id}")
    digests = [semantic_digest(rule) for rule in rules]
    marks: dict[str, object] = {"name": opened.name, "extends": opened.extends, "rules": digests}
    document = Document(
        name=opened.name,
        description=description_of(opened.body, where),
        extends=opened.extends,
        rules=rules,
        digest=long_digest("interlock/policy-document/v1", marks | settings_marks(settings)).hex(),
        settings=settings,
    )
    freed_slowly(digests)
    return document


def settings_marks(settings: Settings) -> dict[str, object]:
    """What the settings mean, for a digest; nothing for a document that says none. Known tools decide nothing."""
    marks: dict[str, object] = {
        "limits": None if settings.limits is None else asdict(settings.limits),
        "oversize": None if settings.oversize is None else asdict(settings.oversize),
        "harmless": settings.prove_harmless,
        "quarantine": sorted(row.rule for row in settings.quarantine),
        "overlays": list(settings.overlays),
    }
    return {key: mark for key, mark in marks.items() if mark}


def _demand_live(rules: tuple[RuleDoc, ...], out_of_force: set[str], where: str) -> None:
    """Raises: BadPolicy, where an earlier rule that is in force makes a later one idle."""
    found = idle_rules(
        literals_of(rule.id, rule.when, rule.verdict, _mask_mark(rule), f"{rule.phase} {rule.shadow}")
        for rule in rules
        if rule.id not in out_of_force
    )
    for idle, earlier in found:
        raise BadPolicy(
            f"never decides anything: rule {earlier.id} before it fires on all that it fires on",
            where=f"{where}: rule {idle.id}: when",
            fix="leave it out, or put the narrower rule first if its verdict is the stricter one",
        )


def _mask_mark(rule: RuleDoc) -> Mapping[str, object] | None:
    return None if rule.mask is None else rule.mask.plain


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
