"""What the simulation is built of: clocks that are wrong, processes that die, lines that lose, workers that stall."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from interlock.base.clock import MICROSECONDS, ManualClock
from interlock.base.fetch import Unreachable
from interlock.dap.transport import Reply
from tests.sim.reaper import Killed

__all__ = ["Line", "Mortal", "Skewed", "Turn", "late"]

FAULTS = ("lost", "held", "doubled", "no answer", "slow", "slower", *[""] * 8)
Send = Callable[[str, str, str, bytes], Reply]


@dataclass
class Skewed:
    """One party's clock: the true time and how far it is off."""

    true: ManualClock
    off_s: int = 0

    def now_us(self) -> int:
        return self.true.now_us() + self.off_s * MICROSECONDS


class Mortal:
    """A process with a store of its own, which dies at a write, before or after that is durable, when told to."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.dead = False
        self._left: int | None = None
        self._durable = False
        self._write, self._read = store._write, store._read
        store._write, store._read = self._counted, self._asked

    def doom(self, writes: int, *, durable: bool) -> None:
        """Die at the n-th write from now."""
        self._left, self._durable = writes, durable

    def bury(self) -> None:
        """Close what it held open, so that it can be started again; whatever of it still runs is a ghost."""
        self.dead = True
        self.store._write, self.store._read = self._write, self._read
        self.store.close()

    @contextlib.contextmanager
    def _counted(self) -> Iterator[Any]:
        self._live()
        if self._left is not None:
            self._left -= 1
        last = self._left == 0
        with self._write() as tx:
            yield tx
            if last and not self._durable:
                self._die()
        if last:
            self._die()

    def _asked(self, sql: str, *args: object) -> Any:
        self._live()
        return self._read(sql, *args)

    def _live(self) -> None:
        if self.dead:
            raise Killed

    def _die(self) -> None:
        self.dead = True
        raise Killed


class Turn:
    """Work in a thread of its own that runs only while it is let to; so a pass can be held up at any request."""

    def __init__(self, work: Callable[[Turn], None]) -> None:
        self._mine, self._yours = threading.Semaphore(0), threading.Semaphore(0)
        self.over = False
        self.fault: BaseException | None = None
        self._work = work
        threading.Thread(target=self._run, daemon=True).start()

    def go(self) -> None:
        """Let it run until it stalls or is over."""
        self._mine.release()
        self._yours.acquire()
        if self.fault is not None:
            raise self.fault

    def stall(self) -> None:
        """Called by the work itself: wait for the next `go`."""
        self._yours.release()
        self._mine.acquire()

    def _run(self) -> None:
        self._mine.acquire()
        try:
            self._work(self)
        except Killed:
            pass
        except BaseException as e:
            self.fault = e
        self.over = True
        self._yours.release()


def late(what: str) -> Unreachable:
    return Unreachable(what, where="the line")


@dataclass
class Line:
    """A line that loses, doubles and holds back what is sent; what was held back comes much later, out of order."""

    send: Send
    rng: random.Random
    held: list[tuple[str, str, str, bytes]] = field(default_factory=list)
    quiet: bool = False
    stall: Callable[[], None] = lambda: None

    def __call__(self, method: str, url: str, media_type: str = "", body: bytes = b"") -> Reply:
        request = (method, url, media_type, body)
        fault = "" if self.quiet else self.rng.choice(FAULTS)
        if fault == "held":
            self.held.append(request)
        if fault in ("lost", "held"):
            raise late("the request was lost")
        if fault == "doubled":
            self.send(*request)
        if fault == "slow":
            self.stall()
        reply = self.send(*request)
        if fault == "slower":
            self.stall()
        if fault == "no answer":
            raise late("the answer was lost")
        return reply

    def deliver(self) -> None:
        """One of the requests that were held back comes at last; nobody waits for its answer."""
        if self.held:
            with contextlib.suppress(Unreachable):
                self.send(*self.held.pop(self.rng.randrange(len(self.held))))
