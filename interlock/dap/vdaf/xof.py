"""XofTurboShake128: the one source of expanded randomness in Prio3 (VDAF, section 6.2.1)."""

from __future__ import annotations

from typing import Final

from interlock.base.turboshake import turboshake128
from interlock.dap.backend import SEED_SIZE
from interlock.dap.vdaf.field import Field

__all__ = ["XofTurboShake128", "domain_separation_tag"]

_VERSION: Final = 18  # of the wire format: that of draft 18, unchanged up to draft 20 at least
_CLASS_VDAF: Final = 0
_DOMAIN: Final = 1


def domain_separation_tag(algorithm_id: int, usage: int, ctx: bytes) -> bytes:
    """What keeps the outputs of different uses, algorithms, drafts and applications apart (VDAF, section 6.2.3)."""
    return bytes([_VERSION, _CLASS_VDAF]) + algorithm_id.to_bytes(4, "big") + usage.to_bytes(2, "big") + ctx


class XofTurboShake128:
    """A running output; `next` and `next_vec` go on where the last call ended."""

    def __init__(self, seed: bytes, tag: bytes, binder: bytes) -> None:
        if len(tag) > 0xFFFF:
            raise ValueError("the application's context is too long for a domain separation tag")
        head = len(tag).to_bytes(2, "little") + tag + bytes([len(seed)]) + seed
        self._output = turboshake128(_DOMAIN, head + binder)

    def next(self, length: int) -> bytes:
        return self._output.read(length)

    def next_vec(self, field: Field, count: int) -> list[int]:
        """The next `count` field elements, drawn in bulk; a number outside the field is passed over.

        Both fields fill their bytes up to the last bit, so there is nothing to mask.
        """
        size, p = field.size, field.modulus
        values: list[int] = []
        while missing := count - len(values):
            data = self.next(missing * size)
            drawn = [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]
            values += [value for value in drawn if value < p]
        return values

    def seed(self) -> bytes:
        return self.next(SEED_SIZE)
