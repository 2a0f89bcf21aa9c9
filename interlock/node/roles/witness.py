"""A witness over HTTP (C2SP tlog-witness): translates, and leaves every decision to Witness.process.

POST /add-checkpoint              200, 400, 403, 404, 409, 422 as the specification has them; 413, 503 besides
GET  /ORIGIN-SHA256/checkpoint    the last checkpoint of that log that was cosigned here
"""

from __future__ import annotations

import asyncio
import logging

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from interlock.base.errors import InterlockError
from interlock.node.http import BadBody, body_of
from interlock.transparency.witness import MAX_REQUEST, Witness

__all__ = ["app"]

logger = logging.getLogger("interlock.witness")


def app(witness: Witness) -> Starlette:
    """The witness's application."""

    async def add_checkpoint(request: Request) -> Response:
        body = await body_of(request, MAX_REQUEST)
        answer = await asyncio.to_thread(witness.process, body)
        # Set as a header and not as a media type: Starlette would add a charset to text/x.tlog.size.
        return Response(answer.body, status_code=answer.status, headers={"Content-Type": answer.content_type})

    async def latest(request: Request) -> Response:
        note = await asyncio.to_thread(witness.latest, request.path_params["origin"])
        if note is None:
            return PlainTextResponse("no checkpoint of that log was cosigned here\n", status_code=404)
        return Response(note, media_type="text/plain; charset=utf-8", headers={"Cache-Control": "no-cache"})

    return Starlette(
        routes=[
            Route("/add-checkpoint", add_checkpoint, methods=["POST"]),
            Route("/{origin}/checkpoint", latest, methods=["GET"]),
        ],
        exception_handlers={InterlockError: _refused},
    )


def _refused(_request: Request, e: Exception) -> Response:
    if isinstance(e, BadBody):
        return PlainTextResponse(e.what + "\n", status_code=e.status)
    logger.error("nothing was cosigned: %s", e)
    return PlainTextResponse("this witness is out of order\n", status_code=503)
