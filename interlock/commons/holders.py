"""Who holds the top keys: tables of persons, employers, terms and keys that each root carries and its keyholders sign.

TUF counts keys and cannot see who holds them. So a root of a commons names its keyholders in its signed part:

    "x-interlock-holders": [{"name": "ada", "employer": "Acme", "since": "2026-11-30", "until": "2028-11-30",
                             "keys": [KEYID, ...]}, ...]
    "x-interlock-targets-holders": the same for the role `targets`; without it that role has one key, on a machine

and is good only with a quorum of them: signatures that reach the role's threshold, counted for one holder of each
employer. (An empty employer stands for a person who works for herself; each such person counts.) So are targets.

    classical  an Ed25519 key a holder: the threshold is how many holders sign
    hybrid     an Ed25519 and an ML-DSA-65 key a holder: the threshold is above the number of holders by as many as are
               still needed when one of the two families is broken (five holders, eight of ten keys: three)
"""

from __future__ import annotations

import datetime as _dt
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from tuf.api.metadata import Metadata, Root, Targets  # type: ignore[attr-defined]
from tuf.api.serialization import DeserializationError, SerializationError

from interlock.base.clock import MICROSECONDS
from interlock.base.errors import InterlockError, one_line
from interlock.base.files import BadState, stamped, unstamped
from interlock.base.keys import BadKey, Ed25519Verifier, MlDsaVerifier, verifier_of
from interlock.commons.layout import MAX_ROOT
from interlock.commons.signers import RoleVerifier, tuf_key, verifier_of_tuf

__all__ = [
    "HOLDERS_FIELD",
    "LEAST_THRESHOLD",
    "MAX_TARGETS",
    "TARGETS_FIELD",
    "CeremonyRefused",
    "Circle",
    "Holder",
    "default_threshold",
    "demand_circle",
    "demand_holders",
    "demand_named",
    "demand_targets",
    "dump_card",
    "families",
    "holders_of",
    "is_hybrid",
    "least_holders",
    "parse_card",
    "read_root",
    "read_targets",
    "table_of",
    "targets_of",
    "term_of",
]

HOLDERS_FIELD: Final = "x-interlock-holders"
TARGETS_FIELD: Final = "x-interlock-targets-holders"
LEAST_THRESHOLD: Final = 2  # holders; with fewer, one person could change the root alone
TERM_DAYS: Final = 730
_ROOT: Final = "root"
_TARGETS: Final = "targets"
MAX_TARGETS: Final = 5_000_000  # bytes, as the client's own limit
_CARD: Final = "interlock-holder"
_FIELDS: Final = frozenset({"name", "employer", "since", "until", "keys"})
_MOST_NAME: Final = 100  # characters
_CLASSICAL: Final = ("ed25519",)
_HYBRID: Final = ("ed25519", "ml-dsa-65")
_SIGNED = TypeVar("_SIGNED", Root, Targets)
# letters of other scripts, in lower case, that read as these Latin ones
_LOOKALIKES: Final = str.maketrans("авекмнорстухіѕјһԁԛԝαβεζηικμνορτυχ", "abekmhopctyxisjhdqwabezhikmvoptyx")


class CeremonyRefused(InterlockError):
    """A step of the root ceremony that would weaken the root, or a root that such a step made."""

    code = "ceremony-refused"


@dataclass(frozen=True)
class Holder:
    """A named person who holds root keys, for whom she works, and her term (dates, both days included)."""

    name: str
    employer: str
    since: str
    until: str
    keys: tuple[RoleVerifier, ...]

    def __post_init__(self) -> None:
        demand_named(self.name, self.employer)
        if _date(self.since, self.name) > _date(self.until, self.name):
            raise CeremonyRefused("has a term that ends before it begins", where=f"keyholder {self.name}")
        if families(self.keys) not in (_CLASSICAL, _HYBRID):
            raise CeremonyRefused(
                "has to hold one Ed25519 key, or one and an ML-DSA-65 key",
                where=f"keyholder {self.name}",
                fix="no holder has two keys of one family",
            )

    @property
    def keyids(self) -> tuple[str, ...]:
        """The ids of her keys in TUF metadata."""
        return tuple(tuf_key(key).keyid for key in self.keys)


@dataclass(frozen=True)
class Circle:
    """The holders of a role's keys, and how many signatures have to come together."""

    holders: tuple[Holder, ...]
    threshold: int


def demand_named(name: str, employer: str) -> None:
    """Raises: CeremonyRefused, for a name or an employer that could not stand in a root's table."""
    for what, text, least in (("name", name, 1), ("employer", employer, 0)):
        if not least <= len(text) <= _MOST_NAME or not text.isprintable() or text != text.strip():
            raise CeremonyRefused(f"is no {what}", where=f"keyholder {text!r}")


def term_of(now_us: int) -> tuple[str, str]:
    """A term that begins today: its first and last day, two years apart."""
    first = _dt.datetime.fromtimestamp(now_us // MICROSECONDS, tz=_dt.UTC).date()
    return first.isoformat(), (first + _dt.timedelta(days=TERM_DAYS)).isoformat()


def families(keys: Sequence[RoleVerifier]) -> tuple[str, ...]:
    """The family of each key: `ed25519`, `ml-dsa-65`."""
    return tuple("ed25519" if isinstance(k, Ed25519Verifier) else f"ml-dsa-{k.level}" for k in keys)


def is_hybrid(holders: Sequence[Holder]) -> bool:
    """Whether a circle signs with two families of keys."""
    return any(isinstance(key, MlDsaVerifier) for holder in holders for key in holder.keys)


def default_threshold(holders: Sequence[Holder]) -> int:
    """Signatures that a circle's root needs by default: a majority of holders, also when one family is broken."""
    majority = max(len(holders) // 2 + 1, LEAST_THRESHOLD)
    return majority + len(holders) if is_hybrid(holders) else majority


def least_holders(holders: Sequence[Holder], threshold: int) -> int:
    """How many holders at the least a quorum of `threshold` signatures takes."""
    each = 2 if is_hybrid(holders) else 1
    return -(-threshold // each)


def table_of(holders: Sequence[Holder]) -> list[dict[str, object]]:
    """The table as it stands in a root. The inverse of `holders_of`."""
    return [
        {"name": h.name, "employer": h.employer, "since": h.since, "until": h.until, "keys": list(h.keyids)}
        for h in holders
    ]


def dump_card(holder: Holder) -> bytes:
    """What a keyholder hands over when she joins: her name, employer, term and public keys. No secret."""
    return stamped(
        _CARD,
        1,
        {
            "name": holder.name,
            "employer": holder.employer,
            "since": holder.since,
            "until": holder.until,
            "keys": [key.text for key in holder.keys],
        },
    )


def parse_card(data: bytes, *, where: str) -> Holder:
    """The inverse of `dump_card`. Raises: BadState, NewerFormat, BadKey, CeremonyRefused."""
    body = unstamped(data, _CARD, 1, where=where)
    texts, keys = [body.get(what) for what in ("name", "employer", "since", "until")], body.get("keys")
    if set(body) != _FIELDS | {"v"} or not all(isinstance(t, str) for t in texts) or not isinstance(keys, list):
        raise BadState("is no keyholder's card", where=where, fix="make it with interlock mesh keys create --holder")
    name, employer, since, until = map(str, texts)
    return Holder(name, employer, since, until, tuple(verifier_of(str(key)) for key in keys))


def holders_of(root: Root) -> tuple[Holder, ...]:
    """The keyholders that a root names, if its table is whole and names all of its keys. Raises: CeremonyRefused."""
    return _circle(root, _ROOT, HOLDERS_FIELD).holders


def targets_of(root: Root) -> Circle | None:
    """Who holds the keys of `targets`; None where that is one key on the commons' machine. Raises: CeremonyRefused."""
    if TARGETS_FIELD not in root.unrecognized_fields:
        if len(root.roles[_TARGETS].keyids) != 1:
            raise CeremonyRefused("has several keys and names no holders of them", where="role targets")
        return None
    circle = _circle(root, _TARGETS, TARGETS_FIELD)
    owners = {keyid: _heard(holder.name) for holder in holders_of(root) for keyid in holder.keyids}
    for holder in circle.holders:
        if any(owners.get(keyid, _heard(holder.name)) != _heard(holder.name) for keyid in holder.keyids):
            raise CeremonyRefused("has another name as a keyholder of the root", where=f"keyholder {holder.name}")
    return circle


def _circle(root: Root, role: str, field: str) -> Circle:
    where, table = f"root {root.version}", root.unrecognized_fields.get(field)
    if not isinstance(table, list) or not table:
        raise CeremonyRefused("names no keyholders", where=where, fix="make roots with interlock mesh ceremony")
    holders = tuple(_holder(row, root, where) for row in table)
    named = [keyid for holder in holders for keyid in holder.keyids]
    if sorted(named) != sorted(root.roles[role].keyids):
        raise CeremonyRefused(f"has {role} keys that none of its keyholders holds", where=where)
    circle = Circle(holders, root.roles[role].threshold)
    demand_circle(holders, circle.threshold, role)
    return circle


def demand_circle(holders: Sequence[Holder], threshold: int, role: str = _ROOT) -> None:
    """Refuse a circle of keyholders that could not, or not safely, sign for a role. Raises: CeremonyRefused."""
    names, keys = [h.name for h in holders], [key.text for h in holders for key in h.keys]
    for what, values in (("name", list(map(_heard, names))), ("key", keys)):
        twice = next((i for i, value in enumerate(values) if value in values[:i]), None)
        if twice is not None:
            shown = (names if what == "name" else keys)[twice]
            raise CeremonyRefused(f"stands twice as a keyholder's {what}", where=one_line(shown, 80))
    if len({families(h.keys) for h in holders}) > 1:
        raise CeremonyRefused("some holders have an ML-DSA-65 key and some have none", fix="all of them, or nobody")
    hybrid = is_hybrid(holders)
    least = LEAST_THRESHOLD + (len(holders) if hybrid else 0)
    if threshold < least:
        told = f"; of {len(holders)} holders with two keys each, {least} is the least" if hybrid else ""
        raise CeremonyRefused(
            f"a threshold of {threshold} lets one person change the {role}{' when a family is broken' * hybrid}{told}",
            where=role,
        )
    reach = _weight(holders, keyids={keyid for h in holders for keyid in h.keyids})
    if threshold > reach:
        raise CeremonyRefused(
            f"{threshold} signatures have to come together, and holders of different employers have {reach}",
            where=role,
            fix="lower the threshold, or name more holders",
        )


def demand_holders(root: bytes, previous: bytes | None = None) -> None:
    """Check a root as TUF does not: named keyholders, and a quorum of different employers, of the old root too.

    For a client, after each root that it takes. `previous` is the root before, where there is one.
    Raises: CeremonyRefused.
    """
    md = read_root(root, "root")
    targets_of(md.signed)
    _demand_quorum(md.signed, md, "its own")
    if previous is not None:
        before = read_root(previous, "previous root").signed
        _demand_quorum(before, md, f"root {before.version}'s")


def demand_targets(targets: bytes, root: bytes) -> tuple[str, ...]:
    """Check top-level targets as TUF does not: a quorum of different employers, where a root names holders for them.

    For a client too. Returns the names of those who signed, none where it is one key on a machine.
    Raises: CeremonyRefused.
    """
    signed, md = read_root(root, "root").signed, read_targets(targets, "targets")
    circle = targets_of(signed)
    keys = set(signed.get_verification_result(_TARGETS, md.signed_bytes, md.signatures).signed)
    if circle is None:
        if not keys:
            raise CeremonyRefused(f"is not signed with the key that root {signed.version} names", where=_TARGETS)
        return ()
    _demand_signed(circle, keys, _TARGETS, f"root {signed.version}'s")
    return tuple(h.name for h in circle.holders if keys & set(h.keyids))


def read_targets(data: bytes, what: str) -> Metadata[Targets]:
    """Top-level targets' metadata, whoever signed it. Raises: CeremonyRefused."""
    if len(data) > MAX_TARGETS:
        raise CeremonyRefused(f"is larger than {MAX_TARGETS} bytes", where=what)
    return _read(data, Targets, what)


def read_root(data: bytes, what: str) -> Metadata[Root]:
    """A root's metadata, whoever signed it. Raises: CeremonyRefused."""
    if len(data) > MAX_ROOT:
        raise CeremonyRefused(f"is larger than {MAX_ROOT} bytes", where=what)
    md = _read(data, Root, what)
    for name, role in md.signed.roles.items():
        if not role.keyids or any(keyid not in md.signed.keys for keyid in role.keyids):
            raise CeremonyRefused(f"has no key for role {name}, or names one that it does not have", where=what)
    return md


def _read(data: bytes, kind: type[_SIGNED], what: str) -> Metadata[_SIGNED]:
    try:
        md = Metadata[_SIGNED].from_bytes(data)
        _ = md.signed_bytes  # what has no one form, a number that is not whole among it, nobody can have signed
    except (DeserializationError, SerializationError) as e:
        raise CeremonyRefused(f"is not TUF metadata ({one_line(str(e), 200)})", where=what) from None
    if not isinstance(md.signed, kind):
        raise CeremonyRefused(f"is not {kind.__name__.lower()} metadata", where=what)
    return md


def _demand_quorum(root: Root, md: Metadata[Root], whose: str) -> None:
    """Raises: CeremonyRefused, unless what signed `md` is a quorum of the holders of `root`."""
    circle = Circle(holders_of(root), root.roles[_ROOT].threshold)
    signed = root.get_verification_result(_ROOT, md.signed_bytes, md.signatures).signed
    _demand_signed(circle, set(signed), _ROOT, whose)


def _demand_signed(circle: Circle, signed: Collection[str], role: str, whose: str) -> None:
    """Raises: CeremonyRefused, unless the keys `signed` are a quorum of a circle, of different employers."""
    holders, threshold = circle.holders, circle.threshold
    signers = [h for h in holders if set(h.keyids) & set(signed)]
    if len(signed) < threshold:
        raise CeremonyRefused(
            f"is signed with {len(signed)} of {whose} keys, by {_names(signers)}; {threshold} have to sign",
            where=role,
            fix=f"let more keyholders sign; at least {least_holders(holders, threshold)} of them have to",
        )
    if _weight(signers, signed) < threshold:
        bodies = [_body(h) for h in signers]
        shared = [h for h, body in zip(signers, bodies, strict=True) if bodies.count(body) > 1]
        raise CeremonyRefused(
            f"has two of one employer in {whose} quorum ({_names(shared)})",
            where=role,
            fix="another keyholder has to sign",
        )


def _weight(holders: Sequence[Holder], keyids: Collection[str]) -> int:
    """Signatures among these keys, counted for one holder of each employer: the one with most."""
    best: dict[str, int] = {}
    for holder in holders:
        body = _body(holder)
        best[body] = max(best.get(body, 0), len(set(holder.keyids) & set(keyids)))
    return sum(best.values())


def _body(holder: Holder) -> str:
    """Whose word a holder's signature is: her employer's, however spelt, or her own."""
    return f"@{_heard(holder.employer)}" if holder.employer else _heard(holder.name)


def _heard(name: str) -> str:
    """A name as people take it: the same for other spellings, widths and cases of it, and for letters that look so."""
    told = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(unicodedata.normalize("NFKC", told).translate(_LOOKALIKES).split())


def _holder(row: object, root: Root, where: str) -> Holder:
    if not isinstance(row, dict) or set(row) != _FIELDS or not isinstance(row["keys"], list):
        raise CeremonyRefused("has a row of keyholders without name, employer, term and keys", where=where)
    texts = {what: row[what] for what in ("name", "employer", "since", "until")}
    if not all(isinstance(text, str) for text in (*texts.values(), *row["keys"])):
        raise CeremonyRefused("has a row of keyholders with a field that is no text", where=where)
    try:
        keys = tuple(verifier_of_tuf(root.keys[keyid]) for keyid in row["keys"])
    except (KeyError, BadKey):
        raise CeremonyRefused("names a key of a holder that it does not hold", where=where) from None
    return Holder(**texts, keys=keys)


def _date(text: str, name: str) -> _dt.date:
    try:
        day = _dt.date.fromisoformat(text)
        if day.isoformat() == text:
            return day
    except ValueError:
        pass
    raise CeremonyRefused(f"has a term with no date such as 2026-11-30: {text!r}", where=f"keyholder {name}")


def _names(holders: Sequence[Holder]) -> str:
    return ", ".join(h.name for h in holders) or "nobody"
