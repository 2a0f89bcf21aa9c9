"""Makes the golden vectors of DAP's messages: `python -m tests.vectors.dap_golden` writes them to tests/vectors/dap.

One file a draft and message, with good and bad encodings, and one file a draft and batch mode with a whole exchange
from the task's configuration to the sums; of dap-18 also one a mechanism of noise, with the random bytes that it drew.
Everything is fixed: the same program writes the same bytes. dap-20 has the numbers of dap-19 under its own tag, so
it has files of exchanges and no others.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from interlock.dap import fates, jobs, messages, repair
from interlock.dap.drafts import DAP_18, DAP_19, DRAFTS, Draft, ReportError, Role
from interlock.dap.messages import (
    LEADER_SELECTED,
    TIME_INTERVAL,
    Extension,
    HpkeCiphertext,
    HpkeConfig,
    Interval,
    ReportMetadata,
)
from interlock.dap.noise import Mechanism, Noise
from tests.vectors.dap_exchange import exchange

FOLDER: Final = Path(__file__).parent / "dap"
FORMAT: Final = "interlock-dap-vectors"
Bad = tuple[str, bytes]

_IDS: Final = [bytes(range(i, i + 16)) for i in range(0, 64, 16)]
_ENC: Final = hashlib.sha256(b"enc").digest()
_SEALED: Final = HpkeCiphertext(7, _ENC, b"a sealed share")
_METADATA: Final = ReportMetadata(_IDS[0], 472_222)
_EXTENDED: Final = ReportMetadata(_IDS[1], 2**64 - 1, (Extension(1, b""), Extension(0xFF4D, b"proof")))
_SHARE: Final = jobs.ReportShare(_METADATA, b"public", _SEALED)
_PART: Final = repair.JobPart(_IDS[0], 3, _ENC)
_PARTS: Final = (_PART, repair.JobPart(_IDS[1], 2**63 - 1, bytes(32)))
_QUERY: Final = jobs.Query(1, Interval(472_222, 2).encode())
_JOB: Final = jobs.CollectionJobReq(_QUERY)
_TASK: Final = messages.TaskConfiguration(
    task_info=b"golden",
    leader_url=b"https://leader.example/dap/",
    helper_url=b"https://helper.example/dap",
    time_precision=3600,
    min_batch_size=10,
    batch_mode=1,
    batch_config=b"",
    vdaf_type=3,
    vdaf_configuration=messages.SumVecConfig(16, 1, 4).encode(),
    extensions=(Extension(1, Interval(472_222, 100).encode()),),
)

NOISES: Final = {
    "gaussian": Noise(Mechanism.GAUSSIAN, Fraction(1, 2), Fraction(8)),
    "laplace": Noise(Mechanism.LAPLACE, Fraction(4), Fraction(40, 3)),
}

_FATES: Final = (
    *(fates.Fate(_IDS[0], standing) for standing in fates.Standing if standing is not fates.Standing.REJECTED),
    fates.Fate(_IDS[1], fates.Standing.REJECTED, ReportError.REPORT_REPLAYED),
    *(
        fates.Fate(_IDS[2], fates.Standing.REJECTED, ReportError.VDAF_VERIFY_ERROR, side, step)
        for side, step in zip((Role.HELPER, Role.LEADER, Role.LEADER), fates.Step, strict=True)
    ),
)

# message -> its values; those that do not hang on the draft
VALUES: Final[dict[str, list[Any]]] = {
    "Interval": [Interval(0, 0), Interval(472_222, 1), Interval(2**64 - 1, 2**64 - 1)],
    "BatchId": [messages.BatchId(bytes(32)), messages.BatchId(_ENC)],
    "Extension": [Extension(0, b""), Extension(1, b"data"), Extension(0xFFFF, bytes(300))],
    "HpkeConfig": [HpkeConfig(0, 0x20, 1, 1, _ENC), HpkeConfig(255, 0x10, 1, 1, b"\x04" + _ENC + _ENC)],
    "HpkeConfigList": [
        messages.HpkeConfigList((HpkeConfig(2, 0x20, 1, 1, _ENC),)),
        messages.HpkeConfigList((HpkeConfig(2, 0x20, 1, 1, _ENC), HpkeConfig(1, 0x10, 1, 3, b"\x04" + _ENC + _ENC))),
    ],
    "HpkeCiphertext": [_SEALED, HpkeCiphertext(0, b"\x00", b"\x00")],
    "ReportMetadata": [_METADATA, _EXTENDED],
    "Report": [
        messages.Report(_METADATA, b"", _SEALED, _SEALED),
        messages.Report(_EXTENDED, b"public", _SEALED, HpkeCiphertext(1, b"e", b"p")),
    ],
    "UploadRequest": [
        messages.UploadRequest(()),
        messages.UploadRequest(tuple(messages.Report(m, b"p", _SEALED, _SEALED) for m in (_METADATA, _EXTENDED))),
    ],
    "PlaintextInputShare": [
        messages.PlaintextInputShare((), b"share"),
        messages.PlaintextInputShare((Extension(3, b"x"), Extension(4, b"")), bytes(64)),
    ],
    "SumVecConfig": [messages.SumVecConfig(16, 1, 4), messages.SumVecConfig(2**32 - 1, 2**64 - 1, 1)],
    "InputShareAad": [messages.InputShareAad(_IDS[0] + _IDS[1], _TASK.encode(), _EXTENDED, b"public")],
    "ReportShare": [_SHARE],
    "VerifyInit": [jobs.VerifyInit(_SHARE, b"\x00\x00\x00\x00\x01v")],
    "VerifyContinue": [jobs.VerifyContinue(_IDS[2], b"more")],
    "AggregationJobInitReq": [
        jobs.AggregationJobInitReq(0, b"", (), (jobs.VerifyInit(_SHARE, b"payload"),)),
        jobs.AggregationJobInitReq(
            255, b"param", (Extension(1, bytes(32)),), tuple(jobs.VerifyInit(_SHARE, b"payload") for _ in range(2))
        ),
    ],
    "AggregationJobContinueReq": [
        jobs.AggregationJobContinueReq(1, ()),
        jobs.AggregationJobContinueReq(2, tuple(jobs.VerifyContinue(i, b"more") for i in _IDS[:2])),
    ],
    "Query": [_QUERY, jobs.Query(2, b"")],
    "BatchSelector": [jobs.BatchSelector(1, Interval(472_222, 1).encode()), jobs.BatchSelector(2, bytes(32))],
    "CollectionJobReq": [_JOB, jobs.CollectionJobReq(jobs.Query(2, b""), b"param", (Extension(9, b"x"),))],
    "CollectionJobResp": [jobs.CollectionJobResp(10, Interval(472_222, 2), _SEALED, _SEALED)],
    "AggregateShareReq": [
        jobs.AggregateShareReq(_JOB, jobs.BatchSelector(1, Interval(472_222, 1).encode()), 10, _ENC),
        jobs.AggregateShareReq(jobs.CollectionJobReq(jobs.Query(2, b"")), jobs.BatchSelector(2, _ENC), 10, _ENC),
    ],
    "AggregateShare": [jobs.AggregateShare(_SEALED)],
    "AggregateShareAad": [jobs.AggregateShareAad(_IDS[0] + _IDS[1], _TASK.encode(), _JOB)],
    "JobPart": [_PART],
    "RepairReq": [
        repair.RepairReq(_JOB, jobs.BatchSelector(1, Interval(472_222, 1).encode()), _PARTS),
        repair.RepairReq(jobs.CollectionJobReq(jobs.Query(2, b"")), jobs.BatchSelector(2, _ENC), _PARTS[:1]),
    ],
    "RepairResp": [repair.RepairResp(()), repair.RepairResp(_PARTS)],
    "Noise": [*NOISES.values()],
    "Question": [fates.Question(_IDS[0], 472_222), fates.Question(_IDS[1], 2**64 - 1, b"a proof")],
    "Fate": [*_FATES],
    "FateReq": [fates.FateReq(()), fates.FateReq(tuple(fates.Question(i, 472_222, b"a proof") for i in _IDS))],
    "FateResp": [fates.FateResp(()), fates.FateResp(_FATES)],
}
# by draft: those that hold numbers of report errors, and the configuration
BY_DRAFT: Final[dict[str, Callable[[Draft], list[Any]]]] = {
    "TaskConfiguration": lambda draft: (
        [_TASK] if draft.task_info_least else [_TASK, dataclasses.replace(_TASK, task_info=b"", extensions=())]
    ),
    "UploadErrors": lambda draft: [messages.UploadErrors(()), messages.UploadErrors(tuple(_each_error(draft)))],
    "AggregationJobResp": lambda draft: [
        jobs.AggregationJobResp(
            (
                jobs.VerifyResp(_IDS[0], payload=b"\x02\x00\x00\x00\x00"),
                jobs.VerifyResp(_IDS[1]),
                *(jobs.VerifyResp(i, error=e) for i, e in _each_error(draft)),
            )
        ),
    ],
}


def _noise(*fractions: tuple[int, int]) -> bytes:
    return b"\x01" + b"".join(number.to_bytes(8, "big") for fraction in fractions for number in fraction)


# bad encodings that hang on what a message means, beside those that are cut or go on
BAD: Final[dict[str, list[Bad]]] = {
    "HpkeConfig": [("a key of no byte", b"\x01" + bytes(6) + b"\x00\x00")],
    "HpkeConfigList": [
        ("no key", b"\x00\x00"),
        ("two keys of one id", messages.HpkeConfigList((HpkeConfig(2, 0x20, 1, 1, _ENC),) * 2).encode()),
        ("a key that ends after its list", b"\x00\x0a" + bytes(10)),
    ],
    "HpkeCiphertext": [
        ("an encapsulated key of no byte", b"\x07\x00\x00\x00\x00\x00\x01p"),
        ("a payload of no byte", b"\x07\x00\x01e\x00\x00\x00\x00"),
    ],
    "ReportMetadata": [
        ("an extension that ends after its list", _IDS[0] + bytes(8) + b"\x00\x03\x00\x01\x00"),
        ("seventeen extensions", _IDS[0] + bytes(8) + b"\x00\x44" + bytes(68)),
    ],
    "PlaintextInputShare": [("a share of no byte", bytes(6))],
    "VerifyInit": [("a message of no byte", _SHARE.encode() + bytes(4))],
    "VerifyContinue": [("a message of no byte", _IDS[0] + bytes(4))],
    "JobPart": [("a job of no report", _IDS[0] + bytes(8) + _ENC)],
    "RepairReq": [("a version that there is not", b"\x02" + _JOB.encode())],
    "RepairResp": [
        ("a version that there is not", b"\x02" + _PART.encode()),
        ("jobs in another order", repair.RepairResp(_PARTS[::-1]).encode()),
        ("a job twice", repair.RepairResp((_PART, _PART)).encode()),
    ],
    "Fate": [
        ("a standing that there is not", _IDS[0] + b"\x07\x00\x00\x00"),
        ("an error of none that was rejected", _IDS[0] + b"\x01\x0ereport_dropped\x00\x00"),
        ("one that was rejected without an error", _IDS[0] + b"\x05\x00\x00\x00"),
        ("an error that there is not", _IDS[0] + b"\x05\x01?\x00\x00"),
        ("the side of a collector", _IDS[0] + b"\x05\x0ereport_dropped\x01\x01"),
        ("a side without a step", _IDS[0] + b"\x05\x0ereport_dropped\x02\x00"),
        ("a step that there is not", _IDS[0] + b"\x05\x0ereport_dropped\x02\x04"),
    ],
    "Noise": [
        ("a mechanism that there is not", b"\x03" + NOISES["gaussian"].encode()[1:]),
        ("a cost that is not in lowest terms", _noise((2, 4), (8, 1))),
        ("a cost of nothing", _noise((0, 1), (8, 1))),
        ("a cost in parts of nothing", _noise((1, 0), (8, 1))),
        ("a budget below the cost", _noise((9, 1), (8, 1))),
        ("a number above 2**32", _noise((1, 2), (2**32 + 1, 1))),
    ],
    "FateReq": [
        ("a version that there is not", b"\x02"),
        ("a report twice", fates.FateReq((fates.Question(_IDS[0], 1), fates.Question(_IDS[0], 2))).encode()),
        ("a hundred and one", fates.FateReq(tuple(fates.Question(bytes([i]) * 16, 1) for i in range(101))).encode()),
    ],
    "FateResp": [("a version that there is not", b"\x02")],
}


def _each_error(draft: Draft) -> Iterator[tuple[bytes, ReportError]]:
    return ((bytes([code]) * 16, error) for error, code in draft.report_errors.items())


def _bad_by_draft(draft: Draft) -> dict[str, list[Bad]]:
    beyond = max(draft.report_errors.values()) + 1
    wrong: dict[str, list[Bad]] = {
        "UploadErrors": [
            (f"error {code}, which {draft.tag} does not have", _IDS[0] + bytes([code])) for code in (0, beyond, 255)
        ],
        "AggregationJobResp": [
            ("a type of answer that there is not", _IDS[0] + b"\x03"),
            ("a continuation of no byte", _IDS[0] + bytes(5)),
            *((f"error {code}, which {draft.tag} does not have", _IDS[0] + bytes([2, code])) for code in (0, beyond)),
        ],
        "TaskConfiguration": [
            ("a leader's URL of no byte", b"\x01i" + bytes(2) + b"\x00\x01h" + bytes(40)),
            ("a helper's URL of no byte", b"\x01i" + b"\x00\x01l" + bytes(42)),
        ],
    }
    return wrong


def _general(encoded: bytes) -> list[Bad]:
    """What is bad of any message: cut by a byte, and gone on by one."""
    return [("the last byte is missing", encoded[:-1]), ("a byte too many", encoded + b"\x00")]


def described(value: object) -> Any:
    """A message as JSON: bytes in hex, numbers as they are, structures by their fields' names."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, tuple):
        return [described(each) for each in value]
    if dataclasses.is_dataclass(value):
        return {f.name: described(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return value


def encoded_in(value: Any, draft: Draft) -> bytes:
    by_draft = isinstance(value, messages.UploadErrors | jobs.AggregationJobResp)
    found: bytes = value.encode(draft) if by_draft else value.encode()
    return found


def _file(draft: Draft | None, name: str, values: list[Any], bad: list[Bad]) -> bytes:
    good = [{"bytes": encoded_in(v, draft or DAP_18).hex(), "value": described(v)} for v in values]
    every = [*_general(encoded_in(values[-1], draft or DAP_18)), *bad]
    body = {
        "format": FORMAT,
        "v": 1,
        "drafts": [draft.tag] if draft else ["dap-18", "dap-19", "dap-20"],
        "message": name,
        "good": good,
        "bad": [{"why": why, "bytes": data.hex()} for why, data in every],
    }
    return json.dumps(body, indent=1).encode() + b"\n"


def files() -> dict[str, bytes]:
    """Every file of the folder, by its name."""
    found = {f"{name}.json": _file(None, name, values, BAD.get(name, [])) for name, values in VALUES.items()}
    for draft in (DAP_18, DAP_19):
        for name, make in BY_DRAFT.items():
            found[f"{draft.tag}.{name}.json"] = _file(draft, name, make(draft), _bad_by_draft(draft)[name])
    for draft in DRAFTS.values():
        for name, mode in (("exchange", TIME_INTERVAL), ("selected-exchange", LEADER_SELECTED)):
            found[f"{draft.tag}.{name}.json"] = json.dumps(exchange(draft, mode), indent=1).encode() + b"\n"
    for name, noise in NOISES.items():
        body = exchange(DAP_18, noise=noise)
        found[f"dap-18.{name}-exchange.json"] = json.dumps(body, indent=1).encode() + b"\n"
    return found


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.json"):
        path.unlink()
    for name, data in files().items():
        (FOLDER / name).write_bytes(data)


if __name__ == "__main__":
    main()
