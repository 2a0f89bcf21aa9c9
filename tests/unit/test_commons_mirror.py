"""A mirror's copy: checked whole, grown by what is new, and at every moment one state of the commons and its log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.fetch import DirectoryFetcher, Fetcher
from interlock.commons.layout import record_files
from interlock.commons.mirror import Mirror
from interlock.commons.pack import sha256_hex
from interlock.commons.pins import init_node
from interlock.commons.record_copies import ASKED_FOR_US
from interlock.transparency.entry import signed_entry
from interlock.transparency.log import Log
from interlock.transparency.merkle import BadProof
from interlock.transparency.tiles import decode_bundle, encode_bundle, parse_path, tiles_of
from tests.unit.commons_world import World, log_policy, pack, seed, world


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
    nowhere = signed_entry(seed("x"), type="gate", name="team", version=9, ring="beta", sha256="ab" * 32, at=1)
    commons.log.append(nowhere.data)
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
    commons.log.append(late.data)
    commons.publisher.publish(pack(3), "canary")
    mirror.copy()
    for name in record_files(sha256_hex(data)):
        (commons.public / name).write_bytes(data)
    mirror.copy()
    assert (mirror.public / record_files(sha256_hex(data))[0]).read_bytes() == data


def test_a_record_that_never_comes_is_asked_for_no_longer_after_a_while(commons: World) -> None:
    nowhere = signed_entry(seed("x"), type="gate", name="team", version=9, ring="beta", sha256="ab" * 32, at=1)
    commons.log.append(nowhere.data)
    commons.publisher.publish(pack(2), "canary")
    mirror = commons.mirror()
    mirror.copy()
    assert "ab" * 32 in (commons.home / "mirror" / "records.json").read_text()
    commons.clock.advance(ASKED_FOR_US / 1_000_000 + 1)
    commons.publisher.renew()
    mirror.copy()
    assert "ab" * 32 not in (commons.home / "mirror" / "records.json").read_text()
