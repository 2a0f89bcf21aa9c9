"""Revocations: what the commons, or a pack's author, takes back; read from targets and shown by the log.

    revoked/<ring>.json   signed by the ring's role: nobody there begins to use these versions, or rules of them
    removals.json         signed by the commons' top-level keys: and whoever has them in force takes them out

Both are lists of evidence. A ring's key can therefore stop what is new, and only the commons' threshold ends what an
operator runs, granted rules included. An author asks for the first with the key that the pack names.
"""

from __future__ import annotations

from collections.abc import Callable

from interlock.base.errors import InterlockError
from interlock.base.fetch import NotFound
from interlock.commons.layout import REMOVALS_PATH, revoked_path
from interlock.commons.records import MAX_EVIDENCE, BadRecord, parse_evidence_list, parse_revocation
from interlock.commons.withdrawn import Scope, Withdrawn

__all__ = ["BadRevocation", "revoked", "withdrawn_rows"]

_Check = Callable[[bytes, bytes], object]  # an entry's and its proof's bytes; raises where the log has it not


class BadRevocation(InterlockError):
    """A list of revocations that cannot be relied on: a node would not know what to leave out."""

    code = "metadata-refused"


def revoked(target: Callable[[str, int], bytes], ring: str, check: _Check) -> tuple[Withdrawn, ...]:
    """What is taken back in a ring; `target` reads a signed target (`View.target`), NotFound where there is none.

    Raises: BadRevocation; of `target` and of `check`, theirs.
    """
    found: list[Withdrawn] = []
    scopes: tuple[tuple[str, Scope], ...] = ((revoked_path(ring), "activation"), (REMOVALS_PATH, "removal"))
    for path, scope in scopes:
        try:
            data = target(path, MAX_EVIDENCE)
        except NotFound:
            continue
        found += withdrawn_rows(data, ring, scope, check, path)
    return tuple(found)


def withdrawn_rows(data: bytes, ring: str, scope: Scope, check: _Check, where: str) -> tuple[Withdrawn, ...]:
    """The rows of one list that are about a ring. Raises: BadRevocation; what `check` raises."""
    found: list[Withdrawn] = []
    try:
        for number, evidence in enumerate(parse_evidence_list(data, where)):
            entry, record = evidence.said(where), parse_revocation(evidence.record, where)
            of = (record.name, record.version, record.ring)
            if entry.type != "revoke" or (entry.name, entry.version, entry.ring) != of:
                raise BadRecord(f"has a row {number} that is logged as something else", where=where)
            if scope == "removal" and record.scope != scope:
                raise BadRecord(f"has a row {number} that is no removal", where=where)
            if record.ring != ring:
                continue
            check(evidence.entry, evidence.proof)
            found.append(Withdrawn(record.name, record.version, record.rules, scope, record.why))
    except BadRecord as e:
        raise BadRevocation(f"does not hold ({e.what})", where=where, fix="tell the commons") from None
    return tuple(found)
