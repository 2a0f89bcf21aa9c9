"""indicator: fires where a call names something that the mesh has found to be shared by many attacks.

An indicator is a digest, so that a list of them does not say what nobody has seen; whoever has a guess can hold it
against the list. Catalogs and packs write it as its kind, ":" and 64 hex digits. The kinds are closed:

    host       a public host that a URL or a network command names
    package    ECOSYSTEM:NAME@VERSION that a command installs, or @* for all of its versions
    file       the SHA-256 of a file: of what a call writes, or as an argument names it
    mcp        the pinned listing of an MCP server's tool (SensorEvent.server_pin)

Never part of one: a free text, a path, a host inside a network.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from interlock.base.canonical import digest
from interlock.engine.decision import Decision
from interlock.engine.detectors.commands import hosts_in_command
from interlock.engine.detectors.hosts import BadHost, host_of_url, is_public, normal_host, urls_in_text
from interlock.engine.detectors.installs import normal_package, packages_in_command
from interlock.engine.detectors.spec import DetectorSpec, checked_params
from interlock.engine.detectors.walk import texts
from interlock.engine.event import SensorEvent
from interlock.engine.policy.model import RuleFunction

__all__ = ["DETECTORS", "KINDS", "host_indicator", "hosts_of", "indicated", "indicator_of", "indicators_of"]

KINDS: Final = ("file", "host", "mcp", "package")
_ID: Final = "indicator"
_REASON: Final = "the call names what is a known indicator of attacks"
_REASON_HOST: Final = "the call names a host that is a known indicator of attacks"
_DOMAIN: Final = "interlock/indicator/{}/v1"
_PARAMS: Final[dict[str, type | tuple[type, ...]]] = {"digests": (list, tuple), "kind": str}
_HEX: Final = re.compile(r"(?:(file|host|mcp|package):)?([0-9a-f]{64})\Z")
_SHA256: Final = re.compile(r"(?<![0-9A-Za-z])[0-9A-Fa-f]{64}(?![0-9A-Za-z])")
_PREFIXES: Final = ", ".join(f"'{kind}:'" for kind in KINDS)
_CONTENTS: Final = frozenset({"content", "contents", "file_text"})  # what a call writes into a file, whole
_COMMANDS: Final = frozenset({"command", "cmd"})
_TEXT_LIMIT: Final = 262_144  # characters of one text that are looked at
_ADDRESS: Final = re.compile(r"(?<!\d)(\d{1,3})[.-](\d{1,3})[.-](\d{1,3})[.-](\d{1,3})(?!\d)")
_HEAD: Final = re.compile(r"[^/?#\\]+://[^/?#\\]+[/?#]")
_MOST: Final = 256  # of each kind, of one event


def host_indicator(host: str) -> str:
    """The indicator of a host in its normal form."""
    return _indicator("host", host)


def indicator_of(kind: str, value: str) -> str:
    """The indicator of something that a person names: a host, ECOSYSTEM:NAME@VERSION, or the SHA-256 of the others.

    Raises: ValueError, as `indicated`.
    """
    return _indicator(kind, indicated(kind, value))


def indicated(kind: str, value: str) -> str:
    """What a person names, in the one form that its digest is of.

    Raises: ValueError, for another kind, what is not of its kind, and a host that is not public: also that of a Go
    module, and a name that spells an address inside a network, as wildcard names do (10-0-0-1.dns.example).
    """
    if kind == "host":
        return _outside(normal_host(value))
    if kind == "package":
        package = normal_package(value)
        if package.startswith("go:"):
            _outside(normal_host(re.split("[/@]", package[3:])[0]))
        return package
    if kind not in KINDS or not re.fullmatch(r"[0-9a-f]{64}", value):
        told = "is no SHA-256, 64 lower-case hex digits" if kind in KINDS else f"is no kind ({', '.join(KINDS)})"
        raise ValueError(told)
    return value


def indicators_of(event: SensorEvent, kinds: Iterable[str] = KINDS) -> frozenset[str]:
    """The indicators of what a call names, of some kinds: public hosts, packages, files, the tool's pinned listing."""
    return frozenset(itertools.chain.from_iterable(itertools.islice(_OF[kind](event), _MOST) for kind in kinds))


def _outside(host: str) -> str:
    """A host that is public, and spells no address that is not. Raises: ValueError."""
    spelled = (".".join(found) for found in _ADDRESS.findall(host))
    if not is_public(host) or not all(_is_public_address(address) for address in spelled):
        raise ValueError("is a host inside a network, which is nobody else's business")
    return host


def _is_public_address(text: str) -> bool:
    try:
        return is_public(normal_host(text))
    except BadHost:  # numbers that are no address
        return True


def _hosts(event: SensorEvent) -> Iterator[str]:
    return (host_indicator(host) for _, host in hosts_of(event) if is_public(host))


def _packages(event: SensorEvent) -> Iterator[str]:
    for _, key, text in texts(event.args):
        for package in packages_in_command(text) if key in _COMMANDS else ():
            name, _, version = package.rpartition("@")
            yield _indicator("package", f"{name}@*")
            if version:
                yield _indicator("package", package)


def _files(event: SensorEvent) -> Iterator[str]:
    for _, key, text in texts(event.args):
        for named in _SHA256.findall(text[:_TEXT_LIMIT]):
            yield _indicator("file", named.lower())
        if key in _CONTENTS:
            yield _indicator("file", hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())


def _servers(event: SensorEvent) -> Iterator[str]:
    if event.server_pin is not None and re.fullmatch(r"[0-9a-f]{64}", event.server_pin):
        yield _indicator("mcp", event.server_pin)


_OF: Final[Mapping[str, Callable[[SensorEvent], Iterator[str]]]] = {
    "file": _files,
    "host": _hosts,
    "mcp": _servers,
    "package": _packages,
}


def _indicator(kind: str, value: str) -> str:
    return f"{kind}:{digest(_DOMAIN.format(kind), value).hex()}"


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
    kind = checked.get("kind", "host")
    if kind not in KINDS:
        raise ValueError(f"detector {_ID}: kind is one of {', '.join(KINDS)}")
    given = checked.get("digests")
    if not isinstance(given, list | tuple):
        raise ValueError(f"detector {_ID} needs digests, a list of 64 hex digits each")
    wanted = _digests(given, str(kind))
    kinds = sorted({found.partition(":")[0] for found in wanted})
    reason = _REASON_HOST if kinds == ["host"] else _REASON

    def indicator(event: SensorEvent) -> Decision | None:
        if not wanted or wanted.isdisjoint(indicators_of(event, kinds)):
            return None
        return Decision.block(reason, _ID)

    return indicator


def _digests(given: Iterable[object], kind: str) -> frozenset[str]:
    """The indicators of a list; a digest that names no kind is of `kind`. Raises: ValueError."""
    found = set()
    for item in given:
        match = _HEX.match(item) if isinstance(item, str) else None
        if match is None:
            raise ValueError(f"detector {_ID}: a digest is 64 lower-case hex digits, after one of {_PREFIXES} or none")
        found.add(f"{match.group(1) or kind}:{match.group(2)}")
    return frozenset(found)


DETECTORS: Final = {
    _ID: DetectorSpec(
        _ID,
        _build,
        _PARAMS,
        redacts=False,
        phases=("call",),
        summary="fires where a call names a host, package, file or MCP listing whose digest is listed",
        template=_REASON,
    )
}
