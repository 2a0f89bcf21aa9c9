"""HPKE, base mode: what is sealed opens, with pyhpke on the other side too, and nothing else opens."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from pyhpke import AEADId, CipherSuite, KDFId, KEMId, KEMKey, KEMKeyInterface

from interlock.base import primitives
from interlock.base.primitives import BadSignature
from interlock.dap import hpke

PAIR = hpke.derive_key_pair(bytes(range(32)))
P256_PAIR = hpke.derive_key_pair(bytes(range(32)), hpke.P256)
FRESH = bytes(range(100, 132))
PEER_KEMS = {hpke.X25519.id: KEMId.DHKEM_X25519_HKDF_SHA256, hpke.P256.id: KEMId.DHKEM_P256_HKDF_SHA256}
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256's group
pairs = pytest.mark.parametrize("pair", [PAIR, P256_PAIR], ids=["x25519", "p256"])
seeds = st.binary(min_size=32, max_size=32)
texts = st.binary(max_size=80)
kems = st.sampled_from(list(hpke.KEMS.values()))


def peer_keys(pair: hpke.KeyPair) -> tuple[CipherSuite, KEMKeyInterface, KEMKeyInterface]:
    """A pair as pyhpke has it: suite, private key, public key."""
    suite = CipherSuite.new(PEER_KEMS[pair.kem.id], KDFId.HKDF_SHA256, AEADId.AES128_GCM)
    private: X25519PrivateKey | ec.EllipticCurvePrivateKey
    if pair.kem is hpke.X25519:
        private = X25519PrivateKey.from_private_bytes(pair.private)
    else:
        private = ec.derive_private_key(int.from_bytes(pair.private, "big"), ec.SECP256R1())
    keys = (KEMKey.from_pyca_cryptography_key(key) for key in (private, private.public_key()))
    return (suite, *keys)  # type: ignore[return-value]


@settings(max_examples=30, deadline=None)
@given(kems, seeds, seeds, texts, texts, texts)
def test_what_is_sealed_opens(
    kem: hpke.Kem, ikm: bytes, fresh: bytes, info: bytes, aad: bytes, plaintext: bytes
) -> None:
    pair = hpke.derive_key_pair(ikm, kem)
    enc, payload = hpke.seal(pair.public, info, aad, plaintext, ikm=fresh)
    assert hpke.unseal(pair, enc, info, aad, payload) == plaintext
    assert hpke.pair_of(pair.private, kem) == pair


@pairs
@settings(max_examples=20, deadline=None)
@given(info=texts, aad=texts, plaintext=texts)
def test_pyhpke_opens_what_we_seal_and_we_open_what_pyhpke_seals(
    pair: hpke.KeyPair, info: bytes, aad: bytes, plaintext: bytes
) -> None:
    suite, private, public = peer_keys(pair)
    enc, payload = hpke.seal(pair.public, info, aad, plaintext, ikm=FRESH)
    assert suite.create_recipient_context(enc, private, info=info).open(payload, aad) == plaintext
    theirs_enc, theirs = suite.create_sender_context(public, info=info)
    assert hpke.unseal(pair, theirs_enc, info, aad, theirs.seal(plaintext, aad)) == plaintext


@pairs
def test_keys_are_derived_as_pyhpke_derives_them(pair: hpke.KeyPair) -> None:
    suite, private, _ = peer_keys(pair)
    theirs = suite.kem.derive_key_pair(bytes(range(32))).private_key
    assert theirs.to_private_bytes() == private.to_private_bytes()


@pairs
@pytest.mark.parametrize("changed", ["enc", "info", "aad", "payload"])
def test_one_changed_bit_anywhere_does_not_open(pair: hpke.KeyPair, changed: str) -> None:
    enc, payload = hpke.seal(pair.public, b"info", b"aad", b"plaintext", ikm=FRESH)
    parts = {"enc": enc, "info": b"info", "aad": b"aad", "payload": payload}
    for at in range(len(parts[changed])):
        bad = bytearray(parts[changed])
        bad[at] ^= 1
        with pytest.raises(BadSignature):
            hpke.unseal(pair, **{**parts, changed: bytes(bad)})


@pytest.mark.parametrize("enc", [b"", bytes(31), bytes(32), bytes(33), b"\x01" + bytes(31), bytes(64), bytes(65)])
def test_an_encapsulated_key_of_wrong_length_or_small_order_is_refused(enc: bytes) -> None:
    for pair in (PAIR, P256_PAIR):
        with pytest.raises(BadSignature):
            hpke.unseal(pair, enc, b"", b"", bytes(32))
    with pytest.raises(BadSignature):
        hpke.seal(enc, b"", b"", b"", ikm=FRESH)


def test_a_point_that_is_compressed_or_off_the_curve_is_refused() -> None:
    good = P256_PAIR.public
    half = bytes([2 + (good[-1] & 1)]) + good[1:33]
    off = good[:-1] + bytes([good[-1] ^ 1])
    for bad in (half, off, b"\x02" + good[1:], b"\x04" + bytes(64), good + b"\x00"):
        with pytest.raises(BadSignature):
            primitives.p256(P256_PAIR.private, bad)


def test_a_key_of_one_kem_opens_nothing_of_the_other() -> None:
    for ours, theirs in ((PAIR, P256_PAIR), (P256_PAIR, PAIR)):
        enc, payload = hpke.seal(theirs.public, b"", b"", b"text", ikm=FRESH)
        with pytest.raises(BadSignature):
            hpke.unseal(ours, enc, b"", b"", payload)


@pytest.mark.parametrize("scalar", [0, ORDER, 2**256 - 1])
def test_a_scalar_outside_of_the_group_is_no_private_key(scalar: int) -> None:
    with pytest.raises(ValueError):
        hpke.pair_of(scalar.to_bytes(32, "big"), hpke.P256)
    with pytest.raises(ValueError, match="32 bytes"):
        hpke.pair_of(b"short", hpke.X25519)


def test_a_context_numbers_its_messages_and_keeps_its_place_when_one_does_not_open() -> None:
    enc, sending = hpke.sender(PAIR.public, b"", ikm=FRESH)
    receiving = hpke.receiver(PAIR, enc, b"")
    first, second = sending.seal(b"", b"same"), sending.seal(b"", b"same")
    assert first != second
    with pytest.raises(BadSignature):
        receiving.open(b"", second)
    assert receiving.open(b"", first) == b"same"
    assert receiving.open(b"", second) == b"same"


def test_too_little_keying_material_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        hpke.derive_key_pair(bytes(31))


def test_no_repr_shows_a_private_key() -> None:
    context = hpke.receiver(PAIR, hpke.derive_key_pair(FRESH).public, b"")
    assert repr(PAIR) == f"KeyPair(public={PAIR.public!r})"
    assert repr(context) == "Context(_sequence=0)"
