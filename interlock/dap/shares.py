"""Sealing and opening shares: HPKE as DAP uses it, and the checks on an input share before it is verified.

A share is sealed to one aggregator, with the task's exact configuration as associated data: another task, another
URL byte, another role or draft, and it does not open. Source: draft-ietf-ppm-dap-18, sections 4.4.2, 4.5.4, 4.6.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

from interlock.base.claims import Claim
from interlock.base.clock import MICROSECONDS
from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.primitives import BadSignature, Rng
from interlock.dap import hpke
from interlock.dap.backend import Fault, SealedShare
from interlock.dap.drafts import ReportError, Role
from interlock.dap.jobs import AggregateShareAad, CollectionJobReq
from interlock.dap.messages import (
    MEMBERSHIP,
    HpkeCiphertext,
    HpkeConfig,
    HpkeConfigList,
    InputShareAad,
    PlaintextInputShare,
    ReportMetadata,
    spoken,
)
from interlock.dap.task import TIME_MOST, Task

__all__ = [
    "LEEWAY_US",
    "HpkeKey",
    "KeyRing",
    "ReportRejected",
    "demand_timely",
    "new_key",
    "open_aggregate_share",
    "open_input_share",
    "rotated",
    "seal_aggregate_share",
    "seal_input_share",
    "sealed_share",
    "sealed_share_again",
    "supported",
    "time_error",
]

LEEWAY_US: Final = 300 * MICROSECONDS  # how far a client's clock may run ahead
_FAULTS: Final[dict[Fault, tuple[ReportError, str]]] = {
    "unsigned": (ReportError.REPORT_DROPPED, "what has to be signed for the report to be let in is not"),
    "sealed": (ReportError.HPKE_DECRYPT_ERROR, "input share does not open"),
    "malformed": (ReportError.INVALID_MESSAGE, "input share is malformed, or has an extension that is not known here"),
    "invalid": (ReportError.VDAF_VERIFY_ERROR, "the report does not verify"),
}


class ReportRejected(InterlockError):
    """One report that drops out; the others go on."""

    code = "dap-problem"

    def __init__(self, error: ReportError, what: str) -> None:
        super().__init__(what)
        self.error = error

    @classmethod
    def of(cls, fault: Fault) -> Self:
        """What a VDAF said of one report of a job."""
        return cls(*_FAULTS[fault])


@dataclass(frozen=True)
class HpkeKey:
    """A key pair under the id that ciphertexts name it by.

    `until_us` is set of a key that was replaced: it is offered to nobody, and opens what was sealed to it until then.
    """

    id: int
    pair: hpke.KeyPair = field(repr=False)
    until_us: int | None = None

    @property
    def config(self) -> HpkeConfig:
        return HpkeConfig(self.id, self.pair.kem.id, hpke.KDF_ID, hpke.AEAD_ID, self.pair.public)


def new_key(key_id: int, rng: Rng, kem: hpke.Kem = hpke.X25519) -> HpkeKey:
    return HpkeKey(key_id, hpke.derive_key_pair(rng(hpke.SEED_SIZE), kem))


def rotated(keys: Sequence[HpkeKey], now_us: int, overlap_us: int, rng: Rng, kem: hpke.Kem) -> list[HpkeKey]:
    """A fresh key before the ones there are, which open for `overlap_us` more; those whose time is over are gone.

    The draft asks for twice the cache life of /hpke_config at least (4.4.1).
    Raises: ValueError, where all 256 ids are in use.
    """
    kept = [
        key if key.until_us is not None else replace(key, until_us=now_us + overlap_us)
        for key in keys
        if key.until_us is None or key.until_us > now_us
    ]
    used = {key.id for key in kept}
    last = keys[0].id if keys else 0
    free = next((i % 256 for i in range(last + 1, last + 257) if i % 256 not in used), None)
    if free is None:
        raise ValueError("every id of a key is in use")
    return [new_key(free, rng, kem), *kept]


class KeyRing:
    """The keys of one party; the first is the one it prefers, the others still open what was sealed to them.

    `read` gives them anew at each use, so that a key may be replaced while the party is at work.
    """

    def __init__(self, keys: Iterable[HpkeKey] = (), *, read: Callable[[], Sequence[HpkeKey]] | None = None) -> None:
        held = tuple(keys)
        self._read: Callable[[], Sequence[HpkeKey]] = read or (lambda: held)
        if not self._read():
            raise ValueError("a key ring holds at least one key")

    @property
    def configs(self) -> HpkeConfigList:
        """The keys that are offered, in order of preference."""
        return HpkeConfigList(tuple(key.config for key in self._read() if key.until_us is None))

    def find(self, config_id: int, now_us: int) -> HpkeKey | None:
        """The key of an id, as long as it opens anything."""
        found = next((key for key in self._read() if key.id == config_id), None)
        return found if found is None or found.until_us is None or now_us < found.until_us else None


def supported(configs: HpkeConfigList) -> HpkeConfig | None:
    """The first offered key whose suite is spoken here."""
    return next(filter(spoken, configs.configs), None)


def _seal(config: HpkeConfig, info: bytes, aad: bytes, plaintext: bytes, rng: Rng) -> HpkeCiphertext:
    enc, payload = hpke.seal(config.public_key, info, aad, plaintext, ikm=rng(hpke.SEED_SIZE))
    return HpkeCiphertext(config.id, enc, payload)


def _input_aad(task: Task, metadata: ReportMetadata, public_share: bytes) -> bytes:
    return InputShareAad(task.task_id, task.configuration, metadata, public_share).encode()


def seal_input_share(
    task: Task,
    role: Role,
    config: HpkeConfig,
    metadata: ReportMetadata,
    public_share: bytes,
    share: bytes,
    rng: Rng,
) -> HpkeCiphertext:
    """A client's share for one aggregator. Raises: BadSignature, for a public key that cannot be used."""
    plaintext = PlaintextInputShare((), share).encode()
    return _seal(config, task.draft.input_share_info(role), _input_aad(task, metadata, public_share), plaintext, rng)


def open_input_share(
    task: Task,
    role: Role,
    keys: KeyRing,
    metadata: ReportMetadata,
    public_share: bytes,
    sealed: HpkeCiphertext,
    now_us: int,
) -> bytes:
    """An aggregator's VDAF input share, checked as 4.5.5 demands; the VDAF itself checks that it decodes.

    Raises: ReportRejected.
    """
    _demand_on_time(task, metadata, now_us)
    pair = _pair(keys, sealed, now_us)
    try:
        aad = _input_aad(task, metadata, public_share)
        opened = hpke.unseal(pair, sealed.enc, task.draft.input_share_info(role), aad, sealed.payload)
        plaintext = PlaintextInputShare.decode(opened)
    except BadSignature:
        raise ReportRejected.of("sealed") from None
    except Malformed:
        raise ReportRejected.of("malformed") from None
    if plaintext.extensions:
        raise ReportRejected.of("malformed")
    _demand_extensions(task, metadata)
    return plaintext.payload


def sealed_share(
    task: Task,
    keys: KeyRing,
    metadata: ReportMetadata,
    public_share: bytes,
    sealed: HpkeCiphertext,
    now_us: int,
    inbound: bytes = b"",
    admit: Callable[[], Sequence[Claim]] = tuple,
) -> SealedShare:
    """A report for a job of the VDAF, which opens it; checked as far as 4.5.5 demands without that.

    `admit` says what has to be signed, and is asked once all else is well. Raises: ReportRejected; of `admit`.
    """
    demand_timely(task, metadata, now_us)
    pair = _pair(keys, sealed, now_us)
    return _sealed_share(task, pair, metadata, public_share, sealed, inbound, admit())


def sealed_share_again(
    task: Task, keys: KeyRing, metadata: ReportMetadata, public_share: bytes, sealed: HpkeCiphertext
) -> SealedShare:
    """A report that was found well before, whatever the time is now. Raises: ReportRejected, where its key is gone."""
    return _sealed_share(task, _pair(keys, sealed, now_us=0), metadata, public_share, sealed)


def _sealed_share(
    task: Task,
    pair: hpke.KeyPair,
    metadata: ReportMetadata,
    public_share: bytes,
    sealed: HpkeCiphertext,
    inbound: bytes = b"",
    claims: Sequence[Claim] = (),
) -> SealedShare:
    aad = _input_aad(task, metadata, public_share)
    about = (metadata.report_id, public_share, pair.public, pair.private)
    return SealedShare(*about, sealed.enc, sealed.payload, aad, inbound, claims)


def _pair(keys: KeyRing, sealed: HpkeCiphertext, now_us: int) -> hpke.KeyPair:
    key = keys.find(sealed.config_id, now_us)
    if key is None:
        raise ReportRejected(ReportError.HPKE_UNKNOWN_CONFIG_ID, "no key has the id that the share is sealed to")
    return key.pair


def demand_timely(task: Task, metadata: ReportMetadata, now_us: int) -> None:
    """What of a report can be judged without opening it: its time and its public extensions. Raises: ReportRejected."""
    _demand_on_time(task, metadata, now_us)
    _demand_extensions(task, metadata)


def _demand_on_time(task: Task, metadata: ReportMetadata, now_us: int) -> None:
    error = time_error(task, metadata.time, now_us)
    if error is not None:
        raise ReportRejected(error, "report's time is outside of what the task takes")


def _demand_extensions(task: Task, metadata: ReportMetadata) -> None:
    """One report extension is known, public and only of a task that asks for it: that settles doubles and order too."""
    asked = [MEMBERSHIP] if task.membership is not None else []
    if not {e.kind for e in metadata.extensions} <= set(asked):
        raise ReportRejected(ReportError.UNSUPPORTED_EXTENSION, "report has an extension that is not known here")
    if [e.kind for e in metadata.extensions] != asked:
        raise ReportRejected(ReportError.INVALID_MESSAGE, "report has no proof of membership, or two")


def time_error(task: Task, time: int, now_us: int) -> ReportError | None:
    """Why an aggregator turns a report of this time down, or None."""
    if time > TIME_MOST or task.start_us(time) > now_us + LEEWAY_US:
        return ReportError.REPORT_TOO_EARLY
    if task.interval is not None and time < task.interval.start:
        return ReportError.TASK_NOT_STARTED
    if task.interval is not None and time >= task.interval.end:
        return ReportError.TASK_EXPIRED
    return None


def _aggregate_aad(task: Task, request: CollectionJobReq) -> bytes:
    return AggregateShareAad(task.task_id, task.configuration, request).encode()


def seal_aggregate_share(
    task: Task, role: Role, collector: HpkeConfig, request: CollectionJobReq, share: bytes, rng: Rng
) -> HpkeCiphertext:
    """An aggregator's share of a batch, for the collector alone."""
    return _seal(collector, task.draft.aggregate_share_info(role), _aggregate_aad(task, request), share, rng)


def open_aggregate_share(
    task: Task, role: Role, key: HpkeKey, request: CollectionJobReq, sealed: HpkeCiphertext
) -> bytes:
    """The collector's side. Raises: BadSignature."""
    if sealed.config_id != key.id:
        raise BadSignature("aggregate share is sealed to another key")
    info = task.draft.aggregate_share_info(role)
    return hpke.unseal(key.pair, sealed.enc, info, _aggregate_aad(task, request), sealed.payload)
