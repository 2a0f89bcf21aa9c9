"""Reading shell words: quoting, `$`-expansions, substitutions and here-document bodies, in one pass.

Every step moves forward and nothing is read twice, but for backticks and here-documents (whose text is unescaped
first) and the look-ahead that tells `$((` from `$( (`; all three are bounded by the depth limit.
"""

from __future__ import annotations

import re
from typing import Final

from interlock.engine.analysis.shell_tree import Arith, Array, Lit, Part, Proc, Redirect, Script, Sub, Var, Word

__all__ = ["MAX_COMMANDS", "MAX_DEPTH", "MAX_LENGTH", "Budget", "WordReader", "ansi_c", "graver"]

MAX_LENGTH: Final = 64 * 1024  # characters of one command
MAX_DEPTH: Final = 50  # substitutions and compound commands inside each other
MAX_COMMANDS: Final = 2000  # simple commands in one text
_READ_COST: Final = 64  # of an inner text beside its characters
_MAX_INNER: Final = 256 * 1024  # characters of backticks, arithmetic and here-documents, which are read once more

_LIMITS: Final = frozenset({"too long", "too deep", "too many commands"})
_PLAIN = re.compile(r"[^\s|&;()<>'\"\\$`]+")
_BLANK = re.compile(r"(?:[ \t\r\f\v]|\\\r?\n)+")
_DQ_PLAIN = re.compile(r"[^\"\\$`]+")
_HERE_PLAIN = re.compile(r"[^\\$`]+")
_BRACE_PLAIN = re.compile(r"[^\"'\\$`{}]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]|[@*#?$!-]")
_BRACED_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-]")
_PREFIX = re.compile(r"#(?=[A-Za-z0-9_@*$!])|!(?=[A-Za-z0-9_@*#?$!-])")
_SUBSCRIPT = re.compile(r"\[[^\]\s]*\]")
_OPERATOR = re.compile(r":?[-=?+]|##?|%%?|//?|\^\^?|,,?|@|:")
_PAREN = re.compile(r"[()'\"\\]")
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|0?([0-7]{1,3})|c(.)|(.))", re.S)
_SIMPLE_ESCAPES: Final = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v",
}  # fmt: skip


def ansi_c(text: str) -> str:
    """The value of `$'...'`, `echo -e` and printf escapes: \\n, \\x41, \\101, \\u0041. Unknown escapes stay."""

    def value(m: re.Match[str]) -> str:
        for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
            if m.group(group):
                return _coded(int(m.group(group), base))
        if m.group(5):
            return _coded(ord(m.group(5)) & 0x1F)
        c = m.group(6)
        return _SIMPLE_ESCAPES.get(c, c if c in "\\'\"?" else "\\" + c)

    return _ESCAPE.sub(value, text) if "\\" in text else text


def _coded(code: int) -> str:
    """The character of a code; "" for our marks and for what is no character."""
    return chr(code) if 3 < code < 0x110000 and not 0xD800 <= code < 0xE000 else ""


def graver(known: str, new: str) -> str:
    """Of two reasons why a view is partial: a limit before a fault of the text, else the one known first."""
    return new if not known or (new in _LIMITS and known not in _LIMITS) else known


class Budget:
    """What one whole parse may use, shared by the readers of its inner texts; `partial` as `graver` has it."""

    __slots__ = ("commands", "inner", "partial")

    def __init__(self) -> None:
        self.commands = MAX_COMMANDS
        self.inner = _MAX_INNER
        self.partial = ""

    def give_up(self, reason: str) -> None:
        self.partial = graver(self.partial, reason)

    def reads(self, text: str) -> bool:
        """Whether an inner text may still be read; one that may not makes the parse partial."""
        self.inner -= _READ_COST + len(text)
        if self.inner < 0:
            self.give_up("too long")
        return self.inner >= 0


class WordReader:
    """Reads words from `text` at `self.i`; the parser above it supplies `nested`."""

    def __init__(self, text: str, budget: Budget, depth: int) -> None:
        self.text = text
        self.n = len(text)
        self.i = 0
        self.budget = budget
        self.depth = depth
        self.pending: list[tuple[Redirect, str, bool, bool]] = []
        self._unclosed_arith = False

    # -- what the parser supplies ------------------------------------------------------------------------------

    def nested(self) -> Script:
        """Parse from self.i to the matching `)`, which is consumed."""
        raise AssertionError("the parser supplies this")

    def fresh(self, text: str) -> WordReader:
        """A reader of the same kind for an inner text, one level deeper."""
        raise AssertionError("the parser supplies this")

    def whole(self) -> Script:
        """Parse all of this reader's text."""
        raise AssertionError("the parser supplies this")

    # -- blanks and words --------------------------------------------------------------------------------------

    def stop(self, reason: str) -> None:
        """Give up the rest of the text; every loop ends at the end of the text."""
        self.budget.give_up(reason)
        self.i = self.n

    def skip_blanks(self) -> None:
        m = _BLANK.match(self.text, self.i)
        if m:
            self.i = m.end()
        if self.i < self.n and self.text[self.i] == "#":
            end = self.text.find("\n", self.i)
            self.i = self.n if end < 0 else end

    def word(self, in_test: bool = False) -> Word:
        """The word at self.i, () where there is none. In `[[ ]]`, operators are words of their own."""
        text, parts = self.text, []  # type: tuple[str, list[Part]]
        while self.i < self.n:
            m = _PLAIN.match(text, self.i)
            if m:
                parts.append(Lit(m.group(), False))
                self.i = m.end()
                continue
            c = text[self.i]
            if c in "<>=" and text.startswith("(", self.i + 1):
                parts.append(self._process(c == ">"))
            elif c == "(" and parts and self._extends(parts[-1]):
                parts.append(self._paren_part(parts[-1]))
            elif c in " \t\n\r\f\v|&;()<>" or c.isspace():
                break
            else:
                self._quoted_or_dollar(c, parts)
        if not parts and in_test and self.i < self.n and text[self.i] not in " \t\n":
            self.i += 1
            parts.append(Lit(text[self.i - 1], False))
        return tuple(parts)

    def _quoted_or_dollar(self, c: str, parts: list[Part]) -> None:
        if c == "'":
            parts.append(Lit(self._single(), True))
        elif c == '"':
            self.i += 1
            self._double(parts, '"')
        elif c == "\\":
            self._backslash(parts)
        elif c == "$":
            self._dollar(parts, False)
        else:
            parts.append(self._backtick(False))

    def _backslash(self, parts: list[Part]) -> None:
        following = self.text[self.i + 1 : self.i + 2]
        self.i += 2
        if following and following != "\n":
            parts.append(Lit(following, True))
        elif not following:
            self.i = self.n
            parts.append(Lit("\\", True))

    @staticmethod
    def _extends(last: Part) -> bool:
        """Whether `(` goes on a word: an array after `=`, or an extended glob after one of ?*+@!."""
        return isinstance(last, Lit) and not last.quoted and last.text[-1:] in ("=", "?", "*", "+", "@", "!")

    def _paren_part(self, last: Part) -> Part:
        assert isinstance(last, Lit)  # by _extends
        if last.text.endswith("="):
            return self._array()
        end = self._balanced(self.i)
        start, self.i = self.i, end if end > 0 else self.n
        return Lit("*" if end > 0 else self.text[start:], False)

    def _array(self) -> Array:
        self.i += 1
        words: list[Word] = []
        if self.depth >= MAX_DEPTH:
            self.stop("too deep")
        self.depth += 1
        while self.i < self.n and self.text[self.i] != ")":
            self.skip_blanks()
            if self.i < self.n and self.text[self.i] in "\n|&;<>(":
                self.i += 1
                continue
            before = self.i
            word = self.word()
            if word:
                words.append(word)
            elif self.i == before and self.i < self.n and self.text[self.i] != ")":
                self.i += 1  # a blank that separates no words
        self.depth -= 1
        self.i += 1
        return Array(tuple(words))

    def _single(self) -> str:
        end = self.text.find("'", self.i + 1)
        start = self.i + 1
        if end < 0:
            self.budget.give_up("unclosed quote")
            end = self.n
        self.i = end + 1
        return self.text[start:end]

    def _ansi(self) -> str:
        """After `$'`: up to the quote that is not escaped."""
        start = j = self.i
        while j < self.n and self.text[j] != "'":
            j += 2 if self.text[j] == "\\" else 1
        if j >= self.n:
            self.budget.give_up("unclosed quote")
        self.i = j + 1
        return ansi_c(self.text[start:j])

    def _double(self, parts: list[Part], end: str) -> None:
        """Double-quoted text up to `end` ("" for a here-document: to its end); an empty text leaves an empty Lit."""
        text, plain = self.text, _DQ_PLAIN if end else _HERE_PLAIN
        before = len(parts)
        while self.i < self.n:
            m = plain.match(text, self.i)
            if m:
                parts.append(Lit(m.group(), True))
                self.i = m.end()
                continue
            c = text[self.i]
            if c == end:
                break
            if c == "\\":
                following = text[self.i + 1 : self.i + 2]
                kept = following if following in ("$", "`", "\\", end) else "\\" + following
                parts.append(Lit("" if following == "\n" else kept, True))
                self.i += 2
            elif c == "$":
                self._dollar(parts, True)
            else:
                parts.append(self._backtick(True))
        if end and self.i >= self.n:
            self.budget.give_up("unclosed quote")
        self.i += 1
        if len(parts) == before:
            parts.append(Lit("", True))

    # -- dollar ------------------------------------------------------------------------------------------------

    def _dollar(self, parts: list[Part], quoted: bool) -> None:
        text, following = self.text, self.text[self.i + 1 : self.i + 2]
        if following == "(":
            parts.append(self._paren(quoted))
        elif following == "{":
            parts.append(self._braced(quoted))
        elif following == "'" and not quoted:
            self.i += 2
            parts.append(Lit(self._ansi(), True))
        elif following == '"' and not quoted:
            self.i += 2
            self._double(parts, '"')
        elif following == "[":
            end = text.find("]", self.i)
            self.i = self.n if end < 0 else end + 1
            parts.append(Arith(()))
        else:
            m = _NAME.match(text, self.i + 1)
            self.i = m.end() if m else self.i + 1
            parts.append(Var(m.group(), "", (), quoted) if m else Lit("$", quoted))

    def _paren(self, quoted: bool) -> Part:
        """`$(...)` or `$((...))`; a text that could be either is read as commands."""
        if self.text.startswith("$((", self.i):
            end = self._balanced(self.i + 1)
            inner_end = self._balanced(self.i + 2) if end > 0 else -1
            if end > 0 and inner_end == end - 1:
                inner = self.text[self.i + 3 : inner_end - 1]
                self.i = end
                return Arith(self.inner_word(inner))
        self.i += 2
        return Sub(self.nested(), quoted)

    def _process(self, writes: bool) -> Proc:
        self.i += 2
        return Proc(self.nested(), writes)

    def inner_word(self, text: str) -> Word:
        """The substitutions of an arithmetic text or the parts of an unquoted here-document's body."""
        if "$" not in text and "`" not in text and "\\" not in text:
            return (Lit(text, True),)
        if self.depth >= MAX_DEPTH:
            self.budget.give_up("too deep")
            return (Lit(text, True),)
        if not self.budget.reads(text):
            return (Lit(text, True),)
        reader = self.fresh(text)
        parts: list[Part] = []
        reader._double(parts, "")
        return tuple(parts)

    def _balanced(self, start: int) -> int:
        """The position after the `)` that closes the `(` at `start`, or -1; quotes are stepped over."""
        if self._unclosed_arith:
            return -1
        level, j, text = 0, start, self.text
        while m := _PAREN.search(text, j):
            c, j = m.group(), m.end()
            if c == "(":
                level += 1
            elif c == ")":
                level -= 1
                if level == 0:
                    return j
            elif c == "\\":
                j += 1
            else:
                close = text.find(c, j)
                j = self.n if close < 0 else close + 1
        self._unclosed_arith = True
        return -1

    def _braced(self, quoted: bool) -> Part:
        """`${name}`, `${name op word}`, `${#name}`, `${!name}`; zsh flags and forms we do not know give an unknown."""
        self.i += 2
        text, prefix = self.text, ""
        if m := _PREFIX.match(text, self.i):
            prefix = m.group()
            self.i += 1
        m = _BRACED_NAME.match(text, self.i)
        name = m.group() if m else ""
        self.i = m.end() if m else self.i
        if s := _SUBSCRIPT.match(text, self.i):
            self.i = s.end()
            name += s.group()
        o = _OPERATOR.match(text, self.i)
        op = o.group() if o else ""
        self.i = o.end() if o else self.i
        if self.depth >= MAX_DEPTH:
            self.stop("too deep")
        self.depth += 1
        arg = self._braced_word(quoted)
        self.depth -= 1
        if not name or prefix == "#":
            return Var("", "", (), quoted) if not name else Var(name, "len", (), quoted)
        return Var(name, "!" if prefix else op, arg, quoted)

    def _braced_word(self, quoted: bool) -> Word:
        """The operand up to the closing brace, which is consumed."""
        text, parts, level = self.text, [], 0  # type: tuple[str, list[Part], int]
        while self.i < self.n:
            m = _BRACE_PLAIN.match(text, self.i)
            if m:
                parts.append(Lit(m.group(), quoted))
                self.i = m.end()
                continue
            c = text[self.i]
            if c == "}" and level == 0:
                self.i += 1
                return tuple(parts)
            if c in "{}":
                level += 1 if c == "{" else -1
                parts.append(Lit(c, quoted))
                self.i += 1
            elif c == "'" and quoted:
                parts.append(Lit(c, True))
                self.i += 1
            else:
                self._quoted_or_dollar(c, parts)
        self.budget.give_up("unclosed brace")
        return tuple(parts)

    def _backtick(self, quoted: bool) -> Sub:
        j = self.i + 1
        while j < self.n and self.text[j] != "`":
            j += 2 if self.text[j] == "\\" else 1
        raw = self.text[self.i + 1 : j]
        if j >= self.n:
            self.budget.give_up("unclosed quote")
        self.i = j + 1
        if self.depth >= MAX_DEPTH:
            self.budget.give_up("too deep")
            return Sub(Script(), quoted)
        if not self.budget.reads(raw):
            return Sub(Script(), quoted)
        inner = re.sub(r'\\([`$\\"])' if quoted else r"\\([`$\\])", r"\1", raw)
        return Sub(self.fresh(inner).whole(), quoted)

    # -- here-documents ----------------------------------------------------------------------------------------

    def read_bodies(self) -> None:
        """After a newline: the bodies of the here-documents that the line named, in order."""
        for redirect, delimiter, quoted, strip in self.pending:
            lines: list[str] = []
            while self.i < self.n:
                end = self.text.find("\n", self.i)
                end = self.n if end < 0 else end
                line = self.text[self.i : end]
                self.i = min(end + 1, self.n)
                if strip:
                    line = line.lstrip("\t")
                if line.rstrip("\r") == delimiter:
                    break
                lines.append(line)
            body = "".join(line + "\n" for line in lines)
            redirect.body = (Lit(body, True),) if quoted else self.inner_word(body)
        self.pending.clear()
