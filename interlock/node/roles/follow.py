"""A member's loop: poll the commons, and bring what verifies into force."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from interlock.base.errors import InterlockError
from interlock.commons.subscribe import Subscriber, Update

__all__ = ["FOLLOW_EVERY_S", "follow"]

log = logging.getLogger("interlock.follow")

FOLLOW_EVERY_S: Final = 300.0


def follow(
    subscriber: Subscriber,
    stop: threading.Event,
    *,
    every_s: float = FOLLOW_EVERY_S,
    on_update: Callable[[Update], None] | None = None,
    on_trouble: Callable[[InterlockError], None] | None = None,
) -> None:
    """Update until `stop` is set. A bad update leaves the last good packs in force, and is said each time."""
    while not stop.is_set():
        try:
            update = subscriber.update()
        except InterlockError as e:
            log.error("last good policy stays: %s", e)
            if on_trouble is not None:
                on_trouble(e)
        else:
            if update.changed:
                log.info("packs in force: %s", ", ".join(f"{r.pack}@{r.ring} {r.version}" for r in update.rows))
            if on_update is not None:
                on_update(update)
        stop.wait(every_s)
