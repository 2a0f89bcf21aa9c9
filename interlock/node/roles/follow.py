"""A member's loop: poll the commons, and bring what verifies into force."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from interlock.base.clock import Clock
from interlock.base.errors import InterlockError, fault_line
from interlock.base.files import seen_state
from interlock.commons.stepback import weigh
from interlock.commons.subscribe import Subscriber, Update

__all__ = ["FOLLOW_EVERY_S", "StepBacks", "follow"]

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
        except Exception as e:  # noqa: BLE001 - said too, for the loop must not end of what nobody foresaw
            log.error("last good policy stays: %s", fault_line(e))
        else:
            for changes in update.changes:
                log.info("taken: %s", "; ".join(line.strip() for line in changes.lines()))
            for row in update.withdrawn:
                log.warning("taken back, %s: %s", row.scope, row)
            for name, why in update.held:
                log.warning("held back: %s: %s", name, why)
            if update.changed:
                log.info("packs held: %s", ", ".join(f"{r.name} {r.version}" for r in update.rows))
            if on_update is not None:
                on_update(update)
        stop.wait(every_s)


class StepBacks:
    """After each update: looks whether rules should step back, where there are new receipts to tell by."""

    def __init__(self, home: Path, receipts: Path, clock: Clock) -> None:
        self._home = home
        self._receipts = receipts
        self._clock = clock
        self._seen: object = None

    def __call__(self, update: Update) -> None:
        seen = seen_state(self._receipts)
        if seen == self._seen:
            return
        try:
            for proposal in weigh(self._home, self._receipts, self._clock.now_us()):
                done = "is put into shadow" if proposal.state == "applied" else "is proposed to step back"
                log.warning("%s of %s %s: it %s", proposal.rule, proposal.pack, done, proposal.objections)
            self._seen = seen
        except InterlockError as e:
            log.error("no rule steps back: %s", e)
