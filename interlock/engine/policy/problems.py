"""What is wrong with a policy, said in one line: which file, which rule, which field, and what was perhaps meant."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable
from typing import Final, TypeVar

from interlock.base.errors import InterlockError, one_line

__all__ = ["BadPolicy", "CannotJudge", "Oversized", "did_you_mean", "known_key", "one_holds", "shown"]

_Given = TypeVar("_Given")

_LISTED: Final = 12  # known names shown where nothing is near


class BadPolicy(InterlockError):
    """A policy that cannot be used; it is refused whole."""

    code = "bad-policy"


class CannotJudge(InterlockError):
    """An event too large for a rule to judge. The rule then blocks: what was not judged was not allowed."""

    code = "too-large"


class Oversized(CannotJudge):
    """A text beyond the policy's limits, where the policy does not judge a part of it."""


def one_holds(tests: Iterable[tuple[Callable[[_Given], bool], _Given]]) -> bool:
    """Whether one of several tests, each with what it is asked of, holds.

    One that cannot judge counts only where no other holds. Raises: CannotJudge, the first.
    """
    unjudged: CannotJudge | None = None
    for test, given in tests:
        try:
            if test(given):
                return True
        except CannotJudge as e:
            unjudged = unjudged or e
    if unjudged is not None:
        raise unjudged
    return False


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Advice for a word that is not known: the nearest known one, or what there is."""
    names = sorted(known)
    near = difflib.get_close_matches(str(word)[:100], names, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    more = ", ..." if len(names) > _LISTED else ""
    return f"known here: {', '.join(names[:_LISTED])}{more}" if names else ""


def known_key(key: object, known: Collection[str], where: str, kind: str = "field") -> None:
    """Raises: BadPolicy, where a key is not among the known ones."""
    if key not in known:
        raise BadPolicy(f"unknown {kind} {shown(key)}", where=where, fix=did_you_mean(key, known))


def shown(value: object) -> str:
    """A word of a policy's own text as an error may show it: quoted, short. Only for names, never for arguments."""
    return repr(one_line(str(value), 60))
