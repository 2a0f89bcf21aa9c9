"""Pack: a set of rules that one deployment shares with others; one canonical JSON file.

    {"format": "interlock-pack", "v": 1, "name": "coding-agent", "version": 3, "kind": "policy" | "indicator",
     "licence": "Apache-2.0", "authors": ["..."], "description": "...", "rules": [RULE, ...]}

A RULE is a rule of the policy language with its examples. The bytes are the RFC 8785 encoding of the value and
nothing else, so a pack has one spelling and one digest, the SHA-256 of its bytes. A pack stands alone: it extends
nothing. An indicator pack's name starts with `indicator-`, and no other pack's does: its signing key is another.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from interlock.base import canonical
from interlock.base.canonical import NotCanonical
from interlock.base.errors import InterlockError, one_line
from interlock.engine.policy.document import BadPolicy, RuleDoc, rule_docs
from interlock.engine.policy.overlay import demand_masks

__all__ = [
    "LICENCES",
    "MAX_PACK",
    "BadPack",
    "Kind",
    "Pack",
    "build_pack",
    "known_name",
    "pack_from_policy",
    "parse_pack",
    "sha256_hex",
]

FORMAT: Final = "interlock-pack"
VERSION: Final = 1
MAX_PACK: Final = 1 << 20  # bytes
MAX_VERSION: Final = 2**31 - 1
MAX_RULES: Final = 2000
# What a pack may be shared under: no licence that binds whoever only evaluates its rules.
LICENCES: Final = frozenset(
    {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CDLA-Permissive-2.0", "ISC", "MIT"}
)
INDICATOR_PREFIX: Final = "indicator-"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
_FIELDS: Final = frozenset({"format", "v", "name", "version", "kind", "licence", "authors", "description", "rules"})

Kind = Literal["policy", "indicator"]


class BadPack(InterlockError):
    """A pack that cannot be used."""

    code = "bad-pack"


@dataclass(frozen=True)
class Pack:
    """A parsed pack; `digest` is the hex SHA-256 of `data`, its bytes."""

    name: str
    version: int
    kind: Kind
    licence: str
    authors: tuple[str, ...]
    description: str
    rules: tuple[RuleDoc, ...] = field(repr=False)
    data: bytes = field(repr=False)

    @property
    def digest(self) -> str:
        return sha256_hex(self.data)


def sha256_hex(data: bytes) -> str:
    """The hex SHA-256 by which packs, proofs and roots are named."""
    return hashlib.sha256(data).hexdigest()


def known_name(name: str) -> str:
    """The name itself, if a pack can have it. Raises: BadPack."""
    if not _NAME.fullmatch(name):
        raise BadPack("name is not of a-z, 0-9 and '-', 1 to 63 long", where=one_line(name, 80))
    return name


def build_pack(
    name: str,
    version: int,
    rules: Sequence[object],
    *,
    licence: str,
    authors: Sequence[str],
    kind: Kind = "policy",
    description: str = "",
) -> Pack:
    """A pack from its parts; `rules` are rules as JSON values. Raises: BadPack."""
    body = {
        "format": FORMAT,
        "v": VERSION,
        "name": name,
        "version": version,
        "kind": kind,
        "licence": licence,
        "authors": list(authors),
        "description": description,
        "rules": list(rules),
    }
    return parse_pack(canonical.encode(body), where=f"pack {name}")


def pack_from_policy(data: bytes, *, version: int, licence: str, authors: Sequence[str], where: str) -> Pack:
    """A pack from a policy document's JSON bytes, under the document's own name.

    Raises: BadPack; also where the document extends another, since a pack stands alone.
    """
    body = _object(data, where)
    if body.get("extends"):
        raise BadPack("extends another policy", where=where, fix="write the rules out: a pack stands alone")
    rules = body.get("rules")
    if not isinstance(rules, list):
        raise BadPack("has no list of rules", where=where)
    name, description = body.get("name"), body.get("description", "")
    return build_pack(
        _text(name, "name", where, 63),
        version,
        rules,
        licence=licence,
        authors=authors,
        description=_text(description, "description", where, 2000),
    )


def parse_pack(data: bytes, *, where: str) -> Pack:
    """Read a pack strictly: size, spelling, fields, then each rule.

    Raises: BadPack, in one line.
    """
    body = _object(data, where)
    if body.get("format") != FORMAT:
        raise BadPack(f"is not a file of format {FORMAT}", where=where)
    if body.get("v") != VERSION:
        raise BadPack(f"has a version other than {VERSION}", where=where, fix="upgrade interlock")
    _demand_fields(body, where)
    _demand_one_spelling(body, data, where)
    kind = body["kind"]
    if kind != "policy" and kind != "indicator":
        raise BadPack("kind is neither policy nor indicator", where=where)
    licence = _text(body["licence"], "licence", where, 63)
    if licence not in LICENCES:
        raise BadPack("licence is not one to share under", where=where, fix=f"use {', '.join(sorted(LICENCES))}")
    return Pack(
        name=_name(body["name"], kind, where),
        version=_version(body["version"], where),
        kind=kind,
        licence=licence,
        authors=_authors(body["authors"], where),
        description=_text(body["description"], "description", where, 2000),
        rules=_rules(body["rules"], where),
        data=data,
    )


def _object(data: bytes, where: str) -> dict[str, object]:
    if len(data) > MAX_PACK:
        raise BadPack(f"is larger than {MAX_PACK} bytes", where=where)
    try:
        return canonical.json_object(data, where)
    except NotCanonical as e:
        raise BadPack(e.what, where=where) from None


def _demand_one_spelling(body: dict[str, object], data: bytes, where: str) -> None:
    try:
        same = canonical.encode(body) == data
    except NotCanonical as e:
        raise BadPack(e.what, where=where) from None
    if not same:
        raise BadPack("is not in canonical JSON (RFC 8785)", where=where, fix="build it with interlock mesh publish")


def _demand_fields(body: dict[str, object], where: str) -> None:
    unknown, missing = sorted(set(body) - _FIELDS), sorted(_FIELDS - set(body))
    if unknown:
        raise BadPack(f"has an unknown field {unknown[0]!r}", where=where)
    if missing:
        raise BadPack(f"has no field {missing[0]!r}", where=where)


def _name(value: object, kind: Kind, where: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise BadPack("name is not of a-z, 0-9 and '-', 1 to 63 long", where=where)
    if (kind == "indicator") != value.startswith(INDICATOR_PREFIX):
        raise BadPack(f"a pack of indicators, and no other, is named {INDICATOR_PREFIX}...", where=where)
    return value


def _version(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_VERSION:
        raise BadPack("version is not a whole number from 1", where=where)
    return value


def _authors(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= 32:
        raise BadPack("authors is not a list of 1 to 32 names", where=where)
    return tuple(_text(a, "author", where, 200) for a in value)


def _text(value: object, what: str, where: str, most: int) -> str:
    if not isinstance(value, str) or len(value) > most or not value.isprintable():
        raise BadPack(f"{what} is not one line of at most {most} characters", where=where)
    return value


def _rules(value: object, where: str) -> tuple[RuleDoc, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_RULES:
        raise BadPack(f"rules is not a list of 1 to {MAX_RULES} rules", where=where)
    try:
        rules = rule_docs(value, where)
        demand_masks(rules, where)
        return rules
    except BadPolicy as e:
        raise BadPack(e.what, where=e.where or where, fix=e.fix) from None
