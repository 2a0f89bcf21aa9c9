"""What a guard needs of the mesh: the Policy of the packs that are live, and whether it changed.

Reads HOME only, with the standard library and the engine: a guarded process needs none of the mesh's packages.
Nothing is trusted for having been written by us: each pack's bytes are hashed again against live.json, and parsed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from interlock.base.errors import InterlockError
from interlock.base.files import BadState, file_lock, read_bounded, replace, seen_state
from interlock.commons.grants import Grant, Grants, dump_grants, parse_grants
from interlock.commons.live import GRANTS, LIVE, LiveRow, read_live, store_file
from interlock.commons.pack import MAX_PACK, BadPack, Pack, parse_pack, sha256_hex
from interlock.commons.resolve import BASE_NAME, Subscribed, resolve
from interlock.engine.policy.builtins import builtin
from interlock.engine.policy.document import RuleDoc, parse_document, semantic_digest
from interlock.engine.policy.model import Policy

__all__ = ["NotInstalled", "base_rules", "fingerprint", "grant", "load", "read_grants", "revoke"]

_LIMIT = 1 << 20


class NotInstalled(InterlockError):
    """A pack that no update of this node has brought yet."""

    code = "bad-state"


def load(home: Path, pack: str, ring: str) -> Policy:
    """The Policy of `mesh:PACK@RING`; PACK may name several, joined by '+'.

    Raises: NotInstalled, BadState, BadPack, BadPolicy, NewerFormat.
    """
    live = read_live(home).rows
    packs = []
    for name in pack.split("+"):
        row = live.get((name, ring))
        if row is None:
            raise NotInstalled(
                "is not live on this node", where=f"mesh:{name}@{ring}", fix="run interlock mesh subscribe, then update"
            )
        packs.append(Subscribed(_stored(home, row), ring, row.log_index))
    return resolve(base_rules(), packs, read_grants(home))


def fingerprint(home: Path) -> object:
    """A value that changes when the packs in force or the grants do; cheap enough to ask before each call."""
    return tuple(seen_state(home / name) for name in (LIVE, GRANTS))


def base_rules() -> tuple[RuleDoc, ...]:
    """The operator's own base: the rules that ship in the wheel."""
    return parse_document(builtin(BASE_NAME), where=f"builtin:{BASE_NAME}").rules


def read_grants(home: Path) -> Grants:
    """Raises: BadState, NewerFormat."""
    path = home / GRANTS
    return parse_grants(read_bounded(path, _LIMIT), where=str(path)) if path.exists() else Grants()


def grant(home: Path, pack: str, ring: str, rules: Sequence[str] | None, now_us: int) -> tuple[Grant, ...]:
    """Let rules of a live pack act in full, all of them where none is named; returns what was granted.

    Raises: NotInstalled, BadPack (an unknown rule id), Locked, NotWritable.
    """
    row = read_live(home).rows.get((pack, ring))
    if row is None:
        raise NotInstalled("is not live on this node", where=f"mesh:{pack}@{ring}", fix="subscribe and update first")
    docs = {doc.id: doc for doc in _stored(home, row).rules}
    named = list(docs) if rules is None else list(rules)
    unknown = [name for name in named if name not in docs]
    if unknown:
        raise BadPack("is no rule of this pack", where=f"{pack}@{ring}: {unknown[0]}", fix="see interlock mesh status")
    rows = tuple(Grant(pack, name, semantic_digest(docs[name]), now_us) for name in named)
    with file_lock(home / "grants.lock", wait=True):
        replace(home / GRANTS, dump_grants(read_grants(home).with_rows(rows)))
    return rows


def revoke(home: Path, pack: str, rules: Sequence[str] | None) -> None:
    """Take grants of a pack back; all of them where no rule is named. Raises: NotWritable."""
    with file_lock(home / "grants.lock", wait=True):
        chosen = None if rules is None else frozenset(rules)
        replace(home / GRANTS, dump_grants(read_grants(home).without(pack, chosen)))


def _stored(home: Path, row: LiveRow) -> Pack:
    path = store_file(home, row.sha256)
    data = read_bounded(path, MAX_PACK)
    if sha256_hex(data) != row.sha256:
        raise BadState("is not the pack that was verified", where=str(path), fix="run interlock mesh update")
    found = parse_pack(data, where=str(path))
    if (found.name, found.version) != (row.pack, row.version):
        raise BadState("is another pack than live.json says", where=str(path), fix="run interlock mesh update")
    return found
