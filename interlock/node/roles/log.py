"""The log over HTTP: static tiles for everyone, `POST /add` for whoever holds the token.

    GET  /checkpoint, /tile/...    C2SP tlog-tiles; the published tree only grows
    GET  /proof?index=N            the tlog-proof of an entry under the published checkpoint
    POST /add                      the entry's bytes; answers 200 with its tlog-proof once the entry is durable,
                                   integrated, and under a published checkpoint that has the policy's quorum

An add that cannot get a quorum is answered 503; its entry stays durable, and the same bytes sent again complete it
under the same index. Adds that come at once share a batch (adder.py); each is answered for itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncIterator
from typing import Final

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.node.http import BadBody, body_of
from interlock.node.posts import Begin, Head, Posts
from interlock.node.roles.adder import Adder, TooBusy
from interlock.node.roles.cosigners import WITNESS_TIMEOUT_S, Cosigners
from interlock.node.roles.static import IMMUTABLE, tagged
from interlock.node.tokens import NotAllowed, TokenTable
from interlock.transparency.checkpoint import parse_checkpoint
from interlock.transparency.entry import demand_form
from interlock.transparency.log import Log
from interlock.transparency.note import parse_note
from interlock.transparency.policy import NoQuorum, TlogPolicy
from interlock.transparency.text import decimal
from interlock.transparency.tiles import MAX_ENTRY_SIZE, parse_path

__all__ = ["app"]

logger = logging.getLogger("interlock.log")

_FIELDS: Final = ((b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store"))


class _Role:
    """The handlers; each translates HTTP and leaves the work to Log and to the one who adds."""

    def __init__(self, log: Log, tokens: TokenTable, adder: Adder) -> None:
        self._log = log
        self._tokens = tokens
        self._adder = adder

    async def checkpoint(self, request: Request) -> Response:
        note = self._log.published
        if note is None:
            return _problem(404, "nothing is published yet")
        return tagged(request, note, "text/plain; charset=utf-8")

    async def tile(self, request: Request) -> Response:
        try:
            tile = parse_path("tile/" + request.path_params["path"])
        except Malformed:
            return _problem(404, "no such tile")
        data = await asyncio.to_thread(self._log.tile, tile)
        if data is None:
            return _problem(404, "no such tile")
        return Response(data, media_type="application/octet-stream", headers={"Cache-Control": IMMUTABLE})

    async def proof(self, request: Request) -> Response:
        index = decimal(request.query_params.get("index", ""), "index")
        note = self._log.published
        if note is None or index >= parse_checkpoint(parse_note(note).text).size:
            return _problem(404, "no such entry is published")
        return _text((await asyncio.to_thread(self._log.prove, index, note)).data)

    async def add(self, request: Request) -> Response:
        authorization = request.headers.get("authorization")
        self._tokens.name_of(authorization)  # before the body is read, and again with it
        return _text(await self.begin(authorization, await body_of(request, MAX_ENTRY_SIZE)))

    def take(self, head: Head) -> Begin | None:
        return functools.partial(self.begin, head.authorization) if head.path == "/add" else None

    def begin(self, authorization: str | None, entry: bytes) -> asyncio.Future[bytes]:
        """One add, however it came."""
        self._tokens.name_of(authorization)
        if not entry:
            raise Malformed("an entry is not empty")
        demand_form(entry)  # an unknown kind is kept, one of ours must be in its one form
        return self._adder.begin(entry)


def _text(data: bytes) -> Response:
    return Response(data, headers={name.decode(): value.decode() for name, value in _FIELDS})


def _problem(status: int, line: str, headers: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(line + "\n", status_code=status, headers={"Cache-Control": "no-store", **(headers or {})})


def _refused(e: Exception) -> Response:
    """The one table from error to status."""
    if isinstance(e, BadBody):
        return _problem(e.status, e.what)
    if isinstance(e, Malformed):
        return _problem(400, e.what)
    if isinstance(e, NotAllowed):
        return _problem(e.status, e.what, {"WWW-Authenticate": "Bearer"})
    if isinstance(e, TooBusy):
        return _problem(503, str(e), {"Retry-After": "1"})
    if isinstance(e, NoQuorum):
        logger.warning("no quorum: %s", e.what)
        return _problem(503, str(e), {"Retry-After": "5"})
    logger.error("the log is out of order: %s", e)
    return _problem(503, "this log is out of order", {"Retry-After": "30"})


def app(
    log: Log,
    policy: TlogPolicy,
    *,
    tokens: TokenTable,
    client: httpx.AsyncClient | None = None,
    witness_timeout_s: float = WITNESS_TIMEOUT_S,
) -> Starlette:
    """The log's application. `policy` names this log, its witnesses with their URLs, and the quorum.

    The caller holds `log` open for as long as the application runs. `tokens` are those of its publishers; several may
    be in use, so that one can be rotated.
    """
    http = client or httpx.AsyncClient(timeout=witness_timeout_s, follow_redirects=False, trust_env=False)
    adder = Adder(log, policy, Cosigners(log, policy, http, witness_timeout_s))
    role = _Role(log, tokens, adder)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        keeper = asyncio.create_task(adder.keep_published())
        try:
            yield
        finally:
            keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeper
            await http.aclose()

    application = Starlette(
        routes=[
            Route("/checkpoint", role.checkpoint, methods=["GET"]),
            Route("/tile/{path:path}", role.tile, methods=["GET"]),
            Route("/proof", role.proof, methods=["GET"]),
            Route("/add", role.add, methods=["POST"]),
        ],
        exception_handlers={InterlockError: lambda _request, e: _refused(e)},
        lifespan=lifespan,
    )
    application.state.posts = Posts(role.take, MAX_ENTRY_SIZE, _refused, _FIELDS)
    return application
