"""The fully linear proof of Prio3: that a shared measurement satisfies its circuit (VDAF, section 7.3).

Each input wire of the gadget is a polynomial: a random seed at the first root of unity, the inputs of call k at the
k-th, zeros up to a power of two. The gadget polynomial is the gadget applied to them. The proof is the seeds and the
gadget polynomial's values at the 2n-th roots; it leaves out the last, which the degree fixes.

    prove   -> proof        the client, over the whole measurement
    query   -> verifier     each aggregator, over its share: everything it does is affine
    decide  -> None         over the sum of the verifiers. Raises: VdafError

A verifier is [circuit output, each wire at t, the gadget polynomial at t], for a random t.
"""

from __future__ import annotations

from collections.abc import Sequence

from interlock.dap.backend import VdafError
from interlock.dap.vdaf.circuits import Circuit
from interlock.dap.vdaf.field import Field
from interlock.dap.vdaf.polynomial import lagrange_basis, odd_rows

__all__ = ["decide", "prove", "query"]


def prove(circuit: Circuit, meas: Sequence[int], prove_rand: Sequence[int], joint_rand: Sequence[int]) -> list[int]:
    """The proof, `circuit.proof_len` elements, of a measurement that satisfies the circuit."""
    field, gadget = circuit.field, circuit.gadget
    rows = [list(prove_rand), *circuit.rows(meas, joint_rand, 1)]
    rows += [[0] * gadget.arity] * (circuit.nodes - len(rows))
    poly = [0] * (2 * circuit.nodes)
    poly[0::2] = [gadget.evaluate(field, row) for row in rows]
    poly[1::2] = [gadget.evaluate(field, row) for row in odd_rows(field, rows)]
    return [*prove_rand, *poly[: circuit.gadget_poly_len]]


def query(
    circuit: Circuit,
    meas: Sequence[int],
    proof: Sequence[int],
    query_rand: Sequence[int],
    joint_rand: Sequence[int],
    shares: int,
) -> list[int]:
    """One aggregator's verifier, `circuit.verifier_len` elements. Raises: VdafError, for a test point that leaks."""
    field, n = circuit.field, circuit.nodes
    seeds, poly = proof[: circuit.gadget.arity], proof[circuit.gadget.arity :]
    rows = [seeds, *circuit.rows(meas, joint_rand, shares)]
    results = poly[2 : 2 * circuit.calls + 1 : 2]
    output = _reduced(field, circuit.outputs(meas, results, shares), query_rand[:-1])
    t = query_rand[-1]
    if pow(t, n, field.modulus) == 1:  # the wires at a node are the measurement itself (VDAF, section 7.3.4)
        raise VdafError("the test point is a root of unity; the report cannot be verified")
    basis = lagrange_basis(field, n, t)
    wires = [field.dot(basis, column) for column in zip(*rows, strict=True)]
    return [output, *wires, field.dot(_gadget_basis(field, n, t), poly)]


def decide(circuit: Circuit, verifier: Sequence[int]) -> None:
    """Judge the sum of all verifiers. Raises: VdafError."""
    output, wires, check = verifier[0], verifier[1:-1], verifier[-1]
    if output != 0 or circuit.gadget.evaluate(circuit.field, wires) != check:
        raise VdafError("the proof does not hold: the report is not valid")


def _reduced(field: Field, outputs: Sequence[int], rand: Sequence[int]) -> int:
    """Several outputs as one, zero for all zeros and hardly ever otherwise."""
    return field.dot(rand, outputs) if rand else outputs[0] % field.modulus


def _gadget_basis(field: Field, n: int, t: int) -> list[int]:
    """Weights for the gadget polynomial at t, from its first 2n - 1 values at the 2n-th roots.

    Its degree is at most 2n - 2, so its coefficient of x ** (2n - 1) is zero: the sum of value[i] * root**i is zero.
    That gives the missing value, whose weight is spread over the others here.
    """
    p, roots = field.modulus, field.roots(2 * n)
    *basis, last = lagrange_basis(field, 2 * n, t)
    spread = last * roots[1] % p  # one over root ** (2n - 1) is root ** 1
    return [(weight - spread * root) % p for weight, root in zip(basis, roots, strict=False)]
