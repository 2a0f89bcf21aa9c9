"""Ready rules for `interlock.install(rules=[...])`; policies name the same detectors under `detector`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import overload

from interlock.base.errors import one_line
from interlock.engine.decision import Decision, Verdict
from interlock.engine.detectors.egress import hosts_of_call
from interlock.engine.detectors.hosts import BadHost
from interlock.engine.detectors.registry import REGISTRY
from interlock.engine.event import Phase, SensorEvent
from interlock.engine.origins import flows
from interlock.engine.policy.glob import compile_glob
from interlock.engine.policy.model import RuleFunction, tie_plan
from interlock.engine.policy.regex_syntax import BadPattern
from interlock.engine.sources import UNKNOWN, demand_source

__all__ = ["detector_guard", "mesh_indicator_guard", "network_egress_guard", "pii_redaction_guard", "secrets_guard"]


def detector_guard(name: str, *, phase: Phase = "call", **params: object) -> RuleFunction:
    """Any detector by the name that policies give it, for calls or for results: what it finds is blocked or masked.

    Raises: ValueError, for a detector, a phase or a parameter that is not there.
    """
    spec = REGISTRY.get(name)
    if spec is None or phase not in spec.phases:
        what = "no detector" if spec is None else f"no detector of {phase}s"
        raise ValueError(f"{name!r} is {what} (there are: {', '.join(sorted(REGISTRY))})")
    rule = _built(name, params)
    rule.phase = phase  # type: ignore[attr-defined]  # read by engine.rules
    return rule


def pii_redaction_guard(*, emails: bool = False) -> RuleFunction:
    """Masks payment card numbers, US social security numbers and IBANs, and e-mail addresses where asked to."""
    return _built("pii_redaction", {"emails": emails})


def secrets_guard() -> RuleFunction:
    """Masks API keys, tokens, passwords and private keys."""
    return _built("secrets", {})


@overload
def network_egress_guard(*, allowed_hosts: Iterable[str], block_origins: Iterable[str] = ()) -> RuleFunction: ...
@overload
def network_egress_guard(*, allowed_hosts: None = None, block_origins: Iterable[str]) -> RuleFunction: ...
def network_egress_guard(
    *, allowed_hosts: Iterable[str] | None = None, block_origins: Iterable[str] = ()
) -> RuleFunction:
    """Blocks calls that lead to a host not listed; "*.example.org" lists the hosts below example.org.

    A call that leads to any host, listed or not, is blocked too where one of its values came from a source in
    `block_origins` ("tool:read_mail", "tool:fetch_*", "principal:acme/*"), as `origins=` or a FlowTracker says.
    Raises: ValueError, for an entry that is no host or no source, and where neither list is given.
    """
    if isinstance(allowed_hosts, str) or isinstance(block_origins, str):
        raise ValueError("allowed_hosts and block_origins are lists, not one text")
    if allowed_hosts is None and not block_origins:
        raise ValueError("network_egress_guard needs allowed_hosts or block_origins")
    hosts = None if allowed_hosts is None else _built("network_egress", {"allowed_hosts": list(allowed_hosts)})
    return hosts if hosts is not None and not block_origins else _origin_guard(hosts, block_origins)


def _origin_guard(hosts: RuleFunction | None, block_origins: Iterable[str]) -> RuleFunction:
    sources = [_source(given) for given in block_origins]

    def network_egress(event: SensorEvent) -> Decision | None:
        said = None if hosts is None else hosts(event)
        if said is not None:
            return said
        origin = flows(event, lambda source: any(matches(source) for matches in sources))
        if origin is None or not _leads_out(event):
            return None
        reason = f"egress of a value that came from {one_line(origin.source, 200)}"
        return Decision.block(reason, "network_egress", origin.path or None)

    network_egress.template = "egress to {host}, or of a value that came from {source}"  # type: ignore[attr-defined]
    return network_egress


def _source(given: object) -> Callable[[str], bool]:
    """Raises: ValueError, for what can be no source."""
    if not isinstance(given, str) or given == UNKNOWN:  # which passes for every source, and is none to ask for
        raise ValueError(f"block_origins: {given!r} is no source; write tool:NAME or principal:NAME")
    demand_source(given, "block_origins")
    try:
        return compile_glob(given)
    except BadPattern as e:
        raise ValueError(f"block_origins: {e}") from None


def _leads_out(event: SensorEvent) -> bool:
    """Whether a call leads to any host; what names a host that cannot be read does."""
    try:
        return next(iter(hosts_of_call(event)), None) is not None
    except BadHost:
        return True


def mesh_indicator_guard(digests: Iterable[str], *, kind: str = "host", block: bool = False) -> RuleFunction:
    """Asks for approval (with `block`, refuses) where a call names what is listed: "package:HEX", "host:HEX" and so on.

    A digest that says no kind is of `kind`: file, host, mcp or package. Raises: ValueError, for what is no digest.
    """
    rule = _built("indicator", {"kind": kind, "digests": list(digests)})
    if block:
        return rule

    def indicator(event: SensorEvent) -> Decision | None:
        said = rule(event)
        return None if said is None else replace(said, verdict=Verdict.ESCALATE)

    tie_plan(indicator, {**rule.plan, "escalate": True})  # type: ignore[attr-defined]  # of _built
    return indicator


def _built(name: str, params: Mapping[str, object]) -> RuleFunction:
    spec = REGISTRY[name]
    rule = spec.build(params)
    tie_plan(rule, {"detector": name, "params": dict(params)})
    rule.template = spec.template  # type: ignore[attr-defined]  # read by engine.record: the reason without the value
    rule.redacts = spec.redacts  # type: ignore[attr-defined]  # read by engine.rules: what a mask saw is never counted
    return rule
