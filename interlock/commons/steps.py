"""The six steps of whatever a commons publishes; a crash between any two is taken up where it was.

    1 log entries      the entries' bytes are fixed in the journal before anything else, so the log sees each once
    2 checkpoint       cosigned by the witnesses
    3 proofs           of each entry under such a checkpoint (steps 1 to 3 are one call of `append`, idempotent)
    4 targets          each with its entry and its proof; the ring's channel index
    5 snapshot         and its own log entry, cosigned, with its proof beside it: no two members are shown two of them
    6 timestamp        from here on clients see it

Where people hold the keys of `targets`, what these are to say is put down for them and waits (waiting.py): the rest of
a publish goes on without them, and what they signed is published by these steps too.

    HOME/public/  served   HOME/keys/ROLE.key  0600   HOME/lock
    HOME/journal.json  the publish under way      HOME/renewal.json  new signatures under way

All that a step needs, the time included, stands in the journal, so a step that is taken again gives the same bytes;
the versions that step 4 builds on are those that clients see when it begins. Records come before step 4, as plain
files; what is records only ends there, for no role names them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from interlock.base.clock import MICROSECONDS, Clock
from interlock.base.errors import InterlockError
from interlock.base.files import file_lock, private_dir, read_bounded
from interlock.base.files import replace as replace_file
from interlock.base.keys import Ed25519Signer, ed25519_of
from interlock.commons.compose import composed
from interlock.commons.holders import CeremonyRefused
from interlock.commons.journal import MAX_JOURNAL, RENEWAL, Item, Journal, Loose, Wanted, dump_journal, parse_journal
from interlock.commons.keyring import current_key
from interlock.commons.layout import (
    LIFETIME_DAYS,
    PUBLIC_FILE,
    record_files,
    snapshot_files,
)
from interlock.commons.pack import sha256_hex
from interlock.commons.records import MAX_RECORD, Evidence
from interlock.commons.repository import Repository
from interlock.commons.signers import RoleSigner, tuf_key
from interlock.commons.transcript import quorum
from interlock.commons.waiting import add_waiting, read_waiting
from interlock.transparency.entry import MAX_ENTRY, LogEntry, known_entry, signed_entry
from interlock.transparency.policy import TlogPolicy
from interlock.transparency.proof import MAX_PROOF_FILE, parse_proof

__all__ = [
    "Append",
    "Begun",
    "NeedsHolders",
    "Published",
    "Steps",
    "UnfinishedPublish",
]

Append = Callable[[bytes], bytes]  # an entry's bytes -> the proof file's bytes, once it is durable and cosigned

_PUBLISH: Final = "journal.json"
_OLD_S: Final = 6 * 3600.0  # a timestamp of this age is signed again even where the log does not answer


class UnfinishedPublish(InterlockError):
    """Another publish that has to be finished first."""

    code = "conflict"


class NeedsHolders(CeremonyRefused):
    """A change that is put down, and that takes signatures which no key on this machine can make."""


@dataclass(frozen=True)
class Published:
    """What a publish did: its log entry and its place, and the versions under which clients see it."""

    entry: LogEntry
    log_index: int
    tree_size: int
    snapshot_version: int
    snapshot_sha256: str
    timestamp_version: int


@dataclass(frozen=True)
class Begun:
    """What a publish comes to once its versions are known: entries to log, targets without one, and whose turn it is.

    `cites` are the SHA-256 of records that a promotion rests on; `roles` sign anew because of them; `rekeyed` are
    delegated roles that get the next key beside theirs, with its text; `targets` are new ones that were signed.
    """

    items: tuple[Item, ...] = ()
    loose: tuple[Loose, ...] = ()
    cites: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    rekeyed: tuple[tuple[str, str], ...] = ()
    targets: bytes = b""


class Steps:
    """Takes the steps. `policy` is what members pin: a proof that they would refuse is not published.

    What is published is begun with `run`, from items that `item` and `record_item` make of what the commons has.
    """

    def __init__(self, home: Path, append: Append, policy: TlogPolicy, clock: Clock) -> None:
        self.home = home
        self._append = append
        self.policy = policy
        self.clock = clock
        self.repository = Repository(home / "public")

    def resume(self, *, signer: RoleSigner | None = None) -> Published | None:
        """Finish the publish that was cut short; None where there is none. Raises: as `publish`."""
        with file_lock(self.home / "lock", wait=True):
            self._settle(RENEWAL)
            journal = self._read(_PUBLISH)
            return None if journal is None else self._published(self._finish(_PUBLISH, journal, signer))

    def abandon(self) -> None:
        """Give up a publish that the log has not acknowledged. Raises: UnfinishedPublish, for one that it has."""
        with file_lock(self.home / "lock", wait=True):
            journal = self._read(_PUBLISH)
            if journal is not None and journal.acknowledged:
                raise UnfinishedPublish("stands in the log already", where=journal.what, fix="resume it")
            (self.home / _PUBLISH).unlink(missing_ok=True)

    def due(self, after_s: float) -> bool:
        """Whether the timestamp was signed `after_s` seconds ago, or longer, or by no key of now. Raises: BadState."""
        expires_us = self.repository.timestamp_expires_us()
        if expires_us is None or not self.repository.timestamp_is_current():
            return True
        return expires_us - self.clock.now_us() <= (LIFETIME_DAYS["timestamp"] * 86_400 - after_s) * MICROSECONDS

    def renew(self) -> None:
        """Sign again what would otherwise end; the commons calls this well within a timestamp's life.

        That is the timestamp alone, until the snapshot or a role whose key is here is half through its life.
        A publish that waits for the log does not hold this up; one that has begun to write is finished first.
        Raises: BadKey, BadState, NotWritable; what `append` raises, where the timestamp is signed nevertheless.
        """
        with file_lock(self.home / "lock", wait=True):
            try:
                settled = [self._settle(name) for name in (RENEWAL, _PUBLISH)]
                if not any(settled):
                    self._renew()
            except InterlockError:
                if self.repository.timestamp_expires_us() is not None and self.due(_OLD_S):
                    self._stamp()
                raise

    def _renew(self) -> None:
        now_us = self.clock.now_us()
        ageing = self.repository.ageing(now_us)
        others = {"snapshot", *([] if self.repository.circle() is None else ["targets"])}
        roles = tuple(sorted(r for r in ageing - others if (self.home / "keys" / f"{r}.key").exists()))
        if not roles and "snapshot" not in ageing:
            self._stamp()
            return
        journal = Journal("logged", now_us, self.repository.versions(), roles=roles)
        self._finish(RENEWAL, self._kept(RENEWAL, journal), None)

    def _stamp(self) -> None:
        """Sign the timestamp alone, for the snapshot that clients see."""
        versions = self.repository.versions()
        key, now_us = self.key("timestamp"), self.clock.now_us()
        self.repository.timestamp(versions["timestamp"] + 1, versions["snapshot"], key, now_us)

    def _settle(self, name: str) -> bool:
        """Finish what has begun to write, so that the next builds on what clients see; returns whether anything had."""
        journal = self._read(name)
        if journal is None or not (journal.writing or (name == RENEWAL and journal.step != "done")):
            return False
        self._finish(name, journal, None)
        return True

    def run(
        self,
        wanted: Wanted,
        begin: Callable[[Mapping[str, int]], Begun | tuple[Item, ...]],
        signer: RoleSigner | None,
    ) -> Published:
        """Publish what `begin` says, from the versions that clients see; the same again is finished, or answered.

        `wanted` tells it from others; `signer` is the key of the last item's role, where it does not lie here.
        Raises: UnfinishedPublish, NeedsHolders; what `begin` and `append` raise.
        """
        with file_lock(self.home / "lock", wait=True):
            self._settle(RENEWAL)
            journal = self._read(_PUBLISH)
            same = journal is not None and journal.wanted == wanted
            if journal is None or (journal.step == "done" and not same):
                base = self.repository.versions()
                begun = begin(base)
                if isinstance(begun, tuple):
                    begun = Begun(begun)
                now_us = begun.items[0].entry.at if begun.items else self.clock.now_us()
                journal = self._kept(_PUBLISH, self._journal(begun, base, now_us))
            elif not same:
                raise UnfinishedPublish(
                    "is not finished", where=journal.what, fix="first: interlock mesh publish --resume"
                )
            return self._published(self._finish(_PUBLISH, journal, signer))

    def _journal(self, begun: Begun, base: Mapping[str, int], now_us: int) -> Journal:
        """What is to be done; of what `targets` are to say, that it waits where people hold their keys."""
        more = (begun.items, begun.loose, begun.cites, begun.roles)
        journal = Journal("begun", now_us, base, *more, rekeyed=begun.rekeyed, targets=begun.targets)
        waits = not begun.targets and "targets" in journal.named and self.repository.circle() is not None
        return replace(journal, waits=waits)

    def seen(self) -> Mapping[str, int]:
        """The versions that clients see. Raises: BadState, before the first snapshot is logged."""
        return self.repository.versions()

    def item(
        self, kind: str, name: str, version: int, ring: str, data: bytes, path: str, role: str, key: RoleSigner
    ) -> Item:
        """A target's entry to log now, in the word of its role's key, with the target's bytes."""
        return replace(self.record_item(kind, name, version, ring, data, key.key), path=path, role=role)

    def record_item(self, kind: str, name: str, version: int, ring: str, data: bytes, key: Ed25519Signer) -> Item:
        """A record's entry to log now, in the word of a key, with the record."""
        at, sha256 = self.clock.now_us(), sha256_hex(data)
        return Item(signed_entry(key, type=kind, name=name, version=version, ring=ring, sha256=sha256, at=at), data)

    def _finish(self, name: str, journal: Journal, signer: RoleSigner | None) -> Journal:
        """Take the steps that are left. `signer` is the key of the last item's role, where it does not lie here."""
        if journal.step == "begun":
            journal = self._log_items(name, journal)
        if journal.step == "logged":
            journal = self._kept(name, self._rebased(journal))
            self._write_records(journal)
            self._write_targets(journal, signer)
            last = not journal.changed and (journal.items or journal.waits)  # records only: no role names them
            journal = self._kept(name, replace(journal, step="done" if last else "targets"))
        version = journal.base["snapshot"] + 1
        if journal.step == "targets":
            key = self.key("snapshot")
            data = self.repository.snapshot(version, journal.changed, key, journal.at, journal.log_size)
            journal = self._kept(name, replace(journal, step="snapshot", snapshot_sha256=sha256_hex(data)))
        if journal.step == "snapshot":
            journal = self._log_snapshot(name, journal, version)
        if journal.step == "cosigned":
            self.repository.timestamp(journal.timestamp, version, self.key("timestamp"), journal.at)
            journal = self._kept(name, replace(journal, step="done"))
            if self.due(_OLD_S):  # it was cut short that long ago
                self._stamp()
        return journal

    def _rebased(self, journal: Journal) -> Journal:
        """As nothing is written yet: on what clients see now, and signed now where it was begun long ago."""
        now_us = self.clock.now_us()
        at = journal.at if now_us - journal.at < _OLD_S * MICROSECONDS else now_us
        base = self.repository.versions()
        return replace(journal, base=base, at=at, log_size=self._log_size(base))

    def _log_size(self, base: Mapping[str, int]) -> int:
        """The size of a tree of the log that has everything that was logged here before."""
        proofs = []
        if self.repository.timestamp_expires_us() is not None:
            proofs.append(read_bounded(self.repository.public / snapshot_files(base["snapshot"])[1], MAX_PROOF_FILE))
        last = self._read(_PUBLISH)  # what is records only has no snapshot after it
        proofs += [] if last is None else [item.proof for item in last.items if item.proof]
        return max((parse_proof(proof).checkpoint.size for proof in proofs), default=0)

    def _log_items(self, name: str, journal: Journal) -> Journal:
        for i, item in enumerate(journal.items):
            if not item.proof:
                told = replace(item, proof=self._proof(item.entry))
                items = (*journal.items[:i], told, *journal.items[i + 1 :])
                journal = self._kept(name, replace(journal, items=items))
        return self._kept(name, replace(journal, step="logged"))

    def _log_snapshot(self, name: str, journal: Journal, version: int) -> Journal:
        """The snapshot's entry is logged and lies beside it before any timestamp names it."""
        entry = signed_entry(
            self.key("snapshot").key,
            type="snapshot",
            name="snapshot",
            version=version,
            ring="snapshot",
            sha256=journal.snapshot_sha256,
            at=journal.at,
        )
        for path, data in zip(snapshot_files(version), (entry.data, self._proof(entry)), strict=True):
            self._put(path, data)
        seen = 0 if self.repository.timestamp_expires_us() is None else self.repository.versions()["timestamp"]
        return self._kept(name, replace(journal, step="cosigned", timestamp=seen + 1))

    def _proof(self, entry: LogEntry) -> bytes:
        proof = self._append(entry.data)
        parse_proof(proof).verify(entry.data, self.policy)
        return proof

    def _write_records(self, journal: Journal) -> None:
        for item in journal.items:
            if not item.path:
                for path, data in zip(
                    record_files(item.entry.sha256), (item.data, item.entry.data, item.proof), strict=True
                ):
                    self._put(path, data)

    def _write_targets(self, journal: Journal, signer: RoleSigner | None) -> None:
        def read(role: str, path: str) -> bytes | None:
            return self.wanted(role, path, journal.base)

        files = composed(journal, read, self.record)
        if journal.waits:
            add_waiting(self.home, files["targets"], dict(journal.rekeyed))
        if journal.targets:
            self.repository.put_targets(journal.targets, self.repository.root())
        for role in journal.changed:
            if role != "targets" or not journal.targets:
                self._write_role(role, files[role], journal, signer)

    def _write_role(self, role: str, files: Mapping[str, bytes], journal: Journal, signer: RoleSigner | None) -> None:
        rekeyed = dict(journal.rekeyed)
        outside = signer is not None and bool(journal.items) and role == journal.items[-1].role
        key = signer if outside and signer is not None else self.key(role, rekeyed.get(role))
        ended = None
        if role in rekeyed:
            ended = self.repository.delegated_keys(journal.base["targets"])[role].text, journal.log_size
        else:
            self.repository.demand_key(role, journal.base["targets"], key)
        named = {name: ed25519_of(text) for name, text in rekeyed.items()} if role == "targets" else {}
        self.repository.add_targets(role, journal.base[role] + 1, files, key, journal.at, rekeyed=named, ended=ended)

    def wanted(self, role: str, path: str, base: Mapping[str, int]) -> bytes | None:
        """The bytes of a target as they are to be: those that wait for targets' holders, else those of a version."""
        waiting = read_waiting(self.home).files.get(path) if role == "targets" else None
        return waiting if waiting is not None else self.repository.target(role, base[role], path)

    def record(self, sha256: str) -> Evidence:
        """A record that was logged, with its entry and proof. Raises: BadState."""
        path, entry, proof = (self.repository.public / name for name in record_files(sha256))
        return Evidence(
            read_bounded(entry, MAX_ENTRY), read_bounded(proof, MAX_PROOF_FILE), read_bounded(path, MAX_RECORD)
        )

    def _put(self, path: str, data: bytes) -> None:
        """Put a plain file of HOME/public; one that is there has these bytes already, for the log names them."""
        file = self.repository.public / path
        private_dir(file.parent)
        replace_file(file, data, mode=PUBLIC_FILE)

    def key(self, role: str, text: str | None = None) -> RoleSigner:
        """The key of a role that clients take its word from, or the one with this text, wherever of the two it lies."""
        named = self.repository.keyids(role) if text is None else {tuf_key(ed25519_of(text)).keyid}
        return current_key(self.home / "keys" / f"{role}.key", named)

    def is_cut_short(self, wanted: Wanted) -> bool:
        """Whether the publish under way is this one, not finished."""
        journal = self._read(_PUBLISH)
        return journal is not None and journal.step != "done" and journal.wanted == wanted

    def _kept(self, name: str, journal: Journal) -> Journal:
        replace_file(self.home / name, dump_journal(journal))
        return journal

    def _read(self, name: str) -> Journal | None:
        path = self.home / name
        return parse_journal(read_bounded(path, MAX_JOURNAL), where=str(path)) if path.exists() else None

    def _published(self, journal: Journal) -> Published:
        """What a finished publish did; targets without an entry stand in the log by their snapshot's.

        Raises: NeedsHolders, where a part of it waits for people.
        """
        if journal.waits:
            self._demand_signed()
        version = journal.base["snapshot"] + bool(journal.changed)
        if journal.items:
            entry, proof = journal.items[-1].entry, journal.items[-1].proof
        else:
            of, by = (self.repository.public / path for path in snapshot_files(version))
            entry, proof = known_entry(read_bounded(of, MAX_ENTRY)), read_bounded(by, MAX_PROOF_FILE)
        parsed = parse_proof(proof)
        return Published(
            entry=entry,
            log_index=parsed.index,
            tree_size=parsed.checkpoint.size,
            snapshot_version=version,
            snapshot_sha256=journal.snapshot_sha256,
            timestamp_version=journal.timestamp or journal.base["timestamp"],
        )

    def _demand_signed(self) -> None:
        """Raises: NeedsHolders, for what waits."""
        waiting, circle = read_waiting(self.home), self.repository.circle()
        if waiting and circle is not None:
            told = f"{waiting.what}: put down, and in force once their holders sign ({quorum(circle)})"
            fix = f"interlock mesh ceremony request --targets --dir {self.home} --out FILE"
            raise NeedsHolders(told, where="targets", fix=fix)
