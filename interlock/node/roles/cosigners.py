"""Asking a policy's witnesses for cosignatures (C2SP tlog-witness), side by side, each within a time-out."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import httpx

from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.primitives import BadSignature
from interlock.transparency.checkpoint import CosignatureVerifier, parse_checkpoint
from interlock.transparency.log import Log
from interlock.transparency.note import MAX_NOTE, Note, Signature, encode_note, parse_note
from interlock.transparency.policy import NoQuorum, Peer, TlogPolicy
from interlock.transparency.witness import add_checkpoint_request, parse_cosignatures, parse_size

__all__ = ["WITNESS_TIMEOUT_S", "Cosigners", "WitnessRefused"]

WITNESS_TIMEOUT_S: Final = 5.0
GRACE_S: Final = 0.25  # how long more cosignatures are waited for once the quorum is there
ATTEMPTS: Final = 3  # requests to one witness for one checkpoint


class WitnessRefused(InterlockError):
    """A witness that did not cosign, and why."""

    code = "no-quorum"


class Cosigners:
    """Asks a policy's witnesses; remembers which size each has seen. A witness with two keys is asked once for both."""

    def __init__(
        self, log: Log, policy: TlogPolicy, client: httpx.AsyncClient, timeout_s: float = WITNESS_TIMEOUT_S
    ) -> None:
        self._log = log
        self._policy = policy
        self._client = client
        self._timeout_s = timeout_s
        self._sizes: dict[str, int] = {}
        self._places: dict[str, dict[str, Peer]] = {}  # URL -> the policy's names of those who answer there
        for name, witness in policy.witnesses.items():
            if witness.url:
                self._places.setdefault(witness.url.rstrip("/"), {})[name] = witness

    async def cosigned(self, note: bytes) -> Note:
        """The checkpoint with enough cosignatures. Raises: NoQuorum, which says what each witness answered."""
        parsed = parse_note(note)
        tasks = {asyncio.create_task(self._ask(url, of, parsed)): of for url, of in self._places.items()}
        found: dict[str, Signature] = {}
        waiting = set(tasks)
        try:
            while waiting:
                enough = self._policy.satisfied(frozenset(found))
                done, waiting = await asyncio.wait(
                    waiting, timeout=GRACE_S if enough else None, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    break
                for task in done:
                    if not isinstance(task.exception(), WitnessRefused):
                        found.update(task.result())
        finally:
            await _cancelled(waiting)
        if not self._policy.satisfied(frozenset(found)):
            refused = {"+".join(tasks[t]): t.exception() for t in tasks if t not in waiting and t.exception()}
            said = ", ".join(f"{names} {why}" for names, why in refused.items())
            raise NoQuorum(
                f"{len(tasks) - len(refused)} of {len(tasks)} witnesses cosigned ({said or 'none has a URL'})",
                fix="send the same entry again once they are there",
            )
        return parsed.plus(found.values())

    async def _ask(self, url: str, witnesses: Mapping[str, Peer], note: Note) -> dict[str, Signature]:
        """Raises: WitnessRefused."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._request(url, witnesses, note)
        except TimeoutError:
            raise WitnessRefused("did not answer in time") from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as e:
            raise WitnessRefused(f"does not answer ({type(e).__name__})") from None
        except (Malformed, BadSignature) as e:
            raise WitnessRefused(f"answered what is no cosignature ({e.what})") from None

    async def _request(self, url: str, witnesses: Mapping[str, Peer], note: Note) -> dict[str, Signature]:
        size = parse_checkpoint(note.text).size
        for _ in range(ATTEMPTS):
            old = min(self._sizes.get(url, self._log.published_size), size)
            proof = await asyncio.to_thread(self._log.consistency, old, size)
            status, body = await self._post(url, add_checkpoint_request(old, proof, encode_note(note)))
            if status == httpx.codes.OK:
                self._sizes[url] = size
                return _cosignatures(witnesses, note, body)
            if status != httpx.codes.CONFLICT:
                raise WitnessRefused(f"answered {status}")
            self._sizes[url] = parse_size(body)
            if self._sizes[url] > size:
                raise WitnessRefused("has cosigned a larger tree of this log than there is here")
        raise WitnessRefused("keeps changing its mind on the last size")

    async def _post(self, url: str, body: bytes) -> tuple[int, bytes]:
        answer = bytearray()
        async with self._client.stream(
            "POST", f"{url}/add-checkpoint", content=body, headers={"Accept-Encoding": "identity"}
        ) as response:
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise Malformed("packed bytes, which nobody asked for")  # a few could become any number
            async for part in response.aiter_bytes():
                answer += part
                if len(answer) > MAX_NOTE:
                    raise Malformed(f"more than {MAX_NOTE} bytes")
            return response.status_code, bytes(answer)


def _cosignatures(witnesses: Mapping[str, Peer], note: Note, body: bytes) -> dict[str, Signature]:
    """The cosignature of each known key; lines of other keys are ignored. Raises: Malformed, BadSignature."""
    lines = {(s.name, s.key_id): s for s in parse_cosignatures(body)}
    text = note.text.encode("utf-8")
    found: dict[str, Signature] = {}
    for name, witness in witnesses.items():
        signature = lines.get((witness.key.name, witness.key.key_id))
        if signature is not None:
            CosignatureVerifier(witness.key).verify(text, signature.data)
            found[name] = signature
    if not found:
        raise Malformed("no line of its key")
    return found


async def _cancelled(tasks: set[asyncio.Task[dict[str, Signature]]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
