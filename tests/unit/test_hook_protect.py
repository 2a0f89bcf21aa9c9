"""Whatever the policy says, a guarded agent does not change what guards it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlock.engine.decision import Verdict
from interlock.engine.event import SensorEvent
from interlock.interceptors.hooks.entry import guard_settings
from interlock.interceptors.hooks.protect import POLICY_ID, protection
from tests.unit.hook_process import bash, hook, hook_words

RULE = {
    "id": "no.zap",
    "when": {"arg": "command", "contains": "zap"},
    "verdict": "block",
    "reason": "zap is not for agents",
    "examples": {
        "fires": [{"action": "Bash", "args": {"command": "zap"}}],
        "passes": [{"action": "Bash", "args": {"command": "ls"}}],
    },
}
POLICY = {"format": "interlock-policy", "v": 1, "name": "mine", "rules": [RULE]}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "conf" / "state").mkdir(parents=True)
    for name in ("team.json", "interlock.toml", "state/receipts.jsonl"):
        (tmp_path / "conf" / name).write_text("{}")
    return tmp_path


def _verdict(place: Path, tool: str, **args: object) -> Verdict:
    conf = place / "conf"
    rule = protection([conf / "team.json", conf / "interlock.toml", conf / "state"], place / "home")
    event = SensorEvent(tool, args, cwd=str(place))
    decision = rule.function(event)
    assert decision is None or decision.policy_id == POLICY_ID
    return Verdict.ALLOW if decision is None else decision.verdict


@pytest.mark.parametrize(
    "command",
    [
        "echo '{}' > {}/conf/team.json",
        "cd conf && sed -i s/a/b/ team.json",
        "cp x conf/../conf/interlock.toml",
        "rm conf/*.json",
        "rm -rf {}/conf",
        "rm -rf conf/state/",
        "rm -rf con*",
        "ln -sf /dev/null {}/conf/state/receipts.jsonl",
        "truncate -s0 conf/state/receipts.jsonl.key",
        "python3 -c \"open('{}/conf/team.json','w').write('x')\"",
        "interlock install-hook claude-code --uninstall",
        "interlock mesh token --dir x",
        "interlock mesh rollback mesh:team@stable",
        "interlock mesh pin mesh:team@stable 1",
        "interlock mesh settings --ungranted shadow",
        "interlock mesh stepback apply mesh:team@stable team.zap",
        "interlock mesh journal drop",
        "interlock mesh clock --reset",
        "interlock mesh pins --log-policy mine.txt",
        "interlock mesh promote team@2 --from beta --to stable",
        "echo x > .claude/settings.json",
        "echo x > ~/.claude/settings.json",
    ],
)
def test_a_change_of_the_guards_own_files_is_blocked(place: Path, command: str) -> None:
    assert _verdict(place, "Bash", command=command.replace("{}/", f"{place}/")) is Verdict.BLOCK


def test_a_change_through_a_link_or_a_file_tool_is_blocked_too(place: Path) -> None:
    (place / "alias").symlink_to(place / "conf")
    assert _verdict(place, "Write", file_path=str(place / "alias" / "team.json"), content="") is Verdict.BLOCK
    assert _verdict(place, "Edit", file_path="conf/team.json", old_string="a", new_string="b") is Verdict.BLOCK


@pytest.mark.parametrize(
    "command",
    [
        "cat conf/team.json",
        "echo x > conf/team.json.example",
        "rm conf/other.json",
        "echo x > team.json",
        "git commit -m 'change conf/team.json'",
        "grep -r policy conf",
        "interlock mesh status",
        "interlock mesh diff",
        "interlock mesh try mesh:team@stable --transcripts sessions",
        "rm -rf build",
    ],
)
def test_all_else_is_none_of_its_business(place: Path, command: str) -> None:
    assert _verdict(place, "Bash", command=command) is Verdict.ALLOW


def test_the_hook_guards_its_own_files_under_a_policy_that_says_nothing(tmp_path: Path) -> None:
    config = tmp_path / "interlock.toml"
    config.write_text('[guard]\npolicy = "team.json"\nreceipts = "receipts.jsonl"\n')
    (tmp_path / "team.json").write_text(json.dumps(POLICY))
    for name in ("team.json", "interlock.toml", "receipts.jsonl", "receipts.jsonl.key"):
        args = {"file_path": str(tmp_path / name), "content": "{}"}
        raw = bash("", cwd=str(tmp_path), tool_name="Write", tool_input=args)
        done = hook(tmp_path, raw, hook_words("--config", str(config)))
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny", name
    assert guard_settings(str(config)).file == config
