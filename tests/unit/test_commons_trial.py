"""A pack on trial: on session files of an agent, and on the encrypted event journal."""

from __future__ import annotations

import json
import os
import stat
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from interlock.base.clock import MICROSECONDS
from interlock.base.errors import BadInput
from interlock.base.files import BadState, NotWritable
from interlock.commons.eventlog import EventLog
from interlock.commons.pack import Pack, build_pack
from interlock.commons.trial import trial
from interlock.engine.decision import Decision
from interlock.engine.evaluate import PythonEvaluator
from interlock.engine.event import SensorEvent
from interlock.node.roles.record import EventRecorder
from interlock.node.transcripts import Transcripts, transcript_files
from tests.unit.commons_world import pack, rule

ALLOW = Decision.allow()


def bash(command: str, session: str = "s1", **given: object) -> SensorEvent:
    return SensorEvent("Bash", {"command": command}, span_id=session, **given)  # type: ignore[arg-type]


def tried(made: Pack, events: list[SensorEvent]) -> list[tuple[str, str, int, int]]:
    found = trial(made, events, PythonEvaluator())
    return [(r.rule, r.does, r.sessions, r.events) for r in found.rules]


# --- trials ---------------------------------------------------------------------------------------------------------


def test_a_trial_counts_sessions_and_events_of_each_rule_and_how_it_would_have_objected() -> None:
    rules = [rule("team.zap", "zap"), rule("team.fry", "fry", verdict="escalate"), rule("team.mow", "mow")]
    made = build_pack("team", 1, rules, licence="MIT", authors=["A"])
    events = [bash("zap"), bash("zap fry"), bash("zap", "s2"), bash("ls", "s3")]
    assert tried(made, events) == [("team.zap", "block", 2, 3), ("team.fry", "ask", 1, 1)]
    found = trial(made, events, PythonEvaluator())
    assert (found.events, found.sessions, found.quiet) == (4, 3, 1)


def test_each_rule_is_judged_alone_on_what_was_really_done() -> None:
    mask = {
        "id": "m",
        "when": {"action": "Bash"},
        "verdict": "modify",
        "reason": "r",
        "mask": {"detector": "pii_redaction"},
    }
    example = {"fires": [{"action": "Bash", "args": {"command": "pay 4111 1111 1111 1111"}}]}
    example["passes"] = [{"action": "Bash", "args": {"command": "ls"}}]
    made = build_pack("team", 1, [rule("b", "4111"), {**mask, "examples": example}], licence="MIT", authors=["A"])
    assert tried(made, [bash("pay 4111 1111 1111 1111")]) == [("b", "block", 1, 1), ("m", "mask", 1, 1)]


def test_rules_that_count_go_by_the_events_own_time() -> None:
    counting = rule("r", "zap") | {
        "when": {"all": [{"arg": "command", "contains": "zap"}, {"rate": {"above": 2, "seconds": 60}}]}
    }
    made = build_pack("team", 1, [counting], licence="MIT", authors=["A"])
    slow = [bash("zap", call_id=f"c{i}", ts_us=i * 120 * MICROSECONDS) for i in range(9)]
    fast = [bash("zap", call_id=f"c{i}", ts_us=i * MICROSECONDS) for i in range(4)]
    assert tried(made, slow) == []
    assert tried(made, fast) == [("r", "block", 1, 2)]


# --- session files --------------------------------------------------------------------------------------------------


def line(role: str, part: Mapping[str, object], session: str = "s1", **more: object) -> str:
    body = {"type": role, "sessionId": session, "cwd": "/home/dev", "timestamp": "2026-11-01T10:00:00.5Z"}
    return json.dumps({**body, "message": {"role": role, "content": [{"type": "text", "text": "hm"}, part]}, **more})


def use(command: str, ident: str, name: str = "Bash") -> dict[str, object]:
    return {"type": "tool_use", "id": ident, "name": name, "input": {"command": command}}


def test_calls_and_results_are_read_out_of_an_agents_session_file(tmp_path: Path) -> None:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "zap is here"}
    lines = [line("assistant", use("ls", "t1")), line("user", result, toolUseResult={"stdout": "zap is here"})]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    call, answer = Transcripts(transcript_files(tmp_path))
    assert (call.action, dict(call.args), call.phase, call.span_id, call.call_id) == (
        "Bash",
        {"command": "ls"},
        "call",
        "s1",
        "t1",
    )
    assert (call.cwd, call.ts_us) == ("/home/dev", 1_793_527_200_500_000)
    assert (answer.phase, dict(answer.args)) == ("result", {"stdout": "zap is here"})


def test_an_agents_names_for_tools_become_those_that_policies_know(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(line("assistant", use("tail -f x", "t1", "Monitor")))
    (event,) = Transcripts(transcript_files(tmp_path / "a.jsonl"))
    assert event.action == "Bash"


def test_lines_of_no_interest_are_passed_over_and_broken_ones_counted(tmp_path: Path) -> None:
    lines = ['{"type": "summary", "summary": "x"}', "", "{broken", "[1]", '{"message": {"content": "text"}}']
    lines += [line("assistant", use("ls", "t1")), line("user", {"type": "tool_result", "tool_use_id": "other"})]
    lines += ['{"hook_event_name": "SessionStart"}', '{"hook_event_name": "PreToolUse"}', "[" * 100_000]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    transcripts = Transcripts(transcript_files(tmp_path))
    assert [e.action for e in transcripts] == ["Bash"]
    assert transcripts.skipped == 4


def test_payloads_of_hooks_are_read_as_they_are(tmp_path: Path) -> None:
    body = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": {"command": "zap"}}
    (tmp_path / "h.jsonl").write_text(json.dumps(body))
    assert [r.rule for r in trial(pack(), Transcripts([tmp_path / "h.jsonl"]), PythonEvaluator()).rules] == ["team.zap"]


def test_a_place_without_session_files_is_said(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(BadInput, match="session file"):
            transcript_files(place)


# --- the journal ----------------------------------------------------------------------------------------------------


@pytest.fixture
def journal(tmp_path: Path) -> EventLog:
    log = EventLog(tmp_path)
    log.turn_on(1)
    return log


def test_the_journal_is_off_until_it_is_turned_on_and_nothing_is_written(tmp_path: Path) -> None:
    log = EventLog(tmp_path)
    assert log.append([(bash("ls"), ALLOW)]) == 0
    assert list(log.events()) == []
    assert not log.state.on
    assert not (tmp_path / "events").exists()


def test_events_read_back_as_they_were(journal: EventLog) -> None:
    events = [bash("ls", principal="p", parent_principal="q", cwd="/", ts_us=7, call_id="c"), bash("é \ud800")]
    assert journal.append([(e, ALLOW) for e in events]) == 2
    assert list(journal.events()) == events


def test_nothing_of_an_event_can_be_read_on_the_disk_and_all_is_private(journal: EventLog, tmp_path: Path) -> None:
    journal.append([(bash("cat hunter2"), ALLOW)])
    for path in (tmp_path / "events").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert b"hunter2" not in path.read_bytes()
        assert b"Bash" not in path.read_bytes()
    assert stat.S_IMODE((tmp_path / "events").stat().st_mode) == 0o700


def test_turned_off_it_keeps_what_it_has_and_dropped_it_keeps_nothing(journal: EventLog, tmp_path: Path) -> None:
    journal.append([(bash("ls"), ALLOW)])
    journal.turn_off()
    assert journal.append([(bash("pwd"), ALLOW)]) == 0
    assert len(list(journal.events())) == 1
    journal.turn_on(1)
    journal.append([(bash("pwd"), ALLOW)])
    assert len(list(journal.events())) == 2
    journal.drop()
    assert list(journal.events()) == []
    assert {p.name for p in (tmp_path / "events").iterdir()} == {"lock"}


def test_its_size_is_capped_and_the_newest_events_are_kept(journal: EventLog) -> None:
    for i in range(60):
        journal.append([(bash(f"{i} " + "x" * 40_000), ALLOW)])
    state = journal.state
    assert state.size <= state.cap + 80_000
    kept = [str(e.args["command"]).split()[0] for e in journal.events()]
    assert kept[-1] == "59"
    assert kept == [str(i) for i in range(60 - len(kept), 60)]


@pytest.mark.parametrize("cut", [1, 20, 40])
def test_a_line_that_was_cut_off_is_skipped_and_those_around_it_are_not(
    journal: EventLog, tmp_path: Path, cut: int
) -> None:
    journal.append([(bash("one"), ALLOW)])
    journal.append([(bash("two"), ALLOW)])
    path = tmp_path / "events" / "new"
    os.truncate(path, path.stat().st_size - cut)
    journal.append([(bash("three"), ALLOW)])
    assert [e.args["command"] for e in journal.events()] in (["one", "three"], ["one", "two", "three"])


def test_a_changed_line_and_one_of_another_file_are_skipped(journal: EventLog, tmp_path: Path) -> None:
    path = tmp_path / "events" / "new"
    journal.append([(bash("one"), ALLOW)])
    header, record = path.read_bytes().splitlines(keepends=True)
    other = EventLog(tmp_path / "other")
    (tmp_path / "other").mkdir()
    other.turn_on(1)
    other.append([(bash("two"), ALLOW)])
    foreign = (tmp_path / "other" / "events" / "new").read_bytes().splitlines(keepends=True)[1]
    path.write_bytes(header + bytes([record[0] ^ 1]) + record[1:] + foreign + record)
    assert [e.args["command"] for e in journal.events()] == ["one"]


def test_a_damaged_key_is_said(journal: EventLog, tmp_path: Path) -> None:
    key = tmp_path / "events" / "key"
    key.write_text(key.read_text().replace('"cap": 1048576', '"cap": -1'))
    with pytest.raises(BadState, match="is damaged"):
        _ = journal.state
    for mib in (0, 2000):
        with pytest.raises(ValueError, match="1 to 1024 MiB"):
            journal.turn_on(mib)


def eventually(holds: Callable[[], bool]) -> bool:
    for _ in range(400):
        if holds():
            return True
        time.sleep(0.005)
    return False


def test_a_recorder_writes_beside_the_calls_and_the_rest_when_it_closes(journal: EventLog) -> None:
    recorder = EventRecorder(journal)
    args = {"command": ["ls"]}
    recorder(SensorEvent("Bash", args), ALLOW)
    args["command"].append("changed afterwards")
    recorder.close()
    assert [dict(e.args) for e in journal.events()] == [{"command": ["ls"]}]
    assert recorder.lost == 0


def test_a_journal_that_cannot_write_or_keep_up_is_felt_by_no_call(
    journal: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = threading.Event()

    def stuck(self: EventLog, rows: object) -> int:
        held.wait(5)
        raise NotWritable("is full")

    monkeypatch.setattr(EventLog, "append", stuck)
    recorder = EventRecorder(journal)
    started = time.perf_counter()
    for i in range(3000):
        recorder(bash(f"{i}"), ALLOW)
    assert time.perf_counter() - started < 1
    assert recorder.lost >= 3000 - 1024 - 256
    held.set()
    assert eventually(lambda: recorder.lost == 3000)
