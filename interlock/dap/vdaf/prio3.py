"""Prio3: a measurement and its proof in shares, verified by aggregators that see neither (VDAF, section 7.2).

`Prio3(circuit)` fills `backend.VdafBackend` for two aggregators; `shares` may be any number from 2 to 255. The leader
(aggregator 0) has its share in full; every other one has a seed that expands into its share. Circuits with joint
randomness add a blind an aggregator: the randomness hangs on every share, so that no client can choose it.

    public share     one joint randomness part an aggregator, or nothing
    input share      leader: measurement share, proof share, blind; others: seed, blind
    state            corrected joint randomness seed, output share
    verifier share   verifier, joint randomness part
    message          joint randomness seed
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from typing import Final

from interlock.dap.backend import NONCE_SIZE, SEED_SIZE, VERIFY_KEY_SIZE, SealedShare, VdafError, Verdict
from interlock.dap.vdaf import flp, job
from interlock.dap.vdaf.circuits import Circuit, circuit_of_config
from interlock.dap.vdaf.xof import XofTurboShake128, domain_separation_tag

__all__ = ["Prio3", "prio3_of_config"]

_MEAS_SHARE: Final = 1
_PROOF_SHARE: Final = 2
_JOINT_RAND: Final = 3
_PROVE_RAND: Final = 4
_QUERY_RAND: Final = 5
_JOINT_RAND_SEED: Final = 6
_JOINT_RAND_PART: Final = 7
_PROOFS: Final = b"\x01"  # one proof a report


class Prio3:
    """The Python reference of one Prio3 type; see `VdafBackend` for what each method owes."""

    def __init__(self, circuit: Circuit, shares: int = 2) -> None:
        if not 2 <= shares <= 255:
            raise ValueError("Prio3 has 2 to 255 shares")
        self.circuit = circuit
        self._field = circuit.field
        self._shares = shares
        self._part_size = SEED_SIZE if circuit.joint_rand_len else 0
        self._meas_size = circuit.meas_len * circuit.field.size

    @property
    def algorithm_id(self) -> int:
        return self.circuit.algorithm_id

    @property
    def vdaf_config(self) -> bytes:
        return self.circuit.config

    @property
    def shares(self) -> int:
        return self._shares

    @property
    def rand_size(self) -> int:
        return self._shares * (SEED_SIZE + self._part_size)

    def shard(
        self, ctx: bytes, measurement: Sequence[int], nonce: bytes, rand: bytes
    ) -> tuple[bytes, tuple[bytes, ...]]:
        _demand_size("nonce", nonce, NONCE_SIZE)
        _demand_size("rand", rand, self.rand_size)
        circuit, field = self.circuit, self._field
        seeds, blinds, prove_seed = self._roles(rand)
        meas = circuit.encode(measurement)
        shared = [self._meas_share(ctx, agg_id, seed) for agg_id, seed in enumerate(seeds, 1)]
        leader = field.encode(_without(meas, shared, field.modulus))
        parts = [
            self._joint_part(ctx, agg_id, blind, share, nonce)
            for agg_id, (blind, share) in enumerate(zip(blinds, [leader, *map(field.encode, shared)], strict=True))
        ]
        joint_rand = self._joint_rand(ctx, self._joint_seed(ctx, parts))
        prove_rand = self._xof(prove_seed, _PROVE_RAND, ctx, _PROOFS).next_vec(field, circuit.prove_rand_len)
        proof = flp.prove(circuit, meas, prove_rand, joint_rand)
        proofs = [self._proof_share(ctx, agg_id, seed) for agg_id, seed in enumerate(seeds, 1)]
        leader += field.encode(_without(proof, proofs, field.modulus)) + blinds[0]
        return b"".join(parts), (leader, *[seed + blind for seed, blind in zip(seeds, blinds[1:], strict=True)])

    def verify_init(
        self, verify_key: bytes, ctx: bytes, agg_id: int, nonce: bytes, public_share: bytes, input_share: bytes
    ) -> tuple[bytes, bytes]:
        _demand_size("verify key", verify_key, VERIFY_KEY_SIZE)
        _demand_size("nonce", nonce, NONCE_SIZE)
        if not 0 <= agg_id < self._shares:
            raise ValueError(f"aggregators are numbered from 0 to {self._shares - 1}")
        circuit = self.circuit
        parts = self._public_parts(public_share)
        meas, encoded_meas, proof, blind = self._expanded(ctx, agg_id, input_share)
        part = self._joint_part(ctx, agg_id, blind, encoded_meas, nonce)
        parts[agg_id] = part  # what this aggregator knows counts for more than what the client says
        seed = self._joint_seed(ctx, parts)
        query_xof = self._xof(verify_key, _QUERY_RAND, ctx, _PROOFS + nonce)
        query_rand = query_xof.next_vec(self._field, circuit.query_rand_len)
        verifier = flp.query(circuit, meas, proof, query_rand, self._joint_rand(ctx, seed), self._shares)
        return seed + self._field.encode(circuit.truncate(meas)), self._field.encode(verifier) + part

    def verifier_shares_to_message(self, ctx: bytes, verifier_shares: Sequence[bytes]) -> bytes:
        self._demand_shares(verifier_shares)
        size = self.circuit.verifier_len * self._field.size
        verifiers, parts = [], []
        for share in verifier_shares:
            if len(share) != size + self._part_size:
                raise VdafError(f"verifier share has {len(share)} bytes where {size + self._part_size} belong")
            verifiers.append(self._field.decode(share[:size], self.circuit.verifier_len))
            parts.append(share[size:])
        flp.decide(self.circuit, self._total(verifiers, self.circuit.verifier_len))
        return self._joint_seed(ctx, parts)

    def verify_next(self, ctx: bytes, state: bytes, message: bytes) -> bytes:
        if len(state) != self._part_size + self.circuit.output_len * self._field.size:
            raise VdafError("a state does not decode")
        seed, out_share = state[: self._part_size], state[self._part_size :]
        if not hmac.compare_digest(seed, message):
            raise VdafError("the joint randomness is not that of the shares: the report is not valid")
        return out_share

    def leader_job(self, verify_key: bytes, ctx: bytes, info: bytes, reports: Sequence[SealedShare]) -> list[Verdict]:
        return job.leader_job(self, verify_key, ctx, info, reports)

    def helper_job(self, verify_key: bytes, ctx: bytes, info: bytes, reports: Sequence[SealedShare]) -> list[Verdict]:
        return job.helper_job(self, verify_key, ctx, info, reports)

    def aggregate(self, out_shares: Iterable[bytes]) -> bytes:
        values = [self.decode_agg_share(share) for share in out_shares]
        return self._field.encode(self._total(values, self.circuit.output_len))

    def merge(self, agg_shares: Iterable[bytes]) -> bytes:
        return self.aggregate(agg_shares)  # an output share is the aggregate share of one report

    def decode_agg_share(self, agg_share: bytes) -> list[int]:
        return self._field.decode(agg_share, self.circuit.output_len)

    def unshard(self, agg_shares: Sequence[bytes], count: int) -> list[int]:
        self._demand_shares(agg_shares)
        if count < 0:
            raise ValueError("the number of reports is not negative")
        return self.decode_agg_share(self.merge(agg_shares))

    def _roles(self, rand: bytes) -> tuple[list[bytes], list[bytes], bytes]:
        """The share seeds of all but the leader, everyone's blind (empty where there is none), the prover's seed."""
        seeds = [rand[at : at + SEED_SIZE] for at in range(0, len(rand), SEED_SIZE)]
        if not self._part_size:
            return seeds[:-1], [b""] * self._shares, seeds[-1]
        others = seeds[:-2]
        return others[0::2], [seeds[-2], *others[1::2]], seeds[-1]

    def _expanded(self, ctx: bytes, agg_id: int, input_share: bytes) -> tuple[list[int], bytes, list[int], bytes]:
        """An input share as (measurement share, the same encoded, proof share, blind)."""
        field, proof_size = self._field, self.circuit.proof_len * self._field.size
        body = self._meas_size + proof_size if agg_id == 0 else SEED_SIZE
        if len(input_share) != body + self._part_size:
            raise VdafError(f"input share has {len(input_share)} bytes where {body + self._part_size} belong")
        share, blind = input_share[:body], input_share[body:]
        if agg_id == 0:
            encoded = share[: self._meas_size]
            meas = field.decode(encoded, self.circuit.meas_len)
            return meas, encoded, field.decode(share[self._meas_size :], self.circuit.proof_len), blind
        meas = self._meas_share(ctx, agg_id, share)
        return meas, field.encode(meas), self._proof_share(ctx, agg_id, share), blind

    def _public_parts(self, public_share: bytes) -> list[bytes]:
        if len(public_share) != self._shares * self._part_size:
            raise VdafError(f"public share has {len(public_share)} bytes, not {self._shares * self._part_size}")
        return [public_share[i * self._part_size : (i + 1) * self._part_size] for i in range(self._shares)]

    def _xof(self, seed: bytes, usage: int, ctx: bytes, binder: bytes) -> XofTurboShake128:
        return XofTurboShake128(seed, domain_separation_tag(self.algorithm_id, usage, ctx), binder)

    def _meas_share(self, ctx: bytes, agg_id: int, seed: bytes) -> list[int]:
        return self._xof(seed, _MEAS_SHARE, ctx, bytes([agg_id])).next_vec(self._field, self.circuit.meas_len)

    def _proof_share(self, ctx: bytes, agg_id: int, seed: bytes) -> list[int]:
        xof = self._xof(seed, _PROOF_SHARE, ctx, _PROOFS + bytes([agg_id]))
        return xof.next_vec(self._field, self.circuit.proof_len)

    def _joint_part(self, ctx: bytes, agg_id: int, blind: bytes, encoded_meas: bytes, nonce: bytes) -> bytes:
        """What an aggregator adds to the joint randomness: bound to its share. Empty where there is none."""
        if not self._part_size:
            return b""
        return self._xof(blind, _JOINT_RAND_PART, ctx, bytes([agg_id]) + nonce + encoded_meas).seed()

    def _joint_seed(self, ctx: bytes, parts: Sequence[bytes]) -> bytes:
        if not self._part_size:
            return b""
        return self._xof(bytes(SEED_SIZE), _JOINT_RAND_SEED, ctx, b"".join(parts)).seed()

    def _joint_rand(self, ctx: bytes, seed: bytes) -> list[int]:
        if not self._part_size:
            return []
        return self._xof(seed, _JOINT_RAND, ctx, _PROOFS).next_vec(self._field, self.circuit.joint_rand_len)

    def _total(self, vectors: Sequence[Sequence[int]], length: int) -> list[int]:
        p = self._field.modulus
        return [sum(column) % p for column in zip(*vectors, strict=True)] if vectors else [0] * length

    def _demand_shares(self, given: Sequence[bytes]) -> None:
        if len(given) != self._shares:
            raise ValueError(f"{len(given)} shares where each of {self._shares} aggregators has one")


def prio3_of_config(algorithm_id: int, vdaf_config: bytes) -> Prio3:
    """The two-aggregator Prio3 of a task's vdaf_type and vdaf_configuration (DAP, TaskConfiguration).

    Raises: VdafError, for a type or parameters that this form has not.
    """
    return Prio3(circuit_of_config(algorithm_id, vdaf_config))


def _without(whole: Sequence[int], shares: Sequence[Sequence[int]], p: int) -> list[int]:
    """What is left of a vector when all these shares are taken from it: the leader's share."""
    return [(value - sum(taken)) % p for value, *taken in zip(whole, *shares, strict=True)]


def _demand_size(what: str, data: bytes, size: int) -> None:
    if len(data) != size:
        raise ValueError(f"{what} has {len(data)} bytes where {size} belong")
