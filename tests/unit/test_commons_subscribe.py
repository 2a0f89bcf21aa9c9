"""A member node: what verifies goes live, what does not leaves the last good in force and says so."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.errors import BadInput, InterlockError
from interlock.base.fetch import DirectoryFetcher, NotFound
from interlock.base.files import BadState, Locked, file_lock
from interlock.commons import installed
from interlock.commons.indicators import BadCatalog, build_catalog, indicator_pack
from interlock.commons.live import Live, LiveRow, dump_live, parse_live, store_file
from interlock.commons.pack import BadPack
from interlock.commons.pins import init_node, read_pins
from interlock.commons.status import read_status
from interlock.commons.updater import UntrustedRoot
from interlock.engine.decision import Verdict
from interlock.engine.evaluate import evaluate
from interlock.engine.event import SensorEvent
from interlock.engine.policy.model import Policy
from interlock.transparency.follow import Rollback
from tests.unit.commons_world import SIGN_OFF, World, log_policy, pack, status, world


@pytest.fixture
def commons(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


def _verdict(policy: Policy, command: str) -> Verdict:
    return evaluate(policy, SensorEvent("Bash", {"command": command})).decision.verdict


def test_a_subscribed_pack_goes_live_with_its_place_in_the_log(commons: World) -> None:
    done = commons.publisher.publish(pack(), "stable")
    node = commons.member("node")
    node.subscribe("team", "stable")
    update = node.update()
    (row,) = update.rows
    assert (row.pack, row.ring, row.version, row.sha256) == ("team", "stable", 1, pack().digest)
    assert (row.log_index, row.tree_size, update.tree_size) == (done.log_index, done.tree_size, commons.log.log.size)
    assert update.changed == update.rows
    policy = installed.load(commons.home / "node", "team", "stable")
    (mine,) = [r for r in policy.rules if r.id == "team.zap"]
    assert mine.source.pack_digest == pack().digest
    assert mine.source.log_index == done.log_index
    assert status(commons.home / "node")["ok"] is True


def test_an_update_with_nothing_new_changes_nothing(commons: World) -> None:
    commons.publisher.publish(pack(), "stable")
    node = commons.member("node")
    node.subscribe("team", "stable")
    node.update()
    before = installed.Watch(commons.home / "node")()
    commons.clock.advance(60)
    again = node.update()
    assert again.changed == ()
    assert len(again.rows) == 1
    assert installed.Watch(commons.home / "node")() == before


def test_a_new_version_replaces_the_old_one(commons: World) -> None:
    commons.publisher.publish(pack(), "stable")
    node = commons.member("node")
    node.subscribe("team", "stable")
    node.update()
    before = installed.Watch(commons.home / "node")()
    digest = installed.load(commons.home / "node", "team", "stable").digest
    commons.publisher.publish(pack(2, words=("zap", "fry")), "stable")
    assert [r.version for r in node.update().changed] == [2]
    assert installed.Watch(commons.home / "node")() != before
    policy = installed.load(commons.home / "node", "team", "stable")
    assert policy.digest != digest
    assert {"team.zap", "team.fry"} <= {r.id for r in policy.rules}


def test_the_store_keeps_what_is_in_force_and_what_was_just_before(commons: World) -> None:
    node = commons.member("node")
    node.subscribe("team", "stable")
    for version in (1, 2, 3):
        commons.publisher.publish(pack(version), "stable")
        node.update()
    kept = {p.stem for p in (commons.home / "node" / "store").iterdir()}
    assert kept == {pack(2).digest, pack(3).digest}


def test_a_community_block_asks_until_it_is_granted_and_then_blocks(commons: World) -> None:
    commons.publisher.publish(pack(), "stable")
    node, home = commons.member("node"), commons.home / "node"
    node.subscribe("team", "stable")
    node.update()
    assert _verdict(installed.load(home, "team", "stable"), "zap") is Verdict.ESCALATE
    before = installed.Watch(home)()
    (granted,) = installed.grant(home, "team", "stable", ["team.zap"], commons.clock.now_us())
    assert granted.rule == "team.zap"
    assert installed.Watch(home)() != before
    assert _verdict(installed.load(home, "team", "stable"), "zap") is Verdict.BLOCK
    installed.revoke(home, "team", ["team.zap"])
    assert _verdict(installed.load(home, "team", "stable"), "zap") is Verdict.ESCALATE


def test_granting_an_unknown_rule_is_refused(commons: World) -> None:
    commons.publisher.publish(pack(), "stable")
    node = commons.member("node")
    node.subscribe("team", "stable")
    with pytest.raises(installed.NotInstalled):
        installed.grant(commons.home / "node", "team", "stable", None, 1)
    node.update()
    with pytest.raises(BadPack, match="no rule of this pack"):
        installed.grant(commons.home / "node", "team", "stable", ["team.nope"], 1)


def test_two_packs_are_in_force_together(commons: World) -> None:
    commons.publisher.publish(pack(), "stable")
    commons.publisher.publish(pack(name="other", words=("fry",)), "stable")
    node = commons.member("node")
    node.subscribe("team", "stable")
    node.subscribe("other", "stable")
    node.update()
    policy = installed.load(commons.home / "node", "team+other", "stable")
    assert _verdict(policy, "zap") is Verdict.ESCALATE
    assert _verdict(policy, "fry") is Verdict.ESCALATE


def test_an_indicator_pack_arrives_as_any_other(commons: World) -> None:
    made = indicator_pack("indicator-hosts", 1, ["host:" + "ab" * 32], authors=["R"], signed_off_by=[SIGN_OFF])
    commons.publisher.publish(made, "stable")
    node = commons.member("node")
    node.subscribe("indicator-hosts", "stable")
    assert node.update().rows[0].sha256 == made.digest


def test_a_pack_that_the_ring_does_not_have_is_said(commons: World) -> None:
    commons.publisher.publish(pack(), "beta")
    node = commons.member("node")
    node.subscribe("team", "stable")
    with pytest.raises(NotFound, match="not published in ring stable"):
        node.update()
    assert status(commons.home / "node")["trouble"] == read_status(commons.home / "node")["trouble"]


@pytest.mark.parametrize("name", ["", "Team", "../team", "a b", "team\n"])
def test_what_cannot_be_a_pack_s_name_is_not_followed(commons: World, name: str) -> None:
    node = commons.member("node")
    with pytest.raises(BadPack, match="name is not"):
        node.subscribe(name, "stable")
    with pytest.raises(ValueError, match="not a ring"):
        node.subscribe("team", "gold")
    assert not (commons.home / "node" / "subscriptions.json").exists()


def test_a_bad_subscription_holds_up_the_others_but_takes_nothing_out_of_force(commons: World) -> None:
    commons.publisher.publish(pack(), "stable")
    node, home = commons.member("node"), commons.home / "node"
    node.subscribe("team", "stable")
    node.update()
    node.subscribe("missing", "stable")
    with pytest.raises(NotFound):
        node.update()
    assert installed.load(home, "team", "stable").rules
    node.unsubscribe("missing", "stable")
    assert node.update().changed == ()


def test_unsubscribing_takes_a_pack_out_of_force(commons: World) -> None:
    commons.publisher.publish(pack(), "stable")
    node = commons.member("node")
    node.subscribe("team", "stable")
    node.update()
    node.unsubscribe("team", "stable")
    with pytest.raises(installed.NotInstalled):
        installed.load(commons.home / "node", "team", "stable")


def test_a_changed_file_in_the_store_is_noticed_and_brought_anew(commons: World) -> None:
    commons.publisher.publish(pack(), "stable")
    node, home = commons.member("node"), commons.home / "node"
    node.subscribe("team", "stable")
    node.update()
    path = store_file(home, pack().digest)
    path.write_bytes(path.read_bytes().replace(b"zap", b"zip"))
    with pytest.raises(BadState, match="not the pack that was verified"):
        installed.load(home, "team", "stable")
    assert len(node.update().changed) == 1
    assert installed.load(home, "team", "stable").rules


def test_another_update_under_way_is_said(commons: World) -> None:
    node = commons.member("node")
    with file_lock(commons.home / "node" / "lock"), pytest.raises(Locked):
        node.update()


def test_a_node_asks_for_no_time_but_its_clock_s(commons: World) -> None:
    # 2027 by the world's clock, whatever the machine's says: were the wall clock read, this would be stale or not.
    commons.publisher.publish(pack(), "stable")
    node = commons.member("node")
    node.subscribe("team", "stable")
    assert node.update().at == commons.clock.now_us()


# --- init -------------------------------------------------------------------------------------------------------------


def test_a_root_is_trusted_by_its_digest_even_from_a_mirror(commons: World) -> None:
    fetcher = DirectoryFetcher(commons.public)
    pins = init_node(commons.home / "n", log_policy=log_policy(), root_sha256=commons.sha256, fetcher=fetcher)
    assert pins.root == commons.root
    assert read_pins(commons.home / "n") == pins


def test_a_root_with_another_digest_is_refused_and_leaves_nothing(commons: World) -> None:
    fetcher = DirectoryFetcher(commons.public)
    with pytest.raises(UntrustedRoot):
        init_node(commons.home / "n", log_policy=log_policy(), root_sha256="0" * 64, fetcher=fetcher)
    assert not (commons.home / "n").exists()


@pytest.mark.parametrize("digest", ["", "abc", "A" * 64, "g" * 64])
def test_a_digest_that_is_none_is_refused(commons: World, digest: str) -> None:
    with pytest.raises(BadInput):
        init_node(commons.home / "n", log_policy=log_policy(), root_sha256=digest, root=commons.root)


def test_there_is_no_trust_on_first_use(commons: World) -> None:
    with pytest.raises(BadInput, match="needs the root to trust"):
        init_node(commons.home / "n", log_policy=log_policy(), fetcher=DirectoryFetcher(commons.public))


def test_a_policy_without_witnesses_is_refused(commons: World) -> None:
    alone = log_policy().splitlines()[0] + b"\nquorum none\n"
    latin = log_policy().replace(b"\nwitness", b" http://h\xe9/\nwitness", 1)
    for policy in (alone, b"quorum none\n", b"garbage\n", b"", latin):
        with pytest.raises(BadInput):
            init_node(commons.home / "n", log_policy=policy, root=commons.root)


def test_init_again_with_the_same_pins_changes_nothing_and_with_others_is_refused(commons: World) -> None:
    home = commons.home / "n"
    first = init_node(home, log_policy=log_policy(), root=commons.root)
    assert init_node(home, log_policy=log_policy(), root_sha256=commons.sha256) == first
    with pytest.raises(BadState, match="another commons"):
        init_node(home, log_policy=log_policy(), root_sha256="1" * 64)


def test_a_home_that_was_never_initialised_is_said(commons: World) -> None:
    with pytest.raises(BadState, match="no node yet"):
        read_pins(commons.home / "nowhere")


# --- catalogs -----------------------------------------------------------------------------------------------------


def test_a_catalog_comes_with_its_proof(commons: World) -> None:
    opens = commons.clock.now_us() + 1_000_000
    catalog = build_catalog("task-1", opens_at=opens, rules=["fs.destroy"], indicators=["host:" + "0" * 64])
    commons.publisher.publish_catalog(catalog)
    assert commons.member("node").catalog("task-1") == catalog


def test_a_catalog_that_was_logged_after_it_opened_is_refused(commons: World, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = build_catalog("task-1", opens_at=commons.clock.now_us(), rules=["fs.destroy"])
    real, calls = commons.clock.now_us, [0]

    def late() -> int:  # the commons lies to its own first check
        calls[0] += 1
        return real() - (1 if calls[0] == 1 else 0)

    monkeypatch.setattr(commons.clock, "now_us", late)
    commons.publisher.publish_catalog(catalog)
    with pytest.raises(BadCatalog, match="after it opened"):
        commons.member("node").catalog("task-1")


# --- files ----------------------------------------------------------------------------------------------------------


def test_a_live_file_reads_back_as_it_was_written() -> None:
    live = Live().with_rows([LiveRow("team", "stable", 2, "ab" * 32, 5, 9, 7)])
    assert parse_live(dump_live(live), where="live.json") == live


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"v": 2', '"v": 3'),
        ('"version": 2', '"version": "2"'),
        ('"at"', '"ta"'),
        ("abab", "..ab"),
        ("interlock-live", "x"),
    ],
)
def test_a_damaged_live_file_is_said_in_one_line(old: str, new: str) -> None:
    text = dump_live(Live().with_rows([LiveRow("team", "stable", 2, "ab" * 32, 5, 9, 7)])).decode()
    with pytest.raises(InterlockError) as caught:
        parse_live(text.replace(old, new, 1).encode(), where="live.json")
    assert caught.value.code == ("newer-format" if new == '"v": 3' else "bad-state")


def test_a_damaged_live_file_leaves_no_pack_in_force_silently(commons: World) -> None:
    home = commons.home / "node"
    commons.member("node")
    (home / "live.json").write_text("{")
    with pytest.raises(BadState):
        installed.load(home, "team", "stable")


def test_a_guarded_process_needs_none_of_the_mesh_s_packages() -> None:
    code = (
        "import sys; import interlock.commons.installed; "
        "print([m for m in ('tuf', 'securesystemslib', 'httpx', 'nacl', 'cryptography') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_older_version_in_the_index_is_a_rollback(commons: World) -> None:
    commons.publisher.publish(pack(), "stable")
    node, home = commons.member("node"), commons.home / "node"
    node.subscribe("team", "stable")
    node.update()
    text = json.loads((home / "live.json").read_text())
    text["packs"][0]["version"] = 2  # this node has seen a later one
    (home / "live.json").write_text(json.dumps(text))
    with pytest.raises(Rollback, match="offers version 1 after 2"):
        node.update()
