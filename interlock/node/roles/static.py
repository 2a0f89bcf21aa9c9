"""Serving a directory of signed, public files: nothing outside it, nothing hidden, and told how long it stays true.

A file that is replaced in place is read whole before the answer begins, so that no answer mixes two of its states, and
its tag follows from its bytes: whoever sends that tag (If-None-Match, RFC 9110 13.1.2) is told 304 while they stay.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from interlock.base.files import BadState, read_bounded

__all__ = ["CHANGING", "IMMUTABLE", "static_app", "tagged"]

CHANGING: Final = "no-cache"  # ask again each time: it is replaced in place
IMMUTABLE: Final = "public, max-age=31536000, immutable"  # its name holds its version or its digest
_MAX_CHANGING: Final = 1 << 20  # bytes
_PART: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+-]*", re.ASCII)


def static_app(mounts: Mapping[str, Path], changing: Callable[[str], bool], *, within: Path | None = None) -> Starlette:
    """Serves each prefix (`/metadata`) from its directory; `changing` says which paths are replaced in place.

    A link may lead to what is below `within`, by default below the prefix's own directory.
    """

    def serve_from(prefix: str, root: Path) -> Route:
        async def serve_file(request: Request) -> Response:
            path = request.path_params["path"]
            found = _file_below(root, path, within or root)
            if found is None:
                return PlainTextResponse("not found\n", status_code=404)
            if changing(f"{prefix.strip('/')}/{path}".lstrip("/")):
                return await asyncio.to_thread(_whole, request, found, _media_type(path))
            return FileResponse(found, media_type=_media_type(path), headers={"Cache-Control": IMMUTABLE})

        return Route(f"{prefix}/{{path:path}}", serve_file, methods=["GET"])

    application = Starlette(routes=[serve_from(prefix, root) for prefix, root in mounts.items()])
    application.router.redirect_slashes = False  # a path has one spelling
    return application


def tagged(request: Request, data: bytes, media_type: str) -> Response:
    """An answer of bytes that may change, or 304 for whoever has just these."""
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    headers = {"Cache-Control": CHANGING, "ETag": tag}
    known = (one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(","))
    if any(one in (tag, "*") for one in known):
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=media_type, headers=headers)


def _whole(request: Request, path: Path, media_type: str) -> Response:
    try:
        data = read_bounded(path, _MAX_CHANGING)
    except BadState:  # gone since it was looked for
        return PlainTextResponse("not found\n", status_code=404)
    return tagged(request, data, media_type)


def _file_below(root: Path, path: str, within: Path) -> Path | None:
    """The regular file that a path names, or None; dot files and whatever leads out of `within` are not there."""
    parts = path.split("/")
    if not all(_PART.fullmatch(part) for part in parts):
        return None
    found = root.joinpath(*parts)
    try:
        inside = found.is_file() and found.resolve().is_relative_to(within.resolve())
    except OSError:  # a name longer than names can be
        return None
    return found if inside else None


def _media_type(path: str) -> str:
    if path.endswith(".json"):
        return "application/json"
    return "text/plain; charset=utf-8" if path.endswith((".tlog-proof", "checkpoint")) else "application/octet-stream"
