"""TurboSHAKE128 (RFC 9861), apart from the other primitives: only counts need it, and its library loads slowly."""

from __future__ import annotations

from typing import Protocol

from Cryptodome.Hash import TurboSHAKE128

__all__ = ["Squeezer", "turboshake128"]


class Squeezer(Protocol):
    """A running extendable-output function: each call returns the next bytes."""

    def read(self, length: int) -> bytes: ...


def turboshake128(domain: int, message: bytes) -> Squeezer:
    """TurboSHAKE128 over a message, with its domain-separation byte (1 to 127)."""
    xof: Squeezer = TurboSHAKE128.new(domain=domain, data=message)
    return xof
