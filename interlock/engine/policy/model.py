"""Rule and Policy: what the engine evaluates, compiled and frozen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from interlock.engine.decision import Decision, Verdict
from interlock.engine.event import Phase, SensorEvent
from interlock.engine.policy.limits import Limits, Oversize

__all__ = ["Policy", "Quarantined", "Rule", "RuleFunction", "Source"]

RuleFunction = Callable[[SensorEvent], "Decision | None"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a rule came from. `pack_digest` (hex) and `log_index` stand only with a rule of a community pack."""

    kind: Literal["code", "file", "builtin", "pack", "overlay"] = "code"
    name: str = ""
    pack_digest: str | None = None
    log_index: int | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One compiled rule.

    `function` gives its opinion of an event of its phase. `verdict` is what a declarative rule may say, None for code.
    `locked` rules cannot be disabled by an overlay; rules that redact are never counted in the mesh. `shadow` rules are
    evaluated and recorded and decide nothing.
    """

    id: str
    function: RuleFunction = field(repr=False)
    phase: Phase = "call"
    verdict: Verdict | None = None
    locked: bool = False
    redacts: bool = False
    source: Source = field(default_factory=Source)
    shadow: bool = False

    @property
    def plan(self) -> Mapping[str, object] | None:
        """The rule as plain JSON values, from which a native evaluator compiles it; None for what only Python can run.

        It belongs to the function: a rule that gets another function gets that one's plan, or none.
        """
        found: Mapping[str, object] | None = getattr(self.function, "plan", None)
        return found


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A rule that a person has put out of force: which, who did it, and why."""

    rule: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules in order, and the digest (hex SHA-256) of what they were compiled from; code rules count by name.

    `limits` and `oversize` say how much of an event patterns read, and what becomes of a larger one. `prove_harmless`
    asks for calls to be allowed with a proof where there is one. `quarantined` are rules that would be among `rules`.
    """

    rules: tuple[Rule, ...]
    digest: str
    limits: Limits = field(default_factory=Limits)
    oversize: Oversize = field(default_factory=Oversize)
    prove_harmless: bool = False
    quarantined: tuple[Quarantined, ...] = ()
