"""What hostile bytes, hostile timing and curious readers of logs get from DAP's aggregators: nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.dap.batches import OutShare, query_for
from interlock.dap.collector import BadCollection
from interlock.dap.drafts import ReportError, Role
from interlock.dap.driver import Driver
from interlock.dap.helper import Resource
from interlock.dap.jobs import (
    AggregationJobInitReq,
    AggregationJobResp,
    CollectionJobReq,
    CollectionJobResp,
    ReportShare,
    VerifyInit,
)
from interlock.dap.messages import Extension, Interval, Report, UploadRequest
from interlock.dap.problems import DapProblem
from interlock.dap.shares import KeyRing, open_input_share, seal_aggregate_share, seal_input_share
from interlock.dap.storage import CollectionState, Lease
from interlock.dap.vdaf.field import FIELD128
from interlock.dap.vdaf.ping_pong import leader_initialized
from tests.unit.dap_world import LENGTH, VDAF, World, bits, lost, vdaf_of


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world whose one batch is aggregated on both sides and collected."""
    found = World(tmp_path_factory.mktemp("settled"))
    assert found.upload(*(found.report(bits(i)) for i in range(3))) == []
    found.collect()
    yield found
    found.close()


def damaged(data: st.DataObject, good: bytes) -> bytes:
    raw = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    return bytes(raw)[: data.draw(st.integers(0, len(raw)) | st.just(len(raw)))]


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_request_is_refused_and_changes_no_count(settled: World, data: st.DataObject) -> None:
    task_id, hour = settled.task.task_id, settled.hour()
    upload = UploadRequest((settled.report(bits(1)),)).encode()
    doors: list[tuple[Callable[[bytes, bytes], Resource | bytes], bytes]] = [
        (settled.helper.process_aggregation_init, settled.post.sent[0][1]),
        (settled.helper.process_aggregate_share, settled.post.sent[-1][1]),
        (settled.leader.process_collection_init, CollectionJobReq(query_for(hour)).encode()),
        (settled.leader.process_upload, upload),
    ]
    process, good = data.draw(st.sampled_from(doors))
    with contextlib.suppress(DapProblem):
        process(task_id, damaged(data, good))
    assert settled.helper_store.batch(task_id, hour, VDAF.merge).count == 3
    assert settled.leader_store.batch(task_id, hour, VDAF.merge).count == 3


def job_of(world: World, report: Report) -> bytes:
    """The request of a leader that puts this one report into a job."""
    keys, now_us = KeyRing([world.leader_key]), world.clock.now_us()
    payload = open_input_share(
        *(world.task, Role.LEADER, keys, report.metadata, report.public_share, report.leader_share, now_us)
    )
    verify_key, context = world.held.verify_key, world.task.context
    step = leader_initialized(VDAF, verify_key, context, report.metadata.report_id, report.public_share, payload)
    share = ReportShare(report.metadata, report.public_share, report.helper_share)
    return AggregationJobInitReq(0, b"", (), (VerifyInit(share, step.outbound),)).encode()


def test_a_leader_that_adds_a_report_to_a_collected_batch_is_refused_by_the_helper(settled: World) -> None:
    late = settled.report(bits(3))
    answer = settled.helper.process_aggregation_init(settled.task.task_id, job_of(settled, late)).body
    (response,) = AggregationJobResp.decode(answer).responses
    assert response.error is ReportError.BATCH_COLLECTED
    assert settled.helper_store.batch(settled.task.task_id, settled.hour(), VDAF.merge).count == 3


def test_a_leader_that_changes_what_it_tells_the_helper_verifies_nothing(world: World) -> None:
    request = AggregationJobInitReq.decode(job_of(world, world.report(bits(3))))
    (init,) = request.inits
    for payload in (init.payload[:-1] + bytes([init.payload[-1] ^ 1]), init.payload[:-1], b"\x02" + init.payload[1:]):
        changed = dataclasses.replace(request, inits=(dataclasses.replace(init, payload=payload),))
        answer = world.helper.process_aggregation_init(world.task.task_id, changed.encode()).body
        assert AggregationJobResp.decode(answer).responses[0].error is ReportError.VDAF_VERIFY_ERROR


def test_a_report_with_an_extension_that_nobody_knows_is_turned_down(world: World) -> None:
    plain = world.report(bits(1))
    metadata = dataclasses.replace(plain.metadata, extensions=(Extension(7, b""),))
    about = (metadata, plain.public_share, b"share", secrets.token_bytes)
    sealed = seal_input_share(world.task, Role.LEADER, world.leader_key.config, *about)
    changed = dataclasses.replace(plain, metadata=metadata, leader_share=sealed)
    assert world.upload(changed) == [ReportError.INVALID_MESSAGE]


def test_a_job_is_finished_once(world: World) -> None:
    assert world.upload(world.report(bits(1))) == []
    world.post.after = lost
    world.drive(1)
    store, task_id = world.leader_store, world.task.task_id
    job = store.lease_job(task_id, Lease(b"t" * 16, "us", 1), world.clock.now_us())
    assert job is not None
    outs = [OutShare(report_id, bucket, VDAF.aggregate([])) for report_id, (bucket, _) in job.states.items()]
    assert store.finish_job(task_id, b"t" * 16, outs, {}, VDAF.aggregate) is True
    assert store.finish_job(task_id, b"t" * 16, outs, {}, VDAF.aggregate) is False
    assert store.abandon_job(task_id, b"t" * 16, ReportError.REPORT_DROPPED) is False
    assert (store.states(task_id).aggregated, store.batch(task_id, world.hour(), VDAF.merge).count) == (1, 1)


def test_a_collection_that_is_ready_does_not_fail_any_more(settled: World) -> None:
    request = CollectionJobReq(query_for(settled.hour())).encode()
    job = settled.leader.process_collection_init(settled.task.task_id, request)
    for state in CollectionState:
        assert settled.leader_store.fail_collection(settled.task.task_id, job.id, state, "batchMismatch", "x") is False
    assert settled.upload(settled.report(bits(1))) == [ReportError.BATCH_COLLECTED]


def test_shares_of_two_batches_give_no_result(settled: World) -> None:
    request = CollectionJobReq(query_for(settled.hour()))
    answer = settled.leader.process_collection_init(settled.task.task_id, request.encode()).body
    collector = settled.collector_key.config
    foreign = seal_aggregate_share(
        *(settled.task, Role.LEADER, collector, request, FIELD128.encode([1] * LENGTH), secrets.token_bytes)
    )
    mixed = dataclasses.replace(CollectionJobResp.decode(answer), leader_share=foreign)
    with pytest.raises(BadCollection, match="sum is larger"):
        settled.collector.opened(request.encode(), mixed.encode())


def test_the_same_job_from_many_threads_is_committed_once(world: World) -> None:
    assert world.upload(*(world.report(bits(i)) for i in range(3))) == []
    world.post.after = lost
    world.drive(1)
    body = world.post.sent[0][1]
    request = AggregationJobInitReq.decode(body)
    others = [dataclasses.replace(request, inits=request.inits[: i + 1]).encode() for i in range(3)]
    world.restart()
    with ThreadPoolExecutor(8) as pool:
        process = world.helper.process_aggregation_init
        answers = list(pool.map(lambda b: process(world.task.task_id, b), [body, *others] * 4))
    assert len({answer.body for answer in answers[::4]}) == 1
    assert world.helper_store.batch(world.task.task_id, world.hour(), VDAF.merge).count == 3


def test_many_drivers_at_once_do_each_thing_once(tmp_path: Path) -> None:
    world = World(tmp_path, job_size=2)
    assert world.upload(*(world.report(bits(i)) for i in range(9))) == []
    drivers = [
        Driver(
            {world.task.task_id: world.held},
            KeyRing([world.leader_key]),
            world.leader_store,
            vdaf_of,
            world.clock,
            secrets.token_bytes,
            world.post,
            job_size=2,
        )
        for _ in range(4)
    ]
    world.collector.ask(world.hour())
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            list(pool.map(lambda d: d.drive_once(), drivers))
    found = world.collect()
    assert (found.report_count, list(found.sums[:10])) == (9, [1] * 9 + [0])
    world.close()


def test_the_same_upload_from_many_threads_is_stored_once(world: World) -> None:
    report = world.report(bits(1))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: world.upload(report), range(16)))
    assert answers == [[]] * 16
    assert world.leader_store.states(world.task.task_id).waiting == 1


def test_a_member_whose_report_dropped_out_may_send_another(world: World) -> None:
    good = world.report(bits(5))
    keys, now_us = KeyRing([world.leader_key]), world.clock.now_us()
    about = (good.metadata, good.public_share)
    payload = open_input_share(world.task, Role.LEADER, keys, *about, good.leader_share, now_us)
    flipped = bytes([payload[0] ^ 1]) + payload[1:]
    config = world.leader_key.config
    sealed = seal_input_share(world.task, Role.LEADER, config, *about, flipped, secrets.token_bytes)
    assert world.upload(dataclasses.replace(good, leader_share=sealed), member="acme") == []
    assert world.upload(world.report(bits(5)), member="acme") == [ReportError.REPORT_DROPPED]
    world.drive()
    assert world.upload(world.report(bits(5)), member="acme") == []


def test_no_log_line_error_or_repr_shows_a_share(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    reports = [world.report(bits(i)) for i in range(3)]
    assert world.upload(*reports) == []
    world.post.after = lost
    world.drive(1)
    job = world.leader_store.lease_job(world.task.task_id, Lease(b"t" * 16, "us", 1), world.clock.now_us())
    assert job is not None
    world.leader_store.release_job(world.task.task_id, b"t" * 16, 0)
    hidden = [r.leader_share.payload for r in reports] + [state for _, state in job.states.values()]
    hidden += [world.held.verify_key, world.leader_key.pair.private]
    world.post.after = lambda reply: dataclasses.replace(reply, body=b"?" * 20)
    world.drive(3)
    said = [caplog.text, repr(job), repr(reports), repr(world.held), repr(world.leader_key)]
    with pytest.raises(DapProblem) as caught:
        world.helper.process_aggregation_init(world.task.task_id, job.request[:-1])
    said += [str(caught.value), caught.value.document().decode(), repr(caught.value)]
    assert "abandoned" in caplog.text
    for secret in hidden:
        for text in said:
            assert secret.hex()[:16] not in text
            assert repr(secret[:8])[2:-1] not in text


def test_a_request_of_the_widest_interval_is_answered_at_once(world: World) -> None:
    everything = Interval(0, (1 << 63) - 1)
    assert world.upload(*(world.report(bits(i)) for i in range(3))) == []
    assert world.collect(everything).report_count == 3
    assert world.upload(world.report(bits(1))) == [ReportError.BATCH_COLLECTED]
