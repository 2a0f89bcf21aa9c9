"""Detectors of what a call carries out, and of where it leads.

private_network       a URL or network command that leads to this machine, a private network or cloud metadata
lookalike_host        a host name with letters of other alphabets, written out or as xn--
url_credentials       a password inside a URL
url_data              a URL whose query is long enough to carry data; an image whose URL has a query at all
encoded_payload       a long run of base64 or hex
oversized_text        an argument longer than a limit
shell_metacharacters  shell syntax in arguments that are to hold plain names
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from interlock.engine.decision import Decision
from interlock.engine.detectors.hosts import CLOUD_METADATA, is_public, urls_in_text
from interlock.engine.detectors.indicator import hosts_of
from interlock.engine.detectors.spec import DetectorSpec, checked_params
from interlock.engine.detectors.walk import texts
from interlock.engine.event import PHASES, Phase, SensorEvent
from interlock.engine.policy.model import RuleFunction

__all__ = ["DETECTORS"]

_CALL: Final[tuple[Phase, ...]] = ("call",)
_LIMIT: Final = 262_144  # characters of one text that are looked at
_USER: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,31}://[^\s/@:\"'<>$]{1,100}:[^\s/@\"'<>$]{1,200}@", re.ASCII)
_AUTHORITY: Final = re.compile(r"://([^\s/?#\"'<>\\]{1,300})", re.ASCII)
_IMAGE: Final = re.compile(r"!\[[^\]\n]{0,200}\]\(\s{0,9}[^\s)?]{1,500}\?[^\s)]{16}", re.ASCII)
_SHELL: Final = frozenset(";|&`$<>(){}\n\r\\")
_ENCODED: Final = re.compile(r"[A-Za-z0-9+/_=-]+")
_PAYLOAD: Final = 1024
_QUERY: Final = 512
_LONG: Final = 100_000


def _private_network(params: Mapping[str, object]) -> RuleFunction:
    given = checked_params("private_network", params, {"metadata_only": bool, "allowed_hosts": (list, tuple)})
    only = given.get("metadata_only", False)
    allowed = _strings("private_network", "allowed_hosts", given.get("allowed_hosts", ()))

    def rule(event: SensorEvent) -> Decision | None:
        for path, host in hosts_of(event):
            if host in allowed or not (host in CLOUD_METADATA or (not only and not is_public(host))):
                continue
            where = "a cloud's metadata service" if host in CLOUD_METADATA else "this machine or a private network"
            return Decision.block(f"the call leads to {where}", "private_network", path)
        return None

    return rule


def _lookalike_host(params: Mapping[str, object]) -> RuleFunction:
    checked_params("lookalike_host", params, {})
    reason = "the call names a host with letters of another alphabet"

    def strange(text: str) -> bool:
        return any(not host.isascii() or "xn--" in host.lower() for host in _AUTHORITY.findall(text))

    return _over_texts("lookalike_host", strange, reason)


def _url_credentials(params: Mapping[str, object]) -> RuleFunction:
    checked_params("url_credentials", params, {})
    return _over_texts("url_credentials", lambda text: _USER.search(text) is not None, "a URL holds a password")


def _url_data(params: Mapping[str, object]) -> RuleFunction:
    least = _positive("url_data", params, _QUERY)

    def carries(text: str) -> bool:
        if "?" not in text:
            return False
        return _IMAGE.search(text) is not None or any(len(url.partition("?")[2]) >= least for url in urls_in_text(text))

    return _over_texts("url_data", carries, "a URL carries data in its query")


def _encoded_payload(params: Mapping[str, object]) -> RuleFunction:
    least = _positive("encoded_payload", params, _PAYLOAD)

    def carries(text: str) -> bool:
        return len(text) >= least and any(len(run) >= least for run in _ENCODED.findall(text))

    return _over_texts("encoded_payload", carries, "an argument holds a long encoded text")


def _oversized_text(params: Mapping[str, object]) -> RuleFunction:
    name = "oversized_text"
    least = _positive(name, params, _LONG)

    def rule(event: SensorEvent) -> Decision | None:
        for path, _, text in texts(event.args):
            if len(text) >= least:
                return Decision.block(f"an argument has {least} characters or more", name, path)
        return None

    return rule


def _shell_metacharacters(params: Mapping[str, object]) -> RuleFunction:
    name = "shell_metacharacters"
    given = checked_params(name, params, {"args": (list, tuple)})
    wanted = _strings(name, "args", given.get("args", ()))
    if not wanted:
        raise ValueError(f"detector {name} needs args, a list of argument names")

    def rule(event: SensorEvent) -> Decision | None:
        for path, key, text in texts(event.args):
            if key in wanted and not _SHELL.isdisjoint(text[:_LIMIT]):
                return Decision.block("an argument that is to hold a plain name holds shell syntax", name, path)
        return None

    return rule


def _over_texts(name: str, holds: Callable[[str], bool], reason: str) -> RuleFunction:
    def rule(event: SensorEvent) -> Decision | None:
        for path, _, text in texts(event.args):
            if holds(text[:_LIMIT]):
                return Decision.block(reason, name, path)
        return None

    return rule


def _positive(name: str, params: Mapping[str, object], default: int) -> int:
    """The parameter at_least. Raises: ValueError."""
    least = checked_params(name, params, {"at_least": int}).get("at_least", default)
    if not isinstance(least, int) or least < 1:
        raise ValueError(f"detector {name}: at_least is a number of characters, 1 or more")
    return least


def _strings(name: str, param: str, given: object) -> frozenset[str]:
    """Raises: ValueError."""
    if not isinstance(given, list | tuple) or not all(isinstance(item, str) for item in given):
        raise ValueError(f"detector {name}: {param} is a list of texts")
    return frozenset(given)


def _specs() -> Iterator[DetectorSpec]:
    least: dict[str, type | tuple[type, ...]] = {"at_least": int}
    yield DetectorSpec(
        "encoded_payload",
        _encoded_payload,
        least,
        redacts=False,
        phases=_CALL,
        summary=f"fires on a run of base64 or hex of at_least characters ({_PAYLOAD})",
        template="an argument holds a long encoded text",
    )
    yield DetectorSpec(
        "lookalike_host",
        _lookalike_host,
        {},
        redacts=False,
        phases=_CALL,
        summary="fires on a host name with letters of other alphabets, or its xn-- form",
        template="the call names a host with letters of another alphabet",
    )
    yield DetectorSpec(
        "private_network",
        _private_network,
        {"metadata_only": bool, "allowed_hosts": (list, tuple)},
        redacts=False,
        phases=_CALL,
        summary="fires where a call leads to this machine, a private network or cloud metadata",
        template="the call leads to {where}",
    )
    yield DetectorSpec(
        "oversized_text",
        _oversized_text,
        least,
        redacts=False,
        phases=PHASES,
        summary=f"fires on a text of at_least characters ({_LONG})",
        template="an argument has {at_least} characters or more",
    )
    yield DetectorSpec(
        "shell_metacharacters",
        _shell_metacharacters,
        {"args": (list, tuple)},
        redacts=False,
        phases=_CALL,
        summary="fires on shell syntax in the named arguments",
        template="an argument that is to hold a plain name holds shell syntax",
    )
    yield DetectorSpec(
        "url_credentials",
        _url_credentials,
        {},
        redacts=False,
        phases=PHASES,
        summary="fires on a URL that holds a password",
        template="a URL holds a password",
    )
    yield DetectorSpec(
        "url_data",
        _url_data,
        least,
        redacts=False,
        phases=PHASES,
        summary=f"fires on a URL with a query of at_least characters ({_QUERY}), and on an image with a query",
        template="a URL carries data in its query",
    )


DETECTORS: Final = {spec.name: spec for spec in _specs()}
