"""What may be counted, and what the counts become: a task's catalog, and packs of indicators.

A catalog fixes the places of a report before the epoch begins, so nobody can ask for more afterwards:

    {"format": "interlock-catalog", "v": 2, "task": "hosts-1", "opens_at": MICROSECONDS, "counts": "sightings",
     "places": ["rule:fs.destroy", "host:DIGEST", "package:DIGEST", ...]}

counts     sightings: what a guard objected to; false-positives: what a person said should not have been
places     `rule:` and a rule's id, or an indicator that a person proposed beforehand: its kind and a digest

It is canonical JSON, a signed target (`catalogs/<task>.json`) and an entry of the log. What enough organisations saw
becomes an indicator pack, which a reviewer's key signs.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from interlock.base import canonical
from interlock.base.canonical import NotCanonical
from interlock.base.errors import InterlockError
from interlock.commons.pack import Pack, build_pack, sha256_hex
from interlock.engine.detectors.indicator import KINDS, host_indicator, indicator_of
from interlock.engine.detectors.secrets import redacted_secrets

__all__ = [
    "FALSE_POSITIVES",
    "MAX_CATALOG",
    "MAX_PLACES",
    "MAX_PROPOSAL",
    "SIGHTINGS",
    "BadCatalog",
    "Catalog",
    "build_catalog",
    "build_proposal",
    "indicator_pack",
    "known_indicator",
    "parse_catalog",
    "parse_proposal",
]

FORMAT: Final = "interlock-catalog"
VERSION: Final = 2
SIGHTINGS: Final = "sightings"
FALSE_POSITIVES: Final = "false-positives"
MAX_CATALOG: Final = 1 << 20  # bytes
MAX_PLACES: Final = 4096
MAX_PROPOSAL: Final = 4096  # bytes
_TASK: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_INDICATOR: Final = re.compile(rf"(?:{'|'.join(KINDS)}):[0-9a-f]{{64}}", re.ASCII)
_RULE: Final = re.compile(r"rule:[A-Za-z0-9][A-Za-z0-9._/-]{0,126}", re.ASCII)
_PROPOSAL: Final = "interlock-indicator-proposal"
# names below which others have their own, so that they say nothing of one of them: countries' and platforms'
_COUNTRIES: Final = ("ar", "au", "br", "cn", "id", "il", "in", "jp", "kr", "mx", "nz", "tr", "tw", "uk", "za")
_SECOND: Final = ("ac", "co", "com", "edu", "gov", "net", "or", "org")
_PLATFORMS: Final = (
    *("amazonaws.com", "appspot.com", "azurewebsites.net", "blogspot.com", "cloudfront.net", "github.io", "gitlab.io"),
    *("herokuapp.com", "netlify.app", "ngrok.io", "pages.dev", "vercel.app", "web.app", "workers.dev"),
)
_NOUNS: Final[Mapping[str, str]] = {"file": "file", "host": "host", "mcp": "MCP listing", "package": "package"}


class BadCatalog(InterlockError):
    """A task's catalog that cannot be counted by."""

    code = "task-refused"


@dataclass(frozen=True)
class Catalog:
    """The ordered places of a task's reports; none counts before `opens_at` (microseconds UTC)."""

    task: str
    opens_at: int
    places: tuple[str, ...]
    data: bytes = field(repr=False)
    counts: str = SIGHTINGS

    @functools.cached_property
    def digest(self) -> str:
        return sha256_hex(self.data)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What its places are of: `rule`, and kinds of indicators."""
        return tuple(sorted({place.partition(":")[0] for place in self.places}))

    @functools.cached_property
    def index(self) -> Mapping[str, int]:
        """Place -> its position in a report."""
        return {place: i for i, place in enumerate(self.places)}


def build_catalog(
    task: str,
    *,
    opens_at: int,
    rules: Iterable[str] = (),
    indicators: Iterable[str] = (),
    redacting: Iterable[str] = (),
    counts: str = SIGHTINGS,
) -> Catalog:
    """A catalog of rule ids and candidate indicators (`host:DIGEST` and alike), in that order, each once.

    `redacting` are the ids of rules that mask: they have no place, and naming one is refused.
    Raises: BadCatalog.
    """
    named = list(dict.fromkeys(rules))
    masking = sorted(set(named) & set(redacting))
    if masking:
        raise BadCatalog("masks what it finds, and is never counted", where=f"rule {masking[0]}")
    places = [*(f"rule:{name}" for name in named), *dict.fromkeys(indicators)]
    named_fields = {"format": FORMAT, "v": VERSION, "task": task, "opens_at": opens_at}
    body = {**named_fields, "counts": counts, "places": places}
    return parse_catalog(canonical.encode(body), where=f"catalog {task}")


def parse_catalog(data: bytes, *, where: str) -> Catalog:
    """Read a catalog strictly. Raises: BadCatalog, in one line."""
    try:
        body = canonical.known_object(data, FORMAT, VERSION, most=MAX_CATALOG, where=where)
    except NotCanonical as e:
        raise BadCatalog(e.what, where=where) from None
    if set(body) != {"format", "v", "task", "opens_at", "counts", "places"}:
        raise BadCatalog("has other fields than task, opens_at, counts and places", where=where)
    task, opens_at, counts = body["task"], body["opens_at"], body["counts"]
    if not isinstance(task, str) or not _TASK.fullmatch(task):
        raise BadCatalog("task is not of a-z, 0-9 and '-', 1 to 63 long", where=where)
    if type(opens_at) is not int or not 0 <= opens_at < 2**63:
        raise BadCatalog("opens_at is not a time in microseconds", where=where)
    if counts not in (SIGHTINGS, FALSE_POSITIVES):
        raise BadCatalog("counts neither sightings nor false-positives", where=where)
    return Catalog(task, opens_at, _places(body["places"], where), data, str(counts))


def build_proposal(kind: str, value: str) -> bytes:
    """A person's proposal of one candidate, as a file for a curator: its kind and digest, and nothing else.

    Raises: BadCatalog, for what is private, of no closed kind, or a name under which many have theirs.
    """
    try:
        indicator = indicator_of(kind, value)
    except ValueError as e:
        raise BadCatalog(str(e), where=f"a {kind}", fix="propose nothing that only you would know") from None
    if kind in ("host", "package") and redacted_secrets(value)[1]:
        raise BadCatalog("holds what looks like a secret", where=f"a {kind}", fix="propose its name alone")
    if kind == "host" and _is_shared(indicator):
        raise BadCatalog("is a name under which many have theirs", where="a host", fix="propose the one host")
    return canonical.encode({"format": _PROPOSAL, "v": 1, "indicator": indicator})


def parse_proposal(data: bytes, *, where: str) -> str:
    """The indicator that a proposal names. Raises: BadCatalog."""
    try:
        body = canonical.known_object(data, _PROPOSAL, 1, most=MAX_PROPOSAL, where=where)
    except NotCanonical as e:
        raise BadCatalog(e.what, where=where) from None
    indicator = body.get("indicator")
    if set(body) != {"format", "v", "indicator"} or not known_indicator(indicator):
        raise BadCatalog("is no proposal of an indicator", where=where)
    return str(indicator)


def _is_shared(indicator: str) -> bool:
    """Whether a host is a public suffix, as far as a short table knows: by digest, as that is in normal form."""
    return indicator in _shared()


@functools.cache
def _shared() -> frozenset[str]:
    countries = (f"{second}.{first}" for first in _COUNTRIES for second in _SECOND)
    return frozenset(map(host_indicator, (*countries, *_PLATFORMS)))


def known_indicator(text: object) -> bool:
    """Whether a value is an indicator in its one spelling: a closed kind and 64 hex digits."""
    return isinstance(text, str) and _INDICATOR.fullmatch(text) is not None


def indicator_pack(
    name: str,
    version: int,
    indicators: Sequence[str],
    *,
    authors: Sequence[str],
    signed_off_by: Sequence[str] = (),
    organisations: int = 0,
    disputed: Sequence[str] = (),
    results: Sequence[str] = (),
) -> Pack:
    """A pack with a rule a kind, which blocks calls that name what many saw (`host:DIGEST` and alike).

    `organisations` is the least number that saw each. What is `disputed` goes into rules in shadow: seen, and felt by
    nobody. `results` are digests of what the pack rests on.
    Raises: BadPack, BadCatalog (what is no indicator).
    """
    wrong = [i for i in (*indicators, *disputed) if not known_indicator(i)]
    if wrong or not (indicators or disputed):
        raise BadCatalog("is not a list of indicators", where=name)
    rules = [
        _indicator_rule(name, kind, [i for i in given if i.startswith(f"{kind}:")], organisations, shadow=shadow)
        for given, shadow in ((sorted(set(indicators)), False), (sorted(set(disputed) - set(indicators)), True))
        for kind in KINDS
        if any(i.startswith(f"{kind}:") for i in given)
    ]
    return build_pack(
        name,
        version,
        rules,
        licence="CC0-1.0",
        authors=authors,
        signed_off_by=signed_off_by,
        kind="indicator",
        results=results,
    )


def _indicator_rule(
    name: str, kind: str, indicators: Sequence[str], organisations: int, *, shadow: bool
) -> dict[str, object]:
    seen = f" by at least {organisations} organisations" if organisations else ""
    rule: dict[str, object] = {
        "id": f"{name}.{kind}.disputed" if shadow else f"{name}.{kind}",
        "phase": "call",
        "when": {
            "detector": "indicator",
            "params": {"kind": kind, "digests": [i.removeprefix(f"{kind}:") for i in indicators]},
        },
        "verdict": "block",
        "reason": f"the {_NOUNS[kind]} was reported{seen}",
        "examples": {"fires": [], "passes": [{"action": "Bash", "args": {"command": "ls -l"}}]},
    }
    return {**rule, "shadow": True} if shadow else rule


def _places(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_PLACES:
        raise BadCatalog(f"places is not a list of 1 to {MAX_PLACES} places", where=where)
    for i, place in enumerate(value):
        if not (known_indicator(place) or (isinstance(place, str) and _RULE.fullmatch(place))):
            raise BadCatalog(f"place {i} is neither rule:ID nor an indicator", where=where)
    if len(set(value)) != len(value):
        raise BadCatalog("has a place twice", where=where)
    return tuple(value)
