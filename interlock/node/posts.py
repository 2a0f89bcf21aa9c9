"""POST requests of some paths in few steps, for a role that takes thousands of them a second, or large ones.

The general way (h11, an ASGI scope, a task) costs more than all that a log does with an entry, and it copies a body
four times. So a connection whose parser is at rest looks at what comes: a request that the role takes, in its plainest
form, is answered from here, and everything else goes the general way, byte for byte. The plainest form is HTTP/1.1 with
one Host, one Content-Length within the limit, no field but those of PLAIN, each at most once, and no more than MAX_HEAD
bytes before the body. What is not recognised at once is therefore never taken for something else: h11 decides on it.

Both ways check the same and answer the same, for the role gives them the same functions.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol
from uvicorn.server import ServerState

from interlock.base.errors import InterlockError

__all__ = ["Begin", "Head", "Posts", "protocol_of"]

logger = logging.getLogger("interlock.serve")

MAX_HEAD: Final = 4096  # bytes
PLAIN: Final = frozenset(
    name.encode("ascii")
    for name in (
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "host",
        "user-agent",
    )
)
_HEAD: Final = re.compile(rb"POST (/[!-~]*) HTTP/1\.1\r\n((?:[!-~][ -~]*\r\n){1,8})\r\n")
_LENGTH: Final = re.compile(rb"[1-9][0-9]{0,8}")


_Bringing = asyncio.Future[bytes] | asyncio.Future[Response]
Begin = Callable[[bytes], _Bringing]  # the body -> what brings the answer


class Head(NamedTuple):
    """What a request says before its body: where it goes, and two of its fields."""

    path: str
    authorization: str | None
    content_type: str


@dataclass(frozen=True)
class Posts:
    """What a role does with POSTs whose bodies have from 1 to `limit` bytes.

    `take` gets a request's head, before its body is waited for, and says what begins with the body. Where it says None
    the request goes the general way: so does one that is refused for its head. What was begun brings the answer: a
    body, for which `fields` are the header fields, or a whole response. It may raise, and so may what it brings:
    `refused` makes the answer of an InterlockError.
    """

    take: Callable[[Head], Begin | None]
    limit: int
    refused: Callable[[InterlockError], Response]
    fields: tuple[tuple[bytes, bytes], ...] = ()


class _Plain(NamedTuple):
    """A request in its plainest form: where its body begins and ends, and what to do with it."""

    start: int
    end: int
    begin: Begin


def protocol_of(app: ASGIApp, body_s: float) -> type[H11Protocol]:
    """The protocol for an application: with `state.posts` where it has such; a body has `body_s` seconds to come."""
    posts = getattr(getattr(app, "state", None), "posts", None)
    if not isinstance(posts, Posts):
        return H11Protocol
    return type("PostsProtocol", (_PostsProtocol,), {"posts": posts, "body_s": body_s})


class _PostsProtocol(H11Protocol):
    """One connection: at any time a request of ours is under way, or h11 is, or both are at rest."""

    posts: ClassVar[Posts]
    body_s: ClassVar[float]

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._fresh = self.conn.states  # where h11 begins, and comes back to after each request
        self._answer: _Bringing | None = None  # of the request that is under way here
        self._coming: _Plain | None = None  # a request whose body is not whole
        self._part = bytearray()  # what came of it: as received, pieces of one byte would keep a page of memory each
        self._held = bytearray()  # what came while a request is under way
        self._ending = False  # the server stops
        self._last = 0.0  # when something came or went
        self._idle: asyncio.TimerHandle | None = None
        self._late: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        self._last = self.loop.time()
        if self._answer is not None or self._held:  # nothing overtakes what came before it
            self._held += data
            self.flow.pause_reading()
        elif self._coming is not None:
            self._came(self._coming, data)
        elif self._at_rest():
            self._take(data)
        else:
            super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self._held.clear()
        if self._idle is not None:
            self._idle.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        self._ending = True
        if self._answer is None:
            if self._released():
                self.transport.close()
            else:
                super().shutdown()

    def _at_rest(self) -> bool:
        """Whether h11 has nothing under way, and the other side has read what it was sent."""
        idle = self.conn.states == self._fresh and not self.conn.trailing_data[0]
        return idle and not self.flow.write_paused and not self.transport.is_closing()

    def _take(self, data: bytes) -> None:
        """Begin with the request that `data` begins with, here or with h11."""
        found = _plain(data, self.posts)
        if found is None:
            super().data_received(data)
            return
        self._unset_keepalive_if_required()
        if len(data) < found.end:
            self._coming = found
            self._late = self.loop.call_later(self.body_s, self._give_over)
        self._came(found, data)

    def _came(self, found: _Plain, data: bytes) -> None:
        """More of a request; once it is whole, it begins."""
        self._part += data
        if len(self._part) < found.end:
            return
        with memoryview(self._part) as part:
            body = bytes(part[found.start : found.end])
            self._held += part[found.end :]  # of the request that comes next
        self._forget()
        self._begin(found.begin, body)

    def _give_over(self) -> None:
        """A body that did not come in time is for h11 to wait for and to refuse."""
        super().data_received(self._released())

    def _released(self) -> bytes:
        """What was held, which is not any more."""
        self._part += self._held
        held = bytes(self._part)
        self._forget()
        self._held.clear()
        return held

    def _forget(self) -> None:
        """Wait for no body any more."""
        if self._late is not None:
            self._late.cancel()
            self._late = None
        self._coming = None
        self._part = bytearray()

    def _begin(self, begin: Begin, body: bytes) -> None:
        try:
            answer = begin(body)
        except Exception as e:  # noqa: BLE001 - whatever it is, this request is answered and the server goes on
            self._refuse(e)
        else:
            self._answer = answer
            answer.add_done_callback(self._done)

    def _done(self, answer: asyncio.Future[Any]) -> None:
        self._answer = None
        if answer.cancelled():
            self.transport.close()
            return
        trouble = answer.exception()
        if trouble is not None:
            self._refuse(trouble)
        elif isinstance(found := answer.result(), Response):
            self._send(found)
        else:
            self._write(200, self.posts.fields, found)

    def _refuse(self, trouble: BaseException) -> None:
        if isinstance(trouble, InterlockError):
            response = self.posts.refused(trouble)
        else:
            logger.error("a request failed", exc_info=trouble)
            self._ending = True  # as uvicorn has it: whoever met with a fault of ours begins anew
            response = PlainTextResponse("Internal Server Error", status_code=500)
        self._send(response)

    def _send(self, response: Response) -> None:
        fields = [row for row in response.raw_headers if row[0] != b"content-length"]
        self._write(response.status_code, fields, bytes(response.body))

    def _write(
        self, status: int, fields: tuple[tuple[bytes, bytes], ...] | list[tuple[bytes, bytes]], body: bytes
    ) -> None:
        """Answer, and go on with what came meanwhile."""
        if self.transport.is_closing():
            return
        rows = [*self.server_state.default_headers, *fields, (b"content-length", b"%d" % len(body))]
        if self._ending:
            rows.append((b"connection", b"close"))
        lines = b"".join(b"%b: %b\r\n" % row for row in rows)
        self.transport.write(b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (status, STATUS_PHRASES[status], lines, body))
        self.server_state.total_requests += 1
        self._last = self.loop.time()
        if self._ending:
            self.transport.close()
        elif self._held:
            self.loop.call_soon(self._go_on)
        elif self._idle is None:
            self._idle = self.loop.call_later(self.timeout_keep_alive, self._close_idle)

    def _go_on(self) -> None:
        self.flow.resume_reading()
        data = self._released()
        if data and not self.transport.is_closing():
            self.data_received(data)

    def _close_idle(self) -> None:
        """One timer a connection, which looks at the time when it goes off, and not one for each request."""
        busy = self._answer is not None or self._coming is not None or bool(self._held)
        at_rest = not busy and self._at_rest() and self.timeout_keep_alive_task is None
        left = self._last + self.timeout_keep_alive - self.loop.time() if at_rest else self.timeout_keep_alive
        if left <= 0:
            self.transport.close()
        else:
            self._idle = self.loop.call_later(left, self._close_idle)


def _plain(data: bytes, posts: Posts) -> _Plain | None:
    """The request that `data` begins with, if it has the plainest form and the role takes it; its body may be late."""
    head = _HEAD.match(data, 0, MAX_HEAD)
    if head is None:
        return None
    fields: dict[bytes, bytes] = {}
    for line in head[2].split(b"\r\n")[:-1]:
        name, _, value = line.partition(b":")
        name = name.lower()
        if name not in PLAIN or name in fields:
            return None
        fields[name] = value.strip(b" ")
    length = fields.get(b"content-length", b"")
    if not fields.get(b"host") or not _LENGTH.fullmatch(length) or int(length) > posts.limit:
        return None
    if fields.get(b"connection", b"keep-alive").lower() != b"keep-alive":
        return None
    authorization = fields.get(b"authorization")
    told = None if authorization is None else authorization.decode("ascii")
    kind = fields.get(b"content-type", b"").decode("ascii")
    begin = posts.take(Head(head[1].decode("ascii"), told, kind))
    return None if begin is None else _Plain(head.end(), head.end() + int(length), begin)
