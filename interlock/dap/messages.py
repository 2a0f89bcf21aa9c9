"""The messages of DAP as values: `encode` writes one, `decode` reads it strictly, and decode(encode(x)) == x.

Here stand the common types, the task's configuration and the upload; `jobs` has aggregation and collection. One
class a structure of draft-ietf-ppm-dap-18 (TLS presentation language). Decoding checks the form only: what a message
means, its extensions and its times are judged by whoever acts on it, because each place answers with an error of its
own. URL bytes are never touched: one changed byte and no share opens.
Raises, in every `decode`: base.codec.Malformed. No repr shows a share or a payload.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from interlock.base.codec import Malformed, Reader, Writer, decode
from interlock.dap import hpke
from interlock.dap.drafts import DAP_18, Draft, ReportError

__all__ = [
    "BATCH_ID_SIZE",
    "EXTENSIONS_MOST",
    "LEADER_SELECTED",
    "LEADER_SELECTED_BATCH_ID",
    "MEDIA_TYPES",
    "MEMBERSHIP",
    "REPORTS_MOST",
    "REPORT_ID_SIZE",
    "TASK_ID_SIZE",
    "TIME_INTERVAL",
    "BatchId",
    "Extension",
    "HpkeCiphertext",
    "HpkeConfig",
    "HpkeConfigList",
    "InputShareAad",
    "Interval",
    "Message",
    "PlaintextInputShare",
    "Report",
    "ReportMetadata",
    "SumVecConfig",
    "TaskConfiguration",
    "UploadErrors",
    "UploadRequest",
    "Verbatim",
    "joined",
    "media_type",
    "message_of",
    "spoken",
    "write_all",
]

REPORT_ID_SIZE: Final = 16
# What one message may hold, so that many tiny parts in an allowed body cannot fill the memory.
REPORTS_MOST: Final = 10_000
EXTENSIONS_MOST: Final = 16
TASK_ID_SIZE: Final = 32
BATCH_ID_SIZE: Final = 32
# Our number in both registries of extensions, which leave no range for private use: of a task, that asks for proofs of
# membership; of a report, public, that carries one.
MEMBERSHIP: Final = 0xFF4D
TIME_INTERVAL: Final = 1  # BatchMode
LEADER_SELECTED: Final = 2
LEADER_SELECTED_BATCH_ID: Final = 1  # AggregationJobExtensionType (5.2.2)

MEDIA_TYPES: Final = frozenset(
    {
        "hpke-config-list",
        "upload-req",
        "upload-errors",
        "aggregation-job-init-req",
        "aggregation-job-continue-req",
        "aggregation-job-resp",
        "collection-job-req",
        "collection-job-resp",
        "aggregate-share-req",
        "aggregate-share",
    }
)
# beside DAP's, under a media type of our own
_OWN_MESSAGES: Final = frozenset({"repair-req", "repair-resp", "fate-req", "fate-resp"})
_DAP: Final = "application/ppm-dap"
_OWN: Final = "application/vnd.interlock.dap"


def media_type(message: str) -> str:
    """The media type of one kind of message, such as `upload-req`."""
    if message not in MEDIA_TYPES | _OWN_MESSAGES:
        raise ValueError(f"{message} is not a message of DAP")
    return f"{_OWN if message in _OWN_MESSAGES else _DAP};message={message}"


def message_of(content_type: str) -> str:
    """The kind of message that a media type names, or "" for what is none of DAP's or ours; `version` is passed by.

    As HTTP has it: names in any case, a value with or without quotes, spaces around both (RFC 9110, 8.3.1).
    """
    kind, *parameters = content_type.split(";")
    pairs = [(name.strip().lower(), value.strip()) for name, _, value in (p.partition("=") for p in parameters)]
    named = [value.removeprefix('"').removesuffix('"') for name, value in pairs if name == "message"]
    known = {_DAP: MEDIA_TYPES, _OWN: _OWN_MESSAGES}.get(kind.strip().lower(), frozenset())
    return named[0] if len(named) == 1 and named[0] in known else ""


class Message(abc.ABC):
    """The common face: subclasses give `write` and `read`."""

    @abc.abstractmethod
    def write(self, w: Writer) -> None: ...

    @classmethod
    @abc.abstractmethod
    def read(cls, r: Reader) -> Self: ...

    def encode(self) -> bytes:
        w = Writer()
        self.write(w)
        return w.done()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises: Malformed."""
        return decode(data, cls.read, cls.__name__)


class Verbatim(Message):
    """A message that is written as it was read, without going through its parts again; it has one spelling.

    Subclasses give `write_parts` and `read_parts`. Its bytes are no field: `dataclasses.replace` makes a message anew.
    """

    @abc.abstractmethod
    def write_parts(self, w: Writer) -> None: ...

    @classmethod
    @abc.abstractmethod
    def read_parts(cls, r: Reader) -> Self: ...

    def write(self, w: Writer) -> None:
        span: tuple[bytes, int, int] | None = self.__dict__.get("_span")
        if span is None:
            self.write_parts(w)
        else:
            whole, start, end = span
            w.raw(whole[start:end])

    @classmethod
    def read(cls, r: Reader) -> Self:
        start = r.at
        message = cls.read_parts(r)
        message.__dict__["_span"] = r.span(start)
        return message


def write_all(w: Writer, messages: Iterable[Message]) -> None:
    for message in messages:
        message.write(w)


def joined(messages: Iterable[Message]) -> bytes:
    w = Writer()
    write_all(w, messages)
    return w.done()


@dataclass(frozen=True)
class Interval(Message):
    """A half-open span of time, in units of the task's time precision."""

    start: int
    duration: int

    @property
    def end(self) -> int:
        return self.start + self.duration

    def write(self, w: Writer) -> None:
        w.u64(self.start).u64(self.duration)

    @classmethod
    def read(cls, r: Reader) -> Self:
        return cls(r.u64(), r.u64())


@dataclass(frozen=True)
class BatchId(Message):
    """What a leader names a batch of its own choice by (5.2): unique in the task, and says nothing."""

    id: bytes

    def write(self, w: Writer) -> None:
        w.fixed(self.id, BATCH_ID_SIZE)

    @classmethod
    def read(cls, r: Reader) -> Self:
        return cls(r.take(BATCH_ID_SIZE))


@dataclass(frozen=True)
class Extension(Message):
    """An extension of a task, a report, an aggregation job or a collection job: all have this one form."""

    kind: int
    data: bytes = field(repr=False)

    def write(self, w: Writer) -> None:
        w.u16(self.kind).opaque16(self.data)

    @classmethod
    def read(cls, r: Reader) -> Self:
        return cls(r.u16(), r.opaque16())

    @classmethod
    def read_list(cls, r: Reader) -> tuple[Self, ...]:
        return tuple(Reader(r.opaque16(), "extension list").many(cls.read, most=EXTENSIONS_MOST))


@dataclass(frozen=True)
class HpkeConfig(Message):
    """A public key to seal to, with its suite; `id` is what ciphertexts name it by."""

    id: int
    kem_id: int
    kdf_id: int
    aead_id: int
    public_key: bytes

    def write(self, w: Writer) -> None:
        w.u8(self.id).u16(self.kem_id).u16(self.kdf_id).u16(self.aead_id).opaque16(self.public_key)

    @classmethod
    def read(cls, r: Reader) -> Self:
        return cls(r.u8(), r.u16(), r.u16(), r.u16(), r.opaque16(least=1))


def spoken(config: HpkeConfig) -> bool:
    """Whether a key is of a suite that is spoken here, and of its size."""
    kem = hpke.KEMS.get(config.kem_id)
    rest = (config.kdf_id, config.aead_id) == (hpke.KDF_ID, hpke.AEAD_ID)
    return rest and kem is not None and len(config.public_key) == kem.public_size


@dataclass(frozen=True)
class HpkeConfigList(Message):
    """What an aggregator offers, in order of preference; ids are distinct (4.4.1)."""

    configs: tuple[HpkeConfig, ...]

    def write(self, w: Writer) -> None:
        w.opaque16(joined(self.configs))

    @classmethod
    def read(cls, r: Reader) -> Self:
        configs = tuple(Reader(r.opaque16(least=10), cls.__name__).many(HpkeConfig.read))
        if len({c.id for c in configs}) != len(configs):
            raise Malformed("HPKE configurations share an id")
        return cls(configs)


@dataclass(frozen=True)
class HpkeCiphertext(Verbatim):
    """A sealed message and the id of the key that opens it."""

    config_id: int
    enc: bytes = field(repr=False)
    payload: bytes = field(repr=False)

    def write_parts(self, w: Writer) -> None:
        w.u8(self.config_id).opaque16(self.enc).opaque32(self.payload)

    @classmethod
    def read_parts(cls, r: Reader) -> Self:
        return cls(r.u8(), r.opaque16(least=1), r.opaque32(least=1))


@dataclass(frozen=True)
class ReportMetadata(Verbatim):
    """What is public of a report: its 16-byte id, its time, its public extensions."""

    report_id: bytes
    time: int
    extensions: tuple[Extension, ...] = ()

    def write_parts(self, w: Writer) -> None:
        w.fixed(self.report_id, REPORT_ID_SIZE).u64(self.time).opaque16(joined(self.extensions))

    @classmethod
    def read_parts(cls, r: Reader) -> Self:
        return cls(r.take(REPORT_ID_SIZE), r.u64(), Extension.read_list(r))


@dataclass(frozen=True)
class Report(Verbatim):
    """One client's report: public share, and a sealed input share for each aggregator."""

    metadata: ReportMetadata
    public_share: bytes = field(repr=False)
    leader_share: HpkeCiphertext
    helper_share: HpkeCiphertext

    def write_parts(self, w: Writer) -> None:
        self.metadata.write(w)
        w.opaque32(self.public_share)
        self.leader_share.write(w)
        self.helper_share.write(w)

    @classmethod
    def read_parts(cls, r: Reader) -> Self:
        return cls(ReportMetadata.read(r), r.opaque32(), HpkeCiphertext.read(r), HpkeCiphertext.read(r))


@dataclass(frozen=True)
class UploadRequest(Message):
    """Reports, one behind the other to the end of the body."""

    reports: tuple[Report, ...]

    def write(self, w: Writer) -> None:
        write_all(w, self.reports)

    @classmethod
    def read(cls, r: Reader) -> Self:
        return cls(tuple(r.many(Report.read, most=REPORTS_MOST)))


@dataclass(frozen=True)
class UploadErrors:
    """The reports of a request that were turned down, in its order, each with the reason."""

    errors: tuple[tuple[bytes, ReportError], ...]

    def encode(self, draft: Draft = DAP_18) -> bytes:
        w = Writer()
        for report_id, error in self.errors:
            w.fixed(report_id, REPORT_ID_SIZE).u8(draft.error_code(error))
        return w.done()

    @classmethod
    def decode(cls, data: bytes, draft: Draft = DAP_18) -> Self:
        """Raises: Malformed."""
        reader = Reader(data, cls.__name__)
        pairs = reader.many(lambda r: (r.take(REPORT_ID_SIZE), draft.error_of(r.u8())), most=REPORTS_MOST)
        return cls(tuple(pairs))


@dataclass(frozen=True)
class PlaintextInputShare(Message):
    """What lies inside a report's ciphertext: an aggregator's own extensions and its input share."""

    extensions: tuple[Extension, ...]
    payload: bytes = field(repr=False)

    def write(self, w: Writer) -> None:
        w.opaque16(joined(self.extensions)).opaque32(self.payload)

    @classmethod
    def read(cls, r: Reader) -> Self:
        return cls(Extension.read_list(r), r.opaque32(least=1))


@dataclass(frozen=True)
class SumVecConfig(Message):
    """vdaf_configuration of Prio3SumVec."""

    length: int
    max_measurement: int
    chunk_length: int

    def write(self, w: Writer) -> None:
        w.u32(self.length).u64(self.max_measurement).u32(self.chunk_length)

    @classmethod
    def read(cls, r: Reader) -> Self:
        return cls(r.u32(), r.u64(), r.u32())


@dataclass(frozen=True)
class TaskConfiguration(Message):
    """What all parties of a task agree on, bound into every ciphertext; URLs are bytes and stay as they are.

    How long task_info is at least is the draft's; `task.task_of` demands it.
    """

    task_info: bytes
    leader_url: bytes
    helper_url: bytes
    time_precision: int  # seconds
    min_batch_size: int
    batch_mode: int
    batch_config: bytes
    vdaf_type: int
    vdaf_configuration: bytes
    extensions: tuple[Extension, ...] = ()

    def write(self, w: Writer) -> None:
        w.opaque8(self.task_info).opaque16(self.leader_url).opaque16(self.helper_url)
        w.u64(self.time_precision).u64(self.min_batch_size)
        w.u8(self.batch_mode).opaque16(self.batch_config)
        w.u32(self.vdaf_type).opaque16(self.vdaf_configuration)
        w.opaque16(joined(self.extensions))

    @classmethod
    def read(cls, r: Reader) -> Self:
        info, leader, helper = r.opaque8(), r.opaque16(least=1), r.opaque16(least=1)
        precision, least, mode, mode_config = r.u64(), r.u64(), r.u8(), r.opaque16()
        vdaf, vdaf_config = r.u32(), r.opaque16()
        return cls(info, leader, helper, precision, least, mode, mode_config, vdaf, vdaf_config, Extension.read_list(r))


@dataclass(frozen=True)
class InputShareAad(Message):
    """The associated data that an input share is sealed with; the configuration's bytes stand as they were agreed."""

    task_id: bytes
    configuration: bytes
    metadata: ReportMetadata
    public_share: bytes = field(repr=False)

    def write(self, w: Writer) -> None:
        w.fixed(self.task_id, TASK_ID_SIZE).raw(self.configuration)
        self.metadata.write(w)
        w.opaque32(self.public_share)

    @classmethod
    def read(cls, r: Reader) -> Self:
        return cls(r.take(TASK_ID_SIZE), TaskConfiguration.read(r).encode(), ReportMetadata.read(r), r.opaque32())
