"""No bytes break a parser of the log: each takes them, or raises its own error, whatever was changed in good ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.base.codec import Malformed
from interlock.base.files import BadState, NewerFormat
from interlock.base.keys import BadKey, Ed25519Signer, MlDsaSigner
from interlock.base.primitives import BadSignature
from interlock.transparency.checkpoint import (
    Checkpoint,
    CosignatureVerifier,
    Cosigner,
    log_verifier,
    open_checkpoint,
    parse_checkpoint,
    sign_checkpoint,
)
from interlock.transparency.entry import known_entry, parse_entry
from interlock.transparency.follow import Evidence, parse_evidence
from interlock.transparency.gossip import note_in
from interlock.transparency.merkle import BadProof, leaf_hash, root_of
from interlock.transparency.note import NoteSigner, encode_note, parse_note, parse_signatures, parse_vkey
from interlock.transparency.policy import Group, NoQuorum, Peer, TlogPolicy, UnknownLog, parse_policy
from interlock.transparency.proof import TlogProof, parse_proof
from interlock.transparency.tiles import decode_bundle, decode_tile, encode_bundle, parse_path, tile_root
from interlock.transparency.witness import add_checkpoint_request, parse_cosignatures, parse_request, parse_size
from tests.unit.log_entries import pack_entry

ORIGIN = "log.example/packs"
SIGNER = NoteSigner(ORIGIN, Ed25519Signer(b"\x01" * 32))
ALSO = Cosigner(ORIGIN, MlDsaSigner(44, b"\x01" * 32))
PAIR = [Cosigner("w.example", Ed25519Signer(b"\x02" * 32)), Cosigner("w.example", MlDsaSigner(44, b"\x02" * 32))]
LEAVES = [leaf_hash(b"%d" % n) for n in range(3)]
CHECKPOINT = Checkpoint(ORIGIN, 3, root_of(LEAVES))
POLICY = TlogPolicy(
    (Peer(SIGNER.key, "https://log.example"), Peer(ALSO.key)),
    {"w0": Peer(PAIR[0].key, "https://w.example"), "w1": Peer(PAIR[1].key)},
    {"w": Group(2, ("w0", "w1"))},
    "w",
)
_SIGNED = parse_note(sign_checkpoint(CHECKPOINT, [SIGNER, ALSO]))
NOTE = encode_note(_SIGNED.plus(c.cosign(CHECKPOINT.text.encode(), 1_800_000_000) for c in PAIR))
PROOF = TlogProof(2, (leaf_hash(b"x"),), parse_note(NOTE), b"extra").data
EVIDENCE = Evidence(ORIGIN, NOTE, NOTE, CHECKPOINT.root, (LEAVES[0],)).data(7)


@dataclass(frozen=True)
class Parser:
    """A parser, bytes that it takes, and the errors that are its own."""

    read: Callable[[bytes], object]
    good: bytes
    errors: tuple[type[Exception], ...] = (Malformed,)


def text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(data.decode("utf-8", "surrogateescape"))


PARSERS = {
    "note": Parser(parse_note, NOTE),
    "signatures": Parser(text(parse_signatures), "".join(s.line for s in _SIGNED.signatures).encode()),
    "checkpoint": Parser(text(parse_checkpoint), CHECKPOINT.text.encode()),
    "opened checkpoint": Parser(
        lambda data: open_checkpoint(data, [SIGNER.key, ALSO.key]), NOTE, (Malformed, BadSignature, BadProof)
    ),
    "vkey": Parser(text(parse_vkey), PAIR[1].key.text.encode()),
    "log key": Parser(text(lambda t: log_verifier(parse_vkey(t))), ALSO.key.text.encode(), (Malformed, BadKey)),
    "witness key": Parser(
        text(lambda t: CosignatureVerifier(parse_vkey(t))), PAIR[1].key.text.encode(), (Malformed, BadKey)
    ),
    "policy": Parser(parse_policy, POLICY.text),
    "quorum": Parser(POLICY.check, NOTE, (Malformed, BadSignature, BadProof, NoQuorum, UnknownLog)),
    "proof": Parser(parse_proof, PROOF),
    "tile": Parser(lambda data: decode_tile(data, 3), b"".join(LEAVES)),
    "full tile": Parser(tile_root, LEAVES[0] * 256),
    "bundle": Parser(lambda data: decode_bundle(data, 3), encode_bundle([b"a", b"", b"ccc"])),
    "tile's path": Parser(text(parse_path), b"tile/entries/x001/x234/067.p/8"),
    "request": Parser(parse_request, add_checkpoint_request(1, (LEAVES[0], LEAVES[1]), NOTE)),
    "cosignatures": Parser(parse_cosignatures, b"".join(c.cosign(b"o\n1\n", 5).line.encode() for c in PAIR[:1])),
    "size": Parser(parse_size, b"123\n"),
    "entry": Parser(parse_entry, pack_entry("coding-agent", 1, "ab" * 32, at=1).data),
    "known entry": Parser(
        known_entry, pack_entry("coding-agent", 1, "ab" * 32, at=1).data, (Malformed, BadSignature, BadKey)
    ),
    "evidence": Parser(lambda d: parse_evidence(d, where="x"), EVIDENCE, (BadState, NewerFormat, Malformed)),
    "shown note": Parser(lambda d: note_in(d, where="x"), PROOF, (BadState, NewerFormat, Malformed)),
}


def takes_or_refuses(parser: Parser, data: bytes) -> None:
    try:
        parser.read(data)
    except parser.errors:
        return


@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
def test_good_bytes_are_taken(parser: Parser) -> None:
    parser.read(parser.good)


@settings(max_examples=60)
@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
@given(data=st.binary(max_size=300))
def test_no_bytes_break_a_parser(parser: Parser, data: bytes) -> None:
    takes_or_refuses(parser, data)


@settings(max_examples=150)
@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
@given(where=st.floats(0, 1), length=st.integers(0, 40), junk=st.binary(max_size=6), often=st.integers(1, 3))
def test_no_change_of_good_bytes_breaks_a_parser(
    parser: Parser, where: float, length: int, junk: bytes, often: int
) -> None:
    data = parser.good
    for turn in range(often):
        at = int(where * len(data)) * (turn + 1) % (len(data) + 1)
        data = data[:at] + junk + data[at + length :]
    takes_or_refuses(parser, data)


@settings(max_examples=60)
@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
@given(lines=st.permutations(range(9)), drop=st.integers(0, 8))
def test_no_order_of_good_lines_breaks_a_parser(parser: Parser, lines: list[int], drop: int) -> None:
    rows = parser.good.splitlines(keepends=True)
    takes_or_refuses(parser, b"".join(rows[n % len(rows)] for n in lines[drop:]))


@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
def test_a_megabyte_of_one_byte_is_refused_at_once(parser: Parser) -> None:
    for byte in (b"a", b"\n", b"9", b"=", b"\x00"):
        takes_or_refuses(parser, byte * 1_000_000)
