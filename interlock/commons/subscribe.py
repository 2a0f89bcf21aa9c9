"""A member node: brings what the commons signed, the log has and witnesses saw into force; or keeps what it has.

    update     TUF refresh -> newest checkpoint on the one timeline -> for each subscription what `found` finds ->
               packs resolve -> store -> live.json, at once
    pin        stay at one version; rollback: return to the one that was in force before, and stay there

Every step raises its own error. Whatever fails, live.json and the packs it names stay as they were, and
HOME/status.json says the trouble in one line. Each write is whole, and they stand in an order in which a process that
is killed between two leaves a state that the next update completes. The home's files are listed in live.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from interlock.base import files
from interlock.base.clock import Clock
from interlock.base.errors import InterlockError
from interlock.base.fetch import Fetcher, NotFound
from interlock.base.files import NotWritable, file_lock, private_dir
from interlock.commons.differ import Changes, changes_of
from interlock.commons.found import Finder, Found, TakenBack
from interlock.commons.indicators import MAX_CATALOG, BadCatalog, Catalog, parse_catalog
from interlock.commons.installed import base_rules, read_grants, stored_pack
from interlock.commons.known_operators import take_operators
from interlock.commons.layout import (
    CATALOG_RING,
    DAP_RING,
    MAX_DAP_TASK,
    MEMBERS_RING,
    WITHDRAWN_RING,
    catalog_path,
    dap_task_path,
    members_path,
    withdrawal_path,
)
from interlock.commons.live import (
    Key,
    Live,
    LiveRow,
    Subscription,
    read_live,
    read_subscriptions,
    store_file,
    write_live,
    write_subscriptions,
)
from interlock.commons.logged import LogFetcher, Logged
from interlock.commons.membership import MAX_MEMBER_KEYS, MemberKeys, parse_member_keys
from interlock.commons.newest import Current
from interlock.commons.notices import keep_notice
from interlock.commons.pack import Pack, known_name
from interlock.commons.reading import Reading
from interlock.commons.resolve import Subscribed, resolve
from interlock.commons.rings import known_ring
from interlock.commons.statements import known_task
from interlock.commons.status import say_trouble, say_update
from interlock.commons.task_withdrawal import MAX_WITHDRAWAL, parse_withdrawal
from interlock.commons.timefloor import trusted_now
from interlock.commons.turns import InTurn
from interlock.commons.updater import MetadataRefused
from interlock.commons.view import View
from interlock.commons.withdrawn import Withdrawn, withdrawal

__all__ = ["NotFollowed", "Offer", "Subscriber", "Update"]

_T = TypeVar("_T")


class NotFollowed(InterlockError):
    """A pack that this node does not follow, or a version that it cannot stay at."""

    code = "bad-state"


@dataclass(frozen=True)
class Update:
    """What an update found: the packs held, those that changed and how, what was taken back since the last, what is
    held back and why, and the state that vouches for them."""

    rows: tuple[LiveRow, ...]
    changed: tuple[LiveRow, ...]
    changes: tuple[Changes, ...]
    withdrawn: tuple[Withdrawn, ...]
    held: tuple[tuple[str, str], ...]
    tree_size: int
    timestamp_version: int
    snapshot_version: int
    at: int


@dataclass(frozen=True)
class Offer:
    """What a ring has now, verified and not taken; `changes` is what taking it would change."""

    pack: Pack
    row: LiveRow
    changes: Changes


@dataclass(frozen=True)
class _Seen:
    """What an update saw of one mirror."""

    view: View
    tree_size: int
    live: Live
    found: list[tuple[Subscription, Found]]


class Subscriber:
    """One node's following of one commons, through `fetcher`; an InTurn has several mirrors of it.

    `log` has the log's files; by default they lie under log/ of `fetcher`.
    """

    def __init__(self, home: Path, fetcher: Fetcher, clock: Clock, *, log: Fetcher | None = None) -> None:
        self._home = home
        self._clock = clock
        self._mirrors = fetcher if isinstance(fetcher, InTurn) else InTurn([fetcher])
        self._log_fetcher: Fetcher = log or LogFetcher(self._mirrors)
        self._reading = Reading(home, self._mirrors, self._log_fetcher, clock)

    def subscribe(self, pack: str, ring: str, window_us: int | None = None) -> None:
        """Follow a pack in a ring, from the next update on; with a window, each new version is watched for so long.

        A window that is given anew holds for what is being watched too, and is never made longer for that.
        Raises: BadPack; ValueError, for no ring; NotWritable.
        """
        key = (known_name(pack), known_ring(ring))

        def change(rows: dict[Key, Subscription]) -> None:
            held = rows.get(key, Subscription(*key))
            rows[key] = held if window_us is None else replace(held, window_us=window_us)

        self._edit(change)
        if window_us is not None:
            self._shorten(key, window_us)

    def unsubscribe(self, pack: str, ring: str) -> None:
        """Follow it no more, and take it out of force. Raises: NotWritable."""
        self._edit(lambda rows: rows.pop((pack, ring), None))
        with file_lock(self._home / "lock", wait=True):
            write_live(self._home, read_live(self._home).without((pack, ring)))

    def pin(self, pack: str, ring: str, version: int) -> None:
        """Stay at a version from the next update on; 0 follows the newest again.

        Raises: NotFollowed, also for a version before the one in force; TakenBack; NotWritable.
        """
        live, now = read_live(self._home), self._now
        force = live.in_force(now).get((pack, ring))
        if version and (force is None or version != force.version):
            if force is not None and version < force.version:
                told = f"has version {force.version} in force, and {version} is older"
                raise NotFollowed(told, where=f"mesh:{pack}@{ring}", fix="use interlock mesh rollback")
            _demand_not_withdrawn(live, (pack, ring), version)
        self._pin((pack, ring), version)

    def rollback(self, pack: str, ring: str) -> tuple[LiveRow, LiveRow]:
        """Return to the version that was in force before, and stay there; returns what was and what is held.

        Raises: NotFollowed, where there is none; TakenBack; BadState, where its bytes are gone; NotWritable.
        """
        key = (pack, ring)
        with file_lock(self._home / "lock", wait=True):
            live = read_live(self._home)
            last, back = live.rows.get(key), live.before.get(key)
            if last is None or back is None:
                told = "has no version that was in force before"
                raise NotFollowed(told, where=f"mesh:{pack}@{ring}", fix="see interlock mesh status")
            _demand_not_withdrawn(live, key, back.version)
            self._demand_resolves([(back, stored_pack(self._home, back))])
            self._pin(key, back.version)  # first: killed here, the next update returns to it all the same
            live = live.returned(key)
            write_live(self._home, live)
        return last, live.rows[key]

    def update(self) -> Update:
        """Bring all subscriptions up to date, or change nothing that is in force.

        Raises: Rollback, Stale, MetadataRefused, NotLogged, NoQuorum, SplitView, BadProof, BadPack, TooLarge,
        NotFound, NotPromoted, TakenBack, Unreachable, Locked, NotWritable.
        """
        private_dir(self._home / "store")
        with file_lock(self._home / "lock"):
            try:
                update = self._update()
            except InterlockError as e:
                with contextlib.suppress(NotWritable):  # what is wrong is said all the same
                    say_trouble(self._home, self._clock.now_us(), e)
                self._keep_notice(e)
                raise
            self._keep_notice()
            return update

    def offered(self, pack: str, ring: str) -> Offer:
        """The newest that a ring has of a pack, verified as for an update, which changes nothing in force.

        Raises: as `update`.
        """
        wanted, live = Subscription(known_name(pack), known_ring(ring)), read_live(self._home)

        def look(now: Current) -> Found:
            return self._finder.found(now.view, Live(seen=live.seen, withdrawn=live.withdrawn), wanted)

        with file_lock(self._home / "lock"):
            found = self._read(look)
        assert found.pack is not None, "where nothing is held, everything is new"
        (changes,) = self._changes(live, [(found.row, found.pack)])
        return Offer(found.pack, found.row, changes)

    def catalog(self, task: str) -> Catalog:
        """A task's catalog: signed, in the log, and logged before it opens.

        Raises: BadCatalog, and as `update`.
        """
        path = catalog_path(task)

        def look(now: Current) -> tuple[Catalog, Logged]:
            data = now.view.target(path, MAX_CATALOG)
            found = parse_catalog(data, where=path)
            return found, self._finder.logged(now.view, path, data, (task, 1, CATALOG_RING))

        with file_lock(self._home / "lock"):
            catalog, logged = self._read(look)
        if catalog.task != task:
            raise BadCatalog("is the catalog of another task", where=path)
        if logged.entry.at >= catalog.opens_at:
            raise BadCatalog("was published after it opened", where=path, fix="tell the commons")
        return catalog

    def dap_task(self, task: str) -> bytes:
        """The DAP task that a catalog's task is counted by: signed, and in the log, so that all count by the same.

        Raises: NotFound, where none is published; TaskWithdrawn; Malformed, for what is no task's name; as `update`.
        """
        path = dap_task_path(known_task(task, where=f"task {task}"))

        def look(now: Current) -> bytes:
            self._demand_stands(now, task)
            data = now.view.target(path, MAX_DAP_TASK)
            self._finder.logged(now.view, path, data, (task, 1, DAP_RING))
            return data

        with file_lock(self._home / "lock", wait=True):
            return self._read(look)

    def _demand_stands(self, now: Current, task: str) -> None:
        """Raises: TaskWithdrawn; NotLogged, for a withdrawal that not everybody is shown; as `update`."""
        path = withdrawal_path(task)
        try:
            data = now.view.target(path, MAX_WITHDRAWAL)
        except NotFound:
            return
        self._finder.logged(now.view, path, data, (task, 1, WITHDRAWN_RING))
        found = parse_withdrawal(data, where=path)
        if found.task != task:
            raise MetadataRefused("is the withdrawal of another task", where=path, fix="tell the commons")
        raise found.refusal

    def member_keys(self, task: str, epoch: int) -> MemberKeys:
        """The member keys of one epoch of a task: signed, and in the log, so that nobody is shown others.

        Raises: NotFound, where none are published; Malformed, BadSignature, BadKey, and as `update`.
        """
        path = members_path(task, epoch)

        def look(now: Current) -> MemberKeys:
            found = parse_member_keys(now.view.target(path, MAX_MEMBER_KEYS), where=path)
            self._finder.logged(now.view, path, found.data, (task, epoch, MEMBERS_RING))
            return found

        with file_lock(self._home / "lock", wait=True):
            keys = self._read(look)
        if (keys.task, keys.epoch) != (task, epoch):
            raise MetadataRefused("holds the member keys of another task or epoch", where=path, fix="tell the commons")
        return keys

    def _update(self) -> Update:
        known, now = read_live(self._home), self._now
        seen = self._read(lambda commons: self._seen(commons, known, now))
        view, tree_size, live, found = seen.view, seen.tree_size, seen.live, seen.found
        fresh = [(f.row, f.pack) for _, f in found if f.pack is not None]
        changes: tuple[Changes, ...] = ()
        if fresh:  # a poll without news compiles nothing
            self._demand_resolves(fresh)
            changes = tuple(self._changes(live, fresh))
        for row, pack in fresh:
            files.replace(store_file(self._home, row.sha256), pack.data)
        changed = tuple(f.row for s, f in found if f.pack is not None or f.row != live.rows.get(s.key))
        self._take(known, live.with_rows(changed).settled(now), found)
        held = tuple((s.name, f.held) for s, f in found if f.held)
        body: dict[str, object] = {"tree_size": tree_size, "timestamp_version": view.timestamp_version}
        say_update(self._home, now, {**body, "held": dict(held)})
        return Update(
            rows=tuple(read_live(self._home).rows.values()),
            changed=changed,
            changes=changes,
            withdrawn=tuple(row for row in live.withdrawn if row not in known.withdrawn),
            held=held,
            tree_size=tree_size,
            timestamp_version=view.timestamp_version,
            snapshot_version=view.snapshot_version,
            at=now,
        )

    def _seen(self, commons: Current, known: Live, now: int) -> _Seen:
        """What one mirror has for this node, whole and verified; nothing is changed by it but what was trusted."""
        view = commons.view
        take_operators(self._home, view, self._reading.pins.policy, self._finder.logged)
        followed = read_subscriptions(self._home)
        # settled first: what came into force before anybody here heard of a withdrawal stays
        live = self._finder.withdrawn(view, known.settled(now), {s.ring for s in followed})
        found = [(s, self._finder.found(view, live, s)) for s in followed]
        return _Seen(view, commons.checked.checkpoint.size, live, found)

    def _read(self, act: Callable[[Current], _T]) -> _T:
        """Read one mirror whole; the next where it is refused. Raises: as `act` and `Reading.current`."""

        def whole() -> _T:
            with self._reading.current() as now:
                return act(now)

        return self._mirrors.whole(whole)

    def _keep_notice(self, trouble: InterlockError | None = None) -> None:
        """Keep what was seen for the monitor, where that was agreed to; an update never fails of it."""
        with contextlib.suppress(InterlockError):
            keep_notice(self._home, self._reading.log.seen, trouble)

    def _take(self, before: Live, live: Live, found: Iterable[tuple[Subscription, Found]]) -> None:
        """Put in force what was found; what changes nothing is not written."""
        for subscription, one in found:
            live = live.with_seen(subscription.key, one.newest)
        if live != before:
            write_live(self._home, live)
        if live.digests != before.digests:
            self._prune({row.sha256 for row in before.rows.values()} | live.digests)

    @property
    def _now(self) -> int:
        return trusted_now(self._home, self._clock.now_us())

    @property
    def _finder(self) -> Finder:
        reading = self._reading
        return Finder(self._home, reading.log, reading.pins.policy, self._log_fetcher, self._clock)

    def _demand_resolves(self, fresh: Iterable[tuple[LiveRow, Pack]]) -> None:
        """Compile what is about to go live, so that a pack that no guard could load never does."""
        base, grants = base_rules(), read_grants(self._home)
        for row, pack in fresh:
            resolve(base, [Subscribed(pack, row.ring, row.log_index)], grants)

    def _changes(self, live: Live, fresh: Iterable[tuple[LiveRow, Pack]]) -> Iterator[Changes]:
        """What each changes against the version in force; one whose bytes cannot be read counts as none."""
        force, base, grants = live.in_force(self._now), base_rules(), read_grants(self._home)
        for row, pack in fresh:
            held, before = force.get(row.key), None
            if held is not None:
                with contextlib.suppress(InterlockError):
                    before = Subscribed(stored_pack(self._home, held), held.ring, held.log_index)
            yield changes_of(before, Subscribed(pack, row.ring, row.log_index), base, grants, live.withdrawn)

    def _prune(self, named: set[str]) -> None:
        """Drop what neither these nor a guard that is just loading what was there before needs."""
        for path in (self._home / "store").iterdir():
            if path.suffix == ".json" and path.stem not in named:
                path.unlink(missing_ok=True)

    def _pin(self, key: Key, version: int) -> None:
        def change(rows: dict[Key, Subscription]) -> None:
            if key not in rows:
                raise NotFollowed("is not followed here", where=f"mesh:{key[0]}@{key[1]}", fix="subscribe first")
            rows[key] = replace(rows[key], pin=version)

        self._edit(change)

    def _shorten(self, key: Key, window_us: int) -> None:
        with file_lock(self._home / "lock", wait=True):
            live = read_live(self._home)
            row = live.rows.get(key)
            if row is not None and row.live_at > row.at + window_us:
                write_live(self._home, live.with_rows([replace(row, live_at=row.at + window_us)]))

    def _edit(self, change: Callable[[dict[Key, Subscription]], object]) -> None:
        """Change the subscriptions, in a lock of their own: an update may be under way."""
        with file_lock(self._home / "subscriptions.lock", wait=True):
            rows = {row.key: row for row in read_subscriptions(self._home)}
            change(rows)
            write_subscriptions(self._home, rows.values())


def _demand_not_withdrawn(live: Live, key: Key, version: int) -> None:
    """Raises: TakenBack."""
    taken = withdrawal(live.withdrawn, key[0], version, key[1])
    if taken is not None:
        raise TakenBack(taken.told, where=f"mesh:{key[0]}@{key[1]}", fix="stay at what is in force, or unsubscribe")
