"""Approvals at the doors: programs with @guard, and a coding agent's hook with a configured queue."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import interlock
from interlock import Decision, NotApproved, SensorEvent, enforce_tool_call, enforce_tool_result, guard, install
from interlock.base.clock import MICROSECONDS
from interlock.base.errors import MESSAGE_LIMIT
from interlock.base.settings import BadConfig, Settings, read_settings
from interlock.engine import ambient
from interlock.engine.approvals import ApprovalRequest
from interlock.engine.approvals_store import ApprovalStore
from interlock.engine.event import Phase
from interlock.engine.live import LivePolicy
from interlock.engine.policy.model import Policy, Rule
from interlock.engine.settle import Blocked
from interlock.engine.sinks import InMemorySink
from interlock.interceptors.hooks.approving import queue_settings
from tests.unit.approval_world import queue, store_of
from tests.unit.hook_process import bash, environment, hook, hook_words, one_refusal, receipts


@pytest.fixture(autouse=True)
def _nothing_installed() -> Iterator[None]:
    yield
    ambient.install(None)


def asking(phase: Phase = "call") -> Rule:
    return Rule("ask.first", lambda event: Decision.escalate("needs a person"), phase=phase)


def waiting(folder: Path) -> str:
    (entry,) = [entry for entry in store_of(folder).entries() if entry.state == "pending"]
    return entry.id


# programs


def test_a_guarded_function_runs_once_somebody_approved_the_identical_call(tmp_path: Path) -> None:
    sink = InMemorySink()
    install(rules=[asking()], approver=queue(tmp_path), sink=sink)
    ran: list[str] = []

    @guard
    def push(branch: str) -> None:
        ran.append(branch)

    with pytest.raises(NotApproved, match=r"needs a person \(not approved: a person has to approve request"):
        push("main")
    store_of(tmp_path).approve(waiting(tmp_path), "mia")
    with pytest.raises(NotApproved):
        push("other")
    push("main")
    with pytest.raises(NotApproved, match="the approval before has been used"):
        push("main")
    assert ran == ["main"]
    assert [(r.outcome, r.approved_by) for r in sink.receipts if r.phase == "call"] == [
        ("not-approved", None),
        ("not-approved", None),
        ("approved", "mia"),
        ("not-approved", None),
    ]


@pytest.mark.parametrize("reason", ["many words " * 45, "one-word" * 60, "words " * 400])
def test_a_long_reason_leaves_room_for_the_request_that_a_person_has_to_approve(tmp_path: Path, reason: str) -> None:
    install(
        rules=[Rule("ask.first", lambda event: Decision.escalate(reason))], approver=queue(tmp_path, four_eyes=True)
    )
    with pytest.raises(NotApproved) as caught:
        enforce_tool_call("push", {})
    assert reason[:60].strip() in str(caught.value)
    assert f"approve request {waiting(tmp_path)} until 20" in str(caught.value)
    assert str(caught.value).endswith("Z)")
    assert len(str(caught.value)) <= MESSAGE_LIMIT


def test_a_block_is_never_released_and_asks_nobody(tmp_path: Path) -> None:
    install(
        rules=[asking(), Rule("never", lambda event: Decision.block("no"))],
        approver=queue(tmp_path),
    )
    with pytest.raises(Blocked, match=r"^no$") as caught:
        enforce_tool_call("push", {})
    assert not isinstance(caught.value, NotApproved)
    assert store_of(tmp_path).entries() == []


def test_a_rule_that_blocks_only_after_the_approval_still_blocks(tmp_path: Path) -> None:
    install(rules=[asking()], approver=queue(tmp_path))
    with pytest.raises(NotApproved):
        enforce_tool_call("push", {})
    store_of(tmp_path).approve(waiting(tmp_path), "mia", "ttl", 60 * MICROSECONDS)
    install(rules=[asking(), Rule("never", lambda event: Decision.block("no"))], approver=queue(tmp_path))
    with pytest.raises(Blocked, match=r"^no$"):
        enforce_tool_call("push", {})


def test_another_policy_needs_another_approval(tmp_path: Path) -> None:
    install(rules=[asking()], approver=queue(tmp_path))
    with pytest.raises(NotApproved):
        enforce_tool_call("push", {})
    store_of(tmp_path).approve(waiting(tmp_path), "mia", "ttl", 60 * MICROSECONDS)
    quiet = Rule("quiet", lambda event: None)
    install(rules=[asking(), quiet], approver=queue(tmp_path))
    with pytest.raises(NotApproved):
        enforce_tool_call("push", {})
    install(rules=[asking()], approver=queue(tmp_path))
    assert enforce_tool_call("push", {}) == {}


def test_what_was_rewritten_is_what_is_approved_and_what_goes_on(tmp_path: Path) -> None:
    softer = Rule("softer", lambda event: Decision.modify({"force": False}))
    install(rules=[softer, asking()], approver=queue(tmp_path))
    with pytest.raises(NotApproved):
        enforce_tool_call("push", {"force": True})
    store = store_of(tmp_path)
    body = json.loads(store.get(waiting(tmp_path)).document)
    assert (json.loads(body["args"]), body["rewritten"]) == ({"force": False}, ["force"])
    store.approve(waiting(tmp_path), "mia")
    assert enforce_tool_call("push", {"force": True}) == {"force": False}


def test_a_result_is_approved_as_a_call_is(tmp_path: Path) -> None:
    install(rules=[asking("result")], approver=queue(tmp_path))
    with pytest.raises(NotApproved):
        enforce_tool_result("read", "secret plans")
    store_of(tmp_path).approve(waiting(tmp_path), "mia")
    assert enforce_tool_result("read", "secret plans") == "secret plans"


def test_a_script_that_changes_while_a_person_decides_voids_what_they_say(tmp_path: Path) -> None:
    path = tmp_path / "x.sh"
    path.write_text("echo")

    def slow(request: ApprovalRequest) -> bool:
        path.write_text("rm -rf ~")
        return request.scripts[0].path == str(path)

    install(rules=[asking()], approver=slow)
    with pytest.raises(NotApproved, match="the action changed while it waited for approval"):
        enforce_tool_call("Bash", {"command": "bash x.sh"}, cwd=str(tmp_path))


def test_on_escalate_is_asked_in_place_of_the_installed_approver(tmp_path: Path) -> None:
    install(rules=[asking()], approver=lambda request: False)
    assert enforce_tool_call("push", {}, on_escalate=lambda request: True) == {}
    with pytest.raises(NotApproved, match="a person has to approve request"):
        enforce_tool_call("push", {}, on_escalate=queue(tmp_path))


def _pinned_doors(pin: str | None) -> dict[str, Callable[[], object]]:
    @guard(name="push", server_pin=pin)
    def push(branch: str) -> str:
        return branch

    return {
        "call": lambda: enforce_tool_call("push", {"branch": "main"}, server_pin=pin),
        "result": lambda: enforce_tool_result("push", "done", server_pin=pin),
        "@guard": lambda: push("main"),
    }


@pytest.mark.parametrize("door", ["call", "result", "@guard"])
def test_an_approval_holds_for_the_pinned_server_that_the_program_named(door: str, tmp_path: Path) -> None:
    phase: Phase = "result" if door == "result" else "call"
    install(rules=[asking(phase)], approver=queue(tmp_path))
    with pytest.raises(NotApproved):
        _pinned_doors("ab")[door]()
    request = waiting(tmp_path)
    assert json.loads(store_of(tmp_path).get(request).document)["server_pin"] == "ab"
    store_of(tmp_path).approve(request, "mia")
    for other in ("cd", None):
        with pytest.raises(NotApproved):
            _pinned_doors(other)[door]()
    assert _pinned_doors("ab")[door]() == {"call": {"branch": "main"}, "result": "done", "@guard": "main"}[door]


def test_a_server_pin_is_a_text_also_where_no_rule_objects() -> None:
    install()
    for through in _pinned_doors(1).values():  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="server_pin is a string or None, not a int"):
            through()
    assert _pinned_doors("ab")["call"]() == {"branch": "main"}


def test_threads_that_try_one_approved_call_run_it_once(tmp_path: Path) -> None:
    install(rules=[asking()], approver=queue(tmp_path))
    with pytest.raises(NotApproved):
        enforce_tool_call("push", {})
    store_of(tmp_path).approve(waiting(tmp_path), "mia")
    ran: list[bool] = []

    def go() -> None:
        try:
            enforce_tool_call("push", {})
            ran.append(True)
        except NotApproved:
            ran.append(False)

    threads = [threading.Thread(target=go) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(ran) == [False] * 5 + [True]


def test_the_epoch_rises_only_with_the_digest_of_the_compiled_policy() -> None:
    file, digests = [0], iter(["a", "a", "b", "b"])
    live = LivePolicy(lambda: Policy((), next(digests)), lambda: file[0])
    epochs = [live.epoch]
    for _ in range(3):
        file[0] += 1
        live.refresh(wait=True)
        epochs.append(live.epoch)
    assert epochs == [1, 1, 2, 2]


def test_importing_interlock_opens_no_database() -> None:
    program = (
        "import sys, interlock; print('sqlite3' in sys.modules, 'interlock.engine.approvals_scripts' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "False"]
    assert "ApprovalQueue" in interlock.__all__


# a coding agent's hook


def policy(home: Path, verdict: str = "escalate") -> None:
    rule = {
        "id": "ask.push",
        "verdict": verdict,
        "reason": "a push leaves this machine",
        "when": {"arg": "command", "contains": "git push"},
    }
    body = {"format": "interlock-policy", "v": 1, "name": "mine", "rules": [rule]}
    (home / "mine.json").write_text(json.dumps(body))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    policy(tmp_path)
    tmp_path.joinpath("i.toml").write_text('[guard]\npolicy = "mine.json"\n[approvals]\nqueue = "approvals.sqlite"\n')
    return tmp_path


def said(home: Path, raw: bytes) -> dict[str, object]:
    done = hook(home, raw, hook_words("--config", str(home / "i.toml")))
    assert done.returncode == 0, done
    found: dict[str, object] = json.loads(done.stdout)["hookSpecificOutput"] if done.stdout else {}
    return found


def test_without_a_queue_an_escalation_stays_the_agents_own_question(home: Path) -> None:
    (home / "i.toml").write_text('[guard]\npolicy = "mine.json"\n')
    answer = said(home, bash("git push"))
    assert answer["permissionDecision"] == "ask"
    assert "request" not in str(answer["permissionDecisionReason"])


def test_with_a_queue_it_is_denied_with_the_request_and_goes_on_once_it_is_approved(home: Path) -> None:
    denied = said(home, bash("git push"))
    id_ = waiting(home)
    assert denied["permissionDecision"] == "deny"
    assert f"a push leaves this machine (not approved: a person has to approve request {id_} until " in str(
        denied["permissionDecisionReason"]
    )
    store_of(home).approve(id_, "mia")
    assert said(home, bash("git push --all"))["permissionDecision"] == "deny"
    assert said(home, bash("git push", tool_use_id="toolu_2")) == {}
    assert said(home, bash("git push"))["permissionDecision"] == "deny"
    kept = [json.loads(line) for line in receipts(home).read_text().splitlines()]
    rows = [(row.get("outcome"), row.get("approved_by")) for row in kept if row.get("action") == "Bash"]
    assert rows == [("not-approved", None), ("not-approved", None), ("approved", "mia"), ("not-approved", None)]


def test_another_folder_needs_another_approval(home: Path) -> None:
    said(home, bash("git push"))
    store_of(home).approve(waiting(home), "mia", "ttl", 60 * MICROSECONDS)
    assert said(home, bash("git push", cwd="/elsewhere"))["permissionDecision"] == "deny"
    assert said(home, bash("git push")) == {}


def test_what_needs_no_approval_opens_no_queue(home: Path) -> None:
    assert said(home, bash("git status")) == {}
    assert not (home / "approvals.sqlite").exists()


def test_a_block_stays_a_block_whatever_was_approved(home: Path) -> None:
    said(home, bash("git push"))
    store_of(home).approve(waiting(home), "mia", "ttl", 60 * MICROSECONDS)
    policy(home, "block")
    assert "request" not in str(said(home, bash("git push"))["permissionDecisionReason"])


def test_a_guarded_agent_does_not_touch_the_queue(home: Path) -> None:
    for end in ("", "-wal", ".lock"):
        path = home / f"approvals.sqlite{end}"
        for command in (f"rm {path}", f"echo x > {path}", f"sqlite3 {path}; mv /tmp/x {path}"):
            assert said(home, bash(command))["permissionDecision"] == "deny", command


def test_a_guarded_agent_does_not_run_the_command_that_approves(home: Path) -> None:
    for command in (
        "interlock approve",
        "interlock approve 0123456789abcdef",
        "script -qc 'interlock approve' /dev/null",
    ):
        assert said(home, bash(command))["permissionDecision"] == "deny", command


def test_a_queue_that_cannot_be_used_denies_in_one_line_and_what_needs_none_goes_on(home: Path) -> None:
    (home / "approvals.sqlite").symlink_to(home / "elsewhere")
    answer = said(home, bash("git push"))
    assert answer["permissionDecision"] == "deny"
    assert "is a symbolic link" in str(answer["permissionDecisionReason"])
    assert said(home, bash("git status")) == {}


def test_the_default_folder_of_the_queue_is_made_private(home: Path) -> None:
    path = home / "state" / "interlock" / "approvals.sqlite"
    (home / "i.toml").write_text(f'[guard]\npolicy = "mine.json"\n[approvals]\nqueue = "{path}"\n')
    assert said(home, bash("git push"))["permissionDecision"] == "deny"
    assert path.parent.stat().st_mode & 0o777 == 0o700


AGENT = """
import subprocess, sys
payload = sys.stdin.buffer.read()
print(subprocess.run(sys.argv[1:], input=payload, capture_output=True, timeout=60).returncode)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc here")
def test_the_hook_notes_the_agent_that_runs_it_and_not_itself(home: Path) -> None:
    words = [sys.executable, "-c", AGENT, *hook_words("--config", str(home / "i.toml"))]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(home), cwd=home
    ) as agent:
        out, _ = agent.communicate(bash("git push"), timeout=60)
    assert out.strip() == b"0"
    assert [process.pid for process in ApprovalStore(home / "approvals.sqlite").guarded()] == [agent.pid]


# the section


def settings(tmp_path: Path, text: str) -> Settings:
    (tmp_path / "i.toml").write_text(text)
    return read_settings(tmp_path / "i.toml")


def test_the_section_has_the_defaults_that_the_page_names(tmp_path: Path) -> None:
    found = queue_settings(settings(tmp_path, '[approvals]\nqueue = "a.sqlite"\n'))
    assert found is not None
    assert (found.path, found.wait_s, found.use_s, found.four_eyes) == (tmp_path / "a.sqlite", 3600, 600, False)
    assert queue_settings(settings(tmp_path, "")) is None


@pytest.mark.parametrize(
    "text", ["wait_seconds = 5", 'queue = ""', 'queue = "a"\nuse_seconds = 0', 'queue = "a"\nwait_seconds = 9e99']
)
def test_a_section_that_makes_no_sense_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadConfig, match=r"\[approvals\]"):
        queue_settings(settings(tmp_path, f"[approvals]\n{text}\n"))


@pytest.mark.parametrize("text", ["four_eyes = 1", 'queue = "a"\nfour_eyes = "yes"', "queue = true", "wait = 1"])
def test_a_setting_of_the_wrong_type_or_name_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadConfig):
        settings(tmp_path, f"[approvals]\n{text}\n")


def test_a_bad_section_blocks_the_call_in_one_line(home: Path) -> None:
    (home / "i.toml").write_text("[approvals]\nwait_seconds = 5\n")
    done = hook(home, bash("ls"), hook_words("--config", str(home / "i.toml")))
    assert "[approvals] queue: is not set" in one_refusal(done)
    assert os.listdir(home) == ["mine.json", "i.toml"] or not (home / "approvals.sqlite").exists()


def test_an_event_of_a_rule_is_what_these_tests_think() -> None:
    assert asking().function(SensorEvent("x", {})) == Decision.escalate("needs a person")
