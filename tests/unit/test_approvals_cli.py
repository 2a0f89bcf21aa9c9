"""`interlock approve`, at a pseudo-terminal: only a person who reads and types back approves anything."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.engine.approvals import ask
from interlock.engine.approvals_scripts import named_scripts
from interlock.engine.evaluate import Outcome
from interlock.engine.processes import lineage, marked
from interlock.node.cli import terminal
from tests.unit.approval_world import PERSON, Said, at_terminal, escalation, queue, request_id, store_of, typed_back

ROOT = Path(__file__).resolve().parents[2]
# The command with the lineage that this process really has.
REAL = "import sys; from interlock.node.cli import main; sys.exit(main.main())"
pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc here")


def environment(home: Path, **more: str) -> dict[str, str]:
    """A user with nothing configured, in an environment that names no agent."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT), **more}


def approve(folder: Path, *words: str, answer: object = typed_back, program: str = PERSON, **env: str) -> Said:
    line = ["approve", "--queue", str(folder / "approvals.sqlite"), *words]
    return at_terminal(line, environment(folder, **env), answer=answer, program=program)


def piped(folder: Path, *words: str, stdin: str = "", program: str = PERSON) -> subprocess.CompletedProcess[str]:
    """The command with pipes, in a session of its own: without any terminal."""
    line = [sys.executable, "-c", program, "approve", "--queue", str(folder / "approvals.sqlite"), *words]
    return subprocess.run(
        line,
        input=stdin,
        capture_output=True,
        text=True,
        env=environment(folder),
        start_new_session=True,
        timeout=60,
        check=False,
    )


def used(folder: Path, outcome: Outcome | None = None) -> bool:
    return ask(queue(folder), outcome or escalation(), "p1").approved


# a person approves


def test_a_person_reads_the_call_types_the_word_back_and_the_call_goes_on_once(tmp_path: Path) -> None:
    outcome = escalation(args={"command": "git push \x1b[8m--force\u202e"}, principal="bot", reason="rewrites history")
    id_ = request_id(queue(tmp_path), outcome)
    said = approve(tmp_path, id_, "--as", "mia")
    assert said.code == 0, said.text
    for shown in ("git push ⟨U+001B⟩[8m--force⟨U+202E⟩", "rewrites history", "bot", "ask.first", id_):
        assert shown in said.text
    assert "\x1b" not in said.text
    assert "\u202e" not in said.text
    assert re.search(rf"approved  {id_}  once, until \d{{4}}-", said.text)
    assert [used(tmp_path, outcome), used(tmp_path, outcome)] == [True, False]
    assert store_of(tmp_path).get(id_).answered_by == "mia"


def test_without_an_id_the_one_that_waits_is_approved(tmp_path: Path) -> None:
    request_id(queue(tmp_path))
    assert approve(tmp_path, "--as", "mia").code == 0
    assert used(tmp_path)


def test_without_an_id_several_have_to_be_told_apart(tmp_path: Path) -> None:
    asked = queue(tmp_path)
    request_id(asked)
    request_id(asked, escalation("other"))
    said = approve(tmp_path)
    assert (said.code, "2 requests wait for approval; see interlock approve list" in said.text) == (2, True)


def test_the_word_is_new_each_time_and_stands_neither_in_the_request_nor_in_the_queue(tmp_path: Path) -> None:
    id_ = request_id(queue(tmp_path))
    words = [typed_back(approve(tmp_path, id_, answer=lambda text: "no").text) for _ in range(2)]
    assert words[0] != words[1]
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert not any(word.encode() in held for word in words)


def test_a_word_that_the_text_holds_is_never_the_challenge(monkeypatch: pytest.MonkeyPatch) -> None:
    letters = iter("aaaaaa" + "bbbbbb")
    monkeypatch.setattr("secrets.choice", lambda alphabet: next(letters))
    assert terminal.secret_word("to approve it type AAAAAA") == "bbbbbb"


@pytest.mark.parametrize("answer", ["yes", "", "y", "approve"])
def test_anything_but_the_word_leaves_it_as_it_is(tmp_path: Path, answer: str) -> None:
    id_ = request_id(queue(tmp_path))
    said = approve(tmp_path, id_, answer=lambda text: answer)
    assert (said.code, "the word was not typed back" in said.text) == (1, True)
    assert store_of(tmp_path).get(id_).state == "pending"
    assert not used(tmp_path)


def test_the_words_of_an_earlier_challenge_do_not_count(tmp_path: Path) -> None:
    id_ = request_id(queue(tmp_path))
    old = typed_back(approve(tmp_path, id_, answer=lambda text: "").text)
    assert approve(tmp_path, id_, answer=lambda text: old).code == 1


def test_who_does_not_answer_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    impatient = PERSON.replace("sys.exit", "from interlock.node.cli import terminal; terminal.ANSWER_S = 0.3; sys.exit")
    said = approve(tmp_path, request_id(queue(tmp_path)), answer=None, program=impatient)
    assert (said.code, "no answer within 0.3 seconds" in said.text) == (1, True)


def test_a_session_and_a_ttl_are_granted_as_they_are_named(tmp_path: Path) -> None:
    outcome = escalation(span_id="s1")
    said = approve(tmp_path, request_id(queue(tmp_path), outcome), "--scope", "session")
    assert "as often as it likes in this session" in said.text
    assert [used(tmp_path, outcome), used(tmp_path, outcome)] == [True, True]
    other = escalation("other")
    said = approve(tmp_path, request_id(queue(tmp_path), other), "--scope", "ttl", "--for", "60")
    assert "To approve it for 60 seconds" in said.text
    assert [used(tmp_path, other), used(tmp_path, other)] == [True, True]


def test_four_eyes_need_a_second_person(tmp_path: Path) -> None:
    id_ = request_id(queue(tmp_path, four_eyes=True))
    assert "a second person has to approve it too" in approve(tmp_path, id_, "--as", "mia").text
    again = approve(tmp_path, id_, "--as", "mia")
    assert (again.code, "somebody else has to" in again.text) == (1, True)
    assert "four eyes, approved by: mia" in (second := approve(tmp_path, id_, "--as", "ben")).text
    assert second.code == 0


def test_a_script_that_changed_meanwhile_is_not_approved(tmp_path: Path) -> None:
    (tmp_path / "x.sh").write_text("echo")
    outcome = escalation(args={"command": "bash x.sh"}, cwd=str(tmp_path))
    id_ = ask(queue(tmp_path), outcome, "p1", scripts=named_scripts).request_id
    (tmp_path / "x.sh").write_text("rm -rf ~")
    said = approve(tmp_path, id_)
    assert (said.code, "x.sh changed since it was asked about" in said.text) == (1, True)


# whoever is no person


def test_without_a_terminal_nothing_is_approved_and_standard_input_is_not_read(tmp_path: Path) -> None:
    id_ = request_id(queue(tmp_path))
    done = piped(tmp_path, id_, stdin="yes\n" * 100)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("interlock: /dev/tty: there is no terminal to ask at")
    assert store_of(tmp_path).get(id_).state == "pending"


def test_in_the_background_of_a_terminal_nothing_is_approved(tmp_path: Path) -> None:
    behind = PERSON.replace(
        "sys.exit", "import os; os.fork() and os._exit(os.wait()[1] >> 8); os.setpgid(0, 0); sys.exit"
    )
    said = approve(tmp_path, request_id(queue(tmp_path)), program=behind)
    assert (said.code, "this runs in the background" in said.text) == (1, True)


def test_under_a_guarded_process_nothing_is_approved_whatever_terminal_it_made(tmp_path: Path) -> None:
    id_ = request_id(queue(tmp_path))  # notes this very process, and the command runs below it
    said = approve(tmp_path, id_, program=REAL)
    assert said.code == 1
    assert "a guarded program started this one, and it may approve nothing" in said.text
    assert "type" not in said.text
    assert store_of(tmp_path).get(id_).state == "pending"


def test_a_person_whom_no_agent_started_approves_by_their_real_lineage(tmp_path: Path) -> None:
    if marked(lineage()):
        pytest.skip("these tests run under a coding agent, which may approve nothing")
    program = (
        "import sys; from pathlib import Path; from tests.unit.approval_world import queue, request_id;"
        "print(request_id(queue(Path(sys.argv[1]))))"
    )
    agent = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, cwd=ROOT, timeout=60, check=True
    )
    said = approve(tmp_path, agent.stdout.strip(), program=REAL)
    assert (said.code, "approved  " in said.text) == (0, True)


# A program that starts the command at the terminal; what it started is under whatever its environment says.
SHELL = "import os, subprocess, sys; clean = {k: v for k, v in os.environ.items() if k != 'CLAUDECODE'};" + (
    "sys.exit(subprocess.run([sys.executable, '-c', sys.argv[1], *sys.argv[2:]], env=clean).returncode)"
)


def test_under_a_coding_agent_nothing_is_approved_even_where_the_command_forgets_its_variables(tmp_path: Path) -> None:
    id_ = request_id(queue(tmp_path))
    with store_of(tmp_path)._write() as db:
        db.execute("DELETE FROM guarded")
    line = [REAL, "approve", "--queue", str(tmp_path / "approvals.sqlite"), id_]
    said = at_terminal(line, environment(tmp_path, CLAUDECODE="1"), program=SHELL)
    assert (said.code, "a coding agent started this (its variable CLAUDECODE is set)" in said.text) == (1, True)


def test_where_nobody_can_tell_who_started_it_nothing_is_approved(tmp_path: Path) -> None:
    blind = "from interlock.engine import processes; processes._space = lambda: (_ for _ in ()).throw(OSError()); "
    said = approve(tmp_path, request_id(queue(tmp_path)), program=blind + REAL)
    assert (said.code, "cannot tell which program started this one, so it may be an agent" in said.text) == (2, True)


# no, list and show


def test_no_and_taking_a_yes_back_need_no_terminal(tmp_path: Path) -> None:
    asked = queue(tmp_path)
    denied, approved = request_id(asked), request_id(asked, escalation("other"))
    store_of(tmp_path).approve(approved, "mia")
    assert piped(tmp_path, "deny", denied).stdout == f"denied  {denied}  Bash\n"
    assert piped(tmp_path, "revoke", approved).stdout == f"revoked  {approved}  other\n"
    assert not used(tmp_path, escalation("other"))


def test_list_shows_what_is_open_and_all_what_is_over_too(tmp_path: Path) -> None:
    asked = queue(tmp_path)
    assert piped(tmp_path, "list").stdout == "nothing waits for approval\n"
    denied, waits = request_id(asked), request_id(asked, escalation("evil\x1b[2J", principal="bot"))
    store_of(tmp_path).deny(denied, "mia")
    assert re.fullmatch(rf"{waits}  pending     until \S+  evil⟨U\+001B⟩\[2J  by bot\n", piped(tmp_path, "list").stdout)
    rows = json.loads(piped(tmp_path, "list", "--all", "--json").stdout)
    assert [(row["id"], row["state"], row["answered_by"]) for row in rows] == [
        (denied, "denied", "mia"),
        (waits, "pending", None),
    ]


def test_show_prints_the_request_and_json_all_of_it(tmp_path: Path) -> None:
    id_ = request_id(queue(tmp_path), escalation(args={"command": "a" * 9000 + "\u202e"}))
    assert "⟨5,001 characters left out" in piped(tmp_path, "show", id_).stdout
    assert "a" * 9000 in piped(tmp_path, "show", id_, "--full").stdout
    said = piped(tmp_path, "show", id_, "--json").stdout
    assert said.isascii()
    body = json.loads(said)
    assert json.loads(body["request"]["args"]) == {"command": "a" * 9000 + "\u202e"}
    assert (body["state"], body["digest"]) == ("pending", store_of(tmp_path).get(id_).digest)
    store_of(tmp_path).deny(id_, "mia")
    assert "what it showed is forgotten, since it is over" in piped(tmp_path, "show", id_).stdout


def test_a_row_that_says_something_else_than_its_digest_is_neither_shown_nor_approved(tmp_path: Path) -> None:
    id_ = request_id(queue(tmp_path))
    with store_of(tmp_path)._write() as db:
        db.execute("UPDATE requests SET document = CAST(replace(document, 'force', 'quiet') AS BLOB)")
    for said in (approve(tmp_path, id_).text, piped(tmp_path, "show", id_).stderr):
        assert "does not say what the digest binds" in said
    assert store_of(tmp_path).get(id_).state == "pending"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("0123456789abcdeg",), "takes a request's id of 16 digits"),
        (("list", "x"), "takes a request's id"),
        (("deny",), "takes a request's id"),
        (("0" * 16,), "is no request in this queue; see interlock approve list"),
        (("--scope", "ttl"), "--scope ttl and --for SECONDS go together"),
        (("--for", "5"), "--scope ttl and --for SECONDS go together"),
        (("--scope", "ttl", "--for", "99999999"), "--for is between 1 and 86400 seconds"),
        (("--scope", "always"), "invalid choice"),
    ],
)
def test_what_makes_no_sense_is_said_in_one_line(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    request_id(queue(tmp_path))
    done = piped(tmp_path, *words)
    assert done.returncode in (1, 2)
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_queue_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    done = piped(tmp_path, "list")
    assert (done.returncode, "is not there: nothing was ever asked" in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_the_configuration_names_the_queue(tmp_path: Path) -> None:
    queue(tmp_path).close()
    (tmp_path / "i.toml").write_text('[approvals]\nqueue = "approvals.sqlite"\n')
    line = [sys.executable, "-c", REAL, "approve", "list", "--config", str(tmp_path / "i.toml")]
    done = subprocess.run(line, capture_output=True, text=True, env=environment(tmp_path), timeout=60, check=True)
    assert done.stdout == "nothing waits for approval\n"
    (tmp_path / "i.toml").write_text("")
    done = subprocess.run(line, capture_output=True, text=True, env=environment(tmp_path), timeout=60, check=False)
    assert (done.returncode, "no queue is configured" in done.stderr) == (2, True)


def test_what_was_typed_before_the_question_is_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"abcabc\n")
        monkeypatch.setattr(terminal, "secret_word", lambda text: "abcabc")
        monkeypatch.setattr(terminal, "ANSWER_S", 0.2)
        with pytest.raises(terminal.NotConfirmed, match="no answer within"):
            terminal.Terminal(theirs).demand("To approve it", "")
    finally:
        os.close(ours)
        os.close(theirs)
