"""Differential privacy of a task's sums: exact discrete noise, what a release costs, and the task's word on both.

    noise = Noise(Mechanism.GAUSSIAN, cost=Fraction(1, 2), budget=Fraction(8))
    shape = shape_of(config.vdaf_type, config.vdaf_configuration)  # how far one report can move the sums
    share = noise_share(shape, sample(noise, shape, rng))

Each aggregator adds the full noise to its own share before the collector has it, so the guarantee holds against the
collector together with the other aggregator. `cost` is what one release of one bucket costs whoever has one report
there: rho of zero-concentrated DP for the Gaussian, epsilon of pure DP for the Laplace. The scale follows from the
cost and from the sensitivity, for a report that is replaced by any other valid one.

The samplers are Algorithms 1 to 3 of Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy"
(2020): integers and rationals alone, so what is sampled is the distribution itself and no float rounds it.
The noise is not made in constant time. Randomness is an argument.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, isqrt
from typing import Final, Protocol

from interlock.base.codec import Malformed, Reader, Writer, decode
from interlock.base.primitives import Rng
from interlock.dap.backend import VdafError
from interlock.dap.vdaf.circuits import Circuit, Histogram, MultihotCountVec, Sum, SumVec, circuit_of_config
from interlock.dap.vdaf.field import Field

__all__ = [
    "NOISE",
    "Coins",
    "Mechanism",
    "Noise",
    "RandomCoins",
    "Shape",
    "centred",
    "demand_room",
    "discrete_gaussian",
    "discrete_laplace",
    "noise_share",
    "reach",
    "sample",
    "shape_of",
]

NOISE: Final = 0xFF4E  # our number of the task extension; see messages.MEMBERSHIP for why it is one of these
_TERM_MOST: Final = 1 << 32  # of a fraction's numerator and denominator
_BLOCK: Final = 512  # random bytes drawn at once


class Mechanism(enum.IntEnum):
    """Which noise; the number is the one in the task's extension."""

    GAUSSIAN = 1
    LAPLACE = 2

    @property
    def measure(self) -> str:
        """What its costs are counted in."""
        return "rho" if self is Mechanism.GAUSSIAN else "epsilon"


@dataclass(frozen=True)
class Noise:
    """A task's noise: the mechanism, the cost of a release of one bucket, and what all releases may cost together."""

    mechanism: Mechanism
    cost: Fraction
    budget: Fraction

    def __post_init__(self) -> None:
        for value in (self.cost, self.budget):
            if value <= 0 or value.numerator > _TERM_MOST or value.denominator > _TERM_MOST:
                raise ValueError("a cost and a budget are positive fractions of numbers up to 2**32")
        if self.budget < self.cost:
            raise ValueError("a budget below the cost of one release lets nothing out")

    @property
    def text(self) -> str:
        """For people: what it is, in one phrase."""
        name, unit = f"discrete {self.mechanism.name.capitalize()}", self.mechanism.measure
        return f"{name} noise by each aggregator, {unit} {self.cost} an epoch and {self.budget} in all"

    def cost_of(self, buckets: int) -> Fraction:
        """What the release of a batch costs whoever has one report in each of its buckets.

        k reports of one sender move the sums k times as far: k times the epsilon, k * k times the rho.
        """
        return self.cost * buckets ** (2 if self.mechanism is Mechanism.GAUSSIAN else 1)

    def encode(self) -> bytes:
        w = Writer().u8(self.mechanism)
        for value in (self.cost, self.budget):
            w.u64(value.numerator).u64(value.denominator)
        return w.done()

    @classmethod
    def decode(cls, data: bytes) -> Noise:
        """Raises: Malformed, also for a fraction that is not in lowest terms."""
        code, cost, budget = decode(data, lambda r: (r.u8(), _fraction(r), _fraction(r)), "noise extension")
        if code not in tuple(Mechanism):
            raise Malformed(f"noise of mechanism {code} is not known here", fix="upgrade interlock")
        try:
            return cls(Mechanism(code), cost, budget)
        except ValueError as e:
            raise Malformed(f"noise extension cannot be used ({e})") from None


@dataclass(frozen=True)
class Shape:
    """What a VDAF sums: the field, how many sums, how far replacing one report moves them (L1, squared L2), what one
    report adds to a sum at most, and how many bytes the leader's share of a report has."""

    field: Field
    length: int
    l1: int
    l2_squared: int
    most: int
    share_bytes: int


def shape_of(algorithm_id: int, vdaf_config: bytes) -> Shape:
    """Raises: VdafError, for a VDAF that cannot be set up."""
    circuit = circuit_of_config(algorithm_id, vdaf_config)
    share_bytes = (circuit.meas_len + circuit.proof_len) * circuit.field.size
    return Shape(circuit.field, circuit.output_len, *_moves(circuit), share_bytes)


def sample(noise: Noise, shape: Shape, rng: Rng) -> list[int]:
    """Independent noise for each sum, at the scale that the cost of one bucket asks for."""
    coins = RandomCoins(rng)
    if noise.mechanism is Mechanism.GAUSSIAN:
        variance = _variance(noise, shape)
        return [discrete_gaussian(coins, variance) for _ in range(shape.length)]
    scale = shape.l1 / noise.cost
    return [discrete_laplace(coins, scale) for _ in range(shape.length)]


def noise_share(shape: Shape, values: Sequence[int]) -> bytes:
    """Noise as an aggregate share, to be merged with the real one."""
    return shape.field.encode(value % shape.field.modulus for value in values)


def centred(shape: Shape, value: int) -> int:
    """A sum of the field as the integer that it stands for: noise can bring it below zero."""
    return value - shape.field.modulus if value > shape.field.modulus // 2 else value


def reach(noise: Noise, shape: Shape) -> int:
    """How far both aggregators' noise together moves a sum at most, but for a chance of less than 2**-60."""
    if noise.mechanism is Mechanism.GAUSSIAN:  # of variance 2 s**2: 2 exp(-x**2 / (4 s**2)) is below it at x = 14 s
        return 14 * (isqrt(int(_variance(noise, shape))) + 1)
    return 2 * 45 * (int(shape.l1 / noise.cost) + 1)  # each: 2 exp(-x / t) is below it at x = 45 t


class Coins(Protocol):
    """Exact randomness: all that a sampler asks for."""

    def below(self, n: int) -> int:
        """A number from 0 to n - 1, each as likely."""

    def chance(self, n: int, d: int) -> bool:
        """True with probability n / d."""


class RandomCoins:
    """Coins from random bytes, of which no bit is used twice."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._pool, self._have = 0, 0

    def below(self, n: int) -> int:
        bits = (n - 1).bit_length()
        while True:
            value = self._bits(bits)
            if value < n:
                return value

    def chance(self, n: int, d: int) -> bool:
        return self.below(d) < n

    def _bits(self, count: int) -> int:
        while self._have < count:
            self._pool |= int.from_bytes(self._rng(_BLOCK), "big") << self._have
            self._have += 8 * _BLOCK
        value = self._pool & ((1 << count) - 1)
        self._pool >>= count
        self._have -= count
        return value


def discrete_laplace(coins: Coins, scale: Fraction) -> int:
    """An integer x with probability in proportion to exp(-|x| / scale) (Algorithm 2)."""
    t, s = scale.numerator, scale.denominator
    while True:
        u = coins.below(t)
        if not _exp_minus(coins, u, t):
            continue
        v = 0
        while _exp_minus(coins, 1, 1):
            v += 1
        size = (u + t * v) // s
        if coins.chance(1, 2):
            return size
        if size:  # else zero would be found twice as often as it should
            return -size


def discrete_gaussian(coins: Coins, variance: Fraction) -> int:
    """An integer x with probability in proportion to exp(-x**2 / (2 * variance)) (Algorithm 3)."""
    n, d = variance.numerator, variance.denominator
    t = isqrt(n // d) + 1
    while True:
        x = discrete_laplace(coins, Fraction(t))
        if _exp_minus(coins, (abs(x) * t * d - n) ** 2, 2 * n * d * t * t):
            return x


def _exp_minus(coins: Coins, n: int, d: int) -> bool:
    """True with probability exp(-n / d) (Algorithm 1)."""
    while n > d:
        if not _exp_minus(coins, 1, 1):
            return False
        n -= d
    k = 1
    while coins.chance(n, d * k):
        k += 1
    return k % 2 == 1


def demand_room(noise: Noise, algorithm_id: int, vdaf_config: bytes) -> None:
    """Demand that the field holds a sum under this noise. Raises: VdafError."""
    shape = shape_of(algorithm_id, vdaf_config)
    if reach(noise, shape) > shape.field.modulus // 4:
        raise VdafError(f"noise of this cost does not fit {shape.field.name}")


def _variance(noise: Noise, shape: Shape) -> Fraction:
    """Of the Gaussian that costs this rho: sensitivity squared over twice the rho (theorem on many dimensions)."""
    return shape.l2_squared / (2 * noise.cost)


def _moves(circuit: Circuit) -> tuple[int, int, int]:
    """The L1 and the squared L2 distance between the outputs of two valid reports, and one output, at most."""
    if isinstance(circuit, SumVec):
        most = sum(circuit.weights)
        return circuit.length * most, circuit.length * most * most, most
    if isinstance(circuit, Sum):
        most = sum(circuit.weights)
        return most, most**2, most
    if isinstance(circuit, Histogram):
        return min(2, circuit.length), min(2, circuit.length), 1
    if isinstance(circuit, MultihotCountVec):
        differ = min(2 * circuit.max_weight, circuit.length)
        return differ, differ, 1
    return 1, 1, 1  # Count


def _fraction(r: Reader) -> Fraction:
    n, d = r.u64(), r.u64()
    if not n or not d or gcd(n, d) != 1:
        raise Malformed("noise extension has a number that is no positive fraction in lowest terms")
    return Fraction(n, d)
