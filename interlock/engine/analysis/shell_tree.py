"""What a parsed shell command is made of: words, redirections, commands. Plain values, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = [
    "Arith",
    "Array",
    "Assign",
    "Case",
    "Condition",
    "Function",
    "Group",
    "If",
    "Item",
    "Lit",
    "Loop",
    "Node",
    "Part",
    "Pipe",
    "Proc",
    "Redirect",
    "Script",
    "Simple",
    "Sub",
    "Var",
    "Word",
]


class Lit(NamedTuple):
    """Text as it stands. Unquoted text may still hold globs, braces and a tilde."""

    text: str
    quoted: bool


class Var(NamedTuple):
    """A parameter: `op` is what follows the name in braces (":-", "#", "/", ":" ...), `arg` its operand."""

    name: str
    op: str
    arg: Word
    quoted: bool


class Sub(NamedTuple):
    """A command substitution, `$(...)` or backticks."""

    script: Script
    quoted: bool


class Proc(NamedTuple):
    """A process substitution; `writes` for `>(...)`."""

    script: Script
    writes: bool


class Arith(NamedTuple):
    """An arithmetic expansion: a number; only the substitutions inside it matter."""

    inner: Word


class Array(NamedTuple):
    """The elements of `name=(...)`."""

    words: tuple[Word, ...]


Part = Lit | Var | Sub | Proc | Arith | Array
Word = tuple[Part, ...]


@dataclass(slots=True)
class Redirect:
    """`fd op target`. A here-document has op "<<" and its `body`, read after the line that names it."""

    fd: str
    op: str
    target: Word
    body: Word | None = None


class Assign(NamedTuple):
    """`name=value`, `name+=value`, `name[i]=value`."""

    name: str
    value: Word
    append: bool


class Simple(NamedTuple):
    """Assignments, words and redirections of one simple command."""

    assigns: tuple[Assign, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


class Pipe(NamedTuple):
    """Two or more commands, each one's output the next one's input."""

    stages: tuple[Node, ...]


class Group(NamedTuple):
    """`{ ...; }` or `( ... )`."""

    body: Script
    subshell: bool
    redirects: tuple[Redirect, ...]


class Loop(NamedTuple):
    """for, select (`name` and `words`; words None means the positional parameters), while, until."""

    kind: str
    name: str
    words: tuple[Word, ...] | None
    cond: Script
    body: Script
    redirects: tuple[Redirect, ...]


class If(NamedTuple):
    """Conditions and bodies in the order they stand."""

    branches: tuple[Script, ...]
    redirects: tuple[Redirect, ...]


class Case(NamedTuple):
    """`case subject in ... esac`: the patterns' words and the bodies."""

    subject: Word
    patterns: tuple[Word, ...]
    bodies: tuple[Script, ...]
    redirects: tuple[Redirect, ...]


class Function(NamedTuple):
    """A definition; nothing runs until the name is called."""

    name: str
    body: Node


class Condition(NamedTuple):
    """`[[ ... ]]` or `(( ... ))`: only what its words substitute runs."""

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


Node = Simple | Pipe | Group | Loop | If | Case | Function | Condition


class Item(NamedTuple):
    """One command of a list and the operator after it: ";", "&", "&&", "||" or "" at the end."""

    node: Node
    op: str


@dataclass(frozen=True, slots=True)
class Script:
    """A list of commands. `partial` says in a word why the text was not read whole, "" where it was."""

    items: tuple[Item, ...] = ()
    partial: str = ""
