"""A whole exchange of DAP with nothing left to chance: task, reports, a job, a collection, and what must be refused.

It goes through the functions of the package that each party uses, with a stream of bytes in place of randomness.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from interlock.dap import hpke
from interlock.dap.batches import checksum_of, job_extensions, query_for, selector_for
from interlock.dap.client import build_report
from interlock.dap.collector import Collector
from interlock.dap.drafts import Draft, Role
from interlock.dap.jobs import (
    AggregateShare,
    AggregateShareReq,
    AggregationJobInitReq,
    AggregationJobResp,
    CollectionJobReq,
    CollectionJobResp,
    Query,
    ReportShare,
    VerifyInit,
    VerifyResp,
)
from interlock.dap.messages import (
    LEADER_SELECTED,
    MEMBERSHIP,
    TIME_INTERVAL,
    BatchId,
    Extension,
    HpkeCiphertext,
    HpkeConfigList,
    InputShareAad,
    Interval,
    Report,
    ReportMetadata,
    TaskConfiguration,
    UploadRequest,
)
from interlock.dap.noise import NOISE, Noise, noise_share, sample
from interlock.dap.opening import helper_verdicts, leader_verdicts
from interlock.dap.shares import (
    HpkeKey,
    KeyRing,
    new_key,
    seal_aggregate_share,
    seal_input_share,
    sealed_share,
)
from interlock.dap.task import Task, new_configuration, task_of, verify_key_of
from interlock.dap.transport import Reply
from interlock.dap.vdaf.ping_pong import leader_continued
from interlock.dap.vdaf.prio3 import prio3_of_config

VDAF_CONFIG: Final = (4).to_bytes(4, "big") + (1).to_bytes(8, "big") + (2).to_bytes(4, "big")
MEASUREMENTS: Final = ([1, 0, 0, 1], [1, 1, 0, 0], [1, 0, 0, 0])
NOW_US: Final = 1_700_000_000_000_000
PRECISION: Final = 3600
Rng = Callable[[int], bytes]


def stream(seed: str) -> Rng:
    """Bytes that look random and are the same each time."""
    state = {"at": 0}

    def take(size: int) -> bytes:
        state["at"] += 1
        return hashlib.shake_128(f"{seed}/{state['at']}".encode()).digest(size)

    return take


@dataclass
class Parties:
    """All keys of one exchange, and its task."""

    draft: Draft
    mode: int
    noise: Noise | None = None
    rng: Rng = field(init=False)
    leader: HpkeKey = field(init=False)
    helper: HpkeKey = field(init=False)
    collector: HpkeKey = field(init=False)
    task: Task = field(init=False)
    verify_key: bytes = field(init=False)
    batch: bytes = field(init=False)  # its id, where the leader selects batches

    def __post_init__(self) -> None:
        which = "" if self.mode == TIME_INTERVAL else " leader_selected"
        which += "" if self.noise is None else f" {self.noise.mechanism.name}"
        self.rng = stream(f"interlock golden {self.draft.tag}{which}")
        self.leader, self.helper, self.collector = (new_key(i, self.rng) for i in (1, 2, 3))
        data = configuration(b"https://helper.example/dap/", self.mode, self.noise)
        self.task = task_of(data, demo=True, draft=self.draft)
        self.verify_key = verify_key_of(self.rng(32), self.task.task_id)
        self.batch = b"" if self.mode == TIME_INTERVAL else self.rng(32)

    def report(self, measurement: list[int], task: Task | None = None, now_us: int = NOW_US) -> Report:
        configs = self.leader.config, self.helper.config
        vdaf = prio3_of_config(3, VDAF_CONFIG)
        return build_report(task or self.task, vdaf, measurement, *configs, now_us=now_us, rng=self.rng)


def configuration(helper_url: bytes, mode: int, noise: Noise | None = None) -> bytes:
    return new_configuration(
        catalog_digest=hashlib.sha256(b"golden catalog").digest(),
        leader_url="https://leader.example",
        helper_url=helper_url.decode("ascii"),
        time_precision=PRECISION,
        min_batch_size=3,
        vdaf_config=VDAF_CONFIG,
        interval=Interval(NOW_US // 10**6 // PRECISION - 10, 100),
        batch_mode=mode,
        noise=noise,
    )


def exchange(draft: Draft, mode: int = TIME_INTERVAL, noise: Noise | None = None) -> dict[str, Any]:
    """The exchange as JSON: what goes over the wire, and each party's keys, so that each step can be done again."""
    parties = Parties(draft, mode, noise)
    made = [parties.report(measurement) for measurement in MEASUREMENTS]
    reports = sorted(made, key=lambda report: report.metadata.report_id)  # as our leader takes those of one time
    job, states, answer, leader_share, helper_share = _verified(parties, reports)
    interval = Interval(parties.task.time_of(NOW_US), 1)
    selected = BatchId(parties.batch) if parties.batch else interval
    request = CollectionJobReq(query_for(None if parties.batch else interval))
    checksum = checksum_of(report.metadata.report_id for report in reports)
    share_request = AggregateShareReq(request, selector_for(selected), len(reports), checksum)
    bare = {Role.HELPER: helper_share, Role.LEADER: leader_share}
    noised = {role: _noised(parties, role, share) for role, share in bare.items()}
    sealed = [
        seal_aggregate_share(parties.task, role, parties.collector.config, request, noised[role]["share"], parties.rng)
        for role in bare
    ]
    result = CollectionJobResp(len(reports), interval, sealed[1], sealed[0])
    vdaf = prio3_of_config(3, VDAF_CONFIG)
    found = Collector(parties.task, parties.collector, vdaf, _no_line).opened(request.encode(), result.encode())
    return {
        "format": "interlock-dap-exchange",
        "v": 1,
        "draft": draft.tag,
        "verified": draft.verified,
        "configuration": parties.task.configuration.hex(),
        "task_id": parties.task.task_id.hex(),
        "context": parties.task.context.hex(),
        "verify_key": parties.verify_key.hex(),
        "keys": {name: key.pair.private.hex() for name, key in _keys(parties)},
        "hpke_config": {name: HpkeConfigList((key.config,)).encode().hex() for name, key in _keys(parties)},
        **({"batch_id": parties.batch.hex()} if parties.batch else {}),
        "now_us": NOW_US,
        "measurements": list(MEASUREMENTS),
        "upload_request": UploadRequest(tuple(reports)).encode().hex(),
        "leader_states": [state.hex() for state in states],
        "aggregation_job_init_req": job.encode().hex(),
        "aggregation_job_resp": answer.encode(draft).hex(),
        "collection_job_req": request.encode().hex(),
        "aggregate_share_req": share_request.encode().hex(),
        "aggregate_share": AggregateShare(sealed[0]).encode().hex(),
        "collection_job_resp": result.encode().hex(),
        "sums": list(found.sums),
        **(
            {"noise": {r.name.lower(): {k: v.hex() for k, v in of.items()} for r, of in noised.items()}}
            if noise
            else {}
        ),
        "refused_uploads": _refused_uploads(parties),
        "refused_jobs": _refused_jobs(job),
        "refused_collections": _refused_collections(request),
        "refused_configurations": _refused_configurations(draft, parties.task.configuration),
    }


def _noised(parties: Parties, role: Role, share: bytes) -> dict[str, bytes]:
    """An aggregator's share as it is released; with noise, the random bytes that are drawn and what they come to."""
    noise, drawn = parties.task.noise, bytearray()
    if noise is None:
        return {"share": share}

    def rng(size: int) -> bytes:
        drawn.extend(parties.rng(size))
        return bytes(drawn[-size:])

    made = noise_share(parties.task.shape, sample(noise, parties.task.shape, rng))
    merged = prio3_of_config(3, VDAF_CONFIG).merge([share, made])
    return {"random": bytes(drawn), "noise_share": made, "bare_share": share, "share": merged}


def _keys(parties: Parties) -> list[tuple[str, HpkeKey]]:
    return [("leader", parties.leader), ("helper", parties.helper), ("collector", parties.collector)]


def _no_line(method: str, url: str, media_type: str = "", body: bytes = b"") -> Reply:
    raise AssertionError("nothing is sent")


def _verified(
    parties: Parties, reports: list[Report]
) -> tuple[AggregationJobInitReq, list[bytes], AggregationJobResp, bytes, bytes]:
    task, key, vdaf = parties.task, parties.verify_key, prio3_of_config(3, VDAF_CONFIG)
    opened = [
        sealed_share(task, KeyRing([parties.leader]), r.metadata, r.public_share, r.leader_share, NOW_US)
        for r in reports
    ]
    begun = leader_verdicts(vdaf, key, task.context, task.draft.input_share_info(Role.LEADER), opened)
    steps = [verdict for verdict in begun if isinstance(verdict, tuple)]
    inits = [
        VerifyInit(ReportShare(r.metadata, r.public_share, r.helper_share), outbound)
        for r, (_, outbound) in zip(reports, steps, strict=True)
    ]
    job = AggregationJobInitReq(0, b"", job_extensions(parties.batch), tuple(inits))
    theirs = [
        sealed_share(
            *(task, KeyRing([parties.helper]), i.share.metadata, i.share.public_share, i.share.ciphertext, NOW_US),
            i.payload,
        )
        for i in inits
    ]
    done = helper_verdicts(vdaf, key, task.context, task.draft.input_share_info(Role.HELPER), theirs)
    ends = [verdict for verdict in done if isinstance(verdict, tuple)]
    answer = AggregationJobResp(
        tuple(VerifyResp(r.metadata.report_id, payload=out) for r, (_, out) in zip(reports, ends, strict=True))
    )
    ours = [
        leader_continued(vdaf, task.context, state, response.payload).out_share
        for (state, _), response in zip(steps, answer.responses, strict=True)
    ]
    states = [state for state, _ in steps]
    return job, states, answer, vdaf.aggregate(ours), vdaf.aggregate(out for out, _ in ends)


def _refused_uploads(parties: Parties) -> list[dict[str, Any]]:
    """Uploads that the leader turns down, each with the name of the error that the draft has for it."""
    good = parties.report([1, 0, 0, 0])
    data = configuration(b"https://helper.example/dap", parties.mode, parties.noise)
    other = task_of(data, demo=True, draft=parties.draft)
    url_byte = parties.report([1, 0, 0, 0], dataclasses.replace(other, task_id=parties.task.task_id))
    spoiled = dataclasses.replace(
        good.leader_share, payload=good.leader_share.payload[:-1] + bytes([good.leader_share.payload[-1] ^ 1])
    )
    swapped = dataclasses.replace(good, leader_share=dataclasses.replace(good.helper_share, config_id=1))
    cases = {
        "hpke_decrypt_error: one other byte in the helper's URL": url_byte,
        "hpke_decrypt_error: one other bit in the share": dataclasses.replace(good, leader_share=spoiled),
        "hpke_decrypt_error: the helper's share in the leader's place": swapped,
        "hpke_decrypt_error: another public share": dataclasses.replace(good, public_share=bytes(64)),
        "hpke_decrypt_error: another time": _at(good, good.metadata.time - 1),
        "outdated_config: a key that was never offered": dataclasses.replace(
            good, leader_share=dataclasses.replace(good.leader_share, config_id=9)
        ),
        "report_too_early: an hour and more ahead": parties.report([1, 0, 0, 0], now_us=NOW_US + 2 * 3600 * 10**6),
        "report_dropped: before the task's interval": parties.report([1, 0, 0, 0], now_us=NOW_US - 20 * 3600 * 10**6),
        "unsupported_extension: a public one": _resealed(parties, good, (Extension(5, b""),)),
        "unsupported_extension: two out of order": _resealed(parties, good, (Extension(6, b""), Extension(5, b""))),
        "invalid_message: no whole input share": _with_plaintext(parties, good, b"\x00\x00\x00\x00\x00\x09share"),
        "invalid_message: a private extension that is not known": _with_plaintext(
            parties, good, b"\x00\x04\x00\x05\x00\x00\x00\x00\x00\x01s"
        ),
    }
    return [{"why": why, "report": report.encode().hex()} for why, report in cases.items()]


def _refused_jobs(job: AggregationJobInitReq) -> list[dict[str, str]]:
    """Jobs that the helper fails as a whole, each with the type of the problem."""
    cases = {
        "invalidMessage: no report": dataclasses.replace(job, inits=()),
        "invalidMessage: a report twice": dataclasses.replace(job, inits=job.inits[:1] * 2),
        "invalidMessage: extensions out of order": dataclasses.replace(
            job, extensions=(Extension(8, b""), Extension(7, b""))
        ),
        "invalidMessage: an extension twice": dataclasses.replace(job, extensions=(Extension(7, b""),) * 2),
        "invalidAggregationParameter: one byte": dataclasses.replace(job, agg_param=b"x"),
    }
    if job.extensions:
        wrong = {
            "invalidMessage: no batch id": (),
            "invalidMessage: a batch id of 31 bytes": (Extension(1, bytes(31)),),
            "invalidMessage: a batch id of 33 bytes": (Extension(1, bytes(33)),),
            "unsupportedExtension: one that is not known beside the batch id": (*job.extensions, Extension(2, b"")),
        }
    else:
        wrong = {"unsupportedExtension: a batch id in a task of time intervals": (Extension(1, bytes(32)),)}
    cases |= {why: dataclasses.replace(job, extensions=extensions) for why, extensions in wrong.items()}
    return [{"why": why, "body": case.encode().hex()} for why, case in cases.items()]


def _refused_collections(request: CollectionJobReq) -> list[dict[str, str]]:
    """Collection jobs that the leader fails at once, each with the type of the problem."""
    cases = {why: dataclasses.replace(request, query=query) for why, query in _bad_queries(request.query)} | {
        "invalidAggregationParameter: one byte": dataclasses.replace(request, agg_param=b"x"),
        "unsupportedExtension: one that is not known": dataclasses.replace(request, extensions=(Extension(3, b""),)),
        "invalidExtension: two out of order": dataclasses.replace(
            request, extensions=(Extension(4, b""), Extension(3, b""))
        ),
    }
    return [{"why": why, "body": case.encode().hex()} for why, case in cases.items()]


def _bad_queries(good: Query) -> list[tuple[str, Query]]:
    if good.batch_mode == LEADER_SELECTED:
        return [
            ("invalidMessage: a query that names a batch", Query(LEADER_SELECTED, bytes(32))),
            ("invalidMessage: another batch mode", query_for(Interval(NOW_US // 10**6 // PRECISION, 1))),
        ]
    return [
        ("batchInvalid: an interval of no bucket", query_for(Interval(5, 0))),
        ("invalidMessage: another batch mode", Query(LEADER_SELECTED, b"")),
        ("invalidMessage: half an interval", Query(TIME_INTERVAL, good.config[:8])),
    ]


def _refused_configurations(draft: Draft, good: bytes) -> list[dict[str, str]]:
    """Tasks that nobody takes part in."""
    config = TaskConfiguration.decode(good)
    interval, *noise = config.extensions
    cases = {
        "extensions out of order": dataclasses.replace(config, extensions=(Extension(0xFF4D, b"x"), interval)),
        "an extension twice": dataclasses.replace(config, extensions=(interval, interval)),
        "an extension that is not known": dataclasses.replace(config, extensions=(interval, Extension(2, b""))),
        "a batch mode that is not known": dataclasses.replace(config, batch_mode=3),
        "configuration of a batch mode that has none": dataclasses.replace(config, batch_config=b"x"),
        "a leader without TLS": dataclasses.replace(config, leader_url=b"http://leader.example"),
        "no time": dataclasses.replace(config, time_precision=0),
    }
    if noise:
        data = noise[0].data
        little = (1).to_bytes(8, "big") + (2**32).to_bytes(8, "big")
        wrong = {
            "of another mechanism": b"\x03" + data[1:],
            "whose last byte is missing": data[:-1],
            "whose budget is below its cost": data[:17] + little,
        }
        cases |= {
            f"noise {why}": dataclasses.replace(config, extensions=(interval, Extension(NOISE, bad)))
            for why, bad in wrong.items()
        }
    if config.batch_mode == LEADER_SELECTED:
        proofs = (interval, Extension(MEMBERSHIP, b"x"))
        cases["proofs of membership where the leader selects batches"] = dataclasses.replace(config, extensions=proofs)
    if draft.task_info_least:
        cases["task_info of no byte"] = dataclasses.replace(config, task_info=b"")
    return [{"why": why, "configuration": case.encode().hex()} for why, case in cases.items()]


def _at(report: Report, time: int) -> Report:
    """A report with another time than it was sealed with."""
    metadata = report.metadata
    return dataclasses.replace(report, metadata=ReportMetadata(metadata.report_id, time, metadata.extensions))


def _resealed(parties: Parties, report: Report, extensions: tuple[Extension, ...]) -> Report:
    metadata = dataclasses.replace(report.metadata, extensions=extensions)
    about = (metadata, report.public_share, b"share", parties.rng)
    sealed = seal_input_share(parties.task, Role.LEADER, parties.leader.config, *about)
    return dataclasses.replace(report, metadata=metadata, leader_share=sealed)


def _with_plaintext(parties: Parties, report: Report, plaintext: bytes) -> Report:
    """A report whose leader's ciphertext opens to these bytes."""
    task = parties.task
    aad = InputShareAad(task.task_id, task.configuration, report.metadata, report.public_share).encode()
    info = task.draft.input_share_info(Role.LEADER)
    enc, payload = hpke.seal(parties.leader.pair.public, info, aad, plaintext, ikm=parties.rng(32))
    return dataclasses.replace(report, leader_share=HpkeCiphertext(parties.leader.id, enc, payload))
