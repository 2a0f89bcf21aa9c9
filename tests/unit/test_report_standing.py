"""A member asks the commons whether a task stands before it makes or sends anything, and else stops for good."""

from __future__ import annotations

import dataclasses
import logging
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from interlock.base.fetch import DirectoryFetcher, Fetcher, NotFound
from interlock.base.files import private_dir
from interlock.commons.consent import NoConsent, ended_consents, read_consents, withdraw_consent
from interlock.commons.task_withdrawal import TaskWithdrawn
from interlock.commons.turns import InTurn
from interlock.commons.updater import Stale
from interlock.dap.messages import Extension, Interval
from interlock.dap.task import TASK_INTERVAL, Task, task_of
from interlock.dap.taskfile import dump_client_task
from interlock.node import reporter as reporting
from interlock.node.cli.task_rows import task_rows
from interlock.node.reporter import Reporter
from interlock.node.roles.report import Sent
from interlock.node.roles.standing import TaskEnded, TaskStanding
from interlock.node.roles.taking import NotPublished, demand_published
from interlock.transparency.follow import Rollback
from tests.unit import commons_world
from tests.unit.dap_world import PRECISION
from tests.unit.report_world import CountedWorld, Member, Publishing, catalog, task_over

NAME, WHY = "rules-1", "its collector lost its key"


class Node:
    """A member of a real commons and a real pair; `turn` is one turn of its reporting."""

    def __init__(self, folder: Path, commons: commons_world.World) -> None:
        self.commons = commons
        self.world = CountedWorld(private_dir(folder / "pair"), catalog())
        self.member = Member(folder / "acme", self.world, catalog())
        commons.publisher.publish_dap_task(NAME, dump_client_task(self.world.task))
        self.member.agree()
        self.member.blocked(3)

    def turn(self, commons: Publishing | None = None, *, kept: Iterable[Task] = ()) -> Reporter:
        member, clock, ids = self.member, self.world.clock, frozenset(task.task_id for task in kept)
        standing = TaskStanding(member.home, member.store, lambda: commons or self.commons.member("node"), clock, ids)
        return Reporter(member.home, member.store, self.world.task, member.line, member.line, clock, standing)

    def withdraw(self) -> None:
        self.commons.publisher.withdraw_task(NAME, WHY)

    def next_epoch(self) -> None:
        self.world.clock.advance(PRECISION)

    def close(self) -> None:
        self.member.stop()
        self.world.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with commons_world.world(tmp_path) as commons:
        made = Node(tmp_path, commons)
        yield made
        made.close()


def everything(home: Path) -> bytes:
    """All bytes below a home."""
    return b"\n".join(path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file())


def test_a_task_that_stands_is_reported(node: Node) -> None:
    node.next_epoch()
    turn = node.turn()
    assert (turn.build(), turn.send(at_once=True)) == (1, Sent(sent=1))


def test_what_is_queued_for_a_withdrawn_task_never_goes_out_and_nothing_resumes(node: Node) -> None:
    node.next_epoch()
    assert node.turn().build() == 1
    (queued,) = node.member.store.queued(node.world.task.task_id)
    node.member.blocked(5)
    node.withdraw()
    with pytest.raises(TaskEnded, match=f"was withdrawn by the commons .{WHY}.; it is counted no more, and 1 queued"):
        node.turn().send(at_once=True)
    assert node.member.line.uploads == []
    (row,) = node.member.store.outbox()
    assert (row.state.value, row.reason) == ("dropped", f"was withdrawn by the commons ({WHY})")
    assert queued.report not in everything(node.member.home)
    assert (node.member.bits(), read_consents(node.member.home)) == (frozenset(), {})
    node.member.blocked(6)  # a guard of this node sees an objection
    assert node.member.bits() == frozenset()
    node.next_epoch()
    with pytest.raises(NoConsent):
        node.turn().build()
    with pytest.raises(TaskWithdrawn, match="was withdrawn"):  # what a new yes asks first
        demand_published(node.commons.member("node"), NAME, node.world.task)
    (end,) = ended_consents(node.member.home).values()
    assert (end.subject, end.why) == (NAME, f"was withdrawn by the commons ({WHY})")
    (told,) = [row.detail for row in task_rows(node.member.home) if "ended at" in row.detail]
    assert told.startswith(f"{NAME} ended at ")
    node.member.agree()  # as if the commons published it again, and a person said yes
    assert ended_consents(node.member.home) == {}


def test_no_report_is_made_for_a_withdrawn_task(node: Node) -> None:
    node.withdraw()
    node.next_epoch()
    with pytest.raises(TaskEnded, match="and 0 queued reports are dropped"):
        node.turn().build()
    assert (node.member.store.outbox(), node.member.line.asked) == ([], [])


@pytest.mark.parametrize("what", ["another task", "none"])
def test_a_task_that_the_commons_signs_no_more_has_ended(tmp_path: Path, what: str) -> None:
    with commons_world.world(tmp_path) as commons:
        node = Node(tmp_path, commons)
        node.next_epoch()
        node.turn().build()

    class Emptied(Publishing):
        """A commons whose signed metadata names no task any more."""

        def dap_task(self, task: str) -> bytes:
            raise NotFound("is not in the commons", where=task)

    other = task_over(catalog(), PRECISION * 2)
    turn = node.turn(Publishing(other) if what == "another task" else Emptied(other))
    with pytest.raises(TaskEnded, match="is not the task" if what == "another task" else "is not published"):
        turn.send(at_once=True)
    assert node.member.states() == ["dropped"]
    node.close()


def test_while_the_commons_is_stale_nothing_goes_out_and_nothing_is_lost(node: Node) -> None:
    node.next_epoch()
    assert node.turn().build() == 1
    node.next_epoch()
    node.commons.clock.advance(2 * 86_400)
    for act in (node.turn().build, lambda: node.turn().send(at_once=True)):
        with pytest.raises(Stale):
            act()
    assert (node.member.states(), node.member.line.uploads) == (["queued"], [])
    assert NAME in {subject for _, subject in read_consents(node.member.home)}
    node.commons.publisher.renew()
    turn = node.turn()
    assert (turn.build(), turn.send(at_once=True)) == (1, Sent(sent=2))


def test_a_commons_is_asked_once_a_turn_and_only_where_something_is_due(node: Node) -> None:
    commons = Publishing(node.world.task)
    quiet = node.turn(commons)
    quiet.build()
    quiet.send()
    assert commons.asked == []
    node.next_epoch()
    busy = node.turn(commons)
    busy.build()
    busy.send(at_once=True)
    assert commons.asked == [NAME]


def test_a_process_that_was_killed_as_consent_ended_leaves_nothing_for_long(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.next_epoch()
    node.turn().build()
    node.member.blocked(4)
    withdraw_consent(node.member.home, NAME)  # and here it was killed
    assert (node.member.states(), node.member.bits()) == (["queued"], frozenset({4}))
    reporting._report(node.turn())
    assert (node.member.states(), node.member.bits()) == (["dropped"], frozenset())
    node.withdraw()
    node.member.agree()
    node.next_epoch()
    caplog.set_level(logging.WARNING, logger="interlock.report")
    for _ in range(3):
        reporting._report(node.turn())
    (line,) = [record.message for record in caplog.records if "withdrawn" in record.message]  # said once
    assert line.startswith(f"no report: task {NAME}: was withdrawn by the commons")


def test_a_node_takes_no_part_in_a_withdrawn_task(node: Node) -> None:
    node.withdraw()
    with pytest.raises(TaskWithdrawn):
        demand_published(node.commons.member("node"), NAME, node.world.task)
    with pytest.raises(TaskWithdrawn):
        demand_published(node.commons.publisher, NAME, node.world.task)
    with pytest.raises(NotPublished):
        demand_published(node.commons.publisher, "rules-2", node.world.task)


def test_a_file_of_a_task_that_was_never_published_ends_no_yes_to_the_one_that_is(node: Node) -> None:
    config = node.world.task.config
    ends = Extension(TASK_INTERVAL, Interval(0, 1 << 40).encode())
    of_before = dataclasses.replace(config, extensions=(ends, *config.extensions))
    first = task_of(of_before.encode(), demo=True)  # as its author had it before the one that was published
    kept = [first, node.world.task]
    node.next_epoch()
    assert node.turn(kept=kept).build() == 1
    node.next_epoch()
    wrong = dataclasses.replace(node.turn(kept=kept), task=first)
    with pytest.raises(NotPublished, match="is not the task"):
        wrong.build()
    assert NAME in {subject for _, subject in read_consents(node.member.home)}
    turn = node.turn(kept=kept)
    assert (turn.build(), turn.send(at_once=True)) == (1, Sent(sent=2))
    node.withdraw()
    node.next_epoch()
    with pytest.raises(TaskEnded):
        dataclasses.replace(node.turn(kept=kept), task=first).build()


def test_a_mirror_that_shows_the_commons_as_it_was_hides_no_withdrawal_from_a_node_that_saw_it(
    node: Node, tmp_path: Path
) -> None:
    node.next_epoch()
    node.turn().build()
    public = node.commons.home / "commons" / "public"
    shutil.copytree(public, tmp_path / "frozen")
    frozen, real = DirectoryFetcher(tmp_path / "frozen"), DirectoryFetcher(public)
    node.commons.publisher.publish(commons_world.pack(1), "canary")
    node.commons.member("node").dap_task(NAME)  # and so the node knows a newer commons
    node.withdraw()

    def sent(*mirrors: Fetcher) -> Sent:
        follower = node.commons.member("node", InTurn(mirrors))
        return node.turn(follower).send(at_once=True)  # type: ignore[arg-type]

    with pytest.raises(Rollback):
        sent(frozen)
    assert (node.member.states(), node.member.line.uploads) == (["queued"], [])
    with pytest.raises(TaskEnded, match="1 queued reports are dropped"):
        sent(frozen, real)
    assert (node.member.states(), node.member.line.uploads) == (["dropped"], [])
