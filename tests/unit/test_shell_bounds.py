"""What a hostile command may not do to the analysis: raise, hang, or fill the memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.analysis.intents import _command, intents
from interlock.engine.analysis.outputs import printed
from interlock.engine.analysis.paths import is_disk, is_sink
from interlock.engine.analysis.shell import parse
from interlock.engine.analysis.shell_words import ansi_c
from interlock.engine.analysis.values import Arg, whole_number
from interlock.engine.event import SensorEvent
from tests.quick import demand_soon


def _names(command: str) -> list[str]:
    event = SensorEvent(action="Bash", args={"command": command}, phase="call", cwd="/checkout/project")
    return [intent.name for intent in intents(event)]


@pytest.mark.parametrize(
    "command",
    [
        "echo ${00}",
        "x=²; echo ${!x}",
        f"x={'9' * 5000}; echo ${{!x}}",
        f"a=(1 2); echo ${{a[{'9' * 5000}]}}",
        "a=(1 2); echo ${a[²]}",
        "set -- a b; shift ²; echo $1",
        f"set -- a b; shift {'9' * 5000}; echo $1",
        "echo xx | xargs -d x -I{} {}",
        "echo xx | xargs -d x -I{} rm a{}",
        "echo $'\\ud800'",
        "x=(\u00a0)",
        "x=(\x1c a)",
        "f(){ unset g; }; g(){ :; }",
    ],
)
def test_odd_numbers_empty_lists_and_odd_blanks_neither_raise_nor_hang(command: str) -> None:
    assert _names(command + "; rm -rf /")[-1] == "fs.delete.root"


@pytest.mark.parametrize(
    "command",
    [
        f"x={'a' * 30000}; y={'b' * 30000}; echo ${{x//a/$y}}",
        f"x={'a' * 30000}; echo {'$x' * 15000}",
        f"x='{'a ' * 15000}'; echo {'$x' * 15000}",
        f"echo {{1..200}}{',' * 60000}",
        "echo " + "{" * 60000,
        "echo " + ("{1..200}" + "{a}" * 300 + " ") * 50,
        f"f(){{ echo {'a ' * 10000};}}; {'f;' * 3000}",
        "f='${x:-" * 40 + '$(eval "$f")' + "}" * 40 + '\'; eval "$f"',
    ],
)
def test_a_command_that_grows_when_it_is_read_ends_soon(command: str) -> None:
    demand_soon(5.0, lambda: _names(command), _command.cache_clear)  # 0.5 s here


def test_operands_that_run_themselves_are_too_deep_by_count_not_by_stack() -> None:
    inner = "${x:-" * 40 + '$(eval "$f")' + "}" * 40
    assert _names(f"f='{inner}'; eval \"$f\"") == ["exec.partial"]


@pytest.mark.parametrize("fault", ["eval ')'", "eval '\"'", "eval '${'"])
def test_a_fault_of_the_text_does_not_hide_that_a_limit_was_met(fault: str) -> None:
    assert "exec.partial" in _names(f"{fault}; {'sudo ' * 120}rm -rf /")
    assert "exec.partial" in _names(f"{fault}; eval '{'a;' * 2100}rm -rf /'")


def test_the_reason_of_a_partial_parse_is_a_limit_before_a_fault() -> None:
    assert parse(") " + "a;" * 2100).partial == "too many commands"
    assert parse(") 'a").partial == "syntax"


def test_an_escape_gives_no_mark_of_ours_and_no_half_of_a_pair() -> None:
    assert ansi_c(r"\cA\x01\0\ud800\udfff-\cG") == "-\a"


def test_a_number_is_one_of_ascii_digits() -> None:
    assert [whole_number(t) for t in ("0", "007", "9" * 5000, "²", "१", "", "-1")] == [
        0, 7, 9999999999, None, None, None, None,
    ]  # fmt: skip


def test_a_newline_at_the_end_of_a_name_makes_it_another_name() -> None:
    assert is_sink("/dev/null")
    assert not is_sink("/dev/null\n")
    assert not is_disk("/dev/kmem\n")


def test_a_directive_of_printf_has_digits_of_ascii() -> None:
    assert printed("printf", [Arg("%١s|%2s"), Arg("a")], None).text == "%١s|a"


def test_blanks_of_unicode_inside_an_array_separate_nothing() -> None:
    assert parse("x=(\u3000)").partial == ""


_SIGNS = ["a", "rm", "-rf", "/", "$x", "${x}", "x=", "x+=(", ")", "${x[", "]}", "${!x}", "²", "9", "$(", "`", "'", '"']
_SIGNS += [
    "\\",
    "{",
    ",",
    "}",
    "..",
    "*",
    "?",
    "[",
    "~",
    "<(",
    "<<E",
    "\nE\n",
    "|",
    ";",
    "&",
    "\n",
    " ",
    "\u00a0",
    "\x1c",
]
_SIGNS += [
    "xargs -I{} ",
    "eval ",
    "set -- ",
    "shift ",
    "sudo ",
    "sh -c ",
    "printf %s ",
    "find . -exec ",
    "echo ",
    "cat ",
]


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.lists(st.sampled_from(_SIGNS), max_size=40).map("".join))
def test_no_command_raises(command: str) -> None:
    _names(command)
