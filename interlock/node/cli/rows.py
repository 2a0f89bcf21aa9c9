"""What `interlock doctor` and `mesh status` print: one row a check."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from interlock.base.errors import EXIT_OK, EXIT_REFUSED

__all__ = ["Row", "Status", "report_rows"]

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Row:
    """One check: its name, how it went, what was seen, and what to do where it is not ok."""

    check: str
    status: Status
    detail: str
    fix: str = ""


def report_rows(rows: list[Row], *, as_json: bool) -> int:
    """Print the rows and return the exit code: 0 where none fails, 1 otherwise."""
    ok = all(row.status != "fail" for row in rows)
    if as_json:
        print(json.dumps({"format": "interlock-doctor", "v": 1, "ok": ok, "rows": [asdict(row) for row in rows]}))
    else:
        width = max(len(row.check) for row in rows)
        for row in rows:
            print(f"{row.status:4}  {row.check:{width}}  {row.detail}" + (f"; {row.fix}" if row.fix else ""))
    return EXIT_OK if ok else EXIT_REFUSED
