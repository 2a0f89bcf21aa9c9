"""Whose word counts: the logs, the witnesses and the quorum (C2SP tlog-policy, untagged).

    log VKEY [URL]                 VKEY of type 0x01 or 0x06; its key name is the log's origin
    witness NAME VKEY [URL]        VKEY of type 0x04 or 0x06
    group NAME all|any|K NAME...   K of the members, each defined above and a member of one group only
    quorum NAME|none               exactly one; a witness or a group defined above

Items are parted by spaces and tabs; empty lines and lines that begin with # are ignored. A checkpoint is valid if a
log of the policy signed it as its own origin and enough witnesses cosigned it.

A log with a key of each type has two lines, of which either signature is enough; list the 0x06 line alone to demand
that one. A witness (a key name) with two keys counts once: its two lines stand in a group of their own, `any` of them
or `all`, and a policy that could count them as two witnesses is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.transparency.checkpoint import (
    Checkpoint,
    CosignatureVerifier,
    cosigned_at,
    log_verifier,
    parse_checkpoint,
)
from interlock.transparency.note import Note, VerifierKey, parse_note, parse_vkey
from interlock.transparency.text import decimal

__all__ = ["MAX_POLICY", "Checked", "Group", "NoQuorum", "Peer", "TlogPolicy", "UnknownLog", "parse_policy"]

MAX_POLICY: Final = 64 * 1024  # bytes
MAX_LINES: Final = 1024
NONE: Final = "none"
_FORBIDDEN: Final = re.compile(rb"[^\t\n\x20-\x7e\x80-\xff]")
_BLANK: Final = re.compile("[ \t]+")


class NoQuorum(InterlockError):
    """A checkpoint that too few of the trusted witnesses have cosigned."""

    code = "no-quorum"


class UnknownLog(InterlockError):
    """A checkpoint of a log that the policy does not name."""

    code = "not-found"


@dataclass(frozen=True)
class Peer:
    """A log or a witness: its key, and where it is reached ('' where that is not said)."""

    key: VerifierKey
    url: str = ""


@dataclass(frozen=True)
class Group:
    """`least` of these members, each a witness or a group defined before."""

    least: int
    members: tuple[str, ...]


@dataclass(frozen=True)
class Checked:
    """A checkpoint that a policy accepts, and who cosigned it when, in POSIX seconds.

    `cosigned` goes by the names of the policy's witness lines, `witnesses` by key names: each witness once, with the
    later time where it has two keys.
    """

    checkpoint: Checkpoint
    note: Note
    log: Peer
    cosigned: Mapping[str, int]
    witnesses: Mapping[str, int]


@dataclass(frozen=True)
class TlogPolicy:
    """A parsed policy; names in `groups` stand in the order of their definition."""

    logs: tuple[Peer, ...]
    witnesses: Mapping[str, Peer] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    quorum: str = NONE

    @property
    def text(self) -> bytes:
        """The policy as a file. The inverse of `parse_policy`, up to comments, spaces and the order of lines."""
        rows = [f"log {_peer(log)}" for log in self.logs]
        rows += [f"witness {name} {_peer(w)}" for name, w in self.witnesses.items()]
        rows += [f"group {name} {g.least} {' '.join(g.members)}" for name, g in self.groups.items()]
        rows.append(f"quorum {self.quorum}")
        return "".join(f"{row}\n" for row in rows).encode("utf-8", "surrogateescape")

    def opened(self, note: Note) -> Checked:
        """Check the log's signature only, and read which witnesses cosigned; says nothing about a quorum.

        A line of a trusted key that does not verify spoils the whole note (signed-note).

        Raises: UnknownLog, BadSignature, Malformed, BadProof.
        """
        checkpoint = parse_checkpoint(note.text)
        logs = {log.key.key_id: log for log in self.logs if log.key.name == checkpoint.origin}
        if not logs:
            raise UnknownLog("is the checkpoint of a log that the policy does not name", where=checkpoint.origin)
        signed = note.verified([log_verifier(log.key) for log in logs.values()])
        checkpoint.demand_sound()
        cosigned, witnesses = self._cosigned(note), dict[str, int]()
        for name, seconds in cosigned.items():
            witness = self.witnesses[name].key.name
            witnesses[witness] = max(seconds, witnesses.get(witness, 0))
        return Checked(checkpoint, note, logs[signed[0][0].key_id], cosigned, witnesses)

    def check(self, note: Note | bytes) -> Checked:
        """Check a checkpoint whole. Raises: as `opened`, and NoQuorum."""
        checked = self.opened(parse_note(note) if isinstance(note, bytes) else note)
        self.demand_quorum(checked)
        return checked

    def demand_quorum(self, checked: Checked) -> None:
        """Raises: NoQuorum, which counts the cosignatures that are there."""
        if not self.satisfied(frozenset(checked.cosigned)):
            known = {w.key.name for w in self.witnesses.values()}
            raise NoQuorum(
                f"checkpoint of size {checked.checkpoint.size} is cosigned by {len(checked.witnesses)} of "
                f"{len(known)} trusted witnesses, which is not the quorum",
                where=checked.checkpoint.origin,
                fix="wait for the log to publish a cosigned checkpoint, or ask its operator",
            )

    def satisfied(self, names: frozenset[str]) -> bool:
        """Whether cosignatures of these witnesses (names of the policy) make the quorum."""
        held = set(names) & set(self.witnesses)
        for name, group in self.groups.items():
            if sum(m in held for m in group.members) >= group.least:
                held.add(name)
        return self.quorum == NONE or self.quorum in held

    def _cosigned(self, note: Note) -> dict[str, int]:
        by_key = {(w.key.name, w.key.key_id): name for name, w in self.witnesses.items()}
        if not any((s.name, s.key_id) in by_key for s in note.signatures):
            return {}
        signed = note.verified([CosignatureVerifier(w.key) for w in self.witnesses.values()])
        return {by_key[(key.name, key.key_id)]: cosigned_at(signature) for key, signature in signed}


def parse_policy(data: bytes) -> TlogPolicy:
    """Read a policy file. Raises: Malformed, which names the line."""
    if len(data) > MAX_POLICY:
        raise Malformed(f"log policy is larger than {MAX_POLICY} bytes")
    if _FORBIDDEN.search(data) or not data.endswith(b"\n"):
        raise Malformed("log policy has a control character, or its last line does not end in a newline")
    lines = data.decode("utf-8", "surrogateescape")[:-1].split("\n")
    if len(lines) > MAX_LINES:
        raise Malformed(f"log policy has more than {MAX_LINES} lines")
    draft = _Draft()
    for number, line in enumerate(lines, 1):
        items = [item for item in _BLANK.split(line) if item]
        if not items or items[0].startswith("#"):
            continue
        try:
            draft.take(items)
        except InterlockError as e:
            raise Malformed(e.what, where=f"log policy, line {number}") from None
    return draft.finished()


class _Draft:
    """A policy while its lines are read, top to bottom."""

    def __init__(self) -> None:
        self.logs: list[Peer] = []
        self.witnesses: dict[str, Peer] = {}
        self.groups: dict[str, Group] = {}
        self.quorum: str | None = None
        self._placed: dict[str, str] = {}  # member -> its group

    def take(self, items: list[str]) -> None:
        kinds: dict[str, Callable[[list[str]], None]] = {
            "log": self._log,
            "witness": self._witness,
            "group": self._group,
            "quorum": self._quorum,
        }
        if items[0] not in kinds:
            raise Malformed(f"{items[0]!r} is none of: {', '.join(kinds)}")
        kinds[items[0]](items[1:])

    def finished(self) -> TlogPolicy:
        if self.quorum is None:
            raise Malformed("has no quorum line", where="log policy")
        self._demand_each_witness_once()
        return TlogPolicy(tuple(self.logs), self.witnesses, self.groups, self.quorum)

    def _log(self, items: list[str]) -> None:
        if len(items) not in (1, 2):
            raise Malformed("a log line has a key and perhaps a URL")
        peer = Peer(parse_vkey(items[0]), *items[1:])
        log_verifier(peer.key)
        if any(peer.key.public == other.key.public for other in self.logs):
            raise Malformed("a log's key stands twice")
        self.logs.append(peer)

    def _witness(self, items: list[str]) -> None:
        if len(items) not in (2, 3):
            raise Malformed("a witness line has a name, a key and perhaps a URL")
        peer = Peer(parse_vkey(items[1]), *items[2:])
        CosignatureVerifier(peer.key)
        if any(peer.key.public == other.key.public for other in self.witnesses.values()):
            raise Malformed("a witness's key stands twice")
        self._new_name(items[0])
        self.witnesses[items[0]] = peer

    def _group(self, items: list[str]) -> None:
        if len(items) < 3:
            raise Malformed("a group line has a name, a threshold and members")
        name, threshold, *members = items
        for member in members:
            self._known(member)
            if member in self._placed:
                raise Malformed("a group's member is a member already")  # else a witness would count twice
            self._placed[member] = name
        least = {"all": len(members), "any": 1}.get(threshold)
        least = decimal(threshold, "group's threshold") if least is None else least
        if not 1 <= least <= len(members):
            raise Malformed(f"a group of {len(members)} cannot ask for {least}")
        self._new_name(name)
        self.groups[name] = Group(least, tuple(members))

    def _quorum(self, items: list[str]) -> None:
        if len(items) != 1 or self.quorum is not None:
            raise Malformed("there is one quorum line, with one name")
        if items[0] != NONE:
            self._known(items[0])
        self.quorum = items[0]

    def _demand_each_witness_once(self) -> None:
        """Raises: Malformed, where two keys of one witness could make up a quorum of two."""
        for name in {w.key.name for w in self.witnesses.values()}:
            keys = {n for n, w in self.witnesses.items() if w.key.name == name and n in self._placed}
            groups = {self._placed[n] for n in keys}
            if len(keys) > 1 and (len(groups) > 1 or not keys.issuperset(*(self.groups[g].members for g in groups))):
                raise Malformed(
                    "a witness with two keys could count twice",
                    where="log policy",
                    fix="put its lines into a group of their own: group NAME any LINE LINE",
                )

    def _new_name(self, name: str) -> None:
        if name == NONE or name in self.witnesses or name in self.groups:
            raise Malformed("a name stands twice, or is the reserved word none")

    def _known(self, name: str) -> None:
        if name not in self.witnesses and name not in self.groups:
            raise Malformed("a name is not that of a witness or group defined above")


def _peer(peer: Peer) -> str:
    return f"{peer.key.text} {peer.url}".rstrip()
