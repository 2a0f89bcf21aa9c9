"""Tests of one value: what stands beside `arg`, `action` and `principal` in a condition.

A test says True or False of any value and never fails on its type: a text test is false of all but a text, a number
comparison is false of all but a number (and True is no number). Several operators in one test must all hold. What JSON
has not is read as it would be written there: bytes, a path, a time or a UUID as its text, a Decimal as a number.

Texts are read in their normal form (`normalise`), and so are the texts that a test looks for, also within `equals` and
`in`; the keys of mappings are taken as they are. A glob or regex that holds a character which no normal form has could
never match and is refused. With `"raw": true` beside the operators, all of it is taken as it stands.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from interlock.base.canonical import plain
from interlock.engine.payload import FrozenDict, FrozenList
from interlock.engine.policy import regex
from interlock.engine.policy.glob import compile_glob
from interlock.engine.policy.limits import Reading
from interlock.engine.policy.normalise import normal, normal_deep, possible
from interlock.engine.policy.problems import BadPolicy, CannotJudge, Oversized, known_key, shown
from interlock.engine.policy.regex_automaton import TooCostly
from interlock.engine.policy.regex_syntax import BadPattern, Chars, Choice, Concat, Node, Repeat

__all__ = ["BESIDE", "MAX_CHOICES", "MAX_TEXT", "OPERATORS", "Test", "compile_test", "same"]

MAX_TEXT: Final = 1 << 20  # bytes of UTF-8 of a text that a regex or a glob reads where no other limit is given
MAX_CHOICES: Final = 10_000  # values in one `in`
BESIDE: Final = ("flags", "raw")  # what stands beside operators and is none
_WHOLE: Final = Reading(MAX_TEXT)
_JSON: Final = frozenset({str, int, float, bool, type(None), dict, list, tuple, FrozenDict, FrozenList})
_MAX_TRIED: Final = 512  # characters of a set that are tried for one that a normal form can hold

Test: TypeAlias = Callable[[object], bool]


def compile_test(value: object, where: str, reading: Reading = _WHOLE) -> Test:
    """A test from its document form: a glob as a text, or an object of operators. Raises: BadPolicy."""
    if isinstance(value, str):
        return _of_json(_Maker(reading, raw=False).glob(value, where))
    if not isinstance(value, dict):
        raise BadPolicy("is not a test", where=where, fix='write a glob such as "Bash", or {"equals": ...}')
    keys = [key for key in value if key not in BESIDE]
    for key in keys:
        known_key(key, OPERATORS, where, "operator")
    if not keys:
        raise BadPolicy("tests nothing", where=where, fix=f"give one of {', '.join(OPERATORS)}")
    if "flags" in value and "regex" not in value:
        raise BadPolicy("'flags' stands without a 'regex'", where=where)
    if not isinstance(raw := value.get("raw", False), bool):
        raise BadPolicy("is neither true nor false", where=f"{where}.raw")
    maker = _Maker(reading, raw)
    tests = [maker.operator(key, value, f"{where}.{key}") for key in keys]
    return _of_json(tests[0] if len(tests) == 1 else lambda given: all(test(given) for test in tests))


def _of_json(test: Test) -> Test:
    """The test, of a value as JSON would have it: a path, say, is its text."""
    return lambda given: test(given if type(given) in _JSON else plain(given))


def same(wanted: object, given: object, text: Callable[[str], str] = str) -> bool:
    """Whether two values are the same JSON value: 1 and 1.0 are, 1 and true are not; `text` reads what is given."""
    given = given if type(given) in _JSON else plain(given)
    if isinstance(wanted, bool) or isinstance(given, bool):
        return wanted is given
    if isinstance(wanted, int | float) and isinstance(given, int | float):
        return wanted == given
    if isinstance(wanted, str) and isinstance(given, str):
        return wanted == text(given)
    if isinstance(wanted, Mapping) and isinstance(given, Mapping):
        return wanted.keys() == given.keys() and all(same(wanted[key], given[key], text) for key in wanted)
    if isinstance(wanted, list | tuple) and isinstance(given, list | tuple):
        return len(wanted) == len(given) and all(
            same(one, other, text) for one, other in zip(wanted, given, strict=True)
        )
    return wanted is None and given is None


class _Maker:
    """Makes the operators of one test, which all read texts in the same way."""

    def __init__(self, reading: Reading, raw: bool) -> None:
        self._reading = reading
        self._raw = raw
        self._normal: Callable[[str], str] = str if raw else normal

    def operator(self, key: str, value: Mapping[str, object], where: str) -> Test:
        wanted = value[key]
        if key == "regex":
            return self.regex(wanted, value.get("flags", ""), where)
        if key in _COMPARISONS:
            return _comparison(_COMPARISONS[key], wanted, where)
        maker: Callable[[object, str], Test] = getattr(self, _MAKERS[key])
        return maker(wanted, where)

    def equals(self, wanted: object, where: str) -> Test:
        sought, text = self._sought(wanted), self._normal
        return lambda given: same(sought, given, text)

    def choice(self, wanted: object, where: str) -> Test:
        if not isinstance(wanted, list | tuple):
            raise BadPolicy("is not a list", where=where)
        if not wanted:
            raise BadPolicy("is empty, so it could never be true", where=where, fix="give at least one value")
        if len(wanted) > MAX_CHOICES:
            raise BadPolicy(f"has more than {MAX_CHOICES} values", where=where)
        text = self._normal
        if all(isinstance(choice, str) for choice in wanted):
            texts = frozenset(text(choice) for choice in wanted if isinstance(choice, str))
            return lambda given: isinstance(given, str) and text(given) in texts
        sought = [self._sought(choice) for choice in wanted]
        return lambda given: any(same(choice, given, text) for choice in sought)

    def prefix(self, wanted: object, where: str) -> Test:
        sought, text = self._literal(wanted, where), self._normal
        return lambda given: isinstance(given, str) and text(given).startswith(sought)

    def suffix(self, wanted: object, where: str) -> Test:
        sought, text = self._literal(wanted, where), self._normal
        return lambda given: isinstance(given, str) and text(given).endswith(sought)

    def contains(self, wanted: object, where: str) -> Test:
        sought, text = self._literal(wanted, where), self._normal
        return lambda given: isinstance(given, str) and sought in text(given)

    def glob(self, wanted: object, where: str) -> Test:
        pattern = _text(wanted, where)
        if not self._raw and normal(pattern) != pattern:
            raise _unmatchable(where)
        try:
            return self._bounded(compile_glob(pattern), where)
        except BadPattern as e:
            raise BadPolicy(e.what, where=where) from None

    def regex(self, wanted: object, flags: object, where: str) -> Test:
        if not isinstance(flags, str):
            raise BadPolicy("is not a text", where=where.removesuffix("regex") + "flags")
        try:
            compiled = regex.compile(_text(wanted, where), flags)
        except BadPattern as e:
            raise BadPolicy(e.what, where=where) from None
        if not self._raw and not _can_match(compiled.node):
            raise _unmatchable(where)
        return self._bounded(compiled.matches, where)

    def _sought(self, wanted: object) -> object:
        return wanted if self._raw else normal_deep(wanted)

    def _literal(self, wanted: object, where: str) -> str:
        text = self._normal(_text(wanted, where))
        if not text:
            raise _unmatchable(where)
        return text

    def _bounded(self, matches: Callable[[str], bool], where: str) -> Test:
        """A text test that gives up, loudly, on a text too long or too costly to judge."""
        reading, text = self._reading, self._normal

        def test(given: object) -> bool:
            if not isinstance(given, str):
                return False
            seen = reading.seen(given)
            if seen is None:
                what = f"a text is longer than the {reading.limit} bytes that a pattern reads"
                raise Oversized(what, where=where)
            try:
                return matches(text(seen))
            except TooCostly as e:
                raise CannotJudge(e.what, where=where) from None

        return test


def _text(wanted: object, where: str) -> str:
    if not isinstance(wanted, str):
        raise BadPolicy("is not a text", where=where)
    if not wanted:
        raise BadPolicy("is empty", where=where, fix='give at least one character, or use "equals"')
    return wanted


def _unmatchable(where: str) -> BadPolicy:
    return BadPolicy(
        "holds a character that no text has in its normal form (NFKC, without invisible characters), "
        "so it could never match",
        where=where,
        fix='write the plain character, or add "raw": true to read texts as they stand',
    )


def _can_match(node: Node) -> bool:
    """Whether a pattern's tree can match a normal form at all: each set on its way has a possible character."""
    if isinstance(node, Chars):
        tried = (code for low, high in node.ranges for code in range(low, high + 1))
        few = [code for code, _ in zip(tried, range(_MAX_TRIED), strict=False)]
        return not few or len(few) == _MAX_TRIED or any(map(possible, few))
    if isinstance(node, Concat):
        return all(map(_can_match, node.items))
    if isinstance(node, Choice):
        return any(map(_can_match, node.items))
    return not isinstance(node, Repeat) or node.least == 0 or _can_match(node.item)


def _comparison(holds: Callable[[float, float], bool], wanted: object, where: str) -> Test:
    if isinstance(wanted, bool) or not isinstance(wanted, int | float):
        raise BadPolicy(f"is not a number ({shown(type(wanted).__name__)})", where=where)
    limit = wanted
    return lambda given: isinstance(given, int | float) and not isinstance(given, bool) and bool(holds(given, limit))


_MAKERS: Final = {
    "equals": "equals",
    "in": "choice",
    "glob": "glob",
    "prefix": "prefix",
    "suffix": "suffix",
    "contains": "contains",
}
_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}

OPERATORS: Final = (*_MAKERS, *_COMPARISONS, "regex")
