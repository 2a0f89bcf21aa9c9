"""The grammar of one program: how its command line is read, what it would do, and which options are harmless.

A grammar is one small JSON file, `grammars/PROGRAM.json`. It is closed data: names from the lists below and globs
(`*` and `?` only, without regard to case), no code and no regular expressions. `compiled` turns the document into a
`Grammar` once and refuses what it does not know; `grammar_run` interprets it.

    {"format": "interlock-grammar", "v": 1, "program": "rm", "aliases": ["grm"], ...level}

A **level** is the program itself or one of its subcommands; all its fields may be missing:

- `values`: options that take a value, attached (`-n5`, `--lines=5`) or as the next argument. A name is `-x` (a letter,
  also in a cluster), `--long`, or `-word` (where a program spells long options with one dash).
- `attached`: options whose value, if they have one, is always attached (`-i.bak`, `--color=auto`).
- `leading`: true where the first operand ends the options. A level with `commands` is always so.
- `anywhere`: true where this level's options may also stand behind a subcommand.
- `help`: options that turn the whole call into one that only prints; with one of them there are no effects.
- `effects`: a list, see below, in the order in which they are told.
- `commands`: subcommand -> level. A key may hold several names: `"rm|remove"`. The options before the subcommand
  belong to this level, the arguments behind it to the inner one. Effects of both are told, the outer ones first; the
  outer ones see the subcommand and all that follows as operands.
- `harmless`: what may stand in a call that is proven harmless, see below. Missing: never proven.

An **effect** is an object:

- `kind` (needed): read, write, delete, exec, net, privilege or persist.
- `of`: which arguments it is about: `all`, `first`, `last`, `rest` (all but the first), `but-last`, `from:N` (N counts
  from 0), `after--` (operands behind a `--`), `url-name` (the file that the first operand's URL would be saved as),
  `stdin` (what comes on standard input), `cwd` (the current directory), `stem` (what operands named like compressed
  files are called without that ending), or an option's name for each of its values; or a list of these, for all of
  them together. Missing: none.
- `intent`: the intent's name (effects.EFFECTS, whose effect must be `kind`). There is one finding for each argument
  that `of` selects, or one where it selects nothing. Missing: the `act` decides by where the path lies.
- `target`: with `intent`, the text that is told where `of` selects nothing ("" if missing).
- `scope`: with `intent`, one of effects.SCOPES; `place` (if missing and `of` is given): where the path lies; `host`:
  the target is the host of a URL, "worktree" where that is this machine and "remote" elsewhere.
- `only`: with `intent`, scopes of the arguments that count (`device` is also a disk by name).
- `act`: what is done, where no intent is named:
    `read`, `list` (names only), `write`, `delete`: a path, by where it lies; the default of those three kinds.
    `sweep` (kind delete): a directory that loses what is not elsewhere. `move` (kind delete): a path that is taken
    from its place. `link` (kind write): a path that gets a second name.
    `fill` (kind write): a directory that gets files whose names are not known.
    `mode` (kind write): a path whose mode or owner changes; the mode is the first operand.
    `run` (kind exec): a text that a shell runs. `line` (kind exec): arguments that, with blanks between, are such a
      text. `spawn` (kind exec): a program and its arguments that are run.
    `secret` (kind read): credentials are printed; `target` says whose.
    `fetch` (kind net): a URL that is asked. `send` (kind net): `of` are data that go to the URLs selected by `to`; a
    value `@file` (or any value of an option in `files`, which may name `operands`) is a file that is sent.
- `recursive`: for delete, mode: true, or a list of options of which one makes it so.
- `append`: for write: true, or a list of options of which one makes it so.
- `from`: for write: a selection (as `of`); these files arrive under the target where that is a directory.
- `content`: for write: `stdin` or `net`: what the file will hold.
- `to`, `files`: for `send`, see there.
- `when`, `unless`: conditions; `when` must hold and `unless` must not. Within one condition all fields must hold:
    `any`, `all`, `none`: lists of options, given or not; `--force-*` is a glob; a long name also counts cut short.
    `words`: a list of word patterns; one must be found. A pattern is globs with blanks between (`s3 rb`), for
    operands that follow each other; with `^` before the first, it must be at the first operand.
    `operands`: at least so many operands. `operand`: globs, one operand is like one of them. `globbed`: an operand has
    a `*` or `?` in it. `value`: option -> globs; of one option the last value is like one of them.
    `separator`: a `--` with operands behind it (or not). `stdin`: something comes on standard input (or not).
    `last`: globs, the last operand is like one of them. `remote`: the last operand names a place on another machine
    (`host:path`, `rsync://...`) or does not. `bare`: the program has no arguments at all (or some).

**Undoable**: whether an effect can be undone follows from its intent's name (effects.EFFECTS), never from the grammar.

**Harmless** is an object; a call is proven harmless only where each level that it uses has one and it fits:

- `options`: all options (flags and options with a value) that can neither write, nor execute, nor connect, nor lead
  elsewhere. Each option given must be among them, spelled out. Their values are text, or read by an effect.
- `values`: option -> globs: options that are harmless with a value like one of these.
- `numbers`: true where `-5` and `+5` are harmless.
- `arguments`: `any` where no argument whatever does harm (echo); the lists above are then not asked.
- `operands`: at most so many operands, `least`: at least so many. `like`: globs; each operand must be like one of them.
- `unlike`: globs; no operand may be like one of them.
- `needs`: a list of lists of options: of each list one must be given.
- `settings`: name of a set of settings (`git`, `rg`, ...) by which the program executes other programs; the caller's
  resolver must say that none is set, or `neutral` options (list of lists, as `needs`) must be given.
- `descends`: `always`, or a list of options of which one makes the program read every file of the current tree.
- `here`: the same, for a program that does so only where fewer than two operands are given (grep -r PATTERN).
- `inner`: options behind which another command stands, up to `;` or `+`; it is judged by itself.
- `script`: `sed`: the first operand, or the values of `-e`, are checked by the rules of that language. `printf`: the
  format must set no variable; behind one without numbers, arguments need not be known; numbers are plain. `test`: what
  is compared as a number is one. `awk`: in the first operand, no `>` or `|` stands behind a `print`.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from interlock.engine.analysis.effects import EFFECTS, SCOPES

__all__ = ["ACTS", "UNBOUNDED", "Condition", "Effect", "Grammar", "Harmless", "Level", "compiled", "like"]

ACTS: Final[Mapping[str, str]] = {
    "delete": "delete",
    "fetch": "net",
    "fill": "write",
    "link": "write",
    "line": "exec",
    "list": "read",
    "mode": "write",
    "move": "delete",
    "read": "read",
    "run": "exec",
    "secret": "read",
    "send": "net",
    "spawn": "exec",
    "sweep": "delete",
    "write": "write",
}
_SELECTION: Final = re.compile(
    r"all|first|last|rest|but-last|after--|url-name|stdin|cwd|stem|from:[0-9]|-{1,2}[A-Za-z0-9#?@][\w.-]*"
)
_CONTENT: Final = ("", "net", "stdin")
_LEVEL: Final = frozenset(("values", "attached", "leading", "anywhere", "help", "effects", "commands", "harmless"))
_ROOT: Final = _LEVEL | {"format", "v", "program", "aliases"}
_MAX_LEVELS: Final = 4
UNBOUNDED: Final = 1 << 16  # operands, where a grammar says no number


class Condition(NamedTuple):
    """All fields must hold; an empty one holds."""

    any: tuple[str, ...] = ()
    all: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    words: tuple[tuple[str, ...], ...] = ()
    operands: int = 0
    operand: tuple[str, ...] = ()
    value: tuple[tuple[str, tuple[str, ...]], ...] = ()
    separator: bool | None = None
    stdin: bool | None = None
    globbed: bool | None = None
    last: tuple[str, ...] = ()
    remote: bool | None = None
    bare: bool | None = None


class Effect(NamedTuple):
    """One thing that a call does; the fields are those of the format."""

    kind: str
    act: str
    of: tuple[str, ...]
    intent: str
    target: str
    scope: str
    only: frozenset[str]
    recursive: bool | tuple[str, ...]
    append: bool | tuple[str, ...]
    source: tuple[str, ...]
    content: str
    to: tuple[str, ...]
    files: tuple[str, ...]
    when: Condition | None
    unless: Condition | None


class Harmless(NamedTuple):
    """What a call that is proven harmless may hold at this level."""

    options: frozenset[str]
    values: Mapping[str, tuple[str, ...]]
    numbers: bool
    arguments: str
    operands: int
    least: int
    like: tuple[str, ...]
    unlike: tuple[str, ...]
    needs: tuple[tuple[str, ...], ...]
    settings: str
    neutral: tuple[tuple[str, ...], ...]
    descends: bool | tuple[str, ...]
    here: bool | tuple[str, ...]
    inner: tuple[str, ...]
    script: str


class Level(NamedTuple):
    """A program, or one of its subcommands. `short` are the letters and `long` the other options with a value."""

    short: str
    long: frozenset[str]
    attached: frozenset[str]
    leading: bool
    anywhere: bool
    help: tuple[str, ...]
    effects: tuple[Effect, ...]
    commands: Mapping[str, Level]
    harmless: Harmless | None


class Grammar(NamedTuple):
    """One program's grammar."""

    program: str
    aliases: tuple[str, ...]
    level: Level


def like(text: str, globs: Sequence[str]) -> bool:
    """Whether the text is like one of the globs (`*`, `?`), without regard to case."""
    low = text.lower()
    return any(low == g or (("*" in g or "?" in g) and fnmatch.fnmatchcase(low, g)) for g in globs)


def compiled(document: Mapping[str, Any]) -> Grammar:
    """The grammar of a parsed file. Raises: ValueError, where the document is not one; grammars are our own files."""
    _known(document, _ROOT, "grammar")
    if document.get("format") != "interlock-grammar" or document.get("v") != 1:
        raise ValueError("not a grammar of format interlock-grammar, v 1")
    return Grammar(document["program"], _texts(document, "aliases"), _level(document, document["program"], 1))


def _known(document: Mapping[str, Any], fields: frozenset[str], where: str) -> None:
    unknown = sorted(set(document) - fields)
    if unknown:
        raise ValueError(f"{where}: unknown field {unknown[0]!r}")


def _texts(document: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = document.get(name, ())
    if isinstance(value, str) or not all(isinstance(v, str) for v in value):
        raise ValueError(f"{name}: not a list of texts")
    return tuple(value)


def _globs(document: Mapping[str, Any], name: str) -> tuple[str, ...]:
    globs = tuple(g.lower() for g in _texts(document, name))
    if any("[" in g for g in globs):
        raise ValueError(f"{name}: a glob knows * and ? only")
    return globs


def _level(document: Mapping[str, Any], where: str, depth: int) -> Level:
    if depth > _MAX_LEVELS:
        raise ValueError(f"{where}: subcommands too deep")
    _known(document, _ROOT if depth == 1 else _LEVEL, where)
    values = _texts(document, "values")
    commands: dict[str, Level] = {}
    for names, inner in document.get("commands", {}).items():
        level = _level(inner, f"{where} {names}", depth + 1)
        for name in names.split("|"):
            if name in commands:
                raise ValueError(f"{where}: {name!r} stands twice")
            commands[name] = level
    return Level(
        short="".join(v[1] for v in values if len(v) == 2),
        long=frozenset(v for v in values if len(v) > 2),
        attached=frozenset(_texts(document, "attached")),
        leading=bool(commands) or document.get("leading") is True,
        anywhere=document.get("anywhere") is True,
        help=_texts(document, "help"),
        effects=tuple(_effect(e, f"{where}: effect {k}") for k, e in enumerate(document.get("effects", ()))),
        commands=commands,
        harmless=_harmless(document["harmless"], where) if "harmless" in document else None,
    )


_EFFECT: Final = frozenset({
    "kind", "of", "intent", "target", "scope", "only", "act", "recursive", "append", "from", "content", "to", "files",
    "when", "unless",
})  # fmt: skip


def _effect(document: Mapping[str, Any], where: str) -> Effect:
    _known(document, _EFFECT, where)
    kind, intent = document["kind"], document.get("intent", "")
    act = document.get("act", "" if intent else kind)
    of = _selection(document, "of")
    scope = document.get("scope", "place" if of else "unknown")
    if intent and EFFECTS.get(intent, ("",))[0] != kind:
        raise ValueError(f"{where}: {intent!r} is no intent of kind {kind!r}")
    if (not intent and ACTS.get(act) != kind) or (intent and act):
        raise ValueError(f"{where}: {act!r} is no act of kind {kind!r}")
    if scope not in (*SCOPES, "host", "place") or document.get("content", "") not in _CONTENT:
        raise ValueError(f"{where}: unknown scope or content")
    return Effect(
        kind, act, of, intent, document.get("target", ""), scope, frozenset(_texts(document, "only")),
        _switch(document, "recursive"), _switch(document, "append"), _selection(document, "from"),
        document.get("content", ""), _selection(document, "to"), _texts(document, "files"),
        _condition(document.get("when"), where), _condition(document.get("unless"), where),
    )  # fmt: skip


def _selection(document: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = document.get(name, ())
    found = (value,) if isinstance(value, str) else tuple(value)
    for one in found:
        if not _SELECTION.fullmatch(one):
            raise ValueError(f"{name}: {one!r} selects nothing")
    return found


def _switch(document: Mapping[str, Any], name: str) -> bool | tuple[str, ...]:
    return document.get(name) is True or (_texts(document, name) if name in document else False)


_CONDITION: Final = frozenset(Condition._fields)


def _condition(document: Mapping[str, Any] | None, where: str) -> Condition | None:
    if document is None:
        return None
    _known(document, _CONDITION, where)
    values = tuple((name, _globs(document["value"], name)) for name in document.get("value", {}))
    words = tuple(tuple(w.split()) for w in _globs(document, "words"))
    return Condition(
        _texts(document, "any"), _texts(document, "all"), _texts(document, "none"), words,
        document.get("operands", 0), _globs(document, "operand"), values,
        document.get("separator"), document.get("stdin"), document.get("globbed"),
        _globs(document, "last"), document.get("remote"), document.get("bare"),
    )  # fmt: skip


_HARMLESS: Final = frozenset(Harmless._fields)


def _harmless(document: Mapping[str, Any], where: str) -> Harmless:
    _known(document, _HARMLESS, f"{where}: harmless")
    if document.get("arguments", "") not in ("", "any"):
        raise ValueError(f"{where}: harmless arguments are 'any' or not named")
    return Harmless(
        options=frozenset(_texts(document, "options")),
        values={name: _globs(document["values"], name) for name in document.get("values", {})},
        numbers=document.get("numbers") is True,
        arguments=document.get("arguments", ""),
        operands=document.get("operands", UNBOUNDED),
        least=document.get("least", 0),
        like=_globs(document, "like"),
        unlike=_globs(document, "unlike"),
        needs=_lists(document, "needs"),
        settings=document.get("settings", ""),
        neutral=_lists(document, "neutral"),
        descends=_always(document, "descends"),
        here=_always(document, "here"),
        inner=_texts(document, "inner"),
        script=document.get("script", ""),
    )


def _always(document: Mapping[str, Any], name: str) -> bool | tuple[str, ...]:
    return document.get(name) == "always" or _texts(document, name)


def _lists(document: Mapping[str, Any], name: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(one) for one in document.get(name, ()))
