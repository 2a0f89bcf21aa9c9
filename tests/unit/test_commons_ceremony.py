"""The root ceremony: only enough different keyholders together make a root, in whatever order they sign."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tuf.api.metadata import Metadata, Root  # type: ignore[attr-defined]

from interlock.base.clock import ManualClock
from interlock.base.keys import BadKey, Ed25519Signer, Ed25519Verifier, MlDsaSigner, load_key
from interlock.commons.ceremony import Assembled, Request, assemble, new_keys, parse_request, request_of, sign_request
from interlock.commons.holders import (
    CeremonyRefused,
    Holder,
    default_threshold,
    demand_holders,
    dump_card,
    holders_of,
    least_holders,
    parse_card,
    read_root,
)
from interlock.commons.layout import TOP_ROLES
from interlock.commons.pack import sha256_hex
from interlock.commons.rootplan import Plan, expiry_us, finish_root, plan_of
from interlock.commons.signers import tuf_key, tuf_signature
from interlock.commons.transcript import aloud, demand_transcript, signers_of, words_of
from tests.unit.commons_world import HOLDERS, Counter, seed

NOW: Final = ManualClock().now_us()
FIVE: Final = ("ada", "ben", "cleo", "dora", "emil")


def ml_dsa(name: str) -> MlDsaSigner:
    return MlDsaSigner(65, seed(f"ml-dsa {name}").seed)


def holder(name: str, employer: str | None = None, *, hybrid: bool = False, key: str = "") -> Holder:
    keys = (seed(f"holder {key or name}").verifier, *((ml_dsa(name).verifier,) if hybrid else ()))
    return Holder(name, f"{name}'s employer" if employer is None else employer, "2026-01-01", "2036-01-01", keys)


def online(generation: int = 1) -> dict[str, Ed25519Verifier]:
    return {role: seed(f"{role} {generation}").verifier for role in TOP_ROLES}


def a_plan(*names: str, threshold: int = 2, hybrid: bool = False) -> Plan:
    holders = tuple(holder(name, hybrid=hybrid) for name in names or HOLDERS)
    return Plan(holders, online(), threshold, expiry_us("root", NOW))


def first(plan: Plan | None = None) -> Request:
    return request_of(plan or a_plan(), None, NOW)


def signed(request: Request, *names: str) -> list[tuple[str, bytes]]:
    """Signature files by the Ed25519 keys of these holders."""
    return [(f"{name}.signature", sign_request(request, seed(f"holder {name}"))[1]) for name in names]


def pq_signed(request: Request, *names: str) -> list[tuple[str, bytes]]:
    """Signature files by the ML-DSA keys of these holders."""
    return [(f"{name}.pq.signature", sign_request(request, ml_dsa(name))[1]) for name in names]


def done(request: Request, *names: str) -> Assembled:
    return assemble(request, signed(request, *names), NOW)


def refused(request: Request, files: list[tuple[str, bytes]], match: str) -> None:
    with pytest.raises(CeremonyRefused, match=match) as caught:
        assemble(request, files, NOW)
    assert "\n" not in str(caught.value)


# a root


def test_two_of_three_keyholders_make_a_root() -> None:
    root = done(first(), "ada", "cleo").root
    assert plan_of(root) == a_plan()
    assert json.loads(root)["signed"]["roles"]["root"]["threshold"] == 2
    assert signers_of(root, None) == ("ada", "cleo")


def test_holders_their_employers_and_their_terms_stand_in_what_is_signed() -> None:
    root = read_root(done(first(), "ada", "ben").root, "root").signed
    assert holders_of(root) == a_plan().holders
    assert {h.employer for h in holders_of(root)} == {f"{name}'s employer" for name in HOLDERS}


ASKED: Final = first(a_plan(*FIVE, threshold=3))
SIGNATURES: Final = signed(ASKED, *FIVE)


@given(st.permutations(range(5)), st.integers(3, 5))
def test_in_whatever_order_signatures_come_the_root_is_the_same(order: list[int], count: int) -> None:
    chosen = [SIGNATURES[i] for i in order][:count]
    assert assemble(ASKED, chosen, NOW) == assemble(ASKED, sorted(chosen), NOW)


@given(st.sets(st.integers(0, 4), max_size=2))
def test_fewer_than_the_threshold_make_no_root(chosen: set[int]) -> None:
    with pytest.raises(CeremonyRefused, match="3 have to sign"):
        assemble(ASKED, [SIGNATURES[i] for i in chosen], NOW)


def test_a_key_s_second_signature_is_refused_also_as_another_file() -> None:
    request = first()
    ada, again = (signed(request, "ada")[0] for _ in range(2))
    refused(request, [ada, ("copy", again[1])], "second signature, beside ada.signature")


def test_a_stranger_s_signature_is_refused_when_made_and_when_brought() -> None:
    with pytest.raises(CeremonyRefused, match="no key of this root"):
        signed(first(), "mallory")
    other = first(a_plan("mallory", "ben", "cleo"))
    file = json.loads(signed(other, "mallory")[0][1])
    file["request"] = first().digest
    refused(first(), [("m", json.dumps(file).encode())], "key that is unknown")


def test_a_signature_over_other_bytes_is_refused() -> None:
    later = request_of(dataclasses.replace(a_plan(), expires_us=expiry_us("root", NOW) + 10**6), None, NOW)
    refused(first(), signed(later, "ada", "ben"), "signs other bytes")
    relabelled = json.loads(signed(later, "ada")[0][1]) | {"request": first().digest}
    refused(first(), [("ada", json.dumps(relabelled).encode())], "not ada's signature over this request")


def test_a_signature_under_another_holder_s_name_is_refused() -> None:
    body = json.loads(signed(first(), "ada")[0][1]) | {"holder": "ben"}
    refused(first(), [("x", json.dumps(body).encode())], "names another holder than ada")


@pytest.mark.parametrize("size", [0, 1, 40, 200, -2])
def test_a_half_written_signature_is_said_to_be_one(size: int) -> None:
    name, data = signed(first(), "ada")[0]
    refused(first(), [(name, data[:size])], "half-written")


def test_a_newer_signature_s_format_is_refused_in_one_line() -> None:
    body = json.loads(signed(first(), "ada")[0][1]) | {"v": 3}
    with pytest.raises(Exception, match="upgrade interlock"):
        assemble(first(), [("x", json.dumps(body).encode())], NOW)


# who may be a circle


def test_a_quorum_of_one_is_refused() -> None:
    with pytest.raises(CeremonyRefused, match="threshold of 1 lets one person"):
        first(a_plan(threshold=1))


def test_a_quorum_of_one_is_refused_at_the_end_too() -> None:
    body = json.loads(done(first(), "ada", "ben").root)
    body["signed"]["roles"]["root"]["threshold"] = 1
    with pytest.raises(CeremonyRefused, match="threshold of 1"):
        finish_root(json.dumps(body).encode())


def test_a_quorum_larger_than_the_circle_is_refused() -> None:
    with pytest.raises(CeremonyRefused, match="4 signatures have to come together"):
        first(a_plan(threshold=4))


def test_a_quorum_that_employers_could_never_reach_is_refused() -> None:
    holders = (holder("ada", "Acme"), holder("ben", "Acme"), holder("cleo", "Acme"))
    with pytest.raises(CeremonyRefused, match="holders of different employers have 1"):
        first(dataclasses.replace(a_plan(), holders=holders))


def test_two_of_one_employer_are_no_quorum_and_a_third_person_makes_it_one() -> None:
    holders = (holder("ada", "Acme"), holder("ben", "Acme"), holder("cleo", "Cobalt"))
    request = first(dataclasses.replace(a_plan(), holders=holders))
    refused(request, signed(request, "ada", "ben"), r"two of one employer in its own quorum \(ada, ben\)")
    assert signers_of(done(request, "ada", "ben", "cleo").root, None) == ("ada", "ben", "cleo")


def test_who_works_for_nobody_counts_for_herself() -> None:
    holders = (holder("ada", ""), holder("ben", ""), holder("cleo", "Cobalt"))
    request = first(dataclasses.replace(a_plan(), holders=holders))
    assert signers_of(done(request, "ada", "ben").root, None) == ("ada", "ben")


def test_the_same_name_or_key_twice_is_refused() -> None:
    with pytest.raises(CeremonyRefused, match="keyholder's name"):
        first(a_plan("ada", "ada", "ben"))
    twin = dataclasses.replace(a_plan(), holders=(holder("ada"), holder("ben"), holder("cleo", key="ada")))
    with pytest.raises(CeremonyRefused, match="keyholder's key"):
        first(twin)


_SPELT = (
    "Ada",
    "\N{CYRILLIC SMALL LETTER A}da",
    "\N{FULLWIDTH LATIN SMALL LETTER A}da",
    "AD\N{GREEK CAPITAL LETTER ALPHA}",
)


@pytest.mark.parametrize("spelt", _SPELT)
def test_a_holder_or_an_employer_in_another_spelling_is_the_same_one(spelt: str) -> None:
    with pytest.raises(CeremonyRefused, match="twice as a keyholder's name"):
        first(dataclasses.replace(a_plan(), holders=(holder("ada"), holder(spelt), holder("ben"))))
    circle = (holder("ben", "ada"), holder("cleo", spelt), holder("dora", "Acme"))
    request = first(dataclasses.replace(a_plan(), holders=circle))
    refused(request, signed(request, "ben", "cleo"), "two of one employer in its own quorum \\(ben, cleo\\)")
    assert signers_of(done(request, "ben", "dora").root, None) == ("ben", "dora")


def _unsaid(change: Callable[[Root], object]) -> Request:
    """A request whose root says something that its words do not."""
    md = read_root(first().root, "root")
    change(md.signed)
    return Request(md.to_bytes(), None)


@pytest.mark.parametrize(
    "change",
    [
        lambda root: root.unrecognized_fields.update({"x-more": 1}),
        lambda root: setattr(root, "consistent_snapshot", False),
        lambda root: root.keys.update({(key := tuf_key(holder("mallory").keys[0])).keyid: key}),
        lambda root: root.roles["timestamp"].unrecognized_fields.update({"x": 1}),
        lambda root: next(iter(root.keys.values())).unrecognized_fields.update({"x": 1}),
    ],
    ids=["a field", "no consistent snapshots", "a key of nobody", "a role's field", "a key's field"],
)
def test_a_root_that_says_more_than_its_words_is_refused(change: Callable[[Root], object]) -> None:
    request = _unsaid(change)
    assert request.words == first().words
    assert request.digest != first().digest
    with pytest.raises(CeremonyRefused, match="more than can be told"):
        parse_request(request.data, where="request")


def test_one_holder_has_no_two_keys_of_one_family() -> None:
    two = (seed("a").verifier, seed("b").verifier)
    with pytest.raises(CeremonyRefused, match="one Ed25519 key"):
        Holder("ada", "Acme", "2026-01-01", "2028-01-01", two)


@pytest.mark.parametrize(
    ("since", "until"), [("2028-01-01", "2026-01-01"), ("20260101", "2028-01-01"), ("", "2028-01-01"), ("x", "y")]
)
def test_a_term_is_two_dates_in_their_order(since: str, until: str) -> None:
    with pytest.raises(CeremonyRefused, match="term"):
        Holder("ada", "Acme", since, until, (seed("a").verifier,))


def test_a_holder_whose_term_is_over_joins_no_root() -> None:
    gone = dataclasses.replace(holder("ada"), until="2026-06-30")
    with pytest.raises(CeremonyRefused, match="ended on 2026-06-30"):
        first(dataclasses.replace(a_plan(), holders=(gone, holder("ben"), holder("cleo"))))


def test_a_root_key_may_not_be_an_online_key() -> None:
    plan = dataclasses.replace(a_plan(), online={**online(), "timestamp": seed("holder ada").verifier})
    with pytest.raises(CeremonyRefused, match="online key too"):
        first(plan)


def test_a_root_that_would_have_ended_is_not_asked_for() -> None:
    with pytest.raises(CeremonyRefused, match="ended already"):
        first(dataclasses.replace(a_plan(), expires_us=NOW))


# what a keyholder reads


def test_a_request_reads_back_and_says_in_words_what_is_signed() -> None:
    request = first()
    assert parse_request(request.data, where="r") == request
    words = "\n".join(request.words)
    for said in ("first root", "ada, of ada's employer", "2 of 3 keyholders", "snapshot", "Until: 2028-01-15T"):
        assert said in words


@pytest.mark.parametrize("field", ["text", "digest"])
def test_a_request_that_says_something_else_than_its_root_is_refused(field: str) -> None:
    body = json.loads(first().data)
    body[field] = ["Nothing changes."] if field == "text" else "0" * 64
    with pytest.raises(CeremonyRefused, match="other words or another digest"):
        parse_request(json.dumps(body).encode(), where="r")


@pytest.mark.parametrize("size", [0, 10, 500, -3])
def test_a_half_written_request_is_refused(size: int) -> None:
    with pytest.raises(CeremonyRefused, match="copy it again"):
        parse_request(first().data[:size], where="r")


def test_a_digest_is_read_aloud_in_groups_and_loses_nothing() -> None:
    digest = first().digest
    assert "".join("".join(aloud(digest)).split()) == digest
    assert [len(line.split()) for line in aloud(digest)] == [8, 8]


# the next root


def rotation(previous: bytes, *names: str, **changes: object) -> Request:
    plan = dataclasses.replace(plan_of(previous), holders=tuple(holder(name) for name in names), **changes)  # type: ignore[arg-type]
    return request_of(plan, previous, NOW)


def test_a_new_circle_needs_the_old_one_s_quorum_and_its_own() -> None:
    root = done(first(), "ada", "ben").root
    request = rotation(root, "cleo", "dora", "emil")
    refused(request, signed(request, "dora", "emil"), "of root 1's keys")
    refused(request, signed(request, "dora", "emil", "ada"), "of root 1's keys")
    refused(request, signed(request, "ada", "ben", "dora"), "of its own keys")
    assert json.loads(done(request, "dora", "emil", "ada", "ben").root)["signed"]["version"] == 2


def test_the_old_root_s_quorum_has_no_two_of_one_employer_either() -> None:
    holders = (holder("ada", "Acme"), holder("ben", "Acme"), holder("cleo"))
    request = first(dataclasses.replace(a_plan(), holders=holders))
    root = done(request, "ada", "cleo").root
    following = rotation(root, "dora", "emil")
    refused(following, signed(following, "dora", "emil", "ada", "ben"), "two of one employer in root 1's quorum")


def test_a_rotation_says_in_words_who_leaves_who_joins_and_what_is_new() -> None:
    root = done(first(), "ada", "ben").root
    request = rotation(root, "ada", "ben", "dora", online=online(2), log_policy="ab" * 32)
    words = "\n".join(request.words)
    for said in ("leaves: cleo", "joins: dora", "snapshot has a new key", "log policy: SHA-256 abab", "its end"):
        assert said in words
    assert sha256_hex(root)[:4] in words


def test_a_root_that_skips_a_version_is_refused() -> None:
    root = done(first(), "ada", "ben").root
    with pytest.raises(CeremonyRefused, match="does not follow"):
        finish_root(root, previous=root)
    second = done(rotation(root, *HOLDERS), "ada", "ben").root
    third = rotation(second, *HOLDERS)
    with pytest.raises(CeremonyRefused, match="does not follow"):
        parse_request(Request(third.root, root).data, where="r")


def test_a_root_that_follows_another_root_of_the_same_version_is_refused() -> None:
    one, other = done(first(), "ada", "ben").root, done(first(), "ada", "cleo").root
    request = rotation(one, *HOLDERS)
    with pytest.raises(CeremonyRefused, match="follows another root"):
        assemble(Request(request.root, other), signed(request, "ada", "ben"), NOW)


def test_a_changed_root_loses_its_signatures() -> None:
    body = json.loads(done(first(), "ada", "ben").root)
    body["signed"]["expires"] = "2099-01-01T00:00:00Z"
    with pytest.raises(CeremonyRefused, match="signed with 0"):
        finish_root(json.dumps(body).encode())


# the table of holders, as a client checks it


def test_a_client_takes_a_root_for_its_holders_not_for_its_keys_alone() -> None:
    root = done(first(), "ada", "ben").root
    demand_holders(root)
    demand_holders(done(rotation(root, *HOLDERS), "ada", "ben").root, root)


def _resigned(change: dict[str, object]) -> bytes:
    """A root that its keys sign as TUF wants it, with another table than the ceremony would write."""
    md = Metadata[Root].from_bytes(first().root)
    md.signed.unrecognized_fields.update(change)
    payload = md.signed_bytes
    found = [tuf_signature(seed(f"holder {name}"), payload) for name in ("ada", "ben")]
    md.signatures = {signature.keyid: signature for signature in found}
    return Metadata(md.signed, md.signatures).to_bytes()


TABLE: Final = json.loads(first().root)["signed"]["x-interlock-holders"]


@pytest.mark.parametrize(
    ("table", "match"),
    [
        (None, "names no keyholders"),
        ([], "names no keyholders"),
        (TABLE[:2], "none of its keyholders holds"),
        ([{**row, "employer": "Acme"} for row in TABLE], "different employers have 1"),
        ([{**TABLE[0], "employer": "X"}, {**TABLE[1], "employer": "X"}, TABLE[2]], "two of one employer"),
        ([{**TABLE[0], "more": 1}, *TABLE[1:]], "without name"),
        ([{**TABLE[0], "keys": ["00"]}, *TABLE[1:]], "names a key of a holder"),
        ([{**TABLE[0], "name": 7}, *TABLE[1:]], "no text"),
        ([{**TABLE[0], "name": "be\nn"}, *TABLE[1:]], "is no name"),
    ],
)
def test_a_root_that_its_keys_signed_with_a_bad_table_is_refused(table: object, match: str) -> None:
    with pytest.raises(CeremonyRefused, match=match):
        demand_holders(_resigned({"x-interlock-holders": table}))


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b"[1]", b'{"signed": {"_type": "timestamp"}}'])
def test_what_is_no_root_is_refused_in_one_line(data: bytes) -> None:
    for check in (finish_root, demand_holders):
        with pytest.raises(CeremonyRefused) as caught:
            check(data)
        assert "\n" not in str(caught.value)


# hybrid


HYBRID: Final = request_of(a_plan(*FIVE, threshold=8, hybrid=True), None, NOW)


def test_five_hybrid_holders_sign_with_eight_of_ten_keys_by_default() -> None:
    holders = plan_of(HYBRID.root).holders
    assert (default_threshold(holders), least_holders(holders, 8)) == (8, 4)
    assert "still 3 of them where one family of keys is broken" in "\n".join(HYBRID.words)


def test_four_hybrid_holders_make_a_root_that_python_tuf_accepts() -> None:
    four = FIVE[:4]
    root = assemble(HYBRID, [*signed(HYBRID, *four), *pq_signed(HYBRID, *four)], NOW).root
    md = Metadata[Root].from_bytes(root)
    md.signed.verify_delegate("root", md.signed_bytes, md.signatures)
    assert len(root) < 64 << 10


def test_a_whole_broken_family_and_two_holders_make_no_root() -> None:
    refused(HYBRID, [*pq_signed(HYBRID, *FIVE), *signed(HYBRID, "ada", "ben")], "7 of its own keys")
    refused(HYBRID, [*signed(HYBRID, *FIVE), *pq_signed(HYBRID, "ada", "ben")], "7 of its own keys")
    assemble(HYBRID, [*signed(HYBRID, *FIVE), *pq_signed(HYBRID, *FIVE[:3])], NOW)


@pytest.mark.parametrize("threshold", [2, 5, 6])
def test_a_hybrid_threshold_that_one_family_and_one_person_reach_is_refused(threshold: int) -> None:
    with pytest.raises(CeremonyRefused, match="lets one person change the root when a family is broken"):
        first(a_plan(*FIVE, threshold=threshold, hybrid=True))


def test_a_circle_is_hybrid_as_a_whole_or_not_at_all() -> None:
    holders = (holder("ada", hybrid=True), holder("ben"), holder("cleo"))
    with pytest.raises(CeremonyRefused, match="all of them, or nobody"):
        first(dataclasses.replace(a_plan(), holders=holders))


def test_a_classical_circle_becomes_hybrid_by_a_rotation() -> None:
    root = done(first(), "ada", "ben").root
    holders = tuple(holder(name, hybrid=True) for name in HOLDERS)
    plan = dataclasses.replace(plan_of(root), holders=holders, threshold=default_threshold(holders))
    request = request_of(plan, root, NOW)
    files = [*signed(request, *HOLDERS), *pq_signed(request, "ada", "ben")]
    assert signers_of(assemble(request, files, NOW).root, root) == HOLDERS


# the transcript


def test_a_transcript_names_who_signed_with_which_keys_for_which_root() -> None:
    root = done(first(), "ada", "ben").root
    request = rotation(root, "ada", "dora", "emil")
    made = done(request, "ada", "ben", "dora")
    said = json.loads(made.transcript)
    assert {row["holder"]: row["for"] for row in said["signed"]} == {
        "ada": ["old", "new"],
        "ben": ["old"],
        "dora": ["new"],
    }
    assert (said["root"], said["previous"]) == (sha256_hex(made.root), sha256_hex(root))
    assert (said["version"], said["digest"], said["at"]) == (2, request.digest, NOW)
    assert said["text"] == list(words_of(made.root, root))
    demand_transcript(made.transcript, made.root, root)


@pytest.mark.parametrize("change", [{"at": -1}, {"text": []}, {"signed": []}, {"root": "0" * 64}, {"more": 1}])
def test_a_transcript_that_was_changed_is_not_that_of_the_root(change: dict[str, object]) -> None:
    made = done(first(), "ada", "ben")
    body = json.loads(made.transcript) | change
    with pytest.raises(CeremonyRefused, match="transcript"):
        demand_transcript(json.dumps(body).encode(), made.root, None)


def test_a_transcript_of_another_quorum_is_not_that_of_the_root() -> None:
    for one, other in itertools.permutations([done(first(), "ada", "ben"), done(first(), "ada", "cleo")]):
        with pytest.raises(CeremonyRefused):
            demand_transcript(one.transcript, other.root, None)


# keys and cards


def test_a_ceremony_key_opens_with_its_passphrase_only() -> None:
    ((key, sealed),) = new_keys(b"correct horse", Counter(), memory=1 << 16)
    opened = load_key(sealed, where="ada.key", passphrase=b"correct horse", least_memory=1 << 16)
    assert opened.verifier == key
    assert b"seed" not in sealed
    for wrong in (b"correct hors", None):
        with pytest.raises(BadKey):
            load_key(sealed, where="ada.key", passphrase=wrong, least_memory=1 << 16)


def test_a_ceremony_key_without_passphrase_is_refused() -> None:
    with pytest.raises(CeremonyRefused, match="passphrase"):
        new_keys(b"", Counter(), memory=1 << 16)


@pytest.mark.parametrize("hybrid", [False, True])
def test_a_card_reads_back(hybrid: bool) -> None:
    card = holder("ada", hybrid=hybrid)
    assert parse_card(dump_card(card), where="c") == card


@given(st.binary(max_size=200))
def test_garbage_is_no_request_no_signature_and_no_card(data: bytes) -> None:
    for read in (lambda: parse_request(data, where="r"), lambda: assemble(ASKED, [("s", data)], NOW)):
        with pytest.raises(CeremonyRefused):
            read()
    with pytest.raises(Exception, match="c: "):
        parse_card(data, where="c")


def test_signing_takes_either_family_and_names_the_holder() -> None:
    assert sign_request(HYBRID, Ed25519Signer(seed("holder ada").seed))[0] == "ada"
    assert json.loads(pq_signed(HYBRID, "ada")[0][1])["family"] == "ml-dsa-65"
