"""The log over HTTP: static tiles for everyone, `POST /add` for whoever holds the token.

    GET  /checkpoint, /tile/...    C2SP tlog-tiles; the published tree only grows
    GET  /proof?index=N            the tlog-proof of an entry under the published checkpoint
    POST /add                      the entry's bytes; answers 200 with its tlog-proof once the entry is durable,
                                   integrated, and under a published checkpoint that has the policy's quorum

An add that cannot get a quorum is answered 503; its entry stays durable, and the same bytes sent again complete it
under the same index. Adds are served one after the other. Witnesses are asked side by side, each within a time-out.
"""

from __future__ import annotations

import asyncio
import contextlib
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
from interlock.base.primitives import BadSignature
from interlock.node.http import BadBody, body_of
from interlock.node.roles.static import IMMUTABLE, tagged
from interlock.node.tokens import NotAllowed, TokenTable
from interlock.transparency.checkpoint import CosignatureVerifier, parse_checkpoint
from interlock.transparency.entry import parse_entry
from interlock.transparency.log import Log
from interlock.transparency.note import MAX_NOTE, Note, Signature, encode_note, parse_note
from interlock.transparency.policy import NoQuorum, Peer, TlogPolicy
from interlock.transparency.text import decimal
from interlock.transparency.tiles import MAX_ENTRY_SIZE, parse_path
from interlock.transparency.witness import add_checkpoint_request, parse_cosignatures, parse_size

__all__ = ["Cosigners", "WitnessRefused", "app"]

logger = logging.getLogger("interlock.log")

WITNESS_TIMEOUT_S: Final = 5.0
GRACE_S: Final = 0.25  # how long more cosignatures are waited for once the quorum is there
ATTEMPTS: Final = 3  # requests to one witness for one checkpoint
RETRY_S: Final = 5.0  # between two attempts to publish what is not; twice as long after each failure, up to
RETRY_MOST_S: Final = 60.0


class WitnessRefused(InterlockError):
    """A witness that did not cosign, and why."""

    code = "no-quorum"


class Cosigners:
    """Asks a policy's witnesses for cosignatures, side by side; remembers which size each has seen."""

    def __init__(
        self, log: Log, policy: TlogPolicy, client: httpx.AsyncClient, timeout_s: float = WITNESS_TIMEOUT_S
    ) -> None:
        self._log = log
        self._policy = policy
        self._client = client
        self._timeout_s = timeout_s
        self._sizes: dict[str, int] = {}

    async def cosigned(self, note: bytes) -> Note:
        """The checkpoint with enough cosignatures. Raises: NoQuorum, which says what each witness answered."""
        parsed = parse_note(note)
        tasks = {asyncio.create_task(self._ask(n, w, parsed)): n for n, w in self._policy.witnesses.items() if w.url}
        found: dict[str, Signature] = {}
        waiting: set[asyncio.Task[Signature]] = set(tasks)
        try:
            while waiting:
                enough = self._policy.satisfied(frozenset(found))
                done, waiting = await asyncio.wait(
                    waiting, timeout=GRACE_S if enough else None, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    break
                found.update({tasks[t]: t.result() for t in done if not isinstance(t.exception(), WitnessRefused)})
        finally:
            await _cancelled(waiting)
        if not self._policy.satisfied(frozenset(found)):
            said = ", ".join(f"{tasks[t]} {t.exception()}" for t in tasks if t not in waiting and t.exception())
            raise NoQuorum(
                f"{len(found)} of {len(self._policy.witnesses)} witnesses cosigned ({said or 'none has a URL'})",
                fix="send the same entry again once they are there",
            )
        return parsed.plus(found.values())

    async def _ask(self, name: str, witness: Peer, note: Note) -> Signature:
        """Raises: WitnessRefused."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._request(name, witness, note)
        except TimeoutError:
            raise WitnessRefused("did not answer in time") from None
        except (httpx.HTTPError, httpx.InvalidURL) as e:
            raise WitnessRefused(f"does not answer ({type(e).__name__})") from None
        except (Malformed, BadSignature) as e:
            raise WitnessRefused(f"answered what is no cosignature ({e.what})") from None

    async def _request(self, name: str, witness: Peer, note: Note) -> Signature:
        size = parse_checkpoint(note.text).size
        for _ in range(ATTEMPTS):
            old = min(self._sizes.get(name, self._log.published_size), size)
            proof = await asyncio.to_thread(self._log.consistency, old, size)
            status, body = await self._post(witness, add_checkpoint_request(old, proof, encode_note(note)))
            if status == httpx.codes.OK:
                self._sizes[name] = size
                return _cosignature(witness, note, body)
            if status != httpx.codes.CONFLICT:
                raise WitnessRefused(f"answered {status}")
            self._sizes[name] = parse_size(body)
            if self._sizes[name] > size:
                raise WitnessRefused("has cosigned a larger tree of this log than there is here")
        raise WitnessRefused("keeps changing its mind on the last size")

    async def _post(self, witness: Peer, body: bytes) -> tuple[int, bytes]:
        url = witness.url.rstrip("/") + "/add-checkpoint"
        answer = bytearray()
        async with self._client.stream("POST", url, content=body) as response:
            async for part in response.aiter_bytes():
                answer += part
                if len(answer) > MAX_NOTE:
                    raise Malformed(f"more than {MAX_NOTE} bytes")
            return response.status_code, bytes(answer)


def _cosignature(witness: Peer, note: Note, body: bytes) -> Signature:
    for signature in parse_cosignatures(body):
        if (signature.name, signature.key_id) == (witness.key.name, witness.key.key_id):
            CosignatureVerifier(witness.key).verify(note.text.encode("utf-8"), signature.data)
            return signature
    raise Malformed("no line of its key")


async def _cancelled(tasks: set[asyncio.Task[Signature]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _Role:
    """The handlers; each translates HTTP and leaves the work to Log."""

    def __init__(self, log: Log, policy: TlogPolicy, tokens: TokenTable, cosigners: Cosigners) -> None:
        self._log = log
        self._policy = policy
        self._tokens = tokens
        self._cosigners = cosigners
        self._turn = asyncio.Lock()

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
        return _text(await asyncio.to_thread(self._proof, index, note))

    async def add(self, request: Request) -> Response:
        self._tokens.name_of(request.headers.get("authorization"))
        entry = await body_of(request, MAX_ENTRY_SIZE)
        if not entry:
            raise Malformed("an entry is not empty")
        parse_entry(entry)  # an unknown kind is kept, one of ours must be in its one form
        async with self._turn:
            return _text(await self.added(entry))

    async def added(self, entry: bytes) -> bytes:
        """Add an entry, or complete it; the proof under a checkpoint with a quorum.

        Raises: NoQuorum; BadState, NotWritable, where the disk fails.
        """
        (index,) = await asyncio.to_thread(self._log.append, [entry])
        if index >= self._log.published_size or not self._has_quorum():
            await self.complete()
        assert self._log.published is not None
        return await asyncio.to_thread(self._proof, index, self._log.published)

    async def complete(self) -> None:
        """Integrate what is durable, have it cosigned and publish it. Raises: as `added`."""
        note = await self._cosigners.cosigned(await asyncio.to_thread(self._log.integrate))
        await asyncio.to_thread(self._log.publish, encode_note(note))

    async def keep_published(self) -> None:
        """Publish, for as long as the server runs, what a crash or an absent witness has left unpublished."""
        wait_s = RETRY_S
        while True:
            async with self._turn:
                try:
                    if self._log.published is None or self._log.published_size < self._log.size:
                        await self.complete()
                    wait_s = RETRY_S
                except InterlockError as e:
                    logger.warning("nothing newer is published for now: %s", e.what)
                    wait_s = min(2 * wait_s, RETRY_MOST_S)
            await asyncio.sleep(wait_s)

    def _has_quorum(self) -> bool:
        """Whether the published checkpoint satisfies the policy of today, which may be stricter than of then."""
        try:
            self._policy.check(self._log.published or b"")
        except InterlockError:
            return False
        return True

    def _proof(self, index: int, note: bytes) -> bytes:
        return self._log.prove(index, note).data


def _text(data: bytes) -> Response:
    return Response(data, media_type="text/plain; charset=utf-8", headers={"Cache-Control": "no-store"})


def _problem(status: int, line: str, headers: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(line + "\n", status_code=status, headers={"Cache-Control": "no-store", **(headers or {})})


def _refused(_request: Request, e: Exception) -> Response:
    """The one table from error to status."""
    if isinstance(e, BadBody):
        return _problem(e.status, e.what)
    if isinstance(e, Malformed):
        return _problem(400, e.what)
    if isinstance(e, NotAllowed):
        return _problem(e.status, e.what, {"WWW-Authenticate": "Bearer"})
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
    role = _Role(log, policy, tokens, Cosigners(log, policy, http, witness_timeout_s))

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        keeper = asyncio.create_task(role.keep_published())
        try:
            yield
        finally:
            keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeper
            await http.aclose()

    return Starlette(
        routes=[
            Route("/checkpoint", role.checkpoint, methods=["GET"]),
            Route("/tile/{path:path}", role.tile, methods=["GET"]),
            Route("/proof", role.proof, methods=["GET"]),
            Route("/add", role.add, methods=["POST"]),
        ],
        exception_handlers={InterlockError: _refused},
        lifespan=lifespan,
    )
