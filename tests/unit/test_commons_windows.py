"""Monitor windows, pins and rollbacks: what is new is only watched, and what was in force can come back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from interlock import NotApproved, enforce_tool_call, install
from interlock.base.clock import MICROSECONDS
from interlock.base.errors import BadInput, InterlockError
from interlock.base.files import BadState
from interlock.commons import installed
from interlock.commons.found import TakenBack
from interlock.commons.live import (
    Live,
    LiveRow,
    Subscription,
    dump_live,
    parse_live,
    read_live,
    read_subscriptions,
    store_file,
    write_live,
)
from interlock.commons.pack import parse_pack
from interlock.commons.promotion import NotPromoted
from interlock.commons.status import read_status
from interlock.commons.subscribe import NotFollowed, Subscriber
from interlock.commons.windows import parse_window, shown_time
from interlock.commons.withdrawn import Scope, Withdrawn, withdrawal
from interlock.engine import ambient
from interlock.engine.decision import Verdict
from interlock.engine.evaluate import evaluate
from interlock.engine.event import SensorEvent
from interlock.engine.sinks import InMemorySink
from interlock.transparency.follow import Rollback
from tests.unit.commons_world import World, pack, world

DAY = 86_400 * MICROSECONDS
KEY = ("team", "stable")


@pytest.fixture
def commons(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made
    ambient.install(None)


@pytest.fixture
def node(commons: World) -> Subscriber:
    commons.publisher.publish(pack(), "stable")
    found = commons.member("node")
    found.subscribe(*KEY)
    found.update()
    return found


def home(commons: World) -> Path:
    return commons.home / "node"


def versions(commons: World) -> tuple[int | None, int | None]:
    """The version in force, and the one that is watched."""
    live, now = read_live(home(commons)), commons.clock.now_us()
    force, watched = live.in_force(now).get(KEY), live.watched(now).get(KEY)
    return None if force is None else force.version, None if watched is None else watched.version


def verdict(commons: World, command: str) -> tuple[Verdict, list[str]]:
    """What a command comes to, and which rules in shadow objected."""
    policy = installed.load(home(commons), *KEY, commons.clock)
    outcome = evaluate(policy, SensorEvent("Bash", {"command": command}))
    return outcome.decision.verdict, [r.id for r, d in outcome.shadows if d.verdict is not Verdict.ALLOW]


# --- windows --------------------------------------------------------------------------------------------------------


def test_a_new_pack_is_watched_for_its_window_and_then_in_force(commons: World) -> None:
    commons.publisher.publish(pack(), "stable")
    node = commons.member("node")
    node.subscribe(*KEY, 7 * DAY)
    node.update()
    assert versions(commons) == (None, 1)
    assert verdict(commons, "zap") == (Verdict.ALLOW, ["team.zap"])
    commons.clock.advance(7 * 86_400)
    assert versions(commons) == (1, None)
    assert verdict(commons, "zap") == (Verdict.ESCALATE, [])


def test_the_old_version_stays_in_force_while_the_new_one_is_watched(commons: World, node: Subscriber) -> None:
    node.subscribe(*KEY, DAY)
    commons.publisher.publish(pack(2, words=("zap", "fry")), "stable")
    node.update()
    assert versions(commons) == (1, 2)
    assert verdict(commons, "zap fry") == (Verdict.ESCALATE, ["team.fry"])
    commons.clock.advance(86_400)
    assert verdict(commons, "fry") == (Verdict.ESCALATE, [])


def test_a_changed_rule_is_watched_under_a_name_of_its_own(commons: World, node: Subscriber) -> None:
    node.subscribe(*KEY, DAY)
    changed = pack(2, words=("zap",)).data.replace(b"not for agents", b"bad for agents")
    commons.publisher.publish(parse_pack(changed, where="p"), "stable")
    node.update()
    assert verdict(commons, "zap") == (Verdict.ESCALATE, ["team.zap@2"])


@pytest.mark.parametrize("extended", [False, True], ids=["the pack", "a file that extends it"])
def test_a_running_guard_takes_the_new_version_over_by_itself(
    commons: World, node: Subscriber, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extended: bool
) -> None:
    own = {"format": "interlock-policy", "v": 1, "name": "own", "extends": ["mesh:team@stable"], "rules": []}
    (tmp_path / "own.json").write_text(json.dumps(own))
    config = tmp_path / "interlock.toml"
    config.write_text('[mesh]\nhome = "node"\n')
    monkeypatch.setenv("INTERLOCK_CONFIG", str(config))
    monkeypatch.setattr(installed, "SystemClock", lambda: commons.clock)
    node.subscribe(*KEY, DAY)
    commons.publisher.publish(pack(2, words=("zap", "fry")), "stable")
    node.update()
    sink = InMemorySink()
    install(policy=tmp_path / "own.json" if extended else "mesh:team@stable", sink=sink)
    assert enforce_tool_call("Bash", {"command": "run fry now"}) == {"command": "run fry now"}
    commons.clock.advance(86_400)  # and no update comes
    ambient.installed().live.refresh(wait=True)
    with pytest.raises(NotApproved, match="fry"):
        enforce_tool_call("Bash", {"command": "run fry now"})
    assert [r.shadows for r in sink.receipts] == ["team.fry BLOCK", None]
    assert [r.policy_epoch for r in sink.receipts] == [1, 2]


def test_a_version_that_comes_within_a_window_is_watched_anew_and_the_first_stays(
    commons: World, node: Subscriber
) -> None:
    node.subscribe(*KEY, 2 * DAY)
    for version in (2, 3):
        commons.publisher.publish(pack(version, words=("zap", f"w{version}")), "stable")
        node.update()
        assert versions(commons) == (1, version)
        commons.clock.advance(3600)
    assert verdict(commons, "zap")[0] is Verdict.ESCALATE


def test_a_clock_that_is_set_back_does_not_begin_a_window_again(commons: World, node: Subscriber) -> None:
    node.subscribe(*KEY, DAY)
    commons.publisher.publish(pack(2), "stable")
    node.update()
    commons.clock.advance(86_400)
    commons.publisher.renew()
    node.update()
    commons.clock.advance(-3600)
    assert versions(commons) == (2, None)


def test_a_window_is_shortened_and_never_made_longer_for_what_is_watched(commons: World, node: Subscriber) -> None:
    node.subscribe(*KEY, DAY)
    commons.publisher.publish(pack(2), "stable")
    node.update()
    node.subscribe(*KEY, 9 * DAY)
    commons.clock.advance(3600)
    node.subscribe(*KEY)
    assert read_subscriptions(home(commons)) == (Subscription(*KEY, 9 * DAY),)
    assert versions(commons) == (1, 2)
    node.subscribe(*KEY, 0)
    assert versions(commons) == (2, None)


def test_a_grant_of_a_watched_rule_acts_when_the_window_is_over(commons: World, node: Subscriber) -> None:
    node.subscribe(*KEY, DAY)
    commons.publisher.publish(pack(2, words=("zap", "fry")), "stable")
    node.update()
    now = commons.clock.now_us()
    installed.grant(home(commons), *KEY, ["team.fry"], now, watched=True)
    assert verdict(commons, "fry") == (Verdict.ALLOW, ["team.fry"])
    commons.clock.advance(86_400)
    assert verdict(commons, "fry")[0] is Verdict.BLOCK
    with pytest.raises(installed.NotInstalled, match="no version in a monitor window"):
        installed.grant(home(commons), *KEY, None, commons.clock.now_us(), watched=True)


@pytest.mark.parametrize(
    ("text", "us"), [("1w", 7 * DAY), ("7d", 7 * DAY), ("12h", DAY // 2), ("30m", DAY // 48), ("0s", 0)]
)
def test_windows_are_read_as_people_write_them(text: str, us: int) -> None:
    assert parse_window(text) == us


@pytest.mark.parametrize("text", ["", "7", "d", "7 d", "-1d", "91d", "1.5h", "7D", "7d\n", "٧d", "99999999s"])
def test_what_is_no_window_is_said(text: str) -> None:
    with pytest.raises(BadInput, match=r"7d, 12h|longer than 90 days"):
        parse_window(text)


@pytest.mark.parametrize(("us", "text"), [(0, "0 s"), (DAY + 3661 * MICROSECONDS, "1 d 1 h"), (61_000_000, "1 m 1 s")])
def test_times_are_told_in_two_units(us: int, text: str) -> None:
    assert shown_time(us) == text


# --- pins and rollbacks ---------------------------------------------------------------------------------------------


def test_a_pinned_version_stays_until_the_pin_is_cleared(commons: World, node: Subscriber) -> None:
    node.pin(*KEY, 1)
    commons.publisher.publish(pack(2, words=("fry",)), "stable")
    assert node.update().changed == ()
    assert versions(commons) == (1, None)
    assert read_live(home(commons)).seen[KEY][0] == 2
    node.pin(*KEY, 0)
    node.update()
    assert versions(commons) == (2, None)


def test_a_pin_names_a_later_version_that_is_not_the_newest(commons: World, node: Subscriber) -> None:
    for version in (2, 3):
        commons.publisher.publish(pack(version), "stable")
    node.pin(*KEY, 2)
    node.update()
    assert versions(commons) == (2, None)


def test_a_pin_does_not_go_back(commons: World, node: Subscriber) -> None:
    commons.publisher.publish(pack(2), "stable")
    node.update()
    with pytest.raises(NotFollowed, match="has version 2 in force, and 1 is older"):
        node.pin(*KEY, 1)
    with pytest.raises(NotFollowed, match="not followed here"):
        node.pin("other", "stable", 1)


def test_a_pin_to_what_was_never_published_changes_nothing(commons: World, node: Subscriber) -> None:
    node.pin(*KEY, 9)
    with pytest.raises(InterlockError):
        node.update()
    assert versions(commons) == (1, None)


def test_a_rollback_returns_to_the_version_before_and_no_update_undoes_it(commons: World, node: Subscriber) -> None:
    commons.publisher.publish(pack(2, words=("fry",)), "stable")
    node.update()
    last, back = node.rollback(*KEY)
    assert (last.version, back.version) == (2, 1)
    assert verdict(commons, "zap")[0] is Verdict.ESCALATE
    commons.publisher.publish(pack(3, words=("fry",)), "stable")
    node.update()
    assert versions(commons) == (1, None)
    node.pin(*KEY, 0)
    node.update()
    assert versions(commons) == (3, None)


def test_a_rule_that_was_granted_in_the_version_left_acts_no_more(commons: World, node: Subscriber) -> None:
    commons.publisher.publish(pack(2, words=("zap", "fry")), "stable")
    node.update()
    installed.grant(home(commons), *KEY, None, commons.clock.now_us())
    assert verdict(commons, "fry")[0] is Verdict.BLOCK
    node.rollback(*KEY)
    assert verdict(commons, "fry")[0] is Verdict.ALLOW
    assert verdict(commons, "zap")[0] is Verdict.BLOCK  # it means the same in version 1


def test_a_rollback_within_a_window_lets_go_of_what_is_watched(commons: World, node: Subscriber) -> None:
    node.subscribe(*KEY, DAY)
    commons.publisher.publish(pack(2), "stable")
    node.update()
    node.rollback(*KEY)
    assert versions(commons) == (1, None)


def test_there_is_one_rollback_and_never_to_what_was_not_in_force(commons: World, node: Subscriber) -> None:
    with pytest.raises(NotFollowed, match="no version that was in force before"):
        node.rollback(*KEY)
    commons.publisher.publish(pack(2), "stable")
    node.update()
    node.rollback(*KEY)
    with pytest.raises(NotFollowed, match="no version that was in force before"):
        node.rollback(*KEY)


def test_no_rollback_returns_to_a_version_that_was_taken_back(commons: World, node: Subscriber) -> None:
    commons.publisher.publish(pack(2), "stable")
    node.update()
    withdraw(commons, 1)
    before = (home(commons) / "live.json").read_bytes()
    with pytest.raises(TakenBack, match="version 1 was taken back"):
        node.rollback(*KEY)
    assert (home(commons) / "live.json").read_bytes() == before
    assert read_subscriptions(home(commons))[0].pin == 0


def test_a_rollback_to_bytes_that_are_gone_changes_nothing(commons: World, node: Subscriber) -> None:
    commons.publisher.publish(pack(2), "stable")
    node.update()
    store_file(home(commons), pack().digest).write_bytes(b"{}")
    with pytest.raises(BadState, match="not the pack that was verified"):
        node.rollback(*KEY)
    assert versions(commons) == (2, None)


def test_a_rollback_that_was_killed_half_way_is_completed_by_the_next_update(
    commons: World, node: Subscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    commons.publisher.publish(pack(2), "stable")
    node.update()

    def killed(path: Path, live: Live) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("interlock.commons.subscribe.write_live", killed)
        with pytest.raises(KeyboardInterrupt):
            node.rollback(*KEY)
    assert versions(commons) == (2, None)
    node.update()
    assert versions(commons) == (1, None)


def withdraw(commons: World, version: int) -> None:
    live = read_live(home(commons))
    write_live(home(commons), replace(live, withdrawn=(Withdrawn("team", version, (), "activation", "broken"),)))


def test_a_version_that_was_taken_back_is_held_and_what_is_in_force_stays(commons: World, node: Subscriber) -> None:
    withdraw(commons, 2)
    commons.publisher.publish(pack(2), "stable")
    update = node.update()
    assert (update.changed, update.held[0][0]) == ((), "team@stable")
    assert "version 2 was taken back (broken)" in update.held[0][1]
    assert versions(commons) == (1, None)
    assert "taken back" in str(read_status(home(commons))["held"])
    with pytest.raises(TakenBack):
        node.pin(*KEY, 2)


def test_a_version_that_was_taken_back_is_not_begun_with(commons: World) -> None:
    commons.publisher.publish(pack(), "stable")
    node = commons.member("node")
    withdraw(commons, 1)
    node.subscribe(*KEY)
    with pytest.raises(TakenBack, match="taken back"):
        node.update()


def test_what_the_commons_takes_back_is_not_begun_and_what_is_in_force_stays(commons: World, node: Subscriber) -> None:
    commons.publisher.publish(pack(2), "stable")
    commons.publisher.revoke("team", 2, why="blocks printing")
    update = node.update()
    assert [str(row) for row in update.withdrawn] == ["team version 2 in stable: all rules (blocks printing)"]
    assert "blocks printing" in update.held[0][1]
    assert versions(commons) == (1, None)
    assert node.update().withdrawn == ()


def test_a_removal_takes_a_granted_rule_out_of_force_and_a_revocation_does_not(
    commons: World, node: Subscriber
) -> None:
    installed.grant(home(commons), *KEY, None, commons.clock.now_us())
    commons.publisher.revoke("team", 1, why="blocks printing")
    node.update()
    assert verdict(commons, "zap")[0] is Verdict.BLOCK
    commons.publisher.revoke("team", 1, why="blocks printing", rules=("team.zap",), removal=True)
    update = node.update()
    assert ("removal", ("team.zap",)) in [(row.scope, row.rules) for row in update.withdrawn]
    assert verdict(commons, "zap")[0] is Verdict.ALLOW


def test_a_stable_pack_without_the_evidence_of_its_promotion_is_refused(
    commons: World, node: Subscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.unit.commons_world.NEEDS_PROMOTION", frozenset())
    monkeypatch.setattr("interlock.commons.release.NEEDS_PROMOTION", frozenset())
    commons.publisher.publish(pack(2), "stable")  # as whoever has stolen the ring's key
    with pytest.raises(NotPromoted, match="came to stable without what a promotion needs"):
        node.update()
    assert versions(commons) == (1, None)
    assert verdict(commons, "zap")[0] is Verdict.ESCALATE


def test_what_a_ring_was_seen_to_have_is_a_floor_after_unsubscribing_too(commons: World, node: Subscriber) -> None:
    node.unsubscribe(*KEY)
    live = read_live(home(commons))
    assert (live.rows, live.seen[KEY][0]) == ({}, 1)
    write_live(home(commons), live.with_seen(KEY, (5, "ab" * 32)))
    node.subscribe(*KEY)
    with pytest.raises(Rollback, match="offers version 1 after 5"):
        node.update()


# --- files ----------------------------------------------------------------------------------------------------------


def test_all_that_a_live_file_holds_reads_back() -> None:
    one, two = (LiveRow(*KEY, v, "ab" * 32, 5, 9, 7, live) for v, live in ((2, 99), (1, 0)))
    live = Live({KEY: one}, {KEY: two}, {KEY: (3, "cd" * 32)}, (Withdrawn("team", 1, ("a",), "removal", "w"),))
    assert parse_live(dump_live(live), where="f") == live


def test_a_live_file_of_the_first_version_is_read() -> None:
    row = {"pack": "team", "ring": "stable", "version": 1, "sha256": "ab" * 32}
    row |= {"log_index": 0, "tree_size": 1, "at": 5}
    text = json.dumps({"format": "interlock-live", "v": 1, "packs": [row]})
    assert parse_live(text.encode(), where="f").rows == {KEY: LiveRow(*KEY, 1, "ab" * 32, 0, 1, 5)}


def test_subscriptions_of_the_first_version_are_read(commons: World, node: Subscriber) -> None:
    text = '{"format": "interlock-subscriptions", "v": 1, "packs": [["team", "stable"]]}'
    (home(commons) / "subscriptions.json").write_text(text)
    assert read_subscriptions(home(commons)) == (Subscription(*KEY),)


@pytest.mark.parametrize("field", ["scope", "rules", "why", "version"])
def test_a_withdrawal_of_another_form_is_refused(field: str) -> None:
    live = Live(withdrawn=(Withdrawn("team", 1, (), "removal", "w"),))
    body = json.loads(dump_live(live))
    body["withdrawn"][0][field] = {"x": 1}
    with pytest.raises(BadState):
        parse_live(json.dumps(body).encode(), where="f")


def test_a_status_that_this_node_did_not_write_is_told(commons: World, node: Subscriber) -> None:
    path = home(commons) / "status.json"
    body = json.loads(path.read_text())
    path.write_text(json.dumps({**body, "tree_size": body["tree_size"] + 1}))
    with pytest.raises(BadState, match="was not written by this node"):
        read_status(home(commons))
    node.update()
    assert read_status(home(commons))["ok"] is True


def taken(version: int, *rules: str, scope: Scope = "activation") -> Withdrawn:
    return Withdrawn("team", version, rules, scope, "wrong", "stable")


def watching(commons: World, node: Subscriber) -> None:
    """Version 1 is in force, 2 in its monitor window of two days."""
    node.subscribe(*KEY, 2 * DAY)
    commons.publisher.publish(pack(version=2), "stable")
    node.update()
    assert versions(commons) == (1, 2)


@pytest.mark.parametrize("rules", [(), ("team.zap",)], ids=["whole", "in part"])
def test_a_version_that_is_taken_back_while_it_is_watched_never_comes_into_force(
    commons: World, node: Subscriber, rules: tuple[str, ...]
) -> None:
    watching(commons, node)
    commons.publisher.revoke("team", 2, why="wrong", rules=rules)
    assert "was taken back" in dict(node.update().held)["team@stable"]
    commons.clock.advance(3 * 86_400)
    assert versions(commons) == (1, None)  # by time alone
    commons.publisher.renew()
    assert dict(node.update().held)
    assert versions(commons) == (1, None)
    commons.publisher.publish(pack(version=3), "stable")
    node.update()
    assert versions(commons) == (1, 3)  # what comes next is watched beside what is in force, not beside what was not
    commons.clock.advance(3 * 86_400)
    assert versions(commons) == (3, None)


def test_a_window_that_was_over_before_the_withdrawal_was_heard_of_leaves_the_version_in_force(
    commons: World, node: Subscriber
) -> None:
    watching(commons, node)
    commons.clock.advance(3 * 86_400)
    commons.publisher.revoke("team", 2, why="wrong")
    assert not node.update().held
    assert versions(commons) == (2, None)


def test_a_version_with_a_rule_that_was_taken_back_is_not_begun_unless_the_rule_is_out_of_force_anyway() -> None:
    begun = [taken(1, "a"), taken(1, "b")]
    assert withdrawal(begun, "team", 1, "stable") == begun[0]
    removed = [taken(1, "a"), taken(1, "a", scope="removal")]
    assert withdrawal(removed, "team", 1, "stable") is None
    assert withdrawal([*removed, begun[1]], "team", 1, "stable") == begun[1]
    assert withdrawal(begun, "team", 1, "beta") is None


def test_more_taken_back_than_a_node_can_read_again_is_not_written(commons: World, node: Subscriber) -> None:
    before = (home(commons) / "live.json").read_bytes()
    much = tuple(taken(version, *(f"{'r' * 190}{i}" for i in range(300))) for version in range(2, 302))
    with pytest.raises(BadState, match="stays as it is"):
        write_live(home(commons), replace(read_live(home(commons)), withdrawn=much))
    assert (home(commons) / "live.json").read_bytes() == before
