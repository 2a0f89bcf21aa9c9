"""The event journal: what this node's agents did, kept encrypted for trying packs on; off until somebody turns it on.

    HOME/events/key       the key, made when the journal is first turned on; how large it may be, and whether it is on
    HOME/events/new       the journal; when it is half as large as the journal may be, it becomes `old`
    HOME/events/old       the half before

A file is a header line (format, v, a random name) and then a line a record: base64 of a nonce and of an AES-256-GCM
ciphertext of the event and its verdict as JSON, bound to its file's name. All is 0600 under the node's home; whoever
runs as this user can read the key too, so this keeps what is copied away or left on a disk from being read, and no
more. A line that was cut off by a crash is skipped, as is one that was changed. Nothing of it is ever sent.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.base.canonical import NotCanonical
from interlock.base.files import (
    AppendFile,
    BadState,
    NotWritable,
    file_lock,
    os_reason,
    private_dir,
    read_private,
    replace,
    stamped,
    unstamped,
)
from interlock.base.primitives import BadSignature, aes_gcm_open, aes_gcm_seal
from interlock.engine.decision import Decision, Verdict
from interlock.engine.event import SensorEvent
from interlock.engine.payload import frozen_mapping, thawed

__all__ = ["MOST_MIB", "EventLog", "EventLogState"]

FOLDER: Final = "events"
MOST_MIB: Final = 1024
MAX_EVENT: Final = 1 << 20  # bytes; a larger event is left out
_KEY: Final = "key"
_FORMAT: Final = "interlock-events"
_KEY_FORMAT: Final = "interlock-events-key"
_NONCE: Final = 12
_HEADER: Final = 256
_LINE: Final = 2 * MAX_EVENT  # base64 and the tag's bytes fit in
_FIELDS: Final = ("action", "phase", "principal", "parent_principal", "span_id", "call_id", "ts_us", "cwd")
_HALVES: Final = ("old", "new")


@dataclass(frozen=True, slots=True)
class EventLogState:
    """Whether the journal is on, how large it may be and is, in bytes."""

    on: bool
    cap: int
    size: int


class EventLog:
    """The journal of a node's home."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER

    def turn_on(self, mib: int) -> None:
        """Begin to keep events, at most so many MiB. Raises: ValueError; NotWritable, BadState."""
        if not 1 <= mib <= MOST_MIB:
            raise ValueError(f"a journal is of 1 to {MOST_MIB} MiB")
        private_dir(self._folder)
        with file_lock(self._folder / "lock", wait=True):
            key = self._read_key()[0] if (self._folder / _KEY).exists() else os.urandom(32)
            body: dict[str, object] = {"key": key.hex(), "cap": mib << 20, "on": True}
            replace(self._folder / _KEY, stamped(_KEY_FORMAT, 1, body))

    def turn_off(self) -> None:
        """Keep no more events; those that are kept stay. Raises: NotWritable, BadState."""
        if (self._folder / _KEY).exists():
            with file_lock(self._folder / "lock", wait=True):
                key, cap, _ = self._read_key()
                replace(self._folder / _KEY, stamped(_KEY_FORMAT, 1, {"key": key.hex(), "cap": cap, "on": False}))

    def drop(self) -> None:
        """Keep no more events, and delete those that are kept: the key first. Raises: NotWritable."""
        if not self._folder.exists():
            return
        with file_lock(self._folder / "lock", wait=True):
            try:
                for name in (_KEY, *_HALVES):
                    (self._folder / name).unlink(missing_ok=True)
            except OSError as e:
                raise NotWritable(f"cannot be deleted ({os_reason(e)})", where=str(self._folder)) from None

    @property
    def state(self) -> EventLogState:
        """Raises: BadState."""
        if not (self._folder / _KEY).exists():
            return EventLogState(False, 0, 0)
        _, cap, on = self._read_key()
        return EventLogState(on, cap, sum(map(self._size, _HALVES)))

    def append(self, rows: Iterable[tuple[SensorEvent, Decision]]) -> int:
        """Keep events, and return how many were; none where it is off. Raises: NotWritable, BadState."""
        if not (self._folder / _KEY).exists():
            return 0
        with file_lock(self._folder / "lock", wait=True):
            key, cap, on = self._read_key()
            if not on:
                return 0
            name, end = self._begun(cap)
            records = [_sealed(key, name, plain) for row in rows if (plain := _plain(*row)) is not None]
            with contextlib.closing(AppendFile(self._folder / "new", fsync=False)) as file:
                file.append(end + b"".join(records))
        return len(records)

    def events(self) -> Iterator[SensorEvent]:
        """All that is kept, oldest first. Raises: BadState, NotWritable."""
        if not (self._folder / _KEY).exists():
            return
        with contextlib.ExitStack() as opened:
            with file_lock(self._folder / "lock", wait=True):
                key = self._read_key()[0]
                there = [self._folder / half for half in _HALVES if (self._folder / half).exists()]
                kept = [(str(path), opened.enter_context(path.open("rb"))) for path in there]
            for where, file in kept:
                name = _named(file.readline(_HEADER), where)
                while line := file.readline(_LINE):
                    event = _opened(key, name, line)
                    if event is not None:
                        yield event

    def _size(self, half: str) -> int:
        path = self._folder / half
        return path.stat().st_size if path.exists() else 0

    def _begun(self, cap: int) -> tuple[str, bytes]:
        """The name of the file that takes the next records, and what ends a line that was cut off; a full file gives
        way to a new one."""
        path = self._folder / "new"
        if self._size("new") >= cap // 2:
            os.replace(path, self._folder / "old")
        if not path.exists():
            name = os.urandom(8).hex()
            replace(path, json.dumps({"format": _FORMAT, "v": 1, "name": name}).encode("ascii") + b"\n")
            return name, b""
        with path.open("rb") as file:
            name = _named(file.readline(_HEADER), str(path))
            file.seek(-1, os.SEEK_END)
            return name, b"" if file.read(1) == b"\n" else b"\n"

    def _read_key(self) -> tuple[bytes, int, bool]:
        path = self._folder / _KEY
        body = unstamped(read_private(path, 4096), _KEY_FORMAT, 1, where=str(path))
        key, cap, on = body.get("key"), body.get("cap"), body.get("on")
        try:
            raw = bytes.fromhex(key) if isinstance(key, str) else b""
        except ValueError:
            raw = b""
        if len(raw) != 32 or type(cap) is not int or not 0 < cap <= MOST_MIB << 20 or not isinstance(on, bool):
            raise BadState("is damaged", where=str(path), fix="interlock mesh journal drop, then on")
        return raw, cap, on


def _named(line: bytes, where: str) -> str:
    """The name in a header. Raises: BadState, NewerFormat."""
    name = unstamped(line, _FORMAT, 1, where=where).get("name")
    if not isinstance(name, str):
        raise BadState("has no name", where=where, fix="interlock mesh journal drop, then on")
    return name


def _plain(event: SensorEvent, decision: Decision) -> bytes | None:
    """An event and its verdict as JSON; None for what cannot be kept, or is too large to."""
    body: dict[str, object] = {name: getattr(event, name) for name in _FIELDS}
    verdict: object = decision.verdict
    try:
        body |= {"args": thawed(event.args), "verdict": verdict.name if isinstance(verdict, Verdict) else ""}
        plain = json.dumps(body, separators=(",", ":")).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError):
        return None
    return plain if len(plain) <= MAX_EVENT else None


def _sealed(key: bytes, name: str, plain: bytes) -> bytes:
    nonce = os.urandom(_NONCE)
    return base64.b64encode(nonce + aes_gcm_seal(key, nonce, name.encode("ascii"), plain)) + b"\n"


def _opened(key: bytes, name: str, line: bytes) -> SensorEvent | None:
    """The event of a line; None for one that was cut off or changed, or that is no event of ours."""
    try:
        raw = base64.b64decode(line.rstrip(b"\n"), validate=True)
        body = json.loads(aes_gcm_open(key, raw[:_NONCE], name.encode("utf-8", "replace"), raw[_NONCE:]))
        known = {field: body[field] for field in _FIELDS}
        return SensorEvent(args=frozen_mapping(body["args"]), **known)
    except (BadSignature, ValueError, KeyError, TypeError, NotCanonical):
        return None
