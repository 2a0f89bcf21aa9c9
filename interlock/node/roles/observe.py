"""The observer that counts: in a guarded process, it marks which places of a consented catalog were seen.

It needs none of the mesh's packages, and opens the node's store only when there is something to mark. With no
consent given it costs one look at a file's times. What it keeps of an event is a place's number; never the event.
Where tasks share a place, what is seen of it feeds the one that was consented to first. For a catalog of false
positives nothing is marked; which places a community rule's objection set is kept beside the call's id, so that a
person can call it a false positive afterwards (`interlock mesh report fp`).

HOME/consent.json         who agreed to what (commons.consent)
HOME/catalogs/TASK.json   the catalog that was agreed to, and how long its epochs are; kept by `keep_catalog`
HOME/node.sqlite          the places (node.storage.node)

An epoch of a task is [n * time_precision, (n + 1) * time_precision) in seconds since 1970, as DAP counts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.base.clock import MICROSECONDS, Clock
from interlock.base.files import BadState, private_dir, read_bounded, replace, seen_state, stamped, typed, unstamped
from interlock.commons.consent import CONSENT_FILE, Consent, read_consents
from interlock.commons.indicators import FALSE_POSITIVES, MAX_CATALOG, BadCatalog, Catalog, parse_catalog
from interlock.commons.tally import Tally, places_of
from interlock.engine import ambient
from interlock.engine.decision import Decision
from interlock.engine.event import SensorEvent
from interlock.node.storage.node import NodeStore, open_store

__all__ = ["MARK", "KeptCatalog", "TallyObserver", "community_rules", "keep_catalog", "kept_catalogs", "masking_rules"]

MARK: Final = "false-positive:"  # before the name of a place where it feeds a task that counts those
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

    def named(self, places: Iterable[int]) -> dict[int, str]:
        """Places with their names, as they feed a task: a false positive is another bit than a sighting."""
        prefix = MARK if self.catalog.counts == FALSE_POSITIVES else ""
        return {place: prefix + self.catalog.places[place] for place in places}

    def epoch_of(self, us: int) -> int:
        """When the epoch began that a time lies in."""
        return us - us % self.epoch_us


class TallyObserver:
    """An observer for `interlock.install(observers=[...])`; one for a process, from any of its threads.

    `redacting` gives the ids of the rules that mask, which are never counted (`masking_rules`, in a guarded process);
    `community` those of rules that came with a pack, each with the indicators that it lists (`community_rules`).
    When a call returns, what it marked is durable. Raises: InterlockError, sqlite3.Error; the guard counts that as
    a failed observer, and the next event is tried afresh.
    """

    def __init__(
        self,
        home: Path,
        clock: Clock,
        *,
        redacting: Callable[[], Collection[str]],
        community: Callable[[], Mapping[str, Collection[str]]] = dict,
    ) -> None:
        self._home = home
        self._clock = clock
        self._redacting = redacting
        self._community = community
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._stamp: object = None
        self._agreed: list[tuple[KeptCatalog, Consent]] = []
        self._tallies: dict[str, Tally] = {}
        self._store: NodeStore | None = None

    def __call__(self, event: SensorEvent, decision: Decision) -> None:
        if self._process != os.getpid():  # a fork: whatever thread had the lock is not here, and the store is theirs
            self._lock, self._store, self._process = threading.Lock(), None, os.getpid()
        with self._lock:
            self._refresh()
            taken = set[str]()
            for kept, consent in self._agreed:
                if kept.catalog.counts == FALSE_POSITIVES:
                    self._note(kept, consent, event, decision)
                else:
                    taken |= self._count(kept, consent, event, decision, taken)

    def close(self) -> None:
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None

    def _refresh(self) -> None:
        """Follow the consents: a no stops the count with the next event. A file that cannot be read is a no."""
        stamp = seen_state(self._home / CONSENT_FILE)
        if stamp != self._stamp:
            self._stamp, self._agreed, self._tallies = None, [], {}
            consents = read_consents(self._home)
            kept = kept_catalogs(self._home)
            given = sorted(consents.values(), key=lambda c: (c.at, c.terms.subject))
            pairs = [(kept[c.terms.subject], c) for c in given if c.terms.subject in kept]
            self._agreed = [(k, c) for k, c in pairs if c.terms.catalog == k.catalog.digest]
            self._stamp = stamp

    def _count(
        self, kept: KeptCatalog, consent: Consent, event: SensorEvent, decision: Decision, taken: Collection[str]
    ) -> frozenset[str]:
        """Mark what one task sees of an event; returns the places, by name, that are its."""
        now = self._clock.now_us()
        tally = self._tally(kept, consent, now)
        if tally is None:
            return frozenset()
        tally.redacting = frozenset(self._redacting())
        fresh, met = tally.observe(event, decision, now, taken)
        if not fresh:
            return met
        try:
            epoch = tally.start_us, tally.end_us
            self._opened().add_bits(kept.catalog.task, kept.catalog.digest, epoch, kept.named(fresh))
        except BaseException:
            tally.seen -= fresh  # not durable, so not seen: the next event that meets these places tries again
            raise
        return met

    def _note(self, kept: KeptCatalog, consent: Consent, event: SensorEvent, decision: Decision) -> None:
        """Keep what a community rule's objection set, beside the call's id."""
        now, rule = self._clock.now_us(), decision.policy_id
        listed = self._community().get(rule) if rule and event.call_id and now >= consent.at else None
        if listed is None:
            return
        met = {kept.catalog.places[i] for i in places_of(event, decision, kept.catalog, self._redacting())}
        places = met & {f"rule:{rule}", *listed}  # what else the call names is none of this rule's business
        if places:
            self._opened().note_objection(event.call_id, event.phase, places, now)

    def _opened(self) -> NodeStore:
        self._store = self._store or open_store(self._home)
        return self._store

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


def community_rules() -> dict[str, frozenset[str]]:
    """The ids of the rules that came with a pack, in the guard of this process, each with the indicators that it lists.

    Raises: RuntimeError, where none is installed.
    """
    rules = ambient.installed().live.current.rules
    return {rule.id: _listed(rule.plan) for rule in rules if rule.source.pack_digest}


def _listed(plan: Mapping[str, object] | None) -> frozenset[str]:
    """The indicators of a rule that is nothing but their detector."""
    when = (plan or {}).get("when")
    params = when.get("params") if isinstance(when, Mapping) and when.get("detector") == "indicator" else None
    if not isinstance(params, Mapping):
        return frozenset()
    kind = params.get("kind", "host")
    return frozenset(d if ":" in d else f"{kind}:{d}" for d in params.get("digests", ()))


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
    values = typed(body, {"v": int, "catalog": str, "time_precision": int}, where=str(path))
    try:
        catalog = parse_catalog(values["catalog"].encode("utf-8"), where=str(path))
        kept = KeptCatalog(catalog, values["time_precision"])
    except (BadCatalog, ValueError) as e:
        raise BadState(f"is damaged ({e})", where=str(path), fix="agree to the catalog again") from None
    if kept.catalog.task != path.stem:
        raise BadState("holds another task's catalog than its name says", where=str(path))
    return kept
