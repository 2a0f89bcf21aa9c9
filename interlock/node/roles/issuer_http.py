"""The issuer over HTTP: translates, and leaves the work to `Issuer`, which commands use without a server.

POST enrol              an enrolment    -> 200 a certificate; 202 where a person is to decide
POST credentials        a token request -> the issuer's signature: blind, over what it cannot see, or plain;
                        403 where its epoch has not begun, with the time that it is here
GET  members/TASK/EPOCH                 -> the member keys, as they are to be published
GET  counts/TASK/EPOCH                  -> the signed count
GET  successors/KEY                     -> the keys that followed this one (in hex), each in the word of the last
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.fetch import NotFound
from interlock.base.primitives import BadSignature
from interlock.commons.statements import MAX_STATEMENT
from interlock.node.http import BadBody, body_of
from interlock.node.roles.issuer import Issuer, NotBegun
from interlock.node.storage.issuer import Refused

__all__ = ["app"]

_JSON: Final = "application/json"
_DIGITS: Final = 16  # of an epoch in a URL; Python refuses to read numbers of many thousand
_log = logging.getLogger(__name__)


def app(issuer: Issuer) -> Starlette:
    """The issuer's application."""

    async def enrol(request: Request) -> Response:
        found = await run_in_threadpool(issuer.process_enrolment, await body_of(request, MAX_STATEMENT))
        return Response(found, media_type=_JSON) if found else Response(status_code=202)

    async def credentials(request: Request) -> Response:
        found = await run_in_threadpool(issuer.process_request, await body_of(request, MAX_STATEMENT))
        return Response(found, media_type="application/octet-stream")

    async def members(request: Request) -> Response:
        return Response(await run_in_threadpool(issuer.member_keys, *_named(request)), media_type=_JSON)

    async def counts(request: Request) -> Response:
        return Response(await run_in_threadpool(issuer.count, *_named(request)), media_type=_JSON)

    async def successors(request: Request) -> Response:
        return Response(issuer.successors(request.path_params["key"]), media_type="application/jsonl")

    return Starlette(
        routes=[
            _route("/enrol", enrol, "POST"),
            _route("/credentials", credentials, "POST"),
            _route("/members/{task}/{epoch}", members, "GET"),
            _route("/counts/{task}/{epoch}", counts, "GET"),
            _route("/successors/{key}", successors, "GET"),
        ]
    )


def _named(request: Request) -> tuple[str, int]:
    task, epoch = request.path_params["task"], request.path_params["epoch"]
    if not (epoch.isascii() and epoch.isdigit() and len(epoch) <= _DIGITS):
        raise NotFound("names no epoch", where=request.url.path[:80])
    return task, int(epoch)


def _route(path: str, handler: Callable[[Request], Awaitable[Response]], method: str) -> Route:
    """A route whose errors become a status: the one table from error to HTTP."""

    async def endpoint(request: Request) -> Response:
        try:
            return await handler(request)
        except (Malformed, BadBody) as e:
            return _told(e, e.status if isinstance(e, BadBody) else 400)
        except (Refused, BadSignature) as e:
            return _told(e, 403)
        except NotFound as e:
            return _told(e, 404)
        except InterlockError as e:
            _log.error("a request failed: %s", e)
            return JSONResponse({"error": "cannot be served now"}, 503, {"retry-after": "1"})

    return Route(path, endpoint, methods=[method])


def _told(e: InterlockError, status: int) -> Response:
    clock = {"now_us": e.now_us} if isinstance(e, NotBegun) else {}
    return JSONResponse({"error": str(e), **clock}, status)
