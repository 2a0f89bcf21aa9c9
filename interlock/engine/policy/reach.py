"""Tests that nothing which stands in their place could pass: each is refused, for its rule would never fire.

- a number or truth value asked of what is always a text (an action, a principal, a host, a path, a source), or a text
  of what is true or false
- a test of a closed set (names of intents, kinds, scopes) that none of its words passes, and tests of several fields
  that no intent there is passes together
- a host, a path or a source in a spelling that none has once it is read: a port or a slash in a host, letters that a
  host writes as an A-label, a path that begins with neither `/`, `~` nor `.`, or that holds `//` or `/./`
- a text to be equal to of which nothing is left in its normal form, and a regex that no text matches
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from interlock.engine.analysis.effects import EFFECTS
from interlock.engine.policy.conditions_call import EFFECT_KINDS, PATH_FIELDS, SCOPES, host_literal
from interlock.engine.policy.matching import BESIDE, compile_test
from interlock.engine.policy.normalise import normal
from interlock.engine.policy.problems import BadPolicy, shown
from interlock.engine.policy.regex_syntax import Assertion, Chars, Choice, Concat, Node, Repeat, parse

__all__ = ["demand_reach"]

_WILD: Final = frozenset("*?[")
_SIGNS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-_:")  # of a host as it is read
_ADDRESS: Final = frozenset("0123456789abcdef.:")
_GLOB_SIGNS: Final = _WILD | frozenset("]!")
# what may keep a regex from matching: ^ or $ inside, a set of nothing
_ODD_REGEX: Final = re.compile(r".\^|\$.|\[\^", re.DOTALL)
_BEGINNINGS: Final = ("equals", "in", "glob", "prefix")  # operators that say how a text begins
_SOURCES: Final = ("tool:", "principal:")
# field of `intent` or `effects` -> the column of EFFECTS that it tests
_COLUMNS: Final = {"name": 0, "effect": 1, "kind": 1, "reversible": 2, "undoable": 2}
_ROWS: Final = tuple((name, effect, reversible) for name, (effect, reversible) in EFFECTS.items())


def demand_reach(when: Mapping[str, object], where: str) -> None:
    """Raises: BadPolicy, where a condition (compiled already) asks what nothing could pass."""
    for kind, held in when.items():
        if kind in ("all", "any") and isinstance(held, list | tuple):
            for i, part in enumerate(held):
                demand_reach(_fields(part), f"{where}.{kind}[{i}]")
        elif kind == "not" and isinstance(held, dict):
            demand_reach(held, f"{where}.not")
        elif kind == "arg":
            _demand_left(when, f"{where}.arg")
        elif kind in _DEMANDS:
            _DEMANDS[kind](held, f"{where}.{kind}")


def _fields(part: object) -> Mapping[str, object]:
    return part if isinstance(part, dict) else {}


def _demand_text(test: object, where: str) -> None:
    for key, wanted in _wanted(test):
        if isinstance(wanted, str):
            continue
        raise BadPolicy(
            f"asks for {'a truth value' if isinstance(wanted, bool) else 'what is no text'} where a text stands, "
            "so it could never be true",
            where=f"{where}.{key}",
            fix="write a text",
        )
    _demand_left(test, where)


def _demand_left(test: object, where: str) -> None:
    """A text of which the normal form leaves nothing would be equal to the empty text; a regex may match no text."""
    if isinstance(test, dict) and isinstance(pattern := test.get("regex"), str) and _ODD_REGEX.search(pattern):
        tree, _ = parse(pattern, str(test.get("flags", "")))
        if not _can_match(tree):
            told = "matches no text, so it could never be true"
            raise BadPolicy(told, where=f"{where}.regex", fix="^ is the start of the text, and $ its end")
    if isinstance(test, dict) and test.get("raw") is True:
        return
    for key, wanted in _wanted(test):
        if isinstance(wanted, str) and wanted and not normal(wanted):
            raise BadPolicy(
                "holds nothing but characters that are not read",
                where=f"{where}.{key}",
                fix='add "raw": true to read texts as they stand',
            )


def _wanted(test: object) -> Iterator[tuple[str, object]]:
    """The values that a test looks for, each with its operator; a text alone is a glob."""
    if not isinstance(test, dict):
        yield "glob", test
        return
    for key, value in test.items():
        if key == "in" and isinstance(value, list | tuple):
            yield from ((key, one) for one in value)
        elif key not in (*BESIDE, "arg"):
            yield key, value


def _demand_truth(test: object, where: str) -> None:
    if isinstance(test, bool):
        return
    for key, wanted in _wanted(test):
        if not isinstance(wanted, bool):
            raise BadPolicy(
                "asks for another value where true or false stands, so it could never be true",
                where=f"{where}.{key}" if isinstance(test, dict) else where,
                fix="write true or false",
            )


def _demand_fields(wanted: object, where: str) -> None:
    """What `intent` or `effects` asks for of one intent."""
    fields = _fields(wanted)
    for key, test in fields.items():
        if key in ("reversible", "undoable"):
            _demand_truth(test, f"{where}.{key}")
        else:
            _demand_text(test, f"{where}.{key}")
    for key, words in (("effect", EFFECT_KINDS), ("kind", EFFECT_KINDS), ("scope", SCOPES)):
        if key in fields and not any(map(_test_of(fields[key]), words)):
            raise BadPolicy(
                f"no {key} passes this test", where=f"{where}.{key}", fix=f"known: {', '.join(sorted(words))}"
            )
    asked = [(_COLUMNS[key], _test_of(test)) for key, test in fields.items() if key in _COLUMNS]
    if asked and not any(all(test(row[column]) for column, test in asked) for row in _ROWS):
        raise BadPolicy("no intent there is passes all of this together, so it could never be true", where=where)


def _test_of(test: object) -> Callable[[object], bool]:
    return compile_test({"equals": test} if isinstance(test, bool) else test, "")


def _demand_host(wanted: object, where: str) -> None:
    given = wanted if isinstance(wanted, dict) else {"glob": wanted}
    test = {key: value for key, value in given.items() if key != "class"}
    _demand_text(test, where)
    for key, value in _wanted(test):
        if key == "regex":
            _demand_host_regex(str(value), str(given.get("flags", "")), f"{where}.{key}")
            continue
        text = str(host_literal(key, value, where))
        signs = set(text) - (_GLOB_SIGNS if key == "glob" else frozenset())
        odd = signs - _SIGNS or (signs - _ADDRESS - {"-"} if ":" in signs else set())
        if odd or (text.endswith(".") and key in ("glob", "suffix")):
            raise BadPolicy(
                f"{shown(value)} is in no host as hosts are read",
                where=f"{where}.{key}",
                fix="write lower-case letters, digits, dots and hyphens, an A-label (xn--...) for others, and no port",
            )


def _demand_host_regex(pattern: str, flags: str, where: str) -> None:
    if not _can_match(parse(pattern, flags)[0], frozenset(map(ord, _SIGNS))):
        raise BadPolicy(
            "matches no host as hosts are read", where=where, fix="write it for lower-case letters and A-labels"
        )


def _can_match(node: Node, signs: frozenset[int] | None = None, before: bool = False, after: bool = False) -> bool:
    """Whether some text of these characters (None: of any) could match; false only where none could.

    `before` and `after` say whether something else reads a character there, so that no text begins or ends between.
    """
    if isinstance(node, Chars):
        if signs is None:
            return bool(node.ranges)
        return any(low <= sign <= high for low, high in node.ranges for sign in signs)
    if isinstance(node, Assertion):
        return not (before if node.kind == "start" else after and node.kind == "end")
    if isinstance(node, Choice):
        return any(_can_match(item, signs, before, after) for item in node.items)
    if isinstance(node, Repeat):
        again = node.least > 1 and _reads(node.item)
        return node.least == 0 or _can_match(node.item, signs, before, after or again)
    reads = [_reads(item) for item in node.items]
    return all(
        _can_match(item, signs, before or any(reads[:i]), after or any(reads[i + 1 :]))
        for i, item in enumerate(node.items)
    )


def _reads(node: Node) -> bool:
    """Whether every match of it has a character."""
    if isinstance(node, Concat):
        return any(map(_reads, node.items))
    if isinstance(node, Choice):
        return all(map(_reads, node.items))
    return isinstance(node, Chars) or (isinstance(node, Repeat) and node.least > 0 and _reads(node.item))


def _demand_path(wanted: object, where: str) -> None:
    fields = wanted if isinstance(wanted, dict) else {"glob": wanted}
    test = {key: value for key, value in fields.items() if key not in PATH_FIELDS}
    _demand_text(test, where)
    for key, value in _wanted(test):
        if key in _BEGINNINGS:
            _demand_beginning(str(value), key, f"{where}.{key}")
    under = fields.get("under", ())
    for top in [under] if isinstance(under, str) else under if isinstance(under, list | tuple) else ():
        _demand_beginning(str(top).rstrip("/") or "/", "equals", f"{where}.under")


def _demand_beginning(text: str, key: str, where: str) -> None:
    """A path as it is read: absolute, or below `~` or `.`, without steps that lead nowhere."""
    first, slash, _ = text.partition("/")
    whole = key in ("equals", "in") or (key == "glob" and not _WILD & set(text))
    wild = key == "glob" and bool(_WILD & set(first))
    begins = wild or first in ("", "~", ".") if slash or whole else wild or text[:1] in ("/", "~", ".")
    inner = f"{text}/" if whole and text != "/" else text
    if not begins or "//" in inner or "/./" in inner:
        raise BadPolicy(
            f"{shown(text)} is no path as paths are read",
            where=where,
            fix='begin with "/", "~/" or "./" (or a *), without //, /./ or a / at the end',
        )


def _demand_flow(wanted: object, where: str) -> None:
    source = _fields(wanted).get("source")
    _demand_text(source, f"{where}.source")
    for key, value in _wanted(source):
        text = str(value)
        begins = text.startswith(_SOURCES) or (key == "prefix" and any(one.startswith(text) for one in _SOURCES))
        if key in _BEGINNINGS and not begins and not (key == "glob" and text[:1] in _WILD):
            raise BadPolicy(
                f"{shown(text)} is no source",
                where=f"{where}.source.{key}",
                fix='write "tool:NAME" or "principal:NAME"',
            )


_DEMANDS: Final[Mapping[str, Callable[[object, str], None]]] = {
    "action": _demand_text,
    "principal": _demand_text,
    "intent": _demand_fields,
    "effects": _demand_fields,
    "host": _demand_host,
    "path": _demand_path,
    "flow": _demand_flow,
}
