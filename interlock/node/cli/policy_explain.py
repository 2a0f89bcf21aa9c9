"""`interlock policy explain` and `diff`: why one event gets its verdict, and what two policies do differently."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from interlock.base.canonical import NotCanonical, parse_json
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, BadInput, one_line
from interlock.engine.analysis.intents import intents
from interlock.engine.evaluate import evaluate
from interlock.engine.event import SensorEvent
from interlock.engine.policy.builtins import follow_links, read_policy_file
from interlock.engine.policy.differ import Difference, difference
from interlock.engine.policy.document import Document
from interlock.engine.policy.explain import Explained, explained
from interlock.engine.policy.limits import oversized
from interlock.engine.policy.model import Policy
from interlock.engine.policy.rule_document import parse_event
from interlock.native.planner import planned

__all__ = ["diff", "explain"]


def explain(args: argparse.Namespace, policy: Policy) -> int:
    """Print why an event gets its verdict."""
    event = replace(_event(args.event), call_id="explained")  # judged more than once, and counted once
    outcome = evaluate(policy, event)
    reasons = planned(policy).reasons
    does = [f"{i.name} {one_line(i.target, 80)} ({i.scope})" for i in intents(event)]
    partly = oversized(event, policy.limits)
    rows = list(enumerate(explained(policy, event, follow_links)))
    if args.json:
        made = {
            "verdict": outcome.decision.verdict.name.lower(),
            "decided_by": outcome.decider.id if outcome.decider is not None else None,
            "reason": outcome.decision.reason,
            "does": does,
            "beyond_limits": list(partly),
            "rules": [_object(row, reasons.get(at)) for at, row in rows],
        }
        print(json.dumps(made, indent=1))
        return EXIT_OK
    decided = f" by {outcome.decider.id}" if outcome.decider is not None else ""
    print(f"{outcome.decision.verdict.name.lower()}{decided}  {outcome.decision.reason}".rstrip())
    if does:
        print(f"the call would: {', '.join(does)}")
    for name in partly:
        print(f"argument {name} is beyond the limits of this policy")
    fired = 0
    for at, row in rows:
        fired += row.decision is not None
        if row.seen and (args.all or row.decision is not None):
            _print(row, reasons.get(at))
    if not args.all:
        print(f"{fired} of {len(rows)} rules fire; --all shows the others too")
    return EXIT_OK


def _print(row: Explained, stays: str | None) -> None:
    verdict = "does not fire" if row.decision is None else row.decision.verdict.name.lower()
    place = "native" if stays is None else f"Python: {stays}"
    print(f"\n{row.rule.id}  {verdict}{' (shadow)' if row.rule.shadow else ''}  [{place}]")
    for part in row.decided:
        word = "cannot judge" if part.holds is None else "holds" if part.holds else "does not hold"
        print(f"  {part.at}: {part.text}  {word}{f' ({part.problem})' if part.problem else ''}")
    if row.change:
        print(f"  {'for it to fire' if row.decision is None else 'for it not to fire'}: {row.change}")


def _object(row: Explained, stays: str | None) -> dict[str, object]:
    return {
        "rule": row.rule.id,
        "verdict": None if row.decision is None else row.decision.verdict.name.lower(),
        "shadow": row.rule.shadow,
        "seen": row.seen,
        "decided": [
            {"at": part.at, "condition": part.text, "holds": part.holds, "problem": part.problem}
            for part in row.decided
        ],
        "change": row.change,
        "runs": "native" if stays is None else "python",
        "because": stays,
    }


def diff(args: argparse.Namespace, old: tuple[Document, Policy], new: tuple[Document, Policy]) -> int:
    """Print what two policies do differently; 1 where they do."""
    named = list(_named(args, old[0], new[0]))
    found = difference(old[1], new[1], [event for _, event in named])
    if args.json:
        print(json.dumps(_difference_object(found, [name for name, _ in named]), indent=1))
    else:
        _print_difference(found, [name for name, _ in named])
    return EXIT_OK if found.same else EXIT_REFUSED


def _named(args: argparse.Namespace, *documents: Document) -> Iterator[tuple[str, SensorEvent]]:
    """The events to compare: those given, and the examples that the rules carry, each once."""
    for given in args.event:
        yield given if len(given) <= 60 else f"{given[:57]}...", _event(given)
    seen: list[SensorEvent] = []
    for document in documents:
        for rule in document.rules:
            for kind in ("fires", "passes"):
                for i, event in enumerate(getattr(rule.examples, kind)):
                    if event not in seen:
                        seen.append(event)
                        yield f"{document.name}: {rule.id}: examples.{kind}[{i}]", event


def _print_difference(found: Difference, names: list[str]) -> None:
    for word, rules in (("added", found.added), ("removed", found.removed), ("moved", found.moved)):
        for rule in rules:
            print(f"{word:8}  {rule}")
    for rule, fields in found.changed:
        print(f"changed   {rule}: {', '.join(fields)}")
    for name in found.settings:
        print(f"setting   {name}")
    for row in found.verdicts:
        print(f"verdict   {names[row.index]}: {row.before.name.lower()} -> {row.after.name.lower()}")
    if found.same:
        print("they mean the same")


def _difference_object(found: Difference, names: list[str]) -> dict[str, object]:
    return {
        "same": found.same,
        "added": list(found.added),
        "removed": list(found.removed),
        "moved": list(found.moved),
        "changed": [{"rule": rule, "fields": list(fields)} for rule, fields in found.changed],
        "settings": list(found.settings),
        "verdicts": [
            {"event": names[row.index], "before": row.before.name.lower(), "after": row.after.name.lower()}
            for row in found.verdicts
        ],
    }


def _event(given: str) -> SensorEvent:
    """An event from JSON, from a file, or from standard input. Raises: BadInput, BadPolicy."""
    if given.lstrip().startswith("{"):
        data, where = given.encode("utf-8", "surrogateescape"), "EVENT"
    elif given == "-":
        data, where = sys.stdin.buffer.read(1 << 24), "standard input"
    else:
        data, where = read_policy_file(Path(given)), given
    try:
        value = parse_json(data, where)
    except NotCanonical as e:
        raise BadInput(e.what, where=where, fix='write {"action": "Bash", "args": {"command": "ls"}}') from None
    return parse_event(value, "result" if isinstance(value, dict) and value.get("phase") == "result" else "call", where)
