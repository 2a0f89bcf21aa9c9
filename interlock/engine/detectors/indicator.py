"""indicator: fires where a call names a host that the mesh has found to be shared by many attacks.

An indicator is a digest, so that a list of them says nothing about hosts nobody has seen: the catalog and the packs
write it as `host:` and 64 hex digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from interlock.base.canonical import digest
from interlock.engine.decision import Decision
from interlock.engine.detectors.commands import hosts_in_command
from interlock.engine.detectors.hosts import BadHost, host_of_url, is_public, urls_in_text
from interlock.engine.detectors.spec import DetectorSpec, checked_params
from interlock.engine.detectors.walk import texts
from interlock.engine.event import SensorEvent
from interlock.engine.policy.model import RuleFunction

__all__ = ["DETECTORS", "host_indicator", "hosts_of", "indicators_of"]

_ID: Final = "indicator"
_REASON: Final = "the call names a host that is a known indicator of attacks"
_DOMAIN: Final = "interlock/indicator/host/v1"
_PARAMS: Final[dict[str, type | tuple[type, ...]]] = {"digests": (list, tuple), "kind": str}
_HEX: Final = re.compile(r"(?:host:)?([0-9a-f]{64})\Z")
_COMMANDS: Final = frozenset({"command", "cmd"})
_TEXT_LIMIT: Final = 262_144  # characters of one text that are looked at
_HEAD: Final = re.compile(r"[^/?#\\]+://[^/?#\\]+[/?#]")
_HOST_LIMIT: Final = 256  # hosts of one event


def host_indicator(host: str) -> str:
    """The indicator of a host in its normal form."""
    return f"host:{digest(_DOMAIN, host).hex()}"


def indicators_of(event: SensorEvent) -> frozenset[str]:
    """The indicators of every public host that a call's arguments name: in URLs, and in network commands."""
    found = set[str]()
    for _, host in hosts_of(event):
        if is_public(host):
            found.add(host_indicator(host))
            if len(found) >= _HOST_LIMIT:
                break
    return frozenset(found)


def hosts_of(event: SensorEvent) -> Iterator[tuple[str, str]]:
    """Every host that a call's arguments name, once, with the path of the argument that names it first."""
    seen = set[str]()
    for path, key, text in texts(event.args):
        for host in _named(key, text[:_TEXT_LIMIT]):
            if host not in seen:
                seen.add(host)
                yield path, host


def _named(key: str, text: str) -> Iterator[str]:
    heads = set[str]()  # of URLs that were read: nothing after it changes the host
    for url in urls_in_text(text):
        head = _HEAD.match(url)
        if head is not None:
            if head.group() in heads:
                continue
            heads.add(head.group())
        try:
            host = host_of_url(url)
        except BadHost:
            continue
        if host is not None:
            yield host
    if key in _COMMANDS:
        yield from hosts_in_command(text)


def _build(params: Mapping[str, object]) -> RuleFunction:
    checked = checked_params(_ID, params, _PARAMS)
    if checked.get("kind", "host") != "host":
        raise ValueError(f"detector {_ID}: kind can be 'host' only")
    given = checked.get("digests")
    if not isinstance(given, list | tuple):
        raise ValueError(f"detector {_ID} needs digests, a list of 64 hex digits each")
    wanted = _digests(given)

    def indicator(event: SensorEvent) -> Decision | None:
        if not wanted or wanted.isdisjoint(indicators_of(event)):
            return None
        return Decision.block(_REASON, _ID)

    return indicator


def _digests(given: Iterable[object]) -> frozenset[str]:
    """Raises: ValueError."""
    found = set()
    for item in given:
        match = _HEX.match(item) if isinstance(item, str) else None
        if match is None:
            raise ValueError(f"detector {_ID}: a digest is 64 lower-case hex digits, with or without 'host:'")
        found.add(f"host:{match.group(1)}")
    return frozenset(found)


DETECTORS: Final = {
    _ID: DetectorSpec(
        _ID,
        _build,
        _PARAMS,
        redacts=False,
        phases=("call",),
        summary="fires where a call names a host whose digest is listed",
        template=_REASON,
    )
}
