"""The batch mode leader_selected, from upload to sums: batches that the leader fills, each collected once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from interlock.base.clock import MICROSECONDS
from interlock.dap.batches import checksum_of, query_for, selector_for
from interlock.dap.collector import BadCollection, BatchTooSmall, Pending
from interlock.dap.drafts import DRAFTS, ReportError
from interlock.dap.helper import Resource
from interlock.dap.jobs import (
    AggregateShareReq,
    AggregationJobInitReq,
    AggregationJobResp,
    BatchSelector,
    CollectionJobReq,
    CollectionJobResp,
    Query,
)
from interlock.dap.messages import LEADER_SELECTED, BatchId, Extension, Interval
from interlock.dap.noise import Mechanism, Noise
from interlock.dap.problems import DapProblem, ProblemType, missing
from interlock.dap.task import TaskRefused
from tests.unit.dap_world import PRECISION, World, bits, lost, task, unreachable
from tests.unit.test_dap_hostile import job_of

NEXT = CollectionJobReq(query_for(None)).encode()
ONE, OTHER = bytes([1]) * 32, bytes([2]) * 32


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def world_of(**about: Any) -> World:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(World(folder, batch_mode=LEADER_SELECTED, **about))
        return made[-1]

    yield world_of
    for world in made:
        world.close()


@pytest.fixture
def world(make: Callable[..., World]) -> World:
    return make()


def sent(world: World, *places: int) -> None:
    """A report for each place, on its way through the helper."""
    assert world.upload(*(world.report(bits(place)) for place in places)) == []
    world.drive()


def kind_of(work: Callable[[], object]) -> ProblemType | None:
    with pytest.raises(DapProblem) as caught:
        work()
    return caught.value.kind


# batches


@pytest.mark.parametrize("draft", DRAFTS.values(), ids=list(DRAFTS))
def test_each_question_is_about_the_eldest_batch_that_was_not_taken(make: Callable[..., World], draft: Any) -> None:
    world = make(draft=draft)
    sent(world, *range(8))
    first = world.collect_next()
    assert (first.report_count, sum(first.sums)) == (3, 3)
    assert world.collect_next() == first, "the same until it is taken"
    world.collector.taken(first.place)
    second = world.collect_next()
    world.collector.taken(second.place)
    assert all(a + b <= 1 for a, b in zip(first.sums, second.sums, strict=True)), "no report is in both"
    assert first.mark != second.mark
    assert first.place != second.place
    pending = world.collector.ask_next()
    world.drive()
    assert isinstance(pending, Pending)
    assert isinstance(world.collector.poll(pending), Pending), "two of three wait for a third"
    sent(world, 8)
    assert world.collect_next().report_count == 3


def test_a_batch_is_of_whatever_hours_its_reports_are_of(world: World) -> None:
    sent(world, 0)
    begin = world.task.time_of(world.clock.now_us())
    for hours in (5, 20):
        world.clock.advance(hours * PRECISION)
        sent(world, 1)
    found = world.collect_next()
    assert (found.interval, list(found.sums[:3])) == (Interval(begin, 26), [1, 2, 0])


def test_a_member_has_one_report_an_hour_and_several_in_a_batch(world: World) -> None:
    assert world.upload(world.report(bits(0)), member="acme") == []
    assert world.upload(world.report(bits(0)), member="acme") == [ReportError.REPORT_DROPPED]
    for _ in range(2):
        world.clock.advance(PRECISION)
        assert world.upload(world.report(bits(0)), member="acme") == []
    assert world.collect_next().sums[0] == 3, "it says how many reports, and not how many members"


def test_a_task_that_asks_for_proofs_of_membership_is_not_of_this_mode() -> None:
    with pytest.raises(TaskRefused, match="may hold a member many times"):
        task(membership=b"\x01\x01t", batch_mode=LEADER_SELECTED)


def test_a_report_that_the_helper_turns_down_leaves_its_place_to_the_next(world: World) -> None:
    good = [world.report(bits(place)) for place in range(3)]
    spoiled = dataclasses.replace(good[0].helper_share, payload=good[0].helper_share.payload[:-1] + b"\x00")
    bad = dataclasses.replace(good[0], helper_share=spoiled)
    assert world.upload(bad, *good[1:]) == []
    world.drive()
    assert world.leader_store.states(world.task.task_id).rejected == 1
    sent(world, 3)
    assert list(world.collect_next().sums[:5]) == [0, 1, 1, 1, 0]


def test_noise_is_charged_once_a_batch_and_the_budget_ends_the_task(make: Callable[..., World]) -> None:
    world = make(noise=Noise(Mechanism.LAPLACE, Fraction(1), Fraction(2)))
    for hours in range(9):
        world.clock.advance(hours * PRECISION)
        sent(world, 0)
    for _ in range(2):
        world.collector.taken(world.collect_next().place)
    assert [sum(row.cost for row in budget.rows(world.task.task_id)) for budget in world.budgets] == [2, 2]
    pending = world.collector.ask_next()
    assert isinstance(pending, Pending)
    world.drive()
    assert kind_of(lambda: world.collector.poll(pending)) is ProblemType.BUDGET_SPENT


# whoever asks crashes, or its words are lost


def test_a_collector_that_crashed_asks_again_and_loses_nothing(world: World) -> None:
    sent(world, *range(6))
    first = world.collect_next()
    world.restart()
    again = world.collector.ask_next()
    assert again == first
    world.collector.taken(first.place)
    world.restart()
    assert world.collect_next().mark != first.mark


def test_a_late_word_that_a_batch_was_taken_does_not_touch_the_next(world: World) -> None:
    sent(world, *range(6))
    first = world.collect_next()
    world.collector.taken(first.place)
    second = world.collect_next()
    world.collector.taken(first.place)
    assert world.collector.ask_next() == second


def test_a_job_that_waits_and_is_given_up_is_made_anew(world: World) -> None:
    pending = world.collector.ask_next()
    assert isinstance(pending, Pending)
    world.collector.taken(pending.location)
    assert kind_of(lambda: world.collector.poll(pending)) is ProblemType.INVALID_BATCH_SIZE
    sent(world, *range(3))
    assert world.collect_next().report_count == 3


def test_deleting_a_job_that_has_become_ready_gives_its_result_up_and_nothing_else(world: World) -> None:
    sent(world, *range(6))
    pending = world.collector.ask_next()
    assert isinstance(pending, Pending)
    world.drive()
    world.collector.taken(pending.location)
    world.collector.taken(world.collect_next().place)
    world.collector.ask_next()
    world.drive()
    assert isinstance(world.collector.ask_next(), Pending), "of two batches one was given up, and one was had"


def test_a_job_that_asks_the_helper_is_not_given_up(world: World) -> None:
    sent(world, *range(3))
    pending = world.collector.ask_next()
    assert isinstance(pending, Pending)
    world.post.before = unreachable
    world.drive()
    world.collector.taken(pending.location)
    world.post.before = lambda: None
    world.drive()
    assert world.collector.poll(pending) == world.collect_next()


def test_an_answer_that_is_lost_is_asked_for_again_by_the_same_bytes(world: World) -> None:
    sent(world, *range(3))
    world.collector.ask_next()
    world.post.after = lost
    world.drive(1)
    world.post.after = lambda reply: reply
    world.restart()
    assert world.collect_next().report_count == 3


# between leader and helper


def test_the_leader_names_the_batch_of_each_job_and_no_two_are_named_alike(world: World) -> None:
    sent(world, *range(6))
    jobs = [AggregationJobInitReq.decode(body) for url, body in world.post.sent if url.endswith("aggregation_jobs")]
    named = [[(e.kind, len(e.data)) for e in job.extensions] for job in jobs]
    assert named == [[(1, 32)]] * 2
    assert jobs[0].extensions != jobs[1].extensions


WRONG = [
    ((), ProblemType.INVALID_MESSAGE),
    ((Extension(1, b""),), ProblemType.INVALID_MESSAGE),
    ((Extension(1, ONE[:-1]),), ProblemType.INVALID_MESSAGE),
    ((Extension(1, ONE + b"\x00"),), ProblemType.INVALID_MESSAGE),
    ((Extension(1, ONE), Extension(1, OTHER)), ProblemType.INVALID_MESSAGE),
    ((Extension(2, b""), Extension(1, ONE)), ProblemType.INVALID_MESSAGE),
    ((Extension(1, ONE), Extension(2, b"")), ProblemType.UNSUPPORTED_EXTENSION),
    ((Extension(2, ONE),), ProblemType.UNSUPPORTED_EXTENSION),
]


@pytest.mark.parametrize(("extensions", "problem"), WRONG)
def test_a_job_without_one_whole_batch_id_is_refused(
    world: World, extensions: tuple[Extension, ...], problem: ProblemType
) -> None:
    body = extended(job_of(world, world.report(bits(0))), *extensions)
    assert kind_of(lambda: world.helper.process_aggregation_init(world.task.task_id, body)) is problem
    assert world.helper_store.newest(world.task.task_id) is None


def test_a_task_of_time_intervals_takes_no_batch_id(tmp_path: Path) -> None:
    world = World(tmp_path)
    body = extended(job_of(world, world.report(bits(0))), Extension(1, ONE))
    assert (
        kind_of(lambda: world.helper.process_aggregation_init(world.task.task_id, body))
        is ProblemType.UNSUPPORTED_EXTENSION
    )
    world.close()


def test_no_report_is_counted_in_two_batches_and_none_in_one_that_was_collected(world: World) -> None:
    reports = [world.report(bits(place)) for place in range(4)]
    task_id = world.task.task_id

    def told(report: Any, batch: bytes) -> ReportError | None:
        body = extended(job_of(world, report), Extension(1, batch))
        (response,) = AggregationJobResp.decode(world.helper.process_aggregation_init(task_id, body).body).responses
        return response.error

    assert [told(report, ONE) for report in reports[:3]] == [None] * 3
    assert told(reports[0], OTHER) is ReportError.REPORT_REPLAYED
    ids = [report.metadata.report_id for report in reports[:3]]
    assert kind_of(lambda: asked(world, OTHER, ids)) is ProblemType.INVALID_BATCH_SIZE, "nothing is in that one"
    assert kind_of(lambda: asked(world, ONE, ids[:2])) is ProblemType.BATCH_MISMATCH
    answer = asked(world, ONE, ids)
    assert asked(world, ONE, ids) == answer, "the stored one"
    assert kind_of(lambda: asked(world, ONE, [*ids, ids[0]])) is ProblemType.BATCH_OVERLAP, (
        "once, whatever else is said"
    )
    assert told(reports[3], ONE) is ReportError.BATCH_COLLECTED


BAD_SELECTORS = [
    (BatchSelector(2, b""), ProblemType.INVALID_MESSAGE),
    (BatchSelector(2, ONE[:-1]), ProblemType.INVALID_MESSAGE),
    (BatchSelector(2, ONE + b"\x00"), ProblemType.INVALID_MESSAGE),
    (BatchSelector(1, Interval(5, 1).encode()), ProblemType.INVALID_MESSAGE),
    (BatchSelector(1, ONE), ProblemType.INVALID_MESSAGE),
]


@pytest.mark.parametrize(("selector", "problem"), BAD_SELECTORS)
def test_a_selector_that_names_no_batch_is_refused(world: World, selector: BatchSelector, problem: ProblemType) -> None:
    body = AggregateShareReq(CollectionJobReq.decode(NEXT), selector, 3, bytes(32)).encode()
    assert kind_of(lambda: world.helper.process_aggregate_share(world.task.task_id, body)) is problem


@pytest.mark.parametrize(
    "query", [Query(2, b"\x00"), Query(2, ONE), Query(1, b""), Query(1, Interval(5, 1).encode()), Query(3, b"")]
)
def test_a_query_that_is_not_for_the_next_batch_is_refused_by_leader_and_helper(world: World, query: Query) -> None:
    job, task_id = CollectionJobReq(query), world.task.task_id
    share = AggregateShareReq(job, selector_for(BatchId(ONE)), 3, bytes(32)).encode()
    for work in (
        lambda: world.leader.process_collection_init(task_id, job.encode()),
        lambda: world.helper.process_aggregate_share(task_id, share),
    ):
        assert kind_of(work) is ProblemType.INVALID_MESSAGE


def test_a_query_for_the_next_batch_of_a_task_of_time_intervals_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert kind_of(lambda: world.collector.ask_next()) is ProblemType.INVALID_MESSAGE
    world.close()


def test_a_batch_of_which_the_two_do_not_agree_is_told_and_the_others_are_had_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(task_id: bytes, body: bytes) -> Resource:
        raise missing("resource", task_id)

    monkeypatch.setattr(world.helper, "process_repair", unknown)  # a helper of another make
    sent(world, *range(3))
    (named,) = AggregationJobInitReq.decode(world.post.sent[0][1]).extensions
    foreign = extended(job_of(world, world.report(bits(9))), named)  # as one that the leader gave up and forgot
    world.helper.process_aggregation_init(world.task.task_id, foreign)
    sent(world, *range(3, 6))
    pending = world.collector.ask_next()
    assert isinstance(pending, Pending)
    world.drive()
    assert kind_of(lambda: world.collector.poll(pending)) is ProblemType.BATCH_MISMATCH
    found = world.collect_next()
    assert list(found.sums[:7]) == [0, 0, 0, 1, 1, 1, 0]
    world.collector.taken(found.place)
    world.collector.ask_next()
    world.drive()
    assert isinstance(world.collector.ask_next(), Pending), "it is tried again where there is no other"


# what the collector believes


def test_the_collector_refuses_a_batch_below_the_floor_and_times_of_no_calendar(world: World) -> None:
    sent(world, *range(3))
    world.collect_next()
    answer = CollectionJobResp.decode(world.leader.process_collection_init(world.task.task_id, NEXT).body)
    small = dataclasses.replace(answer, report_count=2)
    with pytest.raises(BatchTooSmall):
        world.collector.opened(NEXT, small.encode())
    for interval in (Interval(answer.interval.start, 0), Interval(1 << 63, 1), Interval(0, 1 << 50)):
        with pytest.raises(BadCollection, match="another interval"):
            world.collector.opened(NEXT, dataclasses.replace(answer, interval=interval).encode())


def test_a_leader_that_hands_out_a_batch_again_gives_it_the_same_mark(world: World) -> None:
    """Nothing in DAP's answer names the batch; but the helper seals its share of one once."""
    sent(world, *range(3))
    found = world.collect_next()
    answer = CollectionJobResp.decode(world.leader.process_collection_init(world.task.task_id, NEXT).body)
    world.clock.advance(MICROSECONDS)
    dressed = dataclasses.replace(answer, interval=Interval(answer.interval.start - 5, 7))
    assert world.collector.opened(NEXT, dressed.encode()).mark == found.mark


def test_shares_of_two_batches_give_no_result(world: World) -> None:
    sent(world, *range(6))
    answers = []
    for _ in range(2):
        place = world.collect_next().place
        answers.append(CollectionJobResp.decode(world.leader.process_collection_init(world.task.task_id, NEXT).body))
        world.collector.taken(place)
    mixed = dataclasses.replace(answers[0], leader_share=answers[1].leader_share)
    with pytest.raises(BadCollection, match="do not hold the same batch"):
        world.collector.opened(NEXT, mixed.encode())


def extended(job: bytes, *extensions: Extension) -> bytes:
    return dataclasses.replace(AggregationJobInitReq.decode(job), extensions=extensions).encode()


def asked(world: World, batch: bytes, ids: list[bytes]) -> bytes:
    """What the helper answers a leader that says that these reports are the batch."""
    job, selector = CollectionJobReq.decode(NEXT), selector_for(BatchId(batch))
    body = AggregateShareReq(job, selector, len(ids), checksum_of(ids)).encode()
    return world.helper.process_aggregate_share(world.task.task_id, body).body
