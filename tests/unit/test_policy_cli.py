"""`interlock policy`: explain, diff, lint, schema, show and trust."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock._policies import live_policy
from interlock.base.errors import InterlockError
from interlock.base.settings import state_dir
from interlock.engine.event import SensorEvent
from interlock.engine.policy.trust import TRUST_FILE, TrustedOverlays, content_digest
from interlock.node.cli import policy as command
from tests.unit.approval_world import at_terminal

RM = {"action": "Bash", "args": {"command": "rm -rf /"}}
LS = {"action": "Bash", "args": {"command": "ls"}}
PERSON = "import sys; from interlock.node.cli import main, policy; policy.lineage = lambda: (); sys.exit(main.main())"


def rule(name: str, when: object, **fields: object) -> dict[str, object]:
    return {"id": name, "when": when, "verdict": "block", "reason": f"no {name}", **fields}


def write(path: Path, *rules: object, **fields: object) -> str:
    body = {"format": "interlock-policy", "v": 1, "name": path.stem, "rules": list(rules), **fields}
    path.write_text(json.dumps(body), encoding="utf-8")
    return str(path)


def run(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    command.register(parser.add_subparsers())
    args = parser.parse_args(["policy", *argv])
    code = args.run(args)
    assert isinstance(code, int)
    return code


ROOT_RULE = rule("root", {"intent": "fs.delete.root"}, attributed_to="command")
ARG_RULE = rule("arg", {"all": [{"action": "Bash"}, {"arg": "command", "contains": "sudo"}]}, verdict="escalate")
NOT_RULE = rule("not", {"any": [{"action": "Read"}, {"not": {"principal": "ci-*"}}]}, shadow=True)


@pytest.fixture
def team(tmp_path: Path) -> str:
    return write(tmp_path / "team.json", ROOT_RULE, ARG_RULE, NOT_RULE)


def test_explain_says_what_decided_each_rule_that_fires_and_what_would_stop_it(
    team: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("explain", team, json.dumps(RM)) == 0
    out = capsys.readouterr().out
    first, second, *_ = out.splitlines()
    assert first == "block by root  no root"
    assert second.startswith("the call would: ")
    assert "fs.delete.root / (root)" in second
    assert '  when: {"intent": "fs.delete.root"}  holds\n' in out
    assert '  for it not to fire: {"intent": "fs.delete.root"} must not hold\n' in out
    assert "\nnot  block (shadow)  [" in out
    assert "arg  does not fire" not in out
    assert out.endswith("2 of 3 rules fire; --all shows the others too\n")


def test_explain_says_what_a_rule_that_does_not_fire_would_need(team: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", team, json.dumps({**LS, "principal": "ci-1"}), "--json", "--all") == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["verdict"], made["decided_by"]) == ("allow", None)
    root, arg, negated = made["rules"]
    assert root["runs"] in ("native", "python")
    assert arg["decided"] == [
        {
            "at": "when.all[1]",
            "condition": '{"arg": "command", "contains": "sudo"}',
            "holds": False,
            "problem": "",
        }
    ]
    assert negated["change"] == ('{"action": "Read"} must hold or {"principal": "ci-*"} must not hold')


def test_explain_names_the_place_of_each_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counted = rule("often", {"all": [{"action": "Bash"}, {"rate": {"above": 0, "seconds": 9}}]})
    linked = rule("linked", {"path": {"under": "/etc"}})
    lexical = rule("lexical", {"not": {"path": {"access": "read", "under": "/etc", "symlinks": False}}})
    listed = rule("listed", {"detector": "indicator", "params": {"kind": "file", "digests": ["0a" * 32]}})
    large = rule("large", {"arg": "n", "lt": 1 << 80})
    words = rule("words", {"arg": "n", "regex": r"\bé", "flags": "u"})
    path = write(tmp_path / "p.json", counted, linked, lexical, listed, large, words)
    assert run("explain", path, json.dumps(LS), "--json", "--all") == 0
    often, *natively, last = json.loads(capsys.readouterr().out)["rules"]
    assert (often["runs"], often["because"]) == ("python", "it counts events")
    assert [row["runs"] for row in natively] == ["native"] * 4
    assert (last["runs"], last["because"]) == ("python", r"its regex has \b with flag u")
    assert often["verdict"] == "block"


def test_explain_follows_the_rewrites_of_earlier_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = "AKIA" + "Z7QK2M4NP3RWX6TY"
    masking = rule("mask", {"action": "http_post"}, verdict="modify", mask={"detector": "secrets"})
    later = rule("later", {"arg": "body", "contains": key})
    path = write(tmp_path / "p.json", masking, later)
    event = {"action": "http_post", "args": {"body": key}}
    assert run("explain", path, json.dumps(event), "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert [row["verdict"] for row in made["rules"]] == ["modify", None]
    assert run("explain", path, json.dumps({"action": "http_post"}), "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert made["rules"][0]["change"] == "the mask must find something"


def test_explain_shows_a_rule_that_objects_only_to_what_a_later_one_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    masking = rule("mask", {"action": "http_post"}, verdict="modify", mask={"detector": "secrets"})
    path = write(tmp_path / "p.json", rule("marks", {"arg": "body", "contains": "[REDACTED"}), masking)
    event = {"action": "http_post", "args": {"body": "AKIA" + "Z7QK2M4NP3RWX6TY"}}
    assert run("explain", path, json.dumps(event), "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["decided_by"], made["verdict"]) == ("marks", "block")
    assert [row["verdict"] for row in made["rules"]] == ["block", "modify"]
    assert made["rules"][0]["decided"][0]["holds"] is True


def test_explain_reads_an_event_from_a_file_and_refuses_what_is_none(team: str, tmp_path: Path) -> None:
    (tmp_path / "event.json").write_text(json.dumps(LS))
    assert run("explain", team, str(tmp_path / "event.json")) == 0
    for bad in ('{"action": 3}', "{", '{"action": "x", "arg": {}}', str(tmp_path / "none.json")):
        with pytest.raises(InterlockError) as caught:
            run("explain", team, bad)
        assert caught.value.exit_code == 2


def test_diff_shows_rules_by_meaning_and_the_verdicts_that_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fires = {"examples": {"fires": [RM], "passes": [LS]}}
    old = write(tmp_path / "old.json", {**ROOT_RULE, **fires}, ARG_RULE, rule("gone", {"action": "X"}))
    soft = {**ROOT_RULE, **fires, "verdict": "escalate", "description": "words do not count"}
    new = write(tmp_path / "new.json", ARG_RULE, soft, rule("more", {"action": "Y"}), harmless="prove")
    assert run("diff", old, new, "--event", json.dumps({"action": "Y"})) == 1
    assert capsys.readouterr().out.splitlines() == [
        "added     more",
        "removed   gone",
        "moved     root",
        "moved     arg",
        "changed   root: verdict",
        "setting   prove_harmless",
        'verdict   {"action": "Y"}: allow -> block',
        "verdict   old: root: examples.fires[0]: block -> escalate",
    ]
    assert run("diff", old, old) == 0
    assert capsys.readouterr().out == "they mean the same\n"
    assert run("diff", old, new, "--json") == 1
    made = json.loads(capsys.readouterr().out)
    assert made["changed"] == [{"rule": "root", "fields": ["verdict"]}]


def test_lint_warns_of_what_is_seldom_meant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = {"examples": {"fires": [RM], "passes": [LS]}}
    path = write(
        tmp_path / "p.json",
        {**ROOT_RULE, **both},
        {**ROOT_RULE, "id": "bare", "when": {"not": {"principal": "x"}}},
        rule("text", {"arg": "command", "regex": "rm"}, **both),
        oversize={"call": "allow"},
        quarantine=[{"rule": "text", "by": "alice", "reason": "noisy"}],
    )
    assert run("lint", path) == 1
    lines = capsys.readouterr().out.splitlines()
    kinds = [line.split()[0] for line in lines]
    assert kinds == [
        "no-example", "no-example", "only-not", "no-attribution", "text-of-command", "weaker", "quarantined",
    ]  # fmt: skip
    good = write(tmp_path / "good.json", {**ROOT_RULE, **both})
    assert run("lint", good) == 0
    assert run("lint", good, "--json") == 0


def test_lint_finds_a_rule_that_an_extended_one_makes_idle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "base.json", rule("wide", {"action": "Bash"}))
    narrow = rule("narrow", {"all": [{"action": "Bash"}, {"arg": "x", "equals": 1}]})
    assert run("lint", write(tmp_path / "top.json", narrow, extends=["base.json"]), "--json") == 1
    warned = json.loads(capsys.readouterr().out)["warnings"]
    assert [row["kind"] for row in warned if row["rule"] == "narrow"][-1] == "unreachable"


def test_schema_prints_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("schema") == 0
    assert json.loads(capsys.readouterr().out)["title"] == "interlock policy"


def test_show_prints_sources_locks_quarantine_and_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "base.json", {**ROOT_RULE, "locked": True}, rule("off", {"action": "X"}))
    row = {"rule": "off", "by": "alice", "reason": "noisy"}
    top = write(
        tmp_path / "top.json",
        NOT_RULE,
        extends=["base.json"],
        quarantine=[row],
        limits={"command": 9},
        harmless="prove",
    )
    assert run("show", top) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert lines == [
        ["root", "call", "block", "locked", "(from", "base.json)"],
        ["not", "call", "block", "shadow", "no", "not"],
        ["off", "quarantined", "by", "alice:", "noisy"],
        ["limit", "command:", "9"],
        ["harmless:", "prove"],
    ]


def test_show_writes_nothing_to_the_terminal_but_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hidden = "shown \x1b[2J\x1b]0;x\x07 \u202edecived \u200b"
    path = write(tmp_path / "p.json", rule("r", {"action": "x"}, description=hidden), description=hidden)
    for command_line in (("show", path), ("lint", path), ("test", path), ("explain", path, json.dumps(LS), "--all")):
        run(*command_line)
        shown = capsys.readouterr().out
        assert shown.replace("\n", "").isprintable(), command_line
    run("show", path)
    assert "shown" in capsys.readouterr().out


def test_a_file_is_followed_with_its_overlays_and_their_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    store = TrustedOverlays(state_dir() / TRUST_FILE)
    overlay = tmp_path / "more.json"
    write(overlay, rule("added", {"action": "X"}))
    store.add(content_digest(overlay.read_bytes()), str(overlay), 0)
    live = live_policy(write(tmp_path / "team.json", rule("own", {"action": "Y"}), overlays=["more.json"]))
    assert [r.id for r in live.current.rules] == ["own", "added"]
    write(overlay, rule("changed", {"action": "X"}))
    live.refresh(wait=True)
    assert "nobody has trusted" in str(live.trouble)
    assert [r.id for r in live.current.rules] == ["own", "added"]
    store.add(content_digest(overlay.read_bytes()), str(overlay), 1)
    live.refresh(wait=True)
    assert live.trouble is None
    assert [r.id for r in live.current.rules] == ["own", "changed"]


def test_counts_outlive_a_reload_of_a_rule_that_means_the_same(tmp_path: Path) -> None:
    counted = rule("often", {"count": {"above": 1}})
    path = tmp_path / "team.json"
    live = live_policy(write(path, counted))
    event = SensorEvent("Bash", {})
    assert live.current.rules[0].function(event) is None
    write(path, counted, rule("more", {"action": "Y"}))
    live.refresh(wait=True)
    assert live.epoch == 2
    assert live.current.rules[0].function(event) is not None


def test_a_path_rule_of_a_file_follows_symbolic_links(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "secrets")
    real = str((tmp_path / "secrets").resolve())
    live = live_policy(write(tmp_path / "team.json", rule("p", {"path": {"access": "read", "under": real}})))
    event = SensorEvent("Read", {"file_path": "link/key.pem"}, cwd=str(tmp_path))
    assert live.current.rules[0].function(event) is not None
    assert (
        live.current.rules[0].function(SensorEvent("Read", {"file_path": "other/key.pem"}, cwd=str(tmp_path))) is None
    )


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), **more}


def test_a_person_trusts_an_overlay_and_its_content_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    overlay = write(tmp_path / "more.json", rule("added", {"action": "X"}))
    top = write(tmp_path / "team.json", overlays=["more.json"])
    with pytest.raises(InterlockError, match="nobody has trusted"):
        run("show", top)
    said = at_terminal(["policy", "trust", overlay], environment(tmp_path), program=PERSON)
    assert said.code == 0, said.text
    assert "block     added: no added" in said.text
    assert run("show", top) == 0
    interlock.install(policy=top)
    write(tmp_path / "more.json", rule("other", {"action": "X"}))
    with pytest.raises(InterlockError, match="nobody has trusted"):
        run("show", top)


def test_no_agent_and_nobody_without_a_terminal_trusts_an_overlay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overlay = write(tmp_path / "more.json", rule("added", {"action": "X"}))
    said = at_terminal(["policy", "trust", overlay], environment(tmp_path), answer=lambda shown: "yes", program=PERSON)
    assert said.code == 1
    monkeypatch.setattr(command, "marked", lambda above: "CLAUDECODE")
    with pytest.raises(InterlockError, match="a coding agent started this"):
        run("trust", overlay)
    loose = write(tmp_path / "loose.json", harmless="prove")
    with pytest.raises(InterlockError, match="has settings"):
        run("trust", loose)
    assert not (tmp_path / "state").exists()


def test_trust_is_listed_and_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert run("trust") == 0
    assert capsys.readouterr().out == "no overlay is trusted on this machine\n"
    store = TrustedOverlays(tmp_path / "interlock" / "trusted-overlays.json")
    sha = content_digest(b"x")
    store.add(sha, "/more.json", 0)
    assert run("trust", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"trusted": [{"sha256": sha, "name": "/more.json", "at_us": 0}]}
    store.add(content_digest(b"y"), "/more.json", 1)
    assert not store.holds(sha)
    assert run("trust", "/more.json", "--revoke") == 0
    assert store.rows() == ()
    with pytest.raises(InterlockError, match="is not trusted"):
        run("trust", "/more.json", "--revoke")


@pytest.mark.parametrize("body", [{"overlays": 3}, {"overlays": [{"sha256": "x", "name": "y", "at_us": 1}]}, {"v": 2}])
def test_a_damaged_list_of_trust_trusts_nothing_and_says_so(tmp_path: Path, body: dict[str, Any]) -> None:
    path = tmp_path / "trusted-overlays.json"
    path.write_text(json.dumps({"format": "interlock-trusted-overlays", "v": 1, "overlays": [], **body}))
    with pytest.raises(InterlockError) as caught:
        TrustedOverlays(path).holds("0" * 64)
    assert str(path) in str(caught.value)
