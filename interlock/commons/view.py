"""One verified state of a commons, as its metadata says it: targets, keys, and what a mirror copies.

python-tuf's errors are said as ours here, one line each.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tuf.api import exceptions as tuf_errors
from tuf.api.metadata import Root, TargetFile, Targets  # type: ignore[attr-defined]
from tuf.ngclient.updater import Updater

from interlock.base.clock import MICROSECONDS
from interlock.base.errors import InterlockError, one_line
from interlock.base.fetch import NotFound, TooLarge, Unreachable
from interlock.base.files import NotWritable, os_reason, private_dir
from interlock.base.text import is_sha256
from interlock.commons.bins import bin_of, bin_versions
from interlock.commons.layout import DELEGATIONS, LOG_POLICY_FIELD
from interlock.commons.pack import sha256_hex
from interlock.commons.signers import key_texts
from interlock.commons.speakers import Speakers, former_keys
from interlock.commons.tufset import load_delegated, trusted_by
from interlock.transparency.follow import Rollback

__all__ = ["MetadataRefused", "Stale", "View", "log_policy_of", "translated"]

_SMALL: Final = 64 * 1024  # bytes of a target that is kept
_MANY: Final = 64  # such targets
_MAX_PATH: Final = 1024  # characters of a target's path
_MAX_PART: Final = 190  # bytes of a name in it; with a digest before it, file systems take 255


class Stale(InterlockError):
    """Signatures that have ended: nobody vouches that this is still the newest."""

    code = "stale"


class MetadataRefused(InterlockError):
    """Metadata or a file that the commons' keys do not vouch for."""

    code = "metadata-refused"


def log_policy_of(root: Root) -> str:
    """The SHA-256 of the log policy that a root names, '' where it names none."""
    named = root.unrecognized_fields.get(LOG_POLICY_FIELD, "")
    return named if is_sha256(named) else ""


class View:
    """One verified state of a commons: all that is read through it belongs to one snapshot."""

    def __init__(self, updater: Updater, directory: Path, held: Path) -> None:
        self._updater = updater
        self._dir = directory
        self._held = held
        self._trusted = trusted = trusted_by(updater)
        self.root_version = trusted.root.version
        self.log_policy = log_policy_of(trusted.root)
        self.timestamp_version = trusted.timestamp.version
        self.snapshot_version = trusted.snapshot.version
        self.snapshot_sha256 = sha256_hex((directory / "snapshot.json").read_bytes())
        self.timestamp_expires_us = int(trusted.timestamp.expires.timestamp()) * MICROSECONDS

    def target(self, path: str, max_length: int, *, held: bytes | None = None) -> bytes:
        """The bytes of a signed target; nothing is downloaded where `held` are these bytes.

        Raises: NotFound, where no role names it; TooLarge; MetadataRefused; Stale; Unreachable.
        """
        with translated(f"targets/{path}"):
            info = None if self._is_nowhere(path) else self._updater.get_targetinfo(path)
            if info is None:
                raise NotFound("is not in the commons", where=path)
            if info.length > max_length:
                raise TooLarge(f"is larger than {max_length} bytes", where=path)
            return held if held is not None and _is(info, held) else self._small(info)

    def _is_nowhere(self, path: str) -> bool:
        """Whether a path belongs in a ring's own file, and is not there: python-tuf would read one of its bins too."""
        top = self._trusted.targets
        if top.delegations is None or path in top.targets:
            return False
        for role, terminating in top.delegations.get_roles_for_target(path):
            ring = load_delegated(self._updater, role, "targets")
            if path in ring.targets or bin_of(ring, path) or not bin_versions(ring):
                return False
            if terminating:
                return True
        return False

    def keys_of(self, role: str) -> frozenset[str]:
        """The keys that speak for a role, in their text form; none for a role that is not there."""
        if role in self._trusted.root.roles:
            return key_texts(self._trusted.root.keys, self._trusted.root.roles[role].keyids)
        top = self._trusted.targets.delegations
        if top is None or top.roles is None or role not in top.roles:
            return frozenset()
        return key_texts(top.keys, top.roles[role].keyids)

    def speakers(self, role: str) -> Speakers:
        """In whose word an entry of a role's may be: its keys' now, and former ones' up to where they ended.

        Raises: as `target`.
        """
        if role in DELEGATIONS and role not in self._trusted:
            with translated("metadata"):
                load_delegated(self._updater, role, "targets")
        signed = self._trusted.snapshot if role == "snapshot" else self._trusted.get(role)
        return Speakers(self.keys_of(role), former_keys(signed))

    def speakers_of(self, path: str) -> Speakers:
        """In whose word the entry of a target may be, once that was read: the role's that names it.

        Bins speak with their ring's keys; for `targets`, whose holders are people, the snapshot's key logs.
        """
        top = self._trusted.targets
        if path in top.targets or top.delegations is None:
            return self.speakers("snapshot")
        roles = [role for role, _ in top.delegations.get_roles_for_target(path)]
        return self.speakers(next((role for role in roles if self._names(role, path)), ""))

    def _names(self, role: str, path: str) -> bool:
        signed = self._trusted.get(role)
        if not isinstance(signed, Targets):
            return False
        inner = signed.delegations
        bins = [] if inner is None else [name for name, _ in inner.get_roles_for_target(path)]
        return path in signed.targets or any(self._names(name, path) for name in bins)

    def metadata(self) -> dict[str, bytes]:
        """Every verified metadata file of this state under its published name (`3.snapshot.json`); for a mirror."""
        with translated("metadata"):
            for patterns, _ in DELEGATIONS.values():
                self._updater.get_targetinfo(patterns[0].replace("*", "-"))
            for ring, names in self._bins().items():
                for name in names:
                    load_delegated(self._updater, name, ring)
        files = {p.name: p.read_bytes() for p in (self._dir / "root_history").glob("*.root.json")}
        bins = [name for names in self._bins().values() for name in names]
        for role in ("snapshot", "targets", *DELEGATIONS, *bins):
            if role in self._trusted:
                files[f"{self._trusted[role].version}.{role}.json"] = (self._dir / f"{role}.json").read_bytes()
        files["timestamp.json"] = (self._dir / "timestamp.json").read_bytes()
        return files

    def listed(self) -> dict[str, TargetFile]:
        """Every target that a client can find, by path; what a role names outside its own paths is not among them.

        Raises: MetadataRefused, for a path that leads out of where it is put; and as `target`.
        """
        found: dict[str, TargetFile] = {}
        with translated("targets"):
            for path in self._named():
                if not _is_path(path):
                    raise MetadataRefused("is no path for a target", where=path, fix="tell the commons")
                info = self._updater.get_targetinfo(path)
                if info is not None:
                    found[path] = info
        return found

    def _bins(self) -> dict[str, list[str]]:
        """The hash bins of each ring that was read and has them."""
        found: dict[str, list[str]] = {}
        for role in DELEGATIONS:
            signed = self._trusted.get(role)
            inner = signed.delegations if isinstance(signed, Targets) else None
            if inner is not None and inner.succinct_roles is not None:
                found[role] = list(inner.succinct_roles.get_roles())
        return found

    def _named(self) -> list[str]:
        """Every path that any role names."""
        bins = [name for names in self._bins().values() for name in names]
        roles = [self._trusted.get(role) for role in ("targets", *DELEGATIONS, *bins)]
        return sorted({path for signed in roles if isinstance(signed, Targets) for path in signed.targets})

    def _small(self, info: TargetFile) -> bytes:
        """A target's bytes; small ones are kept, verified at each reading, so that a poll need not ask for them."""
        if info.length > _SMALL:
            return self._download(info)
        kept = self._held / sha256_hex(f"{info.path} {sorted(info.hashes.items())}".encode())
        with contextlib.suppress(OSError):
            data = kept.read_bytes()
            if _is(info, data):
                return data
        data = self._download(info)
        with contextlib.suppress(OSError, NotWritable):  # without it a poll asks for more, and that is all
            private_dir(self._held)
            kept.write_bytes(data)
            files = sorted(self._held.iterdir(), key=lambda p: p.stat().st_mtime_ns)
            for old in files[:-_MANY]:
                old.unlink(missing_ok=True)
        return data

    def _download(self, info: TargetFile) -> bytes:
        with tempfile.TemporaryDirectory(dir=self._dir) as staging:
            path = self._updater.download_target(info, os.path.join(staging, "target"))
            data = Path(path).read_bytes()
        info.verify_length_and_hashes(data)
        return data


@contextlib.contextmanager
def translated(where: str) -> Iterator[None]:
    """Say python-tuf's errors as ours, one line each."""
    try:
        yield
    except (tuf_errors.DownloadError, tuf_errors.RepositoryError) as e:
        raise _as_ours(e, where) from None
    except OSError as e:
        raise NotWritable(f"state cannot be kept ({os_reason(e)})", where=where) from None


def _as_ours(e: Exception, where: str) -> InterlockError:
    text = one_line(str(e), 300) or type(e).__name__
    if isinstance(e, tuf_errors.DownloadHTTPError):
        return Unreachable(f"misses a file of the commons ({text})", where=where, fix="try another mirror")
    if isinstance(e, tuf_errors.DownloadError):
        return e.__cause__ if isinstance(e.__cause__, InterlockError) else Unreachable(text, where=where)
    if isinstance(e, tuf_errors.ExpiredMetadataError):
        return Stale(text, where=where, fix="the commons has to sign anew; try another mirror, and check the clock")
    if isinstance(e, tuf_errors.BadVersionNumberError):
        return Rollback(f"is older than what was seen before ({text})", where=where, fix="try another mirror")
    return MetadataRefused(f"does not verify ({text})", where=where, fix="try another mirror")


def _is_path(path: str) -> bool:
    """Whether a target's path can be one of a file below a folder, also with a digest before its name."""
    parts = path.split("/")
    return len(path) <= _MAX_PATH and all(
        part not in ("", ".", "..") and part.isprintable() and len(part.encode("utf-8")) <= _MAX_PART for part in parts
    )


def _is(info: TargetFile, data: bytes) -> bool:
    try:
        info.verify_length_and_hashes(data)
    except tuf_errors.LengthOrHashMismatchError:
        return False
    return True
