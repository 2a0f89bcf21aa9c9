"""What a stable pack has to show: each piece of its evidence, and what becomes of it where one is another's."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.base import canonical
from interlock.base.errors import InterlockError
from interlock.base.keys import BadKey, Ed25519Signer
from interlock.commons import release
from interlock.commons.gate import Bench, GateRefused
from interlock.commons.harness import Row
from interlock.commons.ilpack import BadIlpack, export_ilpack, verify_ilpack
from interlock.commons.journal import Loose
from interlock.commons.layout import pack_path, promotion_path
from interlock.commons.pack import BadPack, Pack, build_pack, sha256_hex
from interlock.commons.promotion import NotPromoted, demand_promotion
from interlock.commons.publish import Publisher
from interlock.commons.records import (
    BadRecord,
    Evidence,
    Promotion,
    Review,
    dump_evidence,
    parse_evidence_list,
    parse_promotion,
    parse_review,
    parse_revocation,
)
from interlock.commons.reviewers import Reviewer, Reviewers, parse_reviewers
from interlock.commons.signers import load_keys
from interlock.commons.speakers import Speakers
from interlock.commons.steps import Begun
from interlock.transparency.entry import signed_entry
from interlock.transparency.policy import Checked
from interlock.transparency.proof import parse_proof
from tests.unit.commons_world import REVIEWERS, SIGN_OFF, World, pack, root_of, rule, seed, world

WITHOUT = Bench(without=True)


@pytest.fixture(scope="module")
def commons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two packs in stable, by the real way."""
    with world(tmp_path_factory.mktemp("commons")) as made:
        publisher = plain(made)
        publisher.set_reviewers(REVIEWERS)
        for one in (pack(), pack(name="other")):
            publisher.publish(one, "beta", bench=WITHOUT)
            publisher.review(one.name, "beta", "approve", seed("reviewer"))
            publisher.promote(one.name, 1, "beta", "stable", bench=WITHOUT)
        yield made


def plain(commons: World) -> Publisher:
    return Publisher(commons.home / "commons", commons.log.append, commons.policy, commons.clock)


def ring_key(commons: World) -> Ed25519Signer:
    return load_keys(commons.home / "commons" / "keys", ("stable",))["stable"].key


def evidence(commons: World, of: Pack) -> tuple[Evidence, ...]:
    repository = commons.publisher.steps.repository
    path = promotion_path(pack_path("stable", of.name, of.version))
    data = repository.target("stable", repository.versions()["stable"], path)
    assert data is not None
    return parse_evidence_list(data, path)


def demand(commons: World, of: Pack, rows: tuple[Evidence, ...], listed: Reviewers = REVIEWERS) -> tuple[str, ...]:
    keys = Speakers(frozenset({ring_key(commons).verifier.text}))

    def check(entry: bytes, proof: bytes) -> Checked:
        return parse_proof(proof).verify(entry, commons.policy)

    return demand_promotion(dump_evidence(rows), of, "stable", keys=keys, reviewers=listed.data, check=check).reviewers


def logged(commons: World, kind: str, ring: str, record: bytes, key: Ed25519Signer, name: str = "team") -> Evidence:
    """Evidence that is in the log, whoever says it."""
    item = commons.publisher.steps.record_item(kind, name, 1, ring, record, key)
    return Evidence(item.entry.data, commons.log.append(item.entry.data), record)


def cited(commons: World, gate: Evidence, *reviews: Evidence, key: Ed25519Signer | None = None) -> tuple[Evidence, ...]:
    """A promotion of team that cites these, by a thief of the ring's key."""
    leaves = tuple(row.leaf for row in reviews)
    record = Promotion(pack().digest, "team", 1, "beta", "stable", gate.leaf, leaves).data
    return logged(commons, "promote", "stable", record, key or ring_key(commons)), gate, *reviews


def test_what_was_promoted_shows_who_approved_it(commons: World) -> None:
    assert demand(commons, pack(), evidence(commons, pack())) == ("rita",)


def _review(commons: World, key: Ed25519Signer, **changed: object) -> Evidence:
    said = replace(Review(pack().digest, "team", 1, "beta", "approve", ""), **changed)  # type: ignore[arg-type]
    return logged(commons, "review", "beta", said.data, key)


def test_a_review_with_a_date_before_its_reviewers_term_ended_counts_by_when_witnesses_saw_it(commons: World) -> None:
    now, hour, key = commons.clock.now_us(), 3_600_000_000, seed("reviewer")
    record = Review(pack().digest, "team", 1, "beta", "approve", "").data
    named = {"type": "review", "name": "team", "version": 1, "ring": "beta", "sha256": sha256_hex(record)}
    entry = signed_entry(key, **named, at=now - 2 * hour)  # type: ignore[arg-type]
    backdated = Evidence(entry.data, commons.log.append(entry.data), record)
    rows = cited(commons, evidence(commons, pack())[1], backdated)
    assert demand(commons, pack(), rows, Reviewers({"rita": Reviewer(key.verifier.text, now + hour)})) == ("rita",)
    with pytest.raises(NotPromoted, match="term was over"):
        demand(commons, pack(), rows, Reviewers({"rita": Reviewer(key.verifier.text, now - hour)}))


ATTACKS: dict[str, tuple[Callable[[World], tuple[Evidence, ...]], str]] = {
    "nothing": (lambda w: (), "no promotion"),
    "another pack's promotion": (lambda w: evidence(w, pack(name="other")), "another pack"),
    "another pack's gate, cited": (
        lambda w: cited(w, evidence(w, pack(name="other"))[1], *evidence(w, pack())[2:]),
        "gate's record of another",
    ),
    "another gate than the one cited": (
        lambda w: (evidence(w, pack())[0], evidence(w, pack(name="other"))[1], evidence(w, pack())[2]),
        "not the one that the promotion cites",
    ),
    "another review than the one cited": (
        lambda w: (*evidence(w, pack())[:2], evidence(w, pack(name="other"))[2]),
        "not those that the promotion cites",
    ),
    "no review": (lambda w: cited(w, evidence(w, pack())[1]), "by 0 reviewers"),
    "the review of another pack": (
        lambda w: cited(w, evidence(w, pack())[1], evidence(w, pack(name="other"))[2]),
        "no approval of this pack",
    ),
    "a rejection": (
        lambda w: cited(w, evidence(w, pack())[1], _review(w, seed("reviewer"), verdict="reject")),
        "no approval",
    ),
    "a review of another version's bytes": (
        lambda w: cited(w, evidence(w, pack())[1], _review(w, seed("reviewer"), pack=pack(2).digest)),
        "no approval",
    ),
    "a review by nobody who is listed": (
        lambda w: cited(w, evidence(w, pack())[1], _review(w, seed("stranger"))),
        "may not say this",
    ),
    "a promotion by a stranger": (
        lambda w: cited(w, *evidence(w, pack())[1:], key=seed("stranger")),
        "may not say this",
    ),
    "a gate that is a review": (
        lambda w: cited(w, evidence(w, pack())[2], evidence(w, pack())[2]),
        "gate is needed",
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_evidence_that_is_another_s_does_not_hold(commons: World, name: str) -> None:
    rows, says = ATTACKS[name]
    with pytest.raises(NotPromoted, match=says) as caught:
        demand(commons, pack(), rows(commons))
    assert "\n" not in str(caught.value)


def test_a_review_by_the_pack_s_author_does_not_count_though_listed(commons: World) -> None:
    listed = Reviewers({"ann": Reviewer(seed("author").verifier.text)})
    rows = cited(commons, evidence(commons, pack())[1], _review(commons, seed("author")))
    with pytest.raises(NotPromoted, match="own author"):
        demand(commons, pack(), rows, listed)


def test_one_reviewer_who_approves_twice_is_one(commons: World) -> None:
    both = {"rita": Reviewer(seed("reviewer").verifier.text), "bob": Reviewer(seed("bob").verifier.text)}
    first, second = _review(commons, seed("reviewer")), _review(commons, seed("reviewer"), note="again")
    gate = evidence(commons, pack())[1]
    with pytest.raises(NotPromoted, match="by 1 reviewers, and 2 are needed"):
        demand(commons, pack(), cited(commons, gate, first, second), Reviewers(both, 2))
    rows = cited(commons, gate, first, _review(commons, seed("bob")))
    assert demand(commons, pack(), rows, Reviewers(both, 2)) == ("bob", "rita")


def test_a_term_that_was_over_does_not_count_and_one_that_ended_later_does(commons: World) -> None:
    key, now = seed("reviewer").verifier.text, commons.clock.now_us()
    rows = evidence(commons, pack())
    assert demand(commons, pack(), rows, Reviewers({"rita": Reviewer(key, now + 1)})) == ("rita",)
    with pytest.raises(NotPromoted, match="term was over"):
        demand(commons, pack(), rows, Reviewers({"rita": Reviewer(key, now)}))


def test_what_the_log_has_not_does_not_count(commons: World) -> None:
    promoted, gate, review = evidence(commons, pack())
    said = signed_entry(
        ring_key(commons), type="promote", name="team", version=1, ring="stable", sha256="ab" * 32, at=1
    )
    unlogged = replace(promoted, entry=said.data)
    with pytest.raises(NotPromoted, match="another record"):
        demand(commons, pack(), (unlogged, gate, review))
    with pytest.raises(InterlockError) as caught:
        demand(commons, pack(), (replace(promoted, proof=gate.proof), gate, review))
    assert caught.value.code == "bad-proof"


@pytest.mark.parametrize("borrowed", [False, True])
def test_a_node_refuses_a_stable_pack_that_was_signed_and_logged_but_not_promoted(
    tmp_path: Path, borrowed: bool
) -> None:
    with world(tmp_path) as commons:
        publisher = commons.publisher
        publisher.publish(pack(), "stable")
        node = commons.member("node")
        node.subscribe("team", "stable")
        node.update()
        before = (commons.home / "node" / "live.json").read_bytes()
        path = pack_path("stable", "team", 2)
        steps = publisher.steps
        item = steps.item("pack", "team", 2, "stable", pack(2).data, path, "stable", steps.key("stable"))
        other = Loose(promotion_path(path), "stable", dump_evidence(evidence(commons, pack())))
        begun = Begun((item,), loose=(other,) if borrowed else ())
        publisher.steps.run((("pack", f"stable/{path}", pack(2).data),), lambda base: begun, None)
        with pytest.raises(NotPromoted, match="another pack" if borrowed else "without what a promotion needs"):
            node.update()
        assert (commons.home / "node" / "live.json").read_bytes() == before


# --- the gate --------------------------------------------------------------------------------------------------------


def _corpus(stopped: int) -> Bench:
    rows = [Row("run zap now" if i < stopped else "ls -l", "benign") for i in range(10_000)]
    return Bench(rows, "ab" * 32)


@pytest.mark.parametrize(("ring", "most"), [("canary", 500), ("beta", 100)])
def test_a_ring_s_gate_lets_through_what_blocks_few_harmless_commands(tmp_path: Path, ring: str, most: int) -> None:
    with world(tmp_path) as commons:
        publisher = plain(commons)
        before = len(commons.log.calls)
        with pytest.raises(GateRefused, match=f"blocks {most + 1} of 10000 harmless commands"):
            publisher.publish(pack(), ring, bench=_corpus(most + 1))
        assert len(commons.log.calls) == before
        assert publisher.publish(pack(), ring, bench=_corpus(most)).entry.ring == ring


def test_a_pack_without_a_sign_off_passes_no_gate(tmp_path: Path) -> None:
    bare = build_pack("team", 1, [rule("team.zap", "zap")], licence="MIT", authors=["A"])
    with world(tmp_path) as commons, pytest.raises(GateRefused, match="sign-off"):
        plain(commons).publish(bare, "canary")


WARNED = {
    "commands": "run zap now",
    "strings": "canary-zap-7f",
    "hosts": "zap.example.org",
    "packages": "npm:left-zap",
    "digests": "host:" + "ab" * 32,
}


@pytest.mark.parametrize("name", WARNED)
def test_a_pack_that_hits_a_warning_list_is_not_promoted(tmp_path: Path, name: str) -> None:
    lists = {"commands": ["git status"], name: ["ok.example", WARNED[name]]}
    warning = build_pack(
        "warning-own", 1, [], kind="warning", licence="CC0-1.0", authors=["A"], signed_off_by=[SIGN_OFF], lists=lists
    )
    when: dict[str, object] = {"arg": "command", "contains": "zap"}
    if name == "digests":
        when = {"detector": "indicator", "params": {"kind": "host", "digests": ["ab" * 32]}}
    hits = {**rule("team.zap", "zap", verdict="escalate"), "when": when, "shadow": True}
    hits["examples"] = {"fires": [], "passes": [{"action": "Bash", "args": {"command": "ls"}}]}
    if name != "digests":
        hits["examples"] = rule("team.zap", "zap")["examples"]
    kind = "indicator" if name == "digests" else "policy"
    called = "indicator-zap" if name == "digests" else "team"
    bad = build_pack(called, 1, [hits], kind=kind, licence="MIT", authors=["A"], signed_off_by=[SIGN_OFF])  # type: ignore[arg-type]
    with world(tmp_path) as commons:
        publisher = plain(commons)
        publisher.publish(bad, "beta", bench=WITHOUT)
        publisher.publish(warning, "beta", bench=WITHOUT)
        publisher.set_reviewers(REVIEWERS)
        publisher.review(called, "beta", "approve", seed("reviewer"))
        with pytest.raises(GateRefused, match=f"hits row 1 of {name} in warning-own version 1") as caught:
            publisher.promote(called, 1, "beta", "stable", bench=WITHOUT)
        assert WARNED[name] not in str(caught.value)


# --- taking back -----------------------------------------------------------------------------------------------------


def test_a_revoked_version_is_neither_promoted_nor_taken_by_a_new_node(tmp_path: Path) -> None:
    with world(tmp_path) as commons:
        publisher = plain(commons)
        publisher.publish(pack(), "beta", bench=WITHOUT)
        publisher.set_reviewers(REVIEWERS)
        publisher.review("team", "beta", "approve", seed("reviewer"))
        publisher.revoke("team", 1, why="it was wrong", key=seed("author"))
        with pytest.raises(BadPack, match="taken back"):
            publisher.promote("team", 1, "beta", "stable", bench=WITHOUT)
        with pytest.raises(BadPack, match="1 is out in beta"):
            publisher.publish(pack(), "beta", bench=WITHOUT)


# --- one file, and any bytes -----------------------------------------------------------------------------------------


def test_any_byte_of_an_ilpack_that_is_changed_is_one_line(commons: World) -> None:
    good = export_ilpack(commons.public, "team", 1, "stable")
    shown = verify_ilpack(good, commons.root, commons.policy, "f")
    assert (shown.pack, shown.ring, shown.log_index) == (pack(), "stable", shown.log_index)
    for at in range(0, len(good), max(1, len(good) // 150)):
        bad = bytearray(good)
        bad[at] ^= 1
        with pytest.raises(BadIlpack) as caught:
            verify_ilpack(bytes(bad), commons.root, commons.policy, "f")
        assert "\n" not in str(caught.value)


def test_an_ilpack_is_nothing_under_another_root(commons: World) -> None:
    data = export_ilpack(commons.public, "team", 1, "stable")
    online = {role: seed(role).verifier for role in ("targets", "snapshot", "timestamp")}
    with pytest.raises(BadIlpack, match="another than the root"):
        verify_ilpack(data, root_of(online, commons.clock), commons.policy, "f")
    for root in (b"", b"{}", data[:1000]):
        with pytest.raises(BadIlpack):
            verify_ilpack(data, root, commons.policy, "f")


def test_a_pack_in_beta_is_no_pack_in_stable(commons: World) -> None:
    data = json.loads(export_ilpack(commons.public, "team", 1, "beta"))
    assert verify_ilpack(canonical.encode(data), commons.root, commons.policy, "f").promoted is None
    stable = json.loads(export_ilpack(commons.public, "team", 1, "stable"))
    for field in ("entry", "proof", "promotion"):
        with pytest.raises(BadIlpack):
            verify_ilpack(canonical.encode({**stable, field: data[field] or None}), commons.root, commons.policy, "f")


PARSERS: dict[str, Callable[[bytes], object]] = {
    "evidence": lambda d: parse_evidence_list(d, "f"),
    "review": lambda d: parse_review(d, "f"),
    "promotion": lambda d: parse_promotion(d, "f"),
    "revocation": lambda d: parse_revocation(d, "f"),
    "reviewers": lambda d: parse_reviewers(d, "f"),
}


@pytest.mark.parametrize("name", PARSERS)
def test_records_with_any_byte_changed_raise_their_own_error_or_read(commons: World, name: str) -> None:
    promoted, _, review = evidence(commons, pack())
    good = {
        "evidence": dump_evidence([promoted]),
        "review": review.record,
        "promotion": promoted.record,
        "revocation": b'{"format":"interlock-revocation","name":"t","pack":"'
        + b"ab" * 32
        + b'","ring":"beta","rules":["a"],"scope":"removal","v":1,"version":1,"why":"w"}',
        "reviewers": REVIEWERS.data,
    }[name]
    PARSERS[name](good)
    tried = [good[:at] + bytes([good[at] ^ bit]) + good[at + 1 :] for at in range(len(good)) for bit in (1, 0x20, 0x80)]
    for data in (*tried, b"", b"[]x", b"[" * 10_000, b"null", b"{}", good[:-1]):
        with contextlib.suppress(BadRecord):
            PARSERS[name](data)


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


def test_a_warning_list_that_was_taken_back_holds_no_pack_up(fresh: World) -> None:
    publisher = plain(fresh)
    publisher.publish(build_pack("warning-all", 1, [], licence="MIT", authors=["A"], signed_off_by=[SIGN_OFF],
        kind="warning", lists={"commands": ["run zap"]}), "beta", bench=WITHOUT)  # fmt: skip
    with pytest.raises(GateRefused, match="hits row 0 of commands in warning-all"):
        publisher.publish(pack(), "beta", bench=WITHOUT)
    publisher.revoke("warning-all", 1, why="it warned of everything")
    publisher.publish(pack(), "beta", bench=WITHOUT)


def test_an_author_takes_nothing_out_of_force_and_says_nothing_twice(
    fresh: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher, author = plain(fresh), seed("author")
    for name in ("team", "other"):
        made = build_pack(name, 1, [rule(f"{name}.zap", "zap")], licence="MIT", authors=["A"],
            signed_off_by=[SIGN_OFF], author_key=author.verifier.text)  # fmt: skip
        publisher.publish(made, "beta", bench=WITHOUT)
    size = fresh.log.log.size
    with pytest.raises(BadKey, match="an author's"):
        publisher.revoke("team", 1, why="wrong", removal=True, key=author)
    assert fresh.log.log.size == size
    publisher.revoke("team", 1, why="wrong", key=author)
    publisher.revoke("other", 1, why="wrong", key=author)
    size = fresh.log.log.size
    with pytest.raises(BadRecord, match="just so already"):
        publisher.revoke("team", 1, why="wrong", key=author)
    monkeypatch.setattr(release, "MAX_EVIDENCE", 1000)
    with pytest.raises(BadRecord, match="no room"):
        publisher.revoke("team", 1, why="wrong for another reason", key=author)
    assert fresh.log.log.size == size
