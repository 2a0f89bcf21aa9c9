"""HPKE, base mode: what is sealed opens, with pyhpke on the other side too, and nothing else opens."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st
from pyhpke import AEADId, CipherSuite, KDFId, KEMId, KEMKey

from interlock.base.primitives import BadSignature
from interlock.dap import hpke

PAIR = hpke.derive_key_pair(bytes(range(32)))
FRESH = bytes(range(100, 132))
SUITE = CipherSuite.new(KEMId.DHKEM_X25519_HKDF_SHA256, KDFId.HKDF_SHA256, AEADId.AES128_GCM)
seeds = st.binary(min_size=32, max_size=32)
texts = st.binary(max_size=80)


@settings(max_examples=30, deadline=None)
@given(seeds, seeds, texts, texts, texts)
def test_what_is_sealed_opens(ikm: bytes, fresh: bytes, info: bytes, aad: bytes, plaintext: bytes) -> None:
    pair = hpke.derive_key_pair(ikm)
    enc, payload = hpke.seal(pair.public, info, aad, plaintext, ikm=fresh)
    assert hpke.unseal(pair, enc, info, aad, payload) == plaintext


@settings(max_examples=20, deadline=None)
@given(texts, texts, texts)
def test_pyhpke_opens_what_we_seal_and_we_open_what_pyhpke_seals(info: bytes, aad: bytes, plaintext: bytes) -> None:
    public = KEMKey.from_pyca_cryptography_key(X25519PublicKey.from_public_bytes(PAIR.public))
    private = KEMKey.from_pyca_cryptography_key(X25519PrivateKey.from_private_bytes(PAIR.private))
    enc, payload = hpke.seal(PAIR.public, info, aad, plaintext, ikm=FRESH)
    assert SUITE.create_recipient_context(enc, private, info=info).open(payload, aad) == plaintext
    theirs_enc, theirs = SUITE.create_sender_context(public, info=info)
    assert hpke.unseal(PAIR, theirs_enc, info, aad, theirs.seal(plaintext, aad)) == plaintext


@pytest.mark.parametrize("changed", ["enc", "info", "aad", "payload"])
def test_one_changed_bit_anywhere_does_not_open(changed: str) -> None:
    enc, payload = hpke.seal(PAIR.public, b"info", b"aad", b"plaintext", ikm=FRESH)
    parts = {"enc": enc, "info": b"info", "aad": b"aad", "payload": payload}
    for at in range(len(parts[changed])):
        bad = bytearray(parts[changed])
        bad[at] ^= 1
        with pytest.raises(BadSignature):
            hpke.unseal(PAIR, **{**parts, changed: bytes(bad)})


@pytest.mark.parametrize("enc", [b"", bytes(31), bytes(32), bytes(33), b"\x01" + bytes(31)])
def test_an_encapsulated_key_of_wrong_length_or_small_order_is_refused(enc: bytes) -> None:
    with pytest.raises(BadSignature):
        hpke.unseal(PAIR, enc, b"", b"", bytes(32))
    with pytest.raises(BadSignature):
        hpke.seal(enc, b"", b"", b"", ikm=FRESH)


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
