"""The whole way of a pack: the built-in policy published, followed, installed in a guard; and kill -9 on that way."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import interlock
from interlock import Blocked, NotApproved, enforce_tool_call
from interlock.commons import installed
from interlock.commons.indicators import indicator_pack
from interlock.commons.live import read_live
from interlock.commons.pack import pack_from_policy
from interlock.commons.resolve import BASE_NAME
from interlock.commons.signers import RoleSigner, read_key
from interlock.engine import ambient
from interlock.engine.detectors.indicator import host_indicator
from interlock.engine.policy.builtins import builtin
from tests.unit.commons_world import SIGN_OFF, World, pack, world


@pytest.fixture
def commons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    config = tmp_path / "interlock.toml"
    config.write_text('[mesh]\nhome = "node"\n')
    monkeypatch.setenv("INTERLOCK_CONFIG", str(config))
    with world(tmp_path) as made:
        builtin_pack = pack_from_policy(
            builtin(BASE_NAME),
            version=1,
            licence="Apache-2.0",
            authors=["The maintainers"],
            signed_off_by=[SIGN_OFF],
            where="builtin",
        )
        made.publisher.publish(builtin_pack, "stable")
        yield made
        ambient.install(None)


@pytest.fixture
def node(commons: World) -> Path:
    subscriber = commons.member("node")
    subscriber.subscribe(BASE_NAME, "stable")
    subscriber.update()
    return commons.home / "node"


def test_the_built_in_pack_acts_in_full_without_a_grant_and_names_its_place_in_the_log(node: Path) -> None:
    policy = installed.load(node, BASE_NAME, "stable")
    assert {r.id for r in policy.rules} == {d.id for d in installed.base_rules()}
    assert {r.source.kind for r in policy.rules} == {"pack"}
    assert {r.source.log_index for r in policy.rules} == {4}
    interlock.install(policy=f"mesh:{BASE_NAME}@stable")
    with pytest.raises(Blocked) as caught:
        enforce_tool_call("Bash", {"command": "rm -rf /"})
    assert not isinstance(caught.value, NotApproved)
    assert enforce_tool_call("Bash", {"command": "ls"}) == {"command": "ls"}


def test_an_indicator_asks_a_fresh_node_and_blocks_after_the_grant(commons: World, node: Path) -> None:
    host = host_indicator("evil.example.com")
    call = {"url": "https://evil.example.com/x", "prompt": "read it"}
    key_file = commons.home / "commons" / "keys" / "reviewed.key"
    reviewer = RoleSigner(read_key(key_file))
    key_file.unlink()  # the reviewer keeps it elsewhere
    made = indicator_pack("indicator-hosts", 1, [host], authors=["A"], signed_off_by=[SIGN_OFF], organisations=3)
    commons.publisher.publish(made, "stable", signer=reviewer)
    subscriber = commons.member("node")
    subscriber.subscribe("indicator-hosts", "stable")
    subscriber.update()
    interlock.install(policy=f"mesh:{BASE_NAME}+indicator-hosts@stable")
    with pytest.raises(NotApproved, match="not granted"):
        enforce_tool_call("WebFetch", call)
    installed.grant(node, "indicator-hosts", "stable", None, commons.clock.now_us())
    ambient.installed().live.refresh(wait=True)
    with pytest.raises(Blocked, match="reported by at least 3 organisations") as caught:
        enforce_tool_call("WebFetch", call)
    assert not isinstance(caught.value, NotApproved)


def test_a_running_guard_takes_a_new_version_over_and_keeps_the_last_good_one(commons: World, node: Path) -> None:
    subscriber = commons.member("node")
    commons.publisher.publish(pack(1), "stable")
    subscriber.subscribe("team", "stable")
    subscriber.update()
    interlock.install(policy="mesh:team@stable")
    with pytest.raises(NotApproved):
        enforce_tool_call("Bash", {"command": "zap"})
    assert enforce_tool_call("Bash", {"command": "mow"})
    commons.publisher.publish(pack(2, words=("zap", "mow")), "stable")
    subscriber.update()
    ambient.installed().live.refresh(wait=True)
    with pytest.raises(NotApproved):
        enforce_tool_call("Bash", {"command": "mow"})
    (node / "live.json").write_text("{")
    ambient.installed().live.refresh(wait=True)
    with pytest.raises(NotApproved):
        enforce_tool_call("Bash", {"command": "mow"})


MEMBER = """
import sys
from pathlib import Path
from interlock.base.clock import ManualClock
from interlock.base.errors import InterlockError
from interlock.base.fetch import DirectoryFetcher
from interlock.commons.subscribe import Subscriber
home, public, log, now = sys.argv[1:]
log = DirectoryFetcher(Path(log))
subscriber = Subscriber(Path(home), DirectoryFetcher(Path(public)), ManualClock(int(now)), log=log)
print("ready", flush=True)
while True:
    for row in subscriber.update().changed:
        print(row.version, flush=True)
"""


def test_a_member_killed_at_any_moment_keeps_what_it_acknowledged(commons: World) -> None:
    rng = random.Random(20)
    subscriber, home = commons.member("killed"), commons.home / "killed"
    commons.publisher.publish(pack(1), "stable")
    subscriber.subscribe("team", "stable")
    version = 1
    for _ in range(4):
        arguments = [str(home), str(commons.public), str(commons.log.public), str(commons.clock.now_us())]
        child = subprocess.Popen(
            [sys.executable, "-c", MEMBER, *arguments], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        with child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            for _ in range(2):
                version += 1
                commons.publisher.publish(pack(version, words=("zap", f"w{version}")), "stable")
            time.sleep(rng.uniform(0.0, 0.15))
            os.kill(child.pid, signal.SIGKILL)
            acknowledged = [int(line) for line in child.stdout.read().split()]
        row = read_live(home).rows.get(("team", "stable"))
        assert (0 if row is None else row.version) >= max(acknowledged, default=0)
        if row is not None:
            assert installed.load(home, "team", "stable").rules
    assert commons.member("killed").update().rows[0].version == version
