"""Notes, checkpoints, cosignatures, proofs, policies and entries: pairs that invert each other, and strict parsers."""

from __future__ import annotations

import contextlib
import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.base.clock import rfc3339
from interlock.base.codec import Malformed
from interlock.base.keys import Ed25519Signer
from interlock.base.primitives import BadSignature
from interlock.base.text import unb64
from interlock.transparency.checkpoint import (
    Checkpoint,
    CosignatureVerifier,
    Cosigner,
    cosigned_at,
    open_checkpoint,
    parse_checkpoint,
    sign_checkpoint,
)
from interlock.transparency.entry import UnknownEntry, known_entry, parse_entry
from interlock.transparency.merkle import EMPTY_ROOT, BadProof, leaf_hash, memory_reader, prove_inclusion, root_of
from interlock.transparency.note import (
    Note,
    NoteSigner,
    NoteVerifier,
    Signature,
    VerifierKey,
    encode_note,
    parse_note,
    parse_vkey,
    sign_note,
    valid_name,
)
from interlock.transparency.policy import NoQuorum, TlogPolicy, UnknownLog, parse_policy
from interlock.transparency.proof import TlogProof, parse_proof
from interlock.transparency.text import decimal
from tests.unit.log_entries import pack_entry

ORIGIN = "log.example/packs"
LOG = NoteSigner(ORIGIN, Ed25519Signer(b"\x01" * 32))
WITNESSES = [Cosigner(f"witness.example/w{i}", Ed25519Signer(bytes([0x10 + i]) * 32)) for i in range(3)]
ENTRY = pack_entry("coding-agent", 1, "ab" * 32, at=1_800_000_000_000_000)

# the example of the signed-note specification
EXAMPLE_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
EXAMPLE_NOTE = (
    "This is an example message.\n\n— example.com/foo "
    "Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
)

names = st.text(min_size=1, max_size=20).filter(valid_name)
lines = st.text(st.characters(min_codepoint=0x20, exclude_categories=["Cs"]), min_size=1, max_size=30)
hashes = st.binary(min_size=32, max_size=32)
checkpoints = st.builds(
    Checkpoint, lines, st.integers(1, (1 << 63) - 1), hashes, st.lists(lines, max_size=2).map(tuple)
)
signatures = st.builds(Signature, names, st.binary(min_size=4, max_size=4), st.binary(min_size=1, max_size=80))
notes = st.builds(
    Note,
    st.lists(st.one_of(lines, st.just("")), min_size=1, max_size=4).map(lambda rows: "\n".join(rows) + "\n"),
    st.lists(signatures, min_size=1, max_size=4).map(tuple),
)


def policy_text(quorum: str = "group both all w0 w1\nquorum both\n") -> bytes:
    rows = [f"log {LOG.key.text} http://127.0.0.1:1/"]
    rows += [f"witness w{i} {w.key.text}" for i, w in enumerate(WITNESSES)]
    return ("\n".join(rows) + "\n" + quorum).encode()


def cosigned(checkpoint: Checkpoint, *who: int) -> Note:
    note = parse_note(sign_checkpoint(checkpoint, [LOG]))
    return note.plus(WITNESSES[i].cosign(note.text.encode(), 1_800_000_000 + i) for i in who)


def a_tree(count: int = 5, at: int = 3) -> tuple[Checkpoint, TlogProof]:
    entries = [dataclasses.replace(ENTRY, version=i + 1).data for i in range(count)]
    leaves = [leaf_hash(e) for e in entries]
    checkpoint = Checkpoint(ORIGIN, count, root_of(leaves))
    path = prove_inclusion(at, count, memory_reader(leaves))
    return checkpoint, TlogProof(at, path, cosigned(checkpoint, 0, 1))


# --- notes -----------------------------------------------------------------------------------------------------


def test_the_specifications_example_verifies() -> None:
    key = parse_vkey(EXAMPLE_KEY)
    assert key.text == EXAMPLE_KEY
    ((found, _),) = parse_note(EXAMPLE_NOTE.encode()).verified([NoteVerifier(key)])
    assert found == key


@given(notes)
def test_a_note_survives_writing_and_reading(note: Note) -> None:
    assert parse_note(encode_note(note)) == note


@given(names, st.integers(0, 255), st.binary(max_size=40))
def test_a_vkey_survives_writing_and_reading(name: str, kind: int, public: bytes) -> None:
    key = VerifierKey(name, kind, public)
    assert parse_vkey(key.text) == key


@pytest.mark.parametrize(
    "bad",
    [
        EXAMPLE_KEY.replace("530d903a", "530D903A"),
        EXAMPLE_KEY.replace("530d903a", "530d903b"),
        EXAMPLE_KEY.replace("example.com/foo", "example.com/fo"),
        EXAMPLE_KEY + "=",
        EXAMPLE_KEY + "\n",
        "example.com/foo+530d903a+",
        "a b+530d903a+AQ==",
        "",
    ],
)
def test_a_vkey_has_one_spelling(bad: str) -> None:
    with pytest.raises(Malformed):
        parse_vkey(bad)


def test_a_known_key_whose_line_does_not_verify_spoils_the_note() -> None:
    good = LOG.sign(b"text\n")
    other = NoteSigner("log.example/other", Ed25519Signer(b"\x02" * 32))
    note = Note("text\n", (good, Signature(other.name, other.key.key_id, b"\x00" * 64)))
    with pytest.raises(BadSignature):
        note.verified([NoteVerifier(LOG.key), NoteVerifier(other.key)])


def test_a_line_of_an_unknown_key_is_ignored_and_alone_is_not_enough() -> None:
    note = parse_note(sign_note("text\n", [LOG])).plus([Signature("someone.else", b"1234", b"x")])
    assert [key for key, _ in note.verified([NoteVerifier(LOG.key)])] == [LOG.key]
    stranger = NoteSigner("log.example/other", Ed25519Signer(b"\x02" * 32))
    with pytest.raises(BadSignature):
        note.verified([NoteVerifier(stranger.key)])


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b.replace(b"\n", b"\r\n"),
        lambda b: b[:-1],
        lambda b: b.replace(b"\n\n", b"\n"),
        lambda b: b.replace("— ".encode(), b"- "),
        lambda b: b.replace("— ".encode(), "—  ".encode()),
        lambda b: b + b"\n",
        lambda b: b.replace(b"=\n", b" =\n"),
        lambda b: b"\x00" + b,
        lambda b: b"\xff" + b,
        lambda b: b + b.split(b"\n\n")[1] * 60,
    ],
)
def test_a_note_has_one_spelling(change: object) -> None:
    assert callable(change)
    with pytest.raises(Malformed):
        parse_note(change(EXAMPLE_NOTE.encode()))


# --- checkpoints and cosignatures ------------------------------------------------------------------------------


@given(checkpoints)
def test_a_checkpoint_survives_writing_and_reading(checkpoint: Checkpoint) -> None:
    assert parse_checkpoint(checkpoint.text) == checkpoint


@pytest.mark.parametrize(
    "text",
    [
        "o\n01\n" + "A" * 43 + "=\n",
        "o\n+1\n" + "A" * 43 + "=\n",
        "o\n1\n" + "A" * 42 + "B=\n",  # stray bits after the hash
        "o\n1\nAAAA\n",
        "\n1\n" + "A" * 43 + "=\n",
        "o\n1\n" + "A" * 43 + "=",
        "o\n1\n" + "A" * 43 + "=\n\n",
        f"o\n{1 << 63}\n" + "A" * 43 + "=\n",
        "o\n١\n" + "A" * 43 + "=\n",  # a digit, but not an ASCII one
    ],
)
def test_a_checkpoint_has_one_spelling(text: str) -> None:
    with pytest.raises(Malformed):
        parse_checkpoint(text)


def test_a_checkpoint_opens_with_its_logs_key_only() -> None:
    checkpoint = Checkpoint(ORIGIN, 0, EMPTY_ROOT)
    data = sign_checkpoint(checkpoint, [LOG])
    assert open_checkpoint(data, [LOG.key])[0] == checkpoint
    with pytest.raises(BadSignature):
        open_checkpoint(data, [NoteSigner(ORIGIN, Ed25519Signer(b"\x02" * 32)).key])


def test_an_empty_tree_has_the_one_empty_root() -> None:
    data = sign_checkpoint(Checkpoint(ORIGIN, 0, b"\x00" * 32), [LOG])
    with pytest.raises(BadProof):
        open_checkpoint(data, [LOG.key])
    with pytest.raises(BadProof):
        parse_policy(policy_text()).check(data)


def test_a_cosignature_carries_its_time_and_covers_it() -> None:
    text = Checkpoint(ORIGIN, 0, EMPTY_ROOT).text.encode()
    signature = WITNESSES[0].cosign(text, 1_800_000_000)
    verifier = CosignatureVerifier(WITNESSES[0].key)
    verifier.verify(text, signature.data)
    assert cosigned_at(signature) == 1_800_000_000
    later = (1_800_000_001).to_bytes(8, "big") + signature.data[8:]
    for forged in (later, signature.data[:-1], signature.data + b"x", b"\x00" * 8 + signature.data[8:], b""):
        with pytest.raises(BadSignature):
            verifier.verify(text, forged)


def test_a_cosignature_of_a_time_that_no_date_can_show_does_not_verify() -> None:
    text = Checkpoint(ORIGIN, 0, EMPTY_ROOT).text.encode()
    signer = WITNESSES[0].signer
    for seconds in (1 << 63, (1 << 63) - 1, 253_402_300_800):
        raw = signer.sign(f"cosignature/v1\ntime {seconds}\n".encode() + text)
        with pytest.raises(BadSignature, match="out of range"):
            CosignatureVerifier(WITNESSES[0].key).verify(text, seconds.to_bytes(8, "big") + raw)
    last = WITNESSES[0].cosign(text, 253_402_300_799)
    CosignatureVerifier(WITNESSES[0].key).verify(text, last.data)
    assert rfc3339(cosigned_at(last) * 1_000_000) == "9999-12-31T23:59:59Z"


def test_a_witness_key_does_not_open_a_checkpoint_as_a_log_key() -> None:
    with pytest.raises(Malformed):
        NoteVerifier(WITNESSES[0].key)
    with pytest.raises(Malformed):
        CosignatureVerifier(LOG.key)


# --- policies --------------------------------------------------------------------------------------------------


def test_a_policy_accepts_a_quorum_and_says_who_cosigned_when() -> None:
    checked = parse_policy(policy_text()).check(cosigned(a_tree()[0], 0, 1))
    assert dict(checked.cosigned) == {"w0": 1_800_000_000, "w1": 1_800_000_001}
    assert checked.log.url == "http://127.0.0.1:1/"


def test_too_few_witnesses_are_no_quorum() -> None:
    policy = parse_policy(policy_text())
    for who in ((), (0,), (0, 2)):
        with pytest.raises(NoQuorum):
            policy.check(cosigned(a_tree()[0], *who))


def test_a_witness_that_signs_twice_counts_once() -> None:
    policy = parse_policy(policy_text("group two 2 w0 w1 w2\nquorum two\n"))
    note = cosigned(a_tree()[0], 0)
    twice = note.plus([WITNESSES[0].cosign(note.text.encode(), 1_800_000_099)])
    with pytest.raises(NoQuorum):
        policy.check(twice)


def test_a_forged_cosignature_of_a_trusted_witness_spoils_the_note() -> None:
    note = cosigned(a_tree()[0], 0)
    key = WITNESSES[1].key
    with pytest.raises(BadSignature):
        parse_policy(policy_text()).check(note.plus([Signature(key.name, key.key_id, b"\x01" * 72)]))


def test_another_origin_is_an_unknown_log_even_with_the_right_key() -> None:
    stranger = sign_checkpoint(Checkpoint("log.example/else", 0, EMPTY_ROOT), [LOG])
    with pytest.raises(UnknownLog):
        parse_policy(policy_text()).check(stranger)


def test_groups_of_groups_make_a_quorum_across_operators() -> None:
    policy = parse_policy(policy_text("group x any w0 w1\ngroup all-of all x w2\nquorum all-of\n"))
    assert policy.satisfied(frozenset({"w1", "w2"}))
    assert not policy.satisfied(frozenset({"w0", "w1"}))
    assert not policy.satisfied(frozenset({"x", "w2"}))  # a group's name is no witness


def test_a_policy_survives_writing_and_reading() -> None:
    policy = parse_policy(policy_text("# a comment\n\n group\tx any w0 w1 \ngroup y 2 x w2\nquorum y\n"))
    assert parse_policy(policy.text) == policy


@pytest.mark.parametrize(
    "tail",
    [
        "",
        "quorum w9\n",
        "quorum w0\nquorum w0\n",
        "quorum w0 w1\n",
        "group g 0 w0\nquorum g\n",
        "group g 3 w0 w1\nquorum g\n",
        "group g 01 w0\nquorum g\n",
        "group g any\nquorum g\n",
        "group g any w0 w0\nquorum g\n",
        "group g any w0\ngroup h any w0\nquorum h\n",
        "group g any g\nquorum g\n",
        "group g any none\nquorum none\n",
        "group w0 any w1\nquorum w0\n",
        "group none any w1\nquorum none\n",
        "witness w0 x\nquorum none\n",
        f"witness w7 {WITNESSES[0].key.text}\nquorum none\n",
        f"witness w7 {LOG.key.text}\nquorum none\n",
        f"log {LOG.key.text}\nquorum none\n",
        f"log {WITNESSES[0].key.text}\nquorum none\n",
        "quorum\tnone\r\n",
        "quorum none",
        "Quorum none\n",
    ],
)
def test_a_bad_policy_is_refused(tail: str) -> None:
    with pytest.raises(Malformed):
        parse_policy(policy_text(tail))


def test_a_policy_without_witnesses_says_so() -> None:
    policy = parse_policy(f"log {LOG.key.text}\nquorum none\n".encode())
    assert policy == TlogPolicy(policy.logs)
    policy.check(cosigned(a_tree()[0]))


# --- proofs ----------------------------------------------------------------------------------------------------


@given(
    st.builds(
        TlogProof,
        st.integers(0, 1 << 40),
        st.lists(hashes, max_size=5).map(tuple),
        checkpoints.map(lambda c: Note(c.text, (LOG.sign(c.text.encode()),))),
        st.one_of(st.none(), st.binary(max_size=50)),
    )
)
def test_a_proof_survives_writing_and_reading(proof: TlogProof) -> None:
    assert parse_proof(proof.data) == proof


def test_a_proof_verifies_offline_against_entry_and_policy() -> None:
    checkpoint, proof = a_tree()
    policy = parse_policy(policy_text())
    entry = dataclasses.replace(ENTRY, version=4).data
    assert parse_proof(proof.data).verify(entry, policy).checkpoint == checkpoint
    with pytest.raises(BadProof):
        proof.verify(entry[:-1], policy)
    with pytest.raises(BadProof):
        dataclasses.replace(proof, index=2).verify(entry, policy)
    with pytest.raises(BadProof):
        dataclasses.replace(proof, hashes=proof.hashes[:-1]).verify(entry, policy)
    with pytest.raises(NoQuorum):
        dataclasses.replace(proof, note=cosigned(checkpoint, 0)).verify(entry, policy)


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b.replace(b"@v1", b"@v2"),
        lambda b: b.replace(b"index 3", b"index 03"),
        lambda b: b.replace(b"index 3\n", b""),
        lambda b: b.replace(b"index 3", b"extra AAA=\nextra AAA=\nindex 3"),
        lambda b: b.replace(b"index 3", b"extra AAB=\nindex 3"),
        lambda b: b.replace(b"index 3\n", b"index 3\nAAAA\n"),
        lambda b: b.replace(b"\n\n", b"\n", 1),
        lambda b: b"\n" + b,
        lambda b: b.replace(b"index 3\n", b"index 3\n" + b"A" * 43 + b"=\n" + (b"A" * 43 + b"=\n") * 63),
    ],
)
def test_a_proof_has_one_spelling(change: object) -> None:
    assert callable(change)
    with pytest.raises(Malformed):
        parse_proof(change(a_tree()[1].data))


# --- entries ---------------------------------------------------------------------------------------------------


def test_an_entry_is_canonical_json_and_survives_reading() -> None:
    assert ENTRY.data.startswith(b'{"at":1800000000000000,"by":"ed25519:')
    assert parse_entry(ENTRY.data) == known_entry(ENTRY.data) == ENTRY


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{}", b'{"v":3}', b'{"type":"pack","v":true}', b'{"v":2}'])
def test_an_entry_of_an_unknown_kind_is_kept_and_never_trusted(data: bytes) -> None:
    assert parse_entry(data) == UnknownEntry(data)
    with pytest.raises(Malformed):
        known_entry(data)


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b.replace(b'"v":2', b'"v": 2'),
        lambda b: b.replace(b'"version":1', b'"version":1,"extra":2'),
        lambda b: b.replace(b'"version":1', b'"version":0'),
        lambda b: b.replace(b'"version":1', b'"version":true'),
        lambda b: b.replace(b'"version":1', b'"version":1.0'),
        lambda b: b.replace(b'"abab', b'"ABAB'),
        lambda b: b.replace(b"coding-agent", b"../coding"),
        lambda b: b.replace(b'"stable"', b"null"),
        lambda b: b.replace(b'"ring":"stable",', b""),
        lambda b: b.replace(b"stable", b"st\\u0061ble"),
        lambda b: b.replace(b'"sig":"', b'"sig":"AAAA'),
        lambda b: b.replace(b'"by":"ed25519:', b'"by":"ed25519:00'),
    ],
)
def test_an_entry_that_breaks_its_own_form_is_refused(change: object) -> None:
    assert callable(change)
    with pytest.raises(Malformed):
        parse_entry(change(ENTRY.data))


# --- parsers raise only their own error ------------------------------------------------------------------------


def mutated(seed: bytes) -> st.SearchStrategy[bytes]:
    def splice(at: int, length: int, junk: bytes) -> bytes:
        at %= len(seed) + 1
        return seed[:at] + junk + seed[at + length :]

    return st.one_of(
        st.binary(max_size=60), st.builds(splice, st.integers(0, 2000), st.integers(0, 40), st.binary(max_size=12))
    )


@settings(max_examples=150)
@given(
    mutated(EXAMPLE_NOTE.encode()),
    mutated(a_tree()[1].data),
    mutated(policy_text()),
    mutated(ENTRY.data),
    st.text(max_size=60),
)
def test_parsers_raise_only_their_own_error(note: bytes, proof: bytes, policy: bytes, entry: bytes, text: str) -> None:
    attempts = (
        lambda: parse_note(note),
        lambda: parse_proof(proof),
        lambda: parse_policy(policy),
        lambda: parse_entry(entry),
        lambda: parse_checkpoint(text),
        lambda: parse_vkey(text),
        lambda: decimal(text, "number"),
        lambda: unb64(text, "text"),
    )
    for attempt in attempts:
        with contextlib.suppress(Malformed):
            attempt()
