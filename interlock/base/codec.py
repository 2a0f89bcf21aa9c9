"""TLS presentation language (RFC 8446, section 3): a Writer and a Reader that refuses leftovers.

All integers are big-endian and unsigned. `opaqueN` is a vector of bytes behind a length of N bits.

    w = Writer(); w.u16(7); w.opaque8(b"hi"); w.done() == b"\\x00\\x07\\x02hi"
    r = Reader(data); kind = r.u16(); text = r.opaque8(); r.finish()
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from interlock.base.errors import InterlockError

__all__ = ["Malformed", "Reader", "Writer", "decode"]

T = TypeVar("T")


class Malformed(InterlockError):
    """Bytes of a peer that do not follow their format."""

    code = "malformed"


class Writer:
    """Builds a message field by field; a value that does not fit is the caller's mistake (ValueError)."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def _uint(self, value: int, size: int) -> Writer:
        if not 0 <= value < 1 << (8 * size):
            raise ValueError(f"{value} does not fit {8 * size} bits")
        self._parts.append(value.to_bytes(size, "big"))
        return self

    def u8(self, value: int) -> Writer:
        return self._uint(value, 1)

    def u16(self, value: int) -> Writer:
        return self._uint(value, 2)

    def u32(self, value: int) -> Writer:
        return self._uint(value, 4)

    def u64(self, value: int) -> Writer:
        return self._uint(value, 8)

    def raw(self, data: bytes) -> Writer:
        self._parts.append(bytes(data))
        return self

    def fixed(self, data: bytes, size: int) -> Writer:
        if len(data) != size:
            raise ValueError(f"{len(data)} bytes where {size} belong")
        return self.raw(data)

    def opaque8(self, data: bytes) -> Writer:
        return self.u8(len(data)).raw(data)

    def opaque16(self, data: bytes) -> Writer:
        return self.u16(len(data)).raw(data)

    def opaque32(self, data: bytes) -> Writer:
        return self.u32(len(data)).raw(data)

    def done(self) -> bytes:
        return b"".join(self._parts)


class Reader:
    """Takes a message apart field by field.

    Raises: Malformed, where bytes are missing or left over.
    """

    def __init__(self, data: bytes, what: str = "message") -> None:
        self._data = bytes(data)
        self._at = 0
        self._what = what

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        end = self._at + size
        if end > len(self._data):
            raise Malformed(f"{self._what} ends {end - len(self._data)} bytes early")
        data, self._at = self._data[self._at : end], end
        return data

    def _uint(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def u8(self) -> int:
        return self._uint(1)

    def u16(self) -> int:
        return self._uint(2)

    def u32(self) -> int:
        return self._uint(4)

    def u64(self) -> int:
        return self._uint(8)

    def opaque8(self, *, least: int = 0) -> bytes:
        return self._vector(self.u8(), least)

    def opaque16(self, *, least: int = 0) -> bytes:
        return self._vector(self.u16(), least)

    def opaque32(self, *, least: int = 0) -> bytes:
        return self._vector(self.u32(), least)

    def _vector(self, size: int, least: int) -> bytes:
        if size < least:
            raise Malformed(f"{self._what} has a vector of {size} bytes where at least {least} belong")
        return self.take(size)

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def rest(self) -> bytes:
        return self.take(self.left)

    def many(self, read: Callable[[Reader], T], *, most: int | None = None) -> list[T]:
        """Read values up to the end of the message; with `most`, no more of them, however small each is."""
        values: list[T] = []
        while self.left:
            if len(values) == most:
                raise Malformed(f"{self._what} has more than {most} parts")
            values.append(read(self))
        return values

    def finish(self) -> None:
        """Demand that nothing is left."""
        if self.left:
            raise Malformed(f"{self._what} has {self.left} bytes too many")


def decode(data: bytes, read: Callable[[Reader], T], what: str) -> T:
    """Read one whole value and demand that nothing is left.

    Raises: Malformed.
    """
    reader = Reader(data, what)
    value = read(reader)
    reader.finish()
    return value
