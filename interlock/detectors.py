"""Ready rules for `interlock.install(rules=[...])`; policies name the same detectors under `detector`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from interlock.engine.decision import Decision, Verdict
from interlock.engine.detectors.registry import REGISTRY
from interlock.engine.event import Phase, SensorEvent
from interlock.engine.policy.model import RuleFunction

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


def network_egress_guard(*, allowed_hosts: Iterable[str]) -> RuleFunction:
    """Blocks calls that lead to a host not listed; "*.example.org" lists the hosts below example.org.

    Raises: ValueError, for an entry that is no host.
    """
    if isinstance(allowed_hosts, str):
        raise ValueError("allowed_hosts is a list of hosts, not one text")
    return _built("network_egress", {"allowed_hosts": list(allowed_hosts)})


def mesh_indicator_guard(digests: Iterable[str], *, block: bool = False) -> RuleFunction:
    """Asks for approval (with `block`, refuses) where a call names a host whose digest is listed.

    Raises: ValueError, for what is no digest.
    """
    rule = _built("indicator", {"kind": "host", "digests": list(digests)})
    if block:
        return rule

    def indicator(event: SensorEvent) -> Decision | None:
        said = rule(event)
        return None if said is None else replace(said, verdict=Verdict.ESCALATE)

    return indicator


def _built(name: str, params: Mapping[str, object]) -> RuleFunction:
    spec = REGISTRY[name]
    rule = spec.build(params)
    rule.template = spec.template  # type: ignore[attr-defined]  # read by engine.record: the reason without the value
    rule.redacts = spec.redacts  # type: ignore[attr-defined]  # read by engine.rules: what a mask saw is never counted
    return rule
