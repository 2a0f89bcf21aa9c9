"""The observer that counts: in a guarded process, it marks which places of a consented catalog were seen.

It needs none of the mesh's packages, and opens the node's store only when there is something to mark. With no
consent given it costs one look at a file's times. What it keeps of an event is a place's number; never the event.

HOME/consent.json         who agreed to what (commons.consent)
HOME/catalogs/TASK.json   the catalog that was agreed to, and how long its epochs are; kept by `keep_catalog`
HOME/node.sqlite          the places (node.storage.node)

An epoch of a task is [n * time_precision, (n + 1) * time_precision) in seconds since 1970, as DAP counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.base.clock import MICROSECONDS, Clock
from interlock.base.files import BadState, private_dir, read_bounded, replace, seen_state, stamped, unstamped
from interlock.commons.consent import Consent, read_consents
from interlock.commons.indicators import MAX_CATALOG, BadCatalog, Catalog, parse_catalog
from interlock.commons.tally import Tally
from interlock.engine import ambient
from interlock.engine.decision import Decision
from interlock.engine.event import SensorEvent
from interlock.node.storage.node import NodeStore, open_store

__all__ = ["KeptCatalog", "TallyObserver", "keep_catalog", "kept_catalogs", "masking_rules"]

_FORMAT: Final = "interlock-kept-catalog"
_LIMIT: Final = 2 * MAX_CATALOG  # a catalog's quotes are escaped inside


@dataclass(frozen=True)
class KeptCatalog:
    """A catalog as it was agreed to, with its task's time precision in seconds."""

    catalog: Catalog
    time_precision: int

    def __post_init__(self) -> None:
        if self.time_precision < 1:
            raise ValueError("an epoch lasts at least a second")

    @property
    def epoch_us(self) -> int:
        return self.time_precision * MICROSECONDS

    def epoch_of(self, us: int) -> int:
        """When the epoch began that a time lies in."""
        return us - us % self.epoch_us


class TallyObserver:
    """An observer for `interlock.install(observers=[...])`; one for a process, from any of its threads.

    `redacting` gives the ids of the rules that mask, which are never counted (`masking_rules`, in a guarded process).
    When a call returns, what it marked is durable. Raises: InterlockError, sqlite3.Error; the guard counts that as
    a failed observer, and the next event is tried afresh.
    """

    def __init__(self, home: Path, clock: Clock, *, redacting: Callable[[], Collection[str]]) -> None:
        self._home = home
        self._clock = clock
        self._redacting = redacting
        self._lock = threading.Lock()
        self._stamp: object = None
        self._agreed: list[tuple[KeptCatalog, Consent]] = []
        self._tallies: dict[str, Tally] = {}
        self._store: NodeStore | None = None

    def __call__(self, event: SensorEvent, decision: Decision) -> None:
        with self._lock:
            self._refresh()
            for kept, consent in self._agreed:
                self._count(kept, consent, event, decision)

    def close(self) -> None:
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None

    def _refresh(self) -> None:
        """Follow the consents: a no stops the count with the next event. A file that cannot be read is a no."""
        stamp = seen_state(self._home / "consent.json")
        if stamp != self._stamp:
            self._stamp, self._agreed, self._tallies = None, [], {}
            consents = read_consents(self._home)
            kept = kept_catalogs(self._home)
            pairs = [(kept[name], consent) for name, consent in consents.items() if name in kept]
            self._agreed = [(k, c) for k, c in pairs if c.covers(k.catalog)]
            self._stamp = stamp

    def _count(self, kept: KeptCatalog, consent: Consent, event: SensorEvent, decision: Decision) -> None:
        now = self._clock.now_us()
        tally = self._tally(kept, consent, now)
        if tally is None:
            return
        tally.redacting = frozenset(self._redacting())
        fresh = tally.observe(event, decision, now)
        if not fresh:
            return
        try:
            self._store = self._store or open_store(self._home)
            self._store.add_bits(kept.catalog.task, kept.catalog.digest, tally.start_us, fresh)
        except BaseException:
            tally.seen -= fresh  # not durable, so not seen: the next event that meets these places tries again
            raise

    def _tally(self, kept: KeptCatalog, consent: Consent, now: int) -> Tally | None:
        """The tally of the running epoch; none where it began before the catalog opened."""
        task = kept.catalog.task
        tally = self._tallies.get(task)
        if tally is None or not tally.start_us <= now < tally.end_us:
            start = kept.epoch_of(now)
            if start < kept.catalog.opens_at:
                return None
            tally = self._tallies[task] = Tally(kept.catalog, consent, start, start + kept.epoch_us)
        return tally


def masking_rules() -> frozenset[str]:
    """The ids of the rules that mask, in the guard of this process. Raises: RuntimeError, where none is installed."""
    return frozenset(rule.id for rule in ambient.installed().live.current.rules if rule.redacts)


def keep_catalog(home: Path, catalog: Catalog, *, time_precision: int) -> None:
    """Keep the catalog that is about to be agreed to, and its epochs' length in seconds. Raises: NotWritable."""
    kept = KeptCatalog(catalog, time_precision)
    body: dict[str, object] = {"time_precision": kept.time_precision, "catalog": catalog.data.decode("utf-8")}
    replace(private_dir(home / "catalogs") / f"{catalog.task}.json", stamped(_FORMAT, 1, body))


def kept_catalogs(home: Path) -> dict[str, KeptCatalog]:
    """All kept catalogs by task, agreed to or not. Raises: BadState, NewerFormat."""
    kept = [_read_kept(path) for path in sorted((home / "catalogs").glob("*.json")) if path.name[0] != "."]
    return {k.catalog.task: k for k in kept}


def _read_kept(path: Path) -> KeptCatalog:
    body = unstamped(read_bounded(path, _LIMIT), _FORMAT, 1, where=str(path))
    text, precision = body.get("catalog"), body.get("time_precision")
    if set(body) != {"v", "catalog", "time_precision"} or not isinstance(text, str) or type(precision) is not int:
        raise BadState("has other fields than a catalog and its time_precision", where=str(path))
    try:
        kept = KeptCatalog(parse_catalog(text.encode("utf-8"), where=str(path)), precision)
    except (BadCatalog, ValueError) as e:
        raise BadState(f"is damaged ({e})", where=str(path), fix="agree to the catalog again") from None
    if kept.catalog.task != path.stem:
        raise BadState("holds another task's catalog than its name says", where=str(path))
    return kept
