"""What several roles' wiring shares: the folder's log policy, and work beside the serving."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Final

from interlock.base.files import BadState, read_bounded
from interlock.node.config import LOG_POLICY, ServeConfig
from interlock.transparency.policy import TlogPolicy, parse_policy

__all__ = ["APART", "MAKE_IT", "in_background", "policy_in"]

MAKE_IT: Final = "make it with interlock mesh setup --role"  # and the role
APART: Final = "who enrols members never holds their shares: use another folder, and another operator"
_STOP_S: Final = 2.0  # longer than a turn takes; one that hangs on a peer is cut short, as every write is whole
_LIMIT: Final = 1 << 20


@contextlib.contextmanager
def in_background(name: str, work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Do `work` in a thread for as long as the block lasts; the event tells it to stop."""
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_STOP_S)


def policy_in(config: ServeConfig) -> TlogPolicy:
    """The policy of a role's folder. Raises: BadState, Malformed."""
    path = config.directory / LOG_POLICY
    if not path.exists():
        raise BadState("is missing", where=str(path), fix="write the log, its witnesses and the quorum into it")
    return parse_policy(read_bounded(path, _LIMIT))
