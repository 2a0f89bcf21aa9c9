"""A witness: it cosigns a log's checkpoint only if that extends the last one it cosigned (C2SP tlog-witness v1.0.0).

The request of add-checkpoint, and what each answer means:

    old SIZE                     200  cosignature lines
    base64(HASH)  none or more   400  not of this form, or the old size is larger than the new
    <empty line>                 403  not signed by a key that is trusted for this origin
    the checkpoint, signed       404  the origin is not known here
                                 409  the last cosigned size is another one; the body says which
                                 422  the consistency proof does not verify

A witness with two keys (Ed25519 and ML-DSA-44) answers with a line of each. GET of the last checkpoint of an origin is
answered too (`latest`); sign-subtree, which is optional, is not: its subtrees serve certificates made of Merkle trees.

A time that was stated is never followed by an earlier one: where the clock once stood in the future, that time is
stated until it comes, or until the operator says that it was wrong (`restate`). Then the last tree of each log is
cosigned again at the present time; nothing of what was cosigned is forgotten.

The new state is on disk before the answer is made, and reading the old state, checking and writing the new one happen
under one lock, of the process and of the directory: no two histories are ever cosigned, whoever asks and when.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from interlock.base.clock import MICROSECONDS, Clock
from interlock.base.codec import Malformed
from interlock.base.files import BadState, file_lock, private_dir, read_bounded, replace, stamped, unstamped
from interlock.base.primitives import BadSignature
from interlock.base.text import is_sha256
from interlock.transparency.checkpoint import (
    Checkpoint,
    Cosigner,
    cosigned_at,
    log_verifier,
    origin_hash,
    parse_checkpoint,
)
from interlock.transparency.merkle import MAX_PROOF, BadProof, verify_consistency
from interlock.transparency.note import (
    MAX_NOTE,
    Note,
    Signature,
    VerifierKey,
    encode_note,
    parse_note,
    parse_signatures,
)
from interlock.transparency.text import decimal, hash_lines, unhash_lines, utf8_lines

__all__ = [
    "MAX_REQUEST",
    "SIZE_TYPE",
    "Answer",
    "Witness",
    "add_checkpoint_request",
    "parse_cosignatures",
    "parse_request",
    "parse_size",
]

MAX_REQUEST: Final = MAX_NOTE + 64 * (MAX_PROOF + 2)  # bytes
SIZE_TYPE: Final = "text/x.tlog.size"
TEXT_TYPE: Final = "text/plain; charset=utf-8"
_FORMAT: Final = "interlock-witness"
_MAX_STATE: Final = 2 * MAX_NOTE + 4096  # a note as a JSON string, and its origin


class Answer(NamedTuple):
    """What HTTP is to say."""

    status: int
    content_type: str
    body: bytes


def add_checkpoint_request(old: int, proof: Sequence[bytes], note: bytes) -> bytes:
    """The body of add-checkpoint. The inverse of `parse_request`."""
    return f"old {old}\n{hash_lines(proof)}\n".encode("ascii") + note


def parse_request(body: bytes) -> tuple[int, tuple[bytes, ...], Note]:
    """The old size, the proof and the note of an add-checkpoint. Raises: Malformed."""
    head, empty, note = utf8_lines(body, MAX_REQUEST, "request").partition("\n\n")
    first, *lines = head.split("\n")
    if not empty or not first.startswith("old "):
        raise Malformed("request has no line of the old size, or no empty line before its checkpoint")
    old = decimal(first.removeprefix("old "), "old size")
    return old, unhash_lines(lines, "consistency proof"), parse_note(note.encode("utf-8"))


def parse_cosignatures(body: bytes) -> tuple[Signature, ...]:
    """The signature lines of an answer 200; verifies nothing. Raises: Malformed."""
    return parse_signatures(utf8_lines(body, MAX_NOTE, "answer"))


def parse_size(body: bytes) -> int:
    """The size in an answer 409. Raises: Malformed."""
    return decimal(utf8_lines(body, 64, "answer")[:-1], "size")


class Witness:
    """Cosigns for the logs it knows (`logs`: origin -> keys), with one file of state an origin below `home`.

    `cosigners` are its keys, one or two under one name. `logs` is read anew for each request, so that it may grow.
    """

    def __init__(
        self, home: Path, cosigners: Sequence[Cosigner], logs: Mapping[str, Sequence[VerifierKey]], clock: Clock
    ) -> None:
        if len({c.name for c in cosigners}) != 1:
            raise ValueError("a witness has one name, and a key at least")
        self._home = private_dir(home)
        self._cosigners = tuple(cosigners)
        self._logs = logs
        self._clock = clock
        self._lock = threading.Lock()

    def process(self, body: bytes) -> Answer:
        """Answer one add-checkpoint.

        Raises: BadState, NewerFormat, NotWritable: then nothing was cosigned.
        """
        try:
            old, proof, note = parse_request(body)
            checkpoint = parse_checkpoint(note.text)
            if old > checkpoint.size:
                raise Malformed("old size is larger than that of the checkpoint")
        except Malformed as e:
            return _said(400, str(e))
        keys = self._logs.get(checkpoint.origin)
        if keys is None:
            return _said(404, "this witness does not know that log")
        try:
            signed = note.verified([log_verifier(k) for k in keys])
        except BadSignature as e:
            return _said(403, str(e))
        own = Note(note.text, tuple(signature for _, signature in signed))
        with self._lock, file_lock(self._home / "lock", wait=True):
            return self._compare_and_swap(old, proof, checkpoint, own)

    def latest(self, named: str) -> bytes | None:
        """The last cosigned checkpoint of an origin, by the hex SHA-256 of its name; None where there is none."""
        if not is_sha256(named):
            return None
        for origin in self._logs:
            if origin_hash(origin) == named:
                note = self._read(origin)
                return None if note is None else encode_note(note)
        return None

    def stated(self) -> dict[str, int]:
        """The time of the last cosignature for each log that has one, in POSIX seconds. Raises: BadState."""
        states = {origin: self._read(origin) for origin in self._logs}
        found = {origin: self._own_times(state) for origin, state in states.items()}
        return {origin: max(times) for origin, times in found.items() if times}

    def restate(self) -> dict[str, int]:
        """Cosign the last tree of each log whose stated time lies ahead of the clock again, at the present time.

        Its size and root stay. Returns the times that were let go of. Raises: BadState, NotWritable.
        """
        with self._lock, file_lock(self._home / "lock", wait=True):
            now = self._clock.now_us() // MICROSECONDS
            ahead = {origin: seconds for origin, seconds in self.stated().items() if seconds > now}
            for origin in ahead:
                state = self._read(origin)
                assert state is not None, "a time was stated with a tree"
                theirs = tuple(s for s in state.signatures if (s.name, s.key_id) not in self._keys)
                again = [cosigner.cosign(state.text.encode("utf-8"), now) for cosigner in self._cosigners]
                self._write(origin, Note(state.text, theirs).plus(again))
            return ahead

    def _compare_and_swap(self, old: int, proof: Sequence[bytes], new: Checkpoint, note: Note) -> Answer:
        state = self._read(new.origin)
        last = None if state is None else parse_checkpoint(state.text)
        size = 0 if last is None else last.size
        if old != size:
            return Answer(409, SIZE_TYPE, f"{size}\n".encode("ascii"))
        try:
            new.demand_sound()
            if last is None or last.size == 0:
                if proof:
                    raise BadProof("a consistency proof from size 0 is empty")
            else:
                verify_consistency(last.size, last.root, new.size, new.root, proof)
        except BadProof as e:
            return _said(422, str(e))
        text, seconds = note.text.encode("utf-8"), self._seconds(state)
        cosigned = [cosigner.cosign(text, seconds) for cosigner in self._cosigners]
        kept = note.plus(cosigned)
        if len(encode_note(kept)) > MAX_NOTE:
            return _said(400, f"a checkpoint with its cosignatures has at most {MAX_NOTE} bytes")
        self._write(new.origin, kept)
        return Answer(200, TEXT_TYPE, "".join(s.line for s in cosigned).encode("utf-8"))

    def _seconds(self, state: Note | None) -> int:
        """The time to state: never one before the last, else two statements on what was newest would clash."""
        return max([self._clock.now_us() // MICROSECONDS, *self._own_times(state)])

    def _own_times(self, state: Note | None) -> list[int]:
        signatures = () if state is None else state.signatures
        return [cosigned_at(s) for s in signatures if (s.name, s.key_id) in self._keys]

    @property
    def _keys(self) -> set[tuple[str, bytes]]:
        return {(c.key.name, c.key.key_id) for c in self._cosigners}

    def _path(self, origin: str) -> Path:
        return self._home / f"{origin_hash(origin)}.json"

    def _read(self, origin: str) -> Note | None:
        path = self._path(origin)
        if not path.exists():
            return None
        body = unstamped(read_bounded(path, _MAX_STATE), _FORMAT, 1, where=str(path))
        try:
            note = parse_note(str(body.get("note")).encode("utf-8"))
            found = parse_checkpoint(note.text).origin
        except (Malformed, UnicodeEncodeError):
            found = ""
        if found != origin:
            raise BadState("is damaged", where=str(path), fix="restore it: this witness must not forget what it signed")
        return note

    def _write(self, origin: str, note: Note) -> None:
        body: dict[str, object] = {"origin": origin, "note": encode_note(note).decode("utf-8")}
        replace(self._path(origin), stamped(_FORMAT, 1, body))


def _said(status: int, why: str) -> Answer:
    return Answer(status, TEXT_TYPE, f"{why}\n".encode())
