"""A mirror's copy: checked whole, grown by what is new, and at every moment one state of the commons and its log."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.fetch import DirectoryFetcher, Fetcher
from interlock.base.files import NotWritable, replace
from interlock.commons.layout import record_files
from interlock.commons.mirror import Mirror
from interlock.commons.pack import sha256_hex
from interlock.commons.pins import init_node
from interlock.commons.record_copies import ASKED_FOR_US, RecordCopies
from interlock.commons.view import MetadataRefused
from interlock.transparency.entry import signed_entry
from interlock.transparency.log import Log
from interlock.transparency.merkle import BadProof
from interlock.transparency.policy import parse_policy
from interlock.transparency.tiles import decode_bundle, encode_bundle, parse_path, tiles_of
from tests.unit.commons_world import World, log_policy, pack, seed, sign_past_the_log, world


@pytest.fixture
def commons(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        made.publisher.publish(pack(), "stable")
        yield made


class Told:
    """A fetcher that remembers what it was asked for, and may answer with other bytes."""

    def __init__(self, fetcher: Fetcher) -> None:
        self.fetcher = fetcher
        self.asked: list[str] = []
        self.instead: dict[str, bytes] = {}

    def fetch(self, path: str, *, max_length: int) -> bytes:
        self.asked.append(path)
        return self.instead.get(path) or self.fetcher.fetch(path, max_length=max_length)


def mirror_by(commons: World, log: Fetcher) -> Mirror:
    pins = init_node(commons.home / "mirror-pins", log_policy=log_policy(), root=commons.root)
    return Mirror(commons.home / "mirror", DirectoryFetcher(commons.public), pins, commons.clock, log=log)


def filled(log: Log, entries: int) -> None:
    log.append([b"entry of a later version, number %d" % i for i in range(entries)])


def published(log: Log, name: str) -> bytes:
    found = log.tile(parse_path(name))
    assert found is not None
    return found


def tiles(directory: Path) -> dict[str, bytes]:
    found = directory / "tile"
    return {str(p.relative_to(found)): p.read_bytes() for p in found.rglob("*") if p.is_file()}


def test_a_mirror_has_every_tile_and_entry_of_the_log(commons: World) -> None:
    filled(commons.log.log, 700)
    commons.publisher.publish(pack(2), "stable")
    mirror = commons.mirror()
    copied = mirror.copy()
    assert copied.tree_size == commons.log.log.size
    found, own = tiles(mirror.public / "log"), tiles(commons.log.public)
    assert {f"tile/{name}" for name in found} == {tile.path for tile in tiles_of(copied.tree_size)}
    assert found == {name: own[name] for name in found}


def test_a_mirror_asks_only_for_the_tiles_that_are_new(commons: World) -> None:
    filled(commons.log.log, 5 * 256)
    commons.publisher.publish(pack(2), "stable")
    told = Told(DirectoryFetcher(commons.log.public))
    mirror = mirror_by(commons, told)
    mirror.copy()
    assert sum("/entries/" in name for name in told.asked) >= 5
    told.asked.clear()
    commons.publisher.publish(pack(3), "stable")
    mirror.copy()
    assert sum("tile/entries/" in name for name in told.asked) == 1
    told.asked.clear()
    mirror.copy()
    assert told.asked == ["checkpoint"]


def test_a_bundle_with_another_entry_is_refused_and_not_kept(commons: World) -> None:
    filled(commons.log.log, 300)
    commons.publisher.publish(pack(2), "stable")
    told = Told(DirectoryFetcher(commons.log.public))
    entries = list(decode_bundle(published(commons.log.log, "tile/entries/000"), 256))
    told.instead["tile/entries/000"] = encode_bundle([b"another", *entries[1:]])
    mirror = mirror_by(commons, told)
    with pytest.raises(BadProof, match="entries that were served"):
        mirror.copy()
    assert not (mirror.public / "log" / "checkpoint").exists()
    assert not (mirror.public / "log" / "tile" / "entries" / "000").exists()
    told.instead.clear()
    assert mirror.copy().tree_size == commons.log.log.size


@pytest.mark.parametrize("name", ["0/000", "0/001.p", "entries/000"])
def test_a_mirror_whose_own_tiles_are_damaged_builds_them_anew(commons: World, name: str) -> None:
    filled(commons.log.log, 300)
    commons.publisher.publish(pack(2), "stable")
    mirror = commons.mirror()
    mirror.copy()
    good = tiles(mirror.public / "log")
    path = mirror.public / "log" / "tile" / name
    path = next(path.iterdir()) if path.is_dir() else path
    path.write_bytes(bytes(len(path.read_bytes())))
    (mirror.public / "log" / "checkpoint").unlink()
    mirror.copy()
    assert tiles(mirror.public / "log") == good


def records(directory: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in (directory / "records").glob("*")}


def test_a_mirror_has_every_record_with_its_entry_and_proof(commons: World) -> None:
    mirror = commons.mirror()
    mirror.copy()
    assert len(records(commons.public)) >= 3
    assert records(mirror.public) == records(commons.public)


def test_a_record_that_is_not_served_holds_nothing_up_and_is_asked_for_again(commons: World) -> None:
    lost = signed_entry(seed("x"), type="gate", name="team", version=9, ring="beta", sha256="ab" * 32, at=1)
    commons.log.append(lost.data)
    commons.publisher.publish(pack(2), "canary")
    mirror = commons.mirror()
    mirror.copy()
    assert records(mirror.public) == records(commons.public)
    path, *beside = record_files("ab" * 32)
    for name in (path, *beside):
        (commons.public / name).write_bytes(b"not what was logged")
    mirror.copy()
    assert not (mirror.public / path).exists()
    data = b"what was logged"
    late = signed_entry(seed("x"), type="gate", name="team", version=9, ring="beta", sha256=sha256_hex(data), at=1)
    proof = commons.log.append(late.data)
    commons.publisher.publish(pack(3), "canary")
    mirror.copy()
    files = dict(zip(record_files(sha256_hex(data)), (data, late.data, proof), strict=True))
    for wrong in list(files)[1:]:
        for name, content in files.items():
            (commons.public / name).write_bytes(content if name != wrong else b"not what was logged")
        mirror.copy()
        assert not any((mirror.public / name).exists() for name in files), "checked, as all that it copies"
    for name, content in files.items():
        (commons.public / name).write_bytes(content)
    mirror.copy()
    assert (mirror.public / record_files(sha256_hex(data))[0]).read_bytes() == data


def test_a_record_that_never_comes_is_asked_for_no_longer_after_a_while(commons: World) -> None:
    lost = signed_entry(seed("x"), type="gate", name="team", version=9, ring="beta", sha256="ab" * 32, at=1)
    commons.log.append(lost.data)
    commons.publisher.publish(pack(2), "canary")
    mirror = commons.mirror()
    mirror.copy()
    assert "ab" * 32 in (commons.home / "mirror" / "records.json").read_text()
    commons.clock.advance(ASKED_FOR_US / 1_000_000 + 1)
    commons.publisher.renew()
    mirror.copy()
    assert "ab" * 32 not in (commons.home / "mirror" / "records.json").read_text()


def nowhere(number: int) -> bytes:
    """An entry that names a record that is nowhere."""
    sha256 = f"{number:064x}"
    return signed_entry(seed("x"), type="gate", name="x", version=1, ring="beta", sha256=sha256, at=1).data


def test_many_records_that_never_come_do_not_hide_the_others(commons: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.commons.record_copies.MISSING_MOST", 3)
    for i in range(12):
        commons.log.append(nowhere(i))
    commons.publisher.publish(pack(2), "canary")
    told = Told(DirectoryFetcher(commons.public))
    pins = init_node(commons.home / "pins", log_policy=log_policy(), root=commons.root)
    mirror = Mirror(commons.home / "mirror", told, pins, commons.clock, log=DirectoryFetcher(commons.log.public))
    counts = []
    for _ in range(5):
        told.asked.clear()
        mirror.copy()
        counts.append(sum(name.startswith("records/0000") for name in told.asked))
    assert max(counts) == 3
    assert records(mirror.public) == records(commons.public)


def test_the_list_of_records_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.commons.record_copies.WANTED_MOST", 8)
    monkeypatch.setattr("interlock.commons.record_copies.MISSING_MOST", 3)
    for round_ in range(3):
        copies = RecordCopies(tmp_path / "records.json", parse_policy(log_policy()))
        copies.want(map(nowhere, range(20 * round_, 20 * round_ + 20)), round_)
        copies.copy(DirectoryFetcher(tmp_path), lambda _: False, lambda *_: None, round_)
        kept = json.loads((tmp_path / "records.json").read_text())["wanted"]
        assert len(kept) == 8
        assert set(kept.values()) == {round_}


def test_a_mirror_that_has_lost_its_list_of_records_or_never_had_one_looks_at_all_entries_again(commons: World) -> None:
    mirror = commons.mirror()
    mirror.copy()
    shutil.rmtree(mirror.public / "records")
    (commons.home / "mirror" / "records.json").unlink()
    mirror.copy()
    assert records(mirror.public) == records(commons.public)


def test_a_target_that_was_cut_short_on_the_mirrors_disk_is_fetched_again(commons: World) -> None:
    mirror = commons.mirror()
    mirror.copy()
    files = [p for p in (mirror.public / "targets").rglob("*") if p.is_file()]
    wanted = files[0].read_bytes()
    files[0].write_bytes(wanted[:-1])
    files[1].unlink()
    files[1].mkdir()
    with pytest.raises(NotWritable):
        mirror.copy()
    files[1].rmdir()
    mirror.copy()
    assert files[0].read_bytes() == wanted
    assert files[1].is_file()


def test_what_others_left_among_a_mirrors_states_is_no_trouble(commons: World) -> None:
    mirror = commons.mirror()
    mirror.copy()
    for name in ("7~", "3.old", "9"):
        (mirror.public / "states" / name).mkdir()
    commons.publisher.publish(pack(2), "stable")
    mirror.copy()
    now = (mirror.public / "now").readlink().name
    assert now == "10"
    assert sorted(p.name for p in (mirror.public / "states").iterdir()) == ["1", "10", "3.old", "7~"]
    assert (mirror.public / "metadata" / "timestamp.json").is_file()


def test_a_target_with_a_name_that_no_disk_takes_is_refused_and_ends_no_loop(
    commons: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = commons.mirror()
    before = mirror.copy()

    def unless_long(path: Path, data: bytes, *, mode: int) -> None:
        if len(path.name) < 255:
            replace(path, data, mode=mode)

    with monkeypatch.context() as patch:
        patch.setattr("interlock.commons.repository.replace", unless_long)
        sign_past_the_log(commons, "a" * 200)
    with pytest.raises(MetadataRefused, match="no path for a target"):
        mirror.copy()
    assert DirectoryFetcher(mirror.public).fetch(f"metadata/{before.snapshot_version}.snapshot.json", max_length=9999)
