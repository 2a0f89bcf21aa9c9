"""network_egress: a call may reach only the hosts on a list.

Judged are values that are URLs, whatever they are called; arguments that by their name hold a URL or a host; and the
hosts that network programs in a `command` are given. What cannot be read as one host only is refused. An entry is a
host ("api.internal"), which means just that host, or "*.api.internal", which means the hosts below it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from interlock.engine.decision import Decision
from interlock.engine.detectors.commands import hosts_in_command
from interlock.engine.detectors.hosts import BadHost, host_of_url, normal_host
from interlock.engine.detectors.spec import DetectorSpec, checked_params
from interlock.engine.detectors.walk import texts
from interlock.engine.event import SensorEvent
from interlock.engine.policy.model import RuleFunction

__all__ = ["DETECTORS", "hosts_of_call"]

_ID: Final = "network_egress"
_PARAMS: Final[dict[str, type | tuple[type, ...]]] = {"allowed_hosts": (list, tuple)}
_WORDS: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
_URL_NAMES: Final = frozenset({"url", "uri", "href", "endpoint", "webhook"})
_HOST_NAMES: Final = frozenset({"host", "hostname"})
_COMMANDS: Final = frozenset({"command", "cmd"})
_URL_START: Final = re.compile(
    r"[\s\x00-\x1f]{0,64}(?:(?:https?|wss?|ftp):|[a-z][a-z0-9+.\-]{0,31}:[\\/]{2})", re.IGNORECASE
)
_DROPPED: Final = str.maketrans("", "", "\t\n\r")  # what URL parsers drop wherever it stands
_BLANK: Final = re.compile(r"\s")


def hosts_of_call(event: SensorEvent) -> Iterator[str]:
    """The normal forms of the hosts that a call leads to. Raises: BadHost, where one cannot be read."""
    for _, key, text in texts(event.args):
        yield from _hosts(key, text)


def _build(params: Mapping[str, object]) -> RuleFunction:
    given = checked_params(_ID, params, _PARAMS).get("allowed_hosts")
    if not isinstance(given, list | tuple):
        raise ValueError(f"detector {_ID} needs allowed_hosts, a list of hosts")
    allowed = _allowlist(given)

    def network_egress(event: SensorEvent) -> Decision | None:
        for path, key, text in texts(event.args):
            try:
                refused = next((host for host in _hosts(key, text) if not allowed(host)), None)
            except BadHost as e:
                return Decision.block(f"egress to a host that cannot be read: {e}", _ID, path)
            if refused is not None:
                return Decision.block(f"egress to '{refused}' is not on the destination allowlist", _ID, path)
        return None

    return network_egress


def _allowlist(entries: Iterable[object]) -> Callable[[str], bool]:
    """A test of normal hosts. Raises: ValueError, for an entry that is no host."""
    exact: set[str] = set()
    below: list[str] = []
    for entry in entries:
        if not isinstance(entry, str):
            raise ValueError(f"detector {_ID}: an allowed host is a text, not a {type(entry).__name__}")
        try:
            if entry.startswith("*."):
                below.append("." + normal_host(entry[2:]))
            else:
                exact.add(normal_host(f"[{entry}]" if entry.count(":") > 1 and entry[0] != "[" else entry))
        except BadHost as e:
            raise ValueError(f"detector {_ID}: allowed host {entry!r} is no host ({e})") from None
    return lambda host: host in exact or any(host.endswith(end) and len(host) > len(end) for end in below)


def _hosts(key: str, text: str) -> Iterator[str]:
    """The hosts that one argument leads to. Raises: BadHost."""
    words = _WORDS.findall(key)
    kind = words[-1].lower() if words else ""
    if kind in _HOST_NAMES:
        host = host_of_url(text if _starts_as_url(text) else f"//{_bracketed(text.strip())}", bare=True)
    elif kind in _URL_NAMES:
        host = host_of_url(text, bare=True)
    elif kind in _COMMANDS and not _starts_as_url(text):
        yield from hosts_in_command(text)
        return
    else:
        host = _of_any_value(text)
    if host is not None:
        yield host


def _bracketed(host: str) -> str:
    return f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host


def _starts_as_url(text: str) -> bool:
    return _URL_START.match(text[:512].translate(_DROPPED)) is not None


def _of_any_value(text: str) -> str | None:
    """The host of a value that begins as a URL does. Raises: BadHost."""
    if not _starts_as_url(text):
        return None
    try:
        return host_of_url(text)
    except BadHost:
        before_path = re.split(r"[/\\]", text.strip().split(":", 1)[1].lstrip("/\\"), maxsplit=1)[0]
        if _BLANK.search(before_path):
            return None  # "https: is the scheme of ..." is prose: no client takes it for a URL
        raise


DETECTORS: Final = {
    _ID: DetectorSpec(
        _ID,
        _build,
        _PARAMS,
        redacts=False,
        phases=("call",),
        summary="blocks calls that lead to a host outside allowed_hosts",
        template="egress to {host} is not on the destination allowlist",
    )
}
