"""The grammars that ship with interlock, each read and compiled when its program is first met."""

from __future__ import annotations

import functools
import importlib.resources
import json
from collections.abc import Mapping
from typing import Final

from interlock.engine.analysis.grammar import Grammar, compiled

__all__ = ["grammar_names", "grammar_of"]

_FOLDER: Final = "grammars"
_INDEX: Final = "index.json"  # program or alias -> the grammar's name; a test holds it to the files


def _read(name: str) -> bytes:
    return importlib.resources.files("interlock.engine.analysis").joinpath(_FOLDER, name).read_bytes()


@functools.cache
def grammar_names() -> Mapping[str, str]:
    """Each program and alias that has a grammar, with the name of the grammar's file."""
    found: dict[str, str] = json.loads(_read(_INDEX))
    return found


def grammar_of(program: str) -> Grammar | None:
    """The program's grammar, None where there is none."""
    name = grammar_names().get(program)
    return None if name is None else _compiled(name)


@functools.cache
def _compiled(name: str) -> Grammar:
    return compiled(json.loads(_read(f"{name}.json")))
