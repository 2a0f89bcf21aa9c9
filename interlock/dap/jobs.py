"""The messages of aggregation and collection as values; the habits are those of `messages`.

    leader -> helper     AggregationJobInitReq, AggregationJobContinueReq -> AggregationJobResp
                         AggregateShareReq -> AggregateShare
    collector -> leader  CollectionJobReq -> CollectionJobResp

Source: draft-ietf-ppm-dap-18, sections 4.5 and 4.6. Raises, in every `decode`: base.codec.Malformed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Self

from interlock.base.codec import Malformed, Reader, Writer
from interlock.dap.drafts import DAP_18, Draft, ReportError
from interlock.dap.messages import (
    REPORT_ID_SIZE,
    REPORTS_MOST,
    TASK_ID_SIZE,
    Extension,
    HpkeCiphertext,
    Interval,
    Message,
    ReportMetadata,
    TaskConfiguration,
    Verbatim,
    joined,
    write_all,
)

__all__ = [
    "CHECKSUM_SIZE",
    "AggregateShare",
    "AggregateShareAad",
    "AggregateShareReq",
    "AggregationJobContinueReq",
    "AggregationJobInitReq",
    "AggregationJobResp",
    "BatchSelector",
    "CollectionJobReq",
    "CollectionJobResp",
    "Query",
    "ReportShare",
    "VerifyContinue",
    "VerifyInit",
    "VerifyResp",
]

CHECKSUM_SIZE: Final = 32
_CONTINUE: Final = 0
_FINISH: Final = 1
_REJECT: Final = 2


@dataclass(frozen=True)
class ReportShare(Message):
    """The helper's part of a report, as the leader passes it on."""

    metadata: ReportMetadata
    public_share: bytes = field(repr=False)
    ciphertext: HpkeCiphertext

    def write(self, w: Writer) -> None:
        self.metadata.write(w)
        w.opaque32(self.public_share)
        self.ciphertext.write(w)

    @classmethod
    def read(cls, r: Reader) -> Self:
        return cls(ReportMetadata.read(r), r.opaque32(), HpkeCiphertext.read(r))


@dataclass(frozen=True)
class VerifyInit(Verbatim):
    """A report share with the leader's first message of its verification."""

    share: ReportShare
    payload: bytes = field(repr=False)

    def write_parts(self, w: Writer) -> None:
        self.share.write(w)
        w.opaque32(self.payload)

    @classmethod
    def read_parts(cls, r: Reader) -> Self:
        return cls(ReportShare.read(r), r.opaque32(least=1))


@dataclass(frozen=True)
class AggregationJobInitReq(Message):
    """The leader's request to verify some reports together."""

    verification_key_id: int
    agg_param: bytes
    extensions: tuple[Extension, ...]
    inits: tuple[VerifyInit, ...]

    def write(self, w: Writer) -> None:
        w.u8(self.verification_key_id).opaque32(self.agg_param).opaque16(joined(self.extensions))
        write_all(w, self.inits)

    @classmethod
    def read(cls, r: Reader) -> Self:
        return cls(r.u8(), r.opaque32(), Extension.read_list(r), tuple(r.many(VerifyInit.read, most=REPORTS_MOST)))


@dataclass(frozen=True)
class VerifyContinue(Message):
    """The leader's next message on one report, in a VDAF of several rounds."""

    report_id: bytes
    payload: bytes = field(repr=False)

    def write(self, w: Writer) -> None:
        w.fixed(self.report_id, REPORT_ID_SIZE).opaque32(self.payload)

    @classmethod
    def read(cls, r: Reader) -> Self:
        return cls(r.take(REPORT_ID_SIZE), r.opaque32(least=1))


@dataclass(frozen=True)
class AggregationJobContinueReq(Message):
    """The leader's request to take a job to its next step. Prio3 has no such step."""

    step: int
    continues: tuple[VerifyContinue, ...]

    def write(self, w: Writer) -> None:
        w.u16(self.step)
        write_all(w, self.continues)

    @classmethod
    def read(cls, r: Reader) -> Self:
        return cls(r.u16(), tuple(r.many(VerifyContinue.read, most=REPORTS_MOST)))


@dataclass(frozen=True)
class VerifyResp:
    """The helper's word on one report: a message to continue with, done, or why not. At most one is set."""

    report_id: bytes
    payload: bytes = field(default=b"", repr=False)  # continue
    error: ReportError | None = None  # reject

    def write(self, w: Writer, draft: Draft) -> None:
        w.fixed(self.report_id, REPORT_ID_SIZE)
        if self.error is not None:
            w.u8(_REJECT).u8(draft.error_code(self.error))
        elif self.payload:
            w.u8(_CONTINUE).opaque32(self.payload)
        else:
            w.u8(_FINISH)

    @classmethod
    def read(cls, r: Reader, draft: Draft) -> Self:
        report_id, kind = r.take(REPORT_ID_SIZE), r.u8()
        if kind == _CONTINUE:
            return cls(report_id, payload=r.opaque32(least=1))
        if kind == _REJECT:
            return cls(report_id, error=draft.error_of(r.u8()))
        if kind != _FINISH:
            raise Malformed(f"answer of an unknown type {kind}")
        return cls(report_id)


@dataclass(frozen=True)
class AggregationJobResp:
    """The helper's words on all reports of a job, in its order."""

    responses: tuple[VerifyResp, ...]

    def encode(self, draft: Draft = DAP_18) -> bytes:
        w = Writer()
        for response in self.responses:
            response.write(w, draft)
        return w.done()

    @classmethod
    def decode(cls, data: bytes, draft: Draft = DAP_18) -> Self:
        """Raises: Malformed."""
        reader = Reader(data, cls.__name__)
        return cls(tuple(reader.many(lambda r: VerifyResp.read(r, draft), most=REPORTS_MOST)))


@dataclass(frozen=True)
class Query(Message):
    """Which batch a collector asks for; `config` depends on the batch mode."""

    batch_mode: int
    config: bytes

    def write(self, w: Writer) -> None:
        w.u8(self.batch_mode).opaque16(self.config)

    @classmethod
    def read(cls, r: Reader) -> Self:
        return cls(r.u8(), r.opaque16())


class BatchSelector(Query):
    """Which batch a leader asks the helper for."""


@dataclass(frozen=True)
class CollectionJobReq(Message):
    """The collector's request for one batch."""

    query: Query
    agg_param: bytes = b""
    extensions: tuple[Extension, ...] = ()

    def write(self, w: Writer) -> None:
        self.query.write(w)
        w.opaque32(self.agg_param).opaque16(joined(self.extensions))

    @classmethod
    def read(cls, r: Reader) -> Self:
        return cls(Query.read(r), r.opaque32(), Extension.read_list(r))


@dataclass(frozen=True)
class CollectionJobResp(Message):
    """A collected batch: how many reports, the span of their times, and both sealed aggregate shares."""

    report_count: int
    interval: Interval
    leader_share: HpkeCiphertext
    helper_share: HpkeCiphertext

    def write(self, w: Writer) -> None:
        w.u64(self.report_count)
        write_all(w, (self.interval, self.leader_share, self.helper_share))

    @classmethod
    def read(cls, r: Reader) -> Self:
        return cls(r.u64(), Interval.read(r), HpkeCiphertext.read(r), HpkeCiphertext.read(r))


@dataclass(frozen=True)
class AggregateShareReq(Message):
    """The leader's request for the helper's share of a batch, with what the leader counted itself."""

    job: CollectionJobReq
    selector: BatchSelector
    report_count: int
    checksum: bytes

    def write(self, w: Writer) -> None:
        write_all(w, (self.job, self.selector))
        w.u64(self.report_count).fixed(self.checksum, CHECKSUM_SIZE)

    @classmethod
    def read(cls, r: Reader) -> Self:
        return cls(CollectionJobReq.read(r), BatchSelector.read(r), r.u64(), r.take(CHECKSUM_SIZE))


@dataclass(frozen=True)
class AggregateShare(Message):
    """The helper's aggregate share, sealed to the collector."""

    ciphertext: HpkeCiphertext

    def write(self, w: Writer) -> None:
        self.ciphertext.write(w)

    @classmethod
    def read(cls, r: Reader) -> Self:
        return cls(HpkeCiphertext.read(r))


@dataclass(frozen=True)
class AggregateShareAad(Message):
    """The associated data that an aggregate share is sealed with."""

    task_id: bytes
    configuration: bytes
    job: CollectionJobReq

    def write(self, w: Writer) -> None:
        w.fixed(self.task_id, TASK_ID_SIZE).raw(self.configuration)
        self.job.write(w)

    @classmethod
    def read(cls, r: Reader) -> Self:
        return cls(r.take(TASK_ID_SIZE), TaskConfiguration.read(r).encode(), CollectionJobReq.read(r))
