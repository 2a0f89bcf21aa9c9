"""Batches that the leader selects, in its store and the helper's: on SQLite and on PostgreSQL alike.

In the drawn histories each report is a bit of its own, so that one that is lost, or in two batches, shows in the sums.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import sqlite3
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.dap.batches import Batch, OutShare, Selection, checksum_of
from interlock.dap.drafts import ReportError
from interlock.dap.messages import BatchId, Interval
from interlock.dap.problems import DapProblem, ProblemType
from interlock.dap.storage import Accepted, CollectionJob, CollectionState, Filling, JobOrder, LeasedJob
from interlock.node.storage import dap, dap_leader
from interlock.node.storage.dap import SqliteHelperStorage
from interlock.node.storage.dap_leader import SqliteLeaderStorage
from tests.unit.dap_stores import Helping, Leading, drawn, stores_of
from tests.unit.test_dap_storage import TASK, added, lease, one, report, reports, said, told

SIZE = 3
FIRST, SECOND = bytes([1]) * 32, bytes([2]) * 32
ASK = b"the next"
WAIT_US = 1000
LATE = (50).to_bytes(16, "big")
NEVER = ReportError.VDAF_VERIFY_ERROR


def filling(size: int = SIZE, least: int = SIZE, *, now_us: int = 0) -> Filling:
    return Filling(size, least, now_us, WAIT_US)


def order(batch: bytes = FIRST, size: int = SIZE, jobs: int = 2, *, patience_us: int = 0, now_us: int = 0) -> JobOrder:
    return JobOrder(jobs, 1 << 40, now_us, patience_us, filling(size, now_us=now_us), batch)


def ids(job: LeasedJob) -> list[bytes]:
    return [int(body.removeprefix(b"body of ")).to_bytes(16, "big") for body in job.bodies]


def bit(report_id: bytes) -> bytes:
    return one(1 << int.from_bytes(report_id, "big"))


def outs(job_ids: Sequence[bytes], batch: bytes, bucket: int = 5) -> list[OutShare]:
    return [OutShare(report_id, bucket, bit(report_id), batch) for report_id in job_ids]


def ran(leader: Leading, batch: bytes = FIRST, *, drop: int = 0, token: bytes = b"a") -> LeasedJob:
    """Gather a job and run it to its end; the first `drop` reports of it are turned down by the helper."""
    assert leader.gather(TASK, order(batch))
    job = leader.lease_job(TASK, lease(token), 0)
    assert job is not None
    found = ids(job)
    job_id = found[0]
    assert leader.begin_job(TASK, lease(token), job_id, b"request", {}, 0)
    rejected = dict.fromkeys(found[:drop], NEVER)
    assert leader.finish_job(TASK, token * 16, outs(found[drop:], job.batch), rejected, added)
    return job


def opened(leader: Leading) -> CollectionJob:
    return leader.open_next(TASK, ASK, lambda number: b"job%013d" % number)


# filling


def test_jobs_fill_the_eldest_batch_up_to_its_size_and_then_begin_another(leader: Leading) -> None:
    leader.add_reports(TASK, reports(7), 0)
    jobs = [ran(leader, FIRST), ran(leader, SECOND), ran(leader, SECOND), ran(leader, bytes([3]) * 32)]
    assert [(len(job.bodies), job.batch) for job in jobs] == [(2, FIRST), (1, FIRST), (2, SECOND), (1, SECOND)]
    batch = leader.batch(TASK, BatchId(FIRST), added)
    assert (batch.count, batch.share) == (3, one(0b111))
    assert batch.checksum == checksum_of(n.to_bytes(16, "big") for n in range(3))


def test_a_batch_may_be_of_any_times_and_knows_the_first_and_the_last(leader: Leading) -> None:
    leader.add_reports(TASK, [report(0, 5), report(1, 9), report(2, 700)], 0)
    ran(leader)
    job = leader.gather(TASK, order()) and leader.lease_job(TASK, lease(), 0)
    assert isinstance(job, LeasedJob)
    leader.begin_job(TASK, lease(), b"j" * 16, b"request", {}, 0)
    leader.finish_job(TASK, b"a" * 16, outs(ids(job), FIRST, 700), {}, added)
    batch = leader.batch(TASK, BatchId(FIRST), added)
    assert (batch.first, batch.last, batch.count) == (5, 700, 3)


def test_a_report_that_drops_out_leaves_its_place_to_the_next(leader: Leading) -> None:
    leader.add_reports(TASK, reports(3), 0)
    ran(leader)
    ran(leader, drop=1)
    opened(leader)
    assert leader.freeze(TASK, opened(leader).job_id, said, filling()) is None, "two of three"
    leader.add_reports(TASK, [report(8), report(9)], 0)
    assert [ran(leader, SECOND).batch, ran(leader, SECOND).batch] == [FIRST, SECOND]
    assert leader.freeze(TASK, opened(leader).job_id, said, filling()) == b"3"


@pytest.mark.parametrize("way", ["begun with nothing", "abandoned"])
def test_a_job_that_comes_to_nothing_leaves_all_its_places(leader: Leading, way: str) -> None:
    leader.add_reports(TASK, reports(2), 0)
    leader.gather(TASK, order())
    job = leader.lease_job(TASK, lease(), 0)
    assert job is not None
    if way == "abandoned":
        assert leader.begin_job(TASK, lease(), b"j" * 16, b"r", {ids(job)[1]: NEVER}, 0)
        assert leader.abandon_job(TASK, b"a" * 16, NEVER)
    else:
        assert leader.begin_job(TASK, lease(), b"", b"", dict.fromkeys(ids(job), NEVER), 0)
    leader.add_reports(TASK, [report(n) for n in (10, 11, 12)], 0)
    ran(leader, SECOND)
    assert ran(leader, SECOND).batch == FIRST
    assert leader.freeze(TASK, opened(leader).job_id, said, filling()) == b"3"


def test_the_last_places_of_a_batch_wait_for_nobody_and_others_for_patience(leader: Leading) -> None:
    leader.add_reports(TASK, reports(1), 100)
    patient = order(patience_us=50, now_us=120)
    assert not leader.gather(TASK, patient)
    opened(leader)
    assert not leader.gather(TASK, patient), "whoever asks has no use for one"
    assert leader.gather(TASK, order(patience_us=50, now_us=150))
    leader.add_reports(TASK, [report(7), report(8)], 100)
    assert leader.gather(TASK, patient), "it is full with these"


def test_many_workers_begin_no_batch_while_one_lacks_reports(leader: Leading) -> None:
    leader.add_reports(TASK, reports(24), 0)
    names = [bytes([65 + i]) * 32 for i in range(16)]
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda name: leader.gather(TASK, order(name, 6)), names))
    assert made.count(True) == 12
    jobs = [leader.lease_job(TASK, lease(bytes([i])), 0) for i in range(12)]
    in_each: dict[bytes, int] = {}
    for job in jobs:
        assert job is not None
        in_each[job.batch] = in_each.get(job.batch, 0) + len(job.bodies)
    assert list(in_each.values()) == [6] * 4


# collecting


def test_the_same_question_is_one_job_until_it_is_forgotten_and_then_a_new_one_of_another_id(leader: Leading) -> None:
    leader.add_reports(TASK, reports(6), 0)
    for name in (SECOND, SECOND, FIRST, FIRST):
        ran(leader, name)
    first = opened(leader)
    assert opened(leader) == first
    assert first.selection is None
    assert not leader.forget_collection(TASK, first.job_id), "it waits"
    assert leader.freeze(TASK, first.job_id, said, filling()) == b"3"
    assert not leader.forget_collection(TASK, first.job_id), "the helper is asked"
    assert opened(leader).state is CollectionState.FROZEN
    assert opened(leader).selection == BatchId(SECOND)
    assert leader.finish_collection(TASK, first.job_id, b"answer")
    assert opened(leader).answer == b"answer"
    assert leader.forget_collection(TASK, first.job_id)
    assert not leader.forget_collection(TASK, first.job_id), "a late word does nothing"
    assert leader.collection(TASK, first.job_id) is None
    second = opened(leader)
    assert second.job_id != first.job_id
    assert not leader.forget_collection(TASK, first.job_id)
    assert opened(leader) == second, "nor does it touch the next"
    assert leader.freeze(TASK, second.job_id, said, filling()) == b"3"


def test_many_who_ask_at_once_ask_one_question_and_one_word_forgets_it(leader: Leading) -> None:
    leader.add_reports(TASK, reports(3), 0)
    ran(leader)
    ran(leader)
    with ThreadPoolExecutor(8) as pool:
        (job_id,) = {job.job_id for job in pool.map(lambda _: opened(leader), range(16))}
        frozen = list(pool.map(lambda _: leader.freeze(TASK, job_id, said, filling()), range(8)))
        assert sorted(frozen, key=bool) == [None] * 7 + [b"3"]
        assert leader.finish_collection(TASK, job_id, b"answer")
        words = list(pool.map(lambda _: leader.forget_collection(TASK, job_id), range(8)))
    assert words.count(True) == 1


def test_a_batch_is_closed_whole_with_nothing_under_way_and_its_shares_go_when_it_is_told(leader: Leading) -> None:
    leader.add_reports(TASK, reports(3), 0)
    ran(leader)
    leader.gather(TASK, order())
    job = opened(leader)
    assert leader.freeze(TASK, job.job_id, said, filling()) is None, "it is full, and one of it is under way"
    leased = leader.lease_job(TASK, lease(), 0)
    assert leased is not None
    leader.begin_job(TASK, lease(), b"j" * 16, b"request", {}, 0)
    assert leader.freeze(TASK, job.job_id, said, filling()) is None
    leader.finish_job(TASK, b"a" * 16, outs(ids(leased), FIRST), {}, added)
    seen: list[Selection] = []

    def ready(batch: Batch, selection: Selection) -> bytes:
        seen.append(selection)
        return said(batch)

    assert leader.freeze(TASK, job.job_id, ready, filling()) == b"3"
    assert seen == [BatchId(FIRST)]
    assert leader.batch(TASK, BatchId(FIRST), added).share == one(0b111)
    leader.finish_collection(TASK, job.job_id, b"answer")
    assert leader.batch(TASK, BatchId(FIRST), added).count == 0
    assert leader.sweep(TASK, 1000, 100) > 0
    leader.forget_collection(TASK, job.job_id)
    assert leader.freeze(TASK, opened(leader).job_id, said, filling()) is None, "there is no other"


def test_a_batch_that_the_helper_refused_comes_after_all_others(leader: Leading) -> None:
    leader.add_reports(TASK, reports(6), 0)
    for name in (FIRST, FIRST, SECOND, SECOND):
        ran(leader, name)
    job = opened(leader)
    leader.freeze(TASK, job.job_id, said, filling())
    mismatch = ProblemType.BATCH_MISMATCH.value
    assert leader.fail_collection(TASK, job.job_id, CollectionState.FROZEN, mismatch, "x")
    failed = leader.collection(TASK, job.job_id)
    assert failed is not None
    assert (failed.state, failed.problem) == (CollectionState.FAILED, mismatch)
    leader.sweep(TASK, 1000, 100)
    assert leader.collection(TASK, job.job_id) == failed, "whoever looks is told so"
    turns = []
    for _ in range(2):
        job = opened(leader)
        assert leader.freeze(TASK, job.job_id, said, filling()) == b"3"
        turns.append(opened(leader).selection)
        leader.finish_collection(TASK, job.job_id, b"answer")
        leader.forget_collection(TASK, job.job_id)
    assert turns == [BatchId(SECOND), BatchId(FIRST)]


def test_what_an_uncollected_batch_is_made_of_is_never_swept(leader: Leading, helper: Helping) -> None:
    leader.add_reports(TASK, reports(3), 0)
    ran(leader)
    ran(leader)
    helper.commit_job(TASK, b"a" * 16, 5, outs([report(n).report_id for n in range(3)], FIRST), added, told)
    for store in (leader, helper):
        store.sweep(TASK, 1000, 100)
        assert store.batch(TASK, BatchId(FIRST), added).share == one(0b111)
    assert leader.freeze(TASK, opened(leader).job_id, said, filling()) == b"3"
    assert leader.add_reports(TASK, [report(0)], 0) == [Accepted.PAST]


# the helper's


def test_the_helper_commits_a_report_to_one_batch_and_none_to_one_that_is_closed(helper: Helping) -> None:
    numbers = [n.to_bytes(16, "big") for n in range(4)]
    assert helper.commit_job(TASK, b"a" * 16, 5, outs(numbers[:3], FIRST), added, told) == b"all"
    assert helper.commit_job(TASK, b"b" * 16, 5, outs(numbers[2:], SECOND), added, told) == b"2", "it is in the first"
    assert helper.collect(TASK, b"s" * 16, BatchId(FIRST), added, said) == b"3"
    assert helper.collect(TASK, b"s" * 16, BatchId(FIRST), added, said) == b"3", "the same request, the same answer"
    late: dict[bytes, ReportError] = {}

    def respond(refused: Mapping[bytes, ReportError]) -> bytes:
        late.update(refused)
        return b""

    helper.commit_job(TASK, b"c" * 16, 5, outs([LATE], FIRST), added, respond)
    assert late == {LATE: ReportError.BATCH_COLLECTED}
    with pytest.raises(DapProblem, match="collected before"):
        helper.collect(TASK, b"t" * 16, BatchId(FIRST), added, said)
    helper.sweep(TASK, 1000, 100)
    with pytest.raises(DapProblem, match="collected before"):
        helper.collect(TASK, b"u" * 16, BatchId(FIRST), added, said)
    assert helper.batch(TASK, BatchId(SECOND), added).share == one(0b1000)


def test_a_batch_of_more_jobs_than_a_page_is_merged_whole(helper: Helping) -> None:
    for job in range(150):
        rows = [OutShare(job.to_bytes(16, "big"), job % 7, one(1), FIRST)]
        helper.commit_job(TASK, job.to_bytes(16, "big"), 6, rows, added, told)
    batch = helper.batch(TASK, BatchId(FIRST), added)
    assert (batch.count, batch.share, batch.first, batch.last) == (150, one(150), 0, 6)
    assert helper.batch(TASK, BatchId(SECOND), added).count == 0


# any order of events


def ended(leader: Leading, rng: random.Random, jobs: dict[bytes, LeasedJob]) -> list[bytes]:
    """End one of the jobs, if there are any, well or badly; the reports that were verified."""
    if not jobs:
        return []
    token = rng.choice(list(jobs))
    job = jobs.pop(token)
    if rng.random() < 0.15:
        assert leader.abandon_job(TASK, token * 16, ReportError.REPORT_DROPPED)
        return []
    good = [i for i in job.states if rng.random() < 0.85]
    bad = {i: NEVER for i in job.states if i not in good}
    assert leader.finish_job(TASK, token * 16, outs(good, job.batch), bad, added)
    return good


class History:
    """A leader's store under drawn events, and what has to be so after each of them."""

    def __init__(self, leader: Leading, rng: random.Random) -> None:
        self.leader, self.rng = leader, rng
        self.tokens = itertools.count(1)
        self.batches = itertools.count(1)
        self.sent = 0
        self.jobs: dict[bytes, LeasedJob] = {}
        self.counted = 0  # the bits of all that was collected
        self.done = 0  # the bits of all that was committed
        self.collected: set[bytes] = set()

    def upload(self) -> None:
        count = min(self.rng.randint(1, 5), 60 - self.sent)
        self.leader.add_reports(TASK, [report(self.sent + n, self.rng.randint(1, 9)) for n in range(count)], 0)
        self.sent += count

    def gather(self) -> None:
        name = next(self.batches).to_bytes(32, "big")
        self.leader.gather(TASK, order(name, jobs=self.rng.randint(1, 4)))

    def lease(self) -> None:
        token = next(self.tokens).to_bytes(1, "big")
        job = self.leader.lease_job(TASK, lease(token), 0)
        if job is None:
            return
        assert job.batch not in self.collected, "a closed batch has no job"
        found = ids(job)
        kept = [i for i in found if self.rng.random() < 0.9]
        states = dict.fromkeys(kept, (5, b"state"))
        dropped = {i: NEVER for i in found if i not in kept}
        assert self.leader.begin_job(TASK, lease(token), found[0], b"request", dropped, 0)
        if kept:
            self.jobs[token] = LeasedJob(states=states, batch=job.batch)

    def end(self) -> None:
        for report_id in ended(self.leader, self.rng, self.jobs):
            self.done |= int.from_bytes(bit(report_id), "big")

    def collect(self) -> bool:
        """One step of whoever collects; False where there is nothing to be had."""
        job = opened(self.leader)
        if job.state is CollectionState.PENDING:
            told = self.leader.freeze(TASK, job.job_id, said, filling())
            assert told in (None, b"%d" % SIZE), "a batch is whole, and no larger"
            return told is not None
        if job.state is CollectionState.FROZEN:
            if self.rng.random() < 0.2:
                assert self.leader.fail_collection(TASK, job.job_id, job.state, "batchMismatch", "x")
                return True
            assert isinstance(job.selection, BatchId)
            share = int.from_bytes(self.leader.batch(TASK, job.selection, added).share, "big")
            assert share & self.counted == 0, "no report is in two batches"
            assert job.selection.id not in self.collected, "no batch is collected twice"
            assert self.leader.finish_collection(TASK, job.job_id, b"answer")
            self.counted |= share
            self.collected.add(job.selection.id)
        else:
            assert self.leader.forget_collection(TASK, job.job_id)
        return True

    def finish(self) -> None:
        while self.leader.states(TASK).waiting + self.leader.states(TASK).taken:
            self.gather()
            self.lease()
            self.end()
        while self.collect():
            pass
        assert self.counted & ~self.done == 0
        left = (self.done & ~self.counted).bit_count()
        assert self.counted.bit_count() == SIZE * len(self.collected)
        assert left < SIZE * 6, "only what lacks others for a whole batch is left"


EVENTS = st.lists(st.sampled_from(["upload", "gather", "lease", "end", "collect"]), min_size=20, max_size=80)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=EVENTS, seed=st.integers(0, 1 << 32))
def test_whatever_happens_each_batch_is_whole_and_no_report_is_in_two(
    tmp_path_factory: pytest.TempPathFactory, events: list[str], seed: int
) -> None:
    drawn(stores_of("sqlite", tmp_path_factory.mktemp("drawn")), History, events, seed)


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=EVENTS, seed=st.integers(0, 1 << 32))
def test_so_it_is_in_postgresql(tmp_path_factory: pytest.TempPathFactory, events: list[str], seed: int) -> None:
    drawn(stores_of("postgres", tmp_path_factory.mktemp("drawn")), History, events, seed)


# files of before


def test_a_store_of_before_there_were_such_batches_is_brought_forward(tmp_path: Path) -> None:
    class OldLeader(SqliteLeaderStorage):
        MIGRATIONS = dap_leader.LEADER_MIGRATIONS[:2]

    class OldHelper(SqliteHelperStorage):
        MIGRATIONS = dap.HELPER_MIGRATIONS[:2]

    OldLeader(tmp_path / "leader.db").close()
    OldHelper(tmp_path / "helper.db").close()
    with contextlib.closing(sqlite3.connect(tmp_path / "helper.db")) as db:
        row = (TASK, 5, b"a" * 16, 2, checksum_of([]), one(2))
        db.execute("INSERT INTO accumulators VALUES (?, ?, ?, ?, ?, ?)", row)
        db.commit()
    with contextlib.closing(SqliteHelperStorage(tmp_path / "helper.db")) as helper:
        assert helper.batch(TASK, Interval(5, 1), added).share == one(2)
        assert helper.batch(TASK, BatchId(FIRST), added).count == 0
    with contextlib.closing(SqliteLeaderStorage(tmp_path / "leader.db")) as leader:
        leader.add_reports(TASK, reports(3), 0)
        assert leader.gather(TASK, order())
    assert (tmp_path / "leader.db.v2").exists()
