"""A node takes no part in a task whose two aggregators are one body, once its commons says who runs what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.commons.operators import OPERATORS_PATH, OneHand, Operator, Operators
from tests.unit.report_world import CountedWorld, Member, catalog, counted_world

__all__ = ["counted_world"]  # the fixture `world`


@pytest.fixture
def member(tmp_path: Path, world: CountedWorld) -> Iterator[Member]:
    made = Member(tmp_path / "acme", world, catalog())
    yield made
    made.stop()


def knows(member: Member, *rows: tuple[str, str, str]) -> None:
    """The list that this node took with its last update: organisation, role, URL."""
    operators = tuple(Operator(f"{org} {role}", org, {role: (url,)}) for org, role, url in rows)
    member.home.mkdir(exist_ok=True)
    (member.home / OPERATORS_PATH).write_bytes(Operators(1, operators).data)


def urls(member: Member) -> tuple[str, str]:
    config = member.world.task.config
    return config.leader_url.decode("ascii"), config.helper_url.decode("ascii")


def test_two_organisations_are_reported_to(member: Member) -> None:
    leader, helper = urls(member)
    knows(member, ("Borealis", "leader", leader), ("Cobalt", "helper", helper))
    member.agree()
    member.blocked(1)
    assert member.close(early=True) == 1
    assert member.send().sent == 1


def test_one_organisation_in_both_places_is_not_agreed_to(member: Member) -> None:
    leader, helper = urls(member)
    knows(member, ("Borealis", "leader", leader), ("borealis", "helper", helper))
    with pytest.raises(OneHand, match="runs both aggregators"):
        member.agree()
    assert not (member.home / "consent.json").exists()


def test_an_aggregator_that_nobody_lists_is_not_agreed_to(member: Member) -> None:
    knows(member, ("Borealis", "leader", urls(member)[0]), ("Cobalt", "helper", "https://other.test"))
    with pytest.raises(OneHand, match="no operator on the commons' list"):
        member.agree()


def test_what_was_agreed_to_ends_once_the_two_are_found_to_be_one(member: Member) -> None:
    leader, helper = urls(member)
    member.agree()
    member.blocked(1)
    assert member.close(early=True) == 1
    knows(member, ("Borealis", "leader", leader), ("Borealis", "helper", helper))
    for step in (member.send, lambda: member.close(early=True)):
        with pytest.raises(OneHand):
            step()
    assert not member.line.uploads
