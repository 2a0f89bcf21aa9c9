"""`interlock mesh harness`: measure a policy on a corpus of commands."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from interlock.base.errors import EXIT_OK, BadInput
from interlock.commons.harness import Figure, Report, measure, read_corpus
from interlock.engine.evaluate import Evaluator, PythonEvaluator
from interlock.engine.policy.builtins import PREFIX, builtin, read_policy_file, resolver
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Policy, Source
from interlock.native.availability import availability
from interlock.native.evaluator import NativeEvaluator

__all__ = ["evaluator_of", "harness", "progress_of"]

_QUIET_S: Final = 2.0  # a run that is shorter says nothing while it runs
_CELL: Final = 24


def harness(args: argparse.Namespace) -> int:
    """Print the policy's figures on the corpus."""
    policy = _policy(args.policy)
    rows = read_corpus(Path(args.corpus))
    evaluator = evaluator_of(args.evaluator)
    report = measure(policy, rows, evaluator, progress_of(len(rows)))
    if args.json:
        print(json.dumps(_object(args.policy, policy, evaluator, report), indent=1))
    else:
        _print(args.policy, policy, evaluator, report)
    return EXIT_OK


def _policy(reference: str) -> Policy:
    """The policy of a file or a built-in one. Raises: BadPolicy."""
    if reference.startswith(PREFIX):
        name = reference.removeprefix(PREFIX)
        data, source, folder = builtin(name), Source("builtin", name), None
    else:
        path = Path(reference)
        data, source, folder = read_policy_file(path), Source("file", reference), path.parent
    return load_policy(data, where=reference, source=source, resolve=resolver(folder))


def evaluator_of(name: str) -> Evaluator:
    """The evaluator of a name; `auto` is the native one where it is there. Raises: BadInput, where it is not."""
    found = availability()
    if name == "native" and not found.installed:
        raise BadInput(found.sentence, where="--evaluator native", fix="install interlock-native, or name another")
    return NativeEvaluator() if found.installed and name != "python" else PythonEvaluator()


def progress_of(total: int) -> Callable[[int], object]:
    """Tells how far a long run is, every two seconds, on standard error."""
    last = time.monotonic()

    def tell(done: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _QUIET_S:
            last = time.monotonic()
            print(f"harness: {done} of {total} rows", file=sys.stderr, flush=True)

    return tell


def _print(reference: str, policy: Policy, evaluator: Evaluator, report: Report) -> None:
    print(f"{reference}  (digest {policy.digest[:16]}, {len(policy.rules)} rules, {evaluator.name} evaluator)")
    for row in report.figures:
        bounds = f"{row.low:7.2%} to {row.high:7.2%}" if row.of else "no rows"
        print(f"  {row.name:28} {row.hits:6} of {row.of:6}  {row.share:7.2%}   ({bounds} at 95 %)")
    for title, lines in (("rule", report.rules), ("detector", report.detectors)):
        _table(title, lines)


def _table(title: str, lines: Mapping[str, Mapping[str, Figure]]) -> None:
    """A line a rule or detector, a column a group: rows at which it objected, and the 95 % bounds of their share."""
    width = max([len(title), *map(len, lines)])
    heads = [f"{row.name} of {row.of}" for row in next(iter(lines.values()), {}).values()]
    print(f"\n  {title:{width}}" + "".join(f"{head:>{_CELL}}" for head in heads))
    for name, groups in lines.items():
        cells = (f"{row.hits} ({row.low:.2%} to {row.high:.2%})" if row.of else "no rows" for row in groups.values())
        print(f"  {name:{width}}" + "".join(f"{cell:>{_CELL}}" for cell in cells))


def _object(reference: str, policy: Policy, evaluator: Evaluator, report: Report) -> dict[str, object]:
    return {
        "format": "interlock-harness",
        "v": 2,
        "policy": reference,
        "digest": policy.digest,
        "evaluator": evaluator.name,
        "figures": [{"name": row.name, **_figure(row)} for row in report.figures],
        "rules": _lines(report.rules),
        "detectors": _lines(report.detectors),
    }


def _figure(row: Figure) -> dict[str, object]:
    return {"hits": row.hits, "of": row.of, "share": row.share, "low": row.low, "high": row.high}


def _lines(lines: Mapping[str, Mapping[str, Figure]]) -> dict[str, dict[str, dict[str, object]]]:
    return {name: {group: _figure(row) for group, row in groups.items()} for name, groups in lines.items()}
