"""How a leader fills its batches: up to a size, and for so long; on SQLite and on PostgreSQL alike.

In the drawn histories each report is a bit of its own, so that one that is lost, or in two batches, shows in the sums.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.dap.batches import Selection
from interlock.dap.messages import BatchId
from interlock.dap.storage import CollectionJob, CollectionState, Filling, JobOrder, LeasedJob
from interlock.node.storage.dap_leader import LEADER_MIGRATIONS, SqliteLeaderStorage
from interlock.node.storage.postgres import PostgresLeaderStorage
from tests.postgres import drop_schema, shared_postgres
from tests.unit.dap_stores import Leading, drawn, stores_of
from tests.unit.test_dap_selected_storage import FIRST, NEVER, SECOND, ended, ids, opened, outs
from tests.unit.test_dap_storage import TASK, added, lease, one, report, reports, said

SIZE, LEAST, WAIT_US = 6, 3, 1000


def filling(now_us: int = 0, *, size: int = SIZE, least: int = LEAST) -> Filling:
    return Filling(size, least, now_us, WAIT_US)


def gathered(leader: Leading, name: bytes = FIRST, *, now_us: int = 0, jobs: int = 100, patience_us: int = 0) -> bool:
    return leader.gather(TASK, JobOrder(jobs, 1 << 40, now_us, patience_us, filling(now_us), name))


def ran(leader: Leading, *, drop: int = 0) -> LeasedJob:
    """Run a gathered job to its end; the first `drop` reports of it are turned down."""
    job = leader.lease_job(TASK, lease(), 0)
    assert job is not None
    found = ids(job)
    assert leader.begin_job(TASK, lease(), found[0], b"request", {}, 0)
    rejected = dict.fromkeys(found[:drop], NEVER)
    assert leader.finish_job(TASK, b"a" * 16, outs(found[drop:], job.batch), rejected, added)
    return job


def into(leader: Leading, name: bytes, *numbers: int, now_us: int = 0) -> None:
    leader.add_reports(TASK, [report(n) for n in numbers], now_us)
    assert gathered(leader, name, now_us=now_us)
    ran(leader)


def closed(leader: Leading, now_us: int) -> bytes | None:
    """What the next batch holds, where one is ready; it is frozen then."""
    return leader.freeze(TASK, opened(leader).job_id, said, filling(now_us))


def given_out(leader: Leading) -> None:
    job = opened(leader)
    assert leader.finish_collection(TASK, job.job_id, b"answer")
    assert leader.forget_collection(TASK, job.job_id)


# when a batch is ready


def test_a_batch_is_filled_beyond_the_least_that_it_needs(leader: Leading) -> None:
    into(leader, FIRST, 0, 1, 2)
    assert closed(leader, WAIT_US - 1) is None, "it holds enough, and more may come"
    into(leader, SECOND, 3, 4, 5)
    assert closed(leader, 1) == b"6", "full"


def test_a_batch_that_was_begun_long_ago_is_ready_with_the_least_and_never_with_less(leader: Leading) -> None:
    into(leader, FIRST, 0, 1)
    assert closed(leader, 100 * WAIT_US) is None
    into(leader, SECOND, 2, now_us=100 * WAIT_US)
    assert closed(leader, 100 * WAIT_US) == b"3"


def test_it_is_the_first_report_that_a_batch_is_begun_with(leader: Leading) -> None:
    into(leader, FIRST, 0, now_us=500)
    into(leader, SECOND, 1, 2, now_us=500 + WAIT_US - 1)
    assert closed(leader, 500 + WAIT_US - 1) is None
    assert closed(leader, 500 + WAIT_US) == b"3"


def test_what_makes_a_long_begun_batch_ready_waits_for_no_others(leader: Leading) -> None:
    into(leader, FIRST, 0)
    late = WAIT_US + 5
    leader.add_reports(TASK, [report(1)], late)
    assert not gathered(leader, now_us=late, patience_us=50), "with one more it has two of three"
    leader.add_reports(TASK, [report(2)], late)
    assert gathered(leader, now_us=late, patience_us=50)
    ran(leader)
    assert closed(leader, late) == b"3"


def test_stragglers_share_their_jobs_where_a_batch_is_ready_already_or_not_yet_due(leader: Leading) -> None:
    into(leader, FIRST, 0, 1, 2)
    for number, late in ((8, 10), (9, 3 * WAIT_US)):
        leader.add_reports(TASK, [report(number)], late)
        assert not gathered(leader, now_us=late, patience_us=50)
        assert gathered(leader, now_us=late + 50, patience_us=50)
        ran(leader)
    assert closed(leader, 3 * WAIT_US) == b"5", "until somebody asks"


def test_a_batch_with_a_job_under_way_is_not_closed_however_long_it_waits(leader: Leading) -> None:
    into(leader, FIRST, 0, 1, 2)
    leader.add_reports(TASK, [report(3)], 0)
    assert gathered(leader)
    assert closed(leader, 5 * WAIT_US) is None
    ran(leader)
    assert closed(leader, 5 * WAIT_US) == b"4"


def test_a_batch_that_was_asked_for_takes_no_more_and_the_next_report_begins_another(leader: Leading) -> None:
    into(leader, FIRST, 0, 1, 2)
    assert closed(leader, WAIT_US) == b"3"
    leader.add_reports(TASK, [report(9)], 0)
    assert gathered(leader, SECOND, now_us=WAIT_US)
    assert ran(leader).batch == SECOND
    job = opened(leader)
    assert leader.fail_collection(TASK, job.job_id, CollectionState.FROZEN, "batchMismatch", "x")
    leader.add_reports(TASK, [report(10)], 0)
    assert gathered(leader, b"3" * 32, now_us=WAIT_US)
    assert ran(leader).batch == SECOND, "nor does it once the helper has refused it"
    assert closed(leader, WAIT_US) == b"3", "and it is ready as it is"
    assert opened(leader).selection == BatchId(FIRST)


@pytest.mark.parametrize(("more", "later", "holds"), [((3, 4, 5), 0, b"6"), ((3, 4), 0, None), ((3, 4), WAIT_US, b"5")])
def test_a_batch_of_which_the_helper_holds_too_little_fills_on_by_the_least_or_for_as_long_again(
    leader: Leading, more: tuple[int, ...], later: int, holds: bytes | None
) -> None:
    into(leader, FIRST, 0, 1, 2)
    assert closed(leader, WAIT_US) == b"3"
    small = (TASK, opened(leader).job_id, CollectionState.FROZEN, "invalidBatchSize", "x")
    assert leader.fail_collection(*small, filling(WAIT_US))
    assert closed(leader, WAIT_US + 1) is None, "it is not tried again as it was"
    into(leader, SECOND, *more, now_us=WAIT_US + 1)
    assert closed(leader, WAIT_US + later) == holds
    if holds:
        assert opened(leader).selection == BatchId(FIRST)


def test_reports_that_drop_out_make_a_batch_lacking_below_the_least_or_below_its_size(leader: Leading) -> None:
    leader.add_reports(TASK, reports(4), 0)
    assert gathered(leader)
    ran(leader, drop=2)
    assert closed(leader, WAIT_US) is None, "two of three"
    into(leader, SECOND, 8, now_us=WAIT_US)
    assert closed(leader, WAIT_US) == b"3"


@pytest.mark.parametrize(("back", "waits"), [(WAIT_US, True), (WAIT_US + 1, False)])
def test_a_clock_that_is_set_back_makes_a_batch_wait_twice_as_long_at_most(
    leader: Leading, back: int, waits: bool
) -> None:
    now_us = 50 * WAIT_US
    into(leader, FIRST, 0, 1, 2, now_us=now_us)
    assert (closed(leader, now_us - back) is None) == waits
    if waits:
        assert closed(leader, now_us + WAIT_US) == b"3"


def test_the_eldest_of_those_that_are_ready_comes_first_whether_full_or_not(leader: Leading) -> None:
    into(leader, FIRST, 0, 1, 2)
    leader.add_reports(TASK, [report(n) for n in range(3, 6)], 0)
    assert gathered(leader)
    ran(leader, drop=3)
    into(leader, SECOND, 10, 11, 12)
    into(leader, SECOND, *range(13, 19), now_us=1)
    assert closed(leader, 1) == b"6"
    assert opened(leader).selection == BatchId(FIRST)
    given_out(leader)
    assert closed(leader, 1) == b"6"
    assert opened(leader).selection == BatchId(SECOND)


def test_many_who_gather_and_close_at_once_overfill_nothing_and_close_each_once(leader: Leading) -> None:
    leader.add_reports(TASK, reports(20), 0)
    names = [bytes([65 + i]) * 32 for i in range(16)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda name: gathered(leader, name, jobs=4), names))
    for _ in names:
        if leader.states(TASK).taken:
            ran(leader)
    found: list[bytes] = []
    for _ in range(4):
        job_id = opened(leader).job_id
        with ThreadPoolExecutor(6) as pool:
            done = list(pool.map(lambda _, j=job_id: leader.freeze(TASK, j, said, filling(WAIT_US)), range(6)))
        found += [told for told in done if told is not None]
        if opened(leader).state is CollectionState.FROZEN:
            given_out(leader)
    assert found == [b"6"] * 3, "and two of twenty are too few"


# any order of events


class History:
    """A leader's store under drawn events, and what has to be so after each of them."""

    def __init__(self, leader: Leading, rng: random.Random) -> None:
        self.leader: Any = leader
        self.rng = rng
        self.least = rng.randint(2, 4)
        self.size = self.least + rng.choice([0, 1, 3, 8])
        self.jobs = rng.choice([1, 2, 5, 100])
        self.patience = rng.choice([0, 300])
        self.now = 10 * WAIT_US
        self.tokens, self.names = itertools.count(1), itertools.count(1)
        self.sent = 0
        self.open: dict[bytes, LeasedJob] = {}
        self.began: dict[bytes, int] = {}
        self.counted = self.done = 0  # the bits of what was collected, and of what was committed
        self.sizes: list[int] = []

    def filling(self) -> Filling:
        return filling(self.now, size=self.size, least=self.least)

    def upload(self) -> None:
        count = min(self.rng.randint(1, 7), 60 - self.sent)
        new = [report(self.sent + n, self.rng.randint(1, 9)) for n in range(count)]
        self.leader.add_reports(TASK, new, self.now)
        self.sent += count

    def wait(self) -> None:
        self.now += self.rng.choice([1, 200, WAIT_US - 1, WAIT_US])

    def gather(self) -> None:
        name = next(self.names).to_bytes(32, "big")
        order = JobOrder(self.jobs, 1 << 40, self.now, self.patience, self.filling(), name)
        if not self.leader.gather(TASK, order):
            return
        for (batch,) in self.leader._read("SELECT id FROM batches"):
            self.began.setdefault(bytes(batch), self.now)

    def lease(self) -> None:
        token = next(self.tokens).to_bytes(1, "big")
        job = self.leader.lease_job(TASK, lease(token), 0)
        if job is None:
            return
        found = ids(job)
        kept = [i for i in found if self.rng.random() < 0.9]
        dropped = {i: NEVER for i in found if i not in kept}
        assert self.leader.begin_job(TASK, lease(token), found[0], b"request" if kept else b"", dropped, 0)
        if kept:
            self.open[token] = LeasedJob(states=dict.fromkeys(kept, (5, b"state")), batch=job.batch)

    def end(self) -> None:
        for report_id in ended(self.leader, self.rng, self.open):
            self.done |= 1 << int.from_bytes(report_id, "big")

    def collect(self) -> bool:
        """Ask for a batch, and have it; False where none is ready."""
        job: CollectionJob = opened(self.leader)
        if job.state is CollectionState.PENDING:
            told = self.leader.freeze(TASK, job.job_id, said, self.filling())
            if told is None:
                return False
            self.closed(opened(self.leader).selection, int(told))
        elif self.rng.random() < 0.2:
            assert self.leader.fail_collection(TASK, job.job_id, job.state, "batchMismatch", "x")
        else:
            assert isinstance(job.selection, BatchId)
            share = int.from_bytes(self.leader.batch(TASK, job.selection, added).share, "big")
            assert share & self.counted == 0, "no report is in two batches"
            self.counted |= share
            self.sizes.append(share.bit_count())
            given_out(self.leader)
        return True

    def closed(self, selection: Selection | None, count: int) -> None:
        assert isinstance(selection, BatchId)
        assert self.least <= count <= self.size
        forced = self.began[selection.id] <= self.now - WAIT_US
        assert count == self.size or forced, "only its age closes a batch that is not full"

    def finish(self) -> None:
        """With time enough, all that was sent is in batches, and no batch that holds the least is left."""
        self.now += 2 * WAIT_US
        while self.leader.states(TASK).waiting + self.leader.states(TASK).taken:
            self.gather()
            self.lease()
            self.end()
            self.now += 100
        self.now += WAIT_US
        for _ in range(500):
            if not self.collect():
                break
        assert opened(self.leader).state is CollectionState.PENDING
        assert self.counted & ~self.done == 0
        assert sum(self.sizes) == self.counted.bit_count()
        rows = self.leader._read("SELECT batch, sum(count) FROM accumulators GROUP BY batch")
        assert all(int(count) < self.least for _, count in rows), "what is left is too little for a batch"
        assert sum(int(count) for _, count in rows) == (self.done & ~self.counted).bit_count()


EVENTS = st.lists(
    st.sampled_from(["upload", "gather", "gather", "lease", "end", "collect", "wait"]), min_size=20, max_size=90
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=EVENTS, seed=st.integers(0, 1 << 32))
def test_whatever_comes_each_report_is_in_one_batch_and_each_batch_between_its_bounds(
    tmp_path_factory: pytest.TempPathFactory, events: list[str], seed: int
) -> None:
    drawn(stores_of("sqlite", tmp_path_factory.mktemp("drawn")), History, events, seed)


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=EVENTS, seed=st.integers(0, 1 << 32))
def test_so_it_is_in_postgresql(tmp_path_factory: pytest.TempPathFactory, events: list[str], seed: int) -> None:
    drawn(stores_of("postgres", tmp_path_factory.mktemp("drawn")), History, events, seed)


# stores of before

_BEFORE = LEADER_MIGRATIONS[:5]
_OLD_BATCH = "INSERT INTO batches (task, id, size, reports, tries) VALUES (?, ?, 3, 2, 0)"


def brought_forward(old: Any, new: Any) -> None:
    """A batch that was begun before there were sizes takes what it lacks, and is collected as it would have been."""
    with contextlib.closing(old), old._write() as tx:
        tx.execute(_OLD_BATCH, (TASK, FIRST))
        row = (TASK, 5, b"j" * 16, 2, bytes(32), one(0b11), FIRST)
        columns = "task, bucket, job, count, checksum, share, batch"
        tx.execute(f"INSERT INTO accumulators ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    with contextlib.closing(new()) as leader:
        assert closed(leader, 10 * WAIT_US) is None, "two of three"
        into(leader, SECOND, 2, 3, now_us=10 * WAIT_US)
        assert closed(leader, 10 * WAIT_US) == b"3"
        assert leader.batch(TASK, BatchId(FIRST), added).share == one(0b111)


def test_a_file_of_before_batches_had_a_size_is_brought_forward(tmp_path: Path) -> None:
    class Old(SqliteLeaderStorage):
        MIGRATIONS: ClassVar[tuple[str, ...]] = _BEFORE

    brought_forward(Old(tmp_path / "leader.db"), lambda: SqliteLeaderStorage(tmp_path / "leader.db"))
    assert (tmp_path / "leader.db.v5").exists()


def test_so_is_a_schema_in_postgresql() -> None:
    class Old(PostgresLeaderStorage):
        MIGRATIONS: ClassVar[tuple[str, ...]] = _BEFORE

    url, schema = shared_postgres(), "t_filling_leader"
    drop_schema(url, schema)
    try:
        brought_forward(Old(url, schema=schema), lambda: PostgresLeaderStorage(url, schema=schema))
    finally:
        drop_schema(url, schema)
