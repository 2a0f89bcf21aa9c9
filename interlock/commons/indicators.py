"""What may be counted, and what the counts become: a task's catalog, and packs of indicators.

A catalog fixes the places of a report before the epoch begins, so nobody can ask for more afterwards:

    {"format": "interlock-catalog", "v": 1, "task": "hosts-1", "opens_at": MICROSECONDS,
     "places": ["rule:fs.destroy", "host:DIGEST", ...]}

`rule:` is a rule's id; `host:` a digest of a host name that was proposed beforehand. It is canonical JSON, a signed
target (`catalogs/<task>.json`) and an entry of the log. What enough organisations saw becomes an indicator pack,
which a reviewer's key signs.
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

__all__ = ["MAX_CATALOG", "MAX_PLACES", "BadCatalog", "Catalog", "build_catalog", "indicator_pack", "parse_catalog"]

FORMAT: Final = "interlock-catalog"
VERSION: Final = 1
MAX_CATALOG: Final = 1 << 20  # bytes
MAX_PLACES: Final = 4096
_TASK: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_PLACE: Final = re.compile(r"host:[0-9a-f]{64}|rule:[A-Za-z0-9][A-Za-z0-9._/-]{0,126}", re.ASCII)
_HOST: Final = "host:"


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

    @property
    def digest(self) -> str:
        return sha256_hex(self.data)

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
) -> Catalog:
    """A catalog of rule ids and candidate indicators (`host:DIGEST`), in that order, each once.

    `redacting` are the ids of rules that mask: they have no place, and naming one is refused.
    Raises: BadCatalog.
    """
    named = list(dict.fromkeys(rules))
    masking = sorted(set(named) & set(redacting))
    if masking:
        raise BadCatalog("masks what it finds, and is never counted", where=f"rule {masking[0]}")
    places = [*(f"rule:{name}" for name in named), *dict.fromkeys(indicators)]
    body = {"format": FORMAT, "v": VERSION, "task": task, "opens_at": opens_at, "places": places}
    return parse_catalog(canonical.encode(body), where=f"catalog {task}")


def parse_catalog(data: bytes, *, where: str) -> Catalog:
    """Read a catalog strictly. Raises: BadCatalog, in one line."""
    try:
        body = canonical.known_object(data, FORMAT, VERSION, most=MAX_CATALOG, where=where)
    except NotCanonical as e:
        raise BadCatalog(e.what, where=where) from None
    if set(body) != {"format", "v", "task", "opens_at", "places"}:
        raise BadCatalog("has other fields than task, opens_at and places", where=where)
    task, opens_at = body["task"], body["opens_at"]
    if not isinstance(task, str) or not _TASK.fullmatch(task):
        raise BadCatalog("task is not of a-z, 0-9 and '-', 1 to 63 long", where=where)
    if type(opens_at) is not int or not 0 <= opens_at < 2**63:
        raise BadCatalog("opens_at is not a time in microseconds", where=where)
    return Catalog(task, opens_at, _places(body["places"], where), data)


def indicator_pack(
    name: str,
    version: int,
    indicators: Sequence[str],
    *,
    authors: Sequence[str],
    signed_off_by: Sequence[str] = (),
    licence: str = "CC0-1.0",
    organisations: int = 0,
    fires: Sequence[Mapping[str, object]] = (),
) -> Pack:
    """A pack with one rule that blocks calls to hosts that many saw (`host:DIGEST`).

    `organisations` is the least number that saw each; `fires` are example calls that must meet it, if they are known.
    Raises: BadPack, BadCatalog (what is no host indicator).
    """
    hosts = sorted(set(indicators))
    wrong = [i for i in hosts if not (i.startswith(_HOST) and _PLACE.fullmatch(i))]
    if wrong or not hosts:
        raise BadCatalog("is not a list of host indicators", where=name)
    seen = f" by {organisations} organisations" if organisations else ""
    rule: dict[str, object] = {
        "id": f"{name}.host",
        "phase": "call",
        "when": {
            "detector": "indicator",
            "params": {"kind": "host", "digests": [h.removeprefix(_HOST) for h in hosts]},
        },
        "verdict": "block",
        "reason": f"the host was reported{seen}",
        "examples": {
            "fires": [dict(event) for event in fires],
            "passes": [{"action": "Bash", "args": {"command": "ls -l"}}],
        },
    }
    return build_pack(
        name, version, [rule], licence=licence, authors=authors, signed_off_by=signed_off_by, kind="indicator"
    )


def _places(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_PLACES:
        raise BadCatalog(f"places is not a list of 1 to {MAX_PLACES} places", where=where)
    for i, place in enumerate(value):
        if not isinstance(place, str) or not _PLACE.fullmatch(place):
            raise BadCatalog(f"place {i} is neither rule:ID nor host:DIGEST", where=where)
    if len(set(value)) != len(value):
        raise BadCatalog("has a place twice", where=where)
    return tuple(value)
