"""A node takes part in a task only once each of its checks holds; each has an error of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.files import BadState
from interlock.commons.logged import NotLogged
from interlock.commons.membership import BLIND, TaskMembership
from interlock.commons.operators import OneHand, Operator, Operators
from interlock.commons.updater import Stale
from interlock.dap.drafts import DAP_19
from interlock.dap.task import Task, TaskRefused, task_of
from interlock.dap.taskfile import dump_client_task
from interlock.node.roles.taking import NotPublished, Unproven, demand_published, demand_safe, published_task
from interlock.node.roles.tasks import Wanted, made_task
from tests.unit.commons_world import World, sign_past_the_log, world

LEADER, HELPER = "https://dap.acme.example/", "https://dap.globex.example"
WANTED = Wanted("task-1", 4, LEADER, HELPER, catalog=bytes(32), members=BLIND)
NOW = 1_700_000_000_000_000


def operators(*organisations: str) -> Operators:
    rows = zip(("leader", "helper"), (LEADER, HELPER), organisations, strict=True)
    return Operators(1, tuple(Operator(role, of, {role: (url,)}) for role, url, of in rows))


TWO = operators("Acme", "Globex")


def made(**changes: object) -> Task:
    return made_task(dataclasses.replace(WANTED, **changes), NOW)  # type: ignore[arg-type]


@pytest.fixture
def commons(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as found:
        found.publisher.publish_dap_task("task-1", dump_client_task(made()))
        yield found


def test_a_published_task_with_proofs_a_floor_and_two_operators_is_taken(commons: World) -> None:
    task = published_task(commons.member("node"), "task-1")
    assert task == made()
    demand_published(commons.member("node"), "task-1", task)
    demand_safe(task, "task-1", TWO)


# --- published --------------------------------------------------------------------------------------------------------


def test_one_that_is_not_the_published_one_is_refused(commons: World) -> None:
    for other in (made(epoch_s=3600), dataclasses.replace(made(), draft=DAP_19)):
        with pytest.raises(NotPublished, match="is not the task task-1 that the commons published"):
            demand_published(commons.member("node"), "task-1", other)


def test_one_that_nobody_published_is_refused(commons: World) -> None:
    with pytest.raises(NotPublished, match="is not published by the commons"):
        demand_published(commons.member("node"), "task-2", made())


def test_one_without_a_proof_of_the_log_is_refused(commons: World) -> None:
    sign_past_the_log(commons, "tasks/task-2.json")
    with pytest.raises(NotLogged):
        published_task(commons.member("node"), "task-2")


def test_one_of_a_commons_that_is_not_of_now_is_refused(commons: World) -> None:
    commons.clock.advance(2 * 86_400)
    with pytest.raises(Stale):
        published_task(commons.member("node"), "task-1")


def test_a_published_file_that_is_no_task_is_refused(commons: World) -> None:
    commons.publisher.publish_dap_task("task-2", b"{}")
    with pytest.raises(BadState, match="task task-2"):
        published_task(commons.member("node"), "task-2")


# --- floor ------------------------------------------------------------------------------------------------------------


def test_one_with_a_floor_below_ten_is_refused_however_it_comes() -> None:
    with pytest.raises(TaskRefused, match="the floor is 10"):
        made(min_batch=9)
    with pytest.raises(TaskRefused, match="the floor is 10"):
        task_of(made(min_batch=9, demo=True).configuration)


def test_one_of_a_demo_is_taken_only_by_whoever_says_so() -> None:
    task = made(min_batch=3, demo=True)
    with pytest.raises(TaskRefused, match="a real task needs 10; give --demo"):
        demand_safe(task, "task-1", TWO)
    demand_safe(task, "task-1", TWO, demo=True)
    demand_safe(task, "task-1", None, demo=True)


# --- members ----------------------------------------------------------------------------------------------------------


def test_one_that_asks_for_no_proof_of_membership_is_refused() -> None:
    with pytest.raises(Unproven, match="could add reports of its own"):
        demand_safe(made(members=""), "task-1", TWO)


def test_one_that_asks_for_the_members_of_another_task_is_refused() -> None:
    with pytest.raises(Unproven, match="members of another task"):
        demand_safe(made(name="task-2"), "task-1", TWO)


def test_one_that_asks_for_a_proof_of_no_known_kind_is_refused() -> None:
    good = made()
    with pytest.raises(Unproven, match="not known here"):
        demand_safe(dataclasses.replace(good, membership=b"\x09\x01a"), "task-1", TWO)
    assert good.membership == TaskMembership(BLIND, "task-1").encode()


def test_one_whose_leader_selects_batches_counts_no_organisations_and_is_refused_a_demos_too() -> None:
    task = made(leader_selected=True, members="", min_batch=3, demo=True)
    with pytest.raises(TaskRefused, match="count reports and not organisations"):
        demand_safe(task, "task-1", TWO, demo=True)
    with pytest.raises(TaskRefused, match="may hold a member many times"):
        made(leader_selected=True)


# --- operators --------------------------------------------------------------------------------------------------------


def test_one_whose_aggregators_one_body_runs_is_refused() -> None:
    with pytest.raises(OneHand, match="runs both aggregators"):
        demand_safe(made(), "task-1", operators("Acme", "ACME "))


def test_one_whose_aggregators_are_not_on_the_list_is_refused() -> None:
    with pytest.raises(OneHand, match="no operator on the commons' list runs"):
        demand_safe(made(helper="https://other.example"), "task-1", TWO)


def test_one_of_a_commons_that_lists_nobody_is_refused() -> None:
    with pytest.raises(OneHand, match="run by nobody that the commons names"):
        demand_safe(made(), "task-1", None)


@pytest.mark.parametrize(
    "one",
    ["https://dap.acme.example/helper", "https://DAP.acme.example.", "https://dap.acme.example:443/x"],
)
def test_one_with_both_aggregators_at_one_address_is_refused_whatever_the_list_says(one: str) -> None:
    listed = Operators(1, (Operator("a", "A", {"leader": (LEADER,)}), Operator("b", "B", {"helper": (one,)})))
    with pytest.raises(OneHand, match="at one address"):
        demand_safe(made(helper=one), "task-1", listed)
