"""Rule and Policy: what the engine evaluates, compiled and frozen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from interlock.engine.decision import Decision, Verdict
from interlock.engine.event import Phase, SensorEvent

__all__ = ["Policy", "Rule", "RuleFunction", "Source"]

RuleFunction = Callable[[SensorEvent], "Decision | None"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a rule came from. `pack_digest` (hex) and `log_index` stand only with a rule of a community pack."""

    kind: Literal["code", "file", "builtin", "pack"] = "code"
    name: str = ""
    pack_digest: str | None = None
    log_index: int | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One compiled rule.

    `function` gives its opinion of an event of its phase. `verdict` is what a declarative rule may say, None for code.
    `locked` rules cannot be disabled by an overlay; rules that redact are never counted in the mesh. `shadow` rules are
    evaluated and recorded and decide nothing. `plan` is the rule as plain JSON values, from which a native evaluator
    compiles it; None for what only Python can run.
    """

    id: str
    function: RuleFunction = field(repr=False)
    phase: Phase = "call"
    verdict: Verdict | None = None
    locked: bool = False
    redacts: bool = False
    source: Source = field(default_factory=Source)
    shadow: bool = False
    plan: Mapping[str, object] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules in order, and the digest (hex SHA-256) of what they were compiled from; code rules count by name."""

    rules: tuple[Rule, ...]
    digest: str
