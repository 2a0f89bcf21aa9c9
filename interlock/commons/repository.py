"""A TUF repository in a directory: `metadata/` and `targets/`, to be served as static files.

Snapshots are consistent: every file but `timestamp.json` has its version or its digest in its name and never
changes, so whoever reads while we write sees the old state whole until the timestamp, written last, names the new.
Each write is one file, atomic and durable; the same inputs (files, keys, versions, time) give the same bytes, so a
step that was cut short can be taken again.
"""

from __future__ import annotations

import contextlib
import datetime as _dt
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from tuf.api.metadata import (  # type: ignore[attr-defined]
    Metadata,
    MetaFile,
    Root,
    Signed,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)
from tuf.api.serialization import DeserializationError

from interlock.base.clock import MICROSECONDS
from interlock.base.errors import one_line
from interlock.base.files import BadState, private_dir, read_bounded, replace
from interlock.base.keys import BadKey, Ed25519Verifier
from interlock.commons.bins import bin_of, bin_versions, half_over, spread
from interlock.commons.holders import Circle, demand_targets, read_root, read_targets, targets_of
from interlock.commons.layout import DELEGATIONS, LIFETIME_DAYS, PUBLIC_FILE
from interlock.commons.pack import sha256_hex
from interlock.commons.rootplan import expiry, finish_root
from interlock.commons.signers import RoleSigner, key_texts, tuf_key
from interlock.commons.speakers import end_key, former_keys
from interlock.commons.toplevel import Draft, delegated_keys, delegations_of, demand_told

__all__ = ["Repository", "Versions", "metadata_files", "newest_root"]

_MAX_METADATA: Final = 5_000_000  # bytes, as the client's own limit for targets
_SIGNED = TypeVar("_SIGNED", bound=Signed)

Versions = dict[str, int]  # role -> version
_NO_KEYS: Final[Mapping[str, Ed25519Verifier]] = {}


class Repository:
    """Edits one repository; the caller holds the lock, the keys and the time. Large rings are in bins (bins.py)."""

    def __init__(self, public: Path) -> None:
        self.public = public
        self._metadata = public / "metadata"
        self._targets = public / "targets"

    def create(
        self, root: bytes, signers: Mapping[str, RoleSigner], now_us: int, targets: bytes | None = None
    ) -> bytes:
        """Begin a repository: root, targets with its delegations, empty roles, the first snapshot; no timestamp yet.

        `targets` are the first ones, where the root names holders who signed them. Returns the snapshot's bytes.
        Raises: BadState, where one is there already; CeremonyRefused, for a root or targets that too few signed.
        """
        if (self._metadata / "timestamp.json").exists():
            raise BadState("is a commons already", where=str(self.public))
        for directory in (self._metadata, self._targets):
            private_dir(directory)
        self._write("1.root", finish_root(root))
        if targets is None:
            delegations = delegations_of({role: signers[role].verifier for role in DELEGATIONS})
            top = Targets(version=1, expires=expiry("targets", now_us), delegations=delegations)
            self._sign("targets", top, signers["targets"])
        else:
            self.put_targets(targets, root)
        for role in DELEGATIONS:
            self._sign(role, Targets(version=1, expires=expiry(role, now_us)), signers[role])
        versions = dict.fromkeys(("targets", *DELEGATIONS), 1)
        return self._snapshot(1, versions, signers["snapshot"], now_us)

    def add_root(self, root: bytes) -> None:
        """Put the root that follows the newest. Raises: CeremonyRefused."""
        newest = self.root()
        version = Metadata[Root].from_bytes(newest).signed.version
        self._write(f"{version + 1}.root", finish_root(root, previous=newest))

    def root(self, version: int | None = None) -> bytes:
        """A root's bytes, by default the newest's. Raises: BadState, where there is none."""
        if version is not None:
            return read_bounded(self._metadata / f"{version}.root.json", _MAX_METADATA)
        newest = newest_root(self.public)
        if newest is None:
            raise BadState("has no root", where=str(self._metadata))
        return newest

    def metadata(self, stem: str) -> bytes:
        """A metadata file's bytes, such as those of `3.targets`. Raises: BadState."""
        return read_bounded(self._metadata / f"{stem}.json", _MAX_METADATA)

    def versions(self) -> Versions:
        """The version of each role in the state that the timestamp names. Raises: BadState."""
        timestamp = self._read("timestamp", Timestamp)
        snapshot_version = timestamp.snapshot_meta.version
        snapshot = self._read(f"{snapshot_version}.snapshot", Snapshot)
        roles = {role: snapshot.meta[f"{role}.json"].version for role in ("targets", *DELEGATIONS)}
        return {**roles, "snapshot": snapshot_version, "timestamp": timestamp.version}

    def targets_version(self) -> int:
        """The version of the targets that clients see, or are to see first. Raises: BadState."""
        return self.versions()["targets"] if self.timestamp_expires_us() is not None else 1

    def target(self, role: str, version: int, path: str) -> bytes | None:
        """The bytes of a target that a role's version names, None where it names none. Raises: BadState."""
        ring = self._read(f"{version}.{role}", Targets)
        name = bin_of(ring, path)
        named = self._bin(name, bin_versions(ring)[name]) if name else ring
        info = named.targets.get(path)
        return None if info is None else read_bounded(self._target_file(path, info), info.length)

    def paths(self, role: str, version: int) -> list[str]:
        """Every path that a role's version names, in its bins too. Raises: BadState."""
        ring = self._read(f"{version}.{role}", Targets)
        bins = [self._bin(name, number) for name, number in bin_versions(ring).items()]
        return sorted({path for one in (ring, *bins) for path in one.targets})

    def circle(self) -> Circle | None:
        """Who holds the keys of targets under the newest root; None where one key lies here. Raises: BadState."""
        return targets_of(read_root(self.root(), "root").signed)

    def draft(
        self, version: int, files: Mapping[str, bytes], rekeyed: Mapping[str, Ed25519Verifier], expires_us: int
    ) -> Draft:
        """The targets that follow `version` (0: the first), for their holders to sign; writes the files that they name.

        Nobody who reads the commons sees them before. Raises: BadState, NotWritable.
        """
        before = self.metadata(f"{version}.targets") if version else None
        held: list[bytes | None] = []
        if before is None:
            targets = Targets(delegations=delegations_of(rekeyed))
        else:
            targets = read_targets(before, "targets").signed
            held = [self.target("targets", version, path) for path in files]
            # anew: an older interlock gave a role fewer paths
            targets.delegations = delegations_of({**delegated_keys(targets), **rekeyed})
        targets.targets.update(self._put_files(files))
        targets.version = version + 1
        targets.expires = _dt.datetime.fromtimestamp(expires_us // MICROSECONDS, tz=_dt.UTC)
        shown = (*files.values(), *(data for data in held if data is not None))
        return Draft(Metadata(targets).to_bytes(), before, shown)

    def put_targets(self, data: bytes, root: bytes) -> None:
        """Write targets that their holders signed. Raises: CeremonyRefused; BadState, where a file of them is gone."""
        demand_targets(data, root)
        signed = read_targets(data, "targets").signed
        demand_told(signed)
        for path, info in signed.targets.items():
            file = self._target_file(path, info)
            if not file.exists() or sha256_hex(read_bounded(file, info.length)) != info.hashes["sha256"]:
                raise BadState("is not here as targets name it", where=str(file), fix="ask anew in this folder")
        self._write(f"{signed.version}.targets", data)

    def delegated_keys(self, version: int) -> dict[str, Ed25519Verifier]:
        """The key of each role below targets, in a version of these. Raises: BadState, CeremonyRefused."""
        return delegated_keys(self._read(f"{version}.targets", Targets))

    def files_of(self, role: str, version: int, paths: Iterable[str]) -> list[str]:
        """The names of the metadata files that a role's version names these paths in: its own, and its bins'."""
        ring = self._read(f"{version}.{role}", Targets)
        versions, bins = bin_versions(ring), sorted({bin_of(ring, path) for path in paths} - {""})
        return [f"{version}.{role}.json", *(f"{versions[name]}.{name}.json" for name in bins)]

    def add_targets(
        self,
        role: str,
        version: int,
        files: Mapping[str, bytes],
        signer: RoleSigner,
        now_us: int,
        *,
        rekeyed: Mapping[str, Ed25519Verifier] = _NO_KEYS,
        ended: tuple[str, int] | None = None,
    ) -> None:
        """Write targets, then the role's next version, `version`, that names them too. Raises: BadState.

        `rekeyed` names new keys of roles that this one delegates to; `ended` is the key that this role had before,
        and the index in the log up to which its entries count.
        """
        targets = self._read(f"{version - 1}.{role}", Targets)
        _rekey(targets, rekeyed)
        if ended is not None:
            end_key(targets, *ended)
        named = self._put_files(files)
        for name, one in spread(role, targets, named, signer.public_key, now_us, self._bin).items():
            self._sign(name, one, signer)
        targets.version, targets.expires = version, expiry(role, now_us)
        self._sign(role, targets, signer)

    def snapshot(self, version: int, changed: Versions, signer: RoleSigner, now_us: int, log_size: int = 0) -> bytes:
        """Write the snapshot that names the changed roles' new versions beside the others; returns its bytes.

        `log_size` is that of a tree which has all that a snapshot key before this one logged.
        """
        before = self._read(f"{version - 1}.snapshot", Snapshot)
        for role, number in tuple(changed.items()):
            changed = {**changed, **bin_versions(self._read(f"{number}.{role}", Targets))}
        for text in self._key_of_snapshot(version - 1) - {signer.verifier.text}:
            end_key(before, text, log_size)
        return self._snapshot(version, changed, signer, now_us, before)

    def _key_of_snapshot(self, version: int) -> frozenset[str]:
        """The text of the key that signed a snapshot, as the newest root that names it says."""
        data = self.metadata(f"{version}.snapshot")
        (keyid,) = Metadata.from_bytes(data).signatures
        for number in range(read_root(self.root(), "root").signed.version, 0, -1):
            keys = read_root(self.root(number), "root").signed.keys
            if keyid in keys:
                return key_texts(keys, [keyid])
        return frozenset()

    def timestamp(self, version: int, snapshot_version: int, signer: RoleSigner, now_us: int) -> None:
        """Write the timestamp: from this moment on the snapshot is what clients see."""
        meta = self._meta(f"{snapshot_version}.snapshot", snapshot_version)
        signed = Timestamp(version=version, expires=expiry("timestamp", now_us), snapshot_meta=meta)
        md = Metadata(signed)
        md.sign(signer)
        self._write("timestamp", md.to_bytes())

    def timestamp_expires_us(self) -> int | None:
        """When the timestamp that clients see now ends, in microseconds; None before the first. Raises: BadState."""
        if not (self._metadata / "timestamp.json").exists():
            return None
        return int(self._read("timestamp", Timestamp).expires.timestamp()) * MICROSECONDS

    def ageing(self, now_us: int) -> set[str]:
        """The roles half of whose time is over, or whose key is another by now, of what the timestamp names.

        The snapshot is among them.
        """
        versions, found = self.versions(), set()
        for role in ("targets", *DELEGATIONS, "snapshot"):
            signed = self._read(f"{versions[role]}.{role}", Snapshot if role == "snapshot" else Targets)
            over = signed.expires - expiry(role, now_us) < -_half(role) or self._bins_are_old(role, signed, now_us)
            if over or not self._is_by(f"{versions[role]}.{role}", self.keyids(role)):
                found.add(role)
        return found

    def timestamp_is_current(self) -> bool:
        """Whether the timestamp is by the key that the newest root names for it. Raises: BadState."""
        return self._is_by("timestamp", self.keyids("timestamp"))

    def keyids(self, role: str) -> frozenset[str]:
        """The keys whose word clients take for a role: the newest root's, or those of the targets that they see."""
        root = Metadata[Root].from_bytes(self.root()).signed
        if role in root.roles:
            return frozenset(root.roles[role].keyids)
        top = self._read(f"{self.targets_version()}.targets", Targets).delegations
        return frozenset(top.roles[role].keyids if top is not None and top.roles and role in top.roles else ())

    def demand_key(self, role: str, targets_version: int, signer: RoleSigner) -> None:
        """Raises: BadKey, where clients would not take this key's word for the role."""
        top = self._read(f"{targets_version}.targets", Targets).delegations
        if role == "targets":
            known = Metadata[Root].from_bytes(self.root()).signed.roles[role].keyids
        else:
            known = top.roles[role].keyids if top is not None and top.roles and role in top.roles else []
        if signer.public_key.keyid not in known:
            raise BadKey(f"is not the key of role {role}", where=signer.verifier.text, fix="use the key of that role")

    def _snapshot(
        self, version: int, roles: Versions, signer: RoleSigner, now_us: int, before: Snapshot | None = None
    ) -> bytes:
        meta = {} if before is None else dict(before.meta)
        for role, number in roles.items():
            held = meta.get(f"{role}.json")
            if held is None or held.version != number:
                meta[f"{role}.json"] = self._meta(f"{number}.{role}", number)
        signed = Snapshot(version=version, expires=expiry("snapshot", now_us), meta=dict(sorted(meta.items())))
        for text, until in former_keys(before).items():
            end_key(signed, text, until)
        md = Metadata(signed)
        md.sign(signer)
        data = md.to_bytes()
        self._write(f"{version}.snapshot", data)
        return data

    def _bin(self, name: str, version: int) -> Targets:
        return self._read(f"{version}.{name}", Targets)

    def _bins_are_old(self, role: str, signed: Signed, now_us: int) -> bool:
        bins = bin_versions(signed) if isinstance(signed, Targets) else {}
        return any(half_over(self._bin(name, version), role, now_us) for name, version in bins.items())

    def _meta(self, stem: str, version: int) -> MetaFile:
        # Digests stand in snapshot and timestamp, so that a mix of two states is a digest that does not match.
        data = read_bounded(self._metadata / f"{stem}.json", _MAX_METADATA)
        return MetaFile.from_data(version, data, ["sha256"])

    def _sign(self, role: str, targets: Targets, signer: RoleSigner) -> None:
        md = Metadata(targets)
        md.sign(signer)
        self._write(f"{targets.version}.{role}", md.to_bytes())

    def _put_files(self, files: Mapping[str, bytes]) -> dict[str, TargetFile]:
        """Write files of targets under their digests; what metadata says of them, by path."""
        named: dict[str, TargetFile] = {}
        for path, data in files.items():
            named[path] = info = TargetFile.from_data(path, data, ["sha256"])
            file = self._target_file(path, info)
            private_dir(file.parent)
            replace(file, data, mode=PUBLIC_FILE)
        return named

    def _target_file(self, path: str, info: TargetFile) -> Path:
        return self._targets / info.get_prefixed_paths()[0]

    def _is_by(self, stem: str, keyids: frozenset[str]) -> bool:
        data = read_bounded(self._metadata / f"{stem}.json", _MAX_METADATA)
        return bool(keyids & set(Metadata.from_bytes(data).signatures))

    def _read(self, stem: str, kind: type[_SIGNED]) -> _SIGNED:
        path = self._metadata / f"{stem}.json"
        try:
            signed = Metadata.from_bytes(read_bounded(path, _MAX_METADATA)).signed
        except DeserializationError as e:
            raise BadState(f"is not TUF metadata ({one_line(str(e), 200)})", where=str(path)) from None
        if not isinstance(signed, kind):
            raise BadState(f"is not {kind.__name__.lower()} metadata", where=str(path))
        return signed

    def _write(self, stem: str, data: bytes) -> None:
        path = self._metadata / f"{stem}.json"
        with contextlib.suppress(BadState):
            if read_bounded(path, _MAX_METADATA) == data:
                return
        replace(path, data, mode=PUBLIC_FILE)


def metadata_files(public: Path, role: str) -> list[Path]:
    """A role's metadata in a commons' public folder, the oldest first; of a timestamp there is one."""
    metadata = public / "metadata"
    if role == "timestamp":
        return [path for path in (metadata / "timestamp.json",) if path.exists()]
    numbered = ((path.name.split(".")[0], path) for path in metadata.glob(f"*.{role}.json"))
    return [path for _, path in sorted((int(number), path) for number, path in numbered if number.isdecimal())]


def newest_root(public: Path) -> bytes | None:
    """The newest root in a commons' public folder; None where it has none yet. Raises: BadState."""
    found = metadata_files(public, "root")
    return read_bounded(found[-1], _MAX_METADATA) if found else None


def _rekey(targets: Targets, keys: Mapping[str, Ed25519Verifier]) -> None:
    """Name a new key for each of these roles, and forget a key that no role has any more."""
    top = targets.delegations
    for role, verifier in keys.items():
        if top is None or top.roles is None or role not in top.roles:
            raise BadState("is no role of this commons", where=role)
        key = tuf_key(verifier)
        top.keys[key.keyid] = key
        top.roles[role].keyids = [key.keyid]
        held = {keyid for row in top.roles.values() for keyid in row.keyids}
        top.keys = {keyid: key for keyid, key in top.keys.items() if keyid in held}


def _half(role: str) -> _dt.timedelta:
    return _dt.timedelta(days=LIFETIME_DAYS[role]) / 2
