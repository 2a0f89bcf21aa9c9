"""The two prime fields of Prio3, worked on a list at a time (VDAF, section 6.1).

An element is an int in [0, modulus). Lists go in and come out, so that the loop runs inside a comprehension and the
modulus is fetched once. Python's integers do not take constant time: this is the reference, and a program that must
not leak through timing uses the native backend.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from operator import mul
from typing import Final

from interlock.dap.backend import VdafError

__all__ = ["FIELD64", "FIELD128", "Field"]


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """Integers modulo a prime with a multiplicative subgroup of order 2 ** two_adicity (an NTT-friendly field)."""

    name: str
    modulus: int
    size: int  # bytes of an encoded element
    generator: int  # of the subgroup
    two_adicity: int

    def add(self, left: Sequence[int], right: Sequence[int]) -> list[int]:
        p = self.modulus
        return [(a + b) % p for a, b in zip(left, right, strict=True)]

    def dot(self, left: Iterable[int], right: Iterable[int]) -> int:
        """The sum of products, reduced once; what the longer side has more counts as multiplied by zero."""
        total: int = sum(map(mul, left, right))
        return total % self.modulus

    def inverse(self, value: int) -> int:
        inverse: int = pow(value, -1, self.modulus)
        return inverse

    def inverses(self, values: Sequence[int]) -> list[int]:
        """All inverses for the price of one: divide the product of all by the product of all the others."""
        p = self.modulus
        before = list(accumulate(values, lambda a, b: a * b % p, initial=1))
        rest = self.inverse(before.pop())
        out = [0] * len(values)
        for i in range(len(values) - 1, -1, -1):
            out[i] = rest * before[i] % p
            rest = rest * values[i] % p
        return out

    def powers(self, base: int, count: int) -> list[int]:
        """base ** 1 to base ** count."""
        p = self.modulus
        return list(accumulate(repeat(base, count), lambda a, b: a * b % p))

    def roots(self, n: int) -> tuple[int, ...]:
        """The powers 0 to n - 1 of a primitive n-th root of unity; n is a power of two."""
        return _roots(self, n)

    def encode(self, values: Iterable[int]) -> bytes:
        size = self.size
        return b"".join([value.to_bytes(size, "little") for value in values])

    def decode(self, data: bytes, count: int) -> list[int]:
        """Exactly `count` elements. Raises: VdafError, for another length or a number outside the field."""
        size, p = self.size, self.modulus
        if len(data) != count * size:
            raise VdafError(f"{len(data)} bytes where {count} elements of {self.name} belong")
        values = [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]
        if values and max(values) >= p:
            raise VdafError(f"a number outside {self.name}")
        return values


@functools.lru_cache(maxsize=64)
def _roots(field: Field, n: int) -> tuple[int, ...]:
    log = n.bit_length() - 1
    if n.bit_count() != 1 or log > field.two_adicity:
        raise ValueError(f"{field.name} has no root of unity of order {n}")
    root = pow(field.generator, 1 << (field.two_adicity - log), field.modulus)
    return (1, *field.powers(root, n - 1))


_P64: Final = 2**32 * 4294967295 + 1
_P128: Final = 2**66 * 4611686018427387897 + 1
FIELD64: Final = Field("Field64", _P64, 8, pow(7, 4294967295, _P64), 32)
FIELD128: Final = Field("Field128", _P128, 16, pow(7, 4611686018427387897, _P128), 66)
