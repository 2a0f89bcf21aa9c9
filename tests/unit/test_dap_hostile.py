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

from interlock.dap.batches import query_for
from interlock.dap.drafts import ReportError, Role
from interlock.dap.driver import Driver
from interlock.dap.helper import Resource
from interlock.dap.jobs import AggregationJobInitReq, CollectionJobReq
from interlock.dap.messages import Interval, UploadRequest
from interlock.dap.problems import DapProblem
from interlock.dap.shares import KeyRing, open_input_share, seal_input_share
from tests.unit.dap_world import World, bits, lost, vdaf_of


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
    assert settled.helper_store.batch(task_id, hour).count == 3
    assert settled.leader_store.batch(task_id, hour).count == 3


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
    assert world.helper_store.batch(world.task.task_id, world.hour()).count == 3


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
    (job,) = world.leader_store.pending_jobs(world.task.task_id, 5)
    hidden = [r.leader_share.payload for r in reports] + [state for _, state in job.states.values()]
    hidden += [world.held.verify_key, world.leader_key.pair.private]
    world.post.after = lambda reply: dataclasses.replace(reply, body=b"?" * 20)
    world.drive(1)
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
