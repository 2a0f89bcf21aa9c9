"""ML-DSA-44 beside Ed25519 (C2SP tlog-cosignature, type 0x06): what is signed, who counts, and how often."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from interlock.base.clock import ManualClock
from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.keys import Ed25519Signer, MlDsaSigner, MlDsaVerifier
from interlock.base.primitives import BadSignature
from interlock.transparency.checkpoint import (
    Checkpoint,
    CosignatureVerifier,
    Cosigner,
    cosigned_at,
    log_verifier,
    open_checkpoint,
    sign_checkpoint,
)
from interlock.transparency.merkle import leaf_hash, root_of
from interlock.transparency.note import ML_DSA_COSIGNATURE, NoteSigner, Signature, VerifierKey, parse_note, parse_vkey
from interlock.transparency.policy import NoQuorum, TlogPolicy, parse_policy
from interlock.transparency.witness import Witness, add_checkpoint_request, parse_cosignatures

ORIGIN = "log.example/packs"
PLAIN = NoteSigner(ORIGIN, Ed25519Signer(b"\x01" * 32))
LOG = Cosigner(ORIGIN, MlDsaSigner(44, b"\x01" * 32))
OLD = {n: Cosigner(f"{n}.example", Ed25519Signer(n.encode() * 16)) for n in ("w0", "w1")}
NEW = {n: Cosigner(f"{n}.example", MlDsaSigner(44, n.encode() * 16)) for n in ("w0", "w1")}
CHECKPOINT = Checkpoint(ORIGIN, 3, root_of([leaf_hash(b"a"), leaf_hash(b"b"), leaf_hash(b"c")]))
TEXT = CHECKPOINT.text.encode()


def policy(*groups: str) -> TlogPolicy:
    lines = [f"log {PLAIN.key.text}", f"log {LOG.key.text}"]
    for kind, cosigners in (("old", OLD), ("new", NEW)):
        lines += [f"witness {n}-{kind} {c.key.text}" for n, c in cosigners.items()]
    return parse_policy("".join(f"{line}\n" for line in (*lines, *groups)).encode())


EITHER = ("group w0 any w0-old w0-new", "group w1 any w1-old w1-new", "group q all w0 w1", "quorum q")
BOTH = ("group w0 all w0-old w0-new", "group w1 all w1-old w1-new", "group q all w0 w1", "quorum q")


def note(*cosigners: Cosigner) -> bytes:
    signed = parse_note(sign_checkpoint(CHECKPOINT, [PLAIN, LOG]))
    cosigned = signed.plus(c.cosign(TEXT, 1_800_000_000 + k) for k, c in enumerate(cosigners))
    return (cosigned.text + "\n" + "".join(s.line for s in cosigned.signatures)).encode()


def test_the_signed_bytes_are_those_of_the_specification() -> None:
    signature = NEW["w0"].cosign(TEXT, 1_800_000_000)
    assert (len(signature.data), cosigned_at(signature)) == (8 + 2420, 1_800_000_000)
    said = b"subtree/v1\n\0" + b"\x0aw0.example" + (1_800_000_000).to_bytes(8, "big")
    said += b"\x11log.example/packs" + (0).to_bytes(8, "big") + (3).to_bytes(8, "big") + CHECKPOINT.root
    MlDsaVerifier(44, NEW["w0"].key.public).verify(said, signature.data[8:])


def test_a_key_id_binds_name_type_and_key() -> None:
    key = NEW["w0"].key
    assert key.key_id == hashlib.sha256(b"w0.example\n\x06" + key.public).digest()[:4]
    assert (parse_vkey(key.text), key.kind, len(key.public)) == (key, ML_DSA_COSIGNATURE, 1312)


def test_a_cosignature_with_any_part_changed_does_not_verify() -> None:
    verifier, data = CosignatureVerifier(NEW["w0"].key), NEW["w0"].cosign(TEXT, 1_800_000_000).data
    verifier.verify(TEXT, data)
    changed = [TEXT.replace(b"\n3\n", b"\n4\n"), TEXT.replace(b"packs", b"packz"), TEXT[:-5] + b"AAA=\n", b"no text"]
    for text in changed:
        with pytest.raises(BadSignature):
            verifier.verify(text, data)
    for at in (7, 8, 2000):
        with pytest.raises(BadSignature):
            verifier.verify(TEXT, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    for cut in (b"", data[:-1], data + b"x"):
        with pytest.raises(BadSignature):
            verifier.verify(TEXT, cut)
    other = VerifierKey("w9.example", ML_DSA_COSIGNATURE, NEW["w0"].key.public)
    with pytest.raises(BadSignature):
        CosignatureVerifier(other).verify(TEXT, data)


def test_extension_lines_are_not_what_is_signed() -> None:
    data = NEW["w0"].cosign(TEXT, 1_800_000_000).data
    CosignatureVerifier(NEW["w0"].key).verify(TEXT + b"an extension\n", data)


def test_a_log_signs_without_a_time_and_a_witness_never() -> None:
    signature = LOG.sign(TEXT)
    assert cosigned_at(signature) == 0
    log_verifier(LOG.key).verify(TEXT, signature.data)
    with pytest.raises(BadSignature, match="no time"):
        CosignatureVerifier(LOG.key).verify(TEXT, signature.data)
    with pytest.raises(ValueError, match="after 1970"):
        LOG.cosign(TEXT, 0)
    with pytest.raises(ValueError, match="only with ML-DSA"):
        OLD["w0"].sign(TEXT)


def test_a_key_of_another_parameter_set_or_size_is_no_key_of_a_cosigner() -> None:
    with pytest.raises(ValueError, match="ML-DSA-44"):
        _ = Cosigner("w.example", MlDsaSigner(65, b"\x01" * 32)).key
    with pytest.raises(InterlockError):
        CosignatureVerifier(VerifierKey("w.example", ML_DSA_COSIGNATURE, b"\x00" * 32))
    with pytest.raises(Malformed):
        log_verifier(OLD["w0"].key)


def test_an_origin_that_the_form_cannot_name_is_refused() -> None:
    long = Checkpoint("x" * 256, 0, hashlib.sha256(b"").digest()).text.encode()
    with pytest.raises(Malformed):
        NEW["w0"].cosign(long, 1)
    with pytest.raises(BadSignature):
        CosignatureVerifier(NEW["w0"].key).verify(long, bytes(8 + 2420))


def test_either_key_of_the_log_opens_its_checkpoint_and_a_spoilt_line_of_either_spoils_it() -> None:
    good = sign_checkpoint(CHECKPOINT, [PLAIN, LOG])
    for keys in ([PLAIN.key], [LOG.key], [PLAIN.key, LOG.key]):
        assert open_checkpoint(good, keys)[0] == CHECKPOINT
    spoilt = parse_note(good)
    data = spoilt.signatures[1].data
    bad = Signature(ORIGIN, LOG.key.key_id, data[:-1] + bytes([data[-1] ^ 1]))
    line = (spoilt.text + "\n" + spoilt.signatures[0].line + bad.line).encode()
    assert open_checkpoint(line, [PLAIN.key])[0] == CHECKPOINT  # its key is not known there
    with pytest.raises(BadSignature):
        open_checkpoint(line, [PLAIN.key, LOG.key])


def test_a_witness_with_two_keys_counts_once() -> None:
    checked = policy(*EITHER).check(note(OLD["w0"], NEW["w0"], NEW["w1"]))
    assert sorted(checked.cosigned) == ["w0-new", "w0-old", "w1-new"]
    assert checked.witnesses == {"w0.example": 1_800_000_001, "w1.example": 1_800_000_002}
    with pytest.raises(NoQuorum, match="1 of 2 trusted witnesses"):
        policy(*EITHER).check(note(OLD["w0"], NEW["w0"]))


def test_a_policy_can_demand_both_families() -> None:
    policy(*BOTH).check(note(*OLD.values(), *NEW.values()))
    for some in ((*OLD.values(), NEW["w0"]), tuple(NEW.values()), tuple(OLD.values())):
        with pytest.raises(NoQuorum):
            policy(*BOTH).check(note(*some))


@pytest.mark.parametrize(
    "groups",
    [
        ("group q 2 w0-old w0-new w1-old", "quorum q"),
        ("group a any w0-old", "group b any w0-new", "group q all a b", "quorum q"),
        ("group a any w0-old w1-old", "group b any w0-new w1-new", "group q all a b", "quorum q"),
    ],
)
def test_a_policy_in_which_one_witness_could_be_two_is_refused(groups: tuple[str, ...]) -> None:
    with pytest.raises(Malformed, match="count twice"):
        policy(*groups)


def test_a_policy_survives_writing_and_reading_with_keys_of_both_families() -> None:
    for groups in (EITHER, BOTH, ("quorum none",), ("quorum w0-new",)):
        assert parse_policy(policy(*groups).text) == policy(*groups)


def test_a_witness_answers_with_a_line_of_each_key_and_serves_both(tmp_path: Path) -> None:
    both = [OLD["w0"], NEW["w0"]]
    witness = Witness(tmp_path, both, {ORIGIN: [PLAIN.key, LOG.key]}, ManualClock())
    answer = witness.process(add_checkpoint_request(0, (), sign_checkpoint(CHECKPOINT, [PLAIN, LOG])))
    assert answer.status == 200
    lines = parse_cosignatures(answer.body)
    for cosigner, line in zip(both, lines, strict=True):
        assert line.key_id == cosigner.key.key_id
        CosignatureVerifier(cosigner.key).verify(TEXT, line.data)
    latest = witness.latest(hashlib.sha256(ORIGIN.encode()).hexdigest())
    assert latest is not None
    assert len(parse_note(latest).signatures) == 4  # both of the log, both of the witness
    only_new = Witness(tmp_path / "new", both, {ORIGIN: [LOG.key]}, ManualClock())
    assert only_new.process(add_checkpoint_request(0, (), sign_checkpoint(CHECKPOINT, [LOG]))).status == 200
    assert only_new.process(add_checkpoint_request(3, (), sign_checkpoint(CHECKPOINT, [PLAIN]))).status == 403


def test_a_witness_has_one_name(tmp_path: Path) -> None:
    for cosigners in ([], [OLD["w0"], NEW["w1"]]):
        with pytest.raises(ValueError, match="one name"):
            Witness(tmp_path, cosigners, {}, ManualClock())
