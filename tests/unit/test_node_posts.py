"""POSTs in few steps: whatever comes, and in whatever pieces, the answer is the one that the general way gives."""

from __future__ import annotations

import asyncio
import functools
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.config import Config
from uvicorn.server import ServerState

from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.fetch import HttpPoster, http_client
from interlock.node import http
from interlock.node.http import BadBody, Listen, body_of, serve
from interlock.node.posts import Begin, Head, Posts, protocol_of

LIMIT = 1000
FIELDS = ((b"content-type", b"text/plain; charset=utf-8"), (b"x-way", b"one"))


class Role:
    """Answers with what it was sent; a body may ask for a refusal, a fault, or to be held until `go`."""

    def __init__(self) -> None:
        self.general = 0
        self.begun = threading.Event()
        self.waiting: list[asyncio.Future[bytes]] = []

    def take(self, head: Head) -> Begin | None:
        if head.path == "/response":
            return functools.partial(self.respond, head.content_type)
        return functools.partial(self.begin, head.authorization) if head.path == "/add" else None

    def respond(self, content_type: str, body: bytes) -> asyncio.Future[Response]:
        """A whole response: what was sent, of the type that it was sent as."""
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        answer.set_result(Response(body, 201, {"location": "/there"}, content_type))
        return answer

    async def back(self, request: Request) -> Response:
        self.general += 1
        return await self.respond(request.headers.get("content-type", ""), await body_of(request, LIMIT))

    def begin(self, authorization: str | None, body: bytes) -> asyncio.Future[bytes]:
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if body.startswith(b"refuse"):
            raise Malformed("is refused")
        if body == b"fault":
            raise KeyError(body)
        if body == b"fail later":
            answer.set_exception(Malformed("failed later"))
        elif body == b"wait":
            self.waiting.append(answer)
            self.begun.set()
        else:
            answer.set_result(f"{authorization} ".encode() + body)
        return answer

    def go(self) -> None:
        for answer in self.waiting:
            answer.get_loop().call_soon_threadsafe(answer.set_result, b"waited")

    async def add(self, request: Request) -> Response:
        self.general += 1
        body = await body_of(request, LIMIT)
        answer = await self.begin(request.headers.get("authorization"), body)
        return Response(answer, headers={name.decode(): value.decode() for name, value in FIELDS})


def refused(e: InterlockError) -> Response:
    status = e.status if isinstance(e, BadBody) else 400
    return PlainTextResponse(e.what + "\n", status_code=status, headers={"X-Refused": "yes"})


@contextmanager
def served(*, posts: bool) -> Iterator[tuple[Role, int, threading.Event, threading.Thread]]:
    role = Role()
    app = Starlette(
        routes=[Route("/add", role.add, methods=["POST"]), Route("/response", role.back, methods=["POST"])],
        exception_handlers={InterlockError: lambda _request, e: refused(e)},
    )
    if posts:
        app.state.posts = Posts(role.take, LIMIT, refused, FIELDS)
    stop, up, urls = threading.Event(), threading.Event(), list[str]()

    def ready(url: str) -> None:
        urls.append(url)
        up.set()

    running = threading.Thread(target=lambda: serve(app, Listen(), ready=ready, stop=stop), daemon=True)
    running.start()
    assert up.wait(10)
    try:
        yield role, int(urls[0].rsplit(":", 1)[1]), stop, running
    finally:
        stop.set()
        running.join(10)


@pytest.fixture(scope="module")
def quick() -> Iterator[tuple[Role, int]]:
    with served(posts=True) as (role, port, _, _):
        yield role, port


@pytest.fixture(scope="module")
def general() -> Iterator[int]:
    with served(posts=False) as (_, port, _, _):
        yield port


def post(body: bytes, *fields: bytes, target: bytes = b"/add") -> bytes:
    rows = [b"POST %b HTTP/1.1" % target, b"Host: h", *fields, b"Content-Length: %d" % len(body)]
    return b"\r\n".join(rows) + b"\r\n\r\n" + body


Answer = tuple[bytes, list[bytes], bytes]  # status, fields, body


LAST = post(b"the last one", b"Connection: close")


def answers(port: int, pieces: Sequence[bytes], last: bytes = LAST) -> tuple[list[Answer], bool]:
    """All that a server answers to these bytes and one last request; whether it cut the connection off before that."""
    whole, cut = b"", False
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for piece in filter(None, [*pieces, last]):
                sock.sendall(piece)
            while part := sock.recv(1 << 16):
                whole += part
        except (ConnectionResetError, BrokenPipeError):
            cut = True  # it closed before it had read all, and then TCP may lose what it had answered
    found = list(_taken_apart(whole))
    return (found[:-1] if cut else found), cut


def to_the_end(sock: socket.socket) -> bytes:
    whole = b""
    while part := sock.recv(1 << 16):
        whole += part
    return whole


def until(sock: socket.socket, last: bytes) -> None:
    whole = b""
    while not whole.endswith(last):
        whole += (part := sock.recv(1 << 16))
        assert part, "it was cut off"


def _taken_apart(data: bytes) -> Iterator[Answer]:
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        status, *rows = head.split(b"\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        size = len(rest) if length is None else int(length[1])
        if b"Invalid HTTP request received." in rest[:size]:  # h11's own refusal, which it frames by its history
            rows, size = [], len(rest)
        yield status, sorted(row for row in rows if not row.startswith(b"date: ")), rest[:size] if rows else b""
        data = rest[size:]


plain = st.sampled_from(
    [
        post(b"one"),
        post(b"two", b"Authorization: Bearer x"),
        post(b"three", b"authorization:   Bearer x  ", b"Accept: */*", b"User-Agent: a b", b"Connection: keep-alive"),
        post(b"x" * LIMIT),
        post(b"refuse"),
        post(b"fail later"),
        post(b"back", b"Content-Type: text/csv", target=b"/response"),
    ]
)
odd = st.sampled_from(
    [
        post(b""),
        post(b"x" * (LIMIT + 1)),
        post(b"one", b"Transfer-Encoding: chunked"),
        b"POST /add HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n",
        post(b"one", b"Content-Length: 3"),
        post(b"one", b"Content-Length: 4"),
        post(b"one", b"Authorization: a", b"Authorization: b"),
        post(b"one", b"Host: other"),
        post(b"one", b"X-Unknown: yes"),
        post(b"one", b"Authorization: caf\xe9"),
        post(b"one", b"Authorization : x"),
        post(b"one", b" folded"),
        post(b"one", b"Connection: close"),
        post(b"one", b"Accept: " + b"a" * 5000),
        post(b"one", target=b"/add?x=1"),
        post(b"one", target=b"/other"),
        post(b"one").replace(b"Host: h\r\n", b""),
        post(b"one").replace(b"HTTP/1.1", b"HTTP/1.0"),
        post(b"one").replace(b"\r\n", b"\n"),
        post(b"one").replace(b"POST", b"GET"),
        post(b"one").replace(b"Content-Length: 3", b"Content-Length: +3"),
        post(b"one").replace(b"Content-Length: 3", b"Content-Length: 03"),
        b"\r\n" + post(b"one"),
        b"\x16\x03\x01 what is this\r\n\r\n",
    ]
)


@settings(max_examples=120, deadline=None)
@given(requests=st.lists(st.one_of(plain, plain, odd), min_size=1, max_size=4), data=st.data())
def test_in_any_pieces_requests_are_answered_as_the_general_way_answers_them(
    quick: tuple[Role, int], general: int, requests: list[bytes], data: st.DataObject
) -> None:
    # What comes after the last request of a connection is answered 400 or not at all, whichever way is faster.
    last = next((i for i, request in enumerate(requests) if b"close" in request or b"HTTP/1.0" in request), None)
    whole = b"".join(requests if last is None else requests[: last + 1])
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole)), max_size=4)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True) if a < b]
    more = LAST if last is None else b""
    (found, cut), (expected, also_cut) = answers(quick[1], pieces, more), answers(general, [whole], more)
    if cut or also_cut:
        found, expected = found[: len(expected)], expected[: len(found)]
    assert found == expected


def test_what_is_plain_goes_the_short_way_also_in_two_pieces_and_one_after_the_other(quick: tuple[Role, int]) -> None:
    role, port = quick
    before = role.general
    body = post(b"b", b"Authorization: Bearer x")
    more = [post(b"c") + post(b"d"), post(b"back", target=b"/response")]
    found, _ = answers(port, [post(b"a"), body[:-1], body[-1:], *more])
    said = [b"None a", b"Bearer x b", b"None c", b"None d", b"back", b"None the last one"]
    assert [body for _, _, body in found] == said
    assert role.general == before + 1  # the one that asked for the connection to be closed


def test_what_our_own_publisher_sends_goes_the_short_way(quick: tuple[Role, int]) -> None:
    role, port = quick
    before = role.general
    with http_client() as client:
        send = HttpPoster(f"http://127.0.0.1:{port}/add", max_length=LIMIT, token="t" * 16, client=client)
        assert [send(b"a"), send(b"b" * 900)] == [
            b"Bearer tttttttttttttttt a",
            b"Bearer tttttttttttttttt " + b"b" * 900,
        ]
    assert role.general == before


def test_a_fault_of_ours_is_answered_500_and_the_connection_closed(quick: tuple[Role, int]) -> None:
    with socket.create_connection(("127.0.0.1", quick[1]), timeout=10) as sock:
        sock.sendall(post(b"fault"))
        whole = to_the_end(sock)
    ((status, fields, said),) = _taken_apart(whole)
    assert status == b"HTTP/1.1 500 Internal Server Error"
    assert b"connection: close" in fields
    assert said == b"Internal Server Error"


def test_a_server_that_stops_answers_what_is_under_way_and_then_closes() -> None:
    with served(posts=True) as (role, port, stop, running):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
            sock.sendall(post(b"wait"))
            assert role.begun.wait(10)
            stop.set()
            running.join(0.5)
            assert running.is_alive()
            role.go()
            assert to_the_end(sock).endswith(b"\r\nconnection: close\r\n\r\nwaited")
        running.join(10)
        assert not running.is_alive()


def test_one_who_hangs_up_is_not_answered_and_harms_nobody() -> None:
    with served(posts=True) as (role, port, _, _):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
            sock.sendall(post(b"wait"))
            assert role.begun.wait(10)
        role.go()
        assert [said for _, _, said in answers(port, [post(b"a")])[0]] == [b"None a", b"None the last one"]


def test_a_body_that_does_not_come_in_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_S", 0.1)
    with served(posts=True) as (role, port, _, _):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
            sock.sendall(post(b"whole")[:-1])
            assert sock.recv(1 << 16).startswith(b"HTTP/1.1 400 ")
        assert role.general == 1


def test_a_connection_that_is_idle_for_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "KEEP_ALIVE_S", 1)
    with served(posts=True) as (role, port, _, _):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
            for _ in range(2):
                sock.sendall(post(b"a"))
                assert sock.recv(1 << 16).endswith(b"None a")
            assert sock.recv(1) == b""
        assert role.general == 0


def test_a_body_that_comes_slowly_is_waited_for_also_behind_an_answer_of_the_general_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "KEEP_ALIVE_S", 1)
    with served(posts=True) as (role, port, _, _), socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
        sock.sendall(post(b"one", b"X-Unknown: yes"))
        until(sock, b"None one")
        sock.sendall(post(b"two")[:-1])
        time.sleep(1.5)  # longer than a connection at rest is kept
        sock.sendall(post(b"two")[-1:])
        until(sock, b"None two")
        assert role.general == 1


class Wire(asyncio.Transport):
    """The other side of a protocol: what was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


def on_a_wire(role: Role) -> tuple[asyncio.Protocol, Wire]:
    app, wire = Starlette(), Wire()
    app.state.posts = Posts(role.take, LIMIT, refused, FIELDS)
    config = Config(app, log_config=None)
    config.load()
    found = protocol_of(app, 10)(config, ServerState(), {}, asyncio.get_running_loop())
    found.connection_made(wire)
    return found, wire


def test_what_comes_while_an_answer_goes_out_does_not_overtake_what_came_before() -> None:
    async def said() -> list[bytes]:
        role = Role()
        protocol, wire = on_a_wire(role)
        protocol.data_received(post(b"wait") + post(b"second"))
        role.waiting[0].set_result(b"first")
        await asyncio.sleep(0)  # the first is answered, and the second is about to be begun
        protocol.data_received(post(b"third"))
        for _ in range(9):
            await asyncio.sleep(0)
        return [said for _, _, said in _taken_apart(wire.written)]

    assert asyncio.run(said()) == [b"first", b"None second", b"None third"]


def test_no_piece_of_a_body_is_kept_as_it_was_received() -> None:
    # The buffer that a socket is read into may stay with its piece: that is a page of memory for each byte.
    async def kept() -> int:
        protocol, _ = on_a_wire(Role())
        protocol.data_received(post(b"x" * 900)[:-900])
        piece = b"y" * 300
        before = sys.getrefcount(piece)
        protocol.data_received(piece)
        return sys.getrefcount(piece) - before

    assert asyncio.run(kept()) == 0
