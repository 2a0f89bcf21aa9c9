"""How the demo is shown: a table and colour on a terminal, plain lines in a pipe, one JSON object with --json."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Protocol

from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["JsonShow", "PlainShow", "Show", "Step", "TerminalShow", "choose"]


@dataclass(frozen=True)
class Step:
    """One step of the demo: whether it held, its evidence, and how long it took (milliseconds)."""

    name: str
    ok: bool
    evidence: dict[str, object] = field(default_factory=dict)
    ms: int = 0

    def told(self) -> str:
        return "  ".join(f"{k}={_short(v)}" for k, v in self.evidence.items())


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:12] + "…" if len(text) == 64 and set(text) <= set("0123456789abcdef") else text


class Show(Protocol):
    """Shows a demo as it goes."""

    def note(self, text: str) -> None: ...

    def working(self, name: str) -> AbstractContextManager[object]: ...

    def step(self, step: Step) -> None: ...

    def table(self, title: str, columns: list[str], rows: list[list[str]]) -> None: ...

    def end(self, result: dict[str, object], steps: list[Step]) -> None: ...


class PlainShow:
    """Lines for a pipe or a file."""

    def note(self, text: str) -> None:
        print(text, flush=True)

    def working(self, name: str) -> AbstractContextManager[object]:
        return nullcontext()

    def step(self, step: Step) -> None:
        print(f"{'ok  ' if step.ok else 'FAIL'}  {step.ms:>5} ms  {step.name}: {step.told()}", flush=True)

    def table(self, title: str, columns: list[str], rows: list[list[str]]) -> None:
        widths = [max(len(r[i]) for r in [columns, *rows]) for i in range(len(columns))]
        print(f"\n{title}")
        for row in [columns, *rows]:
            print("  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())
        print(flush=True)

    def end(self, result: dict[str, object], steps: list[Step]) -> None:
        print(f"\n{result['summary']}", flush=True)


class TerminalShow:
    """Colour, a spinner while a step runs, and tables."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)

    def note(self, text: str) -> None:
        self._console.print(Text(text, style="dim"))

    def working(self, name: str) -> AbstractContextManager[object]:
        return self._console.status(Text(name), spinner="dots")

    def step(self, step: Step) -> None:
        line = Text("✓ " if step.ok else "✗ ", style="bold green" if step.ok else "bold red")
        line.append(step.name, style="bold").append(f"  {step.ms} ms", style="dim")
        self._console.print(line)
        if step.evidence:
            self._console.print(Text("    " + step.told(), style="cyan" if step.ok else "red"))

    def table(self, title: str, columns: list[str], rows: list[list[str]]) -> None:
        table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=True)
        for name in columns:
            table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self._console.print(table)

    def end(self, result: dict[str, object], steps: list[Step]) -> None:
        style = "bold green" if result["ok"] else "bold red"
        self._console.print(Text(f"\n{result['summary']}", style=style))


class JsonShow:
    """Nothing but one JSON object at the end."""

    def note(self, text: str) -> None: ...

    def working(self, name: str) -> AbstractContextManager[object]:
        return nullcontext()

    def step(self, step: Step) -> None: ...

    def table(self, title: str, columns: list[str], rows: list[list[str]]) -> None: ...

    def end(self, result: dict[str, object], steps: list[Step]) -> None:
        print(json.dumps(result | {"steps": [asdict(s) for s in steps]}, ensure_ascii=False), flush=True)


def choose(as_json: bool) -> Show:
    """JSON where it is asked for; colour on a terminal; plain text otherwise."""
    if as_json:
        return JsonShow()
    return TerminalShow() if sys.stdout.isatty() else PlainShow()
