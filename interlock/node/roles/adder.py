"""Adding to a log in batches: what comes while a batch is under way makes up the next one.

    begin(entry) -> its tlog-proof      durable, integrated, and under a published checkpoint with a quorum

Two workers, one behind the other, each taking all that waits for it; nobody waits for a batch to fill:

    appending     one sync of the journal for all entries that wait           -> they are durable
    completing    one signature and one round of cosigning, beside one write of the tree's edge;
                  then one checkpoint published, and each entry answered      -> they are proven

So an entry that comes alone is a batch of its own, and under load the next batch gets durable while one is cosigned.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Final, NamedTuple

from interlock.base.errors import InterlockError, fault_line
from interlock.node.roles.cosigners import Cosigners
from interlock.transparency.log import Log
from interlock.transparency.note import encode_note
from interlock.transparency.policy import TlogPolicy

__all__ = ["Adder", "TooBusy"]

logger = logging.getLogger("interlock.log")

MOST_AT_ONCE: Final = 1024  # entries of a batch
MOST_WAITING: Final = 8192  # entries; with the largest ones half a gigabyte
RETRY_S: Final = 5.0  # between two attempts to publish what is not; twice as long after each failure, up to
RETRY_MOST_S: Final = 60.0


class TooBusy(InterlockError):
    """A log that has as many entries waiting as it takes."""

    code = "unreachable"


class _Entry(NamedTuple):
    """An entry whose request waits for its proof; `place` is -1 until it is durable."""

    data: bytes
    answer: asyncio.Future[bytes]
    place: int = -1


class Adder:
    """The one who adds to a log; every method runs in one event loop."""

    def __init__(self, log: Log, policy: TlogPolicy, cosigners: Cosigners) -> None:
        self._log = log
        self._policy = policy
        self._cosigners = cosigners
        self._waiting: list[_Entry] = []
        self._durable: list[_Entry] = []
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()
        self._quorate: bytes | None = None  # the last checkpoint that was found to have the quorum

    def begin(self, entry: bytes) -> asyncio.Future[bytes]:
        """Add an entry, or complete it; brings the proof under a checkpoint with a quorum.

        Raises: TooBusy. What it brings may raise NoQuorum; BadState, NotWritable, where the disk fails.
        """
        if len(self._waiting) + len(self._durable) >= MOST_WAITING:
            raise TooBusy("has too many entries waiting", where="this log", fix="send it again a little later")
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Entry(entry, answer))
        self._run("append", self._append)
        return answer

    async def keep_published(self) -> None:
        """Publish, for as long as the server runs, what a crash or an absent witness has left unpublished."""
        wait_s = RETRY_S
        while True:
            async with self._turn:
                try:
                    if self._log.published is None or self._log.published_size < self._log.size:
                        await self._publish()
                    wait_s = RETRY_S
                except InterlockError as e:
                    logger.warning("nothing newer is published for now: %s", e.what)
                    wait_s = min(2 * wait_s, RETRY_MOST_S)
                except Exception as e:  # noqa: BLE001 - said too, for the loop must not end of what nobody foresaw
                    logger.error("nothing newer is published for now: %s", fault_line(e))
                    wait_s = min(2 * wait_s, RETRY_MOST_S)
            await asyncio.sleep(wait_s)

    def _run(self, name: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Start a worker, unless it is at work: then it will find what waits."""
        if name not in self._workers or self._workers[name].done():
            self._workers[name] = asyncio.create_task(work())

    async def _append(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
            try:
                indices = await asyncio.to_thread(self._log.append, [entry.data for entry in batch])
            except Exception as e:  # noqa: BLE001 - each request of the batch is told, and says so in its own answer
                _tell(batch, e)
            else:
                self._durable += [entry._replace(place=index) for entry, index in zip(batch, indices, strict=True)]
                self._run("complete", self._complete)

    async def _complete(self) -> None:
        while self._durable:
            async with self._turn:
                batch, self._durable = self._durable, []
                trouble: Exception | None = None
                try:
                    if max(e.place for e in batch) >= self._log.published_size or not self._has_quorum():
                        await self._publish()
                except Exception as e:  # noqa: BLE001 - as above
                    trouble = e
                try:
                    await self._answer(batch)
                except Exception as e:  # noqa: BLE001 - as above
                    trouble = e
                _tell(batch, trouble or AssertionError("an entry was completed and is not published"))

    async def _answer(self, batch: Sequence[_Entry]) -> None:
        """Answer what stands under the published checkpoint, if that has the quorum. Raises: BadState."""
        note, size = self._log.published, self._log.published_size
        if note is None or not self._has_quorum():
            return
        stand = [entry for entry in batch if entry.place < size]
        proofs = await asyncio.to_thread(self._log.proof_files, [entry.place for entry in stand], note)
        for entry, proof in zip(stand, proofs, strict=True):
            if not entry.answer.done():
                entry.answer.set_result(proof)

    async def _publish(self) -> None:
        """Sign what is durable, have it cosigned while it is written, and publish it. Raises: as `begin` brings."""
        note = await asyncio.to_thread(self._log.sign)
        storing = asyncio.create_task(asyncio.to_thread(self._log.store))
        try:
            cosigned = await self._cosigners.cosigned(note)
        finally:
            await storing
        published = encode_note(cosigned)
        await asyncio.to_thread(self._log.publish, published)
        self._quorate = published  # each of its cosignatures was verified when it came

    def _has_quorum(self) -> bool:
        """Whether the published checkpoint satisfies the policy of today, which may be stricter than of then."""
        note = self._log.published
        if note != self._quorate:
            try:
                self._policy.check(note or b"")
            except InterlockError:
                return False
            self._quorate = note
        return note is not None


def _tell(batch: Sequence[_Entry], trouble: Exception) -> None:
    for entry in batch:
        if not entry.answer.done():
            entry.answer.set_exception(trouble)
