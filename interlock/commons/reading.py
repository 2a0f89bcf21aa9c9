"""How a node reads its commons: which time counts, whose checkpoints count, and what it remembers of both.

    online    signatures are judged at the wall clock's time or the floor's, whichever is later
    offline   at the time at which the bundle's checkpoint was cosigned (offline.py)

The log policy is what was pinned at init, until the keyholders' threshold signs a root with another digest of it: then
the target `log-policy` with that digest is adopted, before anything of the log is looked at, and status says so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from interlock.base.clock import Clock
from interlock.base.fetch import Fetcher
from interlock.base.files import seen_state
from interlock.commons.layout import LOG_POLICY
from interlock.commons.newest import Commons, Current
from interlock.commons.offline import demand_bundle
from interlock.commons.pack import sha256_hex
from interlock.commons.pins import PINS, Pins, adopt_log_policy, read_pins
from interlock.commons.timefloor import cosigned_us, median_us, raise_floor, trusted_now
from interlock.commons.updater import MetadataRefused, View, refreshed
from interlock.transparency.follow import LogView
from interlock.transparency.policy import MAX_POLICY

__all__ = ["Reading"]

_KEPT: Final = "newest.json"


class _Moved(Exception):
    """The root names a log policy that is not adopted yet."""

    def __init__(self, data: bytes, sha256: str, root_version: int) -> None:
        super().__init__(sha256)
        self.data = data
        self.sha256 = sha256
        self.root_version = root_version


class _Rooted(Exception):
    """The roots are followed, and nothing beyond them is to be kept."""


class Reading:
    """One node's reading of the commons that `fetcher` has, and of the log that `log_fetcher` has.

    What was pinned is read again where it has changed: a log policy can be changed while this runs.
    """

    def __init__(self, home: Path, fetcher: Fetcher, log_fetcher: Fetcher, clock: Clock) -> None:
        self._home = home
        self._fetcher = fetcher
        self._log_fetcher = log_fetcher
        self._clock = clock
        self._seen: object = None
        self._load()

    @property
    def pins(self) -> Pins:
        return self._pins

    @property
    def log(self) -> LogView:
        return self._log

    @contextlib.contextmanager
    def current(self) -> Iterator[Current]:
        """The commons as it is now; targets of that state are read while the block runs.

        Raises: NotNewest, NotLogged, Rollback, Stale, MetadataRefused, NoQuorum, SplitView, BadProof, TooLarge,
        Unreachable, Locked, NotWritable, BadState.
        """
        self._load()
        now = self._clock.now_us()
        with contextlib.ExitStack() as stack:
            try:
                found = stack.enter_context(self._read(now))
            except _Moved as moved:
                adopt_log_policy(self._home, moved.data, moved.sha256, moved.root_version, now)
                self._load()
                found = stack.enter_context(self._read(now))
            raise_floor(self._home, median_us(found.checked.witnesses.values()), now, self._pins.offline_us)
            yield found

    def _read(self, now_us: int) -> contextlib.AbstractContextManager[Current]:
        if not self._pins.offline_us:
            return self._commons().current(trusted_now(self._home, now_us))
        # The roots come first: they may name a log policy without which the checkpoint cannot be judged. No other
        # role's word is taken yet, so it does no harm to judge them at an early time.
        early, root = cosigned_us(self._home), self._pins.root
        with (
            contextlib.suppress(_Rooted),
            refreshed(self._home / "tuf", self._fetcher, bootstrap=root, now_us=early, demand=self._root_only),
        ):
            pass
        checked = self._log.refresh(self._log_fetcher)
        cosigned = median_us(checked.witnesses.values())
        demand_bundle(self._home, cosigned, now_us, self._pins.offline_us)
        return self._commons().current(cosigned, checked)

    def _root_only(self, view: View) -> None:
        self._demand_policy(view)
        raise _Rooted

    def _demand_policy(self, view: View) -> None:
        """Raises: _Moved, where the root names another log policy than it did when this node last looked."""
        sha256 = view.log_policy
        if not sha256 or sha256 == self._pins.root_log_policy:
            return
        data = view.target(LOG_POLICY, MAX_POLICY)
        if sha256_hex(data) != sha256:
            raise MetadataRefused("is not the log policy that the root names", where=LOG_POLICY, fix="tell the commons")
        raise _Moved(data, sha256, view.root_version)

    def _commons(self) -> Commons:
        return Commons(
            self._home / "tuf",
            self._home / _KEPT,
            root=self._pins.root,
            policy=self._pins.policy,
            log=self._log,
            fetcher=self._fetcher,
            log_fetcher=self._log_fetcher,
            look=self._demand_policy,
        )

    def _load(self) -> None:
        seen = seen_state(self._home / PINS)
        if seen is None or seen != self._seen:
            self._pins = read_pins(self._home)
            self._log = LogView(self._home / "log", self._pins.policy, self._clock, evidence=self._home / "evidence")
            self._seen = seen
