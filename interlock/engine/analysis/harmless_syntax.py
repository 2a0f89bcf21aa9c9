"""What of the shell's language may stand in a command that is proven harmless: lists, pipes, groups and plain words.

bash and zsh run code in odd corners: subscripts in arithmetic, `${x@P}`, glob qualifiers `*(e:...:)`. None of these is
in the part that is let through here.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import Final

from interlock.engine.analysis.grammar_files import grammar_of
from interlock.engine.analysis.shell_tree import (
    Arith,
    Case,
    Condition,
    Group,
    If,
    Item,
    Lit,
    Loop,
    Node,
    Pipe,
    Proc,
    Redirect,
    Script,
    Simple,
    Sub,
    Var,
    Word,
)

__all__ = ["SHELL_BUILTINS", "objection", "settable"]

# Commands of the shell itself: no file of these names is run.
SHELL_BUILTINS: Final = frozenset({
    ":", "[", "[[", "alias", "bind", "bindkey", "break", "caller", "cd", "command", "compgen", "complete",
    "compopt", "continue", "coproc", "declare", "dirs", "echo", "exit", "false", "fc", "help", "jobs", "logout",
    "printf", "pushd", "pwd", "read", "return", "select", "set", "setopt", "shopt", "test", "time", "times", "trap",
    "true", "type", "unset", "unsetopt", "wait", "whence", "where",
})  # fmt: skip
_PLAIN_VARIABLES: Final = frozenset({
    "HOME", "PWD", "OLDPWD", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TERM", "HOSTNAME", "HOSTTYPE", "OSTYPE",
    "MACHTYPE", "UID", "EUID", "PPID", "RANDOM", "SECONDS", "LINENO", "BASH", "BASH_VERSION", "ZSH_VERSION", "SHLVL",
    "TMPDIR", "EDITOR", "VISUAL", "COLUMNS", "LINES", "DISPLAY", "TZ", "0", "1", "2", "3", "#", "?", "$", "!", "@", "*",
    "-", "_",
})  # fmt: skip
# A name in lower case that shells or programs give a meaning to.
_TIED: Final = frozenset({
    "all_proxy", "aliases", "argv", "cdpath", "commands", "fignore", "fpath", "ftp_proxy", "functions", "http_proxy",
    "https_proxy", "mailpath", "manpath", "module_path", "no_proxy", "options", "path", "prompt", "psvar", "status",
    "watch", "precmd_functions", "preexec_functions", "chpwd_functions", "zsh_eval_context", "parameters", "modules",
    "dirstack", "history", "historywords", "nameddirs", "userdirs", "signals", "builtins", "reswords",
})  # fmt: skip
_SETTABLE: Final = re.compile(r"[a-z_][a-z0-9_]*|NO_COLOR|CLICOLOR")
# Names with the values that are plain: zsh and mksh compute what COLUMNS gets, and run `path[$(...)]` in it; a locale
# with a slash is a directory.
_VALUED: Final = re.compile(r"(?:COLUMNS|LINES)=[0-9]{0,9}|(?:LANG|LC_[A-Z]+)=[\w.@-]*", re.A)
# Names in capitals that no shell and no program gives a meaning to.
_WORDS: Final = frozenset({
    "COUNT", "DATE", "DAY", "DIR", "DIRS", "FILE", "FILES", "FOLDER", "FOLDERS", "INDEX", "INPUT", "LIST", "MONTH",
    "NAME", "NAMES", "NOW", "NUM", "NUMBER", "OS", "OUT", "OUTPUT", "RESULT", "RESULTS", "SIZE", "STAMP", "TEXT",
    "TIMESTAMP", "TODAY", "TOTAL", "VALUE", "VALUES", "VERSION", "YEAR",
})  # fmt: skip
_OPS: Final = frozenset({"", "len", "-", ":-", "+", ":+", "#", "##", "%", "%%", "^", "^^", ",", ",,"})
_INPUTS: Final = frozenset({"<", "<<", "<<<", "<&"})
_OUTPUTS: Final = frozenset({">", ">>", ">&", "&>", "&>>", ">|"})
# How the parser writes `(...)` behind a glob's character: an extended glob, or qualifiers, `*(e:code:)` in zsh.
_EXTENDED: Final = Lit("*", quoted=False)
# Expansions of zsh that are plain text for others (`$=x` splits, `$~x` globs), and arithmetic of old (`$[...]`).
_OTHERS: Final = re.compile(r"\$\{?[=~^]|\$\[")
# Characters at which shells or file systems differ: controls, those that are ignored in names, and those of which a
# byte is a blank in some locales (0x85, 0xa0).
_ODD: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ud800-\udfff"
    r"\ufe00-\ufe0f\ufeff]"
)
_BLANK_BYTES: Final = (0x85, 0xA0)
_SETS_BY_NAME: Final = re.compile(r"\b(?:read|unset)\b")  # commands after which a variable may be another one
_MODIFIED: Final = re.compile(r"\[|:[A-Za-z]")  # behind a variable, in zsh: a subscript, which computes; a modifier
# In zsh, `=ls` is the path of ls; `~1` is a directory that was left by pushd.
_MOVED_WORD: Final = re.compile(r"=[^=\s]|~[-+]?\d")
_PLAIN: Final = re.compile(r"[\w./,:-]*")
# Operators of `[[` for which shells compute an operand, or look up a variable by the name in it; and those that mean
# something else to a shell that has no `[[`, and runs a program of that name.
_COMPUTES: Final = frozenset({
    "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-t", "-v", "-R", "-o", "<", ">", "&&", "||", ";", "&", "|",
})  # fmt: skip
_NO_TEST: Final = re.compile(r"[<>&|;]|[*?\[].*/|/.*[*?\[]", re.S)
_MAX_DEPTH: Final = 20
_MAX_TURNS: Final = 8  # the walk takes each turn of a loop that is no longer


def objection(text: str, script: Script) -> str:
    """Why a command (its text, and that parsed) cannot be proven by its form, "" where nothing stands against it."""
    if _ODD.search(text) or any(byte in text.encode() for byte in _BLANK_BYTES):
        return "a character that shells read differently"
    if _OTHERS.search(text):
        return "an expansion that is not proven"
    return _Forms(fixed=not _SETS_BY_NAME.search(text)).script(script, 0)


class _Forms:
    """The names that the command itself has set so far, and whether what stands here runs in any case.

    `fixed`: nothing but assignments and loops sets a variable.
    """

    def __init__(self, *, fixed: bool) -> None:
        self.fixed = fixed
        self.names: set[str] = set()
        self.certain = True
        self.moved = False

    def script(self, script: Script, depth: int) -> str:
        if script.partial or depth > _MAX_DEPTH:
            return "not read whole"
        before, certain = ";", self.certain
        for k, item in enumerate(script.items):
            if item.op == "&":
                return "runs in the background"
            if not item.op and k + 1 < len(script.items):
                return "not read whole"
            self.certain = certain and before not in ("&&", "||")
            reason = self.node(item.node, depth + 1)
            if reason:
                return reason
            before = item.op
        self.certain = certain
        return ""

    def perhaps(self, scripts: Iterable[Script], depth: int) -> str:
        """Parts that may not run, or not in this shell: they set nothing."""
        certain, self.certain = self.certain, False
        reason = _first(self.script(one, depth) for one in scripts)
        self.certain = certain
        return reason

    def node(self, node: Node, depth: int) -> str:
        if isinstance(node, Simple):
            return self.simple(node, depth)
        if isinstance(node, Pipe):
            return self.perhaps((Script((Item(stage, ";"),)) for stage in node.stages), depth)
        if isinstance(node, Group):
            return self.perhaps((node.body,), depth) or self.redirects(node.redirects, depth)
        if isinstance(node, If):
            return self.perhaps(node.branches, depth) or self.redirects(node.redirects, depth)
        if isinstance(node, Loop):
            return self.loop(node, depth) or self.redirects(node.redirects, depth)
        if isinstance(node, Condition):
            return self.condition(node, depth) or self.redirects(node.redirects, depth)
        if isinstance(node, Case):
            reason = _first(self.silent(word, depth) for word in (node.subject, *node.patterns))
            return reason or self.perhaps(node.bodies, depth) or self.redirects(node.redirects, depth)
        return "a form that is not proven"

    def condition(self, node: Condition, depth: int) -> str:
        """`[[ ... ]]`; one word alone may be arithmetic."""
        plain = {w[0].text for w in node.words if len(w) == 1 and isinstance(w[0], Lit)}
        if len(node.words) < 2 or _COMPUTES & plain:
            return "arithmetic that is not proven"
        for part in itertools.chain.from_iterable(node.words):
            if isinstance(part, Var) and not part.quoted:
                return "a variable that some shells split"
            if isinstance(part, Lit) and not part.quoted and _NO_TEST.search(part.text):
                return "a word that shells read differently"
        return _first(self.silent(word, depth) for word in node.words)

    def silent(self, word: Word, depth: int) -> str:
        """A word that is compared: the value of a variable is neither printed nor split."""
        for part, behind in itertools.pairwise((*word, Lit("", quoted=True))):
            if isinstance(part, Var) and isinstance(behind, Lit) and _MODIFIED.match(behind.text):
                return "an expansion that is not proven"
        kept = tuple(p for p in word if not (isinstance(p, Var) and not p.op and not p.arg))
        return self.word(kept, depth, exact=False)

    def loop(self, node: Loop, depth: int) -> str:
        """`for` over a few words that stand in the text."""
        texts = [w[0].text for w in node.words or () if len(w) == 1 and isinstance(w[0], Lit)]
        plain = all(not re.search(r"[*?\[{~]", t) for t in texts) and 0 < len(texts) <= _MAX_TURNS
        if node.kind != "for" or node.words is None or len(texts) != len(node.words) or not plain:
            return "a loop that is not proven"
        if not settable(node.name):
            return "sets a variable that is more than one"
        after = self.names | ({node.name} if self.certain else set())
        self.names.add(node.name)
        reason = self.perhaps((node.body,), depth)
        self.names = after
        return reason

    def simple(self, node: Simple, depth: int) -> str:
        if not node.words and node.redirects:
            return "a redirection without a command"  # in zsh, one runs: $READNULLCMD
        for assign in node.assigns:
            value = "".join(p.text if isinstance(p, Lit) else "$" for p in assign.value)
            if assign.append or not settable(assign.name, value) or not (self.certain or node.words):
                return "sets a variable that is more than one"
            if not node.words:
                self.names.add(assign.name)
        if node.words and len(node.words[0]) == 1 and isinstance(node.words[0][0], Lit):
            self.moved = self.moved or node.words[0][0].text in ("cd", "pushd")
        reason = _first(self.word(a.value, depth, exact=False) for a in node.assigns)
        return (
            reason
            or self.words(node.words, depth, exact=not _takes_any(node.words))
            or self.redirects(node.redirects, depth)
        )

    def redirects(self, redirects: Iterable[Redirect], depth: int) -> str:
        for one in redirects:
            if one.op not in _INPUTS and one.op not in _OUTPUTS:
                return "a redirection that is not proven"
            if not re.fullmatch(r"\d*", one.fd):
                return "a redirection that sets a variable"
            reason = self.word(one.target, depth, exact=True) if one.op != "<<" else ""
            reason = reason or (self.word(one.body, depth, exact=False) if one.body else "")
            if reason:
                return reason
        return ""

    def words(self, words: Iterable[Word], depth: int, *, exact: bool) -> str:
        return _first(self.word(word, depth, exact=exact) for word in words)

    def word(self, word: Word, depth: int, *, exact: bool) -> str:
        """`exact`: each argument counts, so nothing may be split or come out of a command."""
        if word and isinstance(word[0], Lit) and not word[0].quoted and _MOVED_WORD.match(word[0].text):
            return "a word that shells read differently"
        for part, behind in itertools.pairwise((*word, Lit("", quoted=True))):
            if isinstance(part, Lit) and not part.quoted and behind == _EXTENDED:
                return "code in a glob"
            if isinstance(part, Var) and isinstance(behind, Lit) and _MODIFIED.match(behind.text):
                return "an expansion that is not proven"
            if isinstance(part, Lit):
                reason = "code in a glob" if not part.quoted and re.search(r"[()]", part.text) else ""
            elif isinstance(part, Var):
                reason = self.variable(part, depth, exact)
            elif isinstance(part, Sub) or (isinstance(part, Proc) and not part.writes):
                reason = self.perhaps((part.script,), depth + 1)
            elif isinstance(part, Arith):
                text = "".join(p.text for p in part.inner if isinstance(p, Lit))
                plain = len(part.inner) <= 1 and re.fullmatch(r"[\d\s()+*/%<>=!&|-]*", text)
                reason = "" if plain else "arithmetic that is not proven"
            else:
                reason = "a word that is not proven"
            if reason:
                return reason
        return ""

    def variable(self, part: Var, depth: int, exact: bool) -> str:
        if part.op not in _OPS:
            return "an expansion that is not proven"
        if (
            exact
            and part.op[:1] in ("#", "%")
            and not all(isinstance(p, Lit) and _PLAIN.fullmatch(p.text) for p in part.arg)
        ):
            return "a pattern that takes away what is not certain"
        known = (self.fixed and part.name in self.names) or (part.name == "PWD" and not self.moved)
        if not known and (exact or part.name not in _PLAIN_VARIABLES):
            return "a variable whose value is not known, or may be a secret"
        return self.word(part.arg, depth + 1, exact=exact) if part.arg else ""


def settable(name: str, value: str = "$") -> bool:
    """Whether a variable of this name, with this value ("$": any), means nothing harmful to any program or shell."""
    plain = name in _WORDS or (_SETTABLE.fullmatch(name) and name not in _TIED)
    return bool(plain or _VALUED.fullmatch(f"{name}={value}"))


def _first(reasons: Iterable[str]) -> str:
    return next((r for r in reasons if r), "")


def _takes_any(words: tuple[Word, ...]) -> bool:
    """Whether the command is one that no argument makes harmful (echo)."""
    if not words or len(words[0]) != 1 or not isinstance(words[0][0], Lit):
        return False
    grammar = grammar_of(words[0][0].text)
    harmless = grammar.level.harmless if grammar is not None else None
    return harmless is not None and harmless.arguments == "any"
