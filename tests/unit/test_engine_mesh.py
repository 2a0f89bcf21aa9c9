"""`install(policy="mesh:PACK@RING")`: a subscription guards, follows updates and grants, and is told in receipts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock import Blocked, NotApproved, enforce_tool_call, install
from interlock.commons import installed
from interlock.commons.subscribe import Subscriber
from interlock.engine import ambient
from interlock.engine.sinks import InMemorySink
from tests.unit.commons_world import World, pack, world


@pytest.fixture
def commons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    config = tmp_path / "interlock.toml"
    config.write_text('[mesh]\nhome = "node"\n')
    monkeypatch.setenv("INTERLOCK_CONFIG", str(config))
    with world(tmp_path) as made:
        yield made
    ambient.install(None)


def subscribed(commons: World) -> Subscriber:
    commons.publisher.publish(pack(), "stable")
    node = commons.member("node")
    node.subscribe("team", "stable")
    node.update()
    return node


def test_a_subscription_guards_and_its_place_in_the_log_is_told(commons: World) -> None:
    subscribed(commons)
    index = commons.publisher.publish(pack(), "stable").log_index
    sink = InMemorySink()
    install(policy="mesh:team@stable", sink=sink)
    assert enforce_tool_call("Bash", {"command": "ls"}) == {"command": "ls"}
    with pytest.raises(NotApproved):
        enforce_tool_call("Bash", {"command": "run zap now"})
    plain, refused = sink.receipts
    assert (plain.pack_digest, plain.log_index) == (None, None)
    assert (refused.pack_digest, refused.rule) == (pack().digest, "team.zap")
    assert refused.log_index == index
    assert refused.policy_epoch == 1


def test_a_grant_and_a_new_version_are_in_force_once_they_are_loaded(commons: World) -> None:
    node = subscribed(commons)
    sink = InMemorySink()
    install(policy="mesh:team@stable", sink=sink)
    installed.grant(commons.home / "node", "team", "stable", ["team.zap"], commons.clock.now_us())
    ambient.installed().live.refresh(wait=True)
    with pytest.raises(Blocked) as granted:
        enforce_tool_call("Bash", {"command": "run zap now"})
    assert not isinstance(granted.value, NotApproved)
    commons.publisher.publish(pack(2, words=("zap", "fry")), "stable")
    node.update()
    ambient.installed().live.refresh(wait=True)
    with pytest.raises(NotApproved, match="fry"):
        enforce_tool_call("Bash", {"command": "run fry now"})
    assert [r.policy_epoch for r in sink.receipts] == [2, 3]


def test_a_damaged_subscription_leaves_the_last_good_policy(commons: World) -> None:
    subscribed(commons)
    install(policy="mesh:team@stable")
    (commons.home / "node" / "live.json").write_text("{ broken")
    ambient.installed().live.refresh(wait=True)
    with pytest.raises(NotApproved):
        enforce_tool_call("Bash", {"command": "run zap now"})
    assert ambient.installed().live.trouble is not None


def test_a_file_that_extends_a_subscription_follows_it_too(commons: World, tmp_path: Path) -> None:
    node = subscribed(commons)
    own = {"format": "interlock-policy", "v": 1, "name": "own", "extends": ["mesh:team@stable"], "rules": []}
    (tmp_path / "own.json").write_text(json.dumps(own))
    install(policy=tmp_path / "own.json")
    with pytest.raises(NotApproved):
        enforce_tool_call("Bash", {"command": "run zap now"})
    assert enforce_tool_call("Bash", {"command": "run fry now"}) == {"command": "run fry now"}
    commons.publisher.publish(pack(2, words=("zap", "fry")), "stable")
    node.update()
    ambient.installed().live.refresh(wait=True)
    with pytest.raises(NotApproved, match="fry"):
        enforce_tool_call("Bash", {"command": "run fry now"})


def test_a_canary_pack_holds_nothing_up_and_its_objections_are_on_record(commons: World) -> None:
    commons.publisher.publish(pack(), "canary")
    node = commons.member("node")
    node.subscribe("team", "canary")
    node.update()
    sink = InMemorySink()
    install(policy="mesh:team@canary", sink=sink)
    assert enforce_tool_call("Bash", {"command": "run zap now"}) == {"command": "run zap now"}
    (kept,) = sink.receipts
    assert (kept.verdict, kept.shadows) == ("ALLOW", "team.zap BLOCK")
