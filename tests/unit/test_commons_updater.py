"""The TUF client's durable state: one poll at a time, whole or not at all, and never below what was seen."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tuf.api.metadata import Metadata, Root  # type: ignore[attr-defined]

from interlock.base.errors import InterlockError
from interlock.base.fetch import DirectoryFetcher, Fetcher, NotFound, Unreachable
from interlock.base.files import BadState, Locked, NewerFormat, NotWritable
from interlock.commons import updater
from interlock.commons.ceremony import request_of
from interlock.commons.layout import TOP_ROLES, channel_path
from interlock.commons.repository import Repository
from interlock.commons.rootplan import Plan, plan_of
from interlock.commons.signers import RoleSigner, load_keys
from interlock.commons.updater import MetadataRefused, View, refreshed
from tests.sim.reaper import Killed
from tests.unit.commons_world import World, pack, plan, root_by, seed, world


@pytest.fixture
def commons(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


class Poll:
    """Polls a commons into one directory, and notes what it fetched."""

    def __init__(self, commons: World, fetcher: Fetcher | None = None) -> None:
        self.commons = commons
        self.dir = commons.home / "tuf"
        self.inner = fetcher or DirectoryFetcher(commons.public)
        self.asked: list[str] = []

    def fetch(self, path: str, *, max_length: int) -> bytes:
        self.asked.append(path)
        return self.inner.fetch(path, max_length=max_length)

    def __call__(self) -> View:
        self.asked.clear()
        with refreshed(self.dir, self, bootstrap=self.commons.root, now_us=self.commons.clock.now_us()) as view:
            return view

    @property
    def state(self) -> dict[str, bytes]:
        current = json.loads((self.dir / "current.json").read_text())["generation"]
        root = self.dir / f"gen-{current}"
        return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_a_poll_with_nothing_new_asks_for_two_files_and_writes_nothing(commons: World) -> None:
    poll = Poll(commons)
    poll()
    before = sorted(p.name for p in poll.dir.iterdir())
    mtime = (poll.dir / "current.json").stat().st_mtime_ns
    poll()
    assert poll.asked == ["metadata/2.root.json", "metadata/timestamp.json"]
    assert sorted(p.name for p in poll.dir.iterdir()) == before == ["current.json", "gen-1", "lock"]
    assert (poll.dir / "current.json").stat().st_mtime_ns == mtime


def test_two_polls_of_one_directory_exclude_each_other(commons: World) -> None:
    poll = Poll(commons)
    with (
        refreshed(poll.dir, poll, bootstrap=commons.root, now_us=commons.clock.now_us()),
        pytest.raises(Locked),
    ):
        poll()


def test_all_targets_of_a_poll_are_of_one_state(commons: World) -> None:
    commons.publisher.publish(pack(), "stable")
    poll = Poll(commons)
    with refreshed(poll.dir, poll, bootstrap=commons.root, now_us=commons.clock.now_us()) as view:
        commons.publisher.publish(pack(2), "stable")
        assert b'"version":1' in view.target(channel_path("stable"), 1 << 16)
    with refreshed(poll.dir, poll, bootstrap=commons.root, now_us=commons.clock.now_us()) as view:
        assert b'"version":2' in view.target(channel_path("stable"), 1 << 16)


def test_what_was_verified_before_a_refusal_is_kept_as_the_floor(commons: World) -> None:
    poll = Poll(commons)
    poll()
    commons.publisher.publish(pack(), "stable")
    snapshot = commons.public / "metadata" / "2.snapshot.json"
    good = snapshot.read_bytes()
    snapshot.write_bytes(b"{}")
    with pytest.raises(MetadataRefused):
        poll()
    assert json.loads(poll.state["timestamp.json"])["signed"]["version"] == 2
    snapshot.write_bytes(good)
    assert poll().snapshot_version == 2


@pytest.mark.parametrize("at", range(4))
def test_a_poll_killed_while_it_keeps_its_state_leaves_one_whole_state(
    commons: World, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    poll = Poll(commons)
    poll()
    before = poll.state
    commons.publisher.publish(pack(), "stable")
    steps = ("_make_durable", "sync_dir", "replace", "stamped")

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(updater, steps[at], die)
        with pytest.raises(Killed):
            poll()
    assert poll.state == before
    assert poll().snapshot_version == 2
    assert poll.state != before
    assert sorted(p.name for p in poll.dir.iterdir() if p.name.startswith("gen-")) == ["gen-2"]


def test_a_damaged_state_is_said_and_not_replaced_by_trust(commons: World) -> None:
    poll = Poll(commons)
    poll()
    for text, error in (
        ("{", BadState),
        ('{"format": "interlock-tuf-state", "v": 1, "generation": 9}', BadState),
        ('{"format": "interlock-tuf-state", "v": 1, "generation": true}', BadState),
        ('{"format": "interlock-tuf-state", "v": 2}', NewerFormat),
    ):
        (poll.dir / "current.json").write_text(text)
        with pytest.raises(error):
            poll()


def test_a_state_without_room_is_said(commons: World, monkeypatch: pytest.MonkeyPatch) -> None:
    poll = Poll(commons)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InterlockError, match="No space left") as caught:
        poll()
    assert caught.value.code == "not-writable"


@pytest.mark.parametrize("step", ["pathlib.Path.mkdir", "shutil.copytree", "pathlib.Path.rename", "os.fsync"])
def test_a_disk_that_fails_at_any_step_is_said_in_one_line_and_loses_nothing(
    commons: World, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    poll = Poll(commons)
    poll()
    before = poll.state
    commons.publisher.publish(pack(), "stable")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(step, full)
        with pytest.raises(NotWritable, match="No space left"):
            poll()
    assert poll.state == before
    assert poll().snapshot_version == 2


def test_what_a_killed_poll_was_at_work_on_is_cleared_away(commons: World) -> None:
    poll = Poll(commons)
    poll()
    (poll.dir / ".staging-left" / "metadata").mkdir(parents=True)
    (poll.dir / ".staging-left" / "metadata" / "root.json").write_bytes(b"{")
    assert poll().snapshot_version == 1
    assert [p.name for p in poll.dir.iterdir() if p.name.startswith(".")] == []


@pytest.mark.parametrize("name", ["timestamp.json", "1.snapshot.json", "1.targets.json"])
def test_a_missing_file_of_the_commons_is_unreachable(commons: World, name: str) -> None:
    (commons.public / "metadata" / name).unlink()
    with pytest.raises(Unreachable, match="misses a file"):
        Poll(commons)()


def test_a_role_s_file_that_is_missing_is_said_when_it_is_needed(commons: World) -> None:
    (commons.public / "metadata" / "1.stable.json").unlink()
    poll = Poll(commons)
    with (
        pytest.raises(Unreachable),
        refreshed(poll.dir, poll, bootstrap=commons.root, now_us=commons.clock.now_us()) as view,
    ):
        view.target(channel_path("stable"), 1 << 16)


def test_a_target_outside_every_role_is_not_there(commons: World) -> None:
    poll = Poll(commons)
    with (
        pytest.raises(NotFound),
        refreshed(poll.dir, poll, bootstrap=commons.root, now_us=commons.clock.now_us()) as view,
    ):
        view.target("other/thing", 1 << 16)


def test_a_new_circle_of_keyholders_is_followed_from_the_old_root(commons: World) -> None:
    commons.publisher.publish(pack(), "stable")
    poll = Poll(commons)
    poll()
    keys = load_keys(commons.home / "commons" / "keys", TOP_ROLES)
    now_us = commons.clock.now_us()
    wanted = plan({role: key.verifier for role, key in keys.items()}, now_us, ("cleo", "dora", "emil"))
    root = root_by(wanted, commons.root, now_us, "ada", "ben", "dora", "emil")
    repository = Repository(commons.public)
    repository.add_root(root)
    assert poll().root_version == 2
    assert poll().root_version == 2
    assert commons.member("node").update().timestamp_version == 2
    with pytest.raises(InterlockError, match="does not follow"):
        repository.add_root(root)


def test_fetching_without_a_limit_is_our_own_fault(commons: World) -> None:
    with pytest.raises(Exception, match="Failed to download") as caught:
        list(updater._Adapter(DirectoryFetcher(commons.public), None).fetch("metadata/timestamp.json"))
    assert isinstance(caught.value.__cause__, AssertionError)


def _next_root(commons: World, plan_: Plan, *names: str) -> bytes:
    """A root after the first, signed with these holders' keys whether or not they are a quorum."""
    request = request_of(plan_, commons.root, commons.clock.now_us())
    md = Metadata[Root].from_bytes(request.root)
    for name in names:
        md.sign(RoleSigner(seed(f"holder {name}")), append=True)
    return md.to_bytes()


def _serve_root(commons: World, root: bytes) -> None:
    (commons.public / "metadata" / "2.root.json").write_bytes(root)


def test_a_root_whose_quorum_is_of_one_employer_is_refused_though_tuf_would_take_it(commons: World) -> None:
    poll = Poll(commons)
    assert poll().root_version == 1
    wanted = plan_of(commons.root)
    ada, ben, cleo = wanted.holders
    one = replace(wanted, holders=(replace(ada, employer="Acme"), replace(ben, employer="Acme"), cleo))
    bad = _next_root(commons, one, "ada", "ben")
    before = Metadata[Root].from_bytes(commons.root).signed
    before.verify_delegate("root", (md := Metadata[Root].from_bytes(bad)).signed_bytes, md.signatures)
    _serve_root(commons, bad)
    with pytest.raises(MetadataRefused, match="two of one employer"):
        poll()
    (commons.public / "metadata" / "2.root.json").unlink()
    assert poll().root_version == 1


def test_a_root_that_names_no_keyholders_is_refused_and_the_last_good_one_stays(commons: World) -> None:
    poll = Poll(commons)
    poll()
    md = Metadata[Root].from_bytes(_next_root(commons, plan_of(commons.root)))
    del md.signed.unrecognized_fields["x-interlock-holders"]
    for name in ("ada", "ben"):
        md.sign(RoleSigner(seed(f"holder {name}")), append=True)
    _serve_root(commons, md.to_bytes())
    with pytest.raises(MetadataRefused, match="names no keyholders"):
        poll()
    _serve_root(commons, root_by(plan_of(commons.root), commons.root, commons.clock.now_us(), "ben", "cleo"))
    assert poll().root_version == 2
