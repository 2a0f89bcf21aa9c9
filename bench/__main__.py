"""`python -m bench [NAME ...] [--json]`: run the benchmarks and print what they found; see METHOD.md."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable
from typing import Final

from bench import coding_agent, limits, load, plain, scale
from bench.report import Report
from interlock.native.availability import availability

_RUNS: Final[dict[str, Callable[[], Report]]] = {
    "plain": plain.run,
    "coding-agent": coding_agent.run,
    "scale": scale.run,
    "limits": limits.run,
    "load": load.run,
}


def main() -> int:
    """Exit code 0 when every goal was met, 1 when one was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure interlock; bench/METHOD.md says how.")
    parser.add_argument("names", nargs="*", choices=[[], *_RUNS], help=f"which: {', '.join(_RUNS)} (all of them)")
    parser.add_argument("--json", action="store_true", help="figures for programs, in nanoseconds")
    given = parser.parse_args()
    engine = availability().sentence
    print(f"{engine}; Python {platform.python_version()}, {platform.machine()}", file=sys.stderr)
    reports = {}
    for name in given.names or _RUNS:
        print(f"measuring {name} ...", file=sys.stderr)
        reports[name] = _RUNS[name]()
        if not given.json:
            print(reports[name].text(), end="\n\n", flush=True)
    if given.json:
        print(json.dumps({"engine": engine, "reports": {name: found.values() for name, found in reports.items()}}))
    return 0 if all(met for report in reports.values() for _, _, met in report.goals) else 1


if __name__ == "__main__":
    sys.exit(main())
