"""Repair of batches that the leader selects: as for time intervals, once they are filled beyond the least they need."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from interlock.base.errors import EXIT_OK
from interlock.dap.batches import query_for, selector_for
from interlock.dap.collector import Collected, Pending
from interlock.dap.drafts import ReportError, Role
from interlock.dap.fates import Standing, Step
from interlock.dap.jobs import (
    AggregateShareReq,
    AggregationJobInitReq,
    AggregationJobResp,
    BatchSelector,
    CollectionJobReq,
)
from interlock.dap.messages import LEADER_SELECTED, BatchId, Interval, Report
from interlock.dap.noise import Mechanism, Noise
from interlock.dap.problems import DapProblem, ProblemType
from interlock.dap.repair import JobPart, RepairReq, RepairResp
from interlock.dap.storage import LaterJob
from interlock.dap.taskfile import dump_client_task
from interlock.dap.transport import Reply
from interlock.node.cli.main import main
from tests.unit.dap_stores import Leading, Stores, stores_of
from tests.unit.dap_world import PRECISION, World, bits
from tests.unit.test_dap_fates import fates
from tests.unit.test_dap_repair import JOBS, REPAIRS, SHARES, execute, posted, refusal, spoil
from tests.unit.test_dap_repair_storage import ASK, asked, but
from tests.unit.test_dap_selected_storage import FIRST, ids, outs
from tests.unit.test_dap_selected_storage import order as selecting
from tests.unit.test_dap_storage import TASK, added, lease, one, order, report, reports, said, taken

SIZE = 8


@pytest.fixture
def make(tmp_path: Path, stores: Stores) -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def world_of(**about: Any) -> World:
        about = {"job_size": 2, "batch_size": SIZE, "stores": stores, **about}
        made.append(World(tmp_path, batch_mode=LEADER_SELECTED, **about))
        return made[-1]

    yield world_of
    for world in made:
        world.close()


@pytest.fixture
def world(make: Callable[..., World]) -> World:
    return make()


def filled(world: World, first: int = 0, count: int = SIZE) -> list[Report]:
    """A batch of jobs of two, each report at a place of its own; one by one, so that they are in jobs in this order."""
    found = [world.report(bits(first + n)) for n in range(count)]
    for each in found:
        assert world.upload(each) == []
    world.drive(1)
    return found


def batch_of(world: World, job: int = 0) -> BatchId:
    """The batch that an aggregation job was for."""
    (named,) = AggregationJobInitReq.decode(posted(world, JOBS)[job]).extensions
    return BatchId(named.data)


def parts(world: World, batch: BatchId | None = None) -> tuple[JobPart, ...]:
    """What the helper holds of a batch, looked at from inside, in the order of its jobs."""
    chosen = batch or batch_of(world)
    with world.helper_store._write() as tx:
        found: tuple[JobPart, ...] = world.helper_store._parts(tx, world.task.task_id, chosen)
    places = [world.helper.process_aggregation_init(world.task.task_id, body).id for body in posted(world, JOBS)]
    return tuple(sorted(found, key=lambda part: places.index(part.job_id)))


def by_id(of: tuple[JobPart, ...]) -> tuple[JobPart, ...]:
    return tuple(sorted(of, key=lambda part: part.job_id))


def repair(world: World, of: tuple[JobPart, ...], batch: BatchId | None = None) -> tuple[JobPart, ...]:
    """What a leader that says that it holds these parts is answered."""
    chosen = batch or batch_of(world)
    body = RepairReq(CollectionJobReq(query_for(None)), selector_for(chosen), by_id(of)).encode()
    return RepairResp.decode(world.helper.process_repair(world.task.task_id, body, "leader").body).parts


def share_of(world: World, of: tuple[JobPart, ...], batch: BatchId | None = None) -> bytes:
    """What a leader that holds just these parts gets of the helper."""
    checksum = bytes(32)
    for part in of:
        checksum = bytes(a ^ b for a, b in zip(checksum, part.checksum, strict=True))
    selector, count = selector_for(batch or batch_of(world)), sum(part.count for part in of)
    body = AggregateShareReq(CollectionJobReq(query_for(None)), selector, count, checksum).encode()
    return world.helper.process_aggregate_share(world.task.task_id, body).body


def losing(world: World, *jobs: int) -> None:
    """The helper loses what these jobs committed."""
    for part in [parts(world)[job] for job in jobs]:
        execute(world, "DELETE FROM accumulators WHERE job = ?", part.job_id)


def lying(world: World, answer: Callable[[tuple[JobPart, ...]], tuple[JobPart, ...]]) -> None:
    """The helper says something else of what it holds than is so."""

    def lie(reply: Reply) -> Reply:
        if not world.post.sent[-1][0].endswith(REPAIRS):
            return reply
        return dataclasses.replace(reply, body=RepairResp(answer(RepairResp.decode(reply.body).parts)).encode())

    world.post.after = lie


def refused(world: World) -> ProblemType | None:
    """What a question for the next batch fails with."""
    pending = world.collector.ask_next()
    assert isinstance(pending, Pending)
    world.drive()
    with pytest.raises(DapProblem) as caught:
        world.collector.poll(pending)
    return caught.value.kind


def records(world: World) -> list[list[tuple[int, list[int], list[int]]]]:
    """What each side wrote down: what remains, and what it and the other left out."""
    stores = (world.leader_store, world.helper_store)
    return [
        [(r.kept, [p.count for p in r.ours], [p.count for p in r.theirs]) for r in s.repairs(world.task.task_id)]
        for s in stores
    ]


def taken_batch(world: World) -> Collected:
    found = world.collect_next()
    world.collector.taken(found.place)
    return found


# what differs is left out, by whichever side holds it


def test_what_the_helper_lost_is_left_out_by_the_leader(world: World) -> None:
    filled(world)
    losing(world, 1)
    found = world.collect_next()
    assert (found.report_count, list(found.sums[:9])) == (6, [1, 1, 0, 0, 1, 1, 1, 1, 0])
    assert records(world) == [[(6, [2], [])], [(6, [], [2])]]
    states = world.leader_store.states(world.task.task_id)
    assert (states.aggregated, states.rejected, states.waiting, states.taken) == (6, 2, 0, 0)


def test_each_member_is_told_what_became_of_its_report(world: World) -> None:
    sent = [world.report(bits(n)) for n in range(SIZE)]
    for n, each in enumerate(sent):
        assert world.upload(each, member=f"m{n}") == []
    world.drive(1)
    losing(world, 3)
    world.collect_next()
    found = [fates(world, each, member=f"m{n}")[0] for n, each in enumerate(sent)]
    assert [fate.standing for fate in found] == [Standing.COLLECTED] * 6 + [Standing.REJECTED] * 2
    assert {(fate.error, fate.side, fate.step) for fate in found[6:]} == {
        (ReportError.REPORT_DROPPED, Role.LEADER, Step.REPAIR)
    }


def test_a_job_that_both_hold_otherwise_is_left_out_by_both(world: World) -> None:
    filled(world)
    execute(world, "UPDATE accumulators SET count = 1 WHERE job = ?", parts(world)[2].job_id)
    found = world.collect_next()
    assert (found.report_count, list(found.sums[:9])) == (6, [1, 1, 1, 1, 0, 0, 1, 1, 0])
    assert records(world) == [[(6, [2], [1])], [(6, [1], [2])]]


def test_a_job_that_the_leader_abandoned_is_left_out_and_another_takes_its_place(world: World) -> None:
    spoil(world, 1)
    filled(world)
    filled(world, SIZE, 2)
    found = world.collect_next()
    assert (found.report_count, sum(found.sums), max(found.sums)) == (SIZE, SIZE, 1)
    assert records(world) == [[(SIZE, [], [2])], [(SIZE, [2], [])]]


def test_several_jobs_are_left_out_of_either_side_at_once(world: World) -> None:
    spoil(world, 0)
    filled(world)
    filled(world, SIZE, 2)
    losing(world, 2, 3)
    found = world.collect_next()
    assert (found.report_count, sum(found.sums), max(found.sums)) == (4, 4, 1)
    assert records(world) == [[(4, [2, 2], [2])], [(4, [2], [2, 2])]]


def test_nothing_is_verified_twice_and_the_next_batch_is_another(world: World) -> None:
    filled(world)
    losing(world, 0)
    jobs = len(posted(world, JOBS))
    first = taken_batch(world)
    assert len(posted(world, JOBS)) == jobs
    assert (len(posted(world, REPAIRS)), len(posted(world, SHARES))) == (1, 2)
    filled(world, SIZE)
    second = taken_batch(world)
    assert (first.report_count, second.report_count) == (6, SIZE)
    assert len(posted(world, REPAIRS)) == 1, "the next one both hold alike"
    assert all(a + b <= 1 for a, b in zip(first.sums, second.sums, strict=True))


def test_a_batch_that_its_age_closed_is_repaired_down_to_the_least(world: World) -> None:
    filled(world, 0, 6)
    pending = world.collector.ask_next()
    world.drive()
    assert isinstance(world.collector.ask_next(), Pending), "it is not full"
    losing(world, 0)
    world.clock.advance(PRECISION)
    world.drive()
    assert isinstance(pending, Pending)
    found = world.collector.poll(pending)
    assert isinstance(found, Collected)
    assert found.report_count == 4


def test_noise_of_a_repaired_batch_is_charged_once_on_each_side(make: Callable[..., World]) -> None:
    world = make(noise=Noise(Mechanism.LAPLACE, Fraction(1), Fraction(2)))
    filled(world)
    losing(world, 1)
    assert taken_batch(world).report_count == 6
    assert [sum(row.cost for row in budget.rows(world.task.task_id)) for budget in world.budgets] == [1, 1]


def test_a_repaired_batch_takes_no_report_any_more_on_either_side(world: World) -> None:
    sent = filled(world)
    held = parts(world)
    repair(world, held[:2])
    late = AggregationJobInitReq.decode(posted(world, JOBS)[0])
    init = dataclasses.replace(late.inits[0], share=world.share_of(world.report(bits(9))))
    body = dataclasses.replace(late, inits=(init,)).encode()
    answer = AggregationJobResp.decode(world.helper.process_aggregation_init(world.task.task_id, body).body)
    assert answer.responses[0].error is not None
    assert parts(world) == held[:2]
    assert world.upload(*sent) == [], "the same bytes again are the same report"
    filled(world, SIZE, 2)
    assert batch_of(world, -1) != batch_of(world)


def test_the_command_shows_which_batch_was_repaired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "helper").mkdir()
    world = World(
        tmp_path / "helper",
        batch_mode=LEADER_SELECTED,
        batch_size=SIZE,
        job_size=2,
        stores=stores_of("sqlite", tmp_path),
    )
    filled(world)
    losing(world, 1)
    world.collect_next()
    world.close()
    (tmp_path / "helper.db").rename(tmp_path / "helper" / "helper.sqlite")
    (tmp_path / "task.json").write_bytes(dump_client_task(world.task))
    words = ["mesh", "dap", "task", "show", str(tmp_path / "task.json"), "--dir", str(tmp_path / "helper")]
    assert main(words) == EXIT_OK
    named = batch_of(world).id.hex()
    assert f"repaired    batch {named[:16]} with" in capsys.readouterr().out
    assert main([*words, "--json"]) == EXIT_OK
    (told,) = json.loads(capsys.readouterr().out)["repairs"]
    assert (told["batch"], told["reports"]) == ({"id": named}, 6)
    assert [job["reports"] for job in told["left_out_there"]] == [2]


# once, before a release, down to the least


def test_what_remains_is_never_less_than_a_batch_and_both_keep_what_they_have(world: World) -> None:
    filled(world)
    losing(world, 0, 1, 2)
    held = parts(world)
    assert refused(world) is ProblemType.INVALID_BATCH_SIZE
    assert (parts(world), records(world)) == (held, [[], []])
    assert world.leader_store.states(world.task.task_id).aggregated == SIZE
    for of in (held, (), (*held, JobPart(b"\xff" * 16, 9, bytes(32)))):
        kind = ProblemType.INVALID_MESSAGE if of == held else ProblemType.INVALID_BATCH_SIZE
        with refusal(kind):
            repair(world, of)


def test_a_batch_of_which_the_two_hold_too_little_alike_fills_on_and_is_repaired_then(world: World) -> None:
    filled(world)
    losing(world, 0, 1, 2)
    assert refused(world) is ProblemType.INVALID_BATCH_SIZE
    assert isinstance(world.collector.ask_next(), Pending)
    filled(world, SIZE, 3)
    assert batch_of(world, -1) == batch_of(world), "as many more as a batch needs, and then it is ready"
    found = taken_batch(world)
    assert (found.report_count, list(found.sums[:12])) == (5, [0] * 6 + [1] * 5 + [0])
    assert records(world) == [[(5, [2, 2, 2], [])], [(5, [], [2, 2, 2])]]


def test_so_is_one_that_was_filled_to_the_least_alone(make: Callable[..., World]) -> None:
    world = make(batch_size=None, job_size=1)
    filled(world, 0, 3)
    losing(world, 1)
    assert refused(world) is ProblemType.INVALID_BATCH_SIZE
    filled(world, 3, 6)
    found = [taken_batch(world) for _ in range(2)]
    assert [batch.report_count for batch in found] == [3, 5], "others that are ready come first"
    assert [sum(column) for column in zip(*(batch.sums for batch in found), strict=True)][:9] == [1, 0, *[1] * 7]


def test_meanwhile_it_is_tried_again_once_an_epoch_and_others_are_had(world: World) -> None:
    filled(world)
    losing(world, 0, 1, 2)
    assert refused(world) is ProblemType.INVALID_BATCH_SIZE
    pending = world.collector.ask_next()
    assert isinstance(pending, Pending)
    for _ in range(3):
        world.drive()
        assert isinstance(world.collector.poll(pending), Pending)
    assert len(posted(world, SHARES)) == 1
    world.clock.advance(PRECISION)
    world.drive()
    with refusal(ProblemType.INVALID_BATCH_SIZE):
        world.collector.poll(pending)
    filled(world, SIZE, 3)
    assert world.collect_next().report_count == 5


def test_a_leader_that_asks_two_repairs_gets_one(world: World) -> None:
    filled(world)
    held = parts(world)
    assert set(repair(world, held[:3])) == set(held)
    assert set(repair(world, held[:3])) == set(held), "the same again is answered from what was stored"
    for again in (held, held[:2], held[1:3], ()):
        with refusal(ProblemType.BATCH_MISMATCH, "once"):
            repair(world, again)
    assert parts(world) == held[:3]
    assert len(share_of(world, held[:3])) > 0
    assert [record[0] for record in records(world)[1]] == [6]


def test_no_repair_follows_a_release(world: World) -> None:
    filled(world)
    held = parts(world)
    world.collect_next()
    for of in (held[:3], held[1:], ()):
        with refusal(ProblemType.BATCH_OVERLAP):
            repair(world, of, batch_of(world))
    assert records(world) == [[], []]


def test_a_repair_that_would_repair_nothing_or_reaches_below_the_least_is_refused(world: World) -> None:
    filled(world)
    held = parts(world)
    with refusal(ProblemType.INVALID_MESSAGE, "no repair"):
        repair(world, held)
    for of in (held[:1], (), tuple(dataclasses.replace(part, count=3) for part in held)):
        with refusal(ProblemType.INVALID_BATCH_SIZE):
            repair(world, of)
    assert (parts(world), records(world)) == (held, [[], []])


def test_a_leader_that_isolates_gets_one_sum_of_a_batch_and_never_the_rest(world: World) -> None:
    filled(world)
    held = parts(world)
    repair(world, held[:2])
    assert len(share_of(world, held[:2])) > 0
    other = BatchId(b"o" * 32)
    for of in (held, held[1:], held[2:]):
        with refusal(ProblemType.BATCH_OVERLAP):
            share_of(world, of)
        with refusal(ProblemType.BATCH_OVERLAP):
            repair(world, of)
        with refusal(ProblemType.INVALID_BATCH_SIZE):
            share_of(world, of, other)
    named = AggregationJobInitReq.decode(posted(world, JOBS)[0]).extensions
    for told in (spent_into(world, named), spent_into(world, (dataclasses.replace(named[0], data=other.id),))):
        assert set(told) <= {ReportError.BATCH_COLLECTED, ReportError.REPORT_REPLAYED}
        assert len(told) == SIZE


def spent_into(world: World, extensions: tuple[Any, ...]) -> list[ReportError | None]:
    """What the helper says of all reports that it ever saw, in one new job for a batch."""
    inits = [init for body in posted(world, JOBS) for init in AggregationJobInitReq.decode(body).inits]
    body = AggregationJobInitReq(0, b"", extensions, tuple(reversed(inits))).encode()
    answer = world.helper.process_aggregation_init(world.task.task_id, body)
    return [response.error for response in AggregationJobResp.decode(answer.body).responses]


@pytest.mark.parametrize(
    "selector",
    [BatchSelector(2, b""), BatchSelector(2, b"b" * 31), BatchSelector(1, Interval(5, 1).encode())],
)
def test_a_repair_of_what_is_no_batch_of_the_task_is_refused(world: World, selector: BatchSelector) -> None:
    filled(world)
    body = RepairReq(CollectionJobReq(query_for(None)), selector, by_id(parts(world)[:3])).encode()
    with refusal(ProblemType.INVALID_MESSAGE):
        world.helper.process_repair(world.task.task_id, body)
    assert records(world) == [[], []]


def test_a_repair_of_a_batch_that_is_not_there_closes_none(world: World) -> None:
    filled(world)
    with refusal(ProblemType.INVALID_BATCH_SIZE):
        repair(world, parts(world), BatchId(b"n" * 32))
    assert records(world) == [[], []]
    assert taken_batch(world).report_count == SIZE


# a helper that lies about what it holds


def test_a_helper_that_says_it_holds_nothing_leaves_the_leader_what_it_has(world: World) -> None:
    filled(world)
    losing(world, 0)
    lying(world, lambda _: ())
    assert refused(world) is ProblemType.BATCH_MISMATCH
    assert world.leader_store.states(world.task.task_id).aggregated == SIZE
    assert records(world)[0] == []
    filled(world, SIZE)
    assert taken_batch(world).report_count == SIZE, "others are had first, and none is lost in the one it has closed"


def test_a_helper_that_says_it_holds_less_than_it_does_ends_in_a_mismatch_and_no_sum(world: World) -> None:
    filled(world)
    losing(world, 0)
    lying(world, lambda of: of[:2])
    assert refused(world) is ProblemType.BATCH_MISMATCH
    assert [kept for kept, _, _ in records(world)[0]] == [4]
    lying(world, lambda of: of)
    assert refused(world) is ProblemType.BATCH_MISMATCH, "it is repaired once, whatever is said afterwards"
    assert len(posted(world, REPAIRS)) == 1


def test_a_helper_that_makes_up_jobs_changes_no_sum(world: World) -> None:
    filled(world)
    losing(world, 0)
    made_up = JobPart(b"\xff" * 16, 5, b"x" * 32)
    lying(world, lambda of: (*of, made_up))
    found = world.collect_next()
    assert (found.report_count, sum(found.sums)) == (6, 6)
    assert records(world) == [[(6, [2], [5])], [(6, [], [2])]], "it stands in the leader's record what was said"


# in the leader's store


def test_a_repaired_batch_is_as_large_as_what_remains_and_takes_no_more(leader: Leading) -> None:
    leader.add_reports(TASK, reports(5), 0)
    jobs = []
    for _ in range(3):
        assert leader.gather(TASK, selecting(size=5))
        job = taken(leader)
        jobs.append(ids(job)[0])
        assert leader.begin_job(TASK, lease(), jobs[-1], b"request", {}, 0)
        assert leader.finish_job(TASK, b"a" * 16, outs(ids(job), FIRST), {}, added)
    chosen = leader.open_next(TASK, ASK, lambda _: ASK)
    filling = selecting(size=5).filling
    assert leader.freeze(TASK, chosen.job_id, said, filling) == b"5"
    assert leader.begin_repair(TASK, ASK, asked)
    assert leader.finish_repair(TASK, ASK, but(int.from_bytes(jobs[0], "big"), of=BatchId(FIRST)))
    assert (leader.states(TASK).aggregated, leader.states(TASK).rejected) == (3, 2)
    assert leader.batch(TASK, BatchId(FIRST), added).share == one(0b11100)
    now = leader.collection(TASK, ASK)
    assert now is not None
    assert leader.fail_collection(TASK, ASK, now.state, "invalidBatchSize", "x", filling)
    leader.add_reports(TASK, [report(9)], 0)
    assert leader.gather(TASK, selecting(b"2" * 32, 5))
    assert taken(leader).batch == b"2" * 32
    again = leader.open_next(TASK, ASK, lambda _: b"e" * 16)
    assert leader.freeze(TASK, again.job_id, said, filling) == b"3"
    with refusal(ProblemType.BATCH_MISMATCH):
        leader.begin_repair(TASK, again.job_id, asked)


@pytest.mark.parametrize("selects", [True, False], ids=["selected", "interval"])
def test_what_was_put_off_into_a_later_job_stays_where_the_earlier_one_is_left_out(
    leader: Leading, selects: bool
) -> None:
    batch = FIRST if selects else b""
    leader.add_reports(TASK, [report(0, 5), report(1, 5), report(2, 6)], 0)
    assert leader.gather(TASK, selecting(jobs=3) if selects else order())
    job = taken(leader)
    first, last = ids(job)[:2], ids(job)[2]
    assert leader.begin_job(TASK, lease(), b"j" * 16, b"request", {}, 0)
    later = LaterJob(b"k" * 16, b"rest", {last: (6, b"state")}, 0)
    assert leader.finish_job(TASK, b"a" * 16, outs(first, batch), {}, added, later=later)
    taken(leader, b"b")
    assert leader.finish_job(TASK, b"b" * 16, outs([last], batch, 6), {}, added)
    if selects:
        leader.open_next(TASK, ASK, lambda _: ASK)
        assert leader.freeze(TASK, ASK, said, selecting().filling) == b"3"
        of: Any = BatchId(FIRST)
    else:
        of = Interval(5, 2)
        leader.open_collection(TASK, ASK, b"ask", of)
        assert leader.freeze(TASK, ASK, lambda found, *_: said(found)) == b"3"
    assert leader.begin_repair(TASK, ASK, asked)
    assert leader.finish_repair(TASK, ASK, but(int.from_bytes(b"j" * 16, "big"), of=of))
    assert leader.batch(TASK, of, added).share == one(0b100)
    assert {fate.fate.standing for fate in leader.fates(TASK, first).values()} == {Standing.REJECTED}
    assert leader.fates(TASK, [last])[last].fate.standing is Standing.AGGREGATED
