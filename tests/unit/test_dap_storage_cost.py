"""A report costs the same however many there are: counted in SQLite's own steps, so that no machine's pace matters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.dap.messages import Interval
from interlock.dap.storage import Accepted
from interlock.node.storage.dap import SqliteHelperStorage
from interlock.node.storage.dap_leader import SqliteLeaderStorage
from interlock.node.storage.sql import SqliteStore
from tests.unit.test_dap_storage import TASK, added, aggregated, lease, order, outs, report, said, told

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
    assert steps(leader, lambda: leader.sweep(TASK, 7, 100)) < little / 5, "nothing is there to go"
