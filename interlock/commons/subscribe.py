"""A member node: brings what the commons signed, the log has and witnesses saw into force; or keeps what it has.

    update   TUF refresh -> newest checkpoint on the one timeline -> for each subscription: version not older ->
             signed bytes -> log entry, proof, quorum -> pack parses and resolves -> store -> live.json, at once

Every step raises its own error. Whatever fails, live.json and the packs it names stay as they were, and
HOME/status.json says the trouble in one line. The home's files are listed in live.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.base.clock import Clock
from interlock.base.errors import InterlockError
from interlock.base.fetch import Fetcher
from interlock.base.files import file_lock, private_dir, read_bounded, replace, stamped, unstamped
from interlock.commons.found import Finder
from interlock.commons.indicators import MAX_CATALOG, BadCatalog, Catalog, parse_catalog
from interlock.commons.installed import base_rules, read_grants
from interlock.commons.known_operators import take_operators
from interlock.commons.layout import CATALOG_RING, MEMBERS_RING, catalog_path, members_path
from interlock.commons.live import (
    STATUS,
    Live,
    LiveRow,
    read_live,
    read_subscriptions,
    store_file,
    write_live,
    write_subscriptions,
)
from interlock.commons.logged import LogFetcher
from interlock.commons.membership import MAX_MEMBER_KEYS, MemberKeys, parse_member_keys
from interlock.commons.pack import Pack, known_name
from interlock.commons.reading import Reading
from interlock.commons.resolve import Subscribed, resolve
from interlock.commons.rings import known_ring
from interlock.commons.updater import MetadataRefused

__all__ = ["Subscriber", "Update", "read_status"]

_STATUS_FORMAT: Final = "interlock-status"
_LIMIT: Final = 1 << 20


@dataclass(frozen=True)
class Update:
    """What an update found: the packs in force, those that changed, and the state that vouches for them."""

    rows: tuple[LiveRow, ...]
    changed: tuple[LiveRow, ...]
    tree_size: int
    timestamp_version: int
    snapshot_version: int
    at: int


class Subscriber:
    """One node's following of one commons. `log` has the log's files; by default they lie under log/ of `fetcher`."""

    def __init__(self, home: Path, fetcher: Fetcher, clock: Clock, *, log: Fetcher | None = None) -> None:
        self._home = home
        self._clock = clock
        self._log_fetcher: Fetcher = log or LogFetcher(fetcher)
        self._reading = Reading(home, fetcher, self._log_fetcher, clock)

    def subscribe(self, pack: str, ring: str) -> None:
        """Follow a pack in a ring, from the next update on. Raises: BadPack; ValueError, for no ring; NotWritable."""
        known_ring(ring)
        pair = (known_name(pack), ring)
        self._edit(lambda pairs: [*pairs, pair])

    def unsubscribe(self, pack: str, ring: str) -> None:
        """Follow it no more, and take it out of force. Raises: NotWritable."""
        self._edit(lambda pairs: [p for p in pairs if p != (pack, ring)])
        with file_lock(self._home / "lock", wait=True):
            rows = read_live(self._home).rows
            write_live(self._home, Live({key: row for key, row in rows.items() if key != (pack, ring)}))

    def update(self) -> Update:
        """Bring all subscriptions up to date, or change nothing that is in force.

        Raises: Rollback, Stale, MetadataRefused, NotLogged, NoQuorum, SplitView, BadProof, BadPack, TooLarge,
        NotFound, Unreachable, Locked, NotWritable.
        """
        private_dir(self._home / "store")
        with file_lock(self._home / "lock"):
            try:
                update = self._update()
            except InterlockError as e:
                self._say(trouble=e)
                raise
            self._say(update=update)
            return update

    def catalog(self, task: str) -> Catalog:
        """A task's catalog: signed, in the log, and logged before it opens.

        Raises: BadCatalog, and as `update`.
        """
        path = catalog_path(task)
        with file_lock(self._home / "lock"), self._reading.current() as now:
            view = now.view
            data = view.target(path, MAX_CATALOG)
            catalog = parse_catalog(data, where=path)
            logged = self._finder.logged(view, path, data, (task, 1, CATALOG_RING))
        if catalog.task != task:
            raise BadCatalog("is the catalog of another task", where=path)
        if logged.entry.at >= catalog.opens_at:
            raise BadCatalog("was published after it opened", where=path, fix="tell the commons")
        return catalog

    def member_keys(self, task: str, epoch: int) -> MemberKeys:
        """The member keys of one epoch of a task: signed, and in the log, so that nobody is shown others.

        Raises: NotFound, where none are published; Malformed, BadSignature, BadKey, and as `update`.
        """
        path = members_path(task, epoch)
        with file_lock(self._home / "lock", wait=True), self._reading.current() as now:
            view = now.view
            keys = parse_member_keys(view.target(path, MAX_MEMBER_KEYS), where=path)
            self._finder.logged(view, path, keys.data, (task, epoch, MEMBERS_RING))
        if (keys.task, keys.epoch) != (task, epoch):
            raise MetadataRefused("holds the member keys of another task or epoch", where=path, fix="tell the commons")
        return keys

    def _update(self) -> Update:
        live = read_live(self._home)
        with self._reading.current() as commons:
            view, tree_size = commons.view, commons.checked.checkpoint.size
            take_operators(self._home, view, self._reading.pins.policy, self._finder.logged)
            found = [self._finder.found(view, live, *pair) for pair in read_subscriptions(self._home)]
        fresh = [(f.row, f.pack) for f in found if f.pack is not None]
        self._demand_resolves(fresh)
        for row, pack in fresh:
            replace(store_file(self._home, row.sha256), pack.data)
        changed = tuple(row for row, _ in fresh)
        if changed:
            before, live = live, live.with_rows(changed)
            write_live(self._home, live)
            self._prune(before, live)
        return Update(
            rows=tuple(live.rows.values()),
            changed=changed,
            tree_size=tree_size,
            timestamp_version=view.timestamp_version,
            snapshot_version=view.snapshot_version,
            at=self._clock.now_us(),
        )

    @property
    def _finder(self) -> Finder:
        reading = self._reading
        return Finder(self._home, reading.log, reading.pins.policy, self._log_fetcher, self._clock)

    def _demand_resolves(self, fresh: Iterable[tuple[LiveRow, Pack]]) -> None:
        """Compile what is about to go live, so that a pack that no guard could load never does."""
        base, grants = base_rules(), read_grants(self._home)
        for row, pack in fresh:
            resolve(base, [Subscribed(pack, row.ring, row.log_index)], grants)

    def _prune(self, *kept: Live) -> None:
        """Drop what neither these nor a guard that is just loading needs."""
        named = {row.sha256 for live in kept for row in live.rows.values()}
        for path in (self._home / "store").iterdir():
            if path.suffix == ".json" and path.stem not in named:
                path.unlink(missing_ok=True)

    def _edit(self, change: Callable[[list[tuple[str, str]]], list[tuple[str, str]]]) -> None:
        with file_lock(self._home / "lock", wait=True):
            pairs = change(list(read_subscriptions(self._home)))
            write_subscriptions(self._home, dict.fromkeys(pairs))

    def _say(self, *, update: Update | None = None, trouble: InterlockError | None = None) -> None:
        body: dict[str, object] = {"at": self._clock.now_us(), "ok": trouble is None}
        if update is not None:
            body |= {"tree_size": update.tree_size, "timestamp_version": update.timestamp_version}
        if trouble is not None:
            body["trouble"] = {"code": trouble.code, "line": str(trouble)}
        replace(self._home / STATUS, stamped(_STATUS_FORMAT, 1, body))


def read_status(home: Path) -> dict[str, object]:
    """What the last update said: `at`, `ok`, and `trouble` (code, line) or `tree_size`; {} before the first."""
    path = home / STATUS
    return unstamped(read_bounded(path, _LIMIT), _STATUS_FORMAT, 1, where=str(path)) if path.exists() else {}
