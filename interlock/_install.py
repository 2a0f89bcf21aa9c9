"""`install`: which policy, rules, sink and approver guard this process. Whatever only an installed guard needs is
imported when one is installed, so that importing interlock costs a program little."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from interlock._approvals import scripts_of
from interlock.engine import ambient
from interlock.engine.ambient import Installed, Observer
from interlock.engine.approvals import Approver
from interlock.engine.policy.model import Policy, Rule, RuleFunction
from interlock.engine.rules import code_rules

if TYPE_CHECKING:
    from interlock.engine.flow import FlowTracker
    from interlock.engine.scopes import ScopedEngine, ScopeRegistry
    from interlock.engine.sinks import Sink

__all__ = ["install"]


def install(
    rules: Iterable[RuleFunction | Rule] | None = None,
    policy: str | bytes | os.PathLike[str] | Policy | None = None,
    sink: Sink | None = None,
    approver: Approver | None = None,
    observers: Iterable[Observer] = (),
    scopes: ScopedEngine | ScopeRegistry | None = None,
    flow: FlowTracker | None = None,
    journal: bool = True,
) -> None:
    """Put a guard in force for this process; a second call replaces the first at once.

    `policy` is a file (JSON; YAML with PyYAML), `builtin:NAME` or `mesh:PACK@RING`; its rules run first, then `rules`.
    A file and a mesh subscription are followed: a change is in force once it has loaded, which no call waits for, and
    a bad one leaves the last good policy. `sink` keeps the receipts (none are kept without one); `approver` answers
    escalations, a function or an `ApprovalQueue` (without one they are refused); each of `observers` is told every
    decision. `scopes` add the rules that hold for whoever acts; `flow` remembers where values came from. Without
    `journal`, nothing of this process goes into the node's event journal, where that is on. Where this user has a node
    that consented to count, objections are counted for it.
    Raises: InterlockError, where the policy cannot be used; TypeError, ValueError for what is no rule, no sink, no
    approver, no observer or no tracker. Then what was installed before stays.
    """
    import logging

    from interlock._policies import counters, live_policy, recorders
    from interlock.engine.scopes import scoped_engine
    from interlock.engine.sinks import NullSink
    from interlock.interceptors.harmless import with_proof
    from interlock.native.evaluator import NativeEvaluator, chosen_evaluator

    watching = tuple(observers)
    _demand_parts(sink, approver, watching, flow)
    evaluator = chosen_evaluator()
    follower = evaluator if isinstance(evaluator, NativeEvaluator) else None
    live = live_policy(policy, code_rules(rules or ()), follower)
    told = logging.getLogger("interlock").error
    kept = NullSink() if sink is None else sink
    by_principal = None if scopes is None else scoped_engine(scopes)
    observed = (*watching, *counters(), *(recorders(live.current) if journal else ()))
    prover = with_proof if policy is not None else None
    ambient.install(
        Installed(
            live,
            kept,
            approver,
            observed,
            told,
            evaluator=evaluator,
            scripts=scripts_of,
            scopes=by_principal,
            flow=flow,
            prover=prover,
        )
    )


def _demand_parts(sink: object, approver: object, observers: tuple[object, ...], flow: object) -> None:
    """Raises: TypeError, for a part with which every call would be refused, in words that mean something else."""
    if sink is not None and not _can(sink, "append", "args_digest"):
        raise TypeError(f"sink is one that keeps receipts, like interlock.FileSink, not a {type(sink).__name__}")
    if approver is not None and not callable(approver):
        raise TypeError(f"approver is a function or an ApprovalQueue, not a {type(approver).__name__}")
    if not all(map(callable, observers)):
        raise TypeError("each of observers is a function of an event and its decision")
    if flow is not None and not _can(flow, "record", "origins"):
        raise TypeError(f"flow is a FlowTracker, not a {type(flow).__name__}")


def _can(part: object, *methods: str) -> bool:
    """Whether an object, and not just its class, has these methods."""
    return not isinstance(part, type) and all(callable(getattr(part, name, None)) for name in methods)
