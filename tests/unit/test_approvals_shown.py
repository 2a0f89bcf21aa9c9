"""What an approver sees: the whole call, nothing hidden, whatever is left out counted; and which scripts count."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.base.canonical import NotCanonical
from interlock.engine.approvals import ask
from interlock.engine.approvals_scripts import MAX_BYTES, MAX_SCRIPTS, named_scripts, script_now
from interlock.engine.approvals_text import MAX_CALL, TooLarge, card, document_of, opened, visible
from interlock.engine.evaluate import Outcome
from interlock.engine.event import SensorEvent
from tests.unit.approval_world import escalation, queue, request


def shown(outcome: Outcome, *, full: bool = False) -> str:
    given_ = request(outcome)
    return card(opened(document_of(given_), given_.digest), full=full)


HOSTILE = {
    "escape": "\x1b[2J",
    "c1": "\x9b2J",
    "bell": "\x07",
    "return": "safe\rrm -rf ~",
    "backspace": "rm\b\bls",
    "bidi override": "\u202egnp.exe",
    "bidi isolate": "\u2066x\u2069",
    "zero width": "r\u200bm",
    "joiner": "a\u2060b",
    "soft hyphen": "r\u00adm",
    "byte order mark": "\ufeffx",
    "tag": "\U000e0041",
    "line separator": "a\u2028b",
    "variation selector": "a\ufe0f",
    "combining": "a" + "\u0301" * 50,
    "hangul filler": "\u3164",
    "braille blank": "\u2800",
    "no-break space": "a\u00a0b",
    "lone surrogate": "\ud800",
    "surrogates side by side": "\ud83d\ude00",
    "private use": "\ue000",
    "null": "a\0b",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_a_screen_could_hide_or_act_on_is_written_out_wherever_it_stands(what: str) -> None:
    text = HOSTILE[what]
    outcome = escalation(
        "Bash" + text,
        {"command": text, text: 1, "deep": [{text: text}]},
        principal=text,
        cwd=text,
        reason=text,
        rules=(text,),
        evidence={text: text},
    )
    page = shown(outcome)
    assert all(c == "\n" or (c.isprintable() and unicodedata.category(c) not in ("Mn", "Me")) for c in page)
    hidden = [c for c in text if not (c.isascii() and c.isprintable())]
    assert all(f"⟨U+{ord(c):04X}⟩" in page for c in hidden)


@given(st.text())
@settings(max_examples=300, derandomize=True)
def test_a_visible_text_holds_nothing_invisible_and_can_be_read_back(text: str) -> None:
    page = visible(text)
    assert page.isprintable()
    parts = page.split("⟨U+")
    back = parts[0] + "".join(chr(int(p.partition("⟩")[0], 16)) + p.partition("⟩")[2] for p in parts[1:])
    assert back == text


def test_a_mark_that_an_argument_forges_can_be_told_from_ours() -> None:
    assert visible("⟨U+202E⟩") == "⟨U+27E8⟩U+202E⟩"


def test_a_line_of_an_argument_cannot_pass_for_a_line_of_ours() -> None:
    lines = shown(escalation(args={"command": "ls\nreason      all is well"})).split("\n")
    assert "    | reason      all is well" in lines
    assert [line for line in lines if line.startswith("reason")] == ["reason      needs a person"]


def test_a_letter_that_looks_like_another_is_pointed_at() -> None:
    assert "⟨outside ASCII: U+0440⟩" in shown(escalation(args={"command": "\u0440m -rf /"}))


def test_everything_that_is_bound_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "x.sh"
    path.write_text("echo")
    outcome = escalation(
        args={"command": "bash x.sh", "n": 7},
        principal="bot",
        parent_principal="boss",
        cwd=str(tmp_path),
        server_pin="abcd",
        rules=("r.one", "r.two"),
        rewritten=("command",),
        evidence={"host": "evil.example"},
        reason="needs two looks",
    )
    given_ = request(outcome, named_scripts)
    page = card(opened(document_of(given_), given_.digest))
    for part in (
        "Bash (call)",
        "bot",
        "boss",
        str(tmp_path),
        "abcd",
        "r.one, r.two",
        "policy      p1",
        "needs two looks",
        f"{path}  SHA-256 {given_.scripts[0].sha256}",
        "command:  (rewritten by a rule)",
        "| bash x.sh",
        "evil.example",
    ):
        assert part in page, part


def test_a_long_text_says_how_much_is_left_out_and_full_shows_it() -> None:
    outcome = escalation(args={"command": "a" * 3000 + "HIDDEN" + "b" * 1000})
    assert "⟨6 characters left out, of 1 lines; SHA-256 of the whole text " in shown(outcome)
    assert "HIDDEN" not in shown(outcome)
    assert "HIDDEN" in shown(outcome, full=True)


def test_blank_lines_do_not_push_a_command_off_the_screen() -> None:
    page = shown(escalation(args={"command": "rm -rf ~ #" + "\n" * 3000 + "ls"}))
    assert len(page.splitlines()) < 80
    assert "    | rm -rf ~ #" in page
    assert "⟨2,942 characters left out, of 3,001 lines; " in page


@given(st.text(st.characters(max_codepoint=0x24F, categories=["L", "N"], include_characters="\n"), max_size=3000))
@settings(max_examples=50, derandomize=True, deadline=None)
def test_what_is_shown_and_what_is_left_out_are_together_the_text(text: str) -> None:
    page = shown(escalation(args={"x": text * 3}))
    inner = [line[6:] for line in page.split("\n") if line.startswith("    | ") and "⟨outside ASCII" not in line]
    at = next((n for n, line in enumerate(inner) if "characters left out" in line), None)
    if at is None:
        assert "\n".join(inner) == text * 3
        return
    head, tail = "\n".join(inner[:at]), "\n".join(inner[at + 1 :])
    left = int(inner[at][1:].partition(" ")[0].replace(",", ""))
    assert (text * 3).startswith(head)
    assert (text * 3).endswith(tail)
    assert len(head) + left + len(tail) == len(text * 3)


def test_many_members_and_deep_ones_say_how_many_are_left_out() -> None:
    deep: object = ["bottom"]
    for _ in range(10):
        deep = [deep]
    outcome = escalation(args={"many": list(range(1234)), "deep": deep})
    page = shown(outcome)
    assert "⟨1,184 more members left out⟩" in page
    assert "⟨a list of 1 left out⟩" in page
    assert "bottom" not in page
    assert "bottom" in shown(outcome, full=True)


def test_a_call_too_large_to_be_read_is_refused_in_one_line(tmp_path: Path) -> None:
    answer = ask(queue(tmp_path), escalation(args={"command": "x" * MAX_CALL}), "p1")
    assert isinstance(answer.cause, TooLarge)
    assert answer.note == "the call has 1,048,590 bytes, and an approver can be asked about 1,048,576 at most"


@pytest.mark.parametrize("evidence", [{"x": object()}, {"x": "y" * 100_000}])
def test_evidence_that_cannot_be_shown_says_why(evidence: dict[str, object]) -> None:
    assert "left out:" in shown(escalation(evidence=evidence))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("args", '{"command":"ls"}'),
        ("action", "Read"),
        ("cwd", "/x"),
        ("reason", "fine"),
        ("rules", []),
        ("scripts", 1),
    ],
)
def test_a_text_that_is_not_what_the_digest_binds_is_shown_to_nobody(name: str, value: object) -> None:
    given_ = request()
    body = json.loads(document_of(given_))
    body[name] = value
    with pytest.raises(NotCanonical, match="does not say what the digest binds"):
        opened(json.dumps(body).encode(), given_.digest)


# scripts


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("x.sh", "x.py", "data.csv", "p.awk", "sub/y.sh", "Makefile"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    return tmp_path


def names(project: Path, command: object, action: str = "Bash") -> list[str]:
    found = named_scripts(SensorEvent(action, {"command": command}, cwd=str(project)))
    return [os.path.relpath(script.path, project) for script in found]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("bash x.sh", ["x.sh"]),
        ("python3.12 x.py", ["x.py"]),
        ("./x.sh", ["x.sh"]),
        ("cd sub && ./y.sh", ["sub/y.sh"]),
        ("sudo -u root bash x.sh", ["x.sh"]),
        ("timeout 5 python x.py", ["x.py"]),
        ("env -i bash x.sh", ["x.sh"]),
        ("sh -c './x.sh'", ["x.sh"]),
        ("eval './x.sh'", ["x.sh"]),
        ("F=x.sh; bash $F", ["x.sh"]),
        ("bash < x.sh", ["x.sh"]),
        ("cat x.sh | bash", ["x.sh"]),
        (". ./x.sh", ["x.sh"]),
        ("source x.sh", ["x.sh"]),
        ("awk -f p.awk data.csv", ["data.csv", "p.awk"]),
        ("awk -fp.awk", ["p.awk"]),
        ("bash --rcfile=x.sh -i", ["x.sh"]),
        ("echo $(./x.sh)", ["x.sh"]),
        ("cat <(./x.sh)", ["x.sh"]),
        ("true; nohup ./sub/y.sh &", ["sub/y.sh"]),
        ("./missing.sh", ["missing.sh"]),
        ("bash missing.sh", ["missing.sh"]),
        (["bash", "x.sh"], ["x.sh"]),
        ("make -f Makefile", ["Makefile"]),
        ("git push --force", []),
        ("rm data.csv", []),
        ("echo x.sh", []),
        ("bash -c 'echo x.sh'", []),
        ("python -c 'print(1)'", []),
        ("bash /dev/stdin < x.sh", ["x.sh"]),
    ],
)
def test_the_scripts_that_a_command_runs(project: Path, command: object, found: list[str]) -> None:
    assert names(project, command) == found


def test_only_what_runs_commands_names_scripts(project: Path) -> None:
    assert names(project, "bash x.sh", "mcp__x__run_command") == ["x.sh"]
    assert names(project, "bash x.sh", "write_note") == []
    assert named_scripts(SensorEvent("Bash", {"command": "bash x.sh"}, "result", cwd=str(project))) == ()


def test_a_script_that_changes_after_the_approval_voids_it(project: Path, tmp_path: Path) -> None:
    asked = queue(tmp_path)
    outcome = escalation(args={"command": "bash x.sh"}, cwd=str(project))
    first = ask(asked, outcome, "p1", scripts=named_scripts)
    asked._store().approve(first.request_id, "mia")
    (project / "x.sh").write_text("rm -rf ~")
    second = ask(asked, outcome, "p1", scripts=named_scripts)
    assert (second.approved, second.request_id != first.request_id) == (False, True)
    (project / "x.sh").write_text("x.sh")
    assert ask(asked, outcome, "p1", scripts=named_scripts).approved


def test_a_script_that_appears_after_the_approval_voids_it(project: Path, tmp_path: Path) -> None:
    asked = queue(tmp_path)
    outcome = escalation(args={"command": "./new.sh"}, cwd=str(project))
    asked._store().approve(ask(asked, outcome, "p1", scripts=named_scripts).request_id, "mia")
    (project / "new.sh").write_text("evil")
    assert not ask(asked, outcome, "p1", scripts=named_scripts).approved


def test_what_is_no_ordinary_file_is_never_read(project: Path) -> None:
    os.mkfifo(project / "pipe.sh")
    with (project / "big.sh").open("wb") as f:
        f.truncate(MAX_BYTES + 1)
    found = {
        os.path.basename(s.path): s
        for c in ("pipe.sh", "big.sh", "sub")
        for s in named_scripts(SensorEvent("Bash", {"command": f"bash {c}"}, cwd=str(project)))
    }
    assert (found["pipe.sh"].state, found["sub"].state) == ("not a file", "not a file")
    assert found["big.sh"].state.startswith(f"too large: {MAX_BYTES + 1} bytes")
    assert {s.sha256 for s in found.values()} == {""}


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="this system has no /dev/shm")
def test_a_script_in_shared_memory_is_bound_like_any_other() -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm", suffix=".sh") as script:
        script.write(b"ls")
        script.flush()
        (found,) = named_scripts(SensorEvent("Bash", {"command": f"bash {script.name}"}))
    assert (found.path, found.sha256) == (script.name, hashlib.sha256(b"ls").hexdigest())


@pytest.mark.parametrize("path", ["/dev/stdin", "/dev/tty", "/proc/self/environ"])
def test_a_device_is_not_opened(path: str) -> None:
    assert script_now(path).state == "not a file"


def test_too_many_scripts_and_too_long_commands_are_refused(project: Path) -> None:
    for n in range(MAX_SCRIPTS + 1):
        (project / f"{n}.sh").write_text("")
    many = escalation(args={"command": "; ".join(f"./{n}.sh" for n in range(MAX_SCRIPTS + 1))}, cwd=str(project))
    assert "names 65 scripts" in ask(lambda r: True, many, scripts=named_scripts).note
    long = escalation(args={"command": "true; " * 50_000}, cwd=str(project))
    assert "the command is too" in ask(lambda r: True, long, scripts=named_scripts).note
