"""A monitor: reads every entry of a log, and holds what mirrors serve against it; alarms on what does not fit.

    kind         what it means                                                               ends
    split-view   a log has signed two histories, shown to mirrors or, as nodes tell, to      never
                 nodes; the evidence file convinces anybody
    unexpected   an entry that should not be: of no known kind, badly signed, by a key of    never
                 another role, or a second meaning of a name and version. A role's former
                 keys count up to where they ended, as its metadata says. Metadata is read
                 before the log, so the log may be ahead of it: what is by no key that it
                 knows stays a doubt until metadata is read whose snapshot was logged later,
                 or for as long as a publish takes
    issuer       member keys of a task by an issuer that the one before did not name as     never
                 its successor, or beside another that it named: whoever signs for `tasks`
                 alone cannot put one in its place, nor who stole a key that was replaced
    missing      bytes that an entry names are not served, longer than a publish takes       once they are
    changed      other bytes are served in their place                                       once they are right
    unlogged     signed metadata names what the log does not have                            once it does not
    mirror       a mirror does not answer, or what it serves does not verify                 once it does

A log makes what is published visible to all; it is seen only if somebody looks. Whoever runs a monitor looks for
everyone. It trusts what a node trusts (the pinned root and log policy) and no mirror: it needs two, run by different
people, so that one that withholds is told from a commons that does.

    HOME/monitor.sqlite   HOME/view/  HOME/views/NAME/  HOME/tuf/NAME/  what was verified   HOME/evidence/
    HOME/notices.sqlite   what nodes told (monitor_notices.py)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.base.clock import DAY_US, MICROSECONDS, Clock
from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError, one_line
from interlock.base.fetch import Fetcher, NotFound, Unreachable
from interlock.base.files import file_lock, private_dir
from interlock.base.keys import BadKey
from interlock.base.primitives import BadSignature
from interlock.commons.layout import (
    CATALOG_RING,
    COUNTS_RING,
    DAP_RING,
    DELEGATIONS,
    MEMBERS_RING,
    WITHDRAWN_RING,
    role_of_pack,
)
from interlock.commons.logged import LogFetcher
from interlock.commons.membership import parse_member_keys
from interlock.commons.monitor_notices import Notices
from interlock.commons.monitor_store import Alarm, Doubt, MonitorStore, Place
from interlock.commons.operators import OPERATORS_PATH
from interlock.commons.pack import kind_of, sha256_hex
from interlock.commons.pins import Pins
from interlock.commons.served import MAX_SERVED, served_path
from interlock.commons.speakers import Speakers
from interlock.commons.updater import View, refreshed
from interlock.transparency.catchup import bundles, grown
from interlock.transparency.entry import LogEntry, known_entry
from interlock.transparency.follow import LogView, SplitView, tile_loader
from interlock.transparency.note import MAX_NOTE, encode_note, parse_note
from interlock.transparency.policy import Checked
from interlock.transparency.tiles import CHECKPOINT, WIDTH, TileBuilder

__all__ = ["GRACE_US", "Looked", "Monitor"]

GRACE_US: Final = 900 * MICROSECONDS  # what is logged may be served so much later
RECHECK_US: Final = DAY_US  # how often bytes that were good are looked at again
_Thing = tuple[str, str, str, str]  # type, name, ring and SHA-256, as an entry has them
PLACES_MOST: Final = 1000  # in one pass, of each kind


@dataclass(frozen=True)
class Looked:
    """What one pass saw: the tree's size, how many places it looked at, the alarms that are new, and all open ones."""

    tree_size: int
    places: int
    new: tuple[Alarm, ...]
    open: tuple[Alarm, ...]


class Monitor:
    """Watches one commons and its log through several mirrors (name -> fetcher), each with the log below `log/`.

    Raises on making: ValueError, for fewer than two mirrors; BadState, NewerFormat, NotWritable.
    """

    def __init__(self, home: Path, pins: Pins, mirrors: Mapping[str, Fetcher], clock: Clock) -> None:
        if len(mirrors) < 2:
            raise ValueError("a monitor compares two mirrors or more")
        self._home = private_dir(home)
        self._pins = pins
        self._mirrors = dict(mirrors)
        self._clock = clock
        self.store = MonitorStore(home / "monitor.sqlite")
        evidence = home / "evidence"
        self._all = LogView(home / "view", pins.policy, clock, evidence=evidence)
        self._each = {n: LogView(home / "views" / n, pins.policy, clock, evidence=evidence) for n in mirrors}
        self.looked: int | None = None  # when the last pass that came to its end began
        self.notices = Notices(home, self.store, pins.policy, clock)

    def close(self) -> None:
        self.notices.close()
        self.store.close()

    def look(self) -> Looked:
        """One pass over everything that is new, and over some of what is not. Raises: Locked, NotWritable, BadState."""
        with file_lock(self._home / "lock"):
            seen = _Seen(self._clock.now_us())
            self.store.compare(self._mirrors, seen.now)
            rows = {name: self._named(name, seen) for name in self._mirrors}  # before the log, which is ahead of it
            named = {name: row for name, row in rows.items() if row is not None}
            checked = self._checkpoints(seen)
            if seen.keys:  # else nobody would ever ask whether what is new is by a key of its role
                self._read_on(checked, seen)
                seen.new += self._judge(named, seen)
            places = self._look_at_places(seen)
            for name, row in checked.items():
                if name in named and row.checkpoint.size <= self.store.size:
                    self._demand_logged(name, named[name], seen)
            seen.new += self.notices.settle()
            new = self.store.settle(seen.alarms, seen.well, seen.now)
            still = tuple(alarm for alarm in self.store.alarms() if alarm.closed is None)
            self.looked = seen.now
            return Looked(self.store.size, places, (*seen.new, *new), still)

    def _checkpoints(self, seen: _Seen) -> dict[str, Checked]:
        """The newest checkpoint of each mirror that has one which verifies, all of them on one timeline."""
        found: dict[str, Checked] = {}
        for name, fetcher in self._mirrors.items():
            with seen.trouble(name):
                note = LogFetcher(fetcher).fetch(CHECKPOINT, max_length=MAX_NOTE)
                found[name] = self._pins.policy.opened(parse_note(note))
        agreed: dict[str, Checked] = {}
        for name, checked in sorted(found.items(), key=lambda row: row[1].checkpoint.size):
            with seen.trouble(name):
                self._demand_one_timeline(name, encode_note(checked.note))
                self._each[name].advance(encode_note(checked.note), LogFetcher(self._mirrors[name]))
                agreed[name] = checked
        return agreed

    def _demand_one_timeline(self, name: str, note: bytes) -> None:
        """Hold a mirror's checkpoint against the others'. One that lags lacks the newer tiles: another mirror has them.

        Raises: SplitView; else, where no mirror's tiles join the two, what was wrong with its own.
        """
        trouble: list[InterlockError] = []
        for fetcher in (self._mirrors[name], *(f for other, f in self._mirrors.items() if other != name)):
            try:
                self._all.observe(note, LogFetcher(fetcher))
                return
            except SplitView:
                raise
            except InterlockError as e:
                trouble.append(e)
        raise trouble[0]

    def _read_on(self, checked: Mapping[str, Checked], seen: _Seen) -> None:
        """Take in the entries that are new, from whichever mirror has the most and serves what verifies."""
        rows = sorted(checked.items(), key=lambda row: -row[1].checkpoint.size)
        for name, row in rows:
            with seen.trouble(name):
                self._take(row, self._mirrors[name], seen)
                return

    def _take(self, checked: Checked, fetcher: Fetcher, seen: _Seen) -> None:
        checkpoint, since, load = checked.checkpoint, self.store.size, tile_loader(LogFetcher(fetcher))
        if checkpoint.size <= since:
            return
        hashes = grown(self._tree(), checkpoint, load)
        entries: dict[int, LogEntry] = {}
        alarms: list[Alarm] = []
        for tile, bundle in bundles(checkpoint, since, hashes, load):
            for place, data in enumerate(bundle):
                index = tile.index * WIDTH + place
                if index >= since:
                    what = "; ".join(self._examined(index, data, entries))
                    alarms += [_unexpected(index, what, seen.now)] if what else []
        doubts = [index for index, entry in entries.items() if not seen.may_be(entry, index)]
        note = encode_note(checked.note)
        seen.new += self.store.take(entries, hashes, checkpoint.size, note, alarms, doubts, seen.now)

    def _judge(self, named: Mapping[str, Mapping[_Thing, str]], seen: _Seen) -> list[Alarm]:
        """Decide what is in doubt: by a key of its role after all, or not by one though metadata would know it by now.

        What was logged before a snapshot that was read is by a key that its metadata names, or its metadata never will.
        """
        doubts = self.store.doubts()
        if not doubts:
            return []
        snapshots = {sha256 for things in named.values() for kind, _, _, sha256 in things if kind == "snapshot"}
        newest = max((self.store.snapshot_index(sha256) for sha256 in snapshots), default=-1)
        good: list[int] = []
        wrong: dict[int, Alarm] = {}
        for doubt in doubts:
            if seen.may_be(doubt, doubt.index):
                good.append(doubt.index)
            elif doubt.index < newest or _is_long(doubt.since, seen.now):
                what = f"{_name_of(doubt)} is not by a key of role {_role_of(doubt)}"
                wrong[doubt.index] = _unexpected(doubt.index, what, seen.now)
        return self.store.decide(good, wrong)

    def _tree(self) -> TileBuilder:
        """The tree that was read, to go on from; an empty one where its tiles were not kept yet, to fetch them anew."""
        tree = self.store.tree()
        return tree if tree.size < WIDTH or self.store.has_tiles else TileBuilder()

    def _examined(self, index: int, data: bytes, entries: dict[int, LogEntry]) -> Iterator[str]:
        """Keep an entry among `entries`, and say what is wrong with it, whoever it is by."""
        try:
            entry = known_entry(data)
        except (Malformed, BadSignature) as e:
            yield e.what
            return
        thing = (entry.type, entry.name, entry.ring, entry.version)
        others = [(i, e.sha256) for i, e in entries.items() if (e.type, e.name, e.ring, e.version) == thing]
        for other, sha256 in (*self.store.same_thing(entry), *others):
            if sha256 != entry.sha256 and entry.type in _ONE_MEANING:
                yield f"{_name_of(entry)} means other bytes than in entry {other}"
        entries[index] = entry

    def _look_at_places(self, seen: _Seen) -> int:
        looked: list[tuple[Place, bool]] = []
        for place in self.store.places(seen.now - RECHECK_US, seen.now, PLACES_MOST):
            if place.mirror in self._mirrors and place.mirror not in seen.away:
                looked.append((place, self._is_good(place, seen)))
        self.store.looked(looked, seen.now)
        return len(looked)

    def _is_good(self, place: Place, seen: _Seen) -> bool:
        """Whether a mirror serves just the bytes that an entry names."""
        path = served_path(place.type, place.name, place.version, place.ring, place.sha256)
        where = f"{place.mirror}: {path}"
        try:
            data = self._mirrors[place.mirror].fetch(path, max_length=MAX_SERVED)
        except NotFound:
            if _is_long(place.since, seen.now):
                seen.say("missing", where, f"entry {place.index} names it, and it is not served")
            return False
        except InterlockError as e:
            seen.trust_less(place.mirror, e)
            return False
        good = sha256_hex(data) == place.sha256
        if good:
            seen.good.add(where)
            if place.ring == MEMBERS_RING:
                self._look_at_issuer(place, data, seen)
        else:
            seen.say("changed", where, f"is not what entry {place.index} names")
        return good

    def _look_at_issuer(self, place: Place, data: bytes, seen: _Seen) -> None:
        """Raised at once, in the change that keeps the issuer: a good place is not looked at again before a day."""
        try:
            keys = parse_member_keys(data, where=place.name)
        except (Malformed, BadSignature, BadKey) as e:
            alarm = Alarm("issuer", f"task {place.name}, epoch {place.version}", e.what, seen.now)
            seen.new += [alarm] if self.store.open_once(alarm) else []
            return
        former = [key.text for key in keys.former]
        seen.new += self.store.take_issuer(place.name, keys.issuer.text, place.index, former, seen.now)

    def _named(self, name: str, seen: _Seen) -> dict[_Thing, str] | None:
        """What a mirror's metadata names and the log must have: (type, name, ring, SHA-256) -> where it stands.

        None where it could not be read.
        """
        with seen.trouble(name):
            place = self._home / "tuf" / name
            with refreshed(place, self._mirrors[name], bootstrap=self._pins.root, now_us=seen.now) as view:
                found = dict(_things(view))
                for role in _ROLES:
                    seen.keys[role] = view.speakers(role).with_those_of(seen.keys.get(role))
            return found
        return None

    def _demand_logged(self, mirror: str, things: Mapping[_Thing, str], seen: _Seen) -> None:
        seen.held.add(mirror)
        for (kind, thing, ring, sha256), where in things.items():
            if not self.store.holds(kind, thing, ring, sha256):
                seen.say("unlogged", f"{mirror}: {where}", f"is signed, and no entry of type {kind} stands for it")


# Types whose key metadata tells, and the role; a reviewer's and an author's key it does not tell.
_ROLE_OF: Final = {"snapshot": "snapshot", "root": "snapshot", "task": CATALOG_RING, "operators": "snapshot"}
_ROLES: Final = ("targets", "snapshot", *DELEGATIONS)
# What has one meaning a version; a gate may run twice, and two reviewers speak of one version.
_ONE_MEANING: Final = frozenset({"pack", "promote", "snapshot", "root", "task", "operators"})


class _Seen:
    """What one pass saw: alarms, and what was looked at and found well, so that only that ends an alarm."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.alarms: list[Alarm] = []
        self.keys: dict[str, Speakers] = {}  # of each role, as any mirror's metadata has them
        self.new: list[Alarm] = []  # those that are on record already
        self.trouble_at: set[str] = set()  # mirrors
        self.away: set[str] = set()  # mirrors that do not answer: not asked again in this pass
        self.held: set[str] = set()  # mirrors whose metadata was held against the log
        self.good: set[str] = set()  # places that serve what they should

    def say(self, kind: str, where: str, what: str) -> None:
        self.alarms.append(Alarm(kind, where, what, self.now))

    def may_be(self, entry: LogEntry | Doubt, index: int) -> bool:
        """Whether an entry is by a key of its role, or of a role whose keys metadata does not tell."""
        keys = self.keys.get(_role_of(entry))
        return keys is None or keys.may_say(entry.by, index)

    def trust_less(self, mirror: str, error: InterlockError) -> None:
        self.say("mirror", mirror, error.what)
        self.trouble_at.add(mirror)
        if isinstance(error, Unreachable):
            self.away.add(mirror)

    def well(self, alarm: Alarm) -> bool:
        """Whether the cause of an alarm that was not raised again is gone."""
        if alarm.kind in ("missing", "changed"):
            return alarm.where in self.good
        if alarm.kind == "unlogged":
            return alarm.where.partition(":")[0] in self.held
        return alarm.kind == "mirror" and alarm.where not in self.trouble_at

    def trouble(self, mirror: str) -> _Trouble:
        """Within it, an error of ours is an alarm on the mirror; two histories are one on the log."""
        return _Trouble(self, mirror)


class _Trouble:
    def __init__(self, seen: _Seen, mirror: str) -> None:
        self._seen, self._mirror = seen, mirror

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: object, _trace: object) -> bool:
        if isinstance(error, SplitView):
            self._seen.say("split-view", error.evidence.origin, error.what)
        elif isinstance(error, InterlockError):
            self._seen.trust_less(self._mirror, error)
        return isinstance(error, InterlockError)


def _is_long(since: int, now: int) -> bool:
    """Whether it is longer than a publish takes; and where the clock was set back behind `since`, nobody can tell."""
    return abs(now - since) > GRACE_US


def _unexpected(index: int, what: str, now: int) -> Alarm:
    return Alarm("unexpected", f"entry {index}", one_line(what), now)


def _name_of(entry: LogEntry | Doubt) -> str:
    return f"{entry.type} {entry.name}@{entry.ring} version {entry.version}"


def _role_of(entry: LogEntry | Doubt) -> str:
    """The role whose key an entry must be by; "" where that is not for metadata to say (a reviewer, an author)."""
    if entry.type in ("pack", "gate", "promote"):
        return role_of_pack(entry.ring, kind_of(entry.name))
    return _ROLE_OF.get(entry.type, "")


def _things(view: View) -> Iterator[tuple[_Thing, str]]:
    """The targets and the snapshot of a view, as the log would name them."""
    for path, info in view.listed().items():
        sha256 = str(info.hashes.get("sha256"))
        match path.removesuffix(".json").split("/") if path.endswith(".json") else []:
            case ["packs", ring, name, _]:
                yield ("pack", name, ring, sha256), path
            case ["catalogs", name]:
                yield ("task", name, CATALOG_RING, sha256), path
            case ["tasks", name] if name.endswith(".withdrawn"):
                yield ("task", name.removesuffix(".withdrawn"), WITHDRAWN_RING, sha256), path
            case ["tasks", name]:
                yield ("task", name, DAP_RING, sha256), path
            case ["members", name, epoch]:
                yield ("task", name, COUNTS_RING if epoch.endswith(".count") else MEMBERS_RING, sha256), path
            case _ if path == OPERATORS_PATH:
                yield ("operators", "operators", "targets", sha256), path
    snapshot = f"{view.snapshot_version}.snapshot.json"
    yield ("snapshot", "snapshot", "snapshot", sha256_hex(view.metadata()[snapshot])), f"metadata/{snapshot}"
