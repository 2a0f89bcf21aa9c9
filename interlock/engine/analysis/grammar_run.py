"""What a program's grammar says of one call: its effects, as findings."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from interlock.engine.analysis.acts import arrives, deleted, filled, linked, moved, permitted, swept
from interlock.engine.analysis.acts_net import fetched, host, is_local, is_remote, saved_as, sent
from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.grammar import Condition, Effect, Grammar, Level, like
from interlock.engine.analysis.options import Options, split
from interlock.engine.analysis.paths import is_disk
from interlock.engine.analysis.shell_run import Call, Program, Walk
from interlock.engine.analysis.values import UNKNOWN, Arg

__all__ = ["levels", "program", "selected"]

_PACKED: Final = re.compile(r"(.*[^/])\.(?:gz|bz2|xz|lzma|zst|lz4|lz|br|Z|gpg|asc)", re.S)
_Given = tuple[str, Arg]  # an option's name ("" for an operand) and the argument


def program(grammar: Grammar) -> Program:
    """The grammar as a program of the walk's tables."""
    return functools.partial(_findings, grammar.level)


def _findings(level: Level, walk: Walk, call: Call) -> Iterator[Finding]:
    helped = False
    for inner, opts in levels(level, call.args):
        helped = helped or (bool(inner.help) and opts.has(*inner.help))
        if not helped:
            for effect in inner.effects:
                if _holds(effect.when, opts, call, wanted=True) and not _holds(effect.unless, opts, call, wanted=False):
                    yield from _told(walk, call, effect, opts)


def levels(level: Level, args: Sequence[Arg]) -> Iterator[tuple[Level, Options]]:
    """Each level that the arguments reach, with its options and operands, the outermost first."""
    short, long, attached, helps = level.short, level.long, level.attached, level.help
    while True:
        opts = split(args, short, long, leading=level.leading, attached=attached)
        yield level, opts
        inner = level.commands.get(opts.operands[0].text) if opts.operands else None
        if inner is None:
            return
        args = opts.operands[1:]
        helps = inner.help or helps
        short, long, attached = _joined(level, inner, short, long, attached)
        level = inner._replace(help=helps)


def _joined(
    level: Level, inner: Level, short: str, long: frozenset[str], attached: frozenset[str]
) -> tuple[str, frozenset[str], frozenset[str]]:
    """The inner level's options with a value, with the outer ones where these may stand anywhere."""
    if not level.anywhere:
        return inner.short, inner.long, inner.attached
    return short + inner.short, long | inner.long, attached | inner.attached


# -- conditions -----------------------------------------------------------------------------------------------------


def _holds(condition: Condition | None, opts: Options, call: Call, *, wanted: bool) -> bool:
    """Whether the condition holds; `wanted` is the answer where there is none."""
    if condition is None:
        return wanted
    c, operands = condition, opts.operands
    return (
        (not c.any or _given(opts, c.any))
        and all(_given(opts, (name,)) for name in c.all)
        and not (c.none and _given(opts, c.none))
        and len(operands) >= c.operands
        and (not c.words or any(_spoken(pattern, operands) for pattern in c.words))
        and (not c.operand or any(like(a.text, c.operand) for a in operands))
        and (not c.value or any(o in opts.values and like(opts.values[o].text, globs) for o, globs in c.value))
        and (c.separator is None or c.separator == (0 <= opts.cut < len(operands)))
        and (c.stdin is None or c.stdin == (call.stdin is not None))
        and (not c.last or (bool(operands) and like(operands[-1].text, c.last)))
        and (c.remote is None or c.remote == (bool(operands) and is_remote(operands[-1].text)))
        and (c.bare is None or c.bare == (not call.args))
        and (c.globbed is None or c.globbed == any("*" in a.text or "?" in a.text for a in operands))
    )


def _given(opts: Options, names: Sequence[str]) -> bool:
    """Whether one of the options was given; a name with a `*` is a glob."""
    plain = [n for n in names if "*" not in n]
    globs = [n.lower() for n in names if "*" in n]
    return (bool(plain) and opts.has(*plain)) or (bool(globs) and any(like(f, globs) for f in opts.flags))


def _spoken(pattern: Sequence[str], operands: Sequence[Arg]) -> bool:
    """Whether operands that follow each other are like the pattern's words."""
    anchored = pattern[0].startswith("^")
    words = (pattern[0][1:], *pattern[1:]) if anchored else pattern
    last = 0 if anchored else len(operands) - len(words)
    return any(
        all(like(operands[k + j].text, (word,)) for j, word in enumerate(words))
        for k in range(last + 1)
        if k + len(words) <= len(operands)
    )


# -- effects --------------------------------------------------------------------------------------------------------


def selected(of: Sequence[str], opts: Options, stdin: Arg | None = None) -> list[_Given]:
    """The arguments that a selection takes."""
    found: list[_Given] = []
    for one in of:
        if one[0] == "-":
            found += [(name, value) for name, value in opts.given if name == one]
        elif one == "stdin":
            found += [(one, stdin)] if stdin is not None else []
        elif one == "cwd":
            found.append(("", Arg(".")))
        elif one == "stem":
            found += [("", a._replace(text=m.group(1))) for a in opts.operands if (m := _PACKED.fullmatch(a.text))]
        elif one == "url-name":
            found += [("", saved_as(a)) for a in opts.operands[:1]]
        else:
            found += [("", a) for a in opts.operands[_slice(one, opts)]]
    return found


def _slice(one: str, opts: Options) -> slice:
    if one.startswith("from:"):
        return slice(int(one[5:]), None)
    if one == "after--":
        return slice(opts.cut if opts.cut >= 0 else len(opts.operands), None)
    return _SLICES[one]


_SLICES: Final = {
    "all": slice(None),
    "but-last": slice(None, -1),
    "first": slice(None, 1),
    "last": slice(-1, None),
    "rest": slice(1, None),
}


def _told(walk: Walk, call: Call, effect: Effect, opts: Options) -> Iterable[Finding]:
    given = selected(effect.of, opts, call.stdin)
    if effect.intent:
        return _named(walk, effect, [a for _, a in given])
    if effect.act == "send":
        return sent(walk, call, given, [a for _, a in selected(effect.to, opts)], effect.files)
    if effect.act == "fetch":
        return fetched([a for _, a in given])
    if effect.act == "secret":
        return _secret(walk, effect)
    if effect.kind == "exec":
        return _run(walk, call, effect, [a for _, a in given])
    return _paths(walk, call, effect, opts, [a for _, a in given if a.text not in ("", "-")])


def _named(walk: Walk, effect: Effect, given: Sequence[Arg]) -> Iterator[Finding]:
    if not given and not effect.only:
        scope = "unknown" if effect.scope == "place" else "remote" if effect.scope == "host" else effect.scope
        yield Finding(effect.intent, effect.target, scope)
    for arg in given:
        if effect.scope == "host":
            yield Finding(effect.intent, host(arg.text), "worktree" if is_local(arg.text) else "remote")
            continue
        where = walk.place(arg) if effect.scope == "place" or effect.only else None
        if where is not None and effect.only and not _counts(effect, where.scope, where.path):
            continue
        if where is not None and effect.scope == "place":
            yield Finding(effect.intent, where.path, where.scope)
        else:
            yield Finding(effect.intent, arg.text, effect.scope)


def _counts(effect: Effect, scope: str, path: str) -> bool:
    return scope in effect.only or ("device" in effect.only and is_disk(path))


def _secret(walk: Walk, effect: Effect) -> Iterator[Finding]:
    walk.secrets += 1
    yield Finding("secret.read", effect.target, "cloud")


def _run(walk: Walk, call: Call, effect: Effect, given: list[Arg]) -> tuple[Finding, ...]:
    """Text that a shell would run, or a command of its own; what it would do is told by the walk itself."""
    if effect.act == "run":
        for arg in given:  # `!rm x`: a tool's way to the shell
            walk.code(arg._replace(text=arg.text.removeprefix("!")), call.program)
        return ()
    argv = given[1:] if given and given[0].text == "--" else given
    if argv and effect.act == "line":
        walk.code(Arg(" ".join(a.text for a in argv)), call.program)
    elif argv:
        walk.execute(argv, call.stdin, functions=False)
    return ()


def _switched(switch: bool | tuple[str, ...], opts: Options) -> bool:
    return switch if isinstance(switch, bool) else _given(opts, switch)


def _paths(walk: Walk, call: Call, effect: Effect, opts: Options, given: Sequence[Arg]) -> Iterator[Finding]:
    """The acts on paths."""
    recursive = _switched(effect.recursive, opts)
    for arg in given:
        if effect.act == "read":
            walk.read(arg, call.program)
        elif effect.act == "list":
            walk.listed(arg, call.program)
        elif effect.act == "write":
            _write(walk, call, effect, opts, arg)
        elif effect.act == "fill":
            filled(walk, arg, call.program)
        elif effect.act == "delete":
            yield from deleted(walk, arg, recursive)
        elif effect.act == "move":
            yield from moved(walk, arg)
        elif effect.act == "sweep":
            yield from swept(walk, arg)
        elif effect.act == "link":
            yield from linked(walk, arg)
        else:
            mode = opts.operands[0].text if opts.operands else ""
            yield from permitted(walk, call, arg, mode, recursive)


def _write(walk: Walk, call: Call, effect: Effect, opts: Options, target: Arg) -> None:
    if effect.content == "net" and target.text in ("/dev/null", "/dev/stdout"):
        return
    walk.written(target, call.program, append=_switched(effect.append, opts))
    if effect.content == "net":
        walk.remember(target, Arg(UNKNOWN, taint="net"))
    elif effect.content == "stdin" and call.stdin is not None:
        walk.remember(target, call.stdin)
    if effect.source:
        arrives(walk, [a for _, a in selected(effect.source, opts)], target, call.program)
