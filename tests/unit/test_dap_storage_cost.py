"""A report costs the same however many there are: counted in SQLite's own steps, so that no machine's pace matters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from interlock.dap.batches import Batch, checksum_of
from interlock.dap.messages import Interval
from interlock.dap.storage import Accepted
from interlock.node.storage.dap import SqliteHelperStorage
from interlock.node.storage.dap_leader import SqliteLeaderStorage
from interlock.node.storage.sql import SqliteStore
from tests.unit.test_dap_storage import TASK, added, aggregated, lease, one, order, outs, report, said, told

GRAIN = 20  # steps a count
JOB = 50  # reports


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[SqliteLeaderStorage]:
    store = SqliteLeaderStorage(tmp_path / "leader.db")
    yield store
    store.close()


@pytest.fixture
def helper(tmp_path: Path) -> Iterator[SqliteHelperStorage]:
    store = SqliteHelperStorage(tmp_path / "helper.db")
    yield store
    store.close()


def steps(store: SqliteStore, work: Callable[[], object]) -> int:
    """How many of SQLite's instructions some work takes."""
    counted = [0]

    def count() -> int:
        counted[0] += 1
        return 0

    store._db.set_progress_handler(count, GRAIN)
    work()
    store._db.set_progress_handler(None, 0)
    return counted[0] * GRAIN


def test_a_leaders_job_costs_the_same_at_the_hundredth_as_at_the_third(leader: SqliteLeaderStorage) -> None:
    costs = []
    for job in range(100):

        def run(job: int = job) -> None:
            token = job.to_bytes(1, "big")
            aggregated(leader, JOB, 5 + job // 40, token, first=job * 1000)
            assert leader.lease_job(TASK, lease(b"z"), 0) is None
            assert not leader.gather(TASK, order())
            assert leader.newest(TASK) == 5 + job // 40
            assert leader.add_reports(TASK, [report(job * 1000)], 0) == [Accepted.SAME]

        costs.append(steps(leader, run))
    assert max(costs[3:]) < 1.15 * costs[2], costs


def test_a_helpers_job_costs_the_same_at_the_hundredth_as_at_the_third(helper: SqliteHelperStorage) -> None:
    costs = []
    for job in range(100):

        def run(job: int = job) -> None:
            numbers = range(job * 1000, job * 1000 + JOB)
            assert helper.commit_job(TASK, job.to_bytes(16, "big"), 5, outs(*numbers), added, told) == b"all"
            assert helper.newest(TASK) == 5

        costs.append(steps(helper, run))
    assert max(costs[3:]) < 1.15 * costs[2], costs


def test_closing_a_batch_costs_by_its_jobs_and_not_by_all_that_was_before(leader: SqliteLeaderStorage) -> None:
    costs = []
    for bucket in range(5, 45):
        aggregated(leader, JOB, bucket, bucket.to_bytes(1, "big"), first=bucket * 1000)
        job_id = bucket.to_bytes(16, "big")

        def close(bucket: int = bucket, job_id: bytes = job_id) -> None:
            leader.open_collection(TASK, job_id, b"ask", Interval(bucket, 1))
            assert leader.freeze(TASK, job_id, lambda batch, *_: said(batch)) == b"%d" % JOB
            assert leader.batch(TASK, Interval(bucket, 1), added).count == JOB
            assert leader.finish_collection(TASK, job_id, b"answer")

        costs.append(steps(leader, close))
    assert max(costs[3:]) < 1.5 * costs[2], costs


def test_sweeping_a_little_costs_by_what_goes(leader: SqliteLeaderStorage) -> None:
    for bucket in range(5, 65):
        aggregated(leader, JOB, bucket, bucket.to_bytes(1, "big"), first=bucket * 1000)
    little = steps(leader, lambda: leader.sweep(TASK, 6, 100))
    assert steps(leader, lambda: leader.sweep(TASK, 7, 100)) < 1.3 * little
    assert steps(leader, lambda: leader.sweep(TASK, 7, 100)) < little / 4, "nothing is there to go"


def test_each_part_of_a_sweep_costs_the_same_however_much_has_to_stay(helper: SqliteHelperStorage) -> None:
    costs = []
    for size in (10, 400):
        task = size.to_bytes(32, "big")
        for job in range(size):
            ids = outs(*range(job * 1000, job * 1000 + 5))
            helper.commit_job(task, job.to_bytes(16, "big"), 5, ids, added, told)
        helper.sweep(task, 6, 1)  # raises the horizon
        costs.append(steps(helper, functools.partial(helper.sweep, task, 6, 20)))
    assert costs[1] < 1.1 * costs[0], costs


def test_a_job_that_is_not_full_costs_the_same_however_many_batches_were_collected(leader: SqliteLeaderStorage) -> None:
    costs = []
    for bucket in range(5, 45):
        job_id = bucket.to_bytes(16, "big")
        aggregated(leader, 2, bucket, bucket.to_bytes(1, "big"), first=bucket * 1000)
        leader.open_collection(TASK, job_id, b"ask", Interval(bucket, 1))
        assert leader.freeze(TASK, job_id, lambda batch, *_: said(batch)) == b"2"
        assert leader.finish_collection(TASK, job_id, b"answer")
        leader.add_reports(TASK, [report(bucket * 1000 + 2, bucket + 1)], 0)
        costs.append(steps(leader, lambda: leader.gather(TASK, order(patience_s=60))))
    assert max(costs) <= costs[2] + GRAIN, costs


def test_a_batch_of_a_job_a_report_is_counted_page_by_page(leader: SqliteLeaderStorage) -> None:
    many, held = 2500, list[int]()
    each = [(5 + n * 3 // many, n.to_bytes(16, "big"), 1, checksum_of([one(n)]), one(1), b"") for n in range(many)]
    with leader._write() as tx:
        leader._accumulate(tx, [(TASK, *row) for row in each])
    leader.open_collection(TASK, bytes(16), b"ask", Interval(5, 3))

    def counted(batch: Batch, _: object) -> bytes:
        assert (batch.count, batch.first, batch.last) == (many, 5, 7)
        assert batch.checksum == checksum_of(one(n) for n in range(many))
        return b"all"

    def merge(shares: Sequence[bytes]) -> bytes:
        held.append(len(shares))
        return added(shares)

    assert leader.freeze(TASK, bytes(16), counted) == b"all"
    assert leader.batch(TASK, Interval(5, 3), merge) == Batch(one(many), many, checksum_of(map(one, range(many))), 5, 7)
    assert max(held) < 100, "shares in memory at once"
    assert leader.finish_collection(TASK, bytes(16), b"answer")
    assert leader.batch(TASK, Interval(5, 3), added).count == many
    assert len(leader._read("SELECT 1 FROM accumulators")) == 3, "one row a bucket stays"
