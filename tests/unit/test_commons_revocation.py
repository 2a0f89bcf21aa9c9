"""What was taken back: in whose word a node takes it, for which versions, and where a grant counts at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.keys import Ed25519Signer
from interlock.commons import installed
from interlock.commons.keyring import make_next
from interlock.commons.pack import BadPack
from interlock.commons.records import Revocation
from interlock.commons.revocation import BadRevocation, withdrawn_rows
from interlock.commons.speakers import Speakers
from interlock.commons.steps import Begun
from interlock.commons.subscribe import Subscriber
from interlock.commons.withdrawn import Scope, Withdrawn
from tests.unit.commons_world import World, pack, seed, world


@pytest.fixture
def commons(tmp_path: Path) -> Iterator[World]:
    """The first version of a pack is out in stable."""
    with world(tmp_path) as made:
        made.publisher.publish(pack(), "stable")
        yield made


@pytest.fixture
def node(commons: World) -> Subscriber:
    """A node that has it in force."""
    member = commons.member("node")
    member.subscribe("team", "stable")
    member.update()
    return member


def live(commons: World) -> bytes:
    return (commons.home / "node" / "live.json").read_bytes()


def states(commons: World) -> dict[str, str]:
    now = commons.clock.now_us()
    return {s.rule: s.state for s in installed.standing(commons.home / "node", "team", "stable", now).standings}


def test_an_author_s_word_is_no_removal(commons: World) -> None:
    commons.publisher.revoke("team", 1, why="it was wrong", rules=("team.zap",), key=seed("author"))
    repository = commons.publisher.steps.repository
    data = repository.target("stable", repository.versions()["stable"], "revoked/stable.json") or b""
    checked: list[bytes] = []

    def rows(ring: str, scope: Scope, *, known: tuple[Withdrawn, ...] = ()) -> tuple[Withdrawn, ...]:
        return withdrawn_rows(
            data,
            ring,
            scope,
            lambda e, p: checked.append(e),
            "revoked",
            keys=Speakers(frozenset()),
            author=lambda record: seed("author").verifier.text,
            known=known,
        )

    (row,) = rows("stable", "activation")
    assert (row.pack, row.version, row.rules, row.scope) == ("team", 1, ("team.zap",), "activation")
    assert len(checked) == 1
    assert rows("stable", "activation", known=(row,)) == (row,)
    assert len(checked) == 1  # what is known was checked before
    with pytest.raises(BadRevocation, match="no removal"):
        rows("stable", "removal")
    assert rows("beta", "activation") == ()


def _revoked_by(commons: World, key: Ed25519Signer, *, scope: str = "activation", digest: str = "") -> None:
    """The ring's role lists a revocation in the word of this key, and the log has it."""
    publisher = commons.publisher
    record = Revocation(digest or pack().digest, "team", 1, "stable", (), "wrong", scope).data
    item = publisher.steps.record_item("revoke", "team", 1, "stable", record, key)
    publisher.steps.run((("revoke", "stable/", record),), lambda base: Begun((item,), roles=("stable",)), None)


@pytest.mark.parametrize(
    ("key", "digest"),
    [("stranger", ""), ("author", "ab" * 32)],
    ids=["by a stranger", "by the author, of other bytes"],
)
def test_a_node_takes_no_revocation_in_the_word_of_somebody_who_may_not_say_it(
    commons: World, node: Subscriber, key: str, digest: str
) -> None:
    before = live(commons)
    _revoked_by(commons, seed(key), digest=digest)
    with pytest.raises(BadRevocation, match="neither the ring's key nor the author's"):
        node.update()
    assert live(commons) == before


def test_an_author_takes_nothing_out_of_force_though_a_thief_of_the_targets_key_lists_it(
    commons: World, node: Subscriber
) -> None:
    before, publisher = live(commons), commons.publisher
    record = Revocation(pack().digest, "team", 1, "stable", (), "wrong", "removal").data
    item = publisher.steps.record_item("revoke", "team", 1, "stable", record, seed("author"))
    begun = Begun((item,), roles=("stable", "targets"))
    publisher.steps.run((("revoke", "stable/", record),), lambda base: begun, None)
    with pytest.raises(BadRevocation, match="neither the ring's key nor the author's"):
        node.update()
    assert live(commons) == before


def test_what_an_author_takes_back_stays_taken_after_the_ring_s_key_was_replaced(
    commons: World, node: Subscriber
) -> None:
    commons.publisher.revoke("team", 1, why="wrong")
    commons.publisher.revoke("team", 1, why="wrong too", key=seed("author"))
    keys = commons.home / "commons" / "keys"
    text = make_next(keys / "stable.key", lambda size: seed("next").seed[:size])
    commons.publisher.rotate("stable", text)
    assert [row.why for row in node.update().withdrawn] == ["wrong", "wrong too"]


def test_an_author_s_revocation_names_every_version_at_once(commons: World, node: Subscriber) -> None:
    commons.publisher.publish(pack(2, words=("zap", "mow")), "stable")
    commons.publisher.revoke("team", None, why="wrong", rules=("team.zap",), key=seed("author"))
    assert [(row.version, row.rules, row.scope) for row in node.update().withdrawn] == [
        (1, ("team.zap",), "activation"),
        (2, ("team.zap",), "activation"),
    ]
    with pytest.raises(BadPack, match="has no such rule"):
        commons.publisher.revoke("team", None, why="wrong", rules=("team.zpa",), key=seed("author"))
    commons.publisher.revoke("team", None, why="wrong", rules=("team.mow",), key=seed("author"))
    assert [(row.version, row.rules) for row in node.update().withdrawn] == [(2, ("team.mow",))]


def test_a_removal_of_every_version_takes_out_a_rule_that_was_granted_in_an_earlier_one(
    commons: World, node: Subscriber
) -> None:
    home = commons.home / "node"
    installed.grant(home, "team", "stable", None, commons.clock.now_us())
    commons.publisher.publish(pack(2, words=("mow",)), "stable")
    node.update()
    assert states(commons) == {"team.zap": "superseded", "team.mow": "ungranted"}
    commons.publisher.revoke("team", None, why="wrong", rules=("team.zap",), removal=True)
    node.update()
    assert states(commons) == {"team.mow": "ungranted"}
    commons.publisher.publish(pack(3, words=("mow", "zap")), "stable")  # no version that is yet to come
    node.update()
    assert states(commons)["team.zap"] == "granted"


@pytest.mark.parametrize("ring", ["canary", "beta"])
def test_nothing_is_granted_where_no_rule_could_act_on_it(commons: World, ring: str) -> None:
    commons.publisher.publish(pack(name="other"), ring)
    member = commons.member("node")
    member.subscribe("other", ring)
    member.update()
    with pytest.raises(BadPack, match=f"is in {ring}, where no rule blocks or masks"):
        installed.grant(commons.home / "node", "other", ring, None, commons.clock.now_us())
