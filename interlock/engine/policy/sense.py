"""What can never be: conditions that contradict themselves, things said twice, rules that an earlier one makes idle.

Found by rule, not by proof; each is refused, for it is never what its author meant:
- in what must hold together (an `all`, its inner ones included, or the operators of one test): two values that one
  argument, the action or the principal would have to equal at once; a range whose end lies before its start; a value
  outside the range, or one that the other operators do not pass; a text that is to be a number too; a condition and
  its own `not`
- the same condition twice in one `all` or `any`
- a rule that an earlier rule of the document makes idle: whatever it fires on, that one fires on too, by the same
  conditions, with a block or with the same verdict
Conditions are the same that say the same letter by letter, however a path to an argument is spelt, a tool is called in
other frameworks, and a name is given (as a text or by `equals`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from interlock.base.canonical import json_encoder
from interlock.engine.collector import freed_slowly
from interlock.engine.decision import Verdict
from interlock.engine.policy.argpath import one_spelling
from interlock.engine.policy.matching import compile_test
from interlock.engine.policy.names import names_of
from interlock.engine.policy.normalise import normal
from interlock.engine.policy.problems import BadPolicy

__all__ = ["Literals", "demand_sense", "idle_rules", "literals_of"]

_NAMED: Final = ("action", "principal")
_TEXT_OPERATORS: Final = ("glob", "prefix", "suffix", "contains", "regex")


def demand_sense(when: Mapping[str, object], where: str) -> None:
    """Raises: BadPolicy, where a condition (compiled already) contradicts itself or says one thing twice."""
    if "all" in when or "any" in when:
        kind = "all" if "all" in when else "any"
        parts = [part for part in _list(when[kind]) if isinstance(part, dict)]
        if len(parts) > 1:
            _demand_single(parts, f"{where}.{kind}")
        for i, part in enumerate(parts):
            demand_sense(part, f"{where}.{kind}[{i}]")
    elif isinstance(inner := when.get("not"), dict):
        demand_sense(inner, f"{where}.not")
        return
    if "any" not in when:
        _demand_together(list(_conjuncts(when)), where)


def _demand_single(parts: Sequence[Mapping[str, object]], where: str) -> None:
    if len(set(map(frozenset, parts))) == len(parts):
        return  # no two of them even have the same fields
    seen: dict[str, int] = {}
    for i, part in enumerate(parts):
        first = seen.setdefault(_key(part), i)
        if first != i:
            raise BadPolicy(f"says the same as [{first}]", where=f"{where}[{i}]", fix="leave one of the two out")


def _conjuncts(when: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    if "all" not in when:
        yield when
        return
    for part in _list(when["all"]):
        if isinstance(part, dict):
            yield from _conjuncts(part)


@dataclass(slots=True)
class _Demands:
    """What one value must be: one of `values` where given, above all of `low`, below all of `high`."""

    values: set[object] | None = None
    low: tuple[float, bool] | None = None  # (number, whether it itself is excluded)
    high: tuple[float, bool] | None = None
    texts: dict[str, object] = field(default_factory=dict)  # operators of texts

    def only(self, values: set[object]) -> None:
        self.values = values if self.values is None else self.values & values

    def above(self, number: float, strict: bool) -> None:
        if self.low is None or (number, strict) > self.low:
            self.low = (number, strict)

    def below(self, number: float, strict: bool) -> None:
        if self.high is None or (number, not strict) < (self.high[0], not self.high[1]):
            self.high = (number, strict)

    def problem(self) -> str:
        if self.values is not None and not self.values:
            return "is to equal two values at once, so the condition could never be true"
        if self.low is not None and self.high is not None:
            (low, over), (high, under) = self.low, self.high
            if low > high or (low == high and (over or under)):
                return "is to lie in a range whose end comes before its start, so the condition could never be true"
        if self.values is not None and not any(map(self._within, self.values)):
            return "is to equal a value outside its range, so the condition could never be true"
        return self._problem_of_texts() if self.texts else ""

    def _problem_of_texts(self) -> str:
        if self.low is not None or self.high is not None:
            return "is to be a text and a number at once, so the condition could never be true"
        if self.values is None:
            return ""
        known = [marked[1] for marked in self.values if isinstance(marked, tuple) and marked[0] == "text"]
        if any(compile_test({**self.texts, "equals": value}, "")(value) for value in known):
            return ""
        return "is to equal a value that the other operators do not pass, so the condition could never be true"

    def _within(self, marked: object) -> bool:
        if self.low is None and self.high is None:
            return True
        kind, value = marked if isinstance(marked, tuple) else ("", marked)
        if kind != "number" or not isinstance(value, int | float):
            return False
        above = self.low is None or value > self.low[0] or (value == self.low[0] and not self.low[1])
        return above and (self.high is None or value < self.high[0] or (value == self.high[0] and not self.high[1]))


def _demand_together(parts: list[Mapping[str, object]], where: str) -> None:
    if len(parts) == 1 and _is_single(*_subject(parts[0])):
        return
    refused = {_key(inner) for part in parts if isinstance(inner := part.get("not"), dict)}
    held: dict[str, _Demands] = {}
    for part in parts:
        if refused and _key(part) in refused:
            raise BadPolicy("asks for a condition and for its 'not', so it could never be true", where=where)
        subject, test = _subject(part)
        if not subject:
            continue
        many = "*" in subject  # several values: each test may be met by another one
        demands = _Demands() if many else held.setdefault(subject, _Demands())
        _add(demands, test, names=subject == "action")
        if problem := demands.problem():
            raise BadPolicy(f"{subject} {problem}", where=where)


def _is_single(subject: str, test: object) -> bool:
    """Whether a test demands one thing only, which cannot contradict itself."""
    return not subject or not isinstance(test, dict) or len(test) == 1


def _subject(part: Mapping[str, object]) -> tuple[str, object]:
    for kind in _NAMED:
        if kind in part:
            return kind, part[kind]
    if isinstance(path := part.get("arg"), str):
        return f"argument {one_spelling(path)}", {key: value for key, value in part.items() if key != "arg"}
    return "", None


def _add(demands: _Demands, test: object, *, names: bool) -> None:
    if isinstance(test, str):
        if not any(sign in test for sign in "*?["):
            demands.only({_marked(name) for name in (names_of(test) if names else (test,))})
        return
    if not isinstance(test, dict) or test.get("raw") is True:
        return
    for key, value in test.items():
        if key == "equals" or (key == "in" and isinstance(value, list | tuple)):
            wanted = _list(value) if key == "in" else [value]
            demands.only({_marked(n) for one in wanted for n in _spread(one, names)})
        elif key in _TEXT_OPERATORS:
            demands.texts.setdefault(key, value)
            if key == "regex":
                demands.texts.setdefault("flags", test.get("flags", ""))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            if key in ("gt", "ge"):
                demands.above(value, key == "gt")
            elif key in ("lt", "le"):
                demands.below(value, key == "lt")


def _spread(value: object, names: bool) -> Iterable[object]:
    return names_of(value) if names and isinstance(value, str) else (value,)


def _marked(value: object) -> object:
    """A value that compares as `equals` does: 1 is 1.0, and no boolean; texts in their normal form."""
    if isinstance(value, bool) or value is None:
        return ("word", value)
    if isinstance(value, int | float):
        return ("number", value)
    return ("text", normal(value)) if isinstance(value, str) else ("json", _key(value))


@dataclass(frozen=True, slots=True)
class Literals:
    """A rule as a set of conditions that must all hold; `alternatives` where one of several sets is enough."""

    id: str
    verdict: Verdict
    all: frozenset[str]
    alternatives: tuple[frozenset[str], ...] = field(default=())
    mask: str = ""
    kind: str = ""  # phase and shadow: only rules of one kind are compared


def literals_of(rule_id: str, when: Mapping[str, object], verdict: Verdict, mask: object, kind: str) -> Literals:
    """The literals of a rule (compiled already)."""
    parts = list(_conjuncts(when))
    sets: tuple[frozenset[str], ...] = ()
    if len(parts) == 1 and "any" in parts[0]:
        options = [part for part in _list(parts[0]["any"]) if isinstance(part, dict)]
        sets = tuple(frozenset(map(_key, _conjuncts(option))) for option in options)
    return Literals(rule_id, verdict, frozenset(map(_key, parts)), sets, _key(mask), kind)


def idle_rules(rules: Iterable[Literals]) -> Iterator[tuple[Literals, Literals]]:
    """Each rule that an earlier one makes idle, with that one.

    An earlier rule is found by its rarest condition, so that many rules cost little more than their number.
    """
    ordered = list(rules)
    often = Counter(literal for rule in ordered for option in _options(rule) for literal in option)
    by_rarest: dict[str, list[tuple[frozenset[str], Literals]]] = {}
    for rule in ordered:
        found = next((held for held in _covering(rule, by_rarest)), None)
        if found is not None:
            yield rule, found
        for option in _options(rule):
            rarest = min(option, key=lambda literal: (often[literal], literal))
            by_rarest.setdefault(rarest, []).append((option, rule))
    freed_slowly(by_rarest, often, ordered)


def _options(rule: Literals) -> tuple[frozenset[str], ...]:
    return (rule.all, *rule.alternatives)


def _covering(rule: Literals, known: Mapping[str, list[tuple[frozenset[str], Literals]]]) -> Iterator[Literals]:
    for literal in sorted(rule.all):
        for option, earlier in known.get(literal, ()):
            same = earlier.verdict is rule.verdict and earlier.mask == rule.mask
            if option <= rule.all and earlier.kind == rule.kind and (same or earlier.verdict is Verdict.BLOCK):
                yield earlier


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


_text: Final = json_encoder(sort_keys=True, default=_plain)


def _key(value: object) -> str:
    """One text for one condition, however its keys are ordered and its names are spelt."""
    return _text(_alike(value))


def _alike(value: object) -> object:
    """A condition in the one spelling in which it is compared."""
    if isinstance(value, list | tuple):
        return [_alike(part) for part in value]
    if not isinstance(value, dict):
        return value
    if isinstance(path := value.get("arg"), str):
        return value if path.isidentifier() else {**value, "arg": one_spelling(path)}
    for kind in _NAMED:
        if kind in value:
            return {kind: _alike_name(value[kind], tools=kind == "action")}
    joined = [kind for kind in ("all", "any", "not") if kind in value]
    return {kind: _alike(value[kind]) for kind in joined} if joined else value


def _alike_name(test: object, *, tools: bool) -> object:
    if isinstance(test, dict) and set(test) == {"equals"}:
        test = test["equals"]
    elif not isinstance(test, str) or any(sign in test for sign in "*?["):
        return test
    return {"equals": sorted(names_of(test)) if tools and isinstance(test, str) else test}


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []
