"""`interlock doctor`: a row a check; whatever would let a call slip by is a failure, and a canary proves the rest."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.errors import BadInput
from interlock.engine import ambient
from interlock.engine.posture import WEAKENINGS
from interlock.interceptors.hooks.settings import with_hooks
from interlock.node.cli import doctor
from interlock.node.cli.doctor import checks
from interlock.node.cli.hook import hook_command
from interlock.node.cli.rows import Row
from tests.unit.hook_process import receipts


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv("INTERLOCK_CONFIG", raising=False)
    monkeypatch.setattr(doctor, "_MANAGED", (tmp_path / "managed.json",))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    yield tmp_path
    ambient.install(None)


@pytest.fixture
def quick(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home where no canary flies, for the checks that it has nothing to do with."""
    monkeypatch.setattr(doctor, "_canary", lambda command: iter(()))
    return home


def _settings(home: Path, command: str | None = None, more: dict[str, object] | None = None) -> Path:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    text = with_hooks("{}", command or hook_command(), "f")
    path.write_text(json.dumps(json.loads(text) | (more or {})), encoding="utf-8")
    return path


def _rows(config: str | None = None) -> dict[str, Row]:
    return {row.check: row for row in checks(config)}


def _claude(home: Path, says: str) -> None:
    program = home / "bin" / "claude"
    program.write_text(f"#!/bin/sh\necho '{says}'\n", encoding="utf-8")
    program.chmod(0o755)


def test_a_guarded_machine_has_no_failure(home: Path) -> None:
    _settings(home)
    _claude(home, "2.1.332 (Claude Code)")
    rows = _rows()
    chosen = {"posture one-user"}
    assert {check: row.status for check, row in rows.items()} == {c: "warn" if c in chosen else "ok" for c in rows}
    assert {"python", "policy", "examples", "evaluator", "receipts", "agent"} <= rows.keys()
    assert {"hook PreToolUse", "hook PostToolUse", "canary deny", "canary allow"} <= rows.keys()


def test_an_unguarded_machine_is_told_what_to_run(home: Path) -> None:
    rows = _rows()
    assert rows["hook"].status == "warn"
    assert rows["hook"].fix == "interlock install-hook claude-code"
    assert rows["canary deny"].status == "ok"


@pytest.mark.parametrize(
    "command",
    [
        "/nonexistent/interlock hook claude-code",
        "true interlock hook claude-code",
        "exit 1; interlock hook claude-code",
    ],
)
def test_a_command_that_would_let_everything_through_fails_the_canary(home: Path, command: str) -> None:
    _settings(home, command)
    assert _rows()["canary deny"].status == "fail"


def test_a_command_that_lets_nothing_through_fails_the_other_canary(home: Path) -> None:
    _settings(home, "exit 2; interlock hook claude-code")
    assert _rows()["canary allow"].status == "fail"


@pytest.mark.parametrize("flag", ["disableAllHooks", "allowManagedHooksOnly"])
def test_a_setting_that_turns_hooks_off_is_a_failure(quick: Path, flag: str) -> None:
    _settings(quick, more={flag: True})
    assert _rows()["settings"].status == "fail"
    assert flag in _rows()["settings"].detail


def test_a_managed_setting_counts_too(quick: Path) -> None:
    _settings(quick)
    (quick / "managed.json").write_text('{"disableAllHooks": true}', encoding="utf-8")
    assert _rows()["settings"].status == "fail"


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PYTHONPATH", "INTERLOCK_CONFIG"])
def test_a_variable_that_steers_the_hook_is_a_failure(quick: Path, name: str) -> None:
    _settings(quick, more={"env": {name: "x", "EDITOR": "vi"}})
    assert _rows()["settings"].status == "fail"


def test_hooks_that_may_only_be_managed_are_no_failure_where_ours_is(quick: Path) -> None:
    managed = json.loads(with_hooks("{}", hook_command(), "f")) | {"allowManagedHooksOnly": True}
    (quick / "managed.json").write_text(json.dumps(managed), encoding="utf-8")
    assert "settings" not in _rows()


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [('"onFailure": "block"', '"onFailure": "continue"', "fail"), ('"timeout": 15', '"timeout": 1', "warn")],
)
def test_an_entry_that_was_weakened_is_seen(quick: Path, old: str, new: str, status: str) -> None:
    path = _settings(quick)
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    assert _rows()["hook PreToolUse"].status == status


@pytest.mark.parametrize(("says", "status"), [("2.1.197 (Claude Code)", "warn"), ("hello", "warn"), ("3.0.0", "ok")])
def test_an_agent_that_does_not_fail_closed_is_told(quick: Path, says: str, status: str) -> None:
    _claude(quick, says)
    assert _rows()["agent"].status == status


def test_a_settings_file_that_cannot_be_read_is_a_failure_and_not_a_crash(quick: Path) -> None:
    for data in (b"{", b"\xff"):
        _settings(quick).write_bytes(data)
        assert _rows()["hook"].status == "fail"


def test_receipts_that_were_changed_are_a_failure(home: Path) -> None:
    assert _rows()["receipts"].status == "ok"
    data = receipts(home).read_bytes()
    assert b"interlock-doctor" in data
    receipts(home).write_bytes(data.replace(b"interlock-doctor", b"interlock-nobody", 1))
    assert _rows()["receipts"].status == "fail"


def test_a_policy_that_does_not_load_is_a_failure(home: Path) -> None:
    config = home / "interlock.toml"
    config.write_text('[guard]\npolicy = "missing.json"\n', encoding="utf-8")
    rows = _rows(str(config))
    assert rows["policy"].status == "fail"
    assert rows["canary allow"].status == "fail"


def _weak_configuration(home: Path) -> Path:
    rule: dict[str, object] = {"id": "r", "when": {"action": "bad"}, "verdict": "block", "reason": "no"}
    rule["examples"] = {"fires": [{"action": "bad", "args": {}}], "passes": [{"action": "good", "args": {}}]}
    weak = {
        "quarantine": [{"rule": "r", "by": "ada", "reason": "noisy"}],
        "oversize": {"call": "allow"},
        "harmless": "prove",
    }
    body = {"format": "interlock-policy", "v": 1, "name": "p", "rules": [rule], **weak}
    (home / "p.json").write_text(json.dumps(body), encoding="utf-8")
    config = home / "interlock.toml"
    config.write_text('[guard]\npolicy = "p.json"\n[approvals]\nqueue = "queue.sqlite"\n', encoding="utf-8")
    return config


def test_every_row_that_weakens_what_the_hook_installs_is_a_warning_with_its_sentence(
    quick: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = _weak_configuration(quick)
    rows = {check.removeprefix("posture "): row for check, row in _rows(str(config)).items() if "posture " in check}
    assert rows.keys() == {"quarantine", "limits", "harmless", "one-user", "approvals"}
    for name, row in rows.items():
        assert (row.status, row.detail.endswith(f": {WEAKENINGS[name]}")) == ("warn", True), row
    assert "r by ada" in rows["quarantine"].detail
    assert not (quick / "queue.sqlite").exists()  # whoever only looks makes no queue
    parser = argparse.ArgumentParser()
    doctor.register(parser.add_subparsers())
    args = parser.parse_args(["doctor", "--json", "--config", str(config)])
    assert args.run(args) == 0
    told = {row["check"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert {f"posture {name}" for name in rows} <= told.keys()
    assert told["posture limits"]["detail"] == rows["limits"].detail
    assert "quarantine" not in told["posture"]["detail"]
    assert "fsync" in told["posture"]["detail"]


def test_other_rooms_add_rows_and_their_errors_are_rows_too(quick: Path) -> None:
    def mesh(config: str | None) -> Iterator[Row]:
        yield Row("mesh", "ok", "subscribed")
        raise BadInput("is gone", fix="look")

    rows = [row for row in checks(None, [mesh]) if row.check == "mesh"]
    assert [row.status for row in rows] == ["ok", "fail"]


def test_json_is_one_object_and_the_exit_code_follows(quick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    doctor.register(parser.add_subparsers())
    args = parser.parse_args(["doctor", "--json"])
    assert args.run(args) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is True
    assert {"check", "status", "detail", "fix"} == report["rows"][0].keys()
    _settings(quick, more={"disableAllHooks": True})
    assert args.run(args) == 1
    args = parser.parse_args(["doctor"])
    capsys.readouterr()
    assert args.run(args) == 1
    assert "fail  settings" in capsys.readouterr().out
