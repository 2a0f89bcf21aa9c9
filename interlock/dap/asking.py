"""Asking a server for a resource that it may make later: create it by its bytes, then look at the place it names.

    answer = asking.ask(key, url, "aggregation-job-init-req", body, "aggregation-job-resp")
    answer.body                 empty while the other side is not ready; nothing is sent again before `answer.due_us`

Where a resource is, is kept in memory only: after a restart the same bytes are posted again, and the other side names
the resource that it made of them before. Source: draft-ietf-ppm-dap-18, sections 3.1 and 3.2.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from interlock.base.clock import MICROSECONDS, Clock
from interlock.base.errors import InterlockError
from interlock.dap.messages import media_type
from interlock.dap.transport import Exchange, Reply, checked, place_of

__all__ = ["Answer", "Asking"]

LEAST_WAIT_S: Final = 1
MOST_WAIT_S: Final = 3600  # a server that says "next year" is asked within the hour
PLACES_MOST: Final = 4096  # that are remembered; of one that is forgotten, the same bytes find it


@dataclass(frozen=True)
class Answer:
    """A resource's representation, or when to look again; `place` is where it is."""

    body: bytes = field(repr=False)
    due_us: int = 0
    place: str = ""


class Asking:
    """One party's requests to one server; `key` names a resource on our side."""

    def __init__(self, exchange: Exchange, clock: Clock) -> None:
        self._exchange = exchange
        self._clock = clock
        self._waiting: dict[bytes, Answer] = {}

    def ask(self, key: bytes, url: str, message: str, body: bytes, answer: str, *, step: int | None = None) -> Answer:
        """Create a resource or look at it; `step` is what a look at an aggregation job has to name.

        Raises: DapProblem, Unreachable, TooLarge; the next call creates it anew, which finds what is there.
        """
        known = self._waiting.get(key)
        if known is not None and self._clock.now_us() < known.due_us:
            return known
        self._waiting.pop(key, None)
        if known is None:
            reply = checked(self._exchange("POST", url, media_type(message), body), url, media_type(answer))
            place = reply.location and _with_step(place_of(url, reply.location), step)
        else:
            place = known.place
            reply = checked(self._exchange("GET", place), place, media_type(answer))
        if reply.body:
            return Answer(reply.body, place=place)
        return self._wait(key, reply, place or place_of(url, ""))

    def delete(self, answer: Answer) -> None:
        """Let the server clean up; one that does not hear it keeps what it has, which harms nobody."""
        if answer.place:
            with contextlib.suppress(InterlockError):
                self._exchange("DELETE", answer.place)

    def _wait(self, key: bytes, reply: Reply, place: str) -> Answer:
        seconds = min(max(reply.retry_after, LEAST_WAIT_S), MOST_WAIT_S)
        found = Answer(b"", self._clock.now_us() + seconds * MICROSECONDS, place)
        while len(self._waiting) >= PLACES_MOST:
            self._waiting.pop(next(iter(self._waiting)), None)
        self._waiting[key] = found
        return found


def _with_step(place: str, step: int | None) -> str:
    """The place of an aggregation job with the step, which a server in haste may have left out."""
    query = urlsplit(place).query
    if step is None or any(part.startswith("step=") for part in query.split("&")):
        return place
    return f"{place}{'&' if query else '?'}step={step}"
