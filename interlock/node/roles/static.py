"""Serving a directory of signed, public files: nothing outside it, nothing hidden, and told how long it stays true."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

__all__ = ["CHANGING", "IMMUTABLE", "static_app"]

CHANGING: Final = "no-cache"  # ask again each time: it is replaced in place
IMMUTABLE: Final = "public, max-age=31536000, immutable"  # its name holds its version or its digest
_PART: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+-]*", re.ASCII)


def static_app(mounts: Mapping[str, Path], changing: Callable[[str], bool]) -> Starlette:
    """Serves each prefix (`/metadata`) from its directory; `changing` says which paths are replaced in place."""

    def serve_from(prefix: str, root: Path) -> Route:
        async def serve_file(request: Request) -> Response:
            path = request.path_params["path"]
            found = _file_below(root, path)
            if found is None:
                return PlainTextResponse("not found\n", status_code=404)
            cache = CHANGING if changing(f"{prefix.strip('/')}/{path}".lstrip("/")) else IMMUTABLE
            return FileResponse(found, media_type=_media_type(path), headers={"Cache-Control": cache})

        return Route(f"{prefix}/{{path:path}}", serve_file, methods=["GET"])

    application = Starlette(routes=[serve_from(prefix, root) for prefix, root in mounts.items()])
    application.router.redirect_slashes = False  # a path has one spelling
    return application


def _file_below(root: Path, path: str) -> Path | None:
    """The regular file that a path names, or None; dot files and whatever leads out of the directory are not there."""
    parts = path.split("/")
    if not all(_PART.fullmatch(part) for part in parts):
        return None
    found = root.joinpath(*parts)
    try:
        inside = found.is_file() and found.resolve().is_relative_to(root.resolve())
    except OSError:  # a name longer than names can be
        return None
    return found if inside else None


def _media_type(path: str) -> str:
    if path.endswith(".json"):
        return "application/json"
    return "text/plain; charset=utf-8" if path.endswith((".tlog-proof", "checkpoint")) else "application/octet-stream"
