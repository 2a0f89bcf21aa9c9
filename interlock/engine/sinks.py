"""Where receipts go. A sink that cannot write raises, and the guard then refuses the action.

`FileSink` is one chain in one file (engine.receipts), a line a receipt. Any number of threads and processes may
append to one file: each append takes the file's lock, reads the end of the chain anew, and returns once its line is on
disk. A process killed while it writes leaves at most one torn last line, which was never acknowledged: the next append
cuts it off. A last line that is whole and not valid is refused.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from interlock.base.errors import InterlockError
from interlock.base.files import (
    AppendFile,
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
from interlock.engine.mutex import Mutex
from interlock.engine.receipts import (
    MAX_LINE,
    BadChain,
    Receipt,
    ReceiptKeys,
    Verified,
    check_receipt,
    decode_header,
    decode_receipt,
    encode_header,
    encode_receipt,
    sealed,
    verify_chain,
)

__all__ = ["FileSink", "InMemorySink", "NullSink", "Sink", "verify_file"]

_KEY_FORMAT: Final = "interlock-receipt-key"
_KEY_SIZE: Final = 32
_TAIL: Final = 2 * MAX_LINE
_HEADER_START: Final = b'{"chain":"'


class Sink(Protocol):
    """Where the guard puts its receipts."""

    def args_digest(self, encoded: bytes) -> str | None:
        """A keyed digest of canonically encoded arguments, or None where none is kept."""
        ...

    def append(self, receipt: Receipt) -> Receipt:
        """Keep a receipt, durably before returning, and return it as kept. Whatever is raised blocks the action."""
        ...


class NullSink:
    """Keeps nothing; a weakening that `attest` reports."""

    def args_digest(self, encoded: bytes) -> str | None:
        return None

    def append(self, receipt: Receipt) -> Receipt:
        return receipt


class InMemorySink:
    """A chain in memory, for tests and for programs that hand receipts on themselves."""

    def __init__(self, *, key: bytes | None = None) -> None:
        self._keys = ReceiptKeys(os.urandom(_KEY_SIZE) if key is None else key)
        self._receipts: list[Receipt] = []
        self._mutex = Mutex()

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        return tuple(self._receipts)

    def args_digest(self, encoded: bytes) -> str | None:
        return self._keys.args_digest(encoded)

    def append(self, receipt: Receipt) -> Receipt:
        with self._mutex:
            prev = self._receipts[-1].mac if self._receipts else ""
            kept = sealed(receipt, self._keys, len(self._receipts) + 1, prev)
            self._receipts.append(kept)
        return kept

    def verify(self) -> Verified:
        """Raises: BadChain."""
        return verify_chain(self.receipts, self._keys, "")


class FileSink:
    """A chain in a file.

    `key` is the secret of the chain; without it a private file beside `path` (`path` + ".key", mode 0600) holds one,
    made on first use. `fsync=False` trades the last moments before a power cut for speed; kill -9 loses nothing
    either way.
    Raises: InterlockError (NotWritable, BadState, BadChain), where the file cannot be continued.
    """

    def __init__(self, path: str | os.PathLike[str], *, key: bytes | None = None, fsync: bool = True) -> None:
        self._path = Path(path).absolute()
        if not self._path.name or (os.path.exists(self._path) and not os.path.isfile(self._path)):
            raise BadState("is not a file", where=str(self._path), fix="name another file")
        self._lock = _beside(self._path, ".lock")
        self._fsync = fsync
        self._mutex = Mutex()
        if not os.path.exists(self._path.parent):  # false, not an error, where it cannot be reached
            private_dir(self._path.parent)
        with self._writing():
            self._keys = ReceiptKeys(self._own_key() if key is None else key)
            self._check_header()
            self._tail()

    @property
    def path(self) -> Path:
        return self._path

    def args_digest(self, encoded: bytes) -> str | None:
        return self._keys.args_digest(encoded)

    def append(self, receipt: Receipt) -> Receipt:
        """Raises: NotWritable, BadState, BadChain; then the receipt does not count as kept."""
        with self._writing():
            seq, prev = self._tail()
            kept = sealed(receipt, self._keys, seq + 1, prev)
            self._write(encode_receipt(kept))
        return kept

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        with self._mutex, file_lock(self._lock, wait=True):
            yield

    def _own_key(self) -> bytes:
        key_path = _beside(self._path, ".key")
        if not key_path.exists():
            if self._path.exists() and self._path.stat().st_size:
                raise BadState(
                    "is missing, so its receipts cannot be continued",
                    where=str(key_path),
                    fix="restore the key, or move the receipts away to begin a new chain",
                )
            replace(key_path, stamped(_KEY_FORMAT, 1, {"key": os.urandom(_KEY_SIZE).hex()}))
        return _read_key(key_path)

    def _check_header(self) -> None:
        """Raises: NewerFormat, BadState, BadChain: what a file of another kind holds is never continued."""
        if os.path.exists(self._path):
            first = _first_line(self._path)
            with _told_where(self._path, "first line"):
                if first.endswith(b"\n"):  # else it was cut off while it was written, and is begun anew
                    decode_header(first, self._keys)

    def _tail(self) -> tuple[int, str]:
        """Number and mac of the last whole line, after a torn one is cut off; an empty file is begun."""
        last, torn = self._end()
        with _told_where(self._path, "last line"):
            seq, prev = self._checked(last) if last else (0, "")
        if torn:
            self._cut(len(torn))
        if last:
            return seq, prev
        header = encode_header(os.urandom(8).hex(), self._keys)
        self._write(header)
        sync_dir(self._path.parent)
        return 0, decode_header(header, self._keys)

    def _checked(self, last: bytes) -> tuple[int, str]:
        if last.startswith(_HEADER_START):
            return 0, decode_header(last, self._keys)
        receipt = decode_receipt(last)
        check_receipt(receipt, self._keys)
        return receipt.seq, receipt.mac

    def _end(self) -> tuple[bytes, bytes]:
        """The last whole line, and what stands after it: a line that was cut off, and so never acknowledged."""
        try:
            with self._path.open("rb") as f:
                size = f.seek(0, os.SEEK_END)
                f.seek(max(0, size - _TAIL))
                data = f.read()
        except FileNotFoundError:
            return b"", b""
        except OSError as e:
            raise NotWritable(f"cannot be read ({os_reason(e)})", where=str(self._path)) from None
        end = data.rfind(b"\n") + 1
        torn = data[end:]
        ours = torn.startswith(_HEADER_START) or _HEADER_START.startswith(torn) if not end else len(torn) <= MAX_LINE
        if not ours:
            raise BadState("is not a file of receipts", where=str(self._path), fix="name another file")
        return data[data.rfind(b"\n", 0, max(0, end - 1)) + 1 : end], torn

    def _cut(self, size: int) -> None:
        try:
            os.truncate(self._path, self._path.stat().st_size - size)
        except OSError as e:
            raise NotWritable(f"cannot be repaired ({os_reason(e)})", where=str(self._path)) from None

    def _write(self, line: bytes) -> None:
        with contextlib.closing(AppendFile(self._path, fsync=self._fsync)) as f:
            f.append(line)


def verify_file(
    path: str | os.PathLike[str], key: bytes | str | os.PathLike[str] | None = None, *, head: str | None = None
) -> Verified:
    """Check a whole file of receipts; `key` is the secret or the path of a key file (by default the one beside it).

    With `head` (`Verified.head` of an earlier check, or one kept elsewhere) the chain has to end there.
    Raises: BadChain, where a receipt was changed, deleted, added or moved; BadState, where a file cannot be read.
    """
    path = Path(path).absolute()
    if isinstance(key, bytes):
        keys = ReceiptKeys(key)
    else:
        keys = ReceiptKeys(_read_key(_beside(path, ".key") if key is None else Path(key)))
    try:
        with path.open("rb") as f, _told_where(path):
            prev = decode_header(f.readline(MAX_LINE), keys)
            return verify_chain(_read(f), keys, prev, head=head)
    except OSError as e:
        raise BadState(f"cannot be read ({os_reason(e)})", where=str(path)) from None


def _first_line(path: Path) -> bytes:
    try:
        with path.open("rb") as f:
            return f.readline(MAX_LINE)
    except OSError as e:
        raise NotWritable(f"cannot be read ({os_reason(e)})", where=str(path)) from None


def _read(f: BinaryIO) -> Iterator[Receipt]:
    n = 0
    while line := f.readline(MAX_LINE):
        n += 1
        if not line.endswith(b"\n"):
            fix = "if its writer was killed, the next append repairs it"
            raise BadChain("is cut off or too long", where=f"receipt {n}", fix=fix)
        try:
            yield decode_receipt(line)
        except BadChain as e:
            raise BadChain(e.what, where=f"receipt {n}") from None


def _read_key(path: Path) -> bytes:
    body = unstamped(read_bounded(path, 4096), _KEY_FORMAT, 1, where=str(path))
    try:
        key = bytes.fromhex(str(body.get("key")))
    except ValueError:
        key = b""
    if len(key) != _KEY_SIZE:
        raise BadState("holds no key", where=str(path))
    return key


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


@contextlib.contextmanager
def _told_where(path: Path, place: str = "") -> Iterator[None]:
    try:
        yield
    except InterlockError as e:
        where = ": ".join(filter(None, (str(path), e.where or place)))
        raise type(e)(e.what, where=where, fix=e.fix) from None
