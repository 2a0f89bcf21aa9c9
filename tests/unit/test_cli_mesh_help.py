"""`interlock mesh --help` lists each command once, in its group; each command shows an example that it would take."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator

import pytest

from interlock.node.cli import main, mesh_help


def _below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return {name: child for group in groups for name, child in group.choices.items()}


def _leaves(parser: argparse.ArgumentParser, path: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    below = _below(parser)
    if not below:
        yield path, parser
    for name, child in below.items():
        yield from _leaves(child, f"{path} {name}".strip())


TREE = main._tree()
MESH = _below(TREE)["mesh"]
LEAVES = dict(_leaves(MESH, ""))


def test_each_command_stands_in_one_group() -> None:
    listed = [name for names in mesh_help.GROUPS.values() for name in names]
    assert sorted(listed) == sorted(_below(MESH))


def test_the_list_shows_each_command_on_a_line_of_its_own() -> None:
    lines = MESH.format_help().splitlines()
    for name in _below(MESH):
        assert sum(line.startswith(f"  {name} ") for line in lines) == 1, name


def test_the_list_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, _below(main._tree())["mesh"].format_help().splitlines())) <= 60


@pytest.mark.parametrize("path", LEAVES)
def test_the_example_of_a_command_is_one_that_it_takes(path: str) -> None:
    shown = LEAVES[path].format_help().split("example", 1)[1].splitlines()[1:]
    examples = [part.split("  ")[0].strip() for line in shown for part in line.strip().split("; later: ")]
    taken = [shlex.split(text)[1:] for text in examples if text.startswith("interlock ")]
    assert taken, path
    for words in taken:
        assert words[1 : 1 + len(path.split())] == path.split()
        TREE.parse_args(words)


@pytest.mark.parametrize("path", LEAVES)
def test_the_tree_of_one_command_alone_takes_and_tells_the_same(path: str) -> None:
    name = path.split()[0]
    alone = _below(main._tree("mesh", name))["mesh"]
    assert list(_below(alone)) == [name]
    (shown,) = (leaf.format_help() for below, leaf in _leaves(alone, "") if below == path)
    assert shown == LEAVES[path].format_help()


def test_the_tree_of_a_name_that_is_no_command_has_all_of_them() -> None:
    assert list(_below(_below(main._tree("mesh", "statsu"))["mesh"])) == list(_below(MESH))


def test_no_example_is_of_a_command_that_has_gone_or_has_its_own() -> None:
    assert set(mesh_help.EXAMPLES) <= set(LEAVES)
    for path, example in mesh_help.EXAMPLES.items():
        assert example in (LEAVES[path].epilog or ""), path
