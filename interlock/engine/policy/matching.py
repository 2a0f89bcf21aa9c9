"""Tests of one value: what stands beside `arg`, `action` and `principal` in a condition.

A test says True or False of any value and never fails on its type: a text test is false of all but a text, a number
comparison is false of all but a number (and True is no number). Several operators in one test must all hold.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from interlock.engine.policy import regex
from interlock.engine.policy.glob import compile_glob
from interlock.engine.policy.problems import BadPolicy, CannotJudge, known_key, shown
from interlock.engine.policy.regex_automaton import TooCostly
from interlock.engine.policy.regex_syntax import BadPattern

__all__ = ["MAX_CHOICES", "MAX_TEXT", "OPERATORS", "Test", "compile_test", "same"]

MAX_TEXT: Final = 1 << 20  # characters of a text that a regex or a glob reads; a longer one cannot be judged
MAX_CHOICES: Final = 10_000  # values in one `in`

Test: TypeAlias = Callable[[object], bool]


def compile_test(value: object, where: str) -> Test:
    """A test from its document form: a glob as a text, or an object of operators. Raises: BadPolicy."""
    if isinstance(value, str):
        return _glob(value, where)
    if not isinstance(value, Mapping):
        raise BadPolicy("is not a test", where=where, fix='write a glob such as "Bash", or {"equals": ...}')
    keys = [key for key in value if key != "flags"]
    for key in keys:
        known_key(key, OPERATORS, where, "operator")
    if not keys:
        raise BadPolicy("tests nothing", where=where, fix=f"give one of {', '.join(OPERATORS)}")
    if "flags" in value and "regex" not in value:
        raise BadPolicy("'flags' stands without a 'regex'", where=where)
    tests = [_operator(key, value, f"{where}.{key}") for key in keys]
    return tests[0] if len(tests) == 1 else lambda given: all(test(given) for test in tests)


def same(wanted: object, given: object) -> bool:
    """Whether two values are the same JSON value: 1 and 1.0 are, 1 and true are not."""
    if isinstance(wanted, bool) or isinstance(given, bool):
        return wanted is given
    if isinstance(wanted, int | float) and isinstance(given, int | float):
        return wanted == given
    if isinstance(wanted, str) and isinstance(given, str):
        return wanted == given
    if isinstance(wanted, Mapping) and isinstance(given, Mapping):
        return wanted.keys() == given.keys() and all(same(wanted[key], given[key]) for key in wanted)
    if isinstance(wanted, list | tuple) and isinstance(given, list | tuple):
        return len(wanted) == len(given) and all(map(same, wanted, given))
    return wanted is None and given is None


def _operator(key: str, value: Mapping[str, object], where: str) -> Test:
    wanted = value[key]
    if key == "regex":
        return _regex(wanted, value.get("flags", ""), where)
    return _MAKERS[key](wanted, where)


def _equals(wanted: object, where: str) -> Test:
    return lambda given: same(wanted, given)


def _in(wanted: object, where: str) -> Test:
    if not isinstance(wanted, list | tuple):
        raise BadPolicy("is not a list", where=where)
    if not wanted:
        raise BadPolicy("is empty, so it could never be true", where=where, fix="give at least one value")
    if len(wanted) > MAX_CHOICES:
        raise BadPolicy(f"has more than {MAX_CHOICES} values", where=where)
    if all(isinstance(choice, str) for choice in wanted):
        texts = frozenset(choice for choice in wanted if isinstance(choice, str))
        return lambda given: isinstance(given, str) and given in texts
    return lambda given: any(same(choice, given) for choice in wanted)


def _text(wanted: object, where: str) -> str:
    if not isinstance(wanted, str):
        raise BadPolicy("is not a text", where=where)
    if not wanted:
        raise BadPolicy("is empty", where=where, fix='give at least one character, or use "equals"')
    return wanted


def _prefix(wanted: object, where: str) -> Test:
    text = _text(wanted, where)
    return lambda given: isinstance(given, str) and given.startswith(text)


def _suffix(wanted: object, where: str) -> Test:
    text = _text(wanted, where)
    return lambda given: isinstance(given, str) and given.endswith(text)


def _contains(wanted: object, where: str) -> Test:
    text = _text(wanted, where)
    return lambda given: isinstance(given, str) and text in given


def _glob(wanted: object, where: str) -> Test:
    try:
        return _bounded(compile_glob(_text(wanted, where)), where)
    except BadPattern as e:
        raise BadPolicy(e.what, where=where) from None


def _regex(wanted: object, flags: object, where: str) -> Test:
    if not isinstance(flags, str):
        raise BadPolicy("is not a text", where=where.removesuffix("regex") + "flags")
    try:
        return _bounded(regex.compile(_text(wanted, where), flags).matches, where)
    except BadPattern as e:
        raise BadPolicy(e.what, where=where) from None


def _bounded(matches: Callable[[str], bool], where: str) -> Test:
    """A text test that gives up, loudly, on a text too long or too costly to judge."""

    def test(given: object) -> bool:
        if not isinstance(given, str):
            return False
        if len(given) > MAX_TEXT:
            raise CannotJudge(f"a text is longer than the {MAX_TEXT} characters that a pattern reads", where=where)
        try:
            return matches(given)
        except TooCostly as e:
            raise CannotJudge(e.what, where=where) from None

    return test


def _comparison(holds: Callable[[float, float], bool]) -> Callable[[object, str], Test]:
    def make(wanted: object, where: str) -> Test:
        if isinstance(wanted, bool) or not isinstance(wanted, int | float):
            raise BadPolicy(f"is not a number ({shown(type(wanted).__name__)})", where=where)
        limit = wanted
        return lambda given: (
            isinstance(given, int | float) and not isinstance(given, bool) and bool(holds(given, limit))
        )

    return make


_MAKERS: Final[dict[str, Callable[[object, str], Test]]] = {
    "equals": _equals,
    "in": _in,
    "glob": _glob,
    "prefix": _prefix,
    "suffix": _suffix,
    "contains": _contains,
    "lt": _comparison(operator.lt),
    "le": _comparison(operator.le),
    "gt": _comparison(operator.gt),
    "ge": _comparison(operator.ge),
}

OPERATORS: Final = (*_MAKERS, "regex")
