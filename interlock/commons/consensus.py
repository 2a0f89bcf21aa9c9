"""Consensus: which places of a catalog enough organisations saw, told as "at least k", and what follows from that.

    sums of a batch, which the collector alone has -> agreed -> Statement, which it may publish: no number stands in it
    statements, oldest first -> standing -> what is accepted, what is disputed, what has ended

    {"format": "interlock-consensus", "v": 1, "task": "hosts-1", "task_id": HEX, "catalog": SHA256,
     "counts": "sightings", "at_least": 20, "shown": "blind-token", "least_age": 30, "start": US, "end": US,
     "until": US, "demo": false, "places": ["host:DIGEST", ...], "collector": "ed25519:HEX", "sig": BASE64}

It is in the word of its collector's key (`statements`), which is the one that its task names in its configuration, and
which the commons' list of operators, where there is one, names too (role collector): the numbers are the collector's
alone, and no other collector can speak in its place (`demand_collector`).

What fewer than `at_least` saw is not shown, not even its number; where fewer reported at all, there is no statement.
A sum is of one batch, in which each organisation counts once; sums of several batches are never added, as nobody could
tell whether an organisation stands in both.

Trust: `least_age` is how many days the youngest member of the batch was enrolled, in coarse steps (0, 30, 180). The
member keys of its epochs say so, and the issuer signs by that key for no one younger; who anybody is, nobody learns.
The younger, the more organisations it takes (`needed`); reports that prove no membership bring nothing into force.

A place that as many called a false positive as it took to accept it, by the same rule of trust, is disputed. Its
demotion is to be put in shadow, and a question to a person.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from interlock.base.clock import DAY_US
from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.keys import Ed25519Signer
from interlock.base.organisations import DEMO_LEAST, LEAST
from interlock.base.primitives import BadSignature
from interlock.base.text import is_sha256
from interlock.commons.indicators import FALSE_POSITIVES, SIGHTINGS, Catalog, known_indicator
from interlock.commons.membership import AGES, BLIND, CERTIFICATE
from interlock.commons.operators import Operators
from interlock.commons.pack import sha256_hex
from interlock.commons.statements import Kind, known_task, made, opened

__all__ = [
    "DAYS_MOST",
    "MAX_CONSENSUS",
    "Accepted",
    "Standing",
    "Statement",
    "TooFew",
    "agreed",
    "demand_collector",
    "needed",
    "parse_consensus",
    "standing",
    "stated",
]

DAYS_MOST: Final = 365  # for which a statement holds from its epoch's end; what nobody sees again has ended by then
MAX_CONSENSUS: Final = 1 << 20  # bytes
_FACTORS: Final[Mapping[int, int]] = {0: 20, 30: 15, 180: 10}  # tenths of the floor, by the least age in days
_PROOFS: Final = ("", BLIND, CERTIFICATE)  # "": a bearer token, which proves nothing to anybody but the leader
_CONSENSUS: Final = Kind(
    "interlock-consensus",
    "collector",
    {
        **dict.fromkeys(("task", "task_id", "catalog", "counts", "shown"), str),
        **dict.fromkeys(("at_least", "least_age", "start", "end", "until"), int),
        "demo": bool,
        "places": list,
    },
    MAX_CONSENSUS,
)


class TooFew(InterlockError):
    """A batch behind which too few organisations stand."""

    code = "batch-too-small"


@dataclass(frozen=True)
class Statement:
    """What a batch showed: each of `places` was seen, or called a false positive, by at least so many organisations.

    `shown` is how its reports proved membership, `least_age` of how many days at least; [start, end) is the batch,
    `until` when what it says ends, in microseconds. `collector` is the key that signed it. `data` is its one spelling.
    """

    task: str
    task_id: str
    catalog: str
    counts: str
    at_least: int
    shown: str
    least_age: int
    start: int
    end: int
    until: int
    demo: bool
    places: tuple[str, ...]
    collector: str
    data: bytes = field(repr=False)

    @property
    def digest(self) -> str:
        return sha256_hex(self.data)


@dataclass(frozen=True)
class Accepted:
    """An indicator that enough saw: how many at least, until when it holds, and the statement it rests on."""

    at_least: int
    until: int
    statement: str


@dataclass(frozen=True)
class Standing:
    """What follows from some statements: by place, what is in force, what is disputed, what ended when."""

    accepted: Mapping[str, Accepted]
    disputed: Mapping[str, Accepted]
    ended: Mapping[str, int]
    weak: tuple[str, ...]  # statements, by digest, that bring nothing into force


def needed(least_age: int, *, demo: bool = False) -> int:
    """How many organisations it takes, of members that were enrolled for at least so many days: 20, 15 or 10."""
    if demo:
        return DEMO_LEAST
    return max(LEAST, LEAST * _FACTORS[least_age] // 10)


def agreed(
    catalog: Catalog, counts: Sequence[int], reports: int, *, threshold: int, demo: bool = False, noisy: bool = False
) -> tuple[str, ...]:
    """The places that at least `threshold` of `reports` organisations saw, in the catalog's order.

    A threshold under LEAST needs `demo`, and is never under DEMO_LEAST: the caller's mistake (ValueError). `noisy`
    sums may lie below zero or above the reports. Raises: TooFew, where fewer than `threshold` reported at all.
    """
    floor = DEMO_LEAST if demo else LEAST
    if threshold < floor:
        raise ValueError(f"a threshold of {threshold} is under the floor of {floor} organisations")
    if len(counts) != len(catalog.places) or (not noisy and any(not 0 <= c <= reports for c in counts)):
        raise ValueError("counts are one number a place, each from 0 to the number of reports")
    if reports < threshold:
        raise TooFew(
            f"has reports of {reports} organisations, and {threshold} are needed",
            where=f"task {catalog.task}",
            fix="wait for more members",
        )
    return tuple(place for place, count in zip(catalog.places, counts, strict=True) if count >= threshold)


def stated(catalog: Catalog, places: Sequence[str], collector: Ed25519Signer, **values: object) -> Statement:
    """The statement of a batch of a catalog, signed; `values` are its other fields. Raises: Malformed."""
    named = {"task": catalog.task, "catalog": catalog.digest, "counts": catalog.counts, "places": list(places)}
    return parse_consensus(made(_CONSENSUS, collector, **named, **values), where=f"consensus of {catalog.task}")


def parse_consensus(data: bytes, *, where: str) -> Statement:
    """Read a statement strictly, its signature checked; whose key that is, `demand_collector` asks.

    Raises: Malformed, BadSignature.
    """
    body = opened(_CONSENSUS, data, where=where)
    values: dict[str, Any] = {name: value for name, value in body.items() if name not in ("format", "v")}
    found = Statement(**{**values, "places": tuple(values["places"])}, data=data)
    known_task(found.task, where=where)
    for fault, there in _faults(found, values["places"]).items():
        if there:
            raise Malformed(f"holds {fault}", where=where)
    return found


def demand_collector(said: Statement, named: str | None, operators: Operators | None) -> str:
    """Who signed a statement, which has to be the collector whose key its task names (`named`, a text of base.keys).

    Returns the body that the commons' list says runs that collector; the key, where no list is published.
    Raises: BadSignature, for any other key, a task that names none, and a key that a published list does not have.
    """
    where = f"consensus of {said.task}"
    if named is None:
        told = "is of a task that names no collector, so nobody may speak of its sums"
        raise BadSignature(told, where=where, fix="make a new task with --collector KEY")
    if said.collector != named:
        told = f"is signed by {said.collector}, and its task's collector is {named}"
        raise BadSignature(told, where=where, fix="take it from its task's collector")
    body = named if operators is None else operators.runs("collector", [named])
    if body is None:
        told = f"is signed by {named}, which the commons lists as no collector's"
        raise BadSignature(told, where=where, fix="have the commons list the collector's key")
    return body


def _faults(found: Statement, places: Sequence[object]) -> Mapping[str, bool]:
    floor = DEMO_LEAST if found.demo else LEAST
    good = [isinstance(p, str) and (known_indicator(p) or p.startswith("rule:")) for p in places]
    return {
        "a digest that is none": not (is_sha256(found.task_id) and is_sha256(found.catalog)),
        "a purpose that is not known": found.counts not in (SIGHTINGS, FALSE_POSITIVES),
        f"a threshold under the floor of {floor}": not floor <= found.at_least < 1 << 53,
        "a proof or an age that is not known": found.shown not in _PROOFS or found.least_age not in AGES,
        "times out of order": not 0 <= found.start < found.end <= found.until < 1 << 62,
        f"more than {DAYS_MOST} days": found.until - found.end > DAYS_MOST * DAY_US,
        "places that are none, or twice": not all(good) or len(set(places)) != len(places),
    }


def standing(
    statements: Iterable[Statement], catalogs: Iterable[Catalog], now_us: int, *, demo: bool = False
) -> Standing:
    """Fold statements, oldest first, to what is in force now. `demo` lets statements of demonstrations count.

    Raises: Malformed, for a statement of a catalog that is not among `catalogs`, or of a place that it does not have.
    """
    known = {catalog.digest: catalog for catalog in catalogs}
    accepted, called, weak = dict[str, Accepted](), dict[str, Accepted](), list[str]()
    for said in sorted(set(statements), key=lambda s: (s.end, s.digest)):
        _demand_known(said, known)
        if not said.shown or (said.demo and not demo) or said.at_least < needed(said.least_age, demo=said.demo):
            weak.append(said.digest)
            continue
        if said.counts == FALSE_POSITIVES and said.until <= now_us:
            continue  # such a word ends like any other
        row = Accepted(said.at_least, said.until, said.digest)
        rows, stronger = (accepted, _later) if said.counts == SIGHTINGS else (called, _more)
        rows.update({p: stronger(rows[p], row) if p in rows else row for p in said.places})
    disputed = {p: w for p, w in called.items() if p not in accepted or w.at_least >= accepted[p].at_least}
    indicators = {p: a for p, a in accepted.items() if known_indicator(p)}
    ended = {p: a.until for p, a in indicators.items() if a.until <= now_us}
    return Standing(
        {p: a for p, a in indicators.items() if p not in ended and p not in disputed},
        {p: w for p, w in disputed.items() if p not in ended},
        ended,
        tuple(weak),
    )


def _later(before: Accepted, row: Accepted) -> Accepted:
    return before if before.until > row.until else row


def _more(before: Accepted, row: Accepted) -> Accepted:
    return before if before.at_least > row.at_least else row


def _demand_known(said: Statement, known: Mapping[str, Catalog]) -> None:
    """Raises: Malformed."""
    catalog = known.get(said.catalog)
    if catalog is None or (catalog.task, catalog.counts) != (said.task, said.counts):
        told = "is of a catalog that is not the one of its task"
        raise Malformed(told, where=f"consensus of {said.task}", fix="take its catalog from the commons")
    if not set(said.places) <= set(catalog.places):
        raise Malformed("names a place that its catalog does not have", where=f"consensus of {said.task}")
