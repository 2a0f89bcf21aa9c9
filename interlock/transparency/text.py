"""One spelling a value: the decimal numbers, hashes and line endings that the C2SP text formats share.

A text is accepted only if writing its value again gives the same text, so no two files mean the same thing and no
parser of another hand can read one of ours differently.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Sequence
from typing import Final

from interlock.base.codec import Malformed
from interlock.base.text import unb64
from interlock.transparency.merkle import HASH_SIZE, MAX_PROOF, MAX_SIZE

__all__ = ["decimal", "hash_lines", "unhash_lines", "utf8_lines"]

_MAX_DIGITS: Final = len(str(MAX_SIZE))
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f]")  # all but U+000A


def decimal(text: str, what: str) -> int:
    """Read a number from 0 to MAX_SIZE in plain ASCII digits, with no leading zero. Raises: Malformed."""
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and (text == "0" or text[0] != "0")):
        raise Malformed(f"{what} is not a decimal number in its one spelling")
    value = int(text)
    if value > MAX_SIZE:
        raise Malformed(f"{what} is larger than {MAX_SIZE}")
    return value


def hash_lines(hashes: Sequence[bytes]) -> str:
    """One line of base64 a hash."""
    return b"".join(map(b2a_base64, hashes)).decode("ascii")


def unhash_lines(lines: Sequence[str], what: str) -> tuple[bytes, ...]:
    """Read lines of one 32-byte hash each, at most MAX_PROOF of them. Raises: Malformed."""
    if len(lines) > MAX_PROOF:
        raise Malformed(f"{what} has more than {MAX_PROOF} hashes")
    hashes = tuple(unb64(line, f"{what} line") for line in lines)
    if any(len(h) != HASH_SIZE for h in hashes):
        raise Malformed(f"{what} has a hash that is not {HASH_SIZE} bytes")
    return hashes


def utf8_lines(data: bytes, limit: int, what: str) -> str:
    """Decode a text whose lines all end in U+000A and that has no other control character. Raises: Malformed."""
    if len(data) > limit:
        raise Malformed(f"{what} is larger than {limit} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        raise Malformed(f"{what} is not UTF-8 (byte {e.start})") from None
    if not text.endswith("\n"):
        raise Malformed(f"{what} does not end in a newline")
    if _CONTROL.search(text):
        raise Malformed(f"{what} has a control character")
    return text
