"""Scripts of sed, awk and their like: what they run is seen, and none of them holds the analysis up."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.analysis.intents import _argv, intents
from interlock.engine.analysis.sed_scripts import commands, substitutions, writes
from interlock.engine.event import SensorEvent
from tests.quick import demand_soon


def _names(*argv: str) -> list[str]:
    return [intent.name for intent in intents(SensorEvent("Bash", {"command": list(argv)}, cwd="/checkout/project"))]


def test_commands_files_and_replacements_that_run_are_found() -> None:
    assert list(commands("1e rm -rf /\n$!{ e ls\n/x/ e id")) == ["rm -rf /", "ls", "id"]
    assert list(writes("s/a/b/w /etc/x\n3w /etc/y")) == ["/etc/x", "/etc/y"]
    assert list(substitutions("1,$ s/.*/rm -rf \\/etc/ge;s|a|b|\ns,c,d,pe")) == ["rm -rf \\/etc", "d"]
    assert list(substitutions("s/a/b/c/e")) == ["b/c"]
    assert list(substitutions("s/x\\\ny/b/e")) == []


def test_a_part_longer_than_the_limit_is_not_followed() -> None:
    assert list(substitutions("s/" + "a" * 500 + "/b/e")) == ["b"]
    assert list(substitutions("s/" + "a" * 501 + "/b/e")) == []
    assert list(substitutions("s/a/" + "\\b" * 500 + "/e")) == ["\\b" * 500]
    assert list(substitutions("s/a/" + "b" * 501 + "/e")) == []


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.lists(st.sampled_from(["a", "\\", "\\/", "|", " ", "1"]), max_size=8).map("".join))
def test_a_replacement_without_the_mark_is_found_whole(text: str) -> None:
    whole = text.replace("\\", "\\\\") if text.endswith("\\") else text
    hidden = len(whole) - len(whole.rstrip("\\"))
    found = list(substitutions(f"s/x/{whole}/e"))
    assert found == ([whole] if hidden % 2 == 0 else [])


def test_an_awk_program_too_long_to_read_says_so() -> None:
    assert _names("awk", "print" * 3000) == ["exec.partial"]


@pytest.mark.parametrize(
    "argv",
    [
        ("sed", "-e", ";s/" * 20000),
        ("sed", "-e", ";s/a/b/" * 9000),
        ("sed", "-e", "\n" * 60000),
        ("sed", "-e", ";s/a" * 15000 + "/e"),
        ("sed", "-e", "1\n" * 30000),
        ("awk", "print>" * 10000),
        ("psql", "-c", "\n" * 60000),
        ("expect", "-c", "\n" * 60000),
        ("env", *["-"] * 5000),
    ],
)
def test_a_hostile_script_is_read_soon(argv: tuple[str, ...]) -> None:
    demand_soon(5.0, lambda: _names(*argv), _argv.cache_clear)  # 0.5 s here
