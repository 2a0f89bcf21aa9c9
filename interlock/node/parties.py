"""What every party to DAP on this machine shares: the way to the others over HTTP, its token, and the VDAF it computes.

It loads no server, so that a member's commands start quickly.
"""

from __future__ import annotations

import functools
from email.utils import parsedate_to_datetime

import httpx

from interlock.base.fetch import bounded_body, http_client, told_if_unreachable
from interlock.dap.backend import VdafBackend, VdafError
from interlock.dap.task import Task
from interlock.dap.transport import REPLY_LIMIT, Reply
from interlock.dap.vdaf.prio3 import prio3_of_config
from interlock.native.vdaf import chosen_vdaf

__all__ = ["HttpExchange", "vdaf_of"]


class HttpExchange:
    """Fills dap.transport.Exchange over HTTP, with a bearer token where there is one."""

    def __init__(self, token: str = "", client: httpx.Client | None = None, *, limit: int = REPLY_LIMIT) -> None:
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._client = client or http_client()
        self._limit = limit

    def __call__(self, method: str, url: str, media_type: str = "", body: bytes = b"") -> Reply:
        headers = {**self._headers, **({"content-type": media_type} if media_type else {})}
        with told_if_unreachable(url), self._client.stream(method, url, headers=headers, content=body) as response:
            return self._reply(response)

    def close(self) -> None:
        self._client.close()

    def _reply(self, response: httpx.Response) -> Reply:
        body, headers = bounded_body(response, self._limit), response.headers
        return Reply(
            response.status_code,
            headers.get("content-type", ""),
            body,
            headers.get("location", ""),
            _wait_s(headers),
        )


def _wait_s(headers: httpx.Headers) -> int:
    """Retry-After in seconds: so many, or until a date as the answer's own clock has it (RFC 9110, 10.2.3); else 0."""
    told = headers.get("retry-after", "")
    if told.isascii() and told.isdigit():
        return int(told[:9])
    try:
        wait = parsedate_to_datetime(told) - parsedate_to_datetime(headers.get("date", ""))
    except (ValueError, TypeError):  # TypeError: one of them names no zone
        return 0
    return max(0, int(wait.total_seconds()))


def vdaf_of(task: Task) -> VdafBackend:
    """The VDAF of a task, from its configuration's exact bytes; native where the wheel is. Raises: VdafError."""
    return _vdaf(task.config.vdaf_type, task.config.vdaf_configuration)


@functools.lru_cache(maxsize=64)
def _vdaf(algorithm_id: int, vdaf_config: bytes) -> VdafBackend:
    return chosen_vdaf(prio3_of_config(algorithm_id, vdaf_config), VdafError)
