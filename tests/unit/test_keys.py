"""Keys of both families, and how they lie at rest."""

from __future__ import annotations

import json
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.base.keys import (
    ARGON2_MEMORY,
    ARGON2_OPS,
    BadKey,
    Ed25519Signer,
    MlDsaSigner,
    MlDsaVerifier,
    dump_key,
    is_sealed,
    load_key,
    verifier_of,
)
from interlock.base.primitives import BadSignature

SEED: Final = bytes(range(32))
LEAST: Final = 64 << 10  # bytes: little, so that a test that seals takes no second
SIGNERS: Final = (Ed25519Signer(SEED), MlDsaSigner(44, SEED), MlDsaSigner(65, SEED))


def _sealed(signer: Ed25519Signer | MlDsaSigner, passphrase: bytes = b"correct horse") -> bytes:
    return dump_key(signer, passphrase=passphrase, salt=bytes(16), nonce=bytes(24), memory=LEAST)


@pytest.mark.parametrize("signer", SIGNERS, ids=lambda s: s.verifier.text[:9])
def test_a_key_of_each_family_reads_back_plain_and_sealed(signer: Ed25519Signer | MlDsaSigner) -> None:
    assert load_key(dump_key(signer), where="k") == signer
    sealed = _sealed(signer)
    assert load_key(sealed, where="k", passphrase=b"correct horse", least_memory=LEAST) == signer
    assert SEED.hex() not in sealed.decode()
    assert (is_sealed(dump_key(signer), where="k"), is_sealed(sealed, where="k")) == (False, True)


@pytest.mark.parametrize("signer", SIGNERS, ids=lambda s: s.verifier.text[:9])
def test_a_public_key_is_its_text(signer: Ed25519Signer | MlDsaSigner) -> None:
    assert verifier_of(signer.verifier.text) == signer.verifier
    assert SEED.hex() not in repr(signer)


@pytest.mark.parametrize("level", [44, 65])
def test_an_ml_dsa_signature_verifies_for_its_message_and_key_only(level: int) -> None:
    signer = MlDsaSigner(level, SEED)
    signature = signer.sign(b"m")
    signer.verifier.verify(b"m", signature)
    other = MlDsaSigner(level, bytes(32)).verifier
    for key, message, bad in (
        (signer.verifier, b"n", signature),
        (other, b"m", signature),
        (signer.verifier, b"m", signature[:-1]),
        (signer.verifier, b"m", signature + b"\0"),
        (signer.verifier, b"m", b""),
    ):
        with pytest.raises(BadSignature):
            key.verify(message, bad)


def test_an_ml_dsa_key_is_not_taken_for_another_parameter_set() -> None:
    with pytest.raises(BadKey, match="1312 bytes"):
        MlDsaVerifier(44, MlDsaSigner(65, SEED).verifier.public)
    with pytest.raises(BadKey, match="no parameter set"):
        MlDsaSigner(87, SEED)


def test_a_key_is_sealed_with_strong_parameters_which_stand_in_its_file() -> None:
    sealed = json.loads(dump_key(SIGNERS[0], passphrase=b"p", salt=bytes(16), nonce=bytes(24)))["sealed"]
    assert (sealed["kdf"], sealed["ops"], sealed["memory"]) == ("argon2id", ARGON2_OPS, ARGON2_MEMORY)
    assert ARGON2_OPS >= 3
    assert ARGON2_MEMORY >= 256 << 20


@pytest.mark.parametrize(("field", "value"), [("ops", ARGON2_OPS - 1), ("memory", LEAST - 1), ("kdf", "scrypt")])
def test_a_key_that_is_sealed_more_weakly_is_refused(field: str, value: object) -> None:
    body = json.loads(_sealed(SIGNERS[0]))
    body["sealed"][field] = value
    with pytest.raises(BadKey, match="more weakly than Argon2id"):
        load_key(json.dumps(body).encode(), where="k", passphrase=b"correct horse", least_memory=LEAST)


@given(st.binary(max_size=100), st.sampled_from(["ed25519", "ml-dsa-44", "ml-dsa-65", "rsa", ""]))
def test_what_is_no_public_key_is_refused(public: bytes, family: str) -> None:
    if family == "ed25519" and len(public) == 32:
        return
    with pytest.raises(BadKey):
        verifier_of(f"{family}:{public.hex()}")


def test_a_public_key_in_another_spelling_is_refused() -> None:
    with pytest.raises(BadKey, match="one spelling"):
        verifier_of("ed25519:" + "AB" * 32)
