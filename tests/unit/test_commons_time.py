"""Time, offline bundles and the log policy: what a node's clock, an old stick and a new root can and cannot change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlock
from interlock.__main__ import main
from interlock.base.clock import ManualClock
from interlock.base.errors import BadInput, InterlockError
from interlock.base.fetch import DirectoryFetcher
from interlock.base.files import BadState, NewerFormat
from interlock.commons import installed
from interlock.commons.layout import LOG_POLICY, TOP_ROLES
from interlock.commons.logged import LogFetcher
from interlock.commons.offline import age_us, demand_bundle, overdue
from interlock.commons.pack import sha256_hex
from interlock.commons.pins import init_node, read_pins, set_log_policy
from interlock.commons.repository import Repository
from interlock.commons.signers import load_keys
from interlock.commons.subscribe import Subscriber
from interlock.commons.timefloor import (
    MAX_AHEAD_US,
    SLACK_US,
    behind,
    cosigned_us,
    median_us,
    raise_floor,
    read_floor,
    reset_floor,
    trusted_now,
)
from interlock.commons.updater import MetadataRefused, Stale
from interlock.engine import ambient
from interlock.node.cli import mesh_pins
from interlock.transparency.checkpoint import Cosigner
from interlock.transparency.follow import Rollback
from interlock.transparency.policy import NoQuorum
from tests.unit.commons_world import World, log_policy, pack, plan, root_by, seed, show_roles, world

DAY_S = 86_400
DAY_US = DAY_S * 1_000_000
NOW = 1_800_000_000_000_000


@pytest.fixture
def commons(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        made.publisher.publish(pack(), "stable")
        yield made


def _followed(commons: World) -> tuple[Subscriber, Path]:
    node = commons.member("node")
    node.subscribe("team", "stable")
    node.update()
    return node, commons.home / "node"


# --- the floor under the clock ------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 2**40), min_size=1, max_size=9))
def test_less_than_half_of_the_witnesses_cannot_move_the_median_up(times: list[int]) -> None:
    honest = sorted(times)
    liars = [2**41] * (len(honest) - 1)
    assert median_us([*honest, *liars]) <= honest[-1] * 1_000_000


def test_of_two_times_in_the_middle_the_earlier_counts() -> None:
    assert median_us([7, 3]) == 3_000_000
    assert median_us([9, 3, 7]) == 7_000_000
    assert median_us([]) == 0


def test_the_floor_follows_the_witnesses_and_never_goes_back(tmp_path: Path) -> None:
    raise_floor(tmp_path, NOW, NOW)
    assert (read_floor(tmp_path), trusted_now(tmp_path, NOW - DAY_US)) == (NOW, NOW)
    raise_floor(tmp_path, NOW - DAY_US, NOW)
    assert read_floor(tmp_path) == NOW
    raise_floor(tmp_path, NOW + 900 * DAY_US, NOW)
    assert (read_floor(tmp_path), cosigned_us(tmp_path)) == (NOW + MAX_AHEAD_US, NOW + 900 * DAY_US)
    assert trusted_now(tmp_path, NOW + 2 * DAY_US) == NOW + 2 * DAY_US


def test_a_clock_below_the_floor_is_said_and_the_operator_can_let_go_of_it(tmp_path: Path) -> None:
    assert behind(tmp_path, NOW) == ""
    raise_floor(tmp_path, NOW, NOW)
    assert behind(tmp_path, NOW - SLACK_US) == ""
    assert "witnesses have signed at" in behind(tmp_path, NOW - SLACK_US - 1)
    reset_floor(tmp_path)
    assert (read_floor(tmp_path), cosigned_us(tmp_path), behind(tmp_path, 1)) == (0, NOW, "")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", BadState),
        ('{"format": "interlock-clock", "v": 1, "floor": -1, "cosigned": 0}', BadState),
        ('{"format": "interlock-clock", "v": 1, "floor": 1, "cosigned": "1"}', BadState),
        (f'{{"format": "interlock-clock", "v": 1, "floor": {10**18}}}', BadState),
        (f'{{"format": "interlock-clock", "v": 1, "cosigned": {10**18}}}', BadState),
        ('{"format": "interlock-clock", "v": 2}', NewerFormat),
    ],
)
def test_a_damaged_floor_is_said(tmp_path: Path, text: str, error: type[InterlockError]) -> None:
    (tmp_path / "clock.json").write_text(text)
    with pytest.raises(error):
        trusted_now(tmp_path, NOW)


def test_a_clock_that_is_set_back_does_not_make_ended_signatures_good_again(commons: World) -> None:
    _, home = _followed(commons)
    frozen = commons.home / "frozen"
    shutil.copytree(commons.public, frozen)
    shutil.copytree(commons.log.public, frozen / "log")
    commons.clock.advance(5 * DAY_S)
    commons.publisher.publish(pack(2), "stable")
    node = commons.member("node")
    assert node.update().rows[0].version == 2
    behind_clock = ManualClock(commons.clock.now_us() - 5 * DAY_US)
    commons.clock.advance(2 * DAY_S)
    raise_floor(home, commons.clock.now_us(), commons.clock.now_us())  # a checkpoint that was seen since
    files = DirectoryFetcher(commons.public)
    with pytest.raises(Stale):
        Subscriber(home, files, behind_clock, log=DirectoryFetcher(commons.log.public)).update()
    assert installed.load(home, "team", "stable").rules


def test_a_clock_far_ahead_refuses_all_and_leaves_nothing_behind(commons: World) -> None:
    _, home = _followed(commons)
    ahead = ManualClock(commons.clock.now_us() + 900 * DAY_US)
    with pytest.raises(Stale):
        Subscriber(home, DirectoryFetcher(commons.public), ahead, log=DirectoryFetcher(commons.log.public)).update()
    assert commons.member("node").update().rows[0].version == 1


# --- without a network --------------------------------------------------------------------------------------------


class Stick:
    """A node without a network, and what is carried to it."""

    def __init__(self, commons: World, days: int = 30) -> None:
        self.commons = commons
        self.home = commons.home / "offline"
        init_node(self.home, log_policy=log_policy(), root=commons.root, offline_us=days * DAY_US)
        self.clock = ManualClock(commons.clock.now_us())

    def fill(self, name: str) -> Path:
        """A copy of the commons and its log as they are now, for the journey."""
        bundle = self.commons.home / name
        shutil.copytree(self.commons.public, bundle)
        shutil.copytree(self.commons.log.public, bundle / "log")
        return bundle

    def node(self, bundle: Path) -> Subscriber:
        files = DirectoryFetcher(bundle)
        return Subscriber(self.home, files, self.clock, log=LogFetcher(files))


def test_a_bundle_is_judged_at_the_time_of_its_checkpoint(commons: World) -> None:
    stick = Stick(commons)
    bundle = stick.fill("one")
    stick.clock.advance(20 * DAY_S)  # its timestamp has long ended
    node = stick.node(bundle)
    node.subscribe("team", "stable")
    assert node.update().rows[0].version == 1
    assert node.update().changed == ()
    assert overdue(stick.home, stick.clock.now_us(), 30 * DAY_US) == ""
    stick.clock.advance(11 * DAY_S)
    assert "may be 30 days old" in overdue(stick.home, stick.clock.now_us(), 30 * DAY_US)
    assert installed.load(stick.home, "team", "stable").rules


def test_a_bundle_that_is_too_old_or_older_than_what_is_held_is_refused(commons: World) -> None:
    stick = Stick(commons)
    first = stick.fill("first")
    commons.clock.advance(10 * DAY_S)
    commons.publisher.publish(pack(2), "stable")
    second = stick.fill("second")
    stick.clock.advance(12 * DAY_S)
    node = stick.node(second)
    node.subscribe("team", "stable")
    assert node.update().rows[0].version == 2
    with pytest.raises(Rollback):
        stick.node(first).update()
    stick.clock.advance(40 * DAY_S)
    with pytest.raises(Stale, match="longer ago than this node lets"):
        stick.node(second).update()
    assert installed.load(stick.home, "team", "stable").rules


def test_the_order_of_bundles_goes_by_when_they_were_cosigned(tmp_path: Path) -> None:
    demand_bundle(tmp_path, NOW, NOW, DAY_US)
    raise_floor(tmp_path, NOW, NOW)
    demand_bundle(tmp_path, NOW, NOW, DAY_US)
    with pytest.raises(Rollback, match="bring a newer one"):
        demand_bundle(tmp_path, NOW - 1, NOW, DAY_US)
    with pytest.raises(Stale):
        demand_bundle(tmp_path, NOW, NOW + DAY_US + 1, DAY_US)


def test_a_node_that_holds_nothing_yet_is_overdue(tmp_path: Path) -> None:
    assert overdue(tmp_path, NOW, DAY_US) == "no bundle was taken yet"


@pytest.mark.parametrize(("text", "hours"), [("30d", 720), ("12h", 12), ("2w", 336)])
def test_an_age_has_a_unit(text: str, hours: int) -> None:
    assert age_us(text) == hours * 3_600_000_000


@pytest.mark.parametrize("text", ["", "d", "30", "0d", "-1d", "1y", "1.5d", "99999d", "٣d"])
def test_other_ages_are_refused(text: str) -> None:
    with pytest.raises(BadInput):
        age_us(text)


# --- whose checkpoints count --------------------------------------------------------------------------------------


def _one_witness() -> bytes:
    return log_policy().replace(b"both all w1 w2", b"both any w1 w2")


def _new_root(commons: World, policy: bytes, shown: bytes | None = None) -> None:
    """A root that names a log policy, and the target; `shown` in place of the policy's bytes."""
    keys = load_keys(commons.home / "commons" / "keys", TOP_ROLES)
    now, repository = commons.clock.now_us(), Repository(commons.public)
    wanted = replace(plan({role: keys[role].verifier for role in TOP_ROLES}, now), log_policy=sha256_hex(policy))
    repository.add_root(root_by(wanted, commons.root, now, "ada", "ben"))
    base = repository.versions()
    files = {LOG_POLICY: policy if shown is None else shown}
    repository.add_targets("targets", base["targets"] + 1, files, keys["targets"], now)
    show_roles(commons, {"targets": base["targets"] + 1})


def test_a_log_policy_that_a_new_root_names_is_adopted_and_said(commons: World) -> None:
    node, home = _followed(commons)
    _new_root(commons, _one_witness())
    node.update()
    pins = read_pins(home)
    assert (pins.policy.groups["both"].least, pins.policy_from) == (1, "root 2")
    assert pins.policy_at == commons.clock.now_us()
    node.update()
    assert read_pins(home) == pins


def test_a_node_without_a_network_adopts_it_before_it_judges_the_checkpoint(commons: World) -> None:
    stick = Stick(commons)
    node = stick.node(stick.fill("one"))
    node.subscribe("team", "stable")
    node.update()
    _new_root(commons, _one_witness())
    stick.node(stick.fill("two")).update()
    assert read_pins(stick.home).policy_from == "root 2"


def test_another_file_than_the_root_names_is_refused_and_changes_nothing(commons: World) -> None:
    node, home = _followed(commons)
    before = (home / "node.json").read_bytes()
    _new_root(commons, _one_witness(), shown=log_policy())
    with pytest.raises(MetadataRefused, match="is not the log policy that the root names"):
        node.update()
    assert (home / "node.json").read_bytes() == before
    assert installed.load(home, "team", "stable").rules


def test_the_operator_s_word_holds_until_the_next_root(commons: World) -> None:
    node, home = _followed(commons)
    _new_root(commons, _one_witness())
    node.update()
    stranger = log_policy().replace(b"quorum both", b"quorum w1")
    set_log_policy(home, stranger, commons.clock.now_us())
    node.update()
    assert (read_pins(home).policy_from, read_pins(home).policy.quorum) == ("operator", "w1")


def test_a_policy_that_nobody_s_checkpoint_meets_refuses_updates(commons: World) -> None:
    node, home = _followed(commons)
    text = log_policy().replace(b"quorum both\n", b"")
    witness = Cosigner("w9.example", seed("witness 9")).key.text
    set_log_policy(home, text + f"witness w9 {witness}\nquorum w9\n".encode(), commons.clock.now_us())
    with pytest.raises(NoQuorum):
        node.update()
    assert installed.load(home, "team", "stable").rules


# --- the commands -------------------------------------------------------------------------------------------------


@pytest.fixture
def home(commons: World, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(mesh_pins, "SystemClock", lambda: commons.clock)
    return _followed(commons)[1]


def test_pins_says_what_is_trusted_and_changes_the_log_policy(
    commons: World, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mesh", "pins", "--home", str(home)]) == 0
    assert f"root    sha256 {commons.sha256}\npolicy  from init\n" in capsys.readouterr().out
    file = commons.home / "policy.txt"
    file.write_bytes(_one_witness())
    assert main(["mesh", "pins", "--home", str(home), "--log-policy", str(file), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["policy_from"], said["policy_at"], said["root_sha256"]) == (
        "operator",
        commons.clock.now_us(),
        commons.sha256,
    )
    before = (home / "node.json").read_bytes()
    file.write_text("quorum none\n")
    assert main(["mesh", "pins", "--home", str(home), "--log-policy", str(file)]) == 2
    assert (home / "node.json").read_bytes() == before


def test_clock_fails_below_the_floor_until_it_is_reset(
    commons: World, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mesh", "clock", "--home", str(home)]) == 0
    raise_floor(home, commons.clock.now_us() + DAY_US, commons.clock.now_us())
    assert main(["mesh", "clock", "--home", str(home), "--json"]) == 1
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["behind"] is True
    assert main(["mesh", "clock", "--home", str(home), "--reset"]) == 0
    assert "floor  none" in capsys.readouterr().out


def test_init_states_the_age_of_an_offline_node(commons: World, capsys: pytest.CaptureFixture[str]) -> None:
    root, policy = commons.home / "root.json", commons.home / "policy.txt"
    root.write_bytes(commons.root)
    policy.write_bytes(log_policy())
    words = ["mesh", "init", "--home", str(commons.home / "o"), "--root", str(root), "--log-policy", str(policy)]
    assert main([*words, "--max-offline-age", "5d"]) == 2
    assert main([*words, "--offline", "--max-offline-age", "5x"]) == 2
    assert main([*words, "--offline", "--max-offline-age", "5d"]) == 0
    assert read_pins(commons.home / "o").offline_us == 5 * DAY_US
    assert main([*words, "--offline"]) == 2
    assert "another offline age" in capsys.readouterr().err


# --- receipts -----------------------------------------------------------------------------------------------------


def _receipts(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()[1:]]


def test_receipts_of_a_node_that_holds_its_packs_for_too_long_say_stale(commons: World, tmp_path: Path) -> None:
    stick = Stick(commons)
    node = stick.node(stick.fill("one"))
    node.subscribe("team", "stable")
    node.update()
    watch = installed.Watch(stick.home, stick.clock)
    young = watch()
    assert watch() == young
    stick.clock.advance(31 * DAY_S)
    assert watch() != young
    policy = installed.load(stick.home, "team", "stable", stick.clock)
    assert policy.stale
    assert not installed.load(stick.home, "team", "stable", ManualClock(commons.clock.now_us())).stale
    file = tmp_path / "receipts.jsonl"
    interlock.install(policy=policy, sink=interlock.FileSink(file))
    try:
        assert interlock.enforce_tool_call("Bash", {"command": "ls"})
        with pytest.raises(interlock.Blocked):
            interlock.enforce_tool_call("Bash", {"command": "run zap now"})
    finally:
        ambient.install(None)
    assert [row.get("stale") for row in _receipts(file)] == ["yes", "yes"]


def test_receipts_of_other_nodes_say_nothing_of_it(commons: World) -> None:
    _, home = _followed(commons)
    commons.clock.advance(900 * DAY_S)
    assert not installed.load(home, "team", "stable", commons.clock).stale
