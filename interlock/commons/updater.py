"""Follow a TUF repository: python-tuf decides what to trust; ours are the lock, the durable state and the errors.

An Updater may refresh once, writes without fsync and is alone in its directory. So each poll takes the lock, lets a
new Updater work on a copy of the trusted metadata, makes what it verified durable, and then names the copy as the
current state in one atomic write; also after a refusal, since all that the Updater kept by then is verified and is
the floor below which nothing may fall. A poll that is cut short leaves the state before it.

    DIR/lock   DIR/current.json (which generation)   DIR/gen-7/{root_history/,root.json,timestamp.json,...}
    DIR/held/  small targets that were read last
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final

from tuf.api import exceptions as tuf_errors
from tuf.api.metadata import Metadata, Root  # type: ignore[attr-defined]
from tuf.api.serialization import DeserializationError, SerializationError
from tuf.ngclient.config import UpdaterConfig
from tuf.ngclient.fetcher import FetcherInterface
from tuf.ngclient.updater import Updater

from interlock.base.errors import InterlockError, one_line
from interlock.base.fetch import Fetcher, NotFound, TooLarge
from interlock.base.files import (
    BadState,
    NotWritable,
    file_lock,
    os_reason,
    private_dir,
    read_bounded,
    replace,
    stamped,
    sync_dir,
    unstamped,
)
from interlock.commons.holders import CeremonyRefused, demand_holders, demand_targets
from interlock.commons.layout import MAX_ROOT
from interlock.commons.pack import sha256_hex
from interlock.commons.tufset import judge_at, trusted_by
from interlock.commons.view import MetadataRefused, Stale, View, log_policy_of, translated

__all__ = [
    "MetadataRefused",
    "Stale",
    "UntrustedRoot",
    "View",
    "demand_root",
    "pinned_root",
    "refreshed",
    "trusted_files",
]

_CURRENT: Final = "current.json"
_FORMAT: Final = "interlock-tuf-state"
_GENERATION: Final = "gen-"
_HELD: Final = "held"
_STAGING: Final = ".staging-"


class UntrustedRoot(InterlockError):
    """A root that is not the one this node was told to trust."""

    code = "untrusted-root"


def pinned_root(sha256: str, *, root: bytes | None = None, fetcher: Fetcher | None = None) -> bytes:
    """The first root's bytes, given or fetched, if their digest is the pinned one.

    Raises: UntrustedRoot; of the fetcher, its own errors.
    """
    if root is None:
        if fetcher is None:
            raise ValueError("pinned_root needs the root's bytes or a fetcher")
        root = fetcher.fetch("metadata/1.root.json", max_length=MAX_ROOT)
    found = sha256_hex(root)
    if found != sha256:
        raise UntrustedRoot(
            f"has digest {found}, and {one_line(sha256, 80)} is trusted",
            where="root",
            fix="get the digest from a keyholder, not from the mirror",
        )
    return root


def demand_root(data: bytes) -> str:
    """Refuse bytes that nothing could be followed from: a root is signed by its own keyholders (TUF 5.3.1).

    Returns the SHA-256 of the log policy that it names, '' for none. Raises: UntrustedRoot.
    """
    try:
        md = Metadata[Root].from_bytes(data)
        if not isinstance(md.signed, Root):
            raise DeserializationError("another role's metadata")
        verified = bool(md.signed.get_root_verification_result(None, md.signed_bytes, md.signatures))
    except (DeserializationError, SerializationError, ValueError):
        raise UntrustedRoot(
            "is not a commons' root", where="root", fix="give the file that a keyholder gave you"
        ) from None
    if not verified:
        raise UntrustedRoot("is not signed by its own keyholders", where="root", fix="get it from a keyholder again")
    try:
        demand_holders(data)
    except CeremonyRefused as e:
        raise UntrustedRoot(e.what, where=e.where or "root", fix="ask a keyholder") from None
    return log_policy_of(md.signed)


def _demand_keyholders(data: bytes, previous: bytes, where: str) -> None:
    """Raises: MetadataRefused, for a root that is no quorum's of its named keyholders and of those before."""
    try:
        demand_holders(data, previous)
    except CeremonyRefused as e:
        told = f"{e.where} {e.what}" if e.where not in ("", "root") else e.what
        raise MetadataRefused(told, where=where, fix="try another mirror; ask a keyholder") from None


def _demand_targets_holders(staging: Path) -> None:
    """Raises: MetadataRefused, for targets that two of one employer signed (python-tuf has counted their keys)."""
    try:
        demand_targets((staging / "targets.json").read_bytes(), (staging / "root.json").read_bytes())
    except CeremonyRefused as e:
        raise MetadataRefused(e.what, where="targets", fix="try another mirror; ask a keyholder") from None


@contextlib.contextmanager
def refreshed(
    directory: Path,
    fetcher: Fetcher,
    *,
    bootstrap: bytes,
    now_us: int,
    demand: Callable[[View], None] | None = None,
    holders: bool = True,
) -> Iterator[View]:
    """Refresh the trusted metadata in `directory` and read targets of that state while the block runs.

    Without `demand`, what verified before a refusal is kept (TUF 5.3 to 5.6). With it, only roots are kept until it
    has let the whole state pass: else whoever stole the online keys could raise the versions beyond all later ones.
    A root is taken for its named keyholders, of different employers, not for its keys alone; `holders` False takes
    one as TUF does, of a repository that is no commons.
    Raises: Rollback, Stale, MetadataRefused, TooLarge, Unreachable, Locked, NotWritable, BadState.
    """
    private_dir(directory)
    with file_lock(directory / "lock"):
        generation = _generation(directory)
        with _staging(directory, generation) as staging:
            accepted = demand is None
            try:
                view = _refresh(staging, directory / _HELD, fetcher, bootstrap, now_us, holders)
                if demand is not None:
                    demand(view)
                    accepted = True
                yield view
            finally:
                with translated(str(directory)):
                    if not accepted:
                        _keep_roots_only(staging, directory / f"{_GENERATION}{generation}")
                    _commit(directory, generation, staging)


@contextlib.contextmanager
def _staging(directory: Path, generation: int) -> Iterator[Path]:
    """A copy of a generation to work on, gone again afterwards, as is what a killed process left of its own.

    Raises: NotWritable.
    """
    for left in directory.glob(f"{_STAGING}*"):
        shutil.rmtree(left, ignore_errors=True)
    holder = directory / f"{_STAGING}{os.urandom(8).hex()}"
    try:
        staging = private_dir(holder / "metadata")
        if generation:
            with translated(str(directory)):
                # python-tuf replaces files and never writes into one, so links will do for copies
                before = directory / f"{_GENERATION}{generation}"
                shutil.copytree(before, staging, symlinks=True, copy_function=os.link, dirs_exist_ok=True)
        yield staging
    finally:
        shutil.rmtree(holder, ignore_errors=True)


def _refresh(staging: Path, held: Path, fetcher: Fetcher, bootstrap: bytes, now_us: int, holders: bool) -> View:
    newest = staging / "root.json"
    trusted = read_bounded(newest, MAX_ROOT) if newest.exists() else bootstrap
    with translated("metadata"):
        updater = Updater(
            str(staging),
            "metadata/",
            target_base_url="targets/",
            fetcher=_Adapter(fetcher, trusted if holders else None),
            config=UpdaterConfig(max_root_rotations=64, root_max_length=MAX_ROOT),
            bootstrap=bootstrap,
        )
        judge_at(trusted_by(updater), now_us)
        updater.refresh()
        if holders:
            _demand_targets_holders(staging)
        return View(updater, staging, held)


class _Adapter(FetcherInterface):
    """Our fetcher as python-tuf's; what it raises travels inside python-tuf's errors as their cause.

    With a `root`, each further one has to be its keyholders' (python-tuf asks for them one after the other).
    """

    def __init__(self, fetcher: Fetcher, root: bytes | None) -> None:
        self._fetcher = fetcher
        self._root = root

    def _fetch(self, url: str) -> Iterator[bytes]:
        raise AssertionError("every fetch has a limit, and this one has none")

    @contextlib.contextmanager
    def download_file(self, url: str, max_length: int) -> Iterator[IO[bytes]]:
        with tempfile.TemporaryFile() as file:
            file.write(self.download_bytes(url, max_length))
            file.seek(0)
            yield file

    def download_bytes(self, url: str, max_length: int) -> bytes:
        try:
            data = self._fetcher.fetch(url, max_length=max_length)
            if self._root is not None and url.endswith(".root.json"):
                _demand_keyholders(data, self._root, url)
                self._root = data
            return data
        except NotFound as e:
            raise tuf_errors.DownloadHTTPError(str(e), 404) from e
        except TooLarge as e:
            raise tuf_errors.DownloadLengthMismatchError(str(e)) from e
        except InterlockError as e:
            raise tuf_errors.DownloadError(str(e)) from e


def _generation(directory: Path) -> int:
    path = directory / _CURRENT
    if not path.exists():
        return 0
    body = unstamped(read_bounded(path, 4096), _FORMAT, 1, where=str(path))
    number = body.get("generation")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise BadState("names no generation", where=str(path))
    if not (directory / f"{_GENERATION}{number}").is_dir():
        raise BadState("names a generation that is gone", where=str(path), fix="restore it, or run mesh init anew")
    return number


def _commit(directory: Path, generation: int, staging: Path) -> None:
    kept = _files(staging)
    if not kept or (generation and _files(directory / f"{_GENERATION}{generation}") == kept):
        return
    target = directory / f"{_GENERATION}{generation + 1}"
    shutil.rmtree(target, ignore_errors=True)
    with _writable(directory):
        _make_durable(staging)
        staging.rename(target)
        sync_dir(directory)
    replace(directory / _CURRENT, stamped(_FORMAT, 1, {"generation": generation + 1}))
    for old in directory.glob(f"{_GENERATION}*"):
        if old != target:
            shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def _writable(directory: Path) -> Iterator[None]:
    """Say of a full or broken disk that nothing is kept. Raises: NotWritable."""
    try:
        yield
    except OSError as e:
        raise NotWritable(f"state cannot be kept ({os_reason(e)})", where=str(directory)) from None


def trusted_files(directory: Path) -> dict[str, bytes]:
    """What a directory of `refreshed` trusts, by unversioned name (`root.json`); {} before the first refresh.

    Raises: BadState, NewerFormat.
    """
    generation = _generation(directory)
    if not generation:
        return {}
    return {p.name: p.read_bytes() for p in (directory / f"{_GENERATION}{generation}").glob("*.json")}


def _keep_roots_only(staging: Path, before: Path) -> None:
    """Put the other roles' files back to what they were."""
    for path in staging.glob("*.json"):
        if path.name != "root.json":
            path.unlink()
    for path in before.glob("*.json"):
        if path.name != "root.json":
            shutil.copy2(path, staging)


def _files(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


def _make_durable(directory: Path) -> None:
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as f:
                os.fsync(f.fileno())
        elif path.is_dir():
            sync_dir(path)
    sync_dir(directory)
