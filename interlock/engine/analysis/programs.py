"""All that is known of programs, by name: the grammars, and the code for what a grammar cannot say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.grammar_files import grammar_names, grammar_of
from interlock.engine.analysis.grammar_run import program
from interlock.engine.analysis.shell_run import Call, Program, Walk

__all__ = ["Programs"]


class Programs(Mapping[str, Program]):
    """Program by name; one with a grammar and code gives the grammar's findings first. Grammars are read when met."""

    def __init__(self, *tables: Mapping[str, Program]) -> None:
        self._code: dict[str, list[Program]] = {}
        for table in tables:
            for name, one in table.items():
                self._code.setdefault(name, []).append(one)
        self._met: dict[str, Program] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._code or name in grammar_names()

    def __getitem__(self, name: str) -> Program:
        met = self._met.get(name)
        if met is None:
            met = self._met[name] = self._made(name)
        return met

    def _made(self, name: str) -> Program:
        grammar = grammar_of(name)
        parts = [*([program(grammar)] if grammar is not None else []), *self._code.get(name, ())]
        if not parts:
            raise KeyError(name)
        return parts[0] if len(parts) == 1 else _all(tuple(parts))

    def __iter__(self) -> Iterator[str]:
        return iter({**self._code, **grammar_names()})

    def __len__(self) -> int:
        return len({**self._code, **grammar_names()})


def _all(parts: tuple[Program, ...]) -> Program:
    def both(walk: Walk, call: Call) -> Iterator[Finding]:
        for part in parts:
            yield from part(walk, call)

    return both
