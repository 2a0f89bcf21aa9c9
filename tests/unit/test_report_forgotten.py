"""What a consent's end promises to drop is gone from the disk: from the file, its log, and all copies that we made."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path
from typing import ClassVar

import pytest

from interlock.base.files import BadState, NotWritable
from interlock.node.roles.report import drop_left, drop_uncovered
from interlock.node.storage.node import STORE_FILE, NodeStore, OutboxRow, OutboxState, Word, open_store
from tests.unit.dap_world import PRECISION
from tests.unit.report_world import RULES, Member, agreed_member, counted_world

__all__ = ["agreed_member", "counted_world"]  # the fixtures `member` and `world`

SEEN = f"rule:{RULES[3]}".encode()


class Elder(NodeStore):
    """The store as the interlock before had it."""

    MIGRATIONS: ClassVar[tuple[str, ...]] = NodeStore.MIGRATIONS[:-1]
    KEEPS_COPIES: ClassVar[bool] = True


def stored(home: Path) -> bytes:
    """All bytes of a node's store, its log and its copies."""
    return b"".join(path.read_bytes() for path in sorted(home.iterdir()) if path.name.startswith(STORE_FILE))


def everything(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file())


def copied(home: Path, name: str) -> None:
    """A copy of the store as it is, as interlocks of before left it."""
    paths = home / STORE_FILE, home / name
    with contextlib.closing(sqlite3.connect(paths[0])) as now, contextlib.closing(sqlite3.connect(paths[1])) as copy:
        now.backup(copy)


def test_consent_off_leaves_no_byte_of_what_was_queued_or_seen_in_the_whole_home(member: Member) -> None:
    guard = open_store(member.home)  # another process of this node, at work all the while
    guard.outbox()
    member.blocked(1, 3, 4, 6, 9, 13, 14)
    member.world.clock.advance(PRECISION)
    assert member.close() == 1
    member.blocked(3)
    (row,) = member.store.queued(member.world.task.task_id)
    for name in ("node.sqlite.v5", "node.sqlite.v2", "node.sqlite.v3.part"):
        copied(member.home, name)
    shutil.copyfile(member.home / "node.sqlite.v5", member.home / "node.sqlite.v5.part-journal")
    before = everything(member.home)
    assert min(before.count(part) for part in (row.report, row.measurement, SEEN)) > 1
    assert member.withdraw() == 1
    left = everything(member.home)
    assert row.report not in left
    assert row.measurement not in left
    assert SEEN not in stored(member.home)
    assert [path.name for path in member.home.iterdir() if ".v" in path.name] == []
    guard.close()


def test_that_a_place_fed_a_task_stays_known_only_where_its_report_may_have_gone_out(member: Member) -> None:
    store, start = member.store, member.world.clock.now_us()
    member.blocked(3)
    member.world.clock.advance(PRECISION)
    member.close()
    member.send()
    member.blocked(4)  # in the epoch after it
    member.withdraw()
    held = stored(member.home)
    assert (SEEN in held, f"rule:{RULES[4]}".encode() in held) == (True, False)
    epoch = start - start % (PRECISION * 1_000_000), start + 10
    assert store.add_bits("other-1", "c", epoch, {0: SEEN.decode()}) == 0, "the sent report has the bit of that time"
    assert store.add_bits("other-1", "c", epoch, {1: f"rule:{RULES[4]}"}) == 1


def test_of_a_persons_word_only_the_receipt_stays(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    word = Word("wrong-1", "c", 0, 10, {0: f"false-positive:{SEEN.decode()}", 1: "false-positive:rule:other"})
    store.note_objection("call", "call", [SEEN.decode()], 5)
    assert store.tell_false_positive("receipt", [word], 5)
    store.drop("wrong-1", "consent was withdrawn", 6)
    store.forget_objections()
    assert SEEN not in stored(tmp_path)
    assert store.was_told("receipt")
    assert not store.tell_false_positive("receipt", [word], 7)
    store.close()


def test_a_copy_of_before_a_migration_is_gone_once_the_new_file_is_whole(tmp_path: Path) -> None:
    elder = Elder(tmp_path / STORE_FILE)
    elder.add_bits("rules-1", "c", (0, 10), {3: SEEN.decode()})
    elder.queue(OutboxRow("rules-1", 10, "c", b"t" * 32, b"a sealed report", measurement=b"\1\0", time=1))
    elder.close()
    store = open_store(tmp_path)
    assert [path.name for path in tmp_path.iterdir() if ".v" in path.name] == []
    assert store.places_by_epoch("rules-1", "c") == {0: frozenset({3})}, "and nothing was lost on the way"
    (row,) = store.outbox()
    assert (row.state, row.report) == (OutboxState.QUEUED, b"a sealed report")
    assert store.add_bits("other-1", "c", (5, 15), {0: SEEN.decode()}) == 0, "what fed a task before does so still"
    store.drop("rules-1", "consent was withdrawn", 20)
    assert b"a sealed report" not in everything(tmp_path)
    store.close()


def test_a_copy_that_a_killed_migration_left_goes_with_the_next_start(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    copied(tmp_path, "node.sqlite.v4")
    (tmp_path / "node.sqlite.v99").write_bytes(b"of an interlock to come")
    open_store(tmp_path).close()
    assert sorted(path.name for path in tmp_path.iterdir() if ".v" in path.name) == ["node.sqlite.v99"]


def test_a_file_that_is_not_whole_after_a_migration_stays_as_it_was_with_its_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elder = Elder(tmp_path / STORE_FILE)
    elder.add_bits("rules-1", "c", (0, 10), {3: SEEN.decode()})
    elder.close()
    wrong = "CREATE TABLE one (n CHECK (n > 1)); PRAGMA ignore_check_constraints = ON; INSERT INTO one VALUES (1);"
    wrong += "PRAGMA ignore_check_constraints = OFF"
    monkeypatch.setattr(NodeStore, "MIGRATIONS", (*Elder.MIGRATIONS, wrong))
    with pytest.raises(BadState, match="was not whole after it was brought forward"):
        open_store(tmp_path)
    assert (tmp_path / "node.sqlite.v5").exists()
    elder = Elder(tmp_path / STORE_FILE)
    assert elder.bits("rules-1", "c", 0) == frozenset({3})
    elder.close()


def test_a_copy_that_cannot_be_deleted_is_said_and_nothing_counts_as_dropped(member: Member) -> None:
    member.blocked(3)
    (member.home / "node.sqlite.v2").mkdir()  # which no unlink takes away
    with pytest.raises(NotWritable, match=r"node.sqlite.v2: cannot be deleted"):
        member.store.drop("rules-1", "why", 1)
    assert member.bits() == frozenset({3})
    (member.home / "node.sqlite.v2").rmdir()
    member.withdraw()
    assert member.bits() == frozenset()


@pytest.mark.parametrize("killed_at", ["forget_objections", "drop", "_scrub"])
@pytest.mark.parametrize("by", ["another no", "the daemon"])
def test_a_no_that_was_cut_short_anywhere_is_completed_by_the_next(
    member: Member, monkeypatch: pytest.MonkeyPatch, killed_at: str, by: str
) -> None:
    guard = open_store(member.home)  # another process of this node, at work all the while
    guard.outbox()
    guard.note_objection("call", "call", [SEEN.decode()], 5)
    member.blocked(1, 3, 9)
    member.world.clock.advance(PRECISION)
    assert member.close() == 1
    member.blocked(3)
    (row,) = member.store.queued(member.world.task.task_id)

    def killed(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(NodeStore, killed_at, killed)
        with pytest.raises(KeyboardInterrupt):
            member.withdraw()
    assert SEEN in stored(member.home)
    again = open_store(member.home)
    if by == "another no":
        drop_left(member.home, again, member.world.clock.now_us())
    else:
        drop_uncovered(member.home, again, member.world.task, member.world.clock)
    left = stored(member.home)
    assert (SEEN in left, row.report in left, row.measurement in left) == (False, False, False)
    assert [r.state for r in again.outbox()] == [OutboxState.DROPPED]
    again.close()
    guard.close()


def test_what_a_process_writes_that_was_at_work_as_consent_ended_goes_with_the_next_turn(member: Member) -> None:
    member.withdraw()
    guard = open_store(member.home)
    guard.note_objection("call", "call", [SEEN.decode()], 5)
    guard.add_bits("rules-1", member.catalog.digest, (0, 10), {3: SEEN.decode()})
    drop_uncovered(member.home, member.store, member.world.task, member.world.clock)
    assert SEEN not in stored(member.home)
    guard.close()
