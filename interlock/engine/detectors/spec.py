"""DetectorSpec: one detector as policies name it, with the parameters it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from interlock.engine.event import Phase
from interlock.engine.policy.model import RuleFunction

__all__ = ["DetectorSpec", "checked_params"]


@dataclass(frozen=True, slots=True)
class DetectorSpec:
    """A detector: `build(params)` gives a rule that fires (returns a Decision, no allow) where it finds something.

    `params` are the parameters by name with their types, `phases` the kinds of event it can read. `redacts` says that
    its decisions mask values, so that what it saw is never counted in the mesh; such a one also takes `finds`, how many
    finds of a text it masks one by one. `template` is the reason it gives, with a word in braces for what is not to be
    written down. `build` raises ValueError, in one line, for bad parameters.
    """

    name: str
    build: Callable[[Mapping[str, object]], RuleFunction] = field(repr=False)
    params: Mapping[str, type | tuple[type, ...]]
    redacts: bool
    phases: tuple[Phase, ...]
    summary: str
    template: str = ""


def checked_params(
    name: str, params: Mapping[str, object], known: Mapping[str, type | tuple[type, ...]]
) -> Mapping[str, object]:
    """The parameters, if each is known and of its type. Raises: ValueError."""
    for key, value in params.items():
        if key not in known:
            raise ValueError(f"detector {name} has no parameter {key!r} (it has: {', '.join(sorted(known)) or 'none'})")
        if not isinstance(value, known[key]) or (isinstance(value, bool) and known[key] is int):
            raise ValueError(f"detector {name}: parameter {key!r} has the wrong type ({type(value).__name__})")
    return params
