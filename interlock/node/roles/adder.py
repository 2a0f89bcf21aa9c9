"""Adding to a log in batches: entries that come while a batch is under way make up the next one.

A batch costs one sync of the journal, one write of the tree's edge, one signature and one round of cosigning, however
many entries it has; nobody waits for a batch to fill, so an entry that comes alone is a batch of its own.

    add(entry) -> its tlog-proof        durable, integrated, and under a published checkpoint with a quorum
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from interlock.base.errors import InterlockError
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


class Adder:
    """The one who adds to a log; every method runs in one event loop."""

    def __init__(self, log: Log, policy: TlogPolicy, cosigners: Cosigners) -> None:
        self._log = log
        self._policy = policy
        self._cosigners = cosigners
        self._waiting: list[tuple[bytes, asyncio.Future[bytes]]] = []
        self._worker: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._quorate: bytes | None = None  # the last checkpoint that was found to have the quorum

    async def add(self, entry: bytes) -> bytes:
        """Add an entry, or complete it; the proof under a checkpoint with a quorum.

        Raises: TooBusy; NoQuorum; BadState, NotWritable, where the disk fails.
        """
        if len(self._waiting) >= MOST_WAITING:
            raise TooBusy("has too many entries waiting", where="this log", fix="send it again a little later")
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, answer))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await answer

    async def keep_published(self) -> None:
        """Publish, for as long as the server runs, what a crash or an absent witness has left unpublished."""
        wait_s = RETRY_S
        while True:
            async with self._turn:
                try:
                    if self._log.published is None or self._log.published_size < self._log.size:
                        await self._complete()
                    wait_s = RETRY_S
                except InterlockError as e:
                    logger.warning("nothing newer is published for now: %s", e.what)
                    wait_s = min(2 * wait_s, RETRY_MOST_S)
            await asyncio.sleep(wait_s)

    async def _work(self) -> None:
        while self._waiting:
            async with self._turn:
                batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
                try:
                    await self._add([entry for entry, _ in batch], [answer for _, answer in batch])
                finally:
                    for _, answer in batch:  # whatever went wrong, nobody waits for ever
                        answer.cancel()

    async def _add(self, entries: Sequence[bytes], answers: Sequence[asyncio.Future[bytes]]) -> None:
        trouble: Exception | None = None
        try:
            indices = await asyncio.to_thread(self._log.append, entries)
        except Exception as e:  # noqa: BLE001 - each request of the batch is told, and says so in its own answer
            _tell(answers, e)
            return
        try:
            if max(indices) >= self._log.published_size or not self._has_quorum():
                await self._complete()
        except Exception as e:  # noqa: BLE001 - as above
            trouble = e
        await self._answer(indices, answers, trouble)

    async def _answer(
        self, indices: Sequence[int], answers: Sequence[asyncio.Future[bytes]], trouble: Exception | None
    ) -> None:
        """Answer what stands under the published checkpoint with its proof, the rest with what went wrong."""
        note = self._log.published
        size = self._log.published_size if note is not None and self._has_quorum() else 0
        told = [k for k, index in enumerate(indices) if index < size]
        if note is not None and told:
            try:
                proofs = await asyncio.to_thread(self._proofs, [indices[k] for k in told], note)
            except Exception as e:  # noqa: BLE001 - as above
                trouble, told, proofs = e, [], []
            for k, proof in zip(told, proofs, strict=True):
                if not answers[k].done():
                    answers[k].set_result(proof)
        _tell(answers, trouble or AssertionError("an entry was completed and is not published"))

    def _proofs(self, indices: Sequence[int], note: bytes) -> list[bytes]:
        return [proof.data for proof in self._log.prove_all(indices, note)]

    async def _complete(self) -> None:
        """Integrate what is durable, have it cosigned and publish it. Raises: as `add`."""
        note = await self._cosigners.cosigned(await asyncio.to_thread(self._log.integrate))
        await asyncio.to_thread(self._log.publish, encode_note(note))

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


def _tell(answers: Sequence[asyncio.Future[bytes]], trouble: Exception) -> None:
    for answer in answers:
        if not answer.done():
            answer.set_exception(trouble)
