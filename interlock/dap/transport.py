"""How one party of DAP reaches another: one call, so that tests need no network and the crypto rooms know no HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import urljoin, urlsplit

from interlock.base.fetch import Unreachable
from interlock.dap.messages import message_of
from interlock.dap.problems import BudgetSpent, DapProblem, ProblemType, problem_type

__all__ = ["REPLY_LIMIT", "Exchange", "Reply", "checked", "place_of"]

REPLY_LIMIT: Final = 64 << 20  # bytes of any answer


@dataclass(frozen=True)
class Reply:
    """An HTTP answer; an empty body with a status of 2xx says: not ready, ask again after `retry_after` seconds."""

    status: int
    media_type: str = ""
    body: bytes = field(default=b"", repr=False)
    location: str = ""
    retry_after: int = 0


class Exchange(Protocol):
    """Sends one request; what authenticates it is the implementation's."""

    def __call__(self, method: str, url: str, media_type: str = "", body: bytes = b"") -> Reply:
        """Raises: Unreachable, TooLarge."""


def checked(reply: Reply, url: str, media_type: str = "") -> Reply:
    """An answer of 2xx that is empty or, where one is expected, of the media type.

    Raises: DapProblem, where the other side names one of DAP's errors; Unreachable for any other answer, which may
    come from something in between and is worth a retry.
    """
    if not 200 <= reply.status < 300:
        kind = problem_type(reply.body) if 400 <= reply.status < 500 else None
        if kind is ProblemType.BUDGET_SPENT:
            raise BudgetSpent("the task's privacy budget is spent", status=reply.status)
        if kind is not None:
            raise DapProblem(kind, "the other side refused the request", status=reply.status)
        raise Unreachable(f"answered HTTP {reply.status}", where=url, fix="check the other side's log and our token")
    if reply.body and media_type and message_of(reply.media_type) != message_of(media_type):
        raise Unreachable("answered with another kind of message", where=url)
    return reply


def place_of(url: str, location: str) -> str:
    """Where a resource is that was asked for at `url`; never on another server, which would be sent our token.

    Raises: Unreachable.
    """
    try:
        target = urljoin(url, location)
        here, there = urlsplit(url), urlsplit(target)
    except ValueError:
        location = ""
    if not location or (here.scheme, here.netloc) != (there.scheme, there.netloc):
        raise Unreachable("named no place of its own for what was asked", where=url)
    return target
