"""A walk over a parsed command that follows literal values and hands each command that would run to the tables.

Nothing is executed. Branches are all taken, loop bodies run once an item (or once with all items), functions run when
called and once more at the end if never called. A walk that hits a bound (`MAX_STEPS`, `MAX_NESTED`) is partial.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.findings import Findings, Places
from interlock.engine.analysis.outputs import printed
from interlock.engine.analysis.paths import join
from interlock.engine.analysis.shell import parse_marked
from interlock.engine.analysis.shell_expand import Exhausted, Expander
from interlock.engine.analysis.shell_tree import (
    Array,
    Case,
    Condition,
    Function,
    Group,
    If,
    Lit,
    Loop,
    Node,
    Pipe,
    Redirect,
    Script,
    Simple,
    Word,
)
from interlock.engine.analysis.shell_words import graver
from interlock.engine.analysis.supposed import suppose
from interlock.engine.analysis.values import EMPTY, SELF, UNKNOWN, UNKNOWN_ARG, Arg, base_name, joined, quoted

__all__ = ["MAX_NESTED", "MAX_STEPS", "Call", "Handler", "Program", "Tables", "Walk"]

MAX_STEPS: Final = 4000  # commands and loop turns of one walk
MAX_NESTED: Final = 50  # commands inside commands: substitutions, `sh -c`, wrappers
_MAX_TURNS: Final = 8  # a loop over more items runs once with all of them
_PARSE_COST: Final = 2  # of a character that is read as code
_UNSEEN: Final = {"net": "net.fetch_exec", "decoded": "exec.obfuscated", "text": "exec.obfuscated"}
_UNSEEN_LINE: Final = re.compile(rf"(?:^|\n)[ \t]*{UNKNOWN}[ \t]*(?:\n|$)")
_VERSION: Final = re.compile(r"[-.]?[0-9][0-9.]*\Z")


class Call(NamedTuple):
    """One command that would run: its name without directory, arguments, and the text on its standard input."""

    program: str
    args: tuple[Arg, ...]
    stdin: Arg | None
    path: str


Handler = Callable[["Walk", Call], "Arg | None"]  # builtins, wrappers, interpreters; the output where it is known
Program = Callable[["Walk", Call], Iterable[Finding]]


class Tables(NamedTuple):
    """What is known of programs, by name."""

    handlers: Mapping[str, Handler]
    programs: Mapping[str, Program]
    places: Places


class Walk(Findings):
    """One analysis of one command; `found` holds what it would do, `partial` why the view may be incomplete."""

    def __init__(self, tables: Tables, cwd: str | None, attributed_to: str) -> None:
        super().__init__(tables.places, cwd, attributed_to)
        self.tables = tables
        self.expander = Expander(self.env, self)
        self.partial = ""
        self.functions: dict[str, Node] = {}
        self.called: set[str] = set()
        self.aliases: dict[str, str] = {}
        self.steps = MAX_STEPS
        self.depth = 0
        self.input = ""  # the file last read by a redirection
        self.parallel = 0
        self.looping = 0
        self.supposed = 0  # suppositions around
        self.stack: list[tuple[Node, int]] = []

    # -- the door ----------------------------------------------------------------------------------------------

    def start(self, script: Script) -> None:
        """Walk a whole command."""
        self._guarded(lambda: self._whole(script))

    def start_argv(self, argv: Sequence[Arg]) -> None:
        """Walk a command given as an argument list."""
        self._guarded(lambda: self.execute(list(argv), None))

    def _guarded(self, go: Callable[[], object]) -> None:
        try:
            go()
        except (Exhausted, RecursionError) as e:
            self.partial = graver(self.partial, str(e) if isinstance(e, Exhausted) else "too deep")
        if self.partial in ("too long", "too deep", "too many commands"):
            self.emit(Finding("exec.partial", self.partial), "sh")

    def _whole(self, script: Script) -> None:
        self.partial = script.partial
        self.run(script, None)
        for alias in list(self.aliases.values()):  # a definition only, but what it would run is in the text
            self.code(Arg(alias), "alias")
        met: set[str] = set()
        while names := [n for n in self.functions if n not in self.called and n not in met]:
            for name in names:  # one that stands in the body of another is met in the next round
                met.add(name)
                if (body := self.functions.get(name)) is not None:  # one before it may have unset it
                    self.node(body, None)

    # -- scripts and nodes -------------------------------------------------------------------------------------

    def run(self, script: Script, stdin: Arg | None) -> Arg:
        """Walk a list of commands; what it prints, as far as known."""
        out = EMPTY
        for item in script.items:
            background = item.op == "&"
            self.parallel += background
            out = joined(out, self.node(item.node, stdin))
            self.parallel -= background
        return out

    def node(self, node: Node, stdin: Arg | None) -> Arg:
        self.steps -= 1
        if self.steps < 0:
            raise Exhausted("too many commands")
        if self.depth >= MAX_NESTED * 2:
            raise Exhausted("too deep")
        self.depth += 1
        try:
            return _NODES[type(node)](self, node, stdin)
        finally:
            self.depth -= 1

    def _pipe(self, node: Pipe, stdin: Arg | None) -> Arg:
        self.parallel += 1
        out: Arg | None = stdin
        for stage in node.stages:
            out = self.node(stage, out)
        self.parallel -= 1
        return out if out is not None else EMPTY

    def _group(self, node: Group, stdin: Arg | None) -> Arg:
        stdin, writes = self._redirected(node.redirects, stdin)
        if not node.subshell:
            return self._written(writes, self.run(node.body, stdin))
        cwd, values = self.env.cwd, self.env.copied()
        out = self.run(node.body, stdin)
        self.env.cwd, self.env.values = cwd, values
        return self._written(writes, out)

    def _if(self, node: If, stdin: Arg | None) -> Arg:
        stdin, writes = self._redirected(node.redirects, stdin)
        out = EMPTY
        for branch in node.branches:
            out = joined(out, self._branch(branch, stdin))
        return self._written(writes, out)

    def _branch(self, script: Script, stdin: Arg | None) -> Arg:
        """A part that may or may not run: what it changes is known only where both ways agree."""
        before = self.env.copied()
        out = self.run(script, stdin)
        for name, value in list(self.env.values.items()):
            old = before.get(name)
            if old is not None and old != value:
                self.env.values[name] = old + value if len(old + value) <= _MAX_TURNS else (UNKNOWN_ARG,)
        return out

    def _case(self, node: Case, stdin: Arg | None) -> Arg:
        stdin, writes = self._redirected(node.redirects, stdin)
        for word in (node.subject, *node.patterns):
            self.expander.single(word)
        out = EMPTY
        for body in node.bodies:
            out = joined(out, self._branch(body, stdin))
        return self._written(writes, out)

    def _loop(self, node: Loop, stdin: Arg | None) -> Arg:
        stdin, writes = self._redirected(node.redirects, stdin)
        self.run(node.cond, stdin)
        self.looping += 1
        items = self.expander.words(node.words) if node.words is not None else list(self.env.positional)
        self.env.spend(2 * len(items))
        out = EMPTY
        if not node.name or not items:
            if node.name:
                self.env.set(node.name, (UNKNOWN_ARG,))
            out = self.run(node.body, stdin)
        elif len(items) > _MAX_TURNS or self.looping > 2:
            self.env.set(node.name, tuple(items))
            out = self.run(node.body, stdin)
        else:
            for item in items:
                self.env.set(node.name, (item,))
                out = joined(out, self.run(node.body, stdin))
        self.looping -= 1
        return self._written(writes, out)

    def _function(self, node: Function, stdin: Arg | None) -> Arg:
        self.functions[node.name] = node.body
        return EMPTY

    def _test(self, node: Condition, stdin: Arg | None) -> Arg:
        self._redirected(node.redirects, stdin)
        self.expander.words(node.words)
        return EMPTY

    # -- words that run ----------------------------------------------------------------------------------------

    def substitute(self, script: Script) -> Arg:
        cwd, values = self.env.cwd, self.env.copied()
        out = self._nested(script, None)
        self.env.cwd, self.env.values = cwd, values
        return out

    def process(self, script: Script, writes: bool) -> Arg:
        """A path whose content is what the inner script prints."""
        out = self._nested(script, UNKNOWN_ARG if writes else None)
        path = f"/dev/fd/{64 + len(self.files)}"
        if not writes and len(self.files) < 500:
            self.files[path] = out
        return Arg(path, taint=out.taint)

    def _nested(self, script: Script, stdin: Arg | None) -> Arg:
        if self.depth >= MAX_NESTED * 2:
            raise Exhausted("too deep")
        self.depth += 1
        out = self.run(script, stdin)
        self.depth -= 1
        return out

    def code(self, code: Arg, program: str, stdin: Arg | None = None) -> Arg:
        """Text that a shell would run."""
        if not code.text.strip(UNKNOWN + " \t\n"):
            if code.text.strip():
                self.unreadable(code, program)
            return UNKNOWN_ARG
        if code.taint in ("net", "decoded") or (code.taint == "text" and _UNSEEN_LINE.search(code.text)):
            self.unreadable(code, program)
        self.env.spend(_PARSE_COST * len(code.text))
        script = parse_marked(code.text)
        self.partial = graver(self.partial, script.partial)
        return self._nested(script, stdin)

    def unreadable(self, code: Arg, program: str) -> None:
        """Code that only the shell will know: what it came from decides how grave that is."""
        name = _UNSEEN.get(code.taint, "exec.dynamic")
        self.emit(Finding(name, "", "remote" if code.taint == "net" else "unknown"), program)

    # -- simple commands ---------------------------------------------------------------------------------------

    def _simple(self, node: Simple, stdin: Arg | None) -> Arg:
        prefix: dict[str, tuple[Arg, ...]] = {}
        for name, word, append in node.assigns:
            value = self.assigned(word)
            if append:
                old = self.env.get(name) or (EMPTY,)
                self.env.spend(8 * len(old) + len(old[0].text) // 8)
                value = (Arg(old[0].text + value[0].text, taint=value[0].taint),) if len(value) == 1 else old + value
            if node.words:
                prefix[name] = value
            else:
                self.env.set(name, value)
                self._sensitive(name, value)
        name = self._alias(node.words)
        argv = self.expander.words(node.words)
        stdin, writes = self._redirected(node.redirects, stdin)
        if not argv:
            return self._written(writes, EMPTY)
        for name, value in prefix.items():
            self._sensitive(name, value)
        saved = self.env.copied() if prefix else None
        self.env.values.update(prefix)
        alias = self.aliases.get(name, "")
        if alias:
            self.aliases[name] = ""  # in its own text it is the command of that name
        aliased = Arg(" ".join([alias, *map(quoted, argv[1:])]) if alias else "")
        out = self.code(aliased, argv[0].text, stdin) if alias else self.execute(argv, stdin)
        if alias:
            self.aliases[name] = self.aliases[name] or alias
        if saved is not None:
            self.env.values = saved
        return self._written(writes, out)

    def assigned(self, word: Word) -> tuple[Arg, ...]:
        """The elements that an assignment gives."""
        if len(word) == 1 and isinstance(word[0], Array):
            return tuple(self.expander.words(word[0].words))
        return (self.expander.single(word),)

    def _sensitive(self, name: str, value: tuple[Arg, ...]) -> None:
        handler = self.tables.handlers.get("=" + name)
        if handler is not None:
            handler(self, Call(name, value, None, name))

    def _alias(self, words: tuple[Word, ...]) -> str:
        if self.aliases and words and len(words[0]) == 1 and isinstance(words[0][0], Lit) and not words[0][0].quoted:
            return words[0][0].text
        return ""

    def execute(self, argv: list[Arg], stdin: Arg | None, *, functions: bool = True) -> Arg:
        """One command with its arguments, as the tables know it."""
        if not argv:
            return UNKNOWN_ARG
        self.steps -= 1
        self.depth += 1
        if self.depth >= MAX_NESTED * 2 or self.steps < 0:
            raise Exhausted("too deep" if self.steps >= 0 else "too many commands")
        self.env.hand_over(argv, stdin)
        try:
            return self._execute(argv, stdin, functions)
        finally:
            self.depth -= 1

    def _execute(self, argv: list[Arg], stdin: Arg | None, functions: bool) -> Arg:
        path = argv[0].text.removeprefix("=")  # zsh: `=rm` is the path of rm
        if UNKNOWN in path:
            path = self._guessed(argv)
            if not path:
                return UNKNOWN_ARG
        name = base_name(path)
        if functions and name in self.functions and "/" not in path:
            return self._called(name, argv, stdin)
        if SELF in path and (self.parallel or self.looping):
            self.emit(Finding("exec.fork_bomb", "$0"), "sh")
        key = self._key(name)
        call = Call(key or name, tuple(argv[1:]), stdin, path)
        if key is None:
            self._unknown_program(call)
            return printed(name, call.args, stdin)
        secrets = self.secrets
        handler = self.tables.handlers.get(key)
        out = handler(self, call) if handler is not None else None
        for finding in self.tables.programs[key](self, call) if key in self.tables.programs else ():
            self.emit(finding, name)
        if handler is None:
            suppose(self, call, known=True)
        out = out if out is not None else printed(key, call.args, stdin)
        return out if self.secrets == secrets else out._replace(taint="secret")

    def _key(self, name: str) -> str | None:
        """The tables' name for a program: `python3.12` is python, `mkfs.ext4` is mkfs."""
        for key in (name, _VERSION.sub("", name), "mkfs" if name.startswith(("mkfs.", "newfs_")) else "", name.lower()):
            if key and (key in self.tables.handlers or key in self.tables.programs):
                return key
        return None

    def known(self, name: str) -> bool:
        """Whether the tables have a program of exactly this name."""
        return name in self.tables.handlers or name in self.tables.programs

    def _guessed(self, argv: list[Arg]) -> str:
        """A program's name with unknown parts: the name without them if that is a program, else "" and a finding."""
        text = argv[0].text.replace(UNKNOWN, "")
        if text and self._key(base_name(text)) is not None:
            return text
        if argv[0].taint in ("net", "decoded"):
            self.unreadable(argv[0], "sh")
            return ""
        before = dict(self.found)
        for finding in self.tables.programs["rm"](self, Call("rm", tuple(argv[1:]), None, "rm")):
            if finding.name == "fs.delete.root":
                self.found = before
                self.emit(Finding("exec.obfuscated", finding.target, finding.scope), "sh")
                return ""
        self.emit(Finding("exec.dynamic"), "sh")
        return ""

    def _unknown_program(self, call: Call) -> None:
        """A file written just now, or a program we do not know that may run the command in its arguments."""
        content = self.files.get(join(self.env.cwd, call.path)) if "/" in call.path else None
        if content is not None:
            self.code(content, call.program)
            return
        if "/" in call.path:
            self.ran(Arg(call.path), call.program)
        suppose(self, call, known=False)

    def _called(self, name: str, argv: list[Arg], stdin: Arg | None) -> Arg:
        self.called.add(name)
        body = self.functions[name]
        for running, parallel in self.stack:
            if running is body:
                if self.parallel > parallel:
                    self.emit(Finding("exec.fork_bomb", name), "sh")
                return UNKNOWN_ARG
        saved, self.env.positional = self.env.positional, tuple(argv[1:])
        self.stack.append((body, self.parallel))
        out = self.node(body, stdin)
        self.stack.pop()
        self.env.positional = saved
        return out

    # -- redirections ------------------------------------------------------------------------------------------

    def _redirected(self, redirects: tuple[Redirect, ...], stdin: Arg | None) -> tuple[Arg | None, list[Arg]]:
        """The standard input and the files written, after the redirections."""
        writes: list[Arg] = []
        for redirect in redirects:
            op = redirect.op
            if op == "<<":
                stdin = self.expander.single(redirect.body) if redirect.body else EMPTY
                continue
            target = self.expander.single(redirect.target)
            if op == "<<<":
                stdin = target._replace(text=target.text + "\n")
            elif op in ("<", "<&", "<>"):
                stdin = self._input(target) if op != "<&" else stdin
            elif not (op == ">&" and re.fullmatch(r"[0-9]*-?", target.text)):
                self.written(target, "redirect", append=op in (">>", "&>>"))
                if redirect.fd in ("", "1"):
                    writes.append(target)
        return stdin, writes

    def _input(self, target: Arg) -> Arg:
        secrets = self.secrets
        self.read(target, "redirect")
        if self.secrets > secrets:
            return Arg(UNKNOWN, taint="secret")
        content = self.files.get(join(self.env.cwd, target.text))
        self.input = target.text
        return content if content is not None else Arg(UNKNOWN, taint="file")

    def _written(self, writes: list[Arg], out: Arg) -> Arg:
        for target in writes:
            self.remember(target, out)
        return EMPTY if writes else out


_NODES: Final[dict[type, Callable[..., Arg]]] = {
    Simple: Walk._simple,
    Pipe: Walk._pipe,
    Group: Walk._group,
    If: Walk._if,
    Case: Walk._case,
    Loop: Walk._loop,
    Function: Walk._function,
    Condition: Walk._test,
}
