"""Programs that run the command in their arguments: by the table, and those that need their own reading."""

from __future__ import annotations

import itertools
import re
from typing import Final

from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.machines import MACHINES
from interlock.engine.analysis.options import Options, split
from interlock.engine.analysis.outputs import printed
from interlock.engine.analysis.shell_run import Call, Handler, Walk
from interlock.engine.analysis.supposed import suppose
from interlock.engine.analysis.values import EMPTY, UNKNOWN, UNKNOWN_ARG, Arg
from interlock.engine.analysis.wrapper_table import WRAPPER_TABLE, Wrapper

__all__ = ["WRAPPERS"]


_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")


def _wrapped(walk: Walk, call: Call) -> Arg | None:
    spec = WRAPPER_TABLE[call.program]
    args = call.args
    if spec.words:
        args = _after_words(args, spec)
        if not args:  # another subcommand, of which we do not know that it runs something
            suppose(walk, call, known=True)
    if call.program == "env":
        options = tuple(itertools.takewhile(lambda a: a.text[:1] == "-", args))
        args = (*(a for a in options if a.text != "-"), *args[len(options) :])
    opts = split(args, spec.short, spec.long, leading=spec.words != ("",))
    for option in spec.code:
        if option in opts.values:
            code = opts.values[option]
            if option in ("-S", "--split-string") and call.program == "env":
                code = code._replace(text=" ".join([code.text, *(a.text for a in opts.operands)]))
            if call.program == "start-stop-daemon":
                return walk.execute([code, *opts.operands], call.stdin, functions=False)
            return walk.code(code, call.program, call.stdin)
    start = min(spec.skip, len(opts.operands))
    while spec.assigns and start < len(opts.operands) and _ASSIGNMENT.match(opts.operands[start].text):
        _assign(walk, opts.operands[start])
        start += 1
    rest = list(opts.operands[start:])
    if rest and rest[0].text == "--":
        rest.pop(0)
    if len(rest) > 1 and rest[0].text in spec.code:
        return walk.code(rest[1], call.program, call.stdin)
    _own_finding(walk, call, spec, opts, rest)
    if not rest and call.stdin is not None and opts.has(*spec.shells):
        return walk.code(call.stdin, call.program)
    if not rest or spec.words == ("",):
        return None
    if spec.joined:
        return walk.code(Arg(" ".join(a.text for a in rest)), call.program, call.stdin)
    return walk.execute(rest, call.stdin, functions=False)


def _after_words(args: tuple[Arg, ...], spec: Wrapper) -> tuple[Arg, ...]:
    """What follows the subcommand; nothing where another subcommand stands."""
    if spec.words == ("",):
        return args
    before = split(args, spec.short, spec.long, leading=True).operands
    return before[1:] if before and before[0].text in spec.words else ()


def _assign(walk: Walk, arg: Arg) -> None:
    name, _, value = arg.text.partition("=")
    walk.env.spend(8)
    walk.env.set(name, (arg._replace(text=value),))
    handler = walk.tables.handlers.get("=" + name)
    if handler is not None:
        handler(walk, Call(name, (arg._replace(text=value),), None, name))


def _own_finding(walk: Walk, call: Call, spec: Wrapper, opts: Options, rest: list[Arg]) -> None:
    if not spec.finding or opts.has("--help", "--version", "-V", "-l", "-v", "-k", "-K"):
        return
    walk.emit(Finding(spec.finding, rest[0].text if rest else "", "system"), call.program)
    if (not rest and opts.has(*spec.shells)) or (call.program == "su" and "-c" not in opts.values):
        walk.emit(Finding("privilege.shell", "", "system"), call.program)
    elif rest and rest[0].text.rpartition("/")[2] in ("su", "bash", "sh", "zsh", "fish", "dash") and len(rest) == 1:
        walk.emit(Finding("privilege.shell", rest[0].text, "system"), call.program)


# -- xargs, parallel, find -exec ------------------------------------------------------------------------------------


def _xargs(walk: Walk, call: Call) -> Arg | None:
    opts = split(
        call.args, "aEILndPsJR", ("--arg-file", "--delimiter", "--max-args", "--max-procs", "--max-chars"), leading=True
    )
    command = list(opts.operands) or [Arg("echo")]
    delimiter = opts.values.get("-d") or opts.values.get("--delimiter")
    if opts.has("-0", "--null") and call.stdin is not None and call.stdin.known:
        delimiter = Arg(UNKNOWN)  # which does not stand in it: it is one item
    items = _items(call.stdin, delimiter)
    holder = opts.values.get("-I") or opts.values.get("-J") or opts.values.get("--replace")
    mark = (holder.text or "{}") if holder is not None else "{}" if opts.has("-i", "--replace") else ""
    if mark and not opts.has("-d", "--delimiter", "-0", "--null"):  # each line is one item
        items = _items(call.stdin, Arg("\n"))
    return walk.execute(_filled(walk, command, items, mark), UNKNOWN_ARG, functions=False)


def _items(stdin: Arg | None, delimiter: Arg | None = None) -> list[Arg]:
    if stdin is None or not stdin.text.strip():
        return [Arg(UNKNOWN, taint=stdin.taint if stdin is not None else "")]
    pieces = stdin.text.split(delimiter.text) if delimiter is not None and delimiter.text else stdin.text.split()
    return [Arg(p.strip("\n"), taint=stdin.taint) for p in pieces[:64] if p.strip("\n")]


_MAX_FILLED: Final = 64 * 1024  # characters of one word


def _filled(walk: Walk, command: list[Arg], items: list[Arg], mark: str) -> list[Arg]:
    """The command with the items at its end, or in the place of `mark`. Raises: Exhausted."""
    if not mark or not any(mark in a.text for a in command):
        return [*command, *items]
    found: list[Arg] = []
    all_items = " ".join(item.text for item in items)
    for arg in command:
        if arg.text == mark:
            walk.env.spend(8 * len(items) + len(all_items))
            found.extend(items)
        elif mark in arg.text:
            walk.env.spend(len(all_items) // 8)
            first = items[0] if items else EMPTY
            most = _MAX_FILLED // len(all_items) + 1 if all_items else -1  # what comes after them would be cut off
            text = arg.text.replace(mark, all_items, most)[:_MAX_FILLED]
            walk.env.spend(len(text))
            found.append(arg._replace(text=text, taint=arg.taint or first.taint))
        else:
            found.append(arg)
    return found


def _parallel(walk: Walk, call: Call) -> Arg | None:
    opts = split(
        call.args,
        "jSIaNnLCdP",
        ("--jobs", "--sshlogin", "--arg-file", "--colsep", "--delay", "--joblog", "--results", "--env"),
        leading=True,
    )
    texts = [a.text for a in opts.operands]
    cut = next((k for k, t in enumerate(texts) if t in (":::", "::::", ":::+")), len(texts))
    command, items = list(opts.operands[:cut]), list(opts.operands[cut + 1 :])
    if not items:
        items = _items(call.stdin, Arg("\n"))
    if not command:
        for item in items:
            walk.code(item, "parallel")
        return UNKNOWN_ARG
    mark = "{}" if any("{}" in a.text for a in command) else ""
    filled = _filled(walk, command, items, mark)
    if any(" " in a.text for a in command):
        walk.code(Arg(" ".join(a.text for a in filled)), "parallel")
    return walk.execute(filled, None, functions=False)


def _find(walk: Walk, call: Call) -> Arg | None:
    """-exec, -execdir, -ok: the command, once, with what the search would find. -delete is in the programs' table."""
    texts = [a.text for a in call.args]
    found = _items(printed("find", call.args, None))
    k = 0
    while k < len(texts):
        if texts[k] in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((j for j in range(k + 1, len(texts)) if texts[j] in (";", "+")), len(texts))
            command = list(call.args[k + 1 : end])
            if command:
                walk.execute(_filled(walk, command, found, "{}"), None, functions=False)
            k = end
        k += 1
    return None


def _fd(walk: Walk, call: Call) -> Arg | None:
    texts = [a.text for a in call.args]
    cut = next((k for k, t in enumerate(texts) if t in ("-x", "--exec", "-X", "--exec-batch")), None)
    if cut is None:
        return None
    operands = split(call.args[:cut], "edtSoEcj").operands
    roots = operands[1:] or (Arg("."),)
    taint = "found" if operands and operands[0].text in (".", "", ".*") else "filtered"
    items = [Arg(r.text.rstrip("/") + "/" + UNKNOWN, taint=taint) for r in roots]
    command = list(call.args[cut + 1 :])
    mark = "{}" if any("{}" in a.text for a in command) else ""
    return walk.execute(_filled(walk, command, items, mark), None, functions=False) if command else None


def _at(walk: Walk, call: Call) -> Arg | None:
    if call.stdin is not None:
        walk.code(call.stdin, call.program)
    return EMPTY


def _cmake(walk: Walk, call: Call) -> Arg | None:
    """`cmake -E rm x`: its own spellings of common commands, and those that run another."""
    if len(call.args) < 2 or call.args[0].text != "-E":
        return None
    name, rest = call.args[1].text, list(call.args[2:])
    if name in _CMAKE_TOOLS:
        walk.execute([*map(Arg, _CMAKE_TOOLS[name]), *rest], call.stdin, functions=False)
    elif name == "chdir":
        walk.execute(rest[1:], call.stdin, functions=False)
    return None


_CMAKE_TOOLS: Final = {
    "copy": ("cp",),
    "copy_directory": ("cp", "-r"),
    "create_symlink": ("ln", "-s"),
    "env": ("env",),
    "remove": ("rm",),
    "remove_directory": ("rm", "-r"),
    "rename": ("mv",),
    "rm": ("rm",),
    "time": ("time",),
    "touch": ("touch",),
}


def _crontab(walk: Walk, call: Call) -> Arg | None:
    """A crontab's lines: five fields and a command."""
    if call.stdin is not None:
        for line in call.stdin.text.split("\n")[:200]:
            m = re.match(r"\s*(?:@\w+|(?:\S+\s+){5})\s*(.+)", line)
            if m and not line.lstrip().startswith("#"):
                walk.code(Arg(m.group(1)), "crontab")
    return EMPTY


WRAPPERS: Final[dict[str, Handler]] = {
    **dict.fromkeys(WRAPPER_TABLE, _wrapped),
    **MACHINES,
    "at": _at,
    "batch": _at,
    "cmake": _cmake,
    "crontab": _crontab,
    "fd": _fd,
    "fdfind": _fd,
    "find": _find,
    "gfind": _find,
    "parallel": _parallel,
    "xargs": _xargs,
}
