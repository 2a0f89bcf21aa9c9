"""The scripts that a command would run, with the digests of what they hold now.

`bash x.sh`, `python x.py`, `./x.sh`, also behind `cd`, wrappers, substitutions and variables with known values. Where
an interpreter reads its code from standard input, every file that the command names may be that code, so all of them
count. What is not seen: programs found through PATH, modules (`python -m`), what a script itself includes, and names
that only the shell will know.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from typing import Final

from interlock.base.errors import InterlockError
from interlock.engine.analysis.builtins_table import BUILTINS
from interlock.engine.analysis.findings import Places
from interlock.engine.analysis.intents import SHELL_TOOLS
from interlock.engine.analysis.interpreters import INTERPRETERS
from interlock.engine.analysis.paths import join
from interlock.engine.analysis.shell import parse
from interlock.engine.analysis.shell_run import Program, Tables, Walk
from interlock.engine.analysis.values import HOME, WORK, Arg, base_name, without_marks
from interlock.engine.analysis.wrappers import WRAPPERS
from interlock.engine.approvals import Script
from interlock.engine.event import SensorEvent

__all__ = ["MAX_BYTES", "MAX_SCRIPTS", "TooManyScripts", "named_scripts", "script_now"]

MAX_BYTES: Final = 16 << 20  # of one script; a larger one is bound by its size and times alone
MAX_SCRIPTS: Final = 64
# Programs that run code out of files that they are given by name.
_RUNNERS: Final = frozenset({
    ".", "source", "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "tcsh", "csh", "pwsh", "powershell",
    "python", "pypy", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "luajit", "Rscript", "julia",
    "osascript", "tclsh", "wish", "expect", "awk", "gawk", "mawk", "nawk", "sed", "make", "gmake", "psql", "mysql",
    "sqlite3", "groovy", "scala", "java", "ts-node", "tsx", "elixir", "swift", "go", "busybox", "just",
    "ansible-playbook",
})  # fmt: skip
_VERSION: Final = re.compile(r"[-.]?\d[\d.]*$")
_CODE_NEXT: Final = re.compile(r"-[A-Za-z]*[cemrE]|--(command|eval|execute|module|print)")  # what follows is no file
_CODE: Final = re.compile(r"-[A-Za-z]*c|--command")  # of a shell or python: the code is here, and not on standard input
_NOT_FILES: Final = re.compile(r"/dev/(?!shm/)|/proc/")  # `bash /dev/stdin`; nothing there is opened
_TOO_MUCH: Final = ("too long", "too deep", "too many commands")
_SHORT_OPTION: Final = 2  # characters: an option with a value joined to it is longer (`-fx.awk`)


class _NoPrograms(dict[str, Program]):
    """What programs do is of no interest here; any may be asked for by its name."""

    def __missing__(self, name: str) -> Program:
        return lambda walk, call: ()


_TABLES: Final = Tables(
    {**WRAPPERS, **INTERPRETERS, **BUILTINS}, _NoPrograms(), Places(lambda where, append: (), lambda where: ())
)


class TooManyScripts(InterlockError):
    """More files than an approval can be bound to, or more command than they can be looked for in."""

    code = "too-large"


def named_scripts(event: SensorEvent) -> tuple[Script, ...]:
    """The scripts of a call, by path; () for a result and for a tool that runs no shell. Raises: TooManyScripts."""
    name = re.sub(r"^mcp__.*?__", "", event.action.lower())
    if event.phase != "call" or not (name in SHELL_TOOLS or name.rpartition(".")[2] in SHELL_TOOLS):
        return ()
    here = event.cwd or os.getcwd()
    found: dict[str, bool] = {}  # absolute path -> whether it is named to be run, and not just perhaps
    for walk in _walks(event):
        for path, sure in walk.files_named():
            real = _absolute(path, here)
            found[real] = found.get(real, False) or sure
    scripts = [(path, script_now(path)) for path, sure in found.items() if sure or os.path.isfile(path)]
    if len(scripts) > MAX_SCRIPTS:
        raise TooManyScripts(f"the command names {len(scripts)} scripts, and an approval binds {MAX_SCRIPTS} at most")
    return tuple(script for _, script in sorted(scripts, key=lambda pair: pair[0]))


def _walks(event: SensorEvent) -> Iterator[_Calls]:
    """A walk over every argument that could be the command, as a text or as words."""
    for value in event.args.values():
        walk = _Calls(event.cwd)
        if isinstance(value, str):
            walk.start(parse(value))
        elif isinstance(value, Sequence) and value and all(isinstance(word, str) for word in value):
            walk.start_argv([Arg(without_marks(word)) for word in value])
        else:
            continue
        if walk.partial in _TOO_MUCH:
            raise TooManyScripts(f"the command is {walk.partial} to tell which scripts it runs")
        yield walk


class _Calls(Walk):
    """A walk that notes each command with the directory it would run in."""

    def __init__(self, cwd: str | None) -> None:
        super().__init__(_TABLES, cwd, "")
        self._seen: list[tuple[str, tuple[Arg, ...], str, str]] = []

    def execute(self, argv: list[Arg], stdin: Arg | None, *, functions: bool = True) -> Arg:
        self._seen.append((argv[0].text, tuple(argv[1:]), self.env.cwd, self.input))
        return super().execute(argv, stdin, functions=functions)

    def files_named(self) -> Iterator[tuple[str, bool]]:
        """(path, whether it is surely run); the path may begin with a mark."""
        from_stdin = False
        for path, args, cwd, read in self._seen:
            program = _VERSION.sub("", base_name(path)) or path
            if "/" in path and "\0" not in path:
                yield join(cwd, path), True
            if program not in _RUNNERS:
                continue
            named = [(name, sure) for name, sure in _operands(args) if not _NOT_FILES.match(name)]
            yield from ((join(cwd, name), sure) for name, sure in named)
            if not any(sure for _, sure in named) and not any(_CODE.fullmatch(arg.text) for arg in args):
                from_stdin = True
                if read and "\0" not in read:
                    yield join(cwd, read), True
        if from_stdin:
            for _, args, cwd, read in self._seen:
                yield from ((join(cwd, name), False) for name, _ in _operands(args))
                yield from ((join(cwd, read), False) for _ in (read,) if read and "\0" not in read)


def _operands(args: tuple[Arg, ...]) -> Iterator[tuple[str, bool]]:
    """(what could be a file's name, whether it is the script itself): operands, and the values of options."""
    first, after_code = True, False
    for arg in args:
        text = arg.text
        if not arg.known or not text:
            first = first and bool(text)
        elif text[0] not in "-+":
            yield text, first and not after_code
            first = first and after_code
        elif "=" in text:
            yield text.partition("=")[2] or ".", False
        elif text[1:2] != "-" and len(text) > _SHORT_OPTION:
            yield text[_SHORT_OPTION:], False
        after_code = _CODE_NEXT.fullmatch(text) is not None


def _absolute(path: str, here: str) -> str:
    if path[:1] == HOME:
        path = os.path.expanduser("~") + path[1:]
    elif path[:1] == WORK:
        path = here + path[1:]
    return os.path.normpath(os.path.join(here, path))


def script_now(path: str) -> Script:
    """What a file holds now, by its digest."""
    if _NOT_FILES.match(path):
        return Script(path, "", "not a file")
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        return Script(path, "", "missing")
    except (OSError, ValueError):
        return Script(path, "", "unreadable")
    try:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            return Script(path, "", "not a file")
        if about.st_size > MAX_BYTES:
            return Script(path, "", f"too large: {about.st_size} bytes, {about.st_mtime_ns}, {about.st_ctime_ns}")
        return _hashed(path, fd)
    except OSError:
        return Script(path, "", "unreadable")
    finally:
        os.close(fd)


def _hashed(path: str, fd: int) -> Script:
    hasher, size = hashlib.sha256(), 0
    while part := os.read(fd, 1 << 20):
        hasher.update(part)
        size += len(part)
        if size > MAX_BYTES:  # it grows while it is read
            return Script(path, "", "unreadable")
    return Script(path, hasher.hexdigest())
