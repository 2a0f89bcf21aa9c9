"""Revocations: what the commons, or a pack's author, takes back; read from targets and shown by the log.

    revoked/<ring>.json   signed by the ring's role: nobody there begins to use these versions, or rules of them
    removals.json         signed by those who hold `targets`: and whoever has them in force takes them out

Both are lists of evidence. A ring's key can therefore stop what is new, and only the commons' threshold ends what an
operator runs, granted rules included. Each row's log entry is in the word of the ring's key; or, in the first list, of
the author's, whose key the pack itself names. A row counts for the version that it names, and in its ring.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from interlock.base.errors import InterlockError
from interlock.base.fetch import NotFound
from interlock.commons.layout import REMOVALS_PATH, pack_path, revoked_path
from interlock.commons.pack import MAX_PACK, BadPack, parse_pack
from interlock.commons.records import (
    MAX_EVIDENCE,
    BadRecord,
    Evidence,
    Revocation,
    parse_evidence_list,
    parse_revocation,
)
from interlock.commons.speakers import Speakers
from interlock.commons.updater import View
from interlock.commons.withdrawn import Scope, Withdrawn

__all__ = ["BadRevocation", "revoked", "withdrawn_rows"]

_Check = Callable[[bytes, bytes], object]  # an entry's and its proof's bytes; raises where the log has it not
_Author = Callable[[Revocation], str]  # the key that a version's own author named in it; "" for none


class BadRevocation(InterlockError):
    """A list of revocations that cannot be relied on: a node would not know what to leave out."""

    code = "metadata-refused"


def revoked(view: View, ring: str, check: _Check, known: Collection[Withdrawn] = ()) -> tuple[Withdrawn, ...]:
    """What is taken back in a ring. Rows that are `known` were checked before, and are not again.

    Raises: BadRevocation; of the view and of `check`, theirs.
    """
    found: list[Withdrawn] = []
    scopes: tuple[tuple[str, Scope], ...] = ((revoked_path(ring), "activation"), (REMOVALS_PATH, "removal"))
    for path, scope in scopes:
        try:
            data = view.target(path, MAX_EVIDENCE)
        except NotFound:
            continue
        keys, held = view.speakers(ring), frozenset(known)
        found += withdrawn_rows(data, ring, scope, check, path, keys=keys, author=_author_in(view), known=held)
    return tuple(found)


def withdrawn_rows(
    data: bytes,
    ring: str,
    scope: Scope,
    check: _Check,
    where: str,
    *,
    keys: Speakers,
    author: _Author,
    known: Collection[Withdrawn] = (),
) -> tuple[Withdrawn, ...]:
    """The rows of one list that are about a ring, whose role has these keys.

    Raises: BadRevocation; what `check` and `author` raise.
    """
    found: list[Withdrawn] = []
    try:
        for number, evidence in enumerate(parse_evidence_list(data, where)):
            record = _record(evidence, number, scope, where)
            if record.ring != ring:
                continue
            row = Withdrawn(record.name, record.version, record.rules, scope, record.why, ring)
            if row not in known:
                _demand_speaker(evidence, record, number, scope, keys, author, where)
                check(evidence.entry, evidence.proof)
            found.append(row)
    except BadRecord as e:
        raise BadRevocation(f"does not hold ({e.what})", where=where, fix="tell the commons") from None
    return tuple(found)


def _record(evidence: Evidence, number: int, scope: Scope, where: str) -> Revocation:
    entry, record = evidence.said(where), parse_revocation(evidence.record, where)
    of = (record.name, record.version, record.ring)
    if entry.type != "revoke" or (entry.name, entry.version, entry.ring) != of:
        raise BadRecord(f"has a row {number} that is logged as something else", where=where)
    if scope == "removal" and record.scope != scope:
        raise BadRecord(f"has a row {number} that is no removal", where=where)
    return record


def _demand_speaker(
    evidence: Evidence, record: Revocation, number: int, scope: Scope, keys: Speakers, author: _Author, where: str
) -> None:
    """Raises: BadRecord, for the word of somebody who may not say this."""
    by = evidence.said(where).by
    if keys.may_say(by, evidence.index):
        return
    if scope == "removal" or record.scope == "removal" or by != author(record):
        raise BadRecord(f"has a row {number} in the word of neither the ring's key nor the author's", where=where)


def _author_in(view: View) -> _Author:
    """Reads from a version, if it is the one that a row names, whose word about it is its author's."""

    def author(record: Revocation) -> str:
        path = pack_path(record.ring, record.name, record.version)
        try:
            pack = parse_pack(view.target(path, MAX_PACK), where=path)
        except (NotFound, BadPack):
            return ""
        return pack.author_key if pack.digest == record.pack else ""

    return author
