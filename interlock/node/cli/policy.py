"""`interlock policy test` and `interlock policy show`: check a policy by its own examples, and see what it does.

Plain text and the standard library only. A policy that cannot be used is one line on stderr and exit code 2; an
example that does not hold is exit code 1.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Final

from interlock.base.errors import EXIT_OK, EXIT_REFUSED
from interlock.engine.policy.builtins import PREFIX, builtin, builtin_names, read_policy_file, resolver
from interlock.engine.policy.check import Report, Row, check_document
from interlock.engine.policy.document import Document, parse_document
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Policy, Source

__all__ = ["register"]

_TEST_HELP: Final = "run the examples that a policy's rules carry"
_SHOW_HELP: Final = "show what a policy's rules do, with those it extends"
_EPILOG: Final = "exit codes: 0 every example held, 1 one did not or a rule has none, 2 the policy cannot be used"


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `policy test` and `policy show`."""
    policy = commands.add_parser("policy", help="check a policy file, or show what it does")
    policy.set_defaults(parser=policy)
    verbs = policy.add_subparsers(title="commands", metavar="COMMAND")
    shipped = ", ".join(PREFIX + name for name in builtin_names())
    for name, help_, run, epilog in (("test", _TEST_HELP, _test, _EPILOG), ("show", _SHOW_HELP, _show, None)):
        verb = verbs.add_parser(name, help=help_, description=help_, epilog=epilog)
        verb.add_argument("policy", metavar=f"FILE|{PREFIX}NAME", help=f"a policy file, or one that ships: {shipped}")
        verb.add_argument("--json", action="store_true", help="print one JSON object")
        verb.set_defaults(run=run)


def _opened(reference: str, *, examples: bool = True) -> tuple[Document, Policy]:
    """A policy's own document, and all that it makes together with what it extends. Raises: BadPolicy."""
    if reference.startswith(PREFIX):
        name = reference.removeprefix(PREFIX)
        data, source, folder = builtin(name), Source("builtin", name), None
    else:
        path = Path(reference)
        data, source, folder = read_policy_file(path), Source("file", reference), path.parent
    document = parse_document(data, where=reference)
    return document, load_policy(data, where=reference, source=source, resolve=resolver(folder), examples=examples)


def _test(args: argparse.Namespace) -> int:
    document, policy = _opened(args.policy, examples=False)
    report = check_document(document)
    if args.json:
        print(json.dumps(_report_object(document, report, policy), indent=1))
    else:
        _print_report(args.policy, document, report)
    return EXIT_OK if report.ok else EXIT_REFUSED


def _print_report(reference: str, document: Document, report: Report) -> None:
    for row in report.failures:
        print(f"FAIL  {row.rule}: {_place(row)}{row.problem}")
    examples = sum(row.index >= 0 for row in report.rows)
    counts = f"{len(document.rules)} rules, {examples} examples"
    if report.ok:
        print(f"ok    {reference}: {counts}, all as they should be")
    else:
        print(f"      {reference}: {counts}, {len(report.failures)} not as they should be")


def _place(row: Row) -> str:
    return f"examples.{row.kind}[{row.index}]: " if row.index >= 0 else ""


def _report_object(document: Document, report: Report, policy: Policy) -> dict[str, object]:
    return {
        "ok": report.ok,
        "name": document.name,
        "digest": policy.digest,
        "rules": len(document.rules),
        "examples": sum(row.index >= 0 for row in report.rows),
        "failures": [
            {"rule": row.rule, "kind": row.kind, "index": row.index if row.index >= 0 else None, "problem": row.problem}
            for row in report.failures
        ],
    }


def _show(args: argparse.Namespace) -> int:
    document, policy = _opened(args.policy)
    reasons = {rule.id: rule.reason for rule in document.rules}
    if args.json:
        print(json.dumps(_policy_object(document, policy, reasons), indent=1))
        return EXIT_OK
    print(f"{document.name}  (digest {policy.digest[:16]}, {len(policy.rules)} rules)")
    if document.description:
        print(" ".join(document.description.split()))
    width = max((len(rule.id) for rule in policy.rules), default=0)
    for rule in policy.rules:
        verdict = rule.verdict.name.lower() if rule.verdict is not None else "code"
        marks = f"{rule.phase:6}  {verdict:8}  {'locked' if rule.locked else '':6}"
        print(f"  {rule.id:{width}}  {marks}  {reasons.get(rule.id) or f'(from {rule.source.name})'}")
    return EXIT_OK


def _policy_object(document: Document, policy: Policy, reasons: dict[str, str]) -> dict[str, object]:
    return {
        "name": document.name,
        "description": document.description,
        "digest": policy.digest,
        "extends": list(document.extends),
        "rules": [
            {
                "id": rule.id,
                "phase": rule.phase,
                "verdict": rule.verdict.name.lower() if rule.verdict is not None else None,
                "locked": rule.locked,
                "redacts": rule.redacts,
                "source": f"{rule.source.kind}:{rule.source.name}",
                "reason": reasons.get(rule.id),
            }
            for rule in policy.rules
        ],
    }
