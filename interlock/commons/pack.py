"""Pack: a set of rules that one deployment shares with others; one canonical JSON file.

    {"format": "interlock-pack", "v": 2, "name": "coding-agent", "version": 3, "kind": "policy",
     "status": "active", "licence": "Apache-2.0", "authors": ["Ada <ada@example.org>"],
     "signed_off_by": ["Signed-off-by: Ada <ada@example.org>"], "author_key": "ed25519:HEX" or "",
     "description": "...", "rules": [RULE, ...], "lists": {}, "results": [SHA256, ...]}

A RULE is a rule of the policy language with its examples. The bytes are the RFC 8785 encoding of the value and
nothing else, so a pack has one spelling and one digest, the SHA-256 of its bytes. A pack stands alone: it extends
nothing.

kind        policy: rules; indicator: rules that name what many saw; warning: no rules but `lists` of what no rule
            may hit (see warnings). The names of the last two start with `indicator-` and `warning-`, and no others do.
status      active; shadow: its rules are evaluated and never felt, in whatever ring; deprecated: its authors
            look after it no more
authors     who wrote it; each `signed_off_by` is an author's Developer Certificate of Origin, in git's form
author_key  the key with which its author may take it back
results     SHA-256 of what is known of it elsewhere: gate records of its earlier versions, reports of a harness
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar

from interlock.base import canonical
from interlock.base.canonical import NotCanonical
from interlock.base.errors import InterlockError, one_line
from interlock.base.text import is_sha256
from interlock.engine.policy.document import BadPolicy, RuleDoc, rule_docs
from interlock.engine.policy.overlay import demand_masks
from interlock.engine.policy.source import plain_values

__all__ = [
    "LICENCES",
    "MAX_PACK",
    "BadPack",
    "Kind",
    "Pack",
    "build_pack",
    "kind_of",
    "known_name",
    "pack_from_policy",
    "parse_pack",
    "sha256_hex",
]

Kind = Literal["policy", "indicator", "warning"]
Status = Literal["active", "shadow", "deprecated"]

FORMAT: Final = "interlock-pack"
VERSION: Final = 2
MAX_PACK: Final = 1 << 20  # bytes
MAX_VERSION: Final = 2**31 - 1
MAX_RULES: Final = 2000
# What a pack may be shared under: no licence that binds whoever only evaluates its rules.
LICENCES: Final = frozenset(
    {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CDLA-Permissive-2.0", "ISC", "MIT"}
)
KINDS: Final[tuple[Kind, ...]] = ("policy", "indicator", "warning")
STATUSES: Final[tuple[Status, ...]] = ("active", "shadow", "deprecated")
LISTS: Final = ("hosts", "digests", "packages", "commands", "strings")
MAX_ROWS: Final = 4096  # of all lists of a pack together
_PREFIXES: Final[dict[Kind, str]] = {"indicator": "indicator-", "warning": "warning-"}
_MAX_ROW: Final = 2000  # characters
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
_KEY: Final = re.compile(r"ed25519:[0-9a-f]{64}", re.ASCII)  # base.keys reads keys, and needs packages
_SIGN_OFF: Final = re.compile(r"Signed-off-by: [^<>]{1,100} <[^<>@\s]{1,64}@[^<>@\s]{1,100}>")
_FIELDS: Final = frozenset(
    {"format", "v", "name", "version", "kind", "status", "licence", "authors", "signed_off_by", "author_key"}
    | {"description", "rules", "lists", "results"}
)
_NO_LISTS: Final[dict[str, list[str]]] = {}
_EMPTY: Final[dict[str, object]] = {
    "kind": "policy",
    "licence": "Apache-2.0",
    "status": "active",
    "signed_off_by": [],
    "author_key": "",
    "description": "",
    "lists": {},
    "results": [],
}


class BadPack(InterlockError):
    """A pack that cannot be used."""

    code = "bad-pack"


@dataclass(frozen=True)
class Pack:
    """A parsed pack; `digest` is the hex SHA-256 of `data`, its bytes. `lists` are a warning pack's rows by list."""

    name: str
    version: int
    kind: Kind
    licence: str
    authors: tuple[str, ...]
    description: str
    rules: tuple[RuleDoc, ...] = field(repr=False)
    data: bytes = field(repr=False)
    status: Status = "active"
    signed_off_by: tuple[str, ...] = ()
    author_key: str = ""
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    results: tuple[str, ...] = ()

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


def kind_of(name: str) -> Kind:
    """The kind of pack that has this name."""
    return next((kind for kind, prefix in _PREFIXES.items() if name.startswith(prefix)), "policy")


def build_pack(
    name: str,
    version: int,
    rules: Sequence[object],
    *,
    licence: str,
    authors: Sequence[str],
    signed_off_by: Sequence[str] = (),
    author_key: str = "",
    kind: Kind = "policy",
    status: Status = "active",
    description: str = "",
    lists: Mapping[str, Sequence[str]] = _NO_LISTS,
    results: Sequence[str] = (),
) -> Pack:
    """A pack from its parts; `rules` are rules as JSON values. Raises: BadPack."""
    body: dict[str, object] = {
        "name": name,
        "version": version,
        "kind": kind,
        "status": status,
        "licence": licence,
        "authors": list(authors),
        "signed_off_by": list(signed_off_by),
        "author_key": author_key,
        "description": description,
        "rules": list(rules),
        "lists": {key: list(rows) for key, rows in lists.items()},
        "results": list(results),
    }
    return _built(body, f"pack {name}")


def pack_from_policy(data: bytes, *, where: str, **given: object) -> Pack:
    """A pack from the bytes of a source, JSON or (where `where` ends so) YAML: a policy document, or a pack's fields.

    `given` are fields of a pack that stand in place of the source's; format, v, and what a source leaves out and has
    an empty form, need not be there. Raises: BadPack; also where it extends another, since a pack stands alone.
    """
    try:
        body = plain_values(data, where=where)
    except BadPolicy as e:
        raise BadPack(e.what, where=e.where or where, fix=e.fix) from None
    if not isinstance(body, dict):
        raise BadPack("is not an object", where=where)
    if body.pop("extends", None):
        raise BadPack("extends another policy", where=where, fix="write the rules out: a pack stands alone")
    named = {key: value for key, value in body.items() if key not in ("format", "v")}
    return _built({**_EMPTY, **named, **given}, where)


def _built(body: dict[str, object], where: str) -> Pack:
    """A pack of these fields, in its canonical bytes. Raises: BadPack."""
    try:
        data = canonical.encode({**body, "format": FORMAT, "v": VERSION})
    except NotCanonical as e:
        raise BadPack(e.what, where=where) from None
    return parse_pack(data, where=where)


def parse_pack(data: bytes, *, where: str) -> Pack:
    """Read a pack strictly: size, spelling, fields, then each rule.

    Raises: BadPack, in one line.
    """
    body = _object(data, where)
    if body.get("format") != FORMAT:
        raise BadPack(f"is not a file of format {FORMAT}", where=where)
    if body.get("v") != VERSION:
        v = body.get("v")
        early = type(v) is int and 0 < v < VERSION
        fix = "it has to be published anew" if early else "upgrade interlock"
        raise BadPack(f"is a pack of another version than {VERSION}", where=where, fix=fix)
    _demand_fields(body, where)
    _demand_one_spelling(body, data, where)
    kind, status = _known(body["kind"], KINDS, "kind", where), _known(body["status"], STATUSES, "status", where)
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
        rules=_rules(body["rules"], kind, where),
        data=data,
        status=status,
        signed_off_by=_sign_offs(body["signed_off_by"], where),
        author_key=_author_key(body["author_key"], where),
        lists=_lists(body["lists"], kind, where),
        results=_results(body["results"], where),
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
    for of, prefix in _PREFIXES.items():
        if (kind == of) != value.startswith(prefix):
            raise BadPack(f"a pack of kind {of}, and no other, is named {prefix}...", where=where)
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


def _sign_offs(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > 32:
        raise BadPack("signed_off_by is not a list of at most 32 sign-offs", where=where)
    for line in value:
        if not isinstance(line, str) or not line.isprintable() or not _SIGN_OFF.fullmatch(line):
            raise BadPack("signed_off_by has a line that is not: Signed-off-by: Name <mail>", where=where)
    return tuple(value)


def _author_key(value: object, where: str) -> str:
    if isinstance(value, str) and (value == "" or _KEY.fullmatch(value)):
        return value
    raise BadPack("author_key is neither empty nor an Ed25519 key in its text form", where=where)


def _lists(value: object, kind: Kind, where: str) -> dict[str, tuple[str, ...]]:
    """The lists of a warning pack: of known names, each row one line; empty for any other."""
    if not isinstance(value, dict) or bool(value) != (kind == "warning"):
        raise BadPack("has lists, or none, where its kind says otherwise", where=where)
    for name, rows in value.items():
        _known(name, LISTS, "list", where)
        if not isinstance(rows, list) or not rows:
            raise BadPack(f"list {name} is not a list of rows", where=where)
        for row in rows:
            if not _text(row, f"row of {name}", where, _MAX_ROW).strip():
                raise BadPack(f"list {name} has an empty row", where=where)
    if sum(map(len, value.values())) > MAX_ROWS:
        raise BadPack(f"has more than {MAX_ROWS} rows", where=where)
    return {name: tuple(rows) for name, rows in value.items()}


def _results(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > 32 or not all(is_sha256(row) for row in value):
        raise BadPack("results is not a list of at most 32 SHA-256 in hex", where=where)
    return tuple(value)


_Word = TypeVar("_Word", bound=str)


def _known(value: object, words: Sequence[_Word], what: str, where: str) -> _Word:
    for word in words:
        if word == value:
            return word
    raise BadPack(f"{what} is none of {', '.join(words)}", where=where)


def _rules(value: object, kind: Kind, where: str) -> tuple[RuleDoc, ...]:
    if kind == "warning":
        if value != []:
            raise BadPack("has rules, and a warning pack has lists only", where=where)
        return ()
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_RULES:
        raise BadPack(f"rules is not a list of 1 to {MAX_RULES} rules", where=where)
    try:
        rules = rule_docs(value, where)
        demand_masks(rules, where)
        return rules
    except BadPolicy as e:
        raise BadPack(e.what, where=e.where or where, fix=e.fix) from None
