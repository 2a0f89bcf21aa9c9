"""Repair of a batch that leader and helper do not hold alike: what both hold stays, once, and nobody is singled out."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.base.codec import Malformed
from interlock.base.errors import EXIT_OK
from interlock.dap.batches import query_for, selector_for
from interlock.dap.collector import Pending
from interlock.dap.drafts import ReportError
from interlock.dap.jobs import AggregateShareReq, AggregationJobInitReq, AggregationJobResp, CollectionJobReq
from interlock.dap.leader import COLLECTION_JOB
from interlock.dap.messages import LEADER_SELECTED, Interval
from interlock.dap.problems import DapProblem, ProblemType
from interlock.dap.repair import JobPart, RepairReq, RepairResp
from interlock.dap.taskfile import dump_client_task
from interlock.dap.transport import Reply
from interlock.node.cli.main import main
from tests.unit.dap_world import World, bits, lost

JOBS, SHARES, REPAIRS = "aggregation_jobs", "aggregate_shares", "repairs"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path, job_size=3)
    yield found
    found.close()


def refusal(kind: ProblemType, match: str | None = None) -> pytest.RaisesExc[DapProblem]:
    return pytest.RaisesExc(DapProblem, match=match, check=lambda e: e.kind is kind)


def spoil(world: World, job: int) -> None:
    """The helper's answer to one aggregation job names its reports twice, so the leader abandons that job."""
    seen: list[bytes] = []

    def after(reply: Reply) -> Reply:
        url, body = world.post.sent[-1]
        if not url.endswith(JOBS) or reply.status != 201:
            return reply
        if body not in seen:
            seen.append(body)
        if seen.index(body) != job:
            return reply
        answer = AggregationJobResp.decode(reply.body)
        return dataclasses.replace(reply, body=AggregationJobResp(answer.responses * 2).encode())

    world.post.after = after


def nine(world: World) -> None:
    """Three jobs of three reports, each of which marks a place of its own; the second is abandoned."""
    spoil(world, 1)
    each_of_nine(world)


def each_of_nine(world: World) -> None:
    """Uploaded one by one, so that they are in jobs in this order."""
    for place in range(9):
        assert world.upload(world.report(bits(place))) == []
    world.drive(1)


def execute(world: World, sql: str, *values: object) -> None:
    """Damage the helper's store."""
    with world.helper_store._write() as tx:
        tx.execute(sql, values)


def failed_of(world: World, kind: ProblemType, told: str) -> None:
    """The collector is told the kind; the leader's own log and job say more."""
    with refusal(kind):
        world.collect()
    job_id = world.held.resource_id(COLLECTION_JOB, CollectionJobReq(query_for(world.hour())).encode())
    job = world.leader_store.collection(world.task.task_id, job_id)
    assert job is not None
    assert told in job.detail


def posted(world: World, kind: str) -> list[bytes]:
    return [body for url, body in world.post.sent if url.endswith(kind)]


def parts(world: World, interval: Interval | None = None) -> tuple[JobPart, ...]:
    """What the helper holds of a batch, looked at from inside."""
    with world.helper_store._write() as tx:
        found: tuple[JobPart, ...] = world.helper_store._parts(tx, world.task.task_id, interval or world.hour())
    return found


def request(world: World, of: tuple[JobPart, ...], interval: Interval | None = None) -> bytes:
    chosen = interval or world.hour()
    return RepairReq(CollectionJobReq(query_for(chosen)), selector_for(chosen), of).encode()


def repair(world: World, of: tuple[JobPart, ...], interval: Interval | None = None) -> tuple[JobPart, ...]:
    answer = world.helper.process_repair(world.task.task_id, request(world, of, interval), "leader")
    return RepairResp.decode(answer.body).parts


def share_of(world: World, of: tuple[JobPart, ...], interval: Interval | None = None) -> bytes:
    """What a leader that holds just these parts gets of the helper."""
    chosen, checksum = interval or world.hour(), bytes(32)
    for part in of:
        checksum = bytes(a ^ b for a, b in zip(checksum, part.checksum, strict=True))
    count = sum(part.count for part in of)
    body = AggregateShareReq(CollectionJobReq(query_for(chosen)), selector_for(chosen), count, checksum).encode()
    return world.helper.process_aggregate_share(world.task.task_id, body).body


# the known cause, and others


def test_a_job_that_the_leader_abandoned_is_left_out_and_the_rest_sums_up(world: World) -> None:
    nine(world)
    found = world.collect()
    assert (found.report_count, list(found.sums)) == (6, [1, 1, 1, 0, 0, 0, 1, 1, 1] + [0] * 7)
    assert len(posted(world, REPAIRS)) == 1
    assert len(posted(world, SHARES)) == 2


def test_both_sides_write_down_what_was_left_out_when_and_with_whom(world: World) -> None:
    nine(world)
    before = parts(world)
    world.collect()
    (at_leader,), (at_helper,) = (
        store.repairs(world.task.task_id) for store in (world.leader_store, world.helper_store)
    )
    assert (at_leader.ours, at_helper.theirs) == ((), ())
    assert at_leader.theirs == at_helper.ours
    assert set(at_helper.ours) < set(before)
    assert [part.count for part in at_helper.ours] == [3]
    assert at_leader.kept == at_helper.kept == 6
    assert at_leader.selection == at_helper.selection == world.hour()
    assert at_leader.at_us == at_helper.at_us == world.clock.now_us()
    assert at_leader.who == "https://helper.test/dap"
    assert at_helper.text == "6 reports remain; left out: 3 here, of 1 jobs, and 0 at the other side, of 0"


def test_what_the_helper_lost_is_left_out_by_the_leader_and_its_reports_are_told_so(world: World) -> None:
    each_of_nine(world)
    gone = parts(world)[0].job_id
    execute(world, "DELETE FROM accumulators WHERE job = ?", gone)
    found = world.collect()
    assert (found.report_count, sum(found.sums), max(found.sums)) == (6, 6, 1)
    states = world.leader_store.states(world.task.task_id)
    assert (states.aggregated, states.rejected) == (6, 3)


def test_a_job_that_both_hold_otherwise_is_left_out_by_both(world: World) -> None:
    each_of_nine(world)
    other = parts(world)[1].job_id
    execute(world, "UPDATE accumulators SET count = 2 WHERE job = ?", other)
    assert world.collect().report_count == 6
    (at_leader,), (at_helper,) = (
        store.repairs(world.task.task_id) for store in (world.leader_store, world.helper_store)
    )
    assert [part.job_id for part in at_leader.ours] == [part.job_id for part in at_helper.ours] == [other]


def test_a_batch_that_both_hold_alike_asks_for_no_repair(world: World) -> None:
    assert world.upload(*(world.report(bits(place)) for place in range(6))) == []
    assert world.collect().report_count == 6
    assert posted(world, REPAIRS) == []
    assert world.helper_store.repairs(world.task.task_id) == []


def test_only_what_lies_in_the_batch_is_left_out_of_a_job_over_two_hours(world: World) -> None:
    assert world.upload(*(world.report(bits(place)) for place in (0, 1, 2))) == []
    world.drive(1)
    spoil(world, 0)
    assert world.upload(world.report(bits(3))) == []
    first = world.hour()
    world.clock.advance(3600)
    assert world.upload(*(world.report(bits(place)) for place in (4, 5))) == []
    world.drive(1)
    world.post.after = lambda reply: reply
    assert world.upload(*(world.report(bits(place)) for place in (6, 7, 8))) == []
    assert list(world.collect(first).sums[:5]) == [1, 1, 1, 0, 0]
    assert [part.count for part in parts(world)] in ([2, 3], [3, 2]), "the other hour is a batch of its own"
    assert list(world.collect().sums[:9]) == [0, 0, 0, 0, 0, 0, 1, 1, 1]
    assert len(world.helper_store.repairs(world.task.task_id)) == 2


def test_a_batch_that_the_leader_selects_is_repaired_when_a_job_of_it_was_abandoned(tmp_path: Path) -> None:
    world = World(tmp_path, job_size=1, batch_mode=LEADER_SELECTED)
    spoil(world, 1)
    for place in range(3):
        assert world.upload(world.report(bits(place))) == []
    world.drive(1)
    assert world.upload(world.report(bits(3))) == []
    found = world.collect_next()
    assert (found.report_count, list(found.sums[:5])) == (3, [1, 0, 1, 1, 0])
    (record,) = world.helper_store.repairs(world.task.task_id)
    assert [part.count for part in record.ours] == [1]
    world.close()


# only once, only before a release, only down to the floor


def test_a_second_repair_of_a_batch_is_refused_and_changes_nothing(world: World) -> None:
    nine(world)
    held = parts(world)
    assert repair(world, held[:2]) == held
    for again in (held[:1], held[1:2], ()):
        with refusal(ProblemType.BATCH_MISMATCH, "once"):
            repair(world, again)
    wider = Interval(world.hour(1).start, 2)
    with refusal(ProblemType.BATCH_MISMATCH, "once"):
        repair(world, held[:1], wider)
    assert parts(world) == held[:2]


def test_the_same_repair_again_is_answered_from_what_was_stored(world: World) -> None:
    nine(world)
    held = parts(world)
    assert repair(world, held[:2]) == held
    assert repair(world, held[:2]) == held
    assert len(share_of(world, held[:2])) > 0
    assert repair(world, held[:2]) == held, "even after the batch was given out: it says nothing new"
    assert len(world.helper_store.repairs(world.task.task_id)) == 1


def test_no_repair_follows_a_release(world: World) -> None:
    each_of_nine(world)
    held = parts(world)
    world.collect()
    with refusal(ProblemType.BATCH_OVERLAP):
        repair(world, held[:1])
    with refusal(ProblemType.BATCH_OVERLAP):
        repair(world, held[:1], Interval(world.hour(1).start, 2))
    assert world.helper_store.repairs(world.task.task_id) == []


def test_what_remains_is_never_less_than_a_batch(world: World) -> None:
    assert world.upload(*(world.report(bits(place)) for place in range(4))) == []
    world.drive(1)
    held = parts(world)
    small = tuple(part for part in held if part.count == 1)
    for of in (small, (), tuple(dataclasses.replace(part, count=part.count + 1) for part in held)):
        with refusal(ProblemType.INVALID_BATCH_SIZE):
            repair(world, of)
    assert parts(world) == held


def test_a_leader_that_holds_too_little_fails_its_collection_and_both_keep_what_they_have(world: World) -> None:
    spoil(world, 0)
    assert world.upload(*(world.report(bits(place)) for place in range(3))) == []
    world.drive(1)
    world.post.after = lambda reply: reply
    assert world.upload(*(world.report(bits(place)) for place in (3, 4, 5))) == []
    world.drive(1)
    execute(world, "UPDATE accumulators SET count = count + 1")
    held = parts(world)
    failed_of(world, ProblemType.INVALID_BATCH_SIZE, "alike")
    assert parts(world) == held
    assert world.leader_store.repairs(world.task.task_id) == []
    assert world.leader_store.states(world.task.task_id).aggregated == 3


def test_a_repair_that_would_repair_nothing_is_refused(world: World) -> None:
    nine(world)
    with refusal(ProblemType.INVALID_MESSAGE, "no repair"):
        repair(world, parts(world))
    assert world.helper_store.repairs(world.task.task_id) == []


def test_a_repair_reaches_no_further_than_the_collectors_question(world: World) -> None:
    nine(world)
    held, asked = parts(world), world.hour()
    wide = RepairReq(CollectionJobReq(query_for(asked)), selector_for(Interval(asked.start - 1, 2)), held[:2])
    with refusal(ProblemType.BATCH_INVALID):
        world.helper.process_repair(world.task.task_id, wide.encode())
    with refusal(ProblemType.UNRECOGNIZED_TASK):
        world.helper.process_repair(bytes(32), request(world, held[:2]))


# what a leader that lies can do


def test_a_leader_that_isolates_gets_one_sum_of_a_batch_and_never_the_rest(world: World) -> None:
    """It claims to hold only some jobs, gets their sum, and tries all that might give it the difference."""
    reports = [world.report(bits(place)) for place in range(9)]
    assert world.upload(*reports) == []
    world.drive(1)
    held = parts(world)
    repair(world, held[:1])
    assert len(share_of(world, held[:1])) > 0
    for of in (held, held[1:], held[:2]):
        for interval in (world.hour(), Interval(world.hour(1).start, 2)):
            with refusal(ProblemType.BATCH_OVERLAP):
                share_of(world, of, interval)
            with refusal(ProblemType.BATCH_OVERLAP):
                repair(world, of, interval)
    assert spent_again(world) == [ReportError.BATCH_COLLECTED] * 9


def test_what_was_left_out_is_never_taken_again_by_either(world: World) -> None:
    nine(world)
    held = parts(world)
    repair(world, held[:2])
    for job in posted(world, JOBS):
        world.helper.process_aggregation_init(world.task.task_id, job)
    assert parts(world) == held[:2], "the same job is answered from what was stored"
    assert spent_again(world) == [ReportError.BATCH_COLLECTED] * 9
    execute(world, "DELETE FROM repairs")
    assert spent_again(world, 1) == [ReportError.REPORT_REPLAYED] * 9, "the ids are spent by themselves, too"


def spent_again(world: World, first: int = 0) -> list[ReportError | None]:
    """What the helper says of all reports that it ever saw, in a new job that begins with this one."""
    inits = [init for body in posted(world, JOBS) for init in AggregationJobInitReq.decode(body).inits]
    body = AggregationJobInitReq(0, b"", (), (*inits[first:], *inits[:first])).encode()
    answer = world.helper.process_aggregation_init(world.task.task_id, body)
    return [response.error for response in AggregationJobResp.decode(answer.body).responses]


def test_a_repaired_batch_takes_no_report_that_comes_late(world: World) -> None:
    """A request that hung on its way must not make the batch another one again: it is repaired once."""
    nine(world)
    late = world.share_of(world.report(bits(9)))
    world.post.before = lambda: None
    repair(world, parts(world)[:2])
    init = AggregationJobInitReq.decode(posted(world, JOBS)[0]).inits[0]
    body = AggregationJobInitReq(0, b"", (), (dataclasses.replace(init, share=late),)).encode()
    answer = AggregationJobResp.decode(world.helper.process_aggregation_init(world.task.task_id, body).body)
    assert answer.responses[0].error is not None
    assert len(parts(world)) == 2


def test_a_helper_that_lies_about_its_jobs_leaves_a_batch_or_none(world: World) -> None:
    each_of_nine(world)
    execute(world, "UPDATE accumulators SET count = 1 WHERE job = ?", parts(world)[0].job_id)
    honest = world.post.after

    def lie(reply: Reply) -> Reply:
        if world.post.sent[-1][0].endswith(REPAIRS):
            return dataclasses.replace(reply, body=RepairResp(()).encode())
        return honest(reply)

    world.post.after = lie
    failed_of(world, ProblemType.INVALID_BATCH_SIZE, "alike")
    assert world.leader_store.states(world.task.task_id).aggregated == 9


# what fails on the way


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_repair_whose_word_is_lost_is_asked_for_with_the_same_bytes(world: World, when: str) -> None:
    nine(world)
    spoilt, fails = world.post.after, [2]

    def fault(reply: Reply) -> Reply:
        if world.post.sent[-1][0].endswith(REPAIRS) and fails[0]:
            fails[0] -= 1
            if when == "before":
                return Reply(503)
            lost(reply)
        return spoilt(reply)

    world.post.after = fault
    world.collector.ask(world.hour())
    world.drive(2)
    assert world.collect().report_count == 6
    asked = posted(world, REPAIRS)
    assert len(asked) == 3
    assert len(set(asked)) == 1


@pytest.mark.parametrize("status", [404, 405, 415, 501])
def test_a_helper_that_knows_no_repairs_leaves_the_mismatch_as_it_is(world: World, status: int) -> None:
    nine(world)
    foreign(world, lambda: Reply(status, "text/plain", b"what?"))
    failed_of(world, ProblemType.BATCH_MISMATCH, "does not know how to repair")
    assert world.leader_store.repairs(world.task.task_id) == []


@pytest.mark.parametrize("kind", ["batchOverlap", "invalidMessage"])
def test_a_helper_that_refuses_a_repair_leaves_the_mismatch_as_it_is(world: World, kind: str) -> None:
    nine(world)
    document = DapProblem(next(k for k in ProblemType if k.value == kind), "no").document()
    foreign(world, lambda: Reply(400, "application/problem+json", document))
    failed_of(world, ProblemType.BATCH_MISMATCH, f"refuses to repair it ({kind})")


def test_a_mismatch_that_is_over_before_it_was_repaired_fails_one_question_and_not_the_next(world: World) -> None:
    nine(world)
    pending = world.collector.ask(world.hour())
    assert isinstance(pending, Pending)
    world.drive(1)
    world.drive(1)
    (job,) = world.leader_store.open_collections(world.task.task_id, 9)
    assert job.repair_request
    held = set(RepairReq.decode(job.repair_request).parts)
    (other,) = set(parts(world)) - held
    execute(world, "DELETE FROM accumulators WHERE job = ?", other.job_id)
    world.drive()
    with refusal(ProblemType.BATCH_MISMATCH):
        world.collector.poll(pending)
    found = world.collect()
    assert (found.report_count, list(found.sums)) == (6, [1, 1, 1, 0, 0, 0, 1, 1, 1] + [0] * 7)
    assert len(posted(world, REPAIRS)) == 1
    assert [store.repairs(world.task.task_id) for store in (world.leader_store, world.helper_store)] == [[], []]


def test_a_helper_that_hides_what_it_left_out_fails_one_question_and_not_the_next(world: World) -> None:
    nine(world)

    def answer() -> Reply:
        said = RepairResp(RepairReq.decode(posted(world, REPAIRS)[-1]).parts).encode()
        return Reply(200, "application/vnd.interlock.dap;message=repair-resp", said)

    foreign(world, answer)
    failed_of(world, ProblemType.BATCH_MISMATCH, "needs no repair")
    assert world.collect().report_count == 6
    assert len(posted(world, REPAIRS)) == 1


def test_an_answer_that_is_none_to_a_repair_is_asked_for_again(world: World) -> None:
    nine(world)
    answers = [Reply(200, "application/vnd.interlock.dap;message=repair-resp", b"\x02"), Reply(202)]
    spoilt = world.post.after
    world.post.after = lambda reply: (
        answers.pop() if answers and world.post.sent[-1][0].endswith(REPAIRS) else spoilt(reply)
    )
    world.collector.ask(world.hour())
    world.drive(2)
    assert world.collect().report_count == 6


def foreign(world: World, answer: Callable[[], Reply]) -> None:
    spoilt = world.post.after
    world.post.after = lambda reply: answer() if world.post.sent[-1][0].endswith(REPAIRS) else spoilt(reply)


def test_a_batch_that_is_still_another_one_after_its_repair_fails_and_is_not_repaired_again(world: World) -> None:
    nine(world)
    world.collector.ask(world.hour())
    world.drive(3)
    execute(world, "DELETE FROM accumulators WHERE job = ?", parts(world)[0].job_id)
    with refusal(ProblemType.BATCH_MISMATCH):
        world.collect()
    assert len(posted(world, REPAIRS)) == 1
    with refusal(ProblemType.BATCH_MISMATCH):
        world.collect(Interval(world.hour(1).start, 2))
    assert len(posted(world, REPAIRS)) == 1, "nor under another question"


def test_after_a_failed_collection_a_repaired_batch_takes_no_new_reports_at_the_leader(world: World) -> None:
    nine(world)
    world.collector.ask(world.hour())
    world.drive(3)
    job = world.leader_store.open_collections(world.task.task_id, 1)[0]
    assert job.repaired
    world.leader_store.fail_collection(world.task.task_id, job.job_id, job.state, "budgetSpent", "spent")
    assert world.upload(world.report(bits(9))) == [ReportError.BATCH_COLLECTED]


def test_messages_of_a_repair_have_one_spelling_and_a_version() -> None:
    part = JobPart(b"a" * 16, 3, b"c" * 32)
    other = dataclasses.replace(part, job_id=b"b" * 16)
    good = RepairResp((part, other)).encode()
    assert RepairResp.decode(good).parts == (part, other)
    for bad in (
        RepairResp((other, part)).encode(),
        RepairResp((part, part)).encode(),
        RepairResp((dataclasses.replace(part, count=0),)).encode(),
        RepairResp((dataclasses.replace(part, count=1 << 63),)).encode(),
        b"\x02" + good[1:],
        b"",
    ):
        with pytest.raises(Malformed):
            RepairResp.decode(bad)


# what is said of it afterwards


@pytest.mark.parametrize("role", ["leader", "helper"])
def test_an_aggregator_shows_what_it_repaired(
    tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str], role: str
) -> None:
    nine(world)
    world.collect()
    place = tmp_path / role
    place.mkdir()
    task = tmp_path / "task.json"
    task.write_bytes(dump_client_task(world.task))
    words = ["mesh", "dap", "task", "show", str(task), "--dir", str(place)]
    assert main(words) == EXIT_OK
    assert "repaired" not in capsys.readouterr().out
    world.close()
    (tmp_path / f"{role}.db").rename(place / f"{role}.sqlite")
    if role == "leader":
        (place / "helper-token").write_text("token")
    assert main(words) == EXIT_OK
    said = capsys.readouterr().out
    assert f"repaired    epochs {world.hour().start} to {world.hour().start} with " in said
    assert "6 reports remain" in said
    assert main([*words, "--json"]) == EXIT_OK
    (told,) = json.loads(capsys.readouterr().out)["repairs"]
    assert (told["reports"], told["batch"]) == (6, {"start": world.hour().start, "duration": 1})
    left_out = told["left_out_there" if role == "leader" else "left_out_here"]
    assert [part["reports"] for part in left_out] == [3]
    world.start()
