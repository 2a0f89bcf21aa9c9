"""Rule and Policy: what the engine evaluates, compiled and frozen."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from interlock.engine.decision import Decision, Verdict
from interlock.engine.event import Phase, SensorEvent
from interlock.engine.policy.limits import Limits, Oversize

__all__ = ["Policy", "Quarantined", "Rule", "RuleFunction", "Source", "tie_plan"]

RuleFunction = Callable[[SensorEvent], "Decision | None"]

_GUESTS: Final = ("pack", "overlay")  # kinds of source whose rules may only add to what the operator's own say


@dataclass(frozen=True, slots=True)
class Source:
    """Where a rule came from. `pack_digest` (hex) and `log_index` stand only with a rule of a community pack.

    `stale` is true of one that a node without a network holds for longer than it was told to.
    """

    kind: Literal["code", "file", "builtin", "pack", "overlay"] = "code"
    name: str = ""
    pack_digest: str | None = None
    log_index: int | None = None
    stale: bool = False


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

        It belongs to the function that it was tied to (`tie_plan`), and to no other that has taken over its attributes.
        """
        owner: Callable[[], object] | None = getattr(self.function, "plan_owner", None)
        if owner is None or owner() is not self.function:
            return None
        found: Mapping[str, object] | None = getattr(self.function, "plan", None)
        return found

    @property
    def follow(self) -> Callable[[str], str] | None:
        """What its plan follows symbolic links with; None where it asks no file system."""
        found: Callable[[str], str] | None = getattr(self.function, "plan_follow", None)
        return found if self.plan is not None else None


def tie_plan(function: RuleFunction, plan: Mapping[str, object], follow: Callable[[str], str] | None = None) -> None:
    """Say that a function means just what a plan means, so that the plan may run in its place (`Rule.plan`).

    `follow` tells where a path leads, to a plan that asks for it (`Rule.follow`).

    `functools.wraps`, proxies and bound methods hand on the attributes of what they stand for, and mean something else.
    """
    function.plan = plan  # type: ignore[attr-defined]  # read by Rule.plan, as the next
    function.plan_owner = weakref.ref(function)  # type: ignore[attr-defined]
    function.plan_follow = follow  # type: ignore[attr-defined]


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

    Rules of packs and overlays stand after all others, and those of them that rewrite last, however they were given:
    no rule is then asked only about what one of them has masked already.
    """

    rules: tuple[Rule, ...]
    digest: str
    limits: Limits = field(default_factory=Limits)
    oversize: Oversize = field(default_factory=Oversize)
    prove_harmless: bool = False
    quarantined: tuple[Quarantined, ...] = ()
    stale: bool = field(init=False, repr=False, compare=False, default=False)  # whether a rule of it is

    def __post_init__(self) -> None:
        object.__setattr__(self, "stale", any(rule.source.stale for rule in self.rules))
        object.__setattr__(self, "rules", _guests_last(self.rules))


def _guests_last(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    guests = [rule for rule in rules if rule.source.kind in _GUESTS]
    if not guests:
        return rules
    own = [rule for rule in rules if rule.source.kind not in _GUESTS]
    objecting = [rule for rule in guests if rule.verdict is not Verdict.MODIFY]
    return (*own, *objecting, *(rule for rule in guests if rule.verdict is Verdict.MODIFY))
