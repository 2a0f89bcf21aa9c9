"""What a batch lets the collector say, what many statements bring into force, and what neither few nor liars can do."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.base import canonical
from interlock.base.codec import Malformed
from interlock.base.errors import BadInput
from interlock.base.keys import Ed25519Signer, Ed25519Verifier
from interlock.base.organisations import DEMO_LEAST, LEAST
from interlock.base.primitives import BadSignature
from interlock.commons.consensus import (
    DAYS_MOST,
    Statement,
    TooFew,
    demand_collector,
    needed,
    parse_consensus,
    standing,
    stated,
)
from interlock.commons.enrolment import IssuedCount, OverIssued, dump_count, parse_count
from interlock.commons.indicators import FALSE_POSITIVES, SIGHTINGS, Catalog, build_catalog
from interlock.commons.membership import BLIND, CERTIFICATE, MemberKeys, TaskMembership, build_member_keys
from interlock.commons.operators import Operator, Operators, parse_operators
from interlock.dap.messages import LEADER_SELECTED, Interval
from interlock.dap.noise import Mechanism, Noise
from interlock.dap.task import Task, TaskRefused, new_configuration, task_of
from interlock.dap.vdaf.circuits import SumVec, best_chunk_length
from interlock.dap.vdaf.prio3 import Prio3
from interlock.engine.detectors.indicator import indicator_of
from interlock.engine.evaluate import evaluate
from interlock.engine.event import SensorEvent
from interlock.engine.policy.load import compile_rules
from interlock.engine.policy.model import Policy, Source
from interlock.node.roles.curate import Batch, demand_of_task, demotion, pack_of, statement_of

HOST = indicator_of("host", "evil.example.com")
OTHER = indicator_of("host", "other.example.com")
PACKAGE = indicator_of("package", "npm:evil@*")
PLACES = (HOST, OTHER, PACKAGE)
DAY = 86_400_000_000
EPOCH = 20_000  # of a day each
ISSUER = Ed25519Signer(b"\1" * 32)
COLLECTOR = Ed25519Signer(b"\3" * 32)


def catalog(
    counts: str = SIGHTINGS, *, task: str = "hosts-1", rules: tuple[str, ...] = ("fs.destroy",), opens_at: int = 0
) -> Catalog:
    return build_catalog(task, opens_at=opens_at, rules=rules, indicators=PLACES, counts=counts)


def said(
    *places: str,
    counted: Catalog | None = None,
    at_least: int = 20,
    age: int = 0,
    end: int = EPOCH + 1,
    days: int = 90,
    shown: str = BLIND,
    demo: bool = False,
    task_id: str = "ab" * 32,
) -> Statement:
    return stated(
        counted or catalog(),
        places,
        COLLECTOR,
        task_id=task_id,
        at_least=at_least,
        shown=shown,
        least_age=age,
        start=(end - 1) * DAY,
        end=end * DAY,
        until=(end + days) * DAY,
        demo=demo,
    )


def now(day: int = EPOCH + 2) -> int:
    return day * DAY


# --- statements ---------------------------------------------------------------------------------------------------


def test_a_statement_reads_back_and_holds_no_number_but_the_threshold() -> None:
    made = said(HOST, PACKAGE)
    assert parse_consensus(made.data, where="s") == made
    body = json.loads(made.data)
    assert body["places"] == [HOST, PACKAGE]
    assert not {"sums", "report_count", "reports"} & body.keys()


def test_a_statement_is_its_collectors_word_and_a_change_of_any_field_undoes_it() -> None:
    made = said(HOST, PACKAGE)
    assert made.collector == COLLECTOR.verifier.text
    body = json.loads(made.data)
    assert body["collector"] == made.collector
    changes = {"at_least": 40, "least_age": 180, "until": made.until + 1, "places": [HOST], "task": "hosts-2"}
    changes |= {"start": 0, "end": made.end - 1, "counts": FALSE_POSITIVES, "shown": CERTIFICATE, "demo": True}
    changes |= {"catalog": "cd" * 32, "task_id": "cd" * 32, "collector": ISSUER.verifier.text}
    assert set(changes) == set(body) - {"format", "v", "sig"}
    for field, value in changes.items():
        with pytest.raises(BadSignature):
            parse_consensus(canonical.encode({**body, field: value}), where="s")
    body.pop("sig")
    with pytest.raises(Malformed, match="has not the fields"):
        parse_consensus(canonical.encode(body), where="s")


def test_a_statement_counts_in_the_word_of_its_tasks_collector_and_of_no_other() -> None:
    made, named = said(HOST), COLLECTOR.verifier.text
    rival = Ed25519Signer(b"\4" * 32).verifier.text
    roles = {"collector": (named, rival)}
    listed = Operators(1, (Operator("shares.example", "Shares", roles), Operator("enrol.example", "Enrol", {})))
    for operators in (listed, parse_operators(listed.data, where="o")):
        assert demand_collector(made, named, operators) == "shares"
    assert demand_collector(made, named, None) == named
    issuers = Operators(1, (Operator("a", "A", {"issuer": (named,)}),))
    refused: list[tuple[str | None, Operators | None, str]] = [
        (rival, listed, f"is signed by {named}, and its task's collector is {rival}"),  # listed both, and one's own
        (rival, None, "its task's collector is"),
        (None, listed, "names no collector"),
        (named, issuers, "lists as no collector's"),
    ]
    for key, published, told in refused:
        with pytest.raises(BadSignature, match=told) as caught:
            demand_collector(made, key, published)
        assert "\n" not in str(caught.value)


def test_a_statement_is_held_against_its_very_task() -> None:
    task = certified(catalog())
    batch = Batch(25, EPOCH, EPOCH + 1, SUMS)
    made = statement_of(task, catalog(), batch, COLLECTOR, threshold=10, days=1, keys=keys())
    assert demand_of_task(made, task, None) == COLLECTOR.verifier.text
    fields = [f.name for f in dataclasses.fields(made) if f.name not in ("collector", "data", "task", "places")]
    values = {name: getattr(made, name) for name in fields if name not in ("catalog", "counts")}
    lies: list[tuple[Catalog, dict[str, object], str]] = [
        (catalog(), {"task_id": "cd" * 32}, "is of another task"),
        (catalog(rules=()), {}, "is of a catalog that is not the one of its task"),
        (catalog(), {"demo": True}, "is a demonstration's"),
        (catalog(), {"shown": BLIND}, "is shown by another proof"),
        (catalog(), {"start": made.start - DAY}, "is of no one epoch"),
        (catalog(), {"start": made.start + 1}, "is of no one epoch"),
    ]
    for counted, lie, told in lies:
        lied = stated(counted, (HOST,), COLLECTOR, **{**values, **lie})
        with pytest.raises(Malformed, match=told):
            demand_of_task(lied, task, None)
    dearer = dataclasses.replace(task, config=dataclasses.replace(task.config, min_batch_size=11))
    selected = dataclasses.replace(task, config=dataclasses.replace(task.config, batch_mode=LEADER_SELECTED))
    others = [(dearer, "fewer organisations than its task's floor"), (selected, "whose batches count reports")]
    for interval in (Interval(EPOCH + 1, 9), Interval(EPOCH - 9, 9)):
        others.append((dataclasses.replace(task, interval=interval), "in which its task did not run"))
    for other, told in others:
        with pytest.raises(Malformed, match=told):
            demand_of_task(made, other, None)
    for interval in (Interval(EPOCH, 1), Interval(EPOCH - 9, 10)):
        demand_of_task(made, dataclasses.replace(task, interval=interval), None)


def test_a_collector_signs_nothing_with_a_key_that_its_task_does_not_name() -> None:
    batch, rival = Batch(25, EPOCH, EPOCH + 1, SUMS), Ed25519Signer(b"\4" * 32)
    for task, told in (
        (certified(catalog()), "names ed25519:"),
        (certified(catalog(), key=None), "names no collector"),
    ):
        with pytest.raises(TaskRefused, match=told):
            statement_of(task, catalog(), batch, rival, threshold=10, days=1, keys=keys())


@given(st.binary(max_size=300))
def test_any_bytes_are_no_statement_in_one_line(data: bytes) -> None:
    with pytest.raises(Malformed) as caught:
        parse_consensus(data, where="s")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        {"at_least": LEAST - 1},
        {"at_least": DEMO_LEAST - 1, "demo": True},
        {"age": 31},
        {"shown": "hearsay"},
        {"days": -5},
        {"days": DAYS_MOST + 1},
    ],
)
def test_a_statement_that_cannot_be_is_refused(values: dict[str, int]) -> None:
    with pytest.raises(Malformed):
        said(HOST, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("places", [("path:/etc/passwd",), (HOST, HOST), ("host:xyz",), ([],)])
def test_a_statement_of_places_that_cannot_be_is_refused(places: tuple[str, ...]) -> None:
    with pytest.raises(Malformed):
        said(*places)


# --- from a batch to its statement --------------------------------------------------------------------------------


def task(
    counted: Catalog,
    *,
    membership: bool = True,
    noise: Noise | None = None,
    least: int = LEAST,
    key: Ed25519Verifier | None = COLLECTOR.verifier,
) -> Task:
    length = len(counted.places)
    return task_of(
        new_configuration(
            catalog_digest=bytes.fromhex(counted.digest),
            leader_url="https://leader.test/dap",
            helper_url="https://helper.test/dap",
            time_precision=86_400,
            min_batch_size=least,
            vdaf_config=Prio3(SumVec(length, 1, best_chunk_length(length))).vdaf_config,
            membership=TaskMembership(BLIND, counted.task).encode() if membership else None,
            noise=noise,
            statement_key=key,
        )
    )


def keys(epoch: int = EPOCH, *, age: int = 0, name: str = "hosts-1", backend: str = CERTIFICATE) -> MemberKeys:
    return build_member_keys(
        ISSUER,
        task=name,
        epoch=epoch,
        backend=backend,
        operator="enrol.example",
        closes_at=DAY,
        token_key=b"",
        least_age=age,
    )


def certified(counted: Catalog, *, key: Ed25519Verifier | None = COLLECTOR.verifier) -> Task:
    """A task with certificates, whose member keys need no RSA key."""
    found = task(counted, key=key)
    return dataclasses.replace(found, membership=TaskMembership(CERTIFICATE, counted.task).encode())


def count(
    issued: int, *, enrolled: int | None = None, epoch: int = EPOCH, signer: Ed25519Signer = ISSUER
) -> IssuedCount:
    enrolled = issued if enrolled is None else enrolled
    return parse_count(
        dump_count(signer, task="hosts-1", epoch=epoch, issued=issued, enrolled=enrolled, final=True, at=1)
    )


SUMS = (12, 20, 19, 0)


def test_a_batch_says_what_enough_saw_and_by_members_of_what_age() -> None:
    made = statement_of(
        certified(catalog()),
        catalog(),
        Batch(25, EPOCH, EPOCH + 1, SUMS),
        COLLECTOR,
        threshold=15,
        days=30,
        keys=keys(age=30),
        count=count(25),
    )
    assert (made.places, made.at_least, made.least_age) == ((HOST, OTHER), 15, 30)
    assert (made.start, made.end, made.until) == (EPOCH * DAY, (EPOCH + 1) * DAY, (EPOCH + 31) * DAY)
    assert (made.shown, made.demo) == (CERTIFICATE, False)


def test_a_batch_of_several_epochs_would_count_an_organisation_twice_and_is_refused() -> None:
    batch = Batch(25, EPOCH, EPOCH + 2, SUMS)
    with pytest.raises(BadInput, match="covers 2 epochs, and an organisation counts once in each"):
        statement_of(certified(catalog()), catalog(), batch, COLLECTOR, threshold=10, days=1, keys=keys())


@pytest.mark.parametrize("other", [None, keys(EPOCH + 1), keys(name="hosts-2")])
def test_without_the_epochs_member_keys_nobody_is_trusted(other: MemberKeys | None) -> None:
    batch = Batch(25, EPOCH, EPOCH + 1, SUMS)
    with pytest.raises(BadInput, match=f"epoch {EPOCH}: has no member keys here"):
        statement_of(certified(catalog()), catalog(), batch, COLLECTOR, threshold=10, days=1, keys=other)


def test_sums_at_one_below_the_floor_show_nothing_and_fewer_reports_say_so() -> None:
    batch = Batch(12, EPOCH, EPOCH + 1, (9, 9, 9, 9))
    made = statement_of(certified(catalog()), catalog(), batch, COLLECTOR, threshold=10, days=1, keys=keys())
    assert made.places == ()
    for reports in (9, 0):
        few = Batch(reports, EPOCH, EPOCH + 1, (0, 0, 0, 0))
        with pytest.raises(TooFew, match=f"has reports of {reports} organisations, and 10 are needed"):
            statement_of(certified(catalog()), catalog(), few, COLLECTOR, threshold=10, days=1, keys=keys())


def test_no_threshold_goes_below_the_floor_of_its_task() -> None:
    batch = Batch(25, EPOCH, EPOCH + 1, SUMS)
    with pytest.raises(BadInput, match="under the task's own floor of 10"):
        statement_of(certified(catalog()), catalog(), batch, COLLECTOR, threshold=9, days=1, keys=keys())


def test_a_catalog_that_was_swapped_between_report_and_collection_is_refused() -> None:
    swapped = build_catalog("hosts-1", opens_at=0, rules=["fs.destroy"], indicators=(OTHER, HOST, PACKAGE))
    assert len(swapped.places) == len(catalog().places)
    batch = Batch(25, EPOCH, EPOCH + 1, SUMS)
    with pytest.raises(TaskRefused, match="counts by another catalog"):
        statement_of(certified(catalog()), swapped, batch, COLLECTOR, threshold=10, days=1, keys=keys())


def test_an_issuer_that_gave_out_more_than_it_has_members_is_shown_to_have() -> None:
    batch = Batch(25, EPOCH, EPOCH + 1, SUMS)
    over = count(26, enrolled=25)
    with pytest.raises(OverIssued, match="26 credentials were given out to 25 organisations"):
        statement_of(certified(catalog()), catalog(), batch, COLLECTOR, threshold=10, days=1, keys=keys(), count=over)


def test_a_batch_with_more_reports_than_its_issuer_says_is_refused() -> None:
    batch = Batch(25, EPOCH, EPOCH + 1, SUMS)
    with pytest.raises(OverIssued, match="25 reports were collected, and 24 credentials given out"):
        statement_of(
            certified(catalog()), catalog(), batch, COLLECTOR, threshold=10, days=1, keys=keys(), count=count(24)
        )


@pytest.mark.parametrize("other", [count(25, epoch=EPOCH + 1), count(25, signer=Ed25519Signer(b"\2" * 32))])
def test_a_count_of_another_issuer_or_epoch_says_nothing(other: IssuedCount) -> None:
    batch = Batch(25, EPOCH, EPOCH + 1, SUMS)
    with pytest.raises(BadInput, match="no count of this batch"):
        statement_of(certified(catalog()), catalog(), batch, COLLECTOR, threshold=10, days=1, keys=keys(), count=other)


def test_noisy_sums_may_lie_outside_the_reports() -> None:
    noisy = task(catalog(), membership=False, noise=Noise(Mechanism.LAPLACE, Fraction(1), Fraction(4)))
    made = statement_of(noisy, catalog(), Batch(25, EPOCH, EPOCH + 1, (-3, 27, 9, 10)), COLLECTOR, threshold=10, days=1)
    assert made.places == (HOST, PACKAGE)


# --- what stands --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("age", "organisations"), [(0, 20), (30, 15), (180, 10)])
def test_the_younger_the_members_the_more_organisations_it_takes(age: int, organisations: int) -> None:
    assert needed(age) == organisations
    assert HOST in standing([said(HOST, at_least=organisations, age=age)], [catalog()], now()).accepted


@pytest.mark.parametrize(("age", "organisations"), [(0, 19), (30, 14), (0, 10)])
def test_one_organisation_less_than_it_takes_brings_nothing_into_force(age: int, organisations: int) -> None:
    few = said(HOST, at_least=organisations, age=age)
    found = standing([few], [catalog()], now())
    assert (dict(found.accepted), found.weak) == ({}, (few.digest,))


def test_reports_that_prove_nothing_and_demonstrations_bring_nothing_into_force() -> None:
    unproven, demo = said(HOST, shown=""), said(OTHER, at_least=DEMO_LEAST, demo=True)
    found = standing([unproven, demo], [catalog()], now())
    assert not found.accepted
    assert set(found.weak) == {unproven.digest, demo.digest}
    assert set(standing([demo], [catalog()], now(), demo=True).accepted) == {OTHER}


def test_an_indicator_ends_unless_it_is_seen_again() -> None:
    once = said(HOST, OTHER, days=10)
    again = said(HOST, end=EPOCH + 8, days=10)
    found = standing([once, again], [catalog()], now(EPOCH + 11))
    assert (set(found.accepted), set(found.ended)) == ({HOST}, {OTHER})
    late = standing([again, once], [catalog()], now(EPOCH + 18))
    assert (set(late.accepted), set(late.ended)) == (set(), {HOST, OTHER})


def test_a_rule_s_place_is_no_indicator() -> None:
    assert not standing([said("rule:fs.destroy")], [catalog()], now()).accepted


WRONG = catalog(FALSE_POSITIVES, task="wrong-1")


def wrong(*places: str, at_least: int = 20, age: int = 0, end: int = EPOCH + 1, days: int = 90) -> Statement:
    return said(*places, counted=WRONG, at_least=at_least, age=age, end=end, days=days)


def test_as_many_as_accepted_a_place_can_dispute_it() -> None:
    found = standing([said(HOST, OTHER), wrong(HOST)], [catalog(), WRONG], now())
    assert (set(found.accepted), set(found.disputed)) == ({OTHER}, {HOST})


@pytest.mark.parametrize("few", [wrong(HOST, at_least=15, age=30), wrong(HOST, at_least=10, age=180)])
def test_fewer_than_accepted_a_place_cannot_take_it_away(few: Statement) -> None:
    found = standing([said(HOST, at_least=20), few], [catalog(), WRONG], now())
    assert (set(found.accepted), dict(found.disputed)) == ({HOST}, {})


def test_a_dispute_of_the_young_is_too_weak_however_many_words_it_has() -> None:
    statements = [said(HOST, at_least=10, age=180), *(wrong(HOST, at_least=19, end=EPOCH + n) for n in range(1, 9))]
    found = standing(statements, [catalog(), WRONG], now(EPOCH + 9))
    assert (set(found.accepted), len(found.weak)) == ({HOST}, 8)


def test_the_order_of_words_does_not_matter() -> None:
    for end in (EPOCH - 3, EPOCH + 5):
        found = standing([said(HOST), wrong(HOST, end=end)], [catalog(), WRONG], now(EPOCH + 6))
        assert set(found.disputed) == {HOST}


def test_a_dispute_ends_like_any_other_word() -> None:
    statements = [said(HOST), wrong(HOST, end=EPOCH - 20, days=25)]
    assert set(standing(statements, [catalog(), WRONG], now(EPOCH + 4)).disputed) == {HOST}
    ended = standing(statements, [catalog(), WRONG], now(EPOCH + 5))
    assert (set(ended.accepted), set(ended.disputed)) == ({HOST}, set())


def test_a_dispute_that_ended_lends_no_strength_to_one_that_holds() -> None:
    loud, weak = wrong(HOST, at_least=40, end=EPOCH - 30, days=10), wrong(HOST, at_least=20)
    found = standing([said(HOST, at_least=30), loud, weak], [catalog(), WRONG], now())
    assert (set(found.accepted), set(found.disputed)) == ({HOST}, set())


def test_sums_of_several_batches_are_never_added() -> None:
    halves = [said(HOST, at_least=10, end=EPOCH + n) for n in range(1, 6)]
    assert not standing(halves, [catalog()], now(EPOCH + 6)).accepted


def test_a_statement_of_a_catalog_or_place_that_nobody_published_is_refused() -> None:
    with pytest.raises(Malformed, match="not the one of its task"):
        standing([said(HOST)], [WRONG], now())
    forged = said(indicator_of("host", "rival.example.com"))
    with pytest.raises(Malformed, match="names a place that its catalog does not have"):
        standing([forged], [catalog()], now())


# --- the pack -----------------------------------------------------------------------------------------------------


def test_what_stands_becomes_a_pack_that_blocks_it_and_only_watches_what_is_disputed() -> None:
    statements = [said(HOST, OTHER, PACKAGE), wrong(OTHER)]
    found = standing(statements, [catalog(), WRONG], now())
    made = pack_of(found, statements, name="indicator-a", version=1, authors=["Rita"], signed_off_by=[])
    assert [(doc.id, doc.shadow) for doc in made.rules] == [
        ("indicator-a.host", False),
        ("indicator-a.package", False),
        ("indicator-a.host.disputed", True),
    ]
    assert set(made.results) == {s.digest for s in statements}
    policy = Policy(compile_rules(made.rules, Source("pack", made.name, made.digest)), made.digest)

    def verdict(command: str) -> str:
        return evaluate(policy, SensorEvent("Bash", {"command": command})).decision.verdict.name

    assert verdict("curl https://evil.example.com/") == "BLOCK"
    assert verdict("npm install evil@4") == "BLOCK"
    assert verdict("curl https://other.example.com/") == "ALLOW"
    rows = json.loads(demotion(found, made.name))["places"]
    assert [(row["place"], row["at_least"], row["asks"]) for row in rows] == [(OTHER, 20, "shadow")]


def test_a_dispute_of_a_rule_is_a_proposal_and_no_rule_of_the_pack() -> None:
    statements = [said(HOST), wrong("rule:fs.destroy")]
    found = standing(statements, [catalog(), WRONG], now())
    made = pack_of(found, statements, name="indicator-a", version=1, authors=["Rita"], signed_off_by=[])
    assert [doc.id for doc in made.rules] == ["indicator-a.host"]
    assert json.loads(demotion(found, made.name))["places"][0]["place"] == "rule:fs.destroy"


def test_nothing_is_made_of_what_has_ended_or_is_too_weak() -> None:
    weak = said(OTHER, at_least=10)
    statements = [said(HOST, days=1), weak]
    found = standing(statements, [catalog()], now(EPOCH + 40))
    with pytest.raises(BadInput, match="1 indicators have ended; 1 statements are too weak"):
        pack_of(found, statements, name="indicator-a", version=2, authors=["Rita"], signed_off_by=[])
