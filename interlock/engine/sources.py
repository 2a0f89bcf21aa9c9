"""Sources: the labels of where values came from, and how a caller writes which value came from which.

A source is "tool:NAME" or "principal:NAME". UNKNOWN stands where a tracker cannot say any more where a value came
from; it passes for every source, so that a full memory never makes a call look clean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from interlock.engine.event import Origin

__all__ = ["UNKNOWN", "checked_origins", "origin_for_principal", "origin_for_tool"]

UNKNOWN: Final = "unknown"


def origin_for_tool(name: str) -> str:
    """The source of what a tool returned."""
    return f"tool:{name}"


def origin_for_principal(name: str) -> str:
    """The source of what a principal got from its tools."""
    return f"principal:{name}"


def checked_origins(given: object) -> tuple[Origin, ...]:
    """Origins as a caller may write them: argument paths to sources, Origin values, or sources of the whole event.

    Raises: TypeError, for anything else.
    """
    rows: list[object] = [given]
    if isinstance(given, Mapping):
        rows = [
            Origin(source, path)
            for path, sources in given.items()
            for source in ((sources,) if isinstance(sources, str) else sources)
        ]
    elif isinstance(given, Iterable) and not isinstance(given, str):
        rows = [Origin(row) if isinstance(row, str) else row for row in given]
    found = tuple(row for row in rows if isinstance(row, Origin))
    if len(found) != len(rows) or not all(isinstance(t, str) for row in found for t in (row.source, row.path)):
        raise TypeError("origins is a mapping from argument paths to sources, or a list of sources or Origin values")
    return found
