"""A mirror as a server: a verified copy of a commons and its log, and the loop that keeps the copy up to date."""

from __future__ import annotations

import logging
import threading
from typing import Final

from starlette.applications import Starlette

from interlock.base.errors import InterlockError, fault_line
from interlock.commons.layout import LOG_PREFIX
from interlock.commons.mirror import Mirror
from interlock.node.roles.static import static_app

__all__ = ["COPY_EVERY_S", "app", "keep_copying"]

log = logging.getLogger("interlock.mirror")

COPY_EVERY_S: Final = 60.0
_CHANGING: Final = frozenset({"metadata/timestamp.json", f"{LOG_PREFIX}/checkpoint"})


def app(mirror: Mirror) -> Starlette:
    """Serves the copy: `metadata/`, `targets/`, `records/` and the log's files under `log/`."""
    names = ("metadata", "targets", "records", LOG_PREFIX)
    mounts = {f"/{name}": mirror.public / name for name in names}
    return static_app(mounts, lambda path: path in _CHANGING, within=mirror.public)


def keep_copying(mirror: Mirror, stop: threading.Event, *, every_s: float = COPY_EVERY_S) -> None:
    """Copy until `stop` is set. A bad or missing upstream leaves the copy as it is, and is said."""
    while not stop.is_set():
        try:
            copied = mirror.copy()
            if copied.new_files:
                log.info("%d new files; snapshot %d", copied.new_files, copied.snapshot_version)
        except InterlockError as e:
            log.error("mirror keeps its last copy: %s", e)
        except Exception as e:  # noqa: BLE001 - said too, for the loop must not end of what nobody foresaw
            log.error("mirror keeps its last copy: %s", fault_line(e))
        stop.wait(every_s)
