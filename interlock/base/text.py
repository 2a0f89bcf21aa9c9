"""One spelling a value: base64 and hex as our files and formats write them.

A text is accepted only if writing its value again gives the same text, so no two files mean the same thing.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final, TypeGuard

from interlock.base.codec import Malformed

__all__ = ["b64", "is_sha256", "unb64"]

_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def b64(data: bytes) -> str:
    """Standard base64 with padding (RFC 4648, 4)."""
    return base64.b64encode(data).decode("ascii")


def unb64(text: str, what: str) -> bytes:
    """Read standard base64 in its one spelling (no stray bits, no line breaks). Raises: Malformed."""
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        raise Malformed(f"{what} is not base64") from None
    if b64(data) != text:
        raise Malformed(f"{what} is not base64 in its one spelling")
    return data


def is_sha256(value: object) -> TypeGuard[str]:
    """Whether a value is a SHA-256 in its one spelling: a text of 64 hex digits in lower case."""
    return isinstance(value, str) and _SHA256.fullmatch(value) is not None
