"""Rules with numbers of more than 64 bits run natively, and mean what they mean in Python."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.engine.evaluate import evaluate
from interlock.engine.event import SensorEvent
from interlock.engine.policy.builtins import resolver
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Source
from interlock.native.availability import availability

if not availability().installed:
    pytest.skip(availability().sentence, allow_module_level=True)

from interlock.native.evaluator import NativeEvaluator

MOST = sys.float_info.max
EDGES = [0, 1 << 53, (1 << 53) + 1, 1 << 63, (1 << 63) - 1, 1 << 64, (1 << 64) + 1, int(MOST), int(MOST) + 1, 10**400]
LARGE = st.one_of(st.sampled_from([*EDGES, *(-edge for edge in EDGES)]), st.integers(-(1 << 80), 1 << 80))
DOUBLES = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([MOST, -MOST, 0.0]))
NUMBERS = st.one_of(LARGE, DOUBLES, LARGE.filter(lambda n: abs(n) < MOST).map(float))
TESTS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(lambda key, n: {key: n}, st.sampled_from(["lt", "le", "gt", "ge", "equals"]), NUMBERS),
    st.builds(lambda many: {"in": [*many, "x"]}, st.lists(NUMBERS, min_size=1, max_size=3, unique=True)),
    st.builds(lambda n: {"equals": {"a": [n, "x"]}}, NUMBERS),
)


@settings(max_examples=300, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(TESTS, st.lists(NUMBERS, min_size=1, max_size=4))
def test_a_comparison_with_any_number_says_the_same_in_both_engines(test: dict[str, Any], given: list[float]) -> None:
    rule = {"id": "one", "when": {"arg": "n", **test}, "verdict": "block", "reason": "no"}
    document = {"format": "interlock-policy", "v": 1, "name": "numbers", "rules": [rule]}
    data = json.dumps(document).encode()
    policy = load_policy(data, where="numbers", source=Source("file"), resolve=resolver(None))
    native = NativeEvaluator()
    assert native.reasons(policy) == {}
    wanted = next(iter(test.values()))
    near = wanted if isinstance(wanted, int | float) else 0
    for n in (*given, near, "x", True, None, {"a": [given[0], "x"]}):
        event = SensorEvent("t", {"n": n})
        assert native.evaluate(policy, event).decision == evaluate(policy, event).decision
