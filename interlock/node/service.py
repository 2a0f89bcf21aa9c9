"""What every long-running command shares: logging to stderr, as lines or as JSON, and never a value."""

from __future__ import annotations

import json
import logging
import sys
from typing import Final

from interlock.base.clock import MICROSECONDS, rfc3339
from interlock.base.errors import one_line

__all__ = ["start_logging"]

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"{_time(record)} {record.levelname.lower()} {record.name}: {_message(record)}"


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        row = {
            "at": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        return json.dumps(row, ensure_ascii=False)


def _time(record: logging.LogRecord) -> str:
    return rfc3339(int(record.created * MICROSECONDS))


def _message(record: logging.LogRecord) -> str:
    # An exception's type is named and its text left out: it may quote what a peer or an agent sent.
    kind = record.exc_info[0] if record.exc_info else None
    return one_line(record.getMessage() + (f" ({kind.__name__})" if kind else ""))


def start_logging(form: str = "text", level: str = "info") -> None:
    """Send the log to stderr; `form` is "text" or "json"."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Lines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_LEVELS[level])
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
