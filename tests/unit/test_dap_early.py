"""A helper whose clock lags: what it finds too early is sent again, for a while, and counts once it is in time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.clock import MICROSECONDS, ManualClock
from interlock.dap.collector import Pending
from interlock.dap.drafts import ReportError, Role
from interlock.dap.early import AGAIN_US, PATIENCE_US
from interlock.dap.fates import Standing, Step
from interlock.dap.jobs import AggregationJobInitReq, AggregationJobResp
from interlock.dap.messages import LEADER_SELECTED, Report, media_type
from interlock.dap.problems import from_b64url, to_b64url
from interlock.dap.shares import LEEWAY_US
from interlock.node.parties import HttpExchange
from interlock.node.roles.aggregate import helper_app
from tests.unit.dap_http import TOKENS, free_socket, serving, table
from tests.unit.dap_stores import Stores
from tests.unit.dap_world import PRECISION, World, bits
from tests.unit.test_dap_fates import fates, standings

LAG_S = LEEWAY_US // MICROSECONDS + 200  # the hour has begun at the leader, and is too far ahead for the helper
AGAIN_S = AGAIN_US // MICROSECONDS


def behind(world: World, seconds: int = LAG_S) -> World:
    """The same deployment, with a helper whose clock is so far behind."""
    world.helper_clock = ManualClock(world.clock.now_us() - seconds * MICROSECONDS)
    world.restart()
    return world


@pytest.fixture
def world(tmp_path: Path, stores: Stores) -> Iterator[World]:
    found = behind(World(tmp_path, stores=stores))
    yield found
    found.close()


def pass_by(world: World, seconds: float) -> None:
    world.clock.advance(seconds)
    world.helper_clock.advance(seconds)


def three(world: World, *more: int) -> list[Report]:
    found = [world.report(bits(0, place)) for place in (1, 2, 2, *more)]
    assert world.upload(*found, member=None) == []
    return found


def answers(world: World) -> list[set[ReportError | None]]:
    """What the helper has said of each job that it was sent and still knows, in their order."""
    places = [body for url, body in world.post.sent if url.endswith("/aggregation_jobs")]
    told = [world.helper.process_aggregation_init(world.task.task_id, body).body for body in places]
    return [{r.error for r in AggregationJobResp.decode(body).responses} for body in told]


def test_a_report_that_is_ahead_of_the_leaders_clock_waits_there_until_its_bucket_begins(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.clock.advance(PRECISION)
    ahead = world.report(bits(1))
    world.clock.advance(-200)
    assert world.upload(ahead, member="acme") == []
    world.drive()
    assert (standings(world, ahead), world.post.sent) == ([Standing.WAITING], [])
    world.clock.advance(200)
    world.drive()
    assert standings(world, ahead) == [Standing.AGGREGATED]
    world.close()


def test_what_is_too_early_for_the_helper_is_sent_again_and_counts_once_it_is_in_time(world: World) -> None:
    three(world)
    pending = world.collector.ask(world.hour())
    assert isinstance(pending, Pending)
    world.drive()
    assert len(world.post.sent) == 1
    assert world.leader_store.states(world.task.task_id).taken == 3, "they wait, and their batch with them"
    assert isinstance(world.collector.poll(pending), Pending)
    for _ in range(LAG_S // AGAIN_S):
        pass_by(world, AGAIN_S)
        world.drive()
    found = world.collect()
    assert (found.report_count, found.sums[:3]) == (3, (3, 1, 2))
    assert len({body for _, body in world.post.sent[:-1]}) == 1, "the same bytes, each time judged anew"
    assert len(world.post.deleted) == len(world.post.sent[:-1]) - 1


def test_nothing_is_sent_again_before_a_minute_is_over(world: World) -> None:
    three(world)
    world.drive()
    pass_by(world, AGAIN_S - 1)
    world.drive()
    assert len(world.post.sent) == 1
    pass_by(world, 1)
    world.drive()
    assert len(world.post.sent) == 2


def test_of_a_job_with_other_reports_only_those_that_are_too_early_are_sent_again(world: World) -> None:
    world.clock.advance(-PRECISION)
    past = three(world, 5)
    world.clock.advance(PRECISION)
    early = three(world)
    world.drive()
    first = AggregationJobInitReq.decode(world.post.sent[0][1])
    assert len(first.inits) == 7
    assert world.leader_store.states(world.task.task_id).aggregated == len(past)
    assert world.post.deleted == [], "the helper has committed some of it"
    pass_by(world, LAG_S)
    world.drive()
    later = AggregationJobInitReq.decode(world.post.sent[1][1])
    assert later.inits == tuple(i for i in first.inits if i.share.metadata.time == early[0].metadata.time)
    assert world.collect().report_count == 3
    assert world.collect(world.hour(1)).report_count == 4


def test_a_helper_that_stays_behind_is_believed_after_a_while(world: World) -> None:
    early = world.report(bits(1))
    world.upload(early, member="acme")
    for _ in range(PATIENCE_US // AGAIN_US - 1):
        world.clock.advance(AGAIN_S)  # its own stands still
        world.driver.drive_once()
    assert standings(world, early) == [Standing.IN_JOB]
    world.clock.advance(AGAIN_S)
    world.drive()
    (fate,) = fates(world, early)
    assert (fate.standing, fate.error) == (Standing.REJECTED, ReportError.REPORT_TOO_EARLY)
    assert (fate.side, fate.step) == (Role.HELPER, Step.INIT)
    sent = len(world.post.sent)
    world.clock.advance(PRECISION)
    world.drive()
    assert len(world.post.sent) == sent


def test_a_leader_that_dies_in_between_loses_nothing_and_counts_nothing_twice(world: World) -> None:
    three(world)
    world.drive()
    world.restart()
    pass_by(world, AGAIN_S)
    world.drive()
    world.restart()
    pass_by(world, LAG_S)
    found = world.collect()
    assert (found.report_count, found.sums[:3]) == (3, (3, 1, 2))


def test_a_word_of_deletion_that_is_lost_only_costs_another_try(world: World) -> None:
    three(world)
    delete, world.helper.delete_aggregation_job = world.helper.delete_aggregation_job, lambda *_: None  # type: ignore[method-assign]
    world.drive()
    world.helper.delete_aggregation_job = delete  # type: ignore[method-assign]
    pass_by(world, LAG_S)
    world.drive()
    assert world.leader_store.states(world.task.task_id).taken == 3, "answered from what was stored"
    pass_by(world, AGAIN_S)
    assert world.collect().report_count == 3


def test_a_batch_that_the_leader_selects_keeps_the_place_of_an_early_report(tmp_path: Path, stores: Stores) -> None:
    world = behind(World(tmp_path, batch_mode=LEADER_SELECTED, stores=stores))
    three(world)
    world.drive()
    pass_by(world, LAG_S)
    found = world.collect_next()
    assert (found.report_count, found.sums[:3]) == (3, (3, 1, 2))
    world.close()


def test_a_job_of_which_anything_was_judged_is_never_forgotten_by_a_helper(world: World) -> None:
    """Deletion of a job must not take what replays are refused by (draft, 4.5.5): here its answer and its reports."""
    pass_by(world, LAG_S)
    world.helper_clock.advance(LAG_S)
    three(world)
    world.drive()
    body = world.post.sent[0][1]
    place = world.helper.process_aggregation_init(world.task.task_id, body)
    assert from_b64url(place.place.rsplit("/", 1)[1], 16) == place.id
    world.post("DELETE", place.place)
    assert answers(world) == [{None}]
    assert world.helper.process_aggregation_init(world.task.task_id, body) == place
    assert world.collect().report_count == 3


def test_over_http_a_deleted_job_of_early_reports_is_judged_anew_and_any_other_is_what_it_was(tmp_path: Path) -> None:
    world = behind(World(tmp_path))
    three(world)
    world.drive()
    body, sock, exchange = world.post.sent[0][1], free_socket(), HttpExchange(TOKENS["leader"])
    base = f"http://127.0.0.1:{sock.getsockname()[1]}"
    jobs = f"{base}/tasks/{to_b64url(world.task.task_id)}/aggregation_jobs"
    seen = []
    with serving(helper_app(world.helper, leaders=table("leader")), sock):
        for _ in range(2):
            for _ in range(2):
                reply = exchange("POST", jobs, media_type("aggregation-job-init-req"), body)
                seen.append({r.error for r in AggregationJobResp.decode(reply.body).responses})
                place = base + reply.location.removeprefix("/dap")
                assert exchange("DELETE", place).status == 204
            pass_by(world, LAG_S)
        assert exchange("GET", f"{place}?step=0").body == reply.body
    exchange.close()
    assert seen == [{ReportError.REPORT_TOO_EARLY}] * 2 + [{None}] * 2
    world.close()
