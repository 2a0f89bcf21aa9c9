"""Who runs what: the list that the commons signs, and what a node refuses because of it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.base.codec import Malformed
from interlock.base.errors import BadInput
from interlock.commons.known_operators import known_operators
from interlock.commons.logged import NotLogged
from interlock.commons.operators import (
    OneHand,
    Operator,
    Operators,
    default_policy,
    demand_separate_witnesses,
    demand_two_aggregators,
    parse_operators,
)
from interlock.transparency.checkpoint import Cosigner
from interlock.transparency.note import NoteSigner
from interlock.transparency.policy import parse_policy
from tests.unit.commons_world import ORIGIN, World, log_policy, seed, world

LOG: Final = NoteSigner(ORIGIN, seed("log")).key.text
W1, W2 = (Cosigner(f"w{i}.example", seed(f"witness {i}")).key.text for i in (1, 2))
LEADER, HELPER = "https://leader.example", "https://helper.example/dap"


def an_operator(name: str, organisation: str = "", **roles: list[str]) -> Operator:
    return Operator(name, organisation or f"{name} Ltd", {role: tuple(things) for role, things in roles.items()})


def listed(*operators: Operator, version: int = 1) -> Operators:
    return Operators(version, operators)


APART: Final = listed(
    an_operator("acme", log=[LOG], commons=["https://commons.example"]),
    an_operator("borealis", witness=[W1], leader=[LEADER]),
    an_operator("cobalt", witness=[W2], helper=[HELPER]),
)


@pytest.fixture
def commons(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


# the list


def test_a_list_reads_back_in_one_spelling() -> None:
    assert parse_operators(APART.data, where="o") == APART
    loose = json.dumps(json.loads(APART.data), indent=2).encode()
    assert parse_operators(loose, where="o").data == APART.data


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"version": 0}, "version"),
        ({"v": 2}, "version 1"),
        ({"format": "x"}, "format"),
        ({"more": 1}, "no others"),
        ({"operators": []}, "names no operators"),
        ({"operators": [{"name": "a"}]}, "without name"),
        ({"operators": [{"name": "a", "organisation": "", "roles": {}}]}, "is no name"),
        ({"operators": [{"name": "a", "organisation": "b", "roles": {"boss": ["x"]}}]}, "none of log"),
        ({"operators": [{"name": "a", "organisation": "b", "roles": {"log": []}}]}, "no list of keys"),
        ({"operators": [{"name": "a", "organisation": "b", "roles": {"log": ["x y"]}}]}, "no list of keys"),
        ({"operators": [{"name": "a", "organisation": "b", "roles": {"log": ["x", "x"]}}]}, "twice"),
        ({"operators": [{"name": n, "organisation": n, "roles": {"log": ["x"]}} for n in "ab"]}, "key or URL twice"),
        ({"operators": [{"name": "a", "organisation": n, "roles": {"log": [n]}} for n in "xy"]}, "operator twice"),
    ],
)
def test_a_list_of_another_form_is_refused(change: dict[str, object], match: str) -> None:
    with pytest.raises(Malformed, match=match):
        parse_operators(json.dumps(json.loads(APART.data) | change).encode(), where="o")


@given(st.binary(max_size=200))
def test_garbage_is_no_list(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse_operators(data, where="o")


# the log and its witnesses


def test_a_log_whose_witnesses_others_run_is_accepted() -> None:
    demand_separate_witnesses(APART, parse_policy(log_policy()))


@pytest.mark.parametrize("organisation", ["acme Ltd", "ACME  ltd"])
def test_the_log_and_all_witnesses_in_one_hand_are_refused(organisation: str) -> None:
    one = listed(an_operator("acme", log=[LOG]), an_operator("acme 2", organisation, witness=[W1, W2]))
    with pytest.raises(OneHand, match="alone runs witnesses enough"):
        demand_separate_witnesses(one, parse_policy(log_policy()))


def test_keys_are_known_by_themselves_too() -> None:
    keys = [seed(f"witness {i}").verifier.text for i in (1, 2)]
    one = listed(an_operator("acme", log=[seed("log").verifier.text], witness=keys))
    with pytest.raises(OneHand):
        demand_separate_witnesses(one, parse_policy(log_policy()))


def test_one_witness_of_somebody_else_is_enough_where_the_quorum_needs_it() -> None:
    two = listed(an_operator("acme", log=[LOG], witness=[W1]), an_operator("borealis", witness=[W2]))
    demand_separate_witnesses(two, parse_policy(log_policy()))
    any_of_two = log_policy().replace(b"both all", b"both any")
    with pytest.raises(OneHand, match="w1"):
        demand_separate_witnesses(two, parse_policy(any_of_two))


def test_the_default_policy_asks_for_two_witnesses_of_bodies_that_run_neither_log_nor_commons() -> None:
    policy = parse_policy(default_policy(APART))
    assert policy.satisfied(frozenset({"w1", "w2"}))
    assert not policy.satisfied(frozenset({"w1"}))
    near = dataclasses.replace(APART, operators=(*APART.operators[:2], an_operator("cobalt", "Acme Ltd", witness=[W2])))
    with pytest.raises(OneHand, match="witnesses of 1 bodies"):
        default_policy(near)


def test_two_witnesses_of_one_body_are_one_in_the_default_policy() -> None:
    third = Cosigner("w3.example", seed("witness 3")).key.text
    more = listed(*APART.operators[:2], an_operator("cobalt", witness=[W2, third]))
    policy = parse_policy(default_policy(more))
    assert not policy.satisfied(frozenset({"w2", "w3"}))
    assert policy.satisfied(frozenset({"w1", "w3"}))


# both aggregators


def test_a_task_of_two_bodies_is_accepted_with_or_without_a_last_slash() -> None:
    demand_two_aggregators(APART, LEADER, HELPER)
    demand_two_aggregators(APART, LEADER + "/", HELPER + "/")


def test_a_task_whose_aggregators_one_body_runs_is_refused() -> None:
    one = listed(an_operator("acme", leader=[LEADER]), an_operator("acme helper", "acme ltd", helper=[HELPER]))
    with pytest.raises(OneHand, match="runs both aggregators"):
        demand_two_aggregators(one, LEADER, HELPER)


@pytest.mark.parametrize(("leader", "helper"), [("https://x.example", HELPER), (LEADER, LEADER)])
def test_a_task_of_somebody_whom_the_list_does_not_name_is_refused(leader: str, helper: str) -> None:
    with pytest.raises(OneHand, match="no operator on the commons' list"):
        demand_two_aggregators(APART, leader, helper)


# published, and taken by a node


def test_a_node_takes_the_list_with_its_update_and_keeps_it(commons: World) -> None:
    member = commons.member("node")
    member.update()
    assert known_operators(commons.home / "node") is None
    done = commons.publisher.publish_operators(APART)
    assert (done.entry.type, done.entry.by) == ("operators", _snapshot_key(commons))
    member.update()
    assert known_operators(commons.home / "node") == APART
    later = dataclasses.replace(APART, version=2, operators=APART.operators[:2])
    commons.publisher.publish_operators(later)
    member.update()
    assert known_operators(commons.home / "node") == later


def test_the_same_list_again_changes_nothing_and_an_older_one_is_refused(commons: World) -> None:
    done = commons.publisher.publish_operators(dataclasses.replace(APART, version=2))
    assert commons.publisher.publish_operators(dataclasses.replace(APART, version=2)) == done
    with pytest.raises(BadInput, match="not newer"):
        commons.publisher.publish_operators(APART)


def test_a_list_that_puts_log_and_witnesses_in_one_hand_is_published_by_nobody(commons: World) -> None:
    with pytest.raises(OneHand):
        commons.publisher.publish_operators(listed(an_operator("acme", log=[LOG], witness=[W1, W2])))


def test_a_list_whose_log_entry_is_of_another_type_is_refused(commons: World, monkeypatch: pytest.MonkeyPatch) -> None:
    right = commons.publisher.steps.item
    monkeypatch.setattr(commons.publisher.steps, "item", lambda kind, *rest: right("task", *rest))
    commons.publisher.publish_operators(APART)
    with pytest.raises(NotLogged, match="another type"):
        commons.member("node").update()
    assert known_operators(commons.home / "node") is None


def _snapshot_key(commons: World) -> str:
    named: str = json.loads((commons.home / "commons" / "keys" / "snapshot.key").read_text())["public"]
    return named
