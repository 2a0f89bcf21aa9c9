"""What an operator lets community rules do: grants, what an ungranted block becomes, and rules that stepped back.

A grant permits single rules of a pack to block and to mask. It is bound to what a rule means (its semantic digest): a
rule that stays the same keeps it from version to version, and one that changed asks again, while the granted one goes
on beside it. So a grant carries the rule's own document, and where its version stood in the log.

The file is `HOME/grants.json`; no file is no grant, and ungranted blocks ask.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

from interlock.base.files import BadState, stamped, typed, unstamped
from interlock.engine.policy.document import RuleDoc, rule_docs, semantic_digest
from interlock.engine.policy.problems import BadPolicy

__all__ = ["UNGRANTED", "Grant", "Grants", "Stepped", "Ungranted", "dump_grants", "granted_document", "parse_grants"]

FORMAT: Final = "interlock-grants"
VERSION: Final = 2
Ungranted = Literal["escalate", "shadow"]
UNGRANTED: Final[tuple[Ungranted, ...]] = ("escalate", "shadow")
_TEXT_ONLY: Final = ("description", "examples")  # fields of a rule that decide nothing, and are not kept


@dataclass(frozen=True, slots=True)
class Grant:
    """One granted rule of a pack; `semantic` is the hex digest of what it means, `at` the time in microseconds.

    `version`, `sha256` and `log_index` are those of the pack that it was granted in. `document` is the rule as JSON
    text, or "" where it was not kept; such a rule ends when its pack changes it.
    """

    pack: str
    rule: str
    semantic: str
    at: int
    version: int = 0
    sha256: str = ""
    log_index: int = 0
    document: str = field(default="", repr=False)

    def rule_doc(self) -> RuleDoc:
        """The granted rule itself. Raises: BadState, where it is not the one that was granted."""
        where = f"grants.json: {self.pack}: {self.rule}"
        try:
            (doc,) = rule_docs([json.loads(self.document)], where)
        except (ValueError, RecursionError, BadPolicy):
            raise BadState("holds a rule that cannot be read", where=where, fix="grant it anew") from None
        if semantic_digest(doc) != self.semantic:
            raise BadState("holds another rule than was granted", where=where, fix="grant it anew")
        return doc


@dataclass(frozen=True, slots=True)
class Stepped:
    """A rule that a step back put into shadow: what it means, when (microseconds), and the evidence in words."""

    pack: str
    rule: str
    semantic: str
    at: int
    why: str


@dataclass(frozen=True)
class Grants:
    """All that the operator of a node said of community rules."""

    rows: tuple[Grant, ...] = ()
    ungranted: Ungranted = "escalate"
    stepped: tuple[Stepped, ...] = ()
    _keys: frozenset[tuple[str, str]] = field(init=False, repr=False, compare=False)
    _back: frozenset[tuple[str, str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_keys", frozenset((g.pack, g.semantic) for g in self.rows))
        object.__setattr__(self, "_back", frozenset((s.pack, s.semantic) for s in self.stepped))

    def covers(self, pack: str, semantic: str) -> bool:
        return (pack, semantic) in self._keys

    def stepped_back(self, pack: str, semantic: str) -> bool:
        """Whether a rule is in shadow by a step back; a granted one never is."""
        return (pack, semantic) in self._back and not self.covers(pack, semantic)

    def superseded(self, pack: str, version: int, semantics: Mapping[str, str]) -> list[Grant]:
        """The granted rules that a version of a pack has no more in what they mean; the newest of each id.

        `semantics` are that version's rules: what each means, and its id. A granted rule of an id ends those that were
        granted before it, and none after: a pack that returns to what it said earlier takes back nothing. One that was
        granted in a later version waits for it.
        """
        last = {
            semantics[g.semantic]: at for at, g in enumerate(self.rows) if g.pack == pack and g.semantic in semantics
        }
        gone = {
            g.rule: (at, g)
            for at, g in enumerate(self.rows)
            if g.pack == pack and g.version < version and g.document and g.semantic not in semantics
        }
        return [g for rule, (at, g) in gone.items() if at > last.get(rule, -1)]

    def with_rows(self, rows: Iterable[Grant]) -> Grants:
        """These grants and then more; one that stands already keeps its time, and comes last."""
        given = {(g.pack, g.semantic): g for g in rows}
        held = {(g.pack, g.semantic): g for g in self.rows}
        kept = (g for key, g in held.items() if key not in given)
        return replace(self, rows=(*kept, *(held.get(key, g) for key, g in given.items())))

    def without(self, pack: str, rules: frozenset[str] | None = None) -> Grants:
        """These grants less those of a pack's rules; of all its rules where none is named."""
        kept = tuple(g for g in self.rows if g.pack != pack or (rules is not None and g.rule not in rules))
        return replace(self, rows=kept)

    def with_stepped(self, row: Stepped) -> Grants:
        return self if self.stepped_back(row.pack, row.semantic) else replace(self, stepped=(*self.stepped, row))

    def without_stepped(self, pack: str, rule: str) -> Grants:
        """Let a rule that stepped back act again."""
        return replace(self, stepped=tuple(s for s in self.stepped if (s.pack, s.rule) != (pack, rule)))


def granted_document(rule: Mapping[str, object]) -> str:
    """What a grant keeps of a rule: all that decides, as JSON text."""
    return json.dumps({key: value for key, value in rule.items() if key not in _TEXT_ONLY}, sort_keys=True)


def dump_grants(grants: Grants) -> bytes:
    """The bytes of a grants file. The inverse of `parse_grants`."""
    body: dict[str, object] = {
        "ungranted": grants.ungranted,
        "grants": [asdict(g) for g in grants.rows],
        "stepped": [asdict(s) for s in grants.stepped],
    }
    return stamped(FORMAT, VERSION, body)


def parse_grants(data: bytes, *, where: str) -> Grants:
    """Read a grants file. Raises: BadState, NewerFormat."""
    body = unstamped(data, FORMAT, VERSION, where=where)
    ungranted = body.get("ungranted", "escalate")
    for word in UNGRANTED:
        if word == ungranted:
            rows = tuple(Grant(**row) for row in _rows(body, "grants", Grant, where))
            return Grants(rows, word, tuple(Stepped(**row) for row in _rows(body, "stepped", Stepped, where)))
    raise BadState(f"says neither {' nor '.join(UNGRANTED)} of ungranted rules", where=where)


def _rows(body: Mapping[str, object], key: str, kind: type[Grant | Stepped], where: str) -> list[dict[str, Any]]:
    """The rows of one list, each with all fields that its kind has, of their types; version 1 had fewer."""
    rows = body.get(key, [] if body["v"] == 1 and key == "stepped" else None)
    if not isinstance(rows, list):
        raise BadState(f"has no list of {key}", where=where)
    names = kind.__dataclass_fields__ if body["v"] != 1 else ("pack", "rule", "semantic", "at")
    fields = {name: int if name in ("at", "version", "log_index") else str for name in names}
    return [typed(row, fields, where=f"{where}: {key}") for row in rows]
