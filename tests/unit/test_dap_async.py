"""A helper that answers later: the leader looks where it was told, when it was told, and loses nothing on the way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from interlock.base.clock import ManualClock
from interlock.base.fetch import Unreachable
from interlock.dap.asking import Asking
from interlock.dap.collector import Pending
from interlock.dap.messages import media_type, message_of
from interlock.dap.problems import MEDIA_TYPE, DapProblem, ProblemType
from interlock.dap.transport import Reply, place_of
from interlock.node.parties import HttpExchange
from tests.unit.dap_world import World, bits

URL = "https://helper.test/dap/tasks/T/aggregation_jobs"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def deferred(seconds: int, location: str | None = None) -> Callable[[Reply], Reply]:
    """What a helper that is not ready answers to anything."""

    def answer(reply: Reply) -> Reply:
        place = f"{reply.location}?step=0" if location is None else location
        return dataclasses.replace(reply, status=200, media_type="", body=b"", location=place, retry_after=seconds)

    return answer


def three(world: World) -> None:
    assert world.upload(*(world.report(bits(0, i)) for i in (1, 2, 2))) == []


def test_a_job_is_posted_once_and_then_looked_at_when_its_time_has_come(world: World) -> None:
    three(world)
    world.post.after = deferred(30)
    world.drive()
    assert (len(world.post.sent), world.post.looked) == (1, []), "not before its time"
    world.clock.advance(29)
    world.drive()
    assert world.post.looked == []
    world.clock.advance(1)
    world.drive()
    (place,) = world.post.looked
    assert place.startswith("https://helper.test/dap/tasks/")
    assert place.endswith("?step=0")
    world.post.after = lambda reply: reply
    world.clock.advance(30)
    assert world.collect().report_count == 3
    assert [url.rsplit("/", 1)[1] for url, _ in world.post.sent] == ["aggregation_jobs", "aggregate_shares"]


def test_an_aggregate_share_is_waited_for_in_the_same_way(world: World) -> None:
    three(world)
    world.drive()
    pending = world.collector.ask(world.hour())
    assert isinstance(pending, Pending)
    world.post.after = lambda reply: dataclasses.replace(reply, body=b"", retry_after=7)
    world.drive()
    assert isinstance(world.collector.poll(pending), Pending)
    world.post.after = lambda reply: reply
    world.drive()
    assert isinstance(world.collector.poll(pending), Pending), "not before its time"
    world.clock.advance(7)
    world.drive()
    found = world.collector.poll(pending)
    assert not isinstance(found, Pending)
    assert found.report_count == 3
    assert len(world.post.sent) == 2
    assert "/aggregate_shares/" in world.post.looked[-1]


def test_after_a_restart_the_same_bytes_find_the_job_again(world: World) -> None:
    three(world)
    world.post.after = deferred(30)
    world.drive()
    first = world.post.sent
    world.restart()
    world.clock.advance(30)
    assert world.collect().report_count == 3
    assert world.post.sent[0] == first[0]


def test_a_job_that_the_helper_lost_is_made_again(world: World) -> None:
    three(world)
    world.post.after = deferred(1)
    world.drive()
    gone = DapProblem(ProblemType.UNRECOGNIZED_AGGREGATION_JOB, "gone")
    world.post.after = lambda _: Reply(404, MEDIA_TYPE, gone.document())
    world.clock.advance(1)
    world.drive()
    assert world.leader_store.states(world.task.task_id).taken == 3
    world.post.after = lambda reply: reply
    assert world.collect().report_count == 3
    assert len({body for url, body in world.post.sent if url.endswith("aggregation_jobs")}) == 1


def test_a_deferred_job_that_fails_in_the_end_is_abandoned(world: World) -> None:
    three(world)
    world.post.after = deferred(1)
    world.drive()
    refused = DapProblem(ProblemType.INVALID_MESSAGE, "no").document()
    world.post.after = lambda _: Reply(400, MEDIA_TYPE, refused)
    world.clock.advance(1)
    world.drive()
    assert world.leader_store.states(world.task.task_id).rejected == 3


def test_an_answer_that_was_spoilt_on_its_way_is_asked_for_again(world: World) -> None:
    three(world)
    world.post.after = lambda reply: dataclasses.replace(reply, body=reply.body[:-1])
    world.drive(2)
    assert world.leader_store.states(world.task.task_id).taken == 3
    world.post.after = lambda reply: reply
    assert world.collect().report_count == 3
    assert len({body for url, body in world.post.sent if url.endswith("aggregation_jobs")}) == 1


def test_an_answer_that_is_spoilt_each_time_abandons_its_job_and_no_other(tmp_path: Path) -> None:
    world = World(tmp_path, job_size=1)
    assert world.upload(*(world.report(bits(i)) for i in range(3))) == []
    world.drive(1)
    assert world.leader_store.states(world.task.task_id).aggregated == 3
    assert world.upload(world.report(bits(5))) == []
    world.post.after = lambda reply: dataclasses.replace(reply, body=b"?")
    world.drive(3)
    world.post.after = lambda reply: reply
    assert world.upload(world.report(bits(6))) == []
    world.drive(1)
    states = world.leader_store.states(world.task.task_id)
    assert (states.aggregated, states.rejected, states.taken) == (4, 1, 0)
    world.close()


def test_an_abandoned_job_is_deleted_at_the_helper(world: World) -> None:
    three(world)
    world.post.after = lambda reply: dataclasses.replace(reply, body=reply.body + b"\x00")
    world.drive()
    assert world.leader_store.states(world.task.task_id).rejected == 3
    (place,) = world.post.deleted
    assert "/aggregation_jobs/" in place


@pytest.mark.parametrize("kind", [b"\x01", b"\x02\x63", b"\x07"])
def test_an_answer_that_does_not_fit_the_leaders_state_abandons_the_job(world: World, kind: bytes) -> None:
    three(world)
    world.post.after = lambda reply: dataclasses.replace(reply, body=reply.body[:16] + kind)
    world.drive()
    assert world.leader_store.states(world.task.task_id).rejected == 3


def test_a_helper_that_sends_us_elsewhere_gets_no_request_and_loses_no_report(world: World) -> None:
    three(world)
    for location in ("https://elsewhere.test/x", "//elsewhere.test/x", "http://helper.test/x", "//[", ""):
        world.post.after = deferred(1, location)
        world.drive()
        world.clock.advance(1)
    assert world.post.looked == []
    assert world.leader_store.states(world.task.task_id).taken == 3
    world.post.after = lambda reply: reply
    assert world.collect().report_count == 3


def test_many_jobs_that_are_deferred_stop_no_other(tmp_path: Path) -> None:
    world = World(tmp_path, job_size=1)
    assert world.upload(*(world.report(bits(i % 16)) for i in range(12))) == []
    world.post.after = deferred(60)
    world.drive(2)
    assert len(world.post.sent) == 12
    world.post.after = lambda reply: reply
    assert world.upload(world.report(bits(1))) == []
    world.drive(2)
    assert world.leader_store.states(world.task.task_id).aggregated == 1, "the newest job does not wait for the others"
    world.clock.advance(60)
    world.drive(4)
    assert world.leader_store.states(world.task.task_id).aggregated == 13
    world.close()


class Line:
    """A line that answers what it is told, and remembers what it was asked."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.asked: list[tuple[str, str]] = []

    def __call__(self, method: str, url: str, media_type: str = "", body: bytes = b"") -> Reply:
        self.asked.append((method, url))
        return self.replies.pop(0)


READY = Reply(200, media_type("aggregation-job-resp"), b"done")


def ask(asking: Asking, key: bytes = b"k") -> bytes:
    return asking.ask(key, URL, "aggregation-job-init-req", b"body", "aggregation-job-resp", step=0).body


def test_a_wait_is_a_second_at_least_and_an_hour_at_most() -> None:
    for said, least in ((0, 1), (1, 1), (90, 90), (10**12, 3600)):
        clock = ManualClock()
        line = Line(Reply(202, location=f"{URL}/1", retry_after=said), READY)
        asking = Asking(line, clock)
        assert ask(asking) == b""
        clock.advance(least - 1)
        assert ask(asking) == b""
        assert len(line.asked) == 1
        clock.advance(1)
        assert ask(asking) == b"done"


@pytest.mark.parametrize(
    ("location", "looked_at"),
    [
        ("/dap/j/1", "https://helper.test/dap/j/1?step=0"),
        ("/dap/j/1?step=0", "https://helper.test/dap/j/1?step=0"),
        ("aggregation_jobs/1", f"{URL}/1?step=0"),
        (f"{URL}/1?a=b", f"{URL}/1?a=b&step=0"),
    ],
)
def test_a_place_is_what_the_server_says_with_the_step(location: str, looked_at: str) -> None:
    clock = ManualClock()
    line = Line(Reply(202, location=location), READY)
    asking = Asking(line, clock)
    assert ask(asking) == b""
    clock.advance(1)
    assert ask(asking) == b"done"
    assert line.asked == [("POST", URL), ("GET", looked_at)]


def test_what_is_remembered_of_servers_that_never_answer_is_bounded() -> None:
    clock = ManualClock()
    line = Line(*(Reply(202, location=f"{URL}/{i}") for i in range(5000)))
    asking = Asking(line, clock)
    for i in range(5000):
        assert ask(asking, i.to_bytes(4, "big")) == b""
    assert len(asking._waiting) == 4096


def test_a_place_on_another_server_is_refused() -> None:
    assert place_of(URL, "/x") == "https://helper.test/x"
    for location in ("", "https://helper.test:444/x", "http://helper.test/x", "//helper.test.evil/x", "https://["):
        with pytest.raises(Unreachable, match="no place of its own"):
            place_of(URL, location)


DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0),
        ({"retry-after": "120"}, 120),
        ({"retry-after": "9" * 5000}, 999_999_999),
        ({"retry-after": "-5"}, 0),
        ({"retry-after": "Sun, 06 Nov 1994 08:51:37 GMT", "date": DATE}, 120),
        ({"retry-after": "Sun, 06 Nov 1994 08:40:00 GMT", "date": DATE}, 0),
        ({"retry-after": "Sun, 06 Nov 1994 08:51:37 GMT"}, 0),
        ({"retry-after": "Sun, 06 Nov 1994 08:51:37 -0000", "date": DATE}, 0),
        ({"retry-after": "Sun, 06 Nov 99999 08:51:37 GMT", "date": DATE}, 0),
        ({"retry-after": "soon"}, 0),
    ],
)
def test_retry_after_is_seconds_or_a_date(headers: dict[str, str], seconds: int) -> None:
    client = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(202, headers=headers)))
    exchange = HttpExchange(client=client)
    assert exchange("GET", "https://helper.test/x").retry_after == seconds
    exchange.close()


@pytest.mark.parametrize(
    ("content_type", "message"),
    [
        ("application/ppm-dap;message=upload-req", "upload-req"),
        ('Application/PPM-DAP; Message="upload-req" ;version=19', "upload-req"),
        ("application/ppm-dap; version=18; message=upload-req", "upload-req"),
        ("application/ppm-dap", ""),
        ("application/ppm-dap;message=report", ""),
        ("application/ppm-dap;message=upload-req;message=upload-req", ""),
        ("application/ppm-dap;message=UPLOAD-REQ", ""),
        ("text/plain;message=upload-req", ""),
        ("", ""),
    ],
)
def test_a_media_type_is_read_as_http_writes_it(content_type: str, message: str) -> None:
    assert message_of(content_type) == message


def test_a_report_that_the_helper_never_answers_for_is_still_taken(world: World) -> None:
    three(world)
    world.post.after = deferred(3600)
    for _ in range(5):
        world.drive()
        world.clock.advance(3600)
    states = world.leader_store.states(world.task.task_id)
    assert (states.taken, states.rejected) == (3, 0)
