"""A bounded parser of POSIX sh, bash and zsh commands as agents write them.

`parse` never raises and runs in time linear in the text (times the nesting depth). What it cannot read is skipped and
said in `Script.partial`: "too long", "too deep", "too many commands", "unclosed quote", "unclosed brace", "syntax".
Quoted text stays text: only what a shell would run becomes a command.
"""

from __future__ import annotations

import re
from typing import Final

from interlock.engine.analysis.shell_tree import (
    Array,
    Assign,
    Case,
    Condition,
    Function,
    Group,
    If,
    Item,
    Lit,
    Loop,
    Node,
    Pipe,
    Redirect,
    Script,
    Simple,
    Word,
)
from interlock.engine.analysis.shell_words import MAX_COMMANDS, MAX_DEPTH, MAX_LENGTH, Budget, WordReader
from interlock.engine.analysis.values import without_marks

__all__ = ["MAX_COMMANDS", "MAX_DEPTH", "MAX_LENGTH", "Script", "parse", "parse_marked"]

_REDIRECT = re.compile(r"(?:[0-9]{1,3}|\{[A-Za-z_][A-Za-z0-9_]*\})?(<<<|<<-|<<|<>|<&|>&|>>|>\||&>>|&>|>|<)")
_SEPARATOR = re.compile(r"&&|\|\||;;&|;;|;&|\|&|[;&|\n]")
_ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[[^\]]*\])?(\+?)=")
_STOPS: Final = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}", "in"})
_OPENERS: Final = frozenset(
    {"if", "while", "until", "for", "select", "case", "function", "{", "[[", "!", "time", "coproc"}
)


def parse(command: str) -> Script:
    """The commands that a shell would find in `command`; a text over 64 KB is read up to there and is partial."""
    return parse_marked(without_marks(command))


def parse_marked(command: str) -> Script:
    """The same for a text that an analysis made itself, in which unknown parts are marked (see `values`)."""
    budget = Budget()
    if len(command) > MAX_LENGTH:
        budget.give_up("too long")
        command = command[:MAX_LENGTH]
    try:
        script = _Parser(command, budget, 0).whole()
    except RecursionError:  # the caller's own stack left too little room
        return Script((), "too deep")
    return Script(script.items, budget.partial)


class _Parser(WordReader):
    def fresh(self, text: str) -> _Parser:
        return _Parser(text, self.budget, self.depth + 1)

    def whole(self) -> Script:
        items: list[Item] = []
        while self.i < self.n:
            items.extend(self._list(frozenset()).items)
            if self.i < self.n:  # a `)`, `}` or reserved word that nothing opened
                self.budget.give_up("syntax")
                self.i += 1
        return Script(tuple(items))

    def nested(self) -> Script:
        outer, self.pending = self.pending, []  # a newline in here does not begin the outer line's here-documents
        script = self._deeper(frozenset())
        self._expect_paren()
        self.pending = outer + self.pending
        return script

    def _expect_paren(self) -> None:
        while self.i < self.n and self.text[self.i] != ")":
            self.budget.give_up("syntax")
            self.i += 1
            if self.i < self.n:
                self._deeper(frozenset())
        if self.i >= self.n:
            self.budget.give_up("syntax")
        self.i += 1

    def _deeper(self, stops: frozenset[str]) -> Script:
        if self.depth >= MAX_DEPTH:
            self.stop("too deep")
            return Script()
        self.depth += 1
        script = self._list(stops)
        self.depth -= 1
        return script

    # -- lists and pipelines -----------------------------------------------------------------------------------

    def _list(self, stops: frozenset[str]) -> Script:
        """Commands up to the end, a `)`, `;;` or a reserved word in `stops` at command position (not consumed)."""
        items: list[Item] = []
        while True:
            self._skip_newlines()
            if self.i >= self.n or self.text[self.i] == ")" or self.text.startswith(";;", self.i):
                break
            if stops and self._peek_reserved() in stops:
                break
            before = self.i
            node = self._pipeline(stops)
            op = self._separator()
            if node is not None:
                items.append(Item(node, op))
            if self.i == before:
                break
        return Script(tuple(items))

    def _skip_newlines(self) -> None:
        while True:
            self.skip_blanks()
            if self.i < self.n and self.text[self.i] == "\n":
                self.i += 1
                self.read_bodies()
            else:
                return

    def _separator(self) -> str:
        """The operator after a command; `;;` is left for `case`."""
        self.skip_blanks()
        m = _SEPARATOR.match(self.text, self.i)
        if not m or m.group().startswith((";;", ";&")):
            return ""
        self.i = m.end()
        if m.group() == "\n":
            self.read_bodies()
        return m.group()

    def _pipeline(self, stops: frozenset[str]) -> Node | None:
        stages: list[Node] = []
        while True:
            node = self._command(stops)
            if node is not None:
                stages.append(node)
            self.skip_blanks()
            if not self.text.startswith("|", self.i) or self.text.startswith("||", self.i):
                break
            self.i += 2 if self.text.startswith("|&", self.i) else 1
            self._skip_newlines()
        if len(stages) > 1:
            return Pipe(tuple(stages))
        return stages[0] if stages else None

    # -- commands ----------------------------------------------------------------------------------------------

    def _peek_reserved(self) -> str:
        """The reserved word at self.i, or ""."""
        m = re.compile(r"\[\[|[!{}]|[a-z]+").match(self.text, self.i)
        if not m or not (m.group() in _STOPS or m.group() in _OPENERS):
            return ""
        following = self.text[m.end() : m.end() + 1]
        ends = not following or following.isspace() or following in ";&|()<>"
        return m.group() if ends else ""

    def _command(self, stops: frozenset[str]) -> Node | None:
        self.skip_blanks()
        if self.i >= self.n:
            return None
        if self.text[self.i] == "(":
            return self._paren_command()
        word = self._peek_reserved()
        if word and word in stops:
            return None
        handler = _COMPOUND.get(word)
        if handler is None:
            return self._simple()
        self.i += len(word)
        return handler(self)

    def _redirects(self) -> tuple[Redirect, ...]:
        found: list[Redirect] = []
        while True:
            self.skip_blanks()
            redirect = self._redirect()
            if redirect is None:
                return tuple(found)
            found.append(redirect)

    def _redirect(self) -> Redirect | None:
        m = _REDIRECT.match(self.text, self.i)
        if not m or (m.group() in "<>" and self.text.startswith("(", m.end())):
            return None
        op = m.group(1)
        self.i = m.end()
        self.skip_blanks()
        target = self.word()
        redirect = Redirect(m.group()[: -len(op)], op, target)
        if op in ("<<", "<<-"):
            redirect.op = "<<"
            delimiter = "".join(p.text if isinstance(p, Lit) else "" for p in target)
            quoted = any(isinstance(p, Lit) and p.quoted for p in target)
            self.pending.append((redirect, delimiter, quoted, op == "<<-"))
        return redirect

    def _simple(self) -> Node | None:
        if self.budget.commands <= 0:
            self.stop("too many commands")
            return None
        self.budget.commands -= 1
        assigns: list[Assign] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while True:
            self.skip_blanks()
            redirect = self._redirect()
            if redirect is not None:
                redirects.append(redirect)
                continue
            word = self.word()
            if not word:
                break
            assign = None if words else _assignment(word)
            if assign is not None:
                assigns.append(assign)
            else:
                words.append(word)
            if len(words) == 1 and assign is None and self._empty_parens():
                return self._function_body(_literal(word))
        if not (assigns or words or redirects):
            return None
        return Simple(tuple(assigns), tuple(words), tuple(redirects))

    def _empty_parens(self) -> bool:
        m = re.compile(r"[ \t]*\([ \t]*\)").match(self.text, self.i)
        if m:
            self.i = m.end()
        return m is not None

    # -- compound commands -------------------------------------------------------------------------------------

    def _paren_command(self) -> Node:
        if self.text.startswith("((", self.i):
            end = self._balanced(self.i)
            if end > 0 and self._balanced(self.i + 1) == end - 1:
                inner = self.text[self.i + 2 : end - 2]
                self.i = end
                return Condition((self.inner_word(inner),), self._redirects())
        self.i += 1
        body = self.nested()
        return Group(body, True, self._redirects())

    def _brace(self) -> Node:
        body = self._until("}")
        return Group(body, False, self._redirects())

    def _until(self, *closers: str) -> Script:
        """The list up to one of `closers`, which is consumed; a stray reserved word inside is stepped over."""
        items: list[Item] = []
        while True:
            items.extend(self._deeper(frozenset(closers)).items)
            word = self._peek_reserved()
            if word in closers:
                self.closer = word
                self.i += len(word)
                break
            self.budget.give_up("syntax")
            self.closer = ""
            if self.i >= self.n or self.text[self.i] == ")":
                break
            self.i += 1
        return Script(tuple(items))

    def _if(self) -> Node:
        branches = [self._until("then", "fi")]
        while self.closer in ("then", "elif", "else"):
            branches.append(self._until("then", "elif", "else", "fi"))
        return If(tuple(branches), self._redirects())

    def _while(self) -> Node:
        cond = self._until("do")
        body = self._until("done")
        return Loop("while", "", None, cond, body, self._redirects())

    def _for(self) -> Node:
        self.skip_blanks()
        if self.text.startswith("((", self.i):
            head = self._paren_command()
            cond, name, words = Script((Item(head, ";"),)), "", ()  # type: tuple[Script, str, tuple[Word, ...] | None]
        else:
            cond, name, words = Script(), _literal(self.word()), self._for_words()
        self._separators()
        closer = "done"
        if self._peek_reserved() == "do":
            self.i += 2
        elif self._peek_reserved() == "{":
            self.i += 1
            closer = "}"
        body = self._until(closer)
        return Loop("for", name, words, cond, body, self._redirects())

    def _for_words(self) -> tuple[Word, ...] | None:
        self._skip_newlines()
        if self._peek_reserved() != "in":
            return None
        self.i += 2
        return self._words_here()

    def _words_here(self) -> tuple[Word, ...]:
        words: list[Word] = []
        while True:
            self.skip_blanks()
            word = self.word()
            if not word:
                return tuple(words)
            words.append(word)

    def _separators(self) -> None:
        self._skip_newlines()
        if self.text.startswith(";", self.i):
            self.i += 1
        self._skip_newlines()

    def _case(self) -> Node:
        self.skip_blanks()
        subject = self.word()
        self._skip_newlines()
        if self._peek_reserved() == "in":
            self.i += 2
        patterns: list[Word] = []
        bodies: list[Script] = []
        while True:
            self._skip_newlines()
            if self.i >= self.n:
                self.budget.give_up("syntax")
                break
            if self._peek_reserved() == "esac":
                self.i += 4
                break
            before = self.i
            patterns.extend(self._patterns())
            bodies.append(self._deeper(frozenset({"esac"})))
            m = re.compile(r";;&|;;|;&").match(self.text, self.i)
            self.i = m.end() if m else self.i
            if self.i == before:
                self.i += 1
        return Case(subject, tuple(patterns), tuple(bodies), self._redirects())

    def _patterns(self) -> list[Word]:
        found: list[Word] = []
        while self.i < self.n:
            self._skip_newlines()
            c = self.text[self.i : self.i + 1]
            if c == ")":
                self.i += 1
                break
            word = () if c in ("(", "|") else self.word()
            if word:
                found.append(word)
            else:
                self.i += 1
        return found

    def _function(self) -> Node:
        self.skip_blanks()
        name = _literal(self.word())
        self._empty_parens()
        return self._function_body(name)

    def _function_body(self, name: str) -> Node:
        self._skip_newlines()
        if self.depth >= MAX_DEPTH:
            self.stop("too deep")
        self.depth += 1
        body = self._command(frozenset())
        self.depth -= 1
        return Function(name, body if body is not None else Simple((), (), ()))

    def _test(self) -> Node:
        words: list[Word] = []
        while self.i < self.n:
            self._skip_newlines()
            word = self.word(in_test=True)
            if word == (Lit("]]", False),):
                break
            if word:
                words.append(word)
        return Condition(tuple(words), self._redirects())

    def _prefixed(self) -> Node:
        """`! cmd`, `time cmd`, `coproc cmd`: the command itself."""
        self.skip_blanks()
        while m := re.compile(r"-[pv]+(?=\s)").match(self.text, self.i):
            self.i = m.end()
            self.skip_blanks()
        if self.depth >= MAX_DEPTH:
            self.stop("too deep")
        self.depth += 1
        node = self._command(frozenset())
        self.depth -= 1
        return node if node is not None else Simple((), (), ())

    closer = ""


_COMPOUND: Final = {
    "{": _Parser._brace,
    "if": _Parser._if,
    "while": _Parser._while,
    "until": _Parser._while,
    "for": _Parser._for,
    "select": _Parser._for,
    "case": _Parser._case,
    "function": _Parser._function,
    "[[": _Parser._test,
    "!": _Parser._prefixed,
    "time": _Parser._prefixed,
    "coproc": _Parser._prefixed,
}


def _literal(word: Word) -> str:
    return "".join(p.text for p in word if isinstance(p, Lit))


def _assignment(word: Word) -> Assign | None:
    """The assignment that a word before the program name is, or None."""
    first = word[0]
    if not isinstance(first, Lit) or first.quoted:
        return None
    m = _ASSIGN.match(first.text)
    if not m:
        return None
    rest = first.text[m.end() :]
    value: Word = ((Lit(rest, False),) if rest else ()) + tuple(word[1:])
    if len(value) == 1 and isinstance(value[0], Array):
        value = (value[0],)
    return Assign(m.group(1), value, bool(m.group(2)))
