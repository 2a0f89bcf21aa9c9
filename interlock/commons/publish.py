"""Publish in a commons, in six steps; a crash between any two is taken up where it was.

    1 log entries      the entries' bytes are fixed in the journal before anything else, so the log sees each once
    2 checkpoint       cosigned by the witnesses
    3 proofs           of each entry under such a checkpoint (steps 1 to 3 are one call of `append`, idempotent)
    4 targets          each with its entry and its proof; the ring's channel index
    5 snapshot         and its own log entry, cosigned, with its proof beside it: no two members are shown two of them
    6 timestamp        from here on clients see it

    HOME/public/  served   HOME/keys/ROLE.key  0600   HOME/lock
    HOME/journal.json  the publish under way      HOME/renewal.json  new signatures under way

All that a step needs, the time included, stands in the journal, so a step that is taken again gives the same bytes;
the versions that step 4 builds on are those that clients see when it begins.
Nothing is begun for a pack that does not parse, whose own examples fail, or whose version is not newer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from interlock.base.clock import MICROSECONDS, Clock
from interlock.base.errors import BadInput, InterlockError
from interlock.base.files import BadState, file_lock, private_dir, read_bounded
from interlock.base.files import replace as replace_file
from interlock.base.keys import Ed25519Verifier
from interlock.base.primitives import Rng
from interlock.commons.channel import Channel, dump_channel, parse_channel
from interlock.commons.indicators import BadCatalog, Catalog
from interlock.commons.journal import MAX_JOURNAL, Item, Journal, Wanted, dump_journal, parse_journal
from interlock.commons.layout import (
    CATALOG_RING,
    DELEGATIONS,
    LIFETIME_DAYS,
    PUBLIC_FILE,
    TOP_ROLES,
    catalog_path,
    channel_path,
    entry_path,
    pack_path,
    proof_path,
    role_of_pack,
    snapshot_files,
)
from interlock.commons.operators import (
    OPERATORS_PATH,
    OPERATORS_RING,
    Operators,
    demand_separate_witnesses,
    parse_operators,
)
from interlock.commons.memberfiles import TaskFile
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
    "is_commons",
    "make_commons_keys",
]

Append = Callable[[bytes], bytes]  # an entry's bytes -> the proof file's bytes, once it is durable and cosigned

_PUBLISH: Final = "journal.json"
_RENEWAL: Final = "renewal.json"
_OLD_S: Final = 6 * 3600.0  # a timestamp of this age is signed again even where the log does not answer


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


def make_commons_keys(home: Path, rng: Rng) -> dict[str, Ed25519Verifier]:
    """Make the keys of all roles but the root's, as 0600 files below HOME/keys; returns the top roles' public keys.

    Raises: NotWritable, BadKey.
    """
    private_dir(home)
    signers = make_keys(home / "keys", (*TOP_ROLES, *DELEGATIONS), rng)
    return {role: signers[role].verifier for role in TOP_ROLES}


def is_commons(home: Path) -> bool:
    """Whether a commons was begun in this folder, seen by clients or not yet."""
    return (home / _RENEWAL).exists() or (home / "public" / "metadata" / "timestamp.json").exists()


def create_commons(home: Path, root: bytes, now_us: int) -> Repository:
    """Begin the commons in HOME/public under a root that its keyholders signed.

    Clients see it once a `Publisher` has logged the first snapshot, which any publish or renewal does.
    Raises: CeremonyRefused, BadState, BadKey.
    """
    repository = Repository(home / "public")
    with file_lock(home / "lock"):
        if is_commons(home):
            raise BadState("is a commons already", where=str(home), fix="use another folder")
        data = repository.create(root, load_keys(home / "keys", (*TOP_ROLES, *DELEGATIONS)), now_us)
        first = Journal("snapshot", now_us, {"snapshot": 0}, snapshot_sha256=sha256_hex(data))
        replace_file(home / _RENEWAL, dump_journal(first))
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

        def begin(base: Mapping[str, int]) -> tuple[Item, ...]:
            key = signer or self._key(role)
            self._repository.demand_key(role, base["targets"], key)
            self._demand_newer(pack, ring, base)
            return (self._item("pack", pack.name, pack.version, ring, pack.data, path, role, key),)

        return self._run((("pack", f"{ring}/{path}", pack.data),), begin, signer)

    def publish_catalog(self, catalog: Catalog) -> Published:
        """Publish a task's catalog, which has to be out before it opens. Raises: BadCatalog, and as `publish`."""
        if self._clock.now_us() >= catalog.opens_at:
            raise BadCatalog("opens in the past", where=f"catalog {catalog.task}", fix="give it a later opens_at")
        path, role = catalog_path(catalog.task), CATALOG_RING

        def begin(base: Mapping[str, int]) -> tuple[Item, ...]:
            if self._repository.target(role, base[role], path) is not None:
                raise BadCatalog("is out, and a catalog never changes", where=path, fix="publish a new task")
            return (self._item("task", catalog.task, 1, role, catalog.data, path, role, self._key(role)),)

        return self._run((("task", f"{role}/{path}", catalog.data),), begin, None)

    def publish_operators(self, operators: Operators) -> Published:
        """Publish who runs what. Raises: OneHand, where the log could make its own quorum; BadInput; as `publish`."""
        demand_separate_witnesses(operators, self._policy)
        path, role = OPERATORS_PATH, "targets"

        def begin(base: Mapping[str, int]) -> tuple[Item, ...]:
            out = self._repository.target(role, base[role], path)
            if out is not None and parse_operators(out, where=path).version >= operators.version:
                fix = "give it a higher version"
                raise BadInput(f"version {operators.version} is not newer than what is out", where=path, fix=fix)
            named, key = (OPERATORS_RING, operators.version, OPERATORS_RING), self._key(role)
            return (self._item("operators", *named, operators.data, path, role, key),)

        return self._run((("operators", f"{OPERATORS_RING}/{path}", operators.data),), begin, None)

    def publish_members(self, files: Sequence[TaskFile]) -> Published:
        """Publish member keys and counts in one snapshot; each stands there for ever. Raises: as `publish_catalog`."""
        role, last = CATALOG_RING, files[-1]

        def begin(base: Mapping[str, int]) -> tuple[Item, ...]:
            for file in files:
                if self._repository.target(role, base[role], file.path) is not None:
                    raise BadCatalog("is out, and an epoch's never changes", where=file.path, fix="leave it away")
            key = self._key(role)
            return tuple(self._item("task", f.task, f.epoch, f.ring, f.data, f.path, role, key) for f in files)

        return self._run((("task", f"{last.ring}/{last.path}", last.data),), begin, None)

    def resume(self, *, signer: RoleSigner | None = None) -> Published | None:
        """Finish the publish that was cut short; None where there is none. Raises: as `publish`."""
        with file_lock(self._home / "lock", wait=True):
            self._settle(_RENEWAL)
            journal = self._read(_PUBLISH)
            return None if journal is None else _published(self._finish(_PUBLISH, journal, signer))

    def abandon(self) -> None:
        """Give up a publish that the log has not acknowledged. Raises: UnfinishedPublish, for one that it has."""
        with file_lock(self._home / "lock", wait=True):
            journal = self._read(_PUBLISH)
            if journal is not None and journal.step != "done" and (journal.step != "begun" or journal.items[0].proof):
                raise UnfinishedPublish("stands in the log already", where=journal.what, fix="resume it")
            (self._home / _PUBLISH).unlink(missing_ok=True)

    def due(self, after_s: float) -> bool:
        """Whether the timestamp was signed `after_s` seconds ago, or longer, or never yet. Raises: BadState."""
        expires_us = self._repository.timestamp_expires_us()
        if expires_us is None:
            return True
        return expires_us - self._clock.now_us() <= (LIFETIME_DAYS["timestamp"] * 86_400 - after_s) * MICROSECONDS

    def renew(self) -> None:
        """Sign again what would otherwise end; the commons calls this well within a timestamp's life.

        That is the timestamp alone, until the snapshot or a role whose key is here is half through its life.
        A publish that waits for the log does not hold this up; one that has begun to write is finished first.
        Raises: BadKey, BadState, NotWritable; what `append` raises, where the timestamp is signed nevertheless.
        """
        with file_lock(self._home / "lock", wait=True):
            try:
                settled = [self._settle(name) for name in (_RENEWAL, _PUBLISH)]
                if not any(settled):
                    self._renew()
            except InterlockError:
                if self._repository.timestamp_expires_us() is not None and self.due(_OLD_S):
                    self._stamp()
                raise

    def _renew(self) -> None:
        now_us = self._clock.now_us()
        ageing = self._repository.ageing(now_us)
        roles = tuple(sorted(r for r in ageing - {"snapshot"} if (self._home / "keys" / f"{r}.key").exists()))
        if not roles and "snapshot" not in ageing:
            self._stamp()
            return
        journal = Journal("logged", now_us, self._repository.versions(), roles=roles)
        self._finish(_RENEWAL, self._kept(_RENEWAL, journal), None)

    def _stamp(self) -> None:
        """Sign the timestamp alone, for the snapshot that clients see."""
        versions = self._repository.versions()
        key, now_us = self._key("timestamp"), self._clock.now_us()
        self._repository.timestamp(versions["timestamp"] + 1, versions["snapshot"], key, now_us)

    def _settle(self, name: str) -> bool:
        """Finish what has begun to write, so that the next builds on what clients see; returns whether anything had."""
        journal = self._read(name)
        if journal is None or not (journal.writing or (name == _RENEWAL and journal.step != "done")):
            return False
        self._finish(name, journal, None)
        return True

    def _run(
        self,
        wanted: Wanted,
        begin: Callable[[Mapping[str, int]], tuple[Item, ...]],
        signer: RoleSigner | None,
    ) -> Published:
        with file_lock(self._home / "lock", wait=True):
            self._settle(_RENEWAL)
            journal = self._read(_PUBLISH)
            same = journal is not None and journal.wanted == wanted
            if journal is None or (journal.step == "done" and not same):
                base = self._repository.versions()
                items = begin(base)
                journal = self._kept(_PUBLISH, Journal("begun", items[0].entry.at, base, items))
            elif not same:
                raise UnfinishedPublish("is not finished", where=journal.what, fix="resume it first")
            return _published(self._finish(_PUBLISH, journal, signer))

    def _item(
        self, kind: str, name: str, version: int, ring: str, data: bytes, path: str, role: str, key: RoleSigner
    ) -> Item:
        entry = signed_entry(
            key.key,
            type=kind,
            name=name,
            version=version,
            ring=ring,
            sha256=sha256_hex(data),
            at=self._clock.now_us(),
        )
        return Item(entry, data, path, role)

    def _demand_newer(self, pack: Pack, ring: str, base: Mapping[str, int]) -> None:
        out = self._channel(ring, base[ring]).get(pack.name)
        if out is not None and pack.version <= out[0]:
            raise BadPack(
                f"has version {pack.version}, and {out[0]} is out in {ring}",
                where=pack.name,
                fix="give it a higher version",
            )

    def _finish(self, name: str, journal: Journal, signer: RoleSigner | None) -> Journal:
        """Take the steps that are left. `signer` is the key of the last item's role, where it does not lie here."""
        if journal.step == "begun":
            journal = self._log_items(name, journal)
        if journal.step == "logged":
            journal = self._kept(name, self._rebased(journal))
            self._write_targets(journal, signer)
            journal = self._kept(name, replace(journal, step="targets"))
        version = journal.base["snapshot"] + 1
        if journal.step == "targets":
            data = self._repository.snapshot(version, journal.changed, self._key("snapshot"), journal.at)
            journal = self._kept(name, replace(journal, step="snapshot", snapshot_sha256=sha256_hex(data)))
        if journal.step == "snapshot":
            journal = self._log_snapshot(name, journal, version)
        if journal.step == "cosigned":
            self._repository.timestamp(journal.timestamp, version, self._key("timestamp"), journal.at)
            journal = self._kept(name, replace(journal, step="done"))
            if self.due(_OLD_S):  # it was cut short that long ago
                self._stamp()
        return journal

    def _rebased(self, journal: Journal) -> Journal:
        """As nothing is written yet: on what clients see now, and signed now where it was begun long ago."""
        now_us = self._clock.now_us()
        at = journal.at if now_us - journal.at < _OLD_S * MICROSECONDS else now_us
        return replace(journal, base=self._repository.versions(), at=at)

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
            self._key("snapshot").key,
            type="snapshot",
            name="snapshot",
            version=version,
            ring="snapshot",
            sha256=journal.snapshot_sha256,
            at=journal.at,
        )
        for path, data in zip(snapshot_files(version), (entry.data, self._proof(entry)), strict=True):
            replace_file(self._repository.public / path, data, mode=PUBLIC_FILE)
        seen = 0 if self._repository.timestamp_expires_us() is None else self._repository.versions()["timestamp"]
        return self._kept(name, replace(journal, step="cosigned", timestamp=seen + 1))

    def _proof(self, entry: LogEntry) -> bytes:
        proof = self._append(entry.data)
        parse_proof(proof).verify(entry.data, self._policy)
        return proof

    def _write_targets(self, journal: Journal, signer: RoleSigner | None) -> None:
        named: dict[str, dict[str, bytes]] = {role: {} for role in journal.changed}
        for item in journal.items:
            named[item.role][item.path] = item.data
            named[item.role][entry_path(item.path)] = item.entry.data
            named[item.role][proof_path(item.path)] = item.proof
            if item.entry.type == "pack":
                ring = item.entry.ring
                packs = self._channel(ring, journal.base[ring])
                packs[item.entry.name] = (item.entry.version, item.entry.sha256)
                named[ring][channel_path(ring)] = dump_channel(ring, packs)
        for role, files in named.items():
            outside = signer is not None and role == journal.items[-1].role
            key = signer if outside and signer is not None else self._key(role)
            self._repository.demand_key(role, journal.base["targets"], key)
            self._repository.add_targets(role, journal.base[role] + 1, files, key, journal.at)

    def _channel(self, ring: str, version: int) -> Channel:
        path = channel_path(ring)
        data = self._repository.target(ring, version, path)
        return {} if data is None else parse_channel(data, ring, where=path)

    def _key(self, role: str) -> RoleSigner:
        return load_keys(self._home / "keys", (role,))[role]

    def _kept(self, name: str, journal: Journal) -> Journal:
        replace_file(self._home / name, dump_journal(journal))
        return journal

    def _read(self, name: str) -> Journal | None:
        path = self._home / name
        return parse_journal(read_bounded(path, MAX_JOURNAL), where=str(path)) if path.exists() else None


def _demand_examples(pack: Pack) -> None:
    """Raises: FailedExamples. An indicator's own host is known by its digest only, so it may have none that fires."""
    for row in check_rules(pack.rules).failures:
        if pack.kind == "indicator" and row.kind == "fires" and row.index < 0:
            continue
        raise FailedExamples(row.problem, where=f"{pack.name}: rule {row.rule}: {row.kind}", fix="correct it first")


def _published(journal: Journal) -> Published:
    last = journal.items[-1]
    proof = parse_proof(last.proof)
    return Published(
        entry=last.entry,
        log_index=proof.index,
        tree_size=proof.checkpoint.size,
        snapshot_version=journal.base["snapshot"] + 1,
        snapshot_sha256=journal.snapshot_sha256,
        timestamp_version=journal.timestamp,
    )
