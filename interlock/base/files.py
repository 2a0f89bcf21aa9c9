"""Files that survive kill -9: atomic replacement, durable append, one owner at a time, private to the user.

Every file of ours carries `format` and `v`; `stamped` and `unstamped` write and read that stamp, and a file of a
newer version is refused with one line.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from interlock.base.canonical import NotCanonical, json_object
from interlock.base.errors import BadInput, InterlockError

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:  # callers bring their paths; importing pathlib is a tenth of what `import interlock` may cost
    from pathlib import Path

__all__ = [
    "AppendFile",
    "BadState",
    "Locked",
    "NewerFormat",
    "NotWritable",
    "demand_new",
    "demand_private",
    "file_lock",
    "os_reason",
    "private_dir",
    "read_bounded",
    "read_private",
    "replace",
    "replace_all",
    "seen_state",
    "stamped",
    "sync_dir",
    "typed",
    "unstamped",
]

PRIVATE_FILE: Final = 0o600
PRIVATE_DIR: Final = 0o700


class NotWritable(InterlockError):
    """A place on disk that cannot be written."""

    code = "not-writable"


class Locked(InterlockError):
    """A directory that another process of ours holds."""

    code = "locked"


class BadState(InterlockError):
    """A file of ours that is damaged or not what it says."""

    code = "bad-state"


class NewerFormat(InterlockError):
    """A file written by a newer interlock."""

    code = "newer-format"


def sync_dir(path: Path) -> None:
    """Make a directory's entries durable (a rename is only durable once its directory is)."""
    if os.name == "nt":  # pragma: no cover - Windows cannot open a directory
        return
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace(path: Path, data: bytes, *, mode: int = PRIVATE_FILE) -> None:
    """Put `data` at `path`, whole or not at all, durably.

    Raises: NotWritable.
    """
    replace_all([(path, data)], mode=mode)


def replace_all(files: Sequence[tuple[Path, bytes]], *, mode: int = PRIVATE_FILE, fsync: bool = True) -> None:
    """Put several files in place, in their order, each whole or not at all; all are durable when this returns.

    Without `fsync` they outlive the process, and not a power cut. Raises: NotWritable.
    """
    made: list[tuple[str, Path]] = []
    path = None
    try:
        try:
            for path, data in files:
                # like tempfile.mkstemp, whose import alone would be a tenth of what `import interlock` may cost
                name = str(path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp"))
                fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), PRIVATE_FILE)
                made.append((name, path))
                with os.fdopen(fd, "wb") as f:
                    f.write(data)
                    f.flush()
                    if fsync:
                        os.fsync(f.fileno())
                os.chmod(name, mode)
            for name, path in list(made):
                os.replace(name, path)
                made.pop(0)
        except BaseException:
            for name, _ in made:
                with contextlib.suppress(OSError):
                    os.unlink(name)
            raise
        for path in {p.parent: p for p, _ in files}.values() if fsync else ():
            sync_dir(path.parent)
    except OSError as e:
        raise NotWritable(
            f"cannot be written ({os_reason(e)})", where=str(path), fix="check its owner and free space"
        ) from None


def private_dir(path: Path) -> Path:
    """Make a directory that only its owner can enter (0700), with its parents; returns it.

    Raises: NotWritable.
    """
    try:
        for parent in reversed([p for p in path.parents if not p.exists()]):
            parent.mkdir(mode=PRIVATE_DIR, exist_ok=True)  # mkdir(parents=True) would leave their mode to the umask
        path.mkdir(mode=PRIVATE_DIR, exist_ok=True)
        if os.name != "nt" and stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(PRIVATE_DIR)
    except OSError as e:
        raise NotWritable(f"cannot be made a private directory ({os_reason(e)})", where=str(path)) from None
    return path


def read_bounded(path: Path, limit: int) -> bytes:
    """Read a whole file of at most `limit` bytes.

    Raises: BadState, where it is missing, too large or not a file that can be read.
    """
    try:
        with path.open("rb") as f:
            data = f.read(limit + 1)
    except OSError as e:
        raise BadState(f"cannot be read ({os_reason(e)})", where=str(path)) from None
    if len(data) > limit:
        raise BadState(f"is larger than {limit} bytes", where=str(path))
    return data


def read_private(path: Path, limit: int) -> bytes:
    """As `read_bounded`, of a file with a secret: nobody but its owner may read it. Raises: BadState."""
    data = read_bounded(path, limit)
    demand_private(path)
    return data


def demand_private(path: Path) -> None:
    """Refuse a file that others can read. Raises: BadState, where it is missing too.

    A group may read a file of root's, as PostgreSQL has it: so a secret is handed to a process that is not root's.
    """
    try:
        found = path.stat()
    except OSError as e:
        raise BadState(f"cannot be read ({os_reason(e)})", where=str(path)) from None
    if os.name == "nt":
        return
    others = 0o037 if found.st_uid == 0 != os.geteuid() else 0o077
    if stat.S_IMODE(found.st_mode) & others:
        raise BadState("can be read by others", where=str(path), fix=f"chmod 600 {path}")


def stamped(format_: str, v: int, body: dict[str, object]) -> bytes:
    """JSON bytes of a file of ours, with its format and version first."""
    return json.dumps({"format": format_, "v": v, **body}, indent=1, ensure_ascii=False).encode("utf-8") + b"\n"


def unstamped(data: bytes, format_: str, newest: int, *, where: str) -> dict[str, object]:
    """The body of a file of ours; `v` stays in it, `format` is checked and dropped.

    Raises: BadState, NewerFormat.
    """
    try:
        body = json_object(data, where)
    except NotCanonical as e:
        raise BadState(e.what, where=where) from None
    if body.pop("format", None) != format_:
        raise BadState(f"is not a file of format {format_}", where=where)
    v = body.get("v")
    if not isinstance(v, int) or isinstance(v, bool) or v < 1:
        raise BadState("has no version", where=where)
    if v > newest:
        raise NewerFormat(
            f"has version {v}, and this interlock reads up to {newest}", where=where, fix="upgrade interlock"
        )
    return body


def demand_new(path: Path) -> None:
    """Refuse to write over what is there. Raises: BadInput."""
    if path.exists():
        raise BadInput("is there already", where=str(path), fix="name a new file")


def typed(value: object, fields: Mapping[str, type], *, where: str, fix: str = "") -> dict[str, Any]:
    """What a file of ours or a row of it holds: just these fields, each of its very type. Raises: BadState."""
    if not isinstance(value, dict) or {name: type(held) for name, held in value.items()} != dict(fields):
        raise BadState(f"has other fields or types than {', '.join(sorted(fields))}", where=where, fix=fix)
    return value


class AppendFile:
    """A file that only grows; `append` returns once the line is on disk (with fsync) or in the kernel (without)."""

    def __init__(self, path: Path, *, fsync: bool = True) -> None:
        self._path = path
        self._fsync = fsync
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)
        except OSError as e:
            raise NotWritable(f"cannot be written ({os_reason(e)})", where=str(path)) from None

    def append(self, data: bytes) -> None:
        """Raises: NotWritable; then nothing of `data` counts as written."""
        try:
            size = os.lseek(self._fd, 0, os.SEEK_END)
            try:
                if os.write(self._fd, data) != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if self._fsync:
                    os.fsync(self._fd)
            except BaseException:  # an interruption too: whoever called acts as though nothing was written
                os.ftruncate(self._fd, size)
                raise
        except OSError as e:
            raise NotWritable(f"cannot be written ({os_reason(e)})", where=str(self._path)) from None

    def close(self) -> None:
        os.close(self._fd)


@contextlib.contextmanager
def file_lock(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold an exclusive lock on a file (made if missing); the kernel lets go of it when the process dies.

    Raises: Locked, where another process holds it and `wait` is false; NotWritable.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
    except OSError as e:
        raise NotWritable(f"cannot be locked ({os_reason(e)})", where=str(path)) from None
    try:
        try:
            if sys.platform != "win32":  # on Windows the guard and the hooks do without; the mesh roles refuse to start
                fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise Locked(
                "is in use by another process", where=str(path), fix="stop it, or use another directory"
            ) from None
        yield
    finally:
        if sys.platform != "win32":
            fcntl.flock(fd, fcntl.LOCK_UN)  # a child forked meanwhile has this descriptor too, and closing would not do
        os.close(fd)


def seen_state(path: Path) -> object:
    """A value that changes when a file does, None where it is missing; cheap enough to ask before each call."""
    try:
        found = path.stat()
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def os_reason(e: OSError) -> str:
    """What the system said, without the path: for an error that names the place itself."""
    return e.strerror or type(e).__name__
