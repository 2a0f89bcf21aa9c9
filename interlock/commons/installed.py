"""What a guard needs of the mesh: the Policy of the packs that are live, and whether it changed.

Reads HOME only, with the standard library and the engine: a guarded process needs none of the mesh's packages.
Nothing is trusted for having been written by us: each pack's bytes are hashed again against live.json, and parsed.
A version in its monitor window is evaluated beside what is in force and felt by nobody; when its time has come, it is
in force without an update.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from interlock.base.clock import Clock, SystemClock
from interlock.base.errors import InterlockError
from interlock.base.files import BadState, file_lock, read_bounded, replace, seen_state
from interlock.commons.grants import Grant, Grants, dump_grants, granted_document, parse_grants
from interlock.commons.live import GRANTS, LIVE, LiveRow, read_live, store_file
from interlock.commons.pack import MAX_PACK, BadPack, Pack, parse_pack, sha256_hex
from interlock.commons.resolve import BASE_NAME, Resolved, Subscribed, resolved
from interlock.commons.rings import ACTING
from interlock.commons.timefloor import CLOCK, held_until, read_floor, trusted_now
from interlock.commons.withdrawn import Withdrawn
from interlock.engine.policy.builtins import builtin
from interlock.engine.policy.document import RuleDoc, parse_document, semantic_digest
from interlock.engine.policy.model import Policy, Rule

__all__ = [
    "MAX_GRANTS",
    "NotInstalled",
    "Watch",
    "base_rules",
    "change_grants",
    "grant",
    "load",
    "read_grants",
    "revoke",
    "standing",
    "stored_pack",
]

MAX_GRANTS = 16 << 20  # bytes: each granted rule is kept whole


class NotInstalled(InterlockError):
    """A pack that no update of this node has brought yet."""

    code = "bad-state"


class Watch:
    """Asked before each call: gives a value that changes when what is in force does, also by time alone."""

    def __init__(self, home: Path, clock: Clock | None = None) -> None:
        self._home = home
        self._clock = clock or SystemClock()
        self._read: object = None
        self._due: tuple[int, ...] = ()
        self._time: object = None
        self._until = self._floor = 0

    def __call__(self) -> object:
        seen = seen_state(self._home / LIVE)
        if seen != self._read:
            self._due, self._read = self._windows(), seen
        stale = self._is_stale()  # reads the floor under the clock too, where that changed
        return seen, seen_state(self._home / GRANTS), self._passed(), stale

    def _windows(self) -> tuple[int, ...]:
        """When monitor windows end; none where the file cannot be read, which loading says."""
        try:
            return tuple(row.live_at for row in read_live(self._home).rows.values() if row.live_at)
        except InterlockError:
            return ()

    def _is_stale(self) -> object:
        """Whether an offline node holds what it has for too long; the file is read when it changes."""
        time = seen_state(self._home / CLOCK)
        if time != self._time:
            self._until, self._time = 0, time
            try:
                self._until, self._floor = held_until(self._home), read_floor(self._home)
            except InterlockError as e:
                return e.what  # loading says it
        return self._until > 0 and max(self._floor, self._clock.now_us()) > self._until

    def _passed(self) -> int:
        """How many windows are over."""
        now = max(self._floor, self._clock.now_us()) if self._due else 0
        return sum(at <= now for at in self._due)


def load(home: Path, pack: str, ring: str, clock: Clock | None = None) -> Policy:
    """The Policy of `mesh:PACK@RING`; PACK may name several, joined by '+'.

    Raises: NotInstalled, BadState, BadPack, BadPolicy, NewerFormat.
    """
    return standing(home, pack, ring, trusted_now(home, (clock or SystemClock()).now_us())).policy


def standing(home: Path, pack: str, ring: str, now_us: int) -> Resolved:
    """As `load`, at a time, with how each rule of the packs stands. Raises: as `load`."""
    live = read_live(home)
    force, watched = live.in_force(now_us), live.watched(now_us)
    packs = []
    for name in pack.split("+"):
        key = (name, ring)
        if key not in live.rows:
            raise NotInstalled(
                "is not live on this node", where=f"mesh:{name}@{ring}", fix="run interlock mesh subscribe, then update"
            )
        packs += [Subscribed(stored_pack(home, row), ring, row.log_index) for row in _of(force, key)]
        packs += [Subscribed(stored_pack(home, row), ring, row.log_index, watched=True) for row in _of(watched, key)]
    packs.sort(key=lambda subscribed: subscribed.watched)
    found = resolved(base_rules(), packs, read_grants(home), live.withdrawn)
    return dataclasses.replace(found, policy=_stale(found.policy)) if 0 < held_until(home) < now_us else found


def _stale(policy: Policy) -> Policy:
    """The same policy, which says of its packs that this node holds them for too long."""

    def told(rule: Rule) -> Rule:
        source = dataclasses.replace(rule.source, stale=True)
        return dataclasses.replace(rule, source=source) if rule.source.kind == "pack" else rule

    return dataclasses.replace(policy, rules=tuple(map(told, policy.rules)))


@functools.cache
def base_rules() -> tuple[RuleDoc, ...]:
    """The operator's own base: the rules that ship in the wheel, and so are the same for as long as a process runs."""
    return parse_document(builtin(BASE_NAME), where=f"builtin:{BASE_NAME}").rules


def read_grants(home: Path) -> Grants:
    """Raises: BadState, NewerFormat."""
    path = home / GRANTS
    return parse_grants(read_bounded(path, MAX_GRANTS), where=str(path)) if path.exists() else Grants()


def change_grants(home: Path, change: Callable[[Grants], Grants]) -> Grants:
    """Change what the operator said, one change at a time; returns what it is now. Raises: BadState, NotWritable."""
    with file_lock(home / "grants.lock", wait=True):
        grants = change(read_grants(home))
        replace(home / GRANTS, dump_grants(grants))
    return grants


def grant(
    home: Path, pack: str, ring: str, rules: Sequence[str] | None, now_us: int, *, watched: bool = False
) -> tuple[Grant, ...]:
    """Let rules of a live pack act in full, all of them where none is named; returns what was granted.

    With `watched`, the rules of the version in its monitor window; they act when that is over.
    Raises: NotInstalled, BadPack (an unknown rule id, one that was taken back, a pack in shadow, or a ring where no
    grant counts), NotWritable.
    """
    if ring != ACTING:
        told, fix = f"is in {ring}, where no rule blocks or masks, granted or not", f"grant it once it is in {ACTING}"
        raise BadPack(told, where=f"mesh:{pack}@{ring}", fix=fix)
    live = read_live(home)
    row = (live.watched(now_us) if watched else live.in_force(now_us)).get((pack, ring))
    if row is None:
        what = "has no version in a monitor window" if watched else "is not live on this node"
        raise NotInstalled(what, where=f"mesh:{pack}@{ring}", fix="see interlock mesh status")
    found = stored_pack(home, row)
    if found.status == "shadow":
        raise BadPack("is in shadow, as its authors say", where=row.name, fix="grant a version of it that is active")
    docs, bodies = {doc.id: doc for doc in found.rules}, _bodies(found)
    named = list(docs) if rules is None else list(rules)
    for name in named:
        _demand_grantable(name, docs, row, live.withdrawn)
    rows = tuple(
        Grant(
            pack,
            name,
            semantic_digest(docs[name]),
            now_us,
            row.version,
            row.sha256,
            row.log_index,
            granted_document(bodies[name]),
        )
        for name in named
    )
    change_grants(home, lambda grants: grants.with_rows(rows))
    return rows


def revoke(home: Path, pack: str, rules: Sequence[str] | None) -> None:
    """Take grants of a pack back; all of them where no rule is named. Raises: BadState, NotWritable."""
    chosen = None if rules is None else frozenset(rules)
    change_grants(home, lambda grants: grants.without(pack, chosen))


def stored_pack(home: Path, row: LiveRow) -> Pack:
    """A pack from the store, as it was verified. Raises: BadState, BadPack."""
    path = store_file(home, row.sha256)
    data = read_bounded(path, MAX_PACK)
    if sha256_hex(data) != row.sha256:
        raise BadState("is not the pack that was verified", where=str(path), fix="run interlock mesh update")
    found = parse_pack(data, where=str(path))
    if (found.name, found.version) != (row.pack, row.version):
        raise BadState("is another pack than live.json says", where=str(path), fix="run interlock mesh update")
    return found


def _bodies(pack: Pack) -> dict[str, dict[str, object]]:
    """Each rule of a pack as its author wrote it, by its id; `pack` has been parsed, so all of it is there."""
    return {rule["id"]: rule for rule in json.loads(pack.data)["rules"]}


def _of(rows: dict[tuple[str, str], LiveRow], key: tuple[str, str]) -> list[LiveRow]:
    return [rows[key]] if key in rows else []


def _demand_grantable(name: str, docs: dict[str, RuleDoc], row: LiveRow, withdrawn: Sequence[Withdrawn]) -> None:
    where = f"{row.name}: {name}"
    if name not in docs:
        raise BadPack("is no rule of this pack", where=where, fix="see interlock mesh status")
    for taken in withdrawn:
        if taken.covers(row.pack, row.version, row.ring, name):
            raise BadPack(f"was taken back ({taken.why})", where=where, fix="grant another version of it")
