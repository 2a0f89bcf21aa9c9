"""Which host a text leads to, read so that no spelling hides it: the rules of the WHATWG URL standard, made stricter.

Where clients disagree about a spelling (a backslash or a second "@" before the host, percent signs in a host, octal
numbers in an address, characters that IDNA 2003 and 2008 map differently) there is no right answer, and it is refused.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

__all__ = ["CLOUD_METADATA", "BadHost", "host_of_url", "is_public", "normal_host", "urls_in_text"]

# hosts at which clouds hand out credentials to the machines that ask
CLOUD_METADATA: Final = frozenset(
    {"169.254.169.253", "169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "192.0.0.192"}
    | {"fd00:ec2::23", "fd00:ec2::254", "fd20:ce::254", "instance-data", "metadata", "metadata.azure.internal"}
    | {"metadata.goog", "metadata.google.internal"}
)
_SPECIAL: Final = frozenset({"http", "https", "ws", "wss", "ftp"})
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]{0,31}):")
_TRIMMED: Final = "".join(map(chr, range(0x21)))
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_NUMBER: Final = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)\Z")
_DEVIATING: Final = frozenset("\u00df\u1e9e\u03c2\u200c\u200d")  # sharp s, final sigma, joiners
_IN_TEXT: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]{0,31}\Z")
_URL_END: Final = re.compile(r"[\s\"'`<>|;(){},]")
_LOCAL: Final = ("localhost", "local", "internal", "lan", "home.arpa", "intranet", "corp", "test", "invalid")
_LOCAL_SUFFIXES: Final = (*_LOCAL, "home", "localdomain", "private", "in-addr.arpa", "ip6.arpa")
# prefixes of IPv6 that carry an IPv4 address in their last 32 bits: compatible, mapped, translated, NAT64
_CARRIERS: Final = tuple(map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")))
_MAX_HOST: Final = 1000
_MAX_SHOWN: Final = 2000


class BadHost(ValueError):
    """A host or URL that cannot be read in one way only."""


def host_of_url(text: str, *, bare: bool = False) -> str | None:
    """The normal form of the host that a URL leads to, or None where the text is no URL or names no host.

    `bare` is for a place that can hold nothing but a URL: there "evil.example/x" and "//evil.example" are URLs too.
    Raises: BadHost.
    """
    text = text.strip(_TRIMMED)
    text = text.replace("\t", "").replace("\n", "").replace("\r", "")
    scheme = _SCHEME.match(text)
    if scheme is None or (bare and text[scheme.end() : scheme.end() + 1].isdigit()):  # "host:8080"
        return _without_scheme(text) if bare else None
    name, rest = scheme.group(1).lower(), text[scheme.end() :]
    if name in _SPECIAL:
        return _authority(rest.lstrip("/\\"))
    if not rest.replace("\\", "/").startswith("//"):
        return None
    authority = rest[2:]
    if name == "file" and authority[:1] in ("", "/", "\\"):
        return None
    return _authority(authority)


def normal_host(text: str) -> str:
    """A host name in lower-case ASCII without its root dot, or an address in its usual form. Raises: BadHost."""
    if text.startswith("["):
        return _ipv6(text)
    if not text or len(text) > _MAX_HOST:
        raise BadHost("the host is empty or too long")
    if not text.isascii():
        text = _to_ascii(text)
    host = text.lower().removesuffix(".")
    labels = host.split(".")
    if len(host) > 253 or not all(map(_LABEL.match, labels)):
        raise BadHost("the host holds characters that no host has")
    return _ipv4(labels) if _NUMBER.match(labels[-1]) else host


def urls_in_text(text: str) -> list[str]:
    """Everything that looks like SCHEME://... in a text, each up to the next blank or quote or 2,000 characters."""
    found = []
    at, end = text.find("://"), -1  # up to its end nothing ends a URL, and is not read again for the next one
    while at >= 0:
        scheme = _IN_TEXT.search(text, at - 32 if at > 32 else 0, at)
        if scheme:
            if end < at + 3:
                ending = _URL_END.search(text, at + 3)
                end = ending.start() if ending else len(text)
            found.append(text[scheme.start() : end if end - at < _MAX_SHOWN else at + _MAX_SHOWN])
        at = text.find("://", at + 3)
    return found


def is_public(host: str) -> bool:
    """False for this machine, private networks and names that are no public ones."""
    if ":" in host or _NUMBER.match(host.rsplit(".", 1)[-1]):
        return _is_outside(ipaddress.ip_address(host))
    return "." in host and not any(host == s or host.endswith("." + s) for s in _LOCAL_SUFFIXES)


def _is_outside(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether an address is nobody's own, also by the IPv4 address that it carries for gateways and tunnels."""
    if isinstance(address, ipaddress.IPv6Address):
        carried = address.sixtofour
        if any(address in carrier for carrier in _CARRIERS):
            carried = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if address.is_site_local or (carried is not None and not _is_outside(carried)):
            return False
    return address.is_global and not address.is_multicast


def _without_scheme(text: str) -> str | None:
    if text.replace("\\", "/").startswith("//"):
        return _authority(text[2:])
    return None if text[:1] in ("", "/", "\\", "?", "#", ".") else _authority(text)


def _authority(rest: str) -> str:
    end = re.search(r"[/?#]|\Z", rest)
    assert end is not None
    authority = rest[: end.start()]
    if "\\" in authority:
        if "@" in authority:
            raise BadHost("a backslash stands before the host")
        authority = authority.split("\\", 1)[0]
    userinfo, _, place = authority.rpartition("@")
    if "@" in userinfo:
        raise BadHost("more than one @ stands before the host")
    host, port = _host_port(place)
    if port and not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise BadHost("the port is not a number")
    return normal_host(host)


def _host_port(place: str) -> tuple[str, str]:
    if place.startswith("["):
        host, bracket, after = place.partition("]")
        if not bracket or (after and not after.startswith(":")):
            raise BadHost("the address is not closed")
        return host + bracket, after[1:]
    host, _, port = place.partition(":")
    return host, port


def _to_ascii(text: str) -> str:
    if _DEVIATING & set(text):
        raise BadHost("the host holds a character that clients read in two ways")
    try:
        return text.encode("idna").decode("ascii")
    except UnicodeError:
        raise BadHost("the host is no international name") from None


def _ipv6(text: str) -> str:
    try:
        address = ipaddress.IPv6Address(text[1:-1] if text.endswith("]") else "")
    except ValueError:
        raise BadHost("the address is no IPv6 address") from None
    if address.scope_id is not None:
        raise BadHost("the address names a network interface")
    return str(address.ipv4_mapped or address)


def _ipv4(labels: list[str]) -> str:
    """WHATWG URL, 3.5 (IPv4 parser): one to four numbers, decimal or hexadecimal, the last fills what is left."""
    if len(labels) > 4 or not all(map(_NUMBER.match, labels)):
        raise BadHost("the address is no IPv4 address")
    if any(len(n) > 1 and n.startswith("0") and not n.startswith("0x") for n in labels):
        raise BadHost("the address begins a number with 0, which clients read in two ways")
    *head, last = [int(n[2:] or "0", 16) if n.startswith("0x") else int(n) for n in labels]
    if any(n > 255 for n in head) or last >= 256 ** (4 - len(head)):
        raise BadHost("the address is no IPv4 address")
    value = sum(n << 8 * (3 - i) for i, n in enumerate(head)) + last
    return str(ipaddress.IPv4Address(value))
