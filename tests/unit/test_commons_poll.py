"""A poll without news is three requests; many members on one static mirror are current within one poll.

bench/poll.py prints what a poll costs, with 20,000 targets and 1,000 members.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bench.poll import Poll, all_current, fill, polled, served
from interlock.base.fetch import KEPT, KEPT_BYTES, HttpFetcher, NotFound, TooLarge, Unreachable
from interlock.commons import bins
from interlock.commons.logged import LogFetcher
from tests.unit.commons_world import World, pack, world


@pytest.fixture
def commons(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        made.publisher.publish(pack(), "stable")
        yield made


class Site:
    """Files behind URLs, with entity tags; notes what was asked for and what the answer was."""

    def __init__(self, *mounts: tuple[str, Path]) -> None:
        self.files: dict[str, bytes] = {}
        self.headers: dict[str, str] = {}
        self.mounts = mounts
        self.asked: list[tuple[str, int]] = []
        self.client = httpx.Client(transport=httpx.MockTransport(self._answer))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.lstrip("/")
        response = self._found(path, request.headers.get("If-None-Match", ""))
        self.asked.append((path, response.status_code))
        return response

    def _found(self, path: str, known: str) -> httpx.Response:
        data = self.files.get(path)
        for prefix, root in self.mounts:
            file = root / path.removeprefix(prefix)
            if data is None and path.startswith(prefix) and file.is_file():
                data = file.read_bytes()
        if data is None:
            return httpx.Response(404, content=b"not found\n")
        tag = f'"{hashlib.sha256(data).hexdigest()}"'
        if known == tag:
            return httpx.Response(304, headers={"ETag": tag})
        return httpx.Response(200, content=data, headers={"ETag": tag, **self.headers})


@pytest.mark.parametrize("binned", [False, True])
def test_a_poll_without_news_is_three_requests(commons: World, monkeypatch: pytest.MonkeyPatch, binned: bool) -> None:
    monkeypatch.setattr(bins, "GROWS_AT", 8)
    monkeypatch.setattr(bins, "_BITS", 2)
    fill(commons, 20, binned=binned)
    site = Site(("log/", commons.log.public), ("", commons.public))
    fetcher = HttpFetcher("http://mirror", site.client)
    node = commons.member("node", fetcher, LogFetcher(fetcher))
    node.subscribe("team", "stable")
    node.update()
    site.asked.clear()
    node.update()
    assert site.asked == [("metadata/2.root.json", 404), ("metadata/timestamp.json", 304), ("log/checkpoint", 304)]
    commons.publisher.publish(pack(2), "stable")
    assert node.update().rows[0].version == 2
    site.asked.clear()
    node.update()
    assert [status for _, status in site.asked] == [404, 304, 304]


def test_many_members_on_one_static_mirror_are_current_within_one_poll(commons: World) -> None:
    with served(commons.public, commons.log.public) as url:
        assert polled(commons, url, times=1).good
        assert all_current(commons, url, 8)[0] == 8


def test_a_poll_that_asked_for_more_is_not_good() -> None:
    assert Poll(1, 1, {404: 1, 304: 2}).good
    assert not Poll(1, 1, {404: 1, 304: 1, 200: 1}).good


def test_what_changed_is_sent_whole_and_what_did_not_is_not() -> None:
    site = Site()
    fetcher = HttpFetcher("http://h", site.client)
    site.files["a"] = b"one"
    assert [fetcher.fetch("a", max_length=9) for _ in range(2)] == [b"one", b"one"]
    site.files["a"] = b"two"
    assert fetcher.fetch("a", max_length=9) == b"two"
    assert site.asked == [("a", 200), ("a", 304), ("a", 200)]


def test_what_is_kept_is_no_way_around_a_limit_or_a_removal() -> None:
    site = Site()
    fetcher = HttpFetcher("http://h", site.client)
    site.files["a"] = b"one"
    fetcher.fetch("a", max_length=3)
    with pytest.raises(TooLarge):
        fetcher.fetch("a", max_length=2)
    del site.files["a"]
    with pytest.raises(NotFound):
        fetcher.fetch("a", max_length=3)


def test_large_answers_and_those_that_never_change_are_not_kept() -> None:
    site = Site()
    fetcher = HttpFetcher("http://h", site.client)
    site.files["large"] = b"x" * (KEPT_BYTES + 1)
    for _ in range(2):
        fetcher.fetch("large", max_length=1 << 20)
    site.headers = {"Cache-Control": "public, immutable"}
    site.files["fixed"] = b"x"
    for _ in range(2):
        fetcher.fetch("fixed", max_length=9)
    assert {status for _, status in site.asked} == {200}


def test_only_the_answers_that_were_used_last_are_kept() -> None:
    site = Site()
    fetcher = HttpFetcher("http://h", site.client)
    names = [str(i) for i in range(KEPT)]
    site.files = dict.fromkeys([*names, "more"], b"x")
    for name in [*names, "0", "more"]:
        fetcher.fetch(name, max_length=9)
    site.asked.clear()
    for name in ("0", "more", "1"):
        fetcher.fetch(name, max_length=9)
    assert [status for _, status in site.asked] == [304, 304, 200]


@pytest.mark.parametrize("tag", ['"\u00e9"', '"a b"', "bare", '"' + "x" * 300 + '"', "*"])
def test_a_tag_that_could_not_be_sent_back_as_it_came_is_not_kept(tag: str) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers.get("If-None-Match", ""))
        return httpx.Response(200, content=b"one", headers=[(b"ETag", tag.encode("latin-1"))])

    fetcher = HttpFetcher("http://h", httpx.Client(transport=httpx.MockTransport(answer)))
    assert [fetcher.fetch("a", max_length=9) for _ in range(2)] == [b"one", b"one"]
    assert asked == ["", ""]


def test_a_server_that_says_unchanged_of_what_was_never_asked_for_with_a_tag_has_not_answered() -> None:
    client = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(304, headers={"ETag": '"a"'})))
    with pytest.raises(Unreachable, match="304"):
        HttpFetcher("http://h", client).fetch("a", max_length=9)


def test_the_tags_of_one_mirror_are_not_shown_to_another() -> None:
    east, west = Site(), Site()
    east.files["a"] = west.files["a"] = b"one"
    for site in (east, west):
        HttpFetcher("http://h", site.client).fetch("a", max_length=9)
    assert east.asked == west.asked == [("a", 200)]


def test_a_connection_that_the_server_closed_meanwhile_is_no_mirror_that_does_not_answer() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        if len(asked) == 1:
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        return httpx.Response(200, content=b"one")

    fetcher = HttpFetcher("http://h", httpx.Client(transport=httpx.MockTransport(answer)))
    assert fetcher.fetch("a", max_length=9) == b"one"
    assert asked == ["/a", "/a"]


def test_a_server_that_closes_each_connection_unanswered_does_not_answer() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        raise httpx.RemoteProtocolError("Server disconnected without sending a response.")

    with pytest.raises(Unreachable):
        HttpFetcher("http://h", httpx.Client(transport=httpx.MockTransport(answer))).fetch("a", max_length=9)
    assert asked == ["/a", "/a"]
