"""Reports in, sums out: leader, helper and collector together, and what each of them refuses."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from interlock.base.primitives import BadSignature
from interlock.dap.batches import query_for, selector_for
from interlock.dap.client import build_report
from interlock.dap.collector import BadCollection, BatchTooSmall, Pending
from interlock.dap.drafts import ReportError, Role
from interlock.dap.hpke import P256
from interlock.dap.jobs import (
    AggregateShareReq,
    AggregationJobContinueReq,
    AggregationJobInitReq,
    CollectionJobReq,
    CollectionJobResp,
    VerifyContinue,
)
from interlock.dap.membership import NotAdmitted
from interlock.dap.messages import Extension, HpkeCiphertext, Interval, Report, ReportMetadata, UploadRequest
from interlock.dap.problems import DapProblem, ProblemType
from interlock.dap.shares import KeyRing, ReportRejected, open_input_share, seal_input_share
from interlock.dap.storage import ReportStates
from interlock.dap.task import Task, task_of
from interlock.dap.transport import Reply
from tests.unit.dap_world import VDAF, World, bits, configuration, lost, unreachable


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def refusal(kind: ProblemType) -> pytest.RaisesExc[DapProblem]:
    return pytest.RaisesExc(DapProblem, check=lambda e: e.kind is kind)


def three(world: World) -> None:
    assert world.upload(*(world.report(bits(0, i)) for i in (1, 2, 2))) == []


def test_three_members_are_summed_and_nobody_is_seen(world: World) -> None:
    three(world)
    found = world.collect()
    assert (found.report_count, list(found.sums)) == (3, [3, 1, 2] + [0] * 13)
    assert found.interval == world.hour()


def test_keys_of_p256_carry_a_batch_from_upload_to_sums(tmp_path: Path) -> None:
    world = World(tmp_path, kem=P256)
    three(world)
    flipped = world.report(bits(9))
    enc = flipped.helper_share.enc[:-1] + bytes([flipped.helper_share.enc[-1] ^ 1])
    assert (
        world.upload(dataclasses.replace(flipped, helper_share=dataclasses.replace(flipped.helper_share, enc=enc)))
        == []
    )
    found = world.collect()
    assert (found.report_count, list(found.sums)) == (3, [3, 1, 2] + [0] * 13)
    world.close()


def test_reports_of_several_hours_are_one_batch_of_their_interval(world: World) -> None:
    for hour in range(3):
        assert world.upload(world.report(bits(hour))) == []
        world.clock.advance(3600)
    found = world.collect(Interval(world.hour(10).start, 10))
    assert list(found.sums) == [1, 1, 1] + [0] * 13
    assert found.interval == Interval(world.hour(3).start, 3), "the smallest interval that holds all reports"


def test_many_small_jobs_add_up_to_the_same(tmp_path: Path) -> None:
    world = World(tmp_path, job_size=2)
    assert world.upload(*(world.report(bits(i % 4)) for i in range(7))) == []
    assert list(world.collect().sums[:4]) == [2, 2, 2, 1]
    assert len({body for url, body in world.post.sent if url.endswith("aggregation_jobs")}) == 4
    world.close()


def test_a_bad_proof_drops_out_and_the_rest_counts(world: World) -> None:
    three(world)
    good = world.report(bits(5))
    payload = open_input_share(
        world.task,
        Role.LEADER,
        KeyRing([world.leader_key]),
        good.metadata,
        good.public_share,
        good.leader_share,
        1 << 62,
    )
    flipped = bytes([payload[0] ^ 1]) + payload[1:]
    sealed = seal_input_share(
        *(world.task, Role.LEADER, world.leader_key.config, good.metadata, good.public_share, flipped),
        secrets.token_bytes,
    )
    assert world.upload(dataclasses.replace(good, leader_share=sealed)) == []
    found = world.collect()
    assert (found.report_count, list(found.sums[:6])) == (3, [3, 1, 2, 0, 0, 0])
    assert world.leader_store.states(world.task.task_id).rejected == 1


def test_a_vote_of_two_is_not_a_measurement(world: World) -> None:
    with pytest.raises(ValueError, match="0 to 1"):
        world.report([2] + [0] * 15)


def test_the_same_upload_again_is_accepted_and_counts_once(world: World) -> None:
    three(world)
    report = world.report(bits(7))
    assert world.upload(report) == []
    assert world.upload(report) == []
    assert world.upload(report, report) == []
    assert world.collect().report_count == 4
    assert world.upload(report) == [], "a late retry of what was counted is still a success"


def test_another_report_under_a_used_id_is_a_replay(world: World) -> None:
    first = world.report(bits(1))
    assert world.upload(first) == []
    changed = dataclasses.replace(first, helper_share=HpkeCiphertext(2, b"e" * 32, b"p" * 40))
    assert world.upload(changed) == [ReportError.REPORT_REPLAYED]


def test_the_helper_never_commits_a_report_twice(world: World) -> None:
    three(world)
    world.drive()
    request = AggregationJobInitReq.decode(world.post.sent[0][1])
    again = dataclasses.replace(request, inits=request.inits[:1])  # other bytes, so another job
    answer = world.helper.process_aggregation_init(world.task.task_id, again.encode())
    assert answer.body == request.inits[0].share.metadata.report_id + b"\x02\x02"
    assert world.helper_store.batch(world.task.task_id, world.hour(), VDAF.merge).count == 3


def test_a_retry_of_a_job_replays_the_stored_answer(world: World) -> None:
    three(world)
    hour = world.hour()
    world.drive()
    body = world.post.sent[0][1]
    first = world.helper.process_aggregation_init(world.task.task_id, body)
    world.clock.advance(10**9)
    world.restart()
    again = world.helper.process_aggregation_init(world.task.task_id, body)
    assert first == again
    assert world.helper.aggregation_job(world.task.task_id, first.id, "0").body == first.body
    assert world.helper_store.batch(world.task.task_id, hour, VDAF.merge).count == 3


def test_an_answer_that_was_lost_is_asked_for_again_with_the_same_bytes(world: World) -> None:
    three(world)
    world.post.after = lost
    world.drive()
    assert world.helper_store.batch(world.task.task_id, world.hour(), VDAF.merge).count == 3, "the helper has committed"
    assert world.leader_store.states(world.task.task_id).taken == 3
    sent = world.post.sent
    world.restart()
    assert world.collect().report_count == 3
    assert world.post.sent[0] == sent[0]


def test_a_lost_aggregate_share_is_asked_for_again_with_the_same_bytes(world: World) -> None:
    three(world)
    world.drive()
    world.collector.ask(world.hour())
    world.post.after = lost
    world.drive()
    assert world.driver.drive_once().trouble is not None
    sent = world.post.sent[-1]
    world.restart()
    assert world.collect().report_count == 3
    assert world.post.sent[0] == sent


def test_a_helper_that_is_down_loses_nothing(world: World) -> None:
    three(world)
    world.post.before = unreachable
    world.drive()
    world.post.before = lambda: None
    assert world.collect().report_count == 3


def test_a_helper_without_the_task_is_asked_again_later(world: World) -> None:
    three(world)
    world.post.after = lambda _: Reply(404, "", DapProblem(ProblemType.UNRECOGNIZED_TASK, "no").document())
    world.drive()
    assert world.leader_store.states(world.task.task_id).taken == 3
    world.post.after = lambda reply: reply
    assert world.collect().report_count == 3


def test_an_answer_for_other_reports_abandons_the_job(world: World) -> None:
    three(world)
    world.post.after = lambda reply: dataclasses.replace(reply, body=b"x" * 16 + reply.body[16:])
    world.drive()
    states = world.leader_store.states(world.task.task_id)
    assert (states.rejected, states.aggregated) == (3, 0)


def test_a_job_that_the_helper_defers_is_asked_for_again(world: World) -> None:
    three(world)
    world.post.after = lambda reply: dataclasses.replace(reply, body=b"")
    world.drive()
    assert world.leader_store.states(world.task.task_id).taken == 3
    world.post.after = lambda reply: reply
    world.clock.advance(1)
    assert world.collect().report_count == 3


def test_a_batch_is_collected_once_and_its_answer_stays(world: World) -> None:
    three(world)
    first = world.collect()
    assert world.collector.ask(world.hour()) == first
    with refusal(ProblemType.BATCH_OVERLAP):
        world.collector.ask(Interval(world.hour().start - 1, 3))
    assert world.upload(world.report(bits(1))) == [ReportError.BATCH_COLLECTED]


def test_a_second_job_over_a_batch_that_is_asked_for_is_refused(world: World) -> None:
    assert isinstance(world.collector.ask(world.hour()), Pending)
    with refusal(ProblemType.BATCH_OVERLAP):
        world.collector.ask(Interval(world.hour().start, 2))


def test_the_helper_collects_a_batch_once_and_commits_nothing_after_it(world: World) -> None:
    three(world)
    world.collect()
    request = AggregateShareReq.decode(world.post.sent[-1][1])
    wider = dataclasses.replace(
        request,
        job=CollectionJobReq(query_for(Interval(world.hour().start, 2))),
        selector=selector_for(Interval(world.hour().start, 2)),
    )
    with refusal(ProblemType.BATCH_OVERLAP):
        world.helper.process_aggregate_share(world.task.task_id, wider.encode())
    job = AggregationJobInitReq.decode(world.post.sent[0][1])
    late = world.report(bits(3))
    share = dataclasses.replace(job.inits[0].share, metadata=late.metadata)
    answer = world.helper.process_aggregation_init(
        world.task.task_id, dataclasses.replace(job, inits=(dataclasses.replace(job.inits[0], share=share),)).encode()
    )
    assert answer.body[16:17] == b"\x02", "rejected"
    assert world.helper_store.batch(world.task.task_id, world.hour(), VDAF.merge).count == 3


def test_a_batch_that_is_too_small_waits_and_is_refused_when_its_time_is_over(world: World) -> None:
    assert world.upload(world.report(bits(1)), world.report(bits(2))) == []
    hour = world.hour()
    pending = world.collector.ask(hour)
    assert isinstance(pending, Pending)
    world.drive()
    assert isinstance(world.collector.poll(pending), Pending), "more reports may come"
    world.clock.advance(3600)
    world.drive()
    with refusal(ProblemType.INVALID_BATCH_SIZE):
        world.collector.poll(pending)


def test_a_batch_that_was_too_small_can_be_asked_for_again(world: World) -> None:
    late = [world.report(bits(i)) for i in range(3)]
    assert world.upload(*late[:2]) == []
    hour = world.hour()
    world.clock.advance(3600)
    pending = world.collector.ask(hour)
    world.drive()
    assert isinstance(pending, Pending)
    with refusal(ProblemType.INVALID_BATCH_SIZE):
        world.collector.poll(pending)
    assert world.upload(late[2]) == []
    assert world.collect(hour).report_count == 3


def test_the_helper_too_refuses_a_batch_that_is_too_small(world: World) -> None:
    assert world.upload(world.report(bits(1))) == []
    world.drive()
    hour = world.hour()
    batch = world.leader_store.batch(world.task.task_id, hour, VDAF.merge)
    request = AggregateShareReq(CollectionJobReq(query_for(hour)), selector_for(hour), 1, batch.checksum)
    with refusal(ProblemType.INVALID_BATCH_SIZE):
        world.helper.process_aggregate_share(world.task.task_id, request.encode())


def test_aggregators_that_counted_otherwise_say_so(world: World) -> None:
    three(world)
    world.drive()
    hour = world.hour()
    pending = world.collector.ask(hour)
    request = AggregateShareReq(CollectionJobReq(query_for(hour)), selector_for(hour), 3, b"\x01" * 32)
    with refusal(ProblemType.BATCH_MISMATCH):
        world.helper.process_aggregate_share(world.task.task_id, request.encode())
    world.post.after = lambda _: Reply(400, "", DapProblem(ProblemType.BATCH_MISMATCH, "differs").document())
    world.drive()
    assert isinstance(pending, Pending)
    with refusal(ProblemType.BATCH_MISMATCH):
        world.collector.poll(pending)


def test_one_other_byte_in_a_url_and_nothing_opens(world: World) -> None:
    other = task_of(configuration(helper_url="https://helper.test/dap/"), demo=True)
    assert other.task_id != world.task.task_id
    disguised = dataclasses.replace(other, task_id=world.task.task_id)
    assert world.upload(world.report(bits(1), task=disguised)) == []
    world.drive()
    assert world.leader_store.states(world.task.task_id) == ReportStates(rejected=1)


def test_a_share_sealed_to_another_helper_drops_out_at_the_helper(world: World) -> None:
    three(world)
    foreign = dataclasses.replace(world.collector_key, id=world.helper_key.id)
    assert world.upload(world.report(bits(4), helper=foreign)) == []
    assert world.collect().report_count == 3


def test_neither_aggregator_can_open_the_others_share(world: World) -> None:
    three(world)
    report = Report.decode(world.leader_store.waiting_reports(world.task.task_id, 1)[0])
    for key, role, sealed in (
        (world.leader_key, Role.HELPER, report.helper_share),
        (world.leader_key, Role.LEADER, report.helper_share),
        (world.helper_key, Role.LEADER, report.leader_share),
        (world.helper_key, Role.HELPER, report.leader_share),
    ):
        ring = KeyRing([dataclasses.replace(key, id=sealed.config_id)])
        with pytest.raises(ReportRejected):
            open_input_share(world.task, role, ring, report.metadata, report.public_share, sealed, world.clock.now_us())
    assert open_input_share(
        *(world.task, Role.HELPER, KeyRing([world.helper_key]), report.metadata, report.public_share),
        *(report.helper_share, world.clock.now_us()),
    ), "and the helper opens its own"


def test_one_aggregate_share_alone_says_nothing_of_the_sums(world: World) -> None:
    three(world)
    world.drive()
    stores = (world.leader_store, world.helper_store)
    held = [store.batch(world.task.task_id, world.hour(), VDAF.merge).share for store in stores]
    found = world.collect()
    for share in map(VDAF.decode_agg_share, held):
        assert not any(value == total for value, total in zip(share, found.sums, strict=True))
    held = [store.batch(world.task.task_id, world.hour(), VDAF.merge).share for store in stores]
    assert held == [VDAF.merge([])] * 2, "and what was given out is forgotten"


def test_the_leader_forgets_reports_once_their_batch_is_collected(world: World, tmp_path: Path) -> None:
    three(world)
    report = Report.decode(world.leader_store.waiting_reports(world.task.task_id, 1)[0])
    world.restart()
    assert report.helper_share.payload in (tmp_path / "leader.db").read_bytes()
    world.collect()
    world.restart()
    stored = b"".join(p.read_bytes() for p in tmp_path.glob("leader.db*"))
    assert report.metadata.report_id in stored
    assert report.helper_share.payload not in stored
    assert report.leader_share.payload not in stored


@pytest.mark.parametrize("name", ["leader", "helper"])
def test_a_share_that_was_given_out_is_in_no_file_of_a_role_that_goes_on(
    world: World, tmp_path: Path, name: str
) -> None:
    """Not in the write-ahead log either: with the other side's share it would tell the sums without their noise."""
    three(world)
    world.drive()
    share = getattr(world, f"{name}_store").batch(world.task.task_id, world.hour(), VDAF.merge).share
    files = {path: path.read_bytes() for path in tmp_path.glob(f"{name}.db*")}
    assert any(share in data for data in files.values())
    world.collect()
    assert all(share not in path.read_bytes() for path in files)


def test_a_member_has_one_report_an_hour(world: World) -> None:
    assert world.upload(world.report(bits(1)), member="acme") == []
    assert world.upload(world.report(bits(1)), member="acme") == [ReportError.REPORT_DROPPED]
    assert world.upload(world.report(bits(1)), member="globex") == []
    world.clock.advance(3600)
    assert world.upload(world.report(bits(1)), member="acme") == []


def test_what_admission_refuses_is_dropped(tmp_path: Path) -> None:
    def admit(task: Task, metadata: ReportMetadata, public_share: bytes) -> NoReturn:
        raise NotAdmitted("is not one of us")

    world = World(tmp_path, admit=admit)
    assert world.upload(world.report(bits(1))) == [ReportError.REPORT_DROPPED]
    world.close()


def test_reports_that_are_refused_do_not_stop_the_others_of_their_request(world: World) -> None:
    stale = dataclasses.replace(world.report(bits(1)), leader_share=HpkeCiphertext(77, b"e", b"p"))
    extended = world.report(bits(1))
    extended = dataclasses.replace(
        extended, metadata=dataclasses.replace(extended.metadata, extensions=(Extension(5, b""),))
    )
    early = world.report(bits(1))
    early = dataclasses.replace(early, metadata=dataclasses.replace(early.metadata, time=early.metadata.time + 2))
    errors = world.upload(stale, world.report(bits(2)), extended, early)
    assert errors == [ReportError.OUTDATED_CONFIG, ReportError.INVALID_MESSAGE, ReportError.REPORT_TOO_EARLY]
    assert world.leader_store.states(world.task.task_id).waiting == 1


def test_requests_that_are_malformed_or_of_no_task_are_refused(world: World) -> None:
    task_id = world.task.task_id
    for process in (
        world.leader.process_upload,
        world.leader.process_collection_init,
        world.helper.process_aggregation_init,
        world.helper.process_aggregate_share,
    ):
        with refusal(ProblemType.INVALID_MESSAGE):
            process(task_id, b"\x00\x01\x02")
        with refusal(ProblemType.UNRECOGNIZED_TASK):
            process(b"?" * 32, b"")


def test_the_helper_refuses_whole_jobs_that_it_cannot_judge(world: World) -> None:
    three(world)
    world.drive()
    job = AggregationJobInitReq.decode(world.post.sent[0][1])
    twice = dataclasses.replace(job, inits=job.inits[:1] * 2)
    for changed, kind in (
        (twice, ProblemType.INVALID_MESSAGE),
        (dataclasses.replace(job, inits=()), ProblemType.INVALID_MESSAGE),
        (dataclasses.replace(job, agg_param=b"x"), ProblemType.INVALID_AGGREGATION_PARAMETER),
        (dataclasses.replace(job, verification_key_id=1), ProblemType.INVALID_MESSAGE),
        (dataclasses.replace(job, extensions=(Extension(1, b""),)), ProblemType.UNSUPPORTED_EXTENSION),
        (dataclasses.replace(job, extensions=(Extension(2, b""), Extension(1, b""))), ProblemType.INVALID_MESSAGE),
    ):
        with refusal(kind):
            world.helper.process_aggregation_init(world.task.task_id, changed.encode())


def test_jobs_and_shares_that_are_not_there_are_named_so(world: World) -> None:
    three(world)
    world.drive()
    task_id = world.task.task_id
    job = world.helper.process_aggregation_init(task_id, world.post.sent[0][1])
    with refusal(ProblemType.UNRECOGNIZED_AGGREGATION_JOB):
        world.helper.aggregation_job(task_id, b"?" * 16, "0")
    with refusal(ProblemType.STEP_MISMATCH):
        world.helper.aggregation_job(task_id, job.id, "1")
    with refusal(ProblemType.INVALID_MESSAGE):
        world.helper.aggregation_job(task_id, job.id, None)
    more = VerifyContinue(b"i" * 16, b"p")
    for body, kind in (
        (AggregationJobContinueReq(1, (more,)).encode(), ProblemType.STEP_MISMATCH),
        (AggregationJobContinueReq(1, ()).encode(), ProblemType.STEP_MISMATCH),
        (AggregationJobContinueReq(0, (more,)).encode(), ProblemType.INVALID_MESSAGE),
        (AggregationJobContinueReq(1, (more, more)).encode(), ProblemType.INVALID_MESSAGE),
        (b"\x00", ProblemType.INVALID_MESSAGE),
    ):
        with refusal(kind):
            world.helper.process_aggregation_continue(task_id, job.id, body)
    with refusal(ProblemType.UNRECOGNIZED_AGGREGATION_JOB):
        world.helper.process_aggregation_continue(task_id, b"?" * 16, b"\x00\x01")
    for look in (world.helper.aggregate_share, world.leader.collection_job):
        with pytest.raises(DapProblem) as caught:
            look(task_id, b"?" * 16)
        assert (caught.value.status, caught.value.kind) == (404, None)


def test_queries_that_name_no_batch_are_refused(world: World) -> None:
    hour = world.hour()
    good = CollectionJobReq(query_for(hour))
    for changed, kind in (
        (CollectionJobReq(query_for(Interval(hour.start, 0))), ProblemType.BATCH_INVALID),
        (CollectionJobReq(query_for(Interval(2**64 - 1, 2**64 - 1))), ProblemType.BATCH_INVALID),
        (CollectionJobReq(dataclasses.replace(good.query, batch_mode=2)), ProblemType.INVALID_MESSAGE),
        (CollectionJobReq(dataclasses.replace(good.query, config=b"x")), ProblemType.INVALID_MESSAGE),
        (dataclasses.replace(good, agg_param=b"x"), ProblemType.INVALID_AGGREGATION_PARAMETER),
        (dataclasses.replace(good, extensions=(Extension(1, b""),)), ProblemType.UNSUPPORTED_EXTENSION),
        (dataclasses.replace(good, extensions=(Extension(1, b""),) * 2), ProblemType.INVALID_EXTENSION),
    ):
        with refusal(kind):
            world.leader.process_collection_init(world.task.task_id, changed.encode())
    outside = AggregateShareReq(good, selector_for(Interval(hour.start, 2)), 3, bytes(32))
    with refusal(ProblemType.BATCH_INVALID):
        world.helper.process_aggregate_share(world.task.task_id, outside.encode())


def test_the_collector_believes_no_result_that_cannot_be(world: World) -> None:
    three(world)
    hour = world.hour()
    world.collect()
    request = CollectionJobReq(query_for(hour)).encode()
    answer = world.leader.process_collection_init(world.task.task_id, request).body
    found = CollectionJobResp.decode(answer)
    swapped = dataclasses.replace(found, leader_share=found.helper_share, helper_share=found.leader_share)
    for changed, error in (
        (dataclasses.replace(found, report_count=2), BatchTooSmall),
        (dataclasses.replace(found, interval=Interval(hour.start - 1, 1)), BadCollection),
        (swapped, BadSignature),
    ):
        with pytest.raises(error):
            world.collector.opened(request, changed.encode())
    with pytest.raises(BadSignature):
        world.collector.opened(CollectionJobReq(query_for(Interval(hour.start, 2))).encode(), answer)


def test_a_report_is_built_for_the_tasks_own_vdaf_only(world: World) -> None:
    other = dataclasses.replace(
        world.task, config=dataclasses.replace(world.task.config, vdaf_configuration=b"\x00" * 16)
    )
    with pytest.raises(ValueError, match="not that of the task"):
        build_report(
            *(other, VDAF, bits(1), world.leader_key.config, world.helper_key.config),
            now_us=1,
            rng=secrets.token_bytes,
        )


def test_an_empty_upload_is_no_error(world: World) -> None:
    assert world.leader.process_upload(world.task.task_id, UploadRequest(()).encode()) == b""
