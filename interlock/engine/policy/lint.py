"""Warnings about a policy that loads: what is allowed, and is seldom what its author wants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from interlock.engine.policy.conditions import parts_of
from interlock.engine.policy.document import Document
from interlock.engine.policy.limits import COMMAND_NAMES, Limits, Oversize, weaker_settings
from interlock.engine.policy.model import Policy
from interlock.engine.policy.rule_document import RuleDoc
from interlock.engine.policy.sense import idle_rules, literals_of

__all__ = ["Warned", "warnings_of"]

_TEXT_TESTS: Final = ("contains", "regex", "prefix", "glob")


@dataclass(frozen=True, slots=True)
class Warned:
    """One warning; `rule` is "" where it is about the whole document. `kind` is a stable word."""

    rule: str
    kind: str
    what: str


def warnings_of(document: Document, policy: Policy) -> tuple[Warned, ...]:
    """The warnings about a document, and about what it makes together with those it extends."""
    found = [warned for rule in document.rules for warned in _of_rule(rule)]
    found += [Warned("", "weaker", f"{name} weakens what the defaults protect") for name in _weaker(document)]
    found += [
        Warned(row.rule, "quarantined", f"is out of force, by {row.by}: {row.reason}") for row in policy.quarantined
    ]
    known = {rule.id for rule in document.rules}
    for idle, earlier in idle_rules(
        literals_of(rule.id, when, rule.verdict, plan.get("mask"), f"{rule.phase} {rule.shadow}")
        for rule in policy.rules
        if (plan := rule.plan) is not None and isinstance(when := plan.get("when"), dict) and rule.verdict is not None
    ):
        if idle.id in known:
            what = f"is never reached: rule {earlier.id}, which it extends, fires on all that it fires on"
            found.append(Warned(idle.id, "unreachable", what))
    return tuple(found)


def _weaker(document: Document) -> tuple[str, ...]:
    return weaker_settings(document.settings.limits or Limits(), document.settings.oversize or Oversize())


def _of_rule(rule: RuleDoc) -> Iterator[Warned]:
    for kind in ("fires", "passes"):
        if not getattr(rule.examples, kind):
            yield Warned(rule.id, "no-example", f"has no example that must {'fire' if kind == 'fires' else 'pass'}")
    if rule.shadow:
        yield Warned(rule.id, "shadow", "is a shadow rule: it is recorded and decides nothing")
    if _only_not(rule.when):
        yield Warned(rule.id, "only-not", "fires on every event that lacks what it asks for; say also what it is about")
    if rule.attributed_to is None and rule.mask is None and rule.origin is None and (path := _one_path(rule.when)):
        yield Warned(rule.id, "no-attribution", f'names no argument; write "attributed_to": "{path}"')
    if any(path in COMMAND_NAMES for path in _text_paths(rule.when)):
        yield Warned(
            rule.id,
            "text-of-command",
            "tests the text of a command, which can be spelt in many ways; prefer intent, effects, path or host",
        )


def _only_not(when: Mapping[str, object]) -> bool:
    return "not" in when


def _one_path(when: Mapping[str, object]) -> str:
    """The one argument path in a condition, "" where there is none or another one."""
    found = {str(part["arg"]) for part in parts_of(when) if "arg" in part}
    return found.pop() if len(found) == 1 else ""


def _text_paths(when: Mapping[str, object]) -> set[str]:
    return {str(part["arg"]) for part in parts_of(when) if "arg" in part and any(key in part for key in _TEXT_TESTS)}
