"""`interlock receipts shadows`: what rules in shadow would have done, counted from the receipts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from interlock.base.clock import rfc3339
from interlock.base.errors import one_line
from interlock.engine.receipts import Receipt

__all__ = ["WOULD", "Shadow", "counted", "objections", "told"]

WOULD: Final = {"BLOCK": "would have blocked", "MODIFY": "would have rewritten", "ESCALATE": "would have asked about"}


@dataclass
class Shadow:
    """What one rule would have done, and to how many; times in microseconds."""

    calls: int = 0
    principals: set[str] = field(default_factory=set)
    runs: set[str] = field(default_factory=set)
    first_us: int = 0
    last_us: int = 0


def objections(receipt: Receipt) -> list[tuple[str, str]]:
    """The rules in shadow that objected to one call or result, each with its verdict's name."""
    said = (part.rpartition(" ") for part in (receipt.shadows or "").split("; "))
    return [(rule, verdict) for rule, _, verdict in said if verdict in WOULD]


def counted(receipts: Iterable[Receipt]) -> dict[tuple[str, str], Shadow]:
    """By rule and verdict, over all receipts."""
    found: dict[tuple[str, str], Shadow] = {}
    for receipt in receipts:
        for said in objections(receipt):
            one = found.setdefault(said, Shadow(first_us=receipt.ts_us))
            one.calls += 1
            one.last_us = receipt.ts_us
            one.principals.update([receipt.principal] if receipt.principal else [])
            one.runs.update([receipt.span_id] if receipt.span_id else [])
    return found


def told(found: dict[tuple[str, str], Shadow], *, as_json: bool) -> str:
    """The count for people, the busiest rule first, or as one JSON object."""
    rows = sorted(found.items(), key=lambda row: (-row[1].calls, row[0]))
    if as_json:
        return json.dumps({"shadows": [_row(*said, one) for said, one in rows]})
    if not rows:
        return "no rule in shadow objected to anything here"
    return "\n".join(
        f"{one_line(rule)}  {WOULD[verdict]} {one.calls} (by {len(one.principals)} principals in {len(one.runs)} runs; "
        f"last {rfc3339(one.last_us)})"
        for (rule, verdict), one in rows
    )


def _row(rule: str, verdict: str, one: Shadow) -> dict[str, object]:
    return {
        "rule": rule,
        "verdict": verdict,
        "calls": one.calls,
        "principals": len(one.principals),
        "runs": len(one.runs),
        "first": rfc3339(one.first_us),
        "last": rfc3339(one.last_us),
    }
