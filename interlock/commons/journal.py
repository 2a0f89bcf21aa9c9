"""The journal of a publish: all that its steps need, so that each can be taken again with the same result.

begun      each entry that is to be logged is fixed here; the log is asked for one after the other
logged     every entry has its proof; nothing is written yet
targets    records, targets and the roles that name them are written, beside the old ones
snapshot   so is the snapshot, and it is to be logged
cosigned   the snapshot's entry has its proof, written beside it
done       the timestamp names the snapshot
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from interlock.base.codec import Malformed
from interlock.base.files import BadState, stamped, unstamped
from interlock.base.primitives import BadSignature
from interlock.base.text import b64, unb64
from interlock.transparency.entry import LogEntry, known_entry

__all__ = ["MAX_JOURNAL", "RENEWAL", "STEPS", "Item", "Journal", "Loose", "Wanted", "dump_journal", "parse_journal"]

STEPS: Final = ("begun", "logged", "targets", "snapshot", "cosigned", "done")
RENEWAL: Final = "renewal.json"  # the journal of new signatures under way, in HOME; a commons begins with one
MAX_JOURNAL: Final = 16 << 20  # bytes
_FORMAT: Final = "interlock-publish"
_VERSION: Final = 3

Wanted = tuple[tuple[str, str, bytes], ...]  # type of entry or role, place, bytes


@dataclass(frozen=True)
class Item:
    """A log entry and the bytes that it names: a target at `path` of a role; or a record, where both are empty."""

    entry: LogEntry
    data: bytes = field(repr=False)
    path: str = ""
    role: str = ""
    proof: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Loose:
    """A target that no entry of its own stands for: the snapshot that names it is logged."""

    path: str
    role: str
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Journal:
    """A publish under way.

    `at` is the time that all its signatures name; `base` are the roles' versions before it; `cites` are the SHA-256 of
    records that a promotion rests on; `roles` get a new version even where they name nothing new; `rekeyed` are
    roles below targets, each with the text of the new key that targets names for it; `targets` are new ones that their
    holders signed. Where `waits`, what targets should say is only put down for its holders to sign; the rest goes on.
    `log_size` is that of a tree that has all that was logged before anything is written.
    """

    step: str
    at: int
    base: Mapping[str, int]
    items: tuple[Item, ...] = ()
    loose: tuple[Loose, ...] = ()
    cites: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    snapshot_sha256: str = ""
    timestamp: int = 0
    rekeyed: tuple[tuple[str, str], ...] = ()
    targets: bytes = field(default=b"", repr=False)
    waits: bool = False
    log_size: int = 0

    @property
    def what(self) -> str:
        """What is published, for a sentence about it."""
        if self.items:
            last = self.items[-1]
            return last.path or f"{last.entry.type} of {last.entry.name}"
        if self.targets:
            return "targets"
        if self.rekeyed:
            return f"the key of {self.rekeyed[0][0]}"
        return self.loose[0].path if self.loose else "signatures"

    @property
    def wanted(self) -> Wanted:
        """What tells one publish from another, whatever the time and the versions: the last entry's bytes."""
        if self.items:
            last = self.items[-1]
            return ((last.entry.type, f"{last.entry.ring}/{last.path}", last.data),)
        if self.targets:
            return (("targets", "", self.targets),)
        keys = tuple(("key", role, text.encode("ascii")) for role, text in self.rekeyed)
        return tuple((target.role, target.path, target.data) for target in self.loose) + keys

    @property
    def changed(self) -> dict[str, int]:
        """The roles that get a new version now, and which."""
        waiting = {"targets", *(role for role, _ in self.rekeyed)} if self.waits else set()
        return {role: self.base[role] + 1 for role in sorted(self.named - waiting)}

    @property
    def named(self) -> set[str]:
        """The roles that are to say something new."""
        named = {item.role for item in self.items if item.role} | {target.role for target in self.loose}
        rings = {item.entry.ring for item in self.items if item.entry.type == "pack"}  # whose index names the pack
        keys = {role for role, _ in self.rekeyed} | ({"targets"} if self.rekeyed or self.targets else set())
        return named | rings | keys | set(self.roles)

    @property
    def acknowledged(self) -> bool:
        """Whether the log has acknowledged something of what is not finished yet."""
        return self.step not in ("begun", "done") or (self.step == "begun" and any(i.proof for i in self.items))

    @property
    def writing(self) -> bool:
        """Whether something of it is written that clients do not see yet."""
        return self.step in ("targets", "snapshot", "cosigned")


def dump_journal(journal: Journal) -> bytes:
    """A journal's bytes. The inverse of `parse_journal`."""
    body: dict[str, object] = {
        "step": journal.step,
        "at": journal.at,
        "base": dict(journal.base),
        "items": [_item(item) for item in journal.items],
        "loose": [{"path": t.path, "role": t.role, "data": b64(t.data)} for t in journal.loose],
        "cites": list(journal.cites),
        "roles": list(journal.roles),
        "snapshot_sha256": journal.snapshot_sha256,
        "timestamp": journal.timestamp,
        "rekeyed": dict(journal.rekeyed),
        "targets": b64(journal.targets),
        "waits": journal.waits,
        "log_size": journal.log_size,
    }
    return stamped(_FORMAT, _VERSION, body)


def parse_journal(data: bytes, *, where: str) -> Journal:
    """Read a journal. Raises: BadState, NewerFormat."""
    body = unstamped(data, _FORMAT, _VERSION, where=where)
    if body["v"] == 1:
        raise BadState("is of an early interlock", where=where, fix="begin a new commons, with a new log")
    try:
        step, base = _text(body["step"]), _object(body["base"])
        if step not in STEPS:
            raise ValueError
        return Journal(
            step=step,
            at=_number(body["at"]),
            base={role: _number(version) for role, version in base.items()},
            items=tuple(_parsed_item(_object(row)) for row in _list(body["items"])),
            loose=tuple(_parsed_loose(_object(row)) for row in _list(body["loose"])),
            cites=tuple(_text(row) for row in _list(body["cites"])),
            roles=tuple(_text(row) for row in _list(body["roles"])),
            snapshot_sha256=_text(body["snapshot_sha256"]),
            timestamp=_number(body["timestamp"]),
            rekeyed=tuple((role, _text(text)) for role, text in _object(body["rekeyed"]).items()),
            targets=unb64(_text(body.get("targets", "")), "targets"),
            waits=body.get("waits", False) is True,
            log_size=_number(body.get("log_size", 0)),
        )
    except (KeyError, ValueError, Malformed, BadSignature):
        raise BadState("is damaged", where=where, fix="restore it from its backup") from None


def _item(item: Item) -> dict[str, object]:
    return {
        "entry": item.entry.data.decode("ascii"),
        "data": b64(item.data),
        "path": item.path,
        "role": item.role,
        "proof": b64(item.proof),
    }


def _parsed_item(row: dict[str, object]) -> Item:
    texts = {key: _text(row[key]) for key in ("entry", "data", "path", "role", "proof")}
    return Item(
        entry=known_entry(texts["entry"].encode("utf-8")),
        data=unb64(texts["data"], "data"),
        path=texts["path"],
        role=texts["role"],
        proof=unb64(texts["proof"], "proof"),
    )


def _parsed_loose(row: dict[str, object]) -> Loose:
    return Loose(_text(row["path"]), _text(row["role"]), unb64(_text(row["data"]), "data"))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError
    return value


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError
    return value
