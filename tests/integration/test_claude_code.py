"""The real Claude Code, from npm, with a model of ours on loopback: whatever becomes of the hook, the file stays.

The program runs in `bypassPermissions`, so that nothing but the hook stands between the model and the file; the first
test is the control that shows it. Nothing that the model asks for would do harm if it ran.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from interlock.interceptors.hooks.settings import with_hooks
from interlock.node.cli.hook import hook_command
from tests.integration.claude_model import ModelServer, ToolCall
from tests.unit.hook_process import MAIN, hook_words

pytestmark = pytest.mark.slow

VERSION = "2.1.332"
ROOT = Path(__file__).resolve().parents[2]
SECRET = "ghp_" + "A1b2C3d4" * 4 + "E5f6"
DELETE = "rm victim"
HARMLESS = 'for f in victim; do cat "$f"; done'  # what the host itself asks about


def _rule(name: str, verdict: str, **more: object) -> dict[str, object]:
    return {"id": name, "verdict": verdict, "reason": f"reason of {name}", **more}


def _command(start: str) -> dict[str, object]:
    return {"all": [{"action": "Bash"}, {"arg": "command", "prefix": start}]}


def _examples(fires: str, passes: str) -> dict[str, object]:
    return {
        "fires": [{"action": "Bash", "args": {"command": fires}}],
        "passes": [{"action": "Bash", "args": {"command": passes}}],
    }


def _result_examples() -> dict[str, object]:
    return {
        name: [{"action": "Bash", "args": {"stdout": text, "stderr": ""}, "phase": "result"}]
        for name, text in (("fires", "INJECTED"), ("passes", "plain"))
    }


POLICY = {
    "format": "interlock-policy",
    "v": 1,
    "name": "trial",
    "rules": [
        _rule("deny", "block", when=_command("rm"), examples=_examples("rm x", "ls")),
        _rule("ask", "escalate", when=_command("mv"), examples=_examples("mv x y", "ls")),
        _rule(
            "mask",
            "modify",
            when={"detector": "secrets"},
            mask={"detector": "secrets"},
            examples=_examples(f"echo {SECRET}", "ls"),
        ),
        _rule(
            "result",
            "block",
            phase="result",
            when={"arg": "stdout", "contains": "INJECTED"},
            examples=_result_examples(),
        ),
    ],
}


@pytest.fixture(scope="module")
def claude() -> Path:
    """The program, where `make claude-code` has put it."""
    folder = Path(os.environ.get("INTERLOCK_CLAUDE_CODE_DIR") or ROOT / "build" / "claude-code")
    program = folder / "node_modules" / ".bin" / "claude"
    if not program.exists():
        pytest.skip("the real Claude Code is not here; `make claude-code` brings it from npm")
    version = subprocess.run([program, "--version"], capture_output=True, timeout=60, check=False).stdout.decode()
    assert version.startswith(VERSION), f"{program} is {version.strip()}; remove {folder}, or set another folder"
    return program


@dataclass
class Trial:
    """One folder that an agent works in, with a victim file and the settings under test."""

    claude: Path
    home: Path
    work: Path
    settings: dict[str, object] = field(default_factory=dict)

    @property
    def victim(self) -> Path:
        return self.work / "victim"

    @property
    def intact(self) -> bool:
        return self.victim.exists() and self.victim.read_text(encoding="utf-8") == "precious"

    def guard(self, command: str | None = None, timeout: int = 15, **policy: object) -> None:
        """Install the hook as install-hook does; `command` in place of our own shows what a broken one does."""
        config = self.home / "interlock.toml"
        config.write_text('[guard]\npolicy = "policy.json"\ndeadline_ms = 2000\n', encoding="utf-8")
        (self.home / "policy.json").write_text(json.dumps({**POLICY, **policy}), encoding="utf-8")
        words = " ".join(hook_words("--config", str(config)))
        text = with_hooks("{}", words, "settings").replace('"timeout": 15', f'"timeout": {timeout}')
        hooks = json.loads(text)
        for event in hooks["hooks"].values():
            event[0]["hooks"][0]["command"] = command.replace("HOOK", words) if command else words
        self.settings |= hooks

    def run(self, calls: list[ToolCall], mode: str = "bypassPermissions") -> ModelServer:
        """Let the agent make these calls; returns the model, with what it saw of each result."""
        (self.work / ".claude").mkdir(exist_ok=True)
        (self.work / ".claude" / "settings.json").write_text(json.dumps(self.settings), encoding="utf-8")
        words = [str(self.claude), "-p", "go", "--output-format", "json", "--permission-mode", mode]
        with ModelServer(calls) as model:
            env = {
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "XDG_STATE_HOME": str(self.home / "state"),
                "ANTHROPIC_BASE_URL": model.url,
                "ANTHROPIC_API_KEY": "x",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_TELEMETRY": "1",
                "DISABLE_AUTOUPDATER": "1",
                "ENABLE_TOOL_SEARCH": "false",  # offer every tool from the start
                "IS_SANDBOX": "1",  # it refuses bypassPermissions to root without this
            }
            done = subprocess.run(
                words, cwd=self.work, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=90, check=False
            )
        assert done.returncode == 0, done
        return model


@pytest.fixture
def trial(claude: Path, tmp_path: Path) -> Trial:
    made = Trial(claude, tmp_path / "home", tmp_path / "work")
    made.home.mkdir()
    made.work.mkdir()
    made.victim.write_text("precious", encoding="utf-8")
    return made


def _bash(command: str) -> ToolCall:
    return "Bash", {"command": command, "description": "x"}


def test_without_the_hook_the_file_goes(trial: Trial) -> None:
    trial.run([_bash(DELETE)])
    assert not trial.victim.exists()


def test_an_allowed_call_runs_and_its_result_reaches_the_model(trial: Trial) -> None:
    trial.guard()
    model = trial.run([_bash("cat victim")])
    assert "precious" in model.results["toolu_0"]


def test_deny_keeps_the_file_and_tells_the_model_why(trial: Trial) -> None:
    trial.guard()
    model = trial.run([_bash(DELETE)])
    assert trial.intact
    assert "interlock: reason of deny [deny]" in model.results["toolu_0"]


def test_ask_keeps_the_file_where_nobody_answers(trial: Trial) -> None:
    trial.guard()
    model = trial.run([_bash("mv victim gone")])
    assert trial.intact
    assert "reason of ask" in model.results["toolu_0"]


def test_the_agent_lives_on_after_a_denied_call(trial: Trial) -> None:
    trial.guard()
    model = trial.run([_bash(DELETE), _bash("cat victim")])
    assert "precious" in model.results["toolu_1"]


def test_a_repository_cannot_choose_the_configuration_by_its_own_settings(trial: Trial) -> None:
    trial.guard()
    rule = _rule("other", "block", when=_command("nothing"), examples=_examples("nothing", "ls"))
    (trial.work / "lax.json").write_text(json.dumps(POLICY | {"rules": [rule]}), encoding="utf-8")
    (trial.work / "lax.toml").write_text('[guard]\npolicy = "lax.json"\n', encoding="utf-8")
    trial.settings["env"] = {"INTERLOCK_CONFIG": str(trial.work / "lax.toml"), "PYTHONPATH": str(trial.work)}
    (trial.work / "interlock.py").write_text("import os\nos._exit(0)\n", encoding="utf-8")
    trial.run([_bash(DELETE)])
    assert trial.intact


def test_a_guarded_agent_cannot_disarm_its_guard(trial: Trial) -> None:
    """Under the policy that ships, with the command that install-hook writes."""
    trial.settings = json.loads(with_hooks("{}", hook_command(), "settings"))
    path = trial.work / ".claude" / "settings.json"
    calls: list[ToolCall] = [
        ("Read", {"file_path": str(path)}),
        ("Write", {"file_path": str(path), "content": "{}"}),
        ("Edit", {"file_path": str(path), "old_string": '{"hooks"', "new_string": '{"disableAllHooks": true, "hooks"'}),
        _bash("rm -f .claude/settings.json"),
        _bash("cd .claude && echo {} > settings.json"),
        ("Monitor", {"command": "rm -f .claude/settings.json", "description": "x", "timeout_ms": 2000}),
    ]
    model = trial.run(calls)
    assert json.loads(path.read_bytes()) == trial.settings
    assert len(model.results) == len(calls)
    assert all("[self." in model.results[f"toolu_{n}"] for n in range(1, len(calls)))


@contextmanager
def _broken_copy(folder: Path) -> Iterator[str]:
    package = folder / "site" / "interlock"
    shutil.copytree(Path(MAIN).parent, package, ignore=shutil.ignore_patterns("__pycache__", "node", "dap", "commons"))
    (package / "engine" / "evaluate.py").write_text("import nothing_like_this\n", encoding="utf-8")
    yield f"{sys.executable} -I {package / '__main__.py'} hook claude-code"


def test_a_hook_that_crashes_keeps_the_file(trial: Trial, tmp_path: Path) -> None:
    with _broken_copy(tmp_path) as command:
        trial.guard(command)
        model = trial.run([_bash(DELETE)])
    assert trial.intact
    assert "interlock is damaged" in model.results["toolu_0"]


@pytest.mark.parametrize("command", ["exit 1", "kill -SEGV $$", "/nonexistent/interlock hook claude-code"])
def test_a_command_that_fails_in_a_way_of_its_own_keeps_the_file(trial: Trial, command: str) -> None:
    trial.guard(command)
    trial.run([_bash(DELETE)])
    assert trial.intact


def test_a_hook_that_hangs_keeps_the_file_by_its_own_deadline(trial: Trial) -> None:
    trial.guard()
    trial.run([_bash("ls")])
    with open(trial.home / "state" / "interlock" / "receipts.jsonl.lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        model = trial.run([_bash("cp victim taken")])
    assert not (trial.work / "taken").exists()
    assert "no decision within 2000 ms" in model.results["toolu_0"]


def test_a_command_that_hangs_keeps_the_file_by_the_agents_time_out(trial: Trial) -> None:
    trial.guard("exec sleep 60", timeout=1)
    trial.run([_bash(DELETE)])
    assert trial.intact


def test_garbage_that_reaches_the_hook_keeps_the_file(trial: Trial) -> None:
    trial.guard("head -c 400 /dev/urandom | HOOK")
    model = trial.run([_bash(DELETE)])
    assert trial.intact
    assert "interlock: blocked: hook input" in model.results["toolu_0"]


def test_a_rewrite_is_what_runs(trial: Trial) -> None:
    trial.guard()
    trial.run([_bash(f"echo token {SECRET} > sent")])
    sent = (trial.work / "sent").read_text(encoding="utf-8")
    assert sent.startswith("token ")
    assert SECRET not in sent


def test_a_rewrite_does_not_release_what_the_host_denies(trial: Trial) -> None:
    trial.guard()
    trial.settings["permissions"] = {"deny": ["Bash(tee:*)"]}
    model = trial.run([_bash(f"tee sent <<< {SECRET}")])
    assert not (trial.work / "sent").exists()
    assert "denied" in model.results["toolu_0"]


def test_a_call_that_is_proven_harmless_runs_without_the_hosts_question(trial: Trial) -> None:
    trial.guard()
    asked = trial.run([_bash(HARMLESS)], mode="default")
    assert "precious" not in asked.results["toolu_0"]
    trial.guard(harmless="prove")
    model = trial.run([_bash(HARMLESS), _bash(f"{HARMLESS} > copy")], mode="default")
    assert "precious" in model.results["toolu_0"]
    assert not (trial.work / "copy").exists()


@pytest.mark.parametrize("word", ["deny", "ask"])
def test_a_proof_never_overrides_what_the_host_denies_or_asks(trial: Trial, word: str) -> None:
    trial.guard(harmless="prove")
    assert "precious" in trial.run([_bash("shuf victim")], mode="default").results["toolu_0"]
    trial.settings["permissions"] = {word: ["Bash(shuf:*)"]}
    model = trial.run([_bash("shuf victim")], mode="default")
    assert "precious" not in model.results["toolu_0"]


def test_a_blocked_result_never_reaches_the_model(trial: Trial) -> None:
    trial.victim.write_text("INJECTED orders", encoding="utf-8")
    trial.guard()
    model = trial.run([_bash("cat victim"), _bash("echo after")])
    assert "INJECTED" not in model.results["toolu_0"]
    assert "withheld by interlock: reason of result" in model.results["toolu_0"]
    assert "after" in model.results["toolu_1"]


def test_a_guarded_agent_cannot_remove_a_policy_of_the_users_own(trial: Trial) -> None:
    trial.guard()
    policy = trial.home / "policy.json"
    model = trial.run([_bash(f"unlink {policy}")])
    assert policy.exists()
    assert "self.guard" in model.results["toolu_0"]


def test_a_result_that_cannot_be_judged_never_reaches_the_model(trial: Trial) -> None:
    # The call itself is judged well; its result finds a policy that is no longer there. The guard keeps an agent from
    # its policy, but does not read scripts.
    trial.guard()
    policy = trial.home / "policy.json"
    (trial.work / "tidy.sh").write_text(f"cat victim; unlink {policy}\n", encoding="utf-8")
    model = trial.run([_bash("sh tidy.sh")])
    assert not policy.exists()
    assert model.results == {}
