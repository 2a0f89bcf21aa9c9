"""The journal of a publish: all that its steps need, so that each can be taken again with the same result.

begun -> logged (steps 1 to 3) -> targets (4) -> snapshot (5) -> done (6)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from interlock.base.codec import Malformed
from interlock.base.files import BadState, stamped, unstamped
from interlock.base.primitives import BadSignature
from interlock.base.text import b64, unb64
from interlock.commons.layout import CATALOG_RING
from interlock.transparency.entry import LogEntry, known_entry

__all__ = ["MAX_JOURNAL", "STEPS", "Journal", "dump_journal", "parse_journal"]

STEPS: Final = ("begun", "logged", "targets", "snapshot", "done")
MAX_JOURNAL: Final = 4 << 20  # bytes
_FORMAT: Final = "interlock-publish"


@dataclass(frozen=True)
class Journal:
    """A publish under way. `base` are the roles' versions before it; `path` and `role` say where its target goes."""

    step: str
    entry: LogEntry
    data: bytes = field(repr=False)
    path: str
    role: str
    base: Mapping[str, int]
    proof: bytes = field(default=b"", repr=False)
    snapshot_sha256: str = ""

    @property
    def channel_role(self) -> str | None:
        """The ring's role, whose index names a pack; a catalog stands in no index."""
        return None if self.entry.ring == CATALOG_RING else self.entry.ring

    @property
    def changed(self) -> dict[str, int]:
        """The roles that get a new version, and which."""
        return {role: self.base[role] + 1 for role in {self.role, self.channel_role or self.role}}


def dump_journal(journal: Journal) -> bytes:
    """A journal's bytes. The inverse of `parse_journal`."""
    body: dict[str, object] = {
        "step": journal.step,
        "entry": journal.entry.data.decode("ascii"),
        "path": journal.path,
        "role": journal.role,
        "base": dict(journal.base),
        "snapshot_sha256": journal.snapshot_sha256,
        "proof": b64(journal.proof),
        "data": b64(journal.data),
    }
    return stamped(_FORMAT, 1, body)


def parse_journal(data: bytes, *, where: str) -> Journal:
    """Read a journal. Raises: BadState, NewerFormat."""
    body = unstamped(data, _FORMAT, 1, where=where)
    try:
        texts = {k: _text(body[k]) for k in ("step", "entry", "path", "role", "snapshot_sha256", "proof", "data")}
        base = body["base"]
        if texts["step"] not in STEPS or not isinstance(base, dict) or any(type(v) is not int for v in base.values()):
            raise ValueError
        return Journal(
            step=texts["step"],
            entry=known_entry(texts["entry"].encode("utf-8")),
            data=unb64(texts["data"], "data"),
            path=texts["path"],
            role=texts["role"],
            base=base,
            proof=unb64(texts["proof"], "proof"),
            snapshot_sha256=texts["snapshot_sha256"],
        )
    except (KeyError, ValueError, Malformed, BadSignature):
        raise BadState("is damaged", where=where, fix="restore it from its backup") from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value
