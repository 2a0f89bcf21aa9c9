"""What code of a scripting language does to all of something: files that it lists, a database, a store."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

__all__ = ["CodeToken", "emptied", "last_part", "listed_and_deleted"]


class CodeToken(NamedTuple):
    """A piece of code; `kind` is string, tick, quoted, name or other."""

    kind: str
    text: str


_EMPTIES: Final = re.compile(
    r"\.(?:flush_?[aA]ll|flush_?[dD]b|drop_?[dD]atabase|drop_?[cC]ollection|drop_all)\("
    r"|\b(?:delete_many|deleteMany)\((?:\{\})?\)|\.all\(\)\.delete\("
)
_DELETERS: Final = frozenset(
    ("remove", "unlink", "rmtree", "rmSync", "unlinkSync", "rm", "delete", "removeSync", "rm_rf", "rmdir")
)
_LISTERS: Final = frozenset(
    (
        "glob",
        "iglob",
        "rglob",
        "globSync",
        "iterdir",
        "listdir",
        "scandir",
        "walk",
        "readdirSync",
        "readdir",
        "children",
    )
)
_BY_PATTERN: Final = frozenset(("glob", "iglob", "rglob", "globSync"))
_PARTS: Final = re.compile(r"\.|::|->")
_LITERAL: Final = re.compile(r"[rbfuRBFU]{0,2}(['\"])([^'\"\\\n]*)\1")
_MAX_LISTED: Final = 16


def last_part(name: str) -> str:
    """The last part of a name like `os.path::join->x`."""
    return _PARTS.split(name)[-1]


def emptied(tokens: Sequence[CodeToken]) -> str:
    """The call by which the code empties a database or a store, "" where it has none."""
    m = _EMPTIES.search("".join(t.text if t.kind in ("name", "other") else '""' for t in tokens))
    return m.group().strip(".(") if m else ""


def listed_and_deleted(tokens: Sequence[CodeToken]) -> Iterator[str]:
    """What the code lists by a literal path or pattern, where it also deletes something that is not literal."""
    if not any(_deletes(tokens, k) for k in range(len(tokens))):
        return
    listed = 0
    for k, token in enumerate(tokens):
        name = last_part(token.text) if token.kind == "name" else ""
        if name in _LISTERS and _text(tokens, k + 1) == "(" and listed < _MAX_LISTED:
            given, base = _literal(tokens, k + 2), _base(tokens, k)
            if name in _BY_PATTERN and given:
                listed += 1
                yield f"{base}/{given}" if base else given
            elif base or given:
                listed += 1
                yield f"{base or given}/*"


def _deletes(tokens: Sequence[CodeToken], k: int) -> bool:
    """`os.remove(name`, `name.unlink()`, or the name of such a function as a literal."""
    if tokens[k].kind == "string":
        return _literal(tokens, k) in _DELETERS
    if tokens[k].kind != "name" or last_part(tokens[k].text) not in _DELETERS or _text(tokens, k + 1) != "(":
        return False
    follows = tokens[k + 2] if k + 2 < len(tokens) else None
    return follows is not None and (follows.kind == "name" or (follows.text == ")" and "." in tokens[k].text))


def _text(tokens: Sequence[CodeToken], k: int) -> str:
    return tokens[k].text if 0 <= k < len(tokens) else ""


def _literal(tokens: Sequence[CodeToken], k: int) -> str:
    """The text of a plain string literal, "" for all else."""
    m = _LITERAL.fullmatch(_text(tokens, k)) if 0 <= k < len(tokens) and tokens[k].kind == "string" else None
    return m.group(2) if m else ""


def _base(tokens: Sequence[CodeToken], k: int) -> str:
    """The literal of a call right before: `Path("/x").rglob`."""
    if _text(tokens, k - 1) == "." and _text(tokens, k - 2) == ")":
        return _literal(tokens, k - 3).rstrip("/") or ("/" if _literal(tokens, k - 3) else "")
    return ""
