"""Two snapshots cannot be split between two readers: each is refused by its own error, and nothing of it is kept."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tuf.api.metadata import Metadata, MetaFile, Snapshot, Timestamp  # type: ignore[attr-defined]

from interlock.base.errors import InterlockError
from interlock.base.fetch import DirectoryFetcher, Fetcher
from interlock.base.files import BadState
from interlock.commons import newest
from interlock.commons.layout import snapshot_files
from interlock.commons.logged import NotLogged
from interlock.commons.newest import Commons, NotNewest, Place
from interlock.commons.pack import sha256_hex
from interlock.commons.signers import RoleSigner, load_keys
from interlock.transparency.entry import signed_entry
from interlock.transparency.follow import LogView
from interlock.transparency.merkle import BadProof
from interlock.transparency.tiles import decode_bundle, encode_bundle
from tests.unit.commons_world import World, pack, seed, world


@pytest.fixture
def commons(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


class Reader:
    """One node's reading of the commons, or of what it is shown in its place."""

    def __init__(self, commons: World, name: str = "reader") -> None:
        self.commons = commons
        self.home = commons.home / name
        self.asked: list[str] = []
        self.log = LogView(self.home / "log", commons.policy, commons.clock)

    def reads(self, public: Path | None = None, log: Fetcher | None = None) -> Place:
        self.asked.clear()
        found = Commons(
            self.home / "tuf",
            self.home / "newest.json",
            root=self.commons.root,
            policy=self.commons.policy,
            log=self.log,
            fetcher=Noting(DirectoryFetcher(public or self.commons.public), self.asked),
            log_fetcher=Noting(log or DirectoryFetcher(self.commons.log.public), self.asked),
        )
        with found.current(self.commons.clock.now_us()) as now:
            assert now.place.version == now.view.snapshot_version
            return now.place

    def refuses(self, error: type[InterlockError], match: str, public: Path | None = None) -> None:
        before = self.trusted
        with pytest.raises(error, match=match):
            self.reads(public)
        assert self.trusted == before

    @property
    def trusted(self) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in (self.home / "tuf").glob("gen-*/*.json")}


class Noting:
    """A fetcher that notes what was asked for."""

    def __init__(self, inner: Fetcher, asked: list[str]) -> None:
        self._inner = inner
        self._asked = asked

    def fetch(self, path: str, *, max_length: int) -> bytes:
        self._asked.append(path)
        return self._inner.fetch(path, max_length=max_length)


class Thief:
    """Has the keys of snapshot and timestamp, and a copy of the commons to show to others."""

    def __init__(self, commons: World, name: str = "thief") -> None:
        self.commons = commons
        self.public = commons.home / name
        shutil.copytree(commons.public, self.public)
        keys = load_keys(commons.home / "commons" / "keys", ("snapshot", "timestamp"))
        self.keys: dict[str, RoleSigner] = keys

    def snapshot(self, version: int, *, days: int = 0) -> bytes:
        """A snapshot of the roles that are there, which `days` makes another one than its like."""
        md = self._read(max(self._versions()), Snapshot)
        md.signed.version = version
        md.signed.expires = md.signed.expires.replace(second=(md.signed.expires.second + days) % 60)
        md.sign(self.keys["snapshot"])
        data: bytes = md.to_bytes()
        (self.public / "metadata" / f"{version}.snapshot.json").write_bytes(data)
        return data

    def timestamp(self, version: int, snapshot: bytes, snapshot_version: int) -> None:
        md = Metadata[Timestamp].from_file(str(self.public / "metadata" / "timestamp.json"))
        md.signed.version = version
        md.signed.snapshot_meta = MetaFile.from_data(snapshot_version, snapshot, ["sha256"])
        md.sign(self.keys["timestamp"])
        md.to_file(str(self.public / "metadata" / "timestamp.json"))

    def log(self, data: bytes, version: int, by: RoleSigner | None = None, name: str = "snapshot") -> None:
        """Log a snapshot as the commons would, and put entry and proof beside it."""
        entry = signed_entry(
            (by or self.keys["snapshot"]).key,
            type="snapshot",
            name=name,
            version=version,
            ring="snapshot",
            sha256=sha256_hex(data),
            at=self.commons.clock.now_us(),
        )
        files = zip(snapshot_files(version), (entry.data, self.commons.log.append(entry.data)), strict=True)
        for path, content in files:
            (self.public / path).write_bytes(content)

    def _versions(self) -> list[int]:
        return [int(p.name.split(".")[0]) for p in (self.public / "metadata").glob("*.snapshot.json")]

    def _read(self, version: int, kind: type[Snapshot]) -> Metadata[Snapshot]:
        found = Metadata[Snapshot].from_file(str(self.public / "metadata" / f"{version}.snapshot.json"))
        assert isinstance(found.signed, kind)
        return found


def _shown(commons: World, version: int, name: str = "thief") -> tuple[Thief, bytes]:
    """A thief's copy in which the timestamp names a snapshot of the thief's, in no log."""
    thief = Thief(commons, name)
    data = thief.snapshot(version)
    thief.timestamp(version, data, version)
    return thief, data


def test_a_snapshot_is_taken_with_its_place_in_the_log(commons: World) -> None:
    commons.publisher.publish(pack(), "stable")
    place = Reader(commons).reads()
    assert (place.version, place.tree_size) == (2, commons.log.log.size)
    assert place.index == place.tree_size - 1


def test_a_poll_with_nothing_new_asks_for_three_files(commons: World) -> None:
    reader = Reader(commons)
    first = reader.reads()
    assert reader.reads() == first
    assert reader.asked == ["metadata/2.root.json", "metadata/timestamp.json", "checkpoint"]


def test_a_log_that_grew_is_read_from_where_the_last_reading_ended(commons: World) -> None:
    reader = Reader(commons)
    first = reader.reads()
    commons.log.append(b"another's entry")
    again = reader.reads()
    assert (again.index, again.tree_size) == (first.index, first.tree_size + 1)
    assert [path for path in reader.asked if path.startswith("metadata/1.snapshot")] == []


def test_a_snapshot_that_is_in_no_log_is_refused(commons: World) -> None:
    reader = Reader(commons)
    reader.reads()
    thief, _ = _shown(commons, 2)
    reader.refuses(NotLogged, "has no proof of the pinned log", thief.public)


def test_a_fast_forward_by_stolen_online_keys_leaves_the_next_honest_snapshot_acceptable(commons: World) -> None:
    reader = Reader(commons)
    reader.reads()
    thief, _ = _shown(commons, 1 << 30)
    reader.refuses(NotLogged, "has no proof of the pinned log", thief.public)
    commons.publisher.publish(pack(), "stable")
    assert reader.reads().version == 2


def test_a_fast_forward_whose_snapshot_is_withheld_is_not_kept_either(commons: World) -> None:
    reader = Reader(commons)
    reader.reads()
    thief, _ = _shown(commons, 1 << 30)
    (thief.public / "metadata" / f"{1 << 30}.snapshot.json").unlink()
    with pytest.raises(InterlockError, match="misses a file"):
        reader.reads(thief.public)
    commons.publisher.publish(pack(), "stable")
    assert reader.reads().version == 2


def test_of_two_logged_snapshots_nobody_is_left_with_the_first(commons: World) -> None:
    readers = Reader(commons, "one"), Reader(commons, "two")
    for reader in readers:
        reader.reads()
    (first, a), (second, _) = _shown(commons, 2, "first"), _shown(commons, 2, "second")
    first.log(a, 2)
    b = second.snapshot(2, days=1)
    second.timestamp(2, b, 2)
    second.log(b, 2)
    readers[0].refuses(NotNewest, "the log has another at index", first.public)
    assert readers[1].reads(second.public).version == 2


def test_who_took_the_first_of_two_logged_snapshots_refuses_it_once_the_log_grows(commons: World) -> None:
    reader = Reader(commons)
    first, a = _shown(commons, 2, "first")
    first.log(a, 2)
    assert reader.reads(first.public).sha256 == sha256_hex(a)
    second, _ = _shown(commons, 3, "second")
    second.log(second.snapshot(3, days=1), 3)
    reader.refuses(NotNewest, "the log has another at index", first.public)


def test_a_later_snapshot_of_a_key_that_this_reader_does_not_know_ends_the_earlier_one_too(commons: World) -> None:
    reader = Reader(commons)
    reader.reads()
    thief = Thief(commons)
    thief.log(b"a snapshot under another root", 2, by=RoleSigner(seed("next snapshot key")))
    reader.refuses(NotNewest, "the log has another at index")


def test_what_nobody_signed_ends_no_snapshot(commons: World) -> None:
    reader = Reader(commons)
    first = reader.reads()
    thief = Thief(commons)
    entry, _ = (thief.public / path for path in snapshot_files(1))
    body = json.loads(entry.read_bytes())
    body["version"] = 9
    commons.log.append(json.dumps(body, separators=(",", ":"), sort_keys=True).encode())
    assert reader.reads().index == first.index


@pytest.mark.parametrize("bent", ["version", "bytes", "key", "name"])
def test_an_entry_of_something_else_is_no_entry_of_this_snapshot(commons: World, bent: str) -> None:
    reader = Reader(commons)
    reader.reads()
    thief, data = _shown(commons, 2)
    makers: dict[str, Callable[[], None]] = {
        "version": lambda: thief.log(data, 2),
        "bytes": lambda: thief.log(b"others", 2),
        "key": lambda: thief.log(data, 2, by=RoleSigner(seed("a stranger"))),
        "name": lambda: thief.log(data, 2, name="other"),
    }
    makers[bent]()
    if bent == "version":
        for old, new in zip(snapshot_files(1), snapshot_files(2), strict=True):
            shutil.copy(thief.public / old, thief.public / new)
    match = "by a key that is not" if bent == "key" else "entry of something else"
    reader.refuses(NotLogged, match, thief.public)


def test_a_proof_of_another_entry_is_refused(commons: World) -> None:
    reader = Reader(commons)
    reader.reads()
    thief, data = _shown(commons, 2)
    thief.log(data, 2)
    shutil.copy(thief.public / snapshot_files(1)[1], thief.public / snapshot_files(2)[1])
    reader.refuses(NotLogged, "has no proof of the pinned log", thief.public)


class Meanwhile:
    """A commons' files, of which the first reading of the checkpoint comes while a publish is under way."""

    def __init__(self, commons: World, publish: Callable[[], object]) -> None:
        self._log = DirectoryFetcher(commons.log.public)
        self._publish = publish
        self._waits = True

    def fetch(self, path: str, *, max_length: int) -> bytes:
        if path == "checkpoint" and self._waits:
            self._waits = False
            self._publish()
        return self._log.fetch(path, max_length=max_length)


def test_a_publish_under_way_makes_a_reader_ask_once_more_and_no_more(commons: World) -> None:
    reader = Reader(commons)
    reader.reads()
    place = reader.reads(log=Meanwhile(commons, lambda: commons.publisher.publish(pack(), "stable")))
    assert place.version == 2
    assert reader.asked.count("metadata/timestamp.json") == 2


def test_entries_that_do_not_belong_to_the_tree_are_refused(commons: World) -> None:
    reader = Reader(commons)
    reader.reads()
    commons.log.append(b"one")

    class Bent(DirectoryFetcher):
        def fetch(self, path: str, *, max_length: int) -> bytes:
            data = super().fetch(path, max_length=max_length)
            if path.startswith("tile/entries"):
                entries = decode_bundle(data, int(path.rpartition("/")[2]))
                return encode_bundle([*entries[:-1], b"two"])
            return data

    with pytest.raises(BadProof, match="not those of the tree"):
        reader.reads(log=Bent(commons.log.public))


def test_a_snapshot_too_far_behind_is_refused(commons: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest, "MAX_BEHIND", 3)
    reader = Reader(commons)
    for i in range(3):
        commons.log.append(b"%d" % i)
    reader.reads()
    commons.log.append(b"one more")
    reader.refuses(NotNewest, "more than 3 entries behind")


def test_a_mirror_that_has_not_the_older_forms_of_a_tile_will_do(commons: World) -> None:
    reader = Reader(commons)
    for i in range(300):
        commons.log.log.append([b"%d" % i])
    commons.log.append(b"last")
    shutil.copytree(commons.log.public, commons.home / "pruned")
    for folder in (commons.home / "pruned" / "tile").rglob("*.p"):
        widest = max(folder.iterdir(), key=lambda p: int(p.name))
        for path in folder.iterdir():
            if path != widest:
                path.unlink()
    log = DirectoryFetcher(commons.home / "pruned")
    assert reader.reads(log=log).tree_size == commons.log.log.size


@pytest.mark.parametrize(
    "body",
    ["{}", '{"format": "interlock-newest", "v": 1}', '{"format": "interlock-newest", "v": 1, "origin": 3}'],
)
def test_a_damaged_note_of_the_place_is_said(commons: World, body: str) -> None:
    reader = Reader(commons)
    reader.reads()
    (reader.home / "newest.json").write_text(body)
    with pytest.raises(BadState):
        reader.reads()
