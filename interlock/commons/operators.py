"""Who runs what: the list of operators, a target that the commons signs, and what it forbids.

    {"format": "interlock-operators", "v": 1, "version": N, "operators": [
        {"name": NAME, "organisation": NAME, "roles": {
            "log": [KEY], "witness": [KEY], "leader": [URL], "helper": [URL], "commons": [URL], "issuer": [KEY],
            "collector": [KEY]}}]}

A KEY is a text of base.keys or a vkey of C2SP signed-note. Two operators of one organisation are one body. A list says
who somebody is and never makes anybody trusted: a node pins its log policy and takes part in a task by itself, and uses
the list only to refuse (the log and all witnesses in one hand; both aggregators of a task in one hand).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from interlock.base import canonical
from interlock.base.canonical import NotCanonical
from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.keys import Ed25519Verifier, MlDsaVerifier
from interlock.transparency.note import COSIGNATURE, ED25519, ML_DSA_COSIGNATURE, VerifierKey, parse_vkey
from interlock.transparency.policy import TlogPolicy, parse_policy

__all__ = [
    "MAX_OPERATORS",
    "OPERATORS_PATH",
    "OPERATORS_RING",
    "OneHand",
    "Operator",
    "Operators",
    "default_policy",
    "demand_separate_witnesses",
    "demand_two_aggregators",
    "parse_operators",
]

OPERATORS_PATH: Final = "operators.json"
OPERATORS_RING: Final = "operators"  # what their log entry has in the place of a ring, and as its name
MAX_OPERATORS: Final = 256 * 1024  # bytes of the list
ROLES: Final = ("log", "witness", "leader", "helper", "commons", "issuer", "collector")
DEFAULT_WITNESSES: Final = 2  # of operators other than the log's and the commons'
_FORMAT: Final = "interlock-operators"
_MOST: Final = 200  # operators, and things a role
_MOST_TEXT: Final = 4096  # characters; an ML-DSA-44 key has 2,634
_FAMILY: Final = {ED25519: "ed25519", COSIGNATURE: "ed25519", ML_DSA_COSIGNATURE: "ml-dsa-44"}


class OneHand(InterlockError):
    """Two parties that protect only while they are different bodies, and are one."""

    code = "not-allowed"


@dataclass(frozen=True)
class Operator:
    """A body that runs something: its name, the organisation that it belongs to, and what it runs, by role."""

    name: str
    organisation: str
    roles: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Operators:
    """The list, in one version. A key or URL stands in it once."""

    version: int
    operators: tuple[Operator, ...]

    @property
    def data(self) -> bytes:
        """The list's bytes. The inverse of `parse_operators`."""
        rows = [
            {"name": o.name, "organisation": o.organisation, "roles": {r: list(v) for r, v in o.roles.items()}}
            for o in self.operators
        ]
        return canonical.encode({"format": _FORMAT, "v": 1, "version": self.version, "operators": rows})

    def organisations(self, role: str) -> set[str]:
        """The bodies that run a role."""
        return {_body(o) for o in self.operators if o.roles.get(role)}

    def runs(self, role: str, things: Iterable[str]) -> str | None:
        """The body that runs, in this role, what goes by one of these names; None where nobody is listed for it."""
        wanted = {_plain(thing) for thing in things}
        return next(
            (_body(o) for o in self.operators if wanted & {_plain(thing) for thing in o.roles.get(role, ())}), None
        )


def parse_operators(data: bytes, *, where: str) -> Operators:
    """Read a list of operators in any JSON spelling; `data` of what it returns is the one that is signed.

    Raises: Malformed.
    """
    if len(data) > MAX_OPERATORS:
        raise Malformed(f"is larger than {MAX_OPERATORS} bytes", where=where)
    try:
        body = canonical.json_object(data, where)
    except NotCanonical as e:
        raise Malformed(e.what, where=where) from None
    if body.get("format") != _FORMAT or body.get("v") != 1:
        raise Malformed(f"is not a list of format {_FORMAT}, version 1", where=where)
    version, rows = body.get("version"), body.get("operators")
    if set(body) != {"format", "v", "version", "operators"} or type(version) is not int or version < 1:
        raise Malformed("has not the fields version (1 or more) and operators, and no others", where=where)
    if not isinstance(rows, list) or not 0 < len(rows) <= _MOST:
        raise Malformed(f"names no operators, or more than {_MOST}", where=where)
    operators = tuple(_operator(row, where) for row in rows)
    things = [_plain(thing) for o in operators for role in o.roles.values() for thing in role]
    for what, values in (("operator", [o.name for o in operators]), ("key or URL", things)):
        twice = next((v for v in values if values.count(v) > 1), None)
        if twice is not None:
            raise Malformed(f"names one {what} twice: {twice[:80]}", where=where)
    return Operators(version, operators)


def demand_separate_witnesses(operators: Operators, policy: TlogPolicy) -> None:
    """Refuse a log policy whose quorum the operator of one of its logs can make alone.

    A witness whom the list does not name counts as somebody else. Raises: OneHand.
    """
    for log in policy.logs:
        body = operators.runs("log", _names_of(log.key))
        if body is None:
            continue
        own = {name for name, w in policy.witnesses.items() if operators.runs("witness", _names_of(w.key)) == body}
        if own and policy.satisfied(frozenset(own)):
            raise OneHand(
                f"is run by {body}, which alone runs witnesses enough for the quorum ({', '.join(sorted(own))})",
                where=f"log {log.key.name}",
                fix="pin a policy with witnesses of other operators",
            )


def demand_two_aggregators(operators: Operators, leader: str, helper: str) -> None:
    """Refuse a task whose leader and helper one body runs, or that nobody on the list runs. Raises: OneHand."""
    bodies = []
    for role, url in (("leader", leader), ("helper", helper)):
        body = operators.runs(role, [url])
        if body is None:
            raise OneHand(
                f"is a {role} that no operator on the commons' list runs",
                where=url,
                fix="ask the commons to list it; until then nothing is reported",
            )
        bodies.append(body)
    if bodies[0] == bodies[1]:
        raise OneHand(
            f"{bodies[0]} runs both aggregators, and could read what each member reports",
            where=f"{leader} and {helper}",
            fix="nothing is reported to this task",
        )


def default_policy(operators: Operators) -> bytes:
    """The log policy that a list suggests: its logs, and two witnesses of bodies that run neither log nor commons.

    Raises: OneHand, where there are not witnesses of two such bodies.
    """
    logs = [vkey for o in operators.operators for vkey in _vkeys(o, "log")]
    near = operators.organisations("log") | operators.organisations("commons")
    far: dict[str, list[str]] = {}
    for operator in operators.operators:
        if _body(operator) not in near:
            far.setdefault(_body(operator), []).extend(_vkeys(operator, "witness"))
    bodies = [vkeys for vkeys in far.values() if vkeys]
    if not logs or len(bodies) < DEFAULT_WITNESSES:
        raise OneHand(
            f"names no log by its vkey, or witnesses of {len(bodies)} bodies that run neither log nor commons; "
            f"{DEFAULT_WITNESSES} are the least",
            where=OPERATORS_PATH,
        )
    numbers = itertools.count(1)
    lines, members = [f"log {vkey}" for vkey in logs], []
    for body in bodies:
        names = [f"w{next(numbers)}" for _ in body]
        lines += [f"witness {name} {vkey}" for name, vkey in zip(names, body, strict=True)]
        members.append(names[0] if len(names) == 1 else f"of-{names[0]}")
        lines += [f"group {members[-1]} any {' '.join(names)}"] if len(names) > 1 else []
    lines += [f"group others {DEFAULT_WITNESSES} {' '.join(members)}", "quorum others"]
    data = ("\n".join(lines) + "\n").encode("utf-8")
    parse_policy(data)
    return data


def _operator(row: object, where: str) -> Operator:
    if not isinstance(row, dict) or set(row) != {"name", "organisation", "roles"}:
        raise Malformed("has an operator without name, organisation and roles", where=where)
    name, organisation, roles = row["name"], row["organisation"], row["roles"]
    for text in (name, organisation):
        if not isinstance(text, str) or not 0 < len(text) <= 100 or not text.isprintable() or text != text.strip():
            raise Malformed("has an operator whose name or organisation is no name", where=where)
    if not isinstance(roles, dict) or not set(roles) <= set(ROLES):
        raise Malformed(f"has an operator with a role that is none of {', '.join(ROLES)}", where=f"{where}: {name}")
    return Operator(name, organisation, {r: _things(roles[r], f"{where}: {name}: {r}") for r in ROLES if r in roles})


def _things(value: object, where: str) -> tuple[str, ...]:
    things = value if isinstance(value, list) else []
    good = [t for t in things if isinstance(t, str) and 0 < len(t) <= _MOST_TEXT and t.isascii() and t.isprintable()]
    if not things or len(things) > _MOST or good != things or any(" " in t for t in good):
        raise Malformed("is no list of keys or URLs", where=where)
    return tuple(good)


def _names_of(key: VerifierKey) -> Sequence[str]:
    """How a list may name a key of a policy: by its vkey, or by the key itself."""
    family = _FAMILY.get(key.kind)
    if family == "ed25519":
        return (key.text, Ed25519Verifier(key.public).text)
    return (key.text, MlDsaVerifier(44, key.public).text) if family else (key.text,)


def _vkeys(operator: Operator, role: str) -> list[str]:
    found = []
    for thing in operator.roles.get(role, ()):
        try:
            found.append(parse_vkey(thing).text)
        except Malformed:  # a key without a name, which no policy can hold
            continue
    return found


def _body(operator: Operator) -> str:
    """Whom an operator belongs to, whatever the case and the spaces."""
    return " ".join(operator.organisation.split()).casefold()


def _plain(thing: str) -> str:
    """A URL with and without its last slash is one."""
    return thing.rstrip("/")
