"""The built-in policy, and the native engine to judge it with beside the Python one."""

from __future__ import annotations

import functools

import pytest

from interlock.engine.evaluate import Evaluator
from interlock.engine.policy.builtins import builtin, resolver
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Policy, Source
from interlock.native.availability import availability

__all__ = ["coding_agent", "native_or_none"]


@functools.cache
def coding_agent() -> Policy:
    source = Source("builtin", "coding-agent")
    return load_policy(builtin("coding-agent"), where="coding-agent.json", source=source, resolve=resolver(None))


@functools.cache
def native_or_none() -> Evaluator | None:
    """None where its wheel is not here, or turned off."""
    return pytest.importorskip("interlock.native.evaluator").NativeEvaluator() if availability().installed else None
