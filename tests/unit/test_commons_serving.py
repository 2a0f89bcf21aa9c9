"""The roles around the commons: static files, the mirror's loop, the member's loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Never

import pytest
from starlette.types import ASGIApp, Message

from interlock.base.errors import InterlockError
from interlock.base.fetch import NotFound, Unreachable
from interlock.commons import installed
from interlock.commons.logged import LogFetcher
from interlock.commons.mirror import Mirror
from interlock.commons.subscribe import Update
from interlock.node.roles import commons as commons_role
from interlock.node.roles import mirror as mirror_role
from interlock.node.roles import monitor as monitor_role
from interlock.node.roles.follow import follow
from interlock.node.roles.static import CHANGING, IMMUTABLE
from tests.unit.commons_world import World, pack, world


@pytest.fixture
def commons(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        made.publisher.publish(pack(), "stable")
        yield made


@dataclass
class Answer:
    """What an application answered."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


def ask(app: ASGIApp, path: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> Answer:
    """One request straight into an application, its path as it stands: no client tidies it up first."""
    answer = Answer()

    messages: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await asyncio.Event().wait()  # the client stays until it is answered
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        else:
            answer.body += message.get("body", b"")

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(k.lower().encode(), v.encode()) for k, v in (headers or {}).items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    asyncio.run(app(scope, receive, send))  # type: ignore[arg-type]  # Starlette's are coroutines
    return answer


class Served:
    """A Fetcher over an application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def fetch(self, path: str, *, max_length: int) -> bytes:
        answer = ask(self._app, f"/{path}")
        if answer.status == 404:
            raise NotFound("is not there", where=path)
        assert answer.status == 200
        assert len(answer.body) <= max_length
        return answer.body


def test_a_member_follows_a_served_mirror(commons: World) -> None:
    mirror = commons.mirror()
    mirror.copy()
    served = Served(mirror_role.app(mirror))
    node = commons.member("node", fetcher=served, log=LogFetcher(served))
    node.subscribe("team", "stable")
    assert node.update().rows[0].sha256 == pack().digest


def test_what_changes_in_place_is_not_cached_and_the_rest_is_for_good(commons: World) -> None:
    mirror = commons.mirror()
    mirror.copy()
    app = mirror_role.app(mirror)
    for path in ("/metadata/timestamp.json", "/log/checkpoint"):
        assert ask(app, path).headers["cache-control"] == CHANGING
    target = f"/targets/packs/stable/team/{pack().digest}.1.json"
    for path in ("/metadata/1.root.json", f"/log/tile/0/000.p/{commons.log.log.size}", target):
        answer = ask(app, path)
        assert answer.status == 200
        assert answer.headers["cache-control"] == IMMUTABLE


def test_whoever_has_the_newest_is_told_so_and_sent_nothing(commons: World) -> None:
    mirror = commons.mirror()
    mirror.copy()
    app = mirror_role.app(mirror)
    for path in ("/metadata/timestamp.json", "/log/checkpoint"):
        first = ask(app, path)
        for sent in (first.headers["etag"], f'"x", W/{first.headers["etag"]}', "*"):
            again = ask(app, path, headers={"If-None-Match": sent})
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", first.headers["etag"])
        assert ask(app, path, headers={"If-None-Match": '"another"'}).body == first.body
    tag = ask(app, "/metadata/timestamp.json").headers["etag"]
    commons.publisher.publish(pack(2), "stable")
    mirror.copy()
    changed = ask(app, "/metadata/timestamp.json", headers={"If-None-Match": tag})
    assert changed.status == 200
    assert changed.headers["etag"] != tag


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/journal.json",
        "/keys/stable.key",
        "/metadata",
        "/metadata/",
        "/metadata/../keys/stable.key",
        "/metadata/../../keys/stable.key",
        "/metadata/\\..\\keys",
        "/metadata//etc/passwd",
        "/metadata/.hidden",
        "/metadata/link.json",
        "/metadata/1.root.json/",
        "/metadata/1.root.json\x00",
        "/targets/packs",
        "/targets/packs/stable/",
    ],
)
def test_nothing_but_the_public_files_is_served(commons: World, path: str) -> None:
    (commons.public / "metadata" / ".hidden").write_text("x")
    (commons.public / "metadata" / "link.json").symlink_to(commons.home / "commons" / "keys" / "stable.key")
    assert ask(commons_role.app(commons.public), path).status == 404


def test_the_commons_takes_no_writes(commons: World) -> None:
    for method in ("POST", "PUT", "DELETE"):
        assert ask(commons_role.app(commons.public), "/metadata/timestamp.json", method).status == 405


class Once(threading.Event):
    """A stop that lets a loop run a number of turns, and waits for nothing."""

    def __init__(self, turns: int) -> None:
        super().__init__()
        self.turns = turns
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        self.turns -= 1
        if self.turns <= 0:
            self.set()
        return self.is_set()


def test_a_member_s_loop_goes_on_after_trouble(commons: World, caplog: pytest.LogCaptureFixture) -> None:
    node = commons.member("node")
    node.subscribe("team", "stable")
    node.update()
    commons.clock.advance(25 * 3600)
    updates: list[Update] = []
    troubles: list[InterlockError] = []

    def renew(error: InterlockError) -> None:
        troubles.append(error)
        commons.publisher.renew()
        commons.publisher.publish(pack(2), "stable")

    follow(node, Once(3), on_update=updates.append, on_trouble=renew)
    assert [t.code for t in troubles] == ["stale"]
    assert [len(u.changed) for u in updates] == [1, 0]
    assert "last good policy stays" in caplog.text
    assert installed.load(commons.home / "node", "team", "stable").rules


def test_a_mirror_s_loop_keeps_its_copy_when_the_commons_is_away(
    commons: World, caplog: pytest.LogCaptureFixture
) -> None:
    mirror = commons.mirror()
    mirror_role.keep_copying(mirror, Once(1))
    commons.public.rename(commons.public.with_name("away"))
    mirror_role.keep_copying(mirror, Once(2))
    assert "mirror keeps its last copy" in caplog.text
    assert (mirror.public / "metadata" / "timestamp.json").exists()
    commons.public.with_name("away").rename(commons.public)
    assert isinstance(mirror, Mirror)
    assert mirror.copy().new_files == 0


class Broken:
    """A mirror, monitor, publisher and subscriber that fails as nobody foresaw."""

    def __init__(self) -> None:
        self.turns = 0

    def fail(self, *_: object) -> Never:
        self.turns += 1
        raise RecursionError("deep\nand deeper")

    copy = look = due = update = fail


@pytest.mark.parametrize("loop", ["mirror", "monitor", "commons", "follow"])
def test_no_error_that_nobody_foresaw_ends_a_loop(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    broken: Any = Broken()
    loops: dict[str, Callable[[], None]] = {
        "mirror": lambda: mirror_role.keep_copying(broken, Once(3)),
        "monitor": lambda: monitor_role.keep_looking(broken, Once(3), every_s=1),
        "commons": lambda: commons_role.keep_fresh(broken, Once(3)),
        "follow": lambda: follow(broken, Once(3)),
    }
    loops[loop]()
    assert broken.turns == 3
    assert "a fault of interlock: RecursionError in tests.unit.test_commons_serving" in caplog.text
    assert "deeper" not in caplog.text


def test_the_commons_renews_itself_before_its_timestamp_ends(commons: World, caplog: pytest.LogCaptureFixture) -> None:
    before = commons.publisher.steps.repository.versions()["timestamp"]
    commons_role.keep_fresh(commons.publisher, Once(2))
    assert commons.publisher.steps.repository.versions()["timestamp"] == before
    commons.clock.advance(commons_role.RENEW_EVERY_S)
    commons_role.keep_fresh(commons.publisher, Once(2))
    assert commons.publisher.steps.repository.versions()["timestamp"] == before + 1
    commons.clock.advance(commons_role.RENEW_EVERY_S)
    (commons.home / "commons" / "keys" / "timestamp.key").write_text("{}")
    stop = Once(9)
    commons_role.keep_fresh(commons.publisher, stop)
    assert stop.waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert "commons not renewed" in caplog.text


def test_a_commons_that_starts_before_its_log_is_renewed_soon_after_the_log_is_there() -> None:
    class Starting:
        turns = 0

        def due(self, after_s: float) -> bool:
            self.turns += 1
            return self.turns <= 3 or self.turns == 5

        def renew(self) -> None:
            if self.turns != 3:
                raise Unreachable("does not answer", where="the log")

    stop, publisher = Once(5), Starting()
    commons_role.keep_fresh(publisher, stop)  # type: ignore[arg-type]
    assert stop.waits == [1, 2, commons_role.RENEW_EVERY_S, commons_role.RENEW_EVERY_S, 1]
