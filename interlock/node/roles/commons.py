"""The commons as a server: the static files of its public directory; and the loop that keeps its signatures fresh."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Final

from starlette.applications import Starlette

from interlock.base.errors import InterlockError, fault_line
from interlock.commons.publish import Publisher
from interlock.node.roles.static import static_app

__all__ = ["RENEW_EVERY_S", "RETRY_LEAST_S", "RETRY_MOST_S", "app", "keep_fresh"]

log = logging.getLogger("interlock.commons")

RENEW_EVERY_S: Final = 6 * 3600.0  # a quarter of a timestamp's life
RETRY_LEAST_S: Final = 1.0  # a log or a witness that is just starting is there soon
RETRY_MOST_S: Final = 60.0


def app(public: Path) -> Starlette:
    """Serves `metadata/`, `targets/` and `records/` below the commons' public directory, and nothing else."""
    mounts = {f"/{name}": public / name for name in ("metadata", "targets", "records")}
    return static_app(mounts, lambda path: path == "metadata/timestamp.json")


def keep_fresh(publisher: Publisher, stop: threading.Event) -> None:
    """Renew snapshot and timestamp when they are RENEW_EVERY_S old, until `stop` is set.

    A failure is said and tried again, after RETRY_LEAST_S at first and after twice as long each time, RETRY_MOST_S at
    the most. Nothing is locked while nothing is due, so that a publish finds the commons free.
    """
    retry_s = RETRY_LEAST_S
    while not stop.is_set():
        try:
            if publisher.due(RENEW_EVERY_S):
                publisher.renew()
        except InterlockError as e:
            log.error("commons not renewed: %s", e)
        except Exception as e:  # noqa: BLE001 - said too, for the loop must not end of what nobody foresaw
            log.error("commons not renewed: %s", fault_line(e))
        else:
            retry_s = RETRY_LEAST_S
            stop.wait(RENEW_EVERY_S)
            continue
        stop.wait(retry_s)
        retry_s = min(2 * retry_s, RETRY_MOST_S)
