"""Several mirrors of one commons: one that withholds, lags or lies stops nobody; a log with two histories stops all."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.errors import BadInput
from interlock.base.fetch import DirectoryFetcher, NotFound, Unreachable
from interlock.commons.subscribe import Subscriber
from interlock.commons.turns import InTurn, mirrors_of
from interlock.transparency.follow import Rollback, SplitView
from interlock.transparency.log import open_log
from interlock.transparency.note import NoteSigner
from tests.unit.commons_world import ORIGIN, TestLog, World, pack, seed, world


class Mirror:
    """A mirror's files, counted; it may be away, lack a file, or serve other bytes."""

    def __init__(self, public: Path) -> None:
        self.fetcher = DirectoryFetcher(public)
        self.asked = 0
        self.away = False
        self.instead: dict[str, bytes | None] = {}

    def fetch(self, path: str, *, max_length: int) -> bytes:
        self.asked += 1
        if self.away:
            raise Unreachable("does not answer", where=path)
        if path in self.instead:
            data = self.instead[path]
            if data is None:
                raise NotFound("is not there", where=path)
            return data
        return self.fetcher.fetch(path, max_length=max_length)


class Two:
    """A commons with two mirrors, and a node that reads them in turn."""

    def __init__(self, commons: World) -> None:
        self.commons = commons
        self.copies = [commons.mirror(name) for name in ("one", "two")]
        self.publish(1)
        self.first, self.second = (Mirror(copy.public) for copy in self.copies)
        home = commons.home / "node"
        commons.member("node")
        self.node = Subscriber(home, InTurn([self.first, self.second]), commons.clock)
        self.node.subscribe("team", "canary")

    def publish(self, version: int, *, to: tuple[int, ...] = (0, 1)) -> None:
        self.commons.publisher.publish(pack(version), "canary")
        for i in to:
            self.copies[i].copy()

    def version(self) -> int:
        return self.node.update().rows[0].version


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    with world(tmp_path) as commons:
        yield Two(commons)


def test_one_mirror_is_asked_while_it_serves(two: Two) -> None:
    assert two.version() == 1
    assert two.second.asked == 0


def test_the_next_is_asked_where_one_does_not_answer_and_stays_the_first_to_be_asked(two: Two) -> None:
    two.first.away = True
    assert two.version() == 1
    asked = two.first.asked
    two.publish(2)
    assert two.version() == 2
    assert two.first.asked == asked


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("metadata/timestamp.json", b"{}"),
        ("metadata/timestamp.json", None),
        ("log/checkpoint", b"log.example/packs\n1\n\n"),
        ("log/checkpoint", None),
        (f"targets/packs/canary/team/{pack(2).digest}.2.json", pack(1).data),
        (f"targets/packs/canary/team/{pack(2).digest}.2.json", None),
    ],
)
def test_the_next_is_asked_where_what_one_serves_is_refused(two: Two, name: str, data: bytes | None) -> None:
    assert two.version() == 1
    two.publish(2)
    two.first.instead[name] = data
    assert two.version() == 2


def test_a_mirror_that_lags_behind_what_was_seen_is_passed_over(two: Two) -> None:
    two.publish(2, to=(1,))
    two.first.away = True
    assert two.version() == 2
    two.first.away = False
    two.second.away = True
    with pytest.raises(Rollback):
        two.node.update()
    two.publish(3, to=(0,))
    assert two.version() == 3


def test_where_all_are_refused_what_was_in_force_stays(two: Two) -> None:
    assert two.version() == 1
    before = (two.commons.home / "node" / "live.json").read_bytes()
    two.first.away = two.second.away = True
    with pytest.raises(Unreachable):
        two.node.update()
    assert (two.commons.home / "node" / "live.json").read_bytes() == before


def test_two_histories_are_never_passed_over(two: Two, tmp_path: Path) -> None:
    assert two.version() == 1
    with open_log(tmp_path / "fork", NoteSigner(ORIGIN, seed("log"))) as fork:
        forked = TestLog(fork, tmp_path / "fork", two.commons.clock)
        for i in range(two.commons.log.log.size + 1):
            forked.append(b"another history %d" % i)
        for path in forked.public.rglob("*"):
            if path.is_file():
                two.first.instead[f"log/{path.relative_to(forked.public)}"] = path.read_bytes()
        asked = two.second.asked
        with pytest.raises(SplitView):
            two.node.update()
    assert two.second.asked == asked


def test_a_setting_names_mirrors_with_blanks_between(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").write_bytes(b"here")
    mirrors = mirrors_of(f"file://{tmp_path}/a  file://{tmp_path}/b")
    assert mirrors.whole(lambda: mirrors.fetch("x", max_length=9)) == b"here"
    with pytest.raises(BadInput, match="names no place"):
        mirrors_of(" ")
    with pytest.raises(ValueError, match="needs a mirror"):
        InTurn([])


def test_a_mirror_behind_a_unix_socket_is_read_like_any_other(tmp_path: Path) -> None:
    place = tmp_path / "mirror.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen(1)
        answering = threading.Thread(target=_answer_once, args=(listening,))
        answering.start()
        mirrors = mirrors_of(f"file://{tmp_path}/nobody unix://{place}")
        assert mirrors.whole(lambda: mirrors.fetch("checkpoint", max_length=9)) == b"here"
        answering.join(10)


def _answer_once(listening: socket.socket) -> None:
    listening.settimeout(10)
    connection, _ = listening.accept()
    with connection:
        assert connection.recv(4096).startswith(b"GET /checkpoint HTTP/1.1\r\n")
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nhere")
