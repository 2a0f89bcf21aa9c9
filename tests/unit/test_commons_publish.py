"""Publishing: six steps in their order, each of which may be the last before a crash."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.base.errors import InterlockError
from interlock.base.files import BadState, file_lock
from interlock.base.keys import BadKey
from interlock.commons import steps as steps_module
from interlock.commons.gate import GateRefused
from interlock.commons.indicators import BadCatalog, build_catalog, indicator_pack
from interlock.commons.journal import Item, Journal, Loose, dump_journal, parse_journal
from interlock.commons.layout import snapshot_files
from interlock.commons.pack import BadPack, build_pack
from interlock.commons.publish import Published, UnfinishedPublish
from interlock.commons.repository import Repository
from interlock.commons.signers import RoleSigner
from interlock.transparency.entry import known_entry
from interlock.transparency.proof import parse_proof
from tests.sim.reaper import Killed
from tests.unit.commons_world import SIGN_OFF, World, pack, rule, seed, world
from tests.unit.log_entries import pack_entry


@pytest.fixture
def commons(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


def _files(directory: Path) -> dict[str, str]:
    return {
        str(p.relative_to(directory)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(directory.rglob("*"))
        if p.is_file()
    }


def test_a_pack_is_published_in_one_go(commons: World) -> None:
    done = commons.publisher.publish(pack(), "beta")
    assert (done.entry.name, done.entry.version, done.entry.ring) == ("team", 1, "beta")
    assert done.entry.sha256 == pack().digest
    assert (done.log_index, done.tree_size) == (2, 3)
    assert (done.snapshot_version, done.timestamp_version) == (2, 2)
    assert [known_entry(entry).type for entry in commons.log.calls] == ["snapshot", "gate", "pack", "snapshot"]
    assert known_entry(commons.log.calls[2]) == done.entry


def test_each_snapshot_is_logged_and_cosigned_before_a_timestamp_names_it(
    commons: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[int] = []
    real = Repository.timestamp

    def timestamp(self: Repository, version: int, snapshot: int, *rest: Any) -> None:
        entry, proof = ((self.public / path).read_bytes() for path in snapshot_files(snapshot))
        parse_proof(proof).verify(entry, commons.policy)
        data = (self.public / f"metadata/{snapshot}.snapshot.json").read_bytes()
        said = known_entry(entry)
        assert (said.type, said.name, said.version, said.ring) == ("snapshot", "snapshot", snapshot, "snapshot")
        assert said.sha256 == hashlib.sha256(data).hexdigest()
        named.append(snapshot)
        real(self, version, snapshot, *rest)

    monkeypatch.setattr(Repository, "timestamp", timestamp)
    commons.publisher.publish(pack(), "stable")
    commons.clock.advance(4 * 86400)
    commons.publisher.renew()
    assert named == [2, 3]


def test_the_timestamp_is_written_last_and_the_log_is_asked_first(
    commons: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def noted(owner: object, name: str) -> None:
        real = getattr(owner, name)

        def call(*args: object, **kwargs: object) -> object:
            order.append(name)
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    for name in ("add_targets", "snapshot", "timestamp"):
        noted(Repository, name)
    noted(commons.publisher.steps, "_append")
    commons.publisher.publish(pack(), "beta")
    assert order == ["_append", "_append", "add_targets", "snapshot", "_append", "timestamp"]


def _crash_points(steps: steps_module.Steps, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Die at the `at`-th durable write of a publish (0 is the first), before or after it took effect."""
    count = [0]
    real_replace: Callable[..., object] = vars(steps_module)["replace_file"]

    def dying(real: Callable[..., object], before: bool) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            if count[0] == at and before:
                raise Killed
            result = real(*args, **kwargs)
            if count[0] == at:
                raise Killed
            count[0] += 1
            return result

        return call

    monkeypatch.setattr(steps_module, "replace_file", dying(real_replace, False))
    monkeypatch.setattr(steps, "_append", dying(steps._append, False))
    for name in ("add_targets", "snapshot", "timestamp", "_write"):
        monkeypatch.setattr(Repository, name, dying(getattr(Repository, name), name == "_write"))


def _beta(commons: World) -> Published:
    return commons.publisher.publish(pack(), "beta")


def _stable(commons: World) -> Published:
    return commons.publisher.publish(pack(), "stable")


def _revoked(commons: World) -> Published:
    return commons.publisher.revoke("team", 1, why="it was wrong", removal=True)


# a publish, and what goes before it
FLOWS: dict[str, tuple[Callable[[World], Published], Callable[[World], object]]] = {
    "published": (_beta, lambda commons: None),
    "promoted": (_stable, lambda commons: None),
    "removed": (_revoked, _beta),
}
WRITES = {"published": 23, "promoted": 35, "removed": 23}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Published, dict[str, str]]]:
    found = {}
    for name, (flow, before) in FLOWS.items():
        with world(tmp_path_factory.mktemp("undisturbed")) as commons:
            before(commons)
            found[name] = flow(commons), _files(commons.public)
    return found


@pytest.mark.parametrize(("name", "at"), [(name, at) for name, count in WRITES.items() for at in range(count)])
def test_a_publish_killed_anywhere_ends_the_same_once_resumed(
    commons: World, undisturbed: dict[str, tuple[Published, dict[str, str]]], name: str, at: int
) -> None:
    (flow, before), (expected, files) = FLOWS[name], undisturbed[name]
    before(commons)
    killed = False
    with pytest.MonkeyPatch.context() as patch:
        _crash_points(commons.publisher.steps, patch, at)
        try:
            flow(commons)
        except Killed:
            killed = True
    assert killed
    journal = parse_journal((commons.home / "commons" / "journal.json").read_bytes(), where="journal")
    _, proof = snapshot_files(expected.snapshot_version)
    late = set()
    if journal.step != "begun":  # while a proof is missing, a witness may cosign anew, at another time
        late = set() if (commons.public / proof).exists() and journal.step != "snapshot" else {proof}
        commons.clock.advance(3600)
    assert commons.publisher.resume() == expected
    found = _files(commons.public)
    assert found.keys() == files.keys()
    assert {name for name, digest in found.items() if files[name] != digest} == late


@pytest.mark.parametrize("name", FLOWS)
def test_there_are_as_many_crash_points_as_the_test_above_visits(
    commons: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    FLOWS[name][1](commons)
    _crash_points(commons.publisher.steps, monkeypatch, WRITES[name])
    FLOWS[name][0](commons)


def test_the_same_pack_again_gives_the_same_answer_and_no_second_entry(commons: World) -> None:
    first = commons.publisher.publish(pack(), "stable")
    commons.clock.advance(60)
    assert commons.publisher.publish(pack(), "stable") == first
    assert commons.log.log.size == 6


def test_an_unfinished_publish_holds_the_next_one_up(commons: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_log(entry: bytes) -> bytes:
        raise InterlockError("log is away")

    append = commons.publisher.steps._append
    monkeypatch.setattr(commons.publisher.steps, "_append", no_log)
    with pytest.raises(InterlockError, match="log is away"):
        commons.publisher.publish(pack(), "stable")
    with pytest.raises(UnfinishedPublish):
        commons.publisher.publish(pack(name="other"), "stable")
    monkeypatch.setattr(commons.publisher.steps, "_append", append)
    commons.publisher.abandon()
    assert commons.publisher.publish(pack(name="other"), "beta").log_index == 2


@pytest.mark.parametrize("method", ["_append", "_write_targets"])
def test_a_publish_that_has_written_nothing_does_not_hold_renewal_up(
    commons: World, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def fail(*_: object) -> bytes:
        raise InterlockError("away")

    with monkeypatch.context() as patch:
        patch.setattr(commons.publisher.steps, method, fail)
        with pytest.raises(InterlockError, match="away"):
            commons.publisher.publish(pack(), "stable")
    commons.clock.advance(6 * 3600)
    commons.publisher.renew()
    done = commons.publisher.resume()
    assert done is not None
    assert (done.snapshot_version, done.timestamp_version) == (2, 3)
    node = commons.member("node")
    node.subscribe("team", "stable")
    assert node.update().rows[0].version == 1


@pytest.mark.parametrize("method", ["snapshot", "timestamp"])
def test_renewal_finishes_a_publish_that_has_begun_to_write(
    commons: World, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def fail(*_: object) -> bytes:
        raise InterlockError("disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Repository, method, fail)
        with pytest.raises(InterlockError, match="disk is full"):
            commons.publisher.publish(pack(), "stable")
    commons.publisher.renew()
    assert commons.publisher.steps.repository.versions()["stable"] == 2
    assert commons.publisher.steps.repository.versions()["timestamp"] == 2
    done = commons.publisher.resume()
    assert done is not None
    assert done.timestamp_version == 2


def test_what_the_log_has_cannot_be_abandoned(commons: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Repository, "snapshot", die)
        with pytest.raises(Killed):
            commons.publisher.publish(pack(), "stable")
    with pytest.raises(UnfinishedPublish, match="stands in the log"):
        commons.publisher.abandon()
    assert commons.publisher.resume() is not None


def test_a_proof_that_members_would_refuse_is_not_published(commons: World) -> None:
    commons.log._witnesses = []
    before = _files(commons.public)
    with pytest.raises(InterlockError, match="not the quorum"):
        commons.publisher.publish(pack(), "stable")
    assert _files(commons.public) == before


@pytest.mark.parametrize("version", [1, 2])
def test_a_version_that_is_not_newer_is_refused(commons: World, version: int) -> None:
    commons.publisher.publish(pack(2), "stable")
    with pytest.raises(BadPack, match="2 is out in stable"):
        commons.publisher.publish(pack(version, words=("other",)), "stable")
    assert commons.log.log.size == 6


def test_a_pack_whose_example_does_not_fire_is_refused_before_the_log_hears_of_it(commons: World) -> None:
    bad = rule("team.zap", "zap")
    bad["examples"] = {
        "fires": [{"action": "Bash", "args": {"command": "ls"}}],
        "passes": [{"action": "Bash", "args": {"command": "ls"}}],
    }
    wrong = build_pack("team", 1, [bad], licence="MIT", authors=["A"])
    with pytest.raises(GateRefused, match=r"team\.zap"):
        commons.publisher.publish(wrong, "stable")
    assert len(commons.log.calls) == 1


def test_a_key_that_clients_would_not_take_is_refused(commons: World) -> None:
    with pytest.raises(BadKey, match="not the key of role stable"):
        commons.publisher.publish(pack(), "stable", signer=RoleSigner(seed("stranger")))


def test_an_unknown_ring_is_the_caller_s_mistake(commons: World) -> None:
    with pytest.raises(ValueError, match="not a ring"):
        commons.publisher.publish(pack(), "gold")


def test_two_publishers_of_one_commons_wait_for_each_other(commons: World) -> None:
    done: list[Published] = []
    second = threading.Thread(target=lambda: done.append(commons.publisher.publish(pack(), "stable")), daemon=True)
    with file_lock(commons.home / "commons" / "lock"):
        second.start()
        second.join(0.05)
        assert len(commons.log.calls) == 1
    second.join(10)
    assert [d.log_index for d in done] == [4]


def test_online_keys_are_files_that_only_their_owner_reads(commons: World) -> None:
    keys = sorted((commons.home / "commons" / "keys").iterdir())
    assert [p.name for p in keys] == sorted(
        f"{r}.key" for r in ("beta", "canary", "reviewed", "snapshot", "stable", "targets", "tasks", "timestamp")
    )
    assert {p.stat().st_mode & 0o777 for p in keys} == {0o600}
    keys[0].chmod(0o644)
    with pytest.raises(BadState, match="read by others"):
        commons.publisher.publish(pack(), "beta")


def test_an_indicator_pack_is_signed_by_the_reviewer_and_named_by_its_ring(commons: World) -> None:
    made = indicator_pack(
        "indicator-hosts", 1, ["host:" + "ab" * 32], authors=["R"], signed_off_by=[SIGN_OFF], organisations=3
    )
    done = commons.publisher.publish(made, "stable")
    reviewer = (commons.home / "commons" / "keys" / "reviewed.key").read_text()
    assert done.entry.by in reviewer
    assert commons.publisher.steps.repository.versions()["reviewed"] == 2
    assert commons.publisher.steps.repository.versions()["stable"] == 2


def test_a_catalog_is_published_before_it_opens_and_never_changes(commons: World) -> None:
    opens = commons.clock.now_us() + 60_000_000
    catalog = build_catalog("task-1", opens_at=opens, rules=["fs.destroy"])
    first = commons.publisher.publish_catalog(catalog)
    assert first.entry.name == "task-1"
    assert first.entry.ring == "tasks"
    other = build_catalog("task-1", opens_at=opens, rules=["fs.destroy", "vcs.force_push"])
    with pytest.raises(BadCatalog, match="never changes"):
        commons.publisher.publish_catalog(other)
    commons.clock.advance(61)
    with pytest.raises(BadCatalog, match="opens in the past"):
        commons.publisher.publish_catalog(build_catalog("task-2", opens_at=opens, rules=["a"]))


def test_renewing_signs_the_timestamp_alone_until_something_is_half_through_its_life(commons: World) -> None:
    commons.publisher.publish(pack(), "stable")
    before = commons.publisher.steps.repository.versions()
    commons.clock.advance(12 * 3600)
    commons.publisher.renew()
    assert commons.publisher.steps.repository.versions() == {**before, "timestamp": before["timestamp"] + 1}
    commons.clock.advance(4 * 86400)
    commons.publisher.renew()
    assert commons.publisher.steps.repository.versions() == {**before, "timestamp": 4, "snapshot": 3}
    commons.clock.advance(60 * 86400)
    commons.publisher.renew()
    assert commons.publisher.steps.repository.versions()["stable"] == before["stable"] + 1


def test_renewal_goes_on_signing_the_timestamp_while_the_log_is_away(
    commons: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(entry: bytes) -> bytes:
        raise InterlockError("log is away")

    commons.clock.advance(4 * 86400)
    with monkeypatch.context() as patch:
        patch.setattr(commons.publisher.steps, "_append", away)
        for expected in (2, 2, 3):
            with pytest.raises(InterlockError, match="log is away"):
                commons.publisher.renew()
            assert commons.publisher.steps.repository.versions()["timestamp"] == expected
            commons.clock.advance(4 * 3600)
    commons.publisher.renew()
    assert commons.publisher.steps.repository.versions()["snapshot"] == 2


def test_a_publish_resumed_days_later_is_signed_for_today(commons: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(commons.publisher.steps, "_log_snapshot", die)
        with pytest.raises(Killed):
            commons.publisher.publish(pack(), "stable")
    commons.clock.advance(2 * 86400)
    commons.publisher.resume()
    node = commons.member("node")
    node.subscribe("team", "stable")
    assert node.update().rows[0].version == 1


def _journal() -> Journal:
    item = Item(pack_entry("team", 1, "ab" * 32, at=7), b"\x00data", "packs/x.json", "stable", b"proof")
    loose = (Loose("reviewers.json", "targets", b"{}"),)
    return Journal("targets", 7, {"stable": 1}, (item,), loose, ("cd" * 32,), ("beta",), "ef" * 32, 4)


def test_a_journal_reads_back_as_it_was_written() -> None:
    assert parse_journal(dump_journal(_journal()), where="j") == _journal()


def test_a_journal_of_an_early_interlock_is_not_called_damaged() -> None:
    with pytest.raises(BadState, match="early interlock") as caught:
        parse_journal(dump_journal(_journal()).replace(b'"v": 3', b'"v": 1'), where="journal.json")
    assert "new commons" in caught.value.fix


@pytest.mark.parametrize("old", ['"step": "targets"', '"entry": "{', '"base": {', '"data": "', '"at": 7', '"items": ['])
def test_a_damaged_journal_is_said_in_one_line(old: str) -> None:
    text = dump_journal(_journal()).decode()
    assert old in text
    for new in (old.replace('"', '"x', 1), old + "!"):
        with pytest.raises(InterlockError) as caught:
            parse_journal(text.replace(old, new).encode(), where="journal.json")
        assert caught.value.code in ("bad-state", "newer-format")
