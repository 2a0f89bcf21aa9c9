"""Consent: what this node tells others of itself; nothing until somebody said yes, and then just what the yes names.

The file is `HOME/consent.json`, a row a purpose and subject:

    {"purpose": "sightings", "subject": TASK, "operators": {URL: NAME or ""}, "floor": 10, "kinds": ["host", "rule"],
     "mechanism": "Prio3SumVec, no noise", "catalog": SHA256, "proof": "blind-token of hosts-1", "at": MICROSECONDS}

beside them, of each subject that did not end by a person's no, why it ended: {"subject": TASK, "why": TEXT, "at": US}.

A yes begins when it is given and never reaches back. What is weaker than it in any respect (another operator, a lower
floor, another kind of place, another mechanism, other places, another way to show who reports) is not covered by it,
and asks again. Purposes that do not count leave floor, kinds, mechanism, catalog and proof empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from interlock.base.errors import InterlockError
from interlock.base.files import BadState, file_lock, private_dir, read_bounded, replace, stamped, typed, unstamped

__all__ = [
    "CONSENT_FILE",
    "Consent",
    "Ended",
    "NoConsent",
    "Terms",
    "demand_consent",
    "ended_consents",
    "give_consent",
    "read_consents",
    "withdraw_consent",
]

CONSENT_FILE: Final = "consent.json"
_FORMAT: Final = "interlock-consent"
_VERSION: Final = 4
_WITHOUT_ENDS: Final = 3  # said as much of a yes, and nothing of ends
_LIMIT: Final = 1 << 20
_TYPES: Final[Mapping[str, type]] = {
    "purpose": str,
    "subject": str,
    "operators": dict,
    "floor": int,
    "kinds": list,
    "mechanism": str,
    "catalog": str,
    "proof": str,
    "at": int,
}
_END_TYPES: Final[Mapping[str, type]] = {"subject": str, "why": str, "at": int}


class NoConsent(InterlockError):
    """Something that nobody here agreed to tell."""

    code = "no-consent"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a yes is a yes to. `subject` is what is told about, or to whom: of counts, the task's name.

    `operators` are the addresses of those who are told, each with the name of the body behind it, "" where none is
    known. `floor` is the least number of organisations behind a sum, `kinds` those of the catalog's places, `catalog`
    its digest. `proof` is how a report shows that a member sent it, and so who learns whose it is.
    """

    purpose: str
    subject: str
    operators: Mapping[str, str] = field(default_factory=dict)
    floor: int = 0
    kinds: tuple[str, ...] = ()
    mechanism: str = ""
    catalog: str = ""
    proof: str = ""

    def beyond(self, given: Terms) -> list[str]:
        """In which respects these terms go beyond a yes to `given`, in words; none where that covers them."""
        return list(_beyond(given, self))


@dataclass(frozen=True, slots=True)
class Consent:
    """A yes to some terms, given at a time in microseconds."""

    terms: Terms
    at: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A consent that ended without a person's no: to what, why, in one line, and when (microseconds)."""

    subject: str
    why: str
    at: int


def read_consents(home: Path) -> dict[tuple[str, str], Consent]:
    """All consents by purpose and subject; none where there is no file. Raises: BadState, NewerFormat."""
    return _read(home)[0]


def ended_consents(home: Path) -> dict[str, Ended]:
    """By subject, what ended without a person's no, and was not agreed to again. Raises: BadState, NewerFormat."""
    return _read(home)[1]


def _read(home: Path) -> tuple[dict[tuple[str, str], Consent], dict[str, Ended]]:
    path = home / CONSENT_FILE
    if not path.exists():
        return {}, {}
    body = unstamped(read_bounded(path, _LIMIT), _FORMAT, _VERSION, where=str(path))
    if body["v"] not in (_VERSION, _WITHOUT_ENDS):
        told = "is of an older interlock, and says less than a yes does now"
        raise BadState(told, where=str(path), fix="delete it, and agree")
    rows, ends = body.get("consents"), body.get("ended", [])
    if not isinstance(rows, list) or not isinstance(ends, list):
        raise BadState("has no list of consents", where=str(path))
    consents = [_consent(row, str(path)) for row in rows]
    ended = [Ended(**typed(row, _END_TYPES, where=str(path))) for row in ends]
    return {(c.terms.purpose, c.terms.subject): c for c in consents}, {end.subject: end for end in ended}


def demand_consent(home: Path, terms: Terms) -> Consent:
    """The consent that covers these terms. Raises: NoConsent."""
    found = read_consents(home).get((terms.purpose, terms.subject))
    beyond = ["was not consented to"] if found is None else terms.beyond(found.terms)
    if found is None or beyond:
        what = beyond[0] if found is None else f"changed since it was consented to: {'; '.join(beyond)}"
        raise NoConsent(what, where=f"task {terms.subject}", fix="see it with interlock mesh consent show, then agree")
    return found


def give_consent(home: Path, terms: Terms, now_us: int) -> Consent:
    """Say yes from now on. The same yes again stays the first one, unless that was of a clock that was ahead.

    Raises: NotWritable.
    """
    key = (terms.purpose, terms.subject)
    with file_lock(private_dir(home) / "consent.lock", wait=True):
        known, ended = _read(home)
        if key in known and known[key].terms == terms and known[key].at <= now_us:
            return known[key]
        consent = Consent(terms, now_us)
        ended.pop(terms.subject, None)
        _write(home, {**known, key: consent}, ended)
    return consent


def withdraw_consent(home: Path, subject: str, ended: Ended | None = None) -> None:
    """Say no again, for whatever purpose; a count under way is not sent. `ended` says why, where no person said no.

    Raises: NotWritable.
    """
    with file_lock(home / "consent.lock", wait=True):
        known, ends = _read(home)
        ends.pop(subject, None)
        if ended is not None:
            ends[subject] = ended
        _write(home, {key: c for key, c in known.items() if key[1] != subject}, ends)


def _beyond(given: Terms, asked: Terms) -> Iterator[str]:
    for url, name in sorted(asked.operators.items()):
        before = given.operators.get(url)
        if before is None or (before and name != before):
            yield f"{name or url} is told too"
    if asked.floor < given.floor:
        yield f"{asked.floor} organisations are enough, where {given.floor} were needed"
    for kind in sorted(set(asked.kinds) - set(given.kinds)):
        yield f"places of kind {kind} are counted too"
    if asked.mechanism != given.mechanism:
        yield f"it is counted by {asked.mechanism}, not by {given.mechanism}"
    if asked.catalog != given.catalog:
        yield "its places are others"
    if asked.proof != given.proof:
        yield f"a report is shown by {asked.proof or 'nothing'}, not by {given.proof or 'nothing'}"


def _write(home: Path, consents: Mapping[tuple[str, str], Consent], ended: Mapping[str, Ended]) -> None:
    rows = [{**asdict(c.terms), "at": c.at} for c in consents.values()]
    body: dict[str, object] = {"consents": rows, "ended": [asdict(end) for end in ended.values()]}
    replace(home / CONSENT_FILE, stamped(_FORMAT, _VERSION, body))


def _consent(row: object, where: str) -> Consent:
    """Raises: BadState."""
    values = typed(row, _TYPES, where=where)
    texts = [*values["kinds"], *values["operators"].values()]
    if not all(isinstance(text, str) for text in texts):
        raise BadState("has no list of consents", where=where)
    at = values.pop("at")
    return Consent(Terms(**{**values, "kinds": tuple(values["kinds"])}), at)
