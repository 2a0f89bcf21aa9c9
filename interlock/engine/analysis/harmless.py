"""The proof that a shell command is harmless: it cannot write, execute or connect, and reads in its tree only.

A proof is never a guess: whatever is not known is an objection, and one objection is enough. Each command that would
run must have a grammar that says which options are harmless (`grammar`, field `harmless`); a walk over the whole
command sees each of them, also behind wrappers, `find -exec` and `xargs -0`. What the text of a command cannot say
(where a link leads, what a glob gives, which file a program is, what git's configuration runs) a `Resolver` says.

What a proof does not cover: another program that changes the tree between the proof and the run, and a program of the
system that is not what its name says.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.grammar import Grammar, Level
from interlock.engine.analysis.grammar_files import grammar_of
from interlock.engine.analysis.grammar_run import levels, program
from interlock.engine.analysis.harmless_args import misfit, prints_exactly
from interlock.engine.analysis.harmless_syntax import SHELL_BUILTINS, objection, settable
from interlock.engine.analysis.intents import COMMAND_ARGS, CWD_ARGS, TABLES, command_tool
from interlock.engine.analysis.paths import join
from interlock.engine.analysis.places import is_secret
from interlock.engine.analysis.readers import only_prints, reader_of
from interlock.engine.analysis.shell import parse
from interlock.engine.analysis.shell_run import Call, Walk
from interlock.engine.analysis.shell_tree import Script
from interlock.engine.analysis.values import UNKNOWN, UNKNOWN_ARG, Arg, base_name, without_marks
from interlock.engine.event import SensorEvent

__all__ = ["Proof", "Resolver", "prove"]

_MAX_COMMAND: Final = 16 * 1024  # characters of a command that may be proven
_OTHER_ARGS: Final = frozenset({"description", "timeout", "timeout_ms", "timeout_seconds", "run_in_background"})
_SINKS: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_FOUND: Final = ("found", "filtered")
_SEARCHES: Final = frozenset({"find", "gfind", "xargs"})
_SELECTS: Final = frozenset({"egrep", "fgrep", "grep"})
_SETTERS: Final = frozenset({"read", "unset"})
_SPLIT: Final = re.compile(r"[\s*?\[\]\\'\"]")  # where a shell or xargs would split a name, or take it for a pattern
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_PIPED: Final = re.compile(r"^\s*\||\|\s*$")
_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\?|\Z)|.*\[", re.S)  # what zsh may take for a variable, behind `read -p`
_READS: Final = frozenset({"fs.list", "fs.read"})
_WORDS: Final = ("[[", "coproc", "select", "time")  # words of some shells, and names of programs for others


class Resolver(Protocol):
    """What the proof asks of the machine. Each answer may be "cannot tell": None or False."""

    def real(self, path: str) -> str | None:
        """The absolute path with every link resolved, as far as it is there."""

    def expand(self, pattern: str) -> Sequence[str] | None:
        """The paths that an absolute glob gives."""

    def clean(self, path: str) -> bool:
        """Whether the path is a plain file, or a directory without secrets and links that lead out, or not there."""

    def names(self, directory: str) -> bool:
        """Whether every name below is plain: no blank, quote, backslash or glob character, none begins with `-`."""

    def program(self, name: str) -> str | None:
        """The real path of the program that the shell would run for a name or a path."""

    def plain(self, settings: str, directory: str) -> bool:
        """Whether no setting is in force by which the program (git, rg, ..., or shell) executes others.

        "git-tree": whether no repository reaches from the directory, a working tree, to outside of it.
        """


class Proof(NamedTuple):
    """Why a call is harmless: the commands that it runs, and the tree that it stays in."""

    programs: tuple[str, ...]
    tree: str

    @property
    def text(self) -> str:
        """The proof in a line, as `Decision.proven` carries it."""
        names = ", ".join(self.programs[:8]) + (", ..." if len(self.programs) > 8 else "")
        return f"only reads: {names}" if names else "does nothing"


class _Objected(Exception):
    """The first thing that stands against the proof."""


def prove(event: SensorEvent, resolver: Resolver) -> Proof | None:
    """The proof that a call of a shell tool is harmless, None where there is none; `event` is the final call."""
    command = _command(event)
    tree = resolver.real(event.cwd) if event.cwd and event.cwd[:1] == "/" else None
    if command is None or tree is None or tree == "/":
        return None
    start = next((str(event.args[n]) for n in CWD_ARGS if n in event.args), event.cwd)
    if not resolver.plain("shell", tree) or (_SPLIT.search(tree + str(start)) and "pwd" in command.lower()):
        return None
    script = parse(command)
    if objection(command, script):
        return None
    prover = _Prover(resolver, tree, str(start))
    try:
        for word in _WORDS:
            if word in command:
                prover.trust(word, word)  # a shell that has no such word runs a program
        prover.prove(script)
    except _Objected:
        return None
    return Proof(tuple(dict.fromkeys(prover.programs)), tree)


def _command(event: SensorEvent) -> str | None:
    """The command's text, None where the tool or any of its arguments is not known for certain."""
    if event.phase != "call" or not command_tool(event.action):
        return None
    given = [n for n in event.args if n in COMMAND_ARGS]
    known = len(given) + sum(n in _OTHER_ARGS or n in CWD_ARGS for n in event.args)
    text = event.args[given[0]] if len(given) == 1 else None
    if not isinstance(text, str) or known != len(event.args) or len(text) > _MAX_COMMAND:
        return None
    return text if text.strip() and text == without_marks(text) else None


class _Prover(Walk):
    """A walk that ends at the first objection."""

    def __init__(self, resolver: Resolver, tree: str, start: str) -> None:
        super().__init__(TABLES, start, "command")
        self.resolver = resolver
        self.tree = tree
        self.programs: list[str] = []
        self.top = ""  # the directory that a program reads whole, where it is not the current one
        self.inner = 0  # inside find, xargs: arguments may be names that a search found
        self.cwds = [start]  # each directory that the command may be in by now: a `cd` may fail, or not run

    def prove(self, script: Script) -> None:
        self._inside(Arg("."))
        self.start(script)
        if self.partial:
            raise _Objected(self.partial)

    # -- what any command may lead to ---------------------------------------------------------------------------

    def emit(self, finding: Finding, program: str) -> None:
        if finding.name not in _READS:
            raise _Objected(finding.name)
        super().emit(finding, program)

    def written(self, target: Arg, program: str, *, append: bool = False) -> None:
        if target.text not in _SINKS:
            raise _Objected("writes a file")

    def code(self, code: Arg, program: str, stdin: Arg | None = None) -> Arg:
        raise _Objected("runs text")

    def unreadable(self, code: Arg, program: str) -> None:
        raise _Objected("runs what is not known")

    def read(self, target: Arg, program: str) -> None:
        if "://" in target.text or _PIPED.search(target.text):
            raise _Objected("may be an address, or an order")  # some viewers ask a server; perl and ruby run `rm x|`
        for path in self._inside(target):
            low = path.lower()  # a file system may take both for one name
            if is_secret(path) or is_secret(low) or low.endswith("/.git/config") or not self.resolver.clean(path):
                raise _Objected("reads a secret, or more than its tree")
        super().read(target, program)

    def listed(self, target: Arg, program: str) -> None:
        self._inside(target)
        super().listed(target, program)

    def _inside(self, target: Arg) -> list[str]:
        """The paths that an argument may name, as they stand and resolved. Raises: _Objected, where one is outside."""
        if target.text in self.files and target.text.startswith("/dev/fd/"):
            return []  # a process substitution, whose commands are proven by themselves
        text, unknown, rest = target.text.partition(UNKNOWN)
        if unknown and (rest or target.taint not in _FOUND or not text.endswith("/")):
            raise _Objected("reads what is not known")
        if text != without_marks(text):
            raise _Objected("reads outside its tree")
        if target.glob and ("**" in text or _may_rise(text)):
            raise _Objected("a glob that cannot be told")
        paths: list[str] = []
        for cwd in self.cwds:
            path = text if text[:1] == "/" else f"{cwd}/{text}"  # `..` is left to the resolver: links come first
            glob = target.glob or (unknown and re.search(r"[*?\[]", text))  # a search's root may be one
            given = self.resolver.expand(path) if glob else [path]
            if given is None:
                raise _Objected("a glob that cannot be told")
            paths += [path, *given]
        reals = [self.resolver.real(p) if p[:1] == "/" else None for p in paths]
        inside = [r for r in reals if r is not None and (r == self.tree or r.startswith(self.tree + "/"))]
        if len(inside) != len(reals):
            raise _Objected("reads outside its tree")
        return [*inside, *paths]

    # -- each command -------------------------------------------------------------------------------------------

    def _execute(self, argv: list[Arg], stdin: Arg | None, functions: bool) -> Arg:
        path = argv[0].text
        name = base_name(path)
        reader = reader_of(name)
        grammar = reader or grammar_of(name)
        prints = only_prints(name, argv[1:])
        if (grammar is None and not prints) or (argv[0].glob and path != "[") or UNKNOWN in path:
            raise _Objected("a program that is not known")
        self.trust(path, name)
        if prints or grammar is None:
            self.programs.append(name)
            return UNKNOWN_ARG
        if name == "env" and all(_ASSIGNMENT.match(a.text) or a.text[:1] == "-" for a in argv[1:]):
            raise _Objected("prints the environment")
        for arg in argv[1:]:
            self._argument(arg, name)
        if name in _SETTERS:
            self._sets(grammar.level, argv[1:])
        self.top = ""
        reason = misfit(grammar.level, argv[1:], self._asked) or self._given_misfit(grammar.level, argv[1:])
        if reason:
            raise _Objected(reason)
        self.programs.append(name)
        if name == "xargs":
            self._items(grammar.level, argv[1:], stdin)
        if reader is not None:
            self._read_by(reader, argv, stdin)
        if self._key(name) is None:
            return UNKNOWN_ARG
        self.inner += name in _SEARCHES
        out = super()._execute(argv, stdin, functions)
        self.inner -= name in _SEARCHES
        if name in ("cd", "pushd"):
            reals = [r for a in argv[1:] if a.text[:1] != "-" for r in self._inside(a)]
            self.cwds += [self.env.cwd, *reals]  # `cd -P` follows links before dots, `cd` does not
            self._inside(Arg("."))
        if name == "pwd" and len(argv) == 1 and len(set(self.cwds)) == 1:
            return Arg(self.cwds[0])
        if not prints_exactly(name, argv[1:]):
            return UNKNOWN_ARG
        return stdin if stdin is not None and name in _SELECTS else out

    def _read_by(self, reader: Grammar, argv: Sequence[Arg], stdin: Arg | None) -> None:
        """What a program reads that only the proof knows."""
        name = base_name(argv[0].text)
        for finding in program(reader)(self, Call(name, tuple(argv[1:]), stdin, argv[0].text)):
            self.emit(finding, name)

    def trust(self, path: str, name: str) -> None:
        """The program must be what the shell finds by its name, and lie outside the tree."""
        real = self.resolver.program(name)
        builtin = path == name and name in SHELL_BUILTINS
        if real is None and builtin:
            return
        if real is None or real.startswith((self.tree + "/", "/tmp/", "/var/tmp/", "/private/", "/dev/")):  # noqa: S108
            raise _Objected("a program in the tree, or none")
        if path != name and (path[:1] != "/" or self.resolver.program(path) != real):
            raise _Objected("a program that is not the one of its name")

    def _argument(self, arg: Arg, program: str) -> None:
        """An argument must be one word: not a file's name that looks like an option, nor one that is split."""
        name, equals, value = arg.text.partition("=")
        if program == "env" and equals and _ASSIGNMENT.match(arg.text) and not settable(name, value):
            raise _Objected("sets a variable that is more than one")
        if arg.glob and _may_rise(arg.text):
            raise _Objected("a glob that cannot be told")
        if arg.glob:
            self._searched(arg.text)
        if arg.glob and _may_be_option(arg.text):
            for cwd in self.cwds:
                given = self.resolver.expand(join(cwd, arg.text))
                if given is None or any(base_name(p)[:1] == "-" for p in given):
                    raise _Objected("a file whose name is an option")
        if not arg.known and arg.taint in _FOUND and not self.inner:
            self._plain_below(arg)

    def _given_misfit(self, level: Level, args: Sequence[Arg]) -> str:
        """Why the names that globs give are no harmless arguments: `@list` for nm, `rm` for exiv2, which are orders."""
        if not any(_pattern_of(arg) for arg in args):
            return ""
        given = ([name for arg in args for name in self._names_of(arg, cwd)] for cwd in self.cwds)
        return next(filter(None, (misfit(level, one, lambda _: True) for one in given)), "")

    def _names_of(self, arg: Arg, cwd: str) -> list[Arg]:
        """The argument as each name that its glob gives in a directory; as it stands where it gives none."""
        pattern, behind = _pattern_of(arg), UNKNOWN in arg.text
        if not pattern:
            return [arg]
        top = "" if pattern[:1] == "/" else f"{cwd}/"
        names = self.resolver.expand(top + pattern)
        if names is None:
            raise _Objected("a glob that cannot be told")
        texts = [name[len(top) :] + ("/" + UNKNOWN if behind else "") for name in names]
        if any(_PIPED.search(text) for text in texts):
            raise _Objected("may be an order")
        return [arg._replace(text=text, glob=False) for text in texts] or [arg]

    def _sets(self, level: Level, args: Sequence[Arg]) -> None:
        """Each name that is set means nothing; a prompt is no name either, which it would be for zsh."""
        _, opts = next(levels(level, args))
        names = [a.text for a in opts.operands] + [v.text for _, v in opts.given if _NAME.match(v.text)]
        if not all(settable(n) or n.isdigit() for n in names):
            raise _Objected("sets a variable that is more than one")

    def _searched(self, glob: str) -> None:
        """The shell reads each directory in which it looks for names, whatever the program makes of them."""
        if "**" in glob or "//" in glob or UNKNOWN in glob:
            raise _Objected("a glob that cannot be told")
        parts = glob.split("/")
        starts = [at for at, part in enumerate(parts) if re.search(r"[*?\[]", part)]
        for at in starts:
            above = "/".join(parts[:at]) or ("/" if at else ".")
            self._inside(Arg(above, glob=at > starts[0]))

    def _items(self, level: Level, args: Sequence[Arg], stdin: Arg | None) -> None:
        """xargs splits what it reads at blanks and quotes, where it is not told otherwise."""
        _, opts = next(levels(level, args))
        inner = grammar_of(base_name(opts.operands[0].text) if opts.operands else "echo")
        harmless = inner.level.harmless if inner is not None else None
        if opts.has("-0", "--null") or (harmless is not None and harmless.arguments == "any" and not harmless.unlike):
            return
        text = stdin.text if stdin is not None else UNKNOWN
        if re.search(r"['\"\\]", text):
            raise _Objected("names that are split")
        for line in text.split("\n"):
            self._plain_below(Arg(line, taint=stdin.taint if stdin is not None else ""))

    def _plain_below(self, arg: Arg) -> None:
        text, unknown, _ = arg.text.partition(UNKNOWN)
        if not unknown:
            return
        if _SPLIT.search(text):
            raise _Objected("names that are split")
        for cwd in self.cwds:
            real = self.resolver.real(join(cwd, text)) if text.endswith("/") and arg.taint in _FOUND else None
            if real is None or not self.resolver.names(real):
                raise _Objected("names that are split")

    def _asked(self, settings: str) -> bool:
        """Whether the settings are plain here; "" asks whether the current directory may be read whole."""
        if settings:
            self.top = self.tree if settings == "git" else ""
            if self.top and not self.resolver.plain("git-tree", self.tree):
                return False
            return all(self.resolver.plain(settings, cwd) for cwd in self.cwds)
        self.read(Arg(self.top or "."), "cwd")
        return True


def _pattern_of(arg: Arg) -> str:
    """The glob that an argument is, or that a search found names below; "" for any other."""
    root, unknown, _ = arg.text.partition(UNKNOWN)
    pattern = root.rstrip("/") if unknown else root
    return pattern if (arg.glob or unknown) and re.search(r"[*?\[]", pattern) else ""


def _may_be_option(glob: str) -> bool:
    """Whether a name that the glob gives may be an option that is not the one in the text."""
    return glob[:1] in "*?[" or (glob[:1] == "-" and not re.match(r"--?[\w-]+=", glob))


def _may_rise(glob: str) -> bool:
    """Whether a part of the glob is like `.*`, which for some shells is also the directory above."""
    return any(
        re.search(r"[*?[]", part) and fnmatch.fnmatchcase("..", part) for part in glob.split("/") if part[:1] == "."
    )
