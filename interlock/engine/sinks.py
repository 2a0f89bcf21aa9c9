"""Where receipts go. A sink that cannot write raises, and the guard then refuses the action.

`FileSink` is one chain in one file (engine.receipts), a line a receipt. Shared, any number of threads and processes may
append to one file: each append takes the file's lock, reads the end of the chain anew, and returns once its line is on
disk. Not shared, one sink holds the lock for as long as it is open and knows the end of the chain: that costs a call
far less, and a second writer is refused. A process killed while it writes leaves at most one torn last line, which was
never acknowledged: the next append cuts it off. A last line that is whole and not valid is refused.
"""

from __future__ import annotations

import contextlib
import os
import re
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
    read_private,
    replace,
    stamped,
    sync_dir,
    unstamped,
)
from interlock.engine.mutex import Mutex
from interlock.engine.receipt_seals import BadChain, Checker, PrivateKey, ReceiptKeys, Seal, SigningSeal
from interlock.engine.receipts import (
    MAX_LINE,
    Receipt,
    Verified,
    check_receipt,
    decode_header,
    decode_receipt,
    encode_header,
    sealed,
    verify_chain,
)

__all__ = ["FileSink", "InMemorySink", "NullSink", "Sink", "read_receipts", "verify_file"]

_KEY_FORMAT: Final = "interlock-receipt-key"
_KEY_SIZE: Final = 32
_KEY_FILE_LIMIT: Final = 4096
_HEX_KEY: Final = re.compile(rb"(?:[0-9A-Fa-f]{2}){16,64}")
_TAIL: Final = 2 * MAX_LINE
# a signed chain names its algorithm first
_HEADER_STARTS: Final = (b'{"chain":"', b'{"alg":"')


class Sink(Protocol):
    """Where the guard puts its receipts."""

    def args_digest(self, encoded: bytes) -> str | None:
        """A keyed digest of canonically encoded arguments, or None where none is kept."""
        ...

    def append(self, receipt: Receipt) -> Receipt:
        """Keep a receipt, durably before returning, and return it as kept. Whatever is raised blocks the action."""
        ...


class NullSink:
    """Keeps nothing; a weakening that `attest` reports. With `keeps_nothing` no receipt is made for it at all."""

    keeps_nothing: Final = True

    def args_digest(self, encoded: bytes) -> str | None:
        return None

    def append(self, receipt: Receipt) -> Receipt:
        return receipt


class InMemorySink:
    """A chain in memory, for tests and for programs that hand receipts on themselves."""

    def __init__(self, *, key: bytes | None = None) -> None:
        self._keys = ReceiptKeys(os.urandom(_KEY_SIZE) if key is None else key)
        self._kept: list[tuple[Receipt, bytes]] = []
        self._mutex = Mutex()

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        return tuple(receipt for receipt, _ in self._kept)

    def args_digest(self, encoded: bytes) -> str | None:
        return self._keys.args_digest(encoded)

    def append(self, receipt: Receipt) -> Receipt:
        with self._mutex:
            prev = self._kept[-1][0].seal if self._kept else ""
            self._kept.append(sealed(receipt, self._keys, len(self._kept) + 1, prev))
            return self._kept[-1][0]

    def verify(self) -> Verified:
        """Raises: BadChain."""
        return verify_chain(self._kept, self._keys, "")


class FileSink:
    """A chain in a file.

    `key` is the secret of the chain; without it a private file beside `path` (`path` + ".key", mode 0600) holds one,
    made on first use. With `signer` (a key of base.keys) lines are signed, and whoever has the public key can verify
    them; `key` then serves the digests of arguments. `shared=False` is for one writer; call `close` to let another in.
    `fsync=False` trades the last moments before a power cut for speed; kill -9 loses nothing either way.
    Raises: InterlockError (NotWritable, BadState, BadChain; Locked), where the file cannot be continued.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        key: bytes | None = None,
        signer: PrivateKey | None = None,
        shared: bool = True,
        fsync: bool = True,
    ) -> None:
        self._path = Path(path).absolute()
        if not self._path.name or (os.path.exists(self._path) and not os.path.isfile(self._path)):
            raise BadState("is not a file", where=str(self._path), fix="name another file")
        self._lock = _beside(self._path, ".lock")
        self.fsync: Final = fsync
        self._mutex = Mutex()
        self._alone: _OneWriter | None = None
        if not os.path.exists(self._path.parent):  # false, not an error, where it cannot be reached
            private_dir(self._path.parent)
        with contextlib.ExitStack() as held:
            held.enter_context(file_lock(self._lock, wait=shared))
            secret = self._own_key() if key is None else key
            self._seal: Seal = ReceiptKeys(secret) if signer is None else SigningSeal(signer, secret)
            self._check_header()
            end = self._tail()
            if not shared:
                self._alone = _OneWriter(AppendFile(self._path, fsync=fsync), end, held.pop_all())

    def close(self) -> None:
        """Let another writer in; only a sink that is not shared holds anything."""
        with self._mutex:
            if self._alone is not None:
                self._alone.close()

    @property
    def path(self) -> Path:
        return self._path

    def args_digest(self, encoded: bytes) -> str | None:
        return self._seal.args_digest(encoded)

    def append(self, receipt: Receipt) -> Receipt:
        """Raises: NotWritable, BadState, BadChain; then the receipt does not count as kept."""
        with self._mutex:
            if self._alone is not None:
                return self._alone.append(receipt, self._seal)
            with file_lock(self._lock, wait=True):
                seq, prev = self._tail()
                kept, line = sealed(receipt, self._seal, seq + 1, prev)
                self._write(line)
        return kept

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
                    decode_header(first, self._seal)

    def _tail(self) -> tuple[int, str]:
        """Number and mac of the last whole line, after a torn one is cut off; an empty file is begun."""
        last, torn = self._end()
        with _told_where(self._path, "last line"):
            seq, prev = self._checked(last) if last else (0, "")
        if torn:
            self._cut(len(torn))
        if last:
            return seq, prev
        header = encode_header(os.urandom(8).hex(), self._seal)
        self._write(header)
        sync_dir(self._path.parent)
        return 0, decode_header(header, self._seal)

    def _checked(self, last: bytes) -> tuple[int, str]:
        if last.startswith(_HEADER_STARTS):
            return 0, decode_header(last, self._seal)
        receipt = decode_receipt(last)
        check_receipt(receipt, last, self._seal)
        return receipt.seq, receipt.seal

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
        begun = any(torn.startswith(start) or start.startswith(torn) for start in _HEADER_STARTS)
        ours = begun if not end else len(torn) <= MAX_LINE
        if not ours:
            raise BadState("is not a file of receipts", where=str(self._path), fix="name another file")
        return data[data.rfind(b"\n", 0, max(0, end - 1)) + 1 : end], torn

    def _cut(self, size: int) -> None:
        try:
            os.truncate(self._path, self._path.stat().st_size - size)
        except OSError as e:
            raise NotWritable(f"cannot be repaired ({os_reason(e)})", where=str(self._path)) from None

    def _write(self, line: bytes) -> None:
        with contextlib.closing(AppendFile(self._path, fsync=self.fsync)) as f:
            f.append(line)


class _OneWriter:
    """The open end of a chain that nobody else writes."""

    def __init__(self, file: AppendFile, end: tuple[int, str], held: contextlib.ExitStack) -> None:
        self._file = file
        self._seq, self._prev = end
        self._held = held
        self._process = os.getpid()

    def append(self, receipt: Receipt, seal: Seal) -> Receipt:
        if os.getpid() != self._process:
            raise NotWritable("belongs to the process that this one was forked from", fix="use FileSink(shared=True)")
        kept, line = sealed(receipt, seal, self._seq + 1, self._prev)
        self._file.append(line)
        self._seq, self._prev = kept.seq, kept.seal
        return kept

    def close(self) -> None:
        self._file.close()
        self._held.close()


def verify_file(
    path: str | os.PathLike[str],
    key: bytes | str | os.PathLike[str] | Checker | None = None,
    *,
    head: str | None = None,
) -> Verified:
    """Check a whole file of receipts.

    `key` is the secret, the path of a key file (by default the one beside it; or one with the secret in hex, 16 to 64
    bytes), or what checks signatures (PublicSeal).
    With `head` (`Verified.head` of an earlier check, or one kept elsewhere) the chain has to end there.
    Raises: BadChain, where a receipt was changed, deleted, added or moved; BadState, where a file cannot be read.
    """
    path = Path(path).absolute()
    try:
        with path.open("rb") as f:  # first, so that where it is missing nobody is told of its key
            checker = _checker(path, key)
            with _told_where(path):
                prev = decode_header(f.readline(MAX_LINE), checker)
                return verify_chain(_read(f), checker, prev, head=head)
    except OSError as e:
        raise BadState(f"cannot be read ({os_reason(e)})", where=str(path)) from None


def read_receipts(path: str | os.PathLike[str]) -> Iterator[tuple[Receipt, bytes]]:
    """Every receipt of a file with its line, in order, without a check of seals. Raises: BadChain, BadState."""
    path = Path(path).absolute()
    try:
        with path.open("rb") as f, _told_where(path):
            if not f.readline(MAX_LINE).startswith(_HEADER_STARTS):
                raise BadState("is not a file of receipts", fix="name another file")
            yield from _read(f)
    except OSError as e:
        raise BadState(f"cannot be read ({os_reason(e)})", where=str(path)) from None


def _checker(path: Path, key: bytes | str | os.PathLike[str] | Checker | None) -> Checker:
    if isinstance(key, bytes):
        return ReceiptKeys(key)
    if key is None or isinstance(key, str | os.PathLike):
        return ReceiptKeys(_read_key(_beside(path, ".key")) if key is None else _given_key(Path(key)))
    return key


def _given_key(path: Path) -> bytes:
    """The key of a file that somebody names: one of ours, or what a program gave to `FileSink(key=)`, in hex.

    Whoever else can read it could write a chain that holds, so it says nothing then. Raises: BadState.
    """
    data = read_private(path, _KEY_FILE_LIMIT)
    if data.lstrip().startswith(b"{"):
        return _read_key(path)
    if not _HEX_KEY.fullmatch(data.strip()):
        raise BadState("holds neither a key file's JSON nor a key of 16 to 64 bytes in hex", where=str(path))
    return bytes.fromhex(data.decode())


def _first_line(path: Path) -> bytes:
    try:
        with path.open("rb") as f:
            return f.readline(MAX_LINE)
    except OSError as e:
        raise NotWritable(f"cannot be read ({os_reason(e)})", where=str(path)) from None


def _read(f: BinaryIO) -> Iterator[tuple[Receipt, bytes]]:
    n = 0
    while line := f.readline(MAX_LINE):
        n += 1
        if not line.endswith(b"\n"):
            fix = "if its writer was killed, the next append repairs it"
            raise BadChain("is cut off or too long", where=f"receipt {n}", fix=fix)
        try:
            yield decode_receipt(line), line
        except BadChain as e:
            raise BadChain(e.what, where=f"receipt {n}") from None


def _read_key(path: Path) -> bytes:
    body = unstamped(read_private(path, _KEY_FILE_LIMIT), _KEY_FORMAT, 1, where=str(path))
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
