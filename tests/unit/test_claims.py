"""Signatures that let a report in: the native check and the readable one take the same, and refuse the same."""

from __future__ import annotations

import functools
import hashlib
import random
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.base.blind_rsa import PythonBlindRsa
from interlock.base.claims import Claim, failing
from interlock.base.keys import Ed25519Signer
from interlock.base.primitives import BadSignature
from interlock.native.vdaf import chosen_failing

pytestmark = pytest.mark.skipif(chosen_failing(failing) is failing, reason="no interlock-native with such a check")
MESSAGE = b"prepared" * 20
FIELDS, SCHEMES = ("key", "message", "signature"), ("rsabssa", "ed25519")
PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, PRIME) % PRIME
Point = tuple[int, int]


def holds(*signed: Claim) -> bool:
    """What both say of one report."""
    found = chosen_failing(failing)([signed])
    assert found == failing([signed])
    return not found


@functools.cache
def key(bits: int, exponent: int = 65537) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(exponent, bits)


def der(private: rsa.RSAPrivateKey) -> bytes:
    return private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def pss(private: rsa.RSAPrivateKey, salt: int = 48, hashed: hashes.HashAlgorithm | None = None) -> bytes:
    algorithm = hashed or hashes.SHA384()
    return private.sign(MESSAGE, padding.PSS(padding.MGF1(algorithm), salt), algorithm)


def token(private: rsa.RSAPrivateKey, signature: bytes) -> Claim:
    return Claim("rsabssa", der(private), MESSAGE, signature)


# tokens


def test_a_token_has_one_spelling_also_where_it_begins_with_a_zero() -> None:
    """A report's id is a hash of its token: one that also held without its leading zeros would be two reports."""
    private = key(2050)  # a token of it begins with a zero one time in three
    good = next(found for found in iter(lambda: pss(private), b"") if found[0] == 0)
    assert holds(token(private, good))
    for other in (good[1:], good.lstrip(b"\0"), b"\0" + good):
        assert not holds(token(private, other))
    with pytest.raises(BadSignature):
        PythonBlindRsa().verify(der(private), MESSAGE, good[1:])


@pytest.mark.parametrize("bits", [2048, 2049, 2055, 3072, 4096])
def test_a_token_under_a_key_of_each_size_holds(bits: int) -> None:
    good = pss(key(bits))
    assert holds(token(key(bits), good))
    n = key(bits).public_key().public_numbers().n
    number, size = int.from_bytes(good, "big"), len(good)
    others = [0, 1, n - 1, n, n - number, number + n, 256**size - 1]
    spelled = [value.to_bytes(size, "big") for value in others if value < 256**size]
    for bad in (b"", good[1:], good[:-1], b"\0" + good, good + b"\0", good[::-1], *spelled):
        assert not holds(token(key(bits), bad))


@pytest.mark.parametrize(("bits", "exponent"), [(1024, 65537), (2047, 65537), (4104, 65537), (2048, 3)])
def test_a_key_that_is_not_used_here_lets_nothing_in(bits: int, exponent: int) -> None:
    assert not holds(token(key(bits, exponent), pss(key(bits, exponent))))


@pytest.mark.parametrize("salt", [0, 32, 47, 49, 64])
def test_a_salt_of_another_length_is_refused(salt: int) -> None:
    assert not holds(token(key(2048), pss(key(2048), salt)))


def test_another_hash_or_padding_is_refused() -> None:
    assert not holds(token(key(2048), pss(key(2048), 48, hashes.SHA256())))
    assert not holds(token(key(2048), pss(key(2048), 48, hashes.SHA512())))
    assert not holds(token(key(2048), key(2048).sign(MESSAGE, padding.PKCS1v15(), hashes.SHA384())))


def test_a_key_has_one_spelling_and_is_of_its_kind() -> None:
    good = token(key(2048), pss(key(2048)))
    public = der(key(2048))
    pkcs1 = key(2048).public_key().public_bytes(Encoding.DER, PublicFormat.PKCS1)
    no_parameters = public.replace(bytes.fromhex("0500"), b"", 1)
    for bad in (b"", public + b"\0", public[:-1], pkcs1, no_parameters, der(key(2049)), bytes(32)):
        assert not holds(good._replace(key=bad))
    assert not holds(good._replace(scheme="ed25519"))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(FIELDS), st.sampled_from(SCHEMES), st.integers(0, 1 << 20))
def test_a_bit_changed_anywhere_is_refused(field: str, scheme: str, bit: int) -> None:
    signer = Ed25519Signer(bytes(range(32)))
    plain = Claim("ed25519", signer.verifier.public, MESSAGE, signer.sign(MESSAGE))
    good = token(key(2048), pss(key(2048))) if scheme == "rsabssa" else plain
    assert holds(good)
    data = bytearray(getattr(good, field))
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    assert not holds(good._replace(**{field: bytes(data)}))  # type: ignore[arg-type]


# Ed25519, as libsodium has it


def add(p: Point, q: Point) -> Point:
    product = D * p[0] * q[0] * p[1] * q[1] % PRIME
    x = (p[0] * q[1] + p[1] * q[0]) * pow(1 + product, -1, PRIME) % PRIME
    return x, (p[1] * q[1] + p[0] * q[0]) * pow(1 - product, -1, PRIME) % PRIME


def times(scalar: int, point: Point) -> Point:
    total = (0, 1)
    for bit in bin(scalar)[2:]:
        total = add(total, total)
        total = add(total, point) if bit == "1" else total
    return total


def decoded(data: bytes) -> Point | None:
    number = int.from_bytes(data, "little")
    y = number % 2**255 % PRIME
    square = (y * y - 1) * pow(D * y * y + 1, -1, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    if (x * x - square) % PRIME:
        x = x * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    if (x * x - square) % PRIME:
        return None
    return (-x % PRIME if x % 2 != number >> 255 else x), y


def encoded(point: Point) -> bytes:
    return (point[1] | (point[0] % 2) << 255).to_bytes(32, "little")


BASE = decoded((4 * pow(5, -1, PRIME) % PRIME).to_bytes(32, "little")) or (0, 1)


def torsion() -> list[Point]:
    """The eight points of small order."""
    draw = random.Random(8)
    while True:
        point = decoded(draw.randbytes(32))
        eighth = times(ORDER, point) if point else (0, 1)
        if times(4, eighth) != (0, 1):
            return [times(n, eighth) for n in range(8)]


def spellings(point: Point) -> Iterator[bytes]:
    """Every way to write a point down, the canonical one first."""
    for number in (point[1], point[1] + PRIME):
        if number < 2**255:
            signs = (point[0] % 2, 1 - point[0] % 2) if point[0] == 0 else (point[0] % 2,)
            yield from ((number | sign << 255).to_bytes(32, "little") for sign in signs)


def signed_with(public: Point, secret: int, first: Point, nonce: int, *, a: bytes = b"", r: bytes = b"") -> Claim:
    """A signature by the book, of points that an honest signer does not use."""
    a, r = a or encoded(public), r or encoded(first)
    k = int.from_bytes(hashlib.sha512(r + a + MESSAGE).digest(), "little")
    return Claim("ed25519", a, MESSAGE, r + ((nonce + k * secret) % ORDER).to_bytes(32, "little"))


def test_what_differs_by_a_point_of_small_order_is_judged_alike() -> None:
    """Keys and first halves with a part of small order: taken where those parts cancel, and nowhere else."""
    public, first = times(1234567, BASE), times(7654321, BASE)
    for left in torsion():
        for right in torsion():
            signed = signed_with(add(public, left), 1234567, add(first, right), 7654321)
            k = int.from_bytes(hashlib.sha512(signed.signature[:32] + signed.key + MESSAGE).digest(), "little")
            assert holds(signed) is (add(right, times(k % ORDER, left)) == (0, 1))


def test_a_point_of_small_order_is_refused_however_it_is_spelled() -> None:
    public, first = times(1234567, BASE), times(7654321, BASE)
    for small in torsion():
        for spelled in spellings(small):
            assert not holds(signed_with(small, 0, first, 7654321, a=spelled))
            assert not holds(signed_with(public, 1234567, small, 0, r=spelled))


def test_a_number_has_one_spelling() -> None:
    good = signed_with(times(1234567, BASE), 1234567, times(7654321, BASE), 7654321)
    assert holds(good)
    r, s = good.signature[:32], int.from_bytes(good.signature[32:], "little")
    for other in (s + ORDER, s + 2 * ORDER, ORDER - s, 2**256 - 1, 0):
        assert not holds(good._replace(signature=r + other.to_bytes(32, "little")))
    for size in (0, 31, 33):
        assert not holds(good._replace(key=(good.key * 2)[:size]))
    for size in (0, 63, 65):
        assert not holds(good._replace(signature=(good.signature * 2)[:size]))


def test_a_first_half_that_is_not_canonical_is_judged_alike() -> None:
    """Nobody knows the logarithm of such a point, so none of these holds; but both read it the same way."""
    public = times(1234567, BASE)
    for y in range(19):
        for sign in (0, 1):
            r = (y + PRIME | sign << 255).to_bytes(32, "little")
            assert not holds(signed_with(public, 1234567, (0, 1), 5, r=r))
            assert not holds(signed_with((0, 1), 5, times(9, BASE), 9, a=r))


# many reports


def test_each_report_is_judged_by_all_of_its_signatures_and_by_no_others() -> None:
    good, signer = token(key(2048), pss(key(2048))), Ed25519Signer(bytes(range(32)))
    plain = Claim("ed25519", signer.verifier.public, MESSAGE, signer.sign(MESSAGE))
    reports = [(), (good, plain), (good, plain._replace(message=b"")), (good._replace(message=b""), plain), (plain,)]
    for judge in (failing, chosen_failing(failing)):
        assert judge(reports * 9) == {5 * n + at for n in range(9) for at in (2, 3)}
        assert judge([]) == set()


def test_a_credential_is_not_shown() -> None:
    assert repr(token(key(2048), b"secret")) == "Claim('rsabssa')"
