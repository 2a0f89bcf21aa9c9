"""Statements of membership and of consensus: flat canonical JSON that one Ed25519 key signs, in its one spelling.

    {"format": FORMAT, "v": 1, ..., KEY_FIELD: "ed25519:HEX", "sig": BASE64}

`sig` is the signature of the key that the statement itself names, over all its other fields under the format's own
domain. Whether that key may say this is for the reader to know. Pair: `made` and `opened`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from interlock.base import canonical
from interlock.base.canonical import NotCanonical
from interlock.base.codec import Malformed
from interlock.base.keys import BadKey, Ed25519Signer, Ed25519Verifier, ed25519_of
from interlock.base.primitives import BadSignature
from interlock.base.text import b64, unb64

__all__ = ["MAX_STATEMENT", "Kind", "ed25519_key", "known_epoch", "known_organisation", "known_task", "made", "opened"]

MAX_STATEMENT: Final = 16 << 10  # bytes
_VERSION: Final = 1
_EPOCH_MOST: Final = 1 << 53  # what JSON can say exactly
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True)
class Kind:
    """One kind of statement: its format, the field with the key that signs it, its other fields by type, its size.

    What is `optional` stands there only where it says something.
    """

    format: str
    key: str
    fields: Mapping[str, type]
    most: int = MAX_STATEMENT  # bytes
    optional: Mapping[str, type] = field(default_factory=dict)

    @property
    def domain(self) -> bytes:
        return f"interlock/{self.format}/v{_VERSION}\n".encode("ascii")


def made(kind: Kind, signer: Ed25519Signer, **fields: object) -> bytes:
    """A statement in the word of a key; the same arguments give the same bytes."""
    body = {"format": kind.format, "v": _VERSION, **fields, kind.key: signer.verifier.text}
    signature = signer.sign(kind.domain + canonical.encode(body))
    return canonical.encode({**body, "sig": b64(signature)})


def opened(kind: Kind, data: bytes, *, where: str) -> dict[str, object]:
    """A statement's fields, its signature checked. Raises: Malformed, BadSignature."""
    try:
        body = canonical.known_object(data, kind.format, _VERSION, most=kind.most, where=where)
    except NotCanonical as e:
        raise Malformed(e.what, where=where) from None
    said = {name: shape for name, shape in kind.optional.items() if name in body}
    shapes = {"format": str, "v": int, "sig": str, kind.key: str, **kind.fields, **said}
    if set(body) != set(shapes) or any(type(body[name]) is not shape for name, shape in shapes.items()):
        raise Malformed(f"has not the fields {', '.join(sorted(shapes))}, each of its type", where=where)
    signature = unb64(str(body.pop("sig")), "signature")
    try:
        ed25519_key(body[kind.key], where=where).verify(kind.domain + canonical.encode(body), signature)
    except BadSignature:
        raise BadSignature("was changed after it was signed", where=where, fix="ask for it again") from None
    return body


def ed25519_key(text: object, *, where: str) -> Ed25519Verifier:
    """A key from its text. Raises: Malformed."""
    try:
        return ed25519_of(str(text))
    except BadKey:
        raise Malformed("names no Ed25519 key", where=where) from None


def known_task(value: object, *, where: str) -> str:
    """A task's name, as catalogs have it. Raises: Malformed."""
    if not isinstance(value, str) or "." in value or not _NAME.fullmatch(value):
        raise Malformed("task is not of a-z, 0-9 and '-', 1 to 63 long", where=where)
    return value


def known_organisation(value: object, *, where: str) -> str:
    """An organisation's or operator's name. Raises: Malformed."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise Malformed("name is not of a-z, 0-9, '-' and '.', 1 to 63 long", where=where)
    return value


def known_epoch(value: object, *, where: str) -> int:
    """An epoch: a time of the DAP task, in units of its precision. Raises: Malformed."""
    if type(value) is not int or not 0 < value < _EPOCH_MOST:
        raise Malformed("epoch is not a whole number above 0", where=where)
    return value
