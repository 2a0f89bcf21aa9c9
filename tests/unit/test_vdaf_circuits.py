"""Circuits and their proofs: valid measurements pass, all others fail, and shares behave as the whole."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.dap.backend import VdafError
from interlock.dap.vdaf import flp
from interlock.dap.vdaf.circuits import (
    MAX_ELEMENTS,
    Circuit,
    Count,
    Histogram,
    MultihotCountVec,
    Sum,
    SumVec,
    best_chunk_length,
)

CASES: list[tuple[Circuit, list[int], list[list[int]]]] = [
    # circuit, a measurement, encodings that no measurement has
    (Count(), [1], [[2], [-1]]),
    (Sum(10), [7], [[2, 0, 0, 0], [0, 0, 0, 3]]),
    (SumVec(5, 1, 2), [1, 0, 1, 1, 0], [[1, 0, 2, 1, 0], [0, 0, 0, 0, -1]]),
    (SumVec(2, 6, 4), [6, 3], [[1, 1, 1, 1, 0, 5]]),
    (Histogram(5, 2), [4], [[0, 1, 0, 0, 1], [0, 0, 0, 0, 0], [2, 0, 0, 0, -1]]),
    (MultihotCountVec(4, 2, 3), [1, 0, 0, 1], [[1, 1, 1, 0, 1, 1], [1, 0, 0, 0, 0, 0], [2, 0, 0, 0, 1, 1]]),
]
NAMES = [f"{type(circuit).__name__}-{circuit.meas_len}" for circuit, _, _ in CASES]
VALID = pytest.mark.parametrize(("circuit", "measurement"), [case[:2] for case in CASES], ids=NAMES)


def _rand(circuit: Circuit, seed: int, count: int) -> list[int]:
    source = random.Random(seed)
    return [source.randrange(circuit.field.modulus) for _ in range(count)]


def _verifier(circuit: Circuit, meas: Sequence[int], seed: int, *, break_at: int | None = None) -> list[int]:
    """Prove and query as one aggregator that has everything."""
    joint = _rand(circuit, seed, circuit.joint_rand_len)
    proof = flp.prove(circuit, meas, _rand(circuit, seed + 1, circuit.prove_rand_len), joint)
    assert len(proof) == circuit.proof_len
    if break_at is not None:
        proof[break_at] = (proof[break_at] + 1) % circuit.field.modulus
    verifier = flp.query(circuit, meas, proof, _rand(circuit, seed + 2, circuit.query_rand_len), joint, 1)
    assert len(verifier) == circuit.verifier_len
    return verifier


@VALID
@pytest.mark.parametrize("seed", range(4))
def test_a_valid_measurement_is_accepted(circuit: Circuit, measurement: list[int], seed: int) -> None:
    flp.decide(circuit, _verifier(circuit, circuit.encode(measurement), seed))


@pytest.mark.parametrize(
    ("circuit", "encoding"),
    [(circuit, bad) for circuit, _, bads in CASES for bad in bads],
    ids=[f"{name}-{bad}" for name, (_, _, bads) in zip(NAMES, CASES, strict=True) for bad in bads],
)
def test_an_encoding_of_no_measurement_is_refused(circuit: Circuit, encoding: list[int]) -> None:
    meas = [x % circuit.field.modulus for x in encoding]
    for seed in range(4):
        with pytest.raises(VdafError, match="does not hold"):
            flp.decide(circuit, _verifier(circuit, meas, seed))


@VALID
def test_a_proof_with_any_element_changed_is_refused(circuit: Circuit, measurement: list[int]) -> None:
    for place in range(circuit.proof_len):
        with pytest.raises(VdafError, match="does not hold"):
            flp.decide(circuit, _verifier(circuit, circuit.encode(measurement), 5, break_at=place))


@VALID
def test_the_verifiers_of_three_shares_add_up_to_the_verifier_of_the_whole(
    circuit: Circuit, measurement: list[int]
) -> None:
    field, meas = circuit.field, circuit.encode(measurement)
    joint, query_rand = _rand(circuit, 1, circuit.joint_rand_len), _rand(circuit, 2, circuit.query_rand_len)
    proof = flp.prove(circuit, meas, _rand(circuit, 3, circuit.prove_rand_len), joint)
    whole = [*meas, *proof]
    shares = [_rand(circuit, seed, len(whole)) for seed in (4, 5)]
    shares.append([(x - a - b) % field.modulus for x, a, b in zip(whole, *shares, strict=True)])
    total = [0] * circuit.verifier_len
    for share in shares:
        meas_share, proof_share = share[: circuit.meas_len], share[circuit.meas_len :]
        total = field.add(total, flp.query(circuit, meas_share, proof_share, query_rand, joint, 3))
    assert total == flp.query(circuit, meas, proof, query_rand, joint, 1)


def test_a_test_point_that_is_a_node_is_refused_and_one_between_the_nodes_is_not() -> None:
    circuit = Sum(6)
    roots = circuit.field.roots(2 * circuit.nodes)
    meas = circuit.encode([5])
    proof = flp.prove(circuit, meas, _rand(circuit, 1, 1), [])
    rand = _rand(circuit, 2, circuit.query_rand_len - 1)
    for node in roots[0::2]:
        with pytest.raises(VdafError, match="root of unity"):
            flp.query(circuit, meas, proof, [*rand, node], [], 1)
    for between in roots[1::2]:
        flp.decide(circuit, flp.query(circuit, meas, proof, [*rand, between], [], 1))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 2**20), st.data())
def test_a_number_in_range_becomes_bits_that_give_it_back(most: int, data: st.DataObject) -> None:
    circuit, value = Sum(most), data.draw(st.integers(0, most))
    encoded = circuit.encode([value])
    assert set(encoded) <= {0, 1}
    assert circuit.truncate(encoded) == [value]


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 2**20), st.data())
def test_no_bits_give_a_number_out_of_range(most: int, data: st.DataObject) -> None:
    circuit = Sum(most)
    bits = data.draw(st.lists(st.integers(0, 1), min_size=circuit.meas_len, max_size=circuit.meas_len))
    assert 0 <= circuit.truncate(bits)[0] <= most


@pytest.mark.parametrize(
    ("circuit", "measurement"),
    [
        (Count(), [2]),
        (Count(), []),
        (Sum(10), [11]),
        (Sum(10), [-1]),
        (SumVec(2, 3, 1), [4, 0]),
        (SumVec(2, 3, 1), [1]),
        (Histogram(4, 2), [4]),
        (Histogram(4, 2), [0, 1]),
        (MultihotCountVec(3, 2, 1), [1, 1, 1]),
        (MultihotCountVec(3, 2, 1), [2, 0, 0]),
    ],
)
def test_a_measurement_out_of_range_is_the_callers_mistake(circuit: Circuit, measurement: list[int]) -> None:
    with pytest.raises(ValueError, match="a measurement has"):
        circuit.encode(measurement)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Sum(0),
        lambda: Sum(2**64 - 1),
        lambda: SumVec(0, 1, 1),
        lambda: SumVec(1, 0, 1),
        lambda: SumVec(1, 1, 0),
        lambda: SumVec(MAX_ELEMENTS, 3, 1),
        lambda: Histogram(MAX_ELEMENTS + 1, 1),
        lambda: Histogram(1, MAX_ELEMENTS + 1),
        lambda: MultihotCountVec(3, 4, 1),
        lambda: MultihotCountVec(3, 0, 1),
    ],
)
def test_parameters_out_of_range_are_refused(build: Callable[[], Circuit]) -> None:
    with pytest.raises(ValueError, match="must be"):
        build()


@pytest.mark.parametrize(("elements", "chunk"), [(1, 1), (32, 5), (100, 7), (1000, 33)])
def test_the_least_cost_chunk_of_known_lengths(elements: int, chunk: int) -> None:
    assert best_chunk_length(elements) == chunk


@pytest.mark.parametrize("elements", [1, 2, 3, 7, 10, 31, 32, 64, 100, 255, 300])
def test_no_other_chunk_gives_a_shorter_proof(elements: int) -> None:
    best = Histogram(elements, best_chunk_length(elements)).proof_len
    assert best == min(Histogram(elements, chunk).proof_len for chunk in range(1, elements + 1))


def test_there_is_no_chunk_for_no_elements() -> None:
    with pytest.raises(ValueError, match="no elements"):
        best_chunk_length(0)
