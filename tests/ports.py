"""Loopback ports for processes that are started later, or again, on a port that others were told before."""

from __future__ import annotations

import random
import socket
from typing import Final

__all__ = ["free_port"]

# below what systems hand out by themselves: no connection, and no test beside this one, can be given one meanwhile
_BELOW: Final = range(20_000, 32_000)
_given: set[int] = set()


def free_port() -> int:
    """A port that nobody listens on, and that this process was not given before."""
    for port in random.SystemRandom().sample(_BELOW, len(_BELOW)):
        if port in _given:
            continue
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port
    raise AssertionError("every port is taken")
