"""The shell parser: structure, bounds, and no input that raises."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.analysis.shell import MAX_COMMANDS, MAX_DEPTH, MAX_LENGTH, Script, parse
from interlock.engine.analysis.shell_tree import (
    Arith,
    Case,
    Condition,
    Function,
    Group,
    If,
    Lit,
    Loop,
    Pipe,
    Simple,
    Sub,
    Var,
)
from tests.quick import demand_soon


def _words(script: Script) -> list[str]:
    """The literal text of the words of the first command."""
    node = script.items[0].node
    assert isinstance(node, Simple)
    return ["".join(p.text for p in word if isinstance(p, Lit)) for word in node.words]


def test_quotes_and_escapes_are_taken_out_and_words_stay_whole() -> None:
    assert _words(parse(r"""a 'b c' "d e" f\ g h''i "j"k""")) == ["a", "b c", "d e", "f g", "hi", "jk"]


def test_ansi_c_quoting_is_decoded() -> None:
    assert _words(parse(r"$'\x72\155' $'a\tb' $'\u0041'")) == ["rm", "a\tb", "A"]


def test_operators_separate_commands_without_blanks() -> None:
    script = parse("a&&b||c;d&e\nf|g")
    assert [item.op for item in script.items] == ["&&", "||", ";", "&", "\n", ""]
    assert isinstance(script.items[-1].node, Pipe)


def test_a_comment_ends_at_the_line_and_a_hash_inside_a_word_is_text() -> None:
    script = parse("a b#c # d; e\nf")
    assert _words(script) == ["a", "b#c"]
    assert len(script.items) == 2


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("(a; b)", Group),
        ("{ a; b; }", Group),
        ("if a; then b; elif c; then d; else e; fi", If),
        ("while a; do b; done", Loop),
        ("until a; do b; done", Loop),
        ("for x in 1 2; do b; done", Loop),
        ("for ((i=0; i<3; i++)); do b; done", Loop),
        ("for x; do b; done", Loop),
        ("case $x in a|b) c;; (d) e;& *) f;; esac", Case),
        ("f() { a; }", Function),
        ("function f { a; }", Function),
        ("f() ( a )", Function),
        ("[[ a =~ (b|c) && -f x ]]", Condition),
        ("((i++))", Condition),
    ],
)
def test_each_compound_form_is_read_whole(command: str, kind: type) -> None:
    script = parse(command)
    assert script.partial == ""
    assert [type(item.node) for item in script.items] == [kind]


def test_reserved_words_are_words_where_no_command_begins() -> None:
    assert _words(parse("echo if then done { }")) == ["echo", "if", "then", "done", "{", "}"]


def test_arithmetic_is_told_from_a_subshell_in_a_substitution() -> None:
    node = parse("echo $((1 + 2)) $((rm x) )").items[0].node
    assert isinstance(node, Simple)
    assert isinstance(node.words[1][0], Arith)
    assert isinstance(node.words[2][0], Sub)


def test_heredocs_are_read_in_order_after_their_line() -> None:
    node = parse("cat <<A <<'B' | sh\n$x\nA\n$y\nB\n").items[0].node
    assert isinstance(node, Pipe)
    first = node.stages[0]
    assert isinstance(first, Simple)
    assert first.redirects[0].body == (Var("x", "", (), True), Lit("\n", True))
    assert first.redirects[1].body == (Lit("$y\n", True),)


def test_a_heredoc_with_a_dash_drops_tabs_and_its_end_may_be_indented() -> None:
    node = parse("cat <<-E\n\tone\n\tE\necho two").items[0].node
    assert isinstance(node, Simple)
    assert node.redirects[0].body == (Lit("one\n", True),)


def test_an_apostrophe_in_a_heredoc_inside_a_substitution_is_text() -> None:
    script = parse("gh pr create --body \"$(cat <<'EOF'\nit's fine\nEOF\n)\"; next")
    assert script.partial == ""
    assert len(script.items) == 2


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("a" * (MAX_LENGTH + 1), "too long"),
        ("$(" * (MAX_DEPTH + 1), "too deep"),
        ("{ " * (MAX_DEPTH + 5), "too deep"),
        ("a;" * (MAX_COMMANDS + 1), "too many commands"),
        ("echo 'a", "unclosed quote"),
        ('echo "a', "unclosed quote"),
        ("echo ${a", "unclosed brace"),
        ("if a; then b", "syntax"),
        ("a )", "syntax"),
    ],
)
def test_what_cannot_be_read_whole_is_partial_and_never_an_exception(command: str, why: str) -> None:
    assert parse(command).partial == why


def test_commands_before_and_after_a_stray_token_are_still_found() -> None:
    script = parse("a ) b\nc")
    assert script.partial == "syntax"
    assert len(script.items) == 3


_HOSTILE = ["$(", "`", "\\`", "((", "$((", "$((1", "${", "${x:-", "{ ", "<<a\n", "'", '"$(', "a;", "[[ ", "f() ", "! "]
_HOSTILE += ["if x; then ", "case x in ", "case x in a) ", "for x in a; do ", "<(", "x=(", "\\", "@(", "a|", "(", "}\n"]


@pytest.mark.parametrize("unit", _HOSTILE)
def test_sixty_four_kilobytes_of_anything_are_read_in_bounded_time(unit: str) -> None:
    text = (unit * MAX_LENGTH)[:MAX_LENGTH]
    demand_soon(1.0, lambda: parse(text))  # 0.1 s here


_SIGNS = ["a", "rm", ";", "&", "|", "&&", "$", "${", "}", "$(", ")", "(", "`", "'", '"', "\\", "<", ">", "#", "=", "[["]
_SIGNS += ["]]", "((", "))", "a=(", "fi", "done", "esac"]
_FRAGMENTS = st.sampled_from([*_SIGNS, " ", "\n", "<<E", "\nE\n", "if ", "then ", "do ", "case ", " in ", "{ ", "for "])


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.one_of(st.text(max_size=200), st.lists(_FRAGMENTS, max_size=60).map("".join)))
def test_no_text_makes_the_parser_raise(text: str) -> None:
    script = parse(text)
    assert isinstance(script, Script)
    assert script.partial in ("", "too deep", "unclosed quote", "unclosed brace", "syntax")
