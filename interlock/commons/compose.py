"""The targets of a publish: what each role names anew, from the journal and from what the role named before.

an item with a path        the bytes, their entry and its proof
a pack in a ring           and the ring's channel index, with this version
a promotion                and, beside the pack, the evidence: promotion, gate, reviews
a revocation               and the ring's list of revocations, with this one; a removal: the commons' list too
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from interlock.commons.channel import dump_channel, parse_channel
from interlock.commons.journal import Item, Journal
from interlock.commons.layout import (
    REMOVALS_PATH,
    channel_path,
    entry_path,
    promotion_path,
    proof_path,
    revoked_path,
)
from interlock.commons.records import Evidence, dump_evidence, parse_evidence_list, parse_revocation

__all__ = ["composed"]

ReadTarget = Callable[[str, str], bytes | None]  # role, path -> the bytes that it named before


def composed(
    journal: Journal, read: ReadTarget, record: Callable[[str], Evidence]
) -> Mapping[str, Mapping[str, bytes]]:
    """Role -> path -> bytes, for each role that is to say something new.

    `record` reads a kept record by its SHA-256.
    Raises: BadRecord, Malformed, BadState, where what is there already does not read.
    """
    named: dict[str, dict[str, bytes]] = {role: {} for role in sorted(journal.named)}
    for target in journal.loose:
        named[target.role][target.path] = target.data
    for item in journal.items:
        if item.path:
            named[item.role][item.path] = item.data
            named[item.role][entry_path(item.path)] = item.entry.data
            named[item.role][proof_path(item.path)] = item.proof
        if item.entry.type == "pack":
            _index(named, item, read)
        if item.entry.type == "revoke":
            _revoke(named, item, read)
    _promote(named, journal, record)
    return named


def _index(named: dict[str, dict[str, bytes]], item: Item, read: ReadTarget) -> None:
    ring, path = item.entry.ring, channel_path(item.entry.ring)
    data = read(ring, path)
    packs = {} if data is None else parse_channel(data, ring, where=path)
    packs[item.entry.name] = (item.entry.version, item.entry.sha256)
    named[ring][path] = dump_channel(ring, packs)


def _revoke(named: dict[str, dict[str, bytes]], item: Item, read: ReadTarget) -> None:
    ring = item.entry.ring
    told = Evidence(item.entry.data, item.proof, item.data)
    lists = [(ring, revoked_path(ring))]
    if parse_revocation(item.data, "revocation").scope == "removal":
        lists.append(("targets", REMOVALS_PATH))
    for role, path in lists:
        data = named[role].get(path) or read(role, path)
        rows = () if data is None else parse_evidence_list(data, path)
        named[role][path] = dump_evidence([*rows, *([] if told in rows else [told])])


def _promote(named: dict[str, dict[str, bytes]], journal: Journal, record: Callable[[str], Evidence]) -> None:
    told = {item.entry.type: item for item in journal.items}
    if "promote" in told:
        pack = told["pack"]
        own = [Evidence(i.entry.data, i.proof, i.data) for i in (told["promote"], told["gate"])]
        named[pack.role][promotion_path(pack.path)] = dump_evidence([*own, *map(record, journal.cites)])
