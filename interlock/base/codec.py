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
_number = int.from_bytes


class Malformed(InterlockError):
    """Bytes of a peer that do not follow their format."""

    code = "malformed"


class Writer:
    """Builds a message field by field; a value that does not fit is the caller's mistake (ValueError)."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def _uint(self, value: int, size: int) -> Writer:
        try:
            self._parts.append(int.to_bytes(value, size, "big"))
        except OverflowError:
            raise ValueError(f"{value} does not fit {8 * size} bits") from None
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
        return self._uint(len(data), 1).raw(data)

    def opaque16(self, data: bytes) -> Writer:
        return self._uint(len(data), 2).raw(data)

    def opaque32(self, data: bytes) -> Writer:
        return self._uint(len(data), 4).raw(data)

    def done(self) -> bytes:
        return b"".join(self._parts)


class Reader:
    """Takes a message apart field by field.

    Raises: Malformed, where bytes are missing or left over.
    """

    def __init__(self, data: bytes, what: str = "message") -> None:
        self._data = bytes(data)
        self._size = len(self._data)
        self._at = 0
        self._what = what

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        start, end = self._at, self._at + size
        if end > self._size:
            raise self._early(end)
        self._at = end
        return self._data[start:end]

    def u8(self) -> int:
        return _number(self.take(1), "big")

    def u16(self) -> int:
        return _number(self.take(2), "big")

    def u32(self) -> int:
        return _number(self.take(4), "big")

    def u64(self) -> int:
        return _number(self.take(8), "big")

    def opaque8(self, *, least: int = 0) -> bytes:
        return self._vector(1, least)

    def opaque16(self, *, least: int = 0) -> bytes:
        return self._vector(2, least)

    def opaque32(self, *, least: int = 0) -> bytes:
        return self._vector(4, least)

    def _vector(self, width: int, least: int) -> bytes:
        start = self._at + width
        if start > self._size:
            raise self._early(start)
        size = _number(self._data[self._at : start], "big")
        if size < least:
            raise Malformed(f"{self._what} has a vector of {size} bytes where at least {least} belong")
        end = start + size
        if end > self._size:
            raise self._early(end)
        self._at = end
        return self._data[start:end]

    def _early(self, end: int) -> Malformed:
        return Malformed(f"{self._what} ends {end - self._size} bytes early")

    @property
    def at(self) -> int:
        """How many bytes were read."""
        return self._at

    def span(self, start: int) -> tuple[bytes, int, int]:
        """Where what was read since byte `start` stands: the whole message, its start, its end."""
        return self._data, start, self._at

    @property
    def left(self) -> int:
        return self._size - self._at

    def rest(self) -> bytes:
        return self.take(self.left)

    def many(self, read: Callable[[Reader], T], *, most: int | None = None) -> list[T]:
        """Read values up to the end of the message; with `most`, no more of them, however small each is."""
        values: list[T] = []
        while self._at < self._size:
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
