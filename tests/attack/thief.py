"""A thief of the commons' online keys: what it signs verifies, and the log takes what it says."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from tuf.api.metadata import TargetFile, Targets  # type: ignore[attr-defined]

from interlock.base.keys import Ed25519Signer
from interlock.commons.channel import dump_channel
from interlock.commons.layout import DELEGATIONS, TOP_ROLES, channel_path, pack_path, snapshot_files
from interlock.commons.pack import Pack, sha256_hex
from interlock.commons.repository import Repository
from interlock.commons.signers import RoleSigner, load_keys
from interlock.transparency.entry import signed_entry
from tests.attack.scene import Both
from tests.unit.commons_world import World

Files = Mapping[str, bytes]


class Thief:
    """Has every key but the keyholders', and a copy of the commons to show to others."""

    def __init__(self, commons: World, name: str = "evil", base: Path | None = None) -> None:
        self.commons = commons
        self.public = shutil.copytree(base or commons.public, commons.home / name)
        self.repository = Repository(self.public)
        keys = commons.home / "commons" / "keys"  # that of targets is not there where people hold it
        roles = tuple(role for role in (*TOP_ROLES, *DELEGATIONS) if (keys / f"{role}.key").exists())
        self.keys: dict[str, RoleSigner] = load_keys(keys, roles)

    def shows(self, log: Path | None = None) -> Both:
        return Both(self.public, log or self.commons.log.public)

    def entry(self, made: Pack, *, by: Ed25519Signer | None = None, ring: str = "stable", role: str = "") -> bytes:
        """A log entry of a pack, in the word of a key."""
        return signed_entry(
            by or self.keys[role or ring].key,
            type="pack",
            name=made.name,
            version=made.version,
            ring=ring,
            sha256=made.digest,
            at=self.commons.clock.now_us(),
        ).data

    def forge(
        self,
        made: Pack,
        beside: Callable[[str], Files] = lambda path: {},
        *,
        ring: str = "stable",
        index: Files | None = None,
        logged: bool = True,
    ) -> None:
        """Sign a pack into a ring, with files beside it, and show that."""
        path = pack_path(ring, made.name, made.version)
        names = {channel_path(ring): dump_channel(ring, {made.name: (made.version, made.digest)})}
        self.targets(ring, {path: made.data, **(names if index is None else index), **beside(path)}, logged=logged)

    def targets(self, role: str, files: Files, *, logged: bool = True) -> None:
        base = self.repository.versions()
        self.repository.add_targets(role, base[role] + 1, dict(files), self.keys[role], self.commons.clock.now_us())
        self.show({role: base[role] + 1}, logged=logged)

    def name(self, role: str, path: str) -> None:
        """Let a role name a path of the thief's choice, without a file behind it."""
        base = self.repository.versions()
        signed = self.repository._read(f"{base[role]}.{role}", Targets)
        signed.targets[path] = TargetFile.from_data(path, b"evil", ["sha256"])
        signed.version += 1
        self.repository._sign(role, signed, self.keys[role])
        self.show({role: signed.version})

    def show(self, changed: Mapping[str, int], *, logged: bool = True, by: Ed25519Signer | None = None) -> None:
        """Put roles before whoever reads this copy: a snapshot, logged or not, and the timestamp that names it."""
        base, now = self.repository.versions(), self.commons.clock.now_us()
        version = base["snapshot"] + 1
        data = self.repository.snapshot(version, dict(changed), self.keys["snapshot"], now)
        if logged:
            self.log_snapshot(data, version, by)
        self.repository.timestamp(base["timestamp"] + 1, version, self.keys["timestamp"], now)

    def log_snapshot(self, data: bytes, version: int, by: Ed25519Signer | None = None) -> None:
        entry = signed_entry(
            by or self.keys["snapshot"].key,
            type="snapshot",
            name="snapshot",
            version=version,
            ring="snapshot",
            sha256=sha256_hex(data),
            at=self.commons.clock.now_us(),
        )
        self.beside(version, entry.data, self.commons.log.append(entry.data))

    def beside(self, version: int, entry: bytes, proof: bytes) -> None:
        """Put the two files beside a snapshot."""
        for path, content in zip(snapshot_files(version), (entry, proof), strict=True):
            (self.public / path).write_bytes(content)
