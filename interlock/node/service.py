"""What every long-running command shares: how it is stopped, that it is alone, and its log, which holds no value."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from interlock.base.clock import MICROSECONDS, rfc3339
from interlock.base.errors import one_line
from interlock.base.files import Locked, NotWritable

if sys.platform != "win32":
    import fcntl

__all__ = ["alone_in", "start_logging", "stop_event"]


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


def start_logging(form: str = "text") -> None:
    """Send the log to stderr; `form` is "text" or "json"."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Lines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for library in ("httpx", "tuf", "securesystemslib"):
        logging.getLogger(library).setLevel(logging.WARNING)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # else every stranger's garbage is a line


@contextlib.contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """Be the one long-running process of a folder. The folder itself is locked, so nothing is written to find out.

    Raises: Locked, where another one is there; NotWritable.
    """
    try:
        fd = os.open(directory, os.O_RDONLY)
    except OSError as e:
        raise NotWritable(f"cannot be opened ({e.strerror})", where=str(directory)) from None
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, fd)
        try:
            if sys.platform != "win32":
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Locked(
                "is served by another process", where=str(directory), fix="stop it, or use another directory"
            ) from None
        yield


def stop_event(*, with_stdin: bool) -> threading.Event:
    """An event that SIGTERM and Ctrl-C set; `with_stdin`, also the end of standard input: our starter is gone."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if with_stdin:
        threading.Thread(target=_until_eof, args=(stop,), daemon=True).start()
    return stop


def _until_eof(stop: threading.Event) -> None:
    # Not through sys.stdin, whose lock would be held when the program ends otherwise: Python then aborts (SIGABRT).
    while os.read(sys.stdin.fileno(), 4096):
        pass
    stop.set()
