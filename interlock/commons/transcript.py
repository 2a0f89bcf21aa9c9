"""What a ceremony says and leaves behind: the words that keyholders sign, and the record of who signed.

The words follow from the root and the one before it alone, so that a keyholder's machine says them anew and need not
trust the file that asks for her signature. The transcript follows from the finished root, the one before and the time:

    {"format": "interlock-ceremony", "v": 1, "version": N, "text": [LINE, ...], "digest": HEX, "holders": [...],
     "signed": [{"holder": NAME, "family": "ed25519", "keyid": HEX, "for": ["old", "new"]}, ...],
     "root": HEX, "previous": HEX or null, "at": MICROSECONDS}

`digest` is the SHA-256 of the bytes that were signed, `root` and `previous` those of the files. The transcript is a
record of the commons, and its own SHA-256 is what the log's entry of type `root` names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from tuf.api.metadata import Metadata, Root  # type: ignore[attr-defined]

from interlock.base import canonical
from interlock.base.canonical import NotCanonical
from interlock.base.clock import MICROSECONDS, rfc3339
from interlock.commons.holders import (
    CeremonyRefused,
    Circle,
    Holder,
    families,
    holders_of,
    is_hybrid,
    least_holders,
    read_root,
    table_of,
    targets_of,
)
from interlock.commons.layout import LOG_POLICY_FIELD, ONLINE_ROLES
from interlock.commons.pack import sha256_hex

__all__ = [
    "MAX_TRANSCRIPT",
    "PREVIOUS_FIELD",
    "aloud",
    "demand_transcript",
    "digest_of",
    "quorum",
    "signers_of",
    "transcript_of",
    "words_of",
]

PREVIOUS_FIELD: Final = "x-interlock-previous"  # SHA-256 of the root before it, as it was published
MAX_TRANSCRIPT: Final = 1 << 20  # bytes
_FORMAT: Final = "interlock-ceremony"
_ROOT: Final = "root"
_WHO: Final = "Who names the rings' keys, and takes rules out of force that nodes granted (targets)"


def digest_of(md: Metadata[Root]) -> str:
    """The SHA-256 in hex of the bytes that keyholders sign."""
    return hashlib.sha256(md.signed_bytes).hexdigest()


def aloud(digest: str) -> tuple[str, ...]:
    """A digest in groups of four, eight a line, for reading aloud."""
    groups = [digest[i : i + 4] for i in range(0, len(digest), 4)]
    return tuple(" ".join(groups[i : i + 8]) for i in range(0, len(groups), 8))


def words_of(root: bytes, previous: bytes | None) -> tuple[str, ...]:
    """What a root says, and what it changes, in words; one line each. Raises: CeremonyRefused."""
    new = read_root(root, "root").signed
    if previous is None:
        return (f"Root {new.version}: the first root of a commons.", "", *_state(new))
    old = read_root(previous, "previous root").signed
    return (
        f"Root {new.version}: follows root {old.version}, whose file has SHA-256",
        *(f"  {line}" for line in aloud(sha256_hex(previous))),
        "",
        "What changes:",
        *_changes(old, new),
        "",
        *_state(new),
        f"Who has to sign this change: of root {old.version} ({', '.join(h.name for h in holders_of(old))}), "
        f"{quorum(_circle(old))}; and of root {new.version}, as many as it says.",
    )


def transcript_of(root: bytes, previous: bytes | None, at: int) -> bytes:
    """The record of a finished ceremony, in canonical JSON. Raises: CeremonyRefused."""
    md = read_root(root, "root")
    body: dict[str, object] = {
        "format": _FORMAT,
        "v": 1,
        "version": md.signed.version,
        "text": list(words_of(root, previous)),
        "digest": digest_of(md),
        "holders": table_of(holders_of(md.signed)),
        "signed": _signed(md, previous),
        "root": sha256_hex(root),
        "previous": None if previous is None else sha256_hex(previous),
        "at": at,
    }
    return canonical.encode(body)


def demand_transcript(transcript: bytes, root: bytes, previous: bytes | None) -> None:
    """Check that a transcript is that of the ceremony that made `root`. Raises: CeremonyRefused."""
    where = "transcript"
    try:
        at = canonical.json_object(transcript, where).get("at")
    except NotCanonical as e:
        raise CeremonyRefused(e.what, where=where) from None
    if type(at) is not int or at < 0 or transcript_of(root, previous, at) != transcript:
        raise CeremonyRefused("is not that of this root", where=where, fix="give the one that assemble wrote beside it")


def signers_of(root: bytes, previous: bytes | None) -> tuple[str, ...]:
    """The names of those who signed a root. Raises: CeremonyRefused."""
    return tuple(sorted({str(row["holder"]) for row in _signed(read_root(root, "root"), previous)}))


def _state(root: Root) -> Iterator[str]:
    yield "Who may sign for this commons from now on:"
    yield from _people(_circle(root))
    circle = targets_of(root)
    if circle is None:
        keyid = root.roles["targets"].keyids[0]
        yield f"{_WHO}: ed25519 key {keyid[:16]} ALONE,"
        yield "  on the commons' machine. That is for a trial: where others rely on it, name holders for targets."
    elif circle == _circle(root):
        yield f"{_WHO}: the same, in the same number."
    else:
        yield f"{_WHO}:"
        yield from _people(circle)
    yield "Keys that are used without them, each by one role:"
    for role in ONLINE_ROLES:
        yield f"  {role:<9} ed25519 key {root.roles[role].keyids[0][:16]}"
    policy = root.unrecognized_fields.get(LOG_POLICY_FIELD)
    yield f"Log and witnesses: {'the policy with SHA-256 ' + str(policy) if policy else 'as each node pins them'}."
    yield f"Until: {_until(root)}."


def _people(circle: Circle) -> Iterator[str]:
    for holder in circle.holders:
        yield f"  {_person(holder)}"
        yield "      with " + ", ".join(
            f"{family} key {keyid[:16]}" for family, keyid in zip(families(holder.keys), holder.keyids, strict=True)
        )
    yield f"How many: {quorum(circle)}."


def _changes(old: Root, new: Root) -> Iterator[str]:
    before, after = ({h.name: h for h in holders_of(root)} for root in (old, new))
    for name in before:
        if name not in after:
            yield f"  - leaves: {_person(before[name])}"
    for name, holder in after.items():
        if name not in before:
            yield f"  + joins: {_person(holder)}"
        else:
            yield from _changed_person(before[name], holder)
    for role in ONLINE_ROLES:
        (was,), (now,) = old.roles[role].keyids, new.roles[role].keyids
        if was != now:
            yield f"  * {role} has a new key: {now[:16]} for {was[:16]}"
    yield from _changed_targets(old, new)
    if quorum(_circle(old)) != quorum(_circle(new)):
        yield f"  * how many sign: {quorum(_circle(new))}; it was: {quorum(_circle(old))}"
    was_policy, now_policy = (root.unrecognized_fields.get(LOG_POLICY_FIELD) for root in (old, new))
    if was_policy != now_policy:
        yield f"  * the log policy: SHA-256 {now_policy or 'none'}; it was {was_policy or 'none'}"
    yield f"  * its end: {_until(new)}; it was {_until(old)}"


def _changed_targets(old: Root, new: Root) -> Iterator[str]:
    """What becomes of the role targets: its one key, or the people who hold its keys."""
    was, now = targets_of(old), targets_of(new)
    keys = old.roles["targets"].keyids[0], new.roles["targets"].keyids[0]
    if was is None and now is None and keys[0] != keys[1]:
        yield f"  * targets has a new key: {keys[1][:16]} for {keys[0][:16]}"
    elif was != now:
        before, after = (
            "one key alone" if circle is None
            else f"{quorum(circle)} ({', '.join(h.name for h in circle.holders)})"
            for circle in (was, now)
        )  # fmt: skip
        yield f"  * targets: {after}; it was: {before}"


def _changed_person(was: Holder, now: Holder) -> Iterator[str]:
    if was.keyids != now.keyids:
        yield f"  * {now.name} signs with other keys than before"
    if (was.employer, was.since, was.until) != (now.employer, now.since, now.until):
        yield f"  * {_person(now)}; before: {_person(was)}"


def _person(holder: Holder) -> str:
    employer = f"of {holder.employer}" if holder.employer else "employed by nobody"
    return f"{holder.name}, {employer}, from {holder.since} until {holder.until}"


def _circle(root: Root) -> Circle:
    return Circle(holders_of(root), root.roles[_ROOT].threshold)


def quorum(circle: Circle) -> str:
    """How many of a circle have to sign, in words."""
    holders, threshold = circle.holders, circle.threshold
    least = least_holders(holders, threshold)
    if not is_hybrid(holders):
        return f"{threshold} of {len(holders)} keyholders, no two of one employer"
    broken = threshold - len(holders)
    return (
        f"{threshold} of {2 * len(holders)} keys, so {least} of {len(holders)} keyholders, no two of one employer"
        f" (and still {broken} of them where one family of keys is broken)"
    )


def _until(root: Root) -> str:
    return rfc3339(int(root.expires.timestamp()) * MICROSECONDS)


def _signed(md: Metadata[Root], previous: bytes | None) -> list[dict[str, object]]:
    """Each key whose signature counts: whose it is, and for which of the two roots it signed."""
    roots = [("new", md.signed)]
    if previous is not None:
        roots.insert(0, ("old", read_root(previous, "previous root").signed))
    rows: dict[str, tuple[str, str, list[str]]] = {}
    for age, root in roots:
        signed = root.get_verification_result(_ROOT, md.signed_bytes, md.signatures).signed
        for holder in holders_of(root):
            for family, keyid in zip(families(holder.keys), holder.keyids, strict=True):
                if keyid in signed:
                    rows.setdefault(keyid, (holder.name, family, []))[2].append(age)
    return [
        {"holder": name, "family": family, "keyid": keyid, "for": ages}
        for keyid, (name, family, ages) in sorted(rows.items())
    ]
