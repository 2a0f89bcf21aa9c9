"""Who holds root keys: the table of persons, employers, terms and keys that each root carries and its keyholders sign.

TUF counts keys and cannot see who holds them. So a root of a commons names its keyholders in its signed part:

    "x-interlock-holders": [{"name": "ada", "employer": "Acme", "since": "2026-11-30", "until": "2028-11-30",
                             "keys": [KEYID, ...]}, ...]

and is good only with a quorum of them: signatures that reach the root's threshold, counted for one holder of each
employer. (An empty employer stands for a person who works for herself; each such person counts.)

    classical  an Ed25519 key a holder: the threshold is how many holders sign
    hybrid     an Ed25519 and an ML-DSA-65 key a holder: the threshold is above the number of holders by as many as are
               still needed when one of the two families is broken (five holders, eight of ten keys: three)
"""

from __future__ import annotations

import datetime as _dt
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from tuf.api.metadata import Metadata, Root  # type: ignore[attr-defined]
from tuf.api.serialization import DeserializationError

from interlock.base.clock import MICROSECONDS
from interlock.base.errors import InterlockError, one_line
from interlock.base.files import BadState, stamped, unstamped
from interlock.base.keys import BadKey, Ed25519Verifier, MlDsaVerifier, verifier_of
from interlock.commons.layout import MAX_ROOT
from interlock.commons.signers import RoleVerifier, tuf_key, verifier_of_tuf

__all__ = [
    "HOLDERS_FIELD",
    "LEAST_THRESHOLD",
    "CeremonyRefused",
    "Holder",
    "default_threshold",
    "demand_circle",
    "demand_holders",
    "demand_named",
    "dump_card",
    "families",
    "holders_of",
    "is_hybrid",
    "least_holders",
    "parse_card",
    "read_root",
    "table_of",
    "term_of",
]

HOLDERS_FIELD: Final = "x-interlock-holders"
LEAST_THRESHOLD: Final = 2  # holders; with fewer, one person could change the root alone
TERM_DAYS: Final = 730
_ROOT: Final = "root"
_CARD: Final = "interlock-holder"
_FIELDS: Final = frozenset({"name", "employer", "since", "until", "keys"})
_MOST_NAME: Final = 100  # characters
_CLASSICAL: Final = ("ed25519",)
_HYBRID: Final = ("ed25519", "ml-dsa-65")
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
    where = f"root {root.version}"
    table = root.unrecognized_fields.get(HOLDERS_FIELD)
    if not isinstance(table, list) or not table:
        raise CeremonyRefused("names no keyholders", where=where, fix="make roots with interlock mesh ceremony")
    holders = tuple(_holder(row, root, where) for row in table)
    named = [keyid for holder in holders for keyid in holder.keyids]
    if sorted(named) != sorted(root.roles[_ROOT].keyids):
        raise CeremonyRefused("has root keys that none of its keyholders holds", where=where)
    demand_circle(holders, root.roles[_ROOT].threshold)
    return holders


def demand_circle(holders: Sequence[Holder], threshold: int) -> None:
    """Refuse a circle of keyholders that could not, or not safely, make a root. Raises: CeremonyRefused."""
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
            f"a threshold of {threshold} lets one person change the root{' when a family is broken' * hybrid}{told}",
            where="root",
        )
    reach = _weight(holders, keyids={keyid for h in holders for keyid in h.keyids})
    if threshold > reach:
        raise CeremonyRefused(
            f"{threshold} signatures have to come together, and holders of different employers have {reach}",
            where="root",
            fix="lower the threshold, or name more holders",
        )


def demand_holders(root: bytes, previous: bytes | None = None) -> None:
    """Check a root as TUF does not: named keyholders, and a quorum of different employers, of the old root too.

    For a client, after each root that it takes. `previous` is the root before, where there is one.
    Raises: CeremonyRefused.
    """
    md = read_root(root, "root")
    _demand_quorum(md.signed, md, "its own")
    if previous is not None:
        before = read_root(previous, "previous root").signed
        _demand_quorum(before, md, f"root {before.version}'s")


def read_root(data: bytes, what: str) -> Metadata[Root]:
    """A root's metadata, whoever signed it. Raises: CeremonyRefused."""
    if len(data) > MAX_ROOT:
        raise CeremonyRefused(f"is larger than {MAX_ROOT} bytes", where=what)
    try:
        md = Metadata[Root].from_bytes(data)
    except DeserializationError as e:
        raise CeremonyRefused(f"is not TUF metadata ({one_line(str(e), 200)})", where=what) from None
    if not isinstance(md.signed, Root):
        raise CeremonyRefused("is not root metadata", where=what)
    return md


def _demand_quorum(root: Root, md: Metadata[Root], whose: str) -> None:
    """Raises: CeremonyRefused, unless what signed `md` is a quorum of the holders of `root`."""
    holders, threshold = holders_of(root), root.roles[_ROOT].threshold
    signed = root.get_verification_result(_ROOT, md.signed_bytes, md.signatures).signed
    signers = [h for h in holders if set(h.keyids) & set(signed)]
    if len(signed) < threshold:
        raise CeremonyRefused(
            f"is signed with {len(signed)} of {whose} keys, by {_names(signers)}; {threshold} have to sign",
            where="root",
            fix=f"let more keyholders sign; at least {least_holders(holders, threshold)} of them have to",
        )
    if _weight(signers, signed) < threshold:
        bodies = [_body(h) for h in signers]
        shared = [h for h, body in zip(signers, bodies, strict=True) if bodies.count(body) > 1]
        raise CeremonyRefused(
            f"has two of one employer in {whose} quorum ({_names(shared)})",
            where="root",
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
