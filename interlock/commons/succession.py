"""How one key of an issuer follows another: the old key says so, and whoever trusts it can go on to the new one.

A succession is a statement (commons.statements) by the old key; a chain is one succession a line, each by the key that
the line before names. Pure: where they lie is commons.issuer_keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from interlock.base.codec import Malformed
from interlock.base.keys import Ed25519Signer, Ed25519Verifier
from interlock.commons.statements import Kind, ed25519_key, made, opened

__all__ = [
    "CHAIN_MOST",
    "Succession",
    "chain_from",
    "chain_to",
    "dump_succession",
    "parse_chain",
    "parse_lineage",
    "parse_succession",
]

CHAIN_MOST: Final = 32  # successions in one answer, of some 300 bytes each
_SUCCESSION: Final = Kind("interlock-issuer-succession", "issuer", {"successor": str, "at": int})


@dataclass(frozen=True)
class Succession:
    """An issuer's key names the one that follows it, since `at` (microseconds)."""

    issuer: Ed25519Verifier
    successor: Ed25519Verifier
    at: int
    data: bytes = field(repr=False)


def dump_succession(issuer: Ed25519Signer, successor: Ed25519Verifier, at: int) -> bytes:
    return made(_SUCCESSION, issuer, successor=successor.text, at=at)


def parse_succession(data: bytes, *, where: str = "succession") -> Succession:
    """Raises: Malformed, BadSignature."""
    body = opened(_SUCCESSION, data, where=where)
    at = body["at"]
    if type(at) is not int or not 0 <= at < 1 << 53:
        raise Malformed("at is not a time in microseconds", where=where)
    found = Succession(ed25519_key(body["issuer"], where=where), ed25519_key(body["successor"], where=where), at, data)
    if found.issuer == found.successor:
        raise Malformed("names a key as its own successor", where=where)
    return found


def chain_from(successions: Mapping[str, Succession], first: Ed25519Verifier, last: Ed25519Verifier) -> bytes:
    """The chain of the keys that followed `first`, as far as `last`; empty where nothing is known to. At most 32."""
    lines: list[bytes] = []
    while first != last and first.text in successions and len(lines) < CHAIN_MOST:
        lines.append(successions[first.text].data)
        first = successions[first.text].successor
    return b"\n".join(lines)


def chain_to(successions: Mapping[str, Succession], last: Ed25519Verifier) -> bytes:
    """The chain of the keys that `last` followed, the oldest in front; empty where it followed none. At most 32."""
    before = {found.successor.text: found for found in successions.values()}
    lines: list[bytes] = []
    while last.text in before and len(lines) < CHAIN_MOST:
        lines.insert(0, before[last.text].data)
        last = before[last.text].issuer
    return b"\n".join(lines)


def parse_lineage(data: bytes, last: Ed25519Verifier, *, where: str) -> tuple[Ed25519Verifier, ...]:
    """The keys that a key followed, in the word of each of them. Raises: Malformed, BadSignature."""
    first = parse_succession(data.partition(b"\n")[0], where=where).issuer
    keys = first, *parse_chain(data, first, where=where)
    if keys[-1] != last:
        raise Malformed("follows a chain that leads to another key", where=where)
    return keys[:-1]


def parse_chain(data: bytes, first: Ed25519Verifier, *, where: str = "successions") -> tuple[Ed25519Verifier, ...]:
    """The keys that followed `first`, each in the word of the one before. Raises: Malformed, BadSignature."""
    lines = data.split(b"\n")
    if len(lines) > CHAIN_MOST:
        raise Malformed(f"has more than {CHAIN_MOST} successions", where=where)
    keys = [first]
    for line in lines:
        found = parse_succession(line, where=where)
        if found.issuer != keys[-1]:
            raise Malformed("is no succession of the key that is trusted", where=where)
        if found.successor in keys:
            raise Malformed("comes back to a key that it left", where=where)
        keys.append(found.successor)
    return tuple(keys[1:])
