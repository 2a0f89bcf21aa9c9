"""Telling a monitor which checkpoints this node sees, where that was agreed to: beside the updates, never in their way.

An update leaves what it saw in a file; whatever happens here, it never waits for it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from interlock.base.clock import Clock, SystemClock
from interlock.base.errors import InterlockError, fault_line
from interlock.base.fetch import HttpPoster, http_client
from interlock.commons.notices import DIFFERS, MAX_ANSWER, PROVEN, Said, tell

__all__ = ["NOTICES", "TELL_EVERY_S", "keep_telling", "tell_soon"]

log = logging.getLogger("interlock.tell")

NOTICES: Final = "/notices"  # where a monitor takes them
TELL_EVERY_S: Final = 15.0
_WAIT_S: Final = 5.0  # for the next byte of a monitor
_ANSWER_S: Final = 10.0  # for all of its answer
_PATIENCE_S: Final = 3.0  # of a command that somebody waits for


def keep_telling(home: Path, monitor: str, stop: threading.Event, *, every_s: float = TELL_EVERY_S) -> None:
    """Tell what waits until `stop` is set; that a monitor does not answer is said once."""
    clock, before = SystemClock(), Said(monitor)
    with _poster(monitor) as post:
        while not stop.is_set():
            try:
                said = tell(home, monitor, post, clock.now_us())
                if said != before:
                    _log(said)
                before = said
            except InterlockError as e:
                log.warning("the monitor is told nothing: %s", e)
            except Exception as e:  # noqa: BLE001 - said too, for the loop must not end of what nobody foresaw
                log.error("the monitor is told nothing: %s", fault_line(e))
            stop.wait(every_s)


def tell_soon(home: Path, monitor: str, clock: Clock) -> None:
    """Tell what waits, within the few seconds that whoever waits for a command has; what fails stands in the status."""

    def once() -> None:
        with contextlib.suppress(InterlockError), _poster(monitor) as post:
            tell(home, monitor, post, clock.now_us())

    thread = threading.Thread(target=once, daemon=True)  # a name that does not resolve may take longer than any timeout
    thread.start()
    thread.join(_PATIENCE_S)


@contextlib.contextmanager
def _poster(monitor: str) -> Iterator[HttpPoster]:
    with http_client(timeout_s=_WAIT_S, answer_s=_ANSWER_S) as client:
        yield HttpPoster(monitor.rstrip("/") + NOTICES, max_length=MAX_ANSWER, client=client)


def _log(said: Said) -> None:
    if said.trouble:
        log.warning("the monitor could not be told: %s", said.trouble)
    elif said.result in (DIFFERS, PROVEN):
        log.error("the monitor %s has another root than this node at %d entries (%s)", *_named(said))
    elif said.result:
        log.info("told the monitor %s of a tree of %d entries: %s", *_named(said))


def _named(said: Said) -> tuple[str, int, str]:
    return said.monitor, said.size, said.result
