"""Sources: the labels of where values came from, and how a caller writes which value came from which.

A source is "tool:NAME" or "principal:NAME". UNKNOWN stands where a tracker cannot say any more where a value came
from; it passes for every source, so that a full memory never makes a call look clean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from interlock.engine.event import Origin

__all__ = ["UNKNOWN", "checked_origins", "demand_source", "is_source", "origin_for_principal", "origin_for_tool"]

UNKNOWN: Final = "unknown"
_KINDS: Final = ("tool", "principal")


def origin_for_tool(name: str) -> str:
    """The source of what a tool returned."""
    return f"tool:{name}"


def origin_for_principal(name: str) -> str:
    """The source of what a principal got from its tools."""
    return f"principal:{name}"


def is_source(text: str) -> bool:
    """Whether a label says where a value came from in words that a rule can ask for."""
    kind, _, name = text.partition(":")
    return text == UNKNOWN or (kind in _KINDS and bool(name))


def demand_source(text: str, where: str) -> None:
    """Raises: ValueError, for a label that is no source: no rule could ever be met by it."""
    if not is_source(text):
        raise ValueError(f"{where}: {text!r} is no source; write tool:NAME or principal:NAME")


def checked_origins(given: object) -> tuple[Origin, ...]:
    """Origins as a caller may write them: argument paths to sources, Origin values, or sources of the whole event.

    Raises: TypeError, for anything else; ValueError, for what can be no source.
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
    for row in found:
        demand_source(row.source, "origins")
    return found
