"""What top-level `targets` says: the rings' keys, and the few files that speak of the whole commons; and all of it in
words, for its holders to read before they sign.

A draft is targets that nobody signed yet, with those before them and the files that either names, so that a holder's
machine can say what changes and need not trust who asks. What could not be told in words is refused.
"""

from __future__ import annotations

import datetime as _dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tuf.api.metadata import DelegatedRole, Delegations, TargetFile, Targets  # type: ignore[attr-defined]

from interlock.base.clock import MICROSECONDS, rfc3339
from interlock.base.codec import Malformed
from interlock.base.keys import BadKey, Ed25519Verifier
from interlock.commons.holders import CeremonyRefused, read_targets
from interlock.commons.layout import (
    DELEGATIONS,
    LOG_POLICY,
    REMOVALS_PATH,
    REVIEWERS_PATH,
    entry_path,
    proof_path,
)
from interlock.commons.operators import OPERATORS_PATH, parse_operators
from interlock.commons.pack import sha256_hex
from interlock.commons.records import BadRecord, parse_evidence_list, parse_revocation
from interlock.commons.reviewers import parse_reviewers
from interlock.commons.signers import tuf_key, verifier_of_tuf
from interlock.transparency.policy import parse_policy

__all__ = ["Draft", "delegated_keys", "delegations_of", "demand_draft", "demand_told", "draft_words"]

_BESIDE: Final = (entry_path(OPERATORS_PATH), proof_path(OPERATORS_PATH))  # what shows a file, and says nothing itself
_NO_FILES: Final[Mapping[str, TargetFile]] = {}


@dataclass(frozen=True)
class Draft:
    """Unsigned targets, those before (None: these are the first), and files that either names, in any order."""

    data: bytes
    before: bytes | None
    files: tuple[bytes, ...] = ()

    @property
    def version(self) -> int:
        """Raises: CeremonyRefused."""
        return read_targets(self.data, "targets").signed.version


def delegations_of(keys: Mapping[str, Ed25519Verifier]) -> Delegations:
    """The roles below targets, each with its paths and one key."""
    named = {role: tuf_key(keys[role]) for role in DELEGATIONS}
    roles = {
        role: DelegatedRole(role, [named[role].keyid], 1, terminating, paths=list(paths))
        for role, (paths, terminating) in DELEGATIONS.items()
    }
    return Delegations(keys={key.keyid: key for key in named.values()}, roles=roles)


def delegated_keys(targets: Targets) -> dict[str, Ed25519Verifier]:
    """The key of each role below targets. Raises: CeremonyRefused, for other roles than ours or another kind of key."""
    top, found = targets.delegations, {}
    for role in DELEGATIONS:
        try:
            if top is None or top.roles is None:
                raise KeyError
            (keyid,) = top.roles[role].keyids
            key = verifier_of_tuf(top.keys[keyid])
        except (KeyError, ValueError, BadKey):
            key = None
        if not isinstance(key, Ed25519Verifier):
            raise CeremonyRefused("has not one Ed25519 key", where=f"role {role}")
        found[role] = key
    return found


def demand_told(targets: Targets) -> None:
    """Raises: CeremonyRefused, for targets that say anything that their words would not."""
    files = {path: TargetFile(info.length, info.hashes, path) for path, info in targets.targets.items()}
    keys = delegations_of(delegated_keys(targets))
    anew = Targets(targets.version, targets.spec_version, targets.expires, files, keys)
    known = {LOG_POLICY, REMOVALS_PATH, REVIEWERS_PATH, OPERATORS_PATH, *_BESIDE}
    if set(files) - known or not all(set(info.hashes) == {"sha256"} for info in files.values()):
        raise CeremonyRefused("names a file that is none of a commons'", where="targets", fix="do not sign it")
    said, told = targets.to_dict(), anew.to_dict()
    for body in (said, told):  # a key may take another's place in the list; which is whose is told
        body["delegations"]["keys"] = dict(sorted(body["delegations"]["keys"].items()))
    if said != told:
        raise CeremonyRefused("says more than can be told of it in words", where="targets", fix="do not sign it")


def demand_draft(draft: Draft) -> None:
    """Raises: CeremonyRefused, for a draft that is signed, does not follow those before, or lacks what it names."""
    md = read_targets(draft.data, "targets")
    before = None if draft.before is None else read_targets(draft.before, "targets before").signed
    if md.signatures:
        raise CeremonyRefused("are signed already", where="targets")
    if md.signed.version != (1 if before is None else before.version + 1):
        told = "there are none" if before is None else f"those have version {before.version}"
        told = f"have version {md.signed.version} and do not follow those before: {told}"
        raise CeremonyRefused(told, where="targets")
    demand_told(md.signed)
    held = {sha256_hex(data): len(data) for data in draft.files}
    for path, info in _changed(md.signed, before).items():
        if info is not None and held.get(info.hashes["sha256"]) != info.length:
            raise CeremonyRefused(f"does not hold {path}, which is new", where="targets", fix="ask anew")
        old = before.targets.get(path) if before and path == REMOVALS_PATH else None
        if old is not None and old.hashes["sha256"] not in held:  # or a removal could be dropped unsaid
            raise CeremonyRefused(f"does not hold {path} as it was", where="targets", fix="ask anew")
    rows = (*md.signed.targets.values(), *(before.targets.values() if before else ()))
    if set(held) - {info.hashes["sha256"] for info in rows}:
        raise CeremonyRefused("brings a file that targets do not name", where="targets", fix="ask anew")


def draft_words(draft: Draft) -> tuple[str, ...]:
    """What a draft says and changes, one line each. Raises: CeremonyRefused, also for a file that does not read."""
    new = read_targets(draft.data, "targets").signed
    before = None if draft.before is None else read_targets(draft.before, "targets before").signed
    try:
        return tuple(_words(draft, new, before))
    except (BadRecord, Malformed) as e:
        raise CeremonyRefused(f"names a file that does not read ({e.what})", where=e.where or "targets") from None


def _words(draft: Draft, new: Targets, before: Targets | None) -> Iterator[str]:
    if before is None or draft.before is None:
        yield f"Targets {new.version}: the first of a commons."
        yield "The keys of the roles below them:"
        for role, key in delegated_keys(new).items():
            yield f"  {role:<9} ed25519 key {tuf_key(key).keyid[:16]}"
    else:
        yield f"Targets {new.version}: follow targets {before.version}, whose file has SHA-256"
        yield f"  {sha256_hex(draft.before)}"
        yield "What changes:"
        yield from _changes(draft, new, before)
    for path in sorted(set(new.targets) - set(_BESIDE)):
        yield f"  names {path}: SHA-256 {new.targets[path].hashes['sha256']}"
    yield f"Until: {rfc3339(_us(new.expires))}."


def _changes(draft: Draft, new: Targets, before: Targets) -> Iterator[str]:
    old_keys, keys = delegated_keys(before), delegated_keys(new)
    for role, key in keys.items():
        if key != old_keys[role]:
            yield f"  * {role} has a new key: {tuf_key(key).keyid[:16]} for {tuf_key(old_keys[role]).keyid[:16]}"
        paths, old_paths = _paths(new, role), _paths(before, role)
        if paths != old_paths:
            yield f"  * {role} may sign {', '.join(paths)}; it was {', '.join(old_paths)}"
    files = {sha256_hex(data): data for data in draft.files}
    for path, info in _changed(new, before).items():
        if path in _BESIDE:
            continue
        if info is None:
            yield f"  - names {path} no more"
            continue
        held = before.targets.get(path)
        yield from _file(path, files[info.hashes["sha256"]], files.get(held.hashes["sha256"]) if held else None)
    yield f"  * their end: {rfc3339(_us(new.expires))}; it was {rfc3339(_us(before.expires))}"


def _paths(targets: Targets, role: str) -> list[str]:
    """What a role below targets may sign."""
    top = targets.delegations
    return [] if top is None or top.roles is None else list(top.roles[role].paths or ())


def _file(path: str, data: bytes, before: bytes | None) -> Iterator[str]:
    """What a file of the whole commons says, in words. Raises: BadRecord, Malformed."""
    if path == REMOVALS_PATH:
        yield from _removals(data, before)
    elif path == REVIEWERS_PATH:
        listed = parse_reviewers(data, path)
        yield f"  * reviewers, {listed.threshold} of whom approve what comes to stable:"
        for name, row in listed.rows.items():
            yield f"      {name}, {row.key}" + (f", until {rfc3339(row.until)}" if row.until else "")
    elif path == OPERATORS_PATH:
        operators = parse_operators(data, where=path)
        yield f"  * who runs what, version {operators.version}:"
        for one in operators.operators:
            yield f"      {one.name}, of {one.organisation}:"
            yield from (f"        {role}: {', '.join(things)}" for role, things in sorted(one.roles.items()))
    else:
        parse_policy(data)
        yield f"  * the log policy: SHA-256 {sha256_hex(data)}"


def _removals(data: bytes, before: bytes | None) -> Iterator[str]:
    """The removals that are new; those that are gone, for a list must not lose any."""
    old = () if before is None else parse_evidence_list(before, REMOVALS_PATH)
    rows = parse_evidence_list(data, REMOVALS_PATH)
    for row in rows:
        if row not in old:
            said = parse_revocation(row.record, REMOVALS_PATH)
            what = ", ".join(said.rules) or "all rules"
            yield f"  ! OUT OF FORCE on every node, granted or not: {said.name} version {said.version} in {said.ring}"
            yield f"      {what}; why: {said.why}"
    for row in old:
        if row not in rows:
            said = parse_revocation(row.record, REMOVALS_PATH)
            yield f"  - no longer lists the removal of {said.name} version {said.version} in {said.ring}"


def _changed(new: Targets, before: Targets | None) -> dict[str, TargetFile | None]:
    """The files that are new or changed, and those that are gone (None)."""
    old = _NO_FILES if before is None else before.targets
    found: dict[str, TargetFile | None] = {
        path: info for path, info in sorted(new.targets.items()) if path not in old or old[path] != info
    }
    return found | {path: None for path in sorted(old) if path not in new.targets}


def _us(moment: _dt.datetime) -> int:
    return int(moment.timestamp()) * MICROSECONDS
