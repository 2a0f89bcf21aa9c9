"""Publish a pack or a catalog, in six steps; a crash between any two is taken up where it was.

    1 log entry        the entry's bytes are fixed in the journal before anything else, so the log sees them once
    2 checkpoint       cosigned by the witnesses
    3 proof            of the entry under that checkpoint (steps 1 to 3 are one call of `append`, which is idempotent)
    4 targets          the pack, its entry and its proof; the ring's channel index
    5 snapshot
    6 timestamp        from here on clients see it

    HOME/public/  served   HOME/keys/ROLE.key  0600   HOME/journal.json  the publish under way   HOME/lock

All that a step needs, the time included, stands in the journal, so a step that is taken again gives the same bytes;
the versions that step 4 builds on are those that clients see when it begins.
Nothing is begun for a pack that does not parse, whose own examples fail, or whose version is not newer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from interlock.base.clock import MICROSECONDS, Clock
from interlock.base.errors import InterlockError
from interlock.base.files import file_lock, private_dir, read_bounded
from interlock.base.files import replace as replace_file
from interlock.base.keys import Ed25519Verifier
from interlock.base.primitives import Rng
from interlock.commons.channel import Channel, dump_channel, parse_channel
from interlock.commons.indicators import BadCatalog, Catalog
from interlock.commons.journal import MAX_JOURNAL, Journal, dump_journal, parse_journal
from interlock.commons.layout import (
    CATALOG_RING,
    DELEGATIONS,
    LIFETIME_DAYS,
    TOP_ROLES,
    catalog_path,
    channel_path,
    entry_path,
    pack_path,
    proof_path,
    role_of_pack,
)
from interlock.commons.pack import BadPack, Pack, sha256_hex
from interlock.commons.repository import Repository
from interlock.commons.rings import known_ring
from interlock.commons.signers import RoleSigner, load_keys, make_keys
from interlock.engine.policy.check import check_rules
from interlock.transparency.entry import LogEntry, signed_entry
from interlock.transparency.policy import TlogPolicy
from interlock.transparency.proof import parse_proof

__all__ = [
    "Append",
    "FailedExamples",
    "Published",
    "Publisher",
    "UnfinishedPublish",
    "create_commons",
    "make_commons_keys",
]

Append = Callable[[bytes], bytes]  # an entry's bytes -> the proof file's bytes, once it is durable and cosigned

_JOURNAL = "journal.json"


class UnfinishedPublish(InterlockError):
    """Another publish that has to be finished first."""

    code = "conflict"


class FailedExamples(InterlockError):
    """A pack whose rules do not do what their own examples say."""

    code = "check-failed"


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
class _Wanted:
    """What is to be published: how the log will name it, its bytes, and where its target goes."""

    type: str
    name: str
    version: int
    ring: str
    data: bytes
    path: str
    role: str


def make_commons_keys(home: Path, rng: Rng) -> dict[str, Ed25519Verifier]:
    """Make the keys of all roles but the root's, as 0600 files below HOME/keys; returns the top roles' public keys.

    Raises: NotWritable, BadKey.
    """
    private_dir(home)
    signers = make_keys(home / "keys", (*TOP_ROLES, *DELEGATIONS), rng)
    return {role: signers[role].verifier for role in TOP_ROLES}


def create_commons(home: Path, root: bytes, now_us: int) -> Repository:
    """Begin the commons in HOME/public under a root that its keyholders signed.

    Raises: CeremonyRefused, BadState, BadKey.
    """
    repository = Repository(home / "public")
    with file_lock(home / "lock"):
        repository.create(root, load_keys(home / "keys", (*TOP_ROLES, *DELEGATIONS)), now_us)
    return repository


class Publisher:
    """Publishes in one commons. `policy` is what its members pin: a proof that they would refuse is not published."""

    def __init__(self, home: Path, append: Append, policy: TlogPolicy, clock: Clock) -> None:
        self._home = home
        self._append = append
        self._policy = policy
        self._clock = clock
        self._repository = Repository(home / "public")

    def publish(self, pack: Pack, ring: str, *, signer: RoleSigner | None = None) -> Published:
        """Publish a pack in a ring; `signer` in place of the key file of its role (a reviewer's own key).

        The same pack again gives the same answer.
        Raises: BadPack, FailedExamples, BadKey, UnfinishedPublish, NoQuorum, BadProof; what `append` raises.
        """
        known_ring(ring)
        _demand_examples(pack)
        path, role = pack_path(ring, pack.name, pack.version), role_of_pack(ring, pack.kind)
        return self._run(_Wanted("pack", pack.name, pack.version, ring, pack.data, path, role), signer)

    def publish_catalog(self, catalog: Catalog) -> Published:
        """Publish a task's catalog, which has to be out before it opens. Raises: BadCatalog, and as `publish`."""
        if self._clock.now_us() >= catalog.opens_at:
            raise BadCatalog("opens in the past", where=f"catalog {catalog.task}", fix="give it a later opens_at")
        path = catalog_path(catalog.task)
        return self._run(_Wanted("task", catalog.task, 1, CATALOG_RING, catalog.data, path, CATALOG_RING), None)

    def resume(self, *, signer: RoleSigner | None = None) -> Published | None:
        """Finish the publish that was cut short; None where there is none. Raises: as `publish`."""
        with file_lock(self._home / "lock", wait=True):
            journal = self._read_journal()
            return None if journal is None else self._finish(journal, signer)

    def abandon(self) -> None:
        """Give up a publish that the log has not acknowledged. Raises: UnfinishedPublish, for one that it has."""
        with file_lock(self._home / "lock", wait=True):
            journal = self._read_journal()
            if journal is not None and journal.step not in ("begun", "done"):
                raise UnfinishedPublish("stands in the log already", where=journal.path, fix="resume it")
            (self._home / _JOURNAL).unlink(missing_ok=True)

    def due(self, after_s: float) -> bool:
        """Whether the timestamp was signed `after_s` seconds ago, or longer. Raises: BadState."""
        left_us = self._repository.timestamp_expires_us() - self._clock.now_us()
        return left_us <= (LIFETIME_DAYS["timestamp"] * 86_400 - after_s) * MICROSECONDS

    def renew(self) -> None:
        """Sign again what would otherwise end; the commons calls this well within a timestamp's life.

        A publish that waits for the log does not hold this up; one that has begun to write is finished first.
        Raises: BadKey, BadState, NotWritable.
        """
        with file_lock(self._home / "lock", wait=True):
            journal = self._read_journal()
            if journal is not None and journal.step in ("targets", "snapshot"):
                self._finish(journal, None)
            present = tuple(r for r in (*TOP_ROLES, *DELEGATIONS) if (self._home / "keys" / f"{r}.key").exists())
            self._repository.renew(load_keys(self._home / "keys", present), self._clock.now_us())

    def _run(self, wanted: _Wanted, signer: RoleSigner | None) -> Published:
        with file_lock(self._home / "lock", wait=True):
            journal = self._read_journal()
            same = journal is not None and (journal.data, journal.path) == (wanted.data, wanted.path)
            if journal is None or (journal.step == "done" and not same):
                journal = self._begun(wanted, signer or self._key(wanted.role))
            elif not same:
                raise UnfinishedPublish("is not finished", where=journal.path, fix="resume it first")
            return self._finish(journal, signer)

    def _begun(self, wanted: _Wanted, signer: RoleSigner) -> Journal:
        base = self._repository.versions()
        self._repository.demand_key(wanted.role, base["targets"], signer)
        if wanted.type == "pack":
            self._demand_newer(wanted, base)
        elif self._repository.target(wanted.role, base[wanted.role], wanted.path) is not None:
            raise BadCatalog("is out, and a catalog never changes", where=wanted.path, fix="publish a new task")
        entry = signed_entry(
            signer.key,
            type=wanted.type,
            name=wanted.name,
            version=wanted.version,
            ring=wanted.ring,
            sha256=sha256_hex(wanted.data),
            at=self._clock.now_us(),
        )
        return self._kept(Journal("begun", entry, wanted.data, wanted.path, wanted.role, base))

    def _demand_newer(self, wanted: _Wanted, base: Mapping[str, int]) -> None:
        out = self._channel(wanted.ring, base[wanted.ring]).get(wanted.name)
        if out is not None and wanted.version <= out[0]:
            raise BadPack(
                f"has version {wanted.version}, and {out[0]} is out in {wanted.ring}",
                where=wanted.name,
                fix="give it a higher version",
            )

    def _finish(self, journal: Journal, signer: RoleSigner | None) -> Published:
        if journal.step in ("begun", "logged"):  # nothing is written yet, and the commons may have renewed meanwhile
            journal = replace(journal, base=self._repository.versions())
        now_us, version = journal.entry.at, journal.base["snapshot"] + 1
        if journal.step == "begun":
            proof = self._append(journal.entry.data)
            parse_proof(proof).verify(journal.entry.data, self._policy)
            journal = self._kept(replace(journal, step="logged", proof=proof))
        if journal.step == "logged":
            self._write_targets(journal, signer)
            journal = self._kept(replace(journal, step="targets"))
        if journal.step == "targets":
            data = self._repository.snapshot(version, journal.changed, self._key("snapshot"), now_us)
            journal = self._kept(replace(journal, step="snapshot", snapshot_sha256=sha256_hex(data)))
        if journal.step == "snapshot":
            self._repository.timestamp(journal.base["timestamp"] + 1, version, self._key("timestamp"), now_us)
            journal = self._kept(replace(journal, step="done"))
        return _published(journal)

    def _write_targets(self, journal: Journal, signer: RoleSigner | None) -> None:
        entry, base = journal.entry, journal.base
        named = {journal.role: {journal.path: journal.data}}
        named[journal.role][entry_path(journal.path)] = entry.data
        named[journal.role][proof_path(journal.path)] = journal.proof
        if journal.channel_role is not None:
            packs = {**self._channel(entry.ring, base[entry.ring]), entry.name: (entry.version, entry.sha256)}
            named.setdefault(entry.ring, {})[channel_path(entry.ring)] = dump_channel(entry.ring, packs)
        for role, files in named.items():
            key = signer if signer is not None and role == journal.role else self._key(role)
            self._repository.demand_key(role, base["targets"], key)
            self._repository.add_targets(role, base[role] + 1, files, key, entry.at)

    def _channel(self, ring: str, version: int) -> Channel:
        path = channel_path(ring)
        data = self._repository.target(ring, version, path)
        return {} if data is None else parse_channel(data, ring, where=path)

    def _key(self, role: str) -> RoleSigner:
        return load_keys(self._home / "keys", (role,))[role]

    def _kept(self, journal: Journal) -> Journal:
        replace_file(self._home / _JOURNAL, dump_journal(journal))
        return journal

    def _read_journal(self) -> Journal | None:
        path = self._home / _JOURNAL
        return parse_journal(read_bounded(path, MAX_JOURNAL), where=str(path)) if path.exists() else None


def _demand_examples(pack: Pack) -> None:
    """Raises: FailedExamples. An indicator's own host is known by its digest only, so it may have none that fires."""
    for row in check_rules(pack.rules).failures:
        if pack.kind == "indicator" and row.kind == "fires" and row.index < 0:
            continue
        raise FailedExamples(row.problem, where=f"{pack.name}: rule {row.rule}: {row.kind}", fix="correct it first")


def _published(journal: Journal) -> Published:
    proof = parse_proof(journal.proof)
    return Published(
        entry=journal.entry,
        log_index=proof.index,
        tree_size=proof.checkpoint.size,
        snapshot_version=journal.base["snapshot"] + 1,
        snapshot_sha256=journal.snapshot_sha256,
        timestamp_version=journal.base["timestamp"] + 1,
    )
