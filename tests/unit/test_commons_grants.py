"""Grants follow what a rule means: kept over versions, and beside what replaced it until that is granted too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from interlock.base.files import BadState
from interlock.commons import installed
from interlock.commons.grants import Grant, Grants, Stepped, dump_grants, parse_grants
from interlock.commons.live import Live, read_live, write_live
from interlock.commons.pack import BadPack, Pack, build_pack
from interlock.commons.resolve import Subscribed, resolve, resolved
from interlock.commons.subscribe import Subscriber
from interlock.commons.withdrawn import Withdrawn
from interlock.engine.decision import Verdict
from interlock.engine.evaluate import evaluate
from interlock.engine.event import SensorEvent
from interlock.engine.policy.model import Policy
from tests.unit.commons_world import SIGN_OFF, World, pack, rule, world


@pytest.fixture
def commons(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


def made(version: int, *rules: dict[str, object]) -> Pack:
    return build_pack("team", version, rules, licence="MIT", authors=["A"], signed_off_by=[SIGN_OFF])


def said(policy: Policy, command: str) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict on a command, and the rules that objected."""
    outcome = evaluate(policy, SensorEvent("Bash", {"command": command}))
    return outcome.decision.verdict, tuple(r.id for r in outcome.fired)


def states(home: Path, now_us: int = 0, ring: str = "stable") -> dict[str, str]:
    return {s.id: s.state for s in installed.standing(home, "team", ring, now_us).standings}


CHANGED = rule("team.zap", "zap", reason="now for another reason")


class Node:
    """A member of a commons, with its home, and the time."""

    def __init__(self, commons: World) -> None:
        self.commons = commons
        self.home = commons.home / "node"
        self.subscriber: Subscriber = commons.member("node")
        self.subscriber.subscribe("team", "stable")

    def gets(self, made: Pack) -> None:
        self.commons.publisher.publish(made, "stable")
        self.subscriber.update()

    def grants(self, *rules: str) -> None:
        installed.grant(self.home, "team", "stable", list(rules) or None, self.commons.clock.now_us())

    @property
    def policy(self) -> Policy:
        return installed.load(self.home, "team", "stable", self.commons.clock)


@pytest.fixture
def node(commons: World) -> Node:
    found = Node(commons)
    found.gets(pack())
    return found


def test_an_unchanged_rule_keeps_its_grant_from_version_to_version(node: Node) -> None:
    node.grants("team.zap")
    node.gets(pack(2, words=("zap", "fry")))
    assert said(node.policy, "zap")[0] is Verdict.BLOCK
    assert said(node.policy, "fry")[0] is Verdict.ESCALATE
    assert states(node.home) == {"team.zap": "granted", "team.fry": "ungranted"}


def test_a_changed_rule_runs_beside_its_granted_predecessor(node: Node) -> None:
    node.grants("team.zap")
    node.gets(made(2, CHANGED))
    assert states(node.home) == {"team.zap@1": "superseded", "team.zap": "ungranted"}
    assert said(node.policy, "zap") == (Verdict.BLOCK, ("team.zap@1",))


def test_the_predecessor_outlives_the_store_and_names_the_pack_it_was_granted_in(node: Node) -> None:
    node.grants("team.zap")
    for version in (2, 3, 4):
        node.gets(made(version, CHANGED, rule(f"team.w{version}", f"w{version}")))
    assert pack().digest not in {p.stem for p in (node.home / "store").iterdir()}
    (held,) = [r for r in node.policy.rules if r.id == "team.zap@1"]
    granted = installed.read_grants(node.home).rows[0]
    assert (held.source.pack_digest, held.source.log_index) == (pack().digest, granted.log_index)
    assert said(node.policy, "zap")[0] is Verdict.BLOCK


def test_a_granted_rule_that_its_pack_drops_stays_until_the_operator_takes_it_back(node: Node) -> None:
    node.grants("team.zap")
    node.gets(made(2, rule("team.fry", "fry")))
    assert said(node.policy, "zap")[0] is Verdict.BLOCK
    installed.revoke(node.home, "team", ["team.zap"])
    assert said(node.policy, "zap")[0] is Verdict.ALLOW


def test_granting_the_changed_rule_ends_the_predecessor(node: Node) -> None:
    node.grants("team.zap")
    node.gets(made(2, CHANGED))
    node.grants("team.zap")
    assert states(node.home) == {"team.zap": "granted"}
    assert said(node.policy, "zap") == (Verdict.BLOCK, ("team.zap",))


def test_of_several_granted_predecessors_only_the_last_goes_on(node: Node) -> None:
    node.grants("team.zap")
    node.gets(made(2, CHANGED))
    node.grants("team.zap")
    node.gets(made(3, rule("team.zap", "zap", reason="a third reason")))
    assert states(node.home) == {"team.zap@2": "superseded", "team.zap": "ungranted"}


def test_a_pack_that_returns_to_what_it_said_before_takes_back_nothing_that_was_granted_since(node: Node) -> None:
    node.grants("team.zap")
    node.gets(made(2, rule("team.zap", "za")))
    node.grants("team.zap")
    node.gets(made(3, rule("team.zap", "zap")))
    assert states(node.home) == {"team.zap@2": "superseded", "team.zap": "granted"}
    assert said(node.policy, "za") == (Verdict.BLOCK, ("team.zap@2",))
    at = {g.version: g.at for g in installed.read_grants(node.home).rows}
    node.grants("team.zap")  # the operator says so
    assert states(node.home) == {"team.zap": "granted"}
    assert {g.version: g.at for g in installed.read_grants(node.home).rows} == at


def copied(name: str, **more: Any) -> Subscribed:
    """A pack of another name with the very rule of team, that nobody granted."""
    copy = build_pack(name, 1, [rule("team.zap", "zap")], licence="MIT", authors=["B"], **more)
    return Subscribed(copy, "stable", 2)


@pytest.mark.parametrize("status", ["active", "shadow"])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("first", [True, False])
def test_no_other_pack_weakens_a_granted_rule_by_having_it_too(
    node: Node, status: Literal["active", "shadow"], version: int, first: bool
) -> None:
    node.grants("team.zap")
    team = Subscribed(pack() if version == 1 else made(2, CHANGED), "stable", 1)
    packs = [copied("other", status=status), team] if first else [team, copied("other", status=status)]
    assert said(resolve((), packs, installed.read_grants(node.home)), "zap")[0] is Verdict.BLOCK


def test_a_rule_that_two_packs_have_is_there_once() -> None:
    found = resolved((), [copied("a"), copied("b"), copied("c", status="shadow")], Grants())
    assert [(s.pack, s.state) for s in found.standings] == [("a", "ungranted")]


def test_a_pack_that_goes_into_shadow_leaves_what_was_granted_in_force(node: Node) -> None:
    node.grants("team.zap")
    shadow = build_pack(
        "team", 2, [rule("team.zap", "zap"), rule("team.zip", "zip")], licence="MIT", authors=["A"], status="shadow",
        signed_off_by=[SIGN_OFF],
    )  # fmt: skip
    node.gets(shadow)
    assert states(node.home) == {"team.zap@1": "superseded", "team.zip": "shadow"}
    assert said(node.policy, "zap")[0] is Verdict.BLOCK
    with pytest.raises(BadPack, match="in shadow"):
        node.grants("team.zip")
    node.gets(made(3, rule("team.zap", "zap")))
    assert states(node.home) == {"team.zap": "granted"}


def test_a_removal_takes_a_granted_rule_out_of_force_and_an_activation_leaves_it(node: Node) -> None:
    node.grants("team.zap")
    live = read_live(node.home)
    for scope, verdict in (("activation", Verdict.BLOCK), ("removal", Verdict.ALLOW)):
        taken = Withdrawn("team", 1, ("team.zap",), "removal" if scope == "removal" else "activation", "it is wrong")
        write_live(node.home, replace(live, withdrawn=(taken,)))
        assert said(node.policy, "zap")[0] is verdict


def test_a_removal_reaches_a_predecessor_too(node: Node) -> None:
    node.grants("team.zap")
    node.gets(made(2, CHANGED))
    write_live(node.home, replace(read_live(node.home), withdrawn=(Withdrawn("team", 1, (), "removal", "wrong"),)))
    assert states(node.home) == {"team.zap": "ungranted"}


def test_what_was_taken_back_is_granted_no_more(node: Node) -> None:
    taken = Withdrawn("team", 1, ("team.zap",), "activation", "it blocks printing")
    write_live(node.home, replace(read_live(node.home), withdrawn=(taken,)))
    with pytest.raises(BadPack, match="taken back"):
        node.grants("team.zap")
    assert not (node.home / "grants.json").exists()


def test_ungranted_rules_ask_or_stay_in_shadow_as_the_operator_chose(node: Node) -> None:
    node.gets(made(2, rule("team.zap", "zap"), rule("team.fry", "fry", verdict="escalate")))
    assert said(node.policy, "zap")[0] is Verdict.ESCALATE
    installed.change_grants(node.home, lambda grants: replace(grants, ungranted="shadow"))
    outcome = evaluate(node.policy, SensorEvent("Bash", {"command": "zap"}))
    assert outcome.decision.verdict is Verdict.ALLOW
    assert [(r.id, d.verdict) for r, d in outcome.shadows] == [("team.zap", Verdict.BLOCK)]
    assert said(node.policy, "fry")[0] is Verdict.ESCALATE  # its author asks: nothing to grant
    node.grants("team.zap")
    assert said(node.policy, "zap")[0] is Verdict.BLOCK


def test_a_rule_that_stepped_back_is_in_shadow_and_a_granted_one_never_is() -> None:
    one = made(1, rule("team.zap", "zap"))
    (zap,) = resolved((), [Subscribed(one, "stable", 1)], Grants()).standings
    stepped = Grants(stepped=(Stepped("team", "team.zap", zap.semantic, 7, "3 principals in 5 spans"),))
    policy = resolve((), [Subscribed(one, "stable", 1)], stepped)
    assert (policy.rules[0].shadow, said(policy, "zap")[0]) == (True, Verdict.ALLOW)
    both = stepped.with_rows([Grant("team", "team.zap", zap.semantic, 9)])
    assert said(resolve((), [Subscribed(one, "stable", 1)], both), "zap")[0] is Verdict.BLOCK
    again = stepped.without_stepped("team", "team.zap")
    assert said(resolve((), [Subscribed(one, "stable", 1)], again), "zap")[0] is Verdict.ESCALATE


def test_grants_with_all_they_hold_read_back() -> None:
    row = Grant("team", "a", "00", 1, 2, "ab" * 32, 3, '{"id": "a"}')
    grants = Grants((row,), "shadow", (Stepped("team", "b", "11", 4, "why"),))
    assert parse_grants(dump_grants(grants), where="g") == grants


def test_grants_of_the_first_version_are_read(node: Node) -> None:
    old = '{"format": "interlock-grants", "v": 1, "grants": [{"pack": "p", "rule": "r", "semantic": "00", "at": 1}]}'
    assert parse_grants(old.encode(), where="g") == Grants((Grant("p", "r", "00", 1),))


@pytest.mark.parametrize(
    ("old", "new"), [("now", "how"), ('"when"', '"whem"'), ("{", "["), ("team.zap", "team.zip")], ids=str
)
def test_a_granted_rule_that_was_changed_in_the_file_is_refused(node: Node, old: str, new: str) -> None:
    node.grants("team.zap")
    node.gets(made(2, CHANGED))
    held = installed.read_grants(node.home).rows[0]
    spoilt = replace(held, document=held.document.replace("not for agents", "now fine").replace(old, new, 1))
    installed.change_grants(node.home, lambda grants: replace(grants, rows=(spoilt,)))
    with pytest.raises(BadState, match="grant it anew"):
        installed.load(node.home, "team", "stable")


def test_a_grant_in_beta_counts_once_the_pack_is_stable(commons: World) -> None:
    beta = Subscribed(pack(), "beta", 1)
    (zap,) = resolved((), [beta], Grants()).standings
    grants = Grants((Grant("team", "team.zap", zap.semantic, 1),))
    assert said(resolve((), [beta], grants), "zap")[0] is Verdict.ESCALATE
    assert said(resolve((), [replace(beta, ring="stable")], grants), "zap")[0] is Verdict.BLOCK


def test_nothing_withdrawn_leaves_a_live_file_as_it_was() -> None:
    assert Live().withdrawn == ()
