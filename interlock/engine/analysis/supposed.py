"""What a program that we do not know would do, if it runs the command that its arguments seem to hold.

Nothing says that it does, so this only serves objections: of what such a command would do, just what policies object to
is told, what it would set or write for later commands is forgotten, and no proof is made of it.
"""

from __future__ import annotations

import fnmatch
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from interlock.engine.analysis.effects import EFFECTS, Finding
from interlock.engine.analysis.grammar_files import grammar_of
from interlock.engine.analysis.ordinary import ORDINARY
from interlock.engine.analysis.values import Arg, base_name

if TYPE_CHECKING:
    from interlock.engine.analysis.shell_run import Call, Walk

__all__ = ["suppose"]

_MAX_SUPPOSED: Final = 2  # suppositions inside each other
_TRACE_COST: Final = 4  # of what is kept aside of the walk, a name
_LOOK_COST: Final = 6  # of an argument that is looked at
_MAX_HEADS: Final = 3  # programs among the arguments that are tried
# Programs whose name among the arguments is enough, of which only what is told by a whole disk or directory counts.
_HIDDEN: Final = ("rm", "dd", "shred", "mkfs", "wipefs", "mkfs.ext4", "chmod", "chown")
_GRAVE: Final = frozenset({"fs.delete.root", "disk.overwrite", "disk.format", "fs.permission.root"})
_SHORT: Final = re.compile(r"-[A-Za-z]{0,2}[cCeEx]")  # `-c`, `-lc`, `-e`, `-ex`
# Words in the names of options and settings whose value is code.
_CODE_WORDS: Final = frozenset({
    "alias", "askpass", "batch", "chroot", "cmd", "cmds", "command", "commands", "editor", "eval", "exec", "execute",
    "expr", "hook", "hooks", "invoke", "pager", "preview", "prog", "program", "proxycommand", "rsh", "run", "runner",
    "script", "scripts", "shell", "ssh", "tunnels", "wrap", "wrapper",
})  # fmt: skip
_VERBS: Final = frozenset({
    "cmd", "command", "console", "do", "exec", "execute", "invoke", "run", "runner", "sh", "shell", "spawn", "ssh",
    "start",
})  # fmt: skip
# Words by which nothing else is meant; those that tools have for what they made themselves, too, count with another.
_DESTROYS: Final = re.compile(
    r"(?:[a-z]+[:_-])?(?:destroy|obliterate|decommission|factory-?reset|flush-?all|drop-?(?:db|database|all)"
    r"|(?:delete|remove|erase|wipe|destroy|purge)-?all)(?:[:_-][a-z]+)?"
    r"|(?:db|database|schema)[:_-](?:drop|reset|wipe|purge|flush)",
    re.I,
)
_ERASES: Final = re.compile(r"(?:[a-z]+[:_-])?(?:wipe|erase|nuke)(?:[:_-][a-z]+)?", re.I)
_DESTROYING: Final = frozenset({
    "--destroy", "--wipe-all", "--wipe-data", "--erase-all", "--eraseall", "--nuke", "--factory-reset", "--purge-all",
    "--delete-all-data", "--destroy-all",
})  # fmt: skip
_ONLY_TELLS: Final = frozenset({"--dry-run", "--dryrun", "--help", "--what-if", "--noop"})
_MAY_TELL: Final = frozenset({"-n", "-h"})  # of a name that follows, they are a namespace and a host
_DENIED: Final = frozenset({"false", "no", "none", "off", "0"})
# With these, a word is a topic, a search or a new thing's name; or what is lost is made again.
_MILD: Final = frozenset({
    "add", "after", "before", "build", "cache", "caches", "check", "completion", "coverage", "create", "describe",
    "docs", "dry", "edit", "explain", "find", "generate", "get", "grep", "help", "info", "init", "lint", "list", "log",
    "logs", "ls", "man", "new", "no", "on", "open", "post", "pre", "preview", "search", "show", "status", "temp",
    "test", "tests", "tmp", "undo", "view", "which",
})  # fmt: skip
# Short options that take no value wherever they are, and long ones whose value is a word.
_FLAGS: Final = frozenset({"-y", "-f", "-v", "-q", "-d", "-x"})
_PICKS: Final = frozenset({
    "--exclude", "--expression", "--filter", "--grep", "--group", "--ignore", "--include", "--keyword", "--label",
    "--match", "--message", "--name", "--only", "--pattern", "--query", "--search", "--skip", "--tag", "--tags",
    "--test", "--testNamePattern", "--text", "--title", "--topic", "--word",
})  # fmt: skip
# Runners of a project's own tasks or tests, whose names are the project's, as those of make and `npm run` are.
_RUNNERS: Final = frozenset({
    "ava", "bats", "behave", "composer", "coverage", "ctest", "cypress", "doit", "earthly", "ginkgo", "gotestsum",
    "grunt", "gulp", "inv", "invoke", "jest", "just", "karma", "mage", "mocha", "moon", "nox", "nx", "phpunit",
    "playwright", "poe", "pytest", "py.test", "rspec", "task", "tox", "turbo", "vitest",
})  # fmt: skip
_WORDS: Final = re.compile(r"[A-Za-z0-9]+")
_BOUND: Final = re.compile(r":(?:execute|execute-silent|become|reload|transform)[(:\[{]([^\n]+)")  # of fzf's keys
_QUOTES: Final = re.compile(r"['\"`]")
_MAX_NAME: Final = 40  # characters of an option's name
_ESCAPES: Final = re.compile(r"(?:^|\n)[ \t]*:?(?:!|\\!|\.shell|\.system)[ \t]*([^\n]+)")  # of a tool's own language
# What ordinary commands do as well, or what only a sum of them makes grave.
_PLAIN: Final = frozenset({
    "cloud.change", "cloud.read", "container.run", "exec.dynamic", "exec.inline", "exec.install", "exec.script",
    "fs.delete", "fs.delete.recursive", "fs.list", "fs.permission", "fs.read", "fs.write", "net.connect", "net.fetch",
    "net.upload", "privilege.escalate", "process.signal", "service.change", "vcs.fetch", "vcs.push",
    "vcs.remote_change", "vcs.write",
})  # fmt: skip


def suppose(walk: Walk, call: Call, *, known: bool) -> None:
    """Tell what is grave in the command that the call's arguments may hold; of a `known` program, less is supposed.

    Raises: Exhausted.
    """
    if call.program in ORDINARY or (known and _reads(call.program)):
        return
    walk.env.spend(_LOOK_COST * len(call.args))
    if walk.supposed < _MAX_SUPPOSED:
        walk.supposed += 1
        for code in _codes(call.args):
            _suppose_code(walk, call, code)
        if call.stdin is not None:
            _suppose_input(walk, call, call.stdin)
        if behind := _behind(call.args):
            _forget(walk, _runner(walk, call, behind), _objected)
        for argv in () if known else _headed(walk, call.args):
            _forget(walk, _runner(walk, call, argv), _lost)
        walk.supposed -= 1
    if not known and len(call.program) <= _MAX_NAME and ("?" in call.program or "*" in call.program):  # `/bin/r?`
        for name in (n for n in _HIDDEN if fnmatch.fnmatchcase(n, call.program)):
            _forget(walk, _runner(walk, call, (Arg(name), *call.args)), _grave)
    if not known and call.program not in _RUNNERS and _told_to_destroy(call.args):
        walk.emit(Finding("resource.destroy", call.args[0].text, "unknown"), call.program)
    for k, arg in enumerate(() if known else call.args):
        if base_name(arg.text) in _HIDDEN:
            _forget(walk, _runner(walk, call, call.args[k:]), _grave)
            return


def _told_to_destroy(args: Sequence[Arg]) -> bool:
    """`x destroy`, `x db:drop`, `x disk wipe`, `x --factory-reset`: nothing else is meant by these words."""
    texts = [a.text for a in args]
    words = [t for k, t in enumerate(texts[:8]) if t[:1] != "-" and not (k and _takes(texts[k - 1]))][:2]
    said = any(_is(_DESTROYS, w) and not _is_mild(words[: k + 1]) for k, w in enumerate(words))
    erased = len(words) > 1 and any(_is(_ERASES, w) for w in words) and not _is_mild(words)
    asked = any(t.partition("=")[0] in _DESTROYING for t in texts)
    if not (said or erased or asked):
        return False
    return not any(_only_tells(t, texts[k + 1 : k + 2]) for k, t in enumerate(texts))


def _is(pattern: re.Pattern[str], word: str) -> bool:
    return len(word) <= _MAX_NAME and pattern.fullmatch(word) is not None


def _is_mild(words: Sequence[str]) -> bool:
    return any(_words(word) & _MILD for word in words)


def _takes(option: str) -> bool:
    """Whether a word behind this is its value, and no verb."""
    short = len(option) == len("-k") and option[0] == "-" and option != "--"
    return (short and option not in _FLAGS) or option in _PICKS


def _only_tells(option: str, behind: Sequence[str]) -> bool:
    name, _, value = option.partition("=")
    alone = not behind or behind[0][:1] == "-"
    return (name in _ONLY_TELLS and value not in _DENIED) or (option in _MAY_TELL and alone)


def _reads(program: str) -> bool:
    """Whether the program's grammar has a harmless part: its arguments are data."""
    grammar = grammar_of(program)
    return grammar is not None and grammar.level.harmless is not None


def _runner(walk: Walk, call: Call, argv: Sequence[Arg]) -> Callable[[], object]:
    return lambda: walk.execute(list(argv), call.stdin, functions=False)


def _suppose_code(walk: Walk, call: Call, code: Arg) -> None:
    """Code of a shell, or of a scripting language; these are alike in how they call a shell."""
    plain = code._replace(text=code.text.lstrip("!: "))  # `!rm x`: a tool's way to the shell
    _forget(walk, lambda: walk.code(plain, call.program, call.stdin), _objected)
    if _QUOTES.search(code.text):
        _forget(walk, _runner(walk, call, (Arg("node"), Arg("-e"), code)), _objected)


def _suppose_input(walk: Walk, call: Call, text: Arg) -> None:
    """Lines by which a tool's own language reaches the shell: `!rm x`, `system("rm x")`."""
    walk.env.spend(len(text.text) // 4)
    for m in itertools.islice(_ESCAPES.finditer(text.text), _MAX_HEADS):
        code = Arg(m.group(1))
        _forget(walk, functools.partial(walk.code, code, call.program), _objected)
    if text.known and _QUOTES.search(text.text):
        _forget(walk, _runner(walk, call, (Arg("node"), Arg("-e"), text)), _objected)


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORDS.findall(name)} if len(name) <= _MAX_NAME else set()


def _codes(args: Sequence[Arg]) -> Iterator[Arg]:
    """What would be code: values of options (`-c 'rm x'`, `--command='rm x'`), and what stands behind a verb.

    One word alone is none.
    """
    verb, option = False, False
    for arg in args:
        name, equals, value = arg.text.partition("=")
        blank = " " in arg.text.strip()
        if blank and (m := _BOUND.search(arg.text)):
            yield arg._replace(text=m.group(1).rstrip(")]}"))
        if blank and option:
            yield arg
        elif blank and equals and _words(name) & _CODE_WORDS:
            yield arg._replace(text=value)
        elif blank and verb and name[:1] != "-":
            yield arg
        dashed = name[:1] == "-"
        option = dashed and not equals and (_SHORT.fullmatch(name) is not None or bool(_words(name) & _CODE_WORDS))
        verb = verb or (not dashed and not blank and bool(_words(name) & _VERBS))


def _behind(args: Sequence[Arg]) -> Sequence[Arg]:
    """The command behind a `--`."""
    for k, arg in enumerate(args):
        if arg.text == "--":
            return args[k + 1 :] if k + 1 < len(args) and args[k + 1].text[:1] != "-" else ()
    return ()


def _headed(walk: Walk, args: Sequence[Arg]) -> Iterator[Sequence[Arg]]:
    """What begins with the name of a program that we know, and has arguments."""
    heads = 0
    for k, arg in enumerate(args[:-1]):
        name = base_name(arg.text)
        if name not in ORDINARY and name not in _HIDDEN and walk.known(name):
            heads += 1
            if heads > _MAX_HEADS or (k and args[k - 1].text == "--"):
                return
            yield args[k:]


def _objected(name: str) -> bool:
    return name not in _PLAIN


def _lost(name: str) -> bool:
    """What cannot be undone: `reboot` and `passwd` are subcommands of many programs."""
    return _objected(name) and not EFFECTS[name][1]


def _grave(name: str) -> bool:
    return name in _GRAVE


def _forget(walk: Walk, go: Callable[[], object], kept: Callable[[str], bool]) -> None:
    """Do it, keep what counts of what was found, and let nothing else of it last."""
    env = walk.env
    env.spend(_TRACE_COST * (len(walk.files) + len(walk.functions) + len(walk.aliases) + len(walk.called)))
    found, partial, secrets, redirected = dict(walk.found), walk.partial, walk.secrets, walk.input
    cwd, values, positional = env.cwd, env.copied(), env.positional
    files, functions = walk.files.copy(), walk.functions.copy()
    aliases, called = walk.aliases.copy(), walk.called.copy()
    go()
    counted = [i for i in walk.found if i not in found and kept(i.name)]
    walk.found = found | dict.fromkeys(counted)
    walk.partial, walk.secrets, walk.input = partial, secrets, redirected
    env.cwd, env.values, env.positional = cwd, values, positional
    walk.files, walk.functions, walk.aliases, walk.called = files, functions, aliases, called
