"""Noise: its samplers are exact, its statistics are those of the distribution, and its costs those of the sources."""

from __future__ import annotations

import functools
import math
import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.base.codec import Malformed
from interlock.dap import noise as noise_module
from interlock.dap.noise import (
    Coins,
    Mechanism,
    Noise,
    RandomCoins,
    Shape,
    centred,
    discrete_gaussian,
    discrete_laplace,
    noise_share,
    reach,
    sample,
    shape_of,
)
from interlock.dap.vdaf.circuits import Circuit, Count, Histogram, MultihotCountVec, Sum, SumVec
from interlock.dap.vdaf.field import FIELD64, FIELD128
from interlock.dap.vdaf.prio3 import Prio3

Sampler = Callable[[Coins], int]
Weight = Fraction | float


class Undecided(Exception):
    """A sampler asked for one more coin than its path has."""

    def __init__(self, outcomes: list[tuple[int, Weight]]) -> None:
        self.outcomes = outcomes


class Told:
    """Coins that fall as they are told; the first one that is not told stops the sampler and says how it could fall."""

    def __init__(self, told: tuple[int, ...]) -> None:
        self._told = iter(told)

    def below(self, n: int) -> int:
        return self._next([(value, Fraction(1, n)) for value in range(n)])

    def chance(self, n: int, d: int) -> bool:
        assert n >= 0
        assert d >= 1
        likely = min(Fraction(n, d), Fraction(1))
        return bool(self._next([(value, p) for value, p in ((1, likely), (0, 1 - likely)) if p]))

    def exp_minus(self, n: int, d: int) -> bool:
        likely = math.exp(-n / d)
        return bool(self._next([(value, p) for value, p in ((1, likely), (0, 1 - likely)) if p]))

    def laplace(self, scale: Fraction) -> int:
        return self._next(steps(scale))

    def _next(self, outcomes: list[tuple[int, Weight]]) -> int:
        found = next(self._told, None)
        if found is None:
            raise Undecided(outcomes)
        return found


@functools.cache
def steps(scale: Fraction) -> list[tuple[int, Weight]]:
    law = laplace(scale)
    return [(x, law(x)) for x in range(-25, 26)]


def odds(sampler: Sampler, least: Weight) -> tuple[dict[int, Weight], Weight]:
    """The probability of each result over all paths that are likelier than `least`, and what is left over."""
    found: dict[int, Weight] = {}
    rest: Weight = Fraction(0)
    todo: list[tuple[tuple[int, ...], Weight]] = [((), Fraction(1))]
    while todo:
        path, weight = todo.pop()
        if weight < least:
            rest += weight
            continue
        try:
            result = sampler(Told(path))
            found[result] = found.get(result, Fraction(0)) + weight
        except Undecided as e:
            todo += [((*path, value), weight * p) for value, p in e.outcomes]
    return found, rest


def laplace(scale: Fraction) -> Callable[[int], float]:
    def weight(x: int) -> float:
        return math.exp(-abs(x) / scale)

    total = sum(weight(x) for x in range(-2000, 2001))
    return lambda x: weight(x) / total


def gaussian(variance: Fraction) -> Callable[[int], float]:
    def weight(x: int) -> float:
        return math.exp(-x * x / (2 * variance))

    total = sum(weight(x) for x in range(-2000, 2001))
    return lambda x: weight(x) / total


CASES = [
    (lambda c: discrete_laplace(c, Fraction(1)), laplace(Fraction(1))),
    (lambda c: discrete_laplace(c, Fraction(3, 2)), laplace(Fraction(3, 2))),
    (lambda c: discrete_laplace(c, Fraction(2, 3)), laplace(Fraction(2, 3))),
    (lambda c: discrete_gaussian(c, Fraction(1, 3)), gaussian(Fraction(1, 3))),
    (lambda c: discrete_gaussian(c, Fraction(1)), gaussian(Fraction(1))),
    (lambda c: discrete_gaussian(c, Fraction(9, 4)), gaussian(Fraction(9, 4))),
]


@pytest.mark.parametrize(("n", "d"), [(0, 1), (1, 7), (1, 2), (1, 1), (5, 3), (7, 2), (6, 1)])
def test_a_coin_of_odds_exp_is_that_and_no_approximation(n: int, d: int) -> None:
    """No statistics: the paths to true weigh no more than exp(-n/d), and no less but for what is left over."""
    found, rest = odds(lambda coins: int(noise_module._exp_minus(coins, n, d)), Fraction(1, 10**7))
    assert sum(found.values()) + rest == 1
    assert rest < Fraction(1, 10**4)
    assert float(found.get(1, 0)) <= math.exp(-n / d) <= float(found.get(1, 0) + rest)


@pytest.mark.parametrize(("sampler", "law"), CASES)
def test_a_samplers_own_tree_of_coins_has_the_probabilities_of_the_law(
    sampler: Sampler, law: Callable[[int], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above, for whole samplers; what a sampler is made of, and another test is of, is one coin here."""
    monkeypatch.setattr(noise_module, "_exp_minus", lambda coins, n, d: coins.exp_minus(n, d))
    if law.__qualname__.startswith("gaussian"):
        monkeypatch.setattr(noise_module, "discrete_laplace", lambda coins, scale: coins.laplace(scale))
    found, rest = odds(sampler, 1e-5)
    assert rest < 1 / 10
    for x in range(-3, 4):
        assert found.get(x, 0) <= law(x) + 1e-9, x
        assert law(x) <= found.get(x, 0) + rest + 1e-9, x


@pytest.mark.parametrize(
    ("sampler", "law"),
    [
        (lambda c: discrete_laplace(c, Fraction(7, 3)), laplace(Fraction(7, 3))),
        (lambda c: discrete_laplace(c, Fraction(40)), laplace(Fraction(40))),
        (lambda c: discrete_gaussian(c, Fraction(5, 2)), gaussian(Fraction(5, 2))),
        (lambda c: discrete_gaussian(c, Fraction(400)), gaussian(Fraction(400))),
    ],
)
def test_what_is_sampled_passes_a_chi_square_test(sampler: Sampler, law: Callable[[int], float]) -> None:
    coins, count = RandomCoins(random.Random(20260101).randbytes), 20_000
    seen = Counter(sampler(coins) for _ in range(count))
    cells = [x for x in range(-200, 201) if count * law(x) >= 10]
    likely = [count * law(x) for x in cells]
    chi = sum((seen[x] - e) ** 2 / e for x, e in zip(cells, likely, strict=True))
    rest, seen_rest = count - sum(likely), count - sum(seen[x] for x in cells)
    chi += (seen_rest - rest) ** 2 / max(rest, 1)
    # chi square of n degrees has mean n and variance 2 n: five standard deviations above it, and not too good either
    assert len(cells) - 5 * math.sqrt(2 * len(cells)) < chi < len(cells) + 5 * math.sqrt(2 * len(cells))


def test_the_moments_are_those_of_the_scale_that_the_cost_asks_for() -> None:
    """A SumVec of 4000 bits at rho 1/2: sigma squared is 4000, and 4000 samples of it show that."""
    rng = random.Random(7).randbytes
    shape = Shape(FIELD128, 4000, 4000, 4000, 1, 65_000)
    found = sample(Noise(Mechanism.GAUSSIAN, Fraction(1, 2), Fraction(8)), shape, rng)
    mean, var = sum(found) / 4000, sum(x * x for x in found) / 4000
    assert abs(mean) < 5 * math.sqrt(4000 / 4000)
    assert abs(var - 4000) < 5 * 4000 * math.sqrt(2 / 4000)
    found = sample(Noise(Mechanism.LAPLACE, Fraction(100), Fraction(100)), shape, rng)  # scale 40, variance 2 t**2
    assert abs(sum(x * x for x in found) / 4000 - 3200) < 5 * 3200 * math.sqrt(5 / 4000)


@given(st.integers(1, 1 << 70), st.integers(0, 2**32))
@settings(max_examples=50)
def test_a_uniform_number_stays_below_its_bound_and_uses_each_random_bit_once(n: int, seed: int) -> None:
    source = random.Random(seed)
    coins = RandomCoins(source.randbytes)
    assert all(0 <= coins.below(n) < n for _ in range(20))


def test_random_bits_are_used_in_order_and_never_twice() -> None:
    data = random.Random(1).randbytes(512)
    coins = RandomCoins(lambda size: data[:size])
    told = [coins.below(256) for _ in range(512)]
    assert bytes(reversed(told)) == data


@pytest.mark.parametrize(
    ("circuit", "l1", "l2_squared"),
    [
        (Count(), 1, 1),
        (Sum(255), 255, 255 * 255),
        (SumVec(10, 1, 3), 10, 10),
        (SumVec(10, 7, 3), 70, 490),
        (Histogram(10, 3), 2, 2),
        (MultihotCountVec(10, 3, 3), 6, 6),
        (MultihotCountVec(10, 8, 3), 10, 10),
    ],
)
def test_one_report_moves_the_sums_as_far_as_its_circuit_lets_it(circuit: Circuit, l1: int, l2_squared: int) -> None:
    vdaf = Prio3(circuit)
    shape = shape_of(vdaf.algorithm_id, vdaf.vdaf_config)
    assert (shape.l1, shape.l2_squared, shape.length) == (l1, l2_squared, circuit.output_len)


@pytest.mark.parametrize(
    ("circuit", "measurement"),
    [
        (Count(), [1]),
        (Sum(100), [7]),
        (SumVec(10, 7, 3), [7] * 10),
        (Histogram(10, 3), [4]),
        (MultihotCountVec(10, 3, 3), [1] + [0] * 9),
    ],
)
def test_a_leaders_share_has_the_bytes_that_a_job_is_bounded_by(circuit: Circuit, measurement: list[int]) -> None:
    vdaf = Prio3(circuit)
    _, (leader, _) = vdaf.shard(b"", measurement, bytes(16), bytes(vdaf.rand_size))
    blind = 32 if circuit.joint_rand_len else 0
    assert len(leader) == shape_of(vdaf.algorithm_id, vdaf.vdaf_config).share_bytes + blind


def test_noise_as_a_share_adds_to_the_sums_in_the_field() -> None:
    vdaf = Prio3(SumVec(4, 1, 2))
    shape = shape_of(3, vdaf.vdaf_config)
    sums = FIELD128.encode([5, 0, 1, 2])
    noised = vdaf.decode_agg_share(vdaf.merge([sums, noise_share(shape, [-7, 3, 0, -2])]))
    assert [centred(shape, value) for value in noised] == [-2, 3, 1, 0]


@given(
    st.sampled_from(Mechanism),
    st.fractions(min_value=Fraction(1, 1000), max_value=1000, max_denominator=1000),
    st.fractions(min_value=1, max_value=50, max_denominator=100),
)
def test_a_tasks_noise_is_read_as_it_was_written(mechanism: Mechanism, cost: Fraction, times: Fraction) -> None:
    noise = Noise(mechanism, cost, cost * times)
    assert Noise.decode(noise.encode()) == noise


def _written(numbers: tuple[int, ...]) -> bytes:
    code, *rest = numbers
    return bytes([code]) + b"".join(number.to_bytes(8, "big") for number in rest)


@given(st.binary(max_size=40) | st.tuples(st.integers(0, 3), *[st.integers(0, 1 << 40)] * 4).map(_written))
def test_whatever_is_read_as_noise_is_written_the_same_again(data: bytes) -> None:
    try:
        noise = Noise.decode(data)
    except Malformed:
        return
    assert noise.encode() == data


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "early"),
        (bytes([3]) + Noise(Mechanism.LAPLACE, Fraction(1), Fraction(2)).encode()[1:], "mechanism 3"),
        (bytes([1]) + b"".join(n.to_bytes(8, "big") for n in (2, 2, 8, 1)), "lowest terms"),
        (bytes([1]) + b"".join(n.to_bytes(8, "big") for n in (0, 1, 8, 1)), "lowest terms"),
        (bytes([1]) + b"".join(n.to_bytes(8, "big") for n in (1, 0, 8, 1)), "lowest terms"),
        (bytes([1]) + b"".join(n.to_bytes(8, "big") for n in (3, 1, 2, 1)), "budget below"),
        (bytes([1]) + b"".join(n.to_bytes(8, "big") for n in (1, 1 << 33, 2, 1)), "positive fractions"),
        (Noise(Mechanism.LAPLACE, Fraction(1), Fraction(2)).encode() + b"\0", "too many"),
    ],
)
def test_noise_of_a_task_that_cannot_be_meant_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        Noise.decode(data)


def test_a_batch_of_more_buckets_costs_more_as_one_sender_may_have_a_report_in_each() -> None:
    laplace_, gaussian_ = (Noise(m, Fraction(1, 4), Fraction(9)) for m in (Mechanism.LAPLACE, Mechanism.GAUSSIAN))
    assert [laplace_.cost_of(k) for k in (1, 2, 6)] == [Fraction(1, 4), Fraction(1, 2), Fraction(3, 2)]
    assert [gaussian_.cost_of(k) for k in (1, 2, 6)] == [Fraction(1, 4), 1, 9]


def test_the_reach_is_beyond_what_is_ever_sampled_and_within_the_field() -> None:
    for mechanism in Mechanism:
        noise, shape = Noise(mechanism, Fraction(1, 2), Fraction(8)), Shape(FIELD64, 3000, 20, 20, 1, 25_000)
        rng = random.Random(3).randbytes
        both = [a + b for a, b in zip(sample(noise, shape, rng), sample(noise, shape, rng), strict=True)]
        assert reach(noise, shape) // 10 < max(map(abs, both)) < reach(noise, shape) < FIELD64.modulus // 2


def test_a_mechanism_says_what_it_is_and_costs() -> None:
    text = Noise(Mechanism.GAUSSIAN, Fraction(1, 2), Fraction(8)).text
    assert text == "discrete Gaussian noise by each aggregator, rho 1/2 an epoch and 8 in all"


def test_the_page_says_what_a_budget_of_rho_is_as_epsilon_and_delta() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "dap-tasks.md").read_text(encoding="utf-8")
    epsilon = 0.5 + 2 * math.sqrt(0.5 * math.log(10**6))
    assert f"rho 1/2 is epsilon {epsilon:.1f} at delta 10^-6" in " ".join(page.split())
