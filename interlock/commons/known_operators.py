"""The list of operators as a node knows it: taken with each update, kept as HOME/operators.json.

A commons that publishes none leaves a node without one. One that published a list and no longer does, or that offers an
older one, does not take from a node what it knows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from interlock.base.codec import Malformed
from interlock.base.fetch import NotFound
from interlock.base.files import BadState, read_bounded, replace
from interlock.commons.logged import Logged, NotLogged
from interlock.commons.operators import (
    MAX_OPERATORS,
    OPERATORS_PATH,
    OPERATORS_RING,
    Operators,
    demand_separate_witnesses,
    parse_operators,
)
from interlock.commons.updater import View
from interlock.transparency.follow import Rollback
from interlock.transparency.policy import TlogPolicy

__all__ = ["known_operators", "take_operators"]

_Find = Callable[[View, str, bytes, tuple[str, int, str]], Logged]


def known_operators(home: Path) -> Operators | None:
    """The list that this node took last; None where its commons publishes none. Raises: BadState."""
    path = home / OPERATORS_PATH
    if not path.exists():
        return None
    try:
        return parse_operators(read_bounded(path, MAX_OPERATORS), where=str(path))
    except Malformed as e:
        raise BadState(e.what, where=str(path), fix="delete it, and update") from None


def take_operators(home: Path, view: View, policy: TlogPolicy, find: _Find) -> Operators | None:
    """Take the list that the commons signs now, once its log entry is found; `find` is `Finder.logged`.

    Raises: OneHand, where the pinned log could make its own quorum; NotLogged, Rollback, Malformed, and as `find`.
    """
    known = known_operators(home)
    held = None if known is None else known.data
    try:
        data = view.target(OPERATORS_PATH, MAX_OPERATORS, held=held)
    except NotFound:
        return known
    if data != held:
        known = _checked(view, data, known, find)
    if known is not None:
        demand_separate_witnesses(known, policy)
        if data != held:
            replace(home / OPERATORS_PATH, data)
    return known


def _checked(view: View, data: bytes, known: Operators | None, find: _Find) -> Operators:
    operators = parse_operators(data, where=OPERATORS_PATH)
    if operators.data != data:
        raise Malformed("is not in its one spelling (RFC 8785)", where=OPERATORS_PATH)
    if known is not None and operators.version <= known.version:
        told = f"offers version {operators.version} after {known.version}"
        raise Rollback(told, where=OPERATORS_PATH, fix="try another mirror; tell the commons")
    says = find(view, OPERATORS_PATH, data, (OPERATORS_RING, operators.version, OPERATORS_RING)).entry
    if says.type != "operators":
        raise NotLogged("has a log entry of another type", where=OPERATORS_PATH, fix="tell the commons")
    return operators
