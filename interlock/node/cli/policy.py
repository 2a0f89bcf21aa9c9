"""`interlock policy`: check a policy by its own examples, see what it does and why, and trust an overlay.

Plain text and the standard library only. A policy that cannot be used is one line on stderr and exit code 2; a check
that fails is exit code 1.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Final

from interlock.base.clock import SystemClock, rfc3339
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, BadInput, one_line
from interlock.base.settings import state_dir
from interlock.engine.policy.builtins import PREFIX, builtin, builtin_names, follow_links, read_policy_file, resolver
from interlock.engine.policy.check import Report, Row, check_document
from interlock.engine.policy.document import Document, parse_document
from interlock.engine.policy.limits import Limits, Oversize
from interlock.engine.policy.lint import warnings_of
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Policy, Rule, Source
from interlock.engine.policy.overlay import demand_monotone
from interlock.engine.policy.schema import document_schema
from interlock.engine.policy.trust import TRUST_FILE, TrustedOverlays, content_digest
from interlock.engine.processes import lineage, marked
from interlock.node.cli.approve import AgentAbove
from interlock.node.cli.policy_explain import diff, explain
from interlock.node.cli.terminal import terminal

__all__ = ["register"]

_TEST_EXIT: Final = "exit codes: 0 every example held, 1 one did not or a rule has none, 2 the policy cannot be used"
_LINT_EXIT: Final = "exit codes: 0 nothing to say, 1 there are warnings, 2 the policy cannot be used"
_DIFF_EXIT: Final = "exit codes: 0 they mean the same, 1 they do not, 2 one of them cannot be used"
_EXPLAIN: Final = (
    "say for one event which condition decided each rule, what would have to change, and where the rule runs"
)
_EXAMPLES: Final = {
    "explain": "interlock policy explain team.json event.json --all",
    "show": "interlock policy show builtin:coding-agent",
    "schema": "interlock policy schema > policy.schema.json",
    "trust": "interlock policy trust overlay.json",
}
_TRUST: Final = (
    "read an overlay, and let policies that name it use it as it now stands; changed by one byte, it is refused. "
    "It needs a person at a terminal, and no agent above"
)


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `policy` with its commands."""
    policy = commands.add_parser("policy", help="check a policy file, see what it does and why")
    policy.set_defaults(parser=policy)
    verbs = policy.add_subparsers(title="commands", metavar="COMMAND")
    _verb(verbs, "test", "run the examples that a policy's rules carry", _test, "policy", epilog=_TEST_EXIT)
    _verb(verbs, "lint", "warn of what loads and is seldom meant", _lint, "policy", epilog=_LINT_EXIT)
    verb = _verb(verbs, "explain", _EXPLAIN, lambda args: explain(args, _opened(args.policy)[1]), "policy")
    verb.add_argument("event", metavar="EVENT", help="the event as JSON, a file that holds it, or - for standard input")
    verb.add_argument("--all", action="store_true", help="also the rules that do not fire")
    verb = _verb(
        verbs,
        "diff",
        "what two policies do differently: rules by meaning, and the verdicts on their examples",
        lambda args: diff(args, _opened(args.old), _opened(args.new)),
        "old",
        "new",
        epilog=_DIFF_EXIT,
    )
    verb.add_argument("--event", metavar="EVENT", action="append", default=[], help="an event of your own to compare")
    _verb(
        verbs, "show", "show what a policy's rules do, with those it extends, their sources and locks", _show, "policy"
    )
    _verb(verbs, "schema", "print the JSON Schema of policy documents, for editors", _schema)
    verb = _verb(verbs, "trust", _TRUST, _trust)
    verb.add_argument("file", nargs="?", metavar="FILE", help="the overlay; without it, list those that are trusted")
    verb.add_argument("--revoke", action="store_true", help="trust it no more; needs nobody's word")


def _verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    help_: str,
    run: Callable[[argparse.Namespace], int],
    *policies: str,
    epilog: str | None = None,
) -> argparse.ArgumentParser:
    told = f"{help_[0].upper()}{help_[1:]}."
    example = epilog or f"example: {_EXAMPLES[name]}"
    verb = verbs.add_parser(name, help=help_, description=told, epilog=example)
    shipped = ", ".join(PREFIX + name for name in builtin_names())
    for policy in policies:
        verb.add_argument(policy, metavar=f"FILE|{PREFIX}NAME", help=f"a policy file, or one that ships: {shipped}")
    verb.add_argument("--json", action="store_true", help="print one JSON object")
    verb.set_defaults(run=run)
    return verb


def _trusted() -> TrustedOverlays:
    return TrustedOverlays(state_dir() / TRUST_FILE)


def _opened(reference: str, *, examples: bool = True) -> tuple[Document, Policy]:
    """A policy's own document, and all that it makes together with what it extends. Raises: BadPolicy."""
    if reference.startswith(PREFIX):
        name = reference.removeprefix(PREFIX)
        data, source, folder = builtin(name), Source("builtin", name), None
    else:
        path = Path(reference)
        data, source, folder = read_policy_file(path), Source("file", reference), path.parent
    document = parse_document(data, where=reference)
    policy = load_policy(
        data,
        where=reference,
        source=source,
        resolve=resolver(folder),
        trusted=lambda sha256: _trusted().holds(sha256),
        links=follow_links,
        examples=examples,
    )
    return document, policy


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


def _lint(args: argparse.Namespace) -> int:
    warned = warnings_of(*_opened(args.policy))
    if args.json:
        print(json.dumps({"ok": not warned, "warnings": [asdict(row) for row in warned]}, indent=1))
    else:
        for row in warned:
            print(f"{row.kind:16}  {f'rule {row.rule} ' if row.rule else ''}{row.what}")
        if not warned:
            print(f"ok    {args.policy}: nothing to warn of")
    return EXIT_REFUSED if warned else EXIT_OK


def _show(args: argparse.Namespace) -> int:
    document, policy = _opened(args.policy)
    if args.json:
        print(json.dumps(_policy_object(document, policy), indent=1))
        return EXIT_OK
    print(f"{document.name}  (digest {policy.digest[:16]}, {len(policy.rules)} rules)")
    if document.description:
        print(one_line(document.description))
    own = {rule.id for rule in document.rules}
    width = max((len(rule.id) for rule in policy.rules), default=0)
    for rule in policy.rules:
        verdict = rule.verdict.name.lower() if rule.verdict is not None else "code"
        marks = f"{rule.phase:6}  {verdict:8}  {'locked' if rule.locked else 'shadow' if rule.shadow else '':6}"
        here = rule.id in own and rule.source.kind != "overlay"
        print(f"  {rule.id:{width}}  {marks}  {_reason(rule) if here else f'(from {rule.source.name})'}")
    for row in policy.quarantined:
        print(f"  {row.rule:{width}}  quarantined by {row.by}: {row.reason}")
    for line in _settings(policy):
        print(f"  {line}")
    return EXIT_OK


def _settings(policy: Policy) -> list[str]:
    """The settings that are not the defaults, a line each."""
    told: list[str] = []
    for part, default in ((policy.limits, Limits()), (policy.oversize, Oversize())):
        known = asdict(default)
        what = "limit" if isinstance(part, Limits) else "an oversized"
        told += [f"{what} {name}: {value}" for name, value in asdict(part).items() if value != known[name]]
    return [*told, *(["harmless: prove"] if policy.prove_harmless else [])]


def _reason(rule: Rule) -> str | None:
    reason = (rule.plan or {}).get("reason")
    return reason if isinstance(reason, str) else None


def _policy_object(document: Document, policy: Policy) -> dict[str, object]:
    return {
        "name": document.name,
        "description": document.description,
        "digest": policy.digest,
        "extends": list(document.extends),
        "overlays": list(document.settings.overlays),
        "limits": asdict(policy.limits),
        "oversize": asdict(policy.oversize),
        "prove_harmless": policy.prove_harmless,
        "quarantined": [asdict(row) for row in policy.quarantined],
        "rules": [
            {
                "id": rule.id,
                "phase": rule.phase,
                "verdict": rule.verdict.name.lower() if rule.verdict is not None else None,
                "locked": rule.locked,
                "shadow": rule.shadow,
                "redacts": rule.redacts,
                "source": f"{rule.source.kind}:{rule.source.name}",
                "reason": _reason(rule),
            }
            for rule in policy.rules
        ],
    }


def _schema(args: argparse.Namespace) -> int:
    print(json.dumps(document_schema(), indent=None if args.json else 1))
    return EXIT_OK


def _trust(args: argparse.Namespace) -> int:
    store = _trusted()
    if args.file is None:
        return _list_trusted(store, as_json=args.json)
    path = Path(args.file).absolute()
    if args.revoke:
        if not store.remove(str(path)):
            raise BadInput("is not trusted", where=str(path), fix="see: interlock policy trust")
        print(f"revoked  {path}")
        return EXIT_OK
    data = read_policy_file(path)
    overlay = parse_document(data, where=str(path))
    demand_monotone(overlay, str(path))
    if mark := marked(lineage()):
        raise AgentAbove(f"a coding agent started this (its variable {mark} is set)", fix="use your own terminal")
    sha256 = content_digest(data)
    lines = [f"overlay {path}", f"sha256 {sha256}"]
    lines += [f"  {rule.verdict.name.lower():8}  {rule.id}: {rule.reason}" for rule in overlay.rules]
    text = "\n".join(lines)
    with terminal() as screen:
        screen.show(text)
        screen.demand("To trust it as it now stands", text)
    store.add(sha256, str(path), SystemClock().now_us())
    print(json.dumps({"trusted": str(path), "sha256": sha256}) if args.json else f"trusted  {path}  {sha256}")
    return EXIT_OK


def _list_trusted(store: TrustedOverlays, *, as_json: bool) -> int:
    rows = store.rows()
    if as_json:
        print(json.dumps({"trusted": [{"sha256": s, "name": n, "at_us": at} for s, n, at in rows]}, indent=1))
        return EXIT_OK
    for sha256, name, at in rows:
        print(f"{sha256[:16]}  {rfc3339(at)}  {name}")
    if not rows:
        print("no overlay is trusted on this machine")
    return EXIT_OK
