"""RFC 9474's vector of RSABSSA-SHA384-PSS-Randomized, on both implementations; and both held against each other."""

from __future__ import annotations

import functools
import importlib
import json
import os
import random
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from interlock.base import blind_rsa
from interlock.base.blind_rsa import BlindRsa, PythonBlindRsa
from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.keys import BadKey
from interlock.base.primitives import BadSignature
from interlock.native.availability import availability
from interlock.native.blind_rsa import NativeBlindRsa, chosen_blind_rsa

VECTOR: Final[dict[str, str]] = json.loads((Path(__file__).parent / "rfc9474_randomized.json").read_text())


def _has_native() -> bool:
    try:
        return hasattr(importlib.import_module("interlock_native"), "rsabssa_verify")
    except ImportError:
        return False


NATIVE: Final = pytest.mark.skipif(not _has_native(), reason="interlock-native is not installed, or has no blind RSA")
BOTH: Final = pytest.mark.parametrize("kind", [PythonBlindRsa, pytest.param(NativeBlindRsa, marks=NATIVE)])


def _bytes(name: str) -> bytes:
    return bytes.fromhex(VECTOR[name])


def _number(name: str) -> int:
    return int(VECTOR[name], 16)


@functools.cache
def vector_key() -> bytes:
    p, q, d = (_number(name) for name in ("p", "q", "d"))
    public = rsa.RSAPublicNumbers(_number("e"), _number("n"))
    crt = rsa.rsa_crt_dmp1(d, p), rsa.rsa_crt_dmq1(d, q), rsa.rsa_crt_iqmp(p, q)
    key = rsa.RSAPrivateNumbers(p, q, d, *crt, public).private_key()
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


@functools.cache
def small_key() -> bytes:
    return blind_rsa.new_private_key(2048)


def _factor() -> bytes:
    """The vector gives the inverse of the blinding factor only."""
    return pow(_number("inv"), -1, _number("n")).to_bytes(512, "big")


@BOTH
def test_the_vector_of_the_rfc_is_reproduced(kind: type[BlindRsa]) -> None:
    scheme, public = kind(), blind_rsa.public_of(vector_key())
    prepared = blind_rsa.prepare(_bytes("msg"), lambda size: _bytes("msg_prefix"))
    assert prepared == _bytes("prepared_msg")
    blinded, inverse = scheme.blind(public, prepared, _bytes("salt"), _factor())
    assert (blinded, inverse) == (_bytes("blinded_msg"), _bytes("inv"))
    assert scheme.blind_sign(vector_key(), blinded, os.urandom) == _bytes("blind_sig")
    assert scheme.finalize(public, prepared, _bytes("blind_sig"), inverse) == _bytes("sig")
    scheme.verify(public, prepared, _bytes("sig"))


@BOTH
def test_what_is_changed_does_not_verify(kind: type[BlindRsa]) -> None:
    scheme, public = kind(), blind_rsa.public_of(vector_key())
    n = _number("n")
    other = (int.from_bytes(_bytes("sig"), "big") + n) % (1 << 4096)
    for signature in (_bytes("sig")[::-1], b"", _bytes("sig") + b"\0", bytes(512), other.to_bytes(512, "big")):
        with pytest.raises(BadSignature):
            scheme.verify(public, _bytes("prepared_msg"), signature)
    with pytest.raises(BadSignature):
        scheme.verify(public, _bytes("prepared_msg") + b"\0", _bytes("sig"))
    with pytest.raises(BadSignature):
        scheme.finalize(public, _bytes("prepared_msg"), _bytes("sig"), _bytes("inv"))


@BOTH
def test_what_is_out_of_range_is_refused(kind: type[BlindRsa]) -> None:
    scheme, public = kind(), blind_rsa.public_of(vector_key())
    for wrong in (b"", bytes(512), _bytes("n"), b"\xff" * 512, b"\1" * 511, b"\1" * 513):
        with pytest.raises(Malformed):
            scheme.blind_sign(vector_key(), wrong, os.urandom)
        with pytest.raises(Malformed):
            scheme.blind(public, b"message", bytes(48), wrong)
        with pytest.raises(Malformed):
            scheme.finalize(public, b"message", wrong, _bytes("inv"))
    with pytest.raises(Malformed):
        scheme.blind(public, b"message", bytes(47), _factor())


@BOTH
@pytest.mark.parametrize("wrong", [b"", b"\x30\x00", b"not a key"])
def test_a_damaged_key_is_refused(kind: type[BlindRsa], wrong: bytes) -> None:
    scheme = kind()
    with pytest.raises(BadKey):
        scheme.verify(wrong, b"message", b"signature")
    with pytest.raises(BadKey):
        scheme.blind_sign(wrong, bytes(512), os.urandom)


@NATIVE
def test_both_give_the_same_bytes_for_the_same_arguments() -> None:
    python, native = PythonBlindRsa(), NativeBlindRsa()
    rng = random.Random(9474).randbytes
    for key, sizes in ((small_key(), (0, 1, 40, 1000)), (vector_key(), (40,))):
        public = blind_rsa.public_of(key)
        for size in sizes:
            prepared = blind_rsa.prepare(rng(size), rng)
            drawn = blind_rsa.blinding(public, rng)
            blinded, inverse = python.blind(public, prepared, *drawn)
            assert native.blind(public, prepared, *drawn) == (blinded, inverse)
            signed = python.blind_sign(key, blinded, rng)
            assert native.blind_sign(key, blinded, rng) == signed
            signature = python.finalize(public, prepared, signed, inverse)
            assert native.finalize(public, prepared, signed, inverse) == signature


@NATIVE
def test_both_refuse_the_same_inputs_with_the_same_error() -> None:
    python, native = PythonBlindRsa(), NativeBlindRsa()
    rng = random.Random(8017).randbytes
    public = blind_rsa.public_of(small_key())
    prepared = blind_rsa.prepare(b"message", rng)
    blinded, inverse = python.blind(public, prepared, *blind_rsa.blinding(public, rng))
    signature = python.finalize(public, prepared, python.blind_sign(small_key(), blinded, rng), inverse)
    for _ in range(100):
        changed = bytearray(signature)
        changed[rng(1)[0]] ^= 1 << rng(1)[0] % 8
        told = [_refusal(scheme, public, prepared, bytes(changed)) for scheme in (python, native)]
        assert told == [BadSignature, BadSignature]


def _refusal(scheme: BlindRsa, public: bytes, prepared: bytes, signature: bytes) -> type[InterlockError] | None:
    try:
        scheme.verify(public, prepared, signature)
    except InterlockError as e:
        return type(e)
    return None


def test_a_key_of_another_size_is_not_made() -> None:
    with pytest.raises(BadKey):
        blind_rsa.new_private_key(1024)


def test_a_key_with_another_spelling_is_refused() -> None:
    public = bytearray(blind_rsa.public_of(small_key()))
    with pytest.raises(BadKey):
        PythonBlindRsa().verify(bytes(public) + b"\0", b"message", b"signature")


def test_a_blinding_factor_is_drawn_again_until_it_fits() -> None:
    public = blind_rsa.public_of(small_key())
    draws = iter([bytes(48), b"\xff" * 256, bytes(256), b"\0" + b"\7" * 255])
    assert blind_rsa.blinding(public, lambda size: next(draws)) == (bytes(48), b"\0" + b"\7" * 255)


@NATIVE
@pytest.mark.skipif(not availability().installed, reason="the installed interlock-native is of another version")
def test_the_native_one_is_chosen_where_it_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen_blind_rsa().name == "native"
    monkeypatch.setenv("INTERLOCK_NATIVE", "0")
    assert chosen_blind_rsa().name == "python"
