"""One queue, many processes: one use wins, a killed process loses nothing, and a broken place refuses in one line."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from interlock.base.clock import MICROSECONDS, ManualClock
from interlock.base.database import Database
from interlock.engine.approvals import Approval, ask
from interlock.engine.approvals_store import KEEP_US, ApprovalStore
from interlock.engine.processes import Process, UnknownLineage, agent_above, lineage, marked, own_process
from tests.unit.approval_world import escalation, queue, request_id, store_of

ROOT = Path(__file__).resolve().parents[2]
USER = """
import sys
from pathlib import Path
from tests.unit.approval_world import escalation, queue
from interlock.engine.approvals import ask
asked = queue(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
print(sum(ask(asked, escalation(), "p1").approved for _ in range(5)), flush=True)
"""
# Dies by its own hand at the moment before its transaction is committed.
DYING = """
import os, signal, sys
from pathlib import Path
from tests.unit.approval_world import escalation, queue
from interlock.engine.approvals import ask
from interlock.engine import approvals_store
asked = queue(Path(sys.argv[1]))
def killed(db, id_):
    os.kill(os.getpid(), signal.SIGKILL)
approvals_store._entry = killed
ask(asked, escalation(), "p1")
"""


def python(program: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def test_of_several_processes_that_race_for_one_approval_exactly_one_wins(tmp_path: Path) -> None:
    store_of(tmp_path).approve(request_id(queue(tmp_path)), "mia")
    users = [python(USER, tmp_path) for _ in range(3)]
    try:
        for user in users:
            assert user.stdout is not None
            assert user.stdout.readline() == "ready\n"
        for user in users:
            assert user.stdin is not None
            user.stdin.write("\n")
            user.stdin.flush()
        wins = sorted(int(user.communicate(timeout=60)[0]) for user in users)
    finally:
        for user in users:
            user.kill()
    assert wins == [0, 0, 1]


def test_a_queue_that_a_forked_child_inherited_stays_whole_for_the_parent(tmp_path: Path) -> None:
    asked = queue(tmp_path)
    store_of(tmp_path).approve(request_id(asked), "mia")
    child = os.fork()
    if child == 0:
        os._exit(0 if ask(asked, escalation(), "p1").approved else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert request_id(asked)
    assert store_of(tmp_path)._read("PRAGMA integrity_check") == [("ok",)]


def test_a_process_forks_between_two_changes_of_the_queue_and_not_in_one(tmp_path: Path) -> None:
    """SQLite's memory of a lock that another thread held would keep the child out of the queue for good."""
    asked = queue(tmp_path)
    request_id(asked)
    held, done = threading.Event(), threading.Event()

    def change() -> None:
        with asked._store()._change():
            held.set()
            time.sleep(0.5)
            done.set()

    thread = threading.Thread(target=change)
    thread.start()
    assert held.wait(10)
    child = os.fork()
    if child == 0:
        note = ask(asked, escalation(), "p1").note
        os._exit(0 if done.is_set() and "has to approve request" in note else 1)
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for _ in range(2):  # forked again, with nothing open
        child = os.fork()
        if child == 0:
            os._exit(0 if request_id(asked) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert request_id(asked)  # the parent opened its own again


def test_a_forked_child_has_locks_of_its_own_when_the_parent_lets_go(tmp_path: Path) -> None:
    """Whoever closes a file last clears its log away, and with it what a child without a lock of its own did."""
    asked = queue(tmp_path)
    with contextlib.closing(store_of(tmp_path)) as store:
        store.approve(request_id(asked), "mia")
    opened, gone = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        asked._store().entries()
        os.write(opened[1], b"x")
        os.read(gone[0], 1)
        os._exit(0 if ask(asked, escalation(), "p1").approved else 1)
    os.read(opened[0], 1)
    asked.close()
    before = (tmp_path / "approvals.sqlite-wal").exists()
    os.write(gone[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert before
    assert [entry.state for entry in store_of(tmp_path).entries(open_only=False)] == ["used"]


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs /proc/locks")
def test_a_queue_that_is_opened_twice_in_a_process_keeps_its_locks(tmp_path: Path) -> None:
    """Closing any descriptor of a file drops the locks that its process has on it, whoever took them."""
    first = queue(tmp_path)
    node = (tmp_path / "approvals.sqlite").stat().st_ino
    held = [line for line in Path("/proc/locks").read_text().splitlines() if f":{node} " in line]
    assert held
    second = queue(tmp_path)
    assert [line for line in Path("/proc/locks").read_text().splitlines() if f":{node} " in line]
    second.close()
    first.close()


def test_of_many_threads_that_race_for_one_approval_exactly_one_wins(tmp_path: Path) -> None:
    asked = queue(tmp_path)
    store_of(tmp_path).approve(request_id(asked), "mia")
    answers: list[Approval] = []
    start = threading.Barrier(8)

    def use() -> None:
        start.wait(10)
        answers.append(ask(asked, escalation(), "p1"))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(answer.approved for answer in answers) == [False] * 7 + [True]


def test_a_program_that_ends_with_its_queue_open_says_nothing(tmp_path: Path) -> None:
    program = "import interlock, sys; interlock.install(approver=interlock.ApprovalQueue(sys.argv[1])); sys.exit(3)"
    words = [sys.executable, "-c", program, str(tmp_path / "queue.sqlite")]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")


def test_two_processes_make_the_queue_at_once(tmp_path: Path) -> None:
    users = [python(USER, tmp_path) for _ in range(3)]
    outputs = [user.communicate("\n", timeout=60)[0] for user in users]
    assert outputs == ["ready\n0\n"] * 3
    assert len(store_of(tmp_path).entries()) == 1


def test_a_process_killed_in_the_middle_of_a_use_neither_loses_nor_doubles_the_approval(tmp_path: Path) -> None:
    asked = queue(tmp_path)
    store_of(tmp_path).approve(request_id(asked), "mia")
    for _ in range(2):
        dying = python(DYING, tmp_path)
        dying.communicate(timeout=60)
        assert dying.returncode == -signal.SIGKILL
    assert [ask(asked, escalation(), "p1").approved for _ in range(3)] == [True, False, False]


DYING_APPROVER = """
import os, signal, sys
from pathlib import Path
from tests.unit.approval_world import store_of
from interlock.engine import approvals_store
store = store_of(Path(sys.argv[1]))
(entry,) = store.entries()
seen = iter([entry])
approvals_store._entry = lambda db, id_: next(seen, None) or os.kill(os.getpid(), signal.SIGKILL)
store.approve(entry.id, "mia")
"""


def test_an_approver_killed_before_its_yes_is_whole_has_said_nothing(tmp_path: Path) -> None:
    asked = queue(tmp_path)
    id_ = request_id(asked)
    dying = python(DYING_APPROVER, tmp_path)
    dying.communicate(timeout=60)
    assert dying.returncode == -signal.SIGKILL
    store = store_of(tmp_path)
    assert (store.get(id_).state, store.yeses(id_)) == ("pending", [])
    store.approve(id_, "mia")
    assert ask(asked, escalation(), "p1").approved


# places that cannot be trusted or used: each refuses in one line


def refusal(folder: Path) -> str:
    """What a guard says that has this folder's queue, opened for the first time."""
    answer = ask(lambda given: queue(folder)(given), escalation(), "p1")
    assert not answer.approved
    assert "\n" not in answer.note
    return answer.note


@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal", ".lock"])
def test_a_queue_behind_a_symbolic_link_is_refused(tmp_path: Path, end: str) -> None:
    (tmp_path / "elsewhere").write_bytes(b"")
    (tmp_path / f"approvals.sqlite{end}").symlink_to(tmp_path / "elsewhere")
    assert refusal(tmp_path).endswith("is a symbolic link, and the queue is an ordinary file of its own")
    assert (tmp_path / "elsewhere").read_bytes() == b""


def test_a_queue_with_a_second_name_is_refused(tmp_path: Path) -> None:
    queue(tmp_path).close()
    os.link(tmp_path / "approvals.sqlite", tmp_path / "other")
    assert "has a second name" in refusal(tmp_path)


def test_a_queue_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue(tmp_path).close()
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    assert "belongs to another user" in refusal(tmp_path)


def test_a_queue_in_a_folder_that_everybody_can_write_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert "is a folder that everybody can write" in refusal(tmp_path)


def test_a_queue_that_is_a_folder_or_lies_in_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "approvals.sqlite").mkdir()
    assert "is not a file" in refusal(tmp_path)
    assert "cannot be written (No such file or directory)" in refusal(tmp_path / "missing")


def test_a_folder_that_takes_no_file_is_refused() -> None:
    assert "cannot be" in refusal(Path("/proc"))


@pytest.mark.parametrize(
    "data", [b"not a database, but long enough to be looked at" * 40, b"SQLite format 3\0" + b"\xff" * 4080]
)
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "approvals.sqlite").write_bytes(data)
    assert "is not a database of ours" in refusal(tmp_path)


def test_a_database_that_is_damaged_later_is_refused(tmp_path: Path) -> None:
    asked = queue(tmp_path)
    request_id(asked)
    asked.close()
    path = tmp_path / "approvals.sqlite"
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))
    assert "damaged" in refusal(tmp_path)


def test_the_database_of_another_role_and_of_a_newer_version_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "approvals.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA application_id = 7")
    assert "is the database of another role" in refusal(tmp_path)
    path.unlink()
    queue(tmp_path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 9")
    assert "has version 9" in refusal(tmp_path)


def test_a_full_disk_refuses_and_grants_nothing(tmp_path: Path) -> None:
    asked = queue(tmp_path)
    store = asked._store()
    (pages,) = store._read("PRAGMA page_count")[0]
    store._read(f"PRAGMA max_page_count = {pages}")
    large = escalation(args={"command": "x" * 500_000})
    answer = ask(asked, large, "p1")
    assert "cannot be written (database or disk is full)" in answer.note
    store._read("PRAGMA max_page_count = 1000000")
    assert store.entries() == []
    assert request_id(asked, large)


def test_a_full_disk_takes_no_approval_and_grants_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, store = queue(tmp_path), store_of(tmp_path)
    store.approve(request_id(asked), "mia")

    def full(db: sqlite3.Connection, id_: str) -> None:
        db.execute("PRAGMA max_page_count = 1")
        db.execute("CREATE TABLE more AS SELECT randomblob(1000000) AS data")

    with monkeypatch.context() as patched:
        patched.setattr("interlock.engine.approvals_store._entry", full)
        assert "cannot be written (database or disk is full)" in ask(asked, escalation(), "p1").note
    assert ask(asked, escalation(), "p1").approved


def test_a_queue_that_somebody_holds_is_refused_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue(tmp_path).close()
    monkeypatch.setattr(ApprovalStore, "TIMEOUT_S", 0.1)
    asked = queue(tmp_path)
    with sqlite3.connect(tmp_path / "approvals.sqlite", isolation_level=None) as held:
        held.execute("BEGIN IMMEDIATE")
        assert "cannot be written (database is locked)" in ask(asked, escalation(), "p1").note
        held.execute("ROLLBACK")
    assert request_id(asked)


def test_the_queue_is_private_durable_and_of_its_own_kind(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = queue(tmp_path)._store()
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    assert isinstance(store, Database)
    values = [store._read(f"PRAGMA {name}")[0][0] for name in ("journal_mode", "synchronous", "user_version")]
    assert values == ["wal", 2, 1]


# who started whom

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc here")


@linux
def test_a_lineage_begins_here_and_ends_at_the_first_process() -> None:
    above = lineage()
    assert above[0] == own_process()
    assert above[0].pid == os.getpid()
    assert above[1].pid == os.getppid()
    assert len({process.space for process in above}) == 1


@linux
def test_a_guarded_process_is_noted_with_its_start(tmp_path: Path) -> None:
    queue(tmp_path)
    assert store_of(tmp_path).guarded() == {own_process()}


def test_a_guarded_process_is_kept_in_mind_as_long_as_its_boot_lasts(tmp_path: Path) -> None:
    clock = ManualClock()
    store = store_of(tmp_path, clock)
    old, before = Process("boot-now pid:[1]", 1, 1), Process("boot-old pid:[1]", 2, 2)
    store.mark(old)
    store.mark(before)
    clock.advance(KEEP_US / MICROSECONDS + 1)
    store.mark(new := Process("boot-now pid:[2]", 3, 3))
    assert store.guarded() == {old, new}


@linux
def test_a_lineage_that_cannot_be_read_is_no_lineage(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(pid: int) -> tuple[int, int]:
        raise PermissionError

    monkeypatch.setattr("interlock.engine.processes._stat", unreadable)
    with pytest.raises(UnknownLineage, match="cannot tell which program started this one"):
        lineage()
    assert own_process() is None
    assert agent_above() is None


@linux
def test_a_lineage_without_end_is_no_lineage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.engine.processes._stat", lambda pid: (pid + 1, 0))
    with pytest.raises(UnknownLineage):
        lineage()


@linux
def test_a_process_that_hides_its_environment_is_an_agent_for_all_we_know() -> None:
    with pytest.raises(UnknownLineage, match="cannot be read"):
        marked((Process("", 2**22 + 1, 0),))


AGENT = """
import subprocess, sys
print(subprocess.run(sys.argv[1:], capture_output=True, text=True, timeout=30).stdout)
"""
HOOK = "from interlock.engine.processes import agent_above; a = agent_above(); print(a.pid if a else None)"


@linux
@pytest.mark.parametrize("shell", [[], ["sh", "-c", '"$0" "$@"; true']])
def test_the_agent_above_a_hook_is_found_behind_shells(shell: list[str]) -> None:
    words = [sys.executable, "-c", AGENT, *shell, sys.executable, "-c", HOOK]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT) as agent:
        out, _ = agent.communicate(timeout=60)
    assert out.strip() == str(agent.pid)


@linux
def test_a_person_at_a_shell_is_no_agent() -> None:
    typed = f"{sys.executable} -c '{HOOK}'\nexit\n"
    done = subprocess.run(["sh"], input=typed, capture_output=True, text=True, cwd=ROOT, timeout=60, check=True)
    assert done.stdout.strip() == "None"
