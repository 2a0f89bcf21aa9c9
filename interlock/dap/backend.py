"""What DAP asks of a verifiable distributed aggregation function: bytes in, bytes out (VDAF, section 5).

The native backend and the Python reference (`vdaf.prio3.Prio3`) both fill `VdafBackend`. One report goes through it
in this order, and in no other:

    client       shard -> public share, one input share an aggregator
    aggregators  verify_init (each) -> state, verifier share
    together     verifier_shares_to_message -> the message, or VdafError
    aggregators  verify_next (each) -> output share, or VdafError
    later        aggregate, merge (each) -> aggregate share; the collector unshards all of them

An aggregator does a whole job of reports at once, from the sealed shares on: `leader_job`, `helper_job`. What has to be
signed of a report comes with it, and is checked before it is opened.

A state, an output share and an aggregate share are bytes, so that they can be stored between steps; whoever keeps
them keeps them secret, and no repr, error or log line may show them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from interlock.base.claims import Claim
from interlock.base.errors import InterlockError

__all__ = ["NONCE_SIZE", "SEED_SIZE", "VERIFY_KEY_SIZE", "Fault", "SealedShare", "VdafBackend", "VdafError", "Verdict"]

NONCE_SIZE: Final = 16  # bytes; in DAP the nonce is the report ID
SEED_SIZE: Final = 32  # bytes; every seed, blind and part of XofTurboShake128
VERIFY_KEY_SIZE: Final = 32  # bytes; shared by the aggregators, never known to a client


class VdafError(InterlockError):
    """A share, a proof or a message of a peer that is refused: the report drops out, the batch goes on."""

    code = "vdaf"


# a signature does not hold; it does not open; it holds no bare input share; it does not verify
Fault = Literal["unsigned", "sealed", "malformed", "invalid"]
Verdict = tuple[bytes, bytes] | Fault  # of one report of a job


@dataclass(frozen=True, slots=True)
class SealedShare:
    """One report of a job, as an aggregator has it; `inbound` is the leader's ping-pong message to the helper.

    `claims` are what has to be signed, or the report drops out before anything else is looked at.
    """

    nonce: bytes
    public_share: bytes = field(repr=False)
    public_key: bytes  # the aggregator's key pair that `payload` is sealed to
    private_key: bytes = field(repr=False)
    enc: bytes = field(repr=False)
    payload: bytes = field(repr=False)
    aad: bytes = field(repr=False)
    inbound: bytes = field(default=b"", repr=False)
    claims: Sequence[Claim] = field(default=(), repr=False)


class VdafBackend(Protocol):
    """One VDAF with its parameters fixed. Aggregator 0 is DAP's leader, aggregator 1 its helper.

    What a peer sent and does not fit raises VdafError. What the calling program got wrong (the size of a key, a nonce
    or the randomness, a measurement outside the range, the number of shares) raises ValueError without the value.
    """

    @property
    def algorithm_id(self) -> int:
        """The VDAF's registered number: 1 Count, 2 Sum, 3 SumVec, 4 Histogram, 5 MultihotCountVec."""

    @property
    def vdaf_config(self) -> bytes:
        """The parameters as DAP's TaskConfiguration spells them (vdaf_configuration)."""

    @property
    def shares(self) -> int:
        """How many aggregators; two in DAP."""

    @property
    def rand_size(self) -> int:
        """How many random bytes `shard` takes."""

    def shard(
        self, ctx: bytes, measurement: Sequence[int], nonce: bytes, rand: bytes
    ) -> tuple[bytes, tuple[bytes, ...]]:
        """The public share, and an input share for each aggregator: `public, (leader, helper) = shard(...)`.

        `measurement`: Count [0 or 1], Sum [value], Histogram [bucket], SumVec one value a place, MultihotCountVec one
        0 or 1 a place. `nonce` is NONCE_SIZE bytes, `rand` is `rand_size` fresh random bytes. Raises: ValueError.
        """

    def verify_init(
        self, verify_key: bytes, ctx: bytes, agg_id: int, nonce: bytes, public_share: bytes, input_share: bytes
    ) -> tuple[bytes, bytes]:
        """Begin to verify one report: (state, to keep; verifier share, to send). Raises: VdafError, ValueError."""

    def verifier_shares_to_message(self, ctx: bytes, verifier_shares: Sequence[bytes]) -> bytes:
        """Judge the proof from all verifier shares, in the order of aggregators.

        Raises: VdafError, where the proof does not hold; ValueError, for the wrong number of shares.
        """

    def verify_next(self, ctx: bytes, state: bytes, message: bytes) -> bytes:
        """The output share of a report whose proof holds. Raises: VdafError."""

    def leader_job(self, verify_key: bytes, ctx: bytes, info: bytes, reports: Sequence[SealedShare]) -> list[Verdict]:
        """Open and begin each report: (state, ping-pong message to the helper), or why it drops out.

        `info` is HPKE's, of this aggregator. A bad report stops no other. Raises: ValueError.
        """

    def helper_job(self, verify_key: bytes, ctx: bytes, info: bytes, reports: Sequence[SealedShare]) -> list[Verdict]:
        """Open, verify and finish each report: (output share, ping-pong message to the leader), or why it drops out.

        Raises: ValueError.
        """

    def aggregate(self, out_shares: Iterable[bytes]) -> bytes:
        """The aggregate share of these output shares; of none, the share that adds nothing. Raises: VdafError."""

    def merge(self, agg_shares: Iterable[bytes]) -> bytes:
        """One aggregate share of several of the same aggregator. Raises: VdafError."""

    def decode_agg_share(self, agg_share: bytes) -> list[int]:
        """Bytes to field elements. Raises: VdafError."""

    def unshard(self, agg_shares: Sequence[bytes], count: int) -> list[int]:
        """The aggregate result of `count` reports from every aggregator's share, in the order of the measurement.

        Raises: VdafError, for a share that does not decode; ValueError, for the wrong number of shares.
        """
