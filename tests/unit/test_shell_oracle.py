"""tree-sitter-bash as a second opinion: the simple commands that it finds in a text are those that our parser finds."""

from __future__ import annotations

import dataclasses
import gzip
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.analysis.shell import parse
from interlock.engine.analysis.shell_tree import Lit, Simple
from tests.unit.shell_grower import grown

_WHY = "tree-sitter and tree-sitter-bash are not installed: pip install --group dev"
tree_sitter: Any = pytest.importorskip("tree_sitter", reason=_WHY)
bash: Any = pytest.importorskip("tree_sitter_bash", reason=_WHY)

CORPUS = Path(__file__).parents[3] / "shared" / "corpora" / "benign_commands.jsonl.gz"
PARSER = tree_sitter.Parser(tree_sitter.Language(bash.language()))
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
# no commands there, but declarations
DECLARATIONS = ("declare", "export", "local", "readonly", "typeset", "unset")
# what tree-sitter-bash 0.25 reads in a way of its own: it takes `time` and `{` for programs, and so not what they run
MISREAD = re.compile(r"\btime\b|! \{")


def _ours(value: object, found: Counter[str]) -> Counter[str]:
    """The programs that are named plainly, in every part of a parsed text."""
    if isinstance(value, Simple) and value.words:
        first = value.words[0]
        name = "".join(part.text for part in first if isinstance(part, Lit) and not part.quoted)
        if PLAIN.fullmatch(name) and all(isinstance(part, Lit) and not part.quoted for part in first):
            found[name] += 1
    parts: tuple[object, ...] = ()
    if isinstance(value, tuple | list):
        parts = tuple(value)
    elif dataclasses.is_dataclass(value):
        parts = tuple(getattr(value, field.name) for field in dataclasses.fields(value))
    for part in parts:
        _ours(part, found)
    return found


def _theirs(node: Any, found: Counter[str]) -> Counter[str]:
    name = node.child_by_field_name("name") if node.type == "command" else None
    if name is not None and PLAIN.fullmatch(name.text.decode()):
        found[name.text.decode()] += 1
    for child in node.children:
        _theirs(child, found)
    return found


def _both(command: str) -> tuple[Counter[str], Counter[str]] | None:
    """What each sees; None where tree-sitter-bash does not read the text whole."""
    root = PARSER.parse(command.encode("utf-8", "replace")).root_node
    if root.has_error or MISREAD.search(command):
        return None
    ours, theirs = _ours(parse(command), Counter()), _theirs(root, Counter())
    for name in DECLARATIONS:
        ours.pop(name, None)
        theirs.pop(name, None)
    return ours, theirs


def test_both_parsers_see_the_same_commands_in_what_is_grown() -> None:
    compared = 0
    for seed in range(1200):
        command, _ = grown(seed)
        seen = _both(command)
        if seen is not None:
            compared += 1
            assert seen[0] == seen[1], f"seed {seed} in\n{command}"
    assert compared > 1000  # it reads nearly all of them


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("a | b && c; d &", "a b c d"),
        ("echo $(f `g`) <(h) \"$(i 'j k')\"", "echo f g h i"),
        ("if a; then b; elif c; then d; else e; fi; while f; do g; done", "a b c d e f g"),
        ("cat <<'E'\nrm x\nE\nls", "cat ls"),
        ("cat <<E\n$(rm x)\nE\nls", "cat rm ls"),
        ("f() { a; }; case x in y) b;; esac; ( c )", "a b c"),
        ("# rm x\necho 'rm y' \"rm z\"", "echo"),
    ],
)
def test_both_parsers_see_the_commands_of_each_form(command: str, names: str) -> None:
    assert _both(command) == (Counter(names.split()), Counter(names.split()))


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpora are not here")
def test_both_parsers_see_the_same_commands_in_what_people_wrote() -> None:
    with gzip.open(CORPUS, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    commands = [str(row["command"]) for row in rows if row["shell"] == "posix"]
    drawn = random.Random(8).sample(commands, 2500)
    seen = [both for both in map(_both, drawn) if both is not None]
    differ = [both for both in seen if both[0] != both[1]]
    assert len(seen) > 0.95 * len(drawn)
    assert len(differ) <= 0.002 * len(seen), differ
