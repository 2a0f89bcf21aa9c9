"""Fields, polynomials and the expanding function: their laws, against the plainest form of the same thing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.dap.backend import VdafError
from interlock.dap.vdaf.field import FIELD64, FIELD128, Field
from interlock.dap.vdaf.polynomial import lagrange_basis, ntt, odd_rows
from interlock.dap.vdaf.xof import XofTurboShake128, domain_separation_tag

FIELDS = [FIELD64, FIELD128]
fields = st.sampled_from(FIELDS)
integers = st.integers(0, 2**130)
quick = settings(max_examples=40, deadline=None)


def _vector(field: Field, draw: st.DataObject, size: int) -> list[int]:
    return [x % field.modulus for x in draw.draw(st.lists(integers, min_size=size, max_size=size))]


def _value(field: Field, coefficients: list[int], x: int) -> int:
    return sum(c * pow(x, k, field.modulus) for k, c in enumerate(coefficients)) % field.modulus


def _rows(columns: list[list[int]]) -> list[list[int]]:
    return [list(row) for row in zip(*columns, strict=True)]


@quick
@given(fields, st.data())
def test_a_sum_is_that_of_the_integers_modulo_the_prime(field: Field, data: st.DataObject) -> None:
    a, b = _vector(field, data, 4), _vector(field, data, 4)
    assert field.add(a, b) == [(x + y) % field.modulus for x, y in zip(a, b, strict=True)]


@quick
@given(fields, st.data())
def test_a_dot_product_is_linear_in_each_side(field: Field, data: st.DataObject) -> None:
    a, b, c = (_vector(field, data, 5) for _ in range(3))
    assert field.dot(field.add(a, b), c) == (field.dot(a, c) + field.dot(b, c)) % field.modulus


@quick
@given(fields, st.data())
def test_all_inverses_at_once_are_those_one_by_one(field: Field, data: st.DataObject) -> None:
    values = [x or 1 for x in _vector(field, data, 6)]
    assert field.inverses(values) == [field.inverse(x) for x in values]
    assert all(x * y % field.modulus == 1 for x, y in zip(values, field.inverses(values), strict=True))


@quick
@given(fields, st.data())
def test_encoded_elements_decode_to_themselves(field: Field, data: st.DataObject) -> None:
    values = _vector(field, data, 3)
    assert field.decode(field.encode(values), 3) == values


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("change", [-1, 1])
def test_bytes_of_the_wrong_length_are_no_elements(field: Field, change: int) -> None:
    with pytest.raises(VdafError, match="2 elements"):
        field.decode(bytes(2 * field.size + change), 2)


@pytest.mark.parametrize("field", FIELDS)
def test_the_modulus_itself_is_no_element_and_the_number_below_it_is(field: Field) -> None:
    assert field.decode((field.modulus - 1).to_bytes(field.size, "little"), 1) == [field.modulus - 1]
    with pytest.raises(VdafError, match="outside"):
        field.decode(field.modulus.to_bytes(field.size, "little"), 1)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("n", [1, 2, 8, 64])
def test_a_root_of_unity_has_its_exact_order(field: Field, n: int) -> None:
    roots = field.roots(n)
    assert len(set(roots)) == n
    assert all(pow(root, n, field.modulus) == 1 for root in roots)


@pytest.mark.parametrize("n", [0, 3, 2**40])
def test_there_is_no_root_of_another_order(n: int) -> None:
    with pytest.raises(ValueError, match="no root of unity"):
        FIELD64.roots(n)


@quick
@given(fields, st.sampled_from([1, 2, 4, 16]), st.data())
def test_the_transform_gives_each_polynomials_values(field: Field, n: int, data: st.DataObject) -> None:
    columns = [_vector(field, data, n) for _ in range(3)]
    values = ntt(field, _rows(columns))
    assert values == [[_value(field, column, root) for column in columns] for root in field.roots(n)]


@quick
@given(fields, st.sampled_from([1, 2, 8]), st.data())
def test_odd_rows_are_the_values_at_the_odd_powers_of_the_finer_root(field: Field, n: int, data: st.DataObject) -> None:
    columns = [_vector(field, data, n) for _ in range(2)]
    finer = field.roots(2 * n)
    assert odd_rows(field, ntt(field, _rows(columns))) == [
        [_value(field, column, root) for column in columns] for root in finer[1::2]
    ]


@quick
@given(fields, st.sampled_from([1, 2, 8]), integers, st.data())
def test_lagrange_weights_give_the_value_anywhere(field: Field, n: int, at: int, data: st.DataObject) -> None:
    coefficients, x = _vector(field, data, n), at % field.modulus
    values = [_value(field, coefficients, root) for root in field.roots(n)]
    assert field.dot(lagrange_basis(field, n, x), values) == _value(field, coefficients, x)


@pytest.mark.parametrize("k", range(4))
def test_lagrange_weights_at_a_node_pick_its_value(k: int) -> None:
    assert lagrange_basis(FIELD64, 4, FIELD64.roots(4)[k]) == [int(k == i) for i in range(4)]


@quick
@given(st.lists(st.integers(0, 40), min_size=1, max_size=6))
def test_the_output_goes_on_where_the_last_call_ended(sizes: list[int]) -> None:
    whole = XofTurboShake128(bytes(32), b"tag", b"binder").next(sum(sizes) or 1)
    running = XofTurboShake128(bytes(32), b"tag", b"binder")
    assert b"".join(running.next(size) for size in sizes if size) == whole[: sum(sizes)]


def test_drawing_in_bulk_passes_over_a_number_outside_the_field() -> None:
    """A seed of the draft's own test suite, found by search: one of its first 13883 numbers exceeds Field64."""
    seed = bytes.fromhex("44341dc52d71a2ff2e4c305e9335da9b19afc68e10b8b543690dad9d3bbb46ba")
    assert XofTurboShake128(seed, b"", b"").next_vec(FIELD64, 13883)[-1] == 4857131209231097247
    raw = XofTurboShake128(seed, b"", b"").next(13883 * 8)
    assert max(int.from_bytes(raw[at : at + 8], "little") for at in range(0, len(raw), 8)) >= FIELD64.modulus


def test_a_domain_separation_tag_names_version_class_algorithm_and_usage() -> None:
    assert domain_separation_tag(3, 7, b"app") == bytes([18, 0, 0, 0, 0, 3, 0, 7]) + b"app"


def test_a_context_too_long_for_its_length_field_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="too long"):
        XofTurboShake128(bytes(32), bytes(0x10000), b"")
