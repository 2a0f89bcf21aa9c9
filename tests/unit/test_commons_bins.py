"""A ring that became large is parted into hash bins: members and mirrors follow, and a publish touches one bin."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tuf.api.metadata import Targets  # type: ignore[attr-defined]

from interlock.base import canonical
from interlock.base.fetch import DirectoryFetcher, NotFound
from interlock.commons import bins
from interlock.commons.bins import bin_versions
from interlock.commons.ilpack import BadIlpack, export_ilpack, verify_ilpack
from interlock.commons.layout import DELEGATIONS, pack_path
from interlock.commons.logged import LogFetcher
from interlock.commons.repository import Repository
from interlock.commons.signers import RoleSigner, load_keys
from interlock.commons.speakers import Speakers
from interlock.commons.updater import refreshed
from tests.unit.commons_world import World, pack, world

DAY_S = 86_400


@pytest.fixture
def commons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(bins, "GROWS_AT", 8)
    monkeypatch.setattr(bins, "_BITS", 3)
    with world(tmp_path) as made:
        for version in (1, 2, 3):
            made.publisher.publish(pack(version), "stable")
        yield made


def _files(commons: World) -> set[str]:
    return {p.name for p in (commons.public / "metadata").glob("*.stable*.json")}


def _signed(commons: World, name: str) -> dict[str, object]:
    body = json.loads((commons.public / "metadata" / name).read_text())["signed"]
    assert isinstance(body, dict)
    return body


def test_a_large_ring_is_parted_and_a_member_follows(commons: World) -> None:
    version = Repository(commons.public).versions()["stable"]
    ring = _signed(commons, f"{version}.stable.json")
    assert not [path for path in ring["targets"] if path.startswith("packs/")]  # type: ignore[attr-defined]
    assert "channels/stable.json" in ring["targets"]  # type: ignore[operator]
    assert len(ring["x-interlock-bins"]) == 8  # type: ignore[arg-type]
    node = commons.member("node")
    node.subscribe("team", "stable")
    assert node.update().rows[0].version == 3


def test_a_publish_touches_the_ring_and_the_bins_of_its_own_paths(commons: World) -> None:
    before = _files(commons)
    path = pack_path("stable", "team", 4)
    commons.publisher.publish(pack(4), "stable")
    new = _files(commons) - before
    repository = Repository(commons.public)
    ring = f"{repository.versions()['stable']}.stable.json"
    assert ring in new
    assert 2 <= len(new) <= 5  # the ring, and the bins of the pack, its entry and its proof
    assert repository.target("stable", repository.versions()["stable"], path) == pack(4).data
    node = commons.member("node")
    node.subscribe("team", "stable")
    assert node.update().rows[0].version == 4


def test_a_mirror_copies_every_bin_and_can_be_followed(commons: World) -> None:
    mirror = commons.mirror()
    mirror.copy()
    served = {p.name for p in (mirror.public / "metadata").glob("*.stable-*.json")}
    assert len(served) == 8
    for version in (1, 2, 3):
        name = f"{pack(version).digest}.{version}.json"
        assert (mirror.public / "targets" / "packs" / "stable" / "team" / name).exists()
    served_files = DirectoryFetcher(mirror.public)
    node = commons.member("node", served_files, LogFetcher(served_files))
    node.subscribe("team", "stable")
    assert node.update().rows[0].version == 3


def test_a_path_that_no_bin_has_is_not_there(commons: World, tmp_path: Path) -> None:
    now = commons.clock.now_us()
    with refreshed(tmp_path / "tuf", DirectoryFetcher(commons.public), bootstrap=commons.root, now_us=now) as view:
        assert view.speakers_of(pack_path("stable", "team", 9)) == Speakers(frozenset())
        with pytest.raises(NotFound):
            view.target(pack_path("stable", "team", 9), 1 << 20)


def test_bins_are_signed_again_before_they_end(commons: World) -> None:
    repository = Repository(commons.public)
    node = commons.member("node")
    node.subscribe("team", "stable")
    for day in range(10, 130, 10):
        commons.clock.advance(10 * DAY_S)
        if day % 20:
            commons.publisher.publish(pack(day), "stable")
        commons.publisher.renew()
        assert node.update().rows[0].version == (day if day % 20 else day - 10)
    assert "stable" not in repository.ageing(commons.clock.now_us())


def test_a_ring_with_a_new_key_signs_all_its_bins_anew(commons: World) -> None:
    repository = Repository(commons.public)
    version = repository.versions()["stable"]
    key: RoleSigner = load_keys(commons.home / "commons" / "keys", ("beta",))["beta"]
    before = bin_versions(repository._read(f"{version}.stable", Targets))
    repository.add_targets("stable", version + 1, {}, key, commons.clock.now_us())
    after = bin_versions(repository._read(f"{version + 1}.stable", Targets))
    assert after == {name: number + 1 for name, number in before.items()}


def test_rings_are_small_until_they_are_large(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        made.publisher.publish(pack(), "stable")
        assert not list((made.public / "metadata").glob("*-*.json"))
        assert set(Repository(made.public).versions()) == {"targets", *DELEGATIONS, "snapshot", "timestamp"}


def test_what_would_stand_in_the_ring_s_own_file_is_looked_for_in_no_bin(commons: World, tmp_path: Path) -> None:
    asked: list[str] = []

    class Noting(DirectoryFetcher):
        def fetch(self, path: str, *, max_length: int) -> bytes:
            asked.append(path)
            return super().fetch(path, max_length=max_length)

    now = commons.clock.now_us()
    with refreshed(tmp_path / "tuf", Noting(commons.public), bootstrap=commons.root, now_us=now) as view:
        with pytest.raises(NotFound):
            view.target("revoked/stable.json", 1 << 20)
        assert view.target("channels/stable.json", 1 << 20)
    assert not [path for path in asked if "stable-" in path]


def test_a_pack_in_a_bin_verifies_as_a_single_file_and_not_with_another_bin(commons: World) -> None:
    data = export_ilpack(commons.public, "team", 3, "stable")
    root = (commons.public / "metadata" / "1.root.json").read_bytes()
    assert verify_ilpack(data, root, commons.policy, "file").pack == pack(3)
    body = json.loads(data)
    names = [name for name in body["metadata"] if ".stable-" in name]
    assert 0 < len(names) < 8  # what names the pack, and no more
    without = {name: text for name, text in body["metadata"].items() if name != names[0]}
    for metadata in (without, {**body["metadata"], names[0]: body["metadata"]["timestamp.json"]}):
        with pytest.raises(BadIlpack):
            verify_ilpack(canonical.encode({**body, "metadata": metadata}), root, commons.policy, "file")
