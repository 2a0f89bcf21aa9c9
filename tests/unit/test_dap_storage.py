"""What leader and helper ask of a store, held on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from interlock.dap.batches import Batch, OutShare, checksum_of
from interlock.dap.drafts import ReportError
from interlock.dap.messages import Interval
from interlock.dap.problems import DapProblem, ProblemType
from interlock.dap.storage import Accepted, CollectionState, JobOrder, Lease, LeasedJob, NewReport
from tests.unit.dap_stores import Helping, Leading, Stores

TASK = b"t" * 32
US = 1_000_000
HOUR = Interval(5, 1)


def added(shares: Sequence[bytes]) -> bytes:
    """A VDAF of one number: shares are sums."""
    return sum(int.from_bytes(share, "big") for share in shares).to_bytes(8, "big")


def one(number: int) -> bytes:
    return number.to_bytes(8, "big")


def report(number: int, bucket: int = 5, member: str | None = None) -> NewReport:
    return NewReport(number.to_bytes(16, "big"), bucket, b"body of %d" % number, member)


def reports(count: int, bucket: int = 5) -> list[NewReport]:
    return [report(i, bucket) for i in range(count)]


def order(size: int = 100, *, patience_s: int = 0, now_us: int = 0) -> JobOrder:
    return JobOrder(size, 1 << 40, now_us, patience_s * US)


def lease(token: bytes = b"a", owner: str = "worker", seconds: int = 60) -> Lease:
    return Lease(token * 16, owner, seconds * US)


def taken(leader: Leading, token: bytes = b"a", now_us: int = 0, owner: str = "worker") -> LeasedJob:
    job = leader.lease_job(TASK, lease(token, owner), now_us)
    assert job is not None
    return job


def begun(leader: Leading, token: bytes = b"a", job_id: bytes = b"") -> bool:
    return leader.begin_job(TASK, lease(token), job_id or token * 16, b"request", {}, 0)


def _id_in(body: bytes) -> bytes:
    return int(body.removeprefix(b"body of ")).to_bytes(16, "big")


def outs(*numbers: int, bucket: int = 5) -> list[OutShare]:
    return [OutShare(n.to_bytes(16, "big"), bucket, one(1)) for n in numbers]


def aggregated(leader: Leading, count: int, bucket: int = 5, token: bytes = b"a", first: int = 0) -> None:
    """Reports from upload to accumulators."""
    new = [report(first + i, bucket) for i in range(count)]
    assert set(leader.add_reports(TASK, new, 0)) == {Accepted.STORED}
    assert leader.gather(TASK, order())
    taken(leader, token)
    assert begun(leader, token, token * 8 + bucket.to_bytes(8, "big"))
    assert leader.finish_job(TASK, token * 16, outs(*range(first, first + count), bucket=bucket), {}, added)


def said(batch: Batch, _: object = None) -> bytes:
    return b"%d" % batch.count


def told(refused: Mapping[bytes, ReportError]) -> bytes:
    return b",".join(sorted(b"%d" % int.from_bytes(i, "big") for i in refused)) or b"all"


# uploads


def test_a_report_is_stored_once_and_its_retry_is_known(leader: Leading) -> None:
    first, other = report(1), NewReport(report(1).report_id, 5, b"other bytes")
    assert leader.add_reports(TASK, [first, report(2), first], 0)[:2] == [Accepted.STORED] * 2
    assert leader.add_reports(TASK, [report(1), other, report(3)], 0) == [
        Accepted.SAME,
        Accepted.REPLAYED,
        Accepted.STORED,
    ]
    assert leader.states(TASK).waiting == 3
    assert leader.add_reports(b"u" * 32, [report(1)], 0) == [Accepted.STORED], "another task has ids of its own"


def test_a_request_of_any_size_is_stored_whole_byte_for_byte(leader: Leading) -> None:
    whole = bytes(range(256)) * 80
    new = [
        NewReport(i.to_bytes(16, "big"), i, whole[: 1 + 8_000 * (i % 3)] + b"%d" % i, None if i % 2 else "acme")
        for i in range(700)
    ]
    for count in (1, 7, 8, 9, 700):
        leader.add_reports(TASK, new[:count], 0)
        assert sorted(leader.waiting_reports(TASK, 1000)) == sorted(r.body for r in new[:count])
    assert leader.add_reports(TASK, new, 1) == [Accepted.SAME] * 700
    assert leader.gather(TASK, order(700))
    job = taken(leader)
    assert job.bodies == tuple(r.body for r in new), "of a job as well, in their order"
    assert begun(leader)
    assert leader.finish_job(TASK, b"a" * 16, [OutShare(r.report_id, r.time, one(1)) for r in new], {}, added)
    assert leader.states(TASK).aggregated == 700


def test_a_member_has_one_report_a_bucket_until_it_drops_out(leader: Leading) -> None:
    given = [report(1, member="acme"), report(2, member="acme"), report(3, 6, "acme"), report(4, member="globex")]
    stored = Accepted.STORED
    assert leader.add_reports(TASK, given, 0) == [stored, Accepted.SECOND, stored, stored]
    assert leader.gather(TASK, order())
    job = taken(leader)
    assert leader.begin_job(
        TASK, lease(), b"j" * 16, b"request", {report(1).report_id: ReportError.VDAF_VERIFY_ERROR}, 0
    )
    assert len(job.bodies) == 3
    assert leader.add_reports(TASK, [report(2, member="acme")], 0) == [Accepted.STORED]


def test_many_threads_that_upload_the_same_reports_store_each_once(leader: Leading) -> None:
    new = reports(40)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda part: leader.add_reports(TASK, part, 0), [new, new[::-1], new[10:], new[:30]]))
    answers = [answer for part in found for answer in part]
    assert answers.count(Accepted.STORED) == 40
    assert set(answers) == {Accepted.STORED, Accepted.SAME}
    assert leader.states(TASK).waiting == 40


# jobs: made in time


def test_a_full_job_is_made_at_once_and_fewer_wait_for_company_until_one_is_old(leader: Leading) -> None:
    leader.add_reports(TASK, reports(3), 10 * US)
    patient = order(3, patience_s=5, now_us=11 * US)
    assert leader.gather(TASK, patient), "three are a job"
    leader.add_reports(TASK, [report(7)], 10 * US)
    assert not leader.gather(TASK, patient)
    leader.add_reports(TASK, [report(8)], 12 * US)
    assert not leader.gather(TASK, order(3, patience_s=5, now_us=15 * US - 1))
    assert leader.gather(TASK, order(3, patience_s=5, now_us=15 * US)), "the younger one goes with it"
    assert not leader.gather(TASK, order(3, patience_s=0, now_us=99 * US)), "none is left"
    assert [len(taken(leader, token).bodies) for token in (b"a", b"b")] == [3, 2]


def test_a_collection_that_waits_for_reports_does_not_wait_for_company(leader: Leading) -> None:
    leader.add_reports(TASK, reports(1), 0)
    patient = order(100, patience_s=1000)
    leader.open_collection(TASK, b"o" * 16, b"ask", Interval(9, 2))
    assert not leader.gather(TASK, patient), "another hour was asked for"
    leader.open_collection(TASK, b"c" * 16, b"ask", HOUR)
    assert leader.gather(TASK, patient)


@pytest.mark.parametrize("set_back_s", [1, 59, 60, 1000])
def test_a_clock_that_was_set_back_makes_a_report_wait_twice_as_long_at_most(leader: Leading, set_back_s: int) -> None:
    came, now_s = 5000, 5000 - set_back_s
    leader.add_reports(TASK, reports(1), came * US)
    waits = 0 if set_back_s >= 60 else set_back_s + 60
    if waits:
        assert not leader.gather(TASK, order(100, patience_s=60, now_us=(now_s + waits) * US - 1))
    assert leader.gather(TASK, order(100, patience_s=60, now_us=(now_s + waits) * US))
    assert waits < 2 * 60


def test_a_report_that_came_after_the_driver_looked_at_its_clock_waits_for_company(leader: Leading) -> None:
    leader.add_reports(TASK, reports(1), 10 * US + 1)
    assert not leader.gather(TASK, order(100, patience_s=5, now_us=10 * US))
    assert leader.gather(TASK, order(100, patience_s=5, now_us=15 * US + 1))


def test_reports_of_the_future_wait_for_their_time(leader: Leading) -> None:
    leader.add_reports(TASK, [report(1, 9), report(2, 5)], 0)
    assert leader.gather(TASK, JobOrder(100, 8, 0))
    assert taken(leader).bodies == (b"body of 2",)
    assert not leader.gather(TASK, JobOrder(100, 8, 0))
    assert leader.gather(TASK, JobOrder(100, 9, 0))


# jobs: leases


def test_each_job_is_leased_to_one_worker_and_what_is_begun_goes_on_with_the_same_bytes(leader: Leading) -> None:
    leader.add_reports(TASK, reports(4), 0)
    assert leader.gather(TASK, order(2))
    assert leader.gather(TASK, order(2))
    first, second = taken(leader, b"a"), taken(leader, b"b")
    assert {len(first.bodies), len(second.bodies)} == {2}
    assert leader.lease_job(TASK, lease(b"c"), 0) is None
    assert begun(leader)
    leader.release_job(TASK, b"a" * 16, 7)
    assert leader.lease_job(TASK, lease(b"c"), 6) is None, "it was given back for later"
    again = taken(leader, b"c", 7)
    assert again == LeasedJob(first.bodies, b"a" * 16, b"request")


def test_a_job_that_is_put_off_has_its_states_in_place_of_its_bodies(leader: Leading) -> None:
    leader.add_reports(TASK, reports(3), 0)
    leader.gather(TASK, order())
    taken(leader)
    assert leader.begin_job(TASK, lease(), b"j" * 16, b"request", {report(2).report_id: ReportError.REPORT_DROPPED}, 0)
    leader.release_job(TASK, b"b" * 16, 7, {report(0).report_id: (5, b"of a ghost")})
    leader.release_job(TASK, b"a" * 16, 7)
    left = taken(leader, b"b", 7)
    assert (left.bodies, dict(left.states)) == ((b"body of 0", b"body of 1"), {})
    states = {report(n).report_id: (5, b"state of %d" % n) for n in (0, 1)}
    leader.release_job(TASK, b"b" * 16, 7, states)
    for token in (b"c", b"d"):
        assert taken(leader, token, 7) == LeasedJob((), b"j" * 16, b"request", states)
        leader.release_job(TASK, token * 16, 7)
    assert leader.add_reports(TASK, reports(3), 0) == [Accepted.SAME] * 3


def test_a_dead_workers_job_is_taken_over_and_its_ghost_commits_nothing(leader: Leading) -> None:
    leader.add_reports(TASK, reports(3), 0)
    leader.gather(TASK, order())
    ghost = taken(leader, b"a", 0)
    assert leader.lease_job(TASK, lease(b"b"), 60 * US - 1) is None
    heir = taken(leader, b"b", 60 * US)
    assert heir == ghost
    assert not begun(leader, b"a"), "a ghost begins nothing"
    assert begun(leader, b"b")
    assert not leader.finish_job(TASK, b"a" * 16, outs(0, 1, 2), {}, added)
    assert not leader.abandon_job(TASK, b"a" * 16, ReportError.REPORT_DROPPED)
    leader.release_job(TASK, b"a" * 16, 0)
    assert leader.lease_job(TASK, lease(b"c"), 0) is None, "nor does it give away what is not its own"
    assert leader.batch(TASK, HOUR, added).count == 0
    assert leader.finish_job(TASK, b"b" * 16, outs(0, 1, 2), {}, added)
    assert not leader.finish_job(TASK, b"b" * 16, outs(0, 1, 2), {}, added)
    assert leader.batch(TASK, HOUR, added).count == 3


def test_a_lease_that_was_too_short_is_longer_the_next_time(leader: Leading) -> None:
    leader.add_reports(TASK, reports(1), 0)
    leader.gather(TASK, order())
    now_us = 0
    for length in (60, 120, 240):
        taken(leader, b"a", now_us)
        assert leader.lease_job(TASK, lease(b"b"), now_us + length * US - 1) is None
        now_us += length * US
    taken(leader, b"a", now_us)
    assert leader.begin_job(TASK, lease(), b"j" * 16, b"request", {}, now_us)
    assert leader.lease_job(TASK, lease(b"b"), now_us + 480 * US - 1) is None, "and begins anew with the second step"


def test_a_lease_that_was_taken_by_a_clock_far_ahead_holds_no_longer(leader: Leading) -> None:
    leader.add_reports(TASK, reports(1), 0)
    leader.gather(TASK, order())
    taken(leader, b"a", 86_400 * US)
    taken(leader, b"b", 0)
    assert not begun(leader, b"a")


def test_a_worker_that_starts_again_has_its_jobs_back_at_once(leader: Leading) -> None:
    leader.add_reports(TASK, reports(2), 0)
    leader.gather(TASK, order(1))
    leader.gather(TASK, order(1))
    taken(leader, b"a", owner="one")
    taken(leader, b"b", owner="two")
    leader.free_jobs("one")
    assert taken(leader, b"c", owner="one").bodies == (b"body of 0",)
    assert leader.lease_job(TASK, lease(b"d"), 0) is None


def test_many_workers_take_each_job_once(leader: Leading) -> None:
    leader.add_reports(TASK, reports(30), 0)
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda _: leader.gather(TASK, order(3)), range(14)))
        tokens = [bytes([65 + i]) for i in range(14)]
        found = list(pool.map(lambda token: leader.lease_job(TASK, lease(token), 0), tokens))
    bodies = [body for job in found if job is not None for body in job.bodies]
    assert made.count(True) >= 10
    assert sorted(bodies) == sorted(r.body for r in reports(30))


def test_an_abandoned_job_turns_its_reports_down(leader: Leading) -> None:
    leader.add_reports(TASK, reports(3), 0)
    leader.gather(TASK, order())
    taken(leader)
    assert leader.abandon_job(TASK, b"a" * 16, ReportError.REPORT_DROPPED)
    assert leader.states(TASK).rejected == 3
    assert leader.add_reports(TASK, reports(1), 0) == [Accepted.SAME], "and its ids stay spent"
    assert leader.waiting_reports(TASK, 9) == []


def test_a_job_of_which_no_report_is_left_is_over(leader: Leading) -> None:
    leader.add_reports(TASK, reports(1), 0)
    leader.gather(TASK, order())
    taken(leader)
    refused = {report(0).report_id: ReportError.HPKE_DECRYPT_ERROR}
    assert leader.begin_job(TASK, lease(), b"", b"", refused, 0)
    assert leader.lease_job(TASK, lease(b"b"), 1 << 60) is None
    assert leader.states(TASK).rejected == 1


# the helper's commits


def test_the_helper_commits_a_report_once_whatever_job_it_comes_in(helper: Helping) -> None:
    assert helper.commit_job(TASK, b"a" * 16, 5, outs(1, 2), added, told) == b"all"
    assert helper.commit_job(TASK, b"b" * 16, 5, outs(2, 3), added, told) == b"2"
    assert helper.commit_job(TASK, b"a" * 16, 5, outs(8, 9), added, told) == b"all", "the stored answer"
    assert helper.answer(TASK, "aggregation-job", b"b" * 16) == b"2"
    batch = helper.batch(TASK, HOUR, added)
    assert (batch.count, batch.share) == (3, one(3))
    assert batch.checksum == checksum_of(n.to_bytes(16, "big") for n in (1, 2, 3))


def test_jobs_that_share_reports_and_come_at_once_commit_each_report_once(helper: Helping) -> None:
    jobs = [(bytes([65 + i]) * 16, outs(*range(i, i + 20))) for i in range(12)] * 2
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda job: helper.commit_job(TASK, job[0], 5, job[1], added, told), jobs))
    assert answers[:12] == answers[12:], "the same job twice has one answer"
    batch = helper.batch(TASK, HOUR, added)
    assert (batch.count, batch.share) == (31, one(31))


def test_an_answer_that_cannot_be_made_commits_nothing(helper: Helping) -> None:
    def fails(_: object) -> bytes:
        raise DapProblem(ProblemType.BATCH_MISMATCH, "no")

    with pytest.raises(DapProblem):
        helper.commit_job(TASK, b"a" * 16, 5, outs(1), added, fails)
    assert helper.commit_job(TASK, b"a" * 16, 5, outs(1), added, told) == b"all"
    with pytest.raises(DapProblem):
        helper.collect(TASK, b"s" * 16, HOUR, added, fails)
    assert helper.collect(TASK, b"s" * 16, HOUR, added, said) == b"1"


# batches


def test_a_batch_of_more_jobs_than_a_page_is_merged_whole_and_released_for_good(helper: Helping) -> None:
    for job in range(150):
        found = helper.commit_job(TASK, job.to_bytes(16, "big"), 6, outs(job) + outs(1000 + job, bucket=6), added, told)
        assert found == b"all"
    helper.commit_job(TASK, b"x" * 16, 7, outs(5000, bucket=7), added, told)
    batch = helper.batch(TASK, Interval(5, 2), added)
    assert (batch.count, batch.share, batch.first, batch.last) == (300, one(300), 5, 6)
    assert helper.collect(TASK, b"s" * 16, Interval(5, 2), added, said) == b"300"
    assert helper.collect(TASK, b"s" * 16, Interval(5, 2), added, said) == b"300", "the same request, the same answer"
    kept = helper.batch(TASK, Interval(0, 99), added)
    assert (kept.count, kept.checksum != batch.checksum, kept.share) == (301, True, one(1)), "counts stay, shares go"
    assert helper.commit_job(TASK, b"y" * 16, 5, outs(7777), added, told) == b"7777", "it is closed"


@pytest.mark.parametrize("other", [Interval(4, 2), Interval(6, 1), Interval(5, 9), Interval(7, 3)])
def test_no_two_batches_share_a_bucket(helper: Helping, other: Interval) -> None:
    helper.collect(TASK, b"s" * 16, Interval(5, 3), added, said)
    helper.collect(TASK, b"t" * 16, Interval(20, 1), added, said)
    with pytest.raises(DapProblem, match="collected before"):
        helper.collect(TASK, b"u" * 16, other, added, said)
    assert helper.collect(TASK, b"v" * 16, Interval(8, 12), added, said) == b"0", "beside them there is room"


def test_a_batch_is_frozen_only_once_nothing_of_it_is_under_way(leader: Leading) -> None:
    aggregated(leader, 2)
    leader.add_reports(TASK, [report(9)], 0)
    leader.open_collection(TASK, b"c" * 16, b"ask", HOUR)
    assert leader.freeze(TASK, b"c" * 16, said) is None, "one waits"
    leader.gather(TASK, order())
    assert leader.freeze(TASK, b"c" * 16, said) is None, "it is gathered"
    taken(leader, b"b")
    begun(leader, b"b")
    assert leader.freeze(TASK, b"c" * 16, said) is None, "it is begun"
    leader.finish_job(TASK, b"b" * 16, outs(9), {}, added)
    assert leader.freeze(TASK, b"c" * 16, said) == b"3"
    assert leader.freeze(TASK, b"c" * 16, said) is None, "once"
    assert leader.add_reports(TASK, [report(10), report(11, 6)], 0) == [Accepted.COLLECTED, Accepted.STORED]
    (job,) = leader.open_collections(TASK, 9)
    assert (job.state, job.share_request) == (CollectionState.FROZEN, b"3")


def test_no_upload_slips_into_a_batch_while_it_is_frozen(leader: Leading) -> None:
    """The race of the two transactions, a hundred times over many buckets."""
    for bucket in range(100, 120):
        aggregated(leader, 1, bucket, bytes([bucket]), first=bucket * 1000)
        leader.open_collection(TASK, bucket.to_bytes(16, "big"), b"ask", Interval(bucket, 1))
        start = threading.Barrier(5)

        def upload(number: int, bucket: int = bucket, start: threading.Barrier = start) -> Accepted:
            start.wait()
            return leader.add_reports(TASK, [report(bucket * 1000 + number, bucket)], 0)[0]

        def freeze(bucket: int = bucket, start: threading.Barrier = start) -> bytes | None:
            start.wait()
            return leader.freeze(TASK, bucket.to_bytes(16, "big"), said)

        with ThreadPoolExecutor(5) as pool:
            uploads = [pool.submit(upload, number) for number in range(1, 5)]
            frozen = pool.submit(freeze).result()
            answers = {future.result() for future in uploads}
        if frozen is not None:
            assert answers == {Accepted.COLLECTED}, "whoever was stored would have been under way"
        assert Accepted.STORED in answers or frozen == b"1"


def test_a_collection_fails_only_from_the_state_it_was_seen_in(leader: Leading) -> None:
    aggregated(leader, 1)
    leader.open_collection(TASK, b"c" * 16, b"ask", HOUR)
    leader.freeze(TASK, b"c" * 16, said)
    small = ProblemType.INVALID_BATCH_SIZE.value
    assert not leader.fail_collection(TASK, b"c" * 16, CollectionState.PENDING, small, "x"), "a ghost's view"
    assert leader.add_reports(TASK, [report(9)], 0) == [Accepted.COLLECTED]
    assert leader.fail_collection(TASK, b"c" * 16, CollectionState.FROZEN, small, "x")
    assert leader.add_reports(TASK, [report(9)], 0) == [Accepted.STORED], "the interval is open again"
    assert leader.open_collection(TASK, b"c" * 16, b"ask", HOUR).state is CollectionState.PENDING
    with pytest.raises(DapProblem, match="another collection job"):
        leader.open_collection(TASK, b"d" * 16, b"ask", Interval(5, 3))


def test_a_ready_collection_keeps_its_answer_and_forgets_its_shares(leader: Leading) -> None:
    aggregated(leader, 3)
    leader.open_collection(TASK, b"c" * 16, b"ask", HOUR)
    assert not leader.finish_collection(TASK, b"c" * 16, b"answer"), "it is not frozen"
    leader.freeze(TASK, b"c" * 16, said)
    assert leader.batch(TASK, HOUR, added).share == one(3)
    assert leader.finish_collection(TASK, b"c" * 16, b"answer")
    assert not leader.finish_collection(TASK, b"c" * 16, b"another")
    found = leader.collection(TASK, b"c" * 16)
    assert found is not None
    assert (found.state, found.answer) == (CollectionState.READY, b"answer")
    assert (leader.batch(TASK, HOUR, added).count, leader.batch(TASK, HOUR, added).share) == (3, one(0))
    with pytest.raises(DapProblem, match="collected before"):
        leader.open_collection(TASK, b"d" * 16, b"ask", Interval(5, 3))


# forgetting


def test_sweeping_forgets_the_past_and_the_past_is_taken_no_more(leader: Leading, helper: Helping) -> None:
    aggregated(leader, 3)
    aggregated(leader, 1, 90, b"b", first=50)
    leader.open_collection(TASK, b"c" * 16, b"ask", HOUR)
    leader.freeze(TASK, b"c" * 16, said)
    leader.finish_collection(TASK, b"c" * 16, b"answer")
    helper.commit_job(TASK, b"a" * 16, 5, outs(0, 1, 2), added, told)
    helper.collect(TASK, b"s" * 16, HOUR, added, said)
    assert (leader.newest(TASK), helper.newest(TASK)) == (90, 5)
    for store, rows in ((leader, 5), (helper, 5)):  # ids, a job or its answer, a row of counts
        assert store.sweep(TASK, 5, 100) == 0, "nothing lies below it"
        assert store.sweep(TASK, 50, 100) == rows
        assert store.sweep(TASK, 40, 100) == 0
    assert leader.add_reports(TASK, [report(0), report(9, 49), report(10, 50)], 0) == [
        Accepted.COLLECTED,
        Accepted.PAST,
        Accepted.STORED,
    ]
    assert helper.commit_job(TASK, b"a" * 16, 5, outs(0) + outs(60, bucket=49), added, told) == b"0,60"
    assert helper.collect(TASK, b"s" * 16, HOUR, added, said) == b"3", "answers about batches stay"
    kept = leader.collection(TASK, b"c" * 16)
    assert kept is not None
    assert kept.answer == b"answer"


def test_sweeping_goes_in_steps(helper: Helping) -> None:
    helper.commit_job(TASK, b"a" * 16, 5, outs(*range(30)), added, told)
    assert [helper.sweep(TASK, 50, 12) for _ in range(4)] == [12, 12, 6, 0]


def test_what_an_uncollected_batch_is_made_of_is_never_swept(leader: Leading, helper: Helping) -> None:
    aggregated(leader, 3)
    leader.add_reports(TASK, [report(8), report(9)], 0)
    leader.gather(TASK, order(1))
    helper.commit_job(TASK, b"a" * 16, 5, outs(0, 1, 2), added, told)
    for store in (leader, helper):
        store.sweep(TASK, 1000, 100)
        assert store.batch(TASK, HOUR, added).share == one(3)
    assert leader.states(TASK).waiting + leader.states(TASK).taken == 2
    assert taken(leader, b"c").bodies == (b"body of 8",)
    assert helper.commit_job(TASK, b"a" * 16, 5, outs(0, 1, 2), added, told) == b"all", "its answer is still owed"
    assert helper.collect(TASK, b"s" * 16, HOUR, added, said) == b"3"


def test_the_answer_of_a_job_with_a_younger_report_stays_though_it_was_rejected(helper: Helping) -> None:
    helper.commit_job(TASK, b"a" * 16, 70, [], added, told)
    helper.sweep(TASK, 70, 100)
    assert helper.answer(TASK, "aggregation-job", b"a" * 16) == b"all"
    helper.sweep(TASK, 71, 100)
    assert helper.answer(TASK, "aggregation-job", b"a" * 16) is None


def test_a_store_that_is_opened_again_holds_what_was_acknowledged(stores: Stores) -> None:
    with contextlib.closing(stores.leader()) as first, contextlib.closing(stores.leader()) as second:
        assert first.add_reports(TASK, reports(2), 0) == [Accepted.STORED] * 2
        assert second.states(TASK).waiting == 2
        second.gather(TASK, order())
        assert len(taken(first).bodies) == 2
    with contextlib.closing(stores.leader()) as third:
        assert third.states(TASK).taken == 2
