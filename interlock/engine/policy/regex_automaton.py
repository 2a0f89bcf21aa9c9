"""The linear-time automaton behind the policy language's regexes and globs.

A tree becomes a Thompson NFA (Thompson 1968); a text runs over a DFA that is built as it is needed (Aho, Sethi and
Ullman, 3.7; RE2 does the same) and whose states are dropped and built anew when there are too many. So a text costs
one dictionary look-up a character in the common case, and never more than one visit of each NFA state.

What a search costs depends on the states that earlier ones have left. Where that could decide whether a text is too
costly (`sure_length`), a search runs on states of its own, so that a text always gets the same answer.

Places (^ $ \\b) are judged when the next character is known: a DFA state is a set of NFA states before its empty
moves, and the kind of the character before it.
"""

from __future__ import annotations

import bisect
import copy
from dataclasses import dataclass
from typing import Final

from interlock.base.errors import InterlockError
from interlock.engine.policy.regex_syntax import (
    Assertion,
    BadPattern,
    Chars,
    Choice,
    Concat,
    Node,
    Ranges,
    Repeat,
    word_ranges,
)

__all__ = [
    "MAX_DFA_STATES",
    "MAX_STATES",
    "MAX_WORK",
    "Automaton",
    "Meter",
    "TooCostly",
    "states_needed",
    "sure_length",
]

MAX_STATES: Final = 4000  # NFA states of a pattern once its counts are written out
MAX_DFA_STATES: Final = 512  # DFA states kept at once
MAX_WORK: Final = 8_000_000  # characters read and NFA states visited in one search
_ALPHABET_CACHE: Final = 4096
_ORDINARY: Final = 1 << 14  # characters of a text that is no longer than most
_SETTLING: Final = 4000  # steps that are spent on finding all DFA states of a pattern that has few

_OTHER: Final = 0
_WORD: Final = 1
_EDGE: Final = 2


class TooCostly(InterlockError):
    """A text that would cost a pattern more steps than a search may take."""

    code = "too-large"


class Meter:
    """Counts the steps of one search, and ends it at a limit."""

    def __init__(self, limit: int | None = None) -> None:
        self.spent, self._limit = 0, MAX_WORK if limit is None else limit

    def spend(self, steps: int) -> None:
        """Raises: TooCostly."""
        self.spent += steps
        if self.spent > self._limit:
            raise TooCostly(f"text takes more than {self._limit} steps to match")


@dataclass(slots=True)
class _Nfa:
    """A state reads one character out of `chars` (then `to`), or moves on empty: to `to` and `also`."""

    chars: Ranges | None = None
    place: str | None = None
    to: int = -1
    also: int = -1


class _State(dict[str, "_State"]):
    """A DFA state: next states by character class, built when first needed."""

    __slots__ = ("before", "closures", "states")

    def __init__(self, states: frozenset[int], before: int) -> None:
        super().__init__()
        self.states, self.before = states, before
        self.closures: list[tuple[tuple[int, ...], bool] | None] = [None, None, None]


class _Alphabet(dict[int, int]):
    """Code point -> class: characters that no part of the pattern tells apart share one."""

    def __init__(self, cuts: list[int]) -> None:
        super().__init__()
        self._cuts = cuts

    def __missing__(self, point: int) -> int:
        found = bisect.bisect_right(self._cuts, point)
        if len(self) < _ALPHABET_CACHE:
            self[point] = found
        return found

    def all(self) -> range:
        return range(len(self._cuts) + 1)

    def classes(self, ranges: Ranges) -> frozenset[int]:
        held: set[int] = set()
        for low, high in ranges:
            held.update(range(bisect.bisect_right(self._cuts, low), bisect.bisect_right(self._cuts, high) + 1))
        return frozenset(held)


def states_needed(node: Node) -> int:
    """How many NFA states a tree takes, counted without building them."""
    if isinstance(node, Concat):
        return sum(states_needed(item) for item in node.items)
    if isinstance(node, Choice):
        return sum(states_needed(item) + 1 for item in node.items)
    if isinstance(node, Repeat):
        one = states_needed(node.item)
        optional = one + 1 if node.most is None else (node.most - node.least) * (one + 1)
        return node.least * one + optional
    return 1


def sure_length(node: Node, unicode: bool, needed: int, patient: bool = False) -> int:
    """A length up to which texts never cost too much: `needed` characters, or as many as can be told.

    The automaton is built where `patient`, at a millisecond or so; else only for a pattern with so many states that
    nothing else says enough for a text of ordinary length.
    """
    floor = _floor(states_needed(node) + 1)
    enough = needed if patient else min(needed, _ORDINARY)
    return floor if floor >= enough else Automaton(node, unicode).sure_length(needed)


def _floor(states: int) -> int:
    """Characters that cost no more than MAX_WORK: each makes one DFA state at most, in three looks at every state."""
    return (MAX_WORK - 2 * states) // (3 * states + 1)


class Automaton:
    """Says whether a text holds a match, and where the leftmost, longest one is. Safe to share between threads."""

    def __init__(self, node: Node, unicode: bool) -> None:
        """Raises: BadPattern, where the counts of the tree write out to more than MAX_STATES."""
        if states_needed(node) > MAX_STATES:
            raise BadPattern(f"regex needs more than {MAX_STATES} states; use smaller counts")
        self._nfa: list[_Nfa] = [_Nfa()]  # 0 is the accepting state
        self._start = self._build(node, 0)
        places = {state.place for state in self._nfa}
        self._has_word, self._has_start = "word" in places, "start" in places
        self._anchored = _anchored(node)
        word = word_ranges(unicode) if self._has_word else ()
        sets = [state.chars for state in self._nfa if state.chars is not None] + [word]
        cuts = sorted({cut for ranges in sets for low, high in ranges for cut in (low, high + 1)})
        self._alphabet = _Alphabet(cuts)
        known = {ranges: self._alphabet.classes(ranges) for ranges in set(sets)}
        self._word_classes = known[word]
        self._accepts = [known[s.chars] if s.chars is not None else frozenset() for s in self._nfa]
        self._hit, self._dead = _State(frozenset(), _OTHER), _State(frozenset(), _OTHER)
        self._known: dict[tuple[frozenset[int], int], _State] = {}
        self._floor = _floor(len(self._nfa))
        self._sure: int | None = None

    def sure_length(self, needed: int) -> int:
        """Texts up to this long never cost too much; it is looked for only until it reaches `needed` characters."""
        if self._floor >= needed:
            return self._floor
        if self._sure is None:
            spent = self._alone()._settled()
            self._sure = self._floor if spent is None else MAX_WORK - spent
        return self._sure

    def _alone(self) -> Automaton:
        """The same automaton with no DFA state yet, and none that others see."""
        alone = copy.copy(self)
        alone._hit, alone._dead, alone._known = _State(frozenset(), _OTHER), _State(frozenset(), _OTHER), {}
        return alone

    def _settled(self) -> int | None:
        """What it costs to make all DFA states; None where there are too many, or where it costs too much."""
        meter = Meter(_SETTLING)
        todo = [self._state(frozenset((self._start,)), _EDGE)]
        seen = {id(todo[0])}
        try:
            while todo:
                state = todo.pop()
                self._closed(state, _EDGE, meter)
                for char_class in self._alphabet.all():
                    target = self._grow(state, chr(char_class), meter)
                    if target is self._hit or target is self._dead or id(target) in seen:
                        continue
                    if len(seen) >= MAX_DFA_STATES:
                        return None
                    seen.add(id(target))
                    todo.append(target)
        except TooCostly:
            return None
        return meter.spent

    def matches(self, text: str, meter: Meter | None = None) -> bool:
        """Whether the text holds a match. Raises: TooCostly."""
        if len(text) > self._floor and len(text) > self.sure_length(len(text)):
            return self._alone()._run(text, Meter() if meter is None else meter)
        return self._run(text, Meter() if meter is None else meter)

    def _run(self, text: str, meter: Meter) -> bool:
        meter.spend(len(text))
        hit, dead = self._hit, self._dead
        state = self._state(frozenset((self._start,)), _EDGE)
        for sign in text.translate(self._alphabet):
            try:
                state = state[sign]
            except KeyError:
                state = self._grow(state, sign, meter)
            if state is hit:
                return True
            if state is dead:
                return False
        return self._closed(state, _EDGE, meter)[1]

    def span(self, text: str, meter: Meter | None = None) -> tuple[int, int] | None:
        """Where the leftmost match is, and the longest from there. Raises: TooCostly."""
        meter = Meter() if meter is None else meter
        classes = [ord(c) for c in text.translate(self._alphabet)]
        best: tuple[int, int] | None = None
        threads: dict[int, int] = {}  # NFA state -> the first place its match may have begun
        before = _EDGE
        for at in range(len(classes) + 1):
            if best is None and (at == 0 or not self._anchored):
                threads.setdefault(self._start, at)
            after = self._kind(classes[at]) if at < len(classes) else _EDGE
            reached = self._spread(threads, before, after, meter)
            if 0 in reached and (best is None or reached[0] <= best[0]):
                best = (reached[0], at)
            if at == len(classes):
                break
            threads = self._read(reached, classes[at], best)
            if not threads and (best is not None or self._anchored):
                break
            before = after
        return best

    def _build(self, node: Node, to: int) -> int:
        """Add the states of a tree that lead to `to`; where they begin."""
        if isinstance(node, Chars):
            return self._add(_Nfa(chars=node.ranges, to=to))
        if isinstance(node, Assertion):
            return self._add(_Nfa(place=node.kind, to=to))
        if isinstance(node, Concat):
            for item in reversed(node.items):
                to = self._build(item, to)
            return to
        if isinstance(node, Choice):
            begin = self._build(node.items[-1], to)
            for item in reversed(node.items[:-1]):
                begin = self._add(_Nfa(to=self._build(item, to), also=begin))
            return begin
        return self._build_repeat(node, to)

    def _build_repeat(self, node: Repeat, to: int) -> int:
        begin = to
        if node.most is None:
            begin = self._add(_Nfa(also=to))
            self._nfa[begin].to = self._build(node.item, begin)
        else:
            for _ in range(node.most - node.least):
                begin = self._add(_Nfa(to=self._build(node.item, begin), also=to))
        for _ in range(node.least):
            begin = self._build(node.item, begin)
        return begin

    def _add(self, state: _Nfa) -> int:
        self._nfa.append(state)
        return len(self._nfa) - 1

    def _kind(self, char_class: int) -> int:
        return _WORD if char_class in self._word_classes else _OTHER

    def _state(self, states: frozenset[int], before: int) -> _State:
        """The one DFA state of this name; all are forgotten first where there are too many."""
        if not (self._has_word or (self._has_start and before == _EDGE)):
            before = _OTHER
        found = self._known.get((states, before))
        if found is None:
            if len(self._known) >= MAX_DFA_STATES:
                forgotten, self._known = self._known, {}
                for old in forgotten.values():
                    old.clear()
            found = self._known[(states, before)] = _State(states, before)
        return found

    def _grow(self, state: _State, sign: str, meter: Meter) -> _State:
        """Find and keep the state that follows on a character class."""
        char_class = ord(sign)
        after = self._kind(char_class)
        readers, matched = self._closed(state, after, meter)
        if matched:
            target = self._hit
        else:
            meter.spend(len(readers))
            states = {self._nfa[r].to for r in readers if char_class in self._accepts[r]}
            if not self._anchored:
                states.add(self._start)
            target = self._state(frozenset(states), after) if states else self._dead
        state[sign] = target
        return target

    def _closed(self, state: _State, after: int, meter: Meter) -> tuple[tuple[int, ...], bool]:
        """The states that read a character, after all empty moves; and whether one of the moves accepts."""
        known = state.closures[after]
        if known is None:
            reached = self._spread(dict.fromkeys(state.states, 0), state.before, after, meter)
            readers = tuple(s for s in reached if self._nfa[s].chars is not None)
            known = state.closures[after] = (readers, 0 in reached)
        return known

    def _spread(self, threads: dict[int, int], before: int, after: int, meter: Meter) -> dict[int, int]:
        """All states that empty moves reach from the threads, each with the earliest of its beginnings."""
        reached: dict[int, int] = {}
        for first, begun in sorted(threads.items(), key=lambda thread: thread[1]):
            stack = [first]
            while stack:
                at = stack.pop()
                if at in reached or at < 0:
                    continue
                reached[at] = begun
                state = self._nfa[at]
                if state.chars is None and (state.place is None or _holds(state.place, before, after)):
                    stack += (state.also, state.to)
        meter.spend(len(reached) + len(threads))
        return reached

    def _read(self, reached: dict[int, int], char_class: int, best: tuple[int, int] | None) -> dict[int, int]:
        """The threads after one character; those that began after the best match are dropped."""
        threads: dict[int, int] = {}
        for state, begun in reached.items():
            if char_class in self._accepts[state] and (best is None or begun <= best[0]):
                to = self._nfa[state].to
                threads[to] = min(begun, threads.get(to, begun))
        return threads


def _holds(place: str, before: int, after: int) -> bool:
    if place == "start":
        return before == _EDGE
    if place == "end":
        return after == _EDGE
    return (before == _WORD) != (after == _WORD)


def _anchored(node: Node) -> bool:
    """Whether every match begins at the start of the text."""
    if isinstance(node, Assertion):
        return node.kind == "start"
    if isinstance(node, Concat):
        return bool(node.items) and _anchored(node.items[0])
    if isinstance(node, Choice):
        return all(_anchored(item) for item in node.items)
    return False
