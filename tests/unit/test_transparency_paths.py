"""What the log does for a batch in few steps is what it does for one entry in more: proofs, and an entry's form."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from interlock.base.codec import Malformed
from interlock.base.keys import Ed25519Signer
from interlock.transparency.entry import TYPES, demand_form, parse_entry, signed_entry
from interlock.transparency.log import open_log
from interlock.transparency.merkle import leaf_hash, memory_reader, prove_inclusion
from interlock.transparency.note import NoteSigner
from interlock.transparency.paths import InclusionLines
from interlock.transparency.proof import parse_proof
from interlock.transparency.text import hash_lines

SIGNER = NoteSigner("log.example/packs", Ed25519Signer(b"\x01" * 32))
KEY = Ed25519Signer(b"\x07" * 32)
LEAVES = [leaf_hash(b"entry %d" % n) for n in range(600)]
names = st.from_regex(r"\A[a-z0-9](?:[a-z0-9._-]{0,20}[a-z0-9])?\Z")
numbers = st.one_of(st.integers(1, 5), st.integers(1, (1 << 63) - 1))
entries = st.builds(
    lambda kind, name, ring, version, at: (
        signed_entry(KEY, type=kind, name=name, version=version, ring=ring, sha256="ab" * 32, at=at).data
    ),
    st.sampled_from(sorted(TYPES)),
    names,
    names,
    numbers,
    numbers,
)
ENTRY = signed_entry(KEY, type="pack", name="a", version=1, ring="r", sha256="ab" * 32, at=0).data


@given(st.integers(1, 600))
@settings(max_examples=25, deadline=None)
@example(1)
@example(256)
@example(600)
def test_the_lines_of_every_entry_are_its_audit_path(size: int) -> None:
    read = memory_reader(LEAVES[:size])
    lines = InclusionLines(size, read)
    for index in range(size):
        assert lines.of(index) == hash_lines(prove_inclusion(index, size, read))


def test_there_are_no_lines_of_an_entry_that_the_tree_has_not() -> None:
    lines = InclusionLines(5, memory_reader(LEAVES[:5]))
    for index in (-1, 5):
        with pytest.raises(ValueError, match="has no entry"):
            lines.of(index)


def test_proof_files_made_together_are_those_made_one_by_one(tmp_path: Path) -> None:
    with open_log(tmp_path, SIGNER) as log:
        log.append([b"entry %d" % n for n in range(700)])
        older = log.integrate()
        log.append([b"one more"])
        for note, size in ((older, 700), (log.integrate(), 701)):
            some = [0, 255, 256, 699, 699, size - 1]
            files = log.proof_files(some, note)
            assert files == [log.prove(index, note).data for index in some]
            assert parse_proof(files[1]).index == 255
        with pytest.raises(ValueError, match="has no entry"):
            log.proof_files([700], older)


def refused(data: bytes) -> str | None:
    try:
        parse_entry(data)
    except Malformed as e:
        return e.what
    return None


@given(entries, st.data())
@settings(max_examples=200, deadline=None)
def test_the_form_of_an_entry_is_demanded_as_reading_it_demands_it(entry: bytes, data: st.DataObject) -> None:
    demand_form(entry)
    at, end = data.draw(st.integers(0, len(entry))), data.draw(st.integers(0, 3))
    put = data.draw(st.one_of(st.binary(max_size=2), st.sampled_from([b"0", b"9", b'"', b"=", b"A", b"\n", b"-"])))
    changed = entry[:at] + put + entry[at + end :]
    expected = refused(changed)
    if expected is None:
        demand_form(changed)
    else:
        with pytest.raises(Malformed) as raised:
            demand_form(changed)
        assert raised.value.what == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"at":0', b'"at":9223372036854775808'),
        (b'"at":0', b'"at":-1'),
        (b'"version":1', b'"version":0'),
        (b'"version":1', b'"version":9223372036854775808'),
        (b'"version":1}', b'"version":1}\n'),
        (b'"name":"a"', b'"name":"' + b"a" * 129 + b'"'),
        (b'==","type"', b'=","type"'),
    ],
)
def test_an_entry_that_is_ours_but_for_one_thing_is_refused(old: bytes, new: bytes) -> None:
    assert old in ENTRY
    with pytest.raises(Malformed):
        demand_form(ENTRY.replace(old, new))


def test_an_unknown_version_or_type_has_the_form_that_it_has() -> None:
    demand_form(ENTRY.replace(b'"v":2', b'"v":3'))
    demand_form(ENTRY.replace(b'"type":"pack"', b'"type":"other"'))
    demand_form(b"anything at all")
