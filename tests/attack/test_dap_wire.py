"""Hostile members, aggregators and collectors at DAP's wire: what they send is refused, and honest reports count."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import socket
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from interlock.base.codec import Malformed
from interlock.base.fetch import TooLarge, http_client
from interlock.dap.batches import query_for, selector_for
from interlock.dap.collector import BadCollection, BatchTooSmall, Pending
from interlock.dap.drafts import DAP_18, DAP_19, Draft, ReportError, Role
from interlock.dap.jobs import (
    AggregateShare,
    AggregateShareReq,
    AggregationJobInitReq,
    AggregationJobResp,
    CollectionJobReq,
    CollectionJobResp,
    VerifyInit,
)
from interlock.dap.messages import (
    EXTENSIONS_MOST,
    REPORTS_MOST,
    HpkeCiphertext,
    Interval,
    Report,
    ReportMetadata,
    UploadErrors,
    UploadRequest,
    media_type,
)
from interlock.dap.problems import MEDIA_TYPE, DapProblem, ProblemType
from interlock.dap.shares import KeyRing, open_input_share, seal_aggregate_share, seal_input_share
from interlock.dap.transport import Reply
from interlock.dap.vdaf.field import FIELD128
from interlock.node.parties import HttpExchange
from tests.unit.dap_http import TOKENS, Deployment, free_socket, serving
from tests.unit.dap_world import VDAF, World, bits

MIB = 1 << 20


@pytest.fixture(params=[DAP_18, DAP_19], ids=lambda draft: draft.tag)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    draft: Draft = request.param
    start = 1_700_000_000 // 3600
    found = World(tmp_path, draft=draft, interval=Interval(start - 5, 100))
    found.clock.advance(start * 3600 + 1800 - found.clock.now_us() // 10**6)
    yield found
    found.close()


def refusal(kind: ProblemType) -> pytest.RaisesExc[DapProblem]:
    return pytest.RaisesExc(DapProblem, check=lambda e: e.kind is kind)


def three(world: World) -> None:
    assert world.upload(*(world.report(bits(0, i)) for i in (1, 2, 2))) == []


def leader_sends(world: World, report: Report) -> ReportError | None:
    """What the helper says of a report that a leader passes on whatever it thinks of it."""
    body = AggregationJobInitReq(0, b"", (), (VerifyInit(world.share_of(report), b"\x00\x00\x00\x00\x01v"),)).encode()
    answer = world.helper.process_aggregation_init(world.task.task_id, body).body
    (response,) = AggregationJobResp.decode(answer, world.task.draft).responses
    return response.error


# members


def test_early_and_expired_reports_are_turned_down_by_each_aggregator(world: World) -> None:
    draft = world.task.draft
    cases = {
        3 * 3600: (ReportError.REPORT_TOO_EARLY, ReportError.REPORT_TOO_EARLY),
        -10 * 3600: (ReportError.REPORT_DROPPED, draft.named(ReportError.TASK_NOT_STARTED)),
    }
    for seconds, (at_leader, at_helper) in cases.items():
        world.clock.advance(seconds)
        report = world.report(bits(1))
        world.clock.advance(-seconds)
        assert world.upload(report) == [at_leader]
        assert leader_sends(world, report) is at_helper
    world.clock.advance(200 * 3600)
    late = world.report(bits(1))
    assert world.upload(late) == [ReportError.REPORT_DROPPED]
    assert leader_sends(world, late) is draft.named(ReportError.TASK_EXPIRED)


def test_a_report_may_be_a_few_minutes_ahead_and_no_more(world: World) -> None:
    world.clock.advance(1800)  # a bucket begins
    ahead = world.report(bits(1))
    world.clock.advance(-300)
    assert world.upload(ahead) == []
    again = dataclasses.replace(ahead, metadata=dataclasses.replace(ahead.metadata, report_id=b"n" * 16))
    world.clock.advance(-1)
    assert world.upload(again) == [ReportError.REPORT_TOO_EARLY]


def test_a_late_report_is_told_so_and_a_replay_counts_once(world: World) -> None:
    three(world)
    replayed = world.report(bits(7))
    assert world.upload(replayed) == []
    other = dataclasses.replace(replayed, helper_share=HpkeCiphertext(2, b"e" * 32, b"p" * 40))
    assert world.upload(other, other) == [ReportError.REPORT_REPLAYED] * 2
    found = world.collect()
    assert (found.report_count, found.sums[7]) == (4, 1)
    assert world.upload(world.report(bits(1))) == [ReportError.BATCH_COLLECTED]
    world.clock.advance(3600)
    moved = dataclasses.replace(replayed, metadata=ReportMetadata(replayed.metadata.report_id, world.hour().start))
    assert world.upload(moved) in ([ReportError.REPORT_REPLAYED], [ReportError.HPKE_DECRYPT_ERROR])
    assert leader_sends(world, moved) is ReportError.HPKE_DECRYPT_ERROR


def spoilt(world: World, report: Report, kind: int) -> Report:
    """A report that is malformed in one of several ways, each found at another step."""
    now_us = world.clock.now_us()
    about = (report.metadata, report.public_share)
    payload = open_input_share(
        world.task, Role.LEADER, KeyRing([world.leader_key]), *about, report.leader_share, now_us
    )
    if kind == 0:  # a proof that does not hold
        wrong, role, config = bytes([payload[0] ^ 1]) + payload[1:], Role.LEADER, world.leader_key.config
    elif kind == 1:  # an input share of another length, for the helper
        wrong, role, config = b"short", Role.HELPER, world.helper_key.config
    elif kind == 2:  # sealed to nobody
        enc = HpkeCiphertext(world.helper_key.id, b"e" * 32, b"p" * 48)
        return dataclasses.replace(report, helper_share=enc)
    else:  # field elements out of range
        wrong, role, config = b"\xff" * len(payload), Role.LEADER, world.leader_key.config
    sealed = seal_input_share(world.task, role, config, *about, wrong, secrets.token_bytes)
    if role is Role.LEADER:
        return dataclasses.replace(report, leader_share=sealed)
    return dataclasses.replace(report, helper_share=sealed)


def test_one_malformed_share_in_a_hundred_drops_out_and_stops_no_other(tmp_path: Path) -> None:
    world = World(tmp_path, job_size=64)
    reports = [world.report(bits(i % 16)) for i in range(200)]
    for kind, at in enumerate((3, 90, 150, 199)):
        reports[at] = spoilt(world, reports[at], kind)
    honest = [i for i in range(200) if i not in (3, 90, 150, 199)]
    for i in range(0, 200, 50):
        assert world.upload(*reports[i : i + 50]) == []
    world.drive(6)
    found = world.collect()
    assert found.report_count == len(honest)
    assert list(found.sums) == [sum(i % 16 == place for i in honest) for place in range(16)]
    assert world.leader_store.states(world.task.task_id).rejected == 4
    world.close()


# sizes


@pytest.mark.parametrize("count", [REPORTS_MOST, REPORTS_MOST + 1])
def test_a_body_of_very_many_tiny_reports_is_bounded(count: int) -> None:
    tiny = HpkeCiphertext(0, b"e", b"p")
    body = Report(ReportMetadata(bytes(16), 0), b"", tiny, tiny).encode() * count
    if count <= REPORTS_MOST:
        assert len(UploadRequest.decode(body).reports) == count
    else:
        with pytest.raises(Malformed, match="more than"):
            UploadRequest.decode(body)
    with pytest.raises(Malformed, match="more than"):
        AggregationJobResp.decode((bytes(16) + b"\x01") * (REPORTS_MOST + 1))
    with pytest.raises(Malformed, match="more than"):
        UploadErrors.decode((bytes(16) + b"\x01") * (REPORTS_MOST + 1))


def test_a_length_that_lies_takes_no_memory() -> None:
    lies: list[tuple[Any, bytes]] = [
        (UploadRequest, bytes(24) + b"\x00\x00" + b"\xff" * 4),
        (AggregationJobInitReq, b"\x00" + b"\xff" * 4),
        (CollectionJobReq, b"\x01\x00\x00" + b"\xff" * 4),
        (ReportMetadata, bytes(24) + (4 * (EXTENSIONS_MOST + 1)).to_bytes(2, "big") + bytes(4 * (EXTENSIONS_MOST + 1))),
    ]
    tracemalloc.start()
    try:
        for kind, body in lies:
            with pytest.raises(Malformed):
                kind.decode(body)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


def test_a_body_of_100_mb_is_cut_off_and_the_next_request_is_served(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        deployment = Deployment(tmp_path, stack)
        http = stack.enter_context(http_client())
        url = deployment.task.leader_resource("reports")
        headers = {"content-type": media_type("upload-req"), "authorization": f"Bearer {TOKENS['acme']}"}

        stream = (bytes(MIB) for _ in range(100))
        with contextlib.suppress(httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):
            assert http.post(url, headers=headers, content=stream).status_code == 413
        host, port = url.split("/")[2].split(":")
        with socket.create_connection((host, int(port)), 10) as line:
            told = {**headers, "host": host, "content-length": str(100 * MIB)}
            head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
            line.sendall(f"POST {url.partition(port)[2]} HTTP/1.1\r\n{head}\r\n".encode())
            assert line.recv(12) == b"HTTP/1.1 413", "no byte of it is waited for"
        assert http.post(url, headers=headers, content=b"").status_code == 200


def test_an_answer_of_100_mb_is_cut_off() -> None:
    async def endless(request: Request) -> StreamingResponse:
        async def parts() -> Any:
            for _ in range(100):
                yield bytes(MIB)

        return StreamingResponse(parts(), media_type=media_type("aggregation-job-resp"))

    sock = free_socket()
    url = f"http://127.0.0.1:{sock.getsockname()[1]}/"
    with serving(Starlette(routes=[Route("/", endless, methods=["POST"])]), sock):
        exchange = HttpExchange()
        with pytest.raises(TooLarge):
            exchange("POST", url, media_type("aggregation-job-init-req"), b"x")
        exchange.close()


# helpers


def answered(world: World, change: Callable[[Reply], Reply], message: str) -> None:
    """Change what the helper answers with one kind of message."""
    world.post.after = lambda reply: change(reply) if reply.media_type == media_type(message) else reply


def test_a_helper_that_says_that_the_counts_differ_is_reported_to_the_collector(world: World) -> None:
    three(world)
    problem = DapProblem(ProblemType.BATCH_MISMATCH, "differs").document()
    answered(world, lambda _: Reply(400, MEDIA_TYPE, problem), "aggregate-share")
    pending = world.collector.ask(world.hour())
    world.drive()
    assert isinstance(pending, Pending)
    with refusal(ProblemType.BATCH_MISMATCH):
        world.collector.poll(pending)


def test_a_helper_that_leaves_a_report_out_of_its_share_is_found_out_by_the_collector(world: World) -> None:
    three(world)
    world.drive()
    request = CollectionJobReq(query_for(world.hour()))
    outs = VDAF.decode_agg_share(world.helper_store.batch(world.task.task_id, world.hour(), VDAF.merge).share)
    left_out = [secrets.randbelow(FIELD128.modulus) for _ in outs]  # what a share of one report looks like
    lie = FIELD128.encode([(a - b) % FIELD128.modulus for a, b in zip(outs, left_out, strict=True)])
    about = (world.task, Role.HELPER, world.collector_key.config, request, lie, secrets.token_bytes)
    forged = AggregateShare(seal_aggregate_share(*about)).encode()
    answered(world, lambda reply: dataclasses.replace(reply, body=forged), "aggregate-share")
    with pytest.raises(BadCollection, match="do not hold the same batch"):
        world.collect()


def test_a_helper_that_counted_fewer_than_it_said_refuses_the_leaders_count(world: World) -> None:
    three(world)
    world.drive()
    hour = world.hour()
    held = world.helper_store.batch(world.task.task_id, hour, VDAF.merge)
    for count, checksum in ((4, held.checksum), (3, bytes(32)), (2, held.checksum)):
        body = AggregateShareReq(CollectionJobReq(query_for(hour)), selector_for(hour), count, checksum).encode()
        with refusal(ProblemType.BATCH_MISMATCH):
            world.helper.process_aggregate_share(world.task.task_id, body)
    assert world.collect().report_count == 3, "a refusal closes nothing"


def test_a_helper_that_takes_a_bad_report_for_good_gets_nothing_counted(world: World) -> None:
    three(world)
    bad = spoilt(world, world.report(bits(4)), 0)
    assert world.upload(bad) == []

    def accept_all(reply: Reply) -> Reply:
        draft = world.task.draft
        answers = AggregationJobResp.decode(reply.body, draft).responses
        good = next(r.payload for r in answers if r.error is None)
        lied = tuple(dataclasses.replace(r, payload=r.payload or good, error=None) for r in answers)
        return dataclasses.replace(reply, body=AggregationJobResp(lied).encode(draft))

    answered(world, accept_all, "aggregation-job-resp")
    found = world.collect()
    assert (found.report_count, found.sums[4]) == (3, 0)


# leaders


def test_a_leader_that_lies_to_the_collector_about_the_batch_is_found_out(world: World) -> None:
    three(world)
    world.collect()
    request = CollectionJobReq(query_for(world.hour()))
    answer = world.leader.process_collection_init(world.task.task_id, request.encode()).body
    result = CollectionJobResp.decode(answer)
    lies: list[tuple[CollectionJobResp, type[Exception]]] = [
        (dataclasses.replace(result, report_count=2), BatchTooSmall),
        (dataclasses.replace(result, interval=Interval(result.interval.start, 2)), BadCollection),
        (dataclasses.replace(result, leader_share=result.helper_share), Exception),
        (dataclasses.replace(result, helper_share=result.leader_share), Exception),
    ]
    for lie, error in lies:
        with pytest.raises(error):
            world.collector.opened(request.encode(), lie.encode())
    assert world.collector.opened(request.encode(), answer).report_count == 3


def test_a_leader_that_asks_for_one_batch_twice_gets_the_same_share_and_no_other(world: World) -> None:
    three(world)
    world.collect()
    body = world.post.sent[-1][1]
    first = world.helper.process_aggregate_share(world.task.task_id, body)
    assert world.helper.process_aggregate_share(world.task.task_id, body) == first
    request = AggregateShareReq.decode(body)
    for interval in (world.hour(), Interval(world.hour().start - 1, 2), Interval(world.hour().start, 5)):
        job = CollectionJobReq(query_for(Interval(interval.start - 1, 9)))
        changed = dataclasses.replace(request, job=job, selector=selector_for(interval))
        with refusal(ProblemType.BATCH_OVERLAP):
            world.helper.process_aggregate_share(world.task.task_id, changed.encode())


# collectors


def test_two_overlapping_batches_are_never_both_collected(world: World) -> None:
    three(world)
    hour = world.hour()
    first = world.collect(hour)
    for start, length in ((hour.start - 1, 2), (hour.start, 2), (hour.start - 3, 9)):
        with refusal(ProblemType.BATCH_OVERLAP):
            world.collector.ask(Interval(start, length))
    assert world.collector.ask(hour) == first
    world.clock.advance(3600)
    three(world)
    assert world.collect(world.hour()).report_count == 3, "the next bucket is another batch"


def test_of_many_overlapping_requests_at_once_one_is_taken(world: World) -> None:
    three(world)
    hour = world.hour()
    intervals = [Interval(hour.start - i, i + 1) for i in range(8)]

    def ask(interval: Interval) -> ProblemType | None:
        body = CollectionJobReq(query_for(interval)).encode()
        try:
            world.leader.process_collection_init(world.task.task_id, body)
        except DapProblem as e:
            return e.kind
        return None

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, intervals))
    assert sorted(answers, key=str) == [None, *[ProblemType.BATCH_OVERLAP] * 7]


def test_a_job_that_its_collector_gave_up_leaves_the_batch_for_another(world: World) -> None:
    hour, task_id = world.hour(), world.task.task_id
    wide = CollectionJobReq(query_for(Interval(hour.start - 1, 3))).encode()
    job = world.leader.process_collection_init(task_id, wide)
    world.leader.give_up_collection(task_id, job.id)
    with refusal(ProblemType.INVALID_BATCH_SIZE):
        world.leader.collection_job(task_id, job.id)
    three(world)
    assert world.collect(hour).report_count == 3
    with refusal(ProblemType.BATCH_OVERLAP):
        world.leader.process_collection_init(task_id, wide)
    ready = world.leader.process_collection_init(task_id, CollectionJobReq(query_for(hour)).encode())
    world.leader.give_up_collection(task_id, ready.id)
    assert world.leader.collection_job(task_id, ready.id).body == ready.body, "a result stays"
    with pytest.raises(DapProblem) as caught:
        world.leader.give_up_collection(task_id, bytes(16))
    assert caught.value.status == 404
