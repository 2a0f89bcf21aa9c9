"""A monitor: silent over a commons that does what its log says, with an alarm of its own for whatever does not fit."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.base.fetch import DirectoryFetcher, Fetcher, NotFound, Unreachable
from interlock.base.keys import Ed25519Signer
from interlock.commons.keyring import make_next
from interlock.commons.monitor import GRACE_US, Looked, Monitor
from interlock.commons.pins import init_node
from interlock.commons.signers import read_key
from interlock.transparency.entry import signed_entry
from interlock.transparency.log import open_log
from interlock.transparency.merkle import tree_root
from interlock.transparency.note import NoteSigner
from interlock.transparency.tiles import TileReader
from tests.unit.commons_world import ORIGIN, TestLog, World, log_policy, pack, seed, sign_past_the_log, world
from tests.unit.test_commons_rekey import with_keys


class Place:
    """A mirror's files, some of which are gone or others, or the whole of which does not answer."""

    def __init__(self, fetcher: Fetcher) -> None:
        self.fetcher = fetcher
        self.down = False
        self.instead: dict[str, bytes | None] = {}

    def fetch(self, path: str, *, max_length: int) -> bytes:
        if self.down:
            raise Unreachable("does not answer", where=path)
        if path not in self.instead:
            return self.fetcher.fetch(path, max_length=max_length)
        data = self.instead[path]
        if data is None:
            raise NotFound("is not there", where=path)
        return data


class Watched:
    """A commons, two mirrors of it, and a monitor."""

    def __init__(self, commons: World) -> None:
        self.commons = commons
        self.mirrors = {name: commons.mirror(name) for name in ("east", "west")}
        self.copy()
        self.places = {name: Place(DirectoryFetcher(m.public)) for name, m in self.mirrors.items()}
        self.monitor = self.again()

    def again(self) -> Monitor:
        pins = init_node(self.commons.home / "monitor-pins", log_policy=log_policy(), root=self.commons.root)
        return Monitor(self.commons.home / "monitor", pins, self.places, self.commons.clock)

    def copy(self) -> None:
        for mirror in self.mirrors.values():
            mirror.copy()

    def log(self, *entries: bytes) -> None:
        """Put entries into the log, and whatever a publish needs after them."""
        for entry in entries:
            self.commons.log.append(entry)
        self.copy()

    def look(self, after_us: int = 0) -> Looked:
        self.commons.clock.advance(after_us / 1_000_000)
        return self.monitor.look()

    def unexpected(self, after_us: int = 0) -> list[str]:
        """What is said of unexpected entries in alarms that are new."""
        return [alarm.what for alarm in self.look(after_us).new if alarm.kind == "unexpected"]

    def kinds(self, after_us: int = 0) -> list[str]:
        return sorted(alarm.kind for alarm in self.look(after_us).open)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    with world(tmp_path) as commons:
        commons.publisher.publish(pack(1), "canary")
        made = Watched(commons)
        yield made
        made.monitor.close()


def target(version: int) -> str:
    return f"targets/packs/canary/team/{pack(version).digest}.{version}.json"


def test_a_commons_that_does_what_its_log_says_raises_no_alarm(watched: Watched) -> None:
    first = watched.look()
    assert (first.open, first.new) == ((), ())
    assert first.tree_size == watched.commons.log.log.size
    assert first.places >= 2 * 2
    watched.commons.publisher.publish(pack(2), "canary")
    watched.copy()
    assert watched.look(GRACE_US + 1).open == ()
    assert watched.look().places == 0


def test_bytes_that_are_not_served_are_missing_after_the_grace_and_only_at_that_mirror(watched: Watched) -> None:
    watched.places["east"].instead[target(1)] = None
    assert watched.kinds() == []
    (alarm,) = watched.look(GRACE_US + 1).new
    assert (alarm.kind, alarm.where) == ("missing", f"east: {target(1)}")
    again = watched.look()
    assert (again.new, len(again.open)) == ((), 1)
    watched.places["east"].instead.clear()
    assert watched.kinds() == []
    assert [a.closed is not None for a in watched.monitor.store.alarms()] == [True]


def test_other_bytes_in_place_of_those_that_were_logged_are_told_of(watched: Watched) -> None:
    watched.places["west"].instead[target(1)] = b"{}"
    assert watched.kinds() == ["changed"]
    watched.places["west"].instead.clear()
    assert watched.kinds() == []


def test_bytes_that_were_good_are_looked_at_again_and_their_change_is_told_of(watched: Watched) -> None:
    assert watched.kinds() == []
    watched.places["west"].instead[target(1)] = b"{}"
    assert watched.kinds() == []
    kinds = watched.kinds(24 * 3600 * 1_000_000 + 1)
    assert kinds == ["changed", "mirror", "mirror"], "a day later the timestamps have ended too"


def test_a_mirror_that_is_added_later_is_asked_for_all_that_was_read_before(watched: Watched) -> None:
    watched.commons.publisher.publish(pack(2), "canary")
    watched.copy()
    watched.look()
    late = watched.commons.mirror("north")
    late.copy()
    watched.places["north"] = Place(DirectoryFetcher(late.public))
    watched.places["north"].instead[target(1)] = b"{}"
    watched.monitor.close()
    watched.monitor = watched.again()
    looked = watched.look()
    assert [(a.kind, a.where) for a in looked.open] == [("changed", f"north: {target(1)}")]
    assert looked.places > 2 * 2
    watched.places["north"].instead.clear()
    assert watched.look(GRACE_US + 1).open == ()


def test_a_mirror_that_is_named_no_more_is_looked_at_no_more_and_hides_nothing(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.commons.monitor.PLACES_MOST", 2)
    watched.places["north"] = Place(DirectoryFetcher(watched.mirrors["east"].public))
    watched.places["north"].down = True
    watched.monitor.close()
    watched.monitor = watched.again()
    watched.look()
    del watched.places["north"]
    watched.monitor.close()
    watched.monitor = watched.again()
    watched.places["east"].instead[target(1)] = b"{}"
    for _ in range(20):
        watched.look()
    assert watched.kinds() == ["changed"]


def test_a_mirror_that_gives_another_reason_each_time_has_one_alarm(watched: Watched) -> None:
    for i in range(10):
        watched.places["east"].instead["log/checkpoint"] = f"hostile {i}\n1\nAAAA\n\nx".encode()
        watched.places["east"].instead["metadata/timestamp.json"] = b"{%d" % i
        assert watched.kinds() == ["mirror"]
        watched.places["east"].instead["log/checkpoint"] = f"log.example/{i}\n{i}\n\n— x AAAAAAAA\n".encode()
        assert watched.kinds() == ["mirror"]
    assert len(watched.monitor.store.alarms()) == 1
    watched.places["east"].instead.clear()
    assert watched.kinds() == []


def test_the_tiles_of_the_whole_tree_are_kept(watched: Watched) -> None:
    watched.log(*(b"junk %d" % i for i in range(300)))
    watched.look()
    log, store = watched.commons.log.log, watched.monitor.store
    for size in (1, 255, 256, 257, log.size):
        assert tree_root(size, TileReader(store.size, store.tile)) == log.checkpoint_at(size).root


def test_a_monitor_of_before_keeps_its_alarms_and_fetches_the_tiles_that_it_had_not_kept(watched: Watched) -> None:
    watched.log(*(b"junk %d" % i for i in range(300)))
    watched.look()
    opened = watched.monitor.store.alarms()
    watched.monitor.close()
    _to_version_2(watched.commons.home / "monitor" / "monitor.sqlite")
    watched.monitor = watched.again()
    assert watched.monitor.store.alarms() == opened
    watched.log(b"one more")
    looked = watched.look()
    assert [alarm.where for alarm in looked.new] == [f"entry {watched.commons.log.log.size - 1}"]
    log, store = watched.commons.log.log, watched.monitor.store
    assert tree_root(3, TileReader(store.size, store.tile)) == log.checkpoint_at(3).root


def _to_version_2(path: Path) -> None:
    """Make of a monitor's file what the version before would have written."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(
            "CREATE TABLE tree (level INTEGER PRIMARY KEY, idx INTEGER NOT NULL, width INTEGER NOT NULL,"
            " hashes BLOB NOT NULL) STRICT;"
            "INSERT INTO tree SELECT level, idx, length(hashes) / 32, hashes FROM tile WHERE length(hashes) < 8192;"
            "DROP TABLE tile; DROP TABLE mirror; DROP TABLE doubt; DROP TABLE issuer;"
            "ALTER TABLE state DROP COLUMN note;"
            "ALTER TABLE alarm RENAME TO old; CREATE TABLE alarm (kind TEXT NOT NULL, place TEXT NOT NULL,"
            " what TEXT NOT NULL, since INTEGER NOT NULL, closed INTEGER, PRIMARY KEY (kind, place, what))"
            " STRICT, WITHOUT ROWID; INSERT INTO alarm SELECT * FROM old; DROP TABLE old; PRAGMA user_version = 2;"
        )


def test_a_mirror_that_does_not_answer_is_told_of_until_it_does(watched: Watched) -> None:
    watched.places["east"].down = True
    assert watched.kinds() == ["mirror"]
    watched.places["east"].down = False
    assert watched.kinds() == []


def test_an_alarm_does_not_end_because_its_mirror_goes_away(watched: Watched) -> None:
    watched.places["east"].instead[target(1)] = b"{}"
    assert watched.kinds() == ["changed"]
    watched.places["east"].down = True
    assert watched.kinds() == ["changed", "mirror"]


@pytest.mark.parametrize("junk", [b"no entry at all", b'{"v":1}'])
def test_an_entry_of_no_known_kind_is_unexpected(watched: Watched, junk: bytes) -> None:
    watched.log(junk)
    assert watched.kinds() == ["unexpected"]


def test_an_entry_whose_signature_does_not_verify_is_unexpected(watched: Watched) -> None:
    good = signed_entry(seed("x"), type="gate", name="team", version=1, ring="beta", sha256="ab" * 32, at=1)
    watched.log(good.data.replace(b'"version":1', b'"version":2'))
    assert watched.kinds() == ["unexpected"]


def test_a_second_meaning_of_a_version_is_unexpected_whether_read_at_once_or_later(watched: Watched) -> None:
    stable = (seed("commons canary"), "pack", "other", "canary")
    two = [
        signed_entry(stable[0], type=stable[1], name=stable[2], version=7, ring=stable[3], sha256=d * 32, at=1).data
        for d in ("aa", "bb", "cc")
    ]
    watched.log(*two[:2])
    told = [a.what for a in watched.look().open if "other bytes" in a.what]
    assert len(told) == 1
    watched.log(two[2])
    counts = sorted(a.what.count("other bytes") for a in watched.look().open if "other bytes" in a.what)
    assert counts == [1, 2], "one alarm an entry, whatever is said of it"


def test_an_entry_by_a_key_of_another_role_is_unexpected_from_the_first_entry_on(watched: Watched) -> None:
    def gate(name: str) -> bytes:
        return signed_entry(
            seed("thief"), type="gate", name=name, version=1, ring="canary", sha256="ab" * 32, at=1
        ).data

    told = "gate {}@canary version 1 is not by a key of role canary"
    watched.log(gate("before"))
    assert watched.unexpected() == [], "a key may have been replaced since metadata was read"
    assert watched.unexpected(GRACE_US + 1) == [told.format("before")]
    watched.log(gate("after"))
    watched.look()
    assert watched.unexpected(GRACE_US + 1) == [told.format("after")]
    watched.log(gate("third"))
    watched.commons.publisher.publish(pack(2), "canary")  # metadata whose snapshot was logged later has its keys
    watched.copy()
    assert watched.unexpected() == [told.format("third")]
    assert watched.monitor.store.doubts() == []
    assert watched.kinds().count("unexpected") == 3, "and stay"


def test_a_monitor_that_begins_after_keys_were_replaced_finds_nothing_unexpected(watched: Watched) -> None:
    commons = watched.commons
    for number, role in enumerate(("canary", "stable", "canary")):
        file = commons.home / "commons" / "keys" / f"{role}.key"
        commons.publisher.publish(pack(number + 2), "canary")
        commons.publisher.rotate(role, make_next(file, lambda size, n=number: seed(f"next {n}").seed[:size]))  # type: ignore[misc]
    watched.copy()
    assert watched.kinds() == []


def test_a_key_that_was_rotated_between_two_passes_is_no_alarm_for_what_it_logged_before(watched: Watched) -> None:
    def gate(name: str, key: Ed25519Signer) -> bytes:
        return signed_entry(key, type="gate", name=name, version=1, ring="canary", sha256="ab" * 32, at=1).data

    commons, file = watched.commons, watched.commons.home / "commons" / "keys" / "canary.key"
    old = read_key(file)
    assert watched.kinds() == []
    commons.publisher.publish(pack(2), "canary")
    commons.publisher.rotate("canary", make_next(file, lambda size: seed("next canary").seed[:size]))
    commons.publisher.publish(pack(3), "canary")
    watched.copy()
    assert watched.kinds() == []
    watched.log(gate("late", old))  # its time is over: what it says from now on is somebody else's word
    watched.look()
    assert watched.unexpected(GRACE_US + 1) == ["gate late@canary version 1 is not by a key of role canary"]


class Between(Place):
    """A mirror at which something happens as the log is asked for the first time."""

    def __init__(self, fetcher: Fetcher, happens: Callable[[], None]) -> None:
        super().__init__(fetcher)
        self.happens: Callable[[], None] | None = happens

    def fetch(self, path: str, *, max_length: int) -> bytes:
        if path.startswith("log/") and self.happens is not None:
            happens, self.happens = self.happens, None
            happens()
        return super().fetch(path, max_length=max_length)


@pytest.mark.parametrize("role", ["canary", "snapshot"])
def test_a_key_that_is_replaced_between_metadata_and_log_of_one_pass_raises_no_alarm(
    watched: Watched, role: str
) -> None:
    """The list without the new key, then what the new key signed."""
    commons, file = watched.commons, watched.commons.home / "commons" / "keys" / f"{role}.key"
    assert watched.kinds() == []

    def rotate() -> None:
        if role == "snapshot":
            made = with_keys(commons, role)
            commons.publisher.install_root(made.root, made.transcript)
        else:
            commons.publisher.rotate(role, make_next(file, lambda size: seed("next").seed[:size]))
        commons.publisher.publish(pack(2), "canary")
        watched.copy()

    watched.places["east"] = Between(DirectoryFetcher(watched.mirrors["east"].public), rotate)
    watched.monitor.close()
    watched.monitor = watched.again()
    assert "unexpected" not in watched.kinds()
    assert {doubt.by for doubt in watched.monitor.store.doubts()} == {read_key(file).verifier.text}
    assert watched.kinds() == []
    assert watched.monitor.store.doubts() == []
    assert watched.kinds(GRACE_US + 1) == []


def test_a_key_that_was_replaced_after_it_signed_what_no_pass_has_read_yet_raises_no_alarm(watched: Watched) -> None:
    """The new list, then what the old key had signed last: its word counts up to where it ended."""
    commons, file = watched.commons, watched.commons.home / "commons" / "keys" / "canary.key"
    assert watched.kinds() == []
    commons.publisher.publish(pack(2), "canary")
    commons.publisher.rotate("canary", make_next(file, lambda size: seed("next").seed[:size]))
    watched.copy()
    assert watched.kinds() == []
    assert watched.monitor.store.doubts() == []


def test_a_doubt_outlives_the_monitor_and_is_decided_by_the_next_one(watched: Watched) -> None:
    watched.kinds()
    thief = signed_entry(seed("thief"), type="gate", name="g", version=1, ring="canary", sha256="ab" * 32, at=1)
    watched.log(thief.data)
    assert watched.kinds() == []
    watched.monitor.close()
    watched.monitor = watched.again()
    assert watched.unexpected(GRACE_US + 1) == ["gate g@canary version 1 is not by a key of role canary"]
    assert "unexpected" in watched.kinds(GRACE_US + 1), "and stays"


def test_a_log_that_shows_two_mirrors_two_histories_is_caught(watched: Watched, tmp_path: Path) -> None:
    assert watched.kinds() == []
    commons = watched.commons
    with open_log(tmp_path / "fork", NoteSigner(ORIGIN, seed("log"))) as fork:
        forked = TestLog(fork, tmp_path / "fork", commons.clock)
        for i in range(commons.log.log.size + 3):
            forked.append(b"another history %d" % i)
        watched.places["west"].instead |= {
            f"log/{path.relative_to(forked.public)}": path.read_bytes()
            for path in forked.public.rglob("*")
            if path.is_file()
        }
        assert "split-view" in watched.kinds()
        assert list((commons.home / "monitor" / "evidence").iterdir())
        watched.places["west"].instead.clear()
        assert "split-view" in watched.kinds()


def test_a_mirror_that_lags_is_no_alarm_until_what_is_new_is_missing_there(watched: Watched) -> None:
    assert watched.kinds() == []
    watched.commons.publisher.publish(pack(2), "canary")
    watched.mirrors["east"].copy()
    for _ in range(3):
        assert watched.kinds() == []
    assert set(watched.kinds(GRACE_US + 1)) == {"missing"}
    watched.mirrors["west"].copy()
    assert watched.kinds() == []


def test_a_second_history_that_is_shorter_is_caught_though_only_others_have_the_tiles(
    watched: Watched, tmp_path: Path
) -> None:
    commons = watched.commons
    past = [commons.log.log.entry(i) for i in range(commons.log.log.size)]
    commons.publisher.publish(pack(2), "canary")
    watched.copy()
    assert watched.kinds() == []
    with open_log(tmp_path / "fork", NoteSigner(ORIGIN, seed("log"))) as fork:
        fork.append([*past, b"another history"])
        fork.publish(fork.integrate())
        assert fork.published is not None
        watched.places["west"].instead["log/checkpoint"] = fork.published
    assert watched.kinds() == ["split-view"], "the log's signature is enough, without a witness"
    assert list((commons.home / "monitor" / "evidence").iterdir())


def test_no_name_of_a_target_stops_a_monitor(watched: Watched) -> None:
    sign_past_the_log(
        watched.commons, "catalogs.json", "packs.json", "members.json", "packs/x", "members/x.json", "log-policy"
    )
    watched.copy()
    assert watched.kinds() == []


def test_what_is_unlogged_stays_so_while_a_mirror_hides_the_log(watched: Watched) -> None:
    sign_past_the_log(watched.commons, "operators.json")
    watched.copy()
    assert watched.kinds() == ["unlogged", "unlogged"]
    for place in watched.places.values():
        place.instead["log/checkpoint"] = None
    assert watched.kinds() == ["mirror", "mirror", "unlogged", "unlogged"]
    for place in watched.places.values():
        del place.instead["log/checkpoint"]
    assert watched.kinds() == ["unlogged", "unlogged"]


def test_entries_wait_until_metadata_says_whose_keys_they_may_be_by(watched: Watched) -> None:
    assert watched.kinds() == []
    thief = signed_entry(seed("thief"), type="gate", name="x", version=1, ring="canary", sha256="ab" * 32, at=1)
    watched.log(thief.data)
    for place in watched.places.values():
        place.instead["metadata/timestamp.json"] = None
    assert watched.kinds() == ["mirror", "mirror"]
    for place in watched.places.values():
        del place.instead["metadata/timestamp.json"]
    assert (watched.unexpected(), len(watched.unexpected(GRACE_US + 1))) == ([], 1)


def test_what_a_monitor_knows_survives_its_end(watched: Watched) -> None:
    watched.log(b"junk")
    assert watched.kinds() == ["unexpected"]
    watched.monitor.close()
    watched.monitor = watched.again()
    watched.commons.publisher.publish(pack(2), "canary")
    watched.copy()
    looked = watched.look()
    assert [a.kind for a in looked.open] == ["unexpected"]
    assert looked.new == ()
    assert looked.tree_size == watched.commons.log.log.size


def test_no_number_of_entries_without_bytes_hides_the_others(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.commons.monitor.PLACES_MOST", 4)
    key = seed("commons canary")
    watched.log(
        *(
            signed_entry(key, type="gate", name="team", version=i, ring="beta", sha256=f"{i:064x}", at=1).data
            for i in range(1, 20)
        )
    )
    watched.commons.publisher.publish(pack(2), "canary")
    watched.copy()
    watched.places["east"].instead[target(2)] = b"{}"
    for _ in range(40):
        if any(a.kind == "changed" for a in watched.look().open):
            break
    else:
        pytest.fail("the changed pack was never looked at")


def test_a_monitor_asks_for_two_mirrors(watched: Watched, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="two mirrors"):
        Monitor(
            watched.commons.home / "m", watched.monitor._pins, {"one": watched.places["east"]}, watched.commons.clock
        )
