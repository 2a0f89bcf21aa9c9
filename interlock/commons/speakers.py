"""Whose word a log entry may be in: the keys of a role, and those that it had before, up to where they ended.

A role whose key was replaced says so itself, in its metadata's signed part, in the word of the key that followed:

    "x-interlock-former-keys": {"ed25519:HEX": INDEX, ...}

What a former key logged below that index in the log counts as it did; what anybody signs with it later counts nothing.
(Whoever stole the role's present key gains nothing by such a row: it could as well sign the entry itself.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tuf.api.metadata import Signed  # type: ignore[attr-defined]

__all__ = ["Speakers", "end_key", "former_keys"]

_FIELD: Final = "x-interlock-former-keys"


@dataclass(frozen=True)
class Speakers:
    """Keys in their text form; `former` has the index in the log at which each ended."""

    now: frozenset[str]
    former: Mapping[str, int] = field(default_factory=dict)

    def may_say(self, by: str, index: int) -> bool:
        """Whether an entry at this index in the log may be in the word of this key."""
        return by in self.now or index < self.former.get(by, 0)

    def with_those_of(self, other: Speakers | None) -> Speakers:
        """These and others, as two mirrors may show two states; a former key ends where the later one says."""
        if other is None:
            return self
        ends = {key: max(self.former.get(key, 0), other.former.get(key, 0)) for key in {*self.former, *other.former}}
        return Speakers(self.now | other.now, ends)


def former_keys(signed: Signed | None) -> dict[str, int]:
    """The former keys that a role's metadata names, and where each ended; what is no such row is left out."""
    rows = None if signed is None else signed.unrecognized_fields.get(_FIELD)
    if not isinstance(rows, dict):
        return {}
    return {str(key): until for key, until in rows.items() if type(until) is int and until >= 0}


def end_key(signed: Signed, key: str, index: int) -> None:
    """Let a role's metadata say that this key was the role's, for entries below an index in the log."""
    signed.unrecognized_fields[_FIELD] = {**former_keys(signed), key: index}
