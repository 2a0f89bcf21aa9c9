"""A recorded agent session, run again under the guard: `python -m interlock.node.demo.agent --home DIR ...`

The session is a file of hook payloads as a coding agent makes them, a call and then its result. Each call goes
through the guard; if it may go, its recorded result goes through as well. No tool is run. What happened is printed as
one JSON array: [{"id", "tool", "args", "outcome": passed | masked | blocked | refused, "policy_id", "reason"}]; `args`
are the call's, as it was sent where it was masked.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import interlock
from interlock import Blocked, FileSink, NotApproved

__all__ = ["main"]


def main() -> None:
    """Run the session and print what became of each call."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--policy", required=True)
    parser.add_argument("--session", type=Path, required=True)
    parser.add_argument("--principal", required=True)
    parser.add_argument("--only", nargs="*", default=[], help="the ids of the calls to make; all where none is named")
    args = parser.parse_args()
    interlock.install(policy=args.policy, sink=FileSink(args.home / "receipts.jsonl"))
    with interlock.span(principal=args.principal):
        rows = [_call(event, result) for event, result in _pairs(args.session, args.only)]
    json.dump(rows, sys.stdout)


def _pairs(path: Path, only: list[str]) -> Iterator[tuple[dict[str, object], object]]:
    """Each call with the result that was recorded for it."""
    payloads = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    results = {p["tool_use_id"]: p["tool_response"] for p in payloads if p["hook_event_name"] == "PostToolUse"}
    for payload in payloads:
        if payload["hook_event_name"] == "PreToolUse" and (not only or payload["tool_use_id"] in only):
            yield payload, results[payload["tool_use_id"]]


def _call(payload: dict[str, object], result: object) -> dict[str, object]:
    tool, args = str(payload["tool_name"]), payload["tool_input"]
    row: dict[str, object] = {"id": payload["tool_use_id"], "tool": tool, "args": args, "policy_id": None, "reason": ""}
    assert isinstance(args, dict)
    try:
        sent = interlock.enforce_tool_call(tool, args, cwd=str(payload["cwd"]))
        interlock.enforce_tool_result(tool, result)
    except Blocked as e:
        outcome = "refused" if isinstance(e, NotApproved) else "blocked"
        return row | {"outcome": outcome, "policy_id": e.policy_id, "reason": str(e)}
    return row | {"outcome": "passed" if sent == args else "masked", "args": sent}


if __name__ == "__main__":
    main()
