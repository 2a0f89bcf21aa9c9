"""What a repair asks of a store, held on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.dap.batches import Selection, checksum_of
from interlock.dap.messages import BatchId, Interval
from interlock.dap.problems import DapProblem, ProblemType
from interlock.dap.repair import JobPart, Repair
from interlock.dap.storage import Accepted, CollectionJob, CollectionState, NewReport
from interlock.node.storage import dap, dap_leader
from interlock.node.storage.dap import SqliteHelperStorage
from interlock.node.storage.dap_leader import SqliteLeaderStorage
from tests.unit.dap_stores import Helping, Leading
from tests.unit.test_dap_storage import (
    HOUR,
    TASK,
    added,
    aggregated,
    lease,
    one,
    order,
    outs,
    report,
    said,
    taken,
    told,
)

ASK = b"c" * 16
_Judge = Callable[[tuple[JobPart, ...]], tuple[bytes, Repair]]


def job(number: int) -> bytes:
    return number.to_bytes(16, "big")


def committed(helper: Helping, *jobs: int, bucket: int = 5) -> None:
    """Jobs of two reports each."""
    for n in jobs:
        assert helper.commit_job(TASK, job(n), bucket, outs(2 * n, 2 * n + 1, bucket=bucket), added, told) == b"all"


def part(n: int, *numbers: int) -> JobPart:
    return JobPart(job(n), len(numbers), checksum_of(x.to_bytes(16, "big") for x in numbers))


def but(*dropped: int, of: Selection = HOUR, answer: bytes = b"repaired") -> _Judge:
    """Leave out these jobs."""

    def judge(parts: tuple[JobPart, ...]) -> tuple[bytes, Repair]:
        gone = tuple(p for p in parts if int.from_bytes(p.job_id, "big") in dropped)
        return answer, Repair(of, 7, "leader", sum(p.count for p in parts if p not in gone), gone, parts[:1])

    return judge


def never(_: object) -> tuple[bytes, Repair]:
    raise AssertionError("asked a second time")


def refusal(kind: ProblemType) -> pytest.RaisesExc[DapProblem]:
    return pytest.RaisesExc(DapProblem, check=lambda e: e.kind is kind)


# the helper's


def test_a_helper_drops_whole_jobs_of_a_batch_once_and_says_the_same_again(helper: Helping) -> None:
    committed(helper, 1, 2, 3)
    assert helper.repair(TASK, b"r" * 16, HOUR, but(2)) == b"repaired"
    batch = helper.batch(TASK, HOUR, added)
    assert (batch.share, batch.count, batch.checksum) == (one(4), 4, part(0, 2, 3, 6, 7).checksum)
    assert helper.repair(TASK, b"r" * 16, HOUR, never) == b"repaired"
    with refusal(ProblemType.BATCH_MISMATCH):
        helper.repair(TASK, b"s" * 16, HOUR, never)
    with refusal(ProblemType.BATCH_MISMATCH):
        helper.repair(TASK, b"s" * 16, Interval(4, 9), never)
    assert helper.repairs(TASK) == [Repair(HOUR, 7, "leader", 4, (part(2, 4, 5),), (part(1, 2, 3),))]
    assert helper.repairs(b"u" * 32) == []


def test_a_job_of_two_buckets_is_one_part_and_outside_of_the_batch_it_stays(helper: Helping) -> None:
    both = [*outs(1, 2, bucket=5), *outs(3, bucket=6), *outs(4, bucket=7)]
    helper.commit_job(TASK, job(1), 7, both, added, told)
    committed(helper, 5, bucket=6)
    seen: list[tuple[JobPart, ...]] = []

    def judge(parts: tuple[JobPart, ...]) -> tuple[bytes, Repair]:
        seen.append(parts)
        return but(1, of=Interval(5, 2))(parts)

    helper.repair(TASK, b"r" * 16, Interval(5, 2), judge)
    assert seen == [(part(1, 1, 2, 3), part(5, 10, 11))]
    assert [helper.batch(TASK, Interval(b, 1), added).count for b in (5, 6, 7)] == [0, 2, 1]


def test_what_a_judge_raises_leaves_all_as_it_was(helper: Helping) -> None:
    committed(helper, 1, 2)

    def refuse(parts: tuple[JobPart, ...]) -> tuple[bytes, Repair]:
        raise DapProblem(ProblemType.INVALID_BATCH_SIZE, "too few")

    with refusal(ProblemType.INVALID_BATCH_SIZE):
        helper.repair(TASK, b"r" * 16, HOUR, refuse)
    assert helper.batch(TASK, HOUR, added).count == 4
    assert helper.repairs(TASK) == []
    assert helper.repair(TASK, b"r" * 16, HOUR, but(1)) == b"repaired", "and the same bytes may come again"


def test_a_batch_that_was_given_out_is_repaired_no_more(helper: Helping) -> None:
    committed(helper, 1, 2)
    helper.collect(TASK, b"s" * 16, HOUR, added, said)
    for reach in (HOUR, Interval(4, 2)):
        with refusal(ProblemType.BATCH_OVERLAP):
            helper.repair(TASK, b"r" * 16, reach, never)


def test_a_repaired_batch_is_given_out_and_takes_nothing_before_or_after(helper: Helping) -> None:
    committed(helper, 1, 2)
    helper.repair(TASK, b"r" * 16, HOUR, but(2))
    late = helper.commit_job(TASK, job(3), 6, [*outs(6), *outs(7, bucket=6)], added, told)
    assert late == b"6", "the one of the repaired bucket"
    assert helper.commit_job(TASK, job(2), 5, outs(4, 5), added, told) == b"all", "its stored answer, and no more"
    assert helper.commit_job(TASK, job(4), 5, outs(4), added, told) == b"4"
    assert helper.collect(TASK, b"s" * 16, HOUR, added, said) == b"2"


def test_a_batch_by_its_id_is_repaired_alike(helper: Helping) -> None:
    first, other = BatchId(b"1" * 32), BatchId(b"2" * 32)
    for n, of in ((1, first), (2, first), (3, other)):
        members = [type(out)(out.report_id, out.bucket, out.share, of.id) for out in outs(2 * n, 2 * n + 1)]
        helper.commit_job(TASK, job(n), 5, members, added, told)
    helper.repair(TASK, b"r" * 16, first, but(2, of=first))
    assert [helper.batch(TASK, of, added).count for of in (first, other)] == [2, 2]
    with refusal(ProblemType.BATCH_MISMATCH):
        helper.repair(TASK, b"s" * 16, first, never)
    (late,) = outs(99)
    assert helper.commit_job(TASK, job(9), 5, [type(late)(late.report_id, 5, one(1), first.id)], added, told) == b"99"
    assert helper.repairs(TASK)[0].selection == first
    helper.repair(TASK, b"t" * 16, other, but(of=other))


def test_what_was_left_out_stays_spent_until_its_time_is_past(helper: Helping) -> None:
    committed(helper, 1, 2, bucket=5)
    committed(helper, 50, bucket=9)
    helper.repair(TASK, b"r" * 16, HOUR, but(2))
    while helper.sweep(TASK, 8, 100):
        pass
    assert helper.commit_job(TASK, job(7), 5, outs(4), added, told) == b"4"
    assert helper.repair(TASK, b"r" * 16, HOUR, never) == b"repaired", "answers about batches stay"
    assert helper.collect(TASK, b"s" * 16, HOUR, added, said) == b"2", "and so does the batch itself"


# the leader's


def frozen(leader: Leading, interval: Interval = HOUR) -> CollectionJob:
    leader.open_collection(TASK, ASK, b"ask", interval)
    assert leader.freeze(TASK, ASK, lambda batch, *_: said(batch)) is not None
    return now(leader)


def now(leader: Leading) -> CollectionJob:
    found = leader.collection(TASK, ASK)
    assert found is not None
    return found


def asked(parts: tuple[JobPart, ...]) -> bytes:
    return b",".join(b"%d" % part.count for part in parts)


def test_a_leader_asks_first_and_then_drops_and_asks_for_the_rest(leader: Leading) -> None:
    aggregated(leader, 2, token=b"a")
    aggregated(leader, 3, token=b"b", first=10)
    assert frozen(leader).repair_request == b""
    assert leader.begin_repair(TASK, ASK, asked)
    assert (now(leader).repair_request, now(leader).repaired) == (b"2,3", False)
    assert not leader.begin_repair(TASK, ASK, lambda parts: b"other bytes"), "another driver was faster"
    gone = int.from_bytes(b"b" * 8 + (5).to_bytes(8, "big"), "big")
    assert leader.finish_repair(TASK, ASK, but(gone, answer=b"again"))
    assert not leader.finish_repair(TASK, ASK, never)
    assert (now(leader).share_request, now(leader).repaired) == (b"again", True)
    assert leader.batch(TASK, HOUR, added).share == one(2)
    assert (leader.states(TASK).aggregated, leader.states(TASK).rejected) == (2, 3)
    assert [(r.kept, r.who, [p.count for p in r.ours]) for r in leader.repairs(TASK)] == [(2, "leader", [3])]
    assert leader.finish_collection(TASK, ASK, b"answer")


def test_reports_that_were_left_out_keep_their_ids(leader: Leading) -> None:
    aggregated(leader, 2, token=b"a")
    frozen(leader)
    leader.begin_repair(TASK, ASK, asked)
    leader.finish_repair(TASK, ASK, but(int.from_bytes(b"a" * 8 + (5).to_bytes(8, "big"), "big")))
    leader.fail_collection(TASK, ASK, CollectionState.FROZEN, "batchMismatch", "still")
    assert leader.add_reports(TASK, [report(0), report(7), report(8, 6)], 0) == [
        Accepted.SAME,
        Accepted.COLLECTED,
        Accepted.STORED,
    ], "and the bucket takes no others, though its collection failed"
    assert leader.waiting_reports(TASK, 9) == [report(8, 6).body]


def test_nothing_is_repaired_that_is_not_frozen(leader: Leading) -> None:
    aggregated(leader, 2)
    assert not leader.begin_repair(TASK, ASK, asked)
    leader.open_collection(TASK, ASK, b"ask", HOUR)
    assert not leader.begin_repair(TASK, ASK, asked)
    leader.freeze(TASK, ASK, lambda batch, *_: said(batch))
    assert not leader.finish_repair(TASK, ASK, never), "it was not asked for"
    assert leader.begin_repair(TASK, ASK, asked)
    leader.finish_collection(TASK, ASK, b"answer")
    assert not leader.begin_repair(TASK, ASK, asked)
    assert not leader.finish_repair(TASK, ASK, never), "it was given out"
    assert leader.states(TASK).aggregated == 2


def test_a_batch_is_repaired_once_under_any_question(leader: Leading) -> None:
    aggregated(leader, 2)
    frozen(leader)
    leader.begin_repair(TASK, ASK, asked)
    leader.finish_repair(TASK, ASK, but())
    leader.fail_collection(TASK, ASK, CollectionState.FROZEN, "batchMismatch", "still")
    other = b"d" * 16
    leader.open_collection(TASK, other, b"wider", Interval(4, 3))
    assert leader.freeze(TASK, other, lambda batch, *_: said(batch)) == b"2"
    with refusal(ProblemType.BATCH_MISMATCH):
        leader.begin_repair(TASK, other, asked)


def test_what_a_leaders_judge_raises_leaves_all_as_it_was(leader: Leading) -> None:
    aggregated(leader, 2)
    frozen(leader)
    leader.begin_repair(TASK, ASK, asked)

    def refuse(parts: tuple[JobPart, ...]) -> tuple[bytes, Repair]:
        raise DapProblem(ProblemType.INVALID_BATCH_SIZE, "too few")

    with refusal(ProblemType.INVALID_BATCH_SIZE):
        leader.finish_repair(TASK, ASK, refuse)
    assert (now(leader).share_request, now(leader).repaired, leader.repairs(TASK)) == (b"2", False, [])
    assert leader.states(TASK).rejected == 0


def test_reports_of_a_job_that_lie_outside_of_the_batch_are_not_turned_down(leader: Leading) -> None:
    new = [report(1, 5), report(2, 6)]
    leader.add_reports(TASK, new, 0)
    from_two_hours(leader, new)
    frozen(leader)
    leader.begin_repair(TASK, ASK, asked)
    leader.finish_repair(TASK, ASK, but(int.from_bytes(b"j" * 16, "big")))
    assert (leader.states(TASK).aggregated, leader.states(TASK).rejected) == (1, 1)
    assert leader.batch(TASK, Interval(6, 1), added).count == 1


def from_two_hours(leader: Leading, new: list[NewReport]) -> None:
    assert leader.gather(TASK, order())
    taken(leader)
    assert leader.begin_job(TASK, lease(), b"j" * 16, b"request", {}, 0)
    both = [*outs(1, bucket=5), *outs(2, bucket=6)]
    assert leader.finish_job(TASK, b"a" * 16, both, {}, added)


def test_a_store_of_before_there_were_repairs_is_brought_forward(tmp_path: Path) -> None:
    class OldLeader(SqliteLeaderStorage):
        MIGRATIONS = dap_leader.LEADER_MIGRATIONS[:3]

    class OldHelper(SqliteHelperStorage):
        MIGRATIONS = dap.HELPER_MIGRATIONS[:3]

    OldHelper(tmp_path / "helper.db").close()
    OldLeader(tmp_path / "leader.db").close()
    with contextlib.closing(sqlite3.connect(tmp_path / "leader.db")) as db:
        columns = "task, id, request, start, stop, state, share_request, answer, problem, detail"
        row = (TASK, ASK, b"ask", 5, 6, "frozen", b"share", b"", "", "")
        db.execute(f"INSERT INTO collections ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        db.commit()
    with contextlib.closing(SqliteLeaderStorage(tmp_path / "leader.db")) as leader:
        assert leader.begin_repair(TASK, ASK, lambda parts: b"repair")
        assert leader.finish_repair(TASK, ASK, but())
    with contextlib.closing(SqliteHelperStorage(tmp_path / "helper.db")) as helper:
        committed(helper, 1)
        assert helper.repair(TASK, b"r" * 16, HOUR, but(1)) == b"repaired"
