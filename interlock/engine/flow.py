"""FlowTracker: what tools returned in one run of an agent, and which later arguments carry it.

A run is what happens inside one outermost span; calls outside all spans are one run together. What a run recorded is
dropped with its span. A tracker is bounded, and never makes a call look clean because of it: a run of which anything
was dropped or could not be read says UNKNOWN of every later text, and UNKNOWN passes for every source.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from interlock.base.canonical import MAX_DEPTH
from interlock.engine.ambient import current_run, installed, span
from interlock.engine.detectors.walk import path_under
from interlock.engine.event import Origin
from interlock.engine.fragments import FIELD, GRAM, WHOLE, fragments, normal, views
from interlock.engine.mutex import Mutex
from interlock.engine.sources import UNKNOWN, demand_source

__all__ = ["FlowTracker", "record_origin"]

MAX_ORIGINS: Final = 1000  # of one call; what goes over stands for the whole call
_TOMBSTONES: Final = 16  # runs by name that are remembered as forgotten, for each of max_spans
_MAX_BITS: Final = 10_000  # of an integer that is read; longer ones have no text in Python
_Run = span | str | None
_Sources = frozenset[str]


@dataclass(slots=True)
class _Generation:
    """Fragments with their sources. `heads` says which lengths of fields begin with these FIELD characters."""

    known: dict[str, _Sources] = field(default_factory=dict)
    heads: dict[str, int] = field(default_factory=dict)
    size: int = 0

    def add(self, fragment: str, sources: _Sources) -> None:
        before = self.known.get(fragment)
        if before is None:
            self.size += len(fragment)
            if len(fragment) != GRAM:
                head = fragment[:FIELD]
                self.heads[head] = self.heads.get(head, 0) | 1 << len(fragment)
        elif not before.issuperset(sources):
            sources |= before
        else:
            return
        self.known[fragment] = sources

    def sources_in(self, text: str) -> set[str]:
        """The sources of all fragments that stand in a normal form."""
        found: set[str] = set()
        known, heads = self.known.get, self.heads.get
        starts = range(len(text) - FIELD + 1)
        for sources in [sources for at in starts if (sources := known(text[at : at + GRAM])) is not None]:
            found |= sources
        for at, lengths in [(at, some) for at in starts if (some := heads(text[at : at + FIELD])) is not None]:
            for length in range(FIELD, WHOLE):
                if lengths >> length & 1:
                    found |= known(text[at : at + length], _NONE)
        return found


_NONE: Final[_Sources] = frozenset()


@dataclass(slots=True)
class _Memory:
    """What one run recorded, in two generations: where the young one is full it takes the place of the old one."""

    young: _Generation = field(default_factory=_Generation)
    old: _Generation = field(default_factory=_Generation)
    forgot: bool = False
    used: int = 0

    @property
    def size(self) -> int:
        return self.young.size + self.old.size

    def age(self) -> bool:
        """Make room for young fragments; true where old ones were dropped for it."""
        dropped = bool(self.old.known)
        self.old, self.young = self.young, _Generation()
        return dropped


class FlowTracker:
    """A bounded memory of where texts came from; install it with `interlock.install(flow=FlowTracker())`.

    `max_fragments` bounds one run, `max_bytes` the characters of all fragments of all runs, `max_spans` the runs that
    hold any; the run that was used longest ago is forgotten first. `max_text` bounds the characters that are read of
    one value and of one call's arguments. A `forgetful` tracker does not say UNKNOWN of what it cannot say: that
    weakens the guard, and the posture says so. `forgot` counts how often anything was lost.
    """

    def __init__(
        self,
        *,
        max_fragments: int = 200_000,
        max_bytes: int = 16_000_000,
        max_spans: int = 256,
        max_text: int = 1_000_000,
        forgetful: bool = False,
    ) -> None:
        if min(max_fragments, max_bytes, max_spans, max_text) < 1:
            raise ValueError("each limit of a FlowTracker is at least 1")
        self.max_fragments: Final = max_fragments
        self.max_bytes: Final = max_bytes
        self.max_spans: Final = max_spans
        self.max_text: Final = max_text
        self.forgetful: Final = forgetful
        self.forgot = 0
        self._mutex = Mutex()
        self._spans: weakref.WeakKeyDictionary[span, _Memory] = weakref.WeakKeyDictionary()
        self._named: dict[str | None, _Memory] = {}
        self._lost_names = False
        self._ticks = 0

    def record(self, value: object, *sources: str, run: _Run = None) -> None:
        """Remember every text in a value as coming from these sources; what cannot be read counts as forgotten."""
        found: dict[str, None] = {}
        try:
            complete = self._read(value, found)
        except Exception:  # noqa: BLE001 - whatever an object of the tool's own raises when it is read
            complete = False
        with self._mutex:
            memory = self._memory(run)
            if not complete:
                self._forget(memory)
            self._add(memory, found, frozenset(sources))
            self._bound(memory)

    def end(self, run: str) -> None:
        """Drop what a run by name recorded, for a host that knows that it is over; a span's goes with the span."""
        with self._mutex:
            self._named.pop(run, None)

    def _read(self, value: object, found: dict[str, None]) -> bool:
        """Add a value's fragments; false where not all of it was read."""
        left, complete = self.max_text, True
        for _, text in _leaves(value):
            if text is None or len(text) > left:
                complete = False
            text = (text or "")[:left]
            left -= len(text)
            if len(text) < FIELD:
                continue
            seen, whole = views(text)
            complete = complete and whole
            for view in seen:
                found.update(dict.fromkeys(fragments(view)))
        return complete

    def origins(self, args: Mapping[str, object], run: _Run = None) -> tuple[Origin, ...]:
        """The origin of every text in a call's arguments that this run recorded before, in order."""
        with self._mutex:
            memory = self._known(run)
        if memory is None:
            return ()
        found: dict[Origin, None] = {}
        left = self.max_text
        for path, text in _leaves(args):
            sources = self._sources(memory, text, left)
            left = max(0, left - len(text or ""))
            here = path if len(found) < MAX_ORIGINS else ""
            found.update({Origin(source, here): None for source in sorted(sources)})
        return tuple(found)

    def _sources(self, memory: _Memory, text: str | None, left: int) -> set[str]:
        """The sources of one text, of which so many characters may still be read."""
        if text is not None and len(text) < FIELD:
            return set()
        read_whole = text is not None and len(text) <= left
        text = (text or "")[:left]
        seen, complete = views(text)
        young, old = memory.young, memory.old
        found: set[str] = set()
        for view in seen:
            form = normal(view)
            found |= young.sources_in(form)
            if old.known:
                found |= old.sources_in(form)
        if (memory.forgot or not (complete and read_whole)) and not self.forgetful:
            found.add(UNKNOWN)
        return found

    def _add(self, memory: _Memory, found: dict[str, None], sources: _Sources) -> None:
        for fragment in found:
            memory.young.add(fragment, sources)
            if len(memory.young.known) >= max(1, self.max_fragments // 2) and memory.age():
                self._forget(memory)

    def _known(self, run: _Run) -> _Memory | None:
        known = self._spans.get(run) if isinstance(run, span) else self._named.get(run)
        lost = known is None and self._lost_names and not isinstance(run, span)
        return self._memory(run) if lost or known is not None else None

    def _memory(self, run: _Run) -> _Memory:
        self._ticks += 1
        if isinstance(run, span):
            memory = self._spans.setdefault(run, _Memory())
        else:
            memory = self._named.setdefault(run, _Memory(forgot=self._lost_names))
        memory.used = self._ticks
        return memory

    def _forget(self, memory: _Memory) -> None:
        memory.forgot = True
        self.forgot += 1

    def _bound(self, current: _Memory) -> None:
        """Drop what goes over the limits: first the runs that were used longest ago, then this run's own."""
        full = [m for m in (*self._spans.values(), *self._named.values()) if m.size and m is not current]
        full.sort(key=lambda m: m.used)
        size = current.size + sum(m.size for m in full)
        while full and (len(full) >= self.max_spans or size > self.max_bytes):
            oldest = full.pop(0)
            size -= oldest.size
            oldest.young, oldest.old = _Generation(), _Generation()
            self._forget(oldest)
        while current.size > self.max_bytes:
            current.age()
            self._forget(current)
        while len(self._named) > _TOMBSTONES * self.max_spans:
            del self._named[min(self._named, key=lambda name: self._named[name].used)]
            self._lost_names = True


def record_origin(value: object, source: str) -> None:
    """Tell the installed tracker where a value came from that no guarded tool returned ("tool:inbox", say).

    Raises: RuntimeError, where no guard with a tracker is installed; ValueError, for what can be no source.
    """
    demand_source(source, "record_origin")
    tracker = installed().flow
    if tracker is None:
        raise RuntimeError("no FlowTracker is installed; call interlock.install(flow=FlowTracker())")
    tracker.record(value, source, run=current_run())


def _leaves(value: object, path: str = "", depth: int = 0) -> Iterator[tuple[str, str | None]]:
    """Every text with its path, keys and long numbers too; None in place of what cannot be read."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, bytes | bytearray | memoryview):
        yield path, bytes(value).decode("utf-8", "replace")
    elif depth > MAX_DEPTH:
        yield path, None
    elif isinstance(value, Mapping):
        for key, held in value.items():
            here = path_under(path, key)
            yield from _leaves(key, here, depth + 1)
            yield from _leaves(held, here, depth + 1)
    elif isinstance(value, list | tuple | set | frozenset):
        for i, held in enumerate(value):
            yield from _leaves(held, f"{path}[{i}]", depth + 1)
    else:
        yield path, _plain(value)


def _plain(value: object) -> str | None:
    if value is None or isinstance(value, bool | float):
        return ""
    if isinstance(value, int):
        return str(value) if value.bit_length() < _MAX_BITS else None
    return str(value) if type(value).__module__ in ("datetime", "decimal", "pathlib", "uuid") else None
