"""Programs that only the proof of harmlessness knows: those that read, and options by which a program only prints.

`readers.json` is closed data like the grammars, in one file as its parts are small:

    {"format": "interlock-readers", "v": 1, "programs": {...}, "prints": {...}}

- `programs`: names (several as `"gc|nop"`) -> a level as `grammar` describes it, with `harmless`. The walk that tells
  what a command would do does not look here: for it, these programs stay what they are without.
- `prints`: options (several as `"--help|--version"`) -> names of programs that do nothing but print about themselves
  when one of these options is their only argument.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from interlock.engine.analysis.grammar import Grammar, compiled
from interlock.engine.analysis.values import Arg

__all__ = ["only_prints", "reader_names", "reader_of"]

_FILE: Final = "readers.json"
_HEAD: Final = {"format": "interlock-grammar", "v": 1}


@functools.cache
def _document() -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads(
        importlib.resources.files("interlock.engine.analysis").joinpath(_FILE).read_bytes()
    )
    if found.get("format") != "interlock-readers" or found.get("v") != 1:
        raise ValueError("not a file of format interlock-readers, v 1")
    return found


@functools.cache
def reader_names() -> Mapping[str, str]:
    """Each program that has a level here, with the key that it stands under."""
    return {name: key for key in _document()["programs"] for name in key.split("|")}


@functools.cache
def reader_of(program: str) -> Grammar | None:
    """What is known of a program that reads, None where nothing is."""
    key = reader_names().get(program)
    return None if key is None else compiled({**_HEAD, "program": program, **_document()["programs"][key]})


@functools.cache
def _prints() -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for options, names in _document()["prints"].items():
        for name in names:
            found.setdefault(name, set()).update(options.split("|"))
    return {name: frozenset(options) for name, options in found.items()}


def only_prints(program: str, args: Sequence[Arg]) -> bool:
    """Whether the one argument is an option by which the program prints about itself and ends."""
    return len(args) == 1 and args[0].known and not args[0].glob and args[0].text in _prints().get(program, ())
