"""Prio3 by the native wheel: for two aggregators, with arithmetic that takes the same time whatever it adds up.

It fills dap.backend.VdafBackend, byte for byte as the Python reference does, states included: a report that was begun
on one of them is finished on the other.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, Literal, Protocol, TypeVar

from interlock.base.claims import CheckClaims, Claim
from interlock.base.errors import InterlockError
from interlock.native.availability import availability

__all__ = ["NativeVdaf", "chosen_failing", "chosen_vdaf"]

_SHARES: Final = 2
_T = TypeVar("_T")
_Verdict = tuple[bytes, bytes] | Literal["unsigned", "sealed", "malformed", "invalid"]


class _Parameters(Protocol):
    @property
    def algorithm_id(self) -> int: ...
    @property
    def vdaf_config(self) -> bytes: ...
    @property
    def shares(self) -> int: ...


class _Sealed(Protocol):
    """dap.backend.SealedShare"""

    @property
    def nonce(self) -> bytes: ...
    @property
    def public_share(self) -> bytes: ...
    @property
    def public_key(self) -> bytes: ...
    @property
    def private_key(self) -> bytes: ...
    @property
    def enc(self) -> bytes: ...
    @property
    def payload(self) -> bytes: ...
    @property
    def aad(self) -> bytes: ...
    @property
    def inbound(self) -> bytes: ...
    @property
    def claims(self) -> Sequence[Claim]: ...


_fields = attrgetter("nonce", "public_share", "public_key", "private_key", "enc", "payload", "aad", "inbound")
_R = TypeVar("_R", bound=_Parameters)


class NativeVdaf:
    """One Prio3 type with its parameters fixed; see `VdafBackend` for what each method owes.

    `refused` makes the error for what a peer sent and does not fit (dap.backend.VdafError), from one line.
    """

    def __init__(self, algorithm_id: int, vdaf_config: bytes, refused: type[InterlockError]) -> None:
        """Raises: `refused`, for a type or parameters that are not here; ImportError, where the wheel is not."""
        self._native: Any = importlib.import_module("interlock_native")
        self._refused = refused
        self._algorithm_id, self._config = algorithm_id, vdaf_config
        self._vdaf = self._told(lambda: self._native.Vdaf(algorithm_id, vdaf_config))

    @property
    def algorithm_id(self) -> int:
        return self._algorithm_id

    @property
    def vdaf_config(self) -> bytes:
        return self._config

    @property
    def shares(self) -> int:
        return _SHARES

    @property
    def rand_size(self) -> int:
        return int(self._vdaf.rand_size)

    def shard(
        self, ctx: bytes, measurement: Sequence[int], nonce: bytes, rand: bytes
    ) -> tuple[bytes, tuple[bytes, ...]]:
        try:
            public, *shares = self._told(lambda: self._vdaf.shard(ctx, list(measurement), nonce, rand))
        except OverflowError:  # of a number that no task takes; it is not shown
            raise ValueError("a measurement has numbers from 0 to the task's most") from None
        return public, tuple(shares)

    def verify_init(
        self, verify_key: bytes, ctx: bytes, agg_id: int, nonce: bytes, public_share: bytes, input_share: bytes
    ) -> tuple[bytes, bytes]:
        given = (verify_key, ctx, agg_id, nonce, public_share, input_share)
        state, share = self._told(lambda: self._vdaf.verify_init(*given))
        return state, share

    def verifier_shares_to_message(self, ctx: bytes, verifier_shares: Sequence[bytes]) -> bytes:
        return self._told(lambda: bytes(self._vdaf.verifier_shares_to_message(ctx, list(verifier_shares))))

    def verify_next(self, ctx: bytes, state: bytes, message: bytes) -> bytes:
        return self._told(lambda: bytes(self._vdaf.verify_next(state, message)))

    def leader_job(self, verify_key: bytes, ctx: bytes, info: bytes, reports: Sequence[_Sealed]) -> list[_Verdict]:
        return self._told(lambda: list(self._vdaf.leader_job(verify_key, ctx, info, _parts(reports))))

    def helper_job(self, verify_key: bytes, ctx: bytes, info: bytes, reports: Sequence[_Sealed]) -> list[_Verdict]:
        return self._told(lambda: list(self._vdaf.helper_job(verify_key, ctx, info, _parts(reports))))

    def aggregate(self, out_shares: Iterable[bytes]) -> bytes:
        return self.merge(out_shares)  # an output share is the aggregate share of one report

    def merge(self, agg_shares: Iterable[bytes]) -> bytes:
        return self._told(lambda: bytes(self._vdaf.merge(list(agg_shares))))

    def decode_agg_share(self, agg_share: bytes) -> list[int]:
        return self._told(lambda: list(self._vdaf.decode_agg_share(agg_share)))

    def unshard(self, agg_shares: Sequence[bytes], count: int) -> list[int]:
        if len(agg_shares) != _SHARES:
            raise ValueError(f"{len(agg_shares)} shares where each of {_SHARES} aggregators has one")
        if count < 0:
            raise ValueError("the number of reports is not negative")
        return self.decode_agg_share(self.merge(agg_shares))

    def _told(self, call: Callable[[], _T]) -> _T:
        """A panic of the native code is the report's fault too: it drops out, and the job goes on."""
        try:
            return call()
        except self._native.RefusedShare as e:
            raise self._refused(str(e)) from None
        except self._native.Panicked:
            raise self._refused("the native VDAF failed on it") from None


def chosen_vdaf(reference: _R, refused: type[InterlockError]) -> _R | NativeVdaf:
    """The native VDAF with the reference's parameters where the wheel is here and has it, else the reference."""
    if reference.shares != _SHARES or not availability().installed:
        return reference
    if not _has_jobs():
        return reference  # a wheel of an earlier day
    return NativeVdaf(reference.algorithm_id, reference.vdaf_config, refused)


def chosen_failing(reference: CheckClaims) -> CheckClaims:
    """The native check of many reports' signatures, on every core, where the wheel is here and has it."""
    return _failing if availability().installed and _has_jobs() else reference


def _failing(reports: Sequence[Sequence[Claim]]) -> set[int]:
    return set(importlib.import_module("interlock_native").failing([list(report) for report in reports]))


def _has_jobs() -> bool:
    """Whether the wheel has jobs that check what is signed."""
    return hasattr(importlib.import_module("interlock_native"), "failing")


def _parts(reports: Sequence[_Sealed]) -> list[tuple[tuple[bytes, ...], list[Claim]]]:
    """Reports as the wheel takes them apart."""
    return [(_fields(report), list(report.claims)) for report in reports]
