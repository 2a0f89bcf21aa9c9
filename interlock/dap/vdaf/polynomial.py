"""Polynomials given by their values at roots of unity, many at once (VDAF, sections 6.1.2 and 6.1.3).

`rows[k][j]` is the value of polynomial j at the k-th power of the n-th root of unity: one row a node, one column a
polynomial. A proof has one polynomial a wire, and one pass over the rows transforms all wires together.
"""

from __future__ import annotations

from collections.abc import Sequence

from interlock.dap.vdaf.field import Field

__all__ = ["lagrange_basis", "ntt", "odd_rows"]

Rows = list[list[int]]


def ntt(field: Field, rows: Sequence[Sequence[int]]) -> Rows:
    """Coefficients (row k: of x ** k) to values at the n-th roots of unity; n rows, n a power of two.

    Radix 2, decimation in time. Sums stay unreduced between the stages: they grow by one bit a stage, and each
    product is reduced.
    """
    p, n = field.modulus, len(rows)
    values = [list(rows[k]) for k in _bit_reversed(n)]
    half = 1
    while half < n:
        for i, root in enumerate(field.roots(2 * half)[:half]):
            for low in range(i, n, 2 * half):
                left, right = values[low], [root * x % p for x in values[low + half]]
                values[low] = [a + b for a, b in zip(left, right, strict=True)]
                values[low + half] = [a - b for a, b in zip(left, right, strict=True)]
        half *= 2
    return [[x % p for x in row] for row in values]


def odd_rows(field: Field, rows: Sequence[Sequence[int]]) -> Rows:
    """From the values at the n-th roots of unity, those at the 2n-th roots with odd exponent.

    Together they are the 2n values of each polynomial: `rows` are those with even exponent. The odd roots are the
    even ones shifted by s, the 2n-th root, and P(s * x) has the coefficients of P times the powers of s.
    """
    p, n = field.modulus, len(rows)
    scale = field.inverse(n)
    shifts = [scale * power % p for power in field.roots(2 * n)[:n]]
    coefficients = _unscaled_inverse(field, rows)
    return ntt(field, [[x * shift % p for x in row] for shift, row in zip(shifts, coefficients, strict=True)])


def lagrange_basis(field: Field, n: int, x: int) -> list[int]:
    """Weights w with P(x) = sum of w[k] * P(root ** k), for every P of degree less than n.

    w[k] = (x**n - 1) / n * root**k / (x - root**k); where x is itself a root, the weight picks its value.
    """
    p, roots = field.modulus, field.roots(n)
    vanishing = (pow(x, n, p) - 1) % p
    if not vanishing:
        return [int(root == x % p) for root in roots]
    scale = vanishing * field.inverse(n) % p
    return [
        scale * root % p * inverse % p
        for root, inverse in zip(roots, field.inverses([x - root for root in roots]), strict=True)
    ]


def _unscaled_inverse(field: Field, rows: Sequence[Sequence[int]]) -> Rows:
    """The inverse transform times n: the forward one, with all nodes but the first in reverse order."""
    out = ntt(field, rows)
    return [out[0], *reversed(out[1:])]


def _bit_reversed(n: int) -> list[int]:
    order = [0]
    while len(order) < n:
        order = [2 * k for k in order] + [2 * k + 1 for k in order]
    return order
