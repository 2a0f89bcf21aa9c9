"""`interlock mesh` as the operator of a node uses it: what changes, windows, pins, trials, and what is wrong."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock.base.clock import MICROSECONDS
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from interlock.commons import installed, stepback
from interlock.commons.eventlog import EventLog
from interlock.commons.live import read_live, read_subscriptions
from interlock.commons.pack import Pack, build_pack
from interlock.engine import ambient
from interlock.engine.sinks import FileSink, InMemorySink
from interlock.interceptors.hooks.entry import GuardSettings, put_in_force
from interlock.node.cli import mesh_node, mesh_status, mesh_try
from interlock.node.cli.main import main
from interlock.node.config import mesh_config, settings_of
from interlock.node.roles.follow import StepBacks
from interlock.node.roles.record import EventRecorder
from tests.unit.commons_world import SIGN_OFF, World, log_policy, pack, rule, world

TEAM = "mesh:team@stable"
DAY = 86_400


class Node:
    """A node's commands, all with one configuration file, and the commons that it follows."""

    def __init__(self, folder: Path, commons: World, capsys: pytest.CaptureFixture[str]) -> None:
        self.commons = commons
        self.folder = folder
        self.home = folder / "home"
        self.mirror = commons.mirror("copy")
        self.config = folder / "interlock.toml"
        text = f'[mesh]\nhome = "home"\ncommons = "file://{self.mirror.public}"\n[guard]\nreceipts = "receipts.jsonl"\n'
        self.config.write_text(text)
        (folder / "log-policy.txt").write_bytes(log_policy())
        (folder / "root.json").write_bytes(commons.root)
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """The exit code, and what was said on standard output and error."""
        self._capsys.readouterr()
        code = main(["mesh", words[0], "--config", str(self.config), *words[1:]])
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json")[1])

    def publishes(self, made: Pack) -> None:
        self.commons.publisher.publish(made, "stable")
        self.mirror.copy()

    def checks(self, status: str) -> dict[str, str]:
        """The checks of this status, and what they say; but for that this commons is a trial."""
        rows = {row["check"]: row["detail"] for row in self.json("doctor")["rows"] if row["status"] == status}
        assert "it is a trial" in rows.pop("removals", "it is a trial")
        return rows


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Node]:
    (tmp_path / "world").mkdir()
    with world(tmp_path / "world") as commons:
        for module in (mesh_node, mesh_status, mesh_try, installed):
            monkeypatch.setattr(module, "SystemClock", lambda: commons.clock)
        (tmp_path / "node").mkdir()
        made = Node(tmp_path / "node", commons, capsys)
        monkeypatch.setenv("INTERLOCK_CONFIG", str(made.config))
        made.publishes(pack())
        files = ("--root", str(made.folder / "root.json"), "--log-policy", str(made.folder / "log-policy.txt"))
        assert made("init", *files)[0] == EXIT_OK
        yield made
    ambient.install(None)


@pytest.fixture
def follower(node: Node) -> Node:
    assert node("subscribe", TEAM)[0] == EXIT_OK
    return node


def second() -> Pack:
    rules = [rule("team.zap", "zap", reason="zap is bad"), rule("team.fry", "fry")]
    return build_pack("team", 2, rules, licence="MIT", authors=["A"], signed_off_by=[SIGN_OFF])


# --- what changes ---------------------------------------------------------------------------------------------------


def test_a_diff_says_in_words_what_an_update_changes_and_takes_nothing(follower: Node) -> None:
    follower("grant", TEAM)
    follower.publishes(second())
    before = (follower.home / "live.json").read_bytes()
    code, said, _ = follower("diff")
    assert code == EXIT_OK
    assert said.splitlines() == [
        "team@stable: version 1 -> 2",
        "  + team.fry: new, asks (not granted; its author blocks)",
        "  ~ team.zap: changed (reason), asks (not granted; its author blocks);"
        " beside it yours blocks, as granted in version 1, until you grant the new one",
        "  of the examples, 1 came to allow and comes to escalate now",
    ]
    assert (follower.home / "live.json").read_bytes() == before
    (changes,) = follower.json("diff", TEAM)["changes"]
    assert (changes["before"], changes["after"], changes["rules"][0]["kind"]) == (1, 2, "added")
    assert "team@stable: version 1 -> 2" in follower("update")[1]
    assert follower("diff")[1] == "team@stable: version 2 is in force, no news\n"


def test_what_is_the_same_or_gone_is_told_with_its_grant(follower: Node) -> None:
    follower.publishes(pack(2, words=("zap", "fry")))
    follower("update")
    follower("grant", TEAM)
    follower.publishes(pack(3, words=("zap",)))
    assert follower("diff")[1].splitlines()[1:] == [
        "  - team.fry: gone from the pack; yours blocks, as granted in version 2, until you take the grant back",
        "  = 1 rule stays as it is; your grants cover 1 of them as before",
    ]


def test_a_diff_of_nothing_followed_asks_for_a_pack(node: Node) -> None:
    code, _, said = node("diff")
    assert (code, said.count("\n")) == (EXIT_USAGE, 1)
    assert "name a pack" in said
    assert node("diff", TEAM)[1].startswith("team@stable: version 1\n  + team.zap: new, asks")


# --- windows, pins, rollbacks ---------------------------------------------------------------------------------------


def test_a_window_is_shown_and_ends_by_itself(node: Node) -> None:
    code, said, _ = node("subscribe", TEAM, "--window", "7d")
    assert code == EXIT_OK
    assert "in its monitor window until" in said
    assert "team.zap  watched: shadow only (in its monitor window; its author blocks)" in node("status")[1]
    assert node.json("status")["watched"][0]["version"] == 1
    node.commons.clock.advance(7 * DAY)
    told = node.json("status")
    assert (told["watched"], told["live"][0]["version"], told["rules"][0]["state"]) == ([], 1, "ungranted")


def test_a_window_of_nothing_releases_what_is_watched(node: Node) -> None:
    node("subscribe", TEAM, "--window", "7d")
    assert "log index" in node("subscribe", TEAM, "--window", "0s")[1]
    assert node.json("status")["watched"] == []
    assert node("subscribe", TEAM, "--window", "soon")[0] == EXIT_USAGE


def test_a_pin_warns_where_newer_is_out_and_a_rollback_is_loud(follower: Node) -> None:
    follower.publishes(second())
    follower("update")
    code, _, said = follower("rollback", TEAM)
    assert code == EXIT_OK
    assert "is ROLLED BACK from version 2 to 1" in said
    assert "no news" in follower("update")[1]
    assert follower.checks("warn") == {"team@stable pin": "pinned to version 1, and 2 is out"}
    code, said, _ = follower("pin", TEAM, "--clear")
    assert (code, "version 1 -> 2" in said) == (EXIT_OK, True)
    assert follower("pin", TEAM, "2")[0] == EXIT_OK
    assert follower.checks("warn") == {}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("pin", TEAM), "needs VERSION, or --clear"),
        (("pin", TEAM, "1", "--clear"), "needs VERSION, or --clear"),
        (("pin", TEAM, "0"), "is no version"),
        (("pin", "mesh:other@stable", "1"), "not followed here"),
        (("rollback", TEAM), "no version that was in force before"),
        (("grant", TEAM, "--watched"), "no version in a monitor window"),
        (("stepback", "apply", TEAM), "needs mesh:PACK@RING RULE"),
        (("stepback", "apply", TEAM, "team.zap"), "is not proposed"),
        (("stepback", "undo", TEAM, "team.zap"), "did not step back"),
        (("stepback", "set", "--spans", "0"), "from 1"),
        (("stepback", "check"), "is not there"),
        (("journal", "on", "--max-mib", "0"), "1 to 1024 MiB"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(follower: Node, words: tuple[str, ...], says: str) -> None:
    before = (read_live(follower.home), read_subscriptions(follower.home), installed.read_grants(follower.home))
    code, _, said = follower(*words)
    assert (code, said.count("\n")) == (EXIT_USAGE, 1)
    assert says in said
    assert (read_live(follower.home), read_subscriptions(follower.home)) == before[:2]
    assert installed.read_grants(follower.home) == before[2]


def test_a_pin_to_what_was_never_published_is_taken_back(follower: Node) -> None:
    assert follower("pin", TEAM, "9")[0] == EXIT_REFUSED
    assert read_subscriptions(follower.home)[0].pin == 0


def test_what_was_taken_back_is_loud_and_stays_in_sight(follower: Node) -> None:
    follower.commons.publisher.revoke("team", 1, why="blocks printing")
    follower.mirror.copy()
    assert "TAKEN BACK (activation): team version 1 in stable: all rules (blocks printing)" in follower("update")[2]
    assert "stays in force here" in follower.checks("warn")["team@stable taken back"]


def test_settings_hold_for_all_packs_and_are_shown(follower: Node) -> None:
    assert follower.json("settings") == {"format": "interlock-mesh-settings", "v": 1, "ungranted": "escalate"}
    assert "are in shadow" in follower("settings", "--ungranted", "shadow")[1]
    assert "ungranted = shadow" in follower("status")[1]
    assert follower.json("status")["rules"][0]["acts"] == "allow"


def test_every_rule_is_listed_where_it_is_asked_for(node: Node) -> None:
    words = tuple(f"w{i}" for i in range(20))
    node.publishes(pack(2, words=words))
    node("subscribe", TEAM)
    assert "and 8 more; --rules lists all" in node("status")[1]
    assert node("status", "--rules")[1].count("ungranted: asks") == 20


# --- trials ---------------------------------------------------------------------------------------------------------


def transcript(node: Node) -> str:
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "run zap now"}}
    line = {"type": "assistant", "sessionId": "s1", "message": {"content": [use]}}
    (node.folder / "session.jsonl").write_text(json.dumps(line) + "\n")
    return str(node.folder / "session.jsonl")


def test_a_pack_is_tried_before_it_is_followed(node: Node) -> None:
    code, said, _ = node("try", TEAM, "--transcripts", transcript(node))
    assert code == EXIT_OK
    assert "team version 1 on 1 events of 1 sessions" in said
    assert "team.zap  would block  1 sessions, 1 events; first in session s1, call t1" in said
    assert read_live(node.home).rows == {}
    told = node.json("try", TEAM, "--transcripts", transcript(node))
    assert (told["rules"][0]["does"], told["quiet"], told["skipped_lines"]) == ("block", 0, 0)


def test_a_file_of_a_pack_or_a_policy_is_tried_too(node: Node) -> None:
    (node.folder / "team.json").write_bytes(pack().data)
    own = {"format": "interlock-policy", "v": 1, "name": "team", "rules": [rule("team.zap", "zap")]}
    (node.folder / "own.json").write_text(json.dumps(own))
    (node.folder / "team.ilpack").write_text(json.dumps({"format": "interlock-ilpack", "pack": pack().data.decode()}))
    for name in ("team.json", "own.json", "team.ilpack"):
        assert "would block" in node("try", str(node.folder / name), "--transcripts", transcript(node))[1]
    (node.folder / "bad.json").write_text("{}")
    assert node("try", str(node.folder / "bad.json"), "--transcripts", transcript(node))[0] == EXIT_USAGE


def test_without_transcripts_and_journal_the_window_is_the_evidence(node: Node) -> None:
    code, _, said = node("try", TEAM)
    assert (code, said.count("\n")) == (EXIT_USAGE, 1)
    assert "subscribe mesh:team@stable --window 7d" in said


def recorders() -> list[EventRecorder]:
    """The event journals among what observes a guard."""
    return [observer for observer in ambient.installed().observers if isinstance(observer, EventRecorder)]


def test_a_program_keeps_its_events_where_the_journal_is_on_and_a_hook_does_not(follower: Node) -> None:
    assert "journal is off; nothing is kept" in follower("journal", "status")[1]
    follower("journal", "on", "--max-mib", "1")
    interlock.install(policy=TEAM, sink=InMemorySink())
    (recorder,) = recorders()
    with interlock.span(principal="acme"):
        interlock.enforce_tool_call("Bash", {"command": "ls"})
    recorder.close()
    assert [dict(e.args) for e in EventLog(follower.home).events()] == [{"command": "ls"}]
    assert "on 1 events of 1 sessions" in follower("try", TEAM)[1]
    interlock.install(policy=TEAM, sink=InMemorySink(), journal=False)
    assert recorders() == []
    put_in_force(GuardSettings(TEAM, follower.folder / "r.jsonl", 8000), interlock.install, lambda _: None)  # type: ignore[arg-type,return-value]
    assert recorders() == []
    assert "journal is off" in follower("journal", "off")[1]
    assert follower.json("journal", "drop")["size"] == 0


def test_a_guard_without_the_mesh_s_packages_keeps_no_events_and_says_so(
    follower: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    follower("journal", "on")
    monkeypatch.delitem(sys.modules, "interlock.commons.eventlog")
    monkeypatch.setitem(sys.modules, "interlock.base.primitives", None)
    interlock.install(policy=TEAM, sink=InMemorySink())
    assert recorders() == []
    assert "no events are kept" in caplog.text


# --- step back ------------------------------------------------------------------------------------------------------


def guarded(node: Node, runs: int = 5) -> None:
    """Runs of two agents under the node's guard, each of which meets the rule."""
    interlock.install(policy=TEAM, sink=FileSink(node.folder / "receipts.jsonl", fsync=False))
    ambient.installed().clock = node.commons.clock
    for i in range(runs):
        with interlock.span(principal=f"agent{i % 2}"), pytest.raises(interlock.NotApproved):
            interlock.enforce_tool_call("Bash", {"command": "run zap now"})


def test_a_step_back_is_proposed_shown_applied_and_undone(follower: Node) -> None:
    guarded(follower)
    assert "team.zap of team@stable is proposed to step back" in follower("stepback", "check")[1]
    assert follower.checks("warn") == {"step back": "team.zap of team@stable objected to 2 principals in 5 runs"}
    assert follower("status")[0] == EXIT_OK
    assert "in shadow from now on" in follower("stepback", "apply", TEAM, "team.zap")[1]
    assert follower.json("status")["rules"][0]["state"] == "stepped-back"
    assert follower.json("stepback")["proposals"][0]["state"] == "applied"
    follower("stepback", "undo", TEAM, "team.zap")
    assert follower.json("status")["rules"][0]["state"] == "ungranted"


def test_thresholds_are_set_one_by_one(follower: Node) -> None:
    follower("stepback", "set", "--spans", "50")
    assert follower.json("stepback")["thresholds"] == {"principals": 2, "spans": 50, "days": 7}
    guarded(follower)
    follower("stepback", "check")
    assert stepback.read_step_back(follower.home).proposals == ()


def test_the_daemon_looks_for_step_backs_when_there_are_new_receipts(
    follower: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipts = follower.folder / "receipts.jsonl"
    watch = StepBacks(follower.home, receipts, follower.commons.clock)
    update = mesh_node.subscriber_of(mesh_config(settings_of(str(follower.config)))).update()
    watch(update)
    guarded(follower)
    watch(update)
    assert "team.zap of team is proposed to step back" in caplog.text
    monkeypatch.setattr("interlock.node.roles.follow.weigh", lambda *_: pytest.fail("nothing new to weigh"))
    watch(update)
    receipts.write_bytes(receipts.read_bytes().replace(b"agent1", b"agent9", 1))
    monkeypatch.undo()
    watch(update)
    assert "no rule steps back" in caplog.text


# --- what is wrong --------------------------------------------------------------------------------------------------


def test_a_stale_subscription_fails(follower: Node) -> None:
    follower.commons.clock.advance(4000)
    assert "was 4000 s ago" in follower.checks("fail")["update"]
    assert follower("status")[0] == EXIT_REFUSED


def test_signatures_that_ended_fail_and_the_policy_stays(follower: Node) -> None:
    follower.commons.clock.advance(2 * DAY)
    assert follower("update")[0] == EXIT_REFUSED
    failed = follower.checks("fail")
    assert "timestamp at " in failed["expired"]
    assert "failed" in failed["update"]
    code, said, _ = follower("status")
    assert code == EXIT_REFUSED
    assert "fail: expired: signatures have ended" in said
    assert "team@stable version 1" in said


def test_a_clock_below_the_floor_fails(follower: Node) -> None:
    follower.commons.clock.advance(-4 * 3600)
    assert "witnesses have signed at" in follower.checks("fail")["clock"]
    assert follower("status")[0] == EXIT_REFUSED


def test_evidence_of_two_histories_fails_status_too(follower: Node) -> None:
    (follower.home / "evidence").mkdir()
    (follower.home / "evidence" / "split-view-1.json").write_text("{}")
    assert follower("status")[0] == EXIT_REFUSED
    assert "split view" in follower.checks("fail")


def test_a_status_that_somebody_else_wrote_fails(follower: Node) -> None:
    path = follower.home / "status.json"
    path.write_text(path.read_text().replace('"ok": true', '"ok": true, "more": 1'))
    assert "was not written by this node" in follower.checks("fail")["status"]
    assert follower("status")[0] == EXIT_REFUSED


@pytest.mark.parametrize("name", ["live.json", "grants.json", "stepback.json", "subscriptions.json"])
def test_a_damaged_file_is_a_line_and_no_fault(follower: Node, name: str) -> None:
    (follower.home / name).write_text("{")
    assert follower.checks("fail")
    code, _, said = follower("status")
    assert code in (EXIT_REFUSED, EXIT_USAGE)
    assert said.count("\n") <= 1


def test_an_update_as_json_names_what_changed_and_what_is_held(follower: Node) -> None:
    follower.publishes(second())
    told = follower.json("update")
    assert (told["changed"][0]["version"], told["changes"][0]["before"], told["held"]) == (2, 1, {})


def test_a_predecessor_is_shown_beside_what_replaced_it(follower: Node) -> None:
    follower("grant", TEAM)
    follower.publishes(second())
    follower("update")
    states = {row["id"]: row["state"] for row in follower.json("status")["rules"]}
    assert states == {"team.zap@1": "superseded", "team.zap": "ungranted", "team.fry": "ungranted"}
    assert "team.zap@1  superseded: blocks, as granted in version 1" in follower("status")[1]


def test_nobody_s_files_are_open_to_others(follower: Node) -> None:
    follower("journal", "on")
    follower("grant", TEAM)
    for folder, inner, files in os.walk(follower.home):
        assert os.stat(folder).st_mode & 0o077 == 0
        inner[:] = [name for name in inner if name != "tuf"]  # metadata is public, and lies in a private folder
        assert [f for f in files if os.stat(Path(folder) / f).st_mode & 0o077] == []


def test_a_grant_is_of_the_meaning_that_the_operator_saw(follower: Node) -> None:
    follower("grant", TEAM)
    row = installed.read_grants(follower.home).rows[0]
    assert replace(row, at=0).version == 1
    assert row.at == follower.commons.clock.now_us()
    assert row.at > 10 * DAY * MICROSECONDS
