"""docs/reference/cli.md names every command, setting and exit code that there is, and none that there is not."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from interlock.base import errors
from interlock.base.settings import SECTIONS
from interlock.commons.operators import parse_operators
from interlock.node.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


def _commands(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not groups:
        yield " ".join(path), parser
    for group in groups:
        for name, below in group.choices.items():
            yield from _commands(below, (*path, name))


COMMANDS = dict(_commands(main._tree()))
GROUPS = sorted({name.rpartition(" ")[0] for name in COMMANDS} - {""}, key=len, reverse=True)
# a row's command, with the group or groups that it stands in
ROW = rf"^\| `interlock ((?:(?:{'|'.join(GROUPS)}) )?[a-z-]+)"


def test_the_page_lists_every_command_and_no_other() -> None:
    listed = re.findall(ROW, PAGE, flags=re.M)
    assert sorted(listed) == sorted(COMMANDS)


def test_every_command_s_help_says_what_it_does_what_each_word_is_for_and_one_thing_more() -> None:
    for name, parser in COMMANDS.items():
        unsaid = [a.option_strings or a.metavar for a in parser._actions if not a.help]
        assert (name, unsaid, bool(parser.description), bool(parser.epilog)) == (name, [], True, True)


def test_every_option_on_the_page_is_one_of_its_command() -> None:
    for row in re.findall(r"^\| `interlock .*$", PAGE, flags=re.M):
        (name,) = re.findall(ROW, row)
        known = {option for action in COMMANDS[name]._actions for option in action.option_strings}
        assert set(re.findall(r"--[a-z][a-z0-9-]*", row)) <= known, name


def test_the_page_lists_every_setting() -> None:
    for section, keys in SECTIONS.items():
        known = set(keys)
        rows = PAGE.split(f"| `[{section}]` |", 1)[1].split("| `[")[0].split("\n\n")[0]
        named = {key for row in rows.split("\n") for key in re.findall(r"`([a-z_]+)`", "|".join(row.split("|")[:3]))}
        assert known <= named, section


def test_the_page_lists_every_exit_code() -> None:
    codes = {errors.EXIT_OK, errors.EXIT_REFUSED, errors.EXIT_USAGE, errors.EXIT_FAULT}
    assert set(map(int, re.findall(r"^\| ([0-9]) \|", PAGE, flags=re.M))) == codes
    assert set(errors.CODES.values()) <= codes


def test_the_list_of_operators_on_the_ceremony_s_page_is_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "ceremony.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", page, flags=re.S)
    assert parse_operators(example.encode("utf-8"), where="page").organisations("witness") == {"birch"}
