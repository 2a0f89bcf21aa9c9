"""The policy language's regexes: their syntax, their agreement with `re`, and that they are linear."""

from __future__ import annotations

import contextlib
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.policy import regex, regex_automaton
from interlock.engine.policy.glob import compile_glob
from interlock.engine.policy.regex_automaton import MAX_DFA_STATES, Automaton, Meter, TooCostly, states_needed
from interlock.engine.policy.regex_syntax import MAX_GROUP_DEPTH, MAX_PATTERN, BadPattern, parse

# The subset that `re` and we spell alike, over an alphabet small enough for matches to be common.
_atoms = st.sampled_from(
    ["a", "b", "c", "0", " ", r"\n", ".", "[ab]", "[^a]", "[a-c0]", r"\w", r"\d", r"\s", r"\W", r"\b", "^"]
)
_counts = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}", "{1,}"])


def _repeated(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    single = st.tuples(inner, _counts).map(lambda pair: f"(?:{pair[0]}){pair[1]}")
    return st.one_of(
        single,
        st.lists(single, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: "(" + "|".join(parts) + ")"),
    )


_patterns = st.recursive(_atoms, _repeated, max_leaves=5)
_texts = st.text(alphabet="abcA0_ \n", max_size=12)


@settings(max_examples=400, deadline=None)
@given(_patterns, _texts, st.sampled_from(["", "i", "s", "is"]))
def test_a_search_says_what_re_says(pattern: str, text: str, flags: str) -> None:
    options = re.ASCII | (re.I if "i" in flags else 0) | (re.S if "s" in flags else 0)
    wanted = re.search(pattern, text, options) is not None
    assert regex.compile(pattern, flags).matches(text) == wanted
    node, unicode = parse(pattern, flags)
    assert Automaton(node, unicode).matches(text) == wanted


@settings(max_examples=200, deadline=None)
@given(_patterns, _texts)
def test_a_span_is_the_leftmost_and_then_the_longest(pattern: str, text: str) -> None:
    whole = re.compile(pattern, re.ASCII)
    found = regex.compile(pattern).search(text)
    first = whole.search(text)
    if first is None:
        assert found is None
        return
    # the end is judged in place, so that \b and ^ see the text around the span
    ends = [e for e in range(len(text) + 1) if _matches_just(pattern, text, first.start(), e)]
    assert found == (first.start(), max(ends))


def _matches_just(pattern: str, text: str, start: int, end: int) -> bool:
    if end < start:
        return False
    exact = re.compile(rf"(?:{pattern})(?=(?s:.{{{len(text) - end}}})\Z)", re.ASCII)
    return (
        exact.match(text, start) is not None if start == 0 or "^" not in pattern else _caret(pattern, text, start, end)
    )


def _caret(pattern: str, text: str, start: int, end: int) -> bool:
    # match(text, start) lets ^ hold at `start`; a look-behind of fixed width keeps it at the start of the text
    exact = re.compile(rf"(?s:.{{{start}}})(?:{pattern})(?=(?s:.{{{len(text) - end}}})\Z)", re.ASCII)
    return exact.match(text) is not None


@pytest.mark.parametrize("pattern", [r"(a+)+b", r"(a|a)*b", r"(.*)*x", r"(a*)*(a*)*b", r"^(\w+\s?)*$", r"a.*a.*a.*b"])
def test_an_evil_pattern_takes_steps_in_proportion_to_the_text(pattern: str) -> None:
    compiled = regex.compile(pattern, "s")
    short, long = compiled.steps("a" * 5_000 + "!"), compiled.steps("a" * 50_000 + "!")
    assert long <= 11 * short
    assert long <= 50_001 + 2_000
    assert not compiled.matches("a" * 50_000 + "!")


def test_a_pattern_whose_dfa_would_be_exponential_stays_linear_and_bounded() -> None:
    node, unicode = parse("[ab]*a[ab]{12}c")
    automaton = Automaton(node, unicode)
    signs = random.Random(7).choices("ab", k=4_000)
    meter = Meter()
    assert not automaton.matches("".join(signs), meter)
    assert meter.spent <= len(signs) * 80
    assert len({frozenset(i for i in range(13) if signs[at - i] == "a") for at in range(13, 4_000)}) > MAX_DFA_STATES
    assert len(automaton._known) <= MAX_DFA_STATES
    assert automaton.matches("".join(signs) + "a" + "b" * 12 + "c")


def test_a_search_that_takes_too_many_steps_says_so() -> None:
    node, unicode = parse("[ab]*a[ab]{30}c")
    with pytest.raises(TooCostly, match="more than 500 steps"):
        Automaton(node, unicode).matches("ab" * 200 + "ba" * 100, Meter(500))


@pytest.mark.parametrize("pattern", ["[ab]*a[ab]{30}c", "(?:a|b)*c", r"\brm +-rf", r"x.{0,40}y", r"(?u)\w+\W", "^a*$"])
def test_a_text_of_a_sure_length_never_takes_too_many_steps(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex_automaton, "MAX_WORK", 20_000)
    node, unicode = parse(pattern)
    sure = regex_automaton.sure_length(node, unicode, 15_000)
    assert sure > 20_000 // (4 * states_needed(node)) - 10
    signs = random.Random(3)
    for alphabet in ("ab", "rm -f", "xy", "aé ", "a"):
        for length in (sure, sure // 2, 1, 0):
            Automaton(node, unicode).matches("".join(signs.choices(alphabet, k=length)))


def test_a_text_is_too_costly_or_not_whatever_was_searched_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex_automaton, "MAX_WORK", 5_000)
    node, unicode = parse("[ab]*a[ab]{30}c")
    text = "".join(random.Random(1).choices("ab", k=300))
    automaton = Automaton(node, unicode)
    for end in range(0, 301, 5):  # learns the states of the text bit by bit
        with contextlib.suppress(TooCostly):
            automaton.matches(text[:end])
    for _ in range(2):
        with pytest.raises(TooCostly):
            automaton.matches(text)


def test_the_end_of_the_text_is_not_before_a_last_line_feed() -> None:
    assert regex.compile("b$").matches("ab")
    assert not regex.compile("b$").matches("ab\n")
    assert not regex.compile("^b").matches("a\nb")


def test_classes_are_ascii_unless_flagged() -> None:
    assert not regex.compile(r"\d").matches("٣")
    assert regex.compile(r"\d", "u").matches("٣")
    assert not regex.compile(r"^\w+$").matches("é")
    assert regex.compile(r"(?u)^\w+$").matches("éa")
    assert regex.compile(r"\be").matches("ée")
    assert not regex.compile(r"\be", "u").matches("ée")


def test_case_folds_ascii_letters_and_with_u_all_letters() -> None:
    assert regex.compile("(?i)rm -RF").matches("RM -rf")
    assert regex.compile("[a-c]+x", "i").matches("ABCX")
    assert not regex.compile("é", "i").matches("É")
    assert regex.compile("é", "iu").matches("É")
    assert not regex.compile("[^a]", "i").matches("A")


def test_a_dot_is_any_character_but_a_line_feed() -> None:
    assert not regex.compile("a.b").matches("a\nb")
    assert regex.compile("a.b", "s").matches("a\nb")


def test_escapes_and_signs_in_a_class_stand_for_themselves() -> None:
    assert regex.compile(r"[\]\-\\]+$").matches("]-\\")
    assert regex.compile(r"[a-]b").matches("-b")
    assert regex.compile(r"^[\w.-]+@[\x41-\x43]+$").matches("a.b-c@ABC")
    assert regex.compile(r"\u00e9\x21\$\{").matches("é!${")
    assert regex.compile(r"\t\n").matches("\t\n")


def test_a_repetition_without_bound_never_reaches_re() -> None:
    for pattern in ("a*", "a+b", "a{3,}", "(a|b)*", "x(y(z+))"):
        assert regex.compile(pattern)._bounded is None
    for pattern in ("abc", "a{3}", "(?:a|b)c", "^a?b$"):
        assert regex.compile(pattern)._bounded is not None


def test_nested_counts_never_reach_re() -> None:
    assert regex.compile("(a{1,9}){1,9}b")._bounded is None
    assert regex.compile("(a|b){1,30}c")._bounded is None
    assert regex.compile("(?:a|b){1,7}c")._bounded is None
    assert regex.compile("a?a?a?a?a?a?a?aaaaaaa")._bounded is None
    assert regex.compile("a?a?a?a?a?a?a?a?aaaaaaaa")._bounded is None


@pytest.mark.parametrize(
    ("pattern", "position", "says"),
    [
        (r"a(b", 2, "not closed"),
        (r"a)b", 2, "closes no group"),
        (r"[ab", 1, "not closed"),
        (r"x[]", 2, "empty class"),
        (r"*a", 1, "nothing to repeat"),
        (r"a|+", 3, "nothing to repeat"),
        (r"a**", 3, "cannot be followed"),
        (r"a+?", 3, "lazy"),
        (r"a++", 3, "possessive"),
        (r"^*", 1, "cannot be repeated"),
        (r"a{2,1}", 2, "no number in it"),
        (r"a{x}", 2, "a count is"),
        (r"a{,3}", 2, "a count is"),
        (r"a{1001}", 3, "up to 1000"),
        (r"(a)\1", 4, "no backreference"),
        (r"a(?=b)", 2, "no lookaround"),
        (r"(?<!a)b", 1, "no lookaround"),
        (r"(?P<n>a)", 1, "named group"),
        (r"a(?i)b", 2, "very start"),
        (r"\q", 1, "not an escape"),
        (r"\B", 1, "not an escape"),
        (r"a\x4", 2, "hexadecimal"),
        ("a\\", 2, "not an escape"),
        (r"[z-a]", 2, "empty"),
        (r"[\d-z]", 2, "from one character"),
        (r"[[:alpha:]]", 2, "[:name:]"),
    ],
)
def test_what_lies_outside_the_syntax_is_refused_with_its_place(pattern: str, position: int, says: str) -> None:
    with pytest.raises(BadPattern) as caught:
        regex.compile(pattern)
    assert f"character {position}:" in str(caught.value)
    assert says in str(caught.value)


def test_limits_of_a_pattern_are_said() -> None:
    with pytest.raises(BadPattern, match="longer than"):
        regex.compile("a" * (MAX_PATTERN + 1))
    with pytest.raises(BadPattern, match="nested deeper"):
        regex.compile("(" * (MAX_GROUP_DEPTH + 1) + ")" * (MAX_GROUP_DEPTH + 1))
    with pytest.raises(BadPattern, match="states"):
        regex.compile("(((a{1000}){1000}){1000}){1000}")
    with pytest.raises(BadPattern, match="flag 'm' is not known"):
        regex.compile("a", "m")
    with pytest.raises(BadPattern, match="flag 'x' is not known"):
        regex.compile("(?ix)a")


@settings(max_examples=400, deadline=None)
@given(st.text(alphabet=r"ab\[](){}|*+?^$.-,:<!=Pduwsx019 é", max_size=14), st.text(max_size=10))
def test_any_text_is_a_pattern_or_a_bad_pattern(pattern: str, text: str) -> None:
    try:
        compiled = regex.compile(pattern)
    except BadPattern:
        return
    assert (compiled.search(text) is not None) == compiled.matches(text)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab*?[]!-", max_size=8), st.text(alphabet="ab*/", max_size=10))
def test_a_glob_says_what_its_regex_says(pattern: str, text: str) -> None:
    try:
        glob = compile_glob(pattern)
    except BadPattern:
        return
    assert glob(text) == (re.fullmatch(_glob_as_re(pattern), text, re.S) is not None)


def _glob_as_re(pattern: str) -> str:
    out, at = "", 0
    while at < len(pattern):
        if pattern[at] == "[":
            start = at + 2 if pattern.startswith("!", at + 1) else at + 1
            end = pattern.index("]", start + 1)
            body = pattern[start:end]
            chars, i = "", 0
            while i < len(body):
                if body[i + 1 : i + 2] == "-" and i + 2 < len(body):
                    chars += re.escape(body[i]) + "-" + re.escape(body[i + 2])
                    i += 3
                else:
                    chars += re.escape(body[i])
                    i += 1
            out += ("[^" if start == at + 2 else "[") + chars + "]"
            at = end + 1
            continue
        out += {"*": ".*", "?": "."}.get(pattern[at], re.escape(pattern[at]))
        at += 1
    return out


def test_a_glob_minds_the_case_and_matches_the_whole_text() -> None:
    assert compile_glob("mcp__*__delete_*")("mcp__git__delete_branch")
    assert not compile_glob("Bash")("bash")
    assert not compile_glob("*.pem")("a.pem.txt")
    assert compile_glob("/etc/*")("/etc/a/b")
    assert not compile_glob("ab*ba")("aba")
    assert compile_glob("[[]x]")("[x]")
    with pytest.raises(BadPattern, match="not closed"):
        compile_glob("a[b")


def test_a_glob_of_many_stars_is_linear() -> None:
    assert not compile_glob("*a" * 50 + "b")("a" * 100_000)
    assert not compile_glob("*?a" * 20 + "b")("a" * 20_000)
