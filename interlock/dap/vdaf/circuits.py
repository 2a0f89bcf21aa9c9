"""The validity circuits of the five Prio3 types (VDAF, section 7.4): what a client may send, as arithmetic.

All five have one shape, and the proof system needs no more of them than this:

    encode    a measurement becomes a list of field elements (bits, mostly)
    rows      one row of inputs for each call of the one gadget, affine in the measurement
    outputs   affine in the measurement and the gadget's results; all of them zero for a valid measurement
    truncate  the encoded measurement becomes the part that is added up

Affine maps may be applied to one aggregator's share as to the whole, but for their constant: each of `shares`
aggregators takes its part of it. Every gadget is of degree two. Values between the steps may be unreduced.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from interlock.base.codec import Malformed, Reader, Writer
from interlock.dap.backend import VdafError
from interlock.dap.vdaf.field import FIELD64, FIELD128, Field

__all__ = [
    "MAX_ELEMENTS",
    "BitTest",
    "Circuit",
    "Count",
    "Gadget",
    "Histogram",
    "MultihotCountVec",
    "Products",
    "Sum",
    "SumVec",
    "best_chunk_length",
    "circuit_of_config",
]

MAX_ELEMENTS: Final = 1 << 20  # of an encoded measurement or a chunk: a task that asks for more is refused


@dataclass(frozen=True, slots=True)
class Products:
    """x0 * x1 + x2 * x3 + ... over `pairs` pairs: ParallelSum of Mul in the draft (appendix A)."""

    pairs: int

    @property
    def arity(self) -> int:
        return 2 * self.pairs

    def evaluate(self, field: Field, row: Sequence[int]) -> int:
        return field.dot(row[0::2], row[1::2])


@dataclass(frozen=True, slots=True)
class BitTest:
    """x ** 2 - x, zero for a bit: PolyEval in the draft (appendix A)."""

    arity: ClassVar[int] = 1

    def evaluate(self, field: Field, row: Sequence[int]) -> int:
        return (row[0] * row[0] - row[0]) % field.modulus


Gadget = Products | BitTest


class Circuit(ABC):
    """One circuit with its parameters fixed; the lengths that the proof system derives from it.

    `meas_len`, `output_len` and `eval_len` are those of `encode`, `truncate` and `outputs`; `calls` is the number of
    rows. Raises: ValueError, for parameters or a measurement outside the range, without the measurement's value.
    """

    algorithm_id: ClassVar[int]

    def __init__(
        self,
        field: Field,
        gadget: Gadget,
        *,
        meas_len: int,
        output_len: int,
        eval_len: int,
        calls: int,
        joint_rand_len: int,
        config: bytes,
    ) -> None:
        self.field, self.gadget, self.config = field, gadget, config
        self.meas_len, self.output_len, self.eval_len = meas_len, output_len, eval_len
        self.calls, self.joint_rand_len = calls, joint_rand_len
        self.nodes = 1 << calls.bit_length()  # the least power of two that holds the seeds and every call
        self.gadget_poly_len = 2 * self.nodes - 1
        self.prove_rand_len = gadget.arity
        self.query_rand_len = 1 + (eval_len if eval_len > 1 else 0)
        self.proof_len = gadget.arity + self.gadget_poly_len
        self.verifier_len = gadget.arity + 2

    @abstractmethod
    def encode(self, measurement: Sequence[int]) -> list[int]:
        """The elements that a client shares out. Raises: ValueError."""

    @abstractmethod
    def rows(self, meas: Sequence[int], joint_rand: Sequence[int], shares: int) -> list[list[int]]:
        """`calls` rows of `gadget.arity` inputs, maybe unreduced."""

    @abstractmethod
    def outputs(self, meas: Sequence[int], results: Sequence[int], shares: int) -> list[int]:
        """`eval_len` elements, maybe unreduced, from the result of each gadget call."""

    def truncate(self, meas: Sequence[int]) -> list[int]:
        """The `output_len` elements that are added up."""
        return list(meas[: self.output_len])


class Count(Circuit):
    """One 0 or 1; the sum is how many clients said 1."""

    algorithm_id = 1

    def __init__(self) -> None:
        super().__init__(
            FIELD64, Products(1), meas_len=1, output_len=1, eval_len=1, calls=1, joint_rand_len=0, config=b""
        )

    def encode(self, measurement: Sequence[int]) -> list[int]:
        return _within(measurement, 1, 1)

    def rows(self, meas: Sequence[int], joint_rand: Sequence[int], shares: int) -> list[list[int]]:
        return [[meas[0], meas[0]]]

    def outputs(self, meas: Sequence[int], results: Sequence[int], shares: int) -> list[int]:
        return [results[0] - meas[0]]


class Sum(Circuit):
    """One number from 0 to `max_measurement`, below 2 ** 63."""

    algorithm_id = 2

    def __init__(self, max_measurement: int) -> None:
        bits = _bits(max_measurement, FIELD64)
        config = Writer().u64(max_measurement).done()
        super().__init__(
            FIELD64, BitTest(), meas_len=bits, output_len=1, eval_len=bits, calls=bits, joint_rand_len=0, config=config
        )
        self.weights = _weights(max_measurement)

    def encode(self, measurement: Sequence[int]) -> list[int]:
        (value,) = _within(measurement, 1, sum(self.weights))
        return _range_checked(value, self.weights)

    def rows(self, meas: Sequence[int], joint_rand: Sequence[int], shares: int) -> list[list[int]]:
        return [[bit] for bit in meas]

    def outputs(self, meas: Sequence[int], results: Sequence[int], shares: int) -> list[int]:
        return list(results)

    def truncate(self, meas: Sequence[int]) -> list[int]:
        return [self.field.dot(self.weights, meas)]


class _BitVector(Circuit):
    """What SumVec, Histogram and MultihotCountVec share: every encoded element is a bit.

    Each call tests `chunk` elements x at once by the sum of r**j * x * (x - 1), with r from the joint randomness; a
    client that knew r beforehand could make wrong elements cancel. The last chunk is filled up with zeros.
    """

    def __init__(self, length: int, chunk_length: int, *, meas_len: int, eval_len: int, config: bytes) -> None:
        if not 0 < chunk_length <= MAX_ELEMENTS or not 0 < length <= meas_len <= MAX_ELEMENTS:
            raise ValueError(f"length and chunk_length must be positive and at most {MAX_ELEMENTS} elements")
        calls = -(-meas_len // chunk_length)
        super().__init__(
            FIELD128,
            Products(chunk_length),
            meas_len=meas_len,
            output_len=length,
            eval_len=eval_len,
            calls=calls,
            joint_rand_len=calls,
            config=config,
        )
        self.length, self.chunk_length = length, chunk_length

    def rows(self, meas: Sequence[int], joint_rand: Sequence[int], shares: int) -> list[list[int]]:
        p, chunk, one = self.field.modulus, self.chunk_length, self.field.inverse(shares)
        padded = [*meas, *[0] * (self.calls * chunk - len(meas))]
        rows = []
        for call, r in enumerate(joint_rand):
            elements = padded[call * chunk : (call + 1) * chunk]
            row = [0] * (2 * chunk)
            row[0::2] = [power * x % p for power, x in zip(self.field.powers(r, chunk), elements, strict=True)]
            row[1::2] = [x - one for x in elements]
            rows.append(row)
        return rows


class SumVec(_BitVector):
    """`length` numbers, each from 0 to `max_measurement`; each place is summed."""

    algorithm_id = 3

    def __init__(self, length: int, max_measurement: int, chunk_length: int) -> None:
        self.bits = _bits(max_measurement, FIELD128)
        config = Writer().u32(length).u64(max_measurement).u32(chunk_length).done()
        super().__init__(length, chunk_length, meas_len=length * self.bits, eval_len=1, config=config)
        self.weights = _weights(max_measurement)

    def encode(self, measurement: Sequence[int]) -> list[int]:
        values = _within(measurement, self.length, sum(self.weights))
        return [bit for value in values for bit in _range_checked(value, self.weights)]

    def outputs(self, meas: Sequence[int], results: Sequence[int], shares: int) -> list[int]:
        return [sum(results)]

    def truncate(self, meas: Sequence[int]) -> list[int]:
        dot, bits = self.field.dot, self.bits
        return [dot(self.weights, meas[at : at + bits]) for at in range(0, len(meas), bits)]


class Histogram(_BitVector):
    """One bucket of `length`; the measurement is its index."""

    algorithm_id = 4

    def __init__(self, length: int, chunk_length: int) -> None:
        config = Writer().u32(length).u32(chunk_length).done()
        super().__init__(length, chunk_length, meas_len=length, eval_len=2, config=config)

    def encode(self, measurement: Sequence[int]) -> list[int]:
        (bucket,) = _within(measurement, 1, self.length - 1)
        return [int(place == bucket) for place in range(self.length)]

    def outputs(self, meas: Sequence[int], results: Sequence[int], shares: int) -> list[int]:
        return [sum(results), sum(meas) - self.field.inverse(shares)]


class MultihotCountVec(_BitVector):
    """`length` values of 0 or 1, at most `max_weight` of them 1; each place is summed."""

    algorithm_id = 5

    def __init__(self, length: int, max_weight: int, chunk_length: int) -> None:
        if not 0 < max_weight <= length:
            raise ValueError("max_weight must be from 1 to length")
        self.max_weight = max_weight
        self.weights = _weights(max_weight)
        config = Writer().u32(length).u32(chunk_length).u64(max_weight).done()
        super().__init__(length, chunk_length, meas_len=length + len(self.weights), eval_len=2, config=config)

    def encode(self, measurement: Sequence[int]) -> list[int]:
        flags = _within(measurement, self.length, 1)
        if sum(flags) > self.max_weight:
            raise ValueError(f"a measurement has at most {self.max_weight} ones")
        return flags + _range_checked(sum(flags), self.weights)

    def outputs(self, meas: Sequence[int], results: Sequence[int], shares: int) -> list[int]:
        claimed = self.field.dot(self.weights, meas[self.length :])
        return [sum(results), sum(meas[: self.length]) - claimed]


def circuit_of_config(algorithm_id: int, vdaf_config: bytes) -> Circuit:
    """The circuit of a task's vdaf_type and vdaf_configuration.

    Raises: VdafError, for a type or parameters that are not here.
    """
    reader = Reader(vdaf_config, "VDAF configuration")
    try:
        circuit = _read(algorithm_id, reader)
        reader.finish()
    except (Malformed, ValueError) as error:
        raise VdafError(f"VDAF {algorithm_id} cannot be set up: {error}") from None
    return circuit


def _read(algorithm_id: int, reader: Reader) -> Circuit:
    if algorithm_id == Count.algorithm_id:
        return Count()
    if algorithm_id == Sum.algorithm_id:
        return Sum(reader.u64())
    if algorithm_id == SumVec.algorithm_id:
        return SumVec(reader.u32(), reader.u64(), reader.u32())
    if algorithm_id == Histogram.algorithm_id:
        return Histogram(reader.u32(), reader.u32())
    if algorithm_id == MultihotCountVec.algorithm_id:
        length, chunk = reader.u32(), reader.u32()
        return MultihotCountVec(length, reader.u64(), chunk)
    raise ValueError("no such Prio3 type")


def best_chunk_length(elements: int) -> int:
    """The chunk that makes the proof of this many encoded elements shortest.

    A proof has 2 * chunk seeds and 2 * nodes - 1 values, and nodes is a power of two, so only 2**k - 1 calls waste no
    node. Among equals the one with more calls wins: its circuit has fewer wires to transform.
    """
    if elements < 1:
        raise ValueError("there is no chunk length for no elements")
    choices = [(1 << k) - 1 for k in range(elements.bit_length(), 0, -1)]
    calls = min(choices, key=lambda calls: -(-elements // calls) + calls)
    return -(-elements // calls)


def _bits(most: int, field: Field) -> int:
    bits = most.bit_length()
    if most < 1 or 1 << bits >= field.modulus:
        raise ValueError(f"max_measurement must be positive and fit {field.name}")
    return bits


def _weights(most: int) -> list[int]:
    """The weights of the bits of a number from 0 to `most`: powers of two, and a last one that makes the sum `most`.

    No choice of bits then gives more than `most`, and so bits are all that needs a proof (VDAF, section 7.4.2).
    """
    powers = [1 << k for k in range(most.bit_length() - 1)]
    return [*powers, most - sum(powers)]


def _range_checked(value: int, weights: Sequence[int]) -> list[int]:
    """Bits whose weighted sum is `value`; the last is set only where the others alone cannot reach it."""
    *powers, last = weights
    top = int(value > sum(powers))
    rest = value - top * last
    return [rest >> k & 1 for k in range(len(powers))] + [top]


def _within(measurement: Sequence[int], count: int, most: int) -> list[int]:
    if len(measurement) != count or not all(0 <= value <= most for value in measurement):
        raise ValueError(f"a measurement has {count} numbers from 0 to {most}")
    return [int(value) for value in measurement]
